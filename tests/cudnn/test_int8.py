"""Convolutions of int8, and channels in vectors, against float64 NumPy."""

from __future__ import annotations

import exact
import numpy as np
import pytest
from side import Side

from pycudnn import cudnn, errors

NCHW, NHWC, VECT = cudnn.TensorFormat
Type = cudnn.DataType
WIDTHS = {"INT8x4": 4, "UINT8x4": 4, "INT8x32": 32}
# Types and format of x and w; the types that y can have.
KINDS = {
    "int8": ("INT8", "INT8", NHWC, ("INT8", "FLOAT")),
    "uint8": ("UINT8", "INT8", NHWC, ("INT8", "FLOAT")),
    "int8x4": ("INT8x4", "INT8x4", VECT, ("INT8x4", "FLOAT")),
    "uint8x4": ("UINT8x4", "INT8x4", VECT, ("INT8x4", "FLOAT")),
    "int8x32": ("INT8x32", "INT8x32", VECT, ("INT8x32",)),
}
CASES = [(kind, y_type) for kind, (*_, y_types) in KINDS.items() for y_type in y_types]


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def in_memory(values, kind):
    """(N, C, ...) in the order of a type and format: channels last, or in vectors."""
    name, format = kind
    if format == NHWC:
        return np.moveaxis(values, 1, -1)
    if format == NCHW:
        return values
    n, c, *space = values.shape
    return np.moveaxis(values.reshape(n, c // WIDTHS[name], WIDTHS[name], *space), 2, -1)


def from_memory(row, shape, kind):
    """The inverse of ``in_memory``, from a row."""
    places = in_memory(np.arange(np.prod(shape)).reshape(shape), kind)
    values = np.empty(np.prod(shape))
    values[places.ravel()] = row.ravel()[: values.size]
    return values.reshape(shape)


def array_type(name):
    return {"F": np.float32, "U": np.uint8, "I": np.int8, "H": np.float16}[name[0]]


class Tensor:
    """A descriptor and its memory."""

    def __init__(self, side, values, kind, *, weights=False):
        name, format = kind
        make = cudnn.FilterDescriptor if weights else cudnn.TensorDescriptor
        self.side, self.kind, self.shape = side, kind, values.shape
        self.desc = make(values.shape, Type[name], format=format, library=side.library)
        self.data = side.put(in_memory(values, kind).astype(array_type(name)))

    def read(self):
        return from_memory(self.side.get(self.data).astype(float), self.shape, self.kind)


def saturated(values, name):
    """What int8 holds of float32 numbers; float32 as they are."""
    return values if name == "FLOAT" else np.clip(np.rint(values), -128, 127)


class Problem:
    """Operands of a convolution, and what it sums up."""

    def __init__(self, side, rng, kind, y_type, *, x_shape=(2, 32, 6, 7), w_shape=(64, 32, 3, 2),
                 **settings):  # fmt: skip
        x_type, w_type, self.format, _ = KINDS[kind]
        x = rng.integers(0 if x_type[0] == "U" else -9, 10, x_shape).astype(float)
        w = rng.integers(-5, 6, w_shape).astype(float)
        self.x = Tensor(side, x, (x_type, self.format))
        self.w = Tensor(side, w, (w_type, self.format), weights=True)
        self.conv = cudnn.ConvolutionDescriptor(
            **settings, compute_type="int32", library=side.library
        )
        shape = cudnn.get_convolution_forward_output_dim(self.conv, self.x.desc, self.w.desc)
        format = VECT if y_type in WIDTHS else NCHW if self.format == VECT else NHWC
        self.before = rng.integers(-20, 20, shape).astype(float)
        self.y = Tensor(side, self.before, (y_type, format))
        geometry = {name: getattr(self.conv, name) for name in ("padding", "stride", "dilation")}
        is_flipped = self.conv.mode == cudnn.ConvolutionMode.CONVOLUTION
        groups = self.conv.groups
        self.sums = exact.convolution(x, w, shape, groups, **geometry, flip=is_flipped)
        self.side = side

    def run(self, algo=1, conv=None, w=None, **scaling):
        conv, w = conv or self.conv, w or self.w.data
        handle, descs = self.side.handle, (self.x.desc, self.w.desc, conv, self.y.desc)
        needed = cudnn.get_convolution_forward_workspace_size(handle, *descs, algo)
        cudnn.convolution_forward(
            handle, self.x.desc, self.x.data, self.w.desc, w, conv, algo,
            self.side.scratch(needed), self.y.desc, self.y.data, **scaling,
        )  # fmt: skip
        return self.y.read()


@pytest.mark.parametrize("algo", [0, 1])
@pytest.mark.parametrize(("kind", "y_type"), CASES)
def test_forward(side, rng, kind, y_type, algo):
    problem = Problem(side, rng, kind, y_type, padding=(1, 0), stride=(1, 2))
    got = problem.run(algo, alpha=0.25)
    np.testing.assert_array_equal(got, saturated(problem.sums / 4, y_type))
    assert y_type == "FLOAT" or (np.abs(problem.sums / 4) > 128).any()


@pytest.mark.parametrize(
    ("kind", "y_type", "settings"),
    [
        ("int8", "FLOAT", {"w_shape": (6, 32, 3, 2)}),
        ("int8", "INT8", {"groups": 2, "w_shape": (64, 16, 3, 2)}),
        ("int8x4", "INT8x4", {"groups": 4, "w_shape": (64, 8, 3, 2)}),
        ("int8x32", "INT8x32", {"dilation": 2}),
        ("int8x32", "INT8x32", {"mode": cudnn.ConvolutionMode.CONVOLUTION}),
    ],
)
def test_geometries(side, rng, kind, y_type, settings):
    problem = Problem(side, rng, kind, y_type, **settings)
    np.testing.assert_array_equal(
        problem.run(alpha=0.25), saturated(problem.sums / 4, y_type)
    )


@pytest.mark.parametrize(("kind", "y_type"), CASES)
def test_blending(side, rng, kind, y_type):
    problem = Problem(side, rng, kind, y_type)
    got = problem.run(alpha=0.125, beta=-2.0)
    np.testing.assert_array_equal(got, saturated(problem.sums / 8 - 2 * problem.before, y_type))


def test_sums_are_exact(side):
    """Beyond what float32 holds."""
    rng = np.random.default_rng(1)
    problem = Problem(side, rng, "int8", "FLOAT", x_shape=(1, 512, 5, 5), w_shape=(4, 512, 5, 5))
    top = np.full((1, 512, 5, 5), 127.0)
    problem.x = Tensor(side, top, problem.x.kind)
    weights = np.full((4, 512, 5, 5), 127.0)
    weights[0, 0, 0, 0] = 126
    problem.w = Tensor(side, weights, problem.w.kind, weights=True)
    sums = 12800 * 127.0**2 - np.array([127, 0, 0, 0])
    np.testing.assert_array_equal(problem.run().ravel(), sums.astype(np.float32))


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(("kind", "y_type"), CASES)
def test_with_bias_and_activation(side, rng, kind, y_type, relu):
    problem = Problem(side, rng, kind, y_type)
    bias = rng.integers(-20, 20, (1, 64, 1, 1)).astype(float)
    shift = Tensor(side, bias, ("FLOAT", NCHW))
    mode = cudnn.ActivationMode.RELU if relu else cudnn.ActivationMode.IDENTITY
    activation = cudnn.ActivationDescriptor(mode, library=side.library)
    descs = problem.x.desc, problem.w.desc, problem.conv, problem.y.desc
    needed = cudnn.get_convolution_forward_workspace_size(side.handle, *descs, 1)
    y = problem.y
    cudnn.convolution_bias_activation_forward(
        side.handle, problem.x.desc, problem.x.data, problem.w.desc, problem.w.data, problem.conv,
        1, side.scratch(needed), y.desc, y.data, shift.desc, shift.data, activation, y.desc, y.data,
        alpha1=0.125, alpha2=2.0,
    )  # fmt: skip
    want = problem.sums / 8 + 2 * problem.before + bias
    if relu:
        want = np.maximum(want, 0)
    np.testing.assert_array_equal(y.read(), saturated(want, y_type))


def test_reordered_weights(side, rng):
    """Reordered once and used with NO_REORDER, they give what they gave before."""
    shapes = {"x_shape": (2, 64, 5, 6), "w_shape": (32, 64, 3, 2)}
    problem = Problem(side, rng, "int8x32", "INT8x32", **shapes)
    result = side.put(np.zeros(problem.w.desc.extent, np.int8))
    cudnn.reorder_filter_and_bias(
        side.handle, problem.w.desc, cudnn.ReorderType.DEFAULT_REORDER, problem.w.data, result
    )
    conv = problem.conv.replace(reorder_type=cudnn.ReorderType.NO_REORDER)
    got = problem.run(conv=conv, w=result, alpha=0.25)
    np.testing.assert_array_equal(got, saturated(problem.sums / 4, "INT8x32"))


def test_algorithms(side, rng):
    problem = Problem(side, rng, "int8", "INT8")
    descs = problem.x.desc, problem.w.desc, problem.conv, problem.y.desc
    best = cudnn.select_algorithm(
        cudnn.get_convolution_forward_algorithm_v7(side.handle, *descs), workspace_limit=2**26
    )
    got = problem.run(best.algorithm, alpha=0.25)
    np.testing.assert_array_equal(got, saturated(problem.sums / 4, "INT8"))


def test_what_is_not_convolved(side, rng):
    for kind, y_type, change in (
        ("int8", "INT8x4", {}),
        ("int8x32", "FLOAT", {}),
        ("int8", "INT8", {"x_shape": (2, 6, 5, 5), "w_shape": (4, 6, 2, 2)}),
        ("int8", "INT8", {"w_shape": (6, 32, 2, 2)}),
        ("int8", "INT8", {"dilation": 2}),
        ("int8x4", "INT8x4", {"dilation": 2}),
        ("int8", "INT8", {"x_shape": (2, 4, 5, 5, 5), "w_shape": (4, 4, 2, 2, 2), "ndim": 3}),
    ):
        with pytest.raises(errors.CudnnNotSupported):
            Problem(side, rng, kind, y_type, **change).run()
    problem = Problem(side, rng, "int8", "INT8")
    with pytest.raises(errors.CudnnNotSupported):
        problem.run(conv=problem.conv.replace(compute_type="float32"))
    wide = side.blank(problem.y.shape, "int32", "channels last")
    with pytest.raises(errors.NotSupported, match="cuDNN writes no int32"):
        cudnn.convolution_forward(
            side.handle, problem.x.desc, problem.x.data, problem.w.desc, problem.w.data,
            problem.conv, 1, None, wide.desc, wide.data,
        )  # fmt: skip


# ---- pooling of vectors --------------------------------------------------------------------------


@pytest.mark.parametrize("type_name", ["INT8x4", "INT8x32"])
@pytest.mark.parametrize("mode", [mode.name for mode in cudnn.PoolingMode])
def test_pooling(side, rng, type_name, mode):
    values = rng.integers(-100, 101, (2, 64, 6, 7)).astype(float)
    settings = {"padding": (1, 0), "stride": (2, 1)}
    pooling = cudnn.PoolingDescriptor(
        (3, 2), cudnn.PoolingMode[mode], **settings, library=side.library
    )
    x = Tensor(side, values, (type_name, VECT))
    shape = cudnn.get_pooling_forward_output_dim(pooling, x.desc)
    y = Tensor(side, np.full(shape, 77.0), (type_name, VECT))
    cudnn.pooling_forward(side.handle, pooling, x.desc, x.data, y.desc, y.data)
    pooled, _ = exact.pooling(values, shape, mode, (3, 2), **settings)
    # A sixth is no middle, and float32 divides by it as well as float64.
    np.testing.assert_array_equal(y.read(), np.rint(pooled.astype(np.float32)))


def test_poolings_that_are_not(side):
    """Of unsigned vectors, and gradients."""
    pooling = cudnn.PoolingDescriptor(2, library=side.library)
    unsigned, signed = (
        (Tensor(side, np.zeros((1, 4, 2, 2)), (name, VECT)),
         Tensor(side, np.zeros((1, 4, 1, 1)), (name, VECT)))
        for name in ("UINT8x4", "INT8x4")
    )  # fmt: skip
    x, y = unsigned
    with pytest.raises(errors.CudnnNotSupported):
        cudnn.pooling_forward(side.handle, pooling, x.desc, x.data, y.desc, y.data)
    (x, y), dx = signed, side.put(np.zeros(16, np.int8))
    with pytest.raises(errors.CudnnNotSupported):
        cudnn.pooling_backward(
            side.handle, pooling, y.desc, y.data, y.desc, y.data, x.desc, x.data, x.desc, dx
        )


# ---- conversions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "result"),
    [
        (("INT8", NCHW), ("INT8x4", VECT)),
        (("INT8", NHWC), ("INT8x4", VECT)),
        (("FLOAT", NHWC), ("INT8x4", VECT)),
        (("INT8x4", VECT), ("INT8", NCHW)),
        (("INT8x4", VECT), ("FLOAT", NCHW)),
        (("INT8x4", VECT), ("HALF", NHWC)),
        (("INT8x4", VECT), ("INT8x4", VECT)),
    ],
)
def test_vectors_and_other_layouts(side, rng, source, result):
    values = rng.integers(-100, 100, (2, 8, 3, 5)).astype(float)
    x = Tensor(side, values, source)
    y = Tensor(side, np.full(values.shape, 77.0), result)
    cudnn.transform_tensor(side.handle, x.desc, x.data, y.desc, y.data)
    np.testing.assert_array_equal(y.read(), values)
    cudnn.transform_tensor(side.handle, x.desc, x.data, y.desc, y.data, alpha=0.5, beta=2.0)
    want = values / 2 + 2 * values
    name = result[0]
    np.testing.assert_array_equal(y.read(), want if name == "HALF" else saturated(want, name))


def test_vectors_that_are_not_converted(side):
    values = np.zeros((2, 32, 3, 5))
    eight = Tensor(side, values, ("INT8", NCHW))
    for name in ("INT8x32", "UINT8x4"):
        other = Tensor(side, values, (name, VECT))
        another = Tensor(side, values, (name, VECT))
        for x, y in ((eight, other), (other, eight), (other, another)):
            with pytest.raises((errors.CudnnBadParam, errors.CudnnNotSupported)):
                cudnn.transform_tensor(side.handle, x.desc, x.data, y.desc, y.data)
    four = Tensor(side, values, ("INT8x4", VECT))
    made = cudnn.TensorTransformDescriptor(library=side.library)
    for x, y in ((four, eight), (eight, four)):
        with pytest.raises(errors.NotSupported, match="must not be vectors of channels"):
            cudnn.transform_tensor_ex(side.handle, made, x.desc, x.data, y.desc, y.data)
    with pytest.raises(errors.NotSupported, match="must not be vectors .* dtype=INT8x4"):
        cudnn.init_transform_dest(made, four.desc)


def test_padded_channels(library):
    """Vectors are full: cuDNN drops channels that fill none."""
    for shape, name in (((2, 6, 3, 3), "INT8x4"), ((2, 36, 3, 3), "INT8x32")):
        for make in (cudnn.TensorDescriptor, cudnn.FilterDescriptor):
            with pytest.raises(ValueError, match="shape.1. must be a multiple of"):
                make(shape, Type[name], format=VECT, library=library)
    desc = cudnn.TensorDescriptor((2, 64, 3, 3), Type.INT8x32, format=VECT, library=library)
    assert desc.data_type == Type.INT8x32
    assert desc.is_vectors
    assert repr(desc).endswith("dtype=INT8x32)")
