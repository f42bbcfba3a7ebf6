"""Plans of fused operations: a convolution of a normalized and activated input, or its filter
gradient, and the batch normalization that goes with it.

The three operations that the header reserves are not supported. Statuses are those of cuDNN 9.19.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from pycudnn.abi.cudnn_enums import ActivationMode, BatchNormMode, DataType, FusedOps
from pycudnn.abi.cudnn_enums import FusedOpsConstParamLabel as Const
from pycudnn.abi.cudnn_enums import FusedOpsPointerPlaceHolder as PlaceHolder
from pycudnn.abi.cudnn_enums import FusedOpsVariantParamLabel as Variant
from pycudnn.abi.cudnn_enums import Status as Code
from pycudnn.abi.fused_ops import DESCRIPTORS, OPERATIONS

from .. import convolution
from ..convolution import Array
from ..cudnn_graph import Handle
from ..descriptors import Filter, Tensor
from ..memory import load, store, view, write
from ..runtime import Status, bad_param, implements, not_supported, opaque
from .descriptor import Convolution, checked_geometry
from .fused_packs import ConstPack, VariantPack, _Pack

_ACTIVATIONS = (ActivationMode.RELU, ActivationMode.IDENTITY)


@opaque("cudnnFusedOpsPlan_t", "cudnnCreateFusedOpsPlan", "cudnnDestroyFusedOpsPlan")
@dataclass
class Plan(_Pack):
    """The constants that it was made with; empty before."""

    ops: FusedOps
    constants: dict[Const, Any] = field(default_factory=dict)


# ---- making --------------------------------------------------------------------------------------


@implements("cudnnMakeFusedOpsPlan")
def make_plan(handle: Handle, plan: Plan, pack: ConstPack, size: int) -> None:
    """Take over the constants, after a check; the workspace has no bytes."""
    if pack.ops != plan.ops:
        raise bad_param(f"the plan is of {plan.ops.name}, the pack of {pack.ops.name}")
    constants = dict(pack.values)
    operation = OPERATIONS[plan.ops]
    needed = {DESCRIPTORS[name] for name in operation.needed}
    if Const.CONV_DESC in operation.settings:
        needed.add(Const.CONV_DESC)
    if plan.ops in (FusedOps.BN_FINALIZE_STATISTICS_TRAINING,
                    FusedOps.BN_FINALIZE_STATISTICS_INFERENCE):  # fmt: skip
        needed.add(Const.BN_EQSCALEBIAS_DESC)
        needed.update(Const[f"{name}_PLACEHOLDER"] for name in operation.needed)
    missing = [label.name for label in sorted(needed) if not constants.get(label)]
    if missing:
        raise bad_param(f"{', '.join(missing)} must not be NULL")
    if plan.ops not in _COMPUTE:
        raise not_supported(f"{plan.ops.name} is reserved")
    if Const.CONV_DESC in operation.settings:
        _check_convolution(plan.ops, constants)
    else:
        _check_channels(constants)
    write(size, ctypes.c_size_t, 0, "workspaceSizeInBytes")
    plan.constants = constants


def _present(ops: FusedOps, constants: dict[Const, Any]) -> list[str]:
    """The arrays whose placeholder is not NULL."""
    return [name for name in OPERATIONS[ops].arrays if constants.get(Const[f"{name}_PLACEHOLDER"])]


def _check_convolution(ops: FusedOps, constants: dict[Const, Any]) -> None:
    x = constants[Const.XDESC]
    scale = constants.get(Const.BN_EQSCALEBIAS_DESC)
    mode = constants.get(Const.BN_MODE, 0)
    if scale is not None:
        sizes = x.shape[2:] if mode == BatchNormMode.PER_ACTIVATION else [1] * (len(x.shape) - 2)
        if scale.shape != (1, x.shape[1], *sizes):
            raise bad_param(f"BN_EQSCALEBIAS_DESC has shape {scale.shape}, x {x.shape}")
    if mode not in tuple(BatchNormMode):
        raise not_supported(f"BN_MODE is {mode}, no BatchNormMode")
    activation = constants.get(Const.ACTIVATION_DESC)
    if activation is not None and activation.mode not in _ACTIVATIONS:
        raise not_supported(f"the activation is {activation.mode!r}, must be RELU or IDENTITY")
    if x.dtype == DataType.BFLOAT16:
        raise not_supported("x is BFLOAT16, must be HALF, FLOAT or DOUBLE")
    _geometry(ops, constants)


def _geometry(ops: FusedOps, constants: dict[Const, Any]) -> convolution.Geometry:
    """The sizes of the convolution, or of that whose filter gradient it is."""
    names = {
        FusedOps.SCALE_BIAS_ACTIVATION_CONV_BNSTATS: (Const.WDESC, Const.YDESC),
        FusedOps.SCALE_BIAS_ACTIVATION_WGRAD: (Const.DWDESC, Const.DYDESC),
    }[ops]
    w, y = (constants[name] for name in names)
    conv = cast(Convolution, constants[Const.CONV_DESC])
    return checked_geometry(conv, cast(Tensor, constants[Const.XDESC]), cast(Filter, w), y)


def _check_channels(constants: dict[Const, Any]) -> None:
    """Statistics and parameters of the same channels."""
    if constants.get(Const.BN_MODE, 0) == BatchNormMode.PER_ACTIVATION:
        raise not_supported("BN_MODE is PER_ACTIVATION, must be SPATIAL or SPATIAL_PERSISTENT")
    shapes = {value.shape for value in constants.values() if isinstance(value, Tensor)}
    if len(shapes) > 1:
        raise bad_param(f"the descriptors must have one shape, they have {sorted(shapes)}")


# ---- running -------------------------------------------------------------------------------------


def _needed(plan: Plan) -> tuple[str, ...]:
    return OPERATIONS[plan.ops].needed


class _Arrays:
    """The arrays of one execution, by name."""

    def __init__(self, plan: Plan, variants: dict[Variant, Any]) -> None:
        self._constants = plan.constants
        self._variants = variants
        self._present = _present(plan.ops, plan.constants)
        for name in OPERATIONS[plan.ops].arrays:
            address = variants.get(Variant[f"PTR_{name}"])
            placeholder = plan.constants.get(Const[f"{name}_PLACEHOLDER"], PlaceHolder.NULL)
            if bool(address) != bool(placeholder):
                raise bad_param(f"PTR_{name} and its placeholder must both be NULL or both not")
            if address and placeholder == PlaceHolder.PTR_16B_ALIGNED and address % 16:
                raise bad_param(f"PTR_{name} is {address:#x}, must be aligned to 16 bytes")
            if DESCRIPTORS[name] not in plan.constants and (address or name in _needed(plan)):
                raise bad_param(f"{name} needs its descriptor, {DESCRIPTORS[name].name}")
        for name in _needed(plan):
            if name not in self:
                raise bad_param(f"PTR_{name} is NULL")

    def __contains__(self, name: str) -> bool:
        return name in self._present

    def __getitem__(self, name: str) -> Array:
        """In the type that is computed in."""
        return load(self._variants[Variant[f"PTR_{name}"]], self._descriptor(name), name)

    def stored(self, name: str) -> Array:
        """As memory has it."""
        return view(self._variants[Variant[f"PTR_{name}"]], self._descriptor(name), name)

    def __setitem__(self, name: str, values: Array) -> None:
        """Where it is there: results that nobody asked for are dropped."""
        if name in self:
            out = self.stored(name)
            store(out, values.reshape(out.shape))

    def scalar(self, label: Variant) -> float:
        """0 where it was not set."""
        return float(self._variants.get(label, 0))

    def _descriptor(self, name: str) -> Tensor:
        return cast(Tensor, self._constants[DESCRIPTORS[name]])


@implements("cudnnFusedOpsExecute")
def execute(handle: Handle, plan: Plan, pack: VariantPack) -> None:
    """Run a plan that was made."""
    if pack.ops != plan.ops:
        raise bad_param(f"the plan is of {plan.ops.name}, the pack of {pack.ops.name}")
    if not plan.constants:
        raise Status(Code.NOT_INITIALIZED, "the plan has not been made")
    _COMPUTE[plan.ops](plan, _Arrays(plan, pack.values))


def _normalized(plan: Plan, arrays: _Arrays) -> Array:
    """x, scaled, shifted and activated as far as that is asked for, in x's type."""
    x = arrays["XDATA"]
    if "BN_EQSCALE" in arrays:
        x = x * arrays["BN_EQSCALE"]
    if "BN_EQBIAS" in arrays:
        x = x + arrays["BN_EQBIAS"]
    activation = plan.constants.get(Const.ACTIVATION_DESC)
    if activation is not None and activation.mode == ActivationMode.RELU:
        x = np.maximum(x, 0)
    return x.astype(arrays.stored("XDATA").dtype)


