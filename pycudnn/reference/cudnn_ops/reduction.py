"""Reductions of a tensor over some of its dimensions, with the places of chosen elements."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import (
    DataType,
    IndicesType,
    NanPropagation,
    ReduceTensorIndices,
    ReduceTensorOp,
)

from ..cudnn_graph import Handle
from ..descriptors import Tensor
from ..memory import blend, load, raw, read_scalar, view, write
from ..runtime import bad_param, implements, not_supported, opaque
from .checks import checked_member

_COMPUTE_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF)
# Compute type -> type of A -> types of C; there is no bfloat16 here.
_TYPES: dict[DataType, dict[DataType, tuple[DataType, ...]]] = {
    DataType.FLOAT: {
        DataType.FLOAT: (DataType.FLOAT, DataType.HALF, DataType.INT8),
        DataType.HALF: (DataType.FLOAT, DataType.HALF),
        DataType.INT8: (DataType.FLOAT, DataType.INT8),
    },
    DataType.DOUBLE: {DataType.DOUBLE: (DataType.DOUBLE,)},
}
# What is wrong in itself, and not just unserved.
_MISMATCHED = {
    DataType.FLOAT: (DataType.DOUBLE,),
    DataType.DOUBLE: (DataType.FLOAT, DataType.HALF, DataType.INT8),
    DataType.HALF: (DataType.DOUBLE, DataType.INT8),
    DataType.INT8: (DataType.DOUBLE, DataType.HALF),
}
_PICKING = (ReduceTensorOp.MIN, ReduceTensorOp.MAX, ReduceTensorOp.AMAX)
# cuDNN 9 writes 32-bit indices, whatever type the descriptor names.
_INDEX = np.dtype(np.uint32)

Array = np.ndarray[Any, Any]


@opaque(
    "cudnnReduceTensorDescriptor_t",
    "cudnnCreateReduceTensorDescriptor",
    "cudnnDestroyReduceTensorDescriptor",
)
@dataclass
class ReduceTensor:
    """What is made of the elements, computed in which type, and whether places are told."""

    op: ReduceTensorOp = ReduceTensorOp.ADD
    compute_type: DataType = DataType.FLOAT
    nan_propagation: NanPropagation = NanPropagation.NOT_PROPAGATE_NAN
    indices: ReduceTensorIndices = ReduceTensorIndices.NO_INDICES
    indices_type: IndicesType = IndicesType.CUDNN_32BIT_INDICES


@implements("cudnnSetReduceTensorDescriptor")
def set_reduce_tensor(
    descriptor: ReduceTensor,
    op: int,
    compute_type: int,
    nan_propagation: int,
    indices: int,
    indices_type: int,
) -> None:
    """All five settings. Indices with an op that picks no element are taken and never written."""
    fresh = ReduceTensor(
        checked_member(ReduceTensorOp, op, "reduceTensorOp"),
        checked_member(DataType, compute_type, "reduceTensorCompType"),
        checked_member(NanPropagation, nan_propagation, "reduceTensorNanOpt"),
        checked_member(ReduceTensorIndices, indices, "reduceTensorIndices"),
        checked_member(IndicesType, indices_type, "reduceTensorIndicesType"),
    )
    if fresh.compute_type not in _COMPUTE_TYPES:
        names = ", ".join(known.name for known in _COMPUTE_TYPES)
        raise bad_param(f"reduceTensorCompType is {fresh.compute_type.name}, must be in {names}")
    vars(descriptor).update(vars(fresh))


@implements("cudnnGetReduceTensorDescriptor")
def get_reduce_tensor(descriptor: ReduceTensor, *outs: int) -> None:
    """What was set."""
    for out, (name, value) in zip(outs, vars(descriptor).items(), strict=True):
        write(out, ctypes.c_int, value, name)


def _indices_size(descriptor: ReduceTensor, c_desc: Tensor) -> int:
    if descriptor.indices == ReduceTensorIndices.NO_INDICES:
        return 0
    return math.prod(c_desc.shape) * _INDEX.itemsize


@implements("cudnnGetReductionIndicesSize")
def get_indices_size(
    handle: Handle, descriptor: ReduceTensor, a_desc: Tensor, c_desc: Tensor, size: int
) -> None:
    """Bytes of one index per element of C."""
    write(size, ctypes.c_size_t, _indices_size(descriptor, c_desc), "sizeInBytes")


def _workspace_size(descriptor: ReduceTensor, a_desc: Tensor) -> int:
    """cuDNN's; nothing is put there."""
    item = 8 if descriptor.compute_type == DataType.DOUBLE else 4
    if descriptor.indices != ReduceTensorIndices.NO_INDICES:
        item += _INDEX.itemsize
    return math.prod(a_desc.shape) * item


