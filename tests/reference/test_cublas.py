"""cuBLAS's C functions: results against plain loops in float64, and every status.

Statuses are those of cuBLAS 13.1, measured on a GPU, where these tests run as well; the tests
named after the reference are about what only it promises.
"""

from __future__ import annotations

import ctypes
import itertools
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from blas_library import (
    DTYPES,
    BlasLibrary,
    Result,
    assert_close,
    column_major,
    gathered,
    op,
    product,
    random,
    scalar,
    spread,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pycudnn import reference
from pycudnn.abi.cublas_enums import ComputeType as Compute
from pycudnn.abi.cublas_enums import CudaDataType, GemmAlgo, Math, Operation, Status

N, T, C = Operation.N, Operation.T, Operation.C
SUCCESS, INVALID, UNSUPPORTED = Status.SUCCESS, Status.INVALID_VALUE, Status.NOT_SUPPORTED
REAL = ["S", "D"]
WIDTHS = ["", "_64"]


relaxed = settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
sizes = st.integers(1, 6)
factors = st.sampled_from([0.0, 1.0, -0.5, 2.0])
seeds = st.integers(0, 2**32)

# --- matrix products -----------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", DTYPES)
@relaxed
@given(
    st.sampled_from([N, T, C]),
    st.sampled_from([N, T, C]),
    st.tuples(sizes, sizes, st.integers(0, 6)),
    st.tuples(*[st.integers(0, 3)] * 3),
    factors,
    factors,
    seeds,
)
def test_gemm(blas, letter, width, transa, transb, shape, gaps, alpha, beta, seed) -> None:
    (m, n, k), dtype, rng = shape, DTYPES[letter], np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        alpha, beta = alpha * (1 + 2j), beta * (2 - 1j)
    a = random(rng, (m, k) if transa == N else (k, m), dtype)
    b = random(rng, (k, n) if transb == N else (n, k), dtype)
    c = np.full((m, n), np.nan, dtype) if beta == 0 else random(rng, (m, n), dtype)
    lds = [max(1, matrix.shape[0]) + gap for matrix, gap in zip((a, b, c), gaps, strict=True)]
    memory = [
        blas.put(column_major(matrix, ld), dtype) for matrix, ld in zip((a, b, c), lds, strict=True)
    ]
    blas.check(
        f"{letter}gemm_v2{width}",
        *(transa, transb, m, n, k, scalar(alpha, dtype), memory[0].address, lds[0]),
        *(memory[1].address, lds[1], scalar(beta, dtype), memory[2].address, lds[2]),
    )
    got = memory[2].read().reshape(n, lds[2])
    want = alpha * product(op(transa, a), op(transb, b)) + (beta * c if beta else 0)
    assert_close(got[:, :m].T, want, dtype, k)
    assert np.isnan(got[:, m:]).all(), "written between the columns"


@pytest.mark.parametrize(("transa", "transb"), list(itertools.product([N, T], [N, T])))
def test_e6_row_major_product(blas, transa, transb) -> None:
    """Row-major C = A B is column-major C^T = B^T A^T: the operands change places."""
    a, b = np.arange(6.0).reshape(2, 3), np.arange(15.0).reshape(3, 5)
    stored_a, stored_b = (a if transa == N else a.T.copy()), (b if transb == N else b.T.copy())
    memory_a, memory_b, memory_c = (blas.put(x) for x in (stored_a, stored_b, np.zeros((2, 5))))
    blas.check(
        "Sgemm_v2",
        *(transb, transa, 5, 2, 3, scalar(1), memory_b.address, stored_b.shape[1]),
        *(memory_a.address, stored_a.shape[1], scalar(0), memory_c.address, 5),
    )
    np.testing.assert_array_equal(memory_c.read(), a @ b)


def test_e5_complex_alpha(blas) -> None:
    one = np.eye(2, dtype=complex)
    a, b, c = (blas.put(x, complex) for x in (one, one, np.full((2, 2), np.nan)))
    blas.check(
        "Zgemm_v2",
        *(N, N, 2, 2, 2, scalar(1j, complex), a.address, 2, b.address, 2),
        *(scalar(0, complex), c.address, 2),
    )
    np.testing.assert_array_equal(c.read(), 1j * one)


@pytest.mark.parametrize("letter", DTYPES)
@relaxed
@given(st.integers(1, 4), st.booleans(), st.integers(0, 5), factors, seeds)
def test_gemm_strided_batched(blas, letter, batch, shared, gap, beta, seed) -> None:
    """Matrices a stride apart; B is one for all where its stride is 0."""
    dtype, rng, (m, n, k) = DTYPES[letter], np.random.default_rng(seed), (3, 2, 4)
    a, c = random(rng, (batch, m, k), dtype), random(rng, (batch, m, n), dtype)
    b = random(rng, (1 if shared else batch, n, k), dtype)

    def stacked(matrices: np.ndarray) -> np.ndarray:
        flat = [column_major(matrix, matrix.shape[0]).ravel() for matrix in matrices]
        return np.array([np.append(columns, [np.nan] * gap) for columns in flat], dtype)

    memory = [blas.put(stacked(matrices), dtype) for matrices in (a, b, c)]
    blas.check(
        f"{letter}gemmStridedBatched",
        *(N, T, m, n, k, scalar(1, dtype), memory[0].address, m, m * k + gap),
        *(memory[1].address, n, 0 if shared else n * k + gap, scalar(beta, dtype)),
        *(memory[2].address, m, m * n + gap, batch),
    )
    got = memory[2].read()
    assert np.isnan(got[:, m * n :]).all()
    for i in range(batch):
        want = product(a[i], b[0 if shared else i].T) + beta * c[i]
        assert_close(got[i, : m * n].reshape(n, m).T, want, dtype, k)


def test_a_product_in_the_reference_copies_nothing(ours) -> None:
    """Column-major views, transposed or not, go to BLAS as they are."""
    size = 512
    for transa, transb in itertools.product([N, T], [N, T]):
        a, b, c = (ours.put(np.ones((size, size + 3))) for _ in range(3))
        arguments = (
            *(transa, transb, size, size, size, scalar(1), a.address, size + 3),
            *(b.address, size + 3, scalar(0), c.address, size + 3),
        )
        ours.check("Sgemm_v2", *arguments)
        tracemalloc.start()
        ours.check("Sgemm_v2", *arguments)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < size * size * 4 / 8
        np.testing.assert_array_equal(c.read().reshape(size, size + 3)[:, :size], size)


HALF_TYPES = {CudaDataType.R_16F: np.float16, CudaDataType.R_16BF: ml_dtypes.bfloat16}
IN_AND_OUT: dict[int, Any] = {
    **HALF_TYPES,
    CudaDataType.R_32F: np.float32,
    CudaDataType.R_64F: np.float64,
    CudaDataType.C_32F: np.complex64,
    CudaDataType.C_64F: np.complex128,
    CudaDataType.R_8I: np.int8,
    CudaDataType.R_32I: np.int32,
}
HALF, BF16, F32, F64 = CudaDataType.R_16F, CudaDataType.R_16BF, CudaDataType.R_32F, 1
SINGLES = [(F32, F32), (HALF, F32), (HALF, HALF), (CudaDataType.R_8I, F32), (BF16, F32),
           (BF16, BF16), (CudaDataType.C_32F, CudaDataType.C_32F)]  # fmt: skip
DOUBLES = [(F64, F64), (CudaDataType.C_64F, CudaDataType.C_64F)]
INTEGERS = [(CudaDataType.R_8I, CudaDataType.R_32I)]
# As measured: which types of (A and B, C) a compute type takes.
TAKES = {
    Compute.COMPUTE_16F: [(HALF, HALF)],
    Compute.COMPUTE_16F_PEDANTIC: [(HALF, HALF)],
    Compute.COMPUTE_32F: SINGLES,
    Compute.COMPUTE_32F_PEDANTIC: SINGLES,
    Compute.COMPUTE_32F_FAST_16F: SINGLES,
    Compute.COMPUTE_32F_FAST_16BF: SINGLES,
    Compute.COMPUTE_32F_FAST_TF32: SINGLES,
    Compute.COMPUTE_64F: DOUBLES,
    Compute.COMPUTE_64F_PEDANTIC: DOUBLES,
    Compute.COMPUTE_32I: INTEGERS,
    Compute.COMPUTE_32I_PEDANTIC: INTEGERS,
}


def scale_type(compute: int, in_type: int) -> Any:
    if np.dtype(IN_AND_OUT[in_type]).kind == "c":
        return IN_AND_OUT[in_type]
    name = Compute(compute).name
    if "16F" in name and "32F" not in name:
        return np.float16
    return {"32F": np.float32, "64F": np.float64, "32I": np.int32}[name.split("_")[1]]


@pytest.mark.parametrize("compute", TAKES)
def test_gemm_ex_types(blas, rng, compute) -> None:
    """Every pair of types, the right ones with the right product."""
    a, b, c = rng.integers(-3, 4, (4, 8)), rng.integers(-3, 4, (8, 4)), rng.integers(-9, 9, (4, 4))
    for in_type, out_type in itertools.product(IN_AND_OUT, IN_AND_OUT):
        scale = scale_type(compute, in_type)
        alpha = 2 + 1j if np.dtype(scale).kind == "c" else 2
        memory_a, memory_b = (blas.put(x.T, IN_AND_OUT[in_type]) for x in (a, b))
        memory_c = blas.put(c.T, IN_AND_OUT[out_type])
        status = blas.status(
            "GemmEx",
            *(N, N, 4, 4, 8, scalar(alpha, scale), memory_a.address, in_type, 4),
            *(memory_b.address, in_type, 8, scalar(-1, scale), memory_c.address, out_type, 4),
            *(compute, GemmAlgo.DEFAULT),
        )
        if (in_type, out_type) in TAKES[compute]:
            assert status == SUCCESS, (in_type, out_type)
            want = (alpha * a @ b - c).astype(IN_AND_OUT[out_type])  # small whole numbers are exact
            np.testing.assert_array_equal(memory_c.read().T, want)
        else:
            assert status == UNSUPPORTED, (in_type, out_type)


def test_gemm_ex_of_halves_is_summed_in_float32(blas) -> None:
    """A running sum of ones would stop at 2048 in half precision, at 256 in bfloat16."""
    for in_type, dtype in HALF_TYPES.items():
        ones, c = blas.put(np.ones((4096, 8)), dtype), blas.put(np.zeros((8, 8)))
        blas.check(
            "GemmEx",
            *(N, T, 8, 8, 4096, scalar(1), ones.address, in_type, 8, ones.address, in_type, 8),
            *(scalar(0), c.address, F32, 8, Compute.COMPUTE_32F, GemmAlgo.DEFAULT),
        )
        np.testing.assert_array_equal(c.read(), 4096)


def test_gemm_ex_of_int8_is_exact(blas) -> None:
    """Near 128 * 128 * 4096 = 2**26, odd numbers are beyond float32."""
    a, b = np.full((4096, 4), -128, np.int8), np.full((4096, 4), -128, np.int8)
    a[0], b[0] = -127, -1
    memory_a, memory_b, c = blas.put(a, np.int8), blas.put(b, np.int8), blas.put([0] * 16, np.int32)
    blas.check(
        "GemmEx",
        *(N, T, 4, 4, 4096, scalar(1, np.int32), memory_a.address, CudaDataType.R_8I, 4),
        *(memory_b.address, CudaDataType.R_8I, 4, scalar(0, np.int32)),
        *(c.address, CudaDataType.R_32I, 4, Compute.COMPUTE_32I, GemmAlgo.DEFAULT),
    )
    assert set(c.read().tolist()) == {2**26 - 128 * 128 + 127}


# --- statuses of the matrix functions ------------------------------------------------------------

BAD_GEMM = [
    ({"m": -1}, INVALID),
    ({"n": -1}, INVALID),
    ({"k": -1}, INVALID),
    ({"lda": 1}, INVALID),
    ({"ldb": 0}, INVALID),
    ({"ldc": 1}, INVALID),
    ({"m": 0, "lda": 0}, INVALID),
    ({"transa": T, "k": 3, "lda": 2}, INVALID),
    ({"transb": T, "n": 3, "ldb": 2}, INVALID),
    ({"transa": 9}, INVALID),
    ({"transb": -1}, INVALID),
    ({"alpha": None}, INVALID),
    ({"beta": None}, INVALID),
    ({"a": None}, INVALID),
    ({"c": None}, INVALID),
    ({"m": 0, "a": None, "b": None, "c": None}, SUCCESS),
    ({"k": 0, "a": None, "b": None}, SUCCESS),
    ({"alpha": scalar(0), "a": None, "b": None}, SUCCESS),
]


@pytest.mark.parametrize(("changed", "status"), BAD_GEMM)
def test_gemm_statuses(blas, changed, status) -> None:
    a, b, c = (blas.put(np.ones(16)) for _ in range(3))
    arguments = {
        "transa": N, "transb": N, "m": 2, "n": 2, "k": 2, "alpha": scalar(1),
        "a": a.address, "lda": 2, "b": b.address, "ldb": 2,
        "beta": scalar(1), "c": c.address, "ldc": 2,
    }  # fmt: skip
    assert blas.status("Sgemm_v2", *{**arguments, **changed}.values()) == status
    np.testing.assert_array_equal(c.read(), 1)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"batch": -1}, INVALID),
        ({"batch": 0}, SUCCESS),
        ({"m": -1}, INVALID),
        ({"ldc": 1}, INVALID),
    ],
)
def test_gemm_strided_batched_statuses(blas, changed, status) -> None:
    a, b, c = (blas.put(np.ones(16)) for _ in range(3))
    arguments = {
        "transa": N, "transb": N, "m": 2, "n": 2, "k": 2, "alpha": scalar(1),
        "a": a.address, "lda": 2, "stride a": 4, "b": b.address, "ldb": 2, "stride b": 4,
        "beta": scalar(0), "c": c.address, "ldc": 2, "stride c": 4, "batch": 2,
    }  # fmt: skip
    assert blas.status("SgemmStridedBatched", *{**arguments, **changed}.values()) == status
    np.testing.assert_array_equal(c.read(), 1)


