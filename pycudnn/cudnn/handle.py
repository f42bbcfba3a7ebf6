"""The cuDNN handle."""

from __future__ import annotations

from pycudnn import _core
from pycudnn.device import Device, Stream
from pycudnn.handles import create, set_stream
from pycudnn.libraries import Library


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
        device = create(self, "cudnn", ("cudnnCreate", "cudnnDestroy"), device, library)
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
        set_stream(self, "cudnnSetStream", stream)

    def __repr__(self) -> str:
        if self.closed or self.library is None:
            return "<closed cudnn.Handle>"
        return f"<cudnn.Handle of {self.library!r} on {self.device!r}>"
