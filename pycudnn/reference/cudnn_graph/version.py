"""Versions, of the library and of what it stands on."""

from __future__ import annotations

import ctypes

from ..memory import write
from ..runtime import bad_param, implements

# The cuDNN whose headers and behaviour this library follows.
MAJOR, MINOR, PATCH = 9, 28, 1
VERSION = MAJOR * 10000 + MINOR * 100 + PATCH


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


@implements("cudnnGraphVersionCheck")
@implements("cudnnOpsVersionCheck")
@implements("cudnnAdvVersionCheck")
def version_check() -> None:
    """The parts of this library are always of one version."""