def test_the_reference_refuses_a_negative_stride(ours) -> None:
    a, c = ours.put(np.ones(16)), ours.put(np.ones(16))
    for strides in ((-4, 4, 4), (4, -4, 4), (4, 4, -4)):
        status = ours.status(
            "SgemmStridedBatched",
            *(N, N, 2, 2, 2, scalar(1), a.address, 2, strides[0], a.address, 2, strides[1]),
            *(scalar(0), c.address, 2, strides[2], 2),
        )
        assert status == INVALID


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"m": -1}, INVALID),
        ({"lda": 3}, INVALID),
        ({"ab_type": 99}, INVALID),
        ({"m": -1, "ab_type": 99}, INVALID),
        ({"algo": 12345}, INVALID),
        ({"b_type": CudaDataType.R_16BF}, UNSUPPORTED),
        ({"a_type": CudaDataType.R_16F, "b_type": CudaDataType.R_16BF}, UNSUPPORTED),
    ],
)
def test_gemm_ex_statuses(blas, changed, status) -> None:
    a, c = blas.put(np.ones(64)), blas.put(np.ones(64))
    given_ = {"m": 4, "lda": 4, "ab_type": F32, "algo": GemmAlgo.DEFAULT, **changed}
    a_type, b_type = (given_.get(f"{x}_type", given_["ab_type"]) for x in "ab")
    got = blas.status(
        "GemmEx",
        *(N, N, given_["m"], 4, 4, scalar(1), a.address, a_type, given_["lda"]),
        *(a.address, b_type, 4, scalar(0), c.address, F32, 4),
        *(Compute.COMPUTE_32F, given_["algo"]),
    )
    assert got == status
    np.testing.assert_array_equal(c.read(), 1)


