"""Tensor descriptors: a data type, a shape (N, C, *spatial) and strides, all in elements.

Unlike cuDNN's, a set that fails leaves the descriptor as it was.
"""

from __future__ import annotations

import ctypes

from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, DataType, TensorFormat

from ..descriptors import VECTOR_WIDTHS, Tensor, in_vectors, packed_strides
from ..memory import numpy_dtype, read_array, write, write_array
from ..runtime import bad_param, implements, not_supported

_LARGEST_EXTENT = 2**31 - 1  # elements from the first to the last: cuDNN counts them in a C int

# What a descriptor may hold; DataType has more, for the graph API.
_DATA_TYPES = (
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.HALF,
    DataType.INT8,
    DataType.INT32,
    DataType.UINT8,
    DataType.BFLOAT16,
    DataType.INT8x4,
    DataType.UINT8x4,
    DataType.INT8x32,
)


def checked_data_type(
    data_type: int, allowed: tuple[DataType, ...], kind: str = "tensor"
) -> DataType:
    """The enum member, if a descriptor of this `kind` may hold it."""
    if data_type not in allowed:
        names = ", ".join(member.name for member in allowed)
        raise bad_param(f"dataType {data_type} of a {kind} descriptor: must be one of {names}")
    return DataType(data_type)


def checked_format(tensor_format: int, data_type: int) -> TensorFormat:
    """The enum member; NCHW_VECT_C goes with vector data types.

    cudnnSetTensorNdDescriptorEx takes it with any type, and counts a quarter of the channels.
    """
    if tensor_format == TensorFormat.NCHW_VECT_C:
        if data_type not in VECTOR_WIDTHS:
            raise bad_param(f"NCHW_VECT_C needs a vector data type, got dataType {data_type}")
        return TensorFormat.NCHW_VECT_C
    if tensor_format not in (TensorFormat.NCHW, TensorFormat.NHWC):
        raise bad_param(f"format {tensor_format}: must be NCHW (0) or NHWC (1)")
    return TensorFormat(tensor_format)


def item_size(data_type: DataType) -> int:
    """Bytes of an element, which may be a vector."""
    width = VECTOR_WIDTHS.get(data_type)
    return numpy_dtype(data_type).itemsize if width is None else width


def checked_dims(address: int, count: int, least: int, name: str) -> tuple[int, ...]:
    """The positive dimensions at `address`; at least `least` and at most CUDNN_DIM_MAX of them."""
    if count < least:
        raise bad_param(f"nbDims is {count}, must be at least {least}")
    if count > CUDNN_DIM_MAX:
        raise not_supported(f"nbDims is {count}, must be at most {CUDNN_DIM_MAX}")
    dims = read_array(address, ctypes.c_int, count, name)
    check_positive(dims, name)
    return dims


def check_positive(dims: tuple[int, ...], name: str) -> None:
    """Refuse a dimension that is 0 or negative."""
    for index, size in enumerate(dims):
        if size <= 0:
            raise bad_param(f"{name}[{index}] is {size}, must be positive: {dims}")


def _set(
    descriptor: Tensor,
    data_type: DataType,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    width: int = 1,
) -> None:
    for index, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        if stride == 0 and size != 1:
            raise bad_param(
                f"stride {index} is 0, which only a dimension of 1 may have, not {size}"
            )
    candidate = Tensor(data_type, shape, strides, width)
    if extent(candidate) > _LARGEST_EXTENT:
        raise not_supported(f"{shape} with strides {strides} spans over 2**31 - 1 elements")
    vars(descriptor).update(vars(candidate))


def _set_packed(
    descriptor: Tensor, data_type: DataType, shape: tuple[int, ...], layout: TensorFormat
) -> None:
    width = VECTOR_WIDTHS[data_type] if layout == TensorFormat.NCHW_VECT_C else 1
    if shape[1] % width:
        raise bad_param(f"{data_type.name} needs channels in multiples of {width}: {shape}")
    _set(descriptor, data_type, shape, packed_strides(in_vectors(shape, width), layout), width)


