"""Reductions of a tensor over some of its dimensions: descriptor, sizes and call."""

from __future__ import annotations

import ctypes
from typing import Any

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import (
    DataType,
    IndicesType,
    NanPropagation,
    ReduceTensorIndices,
    ReduceTensorOp,
)
from pycudnn.cudnn._objects import construct, member, require, scaling
from pycudnn.cudnn._objects import workspace as scratch
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor
from pycudnn.libraries import Library, find_library

# The ops that pick one element, whose place the indices tell.
_PICKING = (ReduceTensorOp.MIN, ReduceTensorOp.MAX, ReduceTensorOp.AMAX)


class ReduceTensorDescriptor(_core.Owned):
    """What a reduction makes of its elements (cudnnSetReduceTensorDescriptor).

    ``op`` is ADD, MUL, MIN, MAX, AMAX (largest magnitude), AVG, NORM1, NORM2 or MUL_NO_ZEROS.
    ``compute_type`` is float32, or float64 for float64 tensors. With ``indices``
    FLATTENED_INDICES, MIN, MAX and AMAX also tell where they found their element, as 32-bit
    integers, the one ``indices_type`` that cuDNN writes. ValueError for other ops with indices,
    another type of them, or an unknown enum; TypeError for an unknown type.
    """

    c_type = "cudnnReduceTensorDescriptor_t"
    library: Library

    def __init__(
        self,
        op: ReduceTensorOp,
        compute_type: Any = DataType.FLOAT,
        nan_propagation: NanPropagation = NanPropagation.PROPAGATE_NAN,
        indices: ReduceTensorIndices = ReduceTensorIndices.NO_INDICES,
        indices_type: IndicesType = IndicesType.CUDNN_32BIT_INDICES,
        *,
        library: Library | str | None = None,
    ) -> None:
        op = member(ReduceTensorOp, op, "op")
        computed_in = dtypes.to_data_type(compute_type, "compute_type")
        nan = member(NanPropagation, nan_propagation, "nan_propagation")
        indices = member(ReduceTensorIndices, indices, "indices")
        indices_type = member(IndicesType, indices_type, "indices_type")
        if indices != ReduceTensorIndices.NO_INDICES and op not in _PICKING:
            picking = ", ".join(known.name for known in _PICKING)
            raise ValueError(f"indices go with {picking} only, got op {op.name}")
        if indices_type != IndicesType.CUDNN_32BIT_INDICES:
            raise ValueError(
                f"indices_type must be CUDNN_32BIT_INDICES, the others are not served, "
                f"got {indices_type.name}"
            )

        def set_up(call: _core.ColdCall) -> None:
            call(
                "cudnnSetReduceTensorDescriptor", self, op, computed_in, nan, indices, indices_type
            )

        settings = {
            "op": op, "compute_type": computed_in, "nan_propagation": nan, "indices": indices,
            "indices_type": indices_type,
        }  # fmt: skip
        construct(self, find_library("cudnn", library), "ReduceTensorDescriptor", settings, set_up)

    def _read(
        self,
    ) -> tuple[ReduceTensorOp, DataType, NanPropagation, ReduceTensorIndices, IndicesType]:
        values = [ctypes.c_int() for _ in range(5)]
        with _core.ColdCall(self.library) as call:
            call("cudnnGetReduceTensorDescriptor", self, *map(ctypes.byref, values))
        op, computed_in, nan, indices, indices_type = (value.value for value in values)
        return (
            ReduceTensorOp(op),
            DataType(computed_in),
            NanPropagation(nan),
            ReduceTensorIndices(indices),
            IndicesType(indices_type),
        )

    @property
    def op(self) -> ReduceTensorOp:
        """What is made of the elements."""
        return self._read()[0]

    @property
    def compute_type(self) -> DataType:
        """What is computed in."""
        return self._read()[1]

    @property
    def nan_propagation(self) -> NanPropagation:
        """Does a NaN reach the result of MIN, MAX and AMAX?"""
        return self._read()[2]

    @property
    def indices(self) -> ReduceTensorIndices:
        """Does the reduction tell where it found its element?"""
        return self._read()[3]

    @property
    def indices_type(self) -> IndicesType:
        """Size of one index."""
        return self._read()[4]

    def __repr__(self) -> str:
        if self.closed:
            return "<closed ReduceTensorDescriptor>"
        names = ", ".join(value.name for value in self._read())
        return f"ReduceTensorDescriptor({names})"


