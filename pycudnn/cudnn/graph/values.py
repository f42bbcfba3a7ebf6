"""Attribute values: Python objects to C arrays and back, each checked by its attribute's type."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
from collections.abc import Callable, Sequence
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np

from pycudnn import dtypes
from pycudnn.abi import cudnn_enums as enums
from pycudnn.abi.cudnn_enums import BackendAttributeType as T
from pycudnn.abi.cudnn_enums import DataType
from pycudnn.abi.types import cudnnFraction_t
from pycudnn.cudnn._objects import finite, member, real
from pycudnn.cudnn.graph.attributes import Attribute

_DATA_TYPE_SINCE = {enums.DataType.BYTE_BOOLEAN: 92500, enums.DataType.FP8_E5M3: 92600}
# Members that count the others, which cuDNN takes for values.
_COUNTS = frozenset(("COUNT", "COUNTS", "MODES_COUNT", "TYPE_COUNT"))
_FLOAT_MAX = (2 - 2**-23) * 2.0**127

ENUMS: dict[T, type[IntEnum]] = {
    T.DATA_TYPE: enums.DataType,
    T.CONVOLUTION_MODE: enums.ConvolutionMode,
    T.HEUR_MODE: enums.BackendHeurMode,
    T.KNOB_TYPE: enums.BackendKnobType,
    T.NAN_PROPOGATION: enums.NanPropagation,
    T.NUMERICAL_NOTE: enums.BackendNumericalNote,
    T.LAYOUT_TYPE: enums.BackendLayoutType,
    T.ATTRIB_NAME: enums.BackendAttributeName,
    T.POINTWISE_MODE: enums.PointwiseMode,
    T.GENSTATS_MODE: enums.GenStatsMode,
    T.BN_FINALIZE_STATS_MODE: enums.BnFinalizeStatsMode,
    T.REDUCTION_OPERATOR_TYPE: enums.ReduceTensorOp,
    T.BEHAVIOR_NOTE: enums.BackendBehaviorNote,
    T.TENSOR_REORDERING_MODE: enums.BackendTensorReordering,
    T.RESAMPLE_MODE: enums.ResampleMode,
    T.PADDING_MODE: enums.PaddingMode,
    T.SIGNAL_MODE: enums.SignalMode,
    T.NORM_MODE: enums.BackendNormMode,
    T.NORM_FWD_PHASE: enums.BackendNormFwdPhase,
    T.RNG_DISTRIBUTION: enums.RngDistribution,
    T.MOE_GROUPED_MATMUL_MODE: enums.MoeGroupedMatmulMode,
    T.RESHAPE_MODE: enums.BackendReshapeMode,
    T.OPERATIONGRAPH_MODE: enums.BackendOperationGraphMode,
    T.CUDA_GRAPH_RETENTION: enums.CudaGraphRetention,
}
_C_TYPES: dict[T, Any] = {
    T.BOOLEAN: ctypes.c_bool,
    T.INT64: ctypes.c_int64,
    T.INT32: ctypes.c_int32,
    T.FLOAT: ctypes.c_float,
    T.DOUBLE: ctypes.c_double,
    T.CHAR: ctypes.c_char,
    T.FRACTION: cudnnFraction_t,
    T.HANDLE: ctypes.c_void_p,
    T.VOID_PTR: ctypes.c_void_p,
    T.BACKEND_DESCRIPTOR: ctypes.c_void_p,
}


def c_type(kind: T) -> Any:
    """The ctypes type of one element."""
    return _C_TYPES.get(kind, ctypes.c_int)


@functools.cache
def _names(kind: type[IntEnum]) -> dict[str, IntEnum]:
    """Members by name in capitals; "A" is as good as "MODE_A"."""
    members = kind.__members__.items()
    short = {name.removeprefix("MODE_").upper(): found for name, found in members}
    return short | {name.upper(): found for name, found in members}


def enum_member(kind: type[IntEnum], value: Any, name: str) -> IntEnum:
    """A member by itself, by number or by name; ValueError lists what there is."""
    if isinstance(value, (IntEnum, bool)) and not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {value!r}")
    if isinstance(value, str):
        value = _names(kind).get(value.upper(), value)
    found = member(kind, value, name)
    if found.name in _COUNTS:
        raise ValueError(f"{name} must be a {kind.__name__}, {found.name} is their number")
    return found


def _integer(value: Any, name: str, spec: Attribute, bits: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None
    low = -(2 ** (bits - 1)) if spec.least is None else spec.least
    if not low <= number < 2 ** (bits - 1):
        raise ValueError(f"{name} must be in [{low}, 2**{bits - 1}), got {number}")
    return number


def _fraction(value: Any, name: str, spec: Attribute) -> cudnnFraction_t:
    try:
        exact = Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise TypeError(f"{name} must be a fraction, got {value!r}") from None
    if spec.least is not None and (exact <= 0 if spec.least else exact < 0):
        raise ValueError(
            f"{name} must be {'positive' if spec.least else 'at least 0'}, got {exact}"
        )
    parts = (exact.numerator, exact.denominator)
    return cudnnFraction_t(*(_integer(part, name, Attribute((T.INT64,)), 64) for part in parts))


def _real(value: Any, name: str, spec: Attribute, kind: T) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    number = real(value, name)
    if math.isnan(number) or (math.isinf(number) and not spec.unbounded):
        wanted = "a number" if spec.unbounded else "a finite number"
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    if kind is T.FLOAT and not math.isinf(number) and abs(number) > _FLOAT_MAX:
        raise ValueError(f"{name} must fit a float32, got {number:g}")
    return number


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def _data_type(value: Any, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, IntEnum):
        return member(enums.DataType, value, name)
    return dtypes.to_data_type(value, name)


def _converter(spec: Attribute, kind: T) -> Callable[[Any, str], Any]:
    if kind is T.DATA_TYPE:
        return _data_type
    if kind in ENUMS:
        return lambda value, name: enum_member(ENUMS[kind], value, name)
    if kind in (T.INT64, T.INT32):
        return lambda value, name: _integer(value, name, spec, 64 if kind is T.INT64 else 32)
    if kind is T.FRACTION:
        return lambda value, name: _fraction(value, name, spec)
    if kind is T.BOOLEAN:
        return _flag
    return lambda value, name: _real(value, name, spec, kind)


def number_of(value: Any, dtype: DataType, name: str) -> float:
    """A number that is passed by value in a data type; ValueError where the type cannot hold it."""
    known = dtypes.to_numpy(dtype)
    if not isinstance(known, np.dtype):
        raise TypeError(f"a number cannot be passed by value as {dtypes.name(dtype)}")
    number = finite(value, name)
    if known.kind in "iub":
        least, most = (0, 1) if known.kind == "b" else (np.iinfo(known).min, np.iinfo(known).max)
        fits = number.is_integer() and least <= number <= most
    else:
        with np.errstate(over="ignore"):
            fits = bool(np.isfinite(np.array(number).astype(known)))
    if not fits:
        raise ValueError(f"{name} must be a number that {known} can hold, got {value!r}")
    return number


def elements(spec: Attribute, value: Any) -> tuple[Any, ...]:
    """The elements of a value that is given for an attribute, their count checked."""
    name = spec.name.name
    if not spec.is_array:
        return (value,)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a sequence, got {value!r}")
    if not spec.low <= len(value) <= spec.high:
        wanted = f"{spec.low} to {spec.high}" if spec.high < 2**31 - 1 else f"at least {spec.low}"
        raise ValueError(f"{name} must have {wanted} elements, got {len(value)}")
    return tuple(value)


def choose_type(spec: Attribute, wanted: Any, value: Any = None) -> T:
    """The type to pass an attribute as: the one asked for, that of fractions, or its first."""
    if wanted is None:
        has_fractions = isinstance(value, Sequence) and any(isinstance(v, Fraction) for v in value)
        return T.FRACTION if T.FRACTION in spec.types and has_fractions else spec.types[0]
    kind = enum_member(T, wanted, "type")
    if kind not in spec.types:
        known = " or ".join(known.name for known in spec.types)
        raise ValueError(f"type of {spec.name.name} must be {known}, got {kind.name}")
    return T(kind)


def to_c(spec: Attribute, kind: T, value: Any, version: int) -> Any:
    """A C array for numbers, flags, enums and text (the rest are objects with addresses).

    ``version`` is the library's: data types that are newer crash it.
    """
    name = spec.name.name
    if kind is T.CHAR:
        data = value.encode() if isinstance(value, str) else value
        if not isinstance(data, bytes) or not data:
            raise TypeError(f"{name} must be text, got {value!r}")
        return (ctypes.c_char * len(data)).from_buffer_copy(data)
    convert = _converter(spec, kind)
    given = elements(spec, value)
    labels = [f"{name}[{i}]" if spec.is_array else name for i in range(len(given))]
    converted = [convert(item, label) for item, label in zip(given, labels, strict=True)]
    if kind is T.DATA_TYPE:
        for code in converted:
            if version < _DATA_TYPE_SINCE.get(code, 0):
                raise ValueError(f"{name} {code.name} needs a newer cuDNN than {version}")
    return (c_type(kind) * len(converted))(*converted)


def from_c(kind: T, array: Any, count: int) -> tuple[Any, ...]:
    """Python values of the first ``count`` elements of a C array."""
    if kind is T.FRACTION:
        return tuple(Fraction(item.numerator, item.denominator) for item in array[:count])
    values = tuple(array[:count])
    if kind not in ENUMS:
        return values
    members = {int(known): known for known in ENUMS[kind]}
    return tuple(members.get(value, value) for value in values)  # a newer library may know more
