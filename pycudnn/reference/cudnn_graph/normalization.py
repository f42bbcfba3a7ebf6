"""Normalization: forward and backward of layer, instance, batch and root-mean-square norms.

x is normalized over some of its dimensions (here: `axes`): LAYER and RMS over those that scale and
bias have, INSTANCE over the spatial ones, BATCH over these and the batch::

    y = scale * (x - mean) * inv + bias,   inv = 1 / sqrt(variance + epsilon)

RMS does without the mean: inv = 1 / sqrt(mean of squares + epsilon).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pycudnn.abi.cudnn_enums import BackendNormFwdPhase as Phase
from pycudnn.abi.cudnn_enums import BackendNormMode as Mode
from pycudnn.abi.cudnn_enums import DataType

from ..runtime import bad_param, not_supported
from .descriptor import Descriptor, finalizes
from .tensors import Arithmetic, Array, Arrays, Node, Tensor, check_member, check_shape

_SUPPORTED = (Mode.LAYER_NORM, Mode.INSTANCE_NORM, Mode.BATCH_NORM, Mode.RMS_NORM)


class _Norm(NamedTuple):
    """What both directions know."""

    mode: Mode
    precision: DataType
    axes: tuple[int, ...]
    shared: int  # how many elements share their statistics
    statistics: tuple[int, ...]  # the shape of mean and inverse deviation
    parameters: tuple[int, ...]  # the shape of scale and bias

    @property
    def sums(self) -> tuple[int, ...]:
        """The dimensions that scale and bias do not have."""
        return tuple(axis for axis, size in enumerate(self.parameters) if size == 1)

    def inverse(self, x: Array, epsilon: float) -> tuple[Array, Array]:
        """Mean and inverse deviation."""
        epsilon = x.dtype.type(epsilon)
        if self.mode == Mode.RMS_NORM:
            mean = np.zeros(self.statistics, x.dtype)
            return mean, 1 / np.sqrt((x * x).mean(axis=self.axes, keepdims=True) + epsilon)
        mean = x.mean(axis=self.axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=self.axes, keepdims=True)
        return mean, 1 / np.sqrt(variance + epsilon)


def _norm(descriptor: Descriptor, x: Tensor, scale: Tensor) -> _Norm:
    mode = check_member(descriptor.one("MODE"), Mode, "NORM_MODE")
    if mode not in _SUPPORTED:
        raise not_supported(f"{mode.name}")
    if "PEER_STAT_DESCS" in descriptor:
        raise not_supported("statistics of several GPUs")
    rank = len(x.shape)
    if rank < 2 or len(scale.shape) != rank:
        raise bad_param(f"{x} and {scale} must have the same number of dimensions, at least 2")
    if mode in (Mode.LAYER_NORM, Mode.RMS_NORM):
        axes = tuple(axis for axis in range(1, rank) if scale.shape[axis] == x.shape[axis])
        with_parameters: tuple[int, ...] = axes
    else:
        axes = tuple(range(2, rank)) if mode == Mode.INSTANCE_NORM else (0, *range(2, rank))
        with_parameters = (1,)
    parameters = tuple(x.shape[axis] if axis in with_parameters else 1 for axis in range(rank))
    statistics = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    check_shape(scale, parameters, f"scale of {mode.name}")
    count = math.prod(x.shape[axis] for axis in axes)
    wide = DataType.DOUBLE if x.dtype == DataType.DOUBLE else DataType.FLOAT
    return _Norm(mode, wide, axes, count, statistics, parameters)


def _collect(
    descriptor: Descriptor, shapes: dict[str, tuple[int, ...]], required: tuple[str, ...] = ()
) -> dict[str, Tensor]:
    """The tensors that are set among these, each of the shape that it must have."""
    found = {}
    for name, shape in shapes.items():
        if name in descriptor:
            found[name] = descriptor.held(name)
            check_shape(found[name], shape, f"{descriptor.kind.prefix}{name}")
        elif name in required:
            raise bad_param(f"{descriptor.kind.prefix}{name} is required here and not set")
    return found


def _scalars(descriptor: Descriptor, *names: str) -> dict[str, Tensor]:
    found = {name: descriptor.held(name) for name in names if name in descriptor}
    for name, tensor in found.items():
        if math.prod(tensor.shape) != 1:
            raise bad_param(f"{name}: {tensor} must have one element")
    return found


@finalizes("OPERATION_NORM_FORWARD")
def make_forward(descriptor: Descriptor) -> Node:
    """Training computes the statistics and may store them; inference may be given them.

    Running statistics become ``(1 - factor) * old + factor * new``, the new variance an unbiased
    one.
    """
    x, y, scale = (descriptor.held(name) for name in ("XDESC", "YDESC", "SCALE_DESC"))
    norm = _norm(descriptor, x, scale)
    check_shape(y, x.shape, "YDESC")
    phase = check_member(descriptor.one("PHASE"), Phase, "NORM_FWD_PHASE")
    training = phase == Phase.TRAINING
    inputs = {"XDESC": x, "SCALE_DESC": scale}
    inputs |= _collect(descriptor, {"BIAS_DESC": norm.parameters})
    inputs |= _scalars(descriptor, "EPSILON_DESC")
    saved = dict.fromkeys(("MEAN_DESC", "INV_VARIANCE_DESC"), norm.statistics)
    outputs = {"YDESC": y}
    if training:
        outputs |= _collect(descriptor, saved)
        outputs |= _running(descriptor, norm, inputs)
    else:
        given = tuple(saved) if norm.mode == Mode.BATCH_NORM else ()
        inputs |= _collect(descriptor, saved, given)

    def run(arrays: Arrays, arithmetic: Arithmetic) -> Arrays:
        values = arrays["XDESC"]
        mean, inverse = norm.inverse(values, arrays["EPSILON_DESC"].item())
        mean, inverse = arrays.get("MEAN_DESC", mean), arrays.get("INV_VARIANCE_DESC", inverse)
        result = (values - mean) * inverse * arrays["SCALE_DESC"]
        if "BIAS_DESC" in arrays:
            result = result + arrays["BIAS_DESC"]
        results = {"YDESC": result, "MEAN_DESC": mean, "INV_VARIANCE_DESC": inverse}
        if "OUTPUT_RUNNING_MEAN_DESC" in outputs:
            results |= _updated(norm, arrays, mean)
        return {name: results[name] for name in outputs}

    return Node(f"OPERATION_NORM_FORWARD {norm.mode.name}", norm.precision, inputs, outputs, run)


_RUNNING = ("RUNNING_MEAN_DESC", "RUNNING_VAR_DESC")


def _running(descriptor: Descriptor, norm: _Norm, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The outputs of running statistics; what they take goes into `inputs`."""
    names = [f"{side}_{name}" for side in ("INPUT", "OUTPUT") for name in _RUNNING]
    if not any(name in descriptor for name in names):
        return {}
    found = _collect(descriptor, dict.fromkeys(names, norm.statistics), tuple(names))
    factor = _scalars(descriptor, "EXP_AVG_FACTOR_DESC")
    if not factor:
        raise bad_param("running statistics need EXP_AVG_FACTOR_DESC")
    inputs |= factor | {name: found[name] for name in names[:2]}
    return {name: found[name] for name in names[2:]}