def test_what_is_not_read_may_be_nan(blas) -> None:
    nan, ones = blas.put(np.full(16, np.nan)), blas.put(np.ones(16))
    for alpha, beta, k, want in ((0, 2, 2, 2), (0, 0, 2, 0), (1, 2, 0, 2), (1, 0, 0, 0)):
        c = blas.put(np.full(4, np.nan if beta == 0 else 1.0))
        blas.check(
            "Sgemm_v2",
            *(N, N, 2, 2, k, scalar(alpha), nan.address, 2, nan.address, 2),
            *(scalar(beta), c.address, 2),
        )
        np.testing.assert_array_equal(c.read(), want)
    for alpha, beta, want in ((0, 2, 2), (0, 0, 0)):
        y = blas.put(np.full(2, np.nan if beta == 0 else 1.0))
        blas.check(
            "Sgemv_v2",
            *(N, 2, 2, scalar(alpha), nan.address, 2, nan.address, 1, scalar(beta), y.address, 1),
        )
        np.testing.assert_array_equal(y.read(), want)
    blas.check("Saxpy_v2", 4, scalar(0), nan.address, 1, ones.address, 1)
    blas.check("Sger_v2", 2, 2, scalar(0), nan.address, 1, nan.address, 1, ones.address, 2)
    np.testing.assert_array_equal(ones.read(), 1)


