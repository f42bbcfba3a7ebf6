"""Activation descriptors, and activations forward and backward."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import ActivationMode, NanPropagation

from ..cudnn_graph import Handle
from ..descriptors import Activation, Tensor
from ..memory import blend, destination, keep_where, load, read_scalar, view, write
from ..runtime import bad_param, implements
from .checks import FLOATING, FORWARD, check_alike, check_channels, check_in_place, check_type

Array = np.ndarray[Any, Any]


@implements("cudnnSetActivationDescriptor")
def set_activation(
    descriptor: Activation, mode: int, nan_propagation: int, coefficient: float
) -> None:
    """The coefficient is the ceiling of CLIPPED_RELU or the alpha of ELU, unused elsewhere."""
    if mode not in tuple(ActivationMode):
        raise bad_param(f"mode is {mode}, must be one of 0 to {max(ActivationMode)}")
    descriptor.nan_propagation = checked_nan_propagation(nan_propagation)
    descriptor.mode = ActivationMode(mode)
    descriptor.coefficient = coefficient


def checked_nan_propagation(value: int) -> NanPropagation:
    """The enum member."""
    if value not in tuple(NanPropagation):
        raise bad_param(f"NaN propagation is {value}, must be 0 (not) or 1 (propagate)")
    return NanPropagation(value)


@implements("cudnnGetActivationDescriptor")
def get_activation(
    descriptor: Activation, mode: int, nan_propagation: int, coefficient: int
) -> None:
    """What was set."""
    write(mode, ctypes.c_int, descriptor.mode or 0, "mode")
    write(nan_propagation, ctypes.c_int, descriptor.nan_propagation, "reluNanOpt")
    write(coefficient, ctypes.c_double, descriptor.coefficient, "coef")


@implements("cudnnSetActivationDescriptorSwishBeta")
def set_swish_beta(descriptor: Activation, swish_beta: float) -> None:
    """The beta of ``x * sigmoid(beta * x)``; 1 unless set."""
    descriptor.swish_beta = swish_beta


@implements("cudnnGetActivationDescriptorSwishBeta")
def get_swish_beta(descriptor: Activation, swish_beta: int) -> None:
    """What was set."""
    write(swish_beta, ctypes.c_double, descriptor.swish_beta, "swish_beta")


# --- forward: each function writes act(x) into `out`, which may be x itself ----------------------


def _rectified(activation: Activation, x: Array, out: Array) -> Array:
    """max(x, 0); without NaN propagation fmax, which takes the 0 when x is NaN."""
    propagate = activation.nan_propagation == NanPropagation.PROPAGATE_NAN
    return (np.maximum if propagate else np.fmax)(x, 0, out=out)


def _sigmoid(x: Array, out: Array | None = None) -> Array:
    # Not np.negative: NumPy 2.4 reads wrong elements where a strided input has a strided output.
    out = np.multiply(x, -1, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    return np.reciprocal(out, out=out)


def _clipped(activation: Activation, x: Array, out: Array) -> None:
    np.minimum(_rectified(activation, x, out), x.dtype.type(activation.coefficient), out=out)


def _elu(activation: Activation, x: Array, out: Array) -> None:
    below = np.expm1(np.minimum(x, 0))
    below *= x.dtype.type(activation.coefficient)
    np.add(np.maximum(x, 0), below, out=out)


def _swish(activation: Activation, x: Array, out: Array) -> None:
    np.multiply(x, _sigmoid(x * x.dtype.type(activation.swish_beta)), out=out)


_FORWARD: dict[ActivationMode, Callable[[Activation, Array, Array], object]] = {
    ActivationMode.SIGMOID: lambda activation, x, out: _sigmoid(x, out),
    ActivationMode.RELU: _rectified,
    ActivationMode.TANH: lambda activation, x, out: np.tanh(x, out=out),
    ActivationMode.CLIPPED_RELU: _clipped,
    ActivationMode.ELU: _elu,
    ActivationMode.SWISH: _swish,
}


@implements("cudnnActivationForward")
def activation_forward(
    handle: Handle,
    activation: Activation,
    alpha: int,
    x_desc: Tensor,
    x: int,
    beta: int,
    y_desc: Tensor,
    y: int,
) -> None:
    """``y = alpha * act(x) + beta * y``; in place if x and y are one address."""
    check_channels(x_desc, "x")
    check_alike(x_desc, y_desc, "x and y")
    check_type(x_desc, "x", FORWARD)
    check_in_place(x_desc, x, y_desc, y, "x and y")
    out = view(y, y_desc, "y")
    scale = read_scalar(alpha, y_desc.dtype, "alpha"), read_scalar(beta, y_desc.dtype, "beta")
    result = destination(out, *scale)
    _function(_FORWARD, activation)(activation, load(x, x_desc, "x"), result)
    blend(out, result, *scale)


def _function(table: dict[ActivationMode, Any], activation: Activation) -> Any:
    if activation.mode is None:
        raise bad_param("the activation descriptor has not been set")
    if activation.mode not in table:
        raise bad_param(f"{activation.mode.name} is for the fused convolution alone")
    return table[activation.mode]


# --- backward: each function writes dy * act'(x) into `out`, which may be dy itself --------------


def _sigmoid_gradient(activation: Activation, y: Array, dy: Array, x: Array, out: Array) -> None:
    np.multiply(dy, y * (1 - y), out=out)


def _relu_gradient(activation: Activation, y: Array, dy: Array, x: Array, out: Array) -> None:
    keep_where(x > 0, dy, out)


def _tanh_gradient(activation: Activation, y: Array, dy: Array, x: Array, out: Array) -> None:
    np.multiply(dy, 1 - y * y, out=out)


def _clipped_gradient(activation: Activation, y: Array, dy: Array, x: Array, out: Array) -> None:
    keep_where((x > 0) & (x < x.dtype.type(activation.coefficient)), dy, out)


def _elu_gradient(activation: Activation, y: Array, dy: Array, x: Array, out: Array) -> None:
    slope = np.minimum(y, 0)  # below 0, y = alpha * (exp(x) - 1), so alpha * exp(x) = y + alpha
    slope += y.dtype.type(activation.coefficient)
    slope[y >= 0] = 1
    np.multiply(dy, slope, out=out)


def _swish_gradient(activation: Activation, y: Array, dy: Array, x: Array, out: Array) -> None:
    scaled = x * x.dtype.type(activation.swish_beta)
    gate = _sigmoid(scaled)
    np.multiply(dy, gate * (1 + scaled * (1 - gate)), out=out)


_BACKWARD: dict[ActivationMode, Callable[[Activation, Array, Array, Array, Array], None]] = {
    ActivationMode.SIGMOID: _sigmoid_gradient,
    ActivationMode.RELU: _relu_gradient,
    ActivationMode.TANH: _tanh_gradient,
    ActivationMode.CLIPPED_RELU: _clipped_gradient,
    ActivationMode.ELU: _elu_gradient,
    ActivationMode.SWISH: _swish_gradient,
}


@implements("cudnnActivationBackward")
def activation_backward(
    handle: Handle,
    activation: Activation,
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
    """``dx = alpha * dy * act'(x) + beta * dx``; dx may be dy.

    As in cuDNN, sigmoid, tanh and ELU take the derivative from y, the others from x.
    """
    for descriptor, name in ((dy_desc, "dy"), (x_desc, "x"), (dx_desc, "dx")):
        check_alike(y_desc, descriptor, f"y and {name}")
    check_channels(y_desc, "y")
    check_type(y_desc, "y", FLOATING)
    check_in_place(dy_desc, dy, dx_desc, dx, "dy and dx")
    out = view(dx, dx_desc, "dx")
    scale = read_scalar(alpha, dx_desc.dtype, "alpha"), read_scalar(beta, dx_desc.dtype, "beta")
    result = destination(out, *scale)
    operands = load(y, y_desc, "y"), load(dy, dy_desc, "dy"), load(x, x_desc, "x")
    _function(_BACKWARD, activation)(activation, *operands, result)
    blend(out, result, *scale)
