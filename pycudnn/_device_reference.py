"""The host as a device: NumPy memory, and work that is done when its call returns."""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from pycudnn.device import Device, Event, Graph, Memory, Stream, out_of_memory
from pycudnn.errors import NotSupported

_ALIGNMENT = 256  # as device memory has; cublasSetWorkspace wants it
_handles = itertools.count(1)


class ReferenceEvent(Event):
    """A moment of the host's clock."""

    def __init__(self, timing: bool) -> None:
        self._seconds = time.perf_counter() if timing else None

    def synchronize(self) -> None:
        """Do nothing: the work before it is done."""
        self._check_open()

    @property
    def done(self) -> bool:
        """True: the work before it is done."""
        self._check_open()
        return True

    def elapsed_ms(self, since: Event) -> float:
        """Milliseconds of host time from ``since`` to this event."""
        self._check_open()
        if not isinstance(since, ReferenceEvent):
            raise TypeError(f"since must be an event of the reference side, got {since!r}")
        if self._seconds is None or since._seconds is None:
            raise ValueError("both events must be recorded with timing=True")
        return (self._seconds - since._seconds) * 1e3

    def close(self) -> None:
        """End it."""
        self.closed = True


class ReferenceStream(Stream):
    """A stream that never has work left."""

    capturing = False

    def __init__(self, device: ReferenceDevice) -> None:
        self.device = device
        self.handle = next(_handles)
        self._residents: list[Any] = []
        self._own_notes: dict[str, Any] = {}

    def _synchronize(self) -> None:
        pass

    def record(self, timing: bool = True) -> Event:
        """An event of now."""
        self._check_open()
        return ReferenceEvent(timing)

    def wait(self, event: Event) -> None:
        """Do nothing: the event is done."""
        self._check_open()
        if not isinstance(event, ReferenceEvent):
            raise TypeError(f"event must be an event of the reference side, got {event!r}")

    def capture(self) -> AbstractContextManager[Graph]:
        """Raise NotSupported: there is no queue to capture from."""
        raise NotSupported("the reference side has no graphs: its work is done at once")

    def follow_foreign(self, handle: int) -> None:
        """Nothing: work here is done when its call returns."""

    def keep_alive(self, thing: Any) -> None:
        """Do nothing: the work that used it is done."""

    def close(self) -> None:
        """End it; the default stream stays open."""
        if self is not self.device.default_stream:
            self.closed = True

    @property
    def _notes(self) -> dict[str, Any]:
        return self._own_notes

    def _launch(
        self, kernel: Any, grid: tuple[int, ...], block: int, arguments: Sequence[int]
    ) -> None:
        raise NotSupported("the reference side runs no CUDA kernels")


class ReferenceMemory(Memory):
    """Host memory, aligned; NumPy frees it."""

    def __init__(self, device: ReferenceDevice, block: np.ndarray) -> None:
        self.device = device
        self.address = block.ctypes.data
        self._block = block

    def join(self, stream: Stream) -> None:
        """Do nothing: no stream has work left."""

    def order(self, stream: Stream | None) -> Stream:
        """The stream asked for, or the default one."""
        return self.device.default_stream if stream is None else stream

    def settle(self, stream: Stream) -> None:
        """Do nothing."""

    def show(self) -> None:
        """Do nothing: an array of this memory keeps it alive."""

    def array(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """A part of the memory as an array."""
        first = address - self.address
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._block[first : first + nbytes].view(dtype).reshape(shape)

    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's name of the host."""
        return (1, 0)  # kDLCPU

    def dlpack(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        stream: int | None,
        options: dict[str, Any],
    ) -> Any:
        """NumPy's capsule."""
        if stream is not None:
            raise BufferError(f"stream must be None for host memory, got {stream!r}")
        array = self.array(address, shape, dtype)
        # NumPy before 2.1 knows no keyword but stream.
        return array.__dlpack__(
            **{key: value for key, value in options.items() if value is not None}
        )


class ReferenceDevice(Device):
    """The host."""

    _blas_workspace_bytes = 0

    def _set_up(self, index: int) -> None:
        self.backend = "reference"
        self.index = index
        self._default_stream = ReferenceStream(self)

    @property
    def name(self) -> str:
        """The processor's name as the operating system has it."""
        return platform.processor() or platform.machine()

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(0, 0): there is no GPU."""
        return (0, 0)

    @property
    def multiprocessor_count(self) -> int:
        """0: there is no GPU."""
        return 0

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of the host's memory; NotSupported where the system does not say."""
        try:
            page = os.sysconf("SC_PAGE_SIZE")
            free = os.sysconf("SC_AVPHYS_PAGES")
            total = os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            raise NotSupported(
                f"{platform.system()} does not tell how much memory is free"
            ) from None
        return free * page, total * page

    @property
    def default_stream(self) -> Stream:
        """The stream used where none is given."""
        return self._default_stream

    def create_stream(self) -> Stream:
        """A new stream."""
        return ReferenceStream(self)

    def wrap_stream(self, stream: Any) -> Stream:
        """Return a stream of this device; the host has no streams of others."""
        if isinstance(stream, ReferenceStream):
            return stream
        raise TypeError(f"stream must be a Stream of {self!r}, got {stream!r}")

    def synchronize(self) -> None:
        """Do nothing: all work is done."""

    def activate(self) -> AbstractContextManager[None]:
        """Do nothing: there is no context."""
        return nullcontext()

    def _allocate(self, nbytes: int, stream: Stream | None) -> Memory:
        return ReferenceMemory(self, self._allocate_pinned(nbytes))

    def _allocate_pinned(self, nbytes: int) -> np.ndarray:
        try:
            block = np.empty(nbytes + _ALIGNMENT, np.uint8)
        except (MemoryError, ValueError):  # ValueError: more than an array can ever hold
            raise out_of_memory(nbytes, self, *self.memory_info()) from None
        first = -block.ctypes.data % _ALIGNMENT
        return block[first : first + nbytes]

    def _copy(self, destination: int, source: int, nbytes: int, stream: Stream) -> None:
        ctypes.memmove(destination, source, nbytes)

    def _fill(self, address: int, value: int, nbytes: int, stream: Stream) -> None:
        ctypes.memset(address, value, nbytes)

    def _compile(self, source: str, function: str) -> Any:
        raise NotSupported("the reference side runs no CUDA kernels")