def _updated(norm: _Norm, arrays: Arrays, mean: Array) -> Arrays:
    factor = arrays["EXP_AVG_FACTOR_DESC"].item()
    deviations = (arrays["XDESC"] - mean) ** 2
    variance = deviations.sum(axis=norm.axes, keepdims=True) / max(norm.shared - 1, 1)
    return {
        f"OUTPUT_{name}": ((1 - factor) * arrays[f"INPUT_{name}"] + factor * new).astype(mean.dtype)
        for name, new in zip(_RUNNING, (mean, variance), strict=True)
    }


@finalizes("OPERATION_NORM_BACKWARD")
def make_backward(descriptor: Descriptor) -> Node:
    """Gradients of x, scale and bias; the statistics are those saved, or computed anew."""
    x, dy, scale, dx = (
        descriptor.held(name) for name in ("XDESC", "DYDESC", "SCALE_DESC", "DXDESC")
    )
    norm = _norm(descriptor, x, scale)
    check_shape(dy, x.shape, "DYDESC")
    check_shape(dx, x.shape, "DXDESC")
    inputs = {"XDESC": x, "DYDESC": dy, "SCALE_DESC": scale}
    saved = ("MEAN_DESC", "INV_VARIANCE_DESC")
    inputs |= _collect(descriptor, dict.fromkeys(saved, norm.statistics))
    inputs |= _scalars(descriptor, "EPSILON_DESC")
    needed = saved[1:] if norm.mode == Mode.RMS_NORM else saved
    if not all(name in inputs for name in needed) and "EPSILON_DESC" not in inputs:
        raise bad_param("the gradient needs the saved statistics or EPSILON_DESC")
    outputs = {"DXDESC": dx}
    outputs |= _collect(descriptor, dict.fromkeys(("DSCALE_DESC", "DBIAS_DESC"), norm.parameters))

    def run(arrays: Arrays, arithmetic: Arithmetic) -> Arrays:
        values, gradient = arrays["XDESC"], arrays["DYDESC"]
        mean, inverse = (arrays.get(name) for name in saved)
        if norm.mode == Mode.RMS_NORM and inverse is not None:
            mean = np.zeros_like(inverse)
        if mean is None or inverse is None:
            mean, inverse = norm.inverse(values, arrays["EPSILON_DESC"].item())
        normalized = (values - mean) * inverse
        weighted = gradient * arrays["SCALE_DESC"]
        along = (weighted * normalized).mean(axis=norm.axes, keepdims=True)
        shift = 0 if norm.mode == Mode.RMS_NORM else weighted.mean(axis=norm.axes, keepdims=True)
        results = {
            "DXDESC": inverse * (weighted - shift - normalized * along),
            "DSCALE_DESC": (gradient * normalized).sum(axis=norm.sums, keepdims=True),
            "DBIAS_DESC": gradient.sum(axis=norm.sums, keepdims=True),
        }
        return {name: results[name] for name in outputs}

    return Node(f"OPERATION_NORM_BACKWARD {norm.mode.name}", norm.precision, inputs, outputs, run)
