"""A GPU as a device, through cuda.core; copies and fills through the driver's own functions.

How memory is freed: every block knows the streams that use it. With one, the free is queued
there; with several, on a stream of the device's own that waits for all of them. A block used in a
captured stream belongs to the graph, since a free in a capture would become part of the graph.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any

import numpy as np

from pycudnn import _core
from pycudnn.device import Device, Event, Graph, Memory, Stream, out_of_memory
from pycudnn.errors import LibraryMismatch, LibraryNotFound

try:
    from cuda import core
    from cuda.bindings import driver
    from cuda.core.utils import StridedMemoryView
except ImportError as error:
    raise LibraryNotFound(
        "the CUDA side needs cuda.core: pip install 'pycudnn[cu13]' (or [cu12])"
    ) from error

_LEGACY_DEFAULT = 1  # cudaStreamLegacy
_BATCH = 64  # objects that keep_alive holds per event
_BATCH_SECONDS = 0.01

_forked = False


def _mark_forked() -> None:
    global _forked
    _forked = True


def _check(result: tuple[Any, ...]) -> Any:
    """The value of a driver call, or RuntimeError with the status."""
    status, *values = result
    if status != 0:
        raise RuntimeError(f"the CUDA driver returned {status.name} ({int(status)})")
    return values[0] if len(values) == 1 else tuple(values)


class _Call:
    """``with _call:`` around work in cuda.core that needs no context."""

    def __enter__(self) -> None:
        _core.enter_call()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _core.leave_call()


_call = _Call()


class _Activation:
    """Makes a context current, and puts the caller's back."""

    __slots__ = ("_address", "_context", "_previous")

    def __init__(self, context: Any, address: int) -> None:
        self._context = context
        self._address = address

    def __enter__(self) -> None:
        if _forked:
            raise RuntimeError(_core.FORKED)
        _core.enter_call()
        try:
            current = _check(driver.cuCtxGetCurrent())
            self._previous = None if int(current) == self._address else current
            if self._previous is not None:
                _check(driver.cuCtxSetCurrent(self._context))
        except BaseException:
            _core.leave_call()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._previous is not None:
                _check(driver.cuCtxSetCurrent(self._previous))
        finally:
            _core.leave_call()


class CudaEvent(Event):
    """An event of the driver."""

    def __init__(self, event: core.Event, timing: bool, graph: CudaGraph | None) -> None:
        self._event = event
        self._timing = timing
        self._graph = graph  # the capture that it was recorded in

    def synchronize(self) -> None:
        """Wait for it."""
        self._check_open()
        with _call:
            self._event.sync()

    @property
    def done(self) -> bool:
        """Has it come to pass?"""
        self._check_open()
        with _call:
            return self._event.is_done

    def elapsed_ms(self, since: Event) -> float:
        """Milliseconds of device time from ``since`` to this event."""
        self._check_open()
        if not isinstance(since, CudaEvent):
            raise TypeError(f"since must be an event of the CUDA side, got {since!r}")
        since._check_open()
        if not (self._timing and since._timing):
            raise ValueError("both events must be recorded with timing=True")
        with _call:
            since._event.sync()
            self._event.sync()
            return float(self._event - since._event)

    def close(self) -> None:
        """Destroy it."""
        if not self.closed:
            self.closed = True
            with _call:
                self._event.close()

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing() and not _forked:
            self.close()


