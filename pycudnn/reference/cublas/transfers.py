"""Copies of vectors and matrices between host and device, which are one memory here."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cublas_enums import Status as CublasStatus

from ..runtime import Status
from .families import both_widths
from .storage import Array, DType, array, check_sizes, invalid


@both_widths("SetVector")
@both_widths("GetVector")
def copy_vector(n: int, item: int, x: int, incx: int, y: int, incy: int) -> None:
    """n elements of `item` bytes that lie incx and incy elements apart."""
    _check_positive(item=item, incx=incx, incy=incy)
    if n < 0:
        raise _unmapped(f"n is {n}, must not be negative")
    if n:
        dtype = np.dtype((np.void, item))
        _view(y, dtype, (n,), (incy,))[...] = _view(x, dtype, (n,), (incx,))


@both_widths("SetVectorAsync")
@both_widths("GetVectorAsync")
def copy_vector_async(n: int, item: int, x: int, incx: int, y: int, incy: int, stream: int) -> None:
    """The same on a stream; copied when it returns."""
    copy_vector(n, item, x, incx, y, incy)


@both_widths("SetMatrix")
@both_widths("GetMatrix")
def copy_matrix(rows: int, columns: int, item: int, a: int, lda: int, b: int, ldb: int) -> None:
    """A rows x columns matrix of elements of `item` bytes, stored column-major."""
    _check_positive(item=item, lda=lda, ldb=ldb)
    check_sizes(rows=rows, cols=columns)
    if rows * columns:
        if min(lda, ldb) < rows:
            raise _unmapped(f"lda is {lda}, ldb is {ldb}, must be at least {rows}")
        dtype = np.dtype((np.void, item))
        source = _view(a, dtype, (rows, columns), (1, lda))
        _view(b, dtype, (rows, columns), (1, ldb))[...] = source


@both_widths("SetMatrixAsync")
@both_widths("GetMatrixAsync")
def copy_matrix_async(
    rows: int, columns: int, item: int, a: int, lda: int, b: int, ldb: int, stream: int
) -> None:
    """The same on a stream; copied when it returns."""
    copy_matrix(rows, columns, item, a, lda, b, ldb)


def _check_positive(**positive: int) -> None:
    for name, value in positive.items():
        if value <= 0:
            raise invalid(f"{name} is {value}, must be positive")


def _view(address: int, dtype: DType, shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    if not address:
        raise _unmapped("an address is NULL")
    return array(address, dtype, shape, steps, "data")


def _unmapped(text: str) -> Status:
    return Status(CublasStatus.MAPPING_ERROR, text)
