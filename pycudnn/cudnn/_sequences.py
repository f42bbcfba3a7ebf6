"""What the descriptors of sequences, recurrent networks and attention share."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from pycudnn import _core, dtypes, memory
from pycudnn.abi.cudnn_enums import DataType
from pycudnn.cudnn._objects import construct, integers, real, require
from pycudnn.cudnn.dropout import DropoutDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import check_size
from pycudnn.libraries import Library

SEQUENCE_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16)


class _NoDropout(_core.DropoutDescriptor):
    """A dropout descriptor that was never set: cuDNN takes it for no dropout."""

    library: Library

    def __init__(self, library: Library) -> None:
        construct(self, library, "DropoutDescriptor", {}, lambda call: None)


def as_dropout(
    value: DropoutDescriptor | None, name: str, library: Library
) -> _core.DropoutDescriptor:
    """The descriptor for C: the given one, or for None one that drops nothing."""
    if value is None:
        return _NoDropout(library)
    require(value, DropoutDescriptor, name)
    return value


def sequence_type(dtype: Any) -> DataType:
    """A floating type, of which there is sequence data; TypeError otherwise."""
    data_type = dtypes.to_data_type(dtype)
    if data_type not in SEQUENCE_TYPES:
        known = ", ".join(dtypes.name(known) for known in SEQUENCE_TYPES)
        raise TypeError(f"dtype must be one of {known}, got {dtype!r}")
    return data_type


def check_lengths(value: Any, low: int, longest: int | None) -> tuple[int, ...]:
    """The length of each sequence, in [low, longest]; one int is one sequence."""
    lengths = integers(value, "seq_lengths", low)
    if not lengths:
        raise ValueError("seq_lengths must have at least one length, got none")
    for index, length in enumerate(lengths):
        if longest is not None and length > longest:
            raise ValueError(f"seq_lengths[{index}] must be at most {longest}, got {length}")
    return lengths


def strides_of(
    shape: tuple[int, ...], order: tuple[int, ...], data_type: DataType
) -> tuple[int, ...]:
    """Strides in elements of packed data whose axes lie in an order, the outermost first."""
    check_size(shape, None, data_type)
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _dtype(data_type: int) -> np.dtype[Any]:
    dtype = dtypes.to_numpy(data_type)
    assert isinstance(dtype, np.dtype)  # as all SEQUENCE_TYPES
    return dtype


def encode_fill(value: Any, data_type: DataType) -> Any:
    """The number to fill padding with as C memory of the data type; None is NULL."""
    if value is None:
        return None
    dtype = _dtype(data_type)
    with np.errstate(over="ignore"):
        stored = np.float64(real(value, "padding_fill")).astype(dtype)
    if np.isfinite(float(value)) and not np.isfinite(stored.astype(np.float64)):
        raise ValueError(f"padding_fill must fit {dtypes.name(data_type)}, got {value!r}")
    return ctypes.create_string_buffer(stored.tobytes(), dtype.itemsize)


def decode_fill(memory: Any, data_type: int) -> float:
    """The number in C memory of the data type."""
    return float(np.frombuffer(memory, _dtype(data_type), 1)[0])


def device_lengths(desc: Any, handle: Handle) -> memory.Buffer:
    """The lengths of a descriptor's sequences on the handle's device.

    Made on first use and kept in the descriptor, so that queued work finds them as they were.
    """
    kept = vars(desc).setdefault("_device_lengths", {})
    if handle.device not in kept:
        lengths = np.array(desc.seq_lengths, np.int32)
        kept[handle.device] = memory.from_numpy(lengths, device=handle.device, stream=handle.stream)
    return kept[handle.device]
