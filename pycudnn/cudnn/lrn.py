"""Local response normalization across channels, and divisive normalization over neighbours.

Both take an LRNDescriptor and divide x by ``(k + alpha / count * sum) ** beta``:

* across channels, ``sum`` is that of x squared over a window of n channels and ``count`` is n;
* divisive, ``sum`` is that of the squared deviations from ``means`` over a window of n elements in
  each spatial dimension, and ``count`` is n to their number.

A window begins (n - 1) // 2 elements before its centre; what is outside the tensor is left out.
float16, float32 and float64. ValueError for shapes and numbers that do not fit, TypeError for data
types that do not, NotSupported for what the library does not compute.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import (
    CUDNN_LRN_MAX_N,
    CUDNN_LRN_MIN_BETA,
    CUDNN_LRN_MIN_K,
    CUDNN_LRN_MIN_N,
    DivNormMode,
    LRNMode,
)
from pycudnn.cudnn._normalizations import Operands, check_alike
from pycudnn.cudnn._objects import construct, finite, integer, member, require, scaling
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor
from pycudnn.libraries import Library, find_library

_CROSS_CHANNEL = LRNMode.LRN_CROSS_CHANNEL_DIM1
_PRECOMPUTED_MEANS = DivNormMode.DIVNORM_PRECOMPUTED_MEANS


class LRNDescriptor(_core.Owned):
    """Window and coefficients of a normalization (cudnnSetLRNDescriptor).

    ``n`` is the window, 1 to 16 elements; ``alpha`` any finite number, ``beta`` at least 0.01,
    ``k`` at least 1e-5. ValueError otherwise.
    """

    c_type = "cudnnLRNDescriptor_t"
    library: Library

    def __init__(
        self,
        n: int = 5,
        alpha: float = 1e-4,
        beta: float = 0.75,
        k: float = 2.0,
        *,
        library: Library | str | None = None,
    ) -> None:
        settings = {
            "n": integer(n, "n", CUDNN_LRN_MIN_N, CUDNN_LRN_MAX_N),
            "alpha": finite(alpha, "alpha"),
            "beta": finite(beta, "beta", CUDNN_LRN_MIN_BETA),
            "k": finite(k, "k", CUDNN_LRN_MIN_K),
        }
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            call("cudnnSetLRNDescriptor", self, *settings.values())

        construct(self, found, "LRNDescriptor", settings, set_up)

    def _read(self) -> tuple[int, float, float, float]:
        n, coefficients = ctypes.c_uint(), [ctypes.c_double() for _ in range(3)]
        with _core.ColdCall(self.library) as call:
            call("cudnnGetLRNDescriptor", self, ctypes.byref(n), *map(ctypes.byref, coefficients))
        alpha, beta, k = (coefficient.value for coefficient in coefficients)
        return n.value, alpha, beta, k

    @property
    def n(self) -> int:
        """The window, in elements."""
        return self._read()[0]

    @property
    def alpha(self) -> float:
        """Factor of the mean square."""
        return self._read()[1]

    @property
    def beta(self) -> float:
        """The exponent."""
        return self._read()[2]

    @property
    def k(self) -> float:
        """What is added to the mean square."""
        return self._read()[3]

    def __repr__(self) -> str:
        if self.closed:
            return "<closed LRNDescriptor>"
        n, alpha, beta, k = self._read()
        return f"LRNDescriptor(n={n}, alpha={alpha:g}, beta={beta:g}, k={k:g})"


def lrn_cross_channel_forward(
    handle: Handle,
    lrn: LRNDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    mode: LRNMode = _CROSS_CHANNEL,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * lrn(x) + beta * y`` across channels (cudnnLRNCrossChannelForward).

    x and y have one shape of at least 3 dimensions and one data type; y may be x. ValueError for
    an x of 3 dimensions, (N, C, W), that lies in memory in another order or with gaps in W: cuDNN
    does not compute it. As (N, C, W, 1) it may lie in any way.
    """
    require(handle, Handle, "handle")
    require(lrn, LRNDescriptor, "lrn")
    mode = member(LRNMode, mode, "mode")
    check_alike(x_desc, y_desc=y_desc)
    _check_order(x_desc)
    factors = scaling(alpha, beta, x_desc.dtype_code)
    with _core.ColdCall(handle.library, handle) as call:
        at = Operands(call)
        call(
            "cudnnLRNCrossChannelForward",
            handle, lrn, mode, factors[0],
            x_desc, at.read(x, "x", x_desc), factors[1],
            y_desc, at.write(y, "y", y_desc, over="x"),
        )  # fmt: skip


