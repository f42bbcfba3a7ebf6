"""Many products at once: by arrays of addresses, by strides, in groups, and of half types."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from blas_library import (
    DTYPES,
    BlasLibrary,
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

from pycudnn.abi.cublas_enums import ComputeType, CudaDataType, GemmAlgo, Operation, Status

HALF, BF16 = np.float16, ml_dtypes.bfloat16
TYPES: dict[str, Any] = {"H": HALF, **DTYPES}
CUDA_TYPES = {
    HALF: CudaDataType.R_16F, BF16: CudaDataType.R_16BF, np.float32: CudaDataType.R_32F,
    np.float64: CudaDataType.R_64F, np.complex64: CudaDataType.C_32F,
    np.complex128: CudaDataType.C_64F, np.int8: CudaDataType.R_8I, np.int32: CudaDataType.R_32I,
}  # fmt: skip
WIDTHS = ["", "_64"]


class Many:
    """Arrays in memory of their own, and the array of their addresses."""

    def __init__(self, blas: BlasLibrary, arrays: list[np.ndarray], dtype: Any) -> None:
        self.memory = [blas.put(array, dtype) for array in arrays]
        addresses = [memory.address for memory in self.memory]
        self._addresses = blas.put(addresses, np.uintp)
        self.address = self._addresses.address

    def read(self) -> list[np.ndarray]:
        return [memory.read() for memory in self.memory]


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def whole(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers: exact in every type, their products too."""
    return rng.integers(-3, 4, shape).astype(np.float64)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["HSDCZ", "3m"])
@pytest.mark.parametrize("beta", [0, -1])
def test_gemm_batched(blas, rng, name, width, beta) -> None:
    (m, n, k), batch = (3, 2, 4), 3
    for letter in "C" if name == "3m" else name:
        dtype = TYPES[letter]
        for transa, transb in itertools.product([N, T, C], [N, C]):
            a = [whole(rng, (m, k) if transa == N else (k, m)).astype(dtype) for _ in range(batch)]
            b = [whole(rng, (k, n) if transb == N else (n, k)).astype(dtype) for _ in range(batch)]
            if letter in "CZ":
                a = [x * np.array(1 + 1j, dtype) for x in a]
            c = [whole(rng, (m, n)).astype(dtype) for _ in range(batch)]
            old = [np.full_like(x, np.nan) if beta == 0 else x for x in c]
            lds = a[0].shape[0] + 1, b[0].shape[0], m + 2
            places = [
                Many(blas, [column_major(x, ld) for x in arrays], dtype)
                for arrays, ld in zip((a, b, old), lds, strict=True)
            ]
            middle = "gemm3mBatched" if name == "3m" else "gemmBatched"
            blas.check(
                letter + middle + width,
                *(transa, transb, m, n, k, scalar(2, dtype), places[0].address, lds[0]),
                *(places[1].address, lds[1], scalar(beta, dtype), places[2].address, lds[2], batch),
            )
            for i, got in enumerate(places[2].read()):
                want = 2 * product(op(transa, wide(a[i])), op(transb, wide(b[i])))
                want = want + (beta * wide(c[i]) if beta else 0)
                np.testing.assert_array_equal(wide(got[:, :m].T), want)
                assert np.isnan(wide(got[:, m:])).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["HgemmStridedBatched", "Cgemm3mStridedBatched"])
def test_gemm_strided_batched(blas, rng, name, width) -> None:
    dtype, (m, n, k), batch = TYPES[name[0]], (3, 2, 4), 3
    a, b, c = (whole(rng, (batch, *shape)) for shape in ((k, m), (n, k), (n, m)))
    places = [blas.put(x, dtype) for x in (a, b, c)]
    blas.check(
        name + width,
        *(N, N, m, n, k, scalar(1, dtype), places[0].address, m, m * k),
        *(places[1].address, k, n * k, scalar(-1, dtype), places[2].address, m, m * n, batch),
    )
    np.testing.assert_array_equal(wide(places[2].read()), b @ a - c)


