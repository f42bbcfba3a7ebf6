"""Spatial transformers: a grid of sampling points from an affine map, and bilinear sampling there.

Points are (x, y) from -1 to 1: the centres of the first and the last pixel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import DataType, SamplerType, TensorFormat

from ..cudnn_graph import Handle
from ..descriptors import Tensor, packed_strides
from ..memory import blend, load, read_array, read_scalar, view
from ..runtime import bad_param, implements, not_supported, opaque
from .checks import check_same_type, checked_member

_DATA_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF)

Array = np.ndarray[Any, Any]


@opaque(
    "cudnnSpatialTransformerDescriptor_t",
    "cudnnCreateSpatialTransformerDescriptor",
    "cudnnDestroySpatialTransformerDescriptor",
)
@dataclass
class SpatialTransformer:
    """Data type and shape (N, C, H, W) of the output."""

    dtype: DataType = DataType.FLOAT
    shape: tuple[int, ...] = ()


@implements("cudnnSetSpatialTransformerNdDescriptor")
def set_spatial_transformer(
    descriptor: SpatialTransformer, sampler: int, data_type: int, count: int, dims: int
) -> None:
    """The output's shape. cuDNN checks neither its rank nor its sizes here, and overruns."""
    if data_type == DataType.INT8:
        raise not_supported("spatial transformers of INT8")
    checked_member(SamplerType, sampler, "samplerType")
    if data_type not in _DATA_TYPES:
        raise bad_param(f"dataType is {data_type}, must be 0 (FLOAT), 1 (DOUBLE) or 2 (HALF)")
    if not dims:
        raise bad_param("dimA is NULL")
    if count > 8:
        raise bad_param(f"nbDims is {count}, must be at most 8")
    descriptor.dtype = DataType(data_type)
    descriptor.shape = read_array(dims, ctypes.c_int, max(count, 0), "dimA")


def _output(descriptor: SpatialTransformer) -> tuple[int, int, int, int]:
    if len(descriptor.shape) != 4 or min(descriptor.shape) < 1:
        raise not_supported(f"dimA is {descriptor.shape}, must be four positive sizes")
    n, c, h, w = descriptor.shape
    return n, c, h, w


def _tensor(descriptor: SpatialTransformer, shape: tuple[int, ...]) -> Tensor:
    """A packed tensor of the transformer's data type: theta and grids have no descriptor in C."""
    return Tensor(descriptor.dtype, shape, packed_strides(shape, TensorFormat.NCHW))


def _grid(descriptor: SpatialTransformer) -> Tensor:
    n, _, h, w = _output(descriptor)
    return _tensor(descriptor, (n, h, w, 2))


def _coordinates(descriptor: SpatialTransformer, dtype: np.dtype[Any]) -> Array:
    """(x, y, 1) of each output pixel, of shape (H, W, 3)."""
    _, _, h, w = _output(descriptor)
    y, x = np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij")
    return np.stack([x, y, np.ones_like(x)], axis=-1).astype(dtype)


@implements("cudnnSpatialTfGridGeneratorForward")
def grid_forward(handle: Handle, descriptor: SpatialTransformer, theta: int, grid: int) -> None:
    """``grid[n, h, w] = theta[n] (x, y, 1)``; theta is (N, 2, 3), grid (N, H, W, 2)."""
    out = view(grid, _grid(descriptor), "grid")
    maps = load(theta, _tensor(descriptor, (out.shape[0], 2, 3)), "theta")
    points = _coordinates(descriptor, maps.dtype)
    out[...] = np.einsum("nij,hwj->nhwi", maps, points)


@implements("cudnnSpatialTfGridGeneratorBackward")
def grid_backward(handle: Handle, descriptor: SpatialTransformer, dgrid: int, dtheta: int) -> None:
    """``dtheta[n]`` is the sum of ``dgrid[n, h, w] (x, y, 1)`` over all pixels."""
    gradient = load(dgrid, _grid(descriptor), "dgrid")
    out = view(dtheta, _tensor(descriptor, (gradient.shape[0], 2, 3)), "dtheta")
    points = _coordinates(descriptor, gradient.dtype)
    out[...] = np.einsum("nhwi,hwj->nij", gradient, points)


def _check_tensors(descriptor: SpatialTransformer, x_desc: Tensor, y_desc: Tensor) -> None:
    output = _output(descriptor)
    check_same_type(x_desc, y_desc, "x and y")
    if x_desc.dtype != descriptor.dtype:
        raise bad_param(f"x is {x_desc.dtype.name}, the transformer {descriptor.dtype.name}")
    if y_desc.shape != output:
        raise bad_param(f"y has shape {y_desc.shape}, the transformer {output}")
    if len(x_desc.shape) != 4 or x_desc.shape[:2] != output[:2]:
        raise bad_param(f"x has shape {x_desc.shape}, must be {output[:2]} and two more")