def extent(descriptor: Tensor) -> int:
    """Elements from the lowest address to the highest, gaps between strides included."""
    if not descriptor.shape:
        return 0
    return 1 + sum(
        (size - 1) * abs(stride)
        for size, stride in zip(
            in_vectors(descriptor.shape, descriptor.width), descriptor.strides, strict=True
        )
    )


@implements("cudnnSetTensor4dDescriptor")
def set_tensor_4d(
    descriptor: Tensor, tensor_format: int, data_type: int, n: int, c: int, h: int, w: int
) -> None:
    """A packed tensor; the format decides the strides."""
    layout = checked_format(tensor_format, data_type)
    dtype = checked_data_type(data_type, _DATA_TYPES)
    check_positive((n, c, h, w), "(n, c, h, w)")
    _set_packed(descriptor, dtype, (n, c, h, w), layout)


@implements("cudnnSetTensor4dDescriptorEx")
def set_tensor_4d_ex(descriptor: Tensor, data_type: int, *numbers: int) -> None:
    """n, c, h, w and then their strides."""
    dtype = checked_data_type(data_type, _DATA_TYPES)
    check_positive(numbers[:4], "(n, c, h, w)")
    _set(descriptor, dtype, numbers[:4], numbers[4:])


@implements("cudnnSetTensorNdDescriptor")
def set_tensor_nd(descriptor: Tensor, data_type: int, count: int, dims: int, strides: int) -> None:
    """2 to 8 dimensions with strides given."""
    dtype = checked_data_type(data_type, _DATA_TYPES)
    shape = checked_dims(dims, count, 2, "dimA")
    _set(descriptor, dtype, shape, read_array(strides, ctypes.c_int, count, "strideA"))


@implements("cudnnSetTensorNdDescriptorEx")
def set_tensor_nd_ex(
    descriptor: Tensor, tensor_format: int, data_type: int, count: int, dims: int
) -> None:
    """2 to 8 dimensions, packed; channels-last needs 3."""
    layout = checked_format(tensor_format, data_type)
    dtype = checked_data_type(data_type, _DATA_TYPES)
    shape = checked_dims(dims, count, 3 if layout == TensorFormat.NHWC else 2, "dimA")
    _set_packed(descriptor, dtype, shape, layout)


def first(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Exactly `count` numbers for a getter: cut, or filled up with 0 as cuDNN does."""
    return (values + (0,) * CUDNN_DIM_MAX)[: max(count, 0)]


@implements("cudnnGetTensor4dDescriptor")
def get_tensor_4d(descriptor: Tensor, data_type: int, *outs: int) -> None:
    """The first four dimensions, then their strides; 0 where there are fewer."""
    write(data_type, ctypes.c_int, descriptor.dtype, "dataType")
    values = first(descriptor.shape, 4) + first(descriptor.strides, 4)
    for out, value in zip(outs, values, strict=True):
        write(out, ctypes.c_int, value)


@implements("cudnnGetTensorNdDescriptor")
def get_tensor_nd(
    descriptor: Tensor, requested: int, data_type: int, count: int, dims: int, strides: int
) -> None:
    """As many dimensions and strides as there are, but no more than `requested`."""
    write(data_type, ctypes.c_int, descriptor.dtype, "dataType")
    write(count, ctypes.c_int, len(descriptor.shape), "nbDims")
    write_array(dims, ctypes.c_int, descriptor.shape[: max(requested, 0)], "dimA")
    write_array(strides, ctypes.c_int, descriptor.strides[: max(requested, 0)], "strideA")


@implements("cudnnGetTensorSizeInBytes")
def get_tensor_size(descriptor: Tensor, size: int) -> None:
    """Bytes that the tensor spans in memory."""
    write(size, ctypes.c_size_t, item_size(descriptor.dtype) * extent(descriptor), "size")
