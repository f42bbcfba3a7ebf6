"""Graphs that run, against float64; engines, knobs, plans to and from JSON; operands refused."""

from __future__ import annotations

import gc
import hashlib
import json
import math

import exact
import numpy as np
import pytest
from graph_bench import GraphBench, check

from pycudnn import Device, config, cudnn, empty, errors, from_numpy
from pycudnn.cudnn import graph as graph_api
from pycudnn.cudnn.graph import BackendDescriptor, ExecutionPlan, Graph

NHWC, NCHW = cudnn.TensorFormat.NHWC, cudnn.TensorFormat.NCHW
HALF = {"dtype": "float16", "format": NHWC}


@pytest.fixture
def bench(context, rng):
    return GraphBench(context, rng)


def plan_or_skip(graph: Graph) -> ExecutionPlan:
    """The graph's plan; a GPU's cuDNN has no engine for some graphs that are right."""
    try:
        return graph.plan()
    except errors.NoAlgorithm as error:
        if graph.handle.library.backend == "reference":
            raise
        pytest.skip(f"no engine: {str(error)[:80]}")


def run(bench, graph, inputs):
    return bench.run(graph, inputs, plan_or_skip(graph))


def settings_of(padding=0, stride=1, dilation=1, flip=False, axes=2):
    return {
        "padding": (padding,) * axes, "stride": (stride,) * axes, "dilation": (dilation,) * axes,
        "flip": flip,
    }  # fmt: skip


# ---- operations against float64 ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "format"), [("float32", NCHW), ("float32", NHWC), ("float16", NHWC)]
)
@pytest.mark.parametrize(
    "choice", [{}, {"padding": 1, "stride": 2}, {"dilation": 2}, {"flip": True}]
)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(bench, dtype, format, choice, groups):
    settings = settings_of(**choice)
    mode = "CONVOLUTION" if choice.get("flip") else "CROSS_CORRELATION"
    given = {name: settings[name] for name in ("padding", "stride", "dilation")} | {"mode": mode}
    x_shape, w_shape = (2, 16, 9, 8), (8, 16 // groups, 3, 3)

    graph = bench.graph()
    x, w = graph.tensor(x_shape, dtype, format=format), graph.tensor(w_shape, dtype, format=format)
    y = graph.convolution_forward(x, w, **given)
    numbers = {x: bench.values(x), w: bench.values(w)}
    expected = exact.convolution(numbers[x], numbers[w], y.shape, groups, **settings)
    check(run(bench, graph, numbers)[y], expected, dtype, slack=4)

    graph = bench.graph()
    dy, w = graph.tensor(y.shape, dtype, format=format), graph.tensor(w_shape, dtype, format=format)
    dx = graph.convolution_data_gradient(dy, w, x_shape, **given)
    numbers = {dy: bench.values(dy), w: bench.values(w)}
    expected = exact.convolution_data(numbers[dy], numbers[w], x_shape, groups, **settings)
    check(run(bench, graph, numbers)[dx], expected, dtype, slack=4)

    graph = bench.graph()
    x, dy = graph.tensor(x_shape, dtype, format=format), graph.tensor(y.shape, dtype, format=format)
    dw = graph.convolution_filter_gradient(x, dy, w_shape, **given)
    numbers = {x: bench.values(x), dy: bench.values(dy)}
    expected = exact.convolution_filter(numbers[x], numbers[dy], w_shape, groups, **settings)
    check(run(bench, graph, numbers)[dw], expected, dtype, slack=4)


def test_d5_one_axis_and_the_mode(bench):
    """A 1-d convolution needs no helper here; the mode turns the filter around."""
    for mode, expected in (
        ("CROSS_CORRELATION", [14, 20, 26, 32]),
        ("CONVOLUTION", [10, 16, 22, 28]),
    ):
        graph = bench.graph()
        x, w = graph.tensor((1, 1, 6)), graph.tensor((1, 1, 3))
        y = graph.convolution_forward(x, w, mode=mode)
        numbers = {x: np.arange(1.0, 7).reshape(1, 1, 6), w: np.arange(1.0, 4).reshape(1, 1, 3)}
        assert run(bench, graph, numbers)[y].ravel().tolist() == expected


def test_padding_before_and_behind(bench):
    graph = bench.graph()
    x, w = graph.tensor((2, 8, 6, 6), format=NHWC), graph.tensor((8, 8, 3, 3), format=NHWC)
    y = graph.convolution_forward(x, w, padding=(1, 0), post_padding=(0, 2))
    numbers = {x: bench.values(x), w: bench.values(w)}
    padded = np.pad(numbers[x], ((0, 0), (0, 0), (1, 0), (0, 2)))
    expected = exact.convolution(padded, numbers[w], y.shape, **settings_of())
    check(run(bench, graph, numbers)[y], expected, slack=4)


ERF = np.vectorize(math.erf)
UNARY = {
    "SQRT": (np.sqrt, 0.1), "ABS": (np.abs, -1), "CEIL": (np.ceil, -1), "COS": (np.cos, -1),
    "EXP": (np.exp, -1), "FLOOR": (np.floor, -1), "LOG": (np.log, 0.1), "NEG": (np.negative, -1),
    "RSQRT": (lambda x: x**-0.5, 0.1), "SIN": (np.sin, -1), "TAN": (np.tan, -1), "ERF": (ERF, -1),
    "IDENTITY": (lambda x: x, -1), "RECIPROCAL": (lambda x: 1 / x, 0.1),
    "RELU_FWD": (lambda x: np.maximum(x, 0), -1), "TANH_FWD": (np.tanh, -1),
    "SIGMOID_FWD": (lambda x: 1 / (1 + np.exp(-x)), -1),
    "ELU_FWD": (lambda x: np.where(x > 0, x, np.expm1(x)), -1),
    "GELU_FWD": (lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2, -1),
    "SOFTPLUS_FWD": (lambda x: np.log1p(np.exp(x)), -1),
    "SWISH_FWD": (lambda x: x / (1 + np.exp(-x)), -1),
    "GELU_APPROX_TANH_FWD": (
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), -1,
    ),
}  # fmt: skip
BINARY = {
    "ADD": np.add, "MUL": np.multiply, "SUB": np.subtract, "DIV": np.divide, "MIN": np.minimum,
    "MAX": np.maximum, "POW": np.power, "ADD_SQUARE": lambda a, b: a + b * b,
    "MOD": np.fmod, "FLOOR_MOD": lambda a, b: a - b * np.floor(a / b), "ATAN2": np.arctan2,
}  # fmt: skip
COMPARE = {
    "CMP_EQ": np.equal, "CMP_NEQ": np.not_equal, "CMP_GT": np.greater, "CMP_GE": np.greater_equal,
    "CMP_LT": np.less, "CMP_LE": np.less_equal,
}  # fmt: skip
LOGICAL = {"LOGICAL_AND": np.logical_and, "LOGICAL_OR": np.logical_or}
GRADIENTS = ("RELU", "TANH", "SIGMOID", "ELU", "GELU", "SOFTPLUS", "SWISH", "GELU_APPROX_TANH")
OTHERS = ("LOGICAL_NOT", "GEN_INDEX", "BINARY_SELECT")


