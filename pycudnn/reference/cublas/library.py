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
