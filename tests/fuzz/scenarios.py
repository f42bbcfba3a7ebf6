"""Valid calls of what the conformance problems do not reach: queries, searches, settings, graphs.

A scenario is a function of a ``Case``, as a problem is, but checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Case

from pycudnn import cublas, cudnn
from pycudnn.cudnn import graph as graphs
from pycudnn.errors import NotSupported
from pycudnn.libraries import is_available

SCENARIOS: dict[str, Callable[[Case], None]] = {}


def scenario(pose: Callable[[Case], None]) -> Callable[[Case], None]:
    """Register a scenario under its function's name."""
    SCENARIOS[f"scenario {pose.__name__}"] = pose
    return pose


# ---- cuDNN ---------------------------------------------------------------------------------------


@scenario
def cudnn_queries(case: Case) -> None:
    """What the library tells of itself."""
    backend = case.backend
    cudnn.get_version(backend)
    cudnn.get_cudart_version(backend)
    cudnn.get_max_device_version(backend)
    cudnn.get_property(cudnn.LibraryPropertyType.MAJOR_VERSION, backend)
    cudnn.get_error_string(cudnn.Status.BAD_PARAM, backend)
    cudnn.get_last_error_string(backend)
    cudnn.query_runtime_error(case.handle, cudnn.ErrQueryMode.BLOCKING)
    cudnn.version_check(backend)


@scenario
def cudnn_handle(case: Case) -> None:
    """A handle of one's own, on the stream of the context."""
    handle = cudnn.Handle(case.context.device, case.context.stream, library=case.library)
    handle.stream = case.context.stream
    case.keep = handle


def convolution(case: Case) -> tuple:
    """x, w, the convolution and y."""
    x = case.tensor((2, 4, 6, 5), "float32", layout="packed")
    w = case.filter((4, 2, 3, 3), "float32", format=cudnn.TensorFormat.NCHW)
    conv = cudnn.ConvolutionDescriptor((1, 0), (1, 2), groups=2, library=case.library)
    shape = cudnn.get_convolution_forward_output_dim(conv, x.desc, w.desc)
    return x, w, conv, case.tensor(shape, "float32", layout="packed")


@scenario
def convolution_calls(case: Case) -> None:
    """Forward, both gradients, the bias's, and the fused call, with their workspaces."""
    handle = case.handle
    x, w, conv, y = convolution(case)
    conv.replace(padding=2)
    for name, first, second, last, algorithm in (
        ("forward", x, w, y, cudnn.ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM),
        ("backward_data", w, y, x, cudnn.ConvolutionBwdDataAlgo.ALGO_1),
        ("backward_filter", x, y, w, cudnn.ConvolutionBwdFilterAlgo.ALGO_1),
    ):
        size = getattr(cudnn, f"get_convolution_{name}_workspace_size")(
            handle, first.desc, second.desc, conv, last.desc, algorithm
        )
        getattr(cudnn, f"convolution_{name}")(
            handle, first.desc, first.data, second.desc, second.data, conv, algorithm,
            case.scratch(size), last.desc, last.data, alpha=2.0, beta=0.5,
        )  # fmt: skip
    bias = case.tensor((1, 4, 1, 1), "float32", layout="packed")
    cudnn.convolution_backward_bias(handle, y.desc, y.data, bias.desc, bias.data)
    algorithm = cudnn.ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM
    size = cudnn.get_convolution_forward_workspace_size(
        handle, x.desc, w.desc, conv, y.desc, algorithm
    )
    relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=case.library)
    cudnn.convolution_bias_activation_forward(
        handle, x.desc, x.data, w.desc, w.data, conv, algorithm, case.scratch(size), y.desc,
        y.data, bias.desc, bias.data, relu, y.desc, y.data,
    )  # fmt: skip


