"""The cuDNN handle."""

from __future__ import annotations

import ctypes

from pycudnn import _core
from pycudnn.abi.types import ctypes_type
from pycudnn.device import Device, Stream
from pycudnn.libraries import Library, find_library


class Handle(_core.CudnnHandle):
    """A cuDNN library context on one device (cudnnCreate).

    ``device`` is where its work runs (None: device 0 of the library's backend), ``stream`` the
    stream that it is queued on (None: the device's default one). A lock in the handle serialises
    its calls, so threads may share one; they run in parallel only with a handle each.
    """

    library: Library

    def __init__(
        self,
        device: Device | None = None,
        stream: Stream | None = None,
        *,
        library: Library | str | None = None,
    ) -> None:
        if library is None and device is not None:
            library = device.backend
        found = find_library("cudnn", library)
        if device is None:
            device = Device(found.backend)
        elif device.backend != found.backend:
            raise ValueError(f"device must be a {found.backend} device, got {device!r}")
        pointer = ctypes_type("cudnnHandle_t")()
        with device.activate():
            with _core.ColdCall(found) as call:
                call("cudnnCreate", ctypes.byref(pointer))
            self._own(found, ctypes.cast(pointer, ctypes.c_void_p).value, "cudnnDestroy")
            self._place(device, device.index)
        try:
            self.stream = device.default_stream if stream is None else stream
        except BaseException:
            self.close()
            raise

    @property
    def stream(self) -> Stream:
        """The stream that this handle's work is queued on (cudnnSetStream)."""
        return super().stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        if not isinstance(stream, Stream) or stream.device != self.device:
            raise ValueError(f"stream must be a Stream of {self.device!r}, got {stream!r}")
        with _core.ColdCall(self.library, self) as call:
            call("cudnnSetStream", self, stream.handle)
        self._follow(stream)

    def __repr__(self) -> str:
        if self.closed or self.library is None:
            return "<closed cudnn.Handle>"
        return f"<cudnn.Handle of {self.library!r} on {self.device!r}>"
