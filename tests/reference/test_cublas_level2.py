"""Matrices and vectors in cuBLAS: every storage of a triangle, against full float64 matrices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from blas_library import (
    DTYPES,
    C,
    N,
    T,
    assert_close,
    column_major,
    gathered,
    op,
    product,
    random,
    scalar,
    spread,
)

from pycudnn.abi.cublas_enums import DiagType, FillMode, Status

LOWER, UPPER = FillMode.LOWER, FillMode.UPPER
UNIT, NON_UNIT = DiagType.UNIT, DiagType.NON_UNIT
LETTERS = list(DTYPES)
INCS = [1, 2, -1, -3]
WIDTHS = ["", "_64"]


def in_triangle(uplo: int, n: int, k: int | None = None) -> np.ndarray:
    """Which elements a triangle has; with k, those of k diagonals beside the main one."""
    i, j = np.indices((n, n))
    distance = i - j if uplo == LOWER else j - i
    return (distance >= 0) & (distance <= (n if k is None else k))


def full(values: np.ndarray, uplo: int, hermitian: bool, k: int | None = None) -> np.ndarray:
    """The symmetric or Hermitian matrix that one triangle of `values` stands for, element by
    element; in the other triangle and outside of the band nothing counts."""
    n = len(values)
    result = np.zeros_like(values)
    for i, j in itertools.product(range(n), range(n)):
        stored = in_triangle(uplo, n, k)
        if stored[i, j]:
            result[i, j] = values[i, j].real if hermitian and i == j else values[i, j]
        elif stored[j, i]:
            result[i, j] = np.conj(values[j, i]) if hermitian else values[j, i]
    return result


def packed(values: np.ndarray, uplo: int) -> np.ndarray:
    """Column after column, the triangle's elements only."""
    n = len(values)
    return np.array(
        [values[i, j] for j in range(n) for i in (range(j, n) if uplo == LOWER else range(j + 1))],
        values.dtype,
    )


def banded(values: np.ndarray, kl: int, ku: int, ld: int) -> np.ndarray:
    """Element (i, j) in row ku + i - j of column j; NaN where nothing is stored."""
    m, n = values.shape
    stored = np.full((n, ld), np.nan, values.dtype)
    for i, j in itertools.product(range(m), range(n)):
        if -ku <= i - j <= kl:
            stored[j, ku + i - j] = values[i, j]
    return stored


def with_nan_outside(values: np.ndarray, uplo: int) -> np.ndarray:
    """The other triangle must not be read."""
    return np.where(in_triangle(uplo, len(values)), values, np.nan)


def factors(letter: str, alpha: float, beta: float) -> tuple[Any, Any]:
    return (alpha * (1 + 2j), beta * (2 - 1j)) if letter in "CZ" else (alpha, beta)


SCALES = [(1.0, 0.0), (-0.5, 1.0), (2.0, -1.5), (0.0, 2.0)]


@pytest.mark.parametrize("letter", "CZ")
@pytest.mark.parametrize(("trans", "incx", "incy"), [(N, 1, 2), (T, -1, 1), (C, 3, -2)])
@pytest.mark.parametrize(("alpha", "beta"), SCALES)
def test_complex_gemv(blas, rng, letter, trans, incx, incy, alpha, beta) -> None:
    dtype, (m, n) = DTYPES[letter], (4, 3)
    alpha, beta = factors(letter, alpha, beta)
    a = random(rng, (m, n), dtype)
    x, y = (
        random(rng, (n if trans == N else m,), dtype),
        random(rng, (m if trans == N else n,), dtype),
    )
    old = np.full_like(y, np.nan) if beta == 0 else y
    places = (
        blas.put(column_major(a, m + 1), dtype),
        blas.put(spread(x, incx), dtype),
        blas.put(spread(old, incy), dtype),
    )
    blas.check(
        f"{letter}gemv_v2",
        *(trans, m, n, scalar(alpha, dtype), places[0].address, m + 1, places[1].address, incx),
        *(scalar(beta, dtype), places[2].address, incy),
    )
    want = alpha * product(op(trans, a), x[:, None])[:, 0] + (beta * y if beta else 0)
    assert_close(gathered(places[2].read(), incy), want, dtype, 4)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("trans", [N, T, C])
