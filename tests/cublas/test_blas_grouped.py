"""Grouped products against float64."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import cublas
from pycudnn.cublas import ComputeType, PointerMode

DTYPES = {"sgemm": np.float32, "dgemm": np.float64}
SIZES = [(2, 3, 4, 0, 1), (5, 1, 2, 1, 0), (4, 4, 4, 0, 0)]  # m, n, k, transa, transb
COUNTS = [2, 1, 3]


@pytest.fixture
def groups(put, rng):
    """Arguments of a call for a dtype, and what the results are to be."""

    def make(dtype):
        a, b, c, wanted = [], [], [], []
        alpha, beta = [0.5, -2.0, 1.0], [0.0, 3.0, 1.0]
        for (m, n, k, op_a, op_b), count, scale, keep in zip(
            SIZES, COUNTS, alpha, beta, strict=True
        ):
            for _ in range(count):
                x, y = rng.standard_normal((m, k)), rng.standard_normal((k, n))
                z = rng.standard_normal((m, n))
                x, y, z = (array.astype(dtype) for array in (x, y, z))
                wide = [array.astype(np.float64) for array in (x, y, z)]
                wanted.append(scale * wide[0] @ wide[1] + (keep * wide[2] if keep else 0))
                a.append(put(np.ascontiguousarray(x if op_a else x.T)))
                b.append(put(np.ascontiguousarray(y if op_b else y.T)))
                c.append(put(np.ascontiguousarray(z.T) if keep else np.full((n, m), np.nan, dtype)))
        m, n, k, op_a, op_b = (list(column) for column in zip(*SIZES, strict=True))
        arguments = {
            "transa": op_a, "transb": op_b, "m": m, "n": n, "k": k, "alpha": alpha, "a": a,
            "lda": [rows[2] if rows[3] else rows[0] for rows in SIZES], "b": b,
            "ldb": [rows[1] if rows[4] else rows[2] for rows in SIZES], "beta": beta, "c": c,
            "ldc": m, "group_count": 3, "group_size": COUNTS,
        }  # fmt: skip
        return arguments, wanted

    return make


@pytest.mark.parametrize("name", DTYPES)
def test_products(handle, groups, name):
    dtype = DTYPES[name]
    arguments, wanted = groups(dtype)
    getattr(cublas, f"{name}_grouped_batched")(handle, **arguments)
    for got, want in zip(arguments["c"], wanted, strict=True):
        np.testing.assert_allclose(got.numpy().T, want, atol=16 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_of_ones_own(handle, groups, dtype):
    arguments, wanted = groups(np.dtype(dtype))
    types = dict.fromkeys(("a_type", "b_type", "c_type"), dtype)
    cublas.gemm_grouped_batched_ex(handle, **arguments, **types)
    for got, want in zip(arguments["c"], wanted, strict=True):
        np.testing.assert_allclose(got.numpy().T, want, atol=16 * np.finfo(dtype).eps)


def test_nothing_to_do(handle):
    empty = {name: [] for name in ("transa", "transb", "m", "n", "k", "alpha", "a", "lda", "b",
                                   "ldb", "beta", "c", "ldc", "group_size")}  # fmt: skip
    cublas.sgemm_grouped_batched(handle, **empty, group_count=0)


def test_64_bit_sizes(handle, put):
    a, b, c = put(np.array([2.0, 3.0])), put(np.array([5.0])), put(np.zeros(2))
    cublas.dgemm_grouped_batched(
        handle, [0], [0], [2], [1], [1], [1.0], [a], [2**31], [b], [1], [0.0], [c], [2], 1, [1]
    )
    np.testing.assert_array_equal(c.numpy(), [10, 15])


@pytest.mark.parametrize(
    ("spoilt", "kind", "text"),
    [
        ({"transa": [0, 3, 0]}, ValueError, r"^transa\[1\] must be an Operation"),
        ({"m": [2, -1, 4]}, ValueError, r"^m\[1\] must be an int from 0"),
        ({"m": [2, 5]}, ValueError, "^m must be a list of 3 ints, got 2"),
        ({"m": 4}, TypeError, "^m must be a list of 3 ints, got 4"),
        ({"lda": [1, 2, 4]}, ValueError, r"^lda\[0\] must be at least 2"),
        ({"alpha": [1.0, "2", 1.0]}, TypeError, "^alpha must be a real number, got '2'"),
        ({"alpha": None}, TypeError, "^alpha must be a list of 3 numbers"),
        ({"group_size": [2, 1, 4]}, ValueError, "^a must be a list of 7 operands, got 6"),
        ({"group_count": 2.5}, TypeError, "^group_count must be an int"),
    ],
)
def test_refusals(handle, groups, spoilt, kind, text):
    arguments, _ = groups(np.float32)
    with pytest.raises(kind, match=text):
        cublas.sgemm_grouped_batched(handle, **(arguments | spoilt))


def test_operands_are_checked(handle, groups, put):
    arguments, _ = groups(np.float32)
    for name in "abc":
        given = arguments[name]
        for value, kind, text in (
            (None, TypeError, "must be"),
            (put(np.zeros(99)), TypeError, "holds float64, the call takes float32"),
            (put(np.zeros(3, np.float32)), ValueError, r"needs \d+ bytes, got 12"),
        ):
            wrong = [value, *given[1:]]
            with pytest.raises(kind, match=rf"^{name}\[0\] {text}"):
                cublas.sgemm_grouped_batched(handle, **(arguments | {name: wrong}))
    twice = [arguments["c"][1], *arguments["c"][1:]]
    with pytest.raises(ValueError, match=r"^c\[0\] is written to and must not overlap c\[1\]$"):
        cublas.sgemm_grouped_batched(handle, **(arguments | {"c": twice}))


def test_factors_in_device_memory(handle, groups):
    arguments, _ = groups(np.float32)
    handle.pointer_mode = PointerMode.DEVICE
    with pytest.raises(ValueError, match="^pointer_mode must be HOST for grouped products"):
        cublas.sgemm_grouped_batched(handle, **arguments)


def test_compute_type(handle, groups):
    arguments, wanted = groups(np.float32)
    types = dict.fromkeys(("a_type", "b_type", "c_type"), "float32")
    with pytest.raises(ValueError, match="^compute_type must be a ComputeType or None, got 1$"):
        cublas.gemm_grouped_batched_ex(handle, **arguments, **types, compute_type=1)
    with pytest.raises(ValueError, match="^b_type must be one of float32"):
        cublas.gemm_grouped_batched_ex(handle, **arguments, **(types | {"b_type": "int4"}))
    pedantic = ComputeType.COMPUTE_32F_PEDANTIC
    cublas.gemm_grouped_batched_ex(handle, **arguments, **types, compute_type=pedantic)
    np.testing.assert_allclose(arguments["c"][0].numpy().T, wanted[0], atol=1e-5)
