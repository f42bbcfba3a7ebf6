"""gemv of many matrices and vectors, also of half types, which are computed in float32."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from .families import publish
from .handle import BlasHandle
from .matrix_vector import accumulate
from .storage import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    DType,
    check_leading,
    check_operation,
    check_sizes,
    computable,
    compute_type,
    invalid,
    matrix,
    op,
    op_shape,
    pointers,
    vector,
)


class _Types(NamedTuple):
    """Of the matrix and x, of y, and of alpha and beta."""

    data: DType
    out: DType
    scale: DType


_TYPES = {
    "S": _Types(FLOAT32, FLOAT32, FLOAT32),
    "D": _Types(FLOAT64, FLOAT64, FLOAT64),
    "C": _Types(COMPLEX64, COMPLEX64, COMPLEX64),
    "Z": _Types(COMPLEX128, COMPLEX128, COMPLEX128),
    "HSH": _Types(FLOAT16, FLOAT16, FLOAT32),
    "HSS": _Types(FLOAT16, FLOAT32, FLOAT32),
    "TST": _Types(BFLOAT16, BFLOAT16, FLOAT32),
    "TSS": _Types(BFLOAT16, FLOAT32, FLOAT32),
}


class _Gemv(NamedTuple):
    """``y = alpha * op(A) x + beta * y``; A is m x n."""

    types: _Types
    trans: int
    m: int
    n: int
    alpha: int
    beta: int
    lda: int
    incx: int
    incy: int

    def check(self, batch: int) -> bool:
        """Raise for wrong arguments; whether there is anything to compute."""
        check_operation(self.trans)
        check_sizes(m=self.m, n=self.n, batchCount=batch)
        check_leading(self.lda, self.m, "A")
        for inc, name in ((self.incx, "x"), (self.incy, "y")):
            if inc == 0:
                raise invalid(f"the increment of {name} is 0")
        return self.m * self.n * batch > 0

    def apply(self, a: int, x: int, y: int) -> None:
        """Compute it for one matrix."""
        data, out, scale = self.types
        rows, columns = op_shape(self.trans, self.m, self.n)
        result = vector(y, out, rows, self.incy, "y")
        left = op(self.trans, matrix(a, data, self.m, self.n, self.lda, "A"))
        right = vector(x, data, columns, self.incx, "x")
        accumulate(
            compute_type(data), self.alpha, self.beta, computable(left), computable(right), result,
            scale,
        )  # fmt: skip


def gemv_batched(
    types: _Types,
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
    batch: int,
) -> None:
    """The addresses of the matrices and vectors lie in three arrays."""
    product = _Gemv(types, trans, m, n, alpha, beta, lda, incx, incy)
    if product.check(batch):
        for places in zip(
            pointers(a, batch, "Aarray"),
            pointers(x, batch, "xarray"),
            pointers(y, batch, "yarray"),
            strict=True,
        ):
            product.apply(*places)


def gemv_strided_batched(
    types: _Types,
    handle: BlasHandle,
    trans: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    stride_a: int,
    x: int,
    incx: int,
    stride_x: int,
    beta: int,
    y: int,
    incy: int,
    stride_y: int,
    batch: int,
) -> None:
    """The matrices and vectors lie a stride apart."""
    product = _Gemv(types, trans, m, n, alpha, beta, lda, incx, incy)
    if product.check(batch):
        data, out = types.data.itemsize, types.out.itemsize
        places = ((a, stride_a * data, "A"), (x, stride_x * data, "x"), (y, stride_y * out, "y"))
        for address, _, name in places:
            if not address:
                raise invalid(f"{name} is NULL")
        for i in range(batch):
            product.apply(*(address + i * stride for address, stride, _ in places))


for _letters, _types in _TYPES.items():
    publish(f"{_letters}gemvBatched", partial(gemv_batched, _types))
    publish(f"{_letters}gemvStridedBatched", partial(gemv_strided_batched, _types))
