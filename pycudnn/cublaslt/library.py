"""Questions to cublasLt itself, which need no handle."""

from __future__ import annotations

import ctypes

from pycudnn import _core
from pycudnn.abi.cublas_enums import LibraryPropertyType
from pycudnn.cudnn._objects import integer, member
from pycudnn.libraries import Library, find_library

_MOST_ANSWERS = 1 << 20


def get_version(library: Library | str | None = None) -> int:
    """The version of cublasLt (cublasLtGetVersion): 13.10.0 is 131000.

    ``library`` is a Library, a backend's name, or None for this machine's default.
    """
    return int(find_library("cublaslt", library).function("cublasLtGetVersion")())


def get_cudart_version(library: Library | str | None = None) -> int:
    """The version of the CUDA runtime in cublasLt (cublasLtGetCudartVersion): 13.0 is 13000."""
    return int(find_library("cublaslt", library).function("cublasLtGetCudartVersion")())


def get_property(type: LibraryPropertyType, library: Library | str | None = None) -> int:
    """Major version, minor version or patch level of cublasLt (cublasLtGetProperty)."""
    type = member(LibraryPropertyType, type, "type")
    value = ctypes.c_int()
    with _core.ColdCall(find_library("cublaslt", library)) as call:
        call("cublasLtGetProperty", type, ctypes.byref(value))
    return value.value


def get_status_name(status: int, library: Library | str | None = None) -> str:
    """The C name of a status (cublasLtGetStatusName)."""
    return _text("cublasLtGetStatusName", status, library)


def get_status_string(status: int, library: Library | str | None = None) -> str:
    """What a status means (cublasLtGetStatusString)."""
    return _text("cublasLtGetStatusString", status, library)


def _text(function: str, status: int, library: Library | str | None) -> str:
    number = integer(status, "status", 0)
    found: bytes = find_library("cublaslt", library).function(function)(number)
    return found.decode(errors="replace")


def get_heuristics_cache_capacity(library: Library | str | None = None) -> int:
    """How many answers of the heuristics are kept (cublasLtHeuristicsCacheGetCapacity)."""
    capacity = ctypes.c_size_t()
    with _core.ColdCall(find_library("cublaslt", library)) as call:
        call("cublasLtHeuristicsCacheGetCapacity", ctypes.byref(capacity))
    return capacity.value


def set_heuristics_cache_capacity(capacity: int, library: Library | str | None = None) -> None:
    """Keep so many answers, rounded up to a power of two, of all handles of the process
    (cublasLtHeuristicsCacheSetCapacity); 0 keeps none.

    The memory for them is taken at once, so ValueError for more than 2**20.
    """
    number = integer(capacity, "capacity", 0, _MOST_ANSWERS)
    with _core.ColdCall(find_library("cublaslt", library)) as call:
        call("cublasLtHeuristicsCacheSetCapacity", number)
