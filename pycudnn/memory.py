"""Memory of a device as typed buffers, and host memory for copies that do not wait.

What ``stream`` means everywhere: work is queued on that stream, after what was queued there before.
With None it waits for all earlier use of the buffer, and a new buffer may be used at once on any
stream. The first use of a buffer on one more stream waits for its use so far; after that, ordering
streams among each other is the caller's (``Stream.record``, ``Stream.wait``).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Union

import ml_dtypes
import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import DataType
from pycudnn.device import Device, Memory, Stream
from pycudnn.errors import LibraryMismatch

Shape = Union[int, Sequence[int]]  # noqa: UP007 (evaluated at import, on Python 3.10 too)


def as_index(value: Any, name: str) -> int:
    """A whole number, or a TypeError that names the argument."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None


def _as_shape(shape: Shape) -> tuple[int, ...]:
    is_sequence = isinstance(shape, Iterable) and not isinstance(shape, (str, bytes, Set, Mapping))
    sizes: Any = shape if is_sequence else (shape,)
    try:
        checked = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise TypeError(f"shape must be an int or a sequence of ints, got {shape!r}") from None
    for axis, size in enumerate(checked):
        if size < 0:
            raise ValueError(
                f"shape must not be negative, got {size} in dimension {axis}: {checked}"
            )
    return checked


def _as_dtype(given: Any, name: str = "dtype") -> np.dtype[Any]:
    dtype = given
    if isinstance(dtype, DataType):
        dtype = dtypes.to_numpy(dtype)
    elif isinstance(dtype, str) and dtype == "bfloat16":
        dtype = ml_dtypes.bfloat16
    try:
        found = None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # NumPy parses the text of a dtype
        found = None
    if found is None or not found.isnative or not _is_number(found):
        raise TypeError(f"{name} must be a native NumPy number type, got {given!r}")
    return found


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Is it a type of numbers? The kind of ml_dtypes' is V, as of structures and untyped bytes."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)


