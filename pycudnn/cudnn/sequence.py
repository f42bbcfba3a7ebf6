"""Descriptors of sequence data, the operands of multi-head attention."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import CUDNN_SEQDATA_DIM_COUNT, DataType, SeqDataAxis
from pycudnn.cudnn._objects import construct, int_array, integers, member
from pycudnn.cudnn._sequences import (
    check_lengths,
    decode_fill,
    encode_fill,
    sequence_type,
    strides_of,
)
from pycudnn.libraries import Library, find_library


class SeqDataDescriptor(_core.TensorLike):
    """Beams of sequences of vectors (cudnnSetSeqDataDescriptor).

    ``shape`` is (time, batch, beam, vector), whatever the order in memory; ``axes`` gives that,
    the outermost first, with VECT_DIM last. ``seq_lengths`` has one length in [1, time] for each
    batch and beam, the beams of a batch together; None: all are full. ``padding_fill`` is what an
    output should have behind the end of a sequence; cuDNN keeps it, and attention ignores it.

    ValueError for axes that are no order with VECT_DIM last, and for other lengths; TypeError for
    a dtype that is not floating.
    """

    c_type = "cudnnSeqDataDescriptor_t"
    library: Library

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any = DataType.FLOAT,
        *,
        axes: Sequence[SeqDataAxis] = tuple(SeqDataAxis),
        seq_lengths: Sequence[int] | None = None,
        padding_fill: float | None = None,
        library: Library | str | None = None,
    ) -> None:
        if not isinstance(shape, Iterable):
            raise TypeError(f"shape must be {CUDNN_SEQDATA_DIM_COUNT} ints, got {shape!r}")
        dims = integers(shape, "shape", 1, CUDNN_SEQDATA_DIM_COUNT)
        data_type = sequence_type(dtype)
        order = _check_axes(axes)
        strides = strides_of(dims, order, data_type)
        time, batch, beam, _ = dims
        lengths = (time,) * (batch * beam)
        if seq_lengths is not None:
            lengths = check_lengths(seq_lengths, 1, time)
        if len(lengths) != batch * beam:
            raise ValueError(
                f"seq_lengths must have batch x beam = {batch * beam} lengths, got {len(lengths)}"
            )
        self._fill = encode_fill(padding_fill, data_type)
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            call(
                "cudnnSetSeqDataDescriptor",
                self, data_type, len(dims), int_array(dims), int_array(order),
                len(lengths), int_array(lengths), self._fill,
            )  # fmt: skip
            self._lay_out(data_type, dims, strides, dtypes.item_bytes(data_type), 0)

        settings = {
            "shape": dims, "dtype": data_type, "axes": order, "seq_lengths": lengths,
            "padding_fill": None if padding_fill is None else float(padding_fill),
        }  # fmt: skip
        construct(self, found, "SeqDataDescriptor", settings, set_up)

    def _read(self) -> tuple[tuple[SeqDataAxis, ...], tuple[int, ...], float]:
        """Axes, lengths and padding fill as the library has them; the fill is 0 where it is NULL.

        The library cannot read back the fill of bfloat16 data.
        """
        data_type, ndim, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
        dims = (ctypes.c_int * CUDNN_SEQDATA_DIM_COUNT)()
        axes = (ctypes.c_int * CUDNN_SEQDATA_DIM_COUNT)()
        lengths = (ctypes.c_int * (self.shape[1] * self.shape[2]))()
        readable = self.dtype_code != DataType.BFLOAT16
        fill = ctypes.create_string_buffer(8) if readable else None
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetSeqDataDescriptor",
                self, ctypes.byref(data_type), ctypes.byref(ndim), len(dims), dims, axes,
                ctypes.byref(count), len(lengths), lengths, fill,
            )  # fmt: skip
        stored = decode_fill(fill or self._fill or bytes(2), data_type.value)
        return tuple(map(SeqDataAxis, axes)), tuple(lengths), stored

    @property
    def axes(self) -> tuple[SeqDataAxis, ...]:
        """The order in memory, the outermost axis first."""
        return self._read()[0]

    @property
    def seq_lengths(self) -> tuple[int, ...]:
        """Time steps of each sequence, the beams of a batch together."""
        return self._read()[1]

    @property
    def padding_fill(self) -> float | None:
        """What an output should have behind the end of a sequence; None is anything."""
        return None if self._fill is None else self._read()[2]

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type."""
        return dtypes.to_numpy(self.dtype_code)

    def __repr__(self) -> str:
        if self.closed:
            return "<closed SeqDataDescriptor>"
        axes, lengths, _ = self._read()
        names = ", ".join(axis.name for axis in axes)
        return (
            f"SeqDataDescriptor({self.shape}, {dtypes.name(self.dtype_code)}, axes=({names}), "
            f"seq_lengths={lengths})"
        )


def _check_axes(axes: Any) -> tuple[SeqDataAxis, ...]:
    if not isinstance(axes, Iterable):
        raise TypeError(f"axes must be {CUDNN_SEQDATA_DIM_COUNT} SeqDataAxis, got {axes!r}")
    order = tuple(member(SeqDataAxis, axis, f"axes[{i}]") for i, axis in enumerate(axes))
    if sorted(order) != list(SeqDataAxis) or order[-1] != SeqDataAxis.VECT_DIM:
        raise ValueError(f"axes must have each SeqDataAxis once, VECT_DIM last, got {axes!r}")
    return order