def test_every_pointwise_mode_is_tested():
    gradients = [f"{name}_BWD" for name in GRADIENTS]
    tested = {*UNARY, *BINARY, *COMPARE, *LOGICAL, *gradients, *OTHERS}
    assert tested == set(graph_api.PointwiseMode.__members__)


@pytest.mark.parametrize("mode", sorted(UNARY))
def test_functions_of_one_operand(bench, mode):
    function, low = UNARY[mode]
    graph = bench.graph()
    x = graph.tensor((4, 8, 16))
    y = graph.pointwise(mode, x)
    numbers = {x: bench.values(x, low)}
    check(run(bench, graph, numbers)[y], function(numbers[x]), slack=2)


@pytest.mark.parametrize("mode", sorted(BINARY))
def test_functions_of_two_operands(bench, mode):
    graph = bench.graph()
    a, b = graph.tensor((4, 8, 6, 6), format=NHWC), graph.tensor((1, 8, 1, 1), format=NHWC)
    y = graph.pointwise(mode, a, b)
    numbers = {a: bench.values(a, 0.1), b: bench.values(b, 0.1)}
    if mode == "FLOOR_MOD" and graph.handle.library.version < 92800:
        pytest.skip("cuDNN 9.28 has it")
    check(run(bench, graph, numbers)[y], BINARY[mode](numbers[a], numbers[b]), slack=2)


def chosen(bench, graph, which):
    """Of two random tensors the first where ``which`` is true; their numbers."""
    first, second = (graph.tensor(which.shape, format=NHWC) for _ in range(2))
    y = graph.pointwise("BINARY_SELECT", first, second, select=which)
    return y, {first: bench.values(first), second: bench.values(second)}


def small_integers(bench, *tensors):
    return {tensor: bench.rng.integers(0, 4, tensor.shape).astype(float) for tensor in tensors}


@pytest.mark.parametrize("mode", sorted(COMPARE))
def test_comparisons(bench, mode):
    graph = bench.graph()
    a, b = graph.tensor((4, 8, 6, 6), format=NHWC), graph.tensor((1, 8, 1, 1), format=NHWC)
    y, candidates = chosen(bench, graph, graph.pointwise(mode, a, b, dtype="bool"))
    numbers = {**small_integers(bench, a, b), **candidates}
    expected = np.where(COMPARE[mode](numbers[a], numbers[b]), *candidates.values())
    assert (run(bench, graph, numbers)[y] == expected).all()


@pytest.mark.parametrize("mode", sorted(LOGICAL))
def test_logic(bench, mode):
    graph = bench.graph()
    a, b = (graph.tensor((4, 8, 6, 6), format=NHWC) for _ in range(2))
    left = graph.pointwise("CMP_GT", a, 1.0, dtype="bool")
    right = graph.pointwise("LOGICAL_NOT", graph.pointwise("CMP_GT", b, 1.0, dtype="bool"),
                            dtype="bool")  # fmt: skip
    y, candidates = chosen(bench, graph, graph.pointwise(mode, left, right, dtype="bool"))
    numbers = {**small_integers(bench, a, b), **candidates}
    expected = np.where(LOGICAL[mode](numbers[a] > 1, numbers[b] <= 1), *candidates.values())
    assert (run(bench, graph, numbers)[y] == expected).all()


def test_indices(bench):
    graph = bench.graph()
    x = graph.tensor((4, 8, 6, 6), format=NHWC)
    index = graph.pointwise("GEN_INDEX", x, axis=1, dtype="int32")
    got = run(bench, graph, {x: bench.values(x)})[index]
    assert (got == np.arange(8).reshape(1, 8, 1, 1)).all()


def test_booleans_are_not_in_memory(bench):
    """cuDNN packs eight of them into a byte: NumPy's, one a byte, would be misread."""
    graph = bench.graph()
    a = graph.tensor((4, 8, 6, 6), format=NHWC)
    larger = graph.pointwise("CMP_GT", a, 0.0, dtype="bool", name="larger")
    with pytest.raises(ValueError, match="larger.* is of bool, so it must be virtual"):
        graph.plan()
    with pytest.raises(ValueError, match="must be virtual"):
        larger.layout  # noqa: B018


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_differences_of_the_forward_function(bench, name):
    function = UNARY[f"{name}_FWD"][0]
    graph = bench.graph()
    dy, x = graph.tensor((4, 8, 16)), graph.tensor((4, 8, 16))
    dx = graph.pointwise(f"{name}_BWD", dy, x)
    numbers = {dy: bench.values(dy), x: bench.values(x)}
    numbers[x] += 0.05 * np.sign(numbers[x])  # away from kinks
    numbers[x] = numbers[x].astype(np.float32).astype(np.float64)
    h = 1e-6
    slope = (function(numbers[x] + h) - function(numbers[x] - h)) / (2 * h)
    check(run(bench, graph, numbers)[dx], numbers[dy] * slope, slack=4)


