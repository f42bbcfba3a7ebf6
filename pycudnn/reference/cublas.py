"""cublas_api.h: vectors and column-major matrices.

A matrix of m rows and n columns with leading dimension ld has element (i, j) at ``i + j * ld``: a
NumPy view whose first axis has stride 1. NumPy gives such views to BLAS as they are, transposed or
not, so a product is computed in place without copies.

The rules that hold for every function: sizes must not be negative and a leading dimension must be
at least the number of rows stored, else INVALID_VALUE; where beta is 0 the old result is not read,
and where alpha is 0 the operands are not; a negative increment walks a vector backwards from its
end. Scalars and results are read and written at the address given, so host and device pointer mode
are one. Each function exists with 32-bit and (``_64``) with 64-bit integers.

Statuses are those of cuBLAS 13.1 on a GPU, but for what that one lets pass against its own
documentation, and which here is INVALID_VALUE: an increment of 0, negative sizes in gemv, and a
workspace that is not aligned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from pycudnn.abi.cublas_enums import (
    AtomicsMode,
    ComputeType,
    CudaDataType,
    GemmAlgo,
    Math,
    Operation,
    PointerMode,
)
from pycudnn.abi.cublas_enums import Status as CublasStatus

from .memory import blend, raw
from .parallel import matmul
from .runtime import Status, implements, opaque

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

# The cuBLAS whose headers and behaviour this library follows.
MAJOR, MINOR, PATCH = 13, 10, 0
VERSION = MAJOR * 10000 + MINOR * 100 + PATCH

FLOAT32: DType = np.dtype(np.float32)
FLOAT64: DType = np.dtype(np.float64)
COMPLEX64: DType = np.dtype(np.complex64)
COMPLEX128: DType = np.dtype(np.complex128)
FLOAT16: DType = np.dtype(np.float16)
BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)
INT8: DType = np.dtype(np.int8)
INT32: DType = np.dtype(np.int32)


def _invalid(text: str) -> Status:
    return Status(CublasStatus.INVALID_VALUE, text)


# --- the handle ----------------------------------------------------------------------------------


@opaque("cublasHandle_t", "cublasCreate_v2", "cublasDestroy_v2")
@dataclass
class BlasHandle:
    """The library context: settings, of which none changes a result here."""

    stream: int = 0
    math_mode: int = Math.DEFAULT_MATH
    pointer_mode: int = PointerMode.HOST
    atomics_mode: int = AtomicsMode.NOT_ALLOWED


@implements("cublasSetStream_v2")
def set_stream(handle: BlasHandle, stream: int) -> None:
    """Remember the stream. Calls are synchronous, so nothing else follows from it."""
    handle.stream = stream


@implements("cublasGetStream_v2")
def get_stream(handle: BlasHandle, out: int) -> None:
    """The stream that was set last, 0 at first."""
    _write(out, ctypes.c_void_p, handle.stream)


@implements("cublasSetWorkspace_v2")
def set_workspace(handle: BlasHandle, workspace: int, size: int) -> None:
    """A workspace of the caller's, aligned to 256 bytes. Products here need none."""
    if workspace % 256:
        raise _invalid(f"workspace {workspace:#x} is not a multiple of 256")


_MATH_FLAG = Math.MATH_DISALLOW_REDUCED_PRECISION_REDUCTION


@implements("cublasSetMathMode")
def set_math_mode(handle: BlasHandle, mode: int) -> None:
    """Which arithmetic the GPU may use. Here float32 and float64 are always computed as such."""
    if mode & ~_MATH_FLAG not in tuple(Math):
        raise _invalid(f"math mode is {mode}, must be a cublasMath_t")
    handle.math_mode = mode


@implements("cublasGetMathMode")
def get_math_mode(handle: BlasHandle, out: int) -> None:
    """What was set."""
    _write(out, ctypes.c_int, handle.math_mode)


