"""Spatial transformers: grids of sampling points from affine maps, and bilinear sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import DataType, SamplerType
from pycudnn.cudnn._objects import construct, factor, int_array, member, require, scaling, shape_of
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor
from pycudnn.libraries import Library, find_library

_DATA_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF)


class SpatialTransformerDescriptor(_core.Owned):
    """Shape and data type of what a sampler makes (cudnnSetSpatialTransformerNdDescriptor).

    ``shape`` is that of the output, (N, C, H, W); ``dtype`` float32, float64 or float16. An affine
    map, ``theta`` of shape (N, 2, 3), gives each output pixel a point (x, y) of the input in a
    ``grid`` of shape (N, H, W, 2). Points go from -1 to 1, the centres of the first and the last
    pixel. cuDNN has no getters for this descriptor; the properties are what was set.

    ValueError for a shape without four positive sizes or an unknown sampler, TypeError for
    another dtype.
    """

    c_type = "cudnnSpatialTransformerDescriptor_t"
    library: Library
    shape: tuple[int, ...]
    sampler: SamplerType
    theta_desc: TensorDescriptor
    grid_desc: TensorDescriptor

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any = DataType.FLOAT,
        *,
        sampler: SamplerType = SamplerType.SAMPLER_BILINEAR,
        library: Library | str | None = None,
    ) -> None:
        dims = shape_of(shape, "shape")
        if len(dims) != 4:
            raise ValueError(f"shape must be (N, C, H, W), got {shape!r}")
        data_type = dtypes.to_data_type(dtype)
        if data_type not in _DATA_TYPES:
            known = ", ".join(str(dtypes.to_numpy(known)) for known in _DATA_TYPES)
            raise TypeError(f"dtype must be one of {known}, got {dtype!r}")
        sampler = member(SamplerType, sampler, "sampler")
        found = find_library("cudnn", library)
        # theta and grid have no descriptor in C: these are for checking their memory.
        n, _, h, w = dims
        self.theta_desc = TensorDescriptor((n, 2, 3), data_type, library=found)
        self.grid_desc = TensorDescriptor((n, h, w, 2), data_type, library=found)
        self.shape, self.sampler = dims, sampler

        def set_up(call: _core.ColdCall) -> None:
            call(
                "cudnnSetSpatialTransformerNdDescriptor",
                self, sampler, data_type, len(dims), int_array(dims),
            )  # fmt: skip

        settings = {"shape": dims, "dtype": data_type, "sampler": sampler}
        construct(self, found, "SpatialTransformerDescriptor", settings, set_up)

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type of images, grids and maps."""
        return self.grid_desc.dtype

    def __repr__(self) -> str:
        if self.closed:
            return "<closed SpatialTransformerDescriptor>"
        return (
            f"SpatialTransformerDescriptor(shape={self.shape}, dtype={self.dtype}, "
            f"sampler={self.sampler.name})"
        )


def spatial_tf_grid_generator_forward(
    handle: Handle, transformer: SpatialTransformerDescriptor, theta: Any, grid: Any
) -> None:
    """``grid[n, h, w] = theta[n] (x, y, 1)`` (cudnnSpatialTfGridGeneratorForward).

    x and y are the output pixel's place, from -1 to 1. ``theta`` is (N, 2, 3), ``grid``
    (N, H, W, 2), both contiguous and of the descriptor's dtype.
    """
    _generate("cudnnSpatialTfGridGeneratorForward", handle, transformer, theta, grid, False)


def spatial_tf_grid_generator_backward(
    handle: Handle, transformer: SpatialTransformerDescriptor, dgrid: Any, dtheta: Any
) -> None:
    """``dtheta[n]``, the sum of ``dgrid[n, h, w] (x, y, 1)`` (cudnnSpatialTfGridGeneratorBackward).

    Shapes as for ``spatial_tf_grid_generator_forward``.
    """
    _generate("cudnnSpatialTfGridGeneratorBackward", handle, transformer, dtheta, dgrid, True)


def _generate(
    function: str,
    handle: Handle,
    transformer: SpatialTransformerDescriptor,
    theta: Any,
    grid: Any,
    backward: bool,
) -> None:
    require(handle, Handle, "handle")
    require(transformer, SpatialTransformerDescriptor, "transformer")
    prefix = "d" if backward else ""
    with _core.ColdCall(handle.library, handle) as call:
        maps = call.operand(theta, f"{prefix}theta", backward, transformer.theta_desc)
        points = call.operand(grid, f"{prefix}grid", not backward, transformer.grid_desc)
        call.keep_apart()
        source, result = (points, maps) if backward else (maps, points)
        call(function, handle, transformer, source, result)


