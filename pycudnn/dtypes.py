"""Data types: cudnnDataType_t and NumPy's, in both directions."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from pycudnn.abi.cudnn_enums import DataType

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_NUMPY: dict[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.HALF: np.dtype(np.float16),
    DataType.BFLOAT16: BFLOAT16,
    DataType.INT8: np.dtype(np.int8),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.BOOLEAN: np.dtype(np.bool_),
}
_CODES = {dtype: code for code, dtype in _NUMPY.items()}

# Bytes of one element of the packed types, which NumPy has no name for.
_PACKED_BYTES = {DataType.INT8x4: 4, DataType.UINT8x4: 4, DataType.INT8x32: 32}


def to_data_type(dtype: Any, name: str = "dtype") -> DataType:
    """The cudnnDataType_t for a DataType, a NumPy dtype or its name ("float32", "bfloat16").

    TypeError, naming the argument, for anything that cuDNN has no type for.
    """
    if isinstance(dtype, DataType):
        return dtype
    try:
        if dtype is None:  # NumPy takes it for float64
            raise TypeError
        is_name = isinstance(dtype, str) and dtype == "bfloat16"
        return _CODES[BFLOAT16 if is_name else np.dtype(dtype)]
    except (TypeError, ValueError, SyntaxError, KeyError):  # NumPy parses the text of a dtype
        known = ", ".join(str(known) for known in _CODES)
        raise TypeError(f"{name} must be a DataType or one of {known}, got {dtype!r}") from None


def to_numpy(data_type: int) -> np.dtype[Any] | DataType:
    """The NumPy dtype of a cudnnDataType_t, or the DataType itself where NumPy has none."""
    return _NUMPY.get(DataType(data_type), DataType(data_type))


def code(dtype: np.dtype[Any]) -> int:
    """The cudnnDataType_t number of a NumPy dtype, -1 where cuDNN has none (untyped bytes)."""
    return int(_CODES.get(dtype, -1))


@functools.cache
def name(data_type: int) -> str:
    """A readable name of a cudnnDataType_t number; -1 is what cuDNN has no type for."""
    if data_type == -1:
        return "elements that cuDNN has no type for"
    found = _NUMPY.get(DataType(data_type))
    return DataType(data_type).name if found is None else str(found)


def item_bytes(data_type: DataType) -> int:
    """Size of one element in bytes."""
    found = _NUMPY.get(data_type)
    return _PACKED_BYTES.get(data_type, 1) if found is None else found.itemsize


def scalar_bytes(value: Any, data_type: int) -> bytes:
    """One element as a C function reads it: ``value`` in the given data type."""
    dtype = _NUMPY[DataType(data_type)]
    try:
        return np.array(value, dtype=dtype).reshape(()).tobytes()
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"value must be a number that fits {dtype}, got {value!r}") from None