@scenario
def convolution_searches(case: Case) -> None:
    """Every search for an algorithm, and what is made of the records."""
    handle = case.handle
    x, w, conv, y = convolution(case)
    cache = cudnn.AlgorithmCache()
    records = None
    for name, first, second, last in (
        ("forward", x, w, y), ("backward_data", w, y, x), ("backward_filter", x, y, w)
    ):  # fmt: skip
        descriptors = first.desc, second.desc, conv, last.desc
        getattr(cudnn, f"find_convolution_{name}_algorithm")(handle, *descriptors, 2)
        getattr(cudnn, f"find_convolution_{name}_algorithm_ex")(
            handle, first.desc, first.data, second.desc, second.data, conv, last.desc, last.data,
            case.scratch(2**20), 2,
        )  # fmt: skip
        getattr(cudnn, f"get_convolution_{name}_algorithm_v7")(handle, *descriptors, 3)
        records = cudnn.find_algorithm(
            name, handle, *descriptors, search="heuristic", workspace_limit=2**24,
            deterministic=False, cache=cache,
        )  # fmt: skip
    cudnn.select_algorithm(records, workspace_limit=2**24, deterministic=False)
    cache.get("[]", list)
    cache.save("algorithms.json")
    cache.load("algorithms.json")
    cache.clear()


@scenario
def tensors_like_others(case: Case) -> None:
    """Descriptors that are derived from a tensor's."""
    x = case.tensor((2, 4, 3, 5), "float32", layout="packed")
    cudnn.TensorDescriptor.like(x.values.astype(np.float32), library=case.library)
    cudnn.derive_bn_tensor_descriptor(x.desc, cudnn.BatchNormMode.SPATIAL)
    cudnn.derive_norm_tensor_descriptor(x.desc, cudnn.NormMode.CHANNEL)


@scenario
def logging(case: Case) -> None:
    """The logs, which the real libraries alone have."""
    if is_available("cudnn", "cuda"):
        cudnn.enable_logging("ERROR")
        cudnn.disable_logging()
    if is_available("cublas", "cuda"):
        cublas.enable_logging()
        cublas.disable_logging()


@scenario
def dropout(case: Case) -> None:
    """Random states, a descriptor, and both directions."""
    cudnn.dropout_get_states_size(case.handle)
    case.keep = dropout = cudnn.DropoutDescriptor(case.handle, 0.25, 7)
    cudnn.get_dropout_descriptor(case.handle, dropout)
    x, y = (case.tensor((2, 3, 4, 5), "float32", layout="packed") for _ in range(2))
    reserve = case.scratch(cudnn.dropout_get_reserve_space_size(x.desc))
    for call in (cudnn.dropout_forward, cudnn.dropout_backward):
        call(case.handle, dropout, x.desc, x.data, y.desc, y.data, reserve)


@scenario
def ctc(case: Case) -> None:
    """Both forms of the CTC loss, with labels on the host and on the device."""
    labels, label_lengths, times = (1, 2, 2, 1), (2, 1, 1), (5, 4, 5)
    probs, gradients = (case.tensor((5, 3, 4), "float32", layout="packed") for _ in range(2))
    costs = case.put(np.zeros(3, np.float32))
    loss = cudnn.CTCLossDescriptor(max_label_length=3, library=case.library)
    algorithm = cudnn.CTCLossAlgo.DETERMINISTIC
    host = labels, label_lengths, times
    size = cudnn.get_ctc_loss_workspace_size(
        case.handle, probs.desc, gradients.desc, *host, algorithm, loss
    )
    cudnn.ctc_loss(
        case.handle, probs.desc, probs.data, *host, costs, gradients.desc, gradients.data,
        algorithm, loss, case.scratch(size),
    )  # fmt: skip
    size = cudnn.get_ctc_loss_workspace_size_v8(
        case.handle, algorithm, loss, probs.desc, gradients.desc
    )
    device = [case.put(np.array(part, np.int32)) for part in host]
    cudnn.ctc_loss_v8(
        case.handle, algorithm, loss, probs.desc, probs.data, *device, costs, gradients.desc,
        gradients.data, case.scratch(size),
    )  # fmt: skip