def get_reduction_indices_size(
    handle: Handle,
    reduce: ReduceTensorDescriptor,
    a_desc: TensorDescriptor,
    c_desc: TensorDescriptor,
) -> int:
    """Bytes of indices that reduce_tensor writes (cudnnGetReductionIndicesSize)."""
    return _size("cudnnGetReductionIndicesSize", handle, reduce, a_desc, c_desc)


def get_reduction_workspace_size(
    handle: Handle,
    reduce: ReduceTensorDescriptor,
    a_desc: TensorDescriptor,
    c_desc: TensorDescriptor,
) -> int:
    """Bytes of workspace that reduce_tensor needs (cudnnGetReductionWorkspaceSize)."""
    return _size("cudnnGetReductionWorkspaceSize", handle, reduce, a_desc, c_desc)


def reduce_tensor(
    handle: Handle,
    reduce: ReduceTensorDescriptor,
    indices: Any,
    workspace: Any,
    a_desc: TensorDescriptor,
    a: Any,
    c_desc: TensorDescriptor,
    c: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``c = alpha * op(a) + beta * c`` over the dimensions that are 1 in c (cudnnReduceTensor).

    The others are as in a. ``indices`` takes the place of each chosen element, counted over the
    reduced dimensions, last one fastest; None where the descriptor asks for none. ``workspace``
    and ``indices`` have at least the sizes that the two queries tell; None is zero bytes.

    ValueError for shapes that do not fit, or too little memory, TypeError for arguments of
    another kind, CudnnNotSupported for data types that cuDNN does not reduce.
    """
    needed = get_reduction_workspace_size(handle, reduce, a_desc, c_desc)
    index_bytes = get_reduction_indices_size(handle, reduce, a_desc, c_desc)
    scales = scaling(alpha, beta, c_desc.dtype_code)
    _check_index_type(indices)
    with _core.ColdCall(handle.library, handle) as call:
        indices_at = scratch(call, indices, index_bytes, "indices")
        workspace_at = scratch(call, workspace, needed)
        a_at, c_at = call.operand(a, "a", False, a_desc), call.operand(c, "c", True, c_desc)
        call.keep_apart()
        call(
            "cudnnReduceTensor",
            handle, reduce, *indices_at, *workspace_at, scales[0], a_desc, a_at, scales[1],
            c_desc, c_at,
        )  # fmt: skip


def _size(
    function: str,
    handle: Handle,
    reduce: ReduceTensorDescriptor,
    a_desc: TensorDescriptor,
    c_desc: TensorDescriptor,
) -> int:
    require(handle, Handle, "handle")
    require(reduce, ReduceTensorDescriptor, "reduce")
    require(a_desc, TensorDescriptor, "a_desc")
    require(c_desc, TensorDescriptor, "c_desc")
    _check_shapes(a_desc.shape, c_desc.shape)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(function, handle, reduce, a_desc, c_desc, ctypes.byref(size))
    return size.value


def _check_shapes(a_shape: tuple[int, ...], c_shape: tuple[int, ...]) -> None:
    """cuDNN answers size queries for any shapes."""
    if len(a_shape) < 3:
        raise ValueError(f"a must have at least 3 dimensions, got {a_shape}")
    if len(a_shape) != len(c_shape) or any(
        size not in (1, full) for size, full in zip(c_shape, a_shape, strict=True)
    ):
        raise ValueError(f"c must have the shape of a, {a_shape}, or 1 where reduced: {c_shape}")
    if a_shape == c_shape:
        raise ValueError(f"c must be smaller than a in some dimension, got {c_shape} for both")


def _check_index_type(indices: Any) -> None:
    dtype = str(getattr(indices, "dtype", "uint8"))
    if not dtype.endswith(("int32", "uint8")):
        raise TypeError(f"indices must hold 32-bit integers, got {dtype}")
