"""Triangles of matrices: symmetric, Hermitian and triangular ones, in full, band or packed form.

Of such a matrix only the lower or upper triangle is stored, or only it counts. It is read here into
a square array with zeros in the other triangle, whichever storage it comes from.
"""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cublas_enums import DiagType, FillMode

from .storage import Array, DType, array, check_leading, check_sizes, check_uplo, matrix

_BLOCK = 32  # below this many unknowns a system is solved row by row


def kept(uplo: int, square: Array) -> Array:
    """The triangle of a square matrix (or of a stack of them), zeros in the other one."""
    return np.tril(square) if uplo == FillMode.LOWER else np.triu(square)


def full_triangle(address: int, dtype: DType, uplo: int, n: int, lda: int) -> Array:
    """From an n x n column-major matrix, of which the other triangle is not looked at."""
    check_uplo(uplo)
    check_sizes(n=n)
    return kept(uplo, matrix(address, dtype, n, n, lda, "A"))


def band_triangle(address: int, dtype: DType, uplo: int, n: int, k: int, lda: int) -> Array:
    """From k + 1 diagonals: the main one in the first row (LOWER) or the last one (UPPER)."""
    check_uplo(uplo)
    check_sizes(n=n, k=k)
    below, above = (k, 0) if uplo == FillMode.LOWER else (0, k)
    return band(address, dtype, n, n, below, above, lda)


def band(
    address: int, dtype: DType, rows: int, columns: int, below: int, above: int, lda: int
) -> Array:
    """A band matrix with zeros outside of its diagonals: element (i, j) lies in row above + i - j
    of column j."""
    check_leading(lda, below + above + 1, "A")
    out = np.zeros((rows, columns), dtype)
    stored = array(address, dtype, (below + above + 1, columns if rows else 0), (1, lda), "A")
    i, j = np.indices(out.shape, sparse=True)
    inside = (i - j <= below) & (j - i <= above)
    row, column = np.nonzero(inside)
    out[row, column] = stored[above + row - column, column]
    return out


def packed_indices(uplo: int, n: int) -> tuple[Array, Array]:
    """Rows and columns of the elements of a packed triangle, which lie column after column."""
    columns, rows = np.triu_indices(n) if uplo == FillMode.LOWER else np.tril_indices(n)
    return rows, columns


def packed(address: int, dtype: DType, uplo: int, n: int) -> Array:
    """The n (n + 1) / 2 elements of a packed triangle, to read or to write."""
    check_uplo(uplo)
    check_sizes(n=n)
    return array(address, dtype, (n * (n + 1) // 2,), (1,), "AP")


def packed_triangle(address: int, dtype: DType, uplo: int, n: int) -> Array:
    """From a packed triangle."""
    stored = packed(address, dtype, uplo, n)
    out = np.zeros((n, n), dtype)
    out[packed_indices(uplo, n)] = stored
    return out


def mirrored(triangle: Array, hermitian: bool) -> Array:
    """The symmetric or Hermitian matrix that a triangle stands for.

    The diagonal of a Hermitian matrix is real: imaginary parts stored there are not looked at.
    """
    diagonal = np.diag(np.diagonal(triangle))
    strict = triangle.copy()
    np.fill_diagonal(strict, 0)
    if hermitian:
        return strict + strict.conj().T + diagonal.real
    return strict + strict.T + diagonal


def with_diagonal(triangle: Array, diag: int) -> Array:
    """The triangular matrix: with ones on its diagonal if it is UNIT, whatever is stored there."""
    if diag == DiagType.UNIT:
        np.fill_diagonal(triangle, 1)
    return triangle


def substitute(triangle: Array, right: Array, lower: bool) -> None:
    """Solve ``triangle @ x = right`` in place of `right`, (n, columns), by substitution.

    A zero on the diagonal divides by zero, as in BLAS.
    """
    n = len(triangle)
    if n > _BLOCK:
        half = n // 2
        top, bottom = slice(0, half), slice(half, n)
        first, then = (top, bottom) if lower else (bottom, top)
        substitute(triangle[first, first], right[first], lower)
        right[then] -= triangle[then, first] @ right[first]
        substitute(triangle[then, then], right[then], lower)
        return
    for i in range(n) if lower else range(n - 1, -1, -1):
        known = slice(0, i) if lower else slice(i + 1, n)
        right[i] = (right[i] - triangle[i, known] @ right[known]) / triangle[i, i]