def test_parameters_of_pointwise_functions(bench):
    graph = bench.graph()
    x = graph.tensor((4, 8, 16))
    y = graph.pointwise(
        "RELU_FWD", x, relu_lower_clip=-0.5, relu_upper_clip=0.5, relu_lower_clip_slope=0.1
    )
    numbers = {x: bench.values(x, -2, 2)}
    v = numbers[x]
    expected = np.where(v > -0.5, np.minimum(v, 0.5), -0.5 + 0.1 * (v + 0.5))
    check(run(bench, graph, numbers)[y], expected)


def test_select_and_compare(bench):
    graph = bench.graph()
    a, b = (graph.tensor((4, 8, 6, 6), format=NHWC) for _ in range(2))
    larger = graph.pointwise("CMP_GT", a, b, dtype="bool")
    y = graph.pointwise("BINARY_SELECT", a, b, select=larger)
    numbers = {a: bench.values(a), b: bench.values(b)}
    check(run(bench, graph, numbers)[y], np.maximum(numbers[a], numbers[b]))


REDUCE = {
    "ADD": np.sum, "MUL": np.prod, "MIN": np.min, "MAX": np.max, "AVG": np.mean,
    "AMAX": lambda x, **axes: np.max(np.abs(x), **axes),
    "NORM1": lambda x, **axes: np.sum(np.abs(x), **axes),
    "NORM2": lambda x, **axes: np.sqrt(np.sum(x * x, **axes)),
}  # fmt: skip


@pytest.mark.parametrize("axes", [(0, 2, 3), 1])
@pytest.mark.parametrize("op", sorted(REDUCE))
def test_reductions(bench, op, axes):
    graph = bench.graph()
    x = graph.tensor((4, 8, 5, 6), format=NHWC)
    y = graph.reduction(op, x, axes)
    numbers = {x: bench.values(x, 0.5, 1.5)}
    check(run(bench, graph, numbers)[y], REDUCE[op](numbers[x], axis=axes, keepdims=True), slack=8)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_e6_products(bench, dtype):
    graph = bench.graph()
    a = graph.tensor((2, 16, 24), dtype)
    b = graph.tensor((1, 24, 32), dtype, strides=(768, 1, 24))  # a transposed matrix
    c = graph.matmul(a, b)
    numbers = {a: bench.values(a), b: bench.values(b)}
    got = bench.run(graph, numbers, graph.plan(tf32=True))[c]
    check(got, numbers[a] @ numbers[b], dtype, slack=4 if dtype == "float16" else 50)


POOLINGS = {
    "MAXPOOL": "MAX",
    "AVGPOOL_INCLUDE_PADDING": "AVERAGE_COUNT_INCLUDE_PADDING",
    "AVGPOOL_EXCLUDE_PADDING": "AVERAGE_COUNT_EXCLUDE_PADDING",
}


@pytest.mark.parametrize("mode", POOLINGS)
def test_poolings_and_their_gradients(bench, mode):
    window, padding, stride = (3, 3), (1, 1), (2, 2)
    given = {"padding": padding, "stride": stride}
    graph = bench.graph()
    x = graph.tensor((2, 16, 7, 8), format=NHWC)
    index = mode == "MAXPOOL"
    y, which = graph.resample_forward(mode, x, window, index=index, **given)
    # Distinct numbers: the largest of a window is unique.
    numbers = {x: bench.rng.permutation(x.shape[0] * 16 * 56).reshape(x.shape) / 1000.0}
    numbers[x] = numbers[x].astype(np.float32).astype(np.float64)
    got = run(bench, graph, numbers)
    expected, _ = exact.pooling(numbers[x], y.shape, POOLINGS[mode], window, padding, stride)
    check(got[y], expected)

    graph = bench.graph()
    dy = graph.tensor(y.shape, format=NHWC)
    second = {dy: bench.values(dy)}
    extra = {}
    if index:
        extra["index"] = graph.tensor(y.shape, "int8", format=NHWC)
        second[extra["index"]] = got[which]
    dx = graph.resample_backward(mode, dy, x.shape, window, **extra, **given)
    expected = exact.pooling_gradient(
        numbers[x], second[dy], POOLINGS[mode], window, padding, stride
    )
    check(run(bench, graph, second)[dx], expected, slack=2)


NORM_AXES = {"LAYER": (1, 2, 3), "INSTANCE": (2, 3), "BATCH": (0, 2, 3), "RMS": (1, 2, 3)}


def norm(x, scale, bias, mode, epsilon):
    """y, mean and 1 / sqrt(variance + epsilon)."""
    axes = {"axis": NORM_AXES[mode], "keepdims": True}
    mean = 0.0 if mode == "RMS" else x.mean(**axes)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(**axes) + epsilon)
    return scale * (x - mean) * inverse + bias, mean, inverse


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_sums_of_instance_gradients(bench, dtype, samples):
    """The engine that adds samples up before all are there is refused; others are right."""
    graph = bench.graph()
    dy, x = (graph.tensor((samples, 24, 8, 3), dtype, format=NHWC) for _ in range(2))
    scale = graph.tensor((1, 24, 1, 1), format=NHWC)
    mean, inverse = (graph.tensor((samples, 24, 1, 1), format=NHWC) for _ in range(2))
    gradients = graph.norm_backward("INSTANCE", dy, x, scale, mean, inverse)
    numbers = {tensor: bench.values(tensor) for tensor in (dy, x, scale, mean, inverse)}
    normal = (numbers[x] - numbers[mean]) * numbers[inverse]
    dscale = (numbers[dy] * normal).sum(axis=(0, 2, 3), keepdims=True)
    dbias = numbers[dy].sum(axis=(0, 2, 3), keepdims=True)
    plans = [graph.plan()]
    for proposed in [*graph.heuristics(), *graph.heuristics("FALLBACK")]:
        if proposed.flaw is None:
            plans.append(proposed.plan())
            continue
        assert samples > 1
        with pytest.raises(ValueError, match="gets gradients of scale and bias .* wrong"):
            proposed.plan()
    for plan in plans * 3:
        got = bench.run(graph, numbers, plan)
        check(got[gradients.dscale], dscale, slack=4)
        check(got[gradients.dbias], dbias, slack=4)


