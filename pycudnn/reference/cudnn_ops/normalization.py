"""The Normalization functions: batch normalization with the arguments in another order.

Per activation or per channel by the STANDARD algorithm, or per channel by PERSIST, which is batch
normalization's mode SPATIAL_PERSISTENT.
"""

from __future__ import annotations

from pycudnn.abi.cudnn_enums import BatchNormMode, NormAlgo, NormMode, NormOps

from ..cudnn_graph import Handle
from ..descriptors import Activation, Tensor
from ..runtime import bad_param, implements, not_supported
from . import batch_normalization
from .batch_normalization_checks import (
    backward_workspace_size,
    become,
    forward_workspace_size,
    parameters_like,
    reserve_space_size,
)
from .checks import checked_member

_MODES = {
    (NormMode.ACTIVATION, NormAlgo.STANDARD): BatchNormMode.PER_ACTIVATION,
    (NormMode.CHANNEL, NormAlgo.STANDARD): BatchNormMode.SPATIAL,
    (NormMode.CHANNEL, NormAlgo.PERSIST): BatchNormMode.SPATIAL_PERSISTENT,
}


def _check_groups(groups: int) -> None:
    if groups != 1:
        raise not_supported(f"groupCnt is {groups}, must be 1")


def _batch_mode(mode: int, algorithm: int, groups: int) -> BatchNormMode:
    key = checked_member(NormMode, mode, "mode"), checked_member(NormAlgo, algorithm, "algo")
    _check_groups(groups)
    if key not in _MODES:
        raise not_supported("the PERSIST algorithm is for mode CHANNEL alone")
    return _MODES[key]


def _check_same(desc: Tensor, statistics_desc: Tensor) -> None:
    if desc != statistics_desc:
        raise bad_param(f"scale and mean differ: {desc} and {statistics_desc}")


@implements("cudnnDeriveNormTensorDescriptor")
def derive_descriptors(
    derived: Tensor, derived_statistics: Tensor, x_desc: Tensor, mode: int, groups: int
) -> None:
    """What describes scale and bias, and what describes mean and variance: the same."""
    per_activation = checked_member(NormMode, mode, "mode") == NormMode.ACTIVATION
    _check_groups(groups)
    for descriptor in (derived, derived_statistics):
        become(descriptor, parameters_like(x_desc, per_activation))


@implements(
    "cudnnGetNormalizationForwardTrainingWorkspaceSize", optional=("zDesc", "activationDesc")
)
def get_forward_workspace_size(
    handle: Handle,
    mode: int,
    ops: int,
    algorithm: int,
    x_desc: Tensor,
    z_desc: Tensor | None,
    y_desc: Tensor,
    desc: Tensor,
    activation: Activation | None,
    statistics_desc: Tensor,
    size: int,
    groups: int,
) -> None:
    """As of batch normalization."""
    batch_mode = _batch_mode(mode, algorithm, groups)
    _check_same(desc, statistics_desc)
    forward_workspace_size(
        handle, batch_mode, ops, x_desc, z_desc, y_desc, desc, activation, size
    )  # fmt: skip


@implements(
    "cudnnGetNormalizationBackwardWorkspaceSize", optional=("yDesc", "dzDesc", "activationDesc")
)
def get_backward_workspace_size(
    handle: Handle,
    mode: int,
    ops: int,
    algorithm: int,
    x_desc: Tensor,
    y_desc: Tensor | None,
    dy_desc: Tensor,
    dz_desc: Tensor | None,
    dx_desc: Tensor,
    desc: Tensor,
    activation: Activation | None,
    statistics_desc: Tensor,
    size: int,
    groups: int,
) -> None:
    """As of batch normalization."""
    batch_mode = _batch_mode(mode, algorithm, groups)
    _check_same(desc, statistics_desc)
    backward_workspace_size(
        handle, batch_mode, ops, x_desc, y_desc, dy_desc, dz_desc, dx_desc, desc, activation, size
    )


