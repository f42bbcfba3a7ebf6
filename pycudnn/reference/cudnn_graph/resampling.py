"""Pooling, and resizing of images: the resample descriptor and its two operations.

Output position o sees the window that begins at ``o * stride - pre_padding`` in the input. In the
pooling modes these are whole numbers. NEAREST takes the element at or before that point, BILINEAR
the average of the elements around it, by their distances; there the numbers may be fractions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi.cudnn_enums import NanPropagation, PaddingMode, ResampleMode

from ..runtime import bad_param, not_supported
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

_AVERAGES = (ResampleMode.AVGPOOL_INCLUDE_PADDING, ResampleMode.AVGPOOL_EXCLUDE_PADDING)
_POOLING = (ResampleMode.MAXPOOL, *_AVERAGES)


class Resample(NamedTuple):
    """A finalized resample descriptor; tuples have an entry for each spatial dimension."""

    mode: ResampleMode
    precision: int
    propagates_nan: bool
    padding: PaddingMode
    window: tuple[Fraction, ...]
    stride: tuple[Fraction, ...]
    before: tuple[Fraction, ...]
    behind: tuple[Fraction, ...]

    @property
    def taps(self) -> list[tuple[int, ...]]:
        """The places within a window, in row-major order."""
        return list(itertools.product(*(range(int(size)) for size in self.window)))


@finalizes("RESAMPLE")
def make_resample(descriptor: Descriptor) -> Resample:
    """Window, stride and paddings for each spatial dimension."""
    dimensions = descriptor.one("SPATIAL_DIMS") or 0
    sizes = []
    for name in ("WINDOW_DIMS", "STRIDES", "PRE_PADDINGS", "POST_PADDINGS"):
        given = descriptor.all(name)
        if len(given) != dimensions:
            raise not_supported(f"{name} has {len(given)} entries, must have {dimensions}")
        sizes.append(tuple(_fraction(size, name) for size in given))
    if any(size <= 0 for size in sizes[0] + sizes[1]):
        raise bad_param("windows and strides must be positive")
    mode = check_member(descriptor.one("MODE"), ResampleMode, "RESAMPLE_MODE")
    if mode == ResampleMode.BILINEAR and any(size != 2 for size in sizes[0]):
        raise not_supported("BILINEAR needs a window of 2 in each dimension")
    padding = check_member(descriptor.one("PADDING_MODE"), PaddingMode, "PADDING_MODE")
    propagates = descriptor.one("NAN_PROPAGATION") == NanPropagation.PROPAGATE_NAN
    return Resample(mode, descriptor.one("COMP_TYPE"), propagates, padding, *sizes)


def _fraction(size: Any, name: str) -> Fraction:
    numerator, denominator = size if isinstance(size, tuple) else (size, 1)
    if not denominator:
        raise bad_param(f"{name} has a fraction with denominator 0")
    return Fraction(numerator, denominator)


def _check(resample: Resample, x: Tensor, y: Tensor) -> None:
    """The sizes of y follow from those of x."""
    if len(x.shape) != len(resample.window) + 2:
        raise bad_param(f"{x} must have {len(resample.window) + 2} dimensions")
    spatial = tuple(
        math.floor(1 + (size + before + behind - window) / stride)
        for size, window, stride, before, behind in zip(x.shape[2:], *resample[4:], strict=True)
    )
    check_shape(y, (*x.shape[:2], *spatial), f"resampling of {x}")
    whole = all(size.denominator == 1 for size in itertools.chain(*resample[4:]))
    if resample.mode in _POOLING and not whole:
        raise not_supported(f"{resample.mode.name} with fractions")


# --- pooling -------------------------------------------------------------------------------------


def _windows(resample: Resample, x: Array, y_shape: tuple[int, ...], fill: float) -> Array:
    """(*y_shape, taps): what each output sees, in row-major order; `fill` in constant padding."""
    padded = _padded(resample, x, y_shape, fill)
    return np.stack([padded[seen] for seen in _seen(resample, y_shape)], axis=-1)


def _padded(resample: Resample, x: Array, y_shape: tuple[int, ...], fill: float) -> Array:
    widths = [(0, 0), (0, 0)]
    for size, outputs, window, stride, before in zip(
        x.shape[2:], y_shape[2:], *resample[4:7], strict=True
    ):
        end = (outputs - 1) * int(stride) + int(window)
        widths.append((int(before), max(0, end - size - int(before))))
    if resample.padding == PaddingMode.EDGE_VAL_PAD:
        return np.pad(x, widths, mode="edge")
    return np.pad(x, widths, constant_values=fill)


def _seen(resample: Resample, y_shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """For each place of the window, the elements of the padded input that outputs see there."""
    for tap in resample.taps:
        yield (
            slice(None),
            slice(None),
            *(
                slice(at, at + (outputs - 1) * int(stride) + 1, int(stride))
                for at, outputs, stride in zip(tap, y_shape[2:], resample.stride, strict=True)
            ),
        )


def _fill(resample: Resample) -> float:
    """What padding is worth to a maximum."""
    return -math.inf if resample.padding == PaddingMode.NEG_INF_PAD else 0.0


def _places_of_largest(resample: Resample, x: Array, y_shape: tuple[int, ...]) -> Array:
    """Where in its window the largest is, the first of several; a NaN if NaN propagates."""
    windows = _windows(resample, x, y_shape, _fill(resample))
    if not resample.propagates_nan:
        windows = np.where(np.isnan(windows), -np.inf, windows)
    return windows.argmax(axis=-1)


def _divisor(resample: Resample, x: Array, y_shape: tuple[int, ...]) -> Array:
    """What the sum over a window is divided by."""
    if resample.mode == ResampleMode.AVGPOOL_EXCLUDE_PADDING:
        inside = resample._replace(padding=PaddingMode.ZERO_PAD)
        return _windows(inside, np.ones((1, 1, *x.shape[2:])), (1, 1, *y_shape[2:]), 0).sum(-1)
    return np.array(math.prod(int(size) for size in resample.window), x.dtype)


def _pooled(resample: Resample, x: Array, y_shape: tuple[int, ...]) -> tuple[Array, Array | None]:
    if resample.mode == ResampleMode.MAXPOOL:
        places = _places_of_largest(resample, x, y_shape)
        windows = _windows(resample, x, y_shape, _fill(resample))
        return np.take_along_axis(windows, places[..., None], axis=-1)[..., 0], places
    sums = _windows(resample, x, y_shape, 0).sum(axis=-1)
    return sums / _divisor(resample, x, y_shape).astype(x.dtype), None


def _scattered(resample: Resample, dy: Array, places: Array | None, like: Array) -> Array:
    """The gradient of the input: dy to the chosen place of each window, or to all of them."""
    padded = np.zeros_like(_padded(resample, like, dy.shape, 0))
    for index, seen in enumerate(_seen(resample, dy.shape)):
        padded[seen] += dy if places is None else np.where(places == index, dy, 0)
    inner = [
        slice(int(before), int(before) + size)
        for before, size in zip(resample.before, like.shape[2:], strict=True)
    ]
    return padded[np.index_exp[:, :] + tuple(inner)]


# --- resizing ------------------------------------------------------------------------------------


def _resized(resample: Resample, x: Array, y_shape: tuple[int, ...]) -> Array:
    """One dimension after the other, as a product with a matrix of weights."""
    for axis, matrix in enumerate(_weights(resample, x.shape, y_shape), start=2):
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T.astype(x.dtype), -1, axis)
    return x


def _weights(
    resample: Resample, x_shape: tuple[int, ...], y_shape: tuple[int, ...]
) -> Iterator[Array]:
    """For each spatial dimension, how much each output has of each input."""
    taps = 2 if resample.mode == ResampleMode.BILINEAR else 1
    clamps = resample.padding == PaddingMode.EDGE_VAL_PAD or taps == 1
    for size, outputs, stride, before in zip(
        x_shape[2:], y_shape[2:], resample.stride, resample.before, strict=True
    ):
        matrix = np.zeros((outputs, size))
        for output in range(outputs):
            point = output * stride - before
            first, rest = math.floor(point), float(point - math.floor(point))
            for index, weight in ((first, 1 - rest), (first + 1, rest))[:taps]:
                weight = 1.0 if taps == 1 else weight
                if clamps:
                    index = min(max(index, 0), size - 1)
                if 0 <= index < size:
                    matrix[output, index] += weight
        yield matrix


# --- operations ----------------------------------------------------------------------------------


@finalizes("OPERATION_RESAMPLE_FWD")
def make_forward(descriptor: Descriptor) -> Node:
    """``y = alpha * resample(x) + beta * y``, and for MAXPOOL the places of the largest."""
    resample: Resample = descriptor.held("DESC")
    x, y, indices = (descriptor.held(name) for name in ("XDESC", "YDESC", "IDXDESC"))
    _check(resample, x, y)
    alpha, beta = descriptor.one("ALPHA"), descriptor.one("BETA")
    outputs = {"YDESC": y}
    if indices:
        check_shape(indices, y.shape, "IDXDESC")
        if resample.mode != ResampleMode.MAXPOOL:
            raise not_supported(f"indices of {resample.mode.name}")
        outputs["IDXDESC"] = indices

    def run(inputs: Arrays, arithmetic: Arithmetic) -> Arrays:
        places = None
        if resample.mode in _POOLING:
            value, places = _pooled(resample, inputs["XDESC"], y.shape)
        else:
            value = _resized(resample, inputs["XDESC"], y.shape)
        results = {"YDESC": blended(value, alpha, beta, inputs.get("YDESC"))}
        return results if places is None else {**results, "IDXDESC": places}

    return Node(
        f"OPERATION_RESAMPLE_FWD {resample.mode.name}",
        precision(resample.precision),
        {"XDESC": x},
        outputs,
        run,
        accumulates=("YDESC",) if beta else (),
    )


@finalizes("OPERATION_RESAMPLE_BWD")
def make_backward(descriptor: Descriptor) -> Node:
    """``dx = alpha * gradient + beta * dx``; a maximum is found by its index, or in x anew."""
    resample: Resample = descriptor.held("DESC")
    dx, dy, indices, x = (
        descriptor.held(name) for name in ("DXDESC", "DYDESC", "IDXDESC", "XDESC")
    )
    _check(resample, dx, dy)
    alpha, beta = descriptor.one("ALPHA"), descriptor.one("BETA")
    inputs = {"DYDESC": dy}
    if resample.mode == ResampleMode.MAXPOOL:
        if indices:
            check_shape(indices, dy.shape, "IDXDESC")
            inputs["IDXDESC"] = indices
        elif x:
            check_shape(x, dx.shape, "XDESC")
            inputs["XDESC"] = x
        else:
            raise bad_param("the gradient of MAXPOOL needs IDXDESC or XDESC")
    elif resample.mode not in _AVERAGES:
        raise not_supported(f"the gradient of {resample.mode.name}")
    if resample.padding == PaddingMode.EDGE_VAL_PAD and any((*resample.before, *resample.behind)):
        raise not_supported("gradients through EDGE_VAL padding")

    def run(arrays: Arrays, arithmetic: Arithmetic) -> Arrays:
        gradient, places = arrays["DYDESC"], arrays.get("IDXDESC")
        like = np.zeros(dx.shape, arithmetic.dtype)
        if "XDESC" in inputs:
            places = _places_of_largest(resample, arrays["XDESC"], dy.shape)
        if places is None:
            gradient = gradient / _divisor(resample, like, dy.shape).astype(gradient.dtype)
        value = _scattered(resample, gradient, places, like)
        return {"DXDESC": blended(value, alpha, beta, arrays.get("DXDESC"))}

    return Node(
        f"OPERATION_RESAMPLE_BWD {resample.mode.name}",
        precision(resample.precision),
        inputs,
        {"DXDESC": dx},
        run,
        accumulates=("DXDESC",) if beta else (),
    )
