"""Products of unsigned 8-bit numbers, each matrix with a bias, scaled back to 8 bits."""

from __future__ import annotations

import numpy as np

from .families import both_widths
from .handle import BlasHandle
from .storage import FLOAT64, DType, check_operation, check_sizes, matrix, op, op_shape

_UINT8: DType = np.dtype(np.uint8)


@both_widths("Uint8gemmBias")
def uint8_gemm_bias(
    handle: BlasHandle,
    transa: int,
    transb: int,
    transc: int,
    m: int,
    n: int,
    k: int,
    a: int,
    a_bias: int,
    lda: int,
    b: int,
    b_bias: int,
    ldb: int,
    c: int,
    c_bias: int,
    ldc: int,
    c_mult: int,
    c_shift: int,
) -> None:
    """``op(C) = ((op(A) - a_bias) (op(B) - b_bias) + c_bias) * c_mult / 2**c_shift``.

    Rounded to the nearest number, halves up, and cut to 0 to 255. NVIDIA documents none of this: it
    is what a GPU answers.
    """
    for name, operation in (("transa", transa), ("transb", transb), ("transc", transc)):
        check_operation(operation, name)
    check_sizes(m=m, n=n, k=k)
    left = op(transa, matrix(a, _UINT8, *op_shape(transa, m, k), lda, "A"))
    right = op(transb, matrix(b, _UINT8, *op_shape(transb, k, n), ldb, "B"))
    out = matrix(c, _UINT8, *op_shape(transc, m, n), ldc, "C")
    product = (left.astype(FLOAT64) - a_bias) @ (right.astype(FLOAT64) - b_bias)
    scaled = (product + c_bias) * c_mult / 2.0**c_shift
    op(transc, out)[...] = np.clip(np.floor(scaled + 0.5), 0, 255)
