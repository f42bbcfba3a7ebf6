"""Level 2: products with and solutions of triangular matrices, in full, band and packed storage."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cublas_enums import FillMode, Operation

from .families import family
from .handle import BlasHandle
from .storage import Array, DType, check_diag, check_operation, op, vector
from .triangles import band_triangle, full_triangle, packed_triangle, substitute, with_diagonal


@family("{}trmv_v2", solve=False)
@family("{}trsv_v2", solve=True)
def full(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    trans: int,
    diag: int,
    n: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    *,
    solve: bool,
) -> None:
    """``x = op(A) x``, or the x of ``op(A) x = b`` in place of b."""
    _check(trans, diag)
    _apply(full_triangle(a, dtype, uplo, n, lda), uplo, trans, diag, x, incx, solve)


@family("{}tbmv_v2", solve=False)
@family("{}tbsv_v2", solve=True)
def banded(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    trans: int,
    diag: int,
    n: int,
    k: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    *,
    solve: bool,
) -> None:
    """The same for a band of k diagonals beside the main one."""
    _check(trans, diag)
    _apply(band_triangle(a, dtype, uplo, n, k, lda), uplo, trans, diag, x, incx, solve)


@family("{}tpmv_v2", solve=False)
@family("{}tpsv_v2", solve=True)
def packed(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    trans: int,
    diag: int,
    n: int,
    ap: int,
    x: int,
    incx: int,
    *,
    solve: bool,
) -> None:
    """The same for a packed triangle."""
    _check(trans, diag)
    _apply(packed_triangle(ap, dtype, uplo, n), uplo, trans, diag, x, incx, solve)


def _check(trans: int, diag: int) -> None:
    check_operation(trans)
    check_diag(diag)


def _apply(
    triangle: Array, uplo: int, trans: int, diag: int, x: int, incx: int, solve: bool
) -> None:
    out = vector(x, triangle.dtype, len(triangle), incx, "x")
    left = op(trans, with_diagonal(triangle, diag))
    if solve:
        column = out.copy()[:, np.newaxis]
        substitute(left, column, lower=(uplo == FillMode.LOWER) == (trans == Operation.N))
        out[...] = column[:, 0]
    else:
        out[...] = left @ out