@pytest.mark.parametrize("name", ["Hgemm", "Cgemm3m", "Zgemm3m"])
def test_other_names_of_gemm(blas, rng, name) -> None:
    dtype, (m, n, k) = TYPES[name[0]], (3, 2, 4)
    a, b, c = whole(rng, (k, m)), whole(rng, (n, k)), whole(rng, (n, m))
    places = [blas.put(x, dtype) for x in (a, b, c)]
    blas.check(
        name,
        *(N, N, m, n, k, scalar(2, dtype), places[0].address, m, places[1].address, k),
        *(scalar(-1, dtype), places[2].address, m),
    )
    np.testing.assert_array_equal(wide(places[2].read()), 2 * b @ a - c)


def test_half_products_are_summed_in_float32(blas) -> None:
    """A running sum of ones would stop at 2048 in half precision."""
    ones, c = blas.put(np.ones((2048 + 96, 2)), HALF), blas.put(np.zeros((2, 2)), HALF)
    blas.check(
        "Hgemm",
        *(N, T, 2, 2, 2144, scalar(1, HALF), ones.address, 2, ones.address, 2),
        *(scalar(0, HALF), c.address, 2),
    )
    np.testing.assert_array_equal(c.read(), 2144)


# Prefix of gemv -> types of the matrix, of y, of alpha and beta.
GEMV: dict[str, tuple[Any, Any, Any]] = {
    **{letter: (dtype, dtype, dtype) for letter, dtype in DTYPES.items()},
    "HSH": (HALF, HALF, np.float32),
    "HSS": (HALF, np.float32, np.float32),
    "TST": (BF16, BF16, np.float32),
    "TSS": (BF16, np.float32, np.float32),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("prefix", GEMV)
@pytest.mark.parametrize("trans", [N, T, C])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize(("incx", "incy", "beta"), [(1, 2, 0), (-2, -1, -1)])
def test_gemv_of_many(blas, rng, prefix, width, trans, strided, incx, incy, beta) -> None:
    data, out, scale = GEMV[prefix]
    (m, n), batch, lda = (4, 3), 3, 5
    columns, rows = (n, m) if trans == N else (m, n)
    a, x, y = whole(rng, (batch, m, n)), whole(rng, (batch, columns)), whole(rng, (batch, rows))
    if data in (np.complex64, np.complex128):
        a = a * (1 - 1j)
    stored = (
        [column_major(matrix, lda) for matrix in a],
        [spread(vector, incx) for vector in x],
        [spread(np.full_like(v, np.nan) if beta == 0 else v, incy) for v in y],
    )
    head = trans, m, n, scalar(2, scale)
    if strided:
        places = [
            blas.put(np.array(x), dtype) for x, dtype in zip(stored, (data, data, out), strict=True)
        ]
        strides = [array[0].size for array in stored]
        blas.check(
            f"{prefix}gemvStridedBatched{width}",
            *(*head, places[0].address, lda, strides[0], places[1].address, incx, strides[1]),
            *(scalar(beta, scale), places[2].address, incy, strides[2], batch),
        )
        results = list(places[2].read())
    else:
        many = [Many(blas, x, dtype) for x, dtype in zip(stored, (data, data, out), strict=True)]
        blas.check(
            f"{prefix}gemvBatched{width}",
            *(*head, many[0].address, lda, many[1].address, incx),
            *(scalar(beta, scale), many[2].address, incy, batch),
        )
        results = many[2].read()
    for i, got in enumerate(results):
        want = 2 * product(op(trans, a[i]), x[i][:, None])[:, 0] + (beta * y[i] if beta else 0)
        np.testing.assert_array_equal(gathered(wide(got), incy), want)


def test_the_reference_checks_gemv_of_many(ours) -> None:
    """cuBLAS 13.1 checks the leading dimension only."""
    many = Many(ours, [np.ones(16)] * 2, np.float32)
    good = {"trans": N, "m": 2, "n": 2, "lda": 2, "incx": 1, "incy": 1, "batch": 2}
    for changed in (
        {"trans": 9}, {"m": -1}, {"n": -1}, {"lda": 1}, {"incx": 0}, {"incy": 0}, {"batch": -1}
    ):  # fmt: skip
        v = {**good, **changed}
        status = ours.status(
            "SgemvBatched",
            *(v["trans"], v["m"], v["n"], scalar(1), many.address, v["lda"]),
            *(many.address, v["incx"], scalar(1), many.address, v["incy"], v["batch"]),
        )
        assert status == Status.INVALID_VALUE, changed
    for read in many.read():
        np.testing.assert_array_equal(read, 1)


EX = [
    (HALF, HALF, ComputeType.COMPUTE_16F, HALF),
    (HALF, np.float32, ComputeType.COMPUTE_32F, np.float32),
    (BF16, BF16, ComputeType.COMPUTE_32F_FAST_16BF, np.float32),
    (np.int8, np.float32, ComputeType.COMPUTE_32F, np.float32),
    (np.int8, np.int32, ComputeType.COMPUTE_32I, np.int32),
    (np.float64, np.float64, ComputeType.COMPUTE_64F_PEDANTIC, np.float64),
    (np.complex64, np.complex64, ComputeType.COMPUTE_32F_FAST_TF32, np.complex64),
    (np.complex128, np.complex128, ComputeType.COMPUTE_64F, np.complex128),
]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("data", "out", "compute", "scale"), EX)
def test_batched_gemm_ex(blas, rng, data, out, compute, scale, width) -> None:
    (m, n, k), batch = (4, 4, 8), 3
    a, b, c = (whole(rng, (batch, *shape)) for shape in ((k, m), (n, k), (n, m)))
    want = 2 * b @ a - c
    data_type, out_type = CUDA_TYPES[data], CUDA_TYPES[out]
    places = [blas.put(x, dtype) for x, dtype in ((a, data), (b, data), (c, out))]
    blas.check(
        f"GemmStridedBatchedEx{width}",
        *(N, N, m, n, k, scalar(2, scale), places[0].address, data_type, m, m * k),
        *(places[1].address, data_type, k, n * k, scalar(-1, scale)),
        *(places[2].address, out_type, m, m * n, batch, compute, GemmAlgo.DEFAULT),
    )
    np.testing.assert_array_equal(wide(places[2].read()), want)
    many = [Many(blas, list(x), dtype) for x, dtype in ((a, data), (b, data), (c, out))]
    blas.check(
        f"GemmBatchedEx{width}",
        *(N, N, m, n, k, scalar(2, scale), many[0].address, data_type, m),
        *(many[1].address, data_type, k, scalar(-1, scale), many[2].address, out_type, m),
        *(batch, compute, GemmAlgo.DEFAULT),
    )
    np.testing.assert_array_equal(wide(np.array(many[2].read())), want)