def spatial_tf_sampler_forward(
    handle: Handle,
    transformer: SpatialTransformerDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    grid: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``y = alpha * x at the points of grid + beta * y`` (cudnnSpatialTfSamplerForward).

    Each point takes the four pixels around it, bilinearly; pixels outside of x count as 0. y has
    the transformer's shape, x any height and width. ValueError for other shapes.
    """
    _check(handle, transformer, x_desc, "x_desc", y_desc, "y_desc")
    scales = scaling(alpha, beta, y_desc.dtype_code)
    with _core.ColdCall(handle.library, handle) as call:
        x_at = call.operand(x, "x", False, x_desc)
        grid_at = call.operand(grid, "grid", False, transformer.grid_desc)
        y_at = call.operand(y, "y", True, y_desc)
        call.keep_apart()
        call(
            "cudnnSpatialTfSamplerForward",
            handle, transformer, scales[0], x_desc, x_at, grid_at, scales[1], y_desc, y_at,
        )  # fmt: skip


def spatial_tf_sampler_backward(
    handle: Handle,
    transformer: SpatialTransformerDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    grid: Any,
    dgrid: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    alpha_dgrid: float = 1.0,
    beta_dgrid: float = 0.0,
) -> None:
    """Gradients of a sampler's image and points (cudnnSpatialTfSamplerBackward).

    ``dx = alpha * gradient + beta * dx`` and ``dgrid = alpha_dgrid * gradient + beta_dgrid *
    dgrid``. dx has the shape of x, dy that of the transformer. ValueError for other shapes.
    """
    _check(handle, transformer, x_desc, "x_desc", dy_desc, "dy_desc")
    _check(handle, transformer, dx_desc, "dx_desc", dy_desc, "dy_desc")
    if dx_desc.shape != x_desc.shape:
        raise ValueError(f"dx must have the shape of x, {x_desc.shape}, got {dx_desc.shape}")
    dtype = x_desc.dtype_code
    scales = scaling(alpha, beta, dtype)
    grid_scales = (
        factor(alpha_dgrid, "alpha_dgrid", dtype), factor(beta_dgrid, "beta_dgrid", dtype)
    )  # fmt: skip
    with _core.ColdCall(handle.library, handle) as call:
        x_at, dx_at = call.operand(x, "x", False, x_desc), call.operand(dx, "dx", True, dx_desc)
        dy_at = call.operand(dy, "dy", False, dy_desc)
        grid_at = call.operand(grid, "grid", False, transformer.grid_desc)
        dgrid_at = call.operand(dgrid, "dgrid", True, transformer.grid_desc)
        call.keep_apart()
        call(
            "cudnnSpatialTfSamplerBackward",
            handle, transformer, scales[0], x_desc, x_at, scales[1], dx_desc, dx_at,
            grid_scales[0], dy_desc, dy_at, grid_at, grid_scales[1], dgrid_at,
        )  # fmt: skip


def _check(
    handle: Handle,
    transformer: SpatialTransformerDescriptor,
    x_desc: TensorDescriptor,
    x_name: str,
    y_desc: TensorDescriptor,
    y_name: str,
) -> None:
    """cuDNN looks at none of this."""
    require(handle, Handle, "handle")
    require(transformer, SpatialTransformerDescriptor, "transformer")
    require(x_desc, TensorDescriptor, x_name)
    require(y_desc, TensorDescriptor, y_name)
    for desc, name in ((x_desc, x_name), (y_desc, y_name)):
        if desc.dtype_code != transformer.grid_desc.dtype_code:
            raise TypeError(
                f"{name} must have the transformer's dtype, {transformer.dtype}, got {desc.dtype}"
            )
    if y_desc.shape != transformer.shape:
        raise ValueError(
            f"{y_name} must have the transformer's shape, {transformer.shape}, got {y_desc.shape}"
        )
    if len(x_desc.shape) != 4 or x_desc.shape[:2] != transformer.shape[:2]:
        raise ValueError(
            f"{x_name} must be {transformer.shape[:2]} and a height and width, got {x_desc.shape}"
        )
