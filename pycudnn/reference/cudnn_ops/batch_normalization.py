"""Batch normalization: forward in training and in inference, backward, fused forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import BatchNormOps

from ..cudnn_graph import Handle
from ..descriptors import Activation, Tensor
from ..memory import blend, keep_where, load, read_scalar, store, view
from ..runtime import implements, not_supported
from .batch_normalization_checks import (
    check_epsilon,
    check_fusion,
    check_pair,
    check_tensors,
    checked_ops,
    given,
    read_mask,
    write_mask,
)

Array = np.ndarray[Any, Any]


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and variance, the latter divided by the number of elements."""
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def _unbiased(count: int, dtype: np.dtype[Any]) -> Any:
    """n / (n - 1), by which a variance of the batch estimates that of all."""
    return dtype.type(count) / dtype.type(count - 1)


def _update(address: int, desc: Tensor, value: Array, factor: float) -> None:
    """``running = (1 - factor) * running + factor * value``; nothing where it is NULL."""
    if address:
        running = view(address, desc)
        running[...] = running * running.dtype.type(1 - factor) + value * value.dtype.type(factor)


# --- forward -------------------------------------------------------------------------------------


@implements("cudnnBatchNormalizationForwardTraining")
def forward_training(
    handle: Handle,
    mode: int,
    alpha: int,
    beta: int,
    x_desc: Tensor,
    x: int,
    y_desc: Tensor,
    y: int,
    desc: Tensor,
    scale: int,
    bias: int,
    factor: float,
    running_mean: int,
    running_variance: int,
    epsilon: float,
    saved_mean: int,
    saved_inv_variance: int,
) -> None:
    """The form without addend and activation."""
    forward_training_ex(
        handle, mode, BatchNormOps.BN, alpha, beta, x_desc, x, None, 0, y_desc, y, desc, scale,
        bias, factor, running_mean, running_variance, epsilon, saved_mean, saved_inv_variance,
        None, 0, 0, 0, 0,
    )  # fmt: skip


@implements("cudnnBatchNormalizationForwardTrainingEx", optional=("zDesc", "activationDesc"))
def forward_training_ex(
    handle: Handle,
    mode: int,
    ops: int,
    alpha: int,
    beta: int,
    x_desc: Tensor,
    x: int,
    z_desc: Tensor | None,
    z: int,
    y_desc: Tensor,
    y: int,
    desc: Tensor,
    scale: int,
    bias: int,
    factor: float,
    running_mean: int,
    running_variance: int,
    epsilon: float,
    saved_mean: int,
    saved_inv_variance: int,
    activation: Activation | None,
    workspace: int,
    workspace_size: int,
    reserve: int,
    reserve_size: int,
) -> None:
    """``y = alpha * activation(scale * normalized x + bias + z) + beta * y``.

    Normalized x is ``(x - mean) / sqrt(variance + epsilon)``; mean and 1 / sqrt are saved. The
    running variance takes the variance times n / (n - 1), so it becomes NaN for n = 1, as in cuDNN.
    """
    operation = checked_ops(ops, activation)
    descriptors = {"y": y_desc}
    if operation == BatchNormOps.BN_ADD_ACTIVATION:
        descriptors["z"] = given(z_desc, "zDesc")
    axes = check_tensors(x_desc, descriptors, desc, mode)
    check_fusion(operation, mode, x_desc, *descriptors.values())
    check_epsilon(epsilon)
    check_pair(saved_mean, saved_inv_variance, "resultSaveMean and resultSaveInvVariance")
    factors = read_scalar(alpha, x_desc.dtype, "alpha"), read_scalar(beta, x_desc.dtype, "beta")
    source, out = load(x, x_desc, "x"), view(y, y_desc, "y")
    gain, shift = load(scale, desc, "scale"), load(bias, desc, "bias")

    mean, variance = _moments(source, axes)
    inverse = 1 / np.sqrt(variance + source.dtype.type(epsilon))
    count = math.prod(source.shape[axis] for axis in axes)
    _update(running_mean, desc, mean, factor)
    _update(running_variance, desc, variance * _unbiased(count, source.dtype), factor)
    if saved_mean:
        view(saved_mean, desc)[...] = mean
        view(saved_inv_variance, desc)[...] = inverse

    result = (source - mean) * (gain * inverse) + shift
    if operation == BatchNormOps.BN_ADD_ACTIVATION:
        result += load(z, descriptors["z"], "z")
    if operation != BatchNormOps.BN:
        passed = ~(result <= 0)  # NaN passes
        write_mask(passed, reserve, reserve_size)
        result = keep_where(passed, result)
    blend(out, result, *factors)


