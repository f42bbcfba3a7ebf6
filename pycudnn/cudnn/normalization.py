"""The Normalization functions: ``y = activation(norm(x) + z)``, norm over the batch.

``mode`` ACTIVATION has a mean and a variance for each element of a sample, CHANNEL one for each
channel; ``algo`` STANDARD goes with both, PERSIST with CHANNEL. The two derived descriptors, one
for scale and bias and one for the statistics, are alike. ``ops`` says what there is beside the
normalization: NORM, NORM_ACTIVATION or NORM_ADD_ACTIVATION; what it does not have (``activation``;
``z_desc`` and ``z``) must be None. The group count, for which cuDNN knows 1 alone, is left out.

Statistics, workspace, reserve space, what cuDNN 9.19 fuses, and errors: as in batch_normalization
and batch_normalization_ex, of which these functions are another spelling.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import NormAlgo, NormMode, NormOps
from pycudnn.cudnn import _normalizations as checks
from pycudnn.cudnn._objects import member, require
from pycudnn.cudnn._objects import workspace as scratch
from pycudnn.cudnn.activation import ActivationDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor

_GROUPS = 1


def derive_norm_tensor_descriptor(
    x_desc: TensorDescriptor, mode: NormMode
) -> tuple[TensorDescriptor, TensorDescriptor]:
    """What describes scale and bias, and mean and variance (cudnnDeriveNormTensorDescriptor).

    Shape (1, C, H, W) for ACTIVATION, else (1, C, 1, 1), packed; float64 where x is, float32 for
    the other floating types.
    """
    mode = member(NormMode, mode, "mode")
    first, second = checks.derive("cudnnDeriveNormTensorDescriptor", 2, x_desc, mode, _GROUPS)
    return first, second


def _choice(mode: Any, ops: Any, algo: Any) -> tuple[NormMode, NormOps, NormAlgo]:
    return (
        member(NormMode, mode, "mode"),
        member(NormOps, ops, "ops"),
        member(NormAlgo, algo, "algo"),
    )


def _check_parameters(
    mode: NormMode,
    x_desc: TensorDescriptor,
    scale_bias_desc: TensorDescriptor,
    mean_var_desc: TensorDescriptor,
) -> None:
    per_activation = mode == NormMode.ACTIVATION
    checks.check_parameters(scale_bias_desc, "scale_bias_desc", x_desc, per_activation)
    checks.check_parameters(mean_var_desc, "mean_var_desc", x_desc, per_activation)


# ---- sizes in bytes ------------------------------------------------------------------------------


def get_normalization_forward_training_workspace_size(
    handle: Handle,
    mode: NormMode,
    ops: NormOps,
    algo: NormAlgo,
    x_desc: TensorDescriptor,
    z_desc: TensorDescriptor | None,
    y_desc: TensorDescriptor,
    scale_bias_desc: TensorDescriptor,
    activation: ActivationDescriptor | None,
    mean_var_desc: TensorDescriptor,
) -> int:
    """Bytes of forward's workspace (cudnnGetNormalizationForwardTrainingWorkspaceSize)."""
    require(handle, Handle, "handle")
    mode, ops, algo = _choice(mode, ops, algo)
    checks.check_alike(x_desc, y_desc=y_desc)
    _check_parameters(mode, x_desc, scale_bias_desc, mean_var_desc)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetNormalizationForwardTrainingWorkspaceSize",
            handle, mode, ops, algo, x_desc, checks.fused_addend(ops, x_desc, "z", z_desc), y_desc,
            scale_bias_desc, checks.fused_activation(ops, activation, handle.library),
            mean_var_desc, ctypes.byref(size), _GROUPS,
        )  # fmt: skip
    return size.value


def get_normalization_backward_workspace_size(
    handle: Handle,
    mode: NormMode,
    ops: NormOps,
    algo: NormAlgo,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    dz_desc: TensorDescriptor | None,
    dx_desc: TensorDescriptor,
    scale_bias_desc: TensorDescriptor,
    activation: ActivationDescriptor | None,
    mean_var_desc: TensorDescriptor,
) -> int:
    """Bytes of backward's workspace (cudnnGetNormalizationBackwardWorkspaceSize)."""
    require(handle, Handle, "handle")
    mode, ops, algo = _choice(mode, ops, algo)
    checks.check_alike(x_desc, y_desc=y_desc, dy_desc=dy_desc, dx_desc=dx_desc)
    _check_parameters(mode, x_desc, scale_bias_desc, mean_var_desc)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetNormalizationBackwardWorkspaceSize",
            handle, mode, ops, algo, x_desc, y_desc, dy_desc,
            checks.fused_addend(ops, x_desc, "dz", dz_desc), dx_desc, scale_bias_desc,
            checks.fused_activation(ops, activation, handle.library),
            mean_var_desc, ctypes.byref(size), _GROUPS,
        )  # fmt: skip
    return size.value