@pytest.mark.parametrize("name", ["SgemmEx", "CgemmEx", "Cgemm3mEx"])
def test_typed_gemm_ex(blas, rng, name) -> None:
    """Types of A and B, and of C, that go together, and some that do not."""
    scale = DTYPES[name[0]]
    (m, n, k) = (4, 4, 8)
    a, b, c = whole(rng, (k, m)), whole(rng, (n, k)), whole(rng, (n, m))
    right = {
        "S": {(HALF, HALF), (HALF, np.float32), (BF16, BF16), (BF16, np.float32),
              (np.int8, np.float32), (np.float32, np.float32)},
        "C": {(np.complex64, np.complex64)},
    }[name[0]]  # fmt: skip
    for data, out in itertools.product(CUDA_TYPES, CUDA_TYPES):
        places = [blas.put(x, dtype) for x, dtype in ((a, data), (b, data), (c, out))]
        status = blas.status(
            name,
            *(N, N, m, n, k, scalar(2, scale), places[0].address, CUDA_TYPES[data], m),
            *(places[1].address, CUDA_TYPES[data], k, scalar(-1, scale)),
            *(places[2].address, CUDA_TYPES[out], m),
        )
        if (data, out) in right:
            assert status == 0, (data, out)
            np.testing.assert_array_equal(wide(places[2].read()), 2 * b @ a - c)
        else:
            assert status == Status.NOT_SUPPORTED, (data, out)


