"""Device, stream, event and graph: one interface, a GPU behind it or the host.

``Device("cuda", 1)`` is the second GPU, driven through cuda.core; ``Device("reference")`` is the
host, where all work is synchronous. Nothing above this module asks which of the two it holds.
"""

from __future__ import annotations

import functools
import operator
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from pycudnn.errors import LibraryNotFound, NotSupported

BACKENDS = ("cuda", "reference")

_Closable = TypeVar("_Closable", bound="_Closing")


def default_backend() -> str:
    """ "cuda" or "reference": what is used where no backend is named.

    The environment variable PYCUDNN_BACKEND decides if it is set (ValueError for any other value).
    Otherwise "cuda" where the driver reports a device and cuDNN loads, else "reference".
    """
    chosen = os.environ.get("PYCUDNN_BACKEND")
    if not chosen:
        return _detected_backend()
    if chosen not in BACKENDS:
        raise ValueError(f"PYCUDNN_BACKEND must be one of {BACKENDS}, got {chosen!r}")
    return chosen


@functools.cache
def _detected_backend() -> str:
    from pycudnn import loader

    try:
        cuda_device_count()
        loader.load("cudnn")
    except (LibraryNotFound, NotSupported):
        return "reference"
    return "cuda"


def cuda_device_count() -> int:
    """The number of GPUs (cudaGetDeviceCount); the first thing asked of the driver.

    Raises LibraryNotFound where cuda-python is not installed, NotSupported where there is no
    driver, a driver too old, or no GPU.
    """
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise LibraryNotFound(
            "the CUDA side needs cuda-python: pip install 'pycudnn[cu13]' (or [cu12]); "
            "PYCUDNN_BACKEND=reference runs without a GPU"
        ) from error
    status, count = runtime.cudaGetDeviceCount()
    if status != 0 or count == 0:
        raise NotSupported(
            f"no CUDA device: cudaGetDeviceCount returned {status.name} ({int(status)}). An NVIDIA "
            "driver that fits the installed cuda-python is missing, or CUDA_VISIBLE_DEVICES hides "
            "every GPU; PYCUDNN_BACKEND=reference runs without one"
        )
    return int(count)


class _Closing(ABC):
    """What ``close()`` ends; ``with`` closes, closing twice is nothing."""

    closed = False
    _kind: str

    @abstractmethod
    def close(self) -> None:
        """End it; twice is nothing."""

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"this {self._kind} is closed")

    def __enter__(self: _Closable) -> _Closable:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Event(_Closing):
    """A point in a stream's work (cudaEvent_t); made by ``Stream.record``."""

    _kind = "Event"

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the work before this point is done (cudaEventSynchronize)."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Is the work before this point done? Does not wait (cudaEventQuery)."""

    @abstractmethod
    def elapsed_ms(self, since: Event) -> float:
        """Milliseconds of device time from ``since`` to this event; waits for both.

        ValueError unless both were recorded with ``timing=True`` (cudaEventElapsedTime).
        """


class Graph(_Closing):
    """Work captured from a stream, launched again at the cost of one call (cudaGraphExec_t).

    It keeps alive the memory that was used while it was captured; the handles that were used must
    stay open.
    """

    _kind = "Graph"

    @abstractmethod
    def launch(self, stream: Stream | None = None) -> None:
        """Queue the captured work on a stream; None is the one it was captured from."""


