"""``matmul``: products of row-major arrays, as NumPy has them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pycudnn import operands
from pycudnn.abi.cublas_enums import CudaDataType, Operation, PointerMode
from pycudnn.cublas import _engine, matrices
from pycudnn.cublas._elements import BF16, COMPLEX64, COMPLEX128, FLOAT16, FLOAT32, FLOAT64
from pycudnn.cublas._overlap import Piece, overlap
from pycudnn.cublas._shapes import Block
from pycudnn.cublas.handle import Handle
from pycudnn.memory import Buffer, empty

_LETTERS = {FLOAT32.dtype: "s", FLOAT64.dtype: "d", COMPLEX64.dtype: "c", COMPLEX128.dtype: "z"}
_HALVES = {FLOAT16.dtype: CudaDataType.R_16F, BF16.dtype: CudaDataType.R_16BF}


class Matrices(NamedTuple):
    """A batch of matrices in memory; strides in elements."""

    name: str
    buffer: Any
    shape: tuple[int, int]
    strides: tuple[int, int]
    batch: tuple[int, ...]
    batch_strides: tuple[int, ...]

    @property
    def transposed(self) -> Matrices:
        """The same memory, read with rows and columns exchanged."""
        return self._replace(shape=self.shape[::-1], strides=self.strides[::-1])

    def leading(self) -> int:
        """Elements from one row to the next, where the rows are contiguous; else 0."""
        rows, columns = self.shape
        if columns > 1 and self.strides[1] != 1:
            return 0
        step = self.strides[0] if rows > 1 else columns
        return max(1, step) if step >= columns else 0

    def stored(self) -> tuple[Operation, int]:
        """Operation and leading dimension with which column-major BLAS reads the transpose."""
        ld = self.leading()
        return (Operation.N, ld) if ld else (Operation.T, self.transposed.leading())


def matmul(
    handle: Handle,
    a: Any,
    b: Any,
    *,
    out: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: Any = 1.0,
    beta: Any = 0.0,
) -> Any:
    """out = alpha a @ b + beta out, with NumPy's shapes (cublas<t>gemm, its batched forms, GemmEx).

    ``a`` is (..., m, k) and ``b`` (..., k, n), their last two axes exchanged where ``transpose_a``
    or ``transpose_b`` is true; ``out`` is (..., m, n), a new buffer if None, and is returned. All
    have one dtype: float16, bfloat16, float32, float64, complex64 or complex128; 16-bit ones are
    summed up in float32. An operand of two dimensions serves a whole batch.

    Operands may be strided or transposed views, as long as one axis of each matrix is contiguous
    and one step leads from each matrix to the next: nothing is copied. ValueError for other
    layouts, for shapes that do not fit, and for a beta other than 0 without ``out``; TypeError for
    other dtypes. alpha and beta follow the handle's pointer mode; a new ``out`` counts as zeros
    where beta is in device memory.
    """
    if not isinstance(handle, Handle):
        raise TypeError(f"handle must be a cublas.Handle, got {handle!r}")
    left = read_matrices(handle, a, "a")
    right = read_matrices(handle, b, "b")
    dtype = left.buffer.dtype
    if dtype not in _LETTERS and dtype not in _HALVES:
        known = ", ".join(str(known) for known in (*_HALVES, *_LETTERS))
        raise TypeError(f"a must hold one of {known}, got {dtype}")
    left = left.transposed if transpose_a else left
    right = right.transposed if transpose_b else right
    if left.shape[1] != right.shape[0]:
        raise ValueError(
            f"a of shape {left.shape} and b of shape {right.shape}, as multiplied, do not fit: "
            f"{left.shape[1]} columns against {right.shape[0]} rows"
        )
    batch = _common_batch(left, right)
    shape = (*batch, left.shape[0], right.shape[1])
    if out is None:
        out = _blank(handle, shape, dtype, beta)
    result = read_matrices(handle, out, "out")
    if (*result.batch, *result.shape) != shape:
        raise ValueError(f"out must have shape {shape}, got {(*result.batch, *result.shape)}")
    for operand in (right, result):
        if operand.buffer.dtype != dtype:
            raise TypeError(f"{operand.name} must hold {dtype} like a, got {operand.buffer.dtype}")
    if math.prod(shape):
        if not result.leading():
            left, right, result = right.transposed, left.transposed, result.transposed
        _multiply(handle, left, right, result, batch, alpha, beta)
    return out


def _blank(handle: Handle, shape: tuple[int, ...], dtype: Any, beta: Any) -> Buffer:
    """A new result; beta must not make use of what its memory happens to hold."""
    by_device = handle.pointer_mode == PointerMode.DEVICE
    if not by_device and not getattr(beta, "shape", ()) and beta != 0:
        raise ValueError(f"beta = {beta!r} needs out, the memory that it multiplies, got None")
    out = empty(shape, dtype, device=handle.device, stream=handle.stream)
    if by_device:
        out.fill_bytes(0, handle.stream)
    return out


def read_matrices(handle: Any, value: Any, name: str) -> Matrices:
    """An operand of a handle's side as matrices; ValueError for a layout that BLAS cannot take."""
    if isinstance(value, Buffer):
        buffer: Any = value
        shape = value.shape
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    else:
        backend = handle.library.backend
        layout = operands.layout_of(value, name, backend, handle.stream)
        shape, item = layout.shape, layout.dtype.itemsize
        steps = layout.strides
        if steps is None:
            steps = tuple(math.prod(shape[axis + 1 :]) * item for axis in range(len(shape)))
        if any(step < 0 or step % item for step in steps):
            raise ValueError(
                f"{name} must have strides of whole elements, forwards, got {steps} bytes: "
                "pass a copy"
            )
        strides = tuple(step // item for step in steps)
        buffer = operands.wrap(value, layout, name, backend)
    if len(shape) < 2:
        raise ValueError(f"{name} must have at least 2 dimensions, got shape {shape}")
    *batch, rows, columns = shape
    *steps_between, row_step, column_step = strides
    made = Matrices(
        name,
        buffer,
        (rows, columns),
        (row_step, column_step),
        tuple(batch),
        tuple(steps_between),
    )
    if 0 in shape:
        return made._replace(strides=(columns, 1))
    if made.leading() or made.transposed.leading():
        return made
    raise ValueError(
        f"{name} of shape {shape} with strides {strides} elements has no contiguous axis among "
        "its last two, which cuBLAS needs: pass a copy"
    )


def _common_batch(left: Matrices, right: Matrices) -> tuple[int, ...]:
    if left.batch and right.batch and left.batch != right.batch:
        raise ValueError(
            f"a and b must have the same batch dimensions, or none, got {left.batch} "
            f"and {right.batch}"
        )
    return left.batch or right.batch


def _step(operand: Matrices) -> int:
    """Elements from one matrix to the next; 0 for one matrix that serves all."""
    pairs = [
        (size, step)
        for size, step in zip(operand.batch, operand.batch_strides, strict=True)
        if size > 1
    ]
    for (_, outer), (size, inner) in zip(pairs, pairs[1:], strict=False):
        if outer != size * inner:
            raise ValueError(
                f"{operand.name} has batch dimensions {operand.batch} with strides "
                f"{operand.batch_strides} elements, which are not one step apart: pass a copy"
            )
    return pairs[-1][1] if pairs else 0


def _multiply(
    handle: Handle,
    left: Matrices,
    right: Matrices,
    result: Matrices,
    batch: tuple[int, ...],
    alpha: Any,
    beta: Any,
) -> None:
    """Row-major result = left @ right is column-major result^T = right^T @ left^T."""
    count = math.prod(batch)
    for operand in (left, right):
        if overlap(_piece(result, count, writes=True), _piece(operand, count, writes=False)):
            _engine.refuse_overlap(result.name, operand.name)
    dtype = result.buffer.dtype
    types = [_HALVES[dtype]] if dtype in _HALVES else []
    operations, given = [], []
    for operand in (right, left, result):
        operation, ld = operand.stored()
        operations.append(operation)
        given.append([operand.buffer, *types, ld, *([_step(operand)] if batch else [])])
    first, second, third = given
    (m, k), n = left.shape, right.shape[1]
    counts = [count] if batch else []
    name = ("gemm" if types else f"{_LETTERS[dtype]}gemm") + ("_strided_batched" if batch else "")
    call = getattr(matrices, f"{name}_ex" if types else name)
    call(handle, *operations[:2], n, m, k, alpha, *first, *second, beta, *third, *counts)


def _piece(operand: Matrices, count: int, writes: bool) -> Piece:
    operation, ld = operand.stored()
    runs, length = operand.shape if operation == Operation.N else operand.transposed.shape
    step = _step(operand)
    return Piece(
        operand.name,
        operand.buffer.address,
        Block(length, runs, ld),
        operand.buffer.dtype.itemsize,
        writes,
        count if step else 1,
        step,
    )
