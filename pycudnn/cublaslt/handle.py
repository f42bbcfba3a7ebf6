"""The cublasLt handle."""

from __future__ import annotations

from pycudnn import _core
from pycudnn.device import Device, Stream
from pycudnn.handles import check_stream, create
from pycudnn.libraries import Library


class Handle(_core.Handle):
    """A cublasLt library context on one device (cublasLtCreate).

    ``device`` is where its work runs (None: device 0 of the library's backend), ``stream`` the
    stream that it is queued on (None: the device's default one). A lock in the handle serialises
    its calls, so threads may share one. It has no settings: a MatmulDescriptor has them.
    """

    c_type = "cublasLtHandle_t"
    library: Library

    def __init__(
        self,
        device: Device | None = None,
        stream: Stream | None = None,
        *,
        library: Library | str | None = None,
    ) -> None:
        device = create(self, "cublaslt", ("cublasLtCreate", "cublasLtDestroy"), device, library)
        try:
            self.stream = device.default_stream if stream is None else stream
        except BaseException:
            self.close()
            raise

    @property
    def stream(self) -> Stream:
        """The stream that its work is queued on; cublasLt is told with each call."""
        return super().stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        if self.closed:
            raise ValueError("this Handle is closed")
        check_stream(self, stream)
        self._follow(stream)

    def __repr__(self) -> str:
        if self.closed or self.library is None:
            return "<closed cublaslt.Handle>"
        return f"<cublaslt.Handle of {self.library!r} on {self.device!r}>"
