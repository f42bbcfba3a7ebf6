"""Descriptors of cublasLt: each is a set of attributes of fixed sizes, and no more.

A value is not looked at when it is set (but for one), only when it is used; its size is. Pointers
are 64-bit numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_float, c_int8, c_int32, c_int64, c_uint32, c_uint64
from types import MappingProxyType
from typing import Any, ClassVar

from pycudnn.abi.cublas_enums import FillMode
from pycudnn.abi.cublaslt_enums import EmulationDescAttributes as Emulation
from pycudnn.abi.cublaslt_enums import (
    Epilogue,
    MatmulBatchInvarianceFlags,
    MatmulDescAttributes,
    MatmulPreferenceAttributes,
    MatrixLayoutAttribute,
    MatrixTransformDescAttributes,
    Order,
    ReductionScheme,
)

from ..cublas.storage import invalid
from ..runtime import implements, opaque

Layout, Matmul = MatrixLayoutAttribute, MatmulDescAttributes
Transform, Preference = MatrixTransformDescAttributes, MatmulPreferenceAttributes

_ALL_ONES = 2**64 - 1
# The type of each attribute, and what it is at first.
Table = dict[int, tuple[Any, int]]


class Attributes:
    """A descriptor: ``descriptor[attribute]`` is the value, a number."""

    TABLE: ClassVar[Table]

    def __init__(self) -> None:
        self.values: dict[int, Any] = {key: first for key, (_, first) in self.TABLE.items()}

    def __getitem__(self, attribute: int) -> Any:
        return self.values[attribute]


def read_value(c_type: Any, buffer: int, size: int) -> Any:
    """The new value of an attribute, from the caller's buffer."""
    if not buffer or size != ctypes.sizeof(c_type):
        raise invalid(f"size is {size}, must be {ctypes.sizeof(c_type)}, and buf not NULL")
    return c_type.from_address(buffer).value


def write_values(c_type: Any, values: list[Any], buffer: int, size: int, written: int) -> None:
    """An attribute into the caller's buffer; with size 0 only its size is told."""
    needed = len(values) * ctypes.sizeof(c_type)
    if size == 0:
        if not written:
            raise invalid("sizeInBytes is 0 and sizeWritten is NULL")
    elif not buffer or size != needed:
        raise invalid(f"size is {size}, must be {needed}, and buf not NULL")
    else:
        (c_type * len(values)).from_address(buffer)[:] = values
    if written:
        ctypes.c_size_t.from_address(written).value = needed


def attributes(noun: str, table: Table, most: Mapping[int, int] = MappingProxyType({})) -> Any:
    """Class decorator: a cublasLt`noun`_t, with its functions to create, destroy, set and get.

    ``most`` are the largest values of attributes that are limited.
    """

    def register(cls: type[Attributes]) -> type[Attributes]:
        cls.TABLE = table

        def set_attribute(descriptor: Attributes, attribute: int, buffer: int, size: int) -> None:
            value = read_value(_c_type(table, attribute), buffer, size)
            if value > most.get(attribute, value):
                raise invalid(f"attribute {attribute} is {value}, cublasLt keeps 16 bits of it")
            descriptor.values[attribute] = value

        def get_attribute(
            descriptor: Attributes, attribute: int, buffer: int, size: int, written: int
        ) -> None:
            c_type = _c_type(table, attribute)
            write_values(c_type, [descriptor[attribute]], buffer, size, written)

        implements(f"cublasLt{noun}SetAttribute")(set_attribute)
        implements(f"cublasLt{noun}GetAttribute")(get_attribute)
        return opaque(f"cublasLt{noun}_t", f"cublasLt{noun}Create", f"cublasLt{noun}Destroy")(cls)

    return register


def _c_type(table: Table, attribute: int) -> Any:
    if attribute not in table:
        raise invalid(f"attribute {attribute}: there is none of that number")
    return table[attribute][0]