@implements("cublasSetPointerMode_v2")
def set_pointer_mode(handle: BlasHandle, mode: int) -> None:
    """Whether scalars and results lie on the host or on the device: here in one memory."""
    if mode not in tuple(PointerMode):
        raise _invalid(f"pointer mode is {mode}, must be HOST (0) or DEVICE (1)")
    handle.pointer_mode = mode


@implements("cublasGetPointerMode_v2")
def get_pointer_mode(handle: BlasHandle, out: int) -> None:
    """What was set."""
    _write(out, ctypes.c_int, handle.pointer_mode)


@implements("cublasSetAtomicsMode")
def set_atomics_mode(handle: BlasHandle, mode: int) -> None:
    """Whether sums may be taken in an order that varies. Here it never does."""
    if mode not in tuple(AtomicsMode):
        raise _invalid(f"atomics mode is {mode}, must be 0 or 1")
    handle.atomics_mode = mode


@implements("cublasGetAtomicsMode")
def get_atomics_mode(handle: BlasHandle, out: int) -> None:
    """What was set."""
    _write(out, ctypes.c_int, handle.atomics_mode)


@implements("cublasGetVersion_v2")
def get_version(handle: BlasHandle, out: int) -> None:
    """MAJOR * 10000 + MINOR * 100 + PATCH."""
    _write(out, ctypes.c_int, VERSION)


@implements("cublasGetProperty")
def get_property(property_type: int, out: int) -> None:
    """Major version, minor version or patch level, for property types 0, 1, 2."""
    if property_type not in (0, 1, 2):
        raise _invalid(f"type is {property_type}, must be 0, 1 or 2")
    _write(out, ctypes.c_int, (MAJOR, MINOR, PATCH)[property_type])


# C strings must outlive the call: one buffer a status, made once.
_STATUS_NAMES = {
    int(status): ctypes.create_string_buffer(f"CUBLAS_STATUS_{status.name}".encode())
    for status in CublasStatus
}
_STATUS_TEXTS = {
    int(status): ctypes.create_string_buffer(status.name.lower().replace("_", " ").encode())
    for status in CublasStatus
}
_UNKNOWN = ctypes.create_string_buffer(b"unrecognized status")


@implements("cublasGetStatusName")
def get_status_name(status: int) -> int:
    """The address of the status's C name."""
    return ctypes.addressof(_STATUS_NAMES.get(status, _UNKNOWN))


@implements("cublasGetStatusString")
def get_status_string(status: int) -> int:
    """The address of a text that says what the status means."""
    return ctypes.addressof(_STATUS_TEXTS.get(status, _UNKNOWN))


# --- the caller's memory -------------------------------------------------------------------------


def _write(address: int, c_type: Any, value: Any) -> None:
    if not address:
        raise _invalid("an out-pointer is NULL")
    c_type.from_address(address).value = value


def _array(
    address: int, dtype: DType, shape: tuple[int, ...], steps: tuple[int, ...], name: str
) -> Array:
    """Memory at `address` as a view; `steps` are positive strides in elements."""
    if 0 in shape:
        return np.empty(shape, dtype)
    if not address:
        raise _invalid(f"{name} is NULL")
    item = dtype.itemsize
    extent = item * (1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)))
    return np.ndarray(shape, dtype, raw(address, extent), 0, [item * step for step in steps])


def _scalar(address: int, dtype: DType, name: str) -> Any:
    return _array(address, dtype, (1,), (1,), name)[0]


def _vector(address: int, dtype: DType, n: int, inc: int, name: str) -> Array:
    """n elements that lie `inc` apart, from the last one to the first if `inc` is negative."""
    if inc == 0:
        raise _invalid(f"the increment of {name} is 0")
    forward = _array(address, dtype, (max(n, 0),), (abs(inc),), name)
    return forward if inc > 0 else forward[::-1]


def _matrix(address: int, dtype: DType, rows: int, columns: int, ld: int, name: str) -> Array:
    """A column-major matrix: element (i, j) lies at i + j * ld."""
    _check_leading(ld, rows, name)
    return _array(address, dtype, (rows, columns), (1, ld), name)


