"""Convolution and its two gradients in NumPy, as matrix products.

For every output position and every tap of the filter, one element of the (padded) input is read.
Written out as a matrix with a row per channel and tap and a column per output position, called
``columns`` here, the input turns all three directions into products of matrices:

    y  = w @ columns(x)         forward
    dw = dy @ columns(x).T      gradient of the filter
    dx = fold(w.T @ dy)         gradient of the input; fold adds each column element back to where
                                columns read it

The batch is cut into chunks whose columns stay in the cache, and its axis is moved innermost, so
that every copy runs over contiguous memory whatever the stride of the convolution.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

Array = np.ndarray[Any, Any]

# Elements of one chunk's columns: 4 MiB of float32, about a second-level cache.
_CHUNK_ELEMENTS = 1 << 20


class Geometry(NamedTuple):
    """How the filter moves: one entry per spatial axis, and the number of channel groups."""

    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    flip: bool = False  # a true convolution turns the filter around


def output_shape(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], geometry: Geometry
) -> tuple[int, ...]:
    """(N, K, *spatial) of the output; entries below 1 where the filter does not fit."""
    spatial = (
        1 + (x + 2 * pad - ((w - 1) * dilation + 1)) // stride
        for x, w, pad, stride, dilation in zip(
            x_shape[2:], w_shape[2:], geometry.padding, geometry.stride, geometry.dilation,
            strict=True,
        )
    )  # fmt: skip
    return (x_shape[0], w_shape[0], *spatial)


def columns_bytes(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], y_shape: tuple[int, ...], item_bytes: int
) -> int:
    """Size of one chunk's columns."""
    return (
        _chunk(x_shape, w_shape, y_shape)
        * _column_elements(x_shape, w_shape, y_shape)
        * (item_bytes)
    )


def forward(x: Array, w: Array, geometry: Geometry, out: Array) -> None:
    """Write conv(x, w) into `out`."""
    plan = _Plan(x, w.shape, out.shape, geometry)
    weights = plan.matrix(_oriented(w, geometry))
    for samples in plan.chunks():
        product = np.matmul(weights, plan.columns(x[samples]))
        out[samples] = plan.outputs_from(product)


def backward_data(dy: Array, w: Array, geometry: Geometry, out: Array) -> None:
    """Write the gradient of the input into `out`."""
    plan = _Plan(out, w.shape, dy.shape, geometry)
    weights = plan.matrix(_oriented(w, geometry)).transpose(0, 2, 1)
    for samples in plan.chunks():
        out[samples] = plan.fold(np.matmul(weights, plan.outputs(dy[samples])))


def backward_filter(x: Array, dy: Array, geometry: Geometry, out: Array) -> None:
    """Write the gradient of the filter into `out`."""
    plan = _Plan(x, out.shape, dy.shape, geometry)
    total = np.zeros((plan.groups, out.shape[0] // plan.groups, plan.rows), x.dtype)
    for samples in plan.chunks():
        columns = plan.columns(x[samples])
        total += np.matmul(plan.outputs(dy[samples]), columns.transpose(0, 2, 1))
    out[...] = _oriented(total.reshape(out.shape), geometry)


def _oriented(w: Array, geometry: Geometry) -> Array:
    return np.flip(w, range(2, w.ndim)) if geometry.flip else w


def _column_elements(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], y_shape: tuple[int, ...]
) -> int:
    """Elements of one sample's columns."""
    return x_shape[1] * math.prod(w_shape[2:]) * math.prod(y_shape[2:])


def _chunk(x_shape: tuple[int, ...], w_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> int:
    """Samples of one chunk."""
    fitting = _CHUNK_ELEMENTS // _column_elements(x_shape, w_shape, y_shape)
    return min(max(1, fitting), x_shape[0])


class _Plan:
    """Sizes and scratch memory that the chunks of one convolution share."""

    def __init__(
        self, x: Array, w_shape: tuple[int, ...], y_shape: tuple[int, ...], geometry: Geometry
    ) -> None:
        self.geometry = geometry
        self.groups = geometry.groups
        self.batch, self.channels, *self.space = x.shape
        self.window = w_shape[2:]
        self.rows = w_shape[1] * math.prod(self.window)
        self.y_space = y_shape[2:]
        self.chunk = _chunk(x.shape, w_shape, y_shape)
        padded = (size + 2 * pad for size, pad in zip(self.space, geometry.padding, strict=True))
        self._padded = np.zeros((self.channels, *padded, self.chunk), x.dtype)
        self._interior = (
            slice(None),
            *(
                slice(pad, pad + size)
                for size, pad in zip(self.space, geometry.padding, strict=True)
            ),
        )
        self._columns = np.empty((self.channels, *self.window, *self.y_space, self.chunk), x.dtype)
        self._outputs = np.empty((y_shape[1], *self.y_space, self.chunk), x.dtype)

    def chunks(self) -> Iterator[slice]:
        """Slices of the batch; the last one may be smaller."""
        for start in range(0, self.batch, self.chunk):
            yield slice(start, min(start + self.chunk, self.batch))

    def matrix(self, w: Array) -> Array:
        """The filter as (group, K / groups, channels and taps)."""
        return np.ascontiguousarray(w).reshape(self.groups, -1, self.rows)

    def columns(self, x: Array) -> Array:
        """What each output position reads: (group, channels and taps, positions and samples)."""
        count = len(x)
        padded = self._padded[..., :count]
        padded[self._interior] = np.moveaxis(x, 0, -1)
        channel, *steps, sample = padded.strides
        taps = [
            step * dilation for step, dilation in zip(steps, self.geometry.dilation, strict=True)
        ]
        moves = [step * stride for step, stride in zip(steps, self.geometry.stride, strict=True)]
        windows = as_strided(
            padded,
            (self.channels, *self.window, *self.y_space, count),
            (channel, *taps, *moves, sample),
        )
        columns = self._scratch(self._columns, count)
        np.copyto(columns, windows)
        return columns.reshape(self.groups, self.rows, -1)

    def outputs(self, y: Array) -> Array:
        """An output-shaped chunk as (group, K / groups, positions and samples)."""
        outputs = self._scratch(self._outputs, len(y))
        np.copyto(outputs, np.moveaxis(y, 0, -1))
        return outputs.reshape(self.groups, len(outputs) // self.groups, -1)

    def outputs_from(self, product: Array) -> Array:
        """The reverse of outputs: a product as (samples, K, *spatial)."""
        channels = product.shape[0] * product.shape[1]
        return np.moveaxis(product.reshape(channels, *self.y_space, -1), -1, 0)

    def fold(self, columns: Array) -> Array:
        """Add columns up where they were read: (samples, C, *spatial)."""
        columns = columns.reshape(self.channels, *self.window, *self.y_space, -1)
        count = columns.shape[-1]
        padded = self._padded[..., :count]
        padded[...] = 0
        for tap in itertools.product(*map(range, self.window)):
            reads = (
                slice(offset * dilation, offset * dilation + (size - 1) * stride + 1, stride)
                for offset, dilation, stride, size in zip(
                    tap, self.geometry.dilation, self.geometry.stride, self.y_space, strict=True
                )
            )
            padded[(slice(None), *reads)] += columns[(slice(None), *tap)]
        return np.moveaxis(padded[self._interior], -1, 0)

    @staticmethod
    def _scratch(memory: Array, count: int) -> Array:
        """Scratch for `count` samples, contiguous also in a last, smaller chunk."""
        if memory.shape[-1] == count:
            return memory
        return np.empty((*memory.shape[:-1], count), memory.dtype)