class Buffer(_core.Buffer):
    """A C-contiguous array in the memory of a device; made by ``empty``, ``zeros``, ``from_numpy``.

    Views share the memory, which is freed when the last of them is closed or dropped, also while
    work that uses it is queued: the free comes after that work.

    Attributes: ``shape``, ``dtype`` (np.dtype, ml_dtypes.bfloat16 included), ``device``,
    ``address`` (int), ``nbytes``. Other libraries take it as it is: NumPy on the reference side,
    anything with DLPack or the CUDA array interface on a GPU.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: Device
    _memory: Memory | None = None

    def __init__(
        self, memory: Memory, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.device = device = memory.device
        self.shape = shape
        self.dtype = dtype
        self._memory = memory
        nbytes = math.prod(shape) * dtype.itemsize
        self._set(address, nbytes, device.backend, device.index, dtypes.code(dtype))

    # ---- what it is ----

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def stream(self) -> Stream | None:
        """The stream that used this buffer last, None if none has."""
        return self.last_stream

    def __repr__(self) -> str:
        if self.backend is None:
            return "<Buffer that was never made>"
        state = ", closed" if self.closed else ""
        return f"Buffer({self.shape}, {self.dtype}, {self.device}{state})"

    def __reduce__(self) -> Any:
        raise TypeError("a Buffer is memory of this process and cannot be pickled: use numpy()")

    # ---- what work does with it ----

    def _open(self) -> Memory:
        memory = self._memory
        if self.backend is None:
            raise ValueError("this Buffer was never made: use empty, zeros or from_numpy")
        if self.closed or memory is None:
            raise ValueError("this Buffer is closed")
        return memory

    def _release(self) -> None:
        self._memory = None

    def _used_on(self, stream: Any) -> None:
        super()._used_on(stream)
        if self._memory is not None and stream is not None:
            self._memory.join(stream)

    def _on(self, stream: Stream) -> int:
        """Its address, for work about to be queued on a stream."""
        self._open()
        if stream.device is not self.device:
            raise LibraryMismatch(f"{self!r} is not memory of {stream!r}'s device")
        if self.last_stream is not stream or stream.capturing:
            self._used_on(stream)
        return self.address

    def _begin(self, stream: Stream | None) -> Stream:
        """The stream for a copy or fill."""
        memory = self._open()
        if stream is not None:
            if not isinstance(stream, Stream) or stream.device is not self.device:
                raise LibraryMismatch(f"stream must be a Stream of {self.device}, got {stream!r}")
            stream._check_open()
            self._on(stream)
        return memory.order(stream)

    # ---- copying ----

    def numpy(self, stream: Stream | None = None) -> np.ndarray:
        """A fresh copy on the host, complete on return.

        RuntimeError while the stream is being captured: nothing runs before the graph's launch.
        """
        chosen = self._begin(stream)
        if chosen.capturing:
            raise RuntimeError(f"{self!r} cannot be read back while {chosen!r} is being captured")
        memory = self._open()
        result = np.empty(self.shape, self.dtype)
        if result.nbytes:
            self.device._copy(result.ctypes.data, self.address, result.nbytes, chosen)
        chosen._synchronize()
        del memory  # held until the copy is done, should another thread close this
        return result

    def copy_from(
        self, source: np.ndarray | PinnedBuffer | Buffer, stream: Stream | None = None
    ) -> None:
        """Overwrite it with a source of the same shape and dtype.

        A NumPy array may be changed or dropped on return. From a PinnedBuffer or a Buffer of the
        same device the copy is queued, and the source must not be changed before it is done.
        ValueError for another shape, TypeError for another dtype.
        """
        self._open()
        if isinstance(source, Buffer):
            source._open()
            if source.device is self.device:
                self._copy_buffer(source, stream)
                return
            source = source.numpy()
        array = source.array if isinstance(source, PinnedBuffer) else np.asarray(source)
        _check_alike(array, self)
        chosen = self._begin(stream)
        pinned = isinstance(source, PinnedBuffer)
        if not pinned and chosen.capturing:
            raise RuntimeError(
                f"a copy from a NumPy array cannot be captured (on {chosen!r}): the graph would "
                "read memory that may be gone; copy from a PinnedBuffer"
            )
        memory = self._open()
        # Not ascontiguousarray: that one gives a 0-dimensional array a dimension.
        array = np.asarray(array, order="C")
        if array.nbytes:
            self.device._copy(self.address, array.ctypes.data, array.nbytes, chosen)
        if pinned:
            chosen.keep_alive(array)
            memory.settle(chosen)
        else:
            chosen._synchronize()

    def _copy_buffer(self, source: Buffer, stream: Stream | None) -> None:
        _check_alike(source, self)
        chosen = self._begin(stream)
        held = (self._open(), source._open())
        source._on(chosen)
        if self.nbytes:
            self.device._copy(self.address, source.address, self.nbytes, chosen)
        held[0].settle(chosen)

    def fill_bytes(self, value: int, stream: Stream | None = None) -> None:
        """Set every byte to ``value``, 0 to 255; 255 makes every float a NaN."""
        value = as_index(value, "value")
        if not 0 <= value <= 255:
            raise ValueError(f"value must be in [0, 255], got {value}")
        chosen = self._begin(stream)
        memory = self._open()
        if self.nbytes:
            self.device._fill(self.address, value, self.nbytes, chosen)
        memory.settle(chosen)

    # ---- views ----

    def reshape(self, *shape: Any) -> Buffer:
        """The same memory in another shape of as many elements; one size may be -1."""
        self._open()
        sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if sizes.count(-1) == 1:
            known = math.prod(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = self.size // known if known else 0
        checked = _as_shape(sizes)
        if math.prod(checked) != self.size:
            raise ValueError(f"shape {tuple(shape)} has not the {self.size} elements of {self!r}")
        return self.view(checked)

    def view(self, shape: Shape | None = None, dtype: Any = None, offset: int = 0) -> Buffer:
        """A part of the same memory, from byte ``offset``, in another shape or dtype.

        Without a shape: all that follows the offset, in one dimension if the dtype's size or the
        offset differ. ValueError if it does not fit or is not aligned.
        """
        memory = self._open()
        kind = self.dtype if dtype is None else _as_dtype(dtype)
        offset = as_index(offset, "offset")
        room = self.nbytes - offset
        if not 0 <= offset <= self.nbytes or offset % kind.itemsize:
            raise ValueError(
                f"offset must be a multiple of {kind.itemsize} in [0, {self.nbytes}], got {offset}"
            )
        if shape is not None:
            sizes = _as_shape(shape)
        elif offset == 0 and kind.itemsize == self.dtype.itemsize:
            sizes = self.shape
        else:
            sizes = (room // kind.itemsize,)
        needed = math.prod(sizes) * kind.itemsize
        if needed > room:
            raise ValueError(f"shape {sizes} of {kind} needs {needed} bytes, {self!r} has {room}")
        made = Buffer(memory, self.address + offset, sizes, kind)
        if self.last_stream is not None:
            made._used_on(self.last_stream)
        return made

    # ---- other libraries ----

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3; an AttributeError on the reference side."""
        if self.backend != "cuda":
            raise AttributeError("this is host memory: it has no __cuda_array_interface__")
        memory = self._open()
        memory.show()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.nbytes else 0, False),
            "strides": None,
            "version": 3,
            "stream": None if self.last_stream is None else memory.order(None).handle,
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's; an AttributeError on a GPU, and for bfloat16, which it has no letter for."""
        if self.backend != "reference" or self.dtype.kind == "V":
            raise AttributeError("no __array_interface__: use numpy()")
        # The data as an object: the consumer then holds the memory, not just this buffer.
        block = self.view((self.nbytes,), np.uint8)._array()
        return {"shape": self.shape, "typestr": self.dtype.str, "data": block, "version": 3}

    def _array(self) -> np.ndarray:
        """The memory itself as an array; TypeError on a GPU."""
        return self._open().array(self.address, self.shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """NumPy's own, without a copy on the reference side; TypeError on a GPU."""
        array = self._array()
        if dtype is not None and dtype != array.dtype:
            if copy is False:
                raise ValueError(f"{self!r} as {np.dtype(dtype)} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the same memory (``torch.from_dlpack(buffer)``).

        On a GPU the consumer's ``stream`` waits for the work queued so far (None: the legacy
        default stream, -1: no waiting). BufferError for bfloat16, another device, or a copy.
        """
        memory = self._open()
        if dl_device is not None and dl_device != memory.dlpack_device():
            raise BufferError(f"{self!r} cannot be exported to another device: {dl_device}")
        options = {"max_version": max_version, "copy": copy}
        return memory.dlpack(self.address, self.shape, self.dtype, stream, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (device type, index): (2, i) on GPU i, (1, 0) on the host."""
        return self._open().dlpack_device()


class PinnedBuffer:
    """Page-locked host memory: copies from and to it are queued and do not wait.

    ``array`` is the memory as a NumPy array. Before it is changed or read, wait for the copies that
    use it: ``stream.synchronize()`` or an event.
    """

    def __init__(self, array: np.ndarray, device: Device) -> None:
        self.array = array
        self.device = device

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """The size of the array in bytes."""
        return self.array.nbytes

    def copy_from(self, source: Buffer, stream: Stream | None = None) -> None:
        """Queue a copy of a buffer of the same shape and dtype; wait on the stream to have it."""
        if not isinstance(source, Buffer):
            raise TypeError(f"source must be a Buffer, got {source!r}")
        if source.device is not self.device:
            raise LibraryMismatch(f"source must be memory of {self.device}, got {source!r}")
        _check_alike(source, self)
        chosen = source._begin(stream)
        memory = source._open()
        if self.nbytes:
            self.device._copy(self.array.ctypes.data, source.address, self.nbytes, chosen)
        chosen.keep_alive(self.array)
        memory.settle(chosen)

    def __repr__(self) -> str:
        return f"PinnedBuffer({self.shape}, {self.dtype}, {self.device})"


def _check_alike(source: Any, destination: Any) -> None:
    if source.shape != destination.shape:
        raise ValueError(f"source has shape {source.shape}, the destination {destination.shape}")
    if source.dtype != destination.dtype:
        raise TypeError(f"source has dtype {source.dtype}, the destination {destination.dtype}")


def _check_device(device: Any) -> None:
    if not isinstance(device, Device):
        raise TypeError(f"device must be a Device, got {device!r}")


def _make(shape: Shape, dtype: Any, device: Device | None, stream: Stream | None) -> Buffer:
    sizes, kind = _as_shape(shape), _as_dtype(dtype)
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(f"stream must be a Stream, got {stream!r}")
    if device is None:
        device = Device() if stream is None else stream.device
    _check_device(device)
    if stream is not None and stream.device is not device:
        raise LibraryMismatch(f"stream must be a Stream of {device}, got {stream!r}")
    memory = device._allocate(math.prod(sizes) * kind.itemsize, stream)
    made = Buffer(memory, memory.address, sizes, kind)
    if stream is not None:
        made._used_on(stream)
    return made


def empty(
    shape: Shape,
    dtype: Any = "float32",
    device: Device | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """A new buffer with whatever the memory holds.

    ``device=None`` is the stream's, or device 0 of the default backend. Memory comes from the
    device's pool in stream order (cuMemAllocFromPoolAsync). MemoryError names what was requested,
    free and there in all.
    """
    return _make(shape, dtype, device, stream)


def zeros(
    shape: Shape,
    dtype: Any = "float32",
    device: Device | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """A new buffer of zeros; arguments as for ``empty``."""
    made = _make(shape, dtype, device, stream)
    made.fill_bytes(0, stream)
    return made


def from_numpy(array: Any, device: Device | None = None, stream: Stream | None = None) -> Buffer:
    """A new buffer with a copy of an array, complete on return; arguments as for ``empty``."""
    array = np.asarray(array)
    _as_dtype(array.dtype, "the dtype of array")
    if stream is not None and stream.capturing:
        # The copy is made now and only once, not at each launch of the graph.
        device, stream = stream.device, None
    made = _make(array.shape, array.dtype, device, stream)
    made.copy_from(array, stream)
    return made


def pinned_empty(
    shape: Shape, dtype: Any = "float32", device: Device | None = None
) -> PinnedBuffer:
    """New page-locked host memory for copies from and to a device (cuMemAllocHost)."""
    sizes, kind = _as_shape(shape), _as_dtype(dtype)
    device = Device() if device is None else device
    _check_device(device)
    block = device._allocate_pinned(math.prod(sizes) * kind.itemsize)
    return PinnedBuffer(block.view(kind).reshape(sizes), device)