# --- geam ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", REAL)
@relaxed
@given(
    st.sampled_from([N, T, C]), st.sampled_from([N, T, C]), sizes, sizes, factors, factors, seeds
)
def test_geam(blas, letter, transa, transb, m, n, alpha, beta, seed) -> None:
    dtype, rng = DTYPES[letter], np.random.default_rng(seed)
    a = random(rng, (m, n) if transa == N else (n, m), dtype)
    b = random(rng, (m, n) if transb == N else (n, m), dtype)
    lda, ldb, ldc = a.shape[0] + 1, b.shape[0], m + 2
    memory_a, memory_b = (
        blas.put(column_major(a, lda), dtype),
        blas.put(column_major(b, ldb), dtype),
    )
    memory_c = blas.put(np.full((n, ldc), np.nan), dtype)
    blas.check(
        f"{letter}geam",
        *(transa, transb, m, n, scalar(alpha, dtype), memory_a.address, lda),
        *(scalar(beta, dtype), memory_b.address, ldb, memory_c.address, ldc),
    )
    got = memory_c.read().reshape(n, ldc)
    assert_close(got[:, :m].T, alpha * op(transa, a) + beta * op(transb, b), dtype)
    assert np.isnan(got[:, m:]).all()


def test_geam_in_place_and_without_reading(blas) -> None:
    def geam(transa=N, transb=N, alpha=1, beta=1, lda=2, c=None, b="b", m=2) -> tuple:
        a, b_ = blas.put(np.arange(8.0)), blas.put(10 + np.arange(8.0))
        out = {"a": a, "b": b_, None: blas.put(np.full(8, -1.0))}[c]
        status = blas.status(
            "Sgeam",
            *(transa, transb, m, 2, scalar(alpha), a.address, lda),
            *(scalar(beta), b_.address if b else None, 2, out.address, 2),
        )
        return status, out.read()[:4].tolist()

    assert geam() == (0, [10, 12, 14, 16])
    assert geam(c="a") == (0, [10, 12, 14, 16])
    assert geam(c="b") == (0, [10, 12, 14, 16])
    assert geam(transa=T) == (0, [10, 13, 13, 16])
    assert geam(beta=0, b=None) == (0, [0, 1, 2, 3])
    assert geam(m=0) == (0, [-1] * 4)
    assert geam(transa=T, c="a")[0] == INVALID
    assert geam(transb=T, c="b")[0] == INVALID
    assert geam(lda=3, c="a")[0] == INVALID
    assert geam(lda=1)[0] == INVALID
    assert geam(m=-1)[0] == INVALID