@dataclass
class _Corner:
    """One of the four pixels around each sampling point: where, and with which weight."""

    rows: Array
    columns: Array
    x_weight: Array
    y_weight: Array
    x_slope: int  # sign of the weight's derivative
    y_slope: int
    inside: Array


def _corners(points: Array, height: int, width: int) -> Iterator[_Corner]:
    x = (points[..., 0] + 1) * ((width - 1) / 2)
    y = (points[..., 1] + 1) * ((height - 1) / 2)
    left, top = np.floor(x), np.floor(y)
    for down in (0, 1):
        for right in (0, 1):
            columns, rows = left + right, top + down
            inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
            yield _Corner(
                np.where(inside, rows, 0).astype(np.intp),
                np.where(inside, columns, 0).astype(np.intp),
                np.abs(x - (left + 1 - right)),
                np.abs(y - (top + 1 - down)),
                2 * right - 1,
                2 * down - 1,
                inside,
            )


@implements("cudnnSpatialTfSamplerForward")
def sampler_forward(
    handle: Handle,
    descriptor: SpatialTransformer,
    alpha: int,
    x_desc: Tensor,
    x: int,
    grid: int,
    beta: int,
    y_desc: Tensor,
    y: int,
) -> None:
    """``y = alpha * sample + beta * y``: of the four pixels around each point, bilinearly weighted.

    Pixels outside of x count as 0.
    """
    _check_tensors(descriptor, x_desc, y_desc)
    image, out = load(x, x_desc, "x"), view(y, y_desc, "y")
    points = load(grid, _grid(descriptor), "grid")
    scale = read_scalar(alpha, y_desc.dtype, "alpha"), read_scalar(beta, y_desc.dtype, "beta")
    pictures = np.arange(image.shape[0])[:, None, None]
    result = np.zeros((image.shape[0], *points.shape[1:3], image.shape[1]), image.dtype)
    for corner in _corners(points, *image.shape[2:]):
        weight = np.where(corner.inside, corner.x_weight * corner.y_weight, 0)
        result += weight[..., None] * image[pictures, :, corner.rows, corner.columns]
    blend(out, np.moveaxis(result, -1, 1), *scale)


@implements("cudnnSpatialTfSamplerBackward")
def sampler_backward(
    handle: Handle,
    descriptor: SpatialTransformer,
    alpha: int,
    x_desc: Tensor,
    x: int,
    beta: int,
    dx_desc: Tensor,
    dx: int,
    alpha_dgrid: int,
    dy_desc: Tensor,
    dy: int,
    grid: int,
    beta_dgrid: int,
    dgrid: int,
) -> None:
    """Gradients of the image, ``dx``, and of the points, ``dgrid``, each with its own factors."""
    _check_tensors(descriptor, x_desc, dy_desc)
    _check_tensors(descriptor, dx_desc, dy_desc)
    if dx_desc.shape != x_desc.shape:
        raise bad_param(f"x and dx differ in shape: {x_desc.shape} and {dx_desc.shape}")
    image, gradient = load(x, x_desc, "x"), np.moveaxis(load(dy, dy_desc, "dy"), 1, -1)
    points = load(grid, _grid(descriptor), "grid")
    dx_out, dgrid_out = view(dx, dx_desc, "dx"), view(dgrid, _grid(descriptor), "dgrid")
    dtype = dx_desc.dtype
    scale = read_scalar(alpha, dtype, "alpha"), read_scalar(beta, dtype, "beta")
    grid_scale = (
        read_scalar(alpha_dgrid, dtype, "alphaDgrid"),
        read_scalar(beta_dgrid, dtype, "betaDgrid"),
    )
    pictures = np.arange(image.shape[0])[:, None, None]
    d_image = np.zeros((image.shape[0], *image.shape[2:], image.shape[1]), image.dtype)
    d_points = np.zeros(points.shape, points.dtype)
    height, width = image.shape[2:]
    for corner in _corners(points, height, width):
        weight = np.where(corner.inside, corner.x_weight * corner.y_weight, 0)
        np.add.at(d_image, (pictures, corner.rows, corner.columns), weight[..., None] * gradient)
        pixels = image[pictures, :, corner.rows, corner.columns]
        # How the output changes with this corner's weight.
        share = np.where(corner.inside, (pixels * gradient).sum(-1), 0)
        d_points[..., 0] += share * corner.x_slope * corner.y_weight * ((width - 1) / 2)
        d_points[..., 1] += share * corner.y_slope * corner.x_weight * ((height - 1) / 2)
    blend(dx_out, np.moveaxis(d_image, -1, 1), *scale)
    blend(dgrid_out, d_points, *grid_scale)