class CudaGraph(Graph):
    """A capture in progress, then an executable graph."""

    def __init__(self, stream: CudaStream) -> None:
        self.device = stream.device
        self._streams = [stream]  # that are being captured into it
        self._stream = stream
        self._executable: Any = None
        self._kept: dict[int, Any] = {}
        self._launched_on: dict[CudaStream, None] = {}
        self._notes: dict[CudaStream, dict[str, Any]] = {}
        for thing in stream._residents:
            self._keep(thing)

    def _keep(self, thing: Any) -> None:
        self._kept[id(thing)] = thing

    def _detach(self) -> None:
        for stream in self._streams:
            stream._graph = None
        self._streams = []

    def launch(self, stream: Stream | None = None) -> None:
        """Queue the captured work."""
        self._check_open()
        if self._executable is None:
            raise RuntimeError("this graph is not complete: leave the capture's with block first")
        target = self._stream if stream is None else stream
        if not isinstance(target, CudaStream) or target.device is not self.device:
            raise LibraryMismatch(f"stream must be a Stream of {self.device!r}, got {stream!r}")
        target._check_open()
        if target not in self._launched_on:
            for thing in self._kept.values():
                if isinstance(thing, CudaMemory):
                    thing.join(target)
            self._launched_on[target] = None
        if target.capturing:
            target.keep_alive(self)
        with self.device.activate():
            self._executable.launch(target._stream)

    def close(self) -> None:
        """Destroy it once its launches are done, and let go of the memory."""
        if self.closed:
            return
        self.closed = True
        held = (self._executable, list(self._kept.values()))
        self._executable, self._kept, self._notes = None, {}, {}
        for stream in self._launched_on:
            stream.keep_alive(held)
        self._launched_on = {}

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing() and not _forked:
            self.close()


class CudaStream(Stream):
    """A stream of the driver."""

    device: CudaDevice

    def __init__(self, device: CudaDevice, stream: core.Stream, owner: Any = None) -> None:
        self.device = device
        self.handle = stream.__cuda_stream__()[1]
        self._stream = stream
        self._raw = stream.handle
        self._owner = owner  # of a stream made elsewhere
        self._graph: CudaGraph | None = None
        self._own_notes: dict[str, Any] = {}
        self._residents: list[Any] = []
        self._batch: list[Any] = []
        self._batch_began = 0.0
        self._batches: deque[tuple[CudaEvent, list[Any]]] = deque()
        self._emptying = threading.Lock()

    # ---- ordering ----

    def _synchronize(self) -> None:
        if self.capturing:
            raise RuntimeError(
                f"{self!r} is being captured: nothing runs before the graph's launch"
            )
        kept = (self._batch, self._batches)
        self._batch, self._batches = [], deque()
        with self.device.activate():
            self._stream.sync()
            del kept

    def record(self, timing: bool = True) -> Event:
        """An event at the end of the queue."""
        self._check_open()
        return self._record(timing)

    def _record(self, timing: bool) -> CudaEvent:
        # By position: the field's name changed between versions of cuda.core.
        options = core.EventOptions(timing)
        with self.device.activate():
            return CudaEvent(self._stream.record(options=options), timing, self._graph)

    def wait(self, event: Event) -> None:
        """Queue a wait for an event."""
        self._check_open()
        if not isinstance(event, CudaEvent):
            raise TypeError(f"event must be an event of the CUDA side, got {event!r}")
        event._check_open()
        self._wait(event)

    def _wait(self, event: CudaEvent) -> None:
        with self.device.activate():
            self._stream.wait(event._event)
        graph = event._graph
        if graph is not None and graph._streams and self._graph is None:
            # CUDA takes a stream that waits for captured work into the capture.
            self._graph = graph
            graph._streams.append(self)

    def _follow(self, other: CudaStream) -> None:
        """Run after all that another stream has queued so far."""
        if other.capturing:
            return
        if self.capturing:
            other._synchronize()  # a capture cannot wait for what is outside of it
        else:
            self._wait(other._record(False))

    def follow_foreign(self, handle: int) -> None:
        """Run after all that a stream of another library, a cudaStream_t, has queued so far."""
        if handle == self.handle:
            return
        with self.device.activate():
            other = core.Stream.from_handle(handle)
            if self.capturing:
                other.sync()  # a capture cannot wait for what is outside of it
            else:
                self._stream.wait(other)

    # ---- keeping alive ----

    def keep_alive(self, thing: Any) -> None:
        """Hold an object until the work queued here so far is done."""
        if self._graph is not None:
            self._graph._keep(thing)
            return
        batch = self._batch
        if not batch:
            self._batch_began = time.monotonic()
        batch.append(thing)
        if len(batch) >= _BATCH or time.monotonic() - self._batch_began > _BATCH_SECONDS:
            self._seal_batch()

    def _seal_batch(self) -> None:
        if self.capturing:
            return  # by code outside this package: no event can be recorded now
        batch, self._batch = self._batch, []
        self._batches.append((self._record(False), batch))
        # Finalisers run in here may come back: they find the lock taken and leave.
        if self._emptying.acquire(blocking=False):
            try:
                batches = self._batches
                with _call:
                    while batches and batches[0][0].done:
                        batches.popleft()
            finally:
                self._emptying.release()

    @property
    def _notes(self) -> dict[str, Any]:
        if self._graph is not None:
            return self._graph._notes.setdefault(self, {})
        return self._own_notes

    # ---- capture ----

    @property
    def capturing(self) -> bool:
        """Is it being captured, here or by the code that it belongs to?"""
        if self._graph is not None:
            return True
        if self._owner is None:
            return False
        with self.device.activate():
            return bool(_check(driver.cuStreamIsCapturing(self._raw)) != 0)

    @contextmanager
    def capture(self) -> Iterator[Graph]:
        """Capture the work queued inside the block."""
        self._check_open()
        if self.handle in (0, _LEGACY_DEFAULT):
            raise ValueError(
                "CUDA cannot capture the legacy default stream: use one of device.create_stream()"
            )
        if self.capturing:
            raise RuntimeError(f"{self!r} is being captured already")
        with self.device.activate():
            builder = self._stream.create_graph_builder()
            builder.begin_building()
        graph = self._graph = CudaGraph(self)
        self.device._captures.add(graph)
        _core.capture_began()
        try:
            yield graph
            with self.device.activate():
                graph._executable = _complete(builder)
        finally:
            with suppress(Exception), self.device.activate():
                builder.close()  # also ends the capture where the block or CUDA broke it off
            graph._detach()
            self.device._captures.discard(graph)
            _core.capture_ended()

    # ---- work ----

    def _launch(
        self, kernel: Any, grid: tuple[int, ...], block: int, arguments: Sequence[int]
    ) -> None:
        self._check_open()
        with self.device.activate():
            core.launch(self._stream, _launch_config(grid, block), kernel, *arguments)

    def close(self) -> None:
        """Wait for its work and end it; the default stream stays open.

        The driver's stream goes when no handle, buffer or graph holds this object any more.
        """
        if not self.closed and self is not self.device._default_stream:
            self._synchronize()
            self.closed = True

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if (self._batch or self._batches) and not finalizing() and not _forked:
            with suppress(Exception):
                self._synchronize()