@scenario
def attention(case: Case) -> None:
    """Multi-head attention in training: sizes, weights, forward and both gradients."""
    handle, library = case.handle, case.library
    attn = cudnn.AttentionDescriptor(
        2, 5, 6, 7, q_proj_size=3, k_proj_size=3, v_proj_size=4, o_proj_size=8,
        qo_max_seq_length=4, kv_max_seq_length=5, max_batch_size=2, max_beam_size=1,
        sm_scaler=0.5, proj_biases=True, math_type=cudnn.MathType.FMA_MATH, library=library,
    )  # fmt: skip
    attn.read()
    q, k, v, o = (
        cudnn.SeqDataDescriptor(
            (time, 2, 1, size), "float32", seq_lengths=(time, time - 1), library=library
        )
        for time, size in ((4, 5), (5, 6), (5, 7), (4, 8))
    )
    queries, keys, values, out, dq, dk, dv, do = (
        case.put(case.values(desc.shape, "float32").astype(np.float32))
        for desc in (q, k, v, o) * 2
    )
    sizes = cudnn.get_multi_head_attn_buffers(handle, attn, training=True)
    count = sizes.weights // 4
    weights, dweights = (
        case.put(case.values((count,), "float32").astype(np.float32)) for _ in range(2)
    )
    for kind in cudnn.MultiHeadAttnWeightKind:
        cudnn.get_multi_head_attn_weights(handle, attn, kind, weights)
    scratch = case.scratch(sizes.workspace), case.scratch(sizes.reserve_space)
    windows = {"lo_win": (0, 0, 1, 1), "hi_win": (2, 3, 4, 5)}
    cudnn.multi_head_attn_forward(
        handle, attn, q, queries, None, k, keys, v, values, o, out, weights, *scratch, **windows
    )
    cudnn.multi_head_attn_backward_data(
        handle, attn, o, do, q, dq, queries, k, dk, keys, v, dv, values, weights, *scratch,
        **windows,
    )  # fmt: skip
    cudnn.multi_head_attn_backward_weights(
        handle, attn, cudnn.WgradMode.SET, q, queries, k, keys, v, values, o, do, weights,
        dweights, *scratch,
    )  # fmt: skip


@scenario
def recurrent_descriptors(case: Case) -> None:
    """A recurrent network's descriptors, sizes and weights."""
    handle, library = case.handle, case.library
    rnn = cudnn.RNNDescriptor(
        5, 4, num_layers=2, cell_mode=cudnn.RNNMode.LSTM, projection_size=3, clip=(-2.0, 2.0),
        library=library,
    )  # fmt: skip
    rnn.read()
    x = cudnn.RNNDataDescriptor(
        (4, 3, 1), 5, max_seq_length=4, padding_fill=0.5, library=library
    )
    cudnn.get_rnn_temp_space_sizes(handle, rnn, cudnn.ForwardMode.TRAINING, x)
    weights = case.scratch(cudnn.get_rnn_weight_space_size(handle, rnn))
    cudnn.get_rnn_weight_params(handle, rnn, 0, weights, 1)
    dynamic = cudnn.RNNDescriptor(
        8, 8, algorithm=cudnn.RNNAlgo.PERSIST_DYNAMIC, library=library
    )
    cudnn.build_rnn_dynamic(handle, dynamic, 2)


@scenario
def fused_operations(case: Case) -> None:
    """Packs of parameters, a plan and its execution."""
    library, ops = case.library, cudnn.FusedOps.BN_FINALIZE_STATISTICS_TRAINING
    shape = (1, 32, 1, 1)
    single, half = (
        cudnn.TensorDescriptor(shape, dtype, library=library) for dtype in ("float32", "float16")
    )
    names = ("YSUM", "YSQSUM", "BN_SCALE", "BN_BIAS", "BN_EQSCALE", "BN_EQBIAS")
    constants = cudnn.FusedOpsConstParamPack(
        ops,
        {
            "BN_MODE": cudnn.BatchNormMode.SPATIAL, "YSTATS_DESC": single,
            "BN_SCALEBIAS_MEANVAR_DESC": single, "BN_EQSCALEBIAS_DESC": half,
            **{f"{name}_PLACEHOLDER": cudnn.FusedOpsPointerPlaceHolder.ELEM_ALIGNED
               for name in names},
        },
        library=library,
    )  # fmt: skip
    constants.set("YSTATS_DESC", single)
    constants.get("YSTATS_DESC")
    plan = cudnn.FusedOpsPlan(case.handle, constants)
    pack = cudnn.FusedOpsVariantParamPack(
        ops, {"SCALAR_DOUBLE_BN_EPSILON": 1e-3, "SCALAR_DOUBLE_BN_EXP_AVG_FACTOR": 0.5},
        library=library,
    )  # fmt: skip
    for name in names:
        dtype = np.float16 if "EQ" in name else np.float32
        pack.set(f"PTR_{name}", case.put(np.ones(32, dtype)))
    pack.set("PTR_WORKSPACE", case.scratch(plan.workspace_size))
    pack.set("SCALAR_INT64_T_BN_ACCUMULATION_COUNT", 50)
    pack.get("SCALAR_INT64_T_BN_ACCUMULATION_COUNT")
    cudnn.fused_ops_execute(case.handle, plan, pack)


