"""Questions to cuBLAS itself, which need no handle."""

from __future__ import annotations

import ctypes

from pycudnn import _core
from pycudnn.abi.cublas_enums import LibraryPropertyType
from pycudnn.libraries import Library, find_library


def get_property(type: int, library: Library | str | None = None) -> int:
    """Major version, minor version or patch level of cuBLAS (cublasGetProperty).

    ``library`` is a Library, a backend's name, or None for this machine's default.
    """
    if type not in tuple(LibraryPropertyType):
        known = ", ".join(f"{item.name} ({item.value})" for item in LibraryPropertyType)
        raise ValueError(f"type must be a LibraryPropertyType: {known}; got {type!r}")
    value = ctypes.c_int()
    with _core.ColdCall(find_library("cublas", library)) as call:
        call("cublasGetProperty", type, ctypes.byref(value))
    return value.value


def get_cudart_version(library: Library | str | None = None) -> int:
    """The version of the CUDA runtime in cuBLAS (cublasGetCudartVersion): 13.0 is 13000."""
    return int(find_library("cublas", library).function("cublasGetCudartVersion")())


def get_status_name(status: int, library: Library | str | None = None) -> str:
    """The C name of a status (cublasGetStatusName)."""
    return _text("cublasGetStatusName", status, library)


def get_status_string(status: int, library: Library | str | None = None) -> str:
    """What a status means (cublasGetStatusString)."""
    return _text("cublasGetStatusString", status, library)


def _text(function: str, status: int, library: Library | str | None) -> str:
    if not isinstance(status, int) or not 0 <= status < 2**31:
        raise ValueError(f"status must be an int from 0 to 2**31 - 1, got {status!r}")
    found: bytes = find_library("cublas", library).function(function)(status)
    return found.decode(errors="replace")
