"""cublas_api.h: vectors and column-major matrices.

The rules that hold for every function: sizes must not be negative and a leading dimension must be
at least the number of rows stored, else INVALID_VALUE; where beta is 0 the old result is not read,
and where alpha is 0 the operands are not; a negative increment walks a vector backwards from its
end. Scalars and results are read and written at the address given, so host and device pointer mode
are one. A function is written once for all types, and exists with 32-bit and (``_64``) with 64-bit
integers.

Statuses are those of cuBLAS 13.1 on a GPU, but for what that one lets pass against its own
documentation, and which here is INVALID_VALUE: an increment of 0 where there are two vectors and in
dgmm, negative strides, negative sizes and unknown operations in gemv and its batched forms, and a
workspace that is not aligned; syrkEx and herkEx with another type of C are NOT_SUPPORTED. A
negative batch fails there at the launch, a NULL vector or matrix on the device, and a NULL scalar
crashes. Where alpha is 0 cuBLAS still reads the operands of symv, symm, syrk, trmm, trsm and their
like, so that a NaN there spreads.
"""

from __future__ import annotations

from . import (
    batched_vectors,
    elementwise,
    factorizations,
    grouped,
    handle,
    library,
    matrix_vector,
    products,
    products_ex,
    quantized,
    rank_updates,
    rotations,
    symmetric,
    transfers,
    triangular,
    triangular_matrices,
    vectors,
    vectors_ex,
)
from .library import VERSION

__all__ = [
    "VERSION",
    "batched_vectors",
    "elementwise",
    "factorizations",
    "grouped",
    "handle",
    "library",
    "matrix_vector",
    "products",
    "products_ex",
    "quantized",
    "rank_updates",
    "rotations",
    "symmetric",
    "transfers",
    "triangular",
    "triangular_matrices",
    "vectors",
    "vectors_ex",
]
