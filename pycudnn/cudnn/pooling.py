"""Pooling descriptors."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

from pycudnn import _core
from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, NanPropagation, PoolingMode
from pycudnn.cudnn._objects import construct, int_array, integer, integers, member
from pycudnn.libraries import Library, find_library

_MAX_SPATIAL = CUDNN_DIM_MAX - 2


class PoolingDescriptor(_core.PoolingDescriptor):
    """Window, padding and stride of a pooling (cudnnSetPooling2dDescriptor, ...NdDescriptor).

    ``window`` is one int (the same for ``ndim`` spatial axes) or one per axis; ``stride`` is the
    window where it is None; ``padding`` must be smaller than the window. ValueError otherwise.
    """

    library: Library

    def __init__(
        self,
        window: int | Sequence[int],
        mode: PoolingMode = PoolingMode.MAX,
        *,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] | None = None,
        nan_propagation: NanPropagation = NanPropagation.PROPAGATE_NAN,
        ndim: int | None = None,
        library: Library | str | None = None,
    ) -> None:
        axes = len(integers(window, "window", 1)) if isinstance(window, Iterable) else 2
        count = axes if ndim is None else integer(ndim, "ndim", 2, _MAX_SPATIAL)
        if not 2 <= count <= _MAX_SPATIAL:
            raise ValueError(f"window must have 2 to {_MAX_SPATIAL} axes, got {window!r}")
        windows = integers(window, "window", 1, count)
        pads = integers(padding, "padding", 0, count)
        strides = windows if stride is None else integers(stride, "stride", 1, count)
        if any(pad >= size for pad, size in zip(pads, windows, strict=True)):
            raise ValueError(f"padding must be smaller than the window {windows}, got {pads}")
        mode = member(PoolingMode, mode, "mode")
        nan = member(NanPropagation, nan_propagation, "nan_propagation")
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            arrays = [int_array(values) for values in (windows, pads, strides)]
            call("cudnnSetPoolingNdDescriptor", self, mode, nan, count, *arrays)
            self._remember(windows, pads, strides)

        settings = {
            "window": windows, "mode": mode, "padding": pads, "stride": strides,
            "nan_propagation": nan,
        }  # fmt: skip
        construct(self, found, "PoolingDescriptor", settings, set_up)

    def _read(self) -> tuple[PoolingMode, NanPropagation, tuple[tuple[int, ...], ...]]:
        mode, nan, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        arrays = [(ctypes.c_int * self.ndim)() for _ in range(3)]
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetPoolingNdDescriptor",
                self, self.ndim, ctypes.byref(mode), ctypes.byref(nan), ctypes.byref(count),
                *arrays,
            )  # fmt: skip
        return (
            PoolingMode(mode.value),
            NanPropagation(nan.value),
            tuple(tuple(array) for array in arrays),
        )

    @property
    def mode(self) -> PoolingMode:
        """What is made of a window: its maximum or an average."""
        return self._read()[0]

    @property
    def nan_propagation(self) -> NanPropagation:
        """Does a NaN in the window reach the output?"""
        return self._read()[1]

    @property
    def window(self) -> tuple[int, ...]:
        """Window per spatial axis, in elements."""
        return self._read()[2][0]

    @property
    def padding(self) -> tuple[int, ...]:
        """Padding per spatial axis and side, in elements."""
        return self._read()[2][1]

    @property
    def stride(self) -> tuple[int, ...]:
        """Stride per spatial axis, in elements."""
        return self._read()[2][2]

    def __repr__(self) -> str:
        if self.closed:
            return "<closed PoolingDescriptor>"
        mode, _, (window, padding, stride) = self._read()
        return (
            f"PoolingDescriptor(window={window}, mode={mode.name}, padding={padding}, "
            f"stride={stride})"
        )
