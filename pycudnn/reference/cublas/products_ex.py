"""Level 3: products of general matrices with a type for each matrix and for the arithmetic."""

from __future__ import annotations

from pycudnn.abi.cublas_enums import ComputeType, CudaDataType, GemmAlgo

from .families import both_widths, family
from .handle import BlasHandle
from .products import Operand, Product
from .storage import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    COMPLEX_INT8,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    DType,
    check_sizes,
    compute_type,
    invalid,
    not_supported,
)

CUDA_TYPES: dict[int, DType] = {
    CudaDataType.R_16F: FLOAT16,
    CudaDataType.R_16BF: BFLOAT16,
    CudaDataType.R_32F: FLOAT32,
    CudaDataType.R_64F: FLOAT64,
    CudaDataType.C_32F: COMPLEX64,
    CudaDataType.C_64F: COMPLEX128,
    CudaDataType.R_8I: INT8,
    CudaDataType.C_8I: COMPLEX_INT8,
    CudaDataType.R_32I: INT32,
}
Pairs = frozenset[tuple[DType, DType]]
_TO_HALF: Pairs = frozenset({(FLOAT16, FLOAT16)})
_TO_REAL: Pairs = frozenset(
    {
        (FLOAT16, FLOAT16),
        (BFLOAT16, BFLOAT16),
        (INT8, FLOAT32),
        (FLOAT16, FLOAT32),
        (BFLOAT16, FLOAT32),
        (FLOAT32, FLOAT32),
    }
)
_TO_COMPLEX: Pairs = frozenset({(COMPLEX_INT8, COMPLEX64), (COMPLEX64, COMPLEX64)})
_TO_FLOAT = _TO_REAL | _TO_COMPLEX
_TO_DOUBLE: Pairs = frozenset({(FLOAT64, FLOAT64), (COMPLEX128, COMPLEX128)})
_TO_INT: Pairs = frozenset({(INT8, INT32)})
# Compute type -> the pairs (type of A and B, type of C), and the type of alpha and beta.
_COMPUTE: dict[int, tuple[Pairs, DType]] = {
    ComputeType.COMPUTE_16F: (_TO_HALF, FLOAT16),
    ComputeType.COMPUTE_16F_PEDANTIC: (_TO_HALF, FLOAT16),
    ComputeType.COMPUTE_32F: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_PEDANTIC: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_FAST_16F: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_FAST_16BF: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_FAST_TF32: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_32F_EMULATED_16BFX9: (_TO_FLOAT, FLOAT32),
    ComputeType.COMPUTE_64F: (_TO_DOUBLE, FLOAT64),
    ComputeType.COMPUTE_64F_PEDANTIC: (_TO_DOUBLE, FLOAT64),
    ComputeType.COMPUTE_64F_EMULATED_FIXEDPOINT: (_TO_DOUBLE, FLOAT64),
    ComputeType.COMPUTE_32I: (_TO_INT, INT32),
    ComputeType.COMPUTE_32I_PEDANTIC: (_TO_INT, INT32),
}


def check_cuda_types(**types: int) -> None:
    """Each must be a cudaDataType_t."""
    for name, number in types.items():
        if number not in tuple(CudaDataType):
            raise invalid(f"{name} is {number}, must be a cudaDataType_t")


def _check_algo(algo: int) -> None:
    if algo not in tuple(GemmAlgo):
        raise invalid(f"algo is {algo}, must be a cublasGemmAlgo_t")


def _check_batched(compute_type: int, algo: int) -> None:
    """What the batched forms look at first; a single product does not support the wrong one."""
    if compute_type not in tuple(ComputeType):
        raise invalid(f"computeType is {compute_type}, must be a cublasComputeType_t")
    _check_algo(algo)


