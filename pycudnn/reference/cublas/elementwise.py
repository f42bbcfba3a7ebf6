"""Extensions: sums of matrices, products with a diagonal, and changes of a triangle's storage."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cublas_enums import Operation, SideMode

from .families import family
from .handle import BlasHandle
from .storage import (
    DType,
    check_leading,
    check_operation,
    check_side,
    check_sizes,
    check_uplo,
    invalid,
    matrix,
    op,
    op_shape,
    scalar,
    vector,
)
from .triangles import packed, packed_indices


@family("{}geam")
def geam(
    dtype: DType,
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    beta: int,
    b: int,
    ldb: int,
    c: int,
    ldc: int,
) -> None:
    """``C = alpha * op(A) + beta * op(B)``; C may be A or B where that one is not transposed."""
    check_sizes(m=m, n=n)
    operands = ((transa, a, lda, alpha, "A"), (transb, b, ldb, beta, "B"))
    for operation, address, ld, _, name in operands:
        check_operation(operation, f"trans{name.lower()}")
        if c == address and c and (operation != Operation.N or ld != ldc):
            raise invalid(f"C may be {name} only if {name} is not transposed and ld{name} is ldc")
        check_leading(ld, op_shape(operation, m, n)[0], name)
    out = matrix(c, dtype, m, n, ldc, "C")
    if not out.size:
        return
    total = np.zeros(out.shape, dtype)
    for operation, address, ld, scale, name in operands:
        factor = scalar(scale, dtype, "alpha or beta")
        if factor != 0:
            shape = op_shape(operation, m, n)
            total += factor * op(operation, matrix(address, dtype, *shape, ld, name))
    out[...] = total


@family("{}dgmm")
def dgmm(
    dtype: DType,
    handle: BlasHandle,
    mode: int,
    m: int,
    n: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    c: int,
    ldc: int,
) -> None:
    """``C = diag(x) A`` (LEFT) or ``C = A diag(x)`` (RIGHT); C may be A."""
    check_side(mode)
    check_sizes(m=m, n=n)
    left = mode == SideMode.LEFT
    stored, out = matrix(a, dtype, m, n, lda, "A"), matrix(c, dtype, m, n, ldc, "C")
    if out.size:
        diagonal = vector(x, dtype, m if left else n, incx, "x")
        out[...] = (diagonal[:, np.newaxis] if left else diagonal) * stored


@family("{}tpttr")
def tpttr(dtype: DType, handle: BlasHandle, uplo: int, n: int, ap: int, a: int, lda: int) -> None:
    """A packed triangle into the triangle of a matrix, whose other triangle stays as it is."""
    check_uplo(uplo)
    stored, out = packed(ap, dtype, uplo, n), matrix(a, dtype, n, n, lda, "A")
    out[packed_indices(uplo, n)] = stored


@family("{}trttp")
def trttp(dtype: DType, handle: BlasHandle, uplo: int, n: int, a: int, lda: int, ap: int) -> None:
    """The triangle of a matrix into a packed one."""
    check_uplo(uplo)
    out, stored = packed(ap, dtype, uplo, n), matrix(a, dtype, n, n, lda, "A")
    out[...] = stored[packed_indices(uplo, n)]
