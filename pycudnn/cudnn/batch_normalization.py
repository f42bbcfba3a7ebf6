"""Batch normalization: y = scale (x - mean) / sqrt(variance + epsilon) + bias.

Mean and variance are those of the batch, per channel (modes SPATIAL and SPATIAL_PERSISTENT) or per
activation (PER_ACTIVATION: over N alone). ``bn_desc``, from derive_bn_tensor_descriptor, describes
scale, bias and all statistics: float64 where x is, else float32. x has 4 or 5 dimensions.

The forms with an addend and an activation are in batch_normalization_ex.

ValueError for shapes, numbers and sizes that do not fit, TypeError for data types that do not,
LibraryMismatch for operands of the other side.
"""

from __future__ import annotations

from typing import Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import BatchNormMode
from pycudnn.cudnn import _normalizations as checks
from pycudnn.cudnn._objects import member, require
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor


def derive_bn_tensor_descriptor(x_desc: TensorDescriptor, mode: BatchNormMode) -> TensorDescriptor:
    """What describes scale, bias and statistics of x (cudnnDeriveBNTensorDescriptor).

    Shape (1, C, H, W) for PER_ACTIVATION, else (1, C, 1, 1), packed; float64 where x is, float32
    for the other floating types.
    """
    mode = member(BatchNormMode, mode, "mode")
    return checks.derive("cudnnDeriveBNTensorDescriptor", 1, x_desc, mode)[0]


def check_parameters(
    mode: BatchNormMode, bn_desc: TensorDescriptor, x_desc: TensorDescriptor
) -> None:
    """bn_desc must be what is derived for x."""
    checks.check_parameters(bn_desc, "bn_desc", x_desc, mode == BatchNormMode.PER_ACTIVATION)


# ---- forward in inference, forward and backward in training --------------------------------------


def batch_normalization_forward_inference(
    handle: Handle,
    mode: BatchNormMode,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    bn_desc: TensorDescriptor,
    scale: Any,
    bias: Any,
    estimated_mean: Any,
    estimated_variance: Any,
    *,
    epsilon: float = 1e-5,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * bn(x) + beta * y`` with given statistics; y may be x.

    ``epsilon`` is at least CUDNN_BN_MIN_EPSILON, which is 0
    (cudnnBatchNormalizationForwardInference).
    """
    require(handle, Handle, "handle")
    mode = member(BatchNormMode, mode, "mode")
    checks.check_alike(x_desc, y_desc=y_desc)
    check_parameters(mode, bn_desc, x_desc)
    epsilon = checks.check_epsilon(epsilon)
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnBatchNormalizationForwardInference",
            handle, mode, *checks.factors(x_desc, alpha=alpha, beta=beta),
            x_desc, at.read(x, "x", x_desc),
            y_desc, at.write(y, "y", y_desc, over="x"),
            bn_desc, at.read(scale, "scale", bn_desc),
            at.read(bias, "bias", bn_desc),
            at.read(estimated_mean, "estimated_mean", bn_desc),
            at.read(estimated_variance, "estimated_variance", bn_desc),
            epsilon,
        )  # fmt: skip


def batch_normalization_forward_training(
    handle: Handle,
    mode: BatchNormMode,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    bn_desc: TensorDescriptor,
    scale: Any,
    bias: Any,
    running_mean: Any = None,
    running_variance: Any = None,
    saved_mean: Any = None,
    saved_inv_variance: Any = None,
    *,
    exponential_average_factor: float = 0.1,
    epsilon: float = 1e-5,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * bn(x) + beta * y`` with the statistics of x; y may be x.

    ``running = (1 - factor) * running + factor * new``, factor in [0, 1], is done for the mean and
    for the variance times n / (n - 1), where n elements share one. ``saved_mean`` and
    ``saved_inv_variance``, 1 / sqrt(variance + epsilon), spare backward some work. Each pair is
    given together or not at all. ValueError also for n = 1 with a running variance, which cuDNN
    would make NaN (cudnnBatchNormalizationForwardTraining).
    """
    require(handle, Handle, "handle")
    mode = member(BatchNormMode, mode, "mode")
    checks.check_alike(x_desc, y_desc=y_desc)
    check_parameters(mode, bn_desc, x_desc)
    checks.check_count(x_desc, bn_desc, running_variance)
    factor = checks.check_factor(exponential_average_factor)
    epsilon = checks.check_epsilon(epsilon)
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnBatchNormalizationForwardTraining",
            handle, mode, *checks.factors(x_desc, alpha=alpha, beta=beta),
            x_desc, at.read(x, "x", x_desc),
            y_desc, at.write(y, "y", y_desc, over="x"),
            bn_desc, at.read(scale, "scale", bn_desc),
            at.read(bias, "bias", bn_desc), factor,
            *at.pair(bn_desc, True, running_mean=running_mean, running_variance=running_variance),
            epsilon,
            *at.pair(bn_desc, True, saved_mean=saved_mean, saved_inv_variance=saved_inv_variance),
        )  # fmt: skip


def batch_normalization_backward(
    handle: Handle,
    mode: BatchNormMode,
    x_desc: TensorDescriptor,
    x: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    bn_desc: TensorDescriptor,
    scale: Any,
    dscale: Any,
    dbias: Any,
    saved_mean: Any = None,
    saved_inv_variance: Any = None,
    *,
    epsilon: float = 1e-5,
    alpha_data_diff: float = 1.0,
    beta_data_diff: float = 0.0,
    alpha_param_diff: float = 1.0,
    beta_param_diff: float = 0.0,
) -> None:
    """Gradients of x, scale and bias, each ``alpha * gradient + beta * what was there``.

    ``epsilon`` and the saved statistics are those of forward; without the latter they are computed
    anew. dx may be dy (cudnnBatchNormalizationBackward).
    """
    require(handle, Handle, "handle")
    mode = member(BatchNormMode, mode, "mode")
    checks.check_alike(x_desc, dy_desc=dy_desc, dx_desc=dx_desc)
    check_parameters(mode, bn_desc, x_desc)
    epsilon = checks.check_epsilon(epsilon)
    factors = checks.factors(
        x_desc,
        alpha_data_diff=alpha_data_diff, beta_data_diff=beta_data_diff,
        alpha_param_diff=alpha_param_diff, beta_param_diff=beta_param_diff,
    )  # fmt: skip
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnBatchNormalizationBackward",
            handle, mode, *factors,
            x_desc, at.read(x, "x", x_desc),
            dy_desc, at.read(dy, "dy", dy_desc),
            dx_desc, at.write(dx, "dx", dx_desc, over="dy"),
            bn_desc, at.read(scale, "scale", bn_desc),
            at.write(dscale, "dscale", bn_desc),
            at.write(dbias, "dbias", bn_desc), epsilon,
            *at.pair(bn_desc, False, saved_mean=saved_mean, saved_inv_variance=saved_inv_variance),
        )  # fmt: skip
