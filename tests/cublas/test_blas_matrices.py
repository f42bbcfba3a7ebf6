"""Matrix products and sums against float64 NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from blas_storage import (
    DTYPES,
    LETTERS,
    OPERATIONS,
    assert_near,
    matrix_in,
    op,
    spread,
    stored,
    vector_in,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pycudnn import cublas
from pycudnn.cublas import ComputeType, CudaDataType, Operation
from pycudnn.errors import CublasNotSupported

N, T = Operation.N, Operation.T

shapes = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
factors = st.sampled_from([0.0, 1.0, -1.5, 0.25])
sizes = st.integers(0, 9)


def random(rng, dtype, *shape):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("letter", LETTERS)
@given(
    transa=st.sampled_from(OPERATIONS),
    transb=st.sampled_from(OPERATIONS),
    m=sizes,
    n=sizes,
    k=sizes,
    padding=st.tuples(*[st.integers(0, 3)] * 3),
    alpha=factors,
    beta=factors,
    seed=st.integers(0, 2**32 - 1),
)
@shapes
def test_gemm(handle, put, letter, transa, transb, m, n, k, padding, alpha, beta, seed):
    rng, dtype = np.random.default_rng(seed), DTYPES[letter]
    a = random(rng, dtype, *((m, k) if transa == N else (k, m)))
    b = random(rng, dtype, *((k, n) if transb == N else (n, k)))
    c = random(rng, dtype, m, n)
    lda, ldb, ldc = (max(1, x.shape[0]) + more for x, more in zip((a, b, c), padding, strict=True))
    out = put(stored(c, ldc))
    getattr(cublas, letter + "gemm")(
        handle, transa, transb, m, n, k, alpha, put(stored(a, lda)), lda, put(stored(b, ldb)), ldb,
        beta, out, ldc,
    )  # fmt: skip
    opa, opb = op(transa, a), op(transb, b)
    want = alpha * opa @ opb + beta * c
    magnitude = abs(alpha) * np.abs(opa) @ np.abs(opb) + np.abs(beta * c)
    assert_near(matrix_in(out.numpy(), m), want, magnitude, k, dtype)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("transa", [N, T])
@pytest.mark.parametrize("transb", [N, T])
def test_e6_row_major(handle, put, letter, transa, transb):
    """Row-major C = A B is column-major C^T = B^T A^T, for every way A and B may be stored."""
    a = np.arange(6, dtype=DTYPES[letter]).reshape(2, 3)
    b = np.arange(15, dtype=DTYPES[letter]).reshape(3, 5)
    a_memory = np.ascontiguousarray(a if transa == N else a.T)
    b_memory = np.ascontiguousarray(b if transb == N else b.T)
    c = put(np.full((2, 5), np.nan, DTYPES[letter]))
    getattr(cublas, letter + "gemm")(
        handle, transb, transa, 5, 2, 3, 1.0, put(b_memory), b_memory.shape[1], put(a_memory),
        a_memory.shape[1], 0.0, c, 5,
    )  # fmt: skip
    np.testing.assert_array_equal(c.numpy(), a @ b)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize(
    ("argument", "value", "rows"), [("lda", 1, 2), ("ldb", 2, 3), ("ldc", 1, 2), ("lda", 0, 2)]
)
def test_e6_leading_dimension_too_small(handle, put, letter, argument, value, rows):
    ld = {"lda": 2, "ldb": 3, "ldc": 2} | {argument: value}
    memory = put(np.zeros(100, DTYPES[letter]))
    with pytest.raises(ValueError, match=f"{argument} must be at least {rows}.* got {value}"):
        getattr(cublas, letter + "gemm")(
            handle, N, N, 2, 5, 3, 1.0, memory, ld["lda"], memory, ld["ldb"], 0.0,
            put(np.zeros(100, DTYPES[letter])), ld["ldc"],
        )  # fmt: skip


def test_c9_identity_gemm(handle, put):
    """TF32 drops bits below 2^-10: off by default, on with math_mode."""
    x = np.full((256, 256), 1 + 2**-11, np.float32)
    identity = put(np.eye(256, dtype=np.float32))

    def product():
        c = put(np.full((256, 256), np.nan, np.float32))
        cublas.sgemm(handle, N, N, 256, 256, 256, 1.0, put(x), 256, identity, 256, 0.0, c, 256)
        return c.numpy()

    np.testing.assert_array_equal(product(), x)
    handle.math_mode = cublas.Math.TF32_TENSOR_OP_MATH
    assert np.abs(product() - x).max() <= 2**-10


@pytest.mark.parametrize("letter", LETTERS)
def test_beta_zero_does_not_read_c(handle, put, letter):
    dtype = DTYPES[letter]
    ones = put(np.ones(4, dtype))
    c, y = put(np.full(4, np.nan, dtype)), put(np.full(2, np.nan, dtype))
    getattr(cublas, letter + "gemm")(handle, N, N, 2, 2, 2, 3.0, ones, 2, ones, 2, 0.0, c, 2)
    getattr(cublas, letter + "gemv")(handle, N, 2, 2, 3.0, ones, 2, ones, 1, 0.0, y, 1)
    np.testing.assert_array_equal(c.numpy(), np.full(4, 6, dtype))
    np.testing.assert_array_equal(y.numpy(), np.full(2, 6, dtype))


@pytest.mark.parametrize("letter", LETTERS)
@given(
    transa=st.sampled_from(OPERATIONS),
    transb=st.sampled_from(OPERATIONS),
    m=sizes,
    n=sizes,
    k=sizes,
    gaps=st.tuples(*[st.integers(0, 5)] * 3),
    shared=st.sampled_from(["", "a", "b"]),
    batch=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
@shapes
def test_gemm_strided_batched(
    handle, put, letter, transa, transb, m, n, k, gaps, shared, batch, seed
):
    rng, dtype = np.random.default_rng(seed), DTYPES[letter]
    alpha, beta = 1.5, -0.5
    a = random(rng, dtype, 1 if shared == "a" else batch, *((m, k) if transa == N else (k, m)))
    b = random(rng, dtype, 1 if shared == "b" else batch, *((k, n) if transb == N else (n, k)))
    c = random(rng, dtype, batch, m, n)
    leading = [max(1, x.shape[1]) + 1 for x in (a, b, c)]
    strides = [ld * x.shape[2] + gap for ld, x, gap in zip(leading, (a, b, c), gaps, strict=True)]
    memories = []
    for x, ld, stride in zip((a, b, c), leading, strides, strict=True):
        memory = np.full((x.shape[0], stride), np.nan, dtype)
        for row, one in zip(memory, x, strict=True):
            row[: ld * x.shape[2]] = stored(one, ld).ravel()
        memories.append(put(memory))
    getattr(cublas, letter + "gemm_strided_batched")(
        handle, transa, transb, m, n, k,
        alpha, memories[0], leading[0], 0 if shared == "a" else strides[0],
        memories[1], leading[1], 0 if shared == "b" else strides[1],
        beta, memories[2], leading[2], strides[2], batch,
    )  # fmt: skip
    for i, row in enumerate(memories[2].numpy()):
        opa, opb = op(transa, a[i % len(a)]), op(transb, b[i % len(b)])
        want = alpha * opa @ opb + beta * c[i]
        magnitude = alpha * np.abs(opa) @ np.abs(opb) + np.abs(beta * c[i])
        got = matrix_in(row[: leading[2] * n].reshape(n, leading[2]), m)
        assert_near(got, want, magnitude, k, dtype)
        assert np.all(np.isnan(row[leading[2] * n :])), "written between the matrices"


# Types of A and B, of C, of the sum, and the compute type (None: the default one).
PRODUCTS = [
    ("float16", "float16", np.float32, None),
    ("float16", "float32", np.float32, None),
    ("float16", "float16", np.float16, ComputeType.COMPUTE_16F),
    ("bfloat16", "bfloat16", np.float32, None),
    ("bfloat16", "float32", np.float32, ComputeType.COMPUTE_32F),
    ("float32", "float32", np.float32, ComputeType.COMPUTE_32F_PEDANTIC),
    ("float64", "float64", np.float64, None),
]


@pytest.mark.parametrize(("ab", "c_name", "sums", "compute"), PRODUCTS)
@pytest.mark.parametrize("transa", [N, T])
def test_gemm_ex(handle, put, rng, ab, c_name, sums, compute, transa):
    types = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}
    ab_type, c_type = types.get(ab, ab), types.get(c_name, c_name)
    m, n, k, alpha, beta = 8, 16, 24, 0.5, -2.0
    a = random(rng, ab_type, *((m, k) if transa == N else (k, m)))
    b, c = random(rng, ab_type, k, n), random(rng, c_type, m, n)
    out = put(stored(c, m))
    cublas.gemm_ex(
        handle, transa, N, m, n, k, alpha, put(stored(a, len(a))), ab, len(a), put(stored(b, k)),
        ab, k, beta, out, c_name, m, compute_type=compute,
    )  # fmt: skip
    opa, opb, c = op(transa, a), op(N, b), op(N, c)
    want = alpha * opa @ opb + beta * c
    magnitude = alpha * np.abs(opa) @ np.abs(opb) + np.abs(beta * c)
    eps = (k + 4) * ml_dtypes.finfo(sums).eps + ml_dtypes.finfo(c_type).eps
    assert np.all(np.abs(op(N, matrix_in(out.numpy(), m)) - want) <= float(eps) * magnitude)


@pytest.mark.parametrize("c_name", ["int32", "float32"])
def test_gemm_ex_of_int8(handle, put, rng, c_name):
    m, n, k = 8, 4, 16
    a = rng.integers(-128, 128, (k, m), dtype=np.int8)
    b = rng.integers(-128, 128, (k, n), dtype=np.int8)
    c = rng.integers(-99, 99, (m, n)).astype(c_name)
    out = put(stored(c, m))
    cublas.gemm_ex(
        handle, T, N, m, n, k, 1.0, put(stored(a, k)), CudaDataType.R_8I, k, put(stored(b, k)),
        "int8", k, 3, out, c_name, m,
    )  # fmt: skip
    want = a.T.astype(np.int64) @ b.astype(np.int64) + 3 * c.astype(np.int64)
    np.testing.assert_array_equal(matrix_in(out.numpy(), m), want)


def test_gemm_ex_names_a_combination_that_cublas_lacks(handle, put):
    half, wide = put(np.zeros(16, np.float16)), put(np.zeros(16, np.float64))
    with pytest.raises(CublasNotSupported, match=r"cublasGemmEx returned .*NOT_SUPPORTED"):
        cublas.gemm_ex(
            handle, N, N, 4, 4, 4, 1.0, half, "float16", 4, wide, "float64", 4, 0.0,
            put(np.zeros(16, np.float32)), "float32", 4,
        )  # fmt: skip


@pytest.mark.parametrize("letter", LETTERS)
@given(
    transa=st.sampled_from(OPERATIONS),
    transb=st.sampled_from(OPERATIONS),
    m=sizes,
    n=sizes,
    alpha=factors,
    beta=factors,
    seed=st.integers(0, 2**32 - 1),
)
@shapes
def test_geam(handle, put, letter, transa, transb, m, n, alpha, beta, seed):
    rng, dtype = np.random.default_rng(seed), DTYPES[letter]
    a = random(rng, dtype, *((m, n) if transa == N else (n, m)))
    b = random(rng, dtype, *((m, n) if transb == N else (n, m)))
    lda, ldb, ldc = len(a) + 1, len(b) + 2, m + 3
    c = put(stored(np.full((m, n), np.nan, dtype), ldc))
    getattr(cublas, letter + "geam")(
        handle, transa, transb, m, n, alpha, put(stored(a, lda)), lda, beta, put(stored(b, ldb)),
        ldb, c, ldc,
    )  # fmt: skip
    opa, opb = op(transa, a), op(transb, b)
    magnitude = np.abs(alpha * opa) + np.abs(beta * opb)
    assert_near(matrix_in(c.numpy(), m), alpha * opa + beta * opb, magnitude, 2, dtype)


increments = st.sampled_from([1, 2, 3, -1, -2])


@pytest.mark.parametrize("letter", LETTERS)
@given(
    trans=st.sampled_from(OPERATIONS),
    m=st.integers(1, 9),
    n=st.integers(1, 9),
    incx=increments,
    incy=increments,
    alpha=factors,
    beta=factors,
    seed=st.integers(0, 2**32 - 1),
)
@shapes
def test_gemv(handle, put, letter, trans, m, n, incx, incy, alpha, beta, seed):
    rng, dtype = np.random.default_rng(seed), DTYPES[letter]
    a = random(rng, dtype, m, n)
    x = random(rng, dtype, n if trans == N else m)
    y = random(rng, dtype, m if trans == N else n)
    out = put(spread(y, incy))
    getattr(cublas, letter + "gemv")(
        handle, trans, m, n, alpha, put(stored(a, m + 1)), m + 1, put(spread(x, incx)), incx, beta,
        out, incy,
    )  # fmt: skip
    opa = op(trans, a)
    magnitude = np.abs(alpha * opa) @ np.abs(x) + np.abs(beta * y)
    got = vector_in(out.numpy(), incy)
    assert_near(got, alpha * opa @ x + beta * y, magnitude, x.size, dtype)


@pytest.mark.parametrize("letter", LETTERS)
@given(
    m=sizes,
    n=sizes,
    incx=increments,
    incy=increments,
    alpha=factors,
    seed=st.integers(0, 2**32 - 1),
)
@shapes
def test_ger(handle, put, letter, m, n, incx, incy, alpha, seed):
    rng, dtype = np.random.default_rng(seed), DTYPES[letter]
    x, y, a = random(rng, dtype, m), random(rng, dtype, n), random(rng, dtype, m, n)
    out = put(stored(a, m + 2))
    getattr(cublas, letter + "ger")(
        handle, m, n, alpha, put(spread(x, incx)), incx, put(spread(y, incy)), incy, out, m + 2
    )
    product = alpha * np.outer(x.astype(np.float64), y)
    assert_near(matrix_in(out.numpy(), m), a + product, np.abs(a) + np.abs(product), 1, dtype)


@pytest.mark.parametrize("name", ["gemm", "gemm_strided_batched", "geam", "gemv", "ger"])
@pytest.mark.parametrize("empty", ["m", "n"])
def test_nothing_to_do_touches_no_operand(handle, name, empty):
    """As in BLAS; None would be a TypeError if it were looked at."""
    m, n = (0, 2) if empty == "m" else (2, 0)
    arguments = {
        "gemm": (N, N, m, n, 2, None, None, 2, None, 2, None, None, 2),
        "gemm_strided_batched": (
            N, N, m, n, 2, None, None, 2, 4, None, 2, 4, None, None, 2, 4, 3
        ),
        "geam": (N, N, m, n, None, None, 2, None, None, 2, None, 2),
        "gemv": (N, m, n, None, None, 2, None, 1, None, None, 1),
        "ger": (m, n, None, None, 1, None, 1, None, 2),
    }[name]  # fmt: skip
    for letter in LETTERS:
        getattr(cublas, letter + name)(handle, *arguments)


def test_k_zero_scales_c(handle, put):
    c = put(np.arange(4, dtype=np.float32))
    nothing = put(np.zeros(0, np.float32))
    cublas.sgemm(handle, N, N, 2, 2, 0, 1.0, nothing, 2, nothing, 1, 3.0, c, 2)
    np.testing.assert_array_equal(c.numpy(), [0, 3, 6, 9])
