"""Element types of cublasLt: those of cuBLAS, and 8-bit floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pycudnn.abi.cublas_enums import ComputeType, CudaDataType
from pycudnn.cublas import _elements
from pycudnn.cublas._elements import BF16, FLOAT16, FLOAT32, INT32, UINT8, Element

__all__ = ["FLOAT32", "FLOATS", "INT32", "UINT8", "Element", "element_of", "type_code"]

_FLOAT8 = {
    CudaDataType.R_8F_E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    CudaDataType.R_8F_E5M2: np.dtype(ml_dtypes.float8_e5m2),
}
_CODES: dict[Any, CudaDataType] = {}
for _code, _dtype in _FLOAT8.items():
    _CODES |= dict.fromkeys((_code, _dtype, str(_dtype)), _code)
FLOATS = (
    FLOAT32, FLOAT16, BF16, *(Element(str(_dtype), _dtype) for _dtype in _FLOAT8.values())
)  # fmt: skip

_SCALES = {
    ComputeType.COMPUTE_16F: CudaDataType.R_16F,
    ComputeType.COMPUTE_16F_PEDANTIC: CudaDataType.R_16F,
    ComputeType.COMPUTE_64F: CudaDataType.R_64F,
    ComputeType.COMPUTE_64F_PEDANTIC: CudaDataType.R_64F,
    ComputeType.COMPUTE_64F_EMULATED_FIXEDPOINT: CudaDataType.R_64F,
    ComputeType.COMPUTE_32I: CudaDataType.R_32I,
    ComputeType.COMPUTE_32I_PEDANTIC: CudaDataType.R_32I,
}


def type_code(value: Any, name: str) -> CudaDataType:
    """A cudaDataType from itself, a dtype or its name; ValueError lists what there is."""
    if isinstance(value, type) and issubclass(value, np.generic):
        value = np.dtype(value)
    try:
        found = _CODES.get(CudaDataType(value) if type(value) is int else value)
    except (TypeError, ValueError):
        found = None
    if found is not None:
        return found
    try:
        return _elements.type_code(value, name)
    except ValueError as error:
        more = ", ".join(str(dtype) for dtype in _FLOAT8.values())
        raise ValueError(str(error).replace("one of ", f"one of {more}, ", 1)) from None


def element_of(code: int) -> Element:
    """The element of a cudaDataType that ``type_code`` returned."""
    dtype = _FLOAT8.get(CudaDataType(code))
    return _elements.element_of(code) if dtype is None else Element(str(dtype), dtype)


def dtype_of(code: int) -> np.dtype[Any] | CudaDataType:
    """The NumPy dtype of a cudaDataType, or itself where NumPy has none."""
    try:
        element = element_of(code)
    except KeyError:
        return CudaDataType(code)
    return element.dtype if element.parts == 1 else CudaDataType(code)


def scale_type_of(compute_type: ComputeType) -> CudaDataType:
    """The real type of alpha and beta of a product computed so."""
    return _SCALES.get(compute_type, CudaDataType.R_32F)
