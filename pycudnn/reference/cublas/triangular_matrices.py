"""Level 3: products with and solutions of triangular matrices."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cublas_enums import FillMode, Operation, SideMode

from ..memory import blend
from .families import family
from .handle import BlasHandle
from .storage import (
    Array,
    DType,
    check_diag,
    check_leading,
    check_operation,
    check_side,
    check_sizes,
    check_uplo,
    matrix,
    op,
    pointers,
    scalar,
)
from .triangles import full_triangle, substitute, with_diagonal


def _check(side: int, uplo: int, trans: int, diag: int, m: int, n: int, lda: int, ldb: int) -> int:
    """Raise for wrong arguments; the order of A."""
    check_side(side)
    check_uplo(uplo)
    check_operation(trans)
    check_diag(diag)
    check_sizes(m=m, n=n)
    order = m if side == SideMode.LEFT else n
    check_leading(lda, order, "A")
    check_leading(ldb, m, "B")
    return order


@family("{}trmm_v2")
def trmm(
    dtype: DType,
    handle: BlasHandle,
    side: int,
    uplo: int,
    trans: int,
    diag: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    c: int,
    ldc: int,
) -> None:
    """``C = alpha * op(A) B``, or B op(A), for a triangular A; C may be B."""
    order = _check(side, uplo, trans, diag, m, n, lda, ldb)
    check_leading(ldc, m, "C")
    if not m * n:
        return
    factor = scalar(alpha, dtype, "alpha")
    out = matrix(c, dtype, m, n, ldc, "C")
    if factor == 0:
        out[...] = 0
        return
    triangle = op(trans, with_diagonal(full_triangle(a, dtype, uplo, order, lda), diag))
    other = matrix(b, dtype, m, n, ldb, "B")
    product = triangle @ other if side == SideMode.LEFT else other @ triangle
    blend(out, product, factor, 0)


@family("{}trsm_v2")
def trsm(
    dtype: DType,
    handle: BlasHandle,
    side: int,
    uplo: int,
    trans: int,
    diag: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
) -> None:
    """The X of ``op(A) X = alpha * B``, or of X op(A), in place of B, for a triangular A."""
    order = _check(side, uplo, trans, diag, m, n, lda, ldb)
    if not m * n:
        return
    factor = scalar(alpha, dtype, "alpha")
    out = matrix(b, dtype, m, n, ldb, "B")
    if factor == 0:
        out[...] = 0
        return
    triangle = with_diagonal(full_triangle(a, dtype, uplo, order, lda), diag)
    out[...] = solved(side, uplo, trans, triangle, factor * out)


@family("{}trsmBatched")
def trsm_batched(
    dtype: DType,
    handle: BlasHandle,
    side: int,
    uplo: int,
    trans: int,
    diag: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    batch: int,
) -> None:
    """The same for matrices whose addresses lie in two arrays."""
    check_sizes(batchCount=batch)
    _check(side, uplo, trans, diag, m, n, lda, ldb)
    if not m * n * batch:
        return
    unread = scalar(alpha, dtype, "alpha") == 0
    matrices = [0] * batch if unread else pointers(a, batch, "A")
    for at_a, at_b in zip(matrices, pointers(b, batch, "B"), strict=True):
        trsm(dtype, handle, side, uplo, trans, diag, m, n, alpha, at_a, lda, at_b, ldb)


def solved(side: int, uplo: int, trans: int, triangle: Array, right: Array) -> Array:
    """The X of op(triangle) X = right, or of X op(triangle) = right."""
    left = op(trans, triangle)
    lower = (uplo == FillMode.LOWER) == (trans == Operation.N)
    if side == SideMode.RIGHT:  # the same equation transposed
        left, right, lower = left.T, right.T, not lower
    result = np.array(right)
    substitute(left, result, lower)
    return result.T if side == SideMode.RIGHT else result
