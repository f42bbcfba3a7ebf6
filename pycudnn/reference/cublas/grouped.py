"""Products of general matrices in groups, each with sizes and scalars of its own.

What belongs to a group lies in arrays on the host, one entry a group; the addresses of the matrices
of all groups lie one after another in three arrays.
"""

from __future__ import annotations

from pycudnn.abi.cublas_enums import ComputeType

from .families import both_widths, family
from .handle import BlasHandle
from .products import Operand, Product
from .products_ex import Types
from .storage import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    DType,
    array,
    check_sizes,
    compute_type,
    invalid,
)

_POINTER = 8  # bytes of an address

# Compute type -> the types of A, B and C, fewer than one product at a time takes.
_GROUPED: dict[int, tuple[DType, ...]] = {
    ComputeType.COMPUTE_32F: (FLOAT16, BFLOAT16, FLOAT32),
    ComputeType.COMPUTE_32F_PEDANTIC: (FLOAT32,),
    ComputeType.COMPUTE_32F_FAST_TF32: (FLOAT32,),
    ComputeType.COMPUTE_64F: (FLOAT64,),
}


@family("{}gemmGroupedBatched", "SD", indexed=True)
def gemm_grouped_batched(
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
    group_count: int,
    group_size: int,
    *,
    integers: DType,
) -> None:
    """gemm for each group of `group_size` products."""
    groups = _Groups(group_count, integers)
    groups.read((transa, transb), (m, n, k), (lda, ldb, ldc), group_size)
    groups.apply(compute_type(dtype), dtype, (dtype, dtype), (alpha, beta), (a, b, c))


@both_widths("GemmGroupedBatchedEx", indexed=True)
def gemm_grouped_batched_ex(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    a: int,
    a_type: int,
    lda: int,
    b: int,
    b_type: int,
    ldb: int,
    beta: int,
    c: int,
    c_type: int,
    ldc: int,
    group_count: int,
    group_size: int,
    compute_type: int,
    *,
    integers: DType,
) -> None:
    """The same with a type for each matrix and for the arithmetic."""
    groups = _Groups(group_count, integers)
    groups.read((transa, transb), (m, n, k), (lda, ldb, ldc), group_size)
    pairs = frozenset((dtype, dtype) for dtype in _GROUPED.get(compute_type, ()))
    scale = FLOAT64 if compute_type == ComputeType.COMPUTE_64F else FLOAT32
    types = Types(a_type, b_type, c_type, pairs, scale)
    groups.apply(types.compute, types.scale, (types.factor, types.out), (alpha, beta), (a, b, c))


class _Groups:
    """The arrays that describe the groups."""

    def __init__(self, count: int, integers: DType) -> None:
        check_sizes(group_count=count)
        self.count, self.integers = count, integers

    def read(
        self,
        operations: tuple[int, int],
        sizes: tuple[int, int, int],
        leading: tuple[int, int, int],
        group_size: int,
    ) -> None:
        """From the addresses of the arrays."""
        self.operations = [self._ints(at, "trans_array", INT32) for at in operations]
        self.sizes = [
            self._ints(at, f"{name}_array") for at, name in zip(sizes, "mnk", strict=True)
        ]
        self.leading = [
            self._ints(at, f"ld{name}_array") for at, name in zip(leading, "abc", strict=True)
        ]
        self.members = self._ints(group_size, "group_size")
        if self.members and min(self.members) < 0:
            raise invalid(f"group_size has a negative number: {self.members}")

    def _ints(self, address: int, name: str, dtype: DType | None = None) -> list[int]:
        return [int(i) for i in array(address, dtype or self.integers, (self.count,), (1,), name)]

    def apply(
        self,
        compute: DType,
        scale: DType,
        dtypes: tuple[DType, DType],
        factors: tuple[int, int],
        matrices: tuple[int, int, int],
    ) -> None:
        """Check all groups, then compute all."""
        factor_type, out_type = dtypes
        steps, step = [], 0
        for i, members in enumerate(self.members):
            alpha, beta = (at and at + i * scale.itemsize for at in factors)
            product = Product(
                (self.operations[0][i], self.operations[1][i]),
                (self.sizes[0][i], self.sizes[1][i], self.sizes[2][i]),
                alpha,
                beta,
                compute,
                scale,
            )
            a, b, c = (
                Operand(at and at + step * _POINTER, dtype, leading[i], name)
                for at, dtype, leading, name in zip(
                    matrices, (factor_type, factor_type, out_type), self.leading, "ABC", strict=True
                )
            )
            product.check(a, b, c)
            steps.append((product, a, b, c, members))
            step += members
        for product, a, b, c, members in steps:
            product.apply_to_each(a, b, c, members)
