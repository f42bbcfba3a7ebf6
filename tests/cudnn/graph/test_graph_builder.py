"""Graphs before they run: shapes, layouts and types of results, and what is refused."""

from __future__ import annotations

import pytest

from pycudnn import CudaContext, cudnn, errors
from pycudnn.cudnn.graph import BackendDescriptorType, Graph, Tensor
from pycudnn.cudnn.graph.operation import Settings

NHWC = cudnn.TensorFormat.NHWC
F32, F16 = cudnn.DataType.FLOAT, cudnn.DataType.HALF


@pytest.fixture
def graph():
    """An empty graph on the reference side: building up asks the library for nothing."""
    with CudaContext("reference") as context:
        yield Graph(context.cudnn)


# ---- tensors -------------------------------------------------------------------------------------


def test_tensors_are_packed_in_the_order_that_is_asked_for(graph):
    assert graph.tensor((2, 3, 4, 5)).strides == (60, 20, 5, 1)
    assert graph.tensor((2, 3, 4, 5), format=NHWC).strides == (60, 1, 15, 3)
    assert graph.tensor((2, 3, 4, 5, 6), format=NHWC).strides == (360, 1, 90, 18, 3)
    given = graph.tensor((2, 3), "float16", strides=(9, 2), name="given")
    assert (given.name, given.strides, given.dtype) == ("given", (9, 2), F16)
    assert "given: input, (2, 3)" in repr(given)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"shape": (2, 0)}, ValueError, r"shape\[1\] must be in"),
        ({"shape": ()}, ValueError, "1 to 8 dimensions"),
        ({"shape": (1,) * 9}, ValueError, "1 to 8 dimensions"),
        ({"shape": 5}, ValueError, "1 to 8 dimensions"),
        ({"shape": (2.5,)}, TypeError, r"shape\[0\] must be an int"),
        ({"shape": (2**31 - 1,) * 4, "dtype": "float64"}, ValueError, "more than memory can have"),
        ({"shape": (2, 3), "strides": (3,)}, ValueError, "strides must be"),
        ({"shape": (2, 3), "strides": (3, -1)}, ValueError, r"strides\[1\].*got -1"),
        ({"shape": (2, 3), "strides": (3, 0)}, ValueError, r"strides\[1\].*got 0"),
        ({"shape": (2, 3), "dtype": "complex64"}, TypeError, "dtype must be"),
        ({"shape": (2, 3), "format": 7}, ValueError, "format must be a TensorFormat"),
        ({"shape": (2, 3), "alignment": 0}, ValueError, "alignment must be in"),
        ({"shape": (2, 3), "alignment": 6}, ValueError, "multiple of an element's size, got 6"),
        ({"shape": (2, 3), "name": 5}, TypeError, "name must be a str"),
    ],
)
def test_bad_tensors_are_refused(graph, arguments, error, text):
    with pytest.raises(error, match=text):
        graph.tensor(**arguments)


def test_names_are_unique(graph):
    graph.tensor((2, 3), name="x")
    with pytest.raises(ValueError, match="name must be new in the graph, got 'x' again"):
        graph.tensor((2, 3), name="x")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "x", None])
def test_scalars_are_finite_numbers(graph, value):
    with pytest.raises((TypeError, ValueError), match="value must be"):
        graph.scalar(value)


def test_results_between_operations_are_virtual(graph):
    x = graph.tensor((2, 3, 4, 5), "float16")
    y = graph.relu(x)
    assert y.is_output
    assert not y.is_virtual
    assert y.dtype is F16  # that of the operand it comes from
    z = graph.pointwise("EXP", y)
    assert y.is_virtual
    assert y.dtype is F32  # the graph's intermediate type
    assert z.dtype is F16
    assert graph.output(y) is y
    assert y.is_output
    assert y.dtype is F16
    assert graph.operands == (x, y, z)
    graph.output(y, "float32", strides=(60, 1, 15, 3))
    assert (y.dtype, y.strides) == (F32, (60, 1, 15, 3))
    with pytest.raises(ValueError, match="must be the result of an operation"):
        graph.output(x)


def test_results_are_laid_out_like_what_they_come_from(graph):
    x = graph.tensor((2, 3, 4, 5), format=NHWC)
    w = graph.tensor((8, 3, 3, 3), format=NHWC)
    assert graph.convolution_forward(x, w).strides == (48, 1, 24, 8)
    one_channel = graph.tensor((2, 1, 4, 5), format=NHWC)
    filters = graph.tensor((8, 1, 3, 3), format=NHWC)
    assert graph.convolution_forward(one_channel, filters).strides == (48, 1, 24, 8)
    plain = graph.tensor((2, 1, 4, 5))
    assert graph.convolution_forward(plain, graph.tensor((8, 1, 3, 3))).strides == (48, 6, 3, 1)
    bias = graph.tensor((1, 3, 1, 1))
    assert graph.add(bias, x).strides == x.strides
    turned = graph.tensor((2, 3, 4, 5), strides=(1, 2, 30, 6))
    assert graph.relu(turned).strides == (1, 2, 30, 6)


