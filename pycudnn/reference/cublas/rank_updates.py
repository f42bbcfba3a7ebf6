"""Level 2: updates of a matrix by products of two vectors.

Of a symmetric or Hermitian matrix only the triangle that `uplo` names is written.
"""

from __future__ import annotations

import numpy as np

from .families import family
from .handle import BlasHandle
from .storage import Array, DType, check_sizes, check_uplo, matrix, real_type, scalar, vector
from .triangles import packed, packed_indices


@family("{}ger_v2", "SD", conjugate=False)
@family("{}geru_v2", "CZ", conjugate=False)
@family("{}gerc_v2", "CZ", conjugate=True)
def ger(
    dtype: DType,
    handle: BlasHandle,
    m: int,
    n: int,
    alpha: int,
    x: int,
    incx: int,
    y: int,
    incy: int,
    a: int,
    lda: int,
    *,
    conjugate: bool,
) -> None:
    """``A = alpha * x y^T + A``, or with y^H; A is m x n."""
    check_sizes(m=m, n=n)
    left = vector(x, dtype, m, incx, "x")
    right = vector(y, dtype, n, incy, "y")
    out = matrix(a, dtype, m, n, lda, "A")
    if out.size and (factor := scalar(alpha, dtype, "alpha")) != 0:
        out += factor * np.outer(left, right.conj() if conjugate else right)


@family("{}syr_v2", hermitian=False)
@family("{}her_v2", "CZ", hermitian=True)
def syr(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    n: int,
    alpha: int,
    x: int,
    incx: int,
    a: int,
    lda: int,
    *,
    hermitian: bool,
) -> None:
    """``A = alpha * x x^T + A``, or x x^H with a real alpha, for a symmetric or Hermitian A."""
    check_uplo(uplo)
    check_sizes(n=n)
    left, out = vector(x, dtype, n, incx, "x"), matrix(a, dtype, n, n, lda, "A")
    if (update := _square(dtype, hermitian, alpha, left)) is not None:
        add_to_triangle(out, uplo, update, hermitian)


@family("{}spr_v2", "SD", hermitian=False)
@family("{}hpr_v2", "CZ", hermitian=True)
def spr(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    n: int,
    alpha: int,
    x: int,
    incx: int,
    ap: int,
    *,
    hermitian: bool,
) -> None:
    """The same for a packed triangle."""
    out, left = packed(ap, dtype, uplo, n), vector(x, dtype, n, incx, "x")
    if (update := _square(dtype, hermitian, alpha, left)) is not None:
        _add_to_packed(out, uplo, update, hermitian)


@family("{}syr2_v2", hermitian=False)
@family("{}her2_v2", "CZ", hermitian=True)
def syr2(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    n: int,
    alpha: int,
    x: int,
    incx: int,
    y: int,
    incy: int,
    a: int,
    lda: int,
    *,
    hermitian: bool,
) -> None:
    """``A = alpha * x y^T + alpha * y x^T + A``; Hermitian: y^H, x^H and conj(alpha) at second."""
    check_uplo(uplo)
    check_sizes(n=n)
    left, right = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    out = matrix(a, dtype, n, n, lda, "A")
    if (update := _two_products(dtype, hermitian, alpha, left, right)) is not None:
        add_to_triangle(out, uplo, update, hermitian)


@family("{}spr2_v2", "SD", hermitian=False)
@family("{}hpr2_v2", "CZ", hermitian=True)
def spr2(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    n: int,
    alpha: int,
    x: int,
    incx: int,
    y: int,
    incy: int,
    ap: int,
    *,
    hermitian: bool,
) -> None:
    """The same for a packed triangle."""
    out = packed(ap, dtype, uplo, n)
    left, right = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    if (update := _two_products(dtype, hermitian, alpha, left, right)) is not None:
        _add_to_packed(out, uplo, update, hermitian)


def _square(dtype: DType, hermitian: bool, alpha: int, x: Array) -> Array | None:
    """alpha * x x^T or x x^H; None where nothing is to be added."""
    if not len(x):
        return None
    factor = scalar(alpha, real_type(dtype) if hermitian else dtype, "alpha")
    return factor * np.outer(x, x.conj() if hermitian else x) if factor != 0 else None


def _two_products(dtype: DType, hermitian: bool, alpha: int, x: Array, y: Array) -> Array | None:
    if not len(x) or (factor := scalar(alpha, dtype, "alpha")) == 0:
        return None
    product = factor * np.outer(x, y.conj() if hermitian else y)
    return product + (product.conj().T if hermitian else product.T)


def add_to_triangle(out: Array, uplo: int, update: Array, hermitian: bool) -> None:
    """Add to one triangle of a square matrix; the diagonal of a Hermitian one becomes real."""
    rows, columns = packed_indices(uplo, len(out))
    total = out[rows, columns] + update[rows, columns]
    out[rows, columns] = _real_where(rows == columns, total) if hermitian else total


def _add_to_packed(out: Array, uplo: int, update: Array, hermitian: bool) -> None:
    rows, columns = packed_indices(uplo, len(update))
    total = out + update[rows, columns]
    out[...] = _real_where(rows == columns, total) if hermitian else total


def _real_where(mask: Array, values: Array) -> Array:
    return np.where(mask, values.real, values)
