"""Memory of others as operands: NumPy arrays, and what exports the CUDA array interface or DLPack.

Every view keeps its array alive, and is refused where the elements do not lie as the descriptor
says: never a wrong number in silence. The stream that will use the memory waits for the one that
the array's library is working on.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.device import Stream
from pycudnn.errors import LibraryMismatch

_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


class Layout(NamedTuple):
    """Where an array's elements lie."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # bytes; None: C-contiguous
    dtype: np.dtype[Any]
    read_only: bool


class ForeignBuffer(_core.Buffer):
    """Memory of somebody else; ``dtype`` is the NumPy one of its elements."""

    dtype: np.dtype[Any]


def view(
    value: Any,
    name: str,
    backend: str,
    descriptor: _core.TensorLike | None = None,
    stream: Stream | None = None,
) -> ForeignBuffer:
    """A Buffer over foreign memory, checked against a descriptor's layout, for use on a stream.

    TypeError for what is no array, LibraryMismatch for memory of the other side, ValueError for
    elements that lie neither contiguously nor as the descriptor says.
    """
    layout = layout_of(value, name, backend, stream)
    _check_strides(layout, name, descriptor)
    return wrap(value, layout, name, backend)


def layout_of(value: Any, name: str, backend: str, stream: Stream | None = None) -> Layout:
    """Address, shape, strides and dtype of foreign memory; errors as for ``view``."""
    layout = _host_layout(value) if backend == "reference" else _cuda_layout(value, name, stream)
    if layout is None:
        _refuse(value, name, backend)
    return layout


def wrap(value: Any, layout: Layout, name: str, backend: str) -> ForeignBuffer:
    """A Buffer over foreign memory from its first to its last element, whatever its strides."""
    buffer = ForeignBuffer()
    buffer.dtype = layout.dtype
    buffer._set(
        layout.address,
        _extent(layout),
        backend,
        0 if backend == "reference" else _device_of(value, layout.address, name),
        dtypes.code(layout.dtype),
        writable=not layout.read_only,
        owner=value,
    )
    return buffer


def _refuse(value: Any, name: str, backend: str) -> NoReturn:
    if isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__"):
        side = "CUDA" if backend == "cuda" else "host"
        raise LibraryMismatch(f"{name} must be {side} memory, got {type(value).__name__}")
    wanted = (
        "a pycudnn buffer or an object with __cuda_array_interface__ or __dlpack__"
        if backend == "cuda"
        else "a pycudnn buffer or a NumPy array"
    )
    raise TypeError(f"{name} must be {wanted}, got {value!r}")


def _host_layout(value: Any) -> Layout | None:
    if not isinstance(value, np.ndarray):
        return None
    return Layout(
        value.ctypes.data, value.shape, value.strides, value.dtype, not value.flags.writeable
    )


def _cuda_layout(value: Any, name: str, stream: Stream | None) -> Layout | None:
    interface = _cuda_array_interface(value)
    by_dlpack = hasattr(value, "__dlpack__") and value.__dlpack_device__()[0] in _DLPACK_CUDA
    # PyTorch's interface does not name its stream; its DLPack waits for it.
    if interface is not None and ("stream" in interface or not by_dlpack):
        if stream is not None and interface.get("stream"):
            stream.follow_foreign(interface["stream"])
        address, read_only = interface["data"]
        return Layout(
            address,
            tuple(interface["shape"]),
            interface.get("strides"),
            _interface_dtype(value, interface["typestr"]),
            read_only,
        )
    if by_dlpack:
        from cuda.core.utils import StridedMemoryView

        _check_plain(value, name)

        # -1: do not wait, since a capture cannot. The legacy default stream is 1 here, not 0.
        consumer = -1 if stream is None or stream.capturing else stream.handle or 1
        try:
            strided = StridedMemoryView.from_dlpack(value, stream_ptr=consumer)
        except (BufferError, RuntimeError) as error:  # such as a sparse tensor
            raise ValueError(f"{name} cannot be shared: {error}") from None
        dtype = np.dtype(strided.dtype)
        strides = strided.strides and tuple(step * dtype.itemsize for step in strided.strides)
        return Layout(strided.ptr, tuple(strided.shape), strides, dtype, strided.readonly)
    return None


def _check_plain(value: Any, name: str) -> None:
    """ValueError for a PyTorch tensor whose memory is not its numbers, or has a gradient's history.

    Its DLPack export refuses these, but cuda.core has a faster way to it that does not ask.
    """
    if getattr(value, "requires_grad", False):
        raise ValueError(f"{name} cannot be shared: it wants a gradient; pass {name}.detach()")
    for what, remedy in (("conj", "resolve_conj"), ("neg", "resolve_neg")):
        is_lazy = getattr(value, f"is_{what}", None)
        if is_lazy is not None and is_lazy():
            raise ValueError(
                f"{name} cannot be shared: its {what} bit is set; pass {name}.{remedy}()"
            )


def _cuda_array_interface(value: Any) -> dict[str, Any] | None:
    try:
        interface: dict[str, Any] | None = value.__cuda_array_interface__
    except (AttributeError, KeyError, TypeError, RuntimeError):
        return None  # PyTorch raises for types that the interface cannot name; DLPack may know them
    return interface


def _interface_dtype(value: Any, typestr: str) -> np.dtype[Any]:
    # The interface has no letter for bfloat16: libraries export it as two raw bytes.
    if typestr in ("<V2", "|V2") or "bfloat16" in str(getattr(value, "dtype", "")):
        return dtypes.BFLOAT16
    return np.dtype(typestr)


def _device_of(value: Any, address: int, name: str) -> int:
    from cuda.bindings import driver

    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    error, ordinal = driver.cuPointerGetAttribute(attribute, address)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise LibraryMismatch(f"{name}: {address:#x} is no CUDA memory of this process")
    return int(ordinal)


def _check_strides(layout: Layout, name: str, descriptor: _core.TensorLike | None) -> None:
    """An array of the descriptor's shape must have its strides, any other must be contiguous."""
    strides = layout.strides or _c_strides(layout.shape, layout.dtype.itemsize)
    if 0 in layout.shape:
        return
    if descriptor is None:
        # BLAS matrices are column-major: a Fortran-ordered array is as good.
        allowed = [_c_strides(layout.shape, layout.dtype.itemsize)]
        allowed.append(_c_strides(layout.shape[::-1], layout.dtype.itemsize)[::-1])
        wanted = "contiguous"
    elif layout.shape == descriptor.shape:
        allowed = [tuple(step * layout.dtype.itemsize for step in descriptor.strides)]
        wanted = f"laid out as {descriptor!r}"
    else:
        allowed = [_c_strides(layout.shape, layout.dtype.itemsize)]
        wanted = "contiguous"
    for steps in allowed:
        if all(
            size == 1 or have == want
            for size, have, want in zip(layout.shape, strides, steps, strict=True)
        ):
            return
    raise ValueError(
        f"{name} must be {wanted}, got shape {layout.shape} with strides {strides} bytes: "
        "pass a copy laid out so, or a descriptor with these strides"
    )


def _c_strides(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    strides = []
    for size in reversed(shape):
        strides.append(item_bytes)
        item_bytes *= size
    return tuple(reversed(strides))


def _extent(layout: Layout) -> int:
    if 0 in layout.shape:
        return 0
    if layout.strides is None:
        return int(np.prod(layout.shape, dtype=np.int64)) * layout.dtype.itemsize
    spans = zip(layout.shape, layout.strides, strict=True)
    return sum((size - 1) * step for size, step in spans) + layout.dtype.itemsize