@pytest.mark.parametrize(("kl", "ku"), [(0, 0), (1, 2), (3, 0), (5, 6)])
def test_gbmv(blas, rng, letter, width, trans, kl, ku) -> None:
    dtype, (m, n), ld = DTYPES[letter], (5, 4), kl + ku + 2
    alpha, beta = factors(letter, 1.5, -0.5)
    i, j = np.indices((m, n))
    a = np.where((i - j <= kl) & (j - i <= ku), random(rng, (m, n), dtype), 0).astype(dtype)
    x, y = (
        random(rng, (n if trans == N else m,), dtype),
        random(rng, (m if trans == N else n,), dtype),
    )
    places = (
        blas.put(banded(a, kl, ku, ld), dtype),
        blas.put(spread(x, -2), dtype),
        blas.put(spread(y, 3), dtype),
    )
    blas.check(
        f"{letter}gbmv_v2{width}",
        *(trans, m, n, kl, ku, scalar(alpha, dtype), places[0].address, ld),
        *(places[1].address, -2, scalar(beta, dtype), places[2].address, 3),
    )
    want = alpha * product(op(trans, a), x[:, None])[:, 0] + beta * y
    assert_close(gathered(places[2].read(), 3), want, dtype, 5)


SYMMETRIC = [(letter, "sy", False) for letter in LETTERS] + [(x, "he", True) for x in "CZ"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("letter", "kind", "hermitian"), SYMMETRIC)
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
@pytest.mark.parametrize("storage", ["full", "band", "packed"])
def test_symmetric_products(blas, rng, letter, kind, hermitian, uplo, storage, width) -> None:
    if letter in "CZ" and not hermitian and storage != "full":
        return  # BLAS has no complex spmv and sbmv
    dtype, n, k = DTYPES[letter], 5, 2 if storage == "band" else None
    for (alpha, beta), incx, incy in zip(SCALES[:3], INCS, [-2, 1, 3], strict=False):
        alpha, beta = factors(letter, alpha, beta)
        a, x, y = random(rng, (n, n), dtype), random(rng, (n,), dtype), random(rng, (n,), dtype)
        kl, ku = (2, 0) if uplo == LOWER else (0, 2)
        stored = {
            "full": column_major(with_nan_outside(a, uplo).astype(dtype), n + 1),
            "band": banded(a, kl, ku, 4),
            "packed": packed(a, uplo),
        }[storage]
        name = {"full": f"{kind}mv", "band": f"{kind[0]}bmv", "packed": f"{kind[0]}pmv"}[storage]
        old = np.full_like(y, np.nan) if beta == 0 else y
        places = (
            blas.put(stored, dtype),
            blas.put(spread(x, incx), dtype),
            blas.put(spread(old, incy), dtype),
        )
        layout = {"full": (n + 1,), "band": (4,), "packed": ()}[storage]
        blas.check(
            f"{letter}{name}_v2{width}",
            *(uplo, n, *([k] if k else []), scalar(alpha, dtype), places[0].address, *layout),
            *(places[1].address, incx, scalar(beta, dtype), places[2].address, incy),
        )
        want = alpha * product(full(a, uplo, hermitian, k), x[:, None])[:, 0]
        want = want + (beta * y if beta else 0)
        assert_close(gathered(places[2].read(), incy), want, dtype, n)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
@pytest.mark.parametrize("trans", [N, T, C])
@pytest.mark.parametrize("diag", [NON_UNIT, UNIT])
@pytest.mark.parametrize("storage", ["r", "b", "p"])
def test_triangular(blas, rng, letter, uplo, trans, diag, storage, width) -> None:
    """The product with a triangular matrix; the solution multiplied by it gives the right side."""
    dtype, n, inc = DTYPES[letter], 6, INCS[int(rng.integers(4))]
    k = 2 if storage == "b" else None
    a = (random(rng, (n, n), dtype) / n + 2 * np.eye(n)).astype(dtype)
    a = np.where(in_triangle(uplo, n, k), a, 0).astype(dtype)
    matrix = a.copy()
    if diag == UNIT:
        np.fill_diagonal(matrix, 1)
        np.fill_diagonal(a, np.nan)  # not looked at
    kl, ku = (2, 0) if uplo == LOWER else (0, 2)
    stored, layout = {
        "r": (column_major(with_nan_outside(a, uplo).astype(dtype), n + 2), (n + 2,)),
        "b": (banded(a, kl, ku, 4), (4,)),
        "p": (packed(a, uplo), ()),
    }[storage]
    memory, x = blas.put(stored, dtype), random(rng, (n,), dtype)
    arguments = (uplo, trans, diag, n, *([k] if k else []), memory.address, *layout)
    vector = blas.put(spread(x, inc), dtype)
    blas.check(f"{letter}t{storage}mv_v2{width}", *arguments, vector.address, inc)
    want = product(op(trans, matrix), x[:, None])[:, 0]
    assert_close(gathered(vector.read(), inc), want, dtype, n)

    vector = blas.put(spread(x, inc), dtype)
    blas.check(f"{letter}t{storage}sv_v2{width}", *arguments, vector.address, inc)
    solution = gathered(vector.read(), inc)
    assert_close(product(op(trans, matrix), solution[:, None])[:, 0], x, dtype, 4 * n)


