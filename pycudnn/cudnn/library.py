"""What a cuDNN library tells of itself: versions, texts of errors, errors of running kernels."""

from __future__ import annotations

import ctypes

from pycudnn import _core, abi
from pycudnn.abi.cublas_enums import LibraryPropertyType
from pycudnn.abi.cudnn_enums import ErrQueryMode, Status
from pycudnn.cudnn._objects import member, require
from pycudnn.cudnn.handle import Handle
from pycudnn.libraries import Library, find_library
from pycudnn.loader import version_number


def get_version(library: Library | str | None = None) -> int:
    """The version of cuDNN (cudnnGetVersion): 9.19.1 is 91901."""
    return int(find_library("cudnn", library).function("cudnnGetVersion")())


def get_cudart_version(library: Library | str | None = None) -> int:
    """The CUDA runtime that cuDNN was built with (cudnnGetCudartVersion): 13.0 is 13000."""
    return int(find_library("cudnn", library).function("cudnnGetCudartVersion")())


def get_max_device_version(library: Library | str | None = None) -> int:
    """The newest compute capability that cuDNN has code for (cudnnGetMaxDeviceVersion).

    9.0 is 900. The reference library has no device code: 0.
    """
    return int(find_library("cudnn", library).function("cudnnGetMaxDeviceVersion")())


def get_property(type: LibraryPropertyType, library: Library | str | None = None) -> int:
    """Major version, minor version or patch level (cudnnGetProperty)."""
    type = member(LibraryPropertyType, type, "type")
    found, value = find_library("cudnn", library), ctypes.c_int()
    with _core.ColdCall(found) as call:
        call("cudnnGetProperty", type, ctypes.byref(value))
    return value.value


def get_error_string(status: Status, library: Library | str | None = None) -> str:
    """The C name of a status (cudnnGetErrorString)."""
    status = member(Status, status, "status")
    text: bytes = find_library("cudnn", library).function("cudnnGetErrorString")(status)
    return text.decode()


def get_last_error_string(library: Library | str | None = None) -> str:
    """What cuDNN says of this thread's last failure (cudnnGetLastErrorString).

    Reading clears it. The errors that pycudnn raises hold this text already.
    """
    text = ctypes.create_string_buffer(2048)
    find_library("cudnn", library).function("cudnnGetLastErrorString")(text, len(text))
    return text.value.decode(errors="replace")


def query_runtime_error(handle: Handle, mode: ErrQueryMode = ErrQueryMode.BLOCKING) -> Status:
    """An error that a kernel of this handle's stream ran into (cudnnQueryRuntimeError).

    RAWCODE reads what has been reported so far, NONBLOCKING tells RUNTIME_IN_PROGRESS while
    kernels run, BLOCKING waits for them.
    """
    require(handle, Handle, "handle")
    mode, status = member(ErrQueryMode, mode, "mode"), ctypes.c_int()
    with _core.ColdCall(handle.library, handle) as call:
        call("cudnnQueryRuntimeError", handle, ctypes.byref(status), mode, None)
    return Status(status.value)


_PARTS = ("Graph", "Ops", "Cnn", "Adv", "SubquadraticOps")


def version_check(library: Library | str | None = None) -> tuple[str, ...]:
    """Are the parts of cuDNN of one version (cudnnOpsVersionCheck and its kind)? Which were asked.

    A part that this cuDNN does not have yet is not asked. CudnnError names the part that differs.
    """
    found = find_library("cudnn", library)
    asked = []
    with _core.ColdCall(found) as call:
        for part in _PARTS:
            function = f"cudnn{part}VersionCheck"
            if version_number(abi.prototype("cudnn", function).since) <= found.version:
                call(function)
                asked.append(function)
    return tuple(asked)
