"""``D = epilogue(alpha * op(A) op(B) + beta * C)``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi.cublas_enums import ComputeType, CudaDataType, FillMode, Operation
from pycudnn.abi.cublaslt_enums import MatmulDescAttributes, MatrixLayoutAttribute, PointerMode

from ..cublas.products_ex import CUDA_TYPES
from ..cublas.storage import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    COMPLEX_INT8,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    Array,
    DType,
    array,
    check_operation,
    computable,
    compute_type,
    invalid,
    not_supported,
    op,
    scalar,
)
from ..memory import store
from ..parallel import matmul as multiply
from ..runtime import implements
from .attributes import MatmulDesc, MatrixLayout
from .epilogues import Post, read_epilogue
from .layouts import Matrix, read_layout
from .library import LtHandle

Attribute = MatmulDescAttributes

_FLOATS = {
    (FLOAT32, FLOAT16, FLOAT16),
    (FLOAT32, FLOAT16, FLOAT32),
    (FLOAT32, BFLOAT16, BFLOAT16),
    (FLOAT32, BFLOAT16, FLOAT32),
    (FLOAT32, INT8, FLOAT32),
    (FLOAT32, FLOAT32, FLOAT32),
    (COMPLEX64, COMPLEX_INT8, COMPLEX64),
    (COMPLEX64, COMPLEX64, COMPLEX64),
}
_HALVES = {(FLOAT16, FLOAT16, FLOAT16)}
_DOUBLES = {(FLOAT64, FLOAT64, FLOAT64), (COMPLEX128, COMPLEX128, COMPLEX128)}
_INTEGERS = {(INT32, INT8, INT32), (FLOAT32, INT8, INT8)}
# Compute type -> scale type, type of A and B, type of C and D.
TYPES: dict[int, set[tuple[DType, DType, DType]]] = {
    ComputeType.COMPUTE_16F: _HALVES,
    ComputeType.COMPUTE_16F_PEDANTIC: _HALVES,
    ComputeType.COMPUTE_32F: _FLOATS,
    ComputeType.COMPUTE_32F_PEDANTIC: _FLOATS,
    ComputeType.COMPUTE_32F_FAST_16F: _FLOATS,
    ComputeType.COMPUTE_32F_FAST_16BF: _FLOATS,
    ComputeType.COMPUTE_32F_FAST_TF32: _FLOATS,
    ComputeType.COMPUTE_32F_EMULATED_16BFX9: _FLOATS,
    ComputeType.COMPUTE_64F: _DOUBLES,
    ComputeType.COMPUTE_64F_PEDANTIC: _DOUBLES,
    ComputeType.COMPUTE_64F_EMULATED_FIXEDPOINT: _DOUBLES,
    ComputeType.COMPUTE_32I: _INTEGERS,
    ComputeType.COMPUTE_32I_PEDANTIC: _INTEGERS,
}
_SCALE_POINTERS = (
    Attribute.A_SCALE_POINTER,
    Attribute.B_SCALE_POINTER,
    Attribute.C_SCALE_POINTER,
    Attribute.D_SCALE_POINTER,
    Attribute.D_OUT_SCALE_POINTER,
    Attribute.AMAX_D_POINTER,
    Attribute.EPILOGUE_AUX_SCALE_POINTER,
    Attribute.EPILOGUE_AUX_AMAX_POINTER,
)


def check_types(compute: int, scale: int, a: int, b: int, c: int, d: int) -> None:
    """NOT_SUPPORTED unless there is a product of these types."""
    found = tuple(CUDA_TYPES.get(number) for number in (scale, a, d))
    if a != b or c != d or found not in TYPES.get(compute, set()):
        raise not_supported(
            f"no product of types {a}, {b} with {c} into {d}, scale type {scale}, in {compute}"
        )


class Problem(NamedTuple):
    """A product whose descriptors have been checked."""

    operations: tuple[int, int]
    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    pointer_mode: int
    scale: DType
    alpha_stride: int
    post: Post


def read_problem(
    desc: MatmulDesc, a: MatrixLayout, b: MatrixLayout, c: MatrixLayout, d: MatrixLayout
) -> Problem:
    """Check the descriptors of a product."""
    operations = desc[Attribute.TRANSA], desc[Attribute.TRANSB]
    for name, operation in zip(("TRANSA", "TRANSB"), operations, strict=True):
        check_operation(operation, name)
    if desc[Attribute.POINTER_MODE] not in tuple(PointerMode):
        raise invalid(f"POINTER_MODE is {desc[Attribute.POINTER_MODE]}")
    left, right, old, out = (
        read_layout(layout, name) for layout, name in zip((a, b, c, d), "ABCD", strict=True)
    )
    check_types(
        desc[Attribute.COMPUTE_TYPE], desc[Attribute.SCALE_TYPE], *(x[0] for x in (a, b, c, d))
    )
    if desc[Attribute.TRANSC] != Operation.N or desc[Attribute.FILL_MODE] != FillMode.FULL:
        raise not_supported("TRANSC must be N and FILL_MODE must be FULL")
    if any(desc[pointer] for pointer in _SCALE_POINTERS):
        raise invalid("scaling factors of matrices are for 8-bit floats only")
    shape_a = _op_shape(operations[0], left)
    shape_b = _op_shape(operations[1], right)
    want = (shape_a[0], shape_b[1])
    if (
        shape_a[1] != shape_b[0]
        or (out.rows, out.columns) != want
        or (old.rows, old.columns) != want
    ):
        raise invalid(f"op(A) is {shape_a}, op(B) {shape_b}, C {old[2:4]}, D {out[2:4]}")
    if c[MatrixLayoutAttribute.MATRIX_LAYOUT_ORDER] != d[MatrixLayoutAttribute.MATRIX_LAYOUT_ORDER]:
        raise invalid("the orders of C and D differ")
    if len({matrix.batch for matrix in (left, right, old, out)}) != 1:
        raise invalid("the batch counts of A, B, C and D differ")
    post = read_epilogue(desc, out.dtype, out.rows, out.columns, out.batch)
    scale = CUDA_TYPES[CudaDataType(desc[Attribute.SCALE_TYPE])]
    return Problem(
        operations, left, right, old, out, desc[Attribute.POINTER_MODE], scale,
        desc[Attribute.ALPHA_VECTOR_BATCH_STRIDE], post,
    )  # fmt: skip


def _op_shape(operation: int, matrix: Matrix) -> tuple[int, int]:
    shape = matrix.rows, matrix.columns
    return shape if operation == Operation.N else shape[::-1]


@implements("cublasLtMatmul")
def matmul(
    handle: LtHandle,
    desc: MatmulDesc,
    alpha: int,
    a: int,
    a_layout: MatrixLayout,
    b: int,
    b_layout: MatrixLayout,
    beta: int,
    c: int,
    c_layout: MatrixLayout,
    d: int,
    d_layout: MatrixLayout,
    algo: int,
    workspace: int,
    workspace_size: int,
    stream: int,
) -> None:
    """The product, by whatever algorithm; the workspace is not used.

    Half types are computed in float32, int8 exactly.
    """
    problem = read_problem(desc, a_layout, b_layout, c_layout, d_layout)
    lefts, rights, outs = problem.a.views(a), problem.b.views(b), problem.d.views(d)
    olds: list[Array] | None = None
    compute = compute_type(problem.a.dtype)
    for i, (left, right, out) in enumerate(zip(lefts, rights, outs, strict=True)):
        factor, old_factor = _factors(problem, alpha, beta, i)
        left = op(problem.operations[0], computable(left, compute))
        right = op(problem.operations[1], computable(right, compute))
        x = multiply(left[np.newaxis], right[np.newaxis])[0] * factor
        if np.any(old_factor):
            olds = olds or problem.c.views(c)
            x = x + computable(olds[i], x.dtype) * old_factor
        store(out, problem.post.apply(i, x, left, right))


def _factors(problem: Problem, alpha: int, beta: int, member: int) -> tuple[Any, Any]:
    """alpha and beta, each a number or a column of one number for each row of D."""
    mode, scale, rows = problem.pointer_mode, problem.scale, problem.d.rows
    if mode in (PointerMode.HOST, PointerMode.DEVICE):
        return scalar(alpha, scale, "alpha"), scalar(beta, scale, "beta")

    def column(address: int, name: str, stride: int = 0) -> Array:
        at = address and address + member * stride * scale.itemsize
        return computable(array(at, scale, (rows,), (1,), name))[:, np.newaxis]

    if mode == PointerMode.DEVICE_VECTOR:
        return column(alpha, "alpha"), column(beta, "beta")
    factor = column(alpha, "alpha", problem.alpha_stride)
    if mode == PointerMode.ALPHA_DEVICE_VECTOR_BETA_HOST:
        return factor, scalar(beta, scale, "beta")
    return factor, 0
