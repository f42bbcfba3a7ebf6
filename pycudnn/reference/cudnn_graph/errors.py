"""Names of statuses, the text of the last error, errors of kernels."""

from __future__ import annotations

import ctypes

from pycudnn.abi.cudnn_enums import ErrQueryMode
from pycudnn.abi.cudnn_enums import Status as CudnnStatus

from ..memory import write
from ..runtime import bad_param, implements, take_last_error
from .handle import Handle

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