_LAYOUT: Table = {
    Layout.MATRIX_LAYOUT_TYPE: (c_uint32, 0),
    Layout.MATRIX_LAYOUT_ORDER: (c_int32, Order.COL),
    Layout.MATRIX_LAYOUT_ROWS: (c_uint64, 0),
    Layout.MATRIX_LAYOUT_COLS: (c_uint64, 0),
    Layout.MATRIX_LAYOUT_LD: (c_int64, 0),
    Layout.MATRIX_LAYOUT_BATCH_COUNT: (c_int32, 1),
    Layout.MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: (c_int64, 0),
    Layout.MATRIX_LAYOUT_PLANE_OFFSET: (c_int64, 0),
    Layout.MATRIX_LAYOUT_BATCH_MODE: (c_uint32, 0),
    Layout.GROUPED_MATRIX_LAYOUT_ROWS_ARRAY: (c_uint64, 0),
    Layout.GROUPED_MATRIX_LAYOUT_COLS_ARRAY: (c_uint64, 0),
    Layout.GROUPED_MATRIX_LAYOUT_LD_ARRAY: (c_uint64, 0),
    Layout.GROUPED_MATRIX_LAYOUT_ROWS_COLS_ARRAY_INTEGER_WIDTH: (c_int32, 0),
    Layout.GROUPED_MATRIX_LAYOUT_LD_ARRAY_INTEGER_WIDTH: (c_int32, 0),
}
_MATMUL: Table = {
    Matmul.COMPUTE_TYPE: (c_int32, 0),
    Matmul.SCALE_TYPE: (c_int32, 0),
    Matmul.POINTER_MODE: (c_int32, 0),
    Matmul.TRANSA: (c_int32, 0),
    Matmul.TRANSB: (c_int32, 0),
    Matmul.TRANSC: (c_int32, 0),
    Matmul.FILL_MODE: (c_int32, FillMode.FULL),
    Matmul.EPILOGUE: (c_uint32, Epilogue.DEFAULT),
    Matmul.BIAS_POINTER: (c_uint64, 0),
    Matmul.BIAS_BATCH_STRIDE: (c_int64, 0),
    Matmul.EPILOGUE_AUX_POINTER: (c_uint64, 0),
    Matmul.EPILOGUE_AUX_LD: (c_int64, 0),
    Matmul.EPILOGUE_AUX_BATCH_STRIDE: (c_int64, 0),
    Matmul.ALPHA_VECTOR_BATCH_STRIDE: (c_int64, 0),
    Matmul.SM_COUNT_TARGET: (c_int32, 0),
    Matmul.A_SCALE_POINTER: (c_uint64, 0),
    Matmul.B_SCALE_POINTER: (c_uint64, 0),
    Matmul.C_SCALE_POINTER: (c_uint64, 0),
    Matmul.D_SCALE_POINTER: (c_uint64, 0),
    Matmul.AMAX_D_POINTER: (c_uint64, 0),
    Matmul.EPILOGUE_AUX_DATA_TYPE: (c_int32, -1),
    Matmul.EPILOGUE_AUX_SCALE_POINTER: (c_uint64, 0),
    Matmul.EPILOGUE_AUX_AMAX_POINTER: (c_uint64, 0),
    Matmul.FAST_ACCUM: (c_int8, 0),
    Matmul.BIAS_DATA_TYPE: (c_int32, -1),
    Matmul.A_SCALE_MODE: (c_int32, 0),
    Matmul.B_SCALE_MODE: (c_int32, 0),
    Matmul.C_SCALE_MODE: (c_int32, 0),
    Matmul.D_SCALE_MODE: (c_int32, 0),
    Matmul.EPILOGUE_AUX_SCALE_MODE: (c_int32, 0),
    Matmul.D_OUT_SCALE_POINTER: (c_uint64, 0),
    Matmul.D_OUT_SCALE_MODE: (c_int32, 0),
    Matmul.EMULATION_DESCRIPTOR: (c_uint64, 0),
    Matmul.ALPHA_BATCH_STRIDE: (c_int64, 0),
    Matmul.BETA_BATCH_STRIDE: (c_int64, 0),
    Matmul.BATCH_INVARIANCE_FLAGS: (c_uint32, MatmulBatchInvarianceFlags.UNSET),
}
_PREFERENCE: Table = {
    Preference.SEARCH_MODE: (c_uint32, 0),
    Preference.MAX_WORKSPACE_BYTES: (c_uint64, 0),
    Preference.REDUCTION_SCHEME_MASK: (c_uint32, ReductionScheme.MASK),
    Preference.MIN_ALIGNMENT_A_BYTES: (c_uint32, 256),
    Preference.MIN_ALIGNMENT_B_BYTES: (c_uint32, 256),
    Preference.MIN_ALIGNMENT_C_BYTES: (c_uint32, 256),
    Preference.MIN_ALIGNMENT_D_BYTES: (c_uint32, 256),
    Preference.MAX_WAVES_COUNT: (c_float, 0),
    Preference.IMPL_MASK: (c_uint64, _ALL_ONES),
    Preference.GROUPED_AVERAGE_REDUCTION_DIM: (c_int64, 0),
    Preference.GROUPED_DESC_D_AVERAGE_ROWS: (c_int64, 0),
    Preference.GROUPED_DESC_D_AVERAGE_COLS: (c_int64, 0),
}
_TRANSFORM: Table = {
    Transform.SCALE_TYPE: (c_int32, 0),
    Transform.POINTER_MODE: (c_int32, 0),
    Transform.TRANSA: (c_int32, 0),
    Transform.TRANSB: (c_int32, 0),
}
_EMULATION: Table = {
    Emulation.STRATEGY: (c_int32, 0),
    Emulation.SPECIAL_VALUES_SUPPORT: (c_int32, 65535),
    Emulation.FIXEDPOINT_MANTISSA_CONTROL: (c_int32, 0),
    Emulation.FIXEDPOINT_MAX_MANTISSA_BIT_COUNT: (c_int32, 0),
    Emulation.FIXEDPOINT_MANTISSA_BIT_OFFSET: (c_int32, 0),
    Emulation.FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER: (c_uint64, 0),
}


