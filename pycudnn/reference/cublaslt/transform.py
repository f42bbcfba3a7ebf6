"""``C = alpha * op(A) + beta * op(B)``, from any type and order into any other."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cublas_enums import Operation
from pycudnn.abi.cublaslt_enums import MatrixTransformDescAttributes, PointerMode

from ..cublas.products_ex import CUDA_TYPES
from ..cublas.storage import (
    FLOAT32,
    FLOAT64,
    Array,
    check_operation,
    computable,
    invalid,
    not_supported,
    op,
    scalar,
)
from ..memory import store
from ..runtime import implements
from .attributes import MatrixLayout, MatrixTransformDesc
from .layouts import Matrix, read_layout
from .library import LtHandle

Attribute = MatrixTransformDescAttributes


@implements("cublasLtMatrixTransform", optional=("Adesc", "Bdesc"))
def matrix_transform(
    handle: LtHandle,
    desc: MatrixTransformDesc,
    alpha: int,
    a: int,
    a_layout: MatrixLayout | None,
    beta: int,
    b: int,
    b_layout: MatrixLayout | None,
    c: int,
    c_layout: MatrixLayout,
    stream: int,
) -> None:
    """A or B may be left out, or has the factor 0: then it is not read."""
    scale = CUDA_TYPES.get(desc[Attribute.SCALE_TYPE])
    if scale not in (FLOAT32, FLOAT64):
        raise not_supported(f"scale type is {desc[Attribute.SCALE_TYPE]}, must be R_32F or R_64F")
    if desc[Attribute.POINTER_MODE] not in (PointerMode.HOST, PointerMode.DEVICE):
        raise not_supported(f"POINTER_MODE is {desc[Attribute.POINTER_MODE]}")
    target = read_layout(c_layout, "C")
    total: list[Array] = [
        np.zeros((target.rows, target.columns), scale) for _ in range(target.batch)
    ]
    for address, layout, factor_at, operation, name in (
        (a, a_layout, alpha, desc[Attribute.TRANSA], "A"),
        (b, b_layout, beta, desc[Attribute.TRANSB], "B"),
    ):
        check_operation(operation, f"TRANS{name}")
        if layout is None:
            if address:
                raise invalid(f"{name} has no layout")
            continue
        source = read_layout(layout, name)
        _check_shape(source, operation, target)
        factor = scalar(factor_at, scale, "alpha or beta")
        if factor != 0 and address:
            for out, stored in zip(total, source.views(address), strict=True):
                out += factor * op(operation, computable(stored, scale))
    for out, values in zip(target.views(c), total, strict=True):
        store(out, values)


def _check_shape(source: Matrix, operation: int, target: Matrix) -> None:
    shape = source.rows, source.columns
    if operation != Operation.N:
        shape = shape[::-1]
    if shape != (target.rows, target.columns) or source.batch != target.batch:
        raise invalid(f"op({source.name}) is {shape}, C is {target.rows} x {target.columns}")
