"""Operands of a convolution in another order: patches as a matrix, int8 weights reordered."""

from __future__ import annotations

import math
from typing import Any

from pycudnn import _core
from pycudnn._core import get_convolution_forward_output_dim
from pycudnn.abi.cudnn_enums import DataType, ReorderType
from pycudnn.cudnn._objects import member, require
from pycudnn.cudnn.convolution import ConvolutionDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import FilterDescriptor, TensorDescriptor
from pycudnn.libraries import Library


def im2col(
    handle: Handle,
    x_desc: TensorDescriptor,
    x: Any,
    w_desc: FilterDescriptor,
    conv: ConvolutionDescriptor,
    columns: Any,
) -> None:
    """The patches that a convolution's filters see, as a matrix (cudnnIm2Col).

    ``columns`` takes the matrix, packed, of x's dtype: a row per weight (c, r, s), a column per
    output pixel (n, p, q), so that filters as a matrix (K, C * R * S) times this are the
    convolution. Mode CONVOLUTION turns the windows round. x and the weights are 4-d.

    ValueError where the window is larger than the padded input, or ``columns`` is too small;
    CudnnNotSupported for groups, and for dtypes that are not floating.
    """
    require(handle, Handle, "handle")
    n, _, p, q = _output_shape(x_desc, w_desc, conv)
    matrix = math.prod(w_desc.shape[1:]), n * p * q
    columns_desc = TensorDescriptor(matrix, DataType(x_desc.dtype_code), library=handle.library)
    with _core.ColdCall(handle.library, handle) as call:
        x_at = call.operand(x, "x", False, x_desc)
        columns_at = call.operand(columns, "columns", True, columns_desc)
        call.keep_apart()
        call("cudnnIm2Col", handle, x_desc, x_at, w_desc, conv, columns_at)


def _output_shape(
    x_desc: TensorDescriptor, w_desc: FilterDescriptor, conv: ConvolutionDescriptor
) -> tuple[int, ...]:
    require(x_desc, TensorDescriptor, "x_desc")
    require(w_desc, FilterDescriptor, "w_desc")
    require(conv, ConvolutionDescriptor, "conv")
    if len(x_desc.shape) != 4:
        raise ValueError(f"x_desc must be (N, C, H, W), got shape {x_desc.shape}")
    return get_convolution_forward_output_dim(conv, x_desc, w_desc)


def reorder_filter_and_bias(
    handle: Handle,
    w_desc: FilterDescriptor,
    reorder_type: ReorderType,
    w: Any,
    reordered_w: Any,
    bias: Any = None,
    reordered_bias: Any = None,
) -> None:
    """int8 weights in the order that tensor cores want (cudnnReorderFilterAndBias).

    ``w_desc`` is of INT8x32 in NCHW_VECT_C, with output channels in multiples of 32;
    ``reordered_w`` takes the weights, and ``reordered_bias`` the bias, one float32 per output
    channel. A convolution on them sets NO_REORDER. None for both biases leaves them out.

    TypeError for one bias alone, ValueError for another number of channels and for a result in the
    memory of its source, CudnnNotSupported for other data types.
    """
    require(handle, Handle, "handle")
    require(w_desc, FilterDescriptor, "w_desc")
    reorder_type = member(ReorderType, reorder_type, "reorder_type")
    if (bias is None) != (reordered_bias is None):
        raise TypeError("bias and reordered_bias must both be given, or both be None")
    if w_desc.shape[0] % 32:  # cuDNN loses some of them
        raise ValueError(f"w_desc must have output channels in multiples of 32, got {w_desc!r}")
    bias_desc = _bias_desc(w_desc, handle.library)
    with _core.ColdCall(handle.library, handle) as call:
        weights = (
            call.operand(w, "w", False, w_desc),
            call.operand(reordered_w, "reordered_w", True, w_desc),
        )
        biases = (0, 0)
        if bias is not None:
            biases = (
                call.operand(bias, "bias", False, bias_desc),
                call.operand(reordered_bias, "reordered_bias", True, bias_desc),
            )
        call.keep_apart()
        call(
            "cudnnReorderFilterAndBias",
            handle, w_desc, reorder_type, *weights, int(bias is not None), *biases,
        )  # fmt: skip


def _bias_desc(w_desc: FilterDescriptor, library: Library) -> TensorDescriptor:
    return TensorDescriptor((1, w_desc.shape[0], 1, 1), library=library)