def _complete(builder: Any) -> Any:
    try:
        builder.end_building()
        return builder.complete()
    except Exception as error:
        raise RuntimeError(
            f"the capture is not valid: a call inside it cannot be captured ({error})"
        ) from error


@functools.lru_cache(maxsize=1024)
def _launch_config(grid: tuple[int, ...], block: int) -> core.LaunchConfig:
    return core.LaunchConfig(grid=grid, block=block)


class CudaMemory(Memory):
    """A block of the device's stream-ordered pool."""

    device: CudaDevice

    def __init__(
        self, device: CudaDevice, block: core.Buffer, streams: list[CudaStream], shown: bool = False
    ) -> None:
        self.device = device
        self.address = int(block.handle)
        self._block: core.Buffer | None = block
        self._streams = streams
        self._shown = shown

    def join(self, stream: Stream) -> None:
        """Note a stream; its first use waits for all use so far."""
        assert isinstance(stream, CudaStream)
        if stream._graph is not None:
            stream._graph._keep(self)
        if stream not in self._streams:
            for other in list(self._streams):
                stream._follow(other)
            self._streams.append(stream)

    def order(self, stream: Stream | None) -> Stream:
        """The stream for a copy or fill."""
        if stream is not None:
            self.join(stream)
            return stream
        if not self._streams:
            return self.device._own_stream
        # A captured stream cannot wait for the others; they are waited for instead.
        chosen = next((s for s in self._streams if s.capturing), self._streams[-1])
        for other in list(self._streams):
            if other is not chosen:
                chosen._follow(other)
        self.join(chosen)
        return chosen

    def settle(self, stream: Stream) -> None:
        """Wait for the device's own stream."""
        if stream is self.device._own_stream:
            stream._synchronize()

    def show(self) -> None:
        """Note use by code outside this package."""
        self._shown = True

    def array(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Raise TypeError: the host cannot read it."""
        raise TypeError("this is device memory: copy it to the host with numpy()")

    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's name of the GPU."""
        return (2, self.device.index)  # kDLCUDA

    def dlpack(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        stream: int | None,
        options: dict[str, Any],
    ) -> Any:
        """cuda.core's capsule; the consumer's stream waits for all use so far."""
        if dtype.kind not in "biufc":
            raise BufferError(
                f'cuda.core exports no {dtype}: export view(dtype="uint16") and reinterpret it'
            )
        self.show()
        if stream != -1:
            # As DLPack says: None is the legacy default stream.
            consumer = self.device.wrap_stream(_LEGACY_DEFAULT if stream is None else stream)
            for other in list(self._streams):
                if other is not consumer:
                    consumer._follow(other)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with self.device.activate():
            block = core.Buffer.from_handle(address, nbytes, owner=self)
            view = StridedMemoryView.from_buffer(block, shape, dtype=dtype)
            return view.__dlpack__(**options)

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if self._block is not None and not finalizing() and not _forked:
            block, self._block = self._block, None
            self._free(block)

    def _free(self, block: core.Buffer) -> None:
        captured = next((stream for stream in self._streams if stream.capturing), None)
        if captured is not None:
            captured.keep_alive(CudaMemory(self.device, block, self._streams, self._shown))
            return
        own = self.device._own_stream
        if self._shown and self.device._captures:
            # The device cannot be synchronised now: the next batch of frees does it.
            own.keep_alive(CudaMemory(self.device, block, self._streams, self._shown))
            return
        with self.device.activate():
            if self._shown:
                _check(driver.cuCtxSynchronize())
            if len(self._streams) == 1:
                block.close(self._streams[0]._stream)
                return
            for stream in self._streams:
                own._follow(stream)
            block.close(own._stream)


class _PinnedBlock:
    """Page-locked host memory as NumPy finds it; freed when no array uses it."""

    def __init__(self, device: CudaDevice, nbytes: int, block: core.Buffer) -> None:
        self._device = device
        self._block = block
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (int(block.handle), False),
            "version": 3,
        }

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing() and not _forked:
            with self._device.activate():
                self._block.close()


