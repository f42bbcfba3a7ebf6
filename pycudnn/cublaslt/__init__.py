"""cublasLt: products described by objects, with what comes before and after them fused in. ::

    desc = cublaslt.MatmulDescriptor(epilogue=cublaslt.Epilogue.RELU_BIAS, bias=bias)
    layouts = [cublaslt.MatrixLayout("float32", *shape) for shape in ((m, k), (k, n), (m, n))]
    a_layout, b_layout, d_layout = layouts
    records = cublaslt.get_heuristics(handle, desc, a_layout, b_layout, None, d_layout)
    best, space = records.best.algorithm, context.workspace(records.best.workspace)
    cublaslt.matmul(handle, desc, a, a_layout, b, b_layout, None, None, d, d_layout, best, space)

A ``MatmulDescriptor`` says what is computed, a ``MatrixLayout`` where a matrix lies (by columns,
unless its order is another), a ``MatmulPreference`` what an ``Algorithm`` may need. All are set
once, by their constructors; properties are read back from the library, and ``replace`` makes
another one. ``linear`` is a fully connected layer in one call, on row-major arrays.

Operands are pycudnn buffers; on the reference side NumPy arrays too, on the CUDA side anything that
exports ``__cuda_array_interface__`` or DLPack. Wrong sizes, memory too small or misaligned, and
results that overlap other operands are ValueErrors that name the argument, wrong types TypeErrors;
what cublasLt cannot compute is NotSupported, another status a CublasError.
"""

from pycudnn.abi.cublas_enums import (
    ComputeType,
    CudaDataType,
    CudaEmulationMantissaControl,
    CudaEmulationSpecialValuesSupport,
    EmulationStrategy,
    LibraryPropertyType,
    Operation,
    Status,
)
from pycudnn.abi.cublaslt_enums import (
    BatchMode,
    ClusterShape,
    Epilogue,
    MatmulBatchInvarianceFlags,
    MatmulInnerShape,
    MatmulMatrixScale,
    MatmulStages,
    MatmulTile,
    Order,
    PointerMode,
    PointerModeMask,
    ReductionScheme,
)
from pycudnn.cublaslt.algorithm import Algorithm, AlgorithmCapabilities, get_algorithm_ids
from pycudnn.cublaslt.descriptor import MatmulDescriptor
from pycudnn.cublaslt.emulation import EmulationDescriptor
from pycudnn.cublaslt.handle import Handle
from pycudnn.cublaslt.heuristics import (
    HeuristicRecord,
    HeuristicRecords,
    check_algorithm,
    get_heuristics,
)
from pycudnn.cublaslt.layout import MatrixLayout
from pycudnn.cublaslt.library import (
    get_cudart_version,
    get_heuristics_cache_capacity,
    get_property,
    get_status_name,
    get_status_string,
    get_version,
    set_heuristics_cache_capacity,
)
from pycudnn.cublaslt.linear import linear
from pycudnn.cublaslt.log import disable_logging, enable_logging, forbid_logging
from pycudnn.cublaslt.preference import MatmulPreference
from pycudnn.cublaslt.products import matmul, matrix_transform
from pycudnn.cublaslt.transform_descriptor import MatrixTransformDescriptor

__all__ = [
    "Algorithm",
    "AlgorithmCapabilities",
    "BatchMode",
    "ClusterShape",
    "ComputeType",
    "CudaDataType",
    "CudaEmulationMantissaControl",
    "CudaEmulationSpecialValuesSupport",
    "EmulationDescriptor",
    "EmulationStrategy",
    "Epilogue",
    "Handle",
    "HeuristicRecord",
    "HeuristicRecords",
    "LibraryPropertyType",
    "MatmulBatchInvarianceFlags",
    "MatmulDescriptor",
    "MatmulInnerShape",
    "MatmulMatrixScale",
    "MatmulPreference",
    "MatmulStages",
    "MatmulTile",
    "MatrixLayout",
    "MatrixTransformDescriptor",
    "Operation",
    "Order",
    "PointerMode",
    "PointerModeMask",
    "ReductionScheme",
    "Status",
    "check_algorithm",
    "disable_logging",
    "enable_logging",
    "forbid_logging",
    "get_algorithm_ids",
    "get_cudart_version",
    "get_heuristics",
    "get_heuristics_cache_capacity",
    "get_property",
    "get_status_name",
    "get_status_string",
    "get_version",
    "linear",
    "matmul",
    "matrix_transform",
    "set_heuristics_cache_capacity",
]