# ---- operations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "w", "settings", "expected"),
    [
        ((2, 3, 9, 8), (4, 3, 3, 3), {}, (2, 4, 7, 6)),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": 1, "stride": 2}, (2, 4, 5, 4)),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": (1, 0), "post_padding": 0}, (2, 4, 8, 6)),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"dilation": (2, 3)}, (2, 4, 5, 2)),
        ((2, 6, 9), (4, 3, 3), {}, (2, 4, 7)),
        ((1, 2, 5, 5, 5), (3, 2, 2, 3, 1), {}, (1, 3, 4, 3, 5)),
    ],
)
def test_shapes_of_convolutions(graph, x, w, settings, expected):
    y = graph.convolution_forward(graph.tensor(x), graph.tensor(w), **settings)
    assert y.shape == expected
    dw = graph.convolution_filter_gradient(graph.tensor(x), graph.tensor(expected), w, **settings)
    assert dw.shape == w
    dx = graph.convolution_data_gradient(graph.tensor(expected), graph.tensor(w), x, **settings)
    assert dx.shape == x


def test_the_smallest_input_of_a_convolution(graph):
    dy, w = graph.tensor((2, 4, 5, 4)), graph.tensor((4, 3, 3, 3))
    assert graph.convolution_data_gradient(dy, w, padding=1, stride=2).shape == (2, 3, 9, 7)
    with pytest.raises(ValueError, match=r"dy must have the shape \(2, 4, 4, 4\)"):
        graph.convolution_data_gradient(dy, w, (2, 3, 8, 8), padding=1, stride=2)


@pytest.mark.parametrize(
    ("x", "w", "settings", "error", "text"),
    [
        ((2, 3, 9, 8), (4, 3, 3), {}, ValueError, "same rank"),
        ((2, 3, 9, 8), (4, 2, 3, 3), {}, ValueError, "3 channels of x must be a multiple of the 2"),
        ((2, 4, 9, 8), (3, 2, 3, 3), {}, ValueError, "its 3 filters"),
        ((2, 3, 9, 8), (4, 3, 3, 9), {}, ValueError, "spans 9 elements in spatial axis 1.*has 8"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": -1}, ValueError, "padding"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": 2**40}, ValueError, "padding"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": (1, 1, 1)}, ValueError, "padding must be"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"stride": 0}, ValueError, "stride"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"dilation": 0}, ValueError, "dilation"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"mode": 9}, ValueError, "mode must be a ConvolutionMode"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"dtype": "f99"}, TypeError, "dtype"),
        ((2, 3, 9, 8), (4, 3, 3, 3), {"strides": (1,)}, ValueError, "strides"),
        ((2, 3), (4, 3), {}, ValueError, "x must have 3 to 5 dimensions"),
    ],
)
def test_convolutions_that_do_not_fit(graph, x, w, settings, error, text):
    with pytest.raises(error, match=text):
        graph.convolution_forward(graph.tensor(x), graph.tensor(w), **settings)


def test_products(graph):
    a, b = graph.tensor((5, 2, 3, 4)), graph.tensor((1, 2, 4, 6))
    assert graph.matmul(a, b).shape == (5, 2, 3, 6)
    with pytest.raises(ValueError, match="the columns of a must be the rows of b"):
        graph.matmul(b, b)
    with pytest.raises(ValueError, match="do not broadcast"):
        graph.matmul(a, graph.tensor((3, 2, 4, 6)))
    with pytest.raises(ValueError, match="at least 3"):
        graph.matmul(graph.tensor((3, 4)), graph.tensor((4, 6)))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("ADD", "x"), ValueError, "mode ADD takes two operands"),
        (("EXP", "x", "b"), ValueError, "mode EXP takes one operand"),
        (("NO_MODE", "x"), ValueError, "mode must be a PointwiseMode"),
        (("ADD", "x", "odd"), ValueError, "do not broadcast"),
        (("ADD", "x", "flat"), ValueError, "same rank"),
        (("ADD", 1.0, 2.0), TypeError, "a must be a Tensor"),
        (("ADD", "x", "text"), TypeError, "b must be a Tensor"),
        (("ADD", "x", float("nan")), ValueError, "value must be a finite number"),
        (("BINARY_SELECT", "x", "b"), ValueError, "select belongs to BINARY_SELECT"),
    ],
)
def test_pointwise_operands(graph, arguments, error, text):
    tensors = {
        "x": graph.tensor((2, 3, 4, 5)),
        "b": graph.tensor((1, 3, 1, 1)),
        "odd": graph.tensor((1, 2, 1, 1)),
        "flat": graph.tensor((3,)),
    }
    with pytest.raises(error, match=text):
        graph.pointwise(*(tensors.get(each, each) for each in arguments))


