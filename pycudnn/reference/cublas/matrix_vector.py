"""Level 2: a matrix times a vector, for general, band, symmetric and Hermitian matrices."""

from __future__ import annotations

import numpy as np

from ..memory import blend
from .families import family
from .handle import BlasHandle
from .storage import (
    Array,
    DType,
    check_leading,
    check_operation,
    check_sizes,
    matrix,
    op,
    op_shape,
    scalar,
    vector,
)
from .triangles import band, band_triangle, full_triangle, mirrored, packed_triangle


def accumulate(
    dtype: DType, alpha: int, beta: int, matrix: Array, x: Array, y: Array, scale: DType
) -> None:
    """``y = alpha * matrix @ x + beta * y``, computed in `dtype`; alpha and beta are of `scale`.

    Where alpha is 0 matrix and x do not count, where beta is 0 the old y does not.
    """
    factor, old_factor = scalar(alpha, scale, "alpha"), scalar(beta, scale, "beta")
    product = np.matmul(matrix, x) if factor != 0 else np.zeros(y.shape, dtype)
    blend(y, product, factor, old_factor)


@family("{}gemv_v2")
def gemv(
    dtype: DType,
    handle: BlasHandle,
    trans: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
) -> None:
    """``y = alpha * op(A) x + beta * y``; A is m x n."""
    check_operation(trans)
    check_sizes(m=m, n=n)
    left = op(trans, matrix(a, dtype, m, n, lda, "A"))
    right = vector(x, dtype, left.shape[1], incx, "x")
    out = vector(y, dtype, left.shape[0], incy, "y")
    if m and n:  # as in BLAS, an empty product does not even scale y
        accumulate(dtype, alpha, beta, left, right, out, dtype)


@family("{}gbmv_v2")
def gbmv(
    dtype: DType,
    handle: BlasHandle,
    trans: int,
    m: int,
    n: int,
    kl: int,
    ku: int,
    alpha: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
) -> None:
    """The same for an m x n band matrix of kl diagonals below and ku above the main one."""
    check_operation(trans)
    check_sizes(m=m, n=n, kl=kl, ku=ku)
    check_leading(lda, kl + ku + 1, "A")
    rows, columns = op_shape(trans, m, n)
    right, out = vector(x, dtype, columns, incx, "x"), vector(y, dtype, rows, incy, "y")
    if m and n:
        left = op(trans, band(a, dtype, m, n, kl, ku, lda))
        accumulate(dtype, alpha, beta, left, right, out, dtype)


@family("{}symv_v2", hermitian=False)
@family("{}hemv_v2", "CZ", hermitian=True)
def symv(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
    *,
    hermitian: bool,
) -> None:
    """``y = alpha * A x + beta * y`` for a symmetric or Hermitian A."""
    left = full_triangle(a, dtype, uplo, n, lda)
    _symmetric_product(dtype, hermitian, left, alpha, x, incx, beta, y, incy)


@family("{}sbmv_v2", "SD", hermitian=False)
@family("{}hbmv_v2", "CZ", hermitian=True)
def sbmv(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
    *,
    hermitian: bool,
) -> None:
    """The same for a band matrix of k diagonals on either side of the main one."""
    left = band_triangle(a, dtype, uplo, n, k, lda)
    _symmetric_product(dtype, hermitian, left, alpha, x, incx, beta, y, incy)


@family("{}spmv_v2", "SD", hermitian=False)
@family("{}hpmv_v2", "CZ", hermitian=True)
def spmv(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    n: int,
    alpha: int,
    ap: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
    *,
    hermitian: bool,
) -> None:
    """The same for a packed triangle."""
    left = packed_triangle(ap, dtype, uplo, n)
    _symmetric_product(dtype, hermitian, left, alpha, x, incx, beta, y, incy)


def _symmetric_product(
    dtype: DType,
    hermitian: bool,
    triangle: Array,
    alpha: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
) -> None:
    n = len(triangle)
    right, out = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    if n:
        accumulate(dtype, alpha, beta, mirrored(triangle, hermitian), right, out, dtype)