@implements("cudnnGetReductionWorkspaceSize")
def get_workspace_size(
    handle: Handle, descriptor: ReduceTensor, a_desc: Tensor, c_desc: Tensor, size: int
) -> None:
    """Bytes of workspace."""
    write(size, ctypes.c_size_t, _workspace_size(descriptor, a_desc), "sizeInBytes")


def _check(descriptor: ReduceTensor, a_desc: Tensor, c_desc: Tensor) -> None:
    a_shape, c_shape = a_desc.shape, c_desc.shape
    if len(a_shape) <= 2 or len(a_shape) != len(c_shape):
        raise bad_param(f"A {a_shape} and C {c_shape} need one rank, of at least 3 dimensions")
    if any(n not in (1, m) for n, m in zip(c_shape, a_shape, strict=True)):
        raise bad_param(f"C {c_shape} must be as A {a_shape}, or 1 where reduced")
    if a_shape == c_shape:
        raise bad_param(f"A and C have one shape, {a_shape}: nothing is reduced")
    if c_desc.dtype in _MISMATCHED.get(a_desc.dtype, ()):
        raise bad_param(f"A is {a_desc.dtype.name}, C is {c_desc.dtype.name}")
    if c_desc.dtype not in _TYPES.get(descriptor.compute_type, {}).get(a_desc.dtype, ()):
        raise not_supported(
            f"{a_desc.dtype.name} to {c_desc.dtype.name}, computed in "
            f"{descriptor.compute_type.name}"
        )


def _flatten(a: Array, axes: tuple[int, ...]) -> Array:
    """The reduced dimensions as one, the last."""
    kept = [axis for axis in range(a.ndim) if axis not in axes]
    return a.transpose(*kept, *axes).reshape(*(a.shape[axis] for axis in kept), -1)


def _pick(values: Array, descriptor: ReduceTensor) -> tuple[Array, Array]:
    """The smallest or largest number along the last dimension, and where the first of them is.

    A NaN is either the one that is taken or the one that never is.
    """
    smallest = descriptor.op == ReduceTensorOp.MIN
    if descriptor.op == ReduceTensorOp.AMAX:
        values = np.abs(values)
    if descriptor.nan_propagation == NanPropagation.NOT_PROPAGATE_NAN:
        limits = np.finfo(values.dtype)
        last = limits.max if smallest else 0 if descriptor.op == ReduceTensorOp.AMAX else limits.min
        values = np.where(np.isnan(values), last, values)
    places = values.argmin(-1) if smallest else values.argmax(-1)
    return np.take_along_axis(values, places[..., None], -1), places


def _reduce(values: Array, op: ReduceTensorOp) -> Array:
    """Along the last dimension, for the ops that use all elements."""
    if op == ReduceTensorOp.ADD:
        return values.sum(-1)
    if op == ReduceTensorOp.MUL:
        return values.prod(-1)
    if op == ReduceTensorOp.AVG:
        return values.mean(-1)
    if op == ReduceTensorOp.NORM1:
        return np.abs(values).sum(-1)
    if op == ReduceTensorOp.NORM2:
        return np.sqrt(np.square(values).sum(-1))
    return np.where(values == 0, 1, values).prod(-1)


@implements("cudnnReduceTensor")
def reduce_tensor(
    handle: Handle,
    descriptor: ReduceTensor,
    indices: int,
    indices_size: int,
    workspace: int,
    workspace_size: int,
    alpha: int,
    a_desc: Tensor,
    a: int,
    beta: int,
    c_desc: Tensor,
    c: int,
) -> None:
    """``C = alpha * op(A) + beta * C`` over the dimensions that are 1 in C and not in A.

    Indices count over the reduced dimensions, the last one fastest.
    """
    _check(descriptor, a_desc, c_desc)
    if indices_size < _indices_size(descriptor, c_desc):
        raise bad_param(f"indicesSizeInBytes is {indices_size}, too small")
    if workspace_size < _workspace_size(descriptor, a_desc):
        raise bad_param(f"workspaceSizeInBytes is {workspace_size}, too small")
    source, out = load(a, a_desc, "A"), view(c, c_desc, "C")
    scale = read_scalar(alpha, c_desc.dtype, "alpha"), read_scalar(beta, c_desc.dtype, "beta")
    axes = tuple(axis for axis, n in enumerate(out.shape) if n != source.shape[axis])
    values = _flatten(source, axes)
    if descriptor.op in _PICKING:
        result, places = _pick(values, descriptor)
        if descriptor.indices != ReduceTensorIndices.NO_INDICES:
            if not indices:
                raise bad_param("indices is NULL")
            room = raw(indices, places.size * _INDEX.itemsize)
            np.frombuffer(room, _INDEX)[:] = places.ravel()
    else:
        result = _reduce(values, descriptor.op)
    blend(out, result.reshape(out.shape), *scale)