@pytest.mark.parametrize("mode", NORM_AXES)
def test_b3_norms_and_their_gradients(bench, mode):
    """Gradients by differences of the loss <dy, y>, with an epsilon that matters."""
    epsilon = 1e-2
    graph = bench.graph()
    x = graph.tensor((4, 16, 8, 8), format=NHWC)
    shape = (1, 16, 8, 8) if mode in ("LAYER", "RMS") else (1, 16, 1, 1)
    scale = graph.tensor(shape, format=NHWC)
    bias = None if mode == "RMS" else graph.tensor(shape, format=NHWC)
    result = graph.norm_forward(mode, x, scale, bias, epsilon=epsilon)
    numbers = {x: bench.values(x, -0.5, 1), scale: bench.values(scale)}
    shift = 0.0
    if bias is not None:
        shift = numbers[bias] = bench.values(bias)
    got = run(bench, graph, numbers)
    y, mean, inverse = norm(numbers[x], numbers[scale], shift, mode, epsilon)
    check(got[result.y], y, slack=2)
    check(got[result.inv_variance], inverse)
    if bias is not None:
        check(got[result.mean], mean)

    graph = bench.graph()
    dy, again, gamma = (graph.tensor(s, format=NHWC) for s in (x.shape, x.shape, shape))
    statistic = result.inv_variance.shape
    inv = graph.tensor(statistic, format=NHWC)
    mu = None if mode == "RMS" else graph.tensor(statistic, format=NHWC)
    gradients = graph.norm_backward(mode, dy, again, gamma, mu, inv)
    second = {dy: bench.values(dy), again: numbers[x], gamma: numbers[scale], inv: inverse}
    if mu is not None:
        second[mu] = mean
    got = run(bench, graph, second)

    def loss(x, scale, shift):
        return (second[dy] * norm(x, scale, shift, mode, epsilon)[0]).sum()

    h = 1e-6
    for tensor, position in ((gradients.dx, 0), (gradients.dscale, 1), (gradients.dbias, 2)):
        if tensor is None:
            continue
        at = tuple(bench.rng.integers(size) for size in tensor.shape)
        moved = []
        for step in (h, -h):
            arguments = [
                numbers[x].copy(),
                numbers[scale].copy(),
                np.broadcast_to(shift, shape).copy(),
            ]
            arguments[position][at] += step
            moved.append(loss(*arguments))
        check(got[tensor][at], np.array((moved[0] - moved[1]) / (2 * h)), slack=50)
    if gradients.dbias is not None:
        reduced = tuple(axis for axis in range(4) if shape[axis] == 1)
        check(got[gradients.dbias], second[dy].sum(axis=reduced, keepdims=True), slack=4)


def test_b2_running_averages_move_by_their_factor(bench):
    """momentum .9, running mean 0, batch mean 10: the new one is 1."""
    graph = bench.graph()
    x = graph.tensor((4, 16, 8, 8), format=NHWC)
    scale, bias, mean, variance = (graph.tensor((1, 16, 1, 1), format=NHWC) for _ in range(4))
    result = graph.norm_forward(
        "BATCH", x, scale, bias, running_mean=mean, running_variance=variance, average_factor=0.1
    )
    numbers = {tensor: np.ones(tensor.shape) for tensor in (scale, bias, variance)}
    numbers[mean] = np.zeros(mean.shape)
    numbers[x] = 10 + np.where(np.arange(4).reshape(4, 1, 1, 1) % 2, 1.0, -1.0) * np.ones(x.shape)
    got = run(bench, graph, numbers)
    check(got[result.running_mean], np.full(mean.shape, 1.0))
    unbiased = 256 / 255
    check(got[result.running_variance], np.full(mean.shape, 0.9 + 0.1 * unbiased), slack=10)


# ---- fused chains --------------------------------------------------------------------------------


def fused(bench, **settings):
    """Convolution + bias + ReLU, with its numbers and the expected result."""
    graph = bench.graph()
    x = graph.tensor((4, 16, 9, 9), name="x", **settings)
    w = graph.tensor((8, 16, 3, 3), name="w", **settings)
    b = graph.tensor((1, 8, 1, 1), name="bias", **settings)
    y = graph.relu(graph.add(graph.convolution_forward(x, w, padding=1), b), name="y")
    numbers = {tensor: bench.values(tensor) for tensor in (x, w, b)}
    sums = exact.convolution(numbers[x], numbers[w], y.shape, **settings_of(padding=1))
    return graph, y, numbers, np.maximum(sums + numbers[b], 0)


@pytest.mark.parametrize(
    ("dtype", "format"), [("float32", NCHW), ("float32", NHWC), ("float16", NHWC)]
)
def test_convolution_bias_relu(bench, dtype, format):
    graph, y, numbers, expected = fused(bench, dtype=dtype, format=format)
    check(run(bench, graph, numbers)[y], expected, dtype, slack=4)