def test_pointwise_parameters(graph):
    x = graph.tensor((2, 3, 4, 5))
    graph.pointwise("RELU_FWD", x, relu_upper_clip=6.0)
    with pytest.raises(ValueError, match="mode EXP has no parameter 'relu_upper_clip'"):
        graph.pointwise("EXP", x, relu_upper_clip=6.0)
    with pytest.raises(ValueError, match="mode EXP has no parameter 'colour'"):
        graph.pointwise("EXP", x, colour=6.0)
    with pytest.raises(ValueError, match="axis must be in"):
        graph.pointwise("GEN_INDEX", x, axis=4)


def test_numbers_become_scalars_of_the_compute_type(graph):
    x = graph.tensor((2, 3, 4), "float16")
    graph.multiply(x, 0.5)
    (scalar,) = [tensor for tensor in graph.tensors if tensor.value is not None]
    assert (scalar.value, scalar.shape, scalar.dtype) == (0.5, (1, 1, 1), F32)
    assert scalar not in graph.operands


@pytest.mark.parametrize(
    ("axes", "expected"), [(1, (2, 1, 4, 5)), ((0, -1), (1, 3, 4, 1)), (range(4), (1, 1, 1, 1))]
)
def test_reductions(graph, axes, expected):
    assert graph.reduction("ADD", graph.tensor((2, 3, 4, 5)), axes).shape == expected


@pytest.mark.parametrize("axes", [(), (0, 0), (1, -3), 4, (0, 9), 1.5, "a"])
def test_reductions_of_axes_that_are_not_there(graph, axes):
    with pytest.raises((TypeError, ValueError), match="axes must be"):
        graph.reduction("ADD", graph.tensor((2, 3, 4, 5)), axes)


def test_d7_b4_windows_of_poolings(graph):
    x = graph.tensor((1, 1, 2, 2))
    y, index = graph.resample_forward("AVGPOOL_INCLUDE_PADDING", x, 2, padding=1, stride=2)
    assert y.shape == (1, 1, 2, 2)
    assert index is None
    with pytest.raises(ValueError, match="window 7 > padded input 2"):
        graph.resample_forward("MAXPOOL", x, 7)
    with pytest.raises(ValueError, match="padding must be smaller than the window"):
        graph.resample_forward("MAXPOOL", x, 2, padding=2)
    with pytest.raises(ValueError, match="index belongs to MAXPOOL"):
        graph.resample_forward("AVGPOOL_INCLUDE_PADDING", x, 2, index=True)
    with pytest.raises(ValueError, match="mode must be a pooling, got BILINEAR"):
        graph.resample_forward("BILINEAR", x, 2)
    with pytest.raises(ValueError, match="index must be given for MAXPOOL"):
        graph.resample_backward("MAXPOOL", graph.tensor((1, 1, 1, 1)), (1, 1, 2, 2), 2)
    with pytest.raises(ValueError, match=r"dy must have the shape \(1, 1, 1, 1\)"):
        graph.resample_backward("AVGPOOL_INCLUDE_PADDING", x, (1, 1, 2, 2), 2)


@pytest.mark.parametrize(
    ("mode", "parameter", "statistic"),
    [
        ("LAYER", (1, 3, 4, 5), (2, 1, 1, 1)),
        ("INSTANCE", (1, 3, 1, 1), (2, 3, 1, 1)),
        ("BATCH_NORM", (1, 3, 1, 1), (1, 3, 1, 1)),
        ("RMS", (1, 3, 4, 5), (2, 1, 1, 1)),
    ],
)
def test_norms_have_their_shapes(graph, mode, parameter, statistic):
    x, scale, bias = (graph.tensor(shape) for shape in ((2, 3, 4, 5), parameter, parameter))
    result = graph.norm_forward(mode, x, scale, bias)
    assert result.y.shape == x.shape
    assert result.inv_variance.shape == statistic
    assert (result.mean is None) == (mode == "RMS")
    assert result.running_mean is None
    mean = None if mode == "RMS" else graph.tensor(statistic)
    gradients = graph.norm_backward(mode, x, x, scale, mean, graph.tensor(statistic))
    assert gradients.dscale.shape == parameter
    assert (gradients.dbias is None) == (mode == "RMS")
    with pytest.raises(ValueError, match="scale must have the shape"):
        graph.norm_forward(mode, x, x if mode not in ("LAYER", "RMS") else bias_of(graph), bias)