@implements("cudnnGetNormalizationTrainingReserveSpaceSize", optional=("activationDesc",))
def get_reserve_space_size(
    handle: Handle,
    mode: int,
    ops: int,
    algorithm: int,
    activation: Activation | None,
    x_desc: Tensor,
    size: int,
    groups: int,
) -> None:
    """As of batch normalization."""
    batch_mode = _batch_mode(mode, algorithm, groups)
    reserve_space_size(handle, batch_mode, ops, activation, x_desc, size)


@implements("cudnnNormalizationForwardTraining", optional=("zDesc", "activationDesc"))
def forward_training(
    handle: Handle,
    mode: int,
    ops: int,
    algorithm: int,
    alpha: int,
    beta: int,
    x_desc: Tensor,
    x: int,
    desc: Tensor,
    scale: int,
    bias: int,
    factor: float,
    statistics_desc: Tensor,
    running_mean: int,
    running_variance: int,
    epsilon: float,
    saved_mean: int,
    saved_inv_variance: int,
    activation: Activation | None,
    z_desc: Tensor | None,
    z: int,
    y_desc: Tensor,
    y: int,
    workspace: int,
    workspace_size: int,
    reserve: int,
    reserve_size: int,
    groups: int,
) -> None:
    """As batch normalization."""
    batch_mode = _batch_mode(mode, algorithm, groups)
    _check_same(desc, statistics_desc)
    batch_normalization.forward_training_ex(
        handle, batch_mode, ops, alpha, beta, x_desc, x, z_desc, z, y_desc, y, desc, scale, bias,
        factor, running_mean, running_variance, epsilon, saved_mean, saved_inv_variance,
        activation, workspace, workspace_size, reserve, reserve_size,
    )  # fmt: skip


@implements("cudnnNormalizationForwardInference", optional=("zDesc", "activationDesc"))
def forward_inference(
    handle: Handle,
    mode: int,
    ops: int,
    algorithm: int,
    alpha: int,
    beta: int,
    x_desc: Tensor,
    x: int,
    desc: Tensor,
    scale: int,
    bias: int,
    statistics_desc: Tensor,
    mean: int,
    variance: int,
    z_desc: Tensor | None,
    z: int,
    activation: Activation | None,
    y_desc: Tensor,
    y: int,
    epsilon: float,
    groups: int,
) -> None:
    """As batch normalization; addend and activation are not there, as in cuDNN."""
    batch_mode = _batch_mode(mode, algorithm, groups)
    if checked_member(NormOps, ops, "normOps") != NormOps.NORM:
        raise not_supported("an addend or an activation in inference")
    _check_same(desc, statistics_desc)
    batch_normalization.forward_inference(
        handle, batch_mode, alpha, beta, x_desc, x, y_desc, y, desc, scale, bias, mean, variance,
        epsilon,
    )  # fmt: skip


@implements("cudnnNormalizationBackward", optional=("yDesc", "dzDesc", "activationDesc"))
def backward(
    handle: Handle,
    mode: int,
    ops: int,
    algorithm: int,
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
    statistics_desc: Tensor,
    saved_mean: int,
    saved_inv_variance: int,
    activation: Activation | None,
    workspace: int,
    workspace_size: int,
    reserve: int,
    reserve_size: int,
    groups: int,
) -> None:
    """As batch normalization."""
    batch_mode = _batch_mode(mode, algorithm, groups)
    _check_same(desc, statistics_desc)
    batch_normalization.backward_ex(
        handle, batch_mode, ops, alpha_data, beta_data, alpha_parameters, beta_parameters,
        x_desc, x, y_desc, y, dy_desc, dy, dz_desc, dz, dx_desc, dx, desc, scale, bias, dscale,
        dbias, epsilon, saved_mean, saved_inv_variance, activation, workspace, workspace_size,
        reserve, reserve_size,
    )  # fmt: skip
