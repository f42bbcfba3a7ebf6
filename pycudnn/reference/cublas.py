"""The functions of cublas_api.h: matrices are column-major, element (i, j) at i + j * ld.

Scalars and results are read and written where the caller says; host and device are one memory
here, so both pointer modes are served alike. S functions compute in float32, D in float64.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from pycudnn.abi.cublas_enums import (
    AtomicsMode,
    ComputeType,
    CudaDataType,
    Math,
    Operation,
    PointerMode,
)
from pycudnn.abi.cublas_enums import Status as CublasStatus

from .memory import store
from .runtime import Status, implements, opaque

Array = np.ndarray[Any, Any]

# The cuBLAS whose headers and behaviour this library follows.
MAJOR, MINOR, PATCH = 13, 1, 0
VERSION = MAJOR * 10000 + MINOR * 100 + PATCH

_FLOAT = np.dtype(np.float32)
_DOUBLE = np.dtype(np.float64)
_PRECISIONS = (("S", _FLOAT), ("D", _DOUBLE))

_MATRIX_TYPES = {
    CudaDataType.R_32F: _FLOAT,
    CudaDataType.R_64F: _DOUBLE,
    CudaDataType.R_16F: np.dtype(np.float16),
    CudaDataType.R_16BF: np.dtype(ml_dtypes.bfloat16),
    CudaDataType.R_8I: np.dtype(np.int8),
    CudaDataType.R_32I: np.dtype(np.int32),
}
# Compute type -> type of the scalars, and the matrix types (A and B, C) it takes.
_HALVES = ((CudaDataType.R_16F, CudaDataType.R_16F), (CudaDataType.R_16BF, CudaDataType.R_16BF))
_TO_FLOAT = (
    *_HALVES,
    (CudaDataType.R_16F, CudaDataType.R_32F),
    (CudaDataType.R_16BF, CudaDataType.R_32F),
    (CudaDataType.R_8I, CudaDataType.R_32F),
    (CudaDataType.R_32F, CudaDataType.R_32F),
)
_COMPUTE: dict[int, tuple[np.dtype[Any], tuple[tuple[CudaDataType, CudaDataType], ...]]] = {
    ComputeType.COMPUTE_16F: (np.dtype(np.float16), _HALVES[:1]),
    ComputeType.COMPUTE_16F_PEDANTIC: (np.dtype(np.float16), _HALVES[:1]),
    ComputeType.COMPUTE_32F: (_FLOAT, _TO_FLOAT),
    ComputeType.COMPUTE_32F_PEDANTIC: (_FLOAT, _TO_FLOAT),
    ComputeType.COMPUTE_32F_FAST_16F: (_FLOAT, _TO_FLOAT[-1:]),
    ComputeType.COMPUTE_32F_FAST_16BF: (_FLOAT, _TO_FLOAT[-1:]),
    ComputeType.COMPUTE_32F_FAST_TF32: (_FLOAT, _TO_FLOAT[-1:]),
    ComputeType.COMPUTE_64F: (_DOUBLE, ((CudaDataType.R_64F, CudaDataType.R_64F),)),
    ComputeType.COMPUTE_64F_PEDANTIC: (_DOUBLE, ((CudaDataType.R_64F, CudaDataType.R_64F),)),
    ComputeType.COMPUTE_32I: (np.dtype(np.int32), ((CudaDataType.R_8I, CudaDataType.R_32I),)),
    ComputeType.COMPUTE_32I_PEDANTIC: (
        np.dtype(np.int32), ((CudaDataType.R_8I, CudaDataType.R_32I),)
    ),
}  # fmt: skip


@opaque("cublasHandle_t", "cublasCreate_v2", "cublasDestroy_v2")
@dataclass
class Handle:
    """The library context: it remembers its settings, which change no result here."""

    stream: int = 0
    math_mode: int = Math.DEFAULT_MATH
    pointer_mode: int = PointerMode.HOST
    atomics_mode: int = AtomicsMode.NOT_ALLOWED


def _invalid(text: str) -> Status:
    return Status(CublasStatus.INVALID_VALUE, text)


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise _invalid(text)


def _write(address: int, c_type: Any, value: Any) -> None:
    _require(bool(address), "the out-pointer is NULL")
    c_type.from_address(address).value = value


# --- settings -------------------------------------------------------------------------------------


@implements("cublasSetStream_v2")
def _set_stream(handle: Handle, stream: int) -> None:
    handle.stream = stream


@implements("cublasGetStream_v2")
def _get_stream(handle: Handle, out: int) -> None:
    _write(out, ctypes.c_void_p, handle.stream)


@implements("cublasSetWorkspace_v2")
def _set_workspace(handle: Handle, workspace: int, size: int) -> None:
    """Nothing here needs one."""


@implements("cublasGetVersion_v2")
def _get_version(handle: Handle, out: int) -> None:
    _write(out, ctypes.c_int, VERSION)


@implements("cublasGetProperty")
def _get_property(kind: int, out: int) -> None:
    _require(kind in (0, 1, 2), f"type {kind} must be 0, 1 or 2")
    _write(out, ctypes.c_int, (MAJOR, MINOR, PATCH)[kind])


def _setting(name: str, field: str, members: Any, suffix: str = "") -> None:
    """cublasSet<name> and cublasGet<name> over one field of the handle."""

    @implements(f"cublasSet{name}{suffix}")
    def set_(handle: Handle, value: int) -> None:
        # Flags may be added to a math mode.
        plain = value & ~Math.MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
        _require((plain if members is Math else value) in tuple(members), f"{name}: {value}")
        setattr(handle, field, value)

    @implements(f"cublasGet{name}{suffix}")
    def get(handle: Handle, out: int) -> None:
        _write(out, ctypes.c_int, getattr(handle, field))


_setting("MathMode", "math_mode", Math)
_setting("PointerMode", "pointer_mode", PointerMode, "_v2")
_setting("AtomicsMode", "atomics_mode", AtomicsMode)


def _status_text(status: int) -> str:
    try:
        return f"CUBLAS_STATUS_{CublasStatus(status).name}"
    except ValueError:
        return "unknown cuBLAS status"


_texts: dict[int, ctypes.Array[ctypes.c_char]] = {}


@implements("cublasGetStatusName")
def _get_status_name(status: int) -> int:
    text = _texts.setdefault(status, ctypes.create_string_buffer(_status_text(status).encode()))
    return ctypes.addressof(text)


@implements("cublasGetStatusString")
def _get_status_string(status: int) -> int:
    return _get_status_name(status)


# --- memory ---------------------------------------------------------------------------------------


def _elements(address: int, dtype: np.dtype[Any], count: int) -> Array:
    _require(bool(address), "a matrix or vector is NULL")
    buffer = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray((count,), dtype, buffer)


def _matrix(address: int, dtype: np.dtype[Any], rows: int, columns: int, ld: int) -> Array:
    flat = _elements(address, dtype, (columns - 1) * ld + rows)
    return as_strided(flat, (rows, columns), (dtype.itemsize, ld * dtype.itemsize))


def _vector(address: int, dtype: np.dtype[Any], count: int, increment: int) -> Array:
    """n elements; with a negative increment they are walked from the far end, as in BLAS."""
    flat = _elements(address, dtype, 1 + (count - 1) * abs(increment))
    return flat[:: abs(increment)] if increment > 0 else flat[::increment]


def _scalar(address: int, dtype: np.dtype[Any]) -> Any:
    return _elements(address, dtype, 1)[0]


def _apply(operation: int, matrix: Array) -> Array:
    return matrix if operation == Operation.N else matrix.T


def _check_operations(*operations: int) -> None:
    for operation in operations:
        _require(operation in (Operation.N, Operation.T, Operation.C), f"operation {operation}")


def _check_matrix(name: str, rows: int, ld: int) -> None:
    _require(ld >= max(1, rows), f"ld{name} {ld} must be at least max(1, {rows})")


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        _require(size >= 0, f"{name} {size} must not be negative")


def _compute_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Halves are computed in float32, int8 in float64, which holds their sums exactly."""
    if dtype == np.int8:
        return _DOUBLE
    return dtype if dtype in (_FLOAT, _DOUBLE) else _FLOAT