def _check_leading(ld: int, rows: int, name: str) -> None:
    if ld < max(1, rows):
        raise _invalid(f"the leading dimension of {name} is {ld}, must be at least {max(1, rows)}")


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 0:
            raise _invalid(f"{name} is {size}, must not be negative")


def _check_operation(operation: int, name: str) -> None:
    if operation not in (Operation.N, Operation.T, Operation.C):
        raise _invalid(f"{name} is {operation}, must be N (0), T (1) or C (2)")


def _op(operation: int, matrix: Array) -> Array:
    """The matrix itself, its transpose or its conjugate transpose, in the last two axes."""
    if operation == Operation.N:
        return matrix
    transposed = matrix.swapaxes(-1, -2)
    return (
        transposed.conj() if operation == Operation.C and matrix.dtype.kind == "c" else transposed
    )


# --- matrix products -----------------------------------------------------------------------------


class _Operand(NamedTuple):
    """A column-major matrix argument, or as many as a batch has, `stride` elements apart."""

    address: int
    dtype: DType
    ld: int
    stride: int
    name: str

    def view(self, batch: int, rows: int, columns: int) -> Array:
        """(batch, rows, columns)."""
        if self.stride < 0:
            raise _invalid(f"the stride of {self.name} is {self.stride}, must not be negative")
        return _array(
            self.address, self.dtype, (batch, rows, columns), (self.stride, 1, self.ld), self.name
        )


def _products(
    compute: DType,
    operations: tuple[int, int],
    sizes: tuple[int, int, int],
    alpha: int,
    a: _Operand,
    b: _Operand,
    beta: int,
    c: _Operand,
    batch: int = 1,
    scale: DType | None = None,
) -> None:
    """``C = alpha * op(A) op(B) + beta * C`` for each member of the batch.

    op(A) is m x k, op(B) is k x n and C is m x n; the products are computed in the type `compute`,
    the scalars are of the type `scale` (by default the same).
    """
    m, n, k = sizes
    _check_operation(operations[0], "transa")
    _check_operation(operations[1], "transb")
    _check_sizes(m=m, n=n, k=k, batchCount=batch)
    shape_a = (m, k) if operations[0] == Operation.N else (k, m)
    shape_b = (k, n) if operations[1] == Operation.N else (n, k)
    for operand, rows in ((a, shape_a[0]), (b, shape_b[0]), (c, m)):
        _check_leading(operand.ld, rows, operand.name)
    if not m * n * batch:
        return
    factor = _scalar(alpha, scale or compute, "alpha")
    old_factor = _scalar(beta, scale or compute, "beta")
    out = c.view(batch, m, n)
    if factor == 0 or k == 0:
        blend(out, np.zeros(out.shape, compute), 1, old_factor)
        return
    left = _op(operations[0], a.view(batch, *shape_a)).astype(compute, copy=False)
    right = _op(operations[1], b.view(batch, *shape_b)).astype(compute, copy=False)
    if old_factor == 0 and factor == 1 and out.dtype == compute:
        matmul(left, right, out)
    else:
        blend(out, matmul(left, right), factor, old_factor)


def gemm(
    dtype: DType,
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    beta: int,
    c: int,
    ldc: int,
) -> None:
    """``C = alpha * op(A) op(B) + beta * C``: op(A) is m x k, op(B) k x n, C m x n."""
    _products(
        dtype,
        (transa, transb),
        (m, n, k),
        alpha,
        _Operand(a, dtype, lda, 0, "A"),
        _Operand(b, dtype, ldb, 0, "B"),
        beta,
        _Operand(c, dtype, ldc, 0, "C"),
    )


