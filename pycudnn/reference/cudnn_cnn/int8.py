"""Convolutions of 8-bit integers: which tensors go together, and their elements as numbers.

cuDNN sums products in int32; here float64 does, which holds the same integers. What becomes of a
sum is float32: it is scaled and blended, and for an int8 result rounded, to even where it lies in
the middle, and saturated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import DataType, ReorderType, TensorFormat

from ..cudnn_ops.vectors import joined, split
from ..descriptors import Filter, Tensor, packed_strides
from ..memory import view
from ..runtime import not_supported
from .descriptor import Convolution

Array = np.ndarray[Any, Any]

# Type of x -> that of w, and those that y can have.
_TYPES = {
    DataType.INT8: (DataType.INT8, (DataType.INT8, DataType.FLOAT)),
    DataType.UINT8: (DataType.INT8, (DataType.INT8, DataType.FLOAT)),
    DataType.INT8x4: (DataType.INT8x4, (DataType.INT8x4, DataType.FLOAT)),
    DataType.UINT8x4: (DataType.INT8x4, (DataType.INT8x4, DataType.FLOAT)),
    DataType.INT8x32: (DataType.INT8x32, (DataType.INT8x32,)),
}
_UNIT = 4  # channels come in fours


def is_int8(x: Tensor | Filter) -> bool:
    """Does a convolution of this input belong here?"""
    return x.dtype in _TYPES


def check_int8(conv: Convolution, x: Tensor, w: Filter, y: Tensor) -> None:
    """Types that go together; without vectors of channels all three must be channels-last."""
    w_type, y_types = _TYPES[x.dtype]
    if w.dtype != w_type or y.dtype not in y_types:
        raise not_supported(
            f"no convolution of {x.dtype.name} with {w.dtype.name} to {y.dtype.name}"
        )
    if conv.compute_type != DataType.INT32:
        raise not_supported(f"int8 needs compute type INT32, not {conv.compute_type.name}")
    if len(x.shape) != 4:
        raise not_supported(f"x is {x.shape}, must have 4 dimensions")
    if max(conv.dilation) > 1 and x.dtype != DataType.INT8x32:
        raise not_supported(f"only INT8x32 can be dilated, not {x.dtype.name}")
    if w.shape[1] % _UNIT or (y.dtype != DataType.FLOAT and w.shape[0] % _UNIT):
        raise not_supported(f"w is {w.shape}: int8 channels must be multiples of {_UNIT}")
    if x.width > 1:
        return
    nhwc = TensorFormat.NHWC
    if w.format != nhwc or any(t.strides != packed_strides(t.shape, nhwc) for t in (x, y)):
        raise not_supported("x, w and y of int8 must be packed in NHWC")


def load_input(x_desc: Tensor, x: int) -> Array:
    """(N, C, *space) as float64."""
    return joined(split(x, x_desc, "x")).astype(np.float64)


def load_weights(conv: Convolution, w_desc: Filter, w: int) -> Array:
    """(K, C, *window) as float64; NO_REORDER says that INT8x32 ones have been reordered."""
    array = split(w, w_desc, "w")
    if w_desc.dtype == DataType.INT8x32 and conv.reorder_type == ReorderType.NO_REORDER:
        array = _in_order(array)
    return joined(array).astype(np.float64)


def load_bias(conv: Convolution, w_desc: Filter, bias_desc: Tensor, bias: int) -> Array:
    """One number per filter, (1, K, 1, 1), reordered like the weights."""
    array = view(bias, bias_desc, "bias")
    if w_desc.dtype == DataType.INT8x32 and conv.reorder_type == ReorderType.NO_REORDER:
        array = array.reshape(-1, 2, 4, 4).swapaxes(1, 2).reshape(array.shape)
    return array


def reordered(weights: Array) -> Array:
    """Weights (K, C / 32, 32, R, S) as tensor cores read them, in one row.

    Of eight filters, those of even number come first; four channels of four filters lie side by
    side. The window is outside of both.
    """
    k, vectors, _, r, s = weights.shape
    parts = weights.reshape(k // 8, 4, 2, vectors, 8, 4, r, s)
    return parts.transpose(3, 6, 7, 0, 2, 4, 1, 5).ravel()


def _in_order(weights: Array) -> Array:
    """The inverse of `reordered`, from memory that a descriptor calls (K, C / 32, 32, R, S)."""
    k, vectors, _, r, s = weights.shape
    row = weights.transpose(0, 1, 3, 4, 2).reshape(vectors, r, s, k // 8, 2, 8, 4, 4)
    return row.transpose(3, 6, 4, 0, 5, 7, 1, 2).reshape(weights.shape)
