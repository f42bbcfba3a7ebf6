"""Extensions: LU and QR factorizations of many small matrices, and what is solved with them.

The addresses of the matrices lie in arrays. A result of -i in `info` names a wrong argument, i > 0
the first zero on a diagonal (counted from 1), 0 is success. LU: ``P A = L U``, the multipliers of L
below the diagonal, whose own diagonal of ones is not stored. QR: as in LAPACK, the j-th reflector
``I - tau v v^H`` has 1 at v[j] and the rest of v below the diagonal of column j.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudnn.abi.cublas_enums import DiagType, FillMode, Operation, SideMode

from .families import family
from .handle import BlasHandle
from .storage import (
    INT32,
    Array,
    DType,
    array,
    cell,
    check_leading,
    check_operation,
    check_sizes,
    invalid,
    matrix,
    not_supported,
    pointers,
)
from .triangles import kept, substitute, with_diagonal
from .triangular_matrices import solved
from .vectors import sizes_of

_LARGEST_INVERSE = 32  # rows of what matinvBatched takes


# --- LU ------------------------------------------------------------------------------------------


def _factor(a: Array, pivots: Array | None) -> int:
    """Factorize in place. `pivots` gets the row, from 1, that each row was exchanged with; without
    it no rows are exchanged. The info."""
    info = 0
    for j in range(len(a)):
        if pivots is not None:
            best = j + int(np.argmax(sizes_of(a[j:, j])))
            pivots[j] = best + 1
            a[[j, best]] = a[[best, j]]
        if a[j, j] == 0:
            info = info or j + 1
            continue
        a[j + 1 :, j] /= a[j, j]
        a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
    return info


def _exchanged(right: Array, pivots: Array | None, backwards: bool = False) -> Array:
    """The rows of `right` exchanged as the factorization did, or back again."""
    result = np.array(right)
    if pivots is not None:
        steps = list(enumerate(pivots))
        for i, pivot in reversed(steps) if backwards else steps:
            result[[i, pivot - 1]] = result[[pivot - 1, i]]
    return result


def _lu_solve(trans: int, a: Array, pivots: Array | None, right: Array) -> Array:
    """The X of ``op(A) X = right`` from the factors of A."""
    lower = with_diagonal(kept(FillMode.LOWER, a), DiagType.UNIT)
    factors = [(FillMode.LOWER, lower), (FillMode.UPPER, kept(FillMode.UPPER, a))]
    if trans == Operation.N:
        right = _exchanged(right, pivots)
    else:
        factors.reverse()
    for uplo, factor in factors:
        right = solved(SideMode.LEFT, uplo, trans, factor, right)
    return right if trans == Operation.N else _exchanged(right, pivots, backwards=True)


def _pivots(address: int, n: int, member: int) -> Array | None:
    """The row exchanges of one matrix; NULL stands for none."""
    if not address:
        return None
    return array(address + 4 * n * member, INT32, (n,), (1,), "P")


def _infos(address: int, batch: int) -> Array:
    return array(address, INT32, (batch,), (1,), "info")


@family("{}getrfBatched")
def getrf_batched(
    dtype: DType, handle: BlasHandle, n: int, a: int, lda: int, p: int, info: int, batch: int
) -> None:
    """LU factorization in place, with row exchanges unless `p` is NULL."""
    check_sizes(n=n, batchSize=batch)
    check_leading(lda, n, "A")
    if not n:
        return
    infos = _infos(info, batch)
    for i, at in enumerate(pointers(a, batch, "Aarray")):
        infos[i] = _factor(matrix(at, dtype, n, n, lda, "A"), _pivots(p, n, i))


@family("{}getriBatched")
def getri_batched(
    dtype: DType,
    handle: BlasHandle,
    n: int,
    a: int,
    lda: int,
    p: int,
    c: int,
    ldc: int,
    info: int,
    batch: int,
) -> None:
    """Inverses from LU factors, into other matrices."""
    check_sizes(n=n, batchSize=batch)
    check_leading(lda, n, "A")
    check_leading(ldc, n, "C")
    if not n:
        return
    infos = _infos(info, batch)
    places = zip(pointers(a, batch, "Aarray"), pointers(c, batch, "Carray"), strict=True)
    for i, (at_a, at_c) in enumerate(places):
        factors = matrix(at_a, dtype, n, n, lda, "A")
        out = matrix(at_c, dtype, n, n, ldc, "C")
        infos[i] = _first_zero(factors)
        out[...] = _lu_solve(Operation.N, factors, _pivots(p, n, i), np.eye(n, dtype=dtype))


def _first_zero(square: Array) -> int:
    zeros = np.flatnonzero(np.diagonal(square) == 0)
    return int(zeros[0]) + 1 if zeros.size else 0


@family("{}getrsBatched")
def getrs_batched(
    dtype: DType,
    handle: BlasHandle,
    trans: int,
    n: int,
    columns: int,
    a: int,
    lda: int,
    p: int,
    b: int,
    ldb: int,
    info: int,
    batch: int,
) -> None:
    """The X of ``op(A) X = B`` from LU factors, in place of B. `info` is one number."""
    out = cell(info, INT32, "info")
    _check_parameters(
        out,
        (1, trans not in (Operation.N, Operation.T, Operation.C)),
        (2, n < 0),
        (3, columns < 0),
        (5, lda < max(1, n)),
        (8, ldb < max(1, n)),
        (10, batch < 0),
    )
    check_operation(trans)
    if not n * columns:
        return
    places = zip(pointers(a, batch, "Aarray"), pointers(b, batch, "Barray"), strict=True)
    for i, (at_a, at_b) in enumerate(places):
        factors = matrix(at_a, dtype, n, n, lda, "A")
        right = matrix(at_b, dtype, n, columns, ldb, "B")
        right[...] = _lu_solve(trans, factors, _pivots(p, n, i), right)


def _check_parameters(info: Array, *checks: tuple[int, bool]) -> None:
    """`info` becomes minus the number of the first wrong parameter, which is then raised for."""
    for number, wrong in checks:
        if wrong:
            info[0] = -number
            raise invalid(f"parameter {number} is wrong")
    info[0] = 0


@family("{}matinvBatched")
def matinv_batched(
    dtype: DType,
    handle: BlasHandle,
    n: int,
    a: int,
    lda: int,
    inverse: int,
    ld_inverse: int,
    info: int,
    batch: int,
) -> None:
    """Inverses of matrices of up to 32 rows, into other matrices."""
    check_sizes(n=n, batchSize=batch)
    if n > _LARGEST_INVERSE:
        raise invalid(f"n is {n}, must be at most {_LARGEST_INVERSE}")
    check_leading(lda, n, "A")
    check_leading(ld_inverse, n, "Ainv")
    if not n:
        return
    infos = _infos(info, batch)
    places = zip(pointers(a, batch, "A"), pointers(inverse, batch, "Ainv"), strict=True)
    for i, (at_a, at_inverse) in enumerate(places):
        factors = np.array(matrix(at_a, dtype, n, n, lda, "A"))
        out = matrix(at_inverse, dtype, n, n, ld_inverse, "Ainv")
        pivots = np.zeros(n, INT32)
        infos[i] = _factor(factors, pivots)
        out[...] = _lu_solve(Operation.N, factors, pivots, np.eye(n, dtype=dtype))


# --- QR ------------------------------------------------------------------------------------------


def _reflector(column: Array) -> Any:
    """Turn a column into (beta, v[1:]) of the reflector that maps it to (beta, 0, ...); its tau."""
    first, rest = column[0], np.linalg.norm(column[1:])
    if rest == 0 and first.imag == 0:
        return column.dtype.type(0)
    beta = -np.copysign(np.hypot(np.abs(first), rest), first.real)
    column[1:] /= first - beta
    column[0] = beta
    return (beta - first) / beta


def _apply_reflector(v: Array, tau: Any, right: Array) -> None:
    """``right = (I - conj(tau) v v^H) right`` in place, with 1 for v[0]."""
    v = np.array(v)
    v[0] = 1
    right -= np.outer(np.conj(tau) * v, v.conj() @ right)


def _qr(a: Array, taus: Array) -> None:
    for j, _ in enumerate(taus):
        taus[j] = _reflector(a[j:, j])
        _apply_reflector(a[j:, j], taus[j], a[j:, j + 1 :])


@family("{}geqrfBatched")
def geqrf_batched(
    dtype: DType,
    handle: BlasHandle,
    m: int,
    n: int,
    a: int,
    lda: int,
    tau: int,
    info: int,
    batch: int,
) -> None:
    """QR factorization in place; TauArray has min(m, n) numbers a matrix. `info` is one number."""
    out = cell(info, INT32, "info")
    _check_parameters(out, (1, m < 0), (2, n < 0), (4, lda < max(1, m)), (7, batch < 0))
    if not m * n:
        return
    places = zip(pointers(a, batch, "Aarray"), pointers(tau, batch, "TauArray"), strict=True)
    for at_a, at_tau in places:
        _qr(matrix(at_a, dtype, m, n, lda, "A"), array(at_tau, dtype, (min(m, n),), (1,), "Tau"))


@family("{}gelsBatched")
def gels_batched(
    dtype: DType,
    handle: BlasHandle,
    trans: int,
    m: int,
    n: int,
    columns: int,
    a: int,
    lda: int,
    c: int,
    ldc: int,
    info: int,
    device_info: int,
    batch: int,
) -> None:
    """The X that minimises ``|A X - C|`` for m >= n, into the first n rows of C.

    A becomes its QR factors; devInfoArray, unless NULL, gets the first zero on each diagonal of R.
    """
    out = cell(info, INT32, "info")
    if trans != Operation.N:
        out[0] = 0
        raise not_supported(f"trans is {trans}, must be N")
    _check_parameters(
        out,
        (2, m < 0),
        (3, n < 0),
        (4, columns < 0),
        (6, lda < max(1, m)),
        (8, ldc < max(1, m)),
        (11, batch < 0),
    )
    if not m * n * columns:
        return
    if m < n:
        raise not_supported(f"m is {m}, must be at least n, {n}")
    infos = _infos(device_info, batch) if device_info else np.zeros(batch, INT32)
    places = zip(pointers(a, batch, "Aarray"), pointers(c, batch, "Carray"), strict=True)
    for i, (at_a, at_c) in enumerate(places):
        factors, right = (
            matrix(at_a, dtype, m, n, lda, "A"),
            matrix(at_c, dtype, m, columns, ldc, "C"),
        )
        taus = np.zeros(n, dtype)
        _qr(factors, taus)
        infos[i] = _first_zero(factors[:n])
        for j, tau in enumerate(taus):
            _apply_reflector(factors[j:, j], tau, right[j:])
        substitute(kept(FillMode.UPPER, factors[:n]), right[:n], lower=False)
