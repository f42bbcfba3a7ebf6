"""cudnn_graph.h: handles, versions, error strings."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from pycudnn.abi.cudnn_enums import ErrQueryMode
from pycudnn.abi.cudnn_enums import Status as CudnnStatus

from .memory import write
from .runtime import bad_param, implements, opaque, take_last_error

# The cuDNN whose headers and behaviour this library follows.
MAJOR, MINOR, PATCH = 9, 28, 1
VERSION = MAJOR * 10000 + MINOR * 100 + PATCH


@opaque("cudnnHandle_t", "cudnnCreate", "cudnnDestroy")
@dataclass
class Handle:
    """The library context; here it holds no more than the stream it was given."""

    stream: int = 0


@implements("cudnnSetStream")
def set_stream(handle: Handle, stream: int) -> None:
    """Remember the stream. Calls are synchronous, so nothing else follows from it."""
    handle.stream = stream


@implements("cudnnGetStream")
def get_stream(handle: Handle, out: int) -> None:
    """The stream that was set last, 0 at first."""
    write(out, ctypes.c_void_p, handle.stream, "streamId")


@implements("cudnnGetVersion")
def get_version() -> int:
    """MAJOR * 10000 + MINOR * 100 + PATCH."""
    return VERSION


@implements("cudnnGetCudartVersion")
def get_cudart_version() -> int:
    """The CUDA runtime that the library was built with: none, hence 0."""
    return 0


@implements("cudnnGetMaxDeviceVersion")
def get_max_device_version() -> int:
    """The newest compute capability that the library has code for: none, hence 0."""
    return 0


@implements("cudnnGetProperty")
def get_property(property_type: int, out: int) -> None:
    """Major version, minor version or patch level, for property types 0, 1, 2."""
    if property_type not in (0, 1, 2):
        raise bad_param(f"type is {property_type}, must be 0, 1 or 2")
    write(out, ctypes.c_int, (MAJOR, MINOR, PATCH)[property_type], "value")


# C strings must outlive the call: one buffer a status, made once.
_STATUS_NAMES = {
    int(status): ctypes.create_string_buffer(f"CUDNN_STATUS_{status.name}".encode())
    for status in CudnnStatus
}
_UNKNOWN = ctypes.create_string_buffer(b"CUDNN_UNKNOWN_STATUS")


@implements("cudnnGetErrorString")
def get_error_string(status: int) -> int:
    """The address of the status's C name."""
    return ctypes.addressof(_STATUS_NAMES.get(status, _UNKNOWN))


@implements("cudnnGetLastErrorString")
def get_last_error_string(message: int, max_size: int) -> None:
    """Copy this thread's last error text, cut to fit and NUL-terminated, and clear it."""
    if message and max_size:
        text = take_last_error().encode()[: max_size - 1]
        ctypes.memmove(message, text + b"\0", len(text) + 1)


@implements("cudnnQueryRuntimeError")
def query_runtime_error(handle: Handle, status: int, mode: int, tag: int) -> None:
    """What a kernel reported after its launch; synchronous calls leave nothing to report."""
    if mode not in tuple(ErrQueryMode):
        raise bad_param(f"mode is {mode}, must be 0, 1 or 2")
    write(status, ctypes.c_int, CudnnStatus.SUCCESS, "rstatus")


@implements("cudnnGraphVersionCheck")
def version_check() -> None:
    """The parts of this library are always of one version."""
