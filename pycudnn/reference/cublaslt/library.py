"""The handle of cublasLt, and what concerns the library itself."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from ..cublas.library import (
    VERSION,
    get_cudart_version,
    get_property,
    get_status_name,
    get_status_string,
)
from ..cublas.storage import invalid, write
from ..runtime import implements, opaque


@opaque("cublasLtHandle_t", "cublasLtCreate", "cublasLtDestroy")
@dataclass
class LtHandle:
    """The library context. It has no settings: stream and workspace are arguments of the calls."""


implements("cublasLtGetProperty")(get_property)
implements("cublasLtGetCudartVersion")(get_cudart_version)
implements("cublasLtGetStatusName")(get_status_name)
implements("cublasLtGetStatusString")(get_status_string)


@implements("cublasLtGetVersion")
def get_version() -> int:
    """MAJOR * 10000 + MINOR * 100 + PATCH."""
    return VERSION


# --- the cache of heuristics, which the one algorithm here does not need -------------------------

_capacity = 8192


@implements("cublasLtHeuristicsCacheGetCapacity")
def get_cache_capacity(out: int) -> None:
    """What was set, rounded up to a power of two."""
    write(out, ctypes.c_size_t, _capacity)


@implements("cublasLtHeuristicsCacheSetCapacity")
def set_cache_capacity(capacity: int) -> None:
    """How many answers to keep; 0 switches the cache off."""
    global _capacity
    _capacity = 1 << (capacity - 1).bit_length() if capacity else 0


# --- messages: there are none, so where they would go is checked and forgotten -------------------


@implements("cublasLtLoggerSetCallback")
def logger_set_callback(callback: int) -> None:
    """A function for messages; 0 for none."""


@implements("cublasLtLoggerSetFile")
def logger_set_file(file: int) -> None:
    """An open file for messages."""


@implements("cublasLtLoggerOpenFile")
def logger_open_file(name: int) -> None:
    """A file for messages, by name. None is written, so none is made; but it must be possible."""
    if name and not Path(os.fsdecode(ctypes.string_at(name))).parent.is_dir():
        raise invalid("there is no such folder")


@implements("cublasLtLoggerSetLevel")
def logger_set_level(level: int) -> None:
    """From 0, nothing, to 5, everything."""
    if level < 0:
        raise invalid(f"level is {level}, must not be negative")


@implements("cublasLtLoggerSetMask")
def logger_set_mask(mask: int) -> None:
    """Which kinds of messages."""


@implements("cublasLtLoggerForceDisable")
def logger_force_disable() -> None:
    """No messages for the life of the process."""
