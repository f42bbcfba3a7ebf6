"""Elementwise functions of one or two tensors: sum, product, smaller, larger, root, one minus."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import DataType, NanPropagation, OpTensorOp

from ..cudnn_graph import Handle
from ..descriptors import Tensor
from ..memory import blend, load, read_scalar, view, write
from ..runtime import bad_param, implements, not_supported, opaque
from .checks import FLOATING, check_4d_or_5d, checked_member

# Compute type -> type of A and B -> types of C. cuDNN 9.19 takes four more into DOUBLE, and writes
# wrong numbers; where both factors are 0, it takes any type.
_TYPES: dict[DataType, dict[DataType, tuple[DataType, ...]]] = {
    DataType.FLOAT: {
        DataType.FLOAT: (DataType.FLOAT, DataType.HALF, DataType.BFLOAT16, DataType.INT8),
        DataType.HALF: (DataType.FLOAT, DataType.HALF),
        DataType.BFLOAT16: (DataType.FLOAT, DataType.BFLOAT16),
        DataType.INT8: (DataType.FLOAT, DataType.INT8),
    },
    DataType.DOUBLE: {DataType.DOUBLE: (DataType.DOUBLE,)},
}
# What is wrong in itself, and not just unserved.
_MISMATCHED = {
    DataType.FLOAT: (DataType.DOUBLE,),
    DataType.DOUBLE: (DataType.FLOAT, DataType.HALF, DataType.BFLOAT16, DataType.INT8),
    DataType.HALF: (DataType.DOUBLE,),
}
_HALF_TYPES = {DataType.HALF, DataType.BFLOAT16}


@opaque(
    "cudnnOpTensorDescriptor_t", "cudnnCreateOpTensorDescriptor", "cudnnDestroyOpTensorDescriptor"
)
@dataclass
class OpTensor:
    """Which function, computed in which type."""

    op: OpTensorOp = OpTensorOp.ADD
    compute_type: DataType = DataType.FLOAT
    nan_propagation: NanPropagation = NanPropagation.NOT_PROPAGATE_NAN
    is_set: bool = False


@implements("cudnnSetOpTensorDescriptor")
def set_op_tensor(descriptor: OpTensor, op: int, compute_type: int, nan_propagation: int) -> None:
    """Function, compute type (a floating one), and what MIN and MAX do with NaN."""
    function = checked_member(OpTensorOp, op, "opTensorOp")
    if compute_type not in FLOATING:
        raise bad_param(f"opTensorCompType is {compute_type}, must be a floating type")
    nan = checked_member(NanPropagation, nan_propagation, "opTensorNanOpt")
    descriptor.op, descriptor.compute_type = function, DataType(compute_type)
    descriptor.nan_propagation, descriptor.is_set = nan, True


@implements("cudnnGetOpTensorDescriptor")
def get_op_tensor(descriptor: OpTensor, op: int, compute_type: int, nan_propagation: int) -> None:
    """What was set."""
    write(op, ctypes.c_int, descriptor.op, "opTensorOp")
    write(compute_type, ctypes.c_int, descriptor.compute_type, "opTensorCompType")
    write(nan_propagation, ctypes.c_int, descriptor.nan_propagation, "opTensorNanOpt")


def _check(a_desc: Tensor, b_desc: Tensor, c_desc: Tensor, descriptor: OpTensor) -> None:
    shape = c_desc.shape
    if len(shape) <= 3 or a_desc.shape != shape:
        raise bad_param(f"A {a_desc.shape} and C {shape} must have one shape, of 4 or 5 dimensions")
    if len(b_desc.shape) != len(shape) or any(
        n not in (1, m) for n, m in zip(b_desc.shape, shape, strict=True)
    ):
        raise bad_param(f"B {b_desc.shape} does not broadcast to C {shape}")
    if a_desc.dtype != b_desc.dtype:
        raise bad_param(f"A is {a_desc.dtype.name} and B {b_desc.dtype.name}: must be the same")
    check_4d_or_5d(c_desc, "C")
    if not descriptor.is_set:
        raise not_supported("the descriptor has not been set")
    _check_types(a_desc.dtype, c_desc.dtype, descriptor.compute_type)


def _check_types(a: DataType, c: DataType, computed: DataType) -> None:
    if c in _TYPES.get(computed, {}).get(a, ()):
        return
    text = f"{a.name} to {c.name}, computed in {computed.name}"
    known = computed == DataType.FLOAT and c in _TYPES[computed][DataType.FLOAT]
    if c in _MISMATCHED.get(a, ()) or (known and {a, c} != _HALF_TYPES):
        raise bad_param(text)
    raise not_supported(text)


def _compute(
    descriptor: OpTensor, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    keeps_nan = descriptor.nan_propagation == NanPropagation.PROPAGATE_NAN
    if descriptor.op == OpTensorOp.ADD:
        return a + b
    if descriptor.op == OpTensorOp.MUL:
        return a * b
    if descriptor.op == OpTensorOp.MIN:
        return np.minimum(a, b) if keeps_nan else np.fmin(a, b)
    if descriptor.op == OpTensorOp.MAX:
        return np.maximum(a, b) if keeps_nan else np.fmax(a, b)
    if descriptor.op == OpTensorOp.SQRT:
        return np.sqrt(a)
    return 1 - a


@implements("cudnnOpTensor")
def op_tensor(
    handle: Handle,
    descriptor: OpTensor,
    alpha1: int,
    a_desc: Tensor,
    a: int,
    alpha2: int,
    b_desc: Tensor,
    b: int,
    beta: int,
    c_desc: Tensor,
    c: int,
) -> None:
    """``C = op(alpha1 * A, alpha2 * B) + beta * C``; a dimension of 1 in B is repeated.

    SQRT is the root of ``alpha1 * A``, NOT is ``1 - alpha1 * A``; both need a B and ignore it. C
    may be A itself, but not B.
    """
    _check(a_desc, b_desc, c_desc, descriptor)
    if c in (a, b) and not (c == a and a_desc == c_desc):
        raise bad_param("C can share memory with A alone, and only if both are laid out alike")
    first, second, out = load(a, a_desc, "A"), load(b, b_desc, "B"), view(c, c_desc, "C")
    scales = [
        first.dtype.type(read_scalar(address, c_desc.dtype, name))
        for address, name in ((alpha1, "alpha1"), (alpha2, "alpha2"))
    ]
    old_scale = read_scalar(beta, c_desc.dtype, "beta")
    result = _compute(descriptor, scales[0] * first, scales[1] * second)
    blend(out, result, 1.0, old_scale)
