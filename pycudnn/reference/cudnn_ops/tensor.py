"""Elementwise functions of tensors: add, set, scale, and copy from one layout to another."""

from __future__ import annotations

import numpy as np

from ..cudnn_graph import Handle
from ..descriptors import Tensor
from ..memory import blend, compute_dtype, load, read_scalar, store, view
from ..runtime import bad_param, implements, not_supported


@implements("cudnnAddTensor")
def add_tensor(
    handle: Handle, alpha: int, a_desc: Tensor, a: int, beta: int, c_desc: Tensor, c: int
) -> None:
    """``C = alpha * A + beta * C``; a dimension of 1 in A is repeated to that of C (a bias)."""
    if len(a_desc.shape) != len(c_desc.shape) or any(
        n not in (1, m) for n, m in zip(a_desc.shape, c_desc.shape, strict=True)
    ):
        raise not_supported(f"A {a_desc.shape} does not broadcast to C {c_desc.shape}")
    if a_desc.dtype != c_desc.dtype:
        raise not_supported(f"A is {a_desc.dtype.name} and C is {c_desc.dtype.name}")
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
    """Every element becomes the one at `value`, which has the tensor's own data type."""
    scalar = view(value, Tensor(y_desc.dtype, (1,), (1,)), "valuePtr")
    view(y, y_desc, "y")[...] = scalar[0]


@implements("cudnnScaleTensor")
def scale_tensor(handle: Handle, y_desc: Tensor, y: int, alpha: int) -> None:
    """``y = alpha * y``."""
    out = view(y, y_desc, "y")
    factor = compute_dtype(out.dtype).type(read_scalar(alpha, y_desc.dtype, "alpha"))
    if out.dtype == factor.dtype:
        np.multiply(out, factor, out=out)
    else:
        store(out, out.astype(factor.dtype) * factor)


@implements("cudnnTransformTensor")
def transform_tensor(
    handle: Handle, alpha: int, x_desc: Tensor, x: int, beta: int, y_desc: Tensor, y: int
) -> None:
    """``y = alpha * x + beta * y`` for tensors of one shape whose strides may differ.

    Into another data type values are converted; into integers rounded and saturated.
    """
    if x_desc.shape != y_desc.shape:
        raise bad_param(f"x and y differ in shape: {x_desc.shape} and {y_desc.shape}")
    blend(
        view(y, y_desc, "y"),
        load(x, x_desc, "x"),
        read_scalar(alpha, y_desc.dtype, "alpha"),
        read_scalar(beta, y_desc.dtype, "beta"),
    )