def get_normalization_training_reserve_space_size(
    handle: Handle,
    mode: NormMode,
    ops: NormOps,
    algo: NormAlgo,
    activation: ActivationDescriptor | None,
    x_desc: TensorDescriptor,
) -> int:
    """Bytes of the reserve space (cudnnGetNormalizationTrainingReserveSpaceSize).

    Forward leaves there what backward needs, which must get it from its own forward.
    """
    require(handle, Handle, "handle")
    mode, ops, algo = _choice(mode, ops, algo)
    require(x_desc, TensorDescriptor, "x_desc")
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetNormalizationTrainingReserveSpaceSize",
            handle, mode, ops, algo, checks.fused_activation(ops, activation, handle.library),
            x_desc, ctypes.byref(size), _GROUPS,
        )  # fmt: skip
    return size.value


# ---- forward in inference, forward and backward in training --------------------------------------


def normalization_forward_inference(
    handle: Handle,
    mode: NormMode,
    ops: NormOps,
    algo: NormAlgo,
    x_desc: TensorDescriptor,
    x: Any,
    scale_bias_desc: TensorDescriptor,
    scale: Any,
    bias: Any,
    mean_var_desc: TensorDescriptor,
    estimated_mean: Any,
    estimated_variance: Any,
    z_desc: TensorDescriptor | None,
    z: Any,
    activation: ActivationDescriptor | None,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    epsilon: float = 1e-5,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * activation(norm(x) + z) + beta * y`` with given statistics.

    cuDNN 9.19 computes NORM alone here (cudnnNormalizationForwardInference).
    """
    require(handle, Handle, "handle")
    mode, ops, algo = _choice(mode, ops, algo)
    checks.check_alike(x_desc, y_desc=y_desc)
    _check_parameters(mode, x_desc, scale_bias_desc, mean_var_desc)
    z_like = checks.fused_addend(ops, x_desc, "z", z_desc)
    epsilon = checks.check_epsilon(epsilon)
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnNormalizationForwardInference",
            handle, mode, ops, algo, *checks.factors(x_desc, alpha=alpha, beta=beta),
            x_desc, at.read(x, "x", x_desc),
            scale_bias_desc, at.read(scale, "scale", scale_bias_desc),
            at.read(bias, "bias", scale_bias_desc),
            mean_var_desc, at.read(estimated_mean, "estimated_mean", mean_var_desc),
            at.read(estimated_variance, "estimated_variance", mean_var_desc),
            z_like, at.addend(ops, z, "z", False, z_like),
            checks.fused_activation(ops, activation, handle.library),
            y_desc, at.write(y, "y", y_desc, over="x"), epsilon, _GROUPS,
        )  # fmt: skip


def normalization_forward_training(
    handle: Handle,
    mode: NormMode,
    ops: NormOps,
    algo: NormAlgo,
    x_desc: TensorDescriptor,
    x: Any,
    scale_bias_desc: TensorDescriptor,
    scale: Any,
    bias: Any,
    mean_var_desc: TensorDescriptor,
    running_mean: Any,
    running_variance: Any,
    saved_mean: Any,
    saved_inv_variance: Any,
    activation: ActivationDescriptor | None,
    z_desc: TensorDescriptor | None,
    z: Any,
    y_desc: TensorDescriptor,
    y: Any,
    workspace: Any = None,
    reserve_space: Any = None,
    *,
    exponential_average_factor: float = 0.1,
    epsilon: float = 1e-5,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * activation(norm(x) + z) + beta * y`` with the statistics of x.

    The running and the saved statistics may be None, each pair together
    (cudnnNormalizationForwardTraining).
    """
    workspace_size = get_normalization_forward_training_workspace_size(
        handle, mode, ops, algo, x_desc, z_desc, y_desc, scale_bias_desc, activation, mean_var_desc
    )
    reserve_size = get_normalization_training_reserve_space_size(
        handle, mode, ops, algo, activation, x_desc
    )
    mode, ops, algo = _choice(mode, ops, algo)
    checks.check_count(x_desc, mean_var_desc, running_variance)
    factor = checks.check_factor(exponential_average_factor)
    epsilon = checks.check_epsilon(epsilon)
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnNormalizationForwardTraining",
            handle, mode, ops, algo, *checks.factors(x_desc, alpha=alpha, beta=beta),
            x_desc, at.read(x, "x", x_desc),
            scale_bias_desc, at.read(scale, "scale", scale_bias_desc),
            at.read(bias, "bias", scale_bias_desc), factor,
            mean_var_desc,
            *at.pair(
                mean_var_desc, True, running_mean=running_mean, running_variance=running_variance
            ),
            epsilon,
            *at.pair(
                mean_var_desc, True, saved_mean=saved_mean, saved_inv_variance=saved_inv_variance
            ),
            checks.fused_activation(ops, activation, handle.library),
            z_desc or x_desc, at.addend(ops, z, "z", False, z_desc or x_desc),
            y_desc, at.write(y, "y", y_desc, over="x"),
            *scratch(call, workspace, workspace_size),
            *scratch(call, reserve_space, reserve_size, "reserve_space"), _GROUPS,
        )  # fmt: skip


