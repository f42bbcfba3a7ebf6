"""CudaContext: a device, a stream, library handles and a workspace in one (book: helper.h)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from pycudnn import cublas, cublaslt, cudnn
from pycudnn.device import Device
from pycudnn.memory import Buffer, as_index, empty


class CudaContext:
    """What a computation needs, on one device and one stream (book: CudaContext).

    ``stream=None`` makes one, which can be captured; one that is given (a Stream, or what
    ``Device.wrap_stream`` takes) stays the caller's. All handles work on it. cuBLAS gets a
    workspace of its own, so that captured work allocates nothing.

    Attributes: ``device``, ``stream``, ``cudnn``, ``cublas`` and ``cublaslt`` (the handles),
    ``one``, ``zero``, ``minus_one`` (the book's scaling factors), ``closed``.
    """

    one = 1.0
    zero = 0.0
    minus_one = -1.0

    def __init__(
        self, backend: str | None = None, device_index: int = 0, stream: Any = None
    ) -> None:
        if hasattr(self, "closed"):
            raise ValueError("this CudaContext is already made; make a new one")
        self.closed = False
        self.device = device = Device(backend, device_index)
        with ExitStack() as undo:
            if stream is None:
                self.stream = undo.enter_context(device.create_stream())
            else:
                self.stream = device.wrap_stream(stream)
            self.cudnn = undo.enter_context(cudnn.Handle(device, self.stream))
            self.cublas = undo.enter_context(cublas.Handle(device, self.stream))
            self.cublaslt = undo.enter_context(cublaslt.Handle(device, self.stream))
            self._workspace: Buffer | None = None
            if device._blas_workspace_bytes:
                undo.enter_context(self._lend_workspace(device._blas_workspace_bytes))
            self._closing = undo.pop_all()

    @contextmanager
    def _lend_workspace(self, nbytes: int) -> Iterator[None]:
        lent = empty(nbytes, "uint8", device=self.device, stream=self.stream)
        self.cublas.set_workspace(lent)
        memory = lent._open()
        self.stream._residents.append(memory)
        yield
        self.stream._residents.remove(memory)

    def workspace(self, nbytes: int) -> Buffer:
        """The context's workspace of at least ``nbytes``, for one call at a time on its stream.

        It grows and never shrinks. The one before is freed when the stream is past its use, or with
        the graph that was captured with it. MemoryError as for ``empty``: then there is none until
        the next call.
        """
        nbytes = as_index(nbytes, "nbytes")
        if nbytes < 0:
            raise ValueError(f"nbytes must not be negative, got {nbytes}")
        if self.closed:
            raise ValueError("this CudaContext is closed")
        if self._workspace is None or self._workspace.nbytes < nbytes:
            self._workspace = None  # first: the new one may use its memory
            self._workspace = empty(nbytes, "uint8", device=self.device, stream=self.stream)
        return self._workspace

    def synchronize(self) -> None:
        """Wait until all work queued on the stream is done."""
        self.stream.synchronize()

    def close(self) -> None:
        """Close the handles, then the workspaces and, if it was made here, the stream; twice is
        nothing. RuntimeError during a capture."""
        if self.closed:
            return
        if self.stream.capturing:
            raise RuntimeError("the context's stream is being captured: close it afterwards")
        self.closed = True
        self._closing.close()
        self._workspace = None

    def __enter__(self) -> CudaContext:
        if self.closed:
            raise ValueError("this CudaContext is closed")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"CudaContext({self.device}{', closed' if self.closed else ''})"