def _convolve(plan: Plan, arrays: _Arrays) -> None:
    """The convolution of the normalized x, and sum and sum of squares of each of its channels."""
    x, y = _normalized(plan, arrays), arrays.stored("YDATA")
    result = np.empty(y.shape, arrays["YDATA"].dtype)
    geometry = _geometry(plan.ops, plan.constants)
    convolution.forward(geometry, x, arrays.stored("WDATA"), result, 1.0, 0.0)
    store(y, result)
    every = (0, *range(2, y.ndim))
    arrays["YSUM"] = result.sum(every)
    arrays["YSQSUM"] = (result**2).sum(every)


def _filter_gradient(plan: Plan, arrays: _Arrays) -> None:
    """The filter gradient of a convolution of the normalized x."""
    x, dw = _normalized(plan, arrays), arrays.stored("DWDATA")
    geometry = _geometry(plan.ops, plan.constants)
    convolution.backward_filter(geometry, x, arrays.stored("DYDATA"), dw, 1.0, 0.0)


def _finalize_training(plan: Plan, arrays: _Arrays) -> None:
    """Mean and variance from the sums; the scale and bias that normalize; running averages."""
    count = arrays.scalar(Variant.SCALAR_INT64_T_BN_ACCUMULATION_COUNT)
    factor = arrays.scalar(Variant.SCALAR_DOUBLE_BN_EXP_AVG_FACTOR)
    mean = arrays["YSUM"].astype(np.float64) / count
    variance = np.maximum(arrays["YSQSUM"].astype(np.float64) / count - mean**2, 0)
    unbiased = variance * count / (count - 1) if count > 1 else variance
    for name, new in (("BN_RUNNING_MEAN", mean), ("BN_RUNNING_VAR", unbiased)):
        if name in arrays:
            arrays[name] = (1 - factor) * arrays[name] + factor * new
    inverse = _set_equivalent(arrays, mean, variance)
    arrays["BN_SAVED_MEAN"] = mean
    arrays["BN_SAVED_INVSTD"] = inverse


