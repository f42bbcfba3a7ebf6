"""Elementwise functions of one or two tensors: descriptor and call."""

from __future__ import annotations

import ctypes
from typing import Any

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import DataType, NanPropagation, OpTensorOp
from pycudnn.cudnn._objects import construct, factor, member, require
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor
from pycudnn.errors import NotSupported
from pycudnn.libraries import Library, find_library

_UNARY = (OpTensorOp.SQRT, OpTensorOp.NOT)


class OpTensorDescriptor(_core.Owned):
    """An elementwise function and the type to compute it in (cudnnSetOpTensorDescriptor).

    ``op`` is ADD, MUL, MIN or MAX of two tensors, SQRT or NOT (1 - a) of one; ``compute_type`` is
    float32, or float64 for float64 tensors. ``nan_propagation`` decides which operand MIN and MAX
    take where one is NaN. ValueError for an unknown op, TypeError for an unknown type, CudnnError
    for a type that cuDNN does not compute in.
    """

    c_type = "cudnnOpTensorDescriptor_t"
    library: Library

    def __init__(
        self,
        op: OpTensorOp,
        compute_type: Any = DataType.FLOAT,
        nan_propagation: NanPropagation = NanPropagation.PROPAGATE_NAN,
        *,
        library: Library | str | None = None,
    ) -> None:
        op = member(OpTensorOp, op, "op")
        computed_in = dtypes.to_data_type(compute_type, "compute_type")
        nan = member(NanPropagation, nan_propagation, "nan_propagation")

        def set_up(call: _core.ColdCall) -> None:
            call("cudnnSetOpTensorDescriptor", self, op, computed_in, nan)

        settings = {"op": op, "compute_type": computed_in, "nan_propagation": nan}
        construct(self, find_library("cudnn", library), "OpTensorDescriptor", settings, set_up)

    def _read(self) -> tuple[OpTensorOp, DataType, NanPropagation]:
        op, computed_in, nan = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetOpTensorDescriptor",
                self, ctypes.byref(op), ctypes.byref(computed_in), ctypes.byref(nan),
            )  # fmt: skip
        return OpTensorOp(op.value), DataType(computed_in.value), NanPropagation(nan.value)

    @property
    def op(self) -> OpTensorOp:
        """Which function."""
        return self._read()[0]

    @property
    def compute_type(self) -> DataType:
        """What is computed in."""
        return self._read()[1]

    @property
    def nan_propagation(self) -> NanPropagation:
        """Does a NaN of one operand reach the output of MIN and MAX?"""
        return self._read()[2]

    def __repr__(self) -> str:
        if self.closed:
            return "<closed OpTensorDescriptor>"
        op, computed_in, nan = self._read()
        return f"OpTensorDescriptor({op.name}, {computed_in.name}, {nan.name})"


def op_tensor(
    handle: Handle,
    op: OpTensorDescriptor,
    a_desc: TensorDescriptor,
    a: Any,
    b_desc: TensorDescriptor | None,
    b: Any,
    c_desc: TensorDescriptor,
    c: Any,
    *,
    alpha1: float = 1.0,
    alpha2: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``c = op(alpha1 * a, alpha2 * b) + beta * c``, element by element (cudnnOpTensor).

    a has the shape of c; a dimension of b is that of c or 1, which is repeated. SQRT and NOT take
    no b: ``b_desc`` and ``b`` are None or ignored. c may be a itself, laid out alike, but not b.
    ValueError for shapes that do not fit, TypeError for arguments of another kind,
    CudnnNotSupported for data types that cuDNN does not combine.
    """
    require(handle, Handle, "handle")
    require(op, OpTensorDescriptor, "op")
    if op.op in _UNARY and b is None:
        b_desc, b = a_desc, a
    for desc, name in ((a_desc, "a_desc"), (b_desc, "b_desc"), (c_desc, "c_desc")):
        require(desc, TensorDescriptor, name)
    assert b_desc is not None
    _check_shapes(a_desc, b_desc, c_desc)
    _check_types(a_desc, c_desc)
    scales = [
        factor(value, name, c_desc.dtype_code)
        for value, name in ((alpha1, "alpha1"), (alpha2, "alpha2"), (beta, "beta"))
    ]
    with _core.ColdCall(handle.library, handle) as call:
        addresses = [
            call.operand(a, "a", False, a_desc),
            call.operand(b, "b", False, b_desc),
            call.operand(c, "c", True, c_desc),
        ]
        _check_sharing(addresses, (a_desc, b_desc, c_desc))
        call(
            "cudnnOpTensor",
            handle, op, scales[0], a_desc, addresses[0], scales[1], b_desc, addresses[1],
            scales[2], c_desc, addresses[2],
        )  # fmt: skip


def _check_shapes(
    a_desc: TensorDescriptor, b_desc: TensorDescriptor, c_desc: TensorDescriptor
) -> None:
    if a_desc.shape != c_desc.shape:
        raise ValueError(f"a must have the shape of c, {c_desc.shape}, got {a_desc.shape}")
    if len(b_desc.shape) != len(c_desc.shape) or any(
        size not in (1, full) for size, full in zip(b_desc.shape, c_desc.shape, strict=True)
    ):
        raise ValueError(
            f"b must have the shape of c, {c_desc.shape}, or 1 in some dimensions, "
            f"got {b_desc.shape}"
        )


def _check_types(a_desc: TensorDescriptor, c_desc: TensorDescriptor) -> None:
    """cuDNN reports success for some of these, and writes wrong numbers."""
    if c_desc.dtype_code == DataType.DOUBLE != a_desc.dtype_code:
        raise NotSupported(f"cuDNN cannot convert {a_desc.dtype} to float64")


def _check_sharing(addresses: list[int], descs: tuple[TensorDescriptor, ...]) -> None:
    """cuDNN computes some of these in place and reads what it has just written."""
    a_at, b_at, c_at = addresses
    a_desc, b_desc, c_desc = descs
    is_a = c_at == a_at and a_desc == c_desc
    if not is_a:
        if c_at == a_at:
            raise ValueError(f"a and c are one memory in two layouts, {a_desc!r} and {c_desc!r}")
        _keep_apart(a_at, a_desc, "a", c_at, c_desc)
    if c_at == b_at and (not is_a or b_desc != c_desc):
        raise ValueError("c must not be the memory of b: swap a and b, or use memory of its own")
    if c_at != b_at:
        _keep_apart(b_at, b_desc, "b", c_at, c_desc)


def _keep_apart(
    read: int, read_desc: TensorDescriptor, name: str, c_at: int, c_desc: TensorDescriptor
) -> None:
    if _core.overlap(read_desc, read, c_desc, c_at):
        raise ValueError(f"c is written to and must not overlap {name}")