def bias_of(graph: Graph) -> Tensor:
    return graph.tensor((1, 3, 1, 1))


@pytest.mark.parametrize(
    ("mode", "settings", "text"),
    [
        ("BATCH", {"epsilon": 0.0}, "epsilon must be positive"),
        ("BATCH", {"epsilon": -1}, "epsilon must be at least 0"),
        ("BATCH", {"epsilon": float("nan")}, "epsilon must be a finite number"),
        ("GROUP", {}, "mode must be one of"),
        ("NO", {}, "mode must be a BackendNormMode"),
        ("BATCH", {"phase": "NO"}, "phase must be a BackendNormFwdPhase"),
        ("BATCH", {"average_factor": 0.1}, "go together"),
        ("INSTANCE", {"average_factor": 0.1}, "go together"),
        ("BATCH", {"phase": "INFERENCE"}, "mean must be given for BATCH_NORM in INFERENCE"),
        ("BATCH", {"bias": None}, "bias must be given"),
    ],
)
def test_b3_norms_that_do_not_fit(graph, mode, settings, text):
    x, scale = graph.tensor((2, 3, 4, 5)), graph.tensor((1, 3, 1, 1))
    with pytest.raises(ValueError, match=text):
        graph.norm_forward(mode, x, scale, settings.pop("bias", scale), **settings)


def test_tensors_of_another_graph_are_refused(graph):
    other = Graph(graph.handle).tensor((2, 3, 4, 5))
    with pytest.raises(ValueError, match="x must be a Tensor of this graph"):
        graph.convolution_forward(other, other)
    with pytest.raises(TypeError, match="x must be a Tensor of this graph, got 5"):
        graph.reduction("ADD", 5, 0)


# ---- the graph as a whole ------------------------------------------------------------------------


def test_an_empty_graph_has_no_engines(graph):
    with pytest.raises(ValueError, match="this graph has no operations"):
        graph.engines()
    assert repr(graph) == "Graph(empty)"


def test_a_graph_needs_a_handle():
    for wrong in (None, 5, "handle"):
        with pytest.raises(TypeError, match="handle must be a Handle"):
            Graph(wrong)


def test_nothing_is_added_to_a_graph_that_is_built(graph):
    x = graph.tensor((2, 3, 4, 5))
    y = graph.relu(x)
    assert graph.build() is graph.build()
    for add in (
        lambda: graph.relu(x),
        lambda: graph.tensor((2, 3)),
        lambda: graph.scalar(1.0),
        lambda: graph.output(y),
    ):
        with pytest.raises(ValueError, match="this graph is built already"):
            add()


def test_a_refused_descriptor_shows_what_was_set(context):
    """cuDNN's own text tells the condition, not the values."""
    attributes = {
        "TENSOR_UNIQUE_ID": 1,
        "TENSOR_DATA_TYPE": "float32",
        "TENSOR_BYTE_ALIGNMENT": 3,
        "TENSOR_DIMENSIONS": (2, 3),
        "TENSOR_STRIDES": (3, 1),
    }
    kind = BackendDescriptorType.TENSOR_DESCRIPTOR
    with pytest.raises(errors.CudnnBadParam, match="TENSOR_BYTE_ALIGNMENT: 3"):
        Settings(kind, attributes).make(context.cudnn.library, {}, "FLOAT")


def test_poolings_that_cudnn_gets_wrong(graph):
    """Seen on cuDNN 9.19: parts of the output stay as they were."""
    x, w = graph.tensor((2, 8, 6, 6)), graph.tensor((8, 8, 1, 1))
    made = graph.relu(graph.convolution_forward(x, w))
    with pytest.raises(errors.NotSupported, match="give the pooling a graph of its own"):
        graph.resample_forward("MAXPOOL", made, 2)
    with pytest.raises(errors.NotSupported, match="averages of bfloat16"):
        graph.resample_forward("AVGPOOL_EXCLUDE_PADDING", graph.tensor((2, 8, 6, 6), "bfloat16"), 2)
    y, _ = graph.resample_forward("AVGPOOL_EXCLUDE_PADDING", graph.relu(x), 2)
    assert y.shape == (2, 8, 3, 3)