def _finalize_inference(plan: Plan, arrays: _Arrays) -> None:
    """The scale and bias that normalize with the running averages."""
    _set_equivalent(arrays, arrays["BN_RUNNING_MEAN"], arrays["BN_RUNNING_VAR"])


def _set_equivalent(arrays: _Arrays, mean: Array, variance: Array) -> Array:
    """Scale and bias of the normalization as a whole; the inverse deviation."""
    inverse = 1 / np.sqrt(variance + arrays.scalar(Variant.SCALAR_DOUBLE_BN_EPSILON))
    scale = arrays["BN_SCALE"] * inverse
    arrays["BN_EQSCALE"] = scale
    arrays["BN_EQBIAS"] = arrays["BN_BIAS"] - scale * mean
    return cast(Array, inverse)


_COMPUTE: dict[FusedOps, Callable[[Plan, _Arrays], None]] = {
    FusedOps.SCALE_BIAS_ACTIVATION_CONV_BNSTATS: _convolve,
    FusedOps.SCALE_BIAS_ACTIVATION_WGRAD: _filter_gradient,
    FusedOps.BN_FINALIZE_STATISTICS_TRAINING: _finalize_training,
    FusedOps.BN_FINALIZE_STATISTICS_INFERENCE: _finalize_inference,
}
