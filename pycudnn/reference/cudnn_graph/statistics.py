"""Batch normalization in parts, to be fused with what comes before and after it.

GEN_STATS sums over all but the channels; BN_FINALIZE makes of the sums the scale and bias that
apply the norm, ``eq_scale * x + eq_bias``; BN_BWD_WEIGHTS makes of the gradient what applies its
backward pass, ``dx = eq_dy_scale * dy + eq_x_scale * x + eq_bias``.
"""

from __future__ import annotations

import math

import numpy as np

from pycudnn.abi.cudnn_enums import BnFinalizeStatsMode, GenStatsMode

from ..runtime import bad_param
from .descriptor import Descriptor, finalizes
from .tensors import Arithmetic, Array, Arrays, Node, Tensor, check_member, check_shape, precision


def _of_channels(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a number for each channel."""
    return tuple(size if axis == 1 else 1 for axis, size in enumerate(tensor.shape))


def _sum(x: Array) -> Array:
    return x.sum(axis=(0, *range(2, x.ndim)), keepdims=True)


@finalizes("OPERATION_GEN_STATS")
def make_sums(descriptor: Descriptor) -> Node:
    """Sum and sum of squares of each channel."""
    check_member(descriptor.one("MODE"), GenStatsMode, "GENSTATS_MODE")
    x, total, squares = (descriptor.held(name) for name in ("XDESC", "SUMDESC", "SQSUMDESC"))
    if len(x.shape) < 2:
        raise bad_param(f"{x} has no channels")
    for tensor in (total, squares):
        check_shape(tensor, _of_channels(x), f"statistics of {x}")

    def run(inputs: Arrays, arithmetic: Arithmetic) -> Arrays:
        values = inputs["XDESC"]
        return {"SUMDESC": _sum(values), "SQSUMDESC": _sum(values * values)}

    return Node(
        "OPERATION_GEN_STATS",
        precision(descriptor.one("MATH_PREC")),
        {"XDESC": x},
        {"SUMDESC": total, "SQSUMDESC": squares},
        run,
    )


_RUNNING = ("RUNNING_MEAN_DESC", "RUNNING_VAR_DESC")
_SCALARS = ("ACCUM_COUNT_DESC", "EPSILON_DESC", "EXP_AVERATE_FACTOR_DESC")


@finalizes("OPERATION_BN_FINALIZE_STATISTICS")
def make_finalize(descriptor: Descriptor) -> Node:
    """Training takes the statistics from the sums, inference the running ones."""
    mode = check_member(descriptor.one("STATS_MODE"), BnFinalizeStatsMode, "STATS_MODE")
    training = mode == BnFinalizeStatsMode.TRAINING
    names = ["Y_SUM_DESC", "Y_SQ_SUM_DESC", "SCALE_DESC", "BIAS_DESC"]
    names += [f"PREV_{name}" for name in _RUNNING if f"PREV_{name}" in descriptor]
    inputs = {name: descriptor.held(name) for name in names}
    results = ["EQ_SCALE_DESC", "EQ_BIAS_DESC", "SAVED_MEAN_DESC", "SAVED_INV_STD_DESC"]
    results += [f"UPDATED_{name}" for name in _RUNNING if f"UPDATED_{name}" in descriptor]
    outputs = {name: descriptor.held(name) for name in results}
    shape = inputs["Y_SUM_DESC"].shape
    for name, tensor in (*inputs.items(), *outputs.items()):
        check_shape(tensor, shape, name)
    for name in _SCALARS:
        inputs[name] = descriptor.held(name)
        if math.prod(inputs[name].shape) != 1:
            raise bad_param(f"{name} must have one element")
    updates = any(f"UPDATED_{name}" in outputs for name in _RUNNING)
    if (updates or not training) and not all(f"PREV_{name}" in inputs for name in _RUNNING):
        raise bad_param("the previous running statistics are needed and not set")

    unknown = np.full(shape, np.nan)

    def run(arrays: Arrays, arithmetic: Arithmetic) -> Arrays:
        count, epsilon, factor = (arrays[name].item() for name in _SCALARS)
        mean, variance = (arrays.get(f"PREV_{name}", unknown) for name in _RUNNING)
        computed: Arrays = {}
        if training:
            batch_mean = arrays["Y_SUM_DESC"] / count
            batch_variance = arrays["Y_SQ_SUM_DESC"] / count - batch_mean**2
            unbiased = batch_variance * (count / max(count - 1, 1))
            if updates:
                computed["UPDATED_RUNNING_MEAN_DESC"] = (1 - factor) * mean + factor * batch_mean
                computed["UPDATED_RUNNING_VAR_DESC"] = (1 - factor) * variance + factor * unbiased
            mean, variance = batch_mean, batch_variance
        elif updates:
            computed["UPDATED_RUNNING_MEAN_DESC"] = mean
            computed["UPDATED_RUNNING_VAR_DESC"] = variance
        inverse = 1 / np.sqrt(variance + epsilon)
        scale = arrays["SCALE_DESC"] * inverse
        computed |= {
            "EQ_SCALE_DESC": scale,
            "EQ_BIAS_DESC": arrays["BIAS_DESC"] - mean * scale,
            "SAVED_MEAN_DESC": mean,
            "SAVED_INV_STD_DESC": inverse,
        }
        return {name: computed[name] for name in outputs}

    return Node(
        "OPERATION_BN_FINALIZE_STATISTICS",
        precision(descriptor.one("MATH_PREC")),
        inputs,
        outputs,
        run,
    )


@finalizes("OPERATION_BN_BWD_WEIGHTS")
def make_weights(descriptor: Descriptor) -> Node:
    """Gradients of scale and bias, and the factors of the gradient of x."""
    x, dy = descriptor.held("X_DESC"), descriptor.held("DY_DESC")
    check_shape(dy, x.shape, "DY_DESC")
    saved = ("MEAN_DESC", "INVSTD_DESC", "BN_SCALE_DESC")
    results = (
        "DBN_SCALE_DESC",
        "DBN_BIAS_DESC",
        "EQ_DY_SCALE_DESC",
        "EQ_X_SCALE_DESC",
        "EQ_BIAS",
    )
    for name in (*saved, *results):
        check_shape(descriptor.held(name), _of_channels(x), name)

    def run(arrays: Arrays, arithmetic: Arithmetic) -> Arrays:
        gradient, values = arrays["DY_DESC"], arrays["X_DESC"]
        mean, inverse, scale = (arrays[name] for name in saved)
        count = values.size // mean.size
        dscale = _sum(gradient * (values - mean) * inverse)
        dbias = _sum(gradient)
        of_dy = scale * inverse
        of_x = -of_dy * inverse * dscale / count
        shift = -of_dy * dbias / count - of_x * mean
        return dict(zip(results, (dscale, dbias, of_dy, of_x, shift), strict=True))

    return Node(
        "OPERATION_BN_BWD_WEIGHTS",
        precision(descriptor.one("MATH_PREC")),
        {"X_DESC": x, "DY_DESC": dy, **{name: descriptor.held(name) for name in saved}},
        {name: descriptor.held(name) for name in results},
        run,
    )