# --- a matrix and vectors ------------------------------------------------------------------------


incs = st.sampled_from([1, 2, -1, -3])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", REAL)
@relaxed
@given(st.sampled_from([N, T, C]), sizes, sizes, incs, incs, factors, factors, seeds)
def test_gemv_and_ger(blas, letter, width, trans, m, n, incx, incy, alpha, beta, seed) -> None:
    dtype, rng = DTYPES[letter], np.random.default_rng(seed)
    a, lda = random(rng, (m, n), dtype), m + 1
    x = random(rng, (n if trans == N else m,), dtype)
    y = random(rng, (m if trans == N else n,), dtype)
    memory_a, memory_x = blas.put(column_major(a, lda), dtype), blas.put(spread(x, incx), dtype)
    memory_y = blas.put(spread(y, incy), dtype)
    blas.check(
        f"{letter}gemv_v2{width}",
        *(trans, m, n, scalar(alpha, dtype), memory_a.address, lda, memory_x.address, incx),
        *(scalar(beta, dtype), memory_y.address, incy),
    )
    want = alpha * product(op(trans, a), x[:, None])[:, 0] + beta * y.astype(float)
    assert_close(gathered(memory_y.read(), incy), want, dtype, max(m, n))

    column, row = random(rng, (m,), dtype), random(rng, (n,), dtype)
    memory_x, memory_y = (
        blas.put(spread(v, inc), dtype) for v, inc in ((column, incx), (row, incy))
    )
    blas.check(
        f"{letter}ger_v2{width}",
        *(m, n, scalar(alpha, dtype), memory_x.address, incx, memory_y.address, incy),
        *(memory_a.address, lda),
    )
    got = memory_a.read().reshape(n, lda)
    assert_close(got[:, :m].T, a + alpha * product(column[:, None], row[None, :]), dtype)
    assert np.isnan(got[:, m:]).all()