class Types:
    """What the types of a product are in NumPy; Status NOT_SUPPORTED where cuBLAS has none."""

    def __init__(self, a_type: int, b_type: int, c_type: int, pairs: Pairs, scale: DType) -> None:
        factor, out = CUDA_TYPES.get(a_type), CUDA_TYPES.get(c_type)
        if factor is None or out is None or a_type != b_type or (factor, out) not in pairs:
            raise not_supported(f"no product of types {a_type}, {b_type} into {c_type}")
        self.factor: DType = factor
        self.out: DType = out
        self.compute = compute_type(factor)
        self.scale = out if out.kind == "c" else scale

    @classmethod
    def of_compute_type(cls, a_type: int, b_type: int, c_type: int, compute_type: int) -> Types:
        """Those that a cublasComputeType_t goes with."""
        if a_type == b_type:
            check_cuda_types(Atype=a_type, Ctype=c_type)
        pairs, scale = _COMPUTE.get(compute_type, (frozenset(), FLOAT32))
        return cls(a_type, b_type, c_type, pairs, scale)

    def product(
        self, operations: tuple[int, int], sizes: tuple[int, int, int], alpha: int, beta: int
    ) -> Product:
        """A product of these types."""
        return Product(operations, sizes, alpha, beta, self.compute, self.scale)

    def operands(
        self, a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], *strides: int
    ) -> tuple[Operand, Operand, Operand]:
        """The matrices of these types, each from address and leading dimension."""
        stride_a, stride_b, stride_c = strides or (0, 0, 0)
        return (
            Operand(a[0], self.factor, a[1], "A", stride_a),
            Operand(b[0], self.factor, b[1], "B", stride_b),
            Operand(c[0], self.out, c[1], "C", stride_c),
        )


@family("SgemmEx", "S", pairs=_TO_REAL)
@family("CgemmEx", "C", pairs=_TO_COMPLEX)
@family("Cgemm3mEx", "C", pairs=_TO_COMPLEX)
def typed_gemm_ex(
    dtype: DType,
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
    *,
    pairs: Pairs,
) -> None:
    """gemm of matrices of other types, computed in float32 or complex64."""
    types = Types(a_type, b_type, c_type, pairs, dtype)
    product = types.product((transa, transb), (m, n, k), alpha, beta)
    product.apply(*types.operands((a, lda), (b, ldb), (c, ldc)))


@both_widths("GemmEx")
def gemm_ex(
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
    compute_type: int,
    algo: int,
) -> None:
    """gemm with a type for each matrix, and one for the arithmetic and the scalars.

    Half types are computed in float32, whatever the compute type; int8 exactly.
    """
    check_sizes(m=m, n=n, k=k)
    _check_algo(algo)
    types = Types.of_compute_type(a_type, b_type, c_type, compute_type)
    product = types.product((transa, transb), (m, n, k), alpha, beta)
    product.apply(*types.operands((a, lda), (b, ldb), (c, ldc)))


@both_widths("GemmStridedBatchedEx")
def gemm_strided_batched_ex(
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
    stride_a: int,
    b: int,
    b_type: int,
    ldb: int,
    stride_b: int,
    beta: int,
    c: int,
    c_type: int,
    ldc: int,
    stride_c: int,
    batch: int,
    compute_type: int,
    algo: int,
) -> None:
    """The same for `batch` products whose matrices lie a stride apart."""
    check_sizes(m=m, n=n, k=k, batchCount=batch)
    _check_batched(compute_type, algo)
    types = Types.of_compute_type(a_type, b_type, c_type, compute_type)
    product = types.product((transa, transb), (m, n, k), alpha, beta)
    matrices = types.operands((a, lda), (b, ldb), (c, ldc), stride_a, stride_b, stride_c)
    product.apply(*matrices, batch)


@both_widths("GemmBatchedEx")
def gemm_batched_ex(
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
    batch: int,
    compute_type: int,
    algo: int,
) -> None:
    """The same for matrices whose addresses lie in three arrays."""
    check_sizes(m=m, n=n, k=k, batchCount=batch)
    _check_batched(compute_type, algo)
    types = Types.of_compute_type(a_type, b_type, c_type, compute_type)
    product = types.product((transa, transb), (m, n, k), alpha, beta)
    product.apply_to_each(*types.operands((a, lda), (b, ldb), (c, ldc)), batch)
