"""What the layers compute, in NumPy and float64, and derivatives by finite differences.

Written from the definitions, apart from both the layers and the reference library.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from layers import Blob, CudaContext

Array = np.ndarray


def blob_of(array: Array, context: CudaContext) -> Blob:
    """A blob with these values on the device; up to four dimensions."""
    shape = array.shape + (1,) * (4 - array.ndim)
    blob = Blob(*shape, context=context)
    blob.ptr[...] = array.reshape(shape)
    blob.to("cuda")
    return blob


def one_hot(labels: Array, classes: int = 10) -> Array:
    """Rows with a 1 at the label."""
    return np.eye(classes)[labels]


def dense(x: Array, w: Array, b: Array) -> Array:
    """w (out, in) times each sample, flattened, plus b (out,)."""
    return (x.reshape(len(x), -1) @ w.T + b)[:, :, None, None]


def convolution(
    x: Array, w: Array, b: Array, stride: int = 1, padding: int = 0, dilation: int = 1,
    groups: int = 1,
) -> Array:  # fmt: skip
    """Cross-correlation of x (n, c, h, w) with w (k, c / groups, r, s), plus b (k,)."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, c, height, width = x.shape
    k, per_group, r, s = w.shape
    out_h = (height - dilation * (r - 1) - 1) // stride + 1
    out_w = (width - dilation * (s - 1) - 1) // stride + 1
    y = np.zeros((n, k, out_h, out_w))
    for i, j in np.ndindex(out_h, out_w):
        top, left = i * stride, j * stride
        patch = x[:, :, top : top + dilation * r : dilation, left : left + dilation * s : dilation]
        for g in range(groups):
            outs = slice(g * k // groups, (g + 1) * k // groups)
            ins = patch[:, g * per_group : (g + 1) * per_group]
            y[:, outs, i, j] = np.tensordot(ins, w[outs], axes=((1, 2, 3), (1, 2, 3)))
    return y + b.reshape(k, 1, 1)


def pooling(x: Array, window: int, padding: int, stride: int, how: str) -> Array:
    """Maximum ("max"), or average over the window with ("include") or without padding."""
    empty = -np.inf if how == "max" else np.nan if how == "exclude" else 0
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=empty)
    n, c, height, width = x.shape
    y = np.zeros((n, c, (height - window) // stride + 1, (width - window) // stride + 1))
    reduce = {"max": np.max, "include": np.mean, "exclude": np.nanmean}[how]
    for i, j in np.ndindex(*y.shape[2:]):
        patch = x[:, :, i * stride : i * stride + window, j * stride : j * stride + window]
        y[:, :, i, j] = reduce(patch, axis=(2, 3))
    return y


def softmax(x: Array) -> Array:
    """Over axis 1."""
    exponents = np.exp(x - x.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def cross_entropy(logits: Array, target: Array) -> float:
    """Mean over the samples of -sum(target * log softmax)."""
    logits, target = logits.reshape(len(logits), -1), target.reshape(len(target), -1)
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-(np.where(target != 0, target * log_softmax, 0)).sum(axis=1).mean())


def finite_differences(f: Callable[[Array], float], at: Array, step: float = 1e-5) -> Array:
    """Gradient of f by central differences, one element at a time."""
    at = at.astype(np.float64)
    gradient = np.zeros_like(at)
    for index in np.ndindex(*at.shape):
        value = at[index]
        at[index] = value + step
        above = f(at)
        at[index] = value - step
        gradient[index] = (above - f(at)) / (2 * step)
        at[index] = value
    return gradient


def assert_close(actual: Array, wanted: Array, tolerance: float = 2e-5) -> None:
    """Equal up to float32 rounding of sums, relative to the largest value wanted."""
    wanted = np.asarray(wanted)
    actual = np.asarray(actual)
    assert actual.size == wanted.size  # a blob's shape has four dimensions, an array's may not
    scale = max(float(np.abs(wanted).max(initial=0)), 1e-3)
    np.testing.assert_allclose(actual.reshape(wanted.shape), wanted, rtol=0, atol=tolerance * scale)