@pytest.mark.parametrize(
    ("name", "changed", "status"),
    [
        ("gemv", {"lda": 1}, INVALID),
        ("gemv", {"trans": 9}, INVALID),
        ("gemv", {"m": 0}, SUCCESS),
        ("gemv", {"n": 0}, SUCCESS),
        ("gemv", {"n": 0, "trans": T}, SUCCESS),
        ("ger", {"m": -1}, INVALID),
        ("ger", {"n": -1}, INVALID),
        ("ger", {"lda": 1}, INVALID),
        ("ger", {"incx": 0}, INVALID),
        ("ger", {"incy": 0}, INVALID),
        ("ger", {"m": 0}, SUCCESS),
    ],
)
def test_level_2_statuses(blas, name, changed, status) -> None:
    """Nothing is written in any of these cases: an empty gemv does not even scale y."""
    a, x, y = (blas.put(np.ones(16)) for _ in range(3))
    v = {"trans": N, "m": 2, "n": 3, "lda": 2, "incx": 1, "incy": 1, **changed}
    if name == "gemv":
        got = blas.status(
            "Sgemv_v2",
            *(v["trans"], v["m"], v["n"], scalar(1), a.address, v["lda"], x.address, v["incx"]),
            *(scalar(2), y.address, v["incy"]),
        )
    else:
        got = blas.status(
            "Sger_v2",
            *(v["m"], v["n"], scalar(1), x.address, v["incx"], y.address, v["incy"]),
            *(a.address, v["lda"]),
        )
    assert got == status
    for memory in (a, x, y):
        np.testing.assert_array_equal(memory.read(), 1)