def gemm_strided_batched(
    dtype: DType,
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    lda: int,
    stride_a: int,
    b: int,
    ldb: int,
    stride_b: int,
    beta: int,
    c: int,
    ldc: int,
    stride_c: int,
    batch: int,
) -> None:
    """The same for `batch` products whose matrices lie a stride apart; stride 0 repeats one."""
    _products(
        dtype,
        (transa, transb),
        (m, n, k),
        alpha,
        _Operand(a, dtype, lda, stride_a, "A"),
        _Operand(b, dtype, ldb, stride_b, "B"),
        beta,
        _Operand(c, dtype, ldc, stride_c, "C"),
        batch,
    )


_CUDA_TYPES: dict[int, DType] = {
    CudaDataType.R_16F: FLOAT16,
    CudaDataType.R_16BF: BFLOAT16,
    CudaDataType.R_32F: FLOAT32,
    CudaDataType.R_64F: FLOAT64,
    CudaDataType.C_32F: COMPLEX64,
    CudaDataType.C_64F: COMPLEX128,
    CudaDataType.R_8I: INT8,
    CudaDataType.R_32I: INT32,
}
_TO_HALF = {(FLOAT16, FLOAT16)}
_TO_FLOAT = {
    (FLOAT16, FLOAT16),
    (BFLOAT16, BFLOAT16),
    (INT8, FLOAT32),
    (FLOAT16, FLOAT32),
    (BFLOAT16, FLOAT32),
    (FLOAT32, FLOAT32),
    (COMPLEX64, COMPLEX64),
}
_TO_DOUBLE = {(FLOAT64, FLOAT64), (COMPLEX128, COMPLEX128)}
# Compute type -> the pairs (type of A and B, type of C), and the type of alpha and beta.
_GEMM_EX: dict[int, tuple[set[tuple[DType, DType]], DType]] = {
    ComputeType.COMPUTE_16F: (_TO_HALF, FLOAT16),
    ComputeType.COMPUTE_16F_PEDANTIC: (_TO_HALF, FLOAT16),
    ComputeType.COMPUTE_32F: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_PEDANTIC: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_FAST_16F: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_FAST_16BF: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_FAST_TF32: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_EMULATED_16BFX9: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_64F: (_TO_DOUBLE, FLOAT64),
    ComputeType.COMPUTE_64F_PEDANTIC: (_TO_DOUBLE, FLOAT64),
    ComputeType.COMPUTE_64F_EMULATED_FIXEDPOINT: (_TO_DOUBLE, FLOAT64),
    ComputeType.COMPUTE_32I: ({(INT8, INT32)}, INT32),
    ComputeType.COMPUTE_32I_PEDANTIC: ({(INT8, INT32)}, INT32),
}


def gemm_ex(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    a_type: int,
    lda: int,
    b: int,
    b_type: int,
    ldb: int,
    beta: int,
    c: int,
    c_type: int,
    ldc: int,
    compute_type: int,
    algo: int,
) -> None:
    """gemm with a type for each matrix, and one for the arithmetic and the scalars.

    Half types are computed in float32, whatever the compute type; int8 exactly.
    """
    _check_sizes(m=m, n=n, k=k)
    for name, number in (("Atype", a_type), ("Btype", b_type), ("Ctype", c_type)):
        if number not in tuple(CudaDataType):
            raise _invalid(f"{name} is {number}, must be a cudaDataType_t")
    if algo not in tuple(GemmAlgo):
        raise _invalid(f"algo is {algo}, must be a cublasGemmAlgo_t")
    in_type, out_type = _CUDA_TYPES.get(a_type), _CUDA_TYPES.get(c_type)
    pairs, scale = _GEMM_EX.get(compute_type, (set(), FLOAT32))
    if in_type is None or out_type is None or a_type != b_type or (in_type, out_type) not in pairs:
        raise Status(
            CublasStatus.NOT_SUPPORTED,
            f"no product of types {a_type}, {b_type} into {c_type} in compute type {compute_type}",
        )
    compute: DType = {FLOAT16: FLOAT32, BFLOAT16: FLOAT32, INT8: FLOAT64}.get(in_type, in_type)
    if in_type.kind == "c":
        scale = in_type
    _products(
        compute,
        (transa, transb),
        (m, n, k),
        alpha,
        _Operand(a, in_type, lda, 0, "A"),
        _Operand(b, in_type, ldb, 0, "B"),
        beta,
        _Operand(c, out_type, ldc, 0, "C"),
        scale=scale,
    )


