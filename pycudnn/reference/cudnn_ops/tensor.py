"""Elementwise functions of tensors: add, set, scale, and copy from one layout to another."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cudnn_enums import DataType

from ..cudnn_graph import Handle
from ..descriptors import Tensor
from ..memory import blend, compute_dtype, load, read_scalar, store, view
from ..runtime import bad_param, implements, not_supported
from .checks import FORWARD, check_4d_or_5d, check_same_type, check_type
from .vectors import channel_type, joined, split


@implements("cudnnAddTensor")
def add_tensor(
    handle: Handle, alpha: int, a_desc: Tensor, a: int, beta: int, c_desc: Tensor, c: int
) -> None:
    """``C = alpha * A + beta * C``; a dimension of 1 in A is repeated to that of C (a bias)."""
    if len(a_desc.shape) != len(c_desc.shape) or any(
        n not in (1, m) for n, m in zip(a_desc.shape, c_desc.shape, strict=True)
    ):
        raise bad_param(f"A {a_desc.shape} does not broadcast to C {c_desc.shape}")
    check_same_type(a_desc, c_desc, "A and C")
    check_type(c_desc, "C", FORWARD)
    check_4d_or_5d(c_desc, "C")
    bias, out = load(a, a_desc, "A"), view(c, c_desc, "C")
    scale_a = read_scalar(alpha, c_desc.dtype, "alpha")
    scale_c = read_scalar(beta, c_desc.dtype, "beta")
    if scale_a != 1:
        bias = bias * bias.dtype.type(scale_a)
    if scale_c == 1 and out.dtype == bias.dtype:
        np.add(out, bias, out=out)  # the usual bias: one pass, no temporary
    else:
        blend(out, np.broadcast_to(bias, out.shape), 1.0, scale_c)


@implements("cudnnSetTensor")
def set_tensor(handle: Handle, y_desc: Tensor, y: int, value: int) -> None:
    """Every element becomes the number at `value`: a C double for DOUBLE tensors, else a float."""
    check_type(y_desc, "y", FORWARD)
    check_4d_or_5d(y_desc, "y")
    store(view(y, y_desc, "y"), np.asarray(read_scalar(value, y_desc.dtype, "valuePtr")))


@implements("cudnnScaleTensor")
def scale_tensor(handle: Handle, y_desc: Tensor, y: int, alpha: int) -> None:
    """``y = alpha * y``."""
    check_type(y_desc, "y", FORWARD)
    check_4d_or_5d(y_desc, "y")
    out = view(y, y_desc, "y")
    factor = compute_dtype(out.dtype).type(read_scalar(alpha, y_desc.dtype, "alpha"))
    if out.dtype == factor.dtype:
        np.multiply(out, factor, out=out)
    else:
        store(out, out.astype(factor.dtype) * factor)


def check_conversion(source: DataType, result: DataType) -> None:
    """Two data types of which the first can be copied into the second."""
    types = {source, result}
    if types & {DataType.INT8x32, DataType.UINT8x4}:
        refuse = not_supported if len(types) == 1 else bad_param
        raise refuse(f"no conversion from {source.name} to {result.name}")
    types = {channel_type(source), channel_type(result)}
    if not types <= set(FORWARD) or types == {DataType.HALF, DataType.BFLOAT16}:
        raise not_supported(f"no conversion from {source.name} to {result.name}")
    if result == DataType.DOUBLE != source:
        raise not_supported(f"cuDNN 9 converts {source.name} to DOUBLE wrongly")


@implements("cudnnTransformTensor")
def transform_tensor(
    handle: Handle, alpha: int, x_desc: Tensor, x: int, beta: int, y_desc: Tensor, y: int
) -> None:
    """``y = alpha * x + beta * y`` for tensors of one shape whose strides may differ.

    Their data types may differ too, INT8x4 included; into int8 values are rounded and saturated. It
    is the type of x that decides the type of alpha and beta. Two conversions are refused: between
    float16 and bfloat16, as cuDNN does, and from another type to float64, where cuDNN 9 gives wrong
    numbers.
    """
    if x_desc.shape != y_desc.shape:
        raise bad_param(f"x and y differ in shape: {x_desc.shape} and {y_desc.shape}")
    check_conversion(x_desc.dtype, y_desc.dtype)
    source, out = joined(split(x, x_desc, "x")), split(y, y_desc, "y")
    scale = read_scalar(alpha, x_desc.dtype, "alpha"), read_scalar(beta, x_desc.dtype, "beta")
    values = source.astype(compute_dtype(source.dtype), copy=False)
    blend(out, values.reshape(out.shape), *scale)
