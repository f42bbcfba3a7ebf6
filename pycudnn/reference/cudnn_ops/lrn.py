"""Local response normalization across channels, and divisive normalization over neighbours.

Both divide by ``(k + alpha / count * sum of squares) ** beta``, the sum taken over a window of n
elements: of channels, or of each spatial dimension (then count is n to their number). A window
begins ``(n - 1) // 2`` elements before its centre; what lies outside the tensor is left out.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import (
    CUDNN_LRN_MAX_N,
    CUDNN_LRN_MIN_BETA,
    CUDNN_LRN_MIN_K,
    CUDNN_LRN_MIN_N,
    DataType,
    DivNormMode,
    LRNMode,
    TensorFormat,
)

from ..cudnn_graph import Handle
from ..descriptors import LRN, Tensor, packed_strides
from ..memory import blend, load, read_scalar, view, write
from ..runtime import Status, bad_param, implements, not_supported
from .checks import check_alike, check_channels, check_type, checked_member

Array = np.ndarray[Any, Any]

_DATA_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF)  # cuDNN has no bfloat16 here
_UNPACKED = "of more than 4 dimensions, the spatial ones must be packed, behind the channels"


@implements("cudnnSetLRNDescriptor")
def set_lrn(descriptor: LRN, n: int, alpha: float, beta: float, k: float) -> None:
    """As in cuDNN, any alpha and NaN pass."""
    if not CUDNN_LRN_MIN_N <= n <= CUDNN_LRN_MAX_N:
        raise bad_param(f"lrnN is {n}, must be in [{CUDNN_LRN_MIN_N}, {CUDNN_LRN_MAX_N}]")
    if beta < CUDNN_LRN_MIN_BETA:
        raise bad_param(f"lrnBeta is {beta}, must be at least {CUDNN_LRN_MIN_BETA}")
    if k < CUDNN_LRN_MIN_K:
        raise bad_param(f"lrnK is {k}, must be at least {CUDNN_LRN_MIN_K}")
    descriptor.n, descriptor.alpha, descriptor.beta, descriptor.k = n, alpha, beta, k


@implements("cudnnGetLRNDescriptor")
def get_lrn(descriptor: LRN, n: int, alpha: int, beta: int, k: int) -> None:
    """What was set, through those pointers that are not NULL."""
    if n:
        write(n, ctypes.c_uint, descriptor.n)
    for out, value in ((alpha, descriptor.alpha), (beta, descriptor.beta), (k, descriptor.k)):
        if out:
            write(out, ctypes.c_double, value)


def _window_sum(values: Array, axes: tuple[int, ...], n: int, mirrored: bool = False) -> Array:
    """For each element the sum over its window; mirrored: over those whose window has it."""
    behind = (n - 1) // 2
    first = behind + 1 - n if mirrored else -behind
    for axis in axes:
        total = np.zeros_like(values)
        size = values.shape[axis]
        source, target = np.moveaxis(values, axis, 0), np.moveaxis(total, axis, 0)
        for offset in range(first, first + n):
            low, high = max(0, -offset), min(size, size - offset)
            if low < high:
                target[low:high] += source[low + offset : high + offset]
        values = total
    return values


# --- across channels -----------------------------------------------------------------------------


def _check_lrn(mode: int, x_desc: Tensor, others: dict[str, Tensor], unpacked: Status) -> None:
    checked_member(LRNMode, mode, "lrnMode")  # cuDNN takes any number
    check_channels(x_desc, "x")
    for name, desc in others.items():
        check_alike(x_desc, desc, f"x and {name}")
    check_type(x_desc, "x", _DATA_TYPES)
    if len(x_desc.shape) > 4 and not all(map(_is_planar, (x_desc, *others.values()))):
        raise unpacked


def _is_planar(desc: Tensor) -> bool:
    """Batch, then channels, each of packed spatial dimensions; gaps between them are all right."""
    batch, channels, *spatial = desc.strides
    packed = packed_strides(desc.shape, TensorFormat.NCHW)[2:]
    return tuple(spatial) == packed and batch >= desc.shape[1] * channels


def _scale(lrn: LRN, x: Array) -> Array:
    """The base of the power that x is divided by."""
    return lrn.k + lrn.alpha / lrn.n * _window_sum(x * x, (1,), lrn.n)


@implements("cudnnLRNCrossChannelForward")
def lrn_forward(
    handle: Handle,
    lrn: LRN,
    mode: int,
    alpha: int,
    x_desc: Tensor,
    x: int,
    beta: int,
    y_desc: Tensor,
    y: int,
) -> None:
    """``y = alpha * x / (k + lrnAlpha / n * sum of x ** 2) ** lrnBeta + beta * y``."""
    _check_lrn(mode, x_desc, {"y": y_desc}, bad_param(_UNPACKED))
    source, out = load(x, x_desc, "x"), view(y, y_desc, "y")
    scale = read_scalar(alpha, y_desc.dtype, "alpha"), read_scalar(beta, y_desc.dtype, "beta")
    blend(out, source * _scale(lrn, source) ** -lrn.beta, *scale)


@implements("cudnnLRNCrossChannelBackward")
def lrn_backward(
    handle: Handle,
    lrn: LRN,
    mode: int,
    alpha: int,
    y_desc: Tensor,
    y: int,
    dy_desc: Tensor,
    dy: int,
    x_desc: Tensor,
    x: int,
    beta: int,
    dx_desc: Tensor,
    dx: int,
) -> None:
    """``dx = alpha * gradient + beta * dx``, from x alone: y is not looked at, as in cuDNN."""
    check_alike(x_desc, y_desc, "x and y")
    _check_lrn(mode, x_desc, {"dy": dy_desc, "dx": dx_desc}, not_supported(_UNPACKED))
    source, gradient, out = load(x, x_desc, "x"), load(dy, dy_desc, "dy"), view(dx, dx_desc, "dx")
    factors = read_scalar(alpha, dx_desc.dtype, "alpha"), read_scalar(beta, dx_desc.dtype, "beta")
    scale = _scale(lrn, source)
    shares = gradient * source * scale ** (-lrn.beta - 1)
    shares = _window_sum(shares, (1,), lrn.n, mirrored=True)
    slope = 2 * lrn.alpha * lrn.beta / lrn.n
    blend(out, gradient * scale**-lrn.beta - slope * source * shares, *factors)


# --- over neighbours -----------------------------------------------------------------------------


def _check_divisive(mode: int, x_desc: Tensor, out_desc: Tensor, name: str) -> None:
    if len(x_desc.shape) not in (4, 5):
        raise bad_param(f"x has {len(x_desc.shape)} dimensions, must have 4 or 5")
    check_alike(x_desc, out_desc, f"x and {name}")
    if mode != DivNormMode.DIVNORM_PRECOMPUTED_MEANS:
        raise not_supported(f"mode is {mode}, must be 0 (DIVNORM_PRECOMPUTED_MEANS)")
    check_type(x_desc, "x", _DATA_TYPES)
    if x_desc.strides != out_desc.strides:
        raise not_supported(f"x and {name} differ: {x_desc.strides} and {out_desc.strides}")


def _check_scratch(temp: int, temp2: int) -> None:
    """Not used here, but cuDNN refuses NULL."""
    if not temp or not temp2:
        raise bad_param("temp or temp2 is NULL")


class _Neighbours:
    """Sums over the window around each element, and the deviation from its own mean there."""

    def __init__(self, lrn: LRN, x: Array, means: Array) -> None:
        self.axes = tuple(range(2, x.ndim))
        self.count = _window_sum(np.ones((1, 1, *x.shape[2:]), x.dtype), self.axes, lrn.n)
        self.total = _window_sum(x, self.axes, lrn.n)
        squares = _window_sum(x * x, self.axes, lrn.n)
        # The sum of (x[j] - means[i]) ** 2 over the window of i.
        deviation = squares - 2 * means * self.total + self.count * means * means
        self.weight = lrn.alpha / lrn.n ** len(self.axes)
        self.scale = lrn.k + self.weight * deviation


def _means(means: int, x_desc: Tensor, x: Array) -> Array:
    return load(means, x_desc, "means") if means else np.zeros_like(x)


@implements("cudnnDivisiveNormalizationForward")
def divisive_forward(
    handle: Handle,
    lrn: LRN,
    mode: int,
    alpha: int,
    x_desc: Tensor,
    x: int,
    means: int,
    temp: int,
    temp2: int,
    beta: int,
    y_desc: Tensor,
    y: int,
) -> None:
    """x divided by the deviation of its neighbours from means, which is 0 where it is NULL.

    Element i becomes ``x[i] / (k + lrnAlpha / count * sum of (x[j] - means[i]) ** 2) ** lrnBeta``.
    """
    _check_divisive(mode, x_desc, y_desc, "y")
    _check_scratch(temp, temp2)
    source, out = load(x, x_desc, "x"), view(y, y_desc, "y")
    factors = read_scalar(alpha, y_desc.dtype, "alpha"), read_scalar(beta, y_desc.dtype, "beta")
    near = _Neighbours(lrn, source, _means(means, x_desc, source))
    blend(out, source * near.scale**-lrn.beta, *factors)


@implements("cudnnDivisiveNormalizationBackward")
def divisive_backward(
    handle: Handle,
    lrn: LRN,
    mode: int,
    alpha: int,
    x_desc: Tensor,
    x: int,
    means: int,
    dy: int,
    temp: int,
    temp2: int,
    beta: int,
    out_desc: Tensor,
    dx: int,
    dmeans: int,
) -> None:
    """Gradients of x and, unless dmeans is NULL, of means."""
    _check_divisive(mode, x_desc, out_desc, "dx")
    _check_scratch(temp, temp2)
    source, gradient = load(x, x_desc, "x"), load(dy, x_desc, "dy")
    factors = read_scalar(alpha, x_desc.dtype, "alpha"), read_scalar(beta, x_desc.dtype, "beta")
    centre = _means(means, x_desc, source)
    near = _Neighbours(lrn, source, centre)
    share = 2 * lrn.beta * near.weight * gradient * source * near.scale ** (-lrn.beta - 1)
    shares = _window_sum(share, near.axes, lrn.n, mirrored=True)
    shifts = _window_sum(share * centre, near.axes, lrn.n, mirrored=True)
    from_means = share * (near.total - near.count * centre)
    result = gradient * near.scale**-lrn.beta - source * shares + shifts
    blend(view(dx, out_desc, "dx"), result, *factors)
    if dmeans:
        blend(view(dmeans, out_desc, "dmeans"), from_means, *factors)
