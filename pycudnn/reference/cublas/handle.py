"""The library context and its settings, of which none changes a result here."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from pycudnn.abi.cublas_enums import AtomicsMode, Math, PointerMode

from ..runtime import implements, opaque
from .storage import invalid, write


@opaque("cublasHandle_t", "cublasCreate_v2", "cublasDestroy_v2")
@dataclass
class BlasHandle:
    """The library context: settings, of which none changes a result here."""

    stream: int = 0
    math_mode: int = Math.DEFAULT_MATH
    pointer_mode: int = PointerMode.HOST
    atomics_mode: int = AtomicsMode.NOT_ALLOWED


@implements("cublasSetStream_v2")
def set_stream(handle: BlasHandle, stream: int) -> None:
    """Remember the stream. Calls are synchronous, so nothing else follows from it."""
    handle.stream = stream


@implements("cublasGetStream_v2")
def get_stream(handle: BlasHandle, out: int) -> None:
    """The stream that was set last, 0 at first."""
    write(out, ctypes.c_void_p, handle.stream)


@implements("cublasSetWorkspace_v2")
def set_workspace(handle: BlasHandle, workspace: int, size: int) -> None:
    """A workspace of the caller's, aligned to 256 bytes. Products here need none."""
    if workspace % 256:
        raise invalid(f"workspace {workspace:#x} is not a multiple of 256")


_MATH_FLAG = Math.MATH_DISALLOW_REDUCED_PRECISION_REDUCTION


@implements("cublasSetMathMode")
def set_math_mode(handle: BlasHandle, mode: int) -> None:
    """Which arithmetic the GPU may use. Here float32 and float64 are always computed as such."""
    if mode & ~_MATH_FLAG not in tuple(Math):
        raise invalid(f"math mode is {mode}, must be a cublasMath_t")
    handle.math_mode = mode


@implements("cublasGetMathMode")
def get_math_mode(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.math_mode)


@implements("cublasSetPointerMode_v2")
def set_pointer_mode(handle: BlasHandle, mode: int) -> None:
    """Whether scalars and results lie on the host or on the device: here in one memory."""
    if mode not in tuple(PointerMode):
        raise invalid(f"pointer mode is {mode}, must be HOST (0) or DEVICE (1)")
    handle.pointer_mode = mode


@implements("cublasGetPointerMode_v2")
def get_pointer_mode(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.pointer_mode)


@implements("cublasSetAtomicsMode")
def set_atomics_mode(handle: BlasHandle, mode: int) -> None:
    """Whether sums may be taken in an order that varies. Here it never does."""
    if mode not in tuple(AtomicsMode):
        raise invalid(f"atomics mode is {mode}, must be 0 or 1")
    handle.atomics_mode = mode


@implements("cublasGetAtomicsMode")
def get_atomics_mode(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.atomics_mode)
