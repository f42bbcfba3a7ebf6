"""The caller's vectors and matrices as NumPy arrays, and the checks of what describes them.

A matrix of m rows and n columns with leading dimension ld has element (i, j) at ``i + j * ld``: a
NumPy view whose first axis has stride 1. NumPy gives such views to BLAS as they are, transposed or
not, so a product is computed in place without copies.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np

from pycudnn.abi.cublas_enums import DiagType, FillMode, Operation, SideMode
from pycudnn.abi.cublas_enums import Status as CublasStatus

from ..memory import raw
from ..runtime import Status

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

FLOAT32: DType = np.dtype(np.float32)
FLOAT64: DType = np.dtype(np.float64)
COMPLEX64: DType = np.dtype(np.complex64)
COMPLEX128: DType = np.dtype(np.complex128)
FLOAT16: DType = np.dtype(np.float16)
BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)
INT8: DType = np.dtype(np.int8)
INT32: DType = np.dtype(np.int32)
INT64: DType = np.dtype(np.int64)
COMPLEX_INT8: DType = np.dtype([("real", np.int8), ("imag", np.int8)])

_COMPUTE_TYPES = {
    FLOAT16: FLOAT32, BFLOAT16: FLOAT32, INT8: FLOAT64, COMPLEX_INT8: COMPLEX128,
}  # fmt: skip
_REAL_TYPES = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}


def invalid(text: str) -> Status:
    """cuBLAS's status for an argument that is wrong, to be raised."""
    return Status(CublasStatus.INVALID_VALUE, text)


def not_supported(text: str) -> Status:
    """cuBLAS's status for arguments that are right but not served, to be raised."""
    return Status(CublasStatus.NOT_SUPPORTED, text)


# --- types ---------------------------------------------------------------------------------------


def compute_type(dtype: DType) -> DType:
    """What stored values are computed in: float32 for half types, double for int8 (exact)."""
    return _COMPUTE_TYPES.get(dtype, dtype)


def real_type(dtype: DType) -> DType:
    """The type of the parts of a complex number; a real type is its own."""
    return _REAL_TYPES.get(dtype, dtype)


def computable(stored: Array, dtype: DType | None = None) -> Array:
    """Stored values in the type to compute in (by default their own compute type)."""
    if stored.dtype == COMPLEX_INT8:
        stored = stored["real"] + 1j * stored["imag"]
    return stored.astype(dtype or compute_type(stored.dtype), copy=False)


# --- checks --------------------------------------------------------------------------------------


def check_sizes(**sizes: int) -> None:
    """No size may be negative."""
    for name, size in sizes.items():
        if size < 0:
            raise invalid(f"{name} is {size}, must not be negative")


def check_leading(ld: int, rows: int, name: str) -> None:
    """A leading dimension is at least the number of rows stored, and 1."""
    if ld < max(1, rows):
        raise invalid(f"the leading dimension of {name} is {ld}, must be at least {max(1, rows)}")


def _check_one_of(allowed: tuple[IntEnum, ...], value: int, name: str) -> None:
    if value not in allowed:
        members = ", ".join(f"{member.name} ({member.value})" for member in allowed)
        raise invalid(f"{name} is {value}, must be one of {members}")


def check_operation(operation: int, name: str = "trans") -> None:
    """N, T or C."""
    _check_one_of((Operation.N, Operation.T, Operation.C), operation, name)


def check_uplo(uplo: int) -> None:
    """LOWER or UPPER: FULL names no triangle."""
    _check_one_of((FillMode.LOWER, FillMode.UPPER), uplo, "uplo")


def check_diag(diag: int) -> None:
    """NON_UNIT or UNIT."""
    _check_one_of(tuple(DiagType), diag, "diag")


def check_side(side: int) -> None:
    """LEFT or RIGHT."""
    _check_one_of(tuple(SideMode), side, "side")


# --- views ---------------------------------------------------------------------------------------


def write(address: int, c_type: Any, value: Any) -> None:
    """Write one C value through an out-pointer."""
    if not address:
        raise invalid("an out-pointer is NULL")
    c_type.from_address(address).value = value


def array(
    address: int, dtype: DType, shape: tuple[int, ...], steps: tuple[int, ...], name: str
) -> Array:
    """Memory at `address` as a view; `steps` are positive strides in elements."""
    if 0 in shape:
        return np.empty(shape, dtype)
    if not address:
        raise invalid(f"{name} is NULL")
    item = dtype.itemsize
    extent = item * (1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)))
    return np.ndarray(shape, dtype, raw(address, extent), 0, [item * step for step in steps])


def cell(address: int, dtype: DType, name: str = "result") -> Array:
    """One value, to read or to write as ``cell(...)[0]``."""
    return array(address, dtype, (1,), (1,), name)


def scalar(address: int, dtype: DType, name: str) -> Any:
    """A scalar of the caller's, in the type to compute in; NULL is refused."""
    return computable(cell(address, dtype, name))[0]


def vector(address: int, dtype: DType, n: int, inc: int, name: str) -> Array:
    """n elements that lie `inc` apart, from the last one to the first if `inc` is negative."""
    if inc == 0:
        raise invalid(f"the increment of {name} is 0")
    forward = array(address, dtype, (max(n, 0),), (abs(inc),), name)
    return forward if inc > 0 else forward[::-1]


def forward_vector(address: int, dtype: DType, n: int, inc: int) -> Array:
    """Functions of one vector know no backwards: no elements if n or the increment is below 1."""
    return vector(address, dtype, n if inc > 0 else 0, max(inc, 1), "x")


def matrix(address: int, dtype: DType, rows: int, columns: int, ld: int, name: str) -> Array:
    """A column-major matrix: element (i, j) lies at i + j * ld."""
    check_leading(ld, rows, name)
    return array(address, dtype, (rows, columns), (1, ld), name)


def pointers(address: int, count: int, name: str) -> list[int]:
    """The addresses of `count` matrices or vectors, from an array of pointers."""
    return [int(value) for value in array(address, np.dtype(np.uintp), (count,), (1,), name)]


def op(operation: int, matrix: Array) -> Array:
    """The matrix itself, its transpose or its conjugate transpose, in the last two axes."""
    if operation == Operation.N:
        return matrix
    transposed = matrix.swapaxes(-1, -2)
    return (
        transposed.conj() if operation == Operation.C and matrix.dtype.kind == "c" else transposed
    )


def op_shape(operation: int, rows: int, columns: int) -> tuple[int, int]:
    """The stored shape of a matrix whose op() is rows x columns."""
    return (rows, columns) if operation == Operation.N else (columns, rows)
