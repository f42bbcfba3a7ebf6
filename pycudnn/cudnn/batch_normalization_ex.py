"""Batch normalization with an addend and an activation: ``y = activation(bn(x) + z)``.

``ops`` says which: BN, BN_ACTIVATION or BN_ADD_ACTIVATION. What it does not have (``activation``;
``z_desc`` and ``z``) must be None. The workspace and, from forward to backward, the reserve space
are at least as large as the size functions say; None where that is 0.

Which of mode, ops, layout, data type and activation go together is the library's to say
(NotSupported). cuDNN 9.19 fuses RELU into SPATIAL_PERSISTENT over packed tensors with channels last
of any floating type but float64; z needs a multiple of 4 channels.

Otherwise arguments and errors are those of batch_normalization.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import BatchNormMode, BatchNormOps
from pycudnn.cudnn import _normalizations as checks
from pycudnn.cudnn._objects import member, require
from pycudnn.cudnn._objects import workspace as scratch
from pycudnn.cudnn.activation import ActivationDescriptor
from pycudnn.cudnn.batch_normalization import check_parameters
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor

# ---- sizes in bytes ------------------------------------------------------------------------------


def get_batch_normalization_forward_training_ex_workspace_size(
    handle: Handle,
    mode: BatchNormMode,
    ops: BatchNormOps,
    x_desc: TensorDescriptor,
    z_desc: TensorDescriptor | None,
    y_desc: TensorDescriptor,
    bn_desc: TensorDescriptor,
    activation: ActivationDescriptor | None = None,
) -> int:
    """Bytes of forward's workspace (cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)."""
    require(handle, Handle, "handle")
    mode, ops = member(BatchNormMode, mode, "mode"), member(BatchNormOps, ops, "ops")
    checks.check_alike(x_desc, y_desc=y_desc)
    check_parameters(mode, bn_desc, x_desc)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize",
            handle, mode, ops, x_desc, checks.fused_addend(ops, x_desc, "z", z_desc), y_desc,
            bn_desc, checks.fused_activation(ops, activation, handle.library), ctypes.byref(size),
        )  # fmt: skip
    return size.value


def get_batch_normalization_backward_ex_workspace_size(
    handle: Handle,
    mode: BatchNormMode,
    ops: BatchNormOps,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    dz_desc: TensorDescriptor | None,
    dx_desc: TensorDescriptor,
    bn_desc: TensorDescriptor,
    activation: ActivationDescriptor | None = None,
) -> int:
    """Bytes of backward's workspace (cudnnGetBatchNormalizationBackwardExWorkspaceSize)."""
    require(handle, Handle, "handle")
    mode, ops = member(BatchNormMode, mode, "mode"), member(BatchNormOps, ops, "ops")
    checks.check_alike(x_desc, y_desc=y_desc, dy_desc=dy_desc, dx_desc=dx_desc)
    check_parameters(mode, bn_desc, x_desc)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetBatchNormalizationBackwardExWorkspaceSize",
            handle, mode, ops, x_desc, y_desc, dy_desc,
            checks.fused_addend(ops, x_desc, "dz", dz_desc), dx_desc, bn_desc,
            checks.fused_activation(ops, activation, handle.library), ctypes.byref(size),
        )  # fmt: skip
    return size.value


def get_batch_normalization_training_ex_reserve_space_size(
    handle: Handle,
    mode: BatchNormMode,
    ops: BatchNormOps,
    activation: ActivationDescriptor | None,
    x_desc: TensorDescriptor,
) -> int:
    """Bytes of the reserve space (cudnnGetBatchNormalizationTrainingExReserveSpaceSize).

    Forward leaves there what backward needs, which must get it from its own forward.
    """
    require(handle, Handle, "handle")
    mode, ops = member(BatchNormMode, mode, "mode"), member(BatchNormOps, ops, "ops")
    require(x_desc, TensorDescriptor, "x_desc")
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetBatchNormalizationTrainingExReserveSpaceSize",
            handle, mode, ops, checks.fused_activation(ops, activation, handle.library), x_desc,
            ctypes.byref(size),
        )  # fmt: skip
    return size.value


# ---- forward and backward in training ------------------------------------------------------------


