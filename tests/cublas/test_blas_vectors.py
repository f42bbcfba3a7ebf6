"""Vector operations and reductions against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from blas_storage import DTYPES, LETTERS, assert_near, spread, vector_in
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pycudnn import cublas

shapes = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
counts = st.integers(0, 40)
increments = st.sampled_from([1, 2, 3, -1, -2])
seeds = st.integers(0, 2**32 - 1)


def call(letter, name):
    return getattr(cublas, letter + name)


def pair(seed, letter, n):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(n).astype(DTYPES[letter]) for _ in range(2))


@pytest.mark.parametrize("letter", LETTERS)
@given(n=counts, incx=increments, incy=increments, seed=seeds)
@shapes
def test_axpy(handle, put, letter, n, incx, incy, seed):
    x, y = pair(seed, letter, n)
    out = put(spread(y, incy))
    call(letter, "axpy")(handle, n, -0.3, put(spread(x, incx)), incx, out, incy)
    product = -0.3 * x.astype(np.float64)
    got = vector_in(out.numpy(), incy)
    assert_near(got, product + y, np.abs(product) + np.abs(y), 1, DTYPES[letter])


@pytest.mark.parametrize("letter", LETTERS)
@given(n=counts, incx=st.integers(1, 3), seed=seeds)
@shapes
def test_scal(handle, put, letter, n, incx, seed):
    x, _ = pair(seed, letter, n)
    out = put(spread(x, incx))
    call(letter, "scal")(handle, n, 0.3, out, incx)
    want = 0.3 * x.astype(np.float64)
    assert_near(vector_in(out.numpy(), incx), want, want, 0, DTYPES[letter])


@pytest.mark.parametrize("letter", LETTERS)
@given(n=counts, incx=increments, incy=increments, seed=seeds)
@shapes
def test_copy_and_swap(handle, put, letter, n, incx, incy, seed):
    x, y = pair(seed, letter, n)
    first, second = put(spread(x, incx)), put(spread(y, incy))
    call(letter, "swap")(handle, n, first, incx, second, incy)
    np.testing.assert_array_equal(vector_in(first.numpy(), incx), y)
    np.testing.assert_array_equal(vector_in(second.numpy(), incy), x)
    call(letter, "copy")(handle, n, first, incx, second, incy)
    np.testing.assert_array_equal(vector_in(first.numpy(), incx), y)
    np.testing.assert_array_equal(vector_in(second.numpy(), incy), y)


@pytest.mark.parametrize("letter", LETTERS)
@given(n=counts, incx=increments, incy=increments, seed=seeds)
@shapes
def test_dot(handle, put, letter, n, incx, incy, seed):
    x, y = pair(seed, letter, n)
    got = call(letter, "dot")(handle, n, put(spread(x, incx)), incx, put(spread(y, incy)), incy)
    assert type(got) is float
    products = x.astype(np.float64) * y
    assert_near(got, products.sum(), np.abs(products).sum(), n, DTYPES[letter])


@pytest.mark.parametrize("letter", LETTERS)
@given(n=counts, incx=st.integers(1, 3), seed=seeds)
@shapes
def test_norms(handle, put, letter, n, incx, seed):
    x, _ = pair(seed, letter, n)
    memory = put(spread(x, incx))
    norm = call(letter, "nrm2")(handle, n, memory, incx)
    total = call(letter, "asum")(handle, n, memory, incx)
    assert type(norm) is float
    assert type(total) is float
    want = np.linalg.norm(x.astype(np.float64))
    assert_near(norm, want, want, n, DTYPES[letter])
    want = np.abs(x.astype(np.float64)).sum()
    assert_near(total, want, want, n, DTYPES[letter])


@pytest.mark.parametrize("letter", LETTERS)
@given(n=st.integers(1, 40), incx=st.integers(1, 3), seed=seeds)
@shapes
def test_extremes_count_from_one(handle, put, letter, n, incx, seed):
    # Few values, so that there are ties: the first one counts.
    x = np.random.default_rng(seed).integers(-3, 4, n).astype(DTYPES[letter])
    memory = put(spread(x, incx))
    largest = getattr(cublas, f"i{letter}amax")(handle, n, memory, incx)
    smallest = getattr(cublas, f"i{letter}amin")(handle, n, memory, incx)
    assert type(largest) is int
    assert (largest, smallest) == (np.argmax(np.abs(x)) + 1, np.argmin(np.abs(x)) + 1)


@pytest.mark.parametrize("letter", LETTERS)
def test_reductions_of_nothing(handle, put, letter):
    nothing = put(np.zeros(0, DTYPES[letter]))
    assert call(letter, "dot")(handle, 0, nothing, 1, nothing, 1) == 0.0
    assert call(letter, "nrm2")(handle, 0, nothing, 1) == 0.0
    assert call(letter, "asum")(handle, 0, nothing, 1) == 0.0
    assert getattr(cublas, f"i{letter}amax")(handle, 0, nothing, 1) == 0
    assert getattr(cublas, f"i{letter}amin")(handle, 0, nothing, 1) == 0


def test_nothing_to_do_touches_no_operand(handle):
    for letter in LETTERS:
        call(letter, "axpy")(handle, 0, None, None, 1, None, 1)
        call(letter, "scal")(handle, 0, None, None, 1)
        call(letter, "copy")(handle, 0, None, 1, None, 1)
        call(letter, "swap")(handle, 0, None, 1, None, 1)


@pytest.mark.parametrize("letter", LETTERS)
def test_norm_of_huge_numbers_is_finite(handle, put, letter):
    """The squares overflow, the norm does not."""
    huge = np.array([3.0, 4.0]) * np.sqrt(float(np.finfo(DTYPES[letter]).max))
    norm = call(letter, "nrm2")(handle, 2, put(huge.astype(DTYPES[letter])), 1)
    want = 5 * np.sqrt(float(np.finfo(DTYPES[letter]).max))
    assert norm == pytest.approx(want, rel=1e-6)
