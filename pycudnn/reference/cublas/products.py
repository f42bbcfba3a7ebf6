"""Level 3: products of general matrices, one or many of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..memory import blend
from ..parallel import matmul
from .families import family
from .handle import BlasHandle
from .storage import (
    Array,
    DType,
    array,
    check_leading,
    check_operation,
    check_sizes,
    computable,
    compute_type,
    invalid,
    op,
    op_shape,
    pointers,
    scalar,
)


class Operand(NamedTuple):
    """A column-major matrix argument, or as many as a batch has, `stride` elements apart."""

    address: int
    dtype: DType
    ld: int
    name: str
    stride: int = 0

    def view(self, batch: int, rows: int, columns: int) -> Array:
        """(batch, rows, columns)."""
        if self.stride < 0:
            raise invalid(f"the stride of {self.name} is {self.stride}, must not be negative")
        return array(
            self.address, self.dtype, (batch, rows, columns), (self.stride, 1, self.ld), self.name
        )


class Product(NamedTuple):
    """``C = alpha * op(A) op(B) + beta * C``: op(A) is m x k, op(B) is k x n and C is m x n.

    It is computed in the type `compute`; alpha and beta, given by address, are of the type `scale`.
    """

    operations: tuple[int, int]
    sizes: tuple[int, int, int]
    alpha: int
    beta: int
    compute: DType
    scale: DType

    def check(self, a: Operand, b: Operand, c: Operand) -> None:
        """Raise for whatever is wrong with the arguments but for their memory."""
        m, n, k = self.sizes
        check_operation(self.operations[0], "transa")
        check_operation(self.operations[1], "transb")
        check_sizes(m=m, n=n, k=k)
        shapes = self._stored_shapes()
        for operand, (rows, _) in zip((a, b, c), shapes, strict=True):
            check_leading(operand.ld, rows, operand.name)

    def _stored_shapes(self) -> tuple[tuple[int, int], ...]:
        m, n, k = self.sizes
        return op_shape(self.operations[0], m, k), op_shape(self.operations[1], k, n), (m, n)

    def apply(self, a: Operand, b: Operand, c: Operand, batch: int = 1) -> None:
        """Compute it, for each member of the batch."""
        check_sizes(batchCount=batch)
        self.check(a, b, c)
        m, n, k = self.sizes
        if not m * n * batch:
            return
        factor = scalar(self.alpha, self.scale, "alpha")
        old_factor = scalar(self.beta, self.scale, "beta")
        shape_a, shape_b, _ = self._stored_shapes()
        out = c.view(batch, m, n)
        if factor == 0 or k == 0:
            blend(out, np.zeros(out.shape, self.compute), 1, old_factor)
            return
        left = op(self.operations[0], computable(a.view(batch, *shape_a), self.compute))
        right = op(self.operations[1], computable(b.view(batch, *shape_b), self.compute))
        if old_factor == 0 and factor == 1 and out.dtype == self.compute:
            matmul(left, right, out)
        else:
            blend(out, matmul(left, right), factor, old_factor)

    def apply_to_each(self, a: Operand, b: Operand, c: Operand, batch: int) -> None:
        """Compute it for matrices whose addresses lie in arrays: a.address and so on are these."""
        check_sizes(batchCount=batch)
        self.check(a, b, c)
        m, n, k = self.sizes
        if not m * n * batch:
            return
        unread = k == 0 or scalar(self.alpha, self.scale, "alpha") == 0
        inputs = [
            [0] * batch if unread else pointers(operand.address, batch, f"{operand.name}array")
            for operand in (a, b)
        ]
        for at_a, at_b, at_c in zip(*inputs, pointers(c.address, batch, "Carray"), strict=True):
            self.apply(a._replace(address=at_a), b._replace(address=at_b), c._replace(address=at_c))


@family("Hgemm", "H")
@family("{}gemm_v2")
@family("{}gemm3m", "CZ")
def gemm(
    dtype: DType,
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
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
) -> None:
    """``C = alpha * op(A) op(B) + beta * C``: op(A) is m x k, op(B) k x n, C m x n."""
    product = Product((transa, transb), (m, n, k), alpha, beta, compute_type(dtype), dtype)
    product.apply(
        Operand(a, dtype, lda, "A"), Operand(b, dtype, ldb, "B"), Operand(c, dtype, ldc, "C")
    )


@family("{}gemmStridedBatched", "HSDCZ")
@family("Cgemm3mStridedBatched", "C")
def gemm_strided_batched(
    dtype: DType,
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    lda: int,
    stride_a: int,
    b: int,
    ldb: int,
    stride_b: int,
    beta: int,
    c: int,
    ldc: int,
    stride_c: int,
    batch: int,
) -> None:
    """The same for `batch` products whose matrices lie a stride apart; stride 0 repeats one."""
    product = Product((transa, transb), (m, n, k), alpha, beta, compute_type(dtype), dtype)
    product.apply(
        Operand(a, dtype, lda, "A", stride_a),
        Operand(b, dtype, ldb, "B", stride_b),
        Operand(c, dtype, ldc, "C", stride_c),
        batch,
    )


@family("{}gemmBatched", "HSDCZ")
@family("Cgemm3mBatched", "C")
def gemm_batched(
    dtype: DType,
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
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
    batch: int,
) -> None:
    """The same for matrices whose addresses lie in three arrays."""
    product = Product((transa, transb), (m, n, k), alpha, beta, compute_type(dtype), dtype)
    product.apply_to_each(
        Operand(a, dtype, lda, "A"), Operand(b, dtype, ldb, "B"), Operand(c, dtype, ldc, "C"), batch
    )