def _blend(out: Array, result: Array, alpha: Any, beta: Any) -> None:
    """out = alpha result + beta out; beta == 0 does not read out."""
    if alpha != 1:
        result = result * result.dtype.type(alpha)
    if beta != 0:
        result = result + result.dtype.type(beta) * out.astype(result.dtype, copy=False)
    store(out, result)


# --- level 3 --------------------------------------------------------------------------------------


def _multiply(a: Array, b: Array, c: Array, alpha: Any, beta: Any) -> None:
    """C = alpha A B + beta C, transposed as a whole so that C is written row by row."""
    dtype = _compute_type(a.dtype)
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    if alpha == 1 and beta == 0 and c.dtype == dtype:
        np.matmul(b.T, a.T, out=c.T)
    else:
        _blend(c.T, np.matmul(b.T, a.T), alpha, beta)


def _gemm(
    transa: int, transb: int, m: int, n: int, k: int, alpha: Any,
    a: int, a_type: np.dtype[Any], lda: int, b: int, b_type: np.dtype[Any], ldb: int, beta: Any,
    c: int, c_type: np.dtype[Any], ldc: int,
) -> None:  # fmt: skip
    """C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C."""
    if m == 0 or n == 0:
        return
    out = _matrix(c, c_type, m, n, ldc)
    if k == 0 or alpha == 0:
        _blend(out, np.zeros((m, n), _compute_type(c_type)), 0, beta)
        return
    a_shape = (m, k) if transa == Operation.N else (k, m)
    b_shape = (k, n) if transb == Operation.N else (n, k)
    _multiply(
        _apply(transa, _matrix(a, a_type, *a_shape, lda)),
        _apply(transb, _matrix(b, b_type, *b_shape, ldb)),
        out, alpha, beta,
    )  # fmt: skip


