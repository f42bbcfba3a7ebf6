"""The caller's memory as NumPy arrays, and how results get into it.

Addresses are trusted, as in C: the face above checks sizes before it calls.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from pycudnn.abi.cudnn_enums import DataType

from .runtime import bad_param, not_supported


class Layout(Protocol):
    """What a tensor or filter descriptor tells about memory; strides in elements."""

    @property
    def dtype(self) -> DataType:
        """Of the elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""


_NUMPY_TYPES = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.HALF: np.dtype(np.float16),
    DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    DataType.INT8: np.dtype(np.int8),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.BOOLEAN: np.dtype(np.bool_),
}

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)

_READ_AND_WRITE = 0x200  # PyBUF_WRITE
_from_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_from_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_from_memory.restype = ctypes.py_object


def raw(address: int, size: int) -> memoryview:
    """The `size` bytes at `address`, to read and write; no copy."""
    return _from_memory(address, size, _READ_AND_WRITE)


def numpy_dtype(data_type: DataType) -> np.dtype[Any]:
    """The NumPy type of a cudnnDataType_t; NOT_SUPPORTED where NumPy has none."""
    try:
        return _NUMPY_TYPES[data_type]
    except KeyError:
        name = DataType(data_type).name
        raise not_supported(f"data type {name} is not in the reference library") from None


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that arithmetic on stored values is done in: float64 for doubles, else float32."""
    return _FLOAT64 if dtype == _FLOAT64 else _FLOAT32


def view(address: int, descriptor: Layout, name: str = "data") -> np.ndarray[Any, Any]:
    """The tensor at `address`, laid out as `descriptor` says; no copy. `name` is for errors."""
    shape, strides = descriptor.shape, descriptor.strides
    if not address:
        raise bad_param(f"{name} is NULL")
    if not shape:
        raise bad_param(f"the descriptor of {name} has not been set")
    if min(strides) < 0:
        raise not_supported(f"{name} has a negative stride: strides are {strides}")
    dtype = numpy_dtype(descriptor.dtype)
    size = dtype.itemsize
    extent = size * (1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)))
    memory = raw(address, extent)
    return np.ndarray(shape, dtype, memory, 0, [size * stride for stride in strides])


def load(address: int, descriptor: Layout, name: str = "data") -> np.ndarray[Any, Any]:
    """Like :func:`view`, in the type to compute in: a copy if that differs from the stored type."""
    stored = view(address, descriptor, name)
    return stored.astype(compute_dtype(stored.dtype), copy=False)


def read_scalar(address: int, data_type: DataType, name: str = "scale factor") -> float:
    """A scale factor (alpha, beta): a C double for DOUBLE tensors, a C float for all others."""
    if not address:
        raise bad_param(f"{name} is NULL")
    c_type = ctypes.c_double if data_type == DataType.DOUBLE else ctypes.c_float
    return float(c_type.from_address(address).value)


def write(address: int, c_type: Any, value: Any, name: str = "out-pointer") -> None:
    """Write one C value through an out-pointer."""
    if not address:
        raise bad_param(f"{name} is NULL")
    c_type.from_address(address).value = value


def write_wanted(address: int, c_type: Any, value: Any) -> None:
    """The same where NULL takes nothing."""
    if address:
        write(address, c_type, value)


def write_array(address: int, c_type: Any, values: Any, name: str = "out-array") -> None:
    """Write C values one after another."""
    if not address:
        raise bad_param(f"{name} is NULL")
    (c_type * len(values)).from_address(address)[:] = values


def read_array(address: int, c_type: Any, count: int, name: str = "array") -> tuple[Any, ...]:
    """Read `count` C values that lie one after another."""
    if not address:
        raise bad_param(f"{name} is NULL")
    return tuple((c_type * count).from_address(address))


def store(out: np.ndarray[Any, Any], result: np.ndarray[Any, Any]) -> None:
    """Copy `result` into `out`; into int8 rounded to nearest and saturated, NaN becoming 0."""
    if out.dtype == np.int8:
        result = np.nan_to_num(np.clip(np.rint(result), -128, 127))
    np.copyto(out, result, casting="unsafe")


def destination(out: np.ndarray[Any, Any], alpha: float, beta: float) -> np.ndarray[Any, Any]:
    """Where to compute a result that :func:`blend` then puts into `out`.

    `out` itself when nothing is left to do afterwards, else a new array of the compute type.
    """
    computed = compute_dtype(out.dtype)
    if alpha == 1 and beta == 0 and out.dtype == computed:
        return out
    return np.empty(out.shape, computed)


def blend(
    out: np.ndarray[Any, Any], result: np.ndarray[Any, Any], alpha: float, beta: float
) -> None:
    """cuDNN's rule for every result: ``out = alpha * result + beta * out``.

    With beta == 0 `out` is not read, so a NaN in uninitialised memory does not spread. The type
    of `result` is the one computed in; where `result` is `out` itself it is already in place.
    """
    if result is out:
        return
    if alpha != 1:
        result = result * result.dtype.type(alpha)
    if beta != 0:
        result = result + out.astype(result.dtype, copy=False) * result.dtype.type(beta)
    store(out, result)


def keep_where(
    mask: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """The float32 or float64 `values` where `mask` holds, 0 elsewhere.

    Multiplies their bit patterns by 0 or 1: as fast as ``values * mask``, many times faster than
    ``np.where`` on a random mask, and an infinity or NaN that is not kept leaves an exact 0.
    """
    bits = np.int32 if values.dtype.itemsize == 4 else np.int64
    if out is None:
        out = np.empty(values.shape, values.dtype)
    np.multiply(values.view(bits), mask, out=out.view(bits))
    return out
