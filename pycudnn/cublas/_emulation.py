"""Settings of a cuBLAS handle for products that emulate float32 and float64 with narrower types.

They exist since cuBLAS 13.0 (the strategy) and later ones (the rest): FunctionNotFound where the
library lacks them. What uses them is ``math_mode`` or the compute type of a product.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pycudnn import _core, _core_blas
from pycudnn.abi.cublas_enums import (
    CudaEmulationMantissaControl,
    CudaEmulationSpecialValuesSupport,
    EmulationStrategy,
)
from pycudnn.abi.members import member
from pycudnn.libraries import Library

_SPECIAL_VALUES = (0, 1, 2, 3, CudaEmulationSpecialValuesSupport.DEFAULT)


class EmulationSettings(_core_blas.BlasHandle):
    """Properties of ``cublas.Handle``."""

    library: Library
    _mantissa_bit_count: Any = None

    def _get(self, function: str) -> int:
        value = ctypes.c_int()
        with _core.ColdCall(self.library, self) as call:
            call(function, self, ctypes.byref(value))
        return value.value

    def _set(self, function: str, value: int) -> None:
        with _core.ColdCall(self.library, self) as call:
            call(function, self, value)

    @property
    def emulation_strategy(self) -> EmulationStrategy:
        """When products are emulated (cublasSetEmulationStrategy)."""
        return EmulationStrategy(self._get("cublasGetEmulationStrategy"))

    @emulation_strategy.setter
    def emulation_strategy(self, strategy: EmulationStrategy) -> None:
        self._set(
            "cublasSetEmulationStrategy",
            member(EmulationStrategy, strategy, "emulation_strategy"),
        )

    @property
    def emulation_special_values(self) -> int:
        """Which special values an emulated product must keep: NONE, INFINITY | NAN, or DEFAULT
        (cublasSetEmulationSpecialValuesSupport)."""
        mask = self._get("cublasGetEmulationSpecialValuesSupport")
        known = tuple(CudaEmulationSpecialValuesSupport)
        return CudaEmulationSpecialValuesSupport(mask) if mask in known else mask

    @emulation_special_values.setter
    def emulation_special_values(self, mask: int) -> None:
        if not isinstance(mask, int) or mask not in _SPECIAL_VALUES:
            raise ValueError(
                "emulation_special_values must be NONE (0), INFINITY (1), NAN (2), both (3) or "
                f"DEFAULT (65535), got {mask!r}"
            )
        self._set("cublasSetEmulationSpecialValuesSupport", mask)

    @property
    def mantissa_control(self) -> CudaEmulationMantissaControl:
        """Are the bits of a mantissa chosen by the data, or fixed
        (cublasSetFixedPointEmulationMantissaControl)?"""
        return CudaEmulationMantissaControl(
            self._get("cublasGetFixedPointEmulationMantissaControl")
        )

    @mantissa_control.setter
    def mantissa_control(self, control: CudaEmulationMantissaControl) -> None:
        self._set(
            "cublasSetFixedPointEmulationMantissaControl",
            member(CudaEmulationMantissaControl, control, "mantissa_control"),
        )

    @property
    def max_mantissa_bit_count(self) -> int:
        """The most bits of a mantissa (cublasSetFixedPointEmulationMaxMantissaBitCount); 0: as
        cuBLAS thinks best."""
        return self._get("cublasGetFixedPointEmulationMaxMantissaBitCount")

    @max_mantissa_bit_count.setter
    def max_mantissa_bit_count(self, count: int) -> None:
        if not isinstance(count, int) or not 0 <= count < 2**31:
            raise ValueError(
                f"max_mantissa_bit_count must be an int from 0 to 2**31 - 1, got {count!r}"
            )
        self._set("cublasSetFixedPointEmulationMaxMantissaBitCount", count)

    @property
    def mantissa_bit_offset(self) -> int:
        """Bits added to those that the data ask for, may be negative
        (cublasSetFixedPointEmulationMantissaBitOffset)."""
        return self._get("cublasGetFixedPointEmulationMantissaBitOffset")

    @mantissa_bit_offset.setter
    def mantissa_bit_offset(self, offset: int) -> None:
        if not isinstance(offset, int) or not -(2**31) <= offset < 2**31:
            raise ValueError(f"mantissa_bit_offset must be an int of 32 bits, got {offset!r}")
        self._set("cublasSetFixedPointEmulationMantissaBitOffset", offset)

    @property
    def mantissa_bit_count(self) -> Any:
        """A buffer of one int32 where products write the bits that they used, or None
        (cublasSetFixedPointEmulationMantissaBitCountPointer). The handle keeps it."""
        pointer = ctypes.POINTER(ctypes.c_int)()
        with _core.ColdCall(self.library, self) as call:
            name = "cublasGetFixedPointEmulationMantissaBitCountPointer"
            call(name, self, ctypes.byref(pointer))
        return self._mantissa_bit_count if pointer else None

    @mantissa_bit_count.setter
    def mantissa_bit_count(self, buffer: Any) -> None:
        with _core.ColdCall(self.library, self) as call:
            address = None
            if buffer is not None:
                if getattr(buffer, "dtype", None) != "int32":
                    raise TypeError(
                        f"mantissa_bit_count must be a buffer of int32 or None, got {buffer!r}"
                    )
                address = call.operand(buffer, "mantissa_bit_count", True, None, 4)
            pointer = ctypes.c_void_p(address)
            call("cublasSetFixedPointEmulationMantissaBitCountPointer", self, pointer)
        self._mantissa_bit_count = buffer
