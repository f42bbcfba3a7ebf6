"""Descriptors of the data of recurrent networks."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from pycudnn.abi.cudnn_enums import DataType, RNNDataLayout

from ..memory import read_array, write, write_array
from ..runtime import bad_param, implements, not_supported, opaque
from .sequence import FLOATING, read_fill, write_fill

_LONGEST = 2**16 - 1
_PIECE = 64


@opaque("cudnnRNNDataDescriptor_t", "cudnnCreateRNNDataDescriptor", "cudnnDestroyRNNDataDescriptor")
@dataclass
class RNNData:
    """A batch of sequences of vectors; `fill` is what an output has behind their ends."""

    dtype: DataType = DataType.FLOAT
    layout: RNNDataLayout = RNNDataLayout.SEQ_MAJOR_UNPACKED
    max_seq_length: int = 0
    vector_size: int = 0
    lengths: tuple[int, ...] = ()
    fill: bytes | None = None


@implements("cudnnSetRNNDataDescriptor")
def set_rnn_data(
    descriptor: RNNData,
    dtype: int,
    layout: int,
    max_seq_length: int,
    batch_size: int,
    vector_size: int,
    lengths: int,
    fill: int,
) -> None:
    """Packed data needs its sequences in descending order of length, none empty."""
    if dtype not in list(DataType):
        raise bad_param(f"dataType is {dtype}, no DataType")
    if layout not in list(RNNDataLayout):
        raise bad_param(f"layout is {layout}, no RNNDataLayout")
    for name, size in (
        ("maxSeqLength", max_seq_length), ("batchSize", batch_size), ("vectorSize", vector_size)
    ):  # fmt: skip
        if size < 1:
            raise bad_param(f"{name} is {size}, must be at least 1")
    if max_seq_length > _LONGEST:
        raise not_supported(f"maxSeqLength is {max_seq_length}, must be at most {_LONGEST}")
    packed = layout == RNNDataLayout.SEQ_MAJOR_PACKED
    found: list[int] = []
    while len(found) < batch_size:  # in pieces: a wrong count runs into a wrong length
        count = min(_PIECE, batch_size - len(found))
        at = lengths and lengths + ctypes.sizeof(ctypes.c_int) * len(found)
        found += read_array(at, ctypes.c_int, count, "seqLengthArray")
        if min(found[-count:]) < packed or max(found[-count:]) > max_seq_length:
            raise bad_param(f"seqLengthArray {found} must be in [{int(packed)}, {max_seq_length}]")
    if packed and (found[0] != max_seq_length or sorted(found, reverse=True) != found):
        raise bad_param(f"seqLengthArray {found} must descend from {max_seq_length}")
    if dtype not in FLOATING:
        raise not_supported(f"sequences of {DataType(dtype).name}")
    data_type = DataType(dtype)
    fresh = RNNData(
        data_type, RNNDataLayout(layout), max_seq_length, vector_size, tuple(found),
        read_fill(fill, data_type),
    )  # fmt: skip
    vars(descriptor).update(vars(fresh))


@implements("cudnnGetRNNDataDescriptor")
def get_rnn_data(
    descriptor: RNNData,
    dtype: int,
    layout: int,
    max_seq_length: int,
    batch_size: int,
    vector_size: int,
    requested: int,
    lengths: int,
    fill: int,
) -> None:
    """What was set; of the lengths `requested` ones, 0 past the batch."""
    if requested < 0:
        raise bad_param(f"arrayLengthRequested is {requested}, must not be negative")
    if not fill:
        raise bad_param("paddingFill is NULL")
    batch = len(descriptor.lengths)
    for address, value in (
        (dtype, descriptor.dtype), (layout, descriptor.layout), (batch_size, batch),
        (max_seq_length, descriptor.max_seq_length), (vector_size, descriptor.vector_size),
    ):  # fmt: skip
        write(address, ctypes.c_int, value)
    padded = descriptor.lengths[:requested] + (0,) * (requested - batch)
    if padded:
        write_array(lengths, ctypes.c_int, padded, "seqLengthArray")
    write_fill(fill, descriptor.dtype, descriptor.fill)
