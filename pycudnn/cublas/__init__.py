"""cuBLAS: the handle, and functions under the lower-case of their C names.

Arguments keep the C order. Matrices are column-major, as in C: a row-major (C-ordered) NumPy array
of shape (r, c) is to cuBLAS the c x r matrix of its transpose with leading dimension c. Operands
are pycudnn buffers; on the reference side NumPy arrays too, on the CUDA side anything that exports
``__cuda_array_interface__`` or DLPack. Scaling factors and results are Python numbers, unless the
handle's ``pointer_mode`` is DEVICE.

Wrong sizes, leading dimensions, increments and memory too small are ValueErrors that name the
argument, wrong types TypeErrors; a status of cuBLAS is a CublasError.
"""

from pycudnn._core_blas import (
    dasum,
    daxpy,
    dcopy,
    ddot,
    dgeam,
    dgemm,
    dgemm_strided_batched,
    dgemv,
    dger,
    dnrm2,
    dscal,
    dswap,
    gemm_ex,
    idamax,
    idamin,
    isamax,
    isamin,
    sasum,
    saxpy,
    scopy,
    sdot,
    sgeam,
    sgemm,
    sgemm_strided_batched,
    sgemv,
    sger,
    snrm2,
    sscal,
    sswap,
)
from pycudnn.abi.cublas_enums import (
    ComputeType,
    CudaDataType,
    GemmAlgo,
    Math,
    Operation,
    PointerMode,
    Status,
)
from pycudnn.cublas.handle import Handle

__all__ = [
    "ComputeType",
    "CudaDataType",
    "GemmAlgo",
    "Handle",
    "Math",
    "Operation",
    "PointerMode",
    "Status",
    "dasum",
    "daxpy",
    "dcopy",
    "ddot",
    "dgeam",
    "dgemm",
    "dgemm_strided_batched",
    "dgemv",
    "dger",
    "dnrm2",
    "dscal",
    "dswap",
    "gemm_ex",
    "idamax",
    "idamin",
    "isamax",
    "isamin",
    "sasum",
    "saxpy",
    "scopy",
    "sdot",
    "sgeam",
    "sgemm",
    "sgemm_strided_batched",
    "sgemv",
    "sger",
    "snrm2",
    "sscal",
    "sswap",
]
