"""What concerns the library itself: version, names of statuses, messages."""

from __future__ import annotations

import ctypes

from pycudnn.abi.cublas_enums import Status as CublasStatus

from ..runtime import implements
from .handle import BlasHandle
from .storage import invalid, write

# The cuBLAS whose headers and behaviour this library follows.
MAJOR, MINOR, PATCH = 13, 10, 0
VERSION = MAJOR * 10000 + MINOR * 100 + PATCH


@implements("cublasGetVersion_v2")
def get_version(handle: BlasHandle, out: int) -> None:
    """MAJOR * 10000 + MINOR * 100 + PATCH."""
    write(out, ctypes.c_int, VERSION)


@implements("cublasGetProperty")
def get_property(property_type: int, out: int) -> None:
    """Major version, minor version or patch level, for property types 0, 1, 2."""
    if property_type not in (0, 1, 2):
        raise invalid(f"type is {property_type}, must be 0, 1 or 2")
    write(out, ctypes.c_int, (MAJOR, MINOR, PATCH)[property_type])


@implements("cublasGetCudartVersion")
def get_cudart_version() -> int:
    """1000 times the major version of CUDA that this library follows."""
    return MAJOR * 1000


# C strings must outlive the call: one buffer a status, made once.
_STATUS_NAMES = {
    int(status): ctypes.create_string_buffer(f"CUBLAS_STATUS_{status.name}".encode())
    for status in CublasStatus
}
_STATUS_TEXTS = {
    int(status): ctypes.create_string_buffer(status.name.lower().replace("_", " ").encode())
    for status in CublasStatus
}
_UNKNOWN = ctypes.create_string_buffer(b"unrecognized status")


@implements("cublasGetStatusName")
def get_status_name(status: int) -> int:
    """The address of the status's C name."""
    return ctypes.addressof(_STATUS_NAMES.get(status, _UNKNOWN))


@implements("cublasGetStatusString")
def get_status_string(status: int) -> int:
    """The address of a text that says what the status means."""
    return ctypes.addressof(_STATUS_TEXTS.get(status, _UNKNOWN))


# --- messages: there are none, but a callback that was set is told again -------------------------

_log_callback = 0


@implements("cublasLoggerConfigure")
def logger_configure(is_on: int, to_stdout: int, to_stderr: int, file: int) -> None:
    """Where messages go. The reference library writes none."""


@implements("cublasSetLoggerCallback")
def set_logger_callback(callback: int) -> None:
    """A function for messages; 0 for none."""
    global _log_callback
    _log_callback = callback


@implements("cublasGetLoggerCallback")
def get_logger_callback(out: int) -> None:
    """What was set."""
    write(out, ctypes.c_void_p, _log_callback)


@implements("cublasXerbla")
def xerbla(name: int, parameter: int) -> None:
    """Say on standard output that a parameter of a function is wrong, as BLAS does."""
    text = ctypes.string_at(name).decode(errors="replace") if name else ""
    print(f" ** On entry to {text:6s} parameter number {parameter} had an illegal value")
