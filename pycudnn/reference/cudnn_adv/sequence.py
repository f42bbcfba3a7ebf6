"""Sequence data descriptors, the operands of multi-head attention."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

from pycudnn.abi.cudnn_enums import CUDNN_SEQDATA_DIM_COUNT, DataType, SeqDataAxis
from pycudnn.abi.cudnn_enums import Status as Code

from ..memory import numpy_dtype, raw, read_array, write_array, write_wanted
from ..runtime import Status, bad_param, implements, not_supported, opaque

FLOATING = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16)


@opaque("cudnnSeqDataDescriptor_t", "cudnnCreateSeqDataDescriptor", "cudnnDestroySeqDataDescriptor")
@dataclass
class SeqData:
    """Shape (time, batch, beam, vector), the order of these axes in memory, and the lengths.

    `fill` is what an output has behind the ends of its sequences; None is anything.
    """

    dtype: DataType = DataType.FLOAT
    shape: tuple[int, ...] = (0,) * CUDNN_SEQDATA_DIM_COUNT
    axes: tuple[int, ...] = (0,) * CUDNN_SEQDATA_DIM_COUNT
    lengths: tuple[int, ...] = ()
    fill: bytes | None = None

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements, by axis."""
        inner = [self.axes[self.axes.index(axis) + 1 :] for axis in range(len(self.shape))]
        return tuple(math.prod(self.shape[axis] for axis in axes) for axes in inner)


def read_fill(address: int, dtype: DataType) -> bytes | None:
    """The number at `address`, as it lies there; None for NULL."""
    return bytes(raw(address, numpy_dtype(dtype).itemsize)) if address else None


def write_fill(address: int, dtype: DataType, fill: bytes | None) -> None:
    """Write the number, 0 where there is none; NULL takes nothing."""
    if address:
        size = numpy_dtype(dtype).itemsize
        raw(address, size)[:] = fill or bytes(size)


@implements("cudnnSetSeqDataDescriptor")
def set_seq_data(
    descriptor: SeqData,
    dtype: int,
    ndim: int,
    dims: int,
    axes: int,
    count: int,
    lengths: int,
    fill: int,
) -> None:
    """All four axes, the vector innermost, and a length for each batch and beam."""
    if dtype not in list(DataType):
        raise bad_param(f"dataType is {dtype}, no DataType")
    if ndim <= 0:
        raise bad_param(f"nbDims is {ndim}, must be positive")
    if ndim != CUDNN_SEQDATA_DIM_COUNT:
        raise not_supported(f"nbDims is {ndim}, must be {CUDNN_SEQDATA_DIM_COUNT}")
    shape = read_array(dims, ctypes.c_int, ndim, "dimA")
    order = read_array(axes, ctypes.c_int, ndim, "axes")
    if min(shape) < 1:
        raise bad_param(f"dimA is {shape}, must be positive")
    if sorted(order) != list(SeqDataAxis) or order[-1] != SeqDataAxis.VECT_DIM:
        raise bad_param(f"axes is {order}, must be each axis once, the vector last")
    time, batch, beam, _ = shape
    if count != batch * beam:
        raise bad_param(f"seqLengthArraySize is {count}, must be batch x beam = {batch * beam}")
    found = read_array(lengths, ctypes.c_int, count, "seqLengthArray")
    if min(found) < 1 or max(found) > time:
        raise bad_param(f"seqLengthArray is {found}, must be in [1, {time}]")
    if dtype not in FLOATING:
        raise Status(Code.INTERNAL_ERROR, f"sequences of {DataType(dtype).name}")
    data_type = DataType(dtype)
    fresh = SeqData(data_type, shape, order, found, read_fill(fill, data_type))
    vars(descriptor).update(vars(fresh))


@implements("cudnnGetSeqDataDescriptor")
def get_seq_data(
    descriptor: SeqData,
    dtype: int,
    ndim: int,
    dims_requested: int,
    dims: int,
    axes: int,
    count: int,
    lengths_requested: int,
    lengths: int,
    fill: int,
) -> None:
    """What was set; of dimensions and lengths no more than was requested. NULL takes nothing."""
    if dims_requested < 0:
        raise bad_param(f"nbDimsRequested is {dims_requested}, must not be negative")
    for address, c_type, value in (
        (dtype, ctypes.c_int, descriptor.dtype),
        (ndim, ctypes.c_int, len(descriptor.shape)),
        (count, ctypes.c_size_t, len(descriptor.lengths)),
    ):
        write_wanted(address, c_type, value)
    for address, values, requested in (
        (dims, descriptor.shape, dims_requested),
        (axes, descriptor.axes, dims_requested),
        (lengths, descriptor.lengths, lengths_requested),
    ):
        if address and values[:requested]:
            write_array(address, ctypes.c_int, values[:requested])
    if fill and descriptor.dtype == DataType.BFLOAT16:
        raise Status(Code.INTERNAL_ERROR, "the padding fill of BFLOAT16 cannot be read")
    write_fill(fill, descriptor.dtype, descriptor.fill)
