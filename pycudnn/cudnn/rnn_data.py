"""Descriptors of the sequences that go into and come out of a recurrent network."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import DataType, RNNDataLayout
from pycudnn.cudnn._objects import construct, int_array, integer, member
from pycudnn.cudnn._sequences import (
    check_lengths,
    decode_fill,
    encode_fill,
    sequence_type,
    strides_of,
)
from pycudnn.libraries import Library, find_library


class RNNDataDescriptor(_core.TensorLike):
    """A batch of sequences of vectors (cudnnSetRNNDataDescriptor).

    ``seq_lengths`` has one length per sequence, at most ``max_seq_length`` (None: the longest).
    ``layout`` says how they lie: SEQ_MAJOR_UNPACKED has ``shape`` (max_seq_length, batch, vector),
    BATCH_MAJOR_UNPACKED (batch, max_seq_length, vector), SEQ_MAJOR_PACKED, without padding,
    (sum of the lengths, vector); its lengths are in descending order, the first is the maximum.
    ``padding_fill`` is what an unpacked output has behind the end of a sequence; None leaves that
    undefined.

    ValueError for lengths that the layout does not allow, TypeError for a dtype that is not
    floating.
    """

    c_type = "cudnnRNNDataDescriptor_t"
    library: Library

    def __init__(
        self,
        seq_lengths: Sequence[int],
        vector_size: int,
        *,
        max_seq_length: int | None = None,
        dtype: Any = DataType.FLOAT,
        layout: RNNDataLayout = RNNDataLayout.SEQ_MAJOR_UNPACKED,
        padding_fill: float | None = None,
        library: Library | str | None = None,
    ) -> None:
        data_type = sequence_type(dtype)
        order = member(RNNDataLayout, layout, "layout")
        packed = order == RNNDataLayout.SEQ_MAJOR_PACKED
        width = integer(vector_size, "vector_size", 1)
        limit = None if max_seq_length is None else integer(max_seq_length, "max_seq_length", 1)
        lengths = check_lengths(seq_lengths, int(packed), limit)
        longest = limit or max(lengths)
        if longest < 1:
            raise ValueError(f"seq_lengths must have one of at least 1, got {seq_lengths!r}")
        if packed and (lengths[0] != longest or sorted(lengths, reverse=True) != list(lengths)):
            raise ValueError(
                f"seq_lengths must descend from max_seq_length, {longest}, for SEQ_MAJOR_PACKED, "
                f"got {lengths}: sort the sequences"
            )
        shape = {
            RNNDataLayout.SEQ_MAJOR_UNPACKED: (longest, len(lengths), width),
            RNNDataLayout.BATCH_MAJOR_UNPACKED: (len(lengths), longest, width),
            RNNDataLayout.SEQ_MAJOR_PACKED: (sum(lengths), width),
        }[order]
        strides = strides_of(shape, tuple(range(len(shape))), data_type)
        fill = encode_fill(padding_fill, data_type)
        self._has_fill = fill is not None
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            call(
                "cudnnSetRNNDataDescriptor",
                self, data_type, order, longest, len(lengths), width, int_array(lengths), fill,
            )  # fmt: skip
            self._lay_out(data_type, shape, strides, dtypes.item_bytes(data_type), 0)

        settings = {
            "seq_lengths": lengths, "vector_size": width, "max_seq_length": longest,
            "dtype": data_type, "layout": order,
            "padding_fill": None if padding_fill is None else float(padding_fill),
        }  # fmt: skip
        construct(self, found, "RNNDataDescriptor", settings, set_up)

    def _read(self) -> tuple[RNNDataLayout, int, int, tuple[int, ...], float]:
        """Layout, longest length, vector size, lengths, padding fill as the library has them."""
        data_type, layout, longest, batch, width = (ctypes.c_int() for _ in range(5))
        fill = ctypes.create_string_buffer(8)
        with _core.ColdCall(self.library) as call:

            def get(count: int, lengths: Any) -> None:
                call(
                    "cudnnGetRNNDataDescriptor",
                    self, ctypes.byref(data_type), ctypes.byref(layout), ctypes.byref(longest),
                    ctypes.byref(batch), ctypes.byref(width), count, lengths, fill,
                )  # fmt: skip

            get(0, int_array(()))
            # It writes as many lengths as asked for, past the batch as well.
            lengths = (ctypes.c_int * batch.value)()
            get(batch.value, lengths)
        return (
            RNNDataLayout(layout.value),
            longest.value,
            width.value,
            tuple(lengths),
            decode_fill(fill, data_type.value),
        )

    @property
    def layout(self) -> RNNDataLayout:
        """The order of the axes, and whether there is padding."""
        return self._read()[0]

    @property
    def max_seq_length(self) -> int:
        """Time steps that there is room for."""
        return self._read()[1]

    @property
    def vector_size(self) -> int:
        """Elements of one time step of one sequence."""
        return self._read()[2]

    @property
    def seq_lengths(self) -> tuple[int, ...]:
        """Time steps of each sequence."""
        return self._read()[3]

    @property
    def batch_size(self) -> int:
        """Number of sequences."""
        return len(self._read()[3])

    @property
    def padding_fill(self) -> float | None:
        """What an unpacked output has behind the end of a sequence; None is anything."""
        return self._read()[4] if self._has_fill else None

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type."""
        return dtypes.to_numpy(self.dtype_code)

    def __repr__(self) -> str:
        if self.closed:
            return "<closed RNNDataDescriptor>"
        layout, longest, width, lengths, _ = self._read()
        return (
            f"RNNDataDescriptor({lengths}, {width}, max_seq_length={longest}, "
            f"dtype={dtypes.name(self.dtype_code)}, layout={layout.name})"
        )
