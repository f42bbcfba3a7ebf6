"""Problems for graphs: single operations of every kind, and fused chains.

All of them end in cudnnBackendExecute; each kind has its own count under that name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Case, Operand, problem

from pycudnn import cudnn
from pycudnn.cudnn.graph import BackendNumericalNote, Graph, Tensor
from pycudnn.errors import NoAlgorithm, NotSupported

sys.path.insert(0, str(Path(__file__).parents[1] / "cudnn"))
import exact

NHWC = cudnn.TensorFormat.NHWC
FORMATS = (cudnn.TensorFormat.NCHW, NHWC)
HALVES = ("float16", "bfloat16")
ERF = np.vectorize(math.erf)

Values = dict[str, np.ndarray]


class Ran(dict[str, Operand]):
    """Operands by the tensors' names after one execution."""

    slack = 4.0  # of sums, in units of the tolerance


def run(case: Case, graph: Graph, tf32: bool = False, **given: Operand) -> Ran:
    """Execute the graph's plan once; ``given`` operands are used as they are."""
    try:
        plan = graph.plan(tf32=tf32)
    except NoAlgorithm as error:
        raise NotSupported(str(error)) from error
    ran = Ran(
        {tensor.name: given.get(tensor.name) or operand(case, tensor) for tensor in graph.operands}
    )
    effects = plan.config.engine.effects
    if BackendNumericalNote.WINOGRAD in effects:
        ran.slack = 200.0  # about 1e-3 in float32
    if tf32 and BackendNumericalNote.TENSOR_CORE in effects:
        ran.slack = 100.0  # half a unit of 2**-10 in each factor
    data = {name: each.data for name, each in ran.items()}
    plan.execute(data, case.scratch(plan.workspace_size))
    return ran


def operand(case: Case, tensor: Tensor) -> Operand:
    """Memory of a tensor: random numbers, or NaN if it is an output."""
    dtype = cudnn.DataType(tensor.dtype).name.lower()
    name = {"float": "float32", "double": "float64", "half": "float16"}.get(dtype, dtype)
    return case.operand(tensor.layout, name, blank=tensor.is_output)


def values(operands: dict[str, Operand]) -> Values:
    return {name: each.values for name, each in operands.items()}


# ---- convolutions --------------------------------------------------------------------------------