def geam(
    dtype: DType,
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    beta: int,
    b: int,
    ldb: int,
    c: int,
    ldc: int,
) -> None:
    """``C = alpha * op(A) + beta * op(B)``; C may be A or B where that one is not transposed."""
    operands = []
    for operation, address, ld, scale, name in (
        (transa, a, lda, alpha, "A"),
        (transb, b, ldb, beta, "B"),
    ):
        _check_operation(operation, f"trans{name.lower()}")
        _check_sizes(m=m, n=n)
        if c == address and c and (operation != Operation.N or ld != ldc):
            raise _invalid(f"C may be {name} only if {name} is not transposed and ld{name} is ldc")
        _check_leading(ld, m if operation == Operation.N else n, name)
        operands.append((operation, address, ld, scale, name))
    out = _matrix(c, dtype, m, n, ldc, "C")
    if not out.size:
        return
    total = np.zeros(out.shape, dtype)
    for operation, address, ld, scale, name in operands:
        factor = _scalar(scale, dtype, "alpha or beta")
        if factor != 0:
            rows, columns = (m, n) if operation == Operation.N else (n, m)
            total += factor * _op(operation, _matrix(address, dtype, rows, columns, ld, name))
    out[...] = total


# --- a matrix and vectors ------------------------------------------------------------------------


def gemv(
    dtype: DType,
    handle: BlasHandle,
    trans: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
) -> None:
    """``y = alpha * op(A) x + beta * y``; A is m x n."""
    _check_operation(trans, "trans")
    _check_sizes(m=m, n=n)
    matrix = _op(trans, _matrix(a, dtype, m, n, lda, "A"))
    right = _vector(x, dtype, matrix.shape[1], incx, "x")
    out = _vector(y, dtype, matrix.shape[0], incy, "y")
    if m == 0 or n == 0:
        return  # as in BLAS, y is not even scaled
    factor, old_factor = _scalar(alpha, dtype, "alpha"), _scalar(beta, dtype, "beta")
    product = np.matmul(matrix, right) if factor != 0 else np.zeros(out.shape, dtype)
    blend(out, product, factor, old_factor)


def ger(
    dtype: DType,
    handle: BlasHandle,
    m: int,
    n: int,
    alpha: int,
    x: int,
    incx: int,
    y: int,
    incy: int,
    a: int,
    lda: int,
) -> None:
    """``A = alpha * x y^T + A``; A is m x n."""
    _check_sizes(m=m, n=n)
    left = _vector(x, dtype, m, incx, "x")
    right = _vector(y, dtype, n, incy, "y")
    matrix = _matrix(a, dtype, m, n, lda, "A")
    if matrix.size and (factor := _scalar(alpha, dtype, "alpha")) != 0:
        matrix += factor * np.outer(left, right)


# --- vectors -------------------------------------------------------------------------------------


def axpy(
    dtype: DType, handle: BlasHandle, n: int, alpha: int, x: int, incx: int, y: int, incy: int
) -> None:
    """``y = alpha * x + y``."""
    source, out = _vector(x, dtype, n, incx, "x"), _vector(y, dtype, n, incy, "y")
    if n > 0 and (factor := _scalar(alpha, dtype, "alpha")) != 0:
        out += factor * source


def copy(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, y: int, incy: int) -> None:
    """``y = x``."""
    _vector(y, dtype, n, incy, "y")[...] = _vector(x, dtype, n, incx, "x")


def swap(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, y: int, incy: int) -> None:
    """x and y exchanged."""
    left, right = _vector(x, dtype, n, incx, "x"), _vector(y, dtype, n, incy, "y")
    left[...], right[...] = right, left.copy()