def test_complex_int8(blas, rng) -> None:
    """Real and imaginary parts side by side, the product in complex64."""
    parts = rng.integers(-5, 6, (4, 4, 2)).astype(np.int8)
    a = parts[..., 0] + 1j * parts[..., 1]
    memory, c = blas.put(parts, np.int8), blas.put(np.zeros((4, 4)), np.complex64)
    blas.check(
        "CgemmEx",
        *(N, C, 4, 4, 4, scalar(1, np.complex64), memory.address, CudaDataType.C_8I, 4),
        *(memory.address, CudaDataType.C_8I, 4, scalar(0, np.complex64)),
        *(c.address, CudaDataType.C_32F, 4),
    )
    np.testing.assert_array_equal(c.read(), (a.T @ a.conj()).T)


# --- groups --------------------------------------------------------------------------------------


def grouped(blas: BlasLibrary, name: str, data: Any, extra: tuple = (), **changed: Any) -> Any:
    """Two groups, of two products and of one, with sizes of their own."""
    integer = ctypes.c_int64 if name.endswith("_64") else ctypes.c_int
    rng = np.random.default_rng(5)
    shapes, members = [(3, 2, 4), (2, 5, 3)], [2, 1]
    operations = [(N, T), (T, N)]
    a, b, c = [], [], []
    for (m, n, k), (transa, transb), count in zip(shapes, operations, members, strict=True):
        for _ in range(count):
            a.append(whole(rng, (m, k) if transa == N else (k, m)))
            b.append(whole(rng, (k, n) if transb == N else (n, k)))
            c.append(whole(rng, (m, n)))
    firsts = [0, 2]
    values = {
        "transa": [x[0] for x in operations], "transb": [x[1] for x in operations],
        "m": [s[0] for s in shapes], "n": [s[1] for s in shapes], "k": [s[2] for s in shapes],
        "lda": [a[i].shape[0] for i in firsts], "ldb": [b[i].shape[0] for i in firsts],
        "ldc": [c[i].shape[0] for i in firsts], "size": members, "count": 2, **changed,
    }  # fmt: skip
    many = [Many(blas, [x.T for x in arrays], data) for arrays in (a, b, c)]

    def ints(key: str) -> Any:
        kind = ctypes.c_int if key.startswith("trans") else integer
        return ctypes.cast((kind * 2)(*values[key]), ctypes.c_void_p)

    scale = np.float32 if data in (HALF, BF16) else data
    alphas, betas = np.array([2, -1], scale), np.array([-1, 0.5], scale)
    type_ = (CUDA_TYPES[data],) if "Ex" in name else ()
    status = blas.status(
        name,
        *(ints("transa"), ints("transb"), ints("m"), ints("n"), ints("k"), alphas.ctypes.data),
        *(many[0].address, *type_, ints("lda"), many[1].address, *type_, ints("ldb")),
        *(betas.ctypes.data, many[2].address, *type_, ints("ldc")),
        *(values["count"], ints("size"), *extra),
    )
    want = []
    for i, group in enumerate([0, 0, 1]):
        transa, transb = operations[group]
        left, right = op(Operation(transa), a[i]), op(Operation(transb), b[i])
        want.append(alphas[group].item() * left @ right + betas[group].item() * c[i])
    return status, [wide(x.T) for x in many[2].read()], want, c


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", "SD")
def test_gemm_grouped(blas, letter, width) -> None:
    status, got, want, _ = grouped(blas, f"{letter}gemmGroupedBatched{width}", DTYPES[letter])
    assert status == 0
    for left, right in zip(got, want, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("data", [HALF, BF16, np.float32, np.float64])
def test_gemm_grouped_ex(blas, data, width) -> None:
    compute = ComputeType.COMPUTE_64F if data is np.float64 else ComputeType.COMPUTE_32F
    status, got, want, _ = grouped(blas, f"GemmGroupedBatchedEx{width}", data, (compute,))
    assert status == 0
    for left, right in zip(got, want, strict=True):
        np.testing.assert_array_equal(left, right)


def test_types_of_grouped_products(blas) -> None:
    """Fewer than one product at a time takes."""
    for data, compute in itertools.product(CUDA_TYPES, ComputeType):
        right = compute in {
            HALF: {ComputeType.COMPUTE_32F},
            BF16: {ComputeType.COMPUTE_32F},
            np.float32: {
                ComputeType.COMPUTE_32F,
                ComputeType.COMPUTE_32F_PEDANTIC,
                ComputeType.COMPUTE_32F_FAST_TF32,
            },
            np.float64: {ComputeType.COMPUTE_64F},
        }.get(data, set())
        status = grouped(blas, "GemmGroupedBatchedEx", data, (compute,))[0]
        assert status == (0 if right else Status.NOT_SUPPORTED), (data, compute)


@pytest.mark.parametrize(
    "changed",
    [
        {"count": -1}, {"size": [2, -1]}, {"m": [3, -1]}, {"lda": [3, 1]}, {"transa": [N, 9]},
        {"ldc": [2, 2]},
    ],
)  # fmt: skip
def test_wrong_groups_of_the_reference(ours, changed) -> None:
    """Nothing is computed, in the groups that are right neither."""
    status, got, _, before = grouped(ours, "SgemmGroupedBatched", np.float32, **changed)
    assert status == Status.INVALID_VALUE
    for left, right in zip(got, before, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("letter", DTYPES)
def test_trsm_batched(blas, rng, letter) -> None:
    dtype, (m, n), batch = DTYPES[letter], (3, 4), 3
    a = [(np.tril(random(rng, (m, m), dtype)) + 3 * np.eye(m)).astype(dtype) for _ in range(batch)]
    b = [random(rng, (m, n), dtype) for _ in range(batch)]
    left = Many(blas, [column_major(x, m) for x in a], dtype)
    right = Many(blas, [column_major(x, m + 1) for x in b], dtype)
    blas.check(
        f"{letter}trsmBatched",
        *(0, 0, C, 0, m, n, scalar(2, dtype), left.address, m, right.address, m + 1, batch),
    )
    for i, got in enumerate(right.read()):
        assert_close(product(a[i].conj().T, got[:, :m].T), 2 * b[i], dtype, 4 * m)


@pytest.mark.parametrize(("transa", "transb", "transc"), list(itertools.product([N, T], repeat=3)))
@pytest.mark.parametrize(
    ("biases", "mult", "shift"),
    [((0, 0, 0), 1, 2), ((1, 2, 3), 3, 4), ((3, 9, 100), 1, 5), ((200, 3, 10), -1, 6)],
)
def test_uint8_gemm(blas, rng, transa, transb, transc, biases, mult, shift) -> None:
    (m, n, k) = (4, 8, 4)
    a = rng.integers(0, 256, (m, k) if transa == N else (k, m))
    b = rng.integers(0, 256, (k, n) if transb == N else (n, k))
    shape = (m, n) if transc == N else (n, m)
    places = [blas.put(x.T, np.uint8) for x in (a, b, np.zeros(shape))]
    blas.check(
        "Uint8gemmBias",
        *(transa, transb, transc, m, n, k, places[0].address, biases[0], a.shape[0]),
        *(places[1].address, biases[1], b.shape[0], places[2].address, biases[2], shape[0]),
        *(mult, shift),
    )
    total = (op(transa, a) - biases[0]) @ (op(transb, b) - biases[1]) + biases[2]
    want = np.clip((total * mult + (1 << shift >> 1)) >> shift, 0, 255)  # halves up
    np.testing.assert_array_equal(op(transc, places[2].read().T), want)
