"""What the handles of cuDNN, cuBLAS and cublasLt share: their making and their stream."""

from __future__ import annotations

import ctypes

from pycudnn import _core
from pycudnn.abi.types import HANDLES
from pycudnn.device import Device, Stream
from pycudnn.errors import StatusError
from pycudnn.libraries import Library, find_library


def create(
    handle: _core.Handle,
    name: str,
    functions: tuple[str, str],
    device: Device | None,
    library: Library | str | None,
) -> Device:
    """Make the C handle of the library ``name`` on a device, and return the device.

    ``functions`` are those that create and destroy it. The device's backend decides the library
    where none is given, and the library's backend the device. ValueError where they differ; the
    error of a creation that fails says how much of the device's memory is free.
    """
    if device is not None and not isinstance(device, Device):
        raise TypeError(f"device must be a Device, got {device!r}")
    if library is None and device is not None:
        library = device.backend
    found = find_library(name, library)
    if device is None:
        device = Device(found.backend)
    elif device.backend != found.backend:
        raise ValueError(f"device must be a {found.backend} device, got {device!r}")
    pointer = HANDLES[handle.c_type]()
    with device.activate():
        try:
            with _core.ColdCall(found) as call:
                call(functions[0], ctypes.byref(pointer))
        except StatusError as error:
            free, total = device.memory_info()
            memory = f"device memory: {free} of {total} bytes free on {device!r}"
            raise type(error)(
                error.function, error.status, error.status_name, error.last_error, [memory]
            ) from None
        handle._own(found, ctypes.cast(pointer, ctypes.c_void_p).value, functions[1])
        handle._place(device, device.index)
    return device


def check_stream(handle: _core.Handle, stream: Stream) -> None:
    """ValueError for what is no stream of the handle's device."""
    if not isinstance(stream, Stream) or stream.device != handle.device:
        raise ValueError(f"stream must be a Stream of {handle.device!r}, got {stream!r}")


def set_stream(handle: _core.Handle, function: str, stream: Stream) -> None:
    """Queue the handle's work on a stream of its device; ValueError for another one."""
    check_stream(handle, stream)
    with _core.ColdCall(handle.library, handle) as call:
        call(function, handle, stream.handle)
    handle._follow(stream)