def test_product_bias_gelu(bench):
    graph = bench.graph()
    a, b = graph.tensor((1, 32, 48), "float16"), graph.tensor((1, 48, 64), "float16")
    bias = graph.tensor((1, 1, 64), "float16")
    y = graph.gelu(graph.add(graph.matmul(a, b), bias))
    numbers = {tensor: bench.values(tensor) for tensor in (a, b, bias)}
    sums = numbers[a] @ numbers[b] + numbers[bias]
    check(run(bench, graph, numbers)[y], UNARY["GELU_FWD"][0](sums), "float16", slack=4)


def test_numbers_are_passed_by_value(bench):
    graph = bench.graph()
    x = graph.tensor((4, 8, 6, 6), format=NHWC)
    y = graph.add(graph.multiply(x, -0.5), 3)
    numbers = {x: bench.values(x)}
    check(run(bench, graph, numbers)[y], -0.5 * numbers[x] + 3)


def test_an_intermediate_can_be_an_output_too(bench):
    graph, y, numbers, expected = fused(bench, **HALF)
    sums = graph.output(y.source.inputs[0])
    got = run(bench, graph, numbers)
    check(got[y], expected, "float16", slack=4)
    check(np.maximum(got[sums], 0), expected, "float16", slack=4)


# ---- engines -------------------------------------------------------------------------------------


def test_all_engines_of_a_graph(bench):
    graph, y, numbers, expected = fused(bench, **HALF)
    engines = graph.engines()
    assert engines
    assert [engine.index for engine in engines] == sorted({engine.index for engine in engines})
    assert all(0 <= engine.index < graph.engine_count for engine in engines)
    ran = 0
    for engine in engines:
        assert f"Engine({engine.index}" in repr(engine)
        for knob in engine.knobs:
            assert knob.minimum <= knob.maximum
            assert knob.minimum in knob.values
            assert knob.name
        assert isinstance(engine.numerical_notes, tuple)
        assert isinstance(engine.behavior_notes, tuple)
        try:
            plan = engine.config().plan()
        except errors.CudnnNotSupported:
            continue
        check(bench.run(graph, numbers, plan)[y], expected, "float16", slack=8)
        ran += 1
    assert ran


def test_an_engine_by_its_index(bench):
    graph, *_ = fused(bench, **HALF)
    engine = graph.engines()[0]
    assert graph.engine(engine.index).index == engine.index
    with pytest.raises(ValueError, match="index must be in"):
        graph.engine(graph.engine_count)
    with pytest.raises(ValueError, match="index must be in"):
        graph.engine(-1)


def test_knobs_are_checked_and_take_effect(bench):
    graph, y, numbers, expected = fused(bench, **HALF)
    engine = next(engine for engine in graph.engines() if engine.knobs)
    knob = engine.knobs[0]
    with pytest.raises(ValueError, match=f"{knob.name} must be in"):
        engine.config({knob.name: knob.maximum + 1})
    with pytest.raises(TypeError, match=f"{knob.name} must be an int"):
        engine.config({knob.name: 0.5})
    with pytest.raises(ValueError, match="knobs must be a BackendKnobType"):
        engine.config({"NO_KNOB": 1})
    missing = set(graph_api.BackendKnobType.__members__) - {known.name for known in engine.knobs}
    with pytest.raises(ValueError, match=f"engine {engine.index} has the knobs {knob.name}"):
        engine.config({min(missing - {"COUNTS"}): 0})
    tried = 0
    for each in engine.knobs:
        try:
            chosen = engine.config({each.name: each.maximum})
            plan = chosen.plan()
        except errors.CudnnNotSupported:
            continue  # not each combination of knobs is supported
        assert chosen.knobs[each.name] == each.maximum
        assert chosen.engine.index == engine.index
        check(bench.run(graph, numbers, plan)[y], expected, "float16", slack=8)
        tried += 1
    assert tried or bench.context.device.backend == "cuda"


@pytest.mark.parametrize(
    "mode", ["A", "B", "INSTANT", "FALLBACK", graph_api.BackendHeurMode.MODE_A]
)
def test_heuristics(bench, mode):
    graph, y, numbers, expected = fused(bench, **HALF)
    proposed = graph.heuristics(mode)
    assert proposed
    known = {engine.index for engine in graph.engines()}
    assert {each.engine.index for each in proposed} <= known
    check(bench.run(graph, numbers, proposed[0].plan())[y], expected, "float16", slack=8)
    assert f"engine={proposed[0].engine.index}" in repr(proposed[0])


def test_wrong_modes(bench):
    graph, *_ = fused(bench, **HALF)
    for mode in ("C", 4, 9, None):
        with pytest.raises(ValueError, match="mode must be a BackendHeurMode"):
            graph.heuristics(mode)


def test_c9_plans_of_float32_do_without_tf32(bench):
    """1 + 2**-11 goes through an identity convolution exactly, and through TF32 not."""
    graph = bench.graph()
    x, w = graph.tensor((2, 64, 8, 8), format=NHWC), graph.tensor((64, 64, 1, 1), format=NHWC)
    y = graph.convolution_forward(x, w)
    numbers = {x: np.full(x.shape, 1 + 2.0**-11), w: np.eye(64).reshape(64, 64, 1, 1)}
    assert (bench.run(graph, numbers)[y] == 1 + 2.0**-11).all()
    with config.override(tf32=True):
        error = np.abs(bench.run(graph, numbers)[y] - (1 + 2.0**-11)).max()
    assert error <= 2.0**-10


