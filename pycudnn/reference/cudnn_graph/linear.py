"""Matrix products and reductions: their parameters and operations."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi.cudnn_enums import ReduceTensorOp

from ..parallel import cut
from ..runtime import bad_param, not_supported
from .descriptor import Descriptor, finalizes
from .tensors import Arithmetic, Array, Arrays, Node, Tensor, check_member, check_shape, precision


@finalizes("MATMUL")
def make_matmul(descriptor: Descriptor) -> int:
    """The type to compute in."""
    return int(descriptor.one("COMP_TYPE"))


@finalizes("OPERATION_MATMUL")
def make_product(descriptor: Descriptor) -> Node:
    """``C = A B`` over the last two dimensions; batch dimensions of size 1 are broadcast."""
    a, b, c = (descriptor.held(name) for name in ("ADESC", "BDESC", "CDESC"))
    _check_matrices(a, b, c)
    batches = descriptor.one("IRREGULARLY_STRIDED_BATCH_COUNT")
    if batches < 1:
        raise bad_param(f"IRREGULARLY_STRIDED_BATCH_COUNT is {batches}")
    if batches > 1 or any(f"GEMM_{size}_OVERRIDE_DESC" in descriptor for size in "MNK"):
        raise not_supported("irregular batches and overridden sizes")

    def run(inputs: Arrays, arithmetic: Arithmetic) -> Arrays:
        left, right = inputs["ADESC"], inputs["BDESC"]
        parts = [
            np.matmul(left[..., part], right[..., part, :])
            for part in cut(left.shape[-1], arithmetic.parts)
        ]
        return {"CDESC": functools.reduce(operator.iadd, parts)}

    return Node(
        "OPERATION_MATMUL",
        precision(descriptor.held("DESC")),
        {"ADESC": a, "BDESC": b},
        {"CDESC": c},
        run,
    )


def _check_matrices(a: Tensor, b: Tensor, c: Tensor) -> None:
    ranks = {len(tensor.shape) for tensor in (a, b, c)}
    if min(ranks) < 2:
        raise not_supported(f"{a}, {b} and {c}: matrices have at least 2 dimensions")
    if len(ranks) > 1 or a.shape[-1] != b.shape[-2]:
        raise bad_param(f"{a} and {b} cannot be multiplied to {c}")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise bad_param(f"{a} and {b} differ in their batch dimensions") from None
    check_shape(c, (*batch, a.shape[-2], b.shape[-1]), f"product of {a} and {b}")


# --- reductions ----------------------------------------------------------------------------------

_Axes = tuple[int, ...]


class Reduction(NamedTuple):
    """A finalized reduction descriptor."""

    operator: ReduceTensorOp
    precision: int


def _keep(function: Callable[..., Any]) -> Callable[[Array, _Axes], Array]:
    return lambda x, axes: function(x, axis=axes, keepdims=True)


_REDUCTIONS: dict[ReduceTensorOp, Callable[[Array, _Axes], Array]] = {
    ReduceTensorOp.ADD: _keep(np.sum),
    ReduceTensorOp.MUL: _keep(np.prod),
    ReduceTensorOp.MIN: _keep(np.min),
    ReduceTensorOp.MAX: _keep(np.max),
    ReduceTensorOp.AMAX: lambda x, axes: np.abs(x).max(axis=axes, keepdims=True),
    ReduceTensorOp.AVG: _keep(np.mean),
    ReduceTensorOp.NORM1: lambda x, axes: np.abs(x).sum(axis=axes, keepdims=True),
    ReduceTensorOp.NORM2: lambda x, axes: np.sqrt((x * x).sum(axis=axes, keepdims=True)),
    ReduceTensorOp.MUL_NO_ZEROS: lambda x, axes: np.where(x == 0, 1, x).prod(
        axis=axes, keepdims=True
    ),
}


@finalizes("REDUCTION")
def make_reduction(descriptor: Descriptor) -> Reduction:
    """An operator and a type to compute in."""
    chosen = check_member(descriptor.one("OPERATOR"), ReduceTensorOp, "REDUCTION_OPERATOR")
    return Reduction(chosen, descriptor.one("COMP_TYPE"))


@finalizes("OPERATION_REDUCTION")
def make_operation(descriptor: Descriptor) -> Node:
    """Reduce X over the dimensions in which Y has size 1."""
    x, y = descriptor.held("XDESC"), descriptor.held("YDESC")
    if "GROUP_OFFSET_DESC" in descriptor:
        raise not_supported("grouped reductions")
    if len(x.shape) != len(y.shape) or any(
        size not in (1, whole) for size, whole in zip(y.shape, x.shape, strict=True)
    ):
        raise bad_param(f"{x} cannot be reduced to {y}: each size must be the same or 1")
    axes = tuple(axis for axis, size in enumerate(y.shape) if size == 1)
    reduction: Reduction = descriptor.held("DESC")
    reduce = _REDUCTIONS[reduction.operator]

    def run(inputs: Arrays, arithmetic: Arithmetic) -> Arrays:
        return {"YDESC": reduce(inputs["XDESC"], axes)}

    return Node(
        f"OPERATION_REDUCTION {reduction.operator.name}",
        precision(reduction.precision),
        {"XDESC": x},
        {"YDESC": y},
        run,
    )
