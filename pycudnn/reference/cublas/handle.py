"""The library context and its settings, of which none changes a result here."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from pycudnn.abi.cublas_enums import (
    AtomicsMode,
    CudaEmulationMantissaControl,
    CudaEmulationSpecialValuesSupport,
    EmulationStrategy,
    Math,
    PointerMode,
)

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
    sm_count_target: int = 0
    emulation_strategy: int = EmulationStrategy.DEFAULT
    special_values: int = CudaEmulationSpecialValuesSupport.DEFAULT
    mantissa_control: int = CudaEmulationMantissaControl.DYNAMIC
    max_mantissa_bits: int = 0
    mantissa_bit_offset: int = 0
    mantissa_bit_count: int = 0  # an address


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


@implements("cublasSetSmCountTarget")
def set_sm_count_target(handle: BlasHandle, count: int) -> None:
    """How many multiprocessors to compute on; 0 is all. There are none here."""
    if count < 0:
        raise invalid(f"count is {count}, must not be negative")
    handle.sm_count_target = count


@implements("cublasGetSmCountTarget")
def get_sm_count_target(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.sm_count_target)


# --- how float64 products are emulated on integer units: kept, and of no effect ------------------


@implements("cublasSetEmulationStrategy")
def set_emulation_strategy(handle: BlasHandle, strategy: int) -> None:
    """Whether to emulate."""
    if strategy not in tuple(EmulationStrategy):
        raise invalid(f"strategy is {strategy}, must be a cublasEmulationStrategy_t")
    handle.emulation_strategy = strategy


@implements("cublasGetEmulationStrategy")
def get_emulation_strategy(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.emulation_strategy)


@implements("cublasSetEmulationSpecialValuesSupport")
def set_special_values(handle: BlasHandle, mask: int) -> None:
    """Which special values the emulation must get right."""
    if not 0 <= mask <= CudaEmulationSpecialValuesSupport.DEFAULT:
        raise invalid(f"mask is {mask}, must be a cudaEmulationSpecialValuesSupport")
    handle.special_values = mask


@implements("cublasGetEmulationSpecialValuesSupport")
def get_special_values(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.special_values)


@implements("cublasSetFixedPointEmulationMantissaControl")
def set_mantissa_control(handle: BlasHandle, control: int) -> None:
    """Whether the number of mantissa bits is fixed or found for each product."""
    if control not in tuple(CudaEmulationMantissaControl):
        raise invalid(f"control is {control}, must be DYNAMIC (0) or FIXED (1)")
    handle.mantissa_control = control


@implements("cublasGetFixedPointEmulationMantissaControl")
def get_mantissa_control(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.mantissa_control)


@implements("cublasSetFixedPointEmulationMaxMantissaBitCount")
def set_max_mantissa_bits(handle: BlasHandle, count: int) -> None:
    """The largest number of mantissa bits; 0 leaves it to the library."""
    if count < 0:
        raise invalid(f"count is {count}, must not be negative")
    handle.max_mantissa_bits = count


@implements("cublasGetFixedPointEmulationMaxMantissaBitCount")
def get_max_mantissa_bits(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.max_mantissa_bits)


@implements("cublasSetFixedPointEmulationMantissaBitOffset")
def set_mantissa_bit_offset(handle: BlasHandle, offset: int) -> None:
    """Bits more or fewer than the library would take."""
    handle.mantissa_bit_offset = offset


@implements("cublasGetFixedPointEmulationMantissaBitOffset")
def get_mantissa_bit_offset(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_int, handle.mantissa_bit_offset)


@implements("cublasSetFixedPointEmulationMantissaBitCountPointer")
def set_mantissa_bit_count_pointer(handle: BlasHandle, pointer: int) -> None:
    """Where an emulated product tells how many bits it took. None is emulated here."""
    handle.mantissa_bit_count = pointer


@implements("cublasGetFixedPointEmulationMantissaBitCountPointer")
def get_mantissa_bit_count_pointer(handle: BlasHandle, out: int) -> None:
    """What was set."""
    write(out, ctypes.c_void_p, handle.mantissa_bit_count)