class Convolution:
    """A random convolution: shapes and settings."""

    def __init__(self, case: Case) -> None:
        self.dtype = case.choose("float32", "float32", *HALVES)
        half = self.dtype in HALVES
        self.format = NHWC if half else case.choose(*FORMATS)
        axes = case.choose(2, 2, 2, 1, 3)
        step = 8 if half else case.choose(1, 4, 8)
        self.groups = case.choose(1, 1, 2)
        channels = step * self.groups * case.integer(1, 3)
        filters = step * self.groups * case.integer(1, 3)
        window = case.shape(axes, 1, 3)
        self.padding = case.shape(axes, 0, 2)
        self.stride = case.shape(axes, 1, 2)
        self.dilation = case.shape(axes, 1, 2)
        self.flip = bool(case.choose(0, 0, 1))
        space = tuple(5 + extra for extra in case.shape(axes, 1, 7))
        self.x = (case.integer(1, 3), channels, *space)
        self.w = (filters, channels // self.groups, *window)

    @property
    def settings(self) -> dict[str, object]:
        """As the graph takes them."""
        mode = "CONVOLUTION" if self.flip else "CROSS_CORRELATION"
        return {
            "padding": self.padding, "stride": self.stride, "dilation": self.dilation, "mode": mode,
        }  # fmt: skip

    def tensor(self, graph: Graph, shape: tuple[int, ...], name: str) -> Tensor:
        return graph.tensor(shape, self.dtype, format=self.format, name=name)

    def exact(self, function: Callable[..., np.ndarray], *arguments: object) -> np.ndarray:
        return function(
            *arguments, self.groups, padding=self.padding, stride=self.stride,
            dilation=self.dilation, flip=self.flip,
        )  # fmt: skip


@problem("cudnnBackendExecute: convolution forward")
def convolution_forward(case: Case) -> None:
    conv, graph = Convolution(case), Graph(case.handle)
    x, w = conv.tensor(graph, conv.x, "x"), conv.tensor(graph, conv.w, "w")
    y = graph.convolution_forward(x, w, name="y", **conv.settings)
    ran = run(case, graph)
    expected = conv.exact(exact.convolution, ran["x"].values, ran["w"].values, y.shape)
    case.check(ran["y"], expected, conv.dtype, ran.slack)


@problem("cudnnBackendExecute: convolution data gradient")
def convolution_data_gradient(case: Case) -> None:
    conv, graph = Convolution(case), Graph(case.handle)
    shape = output_shape(conv, case)
    dy, w = conv.tensor(graph, shape, "dy"), conv.tensor(graph, conv.w, "w")
    graph.convolution_data_gradient(dy, w, conv.x, name="dx", **conv.settings)
    ran = run(case, graph)
    expected = conv.exact(exact.convolution_data, ran["dy"].values, ran["w"].values, conv.x)
    case.check(ran["dx"], expected, conv.dtype, ran.slack)


@problem("cudnnBackendExecute: convolution filter gradient")
def convolution_filter_gradient(case: Case) -> None:
    conv, graph = Convolution(case), Graph(case.handle)
    shape = output_shape(conv, case)
    x, dy = conv.tensor(graph, conv.x, "x"), conv.tensor(graph, shape, "dy")
    graph.convolution_filter_gradient(x, dy, conv.w, name="dw", **conv.settings)
    ran = run(case, graph)
    expected = conv.exact(exact.convolution_filter, ran["x"].values, ran["dy"].values, conv.w)
    case.check(ran["dw"], expected, conv.dtype, ran.slack)


def output_shape(conv: Convolution, case: Case) -> tuple[int, ...]:
    graph = Graph(case.handle)
    x, w = graph.tensor(conv.x), graph.tensor(conv.w)
    return graph.convolution_forward(x, w, **conv.settings).shape


# ---- pointwise, products, reductions -------------------------------------------------------------

UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "SQRT": np.sqrt, "ABS": np.abs, "EXP": np.exp, "LOG": np.log, "NEG": np.negative,
    "RECIPROCAL": lambda x: 1 / x, "RSQRT": lambda x: x**-0.5, "ERF": ERF, "SIN": np.sin,
    "COS": np.cos, "TAN": np.tan, "FLOOR": np.floor, "CEIL": np.ceil, "IDENTITY": lambda x: x,
    "RELU_FWD": lambda x: np.maximum(x, 0), "TANH_FWD": np.tanh,
    "SIGMOID_FWD": lambda x: 1 / (1 + np.exp(-x)),
    "ELU_FWD": lambda x: np.where(x > 0, x, np.expm1(x)),
    "SOFTPLUS_FWD": lambda x: np.log1p(np.exp(x)), "SWISH_FWD": lambda x: x / (1 + np.exp(-x)),
    "GELU_FWD": lambda x: x / 2 * (1 + ERF(x / math.sqrt(2))),
    "GELU_APPROX_TANH_FWD": lambda x: x / 2 * (
        1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    ),
}  # fmt: skip
POSITIVE = ("SQRT", "LOG", "RECIPROCAL", "RSQRT", "DIV", "POW")
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "ADD": np.add, "MUL": np.multiply, "SUB": np.subtract, "DIV": np.divide, "MIN": np.minimum,
    "MAX": np.maximum, "POW": np.power, "ADD_SQUARE": lambda a, b: a + b * b,
    "ATAN2": np.arctan2,
}  # fmt: skip


def image(case: Case) -> tuple[int, ...]:
    return (case.integer(1, 4), 8 * case.integer(1, 4), *case.shape(2, 1, 9))


def positive(case: Case, tensor: Tensor, mode: str, dtype: str) -> Operand:
    """Random numbers where the mode is defined."""
    return case.operand(tensor.layout, dtype, low=0.5 if mode in POSITIVE else -1.0)


@problem("cudnnBackendExecute: pointwise")
def pointwise(case: Case) -> None:
    dtype = case.choose("float32", *HALVES)
    mode = case.choose(*UNARY, *BINARY)
    graph, shape = Graph(case.handle), image(case)
    a = graph.tensor(shape, dtype, format=NHWC, name="a")
    given = {"a": positive(case, a, mode, dtype)}
    if mode in UNARY:
        graph.pointwise(mode, a, name="y")
        expected = UNARY[mode](given["a"].values)
    else:
        small = tuple(case.choose(1, size) for size in shape)
        b = graph.tensor(small, dtype, format=NHWC, name="b")
        given["b"] = positive(case, b, mode, dtype)
        graph.pointwise(mode, a, b, name="y")
        expected = BINARY[mode](given["a"].values, given["b"].values)
    case.check(run(case, graph, **given)["y"], expected, dtype, 4)


CURVE = math.sqrt(2 / math.pi)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def slope_of_tanh_gelu(x: np.ndarray) -> np.ndarray:
    bent = np.tanh(CURVE * (x + 0.044715 * x**3))
    return (1 + bent) / 2 + x / 2 * (1 - bent**2) * CURVE * (1 + 3 * 0.044715 * x**2)


SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "RELU_BWD": lambda x: (x > 0).astype(float), "TANH_BWD": lambda x: 1 - np.tanh(x) ** 2,
    "SIGMOID_BWD": lambda x: sigmoid(x) * (1 - sigmoid(x)),
    "ELU_BWD": lambda x: np.where(x > 0, 1, np.exp(x)), "SOFTPLUS_BWD": sigmoid,
    "SWISH_BWD": lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))),
    "GELU_BWD": lambda x: (1 + ERF(x / math.sqrt(2))) / 2 + x * np.exp(-x * x / 2) * CURVE / 2,
    "GELU_APPROX_TANH_BWD": slope_of_tanh_gelu,
}  # fmt: skip
COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "CMP_EQ": np.equal, "CMP_NEQ": np.not_equal, "CMP_GT": np.greater, "CMP_GE": np.greater_equal,
    "CMP_LT": np.less, "CMP_LE": np.less_equal,
}  # fmt: skip


@problem("cudnnBackendExecute: pointwise gradient")
def pointwise_gradient(case: Case) -> None:
    dtype, mode = case.choose("float32", *HALVES), case.choose(*SLOPES)
    graph, shape = Graph(case.handle), image(case)
    dy, x = (graph.tensor(shape, dtype, format=NHWC, name=name) for name in ("dy", "x"))
    graph.pointwise(mode, dy, x, name="dx")
    ran = run(case, graph)
    has = values(ran)
    case.check(ran["dx"], has["dy"] * SLOPES[mode](has["x"]), dtype, 4)


@problem("cudnnBackendExecute: comparison and choice")
def comparison_and_choice(case: Case) -> None:
    """Which of two tensors an element is taken from depends on how two others compare."""
    dtype, mode = case.choose("float32", *HALVES), case.choose(*COMPARE)
    graph, shape = Graph(case.handle), image(case)
    a, b, first, second = (
        graph.tensor(shape, dtype, format=NHWC, name=name) for name in ("a", "b", "c", "d")
    )
    which = graph.pointwise(mode, a, b, dtype="bool")
    graph.pointwise("BINARY_SELECT", first, second, select=which, name="y")
    same = case.operand(a.layout, dtype)
    ran = run(case, graph, **({"a": same, "b": same} if case.choose(0, 0, 1) else {}))
    has = values(ran)
    expected = np.where(COMPARE[mode](has["a"], has["b"]), has["c"], has["d"])
    case.check(ran["y"], expected, dtype)


@problem("cudnnBackendExecute: matmul")
def matmul(case: Case) -> None:
    dtype = case.choose("float32", *HALVES)
    graph = Graph(case.handle)
    m, n, k = (8 * case.integer(1, 8) for _ in range(3))
    batch = case.integer(1, 4)
    batches = case.choose((batch, batch), (1, batch), (batch, 1))
    turned = case.choose(0, 1), case.choose(0, 1)
    for name, count, rows, columns, transposed in (
        ("a", batches[0], m, k, turned[0]), ("b", batches[1], k, n, turned[1]),
    ):  # fmt: skip
        strides = (rows * columns, 1, rows) if transposed else (rows * columns, columns, 1)
        graph.tensor((count, rows, columns), dtype, strides=strides, name=name)
    graph.matmul(*graph.tensors, name="c")
    ran = run(case, graph, tf32=dtype == "float32" and case.choose(False, True))
    case.check(ran["c"], ran["a"].values @ ran["b"].values, dtype, ran.slack)


REDUCE: dict[str, Callable[..., np.ndarray]] = {
    "ADD": np.sum, "MUL": np.prod, "MIN": np.min, "MAX": np.max, "AVG": np.mean,
    "AMAX": lambda x, **axes: np.max(np.abs(x), **axes),
    "NORM1": lambda x, **axes: np.sum(np.abs(x), **axes),
    "NORM2": lambda x, **axes: np.sqrt(np.sum(x * x, **axes)),
}  # fmt: skip


@problem("cudnnBackendExecute: reduction")
def reduction(case: Case) -> None:
    dtype, op = case.choose("float32", *HALVES), case.choose(*REDUCE)
    graph = Graph(case.handle)
    shape = (case.integer(1, 4), 8 * case.integer(1, 4), *case.shape(2, 1, 9))
    axes = case.choose((0, 2, 3), (1,), (0, 1, 2, 3), (2, 3))
    x = graph.tensor(shape, dtype, format=NHWC, name="x")
    graph.reduction(op, x, axes, dtype="float32", name="y")
    source = case.operand(x.layout, dtype, low=0.9, high=1.1)
    expected = REDUCE[op](source.values, axis=axes, keepdims=True)
    count = math.prod(shape[axis] for axis in axes)
    case.check(run(case, graph, x=source)["y"], expected, "float32", 4 + 0.01 * count)


