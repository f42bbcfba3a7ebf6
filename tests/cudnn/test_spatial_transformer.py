"""Grid generator and sampler against loops in float64, their gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn

DTYPES = ["float32", "float64", "float16"]
OUTPUT, INPUT = (2, 3, 4, 5), (2, 3, 6, 7)


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def exact_grid(theta, height, width):
    """The point of each output pixel, one after another."""
    grid = np.zeros((len(theta), height, width, 2))
    for n, h, w in np.ndindex(grid.shape[:3]):
        pixel = np.array([2 * w / (width - 1) - 1, 2 * h / (height - 1) - 1, 1.0])
        grid[n, h, w] = theta[n] @ pixel
    return grid


def exact_sample(x, grid):
    """Each point's four pixels, weighted; 0 outside."""
    n_count, channels, height, width = x.shape
    y = np.zeros((n_count, channels, *grid.shape[1:3]))
    for n, h, w in np.ndindex(grid.shape[:3]):
        column = (grid[n, h, w, 0] + 1) * (width - 1) / 2
        row = (grid[n, h, w, 1] + 1) * (height - 1) / 2
        for i in (int(np.floor(row)), int(np.floor(row)) + 1):
            for j in (int(np.floor(column)), int(np.floor(column)) + 1):
                if 0 <= i < height and 0 <= j < width:
                    weight = (1 - abs(row - i)) * (1 - abs(column - j))
                    y[n, :, h, w] += weight * x[n, :, i, j]
    return y