class Stream(_Closing):
    """A queue of work on one device (cudaStream_t); made by ``Device.create_stream``.

    ``device`` is its device, ``handle`` the cudaStream_t as an int.
    """

    _kind = "Stream"
    device: Device
    handle: int
    _residents: list[Any]  # kept by every graph captured from here

    def synchronize(self) -> None:
        """Wait until all work queued here is done; RuntimeError while it is being captured."""
        self._check_open()
        self._synchronize()

    @abstractmethod
    def _synchronize(self) -> None:
        """Like synchronize, on a closed stream too."""

    @abstractmethod
    def record(self, timing: bool = True) -> Event:
        """An event that is done when the work queued here so far is (cudaEventRecord)."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Have the work queued here from now on wait for an event; does not block."""

    @abstractmethod
    def capture(self) -> AbstractContextManager[Graph]:
        """``with stream.capture() as graph:`` records the work queued inside instead of doing it.

        After the block ``graph.launch()`` does it, any number of times. Memory that calls of this
        package use inside is kept by the graph; reading back or synchronising inside is an error.
        ValueError on the legacy default stream, which CUDA cannot capture; NotSupported on the
        reference side.
        """

    @abstractmethod
    def follow_foreign(self, handle: int) -> None:
        """Run after what another library has queued on its stream, a cudaStream_t, so far."""
        raise NotImplementedError

    def keep_alive(self, thing: Any) -> None:
        """Hold an object until the work queued here so far is done.

        One event serves many objects, so some are held a little longer. While the stream is being
        captured, the graph holds the object instead.
        """

    @property
    @abstractmethod
    def capturing(self) -> bool:
        """Is work being captured from this stream?"""

    @property
    @abstractmethod
    def _notes(self) -> dict[str, Any]:
        """What others keep per stream; a capture in progress has its own."""

    @abstractmethod
    def _launch(
        self, kernel: Any, grid: tuple[int, ...], block: int, arguments: Sequence[int]
    ) -> None:
        """Queue a compiled kernel; each argument is a pointer or a 64-bit integer."""

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<Stream {self.handle:#x} on {self.device}{state}>"


class Memory(ABC):
    """A block of memory and the streams that use it; freed when nothing holds it any more.

    Buffers, their views, graphs and other libraries' arrays share one of these.
    """

    device: Device
    address: int

    @abstractmethod
    def join(self, stream: Stream) -> None:
        """Note that a stream uses this memory; its first use waits for all use so far."""

    @abstractmethod
    def order(self, stream: Stream | None) -> Stream:
        """The stream for a copy or fill; with None, one that waits for all use so far."""

    @abstractmethod
    def settle(self, stream: Stream) -> None:
        """After work on a stream that ``order(None)`` gave: let any other stream follow it."""

    @abstractmethod
    def show(self) -> None:
        """Note that code outside this package may use this memory, on streams unknown here."""

    @abstractmethod
    def array(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """A part of the memory as an array that keeps it alive; TypeError on a GPU."""

    @abstractmethod
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's (device type, index)."""

    @abstractmethod
    def dlpack(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        stream: int | None,
        options: dict[str, Any],
    ) -> Any:
        """A DLPack capsule of a part of the memory, which keeps it alive."""


class Device:
    """A GPU (backend "cuda") or the host in its place (backend "reference").

    One object per backend and index, for the life of the process; with ``backend=None`` the
    default one. Every operation makes its own device current and restores the caller's.

    Raises ValueError for another backend or an index out of range, LibraryNotFound and
    NotSupported where the CUDA side is not installed or there is no GPU.
    """

    backend: str
    index: int
    _blas_workspace_bytes: int  # what a context gives to cuBLAS

    def __new__(cls, backend: str | None = None, index: int = 0) -> Device:
        """Find or make the one object."""
        if backend is None:
            backend = default_backend()
        if not isinstance(backend, str) or backend not in BACKENDS:
            raise ValueError(f"backend must be one of {BACKENDS} or None, got {backend!r}")
        try:
            index = operator.index(index)
        except TypeError:
            raise TypeError(f"index must be an int, got {index!r}") from None
        made = _devices.get((backend, index))
        if made is not None:
            return made
        count = cuda_device_count() if backend == "cuda" else 1
        if not 0 <= index < count:
            raise ValueError(
                f"index must be in [0, {count}): there are {count} {backend} device(s), got {index}"
            )
        with _devices_lock:
            if (backend, index) not in _devices:
                made = object.__new__(_side(backend))
                made._set_up(index)
                _devices[backend, index] = made
            return _devices[backend, index]

    def _set_up(self, index: int) -> None:
        """Open the device; once, from the constructor."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The marketing name of the GPU, or of the host's processor kind."""
        raise NotImplementedError

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(major, minor) of the GPU; (0, 0) on the reference side."""
        raise NotImplementedError

    @property
    def multiprocessor_count(self) -> int:
        """The number of streaming multiprocessors; 0 on the reference side."""
        raise NotImplementedError

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of its memory (cudaMemGetInfo).

        Memory that this process has freed stays reserved in its pool and does not count as free.
        """
        raise NotImplementedError

    @property
    def default_stream(self) -> Stream:
        """The stream that CUDA uses where none is given; it cannot be captured or closed."""
        raise NotImplementedError

    def create_stream(self) -> Stream:
        """A new stream, independent of the default one (cudaStreamNonBlocking)."""
        raise NotImplementedError

    def wrap_stream(self, stream: Any) -> Stream:
        """A stream made elsewhere, which stays its maker's.

        Takes a Stream, a cudaStream_t as int (it must outlive the result), or an object with
        ``__cuda_stream__`` (cuda.core, CuPy) or ``cuda_stream`` (PyTorch), which is kept alive.
        TypeError for anything else, LibraryMismatch for a stream of another device.
        """
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until all work on the device is done; RuntimeError during a capture."""
        raise NotImplementedError

    def activate(self) -> AbstractContextManager[None]:
        """Make its CUDA context current at once; the end of a ``with`` restores the caller's."""
        raise NotImplementedError

    def _allocate(self, nbytes: int, stream: Stream | None) -> Memory:
        """Memory for use on one stream, or with None at once on any; else MemoryError."""
        raise NotImplementedError

    def _allocate_pinned(self, nbytes: int) -> np.ndarray:
        """Host bytes that copies to and from the device can use while the host goes on."""
        raise NotImplementedError

    def _copy(self, destination: int, source: int, nbytes: int, stream: Stream) -> None:
        """Queue a copy between two addresses, of the device or the host."""
        raise NotImplementedError

    def _fill(self, address: int, value: int, nbytes: int, stream: Stream) -> None:
        """Queue setting every byte to a value."""
        raise NotImplementedError

    def _compile(self, source: str, function: str) -> Any:
        """Compile CUDA C++ for this device; the function can then be launched."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.backend, self.index)

    def __repr__(self) -> str:
        return f"{self.backend}:{self.index}"


_devices: dict[tuple[str, int], Device] = {}
_devices_lock = threading.Lock()


def _side(backend: str) -> type[Device]:
    if backend == "cuda":
        from pycudnn._device_cuda import CudaDevice

        return CudaDevice
    from pycudnn._device_reference import ReferenceDevice

    return ReferenceDevice


def out_of_memory(nbytes: int, device: Device, free: int, total: int) -> MemoryError:
    """The error for an allocation that failed."""
    return MemoryError(
        f"out of memory on {device}: {nbytes:,} bytes requested, {free:,} free of {total:,}"
    )