def _check_gemm(
    transa: int, transb: int, m: int, n: int, k: int, lda: int, ldb: int, ldc: int
) -> None:
    _check_operations(transa, transb)
    _check_sizes(m=m, n=n, k=k)
    _check_matrix("a", m if transa == Operation.N else k, lda)
    _check_matrix("b", k if transb == Operation.N else n, ldb)
    _check_matrix("c", m, ldc)


@implements("cublasGemmEx")
def _gemm_ex(
    handle: Handle, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int,
    a_type: int, lda: int, b: int, b_type: int, ldb: int, beta: int, c: int, c_type: int, ldc: int,
    compute_type: int, algo: int,
) -> None:  # fmt: skip
    """gemm with a type for each matrix; scalars are in the compute type."""
    _check_gemm(transa, transb, m, n, k, lda, ldb, ldc)
    scalar_type, matrix_types = _COMPUTE.get(compute_type, (_FLOAT, ()))
    if a_type != b_type or (a_type, c_type) not in matrix_types:
        raise Status(
            CublasStatus.NOT_SUPPORTED,
            f"A {a_type}, B {b_type}, C {c_type} with compute type {compute_type}",
        )
    types = [_MATRIX_TYPES[CudaDataType(kind)] for kind in (a_type, b_type, c_type)]
    _gemm(
        transa, transb, m, n, k, _scalar(alpha, scalar_type), a, types[0], lda, b, types[1], ldb,
        _scalar(beta, scalar_type), c, types[2], ldc,
    )  # fmt: skip


def _level_3(prefix: str, dtype: np.dtype[Any]) -> None:
    size = dtype.itemsize

    @implements(f"cublas{prefix}gemm_v2")
    def gemm(
        handle: Handle, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int,
        lda: int, b: int, ldb: int, beta: int, c: int, ldc: int,
    ) -> None:  # fmt: skip
        """C = alpha op(A) op(B) + beta C."""
        _check_gemm(transa, transb, m, n, k, lda, ldb, ldc)
        _gemm(
            transa, transb, m, n, k, _scalar(alpha, dtype), a, dtype, lda, b, dtype, ldb,
            _scalar(beta, dtype), c, dtype, ldc,
        )  # fmt: skip

    @implements(f"cublas{prefix}gemmStridedBatched")
    def gemm_strided_batched(
        handle: Handle, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int,
        lda: int, stride_a: int, b: int, ldb: int, stride_b: int, beta: int, c: int, ldc: int,
        stride_c: int, batch: int,
    ) -> None:  # fmt: skip
        """One gemm per batch entry; matrices lie a fixed number of elements apart."""
        _check_gemm(transa, transb, m, n, k, lda, ldb, ldc)
        _check_sizes(batchCount=batch)
        for i in range(batch):
            _gemm(
                transa, transb, m, n, k, _scalar(alpha, dtype), a + i * stride_a * size, dtype,
                lda, b + i * stride_b * size, dtype, ldb, _scalar(beta, dtype),
                c + i * stride_c * size, dtype, ldc,
            )  # fmt: skip

    @implements(f"cublas{prefix}geam")
    def geam(
        handle: Handle, transa: int, transb: int, m: int, n: int, alpha: int, a: int, lda: int,
        beta: int, b: int, ldb: int, c: int, ldc: int,
    ) -> None:  # fmt: skip
        """C = alpha op(A) + beta op(B); a matrix whose factor is 0 is not read."""
        _check_operations(transa, transb)
        _check_sizes(m=m, n=n)
        _check_matrix("a", m if transa == Operation.N else n, lda)
        _check_matrix("b", m if transb == Operation.N else n, ldb)
        _check_matrix("c", m, ldc)
        if m == 0 or n == 0:
            return
        total = np.zeros((m, n), dtype)
        for factor, address, operation, ld in ((alpha, a, transa, lda), (beta, b, transb, ldb)):
            scale = _scalar(factor, dtype)
            if scale != 0:
                shape = (m, n) if operation == Operation.N else (n, m)
                total += scale * _apply(operation, _matrix(address, dtype, *shape, ld))
        _matrix(c, dtype, m, n, ldc)[...] = total


# --- level 2 --------------------------------------------------------------------------------------