def dot(
    dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, y: int, incy: int, result: int
) -> None:
    """The sum of x[i] * y[i]; 0 for no elements."""
    left, right = _vector(x, dtype, n, incx, "x"), _vector(y, dtype, n, incy, "y")
    _scalar_out(result, dtype)[0] = np.dot(left, right)


def _scalar_out(address: int, dtype: DType) -> Array:
    return _array(address, dtype, (1,), (1,), "result")


def _forward_vector(address: int, dtype: DType, n: int, inc: int) -> Array:
    """Functions of one vector know no backwards: no elements if n or the increment is below 1."""
    return _vector(address, dtype, n if inc > 0 else 0, max(inc, 1), "x")


def scal(dtype: DType, handle: BlasHandle, n: int, alpha: int, x: int, incx: int) -> None:
    """``x = alpha * x``."""
    vector = _forward_vector(x, dtype, n, incx)
    if vector.size:
        vector *= _scalar(alpha, dtype, "alpha")


def nrm2(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, result: int) -> None:
    """The Euclidean norm, scaled by the largest element so that no square overflows."""
    magnitudes = np.abs(_forward_vector(x, dtype, n, incx)).astype(FLOAT64)
    largest = magnitudes.max(initial=0)
    if 0 < largest < np.inf:
        magnitudes /= largest
        largest *= np.sqrt(np.dot(magnitudes, magnitudes))
    _scalar_out(result, dtype)[0] = largest


def asum(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, result: int) -> None:
    """The sum of the absolute values."""
    _scalar_out(result, dtype)[0] = np.abs(_forward_vector(x, dtype, n, incx)).sum(dtype=dtype)


def _extreme(
    pick: Callable[[Array], np.intp],
    not_a_number: float,
    dtype: DType,
    index_type: Any,
    handle: BlasHandle,
    n: int,
    x: int,
    incx: int,
    result: int,
) -> None:
    """The first index, counted from 1, of the largest or smallest absolute value; 0 if none.

    `not_a_number` stands for a NaN, so that it is never picked while there are numbers.
    """
    magnitudes = np.abs(_forward_vector(x, dtype, n, incx))
    magnitudes[np.isnan(magnitudes)] = not_a_number
    _write(result, index_type, int(pick(magnitudes)) + 1 if magnitudes.size else 0)


# --- the C names ---------------------------------------------------------------------------------

_TYPED: dict[str, Callable[..., None]] = {
    "gemm_v2": gemm,
    "gemmStridedBatched": gemm_strided_batched,
    "geam": geam,
    "gemv_v2": gemv,
    "ger_v2": ger,
    "axpy_v2": axpy,
    "copy_v2": copy,
    "swap_v2": swap,
    "dot_v2": dot,
    "scal_v2": scal,
    "nrm2_v2": nrm2,
    "asum_v2": asum,
}


def _register() -> None:
    """Every function by its C names, for each type and each width of integers."""
    for width, index_type in (("", ctypes.c_int), ("_64", ctypes.c_int64)):
        for letter, dtype in (("S", FLOAT32), ("D", FLOAT64)):
            for name, function in _TYPED.items():
                implements(f"cublas{letter}{name}{width}")(partial(function, dtype))
            for name, pick, nan in (("amax", np.argmax, -1), ("amin", np.argmin, np.inf)):
                extreme = partial(_extreme, pick, nan, dtype, index_type)
                implements(f"cublasI{letter.lower()}{name}_v2{width}")(extreme)
        for letter, dtype in (("C", COMPLEX64), ("Z", COMPLEX128)):
            implements(f"cublas{letter}gemm_v2{width}")(partial(gemm, dtype))
            implements(f"cublas{letter}gemmStridedBatched{width}")(
                partial(gemm_strided_batched, dtype)
            )
        implements(f"cublasGemmEx{width}")(gemm_ex)


_register()
