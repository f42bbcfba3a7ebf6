"""Calls of C functions that take a stream and bare memory instead of a handle and descriptors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import DataType
from pycudnn.cudnn._claims import Claims
from pycudnn.cudnn._objects import INT_MAX, require
from pycudnn.device import Stream
from pycudnn.libraries import Library, find_library


class _Contiguous(_core.TensorLike):
    """A layout without a C descriptor, which some data types cannot have."""

    def __init__(self, shape: tuple[int, ...], data_type: DataType) -> None:
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        self._lay_out(data_type, shape, strides, dtypes.item_bytes(data_type), 0)

    def __repr__(self) -> str:
        return f"a contiguous array of shape {self.shape}"


class StreamCall:
    """Checked operands of one call, and the call itself."""

    def __init__(self, call: _core.ColdCall, library: Library, stream: Stream) -> None:
        self._call = call
        self.library = library
        self._stream = stream
        self._claims = Claims()

    def read(self, value: Any, name: str, shape: tuple[int, ...], data_type: DataType) -> int:
        """Address of a contiguous array that is read."""
        return self._operand(value, name, shape, data_type, False)

    def write(self, value: Any, name: str, shape: tuple[int, ...], data_type: DataType) -> int:
        """Address of a contiguous array that is written: it must be no other operand's memory."""
        return self._operand(value, name, shape, data_type, True)

    def scratch(self, value: Any, name: str, needed: int, *, writes: bool = True) -> int:
        """Address of a workspace or reserve space of at least ``needed`` bytes."""
        address = self._call.operand(value, name, writes, None, needed)
        self._claims.add(address, needed, name, writes=writes)
        return address

    def __call__(self, function: str, *arguments: Any) -> None:
        """Call a C function with the stream before the arguments."""
        self._call(function, self._stream.handle, *arguments)

    def _operand(
        self, value: Any, name: str, shape: tuple[int, ...], data_type: DataType, writes: bool
    ) -> int:
        given = getattr(value, "shape", None)
        if isinstance(given, tuple) and len(given) > 1 and given != shape:
            raise ValueError(f"{name} must have shape {shape} or be flat, got shape {given}")
        if math.prod(shape) > INT_MAX:
            raise ValueError(f"{name} of shape {shape} has more than {INT_MAX} elements")
        layout = _Contiguous(shape, data_type)
        address = self._call.operand(value, name, writes, layout)
        self._claims.add(address, layout.extent, name, writes=writes)
        return address


@contextmanager
def stream_call(stream: Stream, library: Library | str | None) -> Iterator[StreamCall]:
    """``with stream_call(stream, library) as call:`` on the device of the stream.

    The stream's device decides the library where none is given; ValueError where they differ.
    """
    require(stream, Stream, "stream")
    if stream.closed:
        raise ValueError("this Stream is closed")
    found = find_library("cudnn", stream.device.backend if library is None else library)
    if found.backend != stream.device.backend:
        raise ValueError(f"stream must be one of a {found.backend} device, got {stream!r}")
    with stream.device.activate(), _core.ColdCall(found, stream=stream) as call:
        yield StreamCall(call, found, stream)