@implements("cudnnBatchNormalizationForwardInference")
def forward_inference(
    handle: Handle,
    mode: int,
    alpha: int,
    beta: int,
    x_desc: Tensor,
    x: int,
    y_desc: Tensor,
    y: int,
    desc: Tensor,
    scale: int,
    bias: int,
    mean: int,
    variance: int,
    epsilon: float,
) -> None:
    """As in training, with the mean and variance that are given."""
    check_tensors(x_desc, {"y": y_desc}, desc, mode)
    check_epsilon(epsilon)
    factors = read_scalar(alpha, x_desc.dtype, "alpha"), read_scalar(beta, x_desc.dtype, "beta")
    source, out = load(x, x_desc, "x"), view(y, y_desc, "y")
    gain, shift = load(scale, desc, "scale"), load(bias, desc, "bias")
    centre, spread = load(mean, desc, "mean"), load(variance, desc, "variance")
    inverse = 1 / np.sqrt(spread + source.dtype.type(epsilon))
    blend(out, (source - centre) * (gain * inverse) + shift, *factors)


# --- backward ------------------------------------------------------------------------------------


@implements("cudnnBatchNormalizationBackward")
def backward(
    handle: Handle,
    mode: int,
    alpha_data: int,
    beta_data: int,
    alpha_parameters: int,
    beta_parameters: int,
    x_desc: Tensor,
    x: int,
    dy_desc: Tensor,
    dy: int,
    dx_desc: Tensor,
    dx: int,
    desc: Tensor,
    scale: int,
    dscale: int,
    dbias: int,
    epsilon: float,
    saved_mean: int,
    saved_inv_variance: int,
) -> None:
    """The form without addend and activation."""
    backward_ex(
        handle, mode, BatchNormOps.BN, alpha_data, beta_data, alpha_parameters, beta_parameters,
        x_desc, x, None, 0, dy_desc, dy, None, 0, dx_desc, dx, desc, scale, 0, dscale, dbias,
        epsilon, saved_mean, saved_inv_variance, None, 0, 0, 0, 0,
    )  # fmt: skip


@implements("cudnnBatchNormalizationBackwardEx", optional=("yDesc", "dzDesc", "activationDesc"))
def backward_ex(
    handle: Handle,
    mode: int,
    ops: int,
    alpha_data: int,
    beta_data: int,
    alpha_parameters: int,
    beta_parameters: int,
    x_desc: Tensor,
    x: int,
    y_desc: Tensor | None,
    y: int,
    dy_desc: Tensor,
    dy: int,
    dz_desc: Tensor | None,
    dz: int,
    dx_desc: Tensor,
    dx: int,
    desc: Tensor,
    scale: int,
    bias: int,
    dscale: int,
    dbias: int,
    epsilon: float,
    saved_mean: int,
    saved_inv_variance: int,
    activation: Activation | None,
    workspace: int,
    workspace_size: int,
    reserve: int,
    reserve_size: int,
) -> None:
    """Gradients of x, scale and bias, each ``alpha * gradient + beta * what was there``, and of z.

    The gradient of z is not blended, as in cuDNN. Mean and inverse deviation are computed again
    where they are NULL, but not with an activation. What the activation let pass stands in the
    reserve space; y and bias are not looked at.
    """
    operation = checked_ops(ops, activation)
    descriptors = {"dy": dy_desc, "dx": dx_desc}
    if operation == BatchNormOps.BN_ADD_ACTIVATION:
        descriptors["dz"] = given(dz_desc, "dzDesc")
    axes = check_tensors(x_desc, descriptors, desc, mode)
    check_fusion(operation, mode, x_desc, *descriptors.values())
    check_epsilon(epsilon)
    check_pair(saved_mean, saved_inv_variance, "savedMean and savedInvVariance")
    dtype = x_desc.dtype
    for_data = read_scalar(alpha_data, dtype, "alpha"), read_scalar(beta_data, dtype, "beta")
    for_parameters = (
        read_scalar(alpha_parameters, dtype, "alpha"), read_scalar(beta_parameters, dtype, "beta"),
    )  # fmt: skip
    source, gradient = load(x, x_desc, "x"), load(dy, dy_desc, "dy")
    gain = load(scale, desc, "scale")
    outs = view(dx, dx_desc, "dx"), view(dscale, desc, "dscale"), view(dbias, desc, "dbias")

    if saved_mean:
        mean, inverse = load(saved_mean, desc), load(saved_inv_variance, desc)
    else:
        mean, variance = _moments(source, axes)
        inverse = 1 / np.sqrt(variance + source.dtype.type(epsilon))
    if operation != BatchNormOps.BN:
        if not saved_mean:
            raise not_supported(f"{operation.name} without savedMean and savedInvVariance")
        passed = read_mask(reserve, reserve_size, gradient.shape)
        gradient = keep_where(passed, np.ascontiguousarray(gradient))
    if operation == BatchNormOps.BN_ADD_ACTIVATION:
        store(view(dz, descriptors["dz"], "dz"), gradient)

    normalized = (source - mean) * inverse
    gain_gradient = (gradient * normalized).sum(axes, keepdims=True)
    shift_gradient = gradient.sum(axes, keepdims=True)
    count = source.dtype.type(math.prod(source.shape[axis] for axis in axes))
    result = gradient - (shift_gradient + normalized * gain_gradient) / count
    blend(outs[0], result * (gain * inverse), *for_data)
    blend(outs[1], gain_gradient, *for_parameters)
    blend(outs[2], shift_gradient, *for_parameters)