def test_a_long_triangular_system(blas, rng) -> None:
    """Longer than the part that is solved row by row."""
    n = 150
    a = np.tril(random(rng, (n, n), np.float64)) / n + 2 * np.eye(n)
    x = random(rng, (n,), np.float64)
    for uplo, trans, matrix in ((LOWER, N, a), (LOWER, T, a), (UPPER, N, a.T), (UPPER, T, a.T)):
        memory, vector = blas.put(column_major(matrix, n), float), blas.put(x, float)
        blas.check("Dtrsv_v2", uplo, trans, NON_UNIT, n, memory.address, n, vector.address, 1)
        solution = vector.read()
        assert_close((matrix if trans == N else matrix.T) @ solution, x, np.float64, n)


@pytest.mark.parametrize("letter", "CZ")
@pytest.mark.parametrize("conjugate", [False, True])
def test_complex_ger(blas, rng, letter, conjugate) -> None:
    dtype, (m, n), alpha = DTYPES[letter], (4, 3), 0.5 - 1j
    x, y, a = random(rng, (m,), dtype), random(rng, (n,), dtype), random(rng, (m, n), dtype)
    places = (
        blas.put(spread(x, -2), dtype),
        blas.put(spread(y, 2), dtype),
        blas.put(column_major(a, m + 1), dtype),
    )
    blas.check(
        f"{letter}ger{'c' if conjugate else 'u'}_v2",
        *(m, n, scalar(alpha, dtype), places[0].address, -2, places[1].address, 2),
        *(places[2].address, m + 1),
    )
    got = places[2].read().reshape(n, m + 1)
    row = y.conj() if conjugate else y
    assert_close(got[:, :m].T, a + alpha * product(x[:, None], row[None, :]), dtype)
    assert np.isnan(got[:, m:]).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("letter", "kind", "hermitian"), SYMMETRIC)
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("two", [False, True])
def test_rank_updates(blas, rng, letter, kind, hermitian, uplo, is_packed, two, width) -> None:
    """Only the triangle changes, and a Hermitian diagonal becomes real."""
    if letter in "CZ" and not hermitian and is_packed:
        return  # BLAS has no complex spr
    dtype, n, incx, incy = DTYPES[letter], 5, -2, 3
    alpha = 1.5 if hermitian and not two else factors(letter, 1.5, 0)[0]
    a, x, y = random(rng, (n, n), dtype), random(rng, (n,), dtype), random(rng, (n,), dtype)
    first = x.conj() if hermitian else x
    if two:
        second = y.conj() if hermitian else y
        update = alpha * product(x[:, None], second[None, :])
        other = np.conj(alpha) if hermitian else alpha
        update = update + other * product(y[:, None], first[None, :])
    else:
        update = alpha * product(x[:, None], first[None, :])
    want = a + update
    if hermitian:
        np.fill_diagonal(want, want.diagonal().real)
    memory = blas.put(packed(a, uplo) if is_packed else column_major(a, n + 1), dtype)
    vectors = blas.put(spread(x, incx), dtype), blas.put(spread(y, incy), dtype)
    real = {"C": np.float32, "Z": np.float64}.get(letter, dtype)
    blas.check(
        f"{letter}{kind[0] + 'p' if is_packed else kind}r{'2' if two else ''}_v2{width}",
        *(uplo, n, scalar(alpha, real if hermitian and not two else dtype)),
        *(vectors[0].address, incx, *((vectors[1].address, incy) if two else ())),
        *(memory.address, *(() if is_packed else (n + 1,))),
    )
    if is_packed:
        assert_close(memory.read(), packed(want, uplo), dtype, 2)
        return
    got = memory.read().reshape(n, n + 1)
    assert np.isnan(got[:, n:]).all()
    inside = in_triangle(uplo, n)
    assert_close(got[:, :n].T[inside], want[inside], dtype, 2)
    np.testing.assert_array_equal(got[:, :n].T[~inside], a[~inside])
    if hermitian:
        np.testing.assert_array_equal(got[:, :n].T.diagonal().imag, 0)