def lrn_cross_channel_backward(
    handle: Handle,
    lrn: LRNDescriptor,
    y_desc: TensorDescriptor,
    y: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    x_desc: TensorDescriptor,
    x: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    *,
    mode: LRNMode = _CROSS_CHANNEL,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``dx = alpha * gradient + beta * dx`` (cudnnLRNCrossChannelBackward).

    x and y as they were in forward, y without blending; all four of one shape and data type.
    ValueError as in forward.
    """
    require(handle, Handle, "handle")
    require(lrn, LRNDescriptor, "lrn")
    mode = member(LRNMode, mode, "mode")
    check_alike(x_desc, y_desc=y_desc, dy_desc=dy_desc, dx_desc=dx_desc)
    _check_order(x_desc)
    factors = scaling(alpha, beta, x_desc.dtype_code)
    with _core.ColdCall(handle.library, handle) as call:
        at = Operands(call)
        call(
            "cudnnLRNCrossChannelBackward",
            handle, lrn, mode, factors[0],
            y_desc, at.read(y, "y", y_desc),
            dy_desc, at.read(dy, "dy", dy_desc),
            x_desc, at.read(x, "x", x_desc), factors[1],
            dx_desc, at.write(dx, "dx", dx_desc, over="dy"),
        )  # fmt: skip


def _check_order(x_desc: TensorDescriptor) -> None:
    """cuDNN leaves the output as it is for other tensors of 3 dimensions, and reports success."""
    shape, strides, step = x_desc.shape, x_desc.strides, 1
    if len(shape) != 3:
        return
    for axis in (2, 1, 0):
        if shape[axis] == 1:
            continue
        if strides[axis] < step or (axis == 2 and strides[axis] > 1):
            raise ValueError(
                f"x_desc must lie in the order (N, C, W) with W packed, or be (N, C, W, 1), "
                f"got strides {strides} for shape {shape}"
            )
        step = shape[axis] * strides[axis]


def divisive_normalization_forward(
    handle: Handle,
    lrn: LRNDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    means: Any,
    temp: Any,
    temp2: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    mode: DivNormMode = _PRECOMPUTED_MEANS,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * normalized x + beta * y`` (cudnnDivisiveNormalizationForward).

    Element i of x is divided by ``(k + lrn.alpha / count * sum of (x[j] - means[i]) ** 2) **
    lrn.beta`` over its neighbours j. ``means`` (None: zeros) and the scratch tensors ``temp`` and
    ``temp2`` lie like x; x and y have 4 or 5 dimensions.
    """
    require(handle, Handle, "handle")
    require(lrn, LRNDescriptor, "lrn")
    mode = member(DivNormMode, mode, "mode")
    check_alike(x_desc, y_desc=y_desc)
    factors = scaling(alpha, beta, x_desc.dtype_code)
    with _core.ColdCall(handle.library, handle) as call:
        at = Operands(call)
        call(
            "cudnnDivisiveNormalizationForward",
            handle, lrn, mode, factors[0],
            x_desc, at.read(x, "x", x_desc),
            0 if means is None else at.read(means, "means", x_desc),
            at.write(temp, "temp", x_desc), at.write(temp2, "temp2", x_desc), factors[1],
            y_desc, at.write(y, "y", y_desc, over="x"),
        )  # fmt: skip


def divisive_normalization_backward(
    handle: Handle,
    lrn: LRNDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    means: Any,
    dy: Any,
    temp: Any,
    temp2: Any,
    dx_dmeans_desc: TensorDescriptor,
    dx: Any,
    dmeans: Any = None,
    *,
    mode: DivNormMode = _PRECOMPUTED_MEANS,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """Gradients of x and, unless ``dmeans`` is None, of means (cudnnDivisiveNormalizationBackward).

    ``x_desc`` describes x, means, dy and the scratch tensors, ``dx_dmeans_desc`` both gradients,
    each ``alpha * gradient + beta * what was there``; dx must not be dy. ValueError for an even
    ``lrn.n``: cuDNN's gradient then is not that of its forward function.
    """
    require(handle, Handle, "handle")
    require(lrn, LRNDescriptor, "lrn")
    mode = member(DivNormMode, mode, "mode")
    check_alike(x_desc, dx_dmeans_desc=dx_dmeans_desc)
    if lrn.n % 2 == 0:
        raise ValueError(f"lrn.n must be odd here, got {lrn.n}: cuDNN's gradient is wrong for it")
    factors = scaling(alpha, beta, x_desc.dtype_code)
    with _core.ColdCall(handle.library, handle) as call:
        at = Operands(call)
        call(
            "cudnnDivisiveNormalizationBackward",
            handle, lrn, mode, factors[0],
            x_desc, at.read(x, "x", x_desc),
            0 if means is None else at.read(means, "means", x_desc), at.read(dy, "dy", x_desc),
            at.write(temp, "temp", x_desc), at.write(temp2, "temp2", x_desc), factors[1],
            dx_dmeans_desc, at.write(dx, "dx", dx_dmeans_desc),
            0 if dmeans is None else at.write(dmeans, "dmeans", dx_dmeans_desc),
        )  # fmt: skip