class CudaDevice(Device):
    """A GPU."""

    def _set_up(self, index: int) -> None:
        self.backend = "cuda"
        self.index = index
        self._device = core.Device(index)
        previous = _check(driver.cuCtxGetCurrent())
        self._device.set_current()
        self._multiprocessor_count = int(self._device.properties.multiprocessor_count)
        # What cuBLAS would take by itself: 32 MiB from Hopper on.
        self._blas_workspace_bytes = (32 if self.compute_capability >= (9, 0) else 8) << 20
        self._primary = self._device.context  # holds the primary context
        self._context = self._primary.handle
        self._context_address = int(self._context)
        self._pool = self._device.memory_resource
        _check(driver.cuCtxSetCurrent(previous))
        self._captures: set[CudaGraph] = set()  # in progress
        self._compiled: dict[tuple[str, str], Any] = {}
        self._compiling = threading.Lock()
        self._wrapped: weakref.WeakValueDictionary[int, CudaStream] = weakref.WeakValueDictionary()
        self._default_stream = CudaStream(self, self._device.default_stream)
        self._wrapped[self._default_stream.handle] = self._default_stream
        # For allocations that any stream may use at once, and for frees that wait for several.
        # Made now: a finaliser may be the first to need it.
        self._own_stream = self._new_stream()
        _fork_guard()

    @property
    def name(self) -> str:
        """The GPU's marketing name."""
        return self._device.name

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(major, minor)."""
        found = self._device.compute_capability
        return (int(found[0]), int(found[1]))

    @property
    def multiprocessor_count(self) -> int:
        """The number of streaming multiprocessors."""
        return self._multiprocessor_count

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of device memory."""
        with self.activate():
            free, total = _check(driver.cuMemGetInfo())
        return int(free), int(total)

    @property
    def default_stream(self) -> Stream:
        """The default stream: the legacy one, or per thread if cuda.core was told so."""
        return self._default_stream

    def create_stream(self) -> Stream:
        """A new stream that does not wait for the default one."""
        return self._new_stream()

    def _new_stream(self) -> CudaStream:
        with self.activate():
            device = core.Device(self.index)  # cuda.core has one per thread
            device.set_current()
            stream = CudaStream(self, device.create_stream())
        self._wrapped[stream.handle] = stream
        return stream

    def wrap_stream(self, stream: Any) -> CudaStream:
        """A stream made elsewhere."""
        if isinstance(stream, Stream):
            if stream.device is not self:
                raise LibraryMismatch(f"stream must be one of {self!r}, got {stream!r}")
            assert isinstance(stream, CudaStream)
            return stream
        # Handle 0 is the default stream too.
        handle = _stream_handle(stream) or self._default_stream.handle
        known = self._wrapped.get(handle)
        if known is not None:
            return known
        with self.activate():
            wrapped = core.Stream.from_handle(handle)
            if handle > 2 and wrapped.device.device_id != self.index:
                raise LibraryMismatch(
                    f"stream {handle:#x} is on device {wrapped.device.device_id}, not {self.index}"
                )
        # The default streams (1 and 2) have no maker that could capture them.
        self._wrapped[handle] = made = CudaStream(self, wrapped, stream if handle > 2 else None)
        return made

    def synchronize(self) -> None:
        """Wait until all work on the device is done."""
        if self._captures:
            raise RuntimeError(f"a stream of {self!r} is being captured: it cannot synchronise")
        with self.activate():
            _check(driver.cuCtxSynchronize())

    def activate(self) -> AbstractContextManager[None]:
        """Make the primary context current."""
        return _Activation(self._context, self._context_address)

    def _allocate(self, nbytes: int, stream: Stream | None) -> Memory:
        if stream is None or stream.capturing:
            # Not part of the capture: the graph keeps the memory instead of making it.
            target, streams = self._own_stream, []
        else:
            target = self.wrap_stream(stream)
            target._check_open()
            streams = [target]
        # An address even for no bytes: NULL means something else to cuDNN.
        with self.activate():
            try:
                block = self._pool.allocate(max(nbytes, 1), stream=target._stream)
            except Exception as error:
                free, total = self.memory_info()
                if not _is_out_of_memory(error) and nbytes <= total:
                    raise
                raise out_of_memory(nbytes, self, free, total) from error
        if not streams:
            target._synchronize()
        return CudaMemory(self, block, streams)

    def _allocate_pinned(self, nbytes: int) -> np.ndarray:
        with self.activate():
            try:
                block = core.LegacyPinnedMemoryResource().allocate(max(nbytes, 1))
            except Exception as error:
                if not _is_out_of_memory(error):
                    raise
                raise MemoryError(f"no {nbytes:,} bytes of page-locked host memory") from error
        return np.asarray(_PinnedBlock(self, nbytes, block))

    def _copy(self, destination: int, source: int, nbytes: int, stream: Stream) -> None:
        assert isinstance(stream, CudaStream)
        with self.activate():
            _check(driver.cuMemcpyAsync(destination, source, nbytes, stream._raw))

    def _fill(self, address: int, value: int, nbytes: int, stream: Stream) -> None:
        assert isinstance(stream, CudaStream)
        with self.activate():
            _check(driver.cuMemsetD8Async(address, value, nbytes, stream._raw))

    def _compile(self, source: str, function: str) -> Any:
        with self._compiling:
            if (source, function) not in self._compiled:
                major, minor = self.compute_capability
                options = core.ProgramOptions(arch=f"sm_{major}{minor}", std="c++17")
                with self.activate():
                    code = core.Program(source, "c++", options).compile("cubin")
                    self._compiled[source, function] = code.get_kernel(function)
            return self._compiled[source, function]


def _is_out_of_memory(error: Exception) -> bool:
    # cuda.core's error class is private; a size beyond 64 bits is an OverflowError.
    return "OUT_OF_MEMORY" in str(error) or isinstance(error, OverflowError)


@functools.cache
def _fork_guard() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_mark_forked)


def _stream_handle(stream: Any) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    handle = getattr(stream, "cuda_stream", None)
    if isinstance(handle, int):
        return handle
    raise TypeError(
        "stream must be a Stream, a cudaStream_t as int, or an object with __cuda_stream__ or "
        f"cuda_stream, got {stream!r}"
    )