# ---- cuBLAS --------------------------------------------------------------------------------------


@scenario
def cublas_queries(case: Case) -> None:
    """What the library tells of itself."""
    cublas.get_cudart_version(case.backend)
    cublas.get_property(0, case.backend)
    cublas.get_status_name(7, case.backend)
    cublas.get_status_string(7, case.backend)


@scenario
def cublas_handle(case: Case) -> None:
    """Every setting of a handle of one's own."""
    context = case.context
    handle = cublas.Handle(context.device, context.stream, library=case.backend)
    handle.stream = context.stream
    handle.math_mode = cublas.Math.DEFAULT_MATH
    handle.atomics_mode = cublas.AtomicsMode.ALLOWED
    handle.sm_count_target = 4
    handle.set_workspace(case.scratch(2**16))
    handle.pointer_mode = cublas.PointerMode.HOST
    for name, value in (
        ("emulation_strategy", cublas.EmulationStrategy.DEFAULT),
        ("emulation_special_values", cublas.CudaEmulationSpecialValuesSupport.DEFAULT),
        ("mantissa_control", cublas.CudaEmulationMantissaControl.DYNAMIC),
        ("max_mantissa_bit_count", 20),
        ("mantissa_bit_offset", 0),
        ("mantissa_bit_count", case.put(np.zeros(1, np.int32))),
    ):
        try:
            setattr(handle, name, value)
        except NotSupported:  # an older cuBLAS
            continue
    case.keep = handle


@scenario
def cublas_matmul(case: Case) -> None:
    """The product of row-major matrices."""
    a, b, c = (case.put(case.values(shape, "float32").astype(np.float32))
               for shape in ((3, 4), (5, 4), (3, 5)))  # fmt: skip
    cublas.matmul(case.context.cublas, a, b, out=c, transpose_b=True, alpha=0.5, beta=1.0)


# ---- the graph API -------------------------------------------------------------------------------


@scenario
def graph_operations(case: Case) -> None:
    """A graph that is never built, so that each operation can be added again."""
    graph = graphs.Graph(case.handle, compute_type="float32", intermediate_type="float32")
    x = graph.tensor((2, 4, 6, 5), "float32", strides=(120, 30, 5, 1))
    w = graph.tensor((8, 4, 3, 3))
    graph.scalar(2.0, ndim=4)
    y = graph.convolution_forward(x, w, padding=1, stride=1, dilation=1, dtype="float32")
    graph.output(y, "float32", strides=(240, 30, 5, 1))
    graph.convolution_data_gradient(y, w, (2, 4, 6, 5), padding=1)
    graph.convolution_filter_gradient(x, y, (8, 4, 3, 3), padding=1)
    graph.matmul(graph.tensor((2, 3, 4)), graph.tensor((2, 4, 5)))
    bias = graph.tensor((1, 8, 1, 1))
    graph.pointwise(graphs.PointwiseMode.ADD, y, bias, alpha1=0.5, alpha2=2.0)
    graph.add(y, bias)
    graph.multiply(y, 2.0)
    graph.relu(y)
    graph.gelu(y)
    graph.reduction(cudnn.ReduceTensorOp.ADD, y, (1, 2))
    scale, offset = graph.tensor((1, 4, 1, 1)), graph.tensor((1, 4, 1, 1))
    norm = graph.norm_forward(
        graphs.BackendNormMode.BATCH_NORM, x, scale, offset, epsilon=1e-4,
        running_mean=graph.tensor((1, 4, 1, 1)), running_variance=graph.tensor((1, 4, 1, 1)),
        average_factor=0.1,
    )  # fmt: skip
    graph.norm_backward(
        graphs.BackendNormMode.BATCH_NORM, graph.tensor(x.shape), x, scale, norm.mean,
        norm.inv_variance,
    )  # fmt: skip
    mode = graphs.ResampleMode.MAXPOOL
    pooled, index = graph.resample_forward(mode, x, (2, 2), padding=(1, 1), stride=2, index=True)
    graph.resample_backward(
        mode, graph.tensor(pooled.shape), x.shape, (2, 2), index=index, padding=(1, 1), stride=2
    )


