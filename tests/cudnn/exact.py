"""What cuDNN's functions compute, in float64 and as plainly as possible: the tests' yardstick.

Written apart from pycudnn/reference: loops over taps and windows, one definition each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

Array = np.ndarray


def taps(
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...],
    window: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap of the window: where it reads in x and which outputs it reaches.

    Shapes are spatial ones. Taps in the padding are left out.
    """
    for tap in itertools.product(*map(range, window)):
        in_slices, out_slices = [], []
        for axis, offset in enumerate(tap):
            start = offset * dilation[axis] - padding[axis]
            outputs = [
                o for o in range(y_shape[axis]) if 0 <= start + o * stride[axis] < x_shape[axis]
            ]
            if not outputs:
                break
            first, last = outputs[0], outputs[-1]
            out_slices.append(slice(first, last + 1))
            begin = start + first * stride[axis]
            end = start + last * stride[axis] + 1
            in_slices.append(slice(begin, end, stride[axis]))
        else:
            yield tap, tuple(in_slices), tuple(out_slices)


def _conv_taps(x: Array, w: Array, y_shape, settings) -> Iterator:
    flip = settings.get("flip", False)
    window = w.shape[2:]
    for tap, reads, writes in taps(
        x.shape[2:], y_shape[2:], window,
        settings["padding"], settings["stride"], settings["dilation"],
    ):  # fmt: skip
        index = tuple(s - 1 - t for s, t in zip(window, tap, strict=True)) if flip else tap
        yield (..., *index), (slice(None), slice(None), *reads), (slice(None), slice(None), *writes)


def _groups(x: Array, w: Array, groups: int):
    c, k = x.shape[1] // groups, w.shape[0] // groups
    for g in range(groups):
        yield slice(g * c, (g + 1) * c), slice(g * k, (g + 1) * k)


def convolution(x: Array, w: Array, y_shape: tuple[int, ...], groups: int = 1, **settings) -> Array:
    """y[n, k] = sum over c and taps of w[k, c, tap] x[n, c, moved]."""
    y = np.zeros(y_shape)
    for cs, ks in _groups(x, w, groups):
        xg, wg, yg = x[:, cs], w[ks], y[:, ks]
        for tap, reads, writes in _conv_taps(x, w, y_shape, settings):
            yg[writes] += np.einsum("kc,nc...->nk...", wg[tap], xg[reads])
    return y


def convolution_data(
    dy: Array, w: Array, x_shape: tuple[int, ...], groups: int = 1, **settings
) -> Array:
    """Gradient of the convolution's input."""
    dx = np.zeros(x_shape)
    for cs, ks in _groups(dx, w, groups):
        dxg, wg, dyg = dx[:, cs], w[ks], dy[:, ks]
        for tap, reads, writes in _conv_taps(dx, w, dy.shape, settings):
            dxg[reads] += np.einsum("kc,nk...->nc...", wg[tap], dyg[writes])
    return dx


def convolution_filter(
    x: Array, dy: Array, w_shape: tuple[int, ...], groups: int = 1, **settings
) -> Array:
    """Gradient of the convolution's filter."""
    dw = np.zeros(w_shape)
    for cs, ks in _groups(x, dw, groups):
        xg, dyg, dwg = x[:, cs], dy[:, ks], dw[ks]
        for tap, reads, writes in _conv_taps(x, dw, dy.shape, settings):
            axes = (0, *range(2, x.ndim))
            dwg[tap] += np.tensordot(dyg[writes], xg[reads], (axes, axes))
    return dw


def pooling(
    x: Array, y_shape: tuple[int, ...], mode: str, window, padding, stride
) -> tuple[Array, Array]:
    """The output and the number of elements inside each window."""
    ones = (1,) * len(window)
    count = np.zeros(y_shape)
    largest = np.full(y_shape, -np.inf)
    total = np.zeros(y_shape)
    for _, reads, writes in taps(x.shape[2:], y_shape[2:], window, padding, stride, ones):
        values, at = x[(..., *reads)], (..., *writes)
        count[at] += 1
        total[at] += values
        largest[at] = np.maximum(largest[at], values)
    if mode.startswith("MAX"):
        return largest, count
    if mode == "AVERAGE_COUNT_INCLUDE_PADDING":
        count = np.full(y_shape, float(np.prod(window)))
    return total / count, count


def pooling_gradient(x: Array, dy: Array, mode: str, window, padding, stride) -> Array:
    """Gradient of the input; the largest elements of a window must be unique."""
    y, count = pooling(x, dy.shape, mode, window, padding, stride)
    dx = np.zeros(x.shape)
    ones = (1,) * len(window)
    for _, reads, writes in taps(x.shape[2:], dy.shape[2:], window, padding, stride, ones):
        at = (..., *writes)
        if mode.startswith("MAX"):
            share = np.where(x[(..., *reads)] == y[at], dy[at], 0)
        else:
            share = dy[at] / count[at]
        dx[(..., *reads)] += share
    return dx


def activation(x: Array, mode: str, coefficient: float) -> Array:
    """The elementwise functions by their cuDNN names."""
    sigmoid = 1 / (1 + np.exp(-x))
    return {
        "SIGMOID": lambda: sigmoid,
        "RELU": lambda: np.where(x > 0, x, 0),
        "TANH": lambda: np.tanh(x),
        "CLIPPED_RELU": lambda: np.clip(x, 0, coefficient),
        "ELU": lambda: np.where(x > 0, x, coefficient * np.expm1(np.minimum(x, 0))),
        "IDENTITY": lambda: x,
        "SWISH": lambda: x / (1 + np.exp(-coefficient * x)),
    }[mode]()


def activation_gradient(x: Array, dy: Array, mode: str, coefficient: float) -> Array:
    """Central differences of the function itself; x away from kinks."""
    h = 1e-6
    up, down = activation(x + h, mode, coefficient), activation(x - h, mode, coefficient)
    return dy * (up - down) / (2 * h)


def softmax(x: Array, algorithm: str, mode: str) -> Array:
    """Over C for CHANNEL, over C, H, W for INSTANCE; LOG gives its logarithm."""
    axes = 1 if mode == "CHANNEL" else (1, 2, 3)
    shifted = x - x.max(axis=axes, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True))
    return logs if algorithm == "LOG" else np.exp(logs)


def softmax_gradient(y: Array, dy: Array, algorithm: str, mode: str) -> Array:
    """Gradient of the input from the output."""
    axes = 1 if mode == "CHANNEL" else (1, 2, 3)
    if algorithm == "LOG":
        return dy - np.exp(y) * dy.sum(axis=axes, keepdims=True)
    return y * (dy - (dy * y).sum(axis=axes, keepdims=True))
