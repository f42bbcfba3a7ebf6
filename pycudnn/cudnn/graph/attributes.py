"""Which attributes a backend descriptor has, with their types and counts: a table.

cuDNN takes a wrong number of elements, or a descriptor of another kind, and crashes on it later.
The table is what the checks before each call go by; tests/cudnn/graph asks libcudnn for every row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, BackendAttributeName
from pycudnn.abi.cudnn_enums import BackendAttributeType as T
from pycudnn.abi.cudnn_enums import BackendDescriptorType as K

MANY = 2**31 - 1
_KNOBS = 64  # asked for their number, engine configurations say 0


@dataclass(frozen=True)
class Attribute:
    """What one attribute holds: ``low`` to ``high`` elements of one of ``types``."""

    types: tuple[T, ...]  # the first is the default
    low: int = 1
    high: int = 1
    child: tuple[K, ...] = ()  # kinds of descriptor that it holds
    least: int | None = None  # smallest integer allowed
    unbounded: bool = False  # infinities are allowed
    settable: bool = True
    readable: bool = True
    required: bool = False
    name: BackendAttributeName = BackendAttributeName.POINTWISE_MODE
    owner: K = K.POINTWISE_DESCRIPTOR

    @property
    def is_array(self) -> bool:
        """Does it read back as a tuple?"""
        return self.high > 1


def _one(*types: T) -> Attribute:
    return Attribute(types)


def _dims(least: int, *types: T) -> Attribute:
    return Attribute(types or (T.INT64,), 1, CUDNN_DIM_MAX, least=least)


def _some(kind: T, low: int = 0) -> Attribute:
    return Attribute((kind,), low, MANY)


def _child(*kinds: K) -> Attribute:
    return Attribute((T.BACKEND_DESCRIPTOR,), child=kinds)


def _children(*kinds: K, low: int = 0) -> Attribute:
    return Attribute((T.BACKEND_DESCRIPTOR,), low, MANY, child=kinds)


def _read(attribute: Attribute) -> Attribute:
    return replace(attribute, settable=False)


_INT = _one(T.INT64)
_INT32 = _one(T.INT32)
_COUNT = Attribute((T.INT64,), least=0)
_COUNT32 = Attribute((T.INT32,), least=0)
_FLAG = _one(T.BOOLEAN)
_DTYPE = _one(T.DATA_TYPE)
_FLOAT = _one(T.FLOAT)
_DOUBLE = _one(T.DOUBLE)
_REAL = _one(T.FLOAT, T.DOUBLE)
_BOUND = Attribute((T.FLOAT, T.DOUBLE), unbounded=True)
_JSON = _some(T.CHAR, 1)
_HANDLE = _one(T.HANDLE)
_TENSOR = _child(K.TENSOR_DESCRIPTOR)
_TENSORS = _children(K.TENSOR_DESCRIPTOR, low=1)
_GRAPH = _child(K.OPERATIONGRAPH_DESCRIPTOR)
_PROPERTIES = _child(K.DEVICEPROP_DESCRIPTOR)
_OPERATIONS = tuple(kind for kind in K if kind.name.startswith("OPERATION_"))
_WINDOW = _dims(1, T.INT64, T.FRACTION)
_PADDING = _dims(0, T.INT64, T.FRACTION)

# Kind, prefix of the attributes' names, and per type the rest of the names; ! marks what must be
# set before the descriptor is finalized.
_TABLE: tuple[tuple[K, str, tuple[tuple[Attribute, str], ...]], ...] = (
    (K.POINTWISE_DESCRIPTOR, "POINTWISE_", (
        (_one(T.POINTWISE_MODE), "MODE!"), (_DTYPE, "MATH_PREC!"),
        (_one(T.NAN_PROPOGATION), "NAN_PROPAGATION"),
        (_BOUND, "RELU_LOWER_CLIP RELU_UPPER_CLIP"),
        (_REAL, "RELU_LOWER_CLIP_SLOPE ELU_ALPHA SOFTPLUS_BETA SWISH_BETA"),
        (_COUNT, "AXIS"),
    )),
    (K.CONVOLUTION_DESCRIPTOR, "CONVOLUTION_", (
        (_DTYPE, "COMP_TYPE!"), (_one(T.CONVOLUTION_MODE), "CONV_MODE!"),
        (Attribute((T.INT64,), least=1), "SPATIAL_DIMS!"),
        (_dims(1), "DILATIONS! FILTER_STRIDES!"), (_dims(0), "PRE_PADDINGS! POST_PADDINGS!"),
    )),
    (K.ENGINE_DESCRIPTOR, "ENGINE_", (
        (_GRAPH, "OPERATION_GRAPH!"), (_COUNT, "GLOBAL_INDEX!"),
        (_read(_children(K.KNOB_INFO_DESCRIPTOR)), "KNOB_INFO"),
        (_read(_some(T.NUMERICAL_NOTE)), "NUMERICAL_NOTE"),
        (_read(_some(T.BEHAVIOR_NOTE)), "BEHAVIOR_NOTE"),
        (_read(_children(K.LAYOUT_INFO_DESCRIPTOR)), "LAYOUT_INFO"),
        (_INT32, "SM_COUNT_TARGET"), (_COUNT32, "SHARED_MEMORY_LIMIT"),
        (_PROPERTIES, "DEVICEPROP"), (_FLAG, "DISABLE_CLUSTER_COOPERATIVE"),
    )),
    (K.ENGINECFG_DESCRIPTOR, "ENGINECFG_", (
        (_child(K.ENGINE_DESCRIPTOR), "ENGINE!"),
        (replace(_children(K.KNOB_CHOICE_DESCRIPTOR), high=_KNOBS), "KNOB_CHOICES"),
        (_read(_children(K.INTERMEDIATE_INFO_DESCRIPTOR)), "INTERMEDIATE_INFO"),
        (_read(_INT), "WORKSPACE_SIZE"), (_INT32, "SHARED_MEMORY_USED"),
    )),
    (K.ENGINEHEUR_DESCRIPTOR, "ENGINEHEUR_", (
        (_one(T.HEUR_MODE), "MODE!"), (_GRAPH, "OPERATION_GRAPH!"),
        (_read(_children(K.ENGINECFG_DESCRIPTOR)), "RESULTS"),
        (_INT32, "SM_COUNT_TARGET"), (_COUNT32, "SHARED_MEMORY_LIMIT"), (_PROPERTIES, "DEVICEPROP"),
    )),
    (K.EXECUTION_PLAN_DESCRIPTOR, "EXECUTION_PLAN_", (
        (_HANDLE, "HANDLE!"), (_child(K.ENGINECFG_DESCRIPTOR), "ENGINE_CONFIG"),
        (_read(_INT), "WORKSPACE_SIZE"), (_read(_some(T.INT64)), "COMPUTED_INTERMEDIATE_UIDS"),
        (_some(T.INT64), "RUN_ONLY_INTERMEDIATE_UIDS"), (_JSON, "JSON_REPRESENTATION"),
        (_child(K.KERNEL_CACHE_DESCRIPTOR), "KERNEL_CACHE"), (_PROPERTIES, "DEVICEPROP"),
        (_one(T.CUDA_GRAPH_RETENTION), "CUDA_GRAPH_RETENTION"),
    )),
    (K.INTERMEDIATE_INFO_DESCRIPTOR, "INTERMEDIATE_INFO_", (
        (_read(_INT), "UNIQUE_ID SIZE"), (_read(_some(T.INT64)), "DEPENDENT_DATA_UIDS"),
        (_read(_some(T.ATTRIB_NAME)), "DEPENDENT_ATTRIBUTES"),
    )),
    (K.KNOB_CHOICE_DESCRIPTOR, "KNOB_CHOICE_", (
        (_one(T.KNOB_TYPE), "KNOB_TYPE!"), (_INT, "KNOB_VALUE!"),
    )),
    (K.KNOB_INFO_DESCRIPTOR, "KNOB_INFO_", (
        (_read(_one(T.KNOB_TYPE)), "TYPE"),
        (_read(_INT), "MAXIMUM_VALUE MINIMUM_VALUE STRIDE"),
    )),
    (K.LAYOUT_INFO_DESCRIPTOR, "LAYOUT_INFO_", (
        (_read(_INT), "TENSOR_UID"), (_read(_some(T.LAYOUT_TYPE)), "TYPES"),
    )),
    (K.OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "OPERATION_CONVOLUTION_FORWARD_", (
        (_REAL, "ALPHA BETA"), (_child(K.CONVOLUTION_DESCRIPTOR), "CONV_DESC!"),
        (_TENSOR, "W! X! Y!"),
    )),
    (K.OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, "OPERATION_CONVOLUTION_BWD_DATA_", (
        (_REAL, "ALPHA BETA"), (_child(K.CONVOLUTION_DESCRIPTOR), "CONV_DESC!"),
        (_TENSOR, "W! DX! DY!"),
    )),
    (K.OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, "OPERATION_CONVOLUTION_BWD_FILTER_", (
        (_REAL, "ALPHA BETA"), (_child(K.CONVOLUTION_DESCRIPTOR), "CONV_DESC!"),
        (_TENSOR, "DW! X! DY!"),
    )),
    (K.OPERATION_POINTWISE_DESCRIPTOR, "OPERATION_POINTWISE_", (
        (_child(K.POINTWISE_DESCRIPTOR), "PW_DESCRIPTOR!"), (_REAL, "ALPHA1 ALPHA2"),
        (_TENSOR, "XDESC BDESC YDESC DXDESC DYDESC TDESC"),
    )),
    (K.OPERATION_GEN_STATS_DESCRIPTOR, "OPERATION_GENSTATS_", (
        (_one(T.GENSTATS_MODE), "MODE!"), (_DTYPE, "MATH_PREC!"),
        (_TENSOR, "XDESC! SUMDESC! SQSUMDESC!"),
    )),
    (K.OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR, "OPERATION_BN_FINALIZE_", (
        (_one(T.BN_FINALIZE_STATS_MODE), "STATS_MODE!"), (_DTYPE, "MATH_PREC!"),
        (_TENSOR, "Y_SUM_DESC Y_SQ_SUM_DESC SCALE_DESC BIAS_DESC PREV_RUNNING_MEAN_DESC "
         "PREV_RUNNING_VAR_DESC UPDATED_RUNNING_MEAN_DESC UPDATED_RUNNING_VAR_DESC "
         "SAVED_MEAN_DESC SAVED_INV_STD_DESC EQ_SCALE_DESC EQ_BIAS_DESC ACCUM_COUNT_DESC "
         "EPSILON_DESC EXP_AVERATE_FACTOR_DESC"),
    )),
    (K.OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR, "OPERATION_BN_BWD_WEIGHTS_", (
        (_DTYPE, "MATH_PREC!"),
        (_TENSOR, "MEAN_DESC INVSTD_DESC BN_SCALE_DESC X_DESC! DY_DESC! DBN_SCALE_DESC "
         "DBN_BIAS_DESC EQ_DY_SCALE_DESC EQ_X_SCALE_DESC EQ_BIAS"),
    )),
    (K.OPERATIONGRAPH_DESCRIPTOR, "OPERATIONGRAPH_", (
        (_HANDLE, "HANDLE"), (_children(*_OPERATIONS, low=1), "OPS!"),
        (_read(_INT), "ENGINE_GLOBAL_COUNT"), (_one(T.OPERATIONGRAPH_MODE), "MODE"),
        (_FLAG, "IS_DYNAMIC_SHAPE_ENABLED IS_OVERRIDE_SHAPE_ENABLED"),
        (_read(_FLAG), "IS_SAME_TOPOLOGY"),
    )),
    (K.VARIANT_PACK_DESCRIPTOR, "VARIANT_PACK_", (
        (_some(T.INT64), "UNIQUE_IDS! OVERRIDE_UNIQUE_IDS"),
        (_some(T.VOID_PTR), "DATA_POINTERS! INTERMEDIATES"), (_one(T.VOID_PTR), "WORKSPACE"),
    )),
    (K.TENSOR_DESCRIPTOR, "TENSOR_", (
        (Attribute((T.INT64,), least=1), "BYTE_ALIGNMENT! VECTOR_COUNT RAGGED_OFFSET_MULTIPLIER"),
        (_DTYPE, "DATA_TYPE!"), (_dims(1), "DIMENSIONS!"), (_dims(0), "STRIDES!"),
        (_INT, "UNIQUE_ID! VECTORIZED_DIMENSION"), (_FLAG, "IS_VIRTUAL IS_BY_VALUE"),
        (_one(T.TENSOR_REORDERING_MODE), "REORDERING_MODE"),
        (replace(_TENSOR, readable=False), "RAGGED_OFFSET_DESC"),  # a get of it crashes
    )),
    (K.MATMUL_DESCRIPTOR, "MATMUL_", ((_DTYPE, "COMP_TYPE!"), (_BOUND, "PADDING_VALUE"))),
    (K.OPERATION_MATMUL_DESCRIPTOR, "OPERATION_MATMUL_", (
        (_TENSOR, "ADESC! BDESC! CDESC! GEMM_M_OVERRIDE_DESC GEMM_N_OVERRIDE_DESC "
         "GEMM_K_OVERRIDE_DESC"),
        (_child(K.MATMUL_DESCRIPTOR), "DESC!"), (_COUNT, "IRREGULARLY_STRIDED_BATCH_COUNT"),
    )),
    (K.REDUCTION_DESCRIPTOR, "REDUCTION_", (
        (_one(T.REDUCTION_OPERATOR_TYPE), "OPERATOR!"), (_DTYPE, "COMP_TYPE!"),
        (_FLAG, "IS_DETERMINISTIC"),
    )),
    (K.OPERATION_REDUCTION_DESCRIPTOR, "OPERATION_REDUCTION_", (
        (_TENSOR, "XDESC! YDESC! GROUP_OFFSET_DESC"), (_child(K.REDUCTION_DESCRIPTOR), "DESC!"),
    )),
    (K.RESAMPLE_DESCRIPTOR, "RESAMPLE_", (
        (_one(T.RESAMPLE_MODE), "MODE!"), (_DTYPE, "COMP_TYPE!"),
        (Attribute((T.INT64,), least=1), "SPATIAL_DIMS!"), (_WINDOW, "WINDOW_DIMS! STRIDES!"),
        (_PADDING, "PRE_PADDINGS! POST_PADDINGS!"), (_one(T.NAN_PROPOGATION), "NAN_PROPAGATION"),
        (_one(T.PADDING_MODE), "PADDING_MODE"),
    )),
    (K.OPERATION_RESAMPLE_FWD_DESCRIPTOR, "OPERATION_RESAMPLE_FWD_", (
        (_TENSOR, "XDESC! YDESC! IDXDESC"), (_REAL, "ALPHA BETA"),
        (_child(K.RESAMPLE_DESCRIPTOR), "DESC!"),
    )),
    (K.OPERATION_RESAMPLE_BWD_DESCRIPTOR, "OPERATION_RESAMPLE_BWD_", (
        (_TENSOR, "DXDESC! DYDESC! IDXDESC XDESC YDESC"), (_REAL, "ALPHA BETA"),
        (_child(K.RESAMPLE_DESCRIPTOR), "DESC!"),
    )),
    (K.OPERATION_CONCAT_DESCRIPTOR, "OPERATION_CONCAT_", (
        (_COUNT, "AXIS! INPLACE_INDEX"), (_TENSORS, "INPUT_DESCS!"), (_TENSOR, "OUTPUT_DESC!"),
    )),
    (K.OPERATION_SIGNAL_DESCRIPTOR, "OPERATION_SIGNAL_", (
        (_one(T.SIGNAL_MODE), "MODE!"), (_INT, "VALUE!"), (_TENSOR, "FLAGDESC! XDESC YDESC"),
    )),
    (K.OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR, "OPERATION_PAGED_CACHE_LOAD_", (
        (_TENSOR, "CONTAINER_DESC! YDESC! SEQUENCE_DESC! PAGE_TABLE_DESC!"),
    )),
    (K.OPERATION_NORM_FORWARD_DESCRIPTOR, "OPERATION_NORM_FWD_", (
        (_one(T.NORM_MODE), "MODE!"), (_one(T.NORM_FWD_PHASE), "PHASE!"),
        (_TENSOR, "XDESC! MEAN_DESC INV_VARIANCE_DESC SCALE_DESC BIAS_DESC EPSILON_DESC "
         "EXP_AVG_FACTOR_DESC INPUT_RUNNING_MEAN_DESC INPUT_RUNNING_VAR_DESC "
         "OUTPUT_RUNNING_MEAN_DESC OUTPUT_RUNNING_VAR_DESC YDESC!"),
        (_TENSORS, "PEER_STAT_DESCS"),
    )),
    (K.OPERATION_NORM_BACKWARD_DESCRIPTOR, "OPERATION_NORM_BWD_", (
        (_one(T.NORM_MODE), "MODE!"),
        (_TENSOR, "XDESC! MEAN_DESC INV_VARIANCE_DESC DYDESC! SCALE_DESC EPSILON_DESC DSCALE_DESC "
         "DBIAS_DESC DXDESC!"),
        (_TENSORS, "PEER_STAT_DESCS"),
    )),
    (K.OPERATION_RESHAPE_DESCRIPTOR, "OPERATION_RESHAPE_", (
        (_TENSOR, "XDESC! YDESC!"), (_one(T.RESHAPE_MODE), "MODE"),
    )),
    (K.OPERATION_TRANSPOSE_DESCRIPTOR, "OPERATION_TRANSPOSE_", (
        (_TENSOR, "XDESC! YDESC!"), (_dims(0), "PERMUTATION!"),
    )),
    (K.OPERATION_SLICE_DESCRIPTOR, "OPERATION_SLICE_", (
        (_TENSOR, "XDESC! YDESC!"), (_dims(0), "START_INDICES"),
        (_dims(1), "LIMIT_INDICES STRIDES"),
    )),
    (K.OPERATION_ROPE_FWD_DESCRIPTOR, "OPERATION_ROPE_FWD_", (
        (_TENSOR, "XDESC! YDESC! FREQSDESC!"), (_FLOAT, "OUTPUT_SCALE"), (_COUNT, "ROPE_DIM"),
    )),
    (K.OPERATION_ROPE_BWD_DESCRIPTOR, "OPERATION_ROPE_BWD_", (
        (_TENSOR, "DYDESC! DXDESC! FREQSDESC!"), (_FLOAT, "OUTPUT_SCALE"), (_COUNT, "ROPE_DIM"),
    )),
    (K.OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR, "OPERATION_EXPAND_BAND_MATRIX_", (
        (_TENSOR, "XDESC! YDESC! KV_TOKEN_OFFSET_DESC SPECULATIVE_MASK_DESC"),
        (_COUNT, "LOWER_BANDWIDTH UPPER_BANDWIDTH AXIS"),
        (Attribute((T.FLOAT,), unbounded=True), "PAD_VALUE"),
    )),
    (K.OPERATION_CONTRACT_BAND_MATRIX_DESCRIPTOR, "OPERATION_CONTRACT_BAND_", (
        (_TENSOR, "MATRIX_XDESC! MATRIX_YDESC!"),
        (_COUNT, "MATRIX_LOWER_BANDWIDTH MATRIX_UPPER_BANDWIDTH MATRIX_AXIS MAX_TOKEN_VALUE"),
        (Attribute((T.FLOAT,), unbounded=True), "MATRIX_PAD_VALUE"),
    )),
    (K.RNG_DESCRIPTOR, "RNG_", (
        (_one(T.RNG_DISTRIBUTION), "DISTRIBUTION!"),
        (_DOUBLE, "NORMAL_DIST_MEAN NORMAL_DIST_STANDARD_DEVIATION UNIFORM_DIST_MAXIMUM "
         "UNIFORM_DIST_MINIMUM BERNOULLI_DIST_PROBABILITY"),
    )),
    (K.OPERATION_RNG_DESCRIPTOR, "OPERATION_RNG_", (
        (_TENSOR, "YDESC! OFFSET_DESC"), (_child(K.RNG_DESCRIPTOR), "DESC!"),
        (Attribute((T.INT64, T.BACKEND_DESCRIPTOR), child=(K.TENSOR_DESCRIPTOR,)), "SEED"),
    )),
    (K.KERNEL_CACHE_DESCRIPTOR, "KERNEL_CACHE_", (
        (_GRAPH, "OPERATION_GRAPH"), (_read(_FLAG), "IS_ENGINECFG_KERNEL_CACHED"),
        (_JSON, "JSON_REPRESENTATION"), (_read(_INT), "REVISION ENTRY_COUNT"),
    )),
    (K.OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR, "OPERATION_BLOCK_SCALE_QUANTIZE_", (
        (_TENSOR, "XDESC! YDESC! SCALE_DESC!"), (_DTYPE, "MATH_PREC!"),
        (Attribute((T.INT32,), least=1), "BLOCK_SIZE!"),
    )),
    (K.OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR, "OPERATION_BLOCK_SCALE_DEQUANTIZE_", (
        (_TENSOR, "XDESC! YDESC! SCALE_DESC!"), (_DTYPE, "MATH_PREC!"), (_FLAG, "NEG_SCALE"),
        (Attribute((T.INT32,), 1, CUDNN_DIM_MAX, least=1), "BLOCK_SIZE!"),
    )),
    (K.DEVICEPROP_DESCRIPTOR, "DEVICEPROP_", (
        (_COUNT32, "DEVICE_ID"), (_HANDLE, "HANDLE"), (_JSON, "JSON_REPRESENTATION"),
    )),
    (K.OPERATION_SDPA_FWD_DESCRIPTOR, "OPERATION_SDPA_FWD_", (
        (_TENSOR, "QDESC! KDESC! VDESC! ODESC! STATSDESC SCALEDESC BLOCK_MASK_DESC "
         "PAGE_TABLE_KDESC PAGE_TABLE_VDESC SEQ_LEN_QDESC SEQ_LEN_KVDESC DROPOUT_SEED_DESC "
         "DROPOUT_OFFSET_DESC DROPOUT_RNG_DUMP_DESC CU_SEQ_LEN_QDESC CU_SEQ_LEN_KVDESC "
         "DESCALE_QDESC DESCALE_KDESC "
         "DESCALE_VDESC DESCALE_SDESC SCALE_SDESC SCALE_ODESC AMAX_SDESC AMAX_ODESC"),
        (_GRAPH, "SUBGRAPH"), (_INT, "SUBGRAPH_INPUT_UID SUBGRAPH_OUTPUT_UID"),
        (_child(K.OPERATION_SOFTMAX_DESCRIPTOR), "SOFTMAX_DESC"), (_FLAG, "UNFUSE_FMA"),
        (_FLOAT, "DROPOUT_PROBABILITY"),
    )),
    (K.OPERATION_SDPA_BWD_DESCRIPTOR, "OPERATION_SDPA_BWD_", (
        (_TENSOR, "QDESC! KDESC! VDESC! ODESC! STATSDESC SCALEDESC SEQ_LEN_QDESC SEQ_LEN_KVDESC "
         "DQDESC DKDESC DVDESC DODDESC SINK_DESC DSINK_DESC CU_SEQ_LEN_QDESC CU_SEQ_LEN_KVDESC "
         "DROPOUT_SEED_DESC DROPOUT_OFFSET_DESC DBIAS_DESC"),
        (_GRAPH, "SUBGRAPH"), (_FLOAT, "DROPOUT_PROBABILITY"),
        (_INT, "MAX_TOTAL_SEQ_LEN_Q MAX_TOTAL_SEQ_LEN_KV SUBGRAPH_INPUT_UID SUBGRAPH_OUTPUT_UID"),
    )),
    (K.OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR, "OPERATION_MOE_GROUPED_MATMUL_", (
        (_one(T.MOE_GROUPED_MATMUL_MODE), "MODE!"), (_DTYPE, "MATH_PREC!"), (_COUNT32, "TOP_K"),
        (_TENSOR, "TOKEN_DESC! WEIGHT_DESC! FIRST_TOKEN_OFFSET_DESC OUTPUT_DESC! TOKEN_INDEX_DESC "
         "TOKEN_KS_DESC"),
    )),
    (K.OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR, "OPERATION_MOE_GROUPED_MATMUL_BWD_", (
        (_DTYPE, "MATH_PREC!"),
        (_TENSOR, "TOKEN_DESC! DWEIGHT_DESC! FIRST_TOKEN_OFFSET_DESC DOUTPUT_DESC!"),
    )),
    (K.OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR, "OPERATION_DIAGONAL_BAND_MASK_", (
        (_one(T.POINTWISE_MODE), "COMPARISON_MODE"),
        (_TENSOR, "XDESC! SEQ_LEN_KVDESC SEQ_LEN_QDESC LEFT_BOUND_DESC SHIFT_RIGHT_BOUND_DESC "
         "BDESC YDESC! CU_SEQ_LEN_KVDESC CU_SEQ_LEN_QDESC"),
    )),
    (K.OPERATION_SOFTMAX_DESCRIPTOR, "OPERATION_SOFTMAX_", (
        (_TENSOR, "XDESC! YDESC! STATS_DESC MAX_DESC SUM_EXP_DESC SINK_DESC"),
        (_FLAG, "STATS_LOG2"),
    )),
)  # fmt: skip

ATTRIBUTES: dict[BackendAttributeName, Attribute] = {
    name: replace(attribute, name=name, owner=kind, required=rest.endswith("!"))
    for kind, prefix, rows in _TABLE
    for attribute, names in rows
    for rest in names.split()
    for name in (BackendAttributeName[prefix + rest.rstrip("!")],)
}

_OF_KIND = {
    kind: tuple(name for name, attribute in ATTRIBUTES.items() if attribute.owner == kind)
    for kind in K
}


def of_kind(kind: K) -> tuple[BackendAttributeName, ...]:
    """The attributes of one kind of descriptor."""
    return _OF_KIND[kind]
