"""Convolution in NumPy: what the algorithms of ``cudnn_cnn`` compute, free of any C.

For images x of shape (N, C, H, W) and filters w of shape (K, C, R, S) the output is, with x taken
as 0 outside the image::

    y[n, k, p, q] = sum over c, r, s of
        w[k, c, r, s] * x[n, c, p * stride + r * dilation - padding, q * stride + ... - padding]

That is CROSS_CORRELATION; mode CONVOLUTION turns each filter round, w[k, c, R-1-r, S-1-s]. With
groups, channels and filters are cut into as many parts, and each part of the filters sees its
part of the channels only. Spatial dimensions are all alike, so the code never says H or W: where
it says (…, *window, *output, n), two dimensions mean (…, R, S, P, Q, n).

The sum is a matrix product, (K x CRS) by (CRS x PQN), once each output position has its window of
the image as a column. The algorithms differ in how they come by these columns. All of them work on
tiles: a few images at a time, padded, in the type to compute in, and *with the image index
innermost*. In that order neighbouring window positions of all images of a tile lie in one run,
which is cheap to collect, and one large product serves the whole tile. Copying into and out of
tiles absorbs strides, layouts and half types as well.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .memory import blend, compute_dtype
from .parallel import WORKERS, cut, each, matmul

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

_TILE_BYTES = 2 * 2**20  # for the largest array of a tile, which should stay in cache
_WORTH_A_THREAD = 2**19  # bytes of that array


@dataclass(frozen=True)
class Geometry:
    """The sizes of one convolution; tuples have an entry for each spatial dimension."""

    batch: int
    groups: int
    channels: int  # per group
    filters: int  # per group
    image: Sizes
    window: Sizes
    output: Sizes
    padding: Sizes
    stride: Sizes
    dilation: Sizes
    turned: bool = False  # CONVOLUTION: filters are turned round

    @property
    def reach(self) -> Sizes:
        """From the first element of a window to its last: dilation * (window - 1)."""
        return tuple(d * (r - 1) for d, r in zip(self.dilation, self.window, strict=True))

    @property
    def padded(self) -> Sizes:
        """The image with the zeros before it, and with those behind it that a window covers."""
        sizes = zip(self.image, self.padding, self.output, self.stride, self.reach, strict=True)
        return tuple(
            max(padding + image, (output - 1) * stride + reach + 1)
            for image, padding, output, stride, reach in sizes
        )

    @property
    def taps(self) -> int:
        """Elements of a window, all channels of its group: the rows of the column matrix."""
        return self.channels * math.prod(self.window)

    @property
    def columns_per_image(self) -> int:
        """Elements that one image adds to the column matrices of all groups."""
        return self.groups * self.taps * math.prod(self.output)

    @property
    def table(self) -> Sizes:
        """The shape of a :func:`window_table`."""
        return (*self.window, *self.output)


def output_size(image: int, window: int, padding: int, stride: int, dilation: int) -> int:
    """Output positions along one dimension; below 1 if the window does not fit.

    >>> output_size(28, 5, 0, 1, 1)
    24
    """
    return (image + 2 * padding - dilation * (window - 1) - 1) // stride + 1


# --- tiles ---------------------------------------------------------------------------------------


def _tiles(geometry: Geometry, elements: int, dtype: np.dtype[Any]) -> list[slice]:
    """The batch in tiles, of which the largest array has so many elements for each image.

    Every core gets as many tiles, and enough to do.
    """
    size = geometry.batch * elements * dtype.itemsize
    cores = max(1, min(WORKERS, size // _WORTH_A_THREAD))
    return cut(geometry.batch, cores * math.ceil(size / _TILE_BYTES / cores))


def _tile(images: Array, groups: int, dtype: np.dtype[Any]) -> Array:
    """(n, groups * C, *spatial) as a contiguous (groups, C, *spatial, n)."""
    tile = np.ascontiguousarray(np.moveaxis(images, 0, -1), dtype)
    return tile.reshape(groups, -1, *tile.shape[1:])


def _images(tile: Array) -> Array:
    """The inverse of `_tile`, as a view."""
    return np.moveaxis(tile.reshape(-1, *tile.shape[2:]), -1, 0)


def _padded_tile(
    geometry: Geometry, images: Array, dtype: np.dtype[Any], spacing: Sizes | None = None
) -> Array:
    """Images among zeros, (groups, C, *padded, n); `spacing` sets their elements apart."""
    if geometry.padded == images.shape[2:]:
        return _tile(images, geometry.groups, dtype)
    tile = np.zeros((geometry.groups, geometry.channels, *geometry.padded, len(images)), dtype)
    steps = spacing or (1,) * len(geometry.window)
    places = tuple(
        slice(padding, padding + (size - 1) * step + 1, step)
        for size, padding, step in zip(images.shape[2:], geometry.padding, steps, strict=True)
    )
    _images(tile)[np.index_exp[:, :] + places] = images
    return tile


def _image_part(geometry: Geometry, tile: Array) -> Array:
    """Padded tile without its padding, as images (n, C, *image)."""
    sizes = zip(geometry.image, geometry.padding, strict=True)
    part = tuple(slice(padding, padding + size) for size, padding in sizes)
    return _images(tile)[np.index_exp[:, :] + part]


def _windows(geometry: Geometry, tile: Array) -> Array:
    """All windows of a padded tile, as a view: (groups, C, *window, *output, n).

    An element that several windows cover appears in each of them.
    """
    group, channel, *spatial, image = tile.strides
    within = [d * step for d, step in zip(geometry.dilation, spatial, strict=True)]
    between = [u * step for u, step in zip(geometry.stride, spatial, strict=True)]
    return as_strided(
        tile,
        (*tile.shape[:2], *geometry.window, *geometry.output, tile.shape[-1]),
        (group, channel, *within, *between, image),
    )


def _columns(
    geometry: Geometry,
    images: Array,
    out: Array | None = None,
    table: Array | None = None,
    spacing: Sizes | None = None,
) -> Array:
    """The columns of some images as a matrix for each group, (groups, CRS, PQn).

    They go into the memory `out` if it is given. `table` says to collect them by a
    :func:`window_table`, `spacing` sets the elements of the images apart.
    """
    tile = _padded_tile(geometry, images, compute_dtype(images.dtype), spacing)
    if out is None:
        out = np.empty(len(images) * geometry.columns_per_image, tile.dtype)
    if table is None:
        windows = _windows(geometry, tile)
        np.copyto(out.reshape(windows.shape), windows)
    else:
        planes = tile.reshape(geometry.groups * geometry.channels, -1, len(images))
        places = out.reshape(len(planes), table.size, len(images))
        np.take(planes, table.reshape(-1), axis=1, out=places, mode="clip")
    return out.reshape(geometry.groups, geometry.taps, -1)


def patches(geometry: Geometry, images: Array) -> Array:
    """What each window sees, (C, *window, n, *output), of images with one group; a view."""
    windows = _windows(geometry, _padded_tile(geometry, images, images.dtype))[0]
    return np.moveaxis(windows, -1, 1 + len(geometry.window))


def window_table(geometry: Geometry, table: Array) -> None:
    """Fill `table`, (*window, *output): which element of a padded channel stands where."""
    positions = np.arange(math.prod(geometry.padded)).reshape(1, 1, *geometry.padded, 1)
    np.copyto(table, _windows(geometry, positions)[0, 0, ..., 0])


# --- filters -------------------------------------------------------------------------------------


def _turned(w: Array) -> Array:
    """Each filter turned round in all its spatial dimensions, as a view."""
    return np.flip(w, tuple(range(2, w.ndim)))


def _filter_matrices(geometry: Geometry, w: Array) -> Array:
    """Filters (K, C, *window) as one matrix for each group, (groups, K, CRS)."""
    oriented = _turned(w) if geometry.turned else w
    matrices = np.ascontiguousarray(oriented, compute_dtype(w.dtype))
    return matrices.reshape(geometry.groups, geometry.filters, geometry.taps)


def _store_filters(geometry: Geometry, dw: Array, result: Array, alpha: float, beta: float) -> None:
    """Blend (groups, K, CRS) into filters (K, C, *window)."""
    result = result.reshape(dw.shape)
    blend(dw, _turned(result) if geometry.turned else result, alpha, beta)


# --- forward -------------------------------------------------------------------------------------


def forward(
    geometry: Geometry,
    x: Array,
    w: Array,
    y: Array,
    alpha: float,
    beta: float,
    columns: Array | None = None,
    table: Array | None = None,
) -> None:
    """``y = alpha * conv(x, w) + beta * y``: for each tile, filters times columns."""
    filters = _filter_matrices(geometry, w)
    shape = (geometry.groups, geometry.filters, *geometry.output, -1)

    def compute(images: slice) -> None:
        product = matmul(filters, _columns(geometry, x[images], columns, table))
        blend(y[images], _images(product.reshape(shape)), alpha, beta)

    if columns is not None:
        compute(slice(0, geometry.batch))
    else:
        each(compute, _tiles(geometry, geometry.columns_per_image, filters.dtype))


# --- backward data -------------------------------------------------------------------------------


def _output_gradients(geometry: Geometry, dy: Array, dtype: np.dtype[Any]) -> Array:
    """Gradients of the outputs of some images as a matrix for each group, (groups, K, PQn)."""
    tile = _tile(dy, geometry.groups, dtype)
    return tile.reshape(geometry.groups, geometry.filters, -1)


def backward_data_scattered(
    geometry: Geometry, w: Array, dy: Array, dx: Array, alpha: float, beta: float
) -> None:
    """``dx = alpha * (gradient of x) + beta * dx``, in the order of the forward pass reversed.

    Transposed filters times output gradients give the gradients of the columns; each goes back to
    the element that it was copied from, and there the sum is taken.
    """
    filters = _filter_matrices(geometry, w).transpose(0, 2, 1)
    tile_shape = (geometry.groups, geometry.channels, *geometry.padded)

    def compute(images: slice) -> None:
        gradients = _output_gradients(geometry, dy[images], filters.dtype)
        tile = np.zeros((*tile_shape, images.stop - images.start), filters.dtype)
        windows = _windows(geometry, tile)
        columns = matmul(filters, gradients).reshape(windows.shape)
        for tap in np.ndindex(geometry.window):  # no element occurs twice within one tap
            at = np.index_exp[:, :] + tap
            windows[at] += columns[at]
        blend(dx[images], _image_part(geometry, tile), alpha, beta)

    each(compute, _tiles(geometry, geometry.columns_per_image, filters.dtype))


def backward_data_gathered(
    geometry: Geometry, w: Array, dy: Array, dx: Array, alpha: float, beta: float
) -> None:
    """``dx = alpha * (gradient of x) + beta * dx``, as the forward pass of another convolution.

    An element of x collects from all windows that covered it: that is a convolution over dy,
    set apart by the stride and padded by the reach of a window, with filters turned round and
    their two channel dimensions exchanged.
    """
    transposed = Geometry(
        batch=geometry.batch,
        groups=geometry.groups,
        channels=geometry.filters,
        filters=geometry.channels,
        image=tuple((p - 1) * u + 1 for p, u in zip(geometry.output, geometry.stride, strict=True)),
        window=geometry.window,
        output=geometry.padded,
        padding=geometry.reach,
        stride=(1,) * len(geometry.window),
        dilation=geometry.dilation,
    )
    filters = w if geometry.turned else _turned(w)
    filters = filters.reshape(
        geometry.groups, geometry.filters, geometry.channels, *geometry.window
    ).swapaxes(1, 2)
    filters = _filter_matrices(transposed, filters)
    shape = (geometry.groups, geometry.channels, *geometry.padded, -1)

    def compute(images: slice) -> None:
        columns = _columns(transposed, dy[images], spacing=geometry.stride)
        product = matmul(filters, columns).reshape(shape)
        blend(dx[images], _image_part(geometry, product), alpha, beta)

    each(compute, _tiles(transposed, transposed.columns_per_image, filters.dtype))


# --- backward filter -----------------------------------------------------------------------------


def _sum_over_tiles(compute: Callable[[slice], Array], tiles: list[slice]) -> Array:
    """The sum of what `compute` returns, always taken in the same order."""

    def subtotal(part: slice) -> Array:
        return functools.reduce(operator.iadd, map(compute, tiles[part]))

    return functools.reduce(operator.iadd, each(subtotal, cut(len(tiles), WORKERS)))


def backward_filter(
    geometry: Geometry,
    x: Array,
    dy: Array,
    dw: Array,
    alpha: float,
    beta: float,
    table: Array | None = None,
) -> None:
    """``dw = alpha * (gradient of w) + beta * dw``: output gradients times transposed columns."""
    dtype = compute_dtype(x.dtype)

    def compute(images: slice) -> Array:
        columns = _columns(geometry, x[images], table=table)
        gradients = _output_gradients(geometry, dy[images], dtype)
        return matmul(gradients, columns.transpose(0, 2, 1))

    tiles = _tiles(geometry, geometry.columns_per_image, dtype)
    _store_filters(geometry, dw, _sum_over_tiles(compute, tiles), alpha, beta)


def backward_filter_by_taps(
    geometry: Geometry, x: Array, dy: Array, dw: Array, alpha: float, beta: float
) -> None:
    """``dw = alpha * (gradient of w) + beta * dw`` without columns: a product for each tap.

    The gradient of the weights at one place of the window needs only the elements of x that meet
    that place.
    """
    dtype = compute_dtype(x.dtype)
    groups, filters, channels = geometry.groups, geometry.filters, geometry.channels

    def compute(images: slice) -> Array:
        gradients = _output_gradients(geometry, dy[images], dtype)
        windows = _windows(geometry, _padded_tile(geometry, x[images], dtype))
        result = np.empty((groups, filters, channels, *geometry.window), dtype)
        for tap in np.ndindex(geometry.window):
            met = windows[np.index_exp[:, :] + tap].reshape(groups, channels, -1)
            result[np.index_exp[:, :, :] + tap] = matmul(gradients, met.transpose(0, 2, 1))
        return result

    tiles = _tiles(geometry, groups * channels * math.prod(geometry.padded), dtype)
    _store_filters(geometry, dw, _sum_over_tiles(compute, tiles), alpha, beta)


# --- backward bias -------------------------------------------------------------------------------


def backward_bias(dy: Array, db: Array, alpha: float, beta: float) -> None:
    """``db = alpha * (sum of dy over all but the channels) + beta * db``."""
    # Each image for itself: one sum over a channels-last batch would drift, NumPy adds up in order.
    images = dy.sum(axis=tuple(range(2, dy.ndim)), dtype=compute_dtype(dy.dtype), keepdims=True)
    total = images.sum(axis=0, dtype=np.float64, keepdims=True)
    blend(db, total, alpha, beta)
