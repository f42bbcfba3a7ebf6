"""Softmax and log-softmax, forward and backward."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cudnn_enums import SoftmaxAlgorithm, SoftmaxMode

from ..cudnn_graph import Handle
from ..descriptors import Tensor
from ..memory import blend, destination, load, read_scalar, view
from ..runtime import bad_param, implements
from .checks import FLOATING, FORWARD, check_alike, check_channels, check_in_place, check_type


def _axes(mode: int, descriptor: Tensor) -> tuple[int, ...]:
    """The dimensions over which the results sum to 1: all but N, or the channels of each pixel."""
    if mode == SoftmaxMode.INSTANCE:
        return tuple(range(1, len(descriptor.shape)))
    if mode == SoftmaxMode.CHANNEL:
        return (1,)
    raise bad_param(f"mode is {mode}, must be 0 (INSTANCE) or 1 (CHANNEL)")


def _checked_algorithm(algorithm: int) -> SoftmaxAlgorithm:
    if algorithm not in tuple(SoftmaxAlgorithm):
        raise bad_param(f"algo is {algorithm}, must be 0 (FAST), 1 (ACCURATE) or 2 (LOG)")
    return SoftmaxAlgorithm(algorithm)


@implements("cudnnSoftmaxForward")
def softmax_forward(
    handle: Handle,
    algorithm: int,
    mode: int,
    alpha: int,
    x_desc: Tensor,
    x: int,
    beta: int,
    y_desc: Tensor,
    y: int,
) -> None:
    """``y = alpha * softmax(x) + beta * y``; in place if x and y are one address.

    FAST is ``exp(x) / sum(exp(x))`` as it stands and overflows where x is large; ACCURATE first
    subtracts the largest x, which changes nothing else; LOG is the logarithm of that, computed
    without ever taking the logarithm of an underflowed probability. x and y may be laid out
    differently here; cuDNN 9.19 then returns success and can write to wrong places.
    """
    axes, algo = _axes(mode, x_desc), _checked_algorithm(algorithm)
    check_alike(x_desc, y_desc, "x and y")
    check_channels(x_desc, "x")
    check_type(x_desc, "x", FORWARD)
    check_in_place(x_desc, x, y_desc, y, "x and y")
    logits, out = load(x, x_desc, "x"), view(y, y_desc, "y")
    scale = read_scalar(alpha, y_desc.dtype, "alpha"), read_scalar(beta, y_desc.dtype, "beta")
    result = destination(out, *scale)
    if algo != SoftmaxAlgorithm.FAST:
        # A row of -inf alone has no largest number: it becomes 0, or -inf for LOG, and not NaN.
        largest = logits.max(axes, keepdims=True, initial=np.finfo(logits.dtype).min)
        logits = np.subtract(logits, largest, out=result)
    exponentials = np.exp(logits, out=None if algo == SoftmaxAlgorithm.LOG else result)
    total = exponentials.sum(axes, keepdims=True)
    if algo != SoftmaxAlgorithm.FAST:
        total[total == 0] = 1
    if algo == SoftmaxAlgorithm.LOG:
        np.subtract(logits, np.log(total), out=result)
    else:
        np.divide(exponentials, total, out=result)
    blend(out, result, *scale)


@implements("cudnnSoftmaxBackward")
def softmax_backward(
    handle: Handle,
    algorithm: int,
    mode: int,
    alpha: int,
    y_desc: Tensor,
    y: int,
    dy_desc: Tensor,
    dy: int,
    beta: int,
    dx_desc: Tensor,
    dx: int,
) -> None:
    """``dx = alpha * gradient + beta * dx``, from the results y of the forward call; dx may be dy.

    The gradient is ``y * (dy - sum(dy * y))``, and for LOG ``dy - exp(y) * sum(dy)``.
    """
    axes, algo = _axes(mode, y_desc), _checked_algorithm(algorithm)
    check_alike(y_desc, dy_desc, "y and dy")
    check_alike(y_desc, dx_desc, "y and dx")
    check_channels(y_desc, "y")
    check_type(y_desc, "y", FLOATING)
    check_in_place(dy_desc, dy, dx_desc, dx, "dy and dx")
    output, gradient, out = load(y, y_desc, "y"), load(dy, dy_desc, "dy"), view(dx, dx_desc, "dx")
    scale = read_scalar(alpha, dx_desc.dtype, "alpha"), read_scalar(beta, dx_desc.dtype, "beta")
    result = destination(out, *scale)
    if algo == SoftmaxAlgorithm.LOG:
        np.subtract(gradient, np.exp(output) * gradient.sum(axes, keepdims=True), out=result)
    else:
        total = (gradient * output).sum(axes, keepdims=True)
        np.multiply(output, gradient - total, out=result)
    blend(out, result, *scale)