def normalization_backward(
    handle: Handle,
    mode: NormMode,
    ops: NormOps,
    algo: NormAlgo,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    dz_desc: TensorDescriptor | None,
    dz: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    scale_bias_desc: TensorDescriptor,
    scale: Any,
    bias: Any,
    dscale: Any,
    dbias: Any,
    mean_var_desc: TensorDescriptor,
    saved_mean: Any = None,
    saved_inv_variance: Any = None,
    activation: ActivationDescriptor | None = None,
    workspace: Any = None,
    reserve_space: Any = None,
    *,
    epsilon: float = 1e-5,
    alpha_data_diff: float = 1.0,
    beta_data_diff: float = 0.0,
    alpha_param_diff: float = 1.0,
    beta_param_diff: float = 0.0,
) -> None:
    """Gradients of x, scale and bias, each ``alpha * gradient + beta * what was there``, and of z.

    y, ``epsilon``, the saved statistics and the reserve space are forward's; dz is not blended
    (cudnnNormalizationBackward).
    """
    workspace_size = get_normalization_backward_workspace_size(
        handle, mode, ops, algo, x_desc, y_desc, dy_desc, dz_desc, dx_desc, scale_bias_desc,
        activation, mean_var_desc,
    )  # fmt: skip
    reserve_size = get_normalization_training_reserve_space_size(
        handle, mode, ops, algo, activation, x_desc
    )
    mode, ops, algo = _choice(mode, ops, algo)
    epsilon = checks.check_epsilon(epsilon)
    factors = checks.factors(
        x_desc,
        alpha_data_diff=alpha_data_diff, beta_data_diff=beta_data_diff,
        alpha_param_diff=alpha_param_diff, beta_param_diff=beta_param_diff,
    )  # fmt: skip
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnNormalizationBackward",
            handle, mode, ops, algo, *factors,
            x_desc, at.read(x, "x", x_desc),
            y_desc, at.read(y, "y", y_desc),
            dy_desc, at.read(dy, "dy", dy_desc),
            dz_desc or x_desc, at.addend(ops, dz, "dz", True, dz_desc or x_desc),
            dx_desc, at.write(dx, "dx", dx_desc, over="dy"),
            scale_bias_desc, at.read(scale, "scale", scale_bias_desc),
            at.read(bias, "bias", scale_bias_desc),
            at.write(dscale, "dscale", scale_bias_desc),
            at.write(dbias, "dbias", scale_bias_desc), epsilon,
            mean_var_desc,
            *at.pair(
                mean_var_desc, False, saved_mean=saved_mean, saved_inv_variance=saved_inv_variance
            ),
            checks.fused_activation(ops, activation, handle.library),
            *scratch(call, workspace, workspace_size),
            *scratch(call, reserve_space, reserve_size, "reserve_space"), _GROUPS,
        )  # fmt: skip
