"""Operands of a convolution in another order: patches as a matrix, int8 weights reordered."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import ConvolutionMode, DataType, ReorderType, TensorFormat

from ..convolution import Geometry, patches
from ..cudnn_graph import Handle
from ..cudnn_ops.checks import FLOATING
from ..cudnn_ops.vectors import split
from ..descriptors import Filter, Tensor, packed_strides
from ..memory import load, view
from ..runtime import bad_param, implements, not_supported
from .descriptor import Convolution, output_shape
from .int8 import reordered

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
    """INT8x32 weights as int8 tensor cores read them, and the bias of the same filters."""
    if len(w_desc.shape) != 4:
        raise bad_param(f"w has shape {w_desc.shape}, must have 4 dimensions")
    if w_desc.dtype != DataType.INT8x32:
        raise not_supported(f"w is {w_desc.dtype.name}, must be INT8x32")
    if kind not in tuple(ReorderType):
        raise bad_param(f"reorderType is {kind}, must be 0 or 1")
    k = w_desc.shape[0]
    if k % 32:
        raise not_supported(f"w has {k} filters: cuDNN reorders multiples of 32 rightly")
    weights, out = split(w, w_desc, "filterData"), split(reordered_w, w_desc, "reorderedFilterData")
    row = np.moveaxis(out, 2, -1).reshape(-1)  # as it lies in memory
    if kind == ReorderType.NO_REORDER:
        row[...] = np.moveaxis(weights, 2, -1).reshape(-1)
    else:
        row[...] = reordered(weights)
    if with_bias:
        numbers = Tensor(DataType.FLOAT, (k,), (1,))
        values = load(bias, numbers, "biasData").reshape(-1, 4, 2, 4).transpose(0, 2, 1, 3)
        view(reordered_bias, numbers, "reorderedBiasData")[...] = values.ravel()
