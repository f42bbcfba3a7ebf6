"""Convolution: its descriptor, and the operations forward, backward data and backward filter."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pycudnn.abi.cudnn_enums import ConvolutionMode

from .. import convolution
from ..convolution import Geometry, Sizes
from ..parallel import cut
from ..runtime import bad_param
from .descriptor import Descriptor, finalizes
from .tensors import (
    Arithmetic,
    Array,
    Arrays,
    Node,
    Tensor,
    blended,
    check_member,
    check_shape,
    precision,
)


@dataclass(frozen=True)
class Convolution:
    """A finalized convolution descriptor; tuples have an entry for each spatial dimension."""

    precision: int
    mode: int
    dilation: Sizes
    stride: Sizes
    before: Sizes  # padding
    behind: Sizes


@finalizes("CONVOLUTION")
def make_convolution(descriptor: Descriptor) -> Convolution:
    """Sizes for each spatial dimension, strides and dilations positive."""
    dimensions = descriptor.one("SPATIAL_DIMS")
    names = ("DILATIONS", "FILTER_STRIDES", "PRE_PADDINGS", "POST_PADDINGS")
    settings = []
    for name, least in zip(names, (1, 1, 0, 0), strict=True):
        sizes = descriptor.all(name) or ((0,) * dimensions if least == 0 else ())
        if len(sizes) != dimensions:
            raise bad_param(f"{name} {sizes} must have {dimensions} entries")
        if min(sizes, default=0) < least:
            raise bad_param(f"{name} {sizes} must be at least {least}")
        settings.append(sizes)
    return Convolution(descriptor.one("COMP_TYPE"), descriptor.one("CONV_MODE"), *settings)


def _geometry(conv: Convolution, x: Tensor, w: Tensor, y: Tensor) -> Geometry:
    """The sizes of a convolution of tensors that must fit each other."""
    mode = check_member(conv.mode, ConvolutionMode, "CONV_MODE")
    dimensions = len(conv.stride) + 2
    for tensor in (x, w, y):
        if len(tensor.shape) != dimensions:
            raise bad_param(f"{tensor}: a convolution over {dimensions - 2} dimensions needs "
                            f"tensors of {dimensions}")  # fmt: skip
    (batch, channels, *image), (filters, depth, *window) = x.shape, w.shape
    groups, rest = divmod(channels, depth)
    if rest or filters % groups:
        raise bad_param(f"{channels} channels and {filters} filters for channels {depth} each")
    output = tuple(
        (size + before + behind - dilation * (taps - 1) - 1) // stride + 1
        for size, before, behind, dilation, taps, stride in zip(
            image, conv.before, conv.behind, conv.dilation, window, conv.stride, strict=True
        )
    )
    check_shape(y, (batch, filters, *output), f"convolution of {x} with {w}")
    return Geometry(
        batch=batch,
        groups=groups,
        channels=depth,
        filters=filters // groups,
        image=tuple(image),
        window=tuple(window),
        output=output,
        padding=conv.before,
        stride=conv.stride,
        dilation=conv.dilation,
        turned=mode == ConvolutionMode.CONVOLUTION,
    )


# --- sums cut into parts: each part of the terms is a smaller convolution -------------------------


def _group_part(array: Array, groups: int, part: slice) -> Array:
    """That part of the second dimension of every group: (n, groups * c, ...) to fewer c."""
    split = array.reshape(array.shape[0], groups, -1, *array.shape[2:])[:, :, part]
    return split.reshape(array.shape[0], -1, *array.shape[2:])


def _filter_part(w: Array, groups: int, part: slice) -> Array:
    """That part of the filters of every group."""
    split = w.reshape(groups, -1, *w.shape[1:])[:, part]
    return split.reshape(-1, *w.shape[1:])


def _sum(parts: list[slice], compute: Callable[[slice], Array]) -> Array:
    return functools.reduce(operator.iadd, map(compute, parts))


def _forward(geometry: Geometry, x: Array, w: Array, parts: int) -> Array:
    """y; the sum over the channels of a group is cut."""

    def compute(part: slice) -> Array:
        smaller = replace(geometry, channels=part.stop - part.start)
        y = np.empty(shape, x.dtype)
        operands = _group_part(x, geometry.groups, part), w[:, part]
        convolution.forward(smaller, *operands, y, 1.0, 0.0)
        return y

    shape = (geometry.batch, geometry.groups * geometry.filters, *geometry.output)
    return _sum(cut(geometry.channels, parts), compute)


def _backward_data(geometry: Geometry, w: Array, dy: Array, parts: int) -> Array:
    """dx; the sum over the filters of a group is cut."""

    def compute(part: slice) -> Array:
        smaller = replace(geometry, filters=part.stop - part.start)
        dx = np.empty(shape, w.dtype)
        operands = (
            _filter_part(w, geometry.groups, part),
            _group_part(dy, geometry.groups, part),
        )
        convolution.backward_data_scattered(smaller, *operands, dx, 1.0, 0.0)
        return dx

    shape = (geometry.batch, geometry.groups * geometry.channels, *geometry.image)
    return _sum(cut(geometry.filters, parts), compute)


def _backward_filter(geometry: Geometry, x: Array, dy: Array, parts: int) -> Array:
    """dw; the sum over the images is cut."""

    def compute(part: slice) -> Array:
        smaller = replace(geometry, batch=part.stop - part.start)
        dw = np.empty(shape, x.dtype)
        convolution.backward_filter(smaller, x[part], dy[part], dw, 1.0, 0.0)
        return dw

    filters = geometry.groups * geometry.filters
    shape = (filters, geometry.channels, *geometry.window)
    return _sum(cut(geometry.batch, parts), compute)


# kind -> names of its two operands and its result, where among these x, w and y are, what computes
_DIRECTIONS: dict[str, tuple[tuple[str, str, str], tuple[int, int, int], Callable[..., Array]]] = {
    "OPERATION_CONVOLUTION_FORWARD": (("X", "W", "Y"), (0, 1, 2), _forward),
    "OPERATION_CONVOLUTION_BACKWARD_DATA": (("W", "DY", "DX"), (2, 0, 1), _backward_data),
    "OPERATION_CONVOLUTION_BACKWARD_FILTER": (("X", "DY", "DW"), (0, 2, 1), _backward_filter),
}


@finalizes(*_DIRECTIONS)
def make_operation(descriptor: Descriptor) -> Node:
    """``result = alpha * convolution(operands) + beta * result``."""
    names, roles, compute = _DIRECTIONS[descriptor.kind.name]
    tensors = [descriptor.held(name) for name in names]
    conv = descriptor.held("CONV_DESC")
    geometry = _geometry(conv, *(tensors[role] for role in roles))
    alpha, beta = descriptor.one("ALPHA"), descriptor.one("BETA")
    first, second, result = names

    def run(inputs: Arrays, arithmetic: Arithmetic) -> Arrays:
        value = compute(geometry, inputs[first], inputs[second], arithmetic.parts)
        return {result: blended(value, alpha, beta, inputs.get(result))}

    return Node(
        descriptor.kind.name,
        precision(conv.precision),
        {first: tensors[0], second: tensors[1]},
        {result: tensors[2]},
        run,
        accumulates=(result,) if beta else (),
    )
