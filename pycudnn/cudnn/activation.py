"""Activation descriptors."""

from __future__ import annotations

import ctypes

from pycudnn import _core
from pycudnn.abi.cudnn_enums import ActivationMode, NanPropagation
from pycudnn.cudnn._objects import construct, finite, member
from pycudnn.libraries import Library, find_library


class ActivationDescriptor(_core.ActivationDescriptor):
    """An elementwise function (cudnnSetActivationDescriptor).

    ``coefficient`` is the ceiling of CLIPPED_RELU, alpha of ELU and beta of SWISH (set through
    cudnnSetActivationDescriptorSwishBeta); other modes ignore it. ValueError unless it is finite.
    IDENTITY is for ``convolution_bias_activation_forward`` alone, as in cuDNN.
    """

    library: Library

    def __init__(
        self,
        mode: ActivationMode,
        *,
        coefficient: float | None = None,
        nan_propagation: NanPropagation = NanPropagation.PROPAGATE_NAN,
        library: Library | str | None = None,
    ) -> None:
        mode = member(ActivationMode, mode, "mode")
        nan = member(NanPropagation, nan_propagation, "nan_propagation")
        if coefficient is None:
            coefficient = 1.0 if mode == ActivationMode.SWISH else 0.0
        coefficient = finite(coefficient, "coefficient")
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            call("cudnnSetActivationDescriptor", self, mode, nan, coefficient)
            if mode == ActivationMode.SWISH:
                call("cudnnSetActivationDescriptorSwishBeta", self, coefficient)
            self._set_mode(mode)

        settings = {"mode": mode, "coefficient": coefficient, "nan_propagation": nan}
        construct(self, found, "ActivationDescriptor", settings, set_up)

    def _read(self) -> tuple[ActivationMode, NanPropagation, float]:
        mode, nan, coefficient = ctypes.c_int(), ctypes.c_int(), ctypes.c_double()
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetActivationDescriptor",
                self, ctypes.byref(mode), ctypes.byref(nan), ctypes.byref(coefficient),
            )  # fmt: skip
            if mode.value == ActivationMode.SWISH:
                call("cudnnGetActivationDescriptorSwishBeta", self, ctypes.byref(coefficient))
        return ActivationMode(mode.value), NanPropagation(nan.value), coefficient.value

    @property
    def mode(self) -> ActivationMode:
        """Which function."""
        return self._read()[0]

    @property
    def nan_propagation(self) -> NanPropagation:
        """Does a NaN in the input reach the output?"""
        return self._read()[1]

    @property
    def coefficient(self) -> float:
        """Ceiling of CLIPPED_RELU, alpha of ELU, beta of SWISH."""
        return self._read()[2]

    def __repr__(self) -> str:
        if self.closed:
            return "<closed ActivationDescriptor>"
        mode, _, coefficient = self._read()
        return f"ActivationDescriptor({mode.name}, coefficient={coefficient:g})"
