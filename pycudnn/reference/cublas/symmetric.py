"""Level 3: products with, and rank-k updates of, symmetric and Hermitian matrices.

Of such a matrix only the triangle that `uplo` names is read or written.
"""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cublas_enums import CudaDataType, Operation, SideMode

from ..memory import blend
from .families import family
from .handle import BlasHandle
from .products_ex import check_cuda_types
from .storage import (
    Array,
    DType,
    check_leading,
    check_operation,
    check_side,
    check_sizes,
    check_uplo,
    matrix,
    not_supported,
    op,
    op_shape,
    real_type,
    scalar,
)
from .triangles import full_triangle, mirrored, packed_indices


@family("{}symm_v2", hermitian=False)
@family("{}hemm_v2", "CZ", hermitian=True)
def symm(
    dtype: DType,
    handle: BlasHandle,
    side: int,
    uplo: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    beta: int,
    c: int,
    ldc: int,
    *,
    hermitian: bool,
) -> None:
    """``C = alpha * A B + beta * C``, or B A; A is symmetric or Hermitian, B and C are m x n."""
    check_side(side)
    check_uplo(uplo)
    check_sizes(m=m, n=n)
    order = m if side == SideMode.LEFT else n
    for ld, rows, name in ((lda, order, "A"), (ldb, m, "B"), (ldc, m, "C")):
        check_leading(ld, rows, name)
    if not m * n:
        return
    factor, old_factor = scalar(alpha, dtype, "alpha"), scalar(beta, dtype, "beta")
    out = matrix(c, dtype, m, n, ldc, "C")
    if factor == 0:
        product = np.zeros((m, n), dtype)
    else:
        square = mirrored(full_triangle(a, dtype, uplo, order, lda), hermitian)
        other = matrix(b, dtype, m, n, ldb, "B")
        product = square @ other if side == SideMode.LEFT else other @ square
    blend(out, product, factor, old_factor)


@family("{}syrk_v2", hermitian=False)
@family("{}herk_v2", "CZ", hermitian=True)
def syrk(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    trans: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    lda: int,
    beta: int,
    c: int,
    ldc: int,
    *,
    hermitian: bool,
) -> None:
    """``C = alpha * op(A) op(A)^T + beta * C``; Hermitian: op(A)^H, and alpha and beta are real."""
    scale = real_type(dtype) if hermitian else dtype
    _rank_k(dtype, hermitian, uplo, trans, (n, k), alpha, scale, (a, lda), None, beta, (c, ldc))


@family("CsyrkEx", "C", hermitian=False)
@family("Csyrk3mEx", "C", hermitian=False)
@family("CherkEx", "C", hermitian=True)
@family("Cherk3mEx", "C", hermitian=True)
def syrk_ex(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    trans: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    a_type: int,
    lda: int,
    beta: int,
    c: int,
    c_type: int,
    ldc: int,
    *,
    hermitian: bool,
) -> None:
    """The same, where A and C are of type C_32F: a GPU takes no other A either."""
    check_cuda_types(Atype=a_type, Ctype=c_type)
    if (a_type, c_type) != (CudaDataType.C_32F, CudaDataType.C_32F):
        raise not_supported(f"no update by type {a_type} of type {c_type}")
    scale = real_type(dtype) if hermitian else dtype
    _rank_k(dtype, hermitian, uplo, trans, (n, k), alpha, scale, (a, lda), None, beta, (c, ldc))


@family("{}syr2k_v2", hermitian=False, twice=True)
@family("{}her2k_v2", "CZ", hermitian=True, twice=True)
@family("{}syrkx", hermitian=False, twice=False)
@family("{}herkx", "CZ", hermitian=True, twice=False)
def syr2k(
    dtype: DType,
    handle: BlasHandle,
    uplo: int,
    trans: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    beta: int,
    c: int,
    ldc: int,
    *,
    hermitian: bool,
    twice: bool,
) -> None:
    """``C = alpha * op(A) op(B)^T + beta * C``, if `twice` plus alpha * op(B) op(A)^T.

    Hermitian: ^H for ^T, conj(alpha) in the second product, and beta is real.
    """
    _rank_k(
        dtype, hermitian, uplo, trans, (n, k), alpha, dtype, (a, lda), (b, ldb), beta,
        (c, ldc), twice,
    )  # fmt: skip


def _rank_k(
    dtype: DType,
    hermitian: bool,
    uplo: int,
    trans: int,
    sizes: tuple[int, int],
    alpha: int,
    scale: DType,
    a: tuple[int, int],
    b: tuple[int, int] | None,
    beta: int,
    c: tuple[int, int],
    twice: bool = False,
) -> None:
    """A, B and C are given by address and leading dimension; without B it is A."""
    n, k = sizes
    check_uplo(uplo)
    check_operation(trans)
    check_sizes(n=n, k=k)
    if trans != Operation.N:  # of T and C only one makes sense, and both mean that one
        trans = Operation.C if hermitian else Operation.T
    shape = op_shape(trans, n, k)
    for (_, ld), rows, name in ((a, shape[0], "A"), (b or a, shape[0], "B"), (c, n, "C")):
        check_leading(ld, rows, name)
    if not n:
        return
    factor = scalar(alpha, scale, "alpha")
    old_factor = scalar(beta, real_type(dtype) if hermitian else dtype, "beta")
    if (factor == 0 or k == 0) and old_factor == 1:
        return
    if factor == 0 or k == 0:
        total = np.zeros((n, n), dtype)
    else:
        # The update is left right^T; for op = T (or C) the stored matrices are k x n.
        left = op(trans, matrix(a[0], dtype, *shape, a[1], "A"))
        right = left
        if b is not None:
            right = op(trans, matrix(b[0], dtype, *shape, b[1], "B"))
        total = factor * (left @ (right.conj().T if hermitian else right.T))
        if twice:
            total = total + (total.conj().T if hermitian else total.T)
    out = matrix(c[0], dtype, n, n, c[1], "C")
    _update_triangle(out, uplo, total, old_factor, hermitian)


def _update_triangle(
    out: Array, uplo: int, total: Array, old_factor: float | complex, hermitian: bool
) -> None:
    rows, columns = packed_indices(uplo, len(out))
    values = total[rows, columns]
    if old_factor != 0:
        values = values + out[rows, columns] * old_factor
    if hermitian:
        values = np.where(rows == columns, values.real, values)
    out[rows, columns] = values
