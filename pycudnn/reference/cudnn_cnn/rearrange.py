"""Operands of a convolution in another order: patches as a matrix, int8 weights reordered."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import ConvolutionMode, DataType, ReorderType, TensorFormat

from ..convolution import Geometry, patches
from ..cudnn_graph import Handle
from ..cudnn_ops.checks import FLOATING
from ..descriptors import Filter, Tensor, packed_strides
from ..memory import load, raw, view
from ..runtime import bad_param, implements, not_supported
from .descriptor import Convolution, output_shape

Array = np.ndarray[Any, Any]


@implements("cudnnIm2Col")
def im2col(
    handle: Handle, x_desc: Tensor, x: int, w_desc: Filter, conv: Convolution, out: int
) -> None:
    """The matrix whose column (n, p, q) holds the elements (c, r, s) that y[n, :, p, q] sums up.

    As in cuDNN, CONVOLUTION turns the windows round.
    """
    _, _, *output = output_shape(conv, x_desc, w_desc)
    if len(x_desc.shape) != 4 or conv.groups > 1:
        raise not_supported(f"x is {x_desc.shape} with {conv.groups} groups: must be 4-d with one")
    if x_desc.dtype not in FLOATING:
        raise not_supported(f"x is {x_desc.dtype.name}, must be of a floating type")
    geometry = Geometry(
        batch=x_desc.shape[0],
        groups=1,
        channels=x_desc.shape[1],
        filters=w_desc.shape[0],
        image=x_desc.shape[2:],
        window=w_desc.shape[2:],
        output=tuple(output),
        padding=conv.padding,
        stride=conv.stride,
        dilation=conv.dilation,
    )
    windows = patches(geometry, view(x, x_desc, "x"))
    if conv.mode == ConvolutionMode.CONVOLUTION:
        windows = np.flip(windows, (1, 2))
    matrix = Tensor(
        x_desc.dtype, windows.shape, packed_strides(windows.shape, TensorFormat.NCHW)
    )
    view(out, matrix, "colBuffer")[...] = windows


def _bytes(address: int, size: int, name: str) -> Array:
    if not address:
        raise bad_param(f"{name} is NULL")
    return np.frombuffer(raw(address, size), np.int8)


@implements("cudnnReorderFilterAndBias")
def reorder_filter_and_bias(
    handle: Handle,
    w_desc: Filter,
    kind: int,
    w: int,
    reordered_w: int,
    with_bias: int,
    bias: int,
    reordered_bias: int,
) -> None:
    """INT8x32 weights as int8 tensor cores read them, and the bias of the same filters.

    Of eight filters, those of even number come first; four channels of four filters lie side by
    side. The window is outside of both.
    """
    if len(w_desc.shape) != 4:
        raise bad_param(f"w has shape {w_desc.shape}, must have 4 dimensions")
    if w_desc.dtype != DataType.INT8x32:
        raise not_supported(f"w is {w_desc.dtype.name}, must be INT8x32")
    if kind not in tuple(ReorderType):
        raise bad_param(f"reorderType is {kind}, must be 0 or 1")
    k, c, r, s = w_desc.shape
    if k % 32:
        raise not_supported(f"w has {k} filters: cuDNN reorders multiples of 32 rightly")
    source = _bytes(w, k * c * r * s, "filterData").copy()
    out = _bytes(reordered_w, k * c * r * s, "reorderedFilterData")
    if kind == ReorderType.NO_REORDER:
        out[...] = source
    else:
        parts = source.reshape(k // 8, 4, 2, c // 32, r, s, 8, 4)
        out[...] = parts.transpose(3, 4, 5, 0, 2, 6, 1, 7).ravel()
    if with_bias:
        numbers = Tensor(DataType.FLOAT, (k,), (1,))
        values = load(bias, numbers, "biasData").reshape(-1, 4, 2, 4).transpose(0, 2, 1, 3)
        view(reordered_bias, numbers, "reorderedBiasData")[...] = values.ravel()