def _level_2(prefix: str, dtype: np.dtype[Any]) -> None:
    @implements(f"cublas{prefix}gemv_v2")
    def gemv(
        handle: Handle, trans: int, m: int, n: int, alpha: int, a: int, lda: int, x: int,
        incx: int, beta: int, y: int, incy: int,
    ) -> None:  # fmt: skip
        """y = alpha op(A) x + beta y for A (m x n)."""
        _check_operations(trans)
        _check_sizes(m=m, n=n)
        _check_matrix("a", m, lda)
        _require(incx != 0 and incy != 0, "increments must not be 0")
        if m == 0 or n == 0:
            return
        rows, columns = (m, n) if trans == Operation.N else (n, m)
        matrix = _apply(trans, _matrix(a, dtype, m, n, lda))
        product = matrix @ _vector(x, dtype, columns, incx)
        _blend(_vector(y, dtype, rows, incy), product, _scalar(alpha, dtype), _scalar(beta, dtype))

    @implements(f"cublas{prefix}ger_v2")
    def ger(
        handle: Handle, m: int, n: int, alpha: int, x: int, incx: int, y: int, incy: int, a: int,
        lda: int,
    ) -> None:  # fmt: skip
        """A = A + alpha x y'."""
        _check_sizes(m=m, n=n)
        _check_matrix("a", m, lda)
        _require(incx != 0 and incy != 0, "increments must not be 0")
        if m and n:
            scaled = _scalar(alpha, dtype) * _vector(x, dtype, m, incx)
            _matrix(a, dtype, m, n, lda)[...] += np.outer(scaled, _vector(y, dtype, n, incy))


def _norm(x: Array) -> Any:
    """Scaled by the largest element, so that no square overflows or vanishes."""
    largest = np.abs(x).max()
    if largest == 0 or not np.isfinite(largest):
        return largest
    return largest * np.linalg.norm((x / largest).astype(_DOUBLE))


# --- level 1 --------------------------------------------------------------------------------------


def _level_1(prefix: str, dtype: np.dtype[Any]) -> None:
    @implements(f"cublas{prefix}axpy_v2")
    def axpy(handle: Handle, n: int, alpha: int, x: int, incx: int, y: int, incy: int) -> None:
        """y = alpha x + y."""
        factor = _scalar(alpha, dtype)
        if n > 0 and factor != 0:
            out = _vector(y, dtype, n, incy)
            out += factor * _vector(x, dtype, n, incx)

    @implements(f"cublas{prefix}scal_v2")
    def scal(handle: Handle, n: int, alpha: int, x: int, incx: int) -> None:
        """x = alpha x."""
        if n > 0 and incx > 0:
            out = _vector(x, dtype, n, incx)
            out *= _scalar(alpha, dtype)

    @implements(f"cublas{prefix}copy_v2")
    def copy(handle: Handle, n: int, x: int, incx: int, y: int, incy: int) -> None:
        """y = x."""
        if n > 0:
            _vector(y, dtype, n, incy)[...] = _vector(x, dtype, n, incx)

    @implements(f"cublas{prefix}swap_v2")
    def swap(handle: Handle, n: int, x: int, incx: int, y: int, incy: int) -> None:
        """Exchange x and y."""
        if n > 0:
            left, right = _vector(x, dtype, n, incx), _vector(y, dtype, n, incy)
            left[...], right[...] = right.copy(), left.copy()

    @implements(f"cublas{prefix}dot_v2")
    def dot(handle: Handle, n: int, x: int, incx: int, y: int, incy: int, result: int) -> None:
        """Sum of x[i] y[i]; 0 for n <= 0."""
        value = np.dot(_vector(x, dtype, n, incx), _vector(y, dtype, n, incy)) if n > 0 else 0
        _elements(result, dtype, 1)[0] = value

    def reduction(name: str, reduce: Callable[[Array], Any]) -> None:
        @implements(f"cublas{prefix}{name}_v2")
        def call(handle: Handle, n: int, x: int, incx: int, result: int) -> None:
            value = reduce(_vector(x, dtype, n, incx)) if n > 0 and incx > 0 else 0
            _elements(result, dtype, 1)[0] = value

    reduction("nrm2", _norm)
    reduction("asum", lambda x: np.abs(x).sum())

    def extreme(name: str, find: Callable[[Array], Any]) -> None:
        @implements(f"cublasI{prefix.lower()}{name}_v2")
        def call(handle: Handle, n: int, x: int, incx: int, result: int) -> None:
            found = n > 0 and incx > 0
            index = 1 + int(find(np.abs(_vector(x, dtype, n, incx)))) if found else 0
            _write(result, ctypes.c_int, index)

    extreme("amax", np.argmax)
    extreme("amin", np.argmin)


for _prefix, _dtype in _PRECISIONS:
    _level_1(_prefix, _dtype)
    _level_2(_prefix, _dtype)
    _level_3(_prefix, _dtype)