@attributes("MatrixLayout", _LAYOUT, {Layout.MATRIX_LAYOUT_BATCH_MODE: 2**16 - 1})
class MatrixLayout(Attributes):
    """How a matrix, or each of a batch, lies in memory."""

    def __init__(self, data_type: int, rows: int, columns: int, ld: int) -> None:
        super().__init__()
        self.values[Layout.MATRIX_LAYOUT_TYPE] = data_type
        self.values[Layout.MATRIX_LAYOUT_ROWS] = rows
        self.values[Layout.MATRIX_LAYOUT_COLS] = columns
        self.values[Layout.MATRIX_LAYOUT_LD] = ld


@attributes("MatmulDesc", _MATMUL)
class MatmulDesc(Attributes):
    """What a product computes."""

    def __init__(self, compute_type: int, scale_type: int) -> None:
        super().__init__()
        self.values[Matmul.COMPUTE_TYPE] = compute_type
        self.values[Matmul.SCALE_TYPE] = scale_type


@attributes("MatmulPreference", _PREFERENCE)
class MatmulPreference(Attributes):
    """What the algorithm of a product is looked for by."""


@attributes("MatrixTransformDesc", _TRANSFORM)
class MatrixTransformDesc(Attributes):
    """What a transformation computes."""

    def __init__(self, scale_type: int) -> None:
        super().__init__()
        self.values[Transform.SCALE_TYPE] = scale_type


@attributes("EmulationDesc", _EMULATION)
class EmulationDesc(Attributes):
    """How products are emulated on other units. Kept, and of no effect here."""
