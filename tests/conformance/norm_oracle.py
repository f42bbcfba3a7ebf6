"""What the normalizations compute, in float64, for tests and conformance problems.

Windows are spelled out as sums over pairs of elements, gradients as derivatives of those sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Batch(NamedTuple):
    """Batch normalization of x, and what it was made with."""

    y: Array
    mean: Array
    variance: Array  # divided by the number of elements
    inverse: Array  # 1 / sqrt(variance + epsilon)
    count: int

    @property
    def unbiased(self) -> Array:
        """The variance that the running one takes."""
        return self.variance * self.count / (self.count - 1)


def batch_axes(ndim: int, per_activation: bool) -> tuple[int, ...]:
    """The dimensions that share a mean."""
    return (0,) if per_activation else tuple(axis for axis in range(ndim) if axis != 1)


def parameter_shape(shape: tuple[int, ...], per_activation: bool) -> tuple[int, ...]:
    """Shape of scale, bias and statistics."""
    axes = batch_axes(len(shape), per_activation)
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def batch_normalization(
    x: Array, scale: Array, bias: Array, per_activation: bool, epsilon: float
) -> Batch:
    """Forward in training."""
    axes = batch_axes(x.ndim, per_activation)
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    inverse = (variance + epsilon) ** -0.5
    count = int(np.prod([x.shape[axis] for axis in axes]))
    return Batch(scale * inverse * (x - mean) + bias, mean, variance, inverse, count)


def batch_normalization_gradients(
    x: Array, dy: Array, scale: Array, per_activation: bool, epsilon: float
) -> tuple[Array, Array, Array]:
    """Of x, scale and bias, by the chain rule through mean and variance."""
    axes = batch_axes(x.ndim, per_activation)
    batch = batch_normalization(x, scale, np.zeros_like(scale), per_activation, epsilon)
    off = x - batch.mean
    dscale = (dy * off * batch.inverse).sum(axes, keepdims=True)
    dbias = dy.sum(axes, keepdims=True)
    dvariance = (dy * scale * off).sum(axes, keepdims=True) * -0.5 * batch.inverse**3
    dmean = -(dy * scale).sum(axes, keepdims=True) * batch.inverse
    dx = dy * scale * batch.inverse + dvariance * 2 * off / batch.count + dmean / batch.count
    return dx, dscale, dbias


def pairs(
    shape: tuple[int, ...], axes: tuple[int, ...], n: int
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For each offset in a window of n along the axes: the centres, and their neighbours there."""
    behind = (n - 1) // 2
    for offsets in itertools.product(range(-behind, n - behind), repeat=len(axes)):
        centre, neighbour = [slice(None)] * len(shape), [slice(None)] * len(shape)
        for axis, offset in zip(axes, offsets, strict=True):
            size = shape[axis]
            centre[axis] = slice(max(0, -offset), max(0, min(size, size - offset)))
            neighbour[axis] = slice(max(0, offset), max(0, min(size, size + offset)))
        yield tuple(centre), tuple(neighbour)


class Window(NamedTuple):
    """Settings of an LRN descriptor and the axes of its window."""

    n: int
    alpha: float
    beta: float
    k: float
    axes: tuple[int, ...]

    def base(self, x: Array, means: Array) -> Array:
        """k + alpha / count * the sum of squared deviations from the centre's mean."""
        total = np.zeros_like(x)
        for centre, neighbour in pairs(x.shape, self.axes, self.n):
            total[centre] += (x[neighbour] - means[centre]) ** 2
        return self.k + self.alpha / self.n ** len(self.axes) * total

    def normalize(self, x: Array, means: Array) -> Array:
        """x / base ** beta."""
        return x * self.base(x, means) ** -self.beta

    def gradients(self, x: Array, means: Array, dy: Array) -> tuple[Array, Array]:
        """Of x and of means."""
        base = self.base(x, means)
        dx, dmeans = dy * base**-self.beta, np.zeros_like(x)
        dbase = dy * x * -self.beta * base ** (-self.beta - 1)
        weight = 2 * self.alpha / self.n ** len(self.axes)
        for centre, neighbour in pairs(x.shape, self.axes, self.n):
            share = weight * dbase[centre] * (x[neighbour] - means[centre])
            dx[neighbour] += share
            dmeans[centre] -= share
        return dx, dmeans
