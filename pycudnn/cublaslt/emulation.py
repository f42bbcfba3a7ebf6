"""How a product is emulated with narrower types."""

from __future__ import annotations

from ctypes import c_int32, c_uint64
from typing import Any

from pycudnn.abi.cublas_enums import (
    CudaEmulationMantissaControl,
    CudaEmulationSpecialValuesSupport,
    EmulationStrategy,
)
from pycudnn.abi.cublaslt_enums import EmulationDescAttributes
from pycudnn.cublaslt._attributes import Attribute, Descriptor, attribute, known
from pycudnn.cublaslt._memory import Memory, take
from pycudnn.cublaslt._types import INT32
from pycudnn.cudnn._objects import INT_MAX, integer, member
from pycudnn.libraries import Library, find_library

A = EmulationDescAttributes
S = CudaEmulationSpecialValuesSupport
_STRATEGY = Attribute(A.STRATEGY, c_int32, EmulationStrategy.DEFAULT)
_SPECIAL_VALUES = Attribute(A.SPECIAL_VALUES_SUPPORT, c_int32, S.DEFAULT)
_CONTROL = Attribute(A.FIXEDPOINT_MANTISSA_CONTROL, c_int32, CudaEmulationMantissaControl.DYNAMIC)
_MAX_BITS = Attribute(A.FIXEDPOINT_MAX_MANTISSA_BIT_COUNT, c_int32)
_OFFSET = Attribute(A.FIXEDPOINT_MANTISSA_BIT_OFFSET, c_int32)
_COUNT_POINTER = Attribute(A.FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER, c_uint64)

_MASKS = (S.NONE, S.INFINITY, S.NAN, S.INFINITY | S.NAN, S.DEFAULT)


class EmulationDescriptor(Descriptor):
    """How products of float32 and float64 are emulated (cublasLtEmulationDescCreate).

    For the compute types ...EMULATED...; a MatmulDescriptor takes a copy. ``special_values`` is a
    mask of CudaEmulationSpecialValuesSupport, what must come out right. ``mantissa_control`` says
    whether the data decide on the bits of a mantissa: at most ``max_mantissa_bit_count`` (0: as
    many as cublasLt likes), ``mantissa_bit_offset`` more or fewer than they seem to need. A product
    writes the bits that it used into ``mantissa_bit_count``, a buffer of one int32.

    FunctionNotFound where cublasLt is older than 13.1.
    """

    c_type = "cublasLtEmulationDesc_t"
    NOUN = "EmulationDesc"
    SHOWN = ("strategy", "special_values", "mantissa_control", "max_mantissa_bit_count")

    def __init__(
        self,
        strategy: EmulationStrategy = EmulationStrategy.DEFAULT,
        *,
        special_values: int = S.DEFAULT,
        mantissa_control: CudaEmulationMantissaControl = CudaEmulationMantissaControl.DYNAMIC,
        max_mantissa_bit_count: int = 0,
        mantissa_bit_offset: int = 0,
        mantissa_bit_count: Any = None,
        library: Library | str | None = None,
    ) -> None:
        strategy = member(EmulationStrategy, strategy, "strategy")
        mask = integer(special_values, "special_values", 0, S.DEFAULT)
        if mask not in _MASKS:
            raise ValueError(
                "special_values must be NONE (0), INFINITY (1), NAN (2), both (3) or "
                f"DEFAULT (65535), got {mask}"
            )
        control = member(CudaEmulationMantissaControl, mantissa_control, "mantissa_control")
        most = integer(max_mantissa_bit_count, "max_mantissa_bit_count", 0)
        offset = integer(mantissa_bit_offset, "mantissa_bit_offset", -INT_MAX)
        found = find_library("cublaslt", library)
        self.memory: tuple[Memory, ...] = ()
        if mantissa_bit_count is not None:
            counted = take(found, mantissa_bit_count, "mantissa_bit_count", True, (INT32,))
            self.memory = (counted,)
        arguments = {
            "strategy": strategy, "special_values": mask, "mantissa_control": control,
            "max_mantissa_bit_count": most, "mantissa_bit_offset": offset,
        }  # fmt: skip
        address = self.memory[0].address if self.memory else 0
        values = {
            _STRATEGY: strategy, _SPECIAL_VALUES: mask, _CONTROL: control, _MAX_BITS: most,
            _OFFSET: offset, _COUNT_POINTER: address,
        }  # fmt: skip
        kept = {"mantissa_bit_count": mantissa_bit_count}
        self._build(found, arguments | kept, (), values, arguments | {"address": address})

    strategy = attribute(_STRATEGY, known(EmulationStrategy), "When products are emulated.")
    special_values = attribute(_SPECIAL_VALUES, int, "A mask of special values that are kept.")
    mantissa_control = attribute(
        _CONTROL, known(CudaEmulationMantissaControl), "Do the data decide on the bits?"
    )
    max_mantissa_bit_count = attribute(_MAX_BITS, int, "The most bits of a mantissa.")
    mantissa_bit_offset = attribute(_OFFSET, int, "Bits added to those that the data need.")

    @property
    def mantissa_bit_count(self) -> Any:
        """The buffer for the bits that a product used, or None."""
        return self.memory[0].value if self.memory and self._get(_COUNT_POINTER) else None
