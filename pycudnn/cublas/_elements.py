"""Element types of cuBLAS operands, and numbers as C reads them."""

from __future__ import annotations

import ctypes
from numbers import Complex, Real
from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi.cublas_enums import ComputeType, CudaDataType
from pycudnn.dtypes import BFLOAT16


class Element(NamedTuple):
    """One element: ``parts`` numbers of ``dtype``, 2 for the pairs that NumPy has no name for."""

    name: str
    dtype: np.dtype[Any]
    parts: int = 1

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.dtype.itemsize * self.parts


def _plain(dtype: Any) -> Element:
    found = np.dtype(dtype)
    return Element(str(found), found)


FLOAT32, FLOAT64, FLOAT16 = _plain("float32"), _plain("float64"), _plain("float16")
COMPLEX64, COMPLEX128, BF16 = _plain("complex64"), _plain("complex128"), _plain(BFLOAT16)
INT8, UINT8, INT32, INT64 = _plain("int8"), _plain("uint8"), _plain("int32"), _plain("int64")

OF_C_TYPE = {
    "float": FLOAT32,
    "double": FLOAT64,
    "cuComplex": COMPLEX64,
    "cuDoubleComplex": COMPLEX128,
    "__half": FLOAT16,
    "__nv_bfloat16": BF16,
    "unsigned char": UINT8,
    "int": INT32,
    "int64_t": INT64,
}

_OF_CODE = {
    CudaDataType.R_32F: FLOAT32,
    CudaDataType.R_64F: FLOAT64,
    CudaDataType.R_16F: FLOAT16,
    CudaDataType.R_16BF: BF16,
    CudaDataType.R_8I: INT8,
    CudaDataType.R_8U: UINT8,
    CudaDataType.R_32I: INT32,
    CudaDataType.C_32F: COMPLEX64,
    CudaDataType.C_64F: COMPLEX128,
    CudaDataType.C_8I: Element("int8 pairs", np.dtype(np.int8), 2),
    CudaDataType.C_16F: Element("float16 pairs", np.dtype(np.float16), 2),
    CudaDataType.C_16BF: Element("bfloat16 pairs", BFLOAT16, 2),
}
_CODES: dict[Any, CudaDataType] = {code: code for code in _OF_CODE}
for _code, _element in _OF_CODE.items():
    if _element.parts == 1:
        _CODES[_element.name] = _CODES[_element.dtype] = _code

_OF_COMPUTE = {
    ComputeType.COMPUTE_16F: FLOAT16,
    ComputeType.COMPUTE_16F_PEDANTIC: FLOAT16,
    ComputeType.COMPUTE_64F: FLOAT64,
    ComputeType.COMPUTE_64F_PEDANTIC: FLOAT64,
    ComputeType.COMPUTE_64F_EMULATED_FIXEDPOINT: FLOAT64,
    ComputeType.COMPUTE_32I: INT32,
    ComputeType.COMPUTE_32I_PEDANTIC: INT32,
}
_COMPLEX_OF = {FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}


def type_code(value: Any, name: str) -> CudaDataType:
    """A cudaDataType from itself, a dtype or its name; ValueError lists what there is."""
    try:
        if type(value) is int:
            value = CudaDataType(value)
        return _CODES[value]
    except (KeyError, TypeError, ValueError):
        known = ", ".join(key for key in _CODES if isinstance(key, str))
        raise ValueError(
            f"{name} must be one of {known} or a CudaDataType, got {value!r}"
        ) from None


def element_of(code: int) -> Element:
    """The element of a cudaDataType that ``type_code`` returned."""
    return _OF_CODE[CudaDataType(code)]


def is_complex(code: int) -> bool:
    """Is this a complex cudaDataType?"""
    return CudaDataType(code).name.startswith("C_")


def default_compute_type(code: int) -> ComputeType:
    """What a product with a result of this type is computed in, where nobody says."""
    if code in (CudaDataType.R_64F, CudaDataType.C_64F):
        return ComputeType.COMPUTE_64F
    return ComputeType.COMPUTE_32I if code == CudaDataType.R_32I else ComputeType.COMPUTE_32F


def scaling_element(compute_type: int, result: int) -> Element:
    """The element of alpha and beta of a product; complex where the result is."""
    element = _OF_COMPUTE.get(ComputeType(compute_type), FLOAT32)
    return _COMPLEX_OF[element] if is_complex(result) and element in _COMPLEX_OF else element


class Room:
    """Host memory for a few elements, aligned as cuDoubleComplex is."""

    def __init__(self, element: Element, count: int = 1) -> None:
        self.element = element
        self.count = count
        self._memory = ctypes.create_string_buffer(element.nbytes * count + 16)
        self.address = (ctypes.addressof(self._memory) + 15) & ~15
        self._array = np.ndarray(
            (count * element.parts,),
            element.dtype,
            memoryview(self._memory),
            self.address - ctypes.addressof(self._memory),
        )

    def write(self, values: Any, name: str) -> None:
        """Put numbers in; TypeError or ValueError for what is none."""
        numbers = [values] if self.count == 1 else _several(values, name, self.count)
        converted = [_number(value, name, self.element) for value in numbers]
        if self.element.parts == 2:
            converted = [part for value in converted for part in (value.real, value.imag)]
        with np.errstate(over="ignore"):  # too large for float32 is infinite, as in C
            self._array[:] = converted

    @property
    def is_finite(self) -> bool:
        """Is no number infinite or NaN, as stored?"""
        return bool(np.isfinite(self._array.astype(np.float64)).all())

    def read(self) -> Any:
        """A Python number, or a tuple of them; bfloat16 and float16 come back as floats."""
        numbers = self._array.astype(np.float32) if self.element is BF16 else self._array
        found = numbers.tolist()
        return found[0] if self.count == 1 else tuple(found)


def _several(values: Any, name: str, count: int) -> list[Any]:
    try:
        found = list(values)
    except TypeError:
        raise TypeError(f"{name} must be {count} numbers, got {values!r}") from None
    if len(found) != count:
        raise ValueError(f"{name} must be {count} numbers, got {len(found)}")
    return found


def _number(value: Any, name: str, element: Element) -> Any:
    try:
        if element.dtype.kind in "iu":
            return _whole(value, name)
        if element.dtype.kind == "c" or element.parts == 2:
            if not isinstance(value, Complex) and not _is_scalar(value):
                raise TypeError
            return complex(value)
        if not isinstance(value, Real) and (isinstance(value, Complex) or not _is_scalar(value)):
            raise TypeError
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit a double, got {value!r}") from None
    except TypeError:
        kind = "number" if element.dtype.kind == "c" or element.parts == 2 else "real number"
        raise TypeError(f"{name} must be a {kind}, got {value!r}") from None


def _is_scalar(value: Any) -> bool:
    """NumPy's scalars of types that are not registered as numbers, and its 0-d arrays."""
    return getattr(value, "shape", None) == () and value.dtype.kind in "fiubV"


def _whole(value: Any, name: str) -> int:
    text = f"{name} must be a whole number of 32 bits for this compute_type, got {value!r}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, (int, np.integer)):
        raise (ValueError if isinstance(value, float) else _NotWhole)(text)
    if not -(2**31) <= value < 2**31:
        raise ValueError(text)
    return int(value)


class _NotWhole(TypeError, ValueError):
    """Neither the type nor the value fits."""
