"""Convolution descriptors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import (
    CUDNN_DIM_MAX,
    ConvolutionMode,
    DataType,
    MathType,
    ReorderType,
)
from pycudnn.cudnn._objects import (
    choose_math_type,
    construct,
    int_array,
    integer,
    integers,
    member,
)
from pycudnn.libraries import Library, find_library

_MAX_SPATIAL = CUDNN_DIM_MAX - 2


class ConvolutionDescriptor(_core.ConvolutionDescriptor):
    """How a filter moves over a tensor (cudnnSetConvolution2dDescriptor, ...NdDescriptor).

    ``padding``, ``stride`` and ``dilation`` are one int (the same for ``ndim`` spatial axes) or
    one per axis. ``compute_type`` is what products are summed in: float32, float64, float16 or
    int32. ``math_type`` None is FMA_MATH (plain float32), or DEFAULT_MATH, which may use TF32,
    where ``pycudnn.config.tf32`` is set or the compute type is another.

    ValueError for a negative padding, a stride, dilation or group count below 1, TypeError for an
    unknown type.
    """

    library: Library

    def __init__(
        self,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        *,
        mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
        compute_type: Any = DataType.FLOAT,
        groups: int = 1,
        math_type: MathType | None = None,
        reorder_type: ReorderType = ReorderType.DEFAULT_REORDER,
        ndim: int = 2,
        library: Library | str | None = None,
    ) -> None:
        count = integer(ndim, "ndim", 2, _MAX_SPATIAL)
        pads = integers(padding, "padding", 0, count)
        strides = integers(stride, "stride", 1, count)
        dilations = integers(dilation, "dilation", 1, count)
        mode = member(ConvolutionMode, mode, "mode")
        computed_in = dtypes.to_data_type(compute_type, "compute_type")
        groups = integer(groups, "groups", 1)
        math_type = choose_math_type(math_type, computed_in)
        reorder_type = member(ReorderType, reorder_type, "reorder_type")
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            arrays = [int_array(values) for values in (pads, strides, dilations)]
            call("cudnnSetConvolutionNdDescriptor", self, count, *arrays, mode, computed_in)
            call("cudnnSetConvolutionGroupCount", self, groups)
            call("cudnnSetConvolutionMathType", self, math_type)
            call("cudnnSetConvolutionReorderType", self, reorder_type)
            self._remember(pads, strides, dilations)

        settings = {
            "padding": pads, "stride": strides, "dilation": dilations, "mode": mode,
            "compute_type": computed_in, "groups": groups, "math_type": math_type,
            "reorder_type": reorder_type,
        }  # fmt: skip
        construct(self, found, "ConvolutionDescriptor", settings, set_up)

    def replace(self, **changes: Any) -> ConvolutionDescriptor:
        """A new descriptor that differs in the given constructor arguments."""
        settings: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "padding", "stride", "dilation", "mode", "compute_type", "groups", "math_type",
                "reorder_type", "ndim", "library",
            )
        }  # fmt: skip
        return ConvolutionDescriptor(**{**settings, **changes})

    def _read(
        self,
    ) -> tuple[tuple[tuple[int, ...], ...], ConvolutionMode, DataType]:
        count, mode, computed_in = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        arrays = [(ctypes.c_int * self.ndim)() for _ in range(3)]
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetConvolutionNdDescriptor",
                self, self.ndim, ctypes.byref(count), *arrays, ctypes.byref(mode),
                ctypes.byref(computed_in),
            )  # fmt: skip
        return (
            tuple(tuple(array) for array in arrays),
            ConvolutionMode(mode.value),
            DataType(computed_in.value),
        )

    def _read_int(self, function: str) -> int:
        value = ctypes.c_int()
        with _core.ColdCall(self.library) as call:
            call(function, self, ctypes.byref(value))
        return value.value

    @property
    def padding(self) -> tuple[int, ...]:
        """Padding per spatial axis and side, in elements."""
        return self._read()[0][0]

    @property
    def stride(self) -> tuple[int, ...]:
        """Stride per spatial axis, in elements."""
        return self._read()[0][1]

    @property
    def dilation(self) -> tuple[int, ...]:
        """Distance of neighbouring filter taps per spatial axis, in elements."""
        return self._read()[0][2]

    @property
    def mode(self) -> ConvolutionMode:
        """CONVOLUTION turns the filter around, CROSS_CORRELATION does not."""
        return self._read()[1]

    @property
    def compute_type(self) -> DataType:
        """What products are summed in."""
        return self._read()[2]

    @property
    def groups(self) -> int:
        """Into how many independent groups the channels are split."""
        return self._read_int("cudnnGetConvolutionGroupCount")

    @property
    def math_type(self) -> MathType:
        """Which units may compute: FMA_MATH is plain, DEFAULT_MATH may use TF32."""
        return MathType(self._read_int("cudnnGetConvolutionMathType"))

    @property
    def reorder_type(self) -> ReorderType:
        """May int8 filters be reordered before the call?"""
        return ReorderType(self._read_int("cudnnGetConvolutionReorderType"))

    def __repr__(self) -> str:
        if self.closed:
            return "<closed ConvolutionDescriptor>"
        (padding, stride, dilation), mode, compute_type = self._read()
        return (
            f"ConvolutionDescriptor(padding={padding}, stride={stride}, dilation={dilation}, "
            f"mode={mode.name}, compute_type={compute_type.name}, groups={self.groups}, "
            f"math_type={self.math_type.name})"
        )