@scenario
def graph_plans(case: Case) -> None:
    """From a graph to engines, configurations and plans."""
    graph = graphs.Graph(case.handle)
    x, w = graph.tensor((2, 8, 6, 6), name="x"), graph.tensor((8, 8, 3, 3), name="w")
    y = graph.convolution_forward(x, w, padding=1, name="y")
    graph.build()
    engine = graph.engines()[0]
    graph.engine(engine.index)
    graph.heuristics("A")
    engine.config().plan()
    plan = graph.plan("A", tf32=False, deterministic=False, workspace_limit=2**26)
    operands = {tensor: case.put(case.values(tensor.shape, "float32").astype(np.float32))
                for tensor in (x, w, y)}  # fmt: skip
    workspace = case.scratch(plan.workspace_size)
    plan.execute(operands, workspace)
    plan.time(operands, workspace, milliseconds=0.0)
    graphs.time_call(
        case.context.stream, lambda: plan.execute(operands, workspace), milliseconds=0.0
    )
    try:
        graphs.ExecutionPlan.from_json(case.handle, plan.to_json())
    except NotSupported:  # not every engine writes JSON
        pass


@scenario
def graph_descriptors(case: Case) -> None:
    """Backend descriptors, attribute by attribute, and a variant pack."""
    tensor = graphs.BackendDescriptor(
        "TENSOR_DESCRIPTOR", {"TENSOR_UNIQUE_ID": 7}, library=case.library
    )
    tensor.set("TENSOR_DATA_TYPE", cudnn.DataType.FLOAT)
    tensor.set(graphs.BackendAttributeName.TENSOR_DIMENSIONS, (2, 3, 4))
    tensor.set(graphs.BackendAttributeName.TENSOR_STRIDES, (12, 4, 1))
    tensor.set(graphs.BackendAttributeName.TENSOR_BYTE_ALIGNMENT, 16)
    ready = graphs.BackendDescriptor(
        "TENSOR_DESCRIPTOR",
        {
            "TENSOR_UNIQUE_ID": 7, "TENSOR_DATA_TYPE": cudnn.DataType.FLOAT,
            "TENSOR_DIMENSIONS": (2, 3, 4), "TENSOR_STRIDES": (12, 4, 1),
            "TENSOR_BYTE_ALIGNMENT": 16,
        },
        library=case.library,
    ).finalize()  # fmt: skip
    ready.get("TENSOR_DIMENSIONS")
    graph = graphs.Graph(case.handle)
    x = graph.tensor((2, 4, 6, 6))
    y = graph.relu(x)
    plan = graph.plan()
    memory = {
        each: case.put(case.values(each.shape, "float32").astype(np.float32)) for each in (x, y)
    }
    pack = graphs.BackendDescriptor(
        "VARIANT_PACK_DESCRIPTOR",
        {
            "VARIANT_PACK_UNIQUE_IDS": [each.uid for each in memory],
            "VARIANT_PACK_DATA_POINTERS": list(memory.values()),
            "VARIANT_PACK_WORKSPACE": case.scratch(max(plan.workspace_size, 1)),
        },
        library=case.library,
    ).finalize()
    graphs.execute(case.handle, plan.descriptor, pack)
    graphs.ByValue(0.5, "float32")
    try:
        graphs.get_execution_plan_workspace_size(case.handle, plan.descriptor, pack)
    except NotSupported:  # cuDNN before 9.23
        pass
    case.keep = tensor