def batch_normalization_forward_training_ex(
    handle: Handle,
    mode: BatchNormMode,
    ops: BatchNormOps,
    x_desc: TensorDescriptor,
    x: Any,
    z_desc: TensorDescriptor | None,
    z: Any,
    y_desc: TensorDescriptor,
    y: Any,
    bn_desc: TensorDescriptor,
    scale: Any,
    bias: Any,
    running_mean: Any = None,
    running_variance: Any = None,
    saved_mean: Any = None,
    saved_inv_variance: Any = None,
    activation: ActivationDescriptor | None = None,
    workspace: Any = None,
    reserve_space: Any = None,
    *,
    exponential_average_factor: float = 0.1,
    epsilon: float = 1e-5,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * activation(bn(x) + z) + beta * y`` with the statistics of x.

    ValueError also for too small a workspace or reserve space, which cuDNN would overrun
    (cudnnBatchNormalizationForwardTrainingEx).
    """
    workspace_size = get_batch_normalization_forward_training_ex_workspace_size(
        handle, mode, ops, x_desc, z_desc, y_desc, bn_desc, activation
    )
    reserve_size = get_batch_normalization_training_ex_reserve_space_size(
        handle, mode, ops, activation, x_desc
    )
    mode, ops = BatchNormMode(mode), BatchNormOps(ops)
    checks.check_count(x_desc, bn_desc, running_variance)
    factor = checks.check_factor(exponential_average_factor)
    epsilon = checks.check_epsilon(epsilon)
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnBatchNormalizationForwardTrainingEx",
            handle, mode, ops, *checks.factors(x_desc, alpha=alpha, beta=beta),
            x_desc, at.read(x, "x", x_desc),
            z_desc or x_desc, at.addend(ops, z, "z", False, z_desc or x_desc),
            y_desc, at.write(y, "y", y_desc, over="x"),
            bn_desc, at.read(scale, "scale", bn_desc),
            at.read(bias, "bias", bn_desc), factor,
            *at.pair(bn_desc, True, running_mean=running_mean, running_variance=running_variance),
            epsilon,
            *at.pair(bn_desc, True, saved_mean=saved_mean, saved_inv_variance=saved_inv_variance),
            checks.fused_activation(ops, activation, handle.library),
            *scratch(call, workspace, workspace_size),
            *scratch(call, reserve_space, reserve_size, "reserve_space"),
        )  # fmt: skip


def batch_normalization_backward_ex(
    handle: Handle,
    mode: BatchNormMode,
    ops: BatchNormOps,
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
    bn_desc: TensorDescriptor,
    scale: Any,
    bias: Any,
    dscale: Any,
    dbias: Any,
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

    y is what forward wrote, without blending; ``epsilon``, the saved statistics and the reserve
    space are forward's as well. dz is not blended. With an activation the saved statistics are
    needed, and ``bias`` must not be None: cuDNN would read through the null pointer
    (cudnnBatchNormalizationBackwardEx).
    """
    workspace_size = get_batch_normalization_backward_ex_workspace_size(
        handle, mode, ops, x_desc, y_desc, dy_desc, dz_desc, dx_desc, bn_desc, activation
    )
    reserve_size = get_batch_normalization_training_ex_reserve_space_size(
        handle, mode, ops, activation, x_desc
    )
    mode, ops = BatchNormMode(mode), BatchNormOps(ops)
    epsilon = checks.check_epsilon(epsilon)
    factors = checks.factors(
        x_desc,
        alpha_data_diff=alpha_data_diff, beta_data_diff=beta_data_diff,
        alpha_param_diff=alpha_param_diff, beta_param_diff=beta_param_diff,
    )  # fmt: skip
    with _core.ColdCall(handle.library, handle) as call:
        at = checks.Operands(call)
        call(
            "cudnnBatchNormalizationBackwardEx",
            handle, mode, ops, *factors,
            x_desc, at.read(x, "x", x_desc),
            y_desc, at.read(y, "y", y_desc),
            dy_desc, at.read(dy, "dy", dy_desc),
            dz_desc or x_desc, at.addend(ops, dz, "dz", True, dz_desc or x_desc),
            dx_desc, at.write(dx, "dx", dx_desc, over="dy"),
            bn_desc, at.read(scale, "scale", bn_desc),
            at.read(bias, "bias", bn_desc),
            at.write(dscale, "dscale", bn_desc),
            at.write(dbias, "dbias", bn_desc), epsilon,
            *at.pair(bn_desc, False, saved_mean=saved_mean, saved_inv_variance=saved_inv_variance),
            checks.fused_activation(ops, activation, handle.library),
            *scratch(call, workspace, workspace_size),
            *scratch(call, reserve_space, reserve_size, "reserve_space"),
        )  # fmt: skip