BAD = [
    ({"uplo": 9}, Status.INVALID_VALUE),
    ({"uplo": FillMode.FULL}, Status.INVALID_VALUE),
    ({"n": -1}, Status.INVALID_VALUE),
    ({"lda": 3}, Status.INVALID_VALUE),
    ({"lda": 0}, Status.INVALID_VALUE),
    ({"incx": 0}, Status.INVALID_VALUE),
    ({"n": 0}, Status.SUCCESS),
]


@pytest.mark.parametrize(("changed", "status"), [*BAD, ({"k": -1}, Status.INVALID_VALUE)])
@pytest.mark.parametrize("name", ["symv", "sbmv", "trmv", "trsv", "tbmv", "tbsv", "syr", "syr2"])
def test_statuses(blas, name, changed, status) -> None:
    """Of a wrong call nothing is written."""
    if "k" in changed and name[1] != "b":
        return
    a, x, y = (blas.put(np.ones(64)) for _ in range(3))
    v = {
        "uplo": LOWER,
        "trans": N,
        "diag": NON_UNIT,
        "n": 4,
        "k": 3,
        "lda": 4,
        "incx": 1,
        **changed,
    }
    one, matrix, vector = scalar(1), (a.address, v["lda"]), (x.address, v["incx"])
    head = (v["uplo"], v["n"])
    triangular = (v["uplo"], v["trans"], v["diag"], v["n"])
    arguments = {
        "symv": (*head, one, *matrix, *vector, one, y.address, 1),
        "sbmv": (*head, v["k"], one, *matrix, *vector, one, y.address, 1),
        "trmv": (*triangular, *matrix, *vector),
        "trsv": (*triangular, *matrix, *vector),
        "tbmv": (*triangular, v["k"], *matrix, *vector),
        "tbsv": (*triangular, v["k"], *matrix, *vector),
        "syr": (*head, one, *vector, *matrix),
        "syr2": (*head, one, *vector, y.address, 1, *matrix),
    }[name]
    assert blas.status(f"S{name}_v2", *arguments) == status
    for memory in (a, x, y):
        np.testing.assert_array_equal(memory.read(), 1)


@pytest.mark.parametrize("name", ["trmv", "tpmv", "tbsv"])
def test_statuses_of_triangular_enums(blas, name) -> None:
    a, x = blas.put(np.ones(64)), blas.put(np.ones(8))
    for trans, diag in ((9, NON_UNIT), (3, NON_UNIT), (-1, NON_UNIT), (N, 9), (N, -1)):
        tail = {"trmv": (4,), "tpmv": (), "tbsv": (4,)}[name]
        k = (2,) if name == "tbsv" else ()
        got = blas.status(f"S{name}_v2", LOWER, trans, diag, 4, *k, a.address, *tail, x.address, 1)
        assert got == Status.INVALID_VALUE
    np.testing.assert_array_equal(x.read(), 1)


def test_where_alpha_is_0_the_reference_reads_nothing(ours) -> None:
    """cuBLAS multiplies by 0 instead, and so spreads a NaN."""
    nan, zero, two = ours.put(np.full(16, np.nan)), scalar(0), scalar(2)
    for name, head in (
        ("Ssymv_v2", (LOWER, 2, zero, nan.address, 2)),
        ("Ssbmv_v2", (LOWER, 2, 1, zero, nan.address, 2)),
        ("Sspmv_v2", (LOWER, 2, zero, nan.address)),
        ("Sgbmv_v2", (N, 2, 2, 0, 0, zero, nan.address, 2)),
    ):
        y = ours.put([1, 3])
        ours.check(name, *head, nan.address, 1, two, y.address, 1)
        np.testing.assert_array_equal(y.read(), [2, 6])
    a = ours.put(np.ones(4))
    ours.check("Ssyr_v2", LOWER, 2, zero, nan.address, 1, a.address, 2)
    ours.check("Ssyr2_v2", LOWER, 2, zero, nan.address, 1, nan.address, 1, a.address, 2)
    ours.check("Sspr_v2", LOWER, 2, zero, nan.address, 1, a.address)
    np.testing.assert_array_equal(a.read(), 1)


def test_a_zero_on_the_diagonal_divides(blas) -> None:
    a, x = blas.put([0.0, 0.0, 0.0, 1.0]), blas.put([1.0, 2.0])
    blas.check("Strsv_v2", LOWER, N, NON_UNIT, 2, a.address, 2, x.address, 1)
    assert not np.isfinite(x.read()[0])