def difference(function, at, weights, h=1e-6):
    """Gradient of ``sum(weights * function(at))`` by central differences."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[index] += h
        down[index] -= h
        gradient[index] = (weights * (function(up) - function(down))).sum() / (2 * h)
    return gradient


def transformer(side, dtype="float32", shape=OUTPUT):
    return cudnn.SpatialTransformerDescriptor(shape, dtype, library=side.library)


def points(rng, shape=OUTPUT):
    """Points in and around the image, none near a pixel's centre, where the slope jumps."""
    places = (shape[0], *shape[2:])
    x = rng.integers(-1, INPUT[3], places) + rng.uniform(0.2, 0.8, places)
    y = rng.integers(-1, INPUT[2], places) + rng.uniform(0.2, 0.8, places)
    return np.stack([2 * x / (INPUT[3] - 1) - 1, 2 * y / (INPUT[2] - 1) - 1], -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_grid(side, rng, dtype):
    theta = side.tensor(rng.uniform(-1, 1, (2, 2, 3)), dtype)
    grid = side.blank((2, 4, 5, 2), dtype)
    cudnn.spatial_tf_grid_generator_forward(
        side.handle, transformer(side, dtype), theta.data, grid.data
    )
    grid.check(exact_grid(theta.values, 4, 5), 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_grid_backward(side, rng, dtype):
    dgrid = side.tensor(rng.uniform(-1, 1, (2, 4, 5, 2)), dtype)
    dtheta = side.blank((2, 2, 3), dtype)
    cudnn.spatial_tf_grid_generator_backward(
        side.handle, transformer(side, dtype), dgrid.data, dtheta.data
    )
    expected = difference(
        lambda theta: exact_grid(theta, 4, 5), np.zeros((2, 2, 3)), dgrid.values, 1e-3
    )
    dtheta.check(expected, 5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sampler(side, rng, dtype):
    x, grid = side.tensor(rng.uniform(-1, 1, INPUT), dtype), side.tensor(points(rng), dtype)
    y = side.tensor(rng.uniform(-1, 1, OUTPUT), dtype)
    cudnn.spatial_tf_sampler_forward(
        side.handle, transformer(side, dtype), x.desc, x.data, grid.data, y.desc, y.data,
        alpha=1.5, beta=-0.5,
    )  # fmt: skip
    y.check(1.5 * exact_sample(x.values, grid.values) - 0.5 * y.values, 10)


def test_identity_copies_and_nan_does_not_spread(side, rng):
    x, y = side.tensor(rng.uniform(-1, 1, OUTPUT)), side.blank(OUTPUT)
    theta = side.tensor(np.tile(np.eye(2, 3), (2, 1, 1)))
    grid = side.blank((2, 4, 5, 2))
    st = transformer(side)
    cudnn.spatial_tf_grid_generator_forward(side.handle, st, theta.data, grid.data)
    cudnn.spatial_tf_sampler_forward(side.handle, st, x.desc, x.data, grid.data, y.desc, y.data)
    y.check(x.values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sampler_backward(side, rng, dtype):
    x, grid = side.tensor(rng.uniform(-1, 1, INPUT), dtype), side.tensor(points(rng), dtype)
    dy = side.tensor(rng.uniform(-1, 1, OUTPUT), dtype)
    dx = side.tensor(rng.uniform(-1, 1, INPUT), dtype)
    dgrid = side.tensor(rng.uniform(-1, 1, (2, 4, 5, 2)), dtype)
    cudnn.spatial_tf_sampler_backward(
        side.handle, transformer(side, dtype), x.desc, x.data, dx.desc, dx.data, dy.desc, dy.data,
        grid.data, dgrid.data, alpha=0.5, beta=2.0, alpha_dgrid=-1.0, beta_dgrid=0.25,
    )  # fmt: skip
    slack = 1e6 if dtype == "float64" else 20  # differences are no more precise
    by_image = difference(lambda v: exact_sample(v, grid.values), x.values, dy.values)
    dx.check(0.5 * by_image + 2.0 * dx.values, slack)
    by_point = difference(lambda v: exact_sample(x.values, v), grid.values, dy.values)
    dgrid.check(-by_point + 0.25 * dgrid.values, slack)


def test_shapes_and_types_that_do_not_fit(side):
    st = transformer(side)
    x, y, grid = side.blank(INPUT), side.blank(OUTPUT), side.blank((2, 4, 5, 2))

    def forward(x, y, grid=grid):
        cudnn.spatial_tf_sampler_forward(side.handle, st, x.desc, x.data, grid.data, y.desc, y.data)

    for x_shape in ((3, 3, 6, 7), (2, 4, 6, 7), (2, 3, 6)):
        with pytest.raises(ValueError, match=r"x_desc must be \(2, 3\) and a height and width"):
            forward(side.blank(x_shape), y)
    with pytest.raises(ValueError, match=r"y_desc must have the transformer's shape"):
        forward(x, side.blank((2, 3, 4, 6)))
    with pytest.raises(TypeError, match="x_desc must have the transformer's dtype, float32"):
        forward(side.blank(INPUT, "float64"), y)
    with pytest.raises(ValueError, match="grid needs 320 bytes, got 312"):
        forward(x, y, side.blank((39, 2)))
    with pytest.raises(TypeError, match="grid holds float64, its descriptor says float32"):
        forward(x, y, side.blank((2, 4, 5, 2), "float64"))
    with pytest.raises(ValueError, match="dtheta needs 48 bytes, got 44"):
        cudnn.spatial_tf_grid_generator_backward(
            side.handle, st, grid.data, side.put(np.zeros(11, np.float32))
        )
    with pytest.raises(TypeError, match="transformer must be a SpatialTransformerDescriptor"):
        cudnn.spatial_tf_grid_generator_forward(side.handle, x.desc, grid.data, grid.data)
    with pytest.raises(ValueError, match=r"dx must have the shape of x, \(2, 3, 6, 7\)"):
        cudnn.spatial_tf_sampler_backward(
            side.handle, st, x.desc, x.data, y.desc, y.data, y.desc, y.data, grid.data, grid.data
        )


def test_descriptor(library):
    st = cudnn.SpatialTransformerDescriptor(OUTPUT, "float16", library=library)
    assert (st.shape, st.dtype) == (OUTPUT, np.float16)
    assert "shape=(2, 3, 4, 5), dtype=float16" in repr(st)
    assert st == cudnn.SpatialTransformerDescriptor(OUTPUT, "float16", library=library)
    assert st != cudnn.SpatialTransformerDescriptor(OUTPUT, library=library)
    for shape, text in (
        ((2, 0, 4, 5), r"shape\[1\] must be in \[1"),
        ((2, 3, -4, 5), r"shape\[2\] must be in \[1"),
        ((2, 3, 4), r"shape must be \(N, C, H, W\)"),
        ((1,) * 15, "shape must have 2 to 8 dimensions"),
        ((1,) * 8, r"shape must be \(N, C, H, W\)"),
    ):
        with pytest.raises(ValueError, match=text):
            cudnn.SpatialTransformerDescriptor(shape, library=library)
    with pytest.raises(ValueError, match="sampler must be a SamplerType"):
        cudnn.SpatialTransformerDescriptor(OUTPUT, sampler=1, library=library)
    with pytest.raises(TypeError, match="dtype must be one of float32, float64, float16"):
        cudnn.SpatialTransformerDescriptor(OUTPUT, "int8", library=library)
    st.close()
    assert "closed" in repr(st)