def test_c9_products_of_float32_matrices(bench):
    """Each engine of cuDNN 9.19 for them uses TF32, also the one that has no note of it."""
    graph = bench.graph()
    a, b = graph.tensor((1, 64, 64)), graph.tensor((1, 64, 64))
    c = graph.matmul(a, b)
    numbers = {a: np.full(a.shape, 1 + 2.0**-11), b: np.eye(64)[None]}
    if bench.context.device.backend == "cuda":
        with pytest.raises(errors.NoAlgorithm, match=r"on float32 \(tf32 is False\)"):
            graph.plan()
    else:
        assert (bench.run(graph, numbers)[c] == 1 + 2.0**-11).all()
    got = bench.run(graph, numbers, graph.plan(tf32=True))[c]
    assert np.abs(got - (1 + 2.0**-11)).max() <= 2.0**-10


def test_c3_workspace_limits_and_determinism(bench):
    graph, y, numbers, expected = fused(bench, **HALF)
    plan = graph.plan(workspace_limit=0, deterministic=True)
    assert plan.workspace_size == 0
    notes = plan.config.engine.numerical_notes
    assert graph_api.BackendNumericalNote.NONDETERMINISTIC not in notes
    check(bench.run(graph, numbers, plan)[y], expected, "float16", slack=8)
    with pytest.raises(ValueError, match="workspace_limit must be in"):
        graph.plan(workspace_limit=-1)
    for name in ("tf32", "deterministic"):
        with pytest.raises(TypeError, match=f"{name} must be True, False or None"):
            graph.plan(**{name: 1})


# ---- plans ---------------------------------------------------------------------------------------


def test_plans_go_through_json(bench):
    graph, y, numbers, expected = fused(bench, **HALF)
    written = graph.plan()
    text = written.to_json()
    assert json.loads(text)
    operands = bench.operands(graph, numbers)
    restored = ExecutionPlan.from_json(graph.handle, text)
    assert restored.operands == written.operands == ("x", "w", "bias", "y")
    assert restored.workspace_size == written.workspace_size
    by_name = {tensor.name: buffer for tensor, buffer in operands.items()}
    restored.execute(by_name, bench.scratch(restored.workspace_size))
    check(bench.read(y, operands[y]), expected, "float16", slack=4)
    with pytest.raises(ValueError, match="needs an operand"):
        restored.execute({"x": by_name["x"]}, bench.scratch(restored.workspace_size))
    with pytest.raises(TypeError, match="operands must have"):
        restored.execute(dict.fromkeys(by_name.values()))


def test_values_go_through_json(bench):
    graph = bench.graph()
    x = graph.tensor((4, 8, 6, 6), format=NHWC, name="x")
    y = graph.multiply(x, 0.25, name="y")
    numbers = {x: bench.values(x)}
    restored = ExecutionPlan.from_json(graph.handle, plan_or_skip(graph).to_json())
    memory = {"x": bench.memory(x, numbers[x]), "y": bench.memory(y)}
    restored.execute(memory, bench.scratch(restored.workspace_size))
    check(bench.read(y, memory["y"]), 0.25 * numbers[x])


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "[" * 200_000, '{"format": "other"}', "x" * 99],
    ids=lambda text: text[:20],
)
def test_text_of_others_is_no_plan(context, text):
    with pytest.raises(ValueError, match="text must be what to_json wrote"):
        ExecutionPlan.from_json(context.cudnn, text)
    with pytest.raises(TypeError, match="text must be a str"):
        ExecutionPlan.from_json(context.cudnn, None)