def test_the_reference_is_stricter_than_cublas(ours) -> None:
    """What cuBLAS 13.1 lets pass against its own documentation."""
    a, x, y = (ours.put(np.ones(300)) for _ in range(3))

    def gemv(m: int = 2, n: int = 2, incx: int = 1, incy: int = 1) -> int:
        return ours.status(
            "Sgemv_v2",
            *(N, m, n, scalar(1), a.address, 2, x.address, incx, scalar(2), y.address, incy),
        )

    assert gemv(m=-1) == gemv(n=-1) == gemv(incx=0) == gemv(incy=0) == INVALID
    for incx, incy in ((0, 1), (1, 0)):
        vectors = x.address, incx, y.address, incy
        assert ours.status("Saxpy_v2", 3, scalar(1), *vectors) == INVALID
        assert ours.status("Scopy_v2", 3, *vectors) == INVALID
        assert ours.status("Sswap_v2", 3, *vectors) == INVALID
        assert ours.status("Sdot_v2", 3, *vectors, Result(ctypes.c_float).pointer) == INVALID
    aligned = -(-x.address // 256) * 256
    assert ours.status("SetWorkspace_v2", aligned, 256) == SUCCESS
    assert ours.status("SetWorkspace_v2", aligned + 128, 256) == INVALID
    np.testing.assert_array_equal(y.read(), 1)


# --- vectors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", REAL)
@relaxed
@given(st.integers(1, 20), incs, incs, factors, seeds)
def test_two_vectors(blas, letter, width, n, incx, incy, alpha, seed) -> None:
    dtype, rng = DTYPES[letter], np.random.default_rng(seed)
    x, y = random(rng, (n,), dtype), random(rng, (n,), dtype)

    def after(name: str, *before: Any, more: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
        vectors = blas.put(spread(x, incx), dtype), blas.put(spread(y, incy), dtype)
        places = vectors[0].address, incx, vectors[1].address, incy
        blas.check(f"{letter}{name}_v2{width}", n, *before, *places, *more)
        return gathered(vectors[0].read(), incx), gathered(vectors[1].read(), incy)

    got_x, got_y = after("axpy", scalar(alpha, dtype))
    np.testing.assert_array_equal(got_x, x)
    assert_close(got_y, alpha * x.astype(float) + y, dtype)
    for got in after("copy"):
        np.testing.assert_array_equal(got, x)
    got_x, got_y = after("swap")
    np.testing.assert_array_equal(got_x, y)
    np.testing.assert_array_equal(got_y, x)
    result = Result({"S": ctypes.c_float, "D": ctypes.c_double}[letter])
    after("dot", more=(result.pointer,))
    want = sum(float(a) * float(b) for a, b in zip(x, y, strict=True))
    assert_close(np.array(result.value), np.array(want), dtype, n)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", REAL)
@relaxed
@given(st.integers(1, 20), st.integers(1, 3), seeds)
def test_one_vector(blas, letter, width, n, inc, seed) -> None:
    dtype, rng = DTYPES[letter], np.random.default_rng(seed)
    x = random(rng, (n,), dtype)
    memory = blas.put(spread(x, inc), dtype)
    number = {"S": ctypes.c_float, "D": ctypes.c_double}[letter]
    index = ctypes.c_int64 if width else ctypes.c_int

    def result(name: str, c_type: Any) -> Any:
        written = Result(c_type)
        blas.check(name + width, n, memory.address, inc, written.pointer)
        return written.value

    magnitudes, unit = [abs(float(value)) for value in x], float(np.finfo(dtype).eps)
    norm = sum(value**2 for value in magnitudes) ** 0.5
    assert result(f"{letter}nrm2_v2", number) == pytest.approx(norm, rel=8 * unit)
    total = pytest.approx(sum(magnitudes), rel=n * unit)
    assert result(f"{letter}asum_v2", number) == total
    small = letter.lower()
    assert result(f"I{small}amax_v2", index) == 1 + magnitudes.index(max(magnitudes))
    assert result(f"I{small}amin_v2", index) == 1 + magnitudes.index(min(magnitudes))
    blas.check(f"{letter}scal_v2{width}", n, scalar(-2, dtype), memory.address, inc)
    np.testing.assert_array_equal(gathered(memory.read(), inc), -2 * x)


@pytest.mark.parametrize("n", [0, -1])
def test_vectors_of_no_elements(blas, n) -> None:
    ones, result, index = blas.put(np.ones(4)), Result(ctypes.c_float), Result(ctypes.c_int)
    vectors = ones.address, 1, ones.address, 1
    blas.check("Saxpy_v2", n, scalar(1), *vectors)
    blas.check("Scopy_v2", n, *vectors)
    blas.check("Sswap_v2", n, *vectors)
    blas.check("Sscal_v2", n, scalar(2), ones.address, 1)
    for name in ("Sdot_v2", "Snrm2_v2", "Sasum_v2"):
        places = vectors if name == "Sdot_v2" else vectors[:2]
        result = Result(ctypes.c_float)
        blas.check(name, n, *places, result.pointer)
        assert result.value == 0
    for name in ("Isamax_v2", "Isamin_v2"):
        index = Result(ctypes.c_int)
        blas.check(name, n, ones.address, 1, index.pointer)
        assert index.value == 0
    np.testing.assert_array_equal(ones.read(), 1)


@pytest.mark.parametrize("inc", [0, -1])
def test_one_vector_has_no_backwards(blas, inc) -> None:
    x, index = blas.put([1, 2, 3]), Result(ctypes.c_int)
    blas.check("Sscal_v2", 3, scalar(2), x.address, inc)
    np.testing.assert_array_equal(x.read(), [1, 2, 3])
    for name in ("Snrm2_v2", "Sasum_v2"):
        result = Result(ctypes.c_float)
        blas.check(name, 3, x.address, inc, result.pointer)
        assert result.value == 0
    blas.check("Isamax_v2", 3, x.address, inc, index.pointer)
    assert index.value == 0


def test_extremes_of_nan_and_ties(blas) -> None:
    """NaN is passed over; of equals the first one counts."""
    nan, inf = np.nan, np.inf
    cases = {
        (nan, 5, -9, 2): (3, 4),
        (1, nan, -9, 2): (3, 1),
        (1, -9, 2, nan): (2, 1),
        (1, -inf, inf, 2): (2, 1),
        (2, -3, 3, -2): (2, 1),
    }
    for values, wanted in cases.items():
        memory = blas.put(values)
        for name, want in zip(("Isamax_v2", "Isamin_v2"), wanted, strict=True):
            index = Result(ctypes.c_int)
            blas.check(name, 4, memory.address, 1, index.pointer)
            assert index.value == want, (values, name)


@pytest.mark.parametrize(("letter", "huge"), [("S", 1e38), ("D", 1e300)])
def test_norm_of_huge_numbers(blas, letter, huge) -> None:
    dtype = DTYPES[letter]
    result = Result({"S": ctypes.c_float, "D": ctypes.c_double}[letter])
    memory = blas.put([huge, -huge, 1], dtype)
    blas.check(f"{letter}nrm2_v2", 3, memory.address, 1, result.pointer)
    assert result.value == pytest.approx(2**0.5 * huge, rel=1e-6)
    for special in (np.inf, np.nan):
        memory = blas.put([1, special, 2], dtype)
        blas.check(f"{letter}nrm2_v2", 3, memory.address, 1, result.pointer)
        np.testing.assert_equal(result.value, special)


# --- the handle ----------------------------------------------------------------------------------


def test_settings(blas) -> None:
    for name, good, bad in (
        ("MathMode", [*Math], [-1, 1000]),
        ("PointerMode{}_v2", [0, 1], [-1, 2]),
        ("AtomicsMode", [0, 1], [-1, 2]),
    ):
        set_, get = f"Set{name}".format(""), f"Get{name}".format("")
        for value in good:
            result = Result(ctypes.c_int)
            if blas.status(set_, value) == SUCCESS:
                blas.check(get, result.pointer)
                assert result.value == value
            else:
                assert blas.backend == "cuda", "an older cuBLAS may lack a math mode"
        before = Result(ctypes.c_int)
        blas.check(get, before.pointer)
        for value in bad:
            assert blas.status(set_, value) == INVALID
            after = Result(ctypes.c_int)
            blas.check(get, after.pointer)
            assert after.value == before.value


def test_math_mode_with_its_flag(blas) -> None:
    flag = Math.MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
    for mode in (Math.DEFAULT_MATH, Math.PEDANTIC_MATH, Math.TF32_TENSOR_OP_MATH):
        result = Result(ctypes.c_int)
        blas.check("SetMathMode", mode | flag)
        blas.check("GetMathMode", result.pointer)
        assert result.value == mode | flag


def test_scalars_and_results_in_device_memory(blas) -> None:
    x, two, result = blas.put([1, 2, 3]), blas.put([2.0]), blas.put([np.nan])
    blas.check("SetPointerMode_v2", 1)
    blas.check("Sscal_v2", 3, two.address, x.address, 1)
    blas.check("Sdot_v2", 3, x.address, 1, x.address, 1, result.address)
    np.testing.assert_array_equal(x.read(), [2, 4, 6])
    assert result.read()[0] == 56


def test_stream_of_the_reference(ours) -> None:
    out = ctypes.c_void_p()
    ours.check("GetStream_v2", ctypes.byref(out))
    assert out.value is None
    ours.check("SetStream_v2", 1234)
    ours.check("GetStream_v2", ctypes.byref(out))
    assert out.value == 1234


def test_version_is_told_consistently(blas) -> None:
    version, parts = Result(ctypes.c_int), []
    blas.check("GetVersion_v2", version.pointer)
    for kind in range(3):
        part = Result(ctypes.c_int)
        assert blas.function("GetProperty")(kind, part.pointer) == SUCCESS
        parts.append(part.value)
    assert version.value == 10000 * parts[0] + 100 * parts[1] + parts[2]
    assert blas.function("GetProperty")(3, version.pointer) == INVALID
    if blas.backend == "reference":
        assert reference.version("cublas") == version.value


def test_status_names(blas) -> None:
    for status in Status:
        assert blas.function("GetStatusName")(status) == f"CUBLAS_STATUS_{status.name}".encode()
        assert blas.function("GetStatusString")(status)
    assert blas.function("GetStatusName")(99) == b"unrecognized status"


def test_handles_that_are_none(ours) -> None:
    gone = BlasLibrary("reference")
    gone.close()
    x = ours.put(np.ones(4))
    for handle in (None, gone.handle):
        status = ours.function("Sscal_v2")(handle, 4, scalar(2), x.address, 1)
        assert status == Status.NOT_INITIALIZED
    np.testing.assert_array_equal(x.read(), 1)
    assert ours.function("Create_v2")(None) == INVALID


def test_null_out_pointers_of_the_reference(ours) -> None:
    x = ours.put(np.ones(4))
    for name in ("GetMathMode", "GetPointerMode_v2", "GetAtomicsMode", "GetVersion_v2"):
        assert ours.status(name, None) == INVALID
    for name in ("Snrm2_v2", "Sasum_v2", "Isamax_v2", "Isamin_v2"):
        assert ours.status(name, 4, x.address, 1, None) == INVALID
        assert ours.status(name, 4, None, 1, Result(ctypes.c_int).pointer) == INVALID
    assert ours.status("Sdot_v2", 4, x.address, 1, x.address, 1, None) == INVALID
    assert ours.status("Saxpy_v2", 4, None, x.address, 1, x.address, 1) == INVALID