# ---- pooling and normalization -------------------------------------------------------------------

POOLINGS = {
    "MAXPOOL": "MAX",
    "AVGPOOL_INCLUDE_PADDING": "AVERAGE_COUNT_INCLUDE_PADDING",
    "AVGPOOL_EXCLUDE_PADDING": "AVERAGE_COUNT_EXCLUDE_PADDING",
}


@problem("cudnnBackendExecute: resample")
def resample(case: Case) -> None:
    """Forward, then backward with its index."""
    dtype, mode = case.choose("float32", *HALVES), case.choose(*POOLINGS)
    window = case.shape(2, 1, 3)
    padding = tuple(min(size // 2, 1) for size in window)
    stride = case.shape(2, 1, 3)
    shape = (case.integer(1, 3), 8 * case.integer(1, 3), *(4 + n for n in case.shape(2, 1, 6)))
    settings = {"padding": padding, "stride": stride}
    graph = Graph(case.handle)
    x = graph.tensor(shape, dtype, format=NHWC, name="x")
    y, _ = graph.resample_forward(mode, x, window, index=mode == "MAXPOOL", name="y", **settings)
    # Distinct numbers: the largest of a window is unique.
    numbers = case.rng.permutation(math.prod(shape)).reshape(shape)
    if dtype in HALVES:
        numbers %= 2048 if dtype == "float16" else 256
    source = case.operand(x.layout, dtype, values=numbers)
    ran = run(case, graph, x=source)
    name = POOLINGS[mode]
    expected, _ = exact.pooling(source.values, y.shape, name, window, padding, stride)
    case.check(ran["y"], expected, dtype, 2)
    if mode == "MAXPOOL" and dtype in HALVES:
        return  # equal numbers: which of them gets the gradient is not said
    graph = Graph(case.handle)
    dy = graph.tensor(y.shape, dtype, format=NHWC, name="dy")
    extra = {}
    if mode == "MAXPOOL":
        extra["index"] = graph.tensor(y.shape, "int8", format=NHWC, name="y_index")
    graph.resample_backward(mode, dy, shape, window, name="dx", **extra, **settings)
    second = run(case, graph, **{key: ran[key] for key in ("y_index",) if extra})
    gradient = exact.pooling_gradient(
        source.values, second["dy"].values, name, window, padding, stride
    )
    case.check(second["dx"], gradient, dtype, 4)


NORMS = {"LAYER": (1, 2, 3), "INSTANCE": (2, 3), "BATCH": (0, 2, 3), "RMS": (1, 2, 3)}


class Norm:
    """A random normalization, forward in training, and its exact gradients."""

    def __init__(self, case: Case) -> None:
        self.mode = case.choose(*NORMS)
        self.dtype = case.choose("float32", *HALVES)
        self.epsilon = case.choose(1e-5, 1e-3)
        self.shape = (case.integer(2, 5), 8 * case.integer(1, 4), *case.shape(2, 2, 8))
        self.axes = {"axis": NORMS[self.mode], "keepdims": True}
        whole = self.mode in ("LAYER", "RMS")
        self.parameter = (1, *self.shape[1:]) if whole else (1, self.shape[1], 1, 1)
        self.rms = self.mode == "RMS"

    def tensor(self, graph: Graph, shape: tuple[int, ...], name: str, dtype: str = "") -> Tensor:
        return graph.tensor(shape, dtype or self.dtype, format=NHWC, name=name)

    def statistics(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.zeros((1, 1, 1, 1)) if self.rms else x.mean(**self.axes)
        return mean, 1 / np.sqrt(((x - mean) ** 2).mean(**self.axes) + self.epsilon)


@problem("cudnnBackendExecute: norm forward")
def norm_forward(case: Case) -> None:
    norm, graph = Norm(case), Graph(case.handle)
    x = norm.tensor(graph, norm.shape, "x")
    scale = norm.tensor(graph, norm.parameter, "scale", "float32")
    bias = None if norm.rms else norm.tensor(graph, norm.parameter, "bias", "float32")
    graph.norm_forward(norm.mode, x, scale, bias, epsilon=norm.epsilon, name="y")
    ran = run(case, graph)
    mean, inverse = norm.statistics(ran["x"].values)
    shift = 0 if norm.rms else ran["bias"].values
    expected = ran["scale"].values * (ran["x"].values - mean) * inverse + shift
    case.check(ran["y"], expected, norm.dtype, 4)
    case.check(ran["y_inv_variance"], inverse, "float32", 8)
    if not norm.rms:
        case.check(ran["y_mean"], mean, "float32", 4)


@problem("cudnnBackendExecute: norm backward")
def norm_backward(case: Case) -> None:
    norm, graph = Norm(case), Graph(case.handle)
    dy, x = norm.tensor(graph, norm.shape, "dy"), norm.tensor(graph, norm.shape, "x")
    scale = norm.tensor(graph, norm.parameter, "scale", "float32")
    source = operand(case, x)
    mean, inverse = norm.statistics(source.values)
    statistics = norm.tensor(graph, inverse.shape, "inv", "float32")
    given = {
        "x": source, "inv": case.operand(statistics.layout, "float32", values=inverse),
    }  # fmt: skip
    middle = None
    if not norm.rms:
        middle = norm.tensor(graph, inverse.shape, "mean", "float32")
        given["mean"] = case.operand(middle.layout, "float32", values=mean)
    graph.norm_backward(norm.mode, dy, x, scale, middle, statistics, name="dx")
    ran = run(case, graph, **given)
    normal = (source.values - mean) * inverse
    weighted = ran["dy"].values * ran["scale"].values
    centred = weighted - normal * (weighted * normal).mean(**norm.axes)
    if not norm.rms:
        centred = centred - weighted.mean(**norm.axes)
    case.check(ran["dx"], inverse * centred, norm.dtype, 8)
    over = tuple(axis for axis in range(4) if norm.parameter[axis] == 1)
    sums = (ran["dy"].values * normal).sum(axis=over, keepdims=True)
    case.check(ran["dx_dscale"], sums, "float32", 8)
    if not norm.rms:
        sums = ran["dy"].values.sum(axis=over, keepdims=True)
        case.check(ran["dx_dbias"], sums, "float32", 8)


# ---- fused chains --------------------------------------------------------------------------------


@problem("cudnnBackendExecute")
def fused(case: Case) -> None:
    """A convolution or product, then up to four pointwise operations."""
    graph = Graph(case.handle)
    steps: list[Callable[[np.ndarray, Values], np.ndarray]] = []
    if case.choose("convolution", "matmul") == "convolution":
        conv = Convolution(case)
        dtype = conv.dtype
        x, w = conv.tensor(graph, conv.x, "x"), conv.tensor(graph, conv.w, "w")
        y = graph.convolution_forward(x, w, **conv.settings)
        shape = y.shape

        def first(v: Values) -> np.ndarray:
            return conv.exact(exact.convolution, v["x"], v["w"], shape)
    else:
        dtype = case.choose(*HALVES)
        m, n, k = (8 * case.integer(1, 6) for _ in range(3))
        a = graph.tensor((2, m, k), dtype, name="a")
        b = graph.tensor((2, k, n), dtype, name="b")
        y = graph.matmul(a, b)

        def first(v: Values) -> np.ndarray:
            return v["a"] @ v["b"]

    channel = 1 if y.shape[1:] and len(y.shape) > 3 else len(y.shape) - 1
    for index in range(case.integer(1, 4)):
        kind = case.choose("bias", "scale", "residual", "activation")
        name = f"{kind}{index}"
        if kind == "scale":
            factor = case.choose(0.5, -2.0)
            y = graph.multiply(y, factor)
            steps.append(lambda s, v, factor=factor: s * factor)
        elif kind == "activation":
            mode = case.choose("RELU_FWD", "TANH_FWD", "SIGMOID_FWD", "GELU_FWD")
            y = graph.pointwise(mode, y)
            steps.append(lambda s, v, mode=mode: UNARY[mode](s))
        else:
            full = y.shape
            part = tuple(size if axis == channel else 1 for axis, size in enumerate(full))
            shape_added = full if kind == "residual" else part
            added = graph.tensor(shape_added, dtype, strides=layout_of(y, shape_added), name=name)
            y = graph.add(y, added)
            steps.append(lambda s, v, name=name: s + v[name])
    ran = run(case, graph)
    expected = first(values(ran))
    for step in steps:
        expected = step(expected, values(ran))
    case.check(ran[y.name], expected, dtype, ran.slack)


def layout_of(like: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Packed strides in the order of another tensor's axes."""
    order = sorted(range(len(shape)), key=lambda axis: (-like.strides[axis], axis))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)