def test_a_plan_that_was_tampered_with_is_refused(bench):
    graph, *_ = fused(bench, **HALF)
    content = json.loads(graph.plan().to_json())
    first = content["tensors"][0]
    for changes in (
        {"plan": "{}"},
        {"plan": 5},
        {"tensors": []},
        {"tensors": [{**first, "shape": [1, 1, 1, 1]}, *content["tensors"][1:]]},
        {"digest": "0" * 64},
        {"more": 1},
    ):
        with pytest.raises(ValueError, match="text must be what to_json wrote"):
            ExecutionPlan.from_json(graph.handle, json.dumps({**content, **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"strides": [1]}, {"shape": []}, {"shape": [1, 2.5, 3, 4]}, {"alignment": -1},
        {"uid": 2**64},
        {"dtype": "NONE"}, {"name": 5}, {"written": 1}, {"value": "x"}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_tensors_that_no_plan_has_are_refused_with_their_digest_too(bench, changes):
    graph, *_ = fused(bench, **HALF)
    content = json.loads(graph.plan().to_json())
    content["tensors"][0].update(changes)
    body = json.dumps({key: content[key] for key in ("plan", "tensors")}, sort_keys=True)
    content["digest"] = hashlib.sha256(body.encode()).hexdigest()
    with pytest.raises(ValueError, match="text must be what to_json wrote"):
        ExecutionPlan.from_json(graph.handle, json.dumps(content))


def test_plans_outlive_their_graph(bench):
    graph, y, numbers, expected = fused(bench, **HALF)
    plan, operands = graph.plan(), bench.operands(graph, numbers)
    for descriptor in (graph.build(), plan.config.descriptor):
        descriptor.close()
    names = {tensor.name: buffer for tensor, buffer in operands.items()}
    del graph
    gc.collect()
    plan.execute(names, bench.scratch(plan.workspace_size))
    check(bench.read(y, operands[y]), expected, "float16", slack=4)
    assert "x, w, bias, y" in repr(plan)


def test_h2_a_closed_handle_or_plan_is_a_value_error(context):
    handle = cudnn.Handle(context.device, context.stream)
    graph = Graph(handle)
    x = graph.tensor((4, 8, 16), name="x")
    graph.relu(x, name="y")
    plan = graph.plan()
    memory = {name: empty((4, 8, 16), device=context.device) for name in ("x", "y")}
    handle.close()
    with pytest.raises(ValueError, match="closed"):
        plan.execute(memory)
    with pytest.raises(ValueError, match="closed"):
        graph.heuristics()
    plan.descriptor.close()
    with pytest.raises(ValueError, match="closed"):
        plan.execute(memory)


def test_times_are_positive(bench):
    graph, _, numbers, _ = fused(bench, **HALF)
    plan = graph.plan()
    scratch = bench.scratch(plan.workspace_size)
    operands = bench.operands(graph, numbers)
    assert plan.time(operands, scratch, milliseconds=1) > 0
    with pytest.raises(ValueError, match="milliseconds must be"):
        plan.time(operands, scratch, milliseconds=float("nan"))


# ---- operands that are refused -------------------------------------------------------------------


def test_wrong_operands(bench):
    graph, y, numbers, _ = fused(bench, dtype="float32", format=NHWC)
    plan = graph.plan()
    good = bench.operands(graph, numbers)
    x = next(iter(good))
    scratch = bench.scratch(plan.workspace_size)
    place = bench.place

    def refused(error, text, changes, workspace=scratch):
        with pytest.raises(error, match=text):
            plan.execute({**good, **changes}, workspace)

    refused(ValueError, "tensor x needs 20736 bytes, got 20732", {x: empty(5183, **place)})
    refused(TypeError, "tensor x holds float64", {x: empty(5184, "float64", **place)})
    refused(TypeError, "tensor x must be a pycudnn buffer", {x: 5})
    refused(ValueError, "tensor x .* needs an operand", {x: None})
    refused(ValueError, "tensors x, w, bias, y; got 'z'", {"z": good[x]})
    refused(ValueError, "operands must name each tensor once", {"x": good[x]})
    refused(TypeError, "keys, got 5", {5: good[x]})
    closed = empty(5184, **place)
    closed.close()
    refused(ValueError, "closed", {x: closed})
    shifted = empty(5185, **place).view((5184,), "float32", 4)
    refused(ValueError, "tensor x must be aligned to 16 bytes", {x: shifted})
    refused(ValueError, "shares memory", {y: good[x].view((y.layout.extent // 4,), "float32")})
    virtual = next(tensor for tensor in graph.tensors if tensor.is_virtual)
    refused(ValueError, "operands must be of the tensors", {virtual: good[x]})
    other = Graph(graph.handle).tensor(x.shape, name="x")
    refused(TypeError, "tensors of the graph", {other: good[x]})
    with pytest.raises(ValueError, match="needs an operand"):
        plan.execute({}, scratch)


def test_c3_a_workspace_that_is_too_small(bench):
    graph, _, numbers, _ = fused(bench, dtype="float32", format=NHWC)
    plans = (each.plan() for engine in graph.engines() for each in [engine.config()])
    for plan in iter(lambda: next_plan(plans), None):
        if plan.workspace_size > 1:
            break
    else:
        pytest.skip("no engine needs a workspace")
    operands = bench.operands(graph, numbers)
    needed = plan.workspace_size
    pack = pack_of(
        plan,
        {
            "VARIANT_PACK_UNIQUE_IDS": [tensor.uid for tensor in operands],
            "VARIANT_PACK_DATA_POINTERS": [*operands.values()],
            "VARIANT_PACK_WORKSPACE": bench.scratch(needed - 1),
        },
    )
    with pytest.raises(ValueError, match=f"workspace needs {needed} bytes, got {needed - 1}"):
        graph_api.execute(plan.handle, plan.descriptor, pack)
    with pytest.raises(ValueError, match=f"workspace needs {needed} bytes, got {needed - 1}"):
        plan.execute(operands, bench.scratch(needed - 1))
    with pytest.raises(ValueError, match=f"workspace needs {needed} bytes, got None"):
        plan.execute(operands)


def next_plan(plans):
    """The next plan that can be made, None at the end."""
    while True:
        try:
            return next(plans, None)
        except errors.CudnnNotSupported:
            return None


def test_arrays_of_others_are_operands(backend, bench):
    if backend == "cuda":
        pytest.skip("NumPy arrays are host memory")
    graph = bench.graph()
    x = graph.tensor((2, 3, 4), name="x")
    y = graph.relu(x)
    plan = graph.plan()
    source, result = (
        np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4),
        np.empty((2, 3, 4), np.float32),
    )
    source.flags.writeable = False
    plan.execute({x: source, y: result})
    assert (result == np.maximum(source, 0)).all()
    result.flags.writeable = False
    with pytest.raises(ValueError, match="tensor t2 is written to"):
        plan.execute({x: source, y: result})
    with pytest.raises(ValueError, match="tensor x must be laid out as"):
        plan.execute({x: np.asfortranarray(source), y: np.empty((2, 3, 4), np.float32)})


@pytest.mark.gpu
def test_the_other_side_is_a_mismatch(rng):
    from pycudnn import CudaContext

    with CudaContext("cuda") as context:
        bench = GraphBench(context, rng)
        graph = bench.graph()
        x = graph.tensor((2, 3, 4))
        y = graph.relu(x)
        here = from_numpy(np.ones((2, 3, 4), np.float32), device=Device("reference"))
        with pytest.raises(errors.LibraryMismatch, match="tensor"):
            graph.plan().execute({x: here, y: bench.memory(y)})


# ---- the C calls by hand -------------------------------------------------------------------------


def by_hand(bench):
    """A plan with its variant pack from descriptors alone."""
    graph = bench.graph()
    x = graph.tensor((2, 3, 16), name="x")
    y = graph.relu(x)
    plan = graph.plan()
    numbers = bench.values(x)
    memory = [bench.memory(x, numbers), bench.memory(y)]
    settings = {
        "VARIANT_PACK_UNIQUE_IDS": (x.uid, y.uid),
        "VARIANT_PACK_DATA_POINTERS": memory,
        "VARIANT_PACK_WORKSPACE": bench.scratch(plan.workspace_size),
    }
    return plan, settings, numbers, y


def pack_of(plan, settings, **changes):
    library = plan.handle.library
    changed = {**settings, **changes}
    return BackendDescriptor("VARIANT_PACK_DESCRIPTOR", changed, library=library).finalize()


def test_a_variant_pack_by_hand(bench):
    plan, settings, numbers, y = by_hand(bench)
    pack = pack_of(plan, settings)
    graph_api.execute(plan.handle, plan.descriptor, pack)
    check(bench.read(y, settings["VARIANT_PACK_DATA_POINTERS"][1]), np.maximum(numbers, 0))


def test_variant_packs_that_do_not_fit(bench):
    plan, settings, _, _ = by_hand(bench)
    handle, descriptor = plan.handle, plan.descriptor
    small = empty(5, **bench.place)
    memory = settings["VARIANT_PACK_DATA_POINTERS"]
    for changes, text in (
        ({"VARIANT_PACK_DATA_POINTERS": [memory[0], small]}, "needs 384 bytes, got 20"),
        ({"VARIANT_PACK_DATA_POINTERS": memory[:1]}, "has 1 data pointers"),
        ({"VARIANT_PACK_UNIQUE_IDS": (1, 9)}, r"no tensors with the unique ids \[9\]"),
        ({"VARIANT_PACK_DATA_POINTERS": [memory[0], None]}, "needs an operand"),
        ({"VARIANT_PACK_UNIQUE_IDS": (1, 1)}, r"2 data pointers for the unique ids \(1, 1\)"),
        (
            {"VARIANT_PACK_UNIQUE_IDS": (1,), "VARIANT_PACK_DATA_POINTERS": memory[:1]},
            "tensor 2 .* needs an operand",
        ),
    ):
        try:
            pack = pack_of(plan, settings, **changes)
        except errors.CudnnBadParam:
            continue  # refused by the library itself
        with pytest.raises(ValueError, match=text):
            graph_api.execute(handle, descriptor, pack)
    pack = pack_of(plan, settings)
    for arguments, error in (
        ((None, descriptor, pack), TypeError), ((handle, pack, pack), TypeError),
        ((handle, descriptor, None), TypeError), ((handle, descriptor, descriptor), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            graph_api.execute(*arguments)
    unfinished = BackendDescriptor("VARIANT_PACK_DESCRIPTOR", settings, library=handle.library)
    with pytest.raises(ValueError, match="pack must be finalized first"):
        graph_api.execute(handle, descriptor, unfinished)
    memory[0].close()
    with pytest.raises(ValueError, match="closed"):
        graph_api.execute(handle, descriptor, pack)


def test_values_in_a_variant_pack(bench):
    """A number is passed in host memory: neither device memory nor a bare number will do."""
    graph = bench.graph()
    x = graph.tensor((4, 8, 6, 6), format=NHWC, name="x")
    half = graph.scalar(0.5, name="half")
    y = graph.multiply(x, half)
    plan = plan_or_skip(graph)
    numbers = bench.values(x)
    memory = [bench.memory(x, numbers), bench.memory(y)]
    settings = {
        "VARIANT_PACK_UNIQUE_IDS": (x.uid, y.uid, half.uid),
        "VARIANT_PACK_DATA_POINTERS": [*memory, graph_api.ByValue(0.25, "float32")],
        "VARIANT_PACK_WORKSPACE": bench.scratch(plan.workspace_size),
    }
    graph_api.execute(plan.handle, plan.descriptor, pack_of(plan, settings))
    check(bench.read(y, memory[1]), 0.25 * numbers)

    def refused(text, *pointers):
        pack = pack_of(plan, settings, VARIANT_PACK_DATA_POINTERS=[*pointers])
        with pytest.raises(TypeError, match=text):
            graph_api.execute(plan.handle, plan.descriptor, pack)

    refused("tensor 2 must be a ByValue of float32", *memory, memory[0])
    refused("tensor 2 must be a ByValue of float32", *memory, graph_api.ByValue(0.25, "float64"))
    refused("tensor 1 must be memory", graph_api.ByValue(1), memory[1], graph_api.ByValue(1))
    assert "0.25, float32" in repr(graph_api.ByValue(0.25))


@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        (1e40, "float32", ValueError), (1e5, "float16", ValueError), (0.5, "int32", ValueError),
        (2**31, "int32", ValueError), (-1, "uint8", ValueError), (2, "bool", ValueError),
        (math.nan, "float32", ValueError), ("1", "float32", TypeError), (1, "int9", TypeError),
        (1, cudnn.DataType.FP8_E4M3, TypeError),
    ],
)  # fmt: skip
def test_values_that_their_type_cannot_hold(bench, value, dtype, error):
    with pytest.raises(error):
        graph_api.ByValue(value, dtype)
    with pytest.raises(error):
        bench.graph().scalar(value, dtype)


def test_cuda_graphs_are_asked_for_by_type(bench):
    plan, settings, _, _ = by_hand(bench)
    pack = pack_of(plan, settings)
    for call in (graph_api.populate_cuda_graph, graph_api.update_cuda_graph):
        for wrong in (None, 5, object()):
            with pytest.raises(TypeError, match="graph must be a CUgraph or cudaGraph_t"):
                call(plan.handle, plan.descriptor, pack, wrong)


@pytest.mark.gpu
def test_plans_in_a_captured_stream(rng):
    """The graph keeps plan and memory: it replays right after both are dropped."""
    from pycudnn import CudaContext

    with CudaContext("cuda") as context:
        bench = GraphBench(context, rng)
        graph, y, numbers, expected = fused(bench, **HALF)
        plan, operands = graph.plan(), bench.operands(graph, numbers)
        scratch = bench.scratch(plan.workspace_size)
        plan.execute(operands, scratch)
        with context.stream.capture() as captured:
            plan.execute(operands, scratch)
        result = operands[y]
        result.fill_bytes(0xFF, context.stream)
        del plan, graph, operands, scratch
        gc.collect()
        captured.launch()
        check(bench.read(y, result), expected, "float16", slack=4)
