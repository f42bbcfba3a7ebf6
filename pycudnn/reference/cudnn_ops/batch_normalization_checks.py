"""What batch normalizations are given: descriptors, sizes, and the mask of their activation."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import (
    CUDNN_BN_MIN_EPSILON,
    ActivationMode,
    BatchNormMode,
    BatchNormOps,
    DataType,
    TensorFormat,
)

from ..cudnn_graph import Handle
from ..descriptors import Activation, Tensor, packed_strides
from ..memory import raw, write
from ..runtime import bad_param, implements, not_supported
from .checks import FLOATING, check_alike, check_type, checked_member

Array = np.ndarray[Any, Any]


# --- descriptors ---------------------------------------------------------------------------------


def parameters_like(x_desc: Tensor, per_activation: bool) -> Tensor:
    """The packed descriptor of scale, bias, mean and variance for x: one for each number of a
    sample, or one for each channel; float for half types and int8."""
    if len(x_desc.shape) < 2:
        raise bad_param(f"x has {len(x_desc.shape)} dimensions, must have at least 2")
    shape = (1, *x_desc.shape[1:])
    if not per_activation:
        shape = (1, x_desc.shape[1], *(1,) * (len(shape) - 2))
    keeps = x_desc.dtype in (DataType.DOUBLE, DataType.INT32, DataType.UINT8)
    dtype = x_desc.dtype if keeps else DataType.FLOAT
    return Tensor(dtype, shape, packed_strides(shape, TensorFormat.NCHW))


def become(descriptor: Tensor, other: Tensor) -> None:
    """Give a descriptor the settings of another."""
    descriptor.dtype, descriptor.shape = other.dtype, other.shape
    descriptor.strides = other.strides


def is_per_activation(mode: int) -> bool:
    """SPATIAL_PERSISTENT differs from SPATIAL in speed alone."""
    return checked_member(BatchNormMode, mode, "mode") == BatchNormMode.PER_ACTIVATION


@implements("cudnnDeriveBNTensorDescriptor")
def derive_descriptor(derived: Tensor, x_desc: Tensor, mode: int) -> None:
    """What describes scale, bias and statistics of x."""
    become(derived, parameters_like(x_desc, is_per_activation(mode)))


# --- what the functions share --------------------------------------------------------------------


def check_tensors(
    x_desc: Tensor, others: dict[str, Tensor], desc: Tensor, mode: int
) -> tuple[int, ...]:
    """The dimensions over which the mean is taken, if the descriptors go together."""
    per_activation = is_per_activation(mode)
    if len(x_desc.shape) not in (4, 5):
        raise bad_param(f"x has {len(x_desc.shape)} dimensions, must have 4 or 5")
    for name, other in others.items():
        check_alike(x_desc, other, f"x and {name}")
    check_type(x_desc, "x", FLOATING)
    expected = parameters_like(x_desc, per_activation)
    if desc != expected:
        raise bad_param(f"scale and bias are described by {desc}, x needs {expected}")
    return (0,) if per_activation else (0, *range(2, len(x_desc.shape)))


def check_epsilon(epsilon: float) -> None:
    """As in cuDNN, NaN passes."""
    if epsilon < CUDNN_BN_MIN_EPSILON:
        raise bad_param(f"epsilon is {epsilon}, must be at least {CUDNN_BN_MIN_EPSILON}")


def check_pair(first: int, second: int, names: str) -> None:
    """Two pointers of which either both or none are NULL."""
    if bool(first) != bool(second):
        raise bad_param(f"{names}: both or none may be NULL")


def checked_ops(ops: int, activation: Activation | None) -> BatchNormOps:
    """The enum member; all but BN need an activation, which must be RELU."""
    operation = checked_member(BatchNormOps, ops, "bnOps")
    if operation != BatchNormOps.BN:
        mode = given(activation, "activationDesc").mode
        if mode != ActivationMode.RELU:
            raise not_supported(f"the activation is {mode!r}, must be RELU")
    return operation


def given(descriptor: Any, name: str) -> Any:
    """A descriptor that is not NULL."""
    if descriptor is None:
        raise bad_param(f"{name} is NULL")
    return descriptor


def check_fusion(operation: BatchNormOps, mode: int, x_desc: Tensor, *others: Tensor) -> None:
    """Where cuDNN fuses an activation: SPATIAL_PERSISTENT, channels last, no doubles."""
    if operation == BatchNormOps.BN:
        return
    if mode != BatchNormMode.SPATIAL_PERSISTENT:
        raise not_supported(f"{operation.name} needs mode SPATIAL_PERSISTENT")
    if x_desc.dtype == DataType.DOUBLE:
        raise not_supported(f"{operation.name} of DOUBLE tensors")
    channels_last = packed_strides(x_desc.shape, TensorFormat.NHWC)
    if any(desc.strides != channels_last for desc in (x_desc, *others)):
        raise not_supported(f"{operation.name} needs packed tensors with channels last")
    if operation == BatchNormOps.BN_ADD_ACTIVATION and x_desc.shape[1] % 4:
        raise not_supported(f"{operation.name} of {x_desc.shape[1]} channels, no multiple of 4")


# --- sizes ---------------------------------------------------------------------------------------


@implements(
    "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize",
    optional=("zDesc", "activationDesc"),
)
def forward_workspace_size(
    handle: Handle,
    mode: int,
    ops: int,
    x_desc: Tensor,
    z_desc: Tensor | None,
    y_desc: Tensor,
    desc: Tensor,
    activation: Activation | None,
    size: int,
) -> None:
    """None is needed here. cuDNN leaves SPATIAL with an activation to forward to refuse."""
    operation = checked_ops(ops, activation)
    descriptors = {"y": y_desc}
    if operation == BatchNormOps.BN_ADD_ACTIVATION:
        descriptors["z"] = given(z_desc, "zDesc")
    check_tensors(x_desc, descriptors, desc, mode)
    if mode == BatchNormMode.SPATIAL_PERSISTENT:
        check_fusion(operation, mode, x_desc, *descriptors.values())
    write(size, ctypes.c_size_t, 0, "sizeInBytes")


@implements(
    "cudnnGetBatchNormalizationBackwardExWorkspaceSize",
    optional=("yDesc", "dzDesc", "activationDesc"),
)
def backward_workspace_size(
    handle: Handle,
    mode: int,
    ops: int,
    x_desc: Tensor,
    y_desc: Tensor | None,
    dy_desc: Tensor,
    dz_desc: Tensor | None,
    dx_desc: Tensor,
    desc: Tensor,
    activation: Activation | None,
    size: int,
) -> None:
    """None is needed here."""
    operation = checked_ops(ops, activation)
    descriptors = {"dy": dy_desc, "dx": dx_desc}
    if operation == BatchNormOps.BN_ADD_ACTIVATION:
        descriptors["dz"] = given(dz_desc, "dzDesc")
    check_tensors(x_desc, descriptors, desc, mode)
    if mode == BatchNormMode.SPATIAL_PERSISTENT:
        check_fusion(operation, mode, x_desc, *descriptors.values())
    write(size, ctypes.c_size_t, 0, "sizeInBytes")


@implements("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", optional=("activationDesc",))
def reserve_space_size(
    handle: Handle,
    mode: int,
    ops: int,
    activation: Activation | None,
    x_desc: Tensor,
    size: int,
) -> None:
    """One bit for each element if there is an activation: did it pass?"""
    is_per_activation(mode)
    operation = checked_ops(ops, activation)
    write(size, ctypes.c_size_t, _mask_bytes(operation, x_desc.shape), "sizeInBytes")


def _mask_bytes(operation: BatchNormOps, shape: tuple[int, ...]) -> int:
    """In whole 32-bit words."""
    return 0 if operation == BatchNormOps.BN else 4 * -(-math.prod(shape) // 32)


def _mask(reserve: int, size: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The bytes of the mask in the caller's memory."""
    needed = _mask_bytes(BatchNormOps.BN_ACTIVATION, shape)
    if not reserve:
        raise bad_param("reserveSpace is NULL")
    if size < needed:
        raise bad_param(f"reserveSpaceSizeInBytes is {size}, must be at least {needed}")
    return np.frombuffer(raw(reserve, needed), np.uint8)


def write_mask(passed: Array, reserve: int, size: int) -> None:
    """Leave for backward which elements the activation let pass."""
    packed = np.packbits(passed)
    _mask(reserve, size, passed.shape)[: packed.size] = packed


def read_mask(reserve: int, size: int, shape: tuple[int, ...]) -> Array:
    """Which elements the activation of forward let pass."""
    bits = np.unpackbits(_mask(reserve, size, shape), count=math.prod(shape))
    return bits.view(np.bool_).reshape(shape)
