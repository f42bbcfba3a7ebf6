"""Pooling descriptors, output sizes, and pooling forward and backward."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, DataType, NanPropagation, PoolingMode

from ..cudnn_graph import Handle
from ..descriptors import Pooling, Tensor
from ..memory import (
    blend,
    compute_dtype,
    destination,
    keep_where,
    load,
    read_array,
    read_scalar,
    view,
    write,
    write_array,
)
from ..runtime import bad_param, implements, not_supported
from .activation import checked_nan_propagation
from .checks import FLOATING, FORWARD, check_alike, check_same_type, check_type
from .tensor_descriptors import check_positive, first
from .vectors import joined, split

Array = np.ndarray[Any, Any]

_LARGEST_NDIM = CUDNN_DIM_MAX - 2  # spatial dimensions


# --- descriptors ---------------------------------------------------------------------------------


def _set(
    descriptor: Pooling,
    mode: int,
    nan_propagation: int,
    window: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
) -> None:
    if mode not in tuple(PoolingMode):
        raise bad_param(f"mode is {mode}, must be one of 0 to {max(PoolingMode)}")
    check_positive(window, "window")
    check_positive(stride, "stride")
    descriptor.nan_propagation = checked_nan_propagation(nan_propagation)
    descriptor.mode = PoolingMode(mode)
    descriptor.window, descriptor.padding, descriptor.stride = window, padding, stride


@implements("cudnnSetPooling2dDescriptor")
def set_pooling_2d(descriptor: Pooling, mode: int, nan_propagation: int, *sizes: int) -> None:
    """Height before width: the window, the padding on either side, and the stride."""
    _set(descriptor, mode, nan_propagation, sizes[0:2], sizes[2:4], sizes[4:6])


@implements("cudnnSetPoolingNdDescriptor")
def set_pooling_nd(
    descriptor: Pooling,
    mode: int,
    nan_propagation: int,
    count: int,
    window: int,
    padding: int,
    stride: int,
) -> None:
    """1 to 6 spatial dimensions."""
    if count <= 0:
        raise bad_param(f"nbDims is {count}, must be positive")
    if count > _LARGEST_NDIM:
        raise not_supported(f"nbDims is {count}, must be at most {_LARGEST_NDIM}")
    _set(
        descriptor,
        mode,
        nan_propagation,
        read_array(window, ctypes.c_int, count, "windowDimA"),
        read_array(padding, ctypes.c_int, count, "paddingA"),
        read_array(stride, ctypes.c_int, count, "strideA"),
    )


@implements("cudnnGetPooling2dDescriptor")
def get_pooling_2d(descriptor: Pooling, mode: int, nan_propagation: int, *outs: int) -> None:
    """The first two dimensions of window, padding and stride."""
    write(mode, ctypes.c_int, descriptor.mode, "mode")
    write(nan_propagation, ctypes.c_int, descriptor.nan_propagation, "maxpoolingNanOpt")
    values = (descriptor.window, descriptor.padding, descriptor.stride)
    for out, value in zip(outs, itertools.chain(*(first(v, 2) for v in values)), strict=True):
        write(out, ctypes.c_int, value)


@implements("cudnnGetPoolingNdDescriptor")
def get_pooling_nd(
    descriptor: Pooling,
    requested: int,
    mode: int,
    nan_propagation: int,
    count: int,
    window: int,
    padding: int,
    stride: int,
) -> None:
    """Exactly `requested` numbers of each kind: 0 where there are fewer."""
    if requested > _LARGEST_NDIM:
        raise not_supported(f"nbDimsRequested is {requested}, must be at most {_LARGEST_NDIM}")
    write(mode, ctypes.c_int, descriptor.mode, "mode")
    write(nan_propagation, ctypes.c_int, descriptor.nan_propagation, "maxpoolingNanOpt")
    write(count, ctypes.c_int, len(descriptor.window), "nbDims")
    write_array(window, ctypes.c_int, first(descriptor.window, requested), "windowDimA")
    write_array(padding, ctypes.c_int, first(descriptor.padding, requested), "paddingA")
    write_array(stride, ctypes.c_int, first(descriptor.stride, requested), "strideA")


# --- output size ---------------------------------------------------------------------------------


def _output_shape(pooling: Pooling, x_desc: Tensor) -> tuple[int, ...]:
    """N, C and, per spatial dimension, ``1 + (size + 2 * padding - window) // stride``."""
    if len(pooling.window) != len(x_desc.shape) - 2:
        raise bad_param(
            f"pooling over {len(pooling.window)} dimensions of a tensor with "
            f"{len(x_desc.shape)}, two of which are N and C"
        )
    spatial = []
    for size, window, padding, stride in zip(
        x_desc.shape[2:], pooling.window, pooling.padding, pooling.stride, strict=True
    ):
        if window > size + 2 * padding:
            raise bad_param(f"window {window} > padded input {size + 2 * padding}")
        if size + 2 * padding - window >= 2**31:
            raise bad_param(f"padding {padding} makes sizes that are too large for an int")
        spatial.append(1 + (size + 2 * padding - window) // stride)
    return (*x_desc.shape[:2], *spatial)


@implements("cudnnGetPooling2dForwardOutputDim")
def get_pooling_2d_output_dim(pooling: Pooling, x_desc: Tensor, *outs: int) -> None:
    """n, c, h and w of the output for a 4-d input."""
    if len(x_desc.shape) != 4:
        raise bad_param(f"the input has {len(x_desc.shape)} dimensions, must have 4")
    for out, size in zip(outs, _output_shape(pooling, x_desc), strict=True):
        write(out, ctypes.c_int, size)


@implements("cudnnGetPoolingNdForwardOutputDim")
def get_pooling_nd_output_dim(pooling: Pooling, x_desc: Tensor, count: int, out: int) -> None:
    """The output's shape; `count` must be the input's number of dimensions."""
    if count != len(x_desc.shape):
        raise bad_param(f"nbDims is {count}, the input has {len(x_desc.shape)} dimensions")
    write_array(out, ctypes.c_int, _output_shape(pooling, x_desc), "outputTensorDimA")


# --- computing -----------------------------------------------------------------------------------

Index = tuple[EllipsisType | slice, ...]


def _taps(pooling: Pooling, x: Array, y: Array) -> Iterator[tuple[Index, Index]]:
    """For each position in the window: the elements of y that see an input there, and those inputs.

    Output o looks at input ``o * stride - padding + tap``. Outputs for which that is padding are
    left out, so padding is never stored; what is left is a strided slice of each dimension of y
    and of x. Positions come in row-major order.
    """
    per_dimension = []
    for size, outputs, window, padding, stride in zip(
        x.shape[2:], y.shape[2:], pooling.window, pooling.padding, pooling.stride, strict=True
    ):
        pairs = []
        for tap in range(window):
            first_output = max(0, -((tap - padding) // stride))  # division rounded up
            end = max(first_output, min(outputs, (size - 1 + padding - tap) // stride + 1))
            first_input = first_output * stride - padding + tap
            inputs = slice(first_input, first_input + (end - first_output) * stride, stride)
            pairs.append((slice(first_output, end), inputs))
        per_dimension.append(pairs)
    for combination in itertools.product(*per_dimension):
        seeing, seen = zip(*combination, strict=True)
        yield (..., *seeing), (..., *seen)


def _divisor(pooling: Pooling, x: Array, y: Array) -> Any:
    """What an average divides by: the window's size, or how much of the window is no padding."""
    if pooling.mode == PoolingMode.AVERAGE_COUNT_INCLUDE_PADDING:
        return y.dtype.type(math.prod(pooling.window))
    count = np.zeros(y.shape[2:], y.dtype)
    for outputs, _ in _taps(pooling, x, y):
        count[outputs] += 1
    return count


def _largest(pooling: Pooling, x: Array, y: Array) -> None:
    """Write the largest element of each window into y."""
    propagate = pooling.nan_propagation == NanPropagation.PROPAGATE_NAN
    larger = np.maximum if propagate else np.fmax
    y.fill(np.finfo(y.dtype).min)
    for outputs, inputs in _taps(pooling, x, y):
        larger(y[outputs], x[inputs], out=y[outputs])


def _largest_gradient(pooling: Pooling, x: Array, dy: Array, dx: Array) -> None:
    """Add dy where x is the first in its window that is the largest."""
    largest = np.empty(dy.shape, x.dtype)
    _largest(pooling, x, largest)
    has_nan = bool(np.isnan(largest).any())
    disjoint = all(w <= s for w, s in zip(pooling.window, pooling.stride, strict=True))
    unassigned = np.ones(dy.shape, np.bool_)
    for outputs, inputs in _taps(pooling, x, dy):
        hit = x[inputs] == largest[outputs]
        if has_nan:
            hit |= np.isnan(x[inputs]) & np.isnan(largest[outputs])
        hit &= unassigned[outputs]
        unassigned[outputs] ^= hit
        if disjoint:  # no other window has a share in these
            keep_where(hit, dy[outputs], out=dx[inputs])
        else:
            dx[inputs] += keep_where(hit, dy[outputs])


def _is_max(pooling: Pooling) -> bool:
    return pooling.mode in (PoolingMode.MAX, PoolingMode.MAX_DETERMINISTIC)


def _check(pooling: Pooling, x_desc: Tensor, y_desc: Tensor) -> None:
    """cuDNN does not look at the spatial size of y; here one that is not right is an error."""
    expected = _output_shape(pooling, x_desc)
    if y_desc.shape != expected:
        raise bad_param(f"y has shape {y_desc.shape}, pooling x gives {expected}")
    check_same_type(x_desc, y_desc, "x and y")
    if len(pooling.window) not in (2, 3):
        raise not_supported(f"pooling over {len(pooling.window)} dimensions, must be 2 or 3")


@implements("cudnnPoolingForward")
def pooling_forward(
    handle: Handle,
    pooling: Pooling,
    alpha: int,
    x_desc: Tensor,
    x: int,
    beta: int,
    y_desc: Tensor,
    y: int,
) -> None:
    """``y = alpha * pool(x) + beta * y``: the largest element in each window, or their average.

    Padding never is the largest, negative padding crops. Without NaN propagation the largest
    ignores NaN. A window of padding alone, or of -inf, has the lowest finite number as its
    largest, and NaN as the average without padding. int8 may lie in vectors of channels.
    """
    _check(pooling, x_desc, y_desc)
    check_type(x_desc, "x", (*FORWARD, DataType.INT8x4, DataType.INT8x32))
    vectors, source = split(y, y_desc, "y"), joined(split(x, x_desc, "x"))
    source = source.astype(compute_dtype(source.dtype), copy=False)
    scale = read_scalar(alpha, y_desc.dtype, "alpha"), read_scalar(beta, y_desc.dtype, "beta")
    out = joined(vectors)  # of vectors, a copy
    result = destination(out, *scale)
    if _is_max(pooling):
        _largest(pooling, source, result)
    else:
        result.fill(0)
        for outputs, inputs in _taps(pooling, source, result):
            result[outputs] += source[inputs]
        result /= _divisor(pooling, source, result)
    if result is not out:
        blend(vectors, result.reshape(vectors.shape), *scale)


@implements("cudnnPoolingBackward")
def pooling_backward(
    handle: Handle,
    pooling: Pooling,
    alpha: int,
    y_desc: Tensor,
    y: int,
    dy_desc: Tensor,
    dy: int,
    x_desc: Tensor,
    x: int,
    beta: int,
    dx_desc: Tensor,
    dx: int,
) -> None:
    """``dx = alpha * gradient + beta * dx``.

    For an average each input of a window gets its share of dy; for a maximum the largest one
    gets all of it, the first in row-major order if there are several (with NaN propagation: the
    first NaN). It is found in x anew, so y may have been blended with something else. Here MAX
    is as deterministic as MAX_DETERMINISTIC.
    """
    _check(pooling, x_desc, y_desc)
    check_alike(y_desc, dy_desc, "y and dy")
    check_alike(x_desc, dx_desc, "x and dx")
    check_type(x_desc, "x", FLOATING)
    gradient, out = load(dy, dy_desc, "dy"), view(dx, dx_desc, "dx")
    scale = read_scalar(alpha, dx_desc.dtype, "alpha"), read_scalar(beta, dx_desc.dtype, "beta")
    result = destination(out, *scale)
    result.fill(0)
    if _is_max(pooling):
        _largest_gradient(pooling, load(x, x_desc, "x"), gradient, result)
    else:
        share = gradient / _divisor(pooling, result, gradient)
        for outputs, inputs in _taps(pooling, result, share):
            result[inputs] += share[outputs]
    blend(out, result, *scale)
