"""Filter descriptors: the weights of a convolution, packed, of shape (K, C / groups, *spatial)."""

from __future__ import annotations

import ctypes
import math

from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, DataType, TensorFormat

from ..descriptors import VECTOR_WIDTHS, Filter
from ..memory import write, write_array
from ..runtime import bad_param, implements, not_supported
from .tensor_descriptors import (
    check_positive,
    checked_data_type,
    checked_dims,
    checked_format,
    first,
    item_size,
)

_DATA_TYPES = (
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.HALF,
    DataType.INT8,
    DataType.UINT8,
    DataType.BFLOAT16,
    DataType.INT8x4,
    DataType.UINT8x4,
    DataType.INT8x32,
)


def _checked(data_type: int, tensor_format: int) -> tuple[DataType, TensorFormat]:
    layout = checked_format(tensor_format, data_type)
    return checked_data_type(data_type, _DATA_TYPES, "filter"), layout


def _set(descriptor: Filter, dtype: DataType, layout: TensorFormat, shape: tuple[int, ...]) -> None:
    if layout == TensorFormat.NCHW_VECT_C and shape[1] % VECTOR_WIDTHS[dtype]:
        # cuDNN drops channels that fill no vector, in silence.
        raise bad_param(f"{dtype.name} needs channels in multiples of {VECTOR_WIDTHS[dtype]}")
    if math.prod(shape) * item_size(dtype) >= 2**63:
        raise not_supported(f"a filter of {shape} has more bytes than memory has addresses")
    descriptor.dtype, descriptor.format, descriptor.shape = dtype, layout, shape


@implements("cudnnSetFilter4dDescriptor")
def set_filter_4d(
    descriptor: Filter, data_type: int, tensor_format: int, k: int, c: int, h: int, w: int
) -> None:
    """K output channels, C input channels, and the window."""
    dtype, layout = _checked(data_type, tensor_format)
    check_positive((k, c, h, w), "(k, c, h, w)")
    _set(descriptor, dtype, layout, (k, c, h, w))


@implements("cudnnSetFilterNdDescriptor")
def set_filter_nd(
    descriptor: Filter, data_type: int, tensor_format: int, count: int, dims: int
) -> None:
    """3 to 8 dimensions."""
    dtype, layout = _checked(data_type, tensor_format)
    _set(descriptor, dtype, layout, checked_dims(dims, count, 3, "filterDimA"))


@implements("cudnnGetFilter4dDescriptor")
def get_filter_4d(descriptor: Filter, data_type: int, tensor_format: int, *outs: int) -> None:
    """The first four dimensions; 0 where there are fewer."""
    write(data_type, ctypes.c_int, descriptor.dtype, "dataType")
    write(tensor_format, ctypes.c_int, descriptor.format, "format")
    for out, value in zip(outs, first(descriptor.shape, 4), strict=True):
        write(out, ctypes.c_int, value)


@implements("cudnnGetFilterNdDescriptor")
def get_filter_nd(
    descriptor: Filter, requested: int, data_type: int, tensor_format: int, count: int, dims: int
) -> None:
    """Exactly `requested` dimensions: 0 where there are fewer."""
    if requested <= 0:
        raise bad_param(f"nbDimsRequested is {requested}, must be positive")
    if requested > CUDNN_DIM_MAX:
        raise not_supported(f"nbDimsRequested is {requested}, must be at most {CUDNN_DIM_MAX}")
    write(data_type, ctypes.c_int, descriptor.dtype, "dataType")
    write(tensor_format, ctypes.c_int, descriptor.format, "format")
    write(count, ctypes.c_int, len(descriptor.shape), "nbDims")
    write_array(dims, ctypes.c_int, first(descriptor.shape, requested), "filterDimA")


@implements("cudnnGetFilterSizeInBytes")
def get_filter_size(descriptor: Filter, size: int) -> None:
    """Bytes of the packed weights."""
    count = math.prod(descriptor.shape) // descriptor.width if descriptor.shape else 0
    write(size, ctypes.c_size_t, item_size(descriptor.dtype) * count, "size")
