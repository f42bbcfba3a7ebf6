"""Each operation of the graph API against float64 NumPy, written apart from the library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from c_library import CLibrary, packed, rounded
from graph_backend import Backend, GraphLibrary

from pycudnn.abi.cudnn_enums import BackendAttributeType as Type
from pycudnn.abi.cudnn_enums import (
    BackendNormFwdPhase,
    BackendNormMode,
    DataType,
    PaddingMode,
    ReduceTensorOp,
    ResampleMode,
    Status,
)
from pycudnn.abi.cudnn_enums import PointwiseMode as P
from pycudnn.abi.types import cudnnFraction_t

Array = np.ndarray[Any, Any]


@pytest.fixture
def lib() -> GraphLibrary:
    return GraphLibrary(CLibrary("reference"))


@pytest.fixture(params=[0, 1])
def engine(request: pytest.FixtureRequest) -> int:
    return request.param


def single(rng: np.random.Generator, *shape: int) -> Array:
    """Random numbers that float32 holds exactly."""
    return rounded(rng.standard_normal(shape), DataType.FLOAT)


def off_kinks(rng: np.random.Generator, *shape: int) -> Array:
    """Random numbers that are no multiples of 1/8, where activations bend."""
    return (rng.integers(-32, 32, shape) + 0.5) / 8


def close(got: Array, want: Any, engine: int, terms: int = 1) -> None:
    """Equal within the rounding of float32; of engine 1 only once."""
    want = np.asarray(want, np.float64)
    error = 2.0**-23 if engine else 2.0**-21 * math.sqrt(terms)
    largest = np.abs(want[np.isfinite(want)]).max(initial=1)
    np.testing.assert_allclose(got, want, rtol=error, atol=error * largest)


def check_gradient(function: Any, x: Array, dy: Array, dx: Array) -> None:
    """dx against central differences of `function`, a float64 one, in random directions."""
    generator = np.random.default_rng(0)
    for _ in range(3):
        direction = generator.standard_normal(x.shape)
        step = 1e-5 * direction
        numeric = ((function(x + step) - function(x - step)) / 2e-5 * dy).sum()
        np.testing.assert_allclose((dx * direction).sum(), numeric, rtol=2e-4, atol=2e-4)


# --- pointwise -----------------------------------------------------------------------------------


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


UNARY = {
    P.ABS: np.abs,
    P.CEIL: np.ceil,
    P.COS: np.cos,
    P.EXP: np.exp,
    P.FLOOR: np.floor,
    P.LOG: np.log,
    P.NEG: np.negative,
    P.RSQRT: lambda x: x**-0.5,
    P.SIN: np.sin,
    P.SQRT: np.sqrt,
    P.TAN: np.tan,
    P.ERF: erf,
    P.IDENTITY: np.positive,
    P.RECIPROCAL: np.reciprocal,
    P.RELU_FWD: lambda x: np.where(x > 0, x, 0),
    P.TANH_FWD: np.tanh,
    P.SIGMOID_FWD: lambda x: 1 / (1 + np.exp(-x)),
    P.ELU_FWD: lambda x: np.where(x > 0, x, np.exp(x) - 1),
    P.GELU_FWD: lambda x: 0.5 * x * (1 + erf(x / 2**0.5)),
    P.SOFTPLUS_FWD: lambda x: np.log(1 + np.exp(x)),
    P.SWISH_FWD: lambda x: x / (1 + np.exp(-x)),
    P.GELU_APPROX_TANH_FWD: lambda x: (
        0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    ),
}
POSITIVE = (P.LOG, P.RSQRT, P.SQRT, P.RECIPROCAL)


@pytest.mark.parametrize("mode", UNARY, ids=lambda mode: mode.name)
def test_functions_of_one(lib, rng, engine, mode) -> None:
    values = single(rng, 3, 17)
    if mode in POSITIVE:
        values = np.abs(values) + 0.125
    x, y = lib.tensor((3, 17)), lib.tensor((3, 17), (1, 5))
    (got,) = lib.run([lib.pointwise(mode, XDESC=x, YDESC=y)], {x: values}, [y], engine)
    close(got, UNARY[mode](values), engine)


BINARY = {
    P.ADD: np.add,
    P.ADD_SQUARE: lambda x, b: x + b**2,
    P.DIV: np.divide,
    P.MAX: np.maximum,
    P.MIN: np.minimum,
    P.MOD: lambda x, b: x - b * np.trunc(x / b),
    P.FLOOR_MOD: lambda x, b: x - b * np.floor(x / b),
    P.MUL: np.multiply,
    P.POW: lambda x, b: np.abs(x) ** b,
    P.SUB: np.subtract,
    P.ATAN2: np.arctan2,
}


@pytest.mark.parametrize("mode", BINARY, ids=lambda mode: mode.name)
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 1), (1, 3, 4))])
def test_functions_of_two_broadcast(lib, rng, engine, mode, shapes) -> None:
    first, second = single(rng, *shapes[0]), single(rng, *shapes[1])
    if mode == P.POW:
        first = np.abs(first)
    x, b, y = lib.tensor(shapes[0]), lib.tensor(shapes[1]), lib.tensor((2, 3, 4))
    operation = lib.pointwise(mode, XDESC=x, BDESC=b, YDESC=y)
    (got,) = lib.run([operation], {x: first, b: second}, [y], engine)
    close(got, BINARY[mode](first, second), engine, 16)


def test_alphas_scale_the_inputs(lib, rng) -> None:
    first, second = single(rng, 5), single(rng, 5)
    x, b, y = (lib.tensor((5,)) for _ in range(3))
    operation = lib.pointwise(P.SUB, XDESC=x, BDESC=b, YDESC=y, ALPHA1=2.0, ALPHA2=-0.5)
    (got,) = lib.run([operation], {x: first, b: second}, [y])
    close(got, 2 * first + second / 2, 0)


COMPARISONS = {
    P.CMP_EQ: np.equal,
    P.CMP_NEQ: np.not_equal,
    P.CMP_GT: np.greater,
    P.CMP_GE: np.greater_equal,
    P.CMP_LT: np.less,
    P.CMP_LE: np.less_equal,
    P.LOGICAL_AND: lambda x, b: (x != 0) & (b != 0),
    P.LOGICAL_OR: lambda x, b: (x != 0) | (b != 0),
}


@pytest.mark.parametrize("mode", COMPARISONS, ids=lambda mode: mode.name)
@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.FLOAT])
def test_comparisons(lib, rng, mode, data_type) -> None:
    first, second = rng.integers(-1, 2, (2, 40)).astype(float)
    x, b, y = lib.tensor((40,)), lib.tensor((40,)), lib.tensor((40,), data_type=data_type)
    operation = lib.pointwise(mode, XDESC=x, BDESC=b, YDESC=y)
    (got,) = lib.run([operation], {x: first, b: second}, [y])
    np.testing.assert_array_equal(got, COMPARISONS[mode](first, second))


def test_logical_not_index_and_select(lib, rng) -> None:
    values = rng.integers(0, 2, (3, 4)).astype(float)
    x, inverse = lib.tensor((3, 4)), lib.tensor((3, 4), data_type=DataType.INT8)
    index = lib.tensor((3, 4), data_type=DataType.INT32)
    chosen = lib.tensor((3, 4))
    operations = [
        lib.pointwise(P.LOGICAL_NOT, XDESC=x, YDESC=inverse),
        lib.pointwise(P.GEN_INDEX, XDESC=x, YDESC=index, AXIS=(Type.INT64, 1)),
        lib.pointwise(P.BINARY_SELECT, XDESC=index, BDESC=x, TDESC=inverse, YDESC=chosen),
    ]
    got = lib.run(operations, {x: values}, [inverse, index, chosen])
    indices = np.broadcast_to(np.arange(4.0), (3, 4))
    want = [values == 0, indices, np.where(values == 0, indices, values)]
    for result, expected in zip(got, want, strict=True):
        np.testing.assert_array_equal(result, expected)


PARAMETERS = [
    (P.RELU_FWD, dict(RELU_LOWER_CLIP=-0.5, RELU_LOWER_CLIP_SLOPE=0.25, RELU_UPPER_CLIP=0.75)),
    (P.ELU_FWD, dict(ELU_ALPHA=0.5)),
    (P.SOFTPLUS_FWD, dict(SOFTPLUS_BETA=2.0)),
    (P.SWISH_FWD, dict(SWISH_BETA=0.5)),
]


def with_parameters(mode: P, x: Array) -> Array:
    if mode == P.RELU_FWD:
        return np.where(x < -0.5, -0.5 + 0.25 * (x + 0.5), np.minimum(x, 0.75))
    if mode == P.ELU_FWD:
        return np.where(x > 0, x, 0.5 * (np.exp(x) - 1))
    if mode == P.SOFTPLUS_FWD:
        return np.log(1 + np.exp(2 * x)) / 2
    return x / (1 + np.exp(-x / 2))


@pytest.mark.parametrize(("mode", "parameters"), PARAMETERS, ids=lambda p: getattr(p, "name", ""))
def test_parameters_of_activations(lib, rng, engine, mode, parameters) -> None:
    values, gradient = off_kinks(rng, 4, 9), single(rng, 4, 9)
    x, dy, y, dx = (lib.tensor((4, 9)) for _ in range(4))
    backward = P[mode.name.replace("FWD", "BWD")]
    operations = [
        lib.pointwise(mode, XDESC=x, YDESC=y, **parameters),
        lib.pointwise(backward, XDESC=x, DYDESC=dy, DXDESC=dx, **parameters),
    ]
    got, back = lib.run(operations, {x: values, dy: gradient}, [y, dx], engine)
    close(got, with_parameters(mode, values), engine)
    check_gradient(lambda x: with_parameters(mode, x), values, gradient, back)


@pytest.mark.parametrize(
    "mode", [mode for mode in P if mode.name.endswith("_BWD")], ids=lambda mode: mode.name
)
def test_gradients_of_activations(lib, rng, mode) -> None:
    values, gradient = off_kinks(rng, 50), single(rng, 50)
    x, dy, dx = (lib.tensor((50,)) for _ in range(3))
    operation = lib.pointwise(mode, XDESC=x, DYDESC=dy, DXDESC=dx)
    (got,) = lib.run([operation], {x: values, dy: gradient}, [dx], 1)
    check_gradient(UNARY[P[mode.name.replace("BWD", "FWD")]], values, gradient, got)


@pytest.mark.parametrize("mode", [P.RELU_FWD, P.MAX, P.MIN, P.ELU_FWD, P.SOFTPLUS_FWD])
def test_nan_is_not_lost(lib, mode) -> None:
    x, b, y = (lib.tensor((3,)) for _ in range(3))
    second = dict(BDESC=b) if mode in BINARY else {}
    operation = lib.pointwise(mode, XDESC=x, YDESC=y, **second)
    values = {x: [np.nan, 1, -1], b: [0, 0, 0]} if second else {x: [np.nan, 1, -1]}
    (got,) = lib.run([operation], values, [y])
    assert np.isnan(got).tolist() == [True, False, False]


@pytest.mark.parametrize("mode", [P.RELU_FWD, P.RELU_BWD])
def test_relu_of_infinity(lib, engine, mode) -> None:
    x, dy, out = (lib.tensor((2,)) for _ in range(3))
    backward = mode == P.RELU_BWD
    tensors = dict(DYDESC=dy, DXDESC=out) if backward else dict(YDESC=out)
    values = {x: [-np.inf, np.inf], **({dy: [1, 1]} if backward else {})}
    (got,) = lib.run([lib.pointwise(mode, XDESC=x, **tensors)], values, [out], engine)
    assert got.tolist() == ([0, 1] if backward else [0, np.inf])


def test_double_is_computed_in_double_by_both_engines(lib, rng, engine) -> None:
    values = rng.standard_normal(20)
    x, y = (lib.tensor((20,), data_type=DataType.DOUBLE) for _ in range(2))
    operation = lib.pointwise(P.EXP, DataType.DOUBLE, XDESC=x, YDESC=y)
    (got,) = lib.run([operation], {x: values}, [y], engine)
    np.testing.assert_allclose(got, np.exp(values), rtol=1e-15)


def test_integers_are_rounded_and_saturated(lib) -> None:
    x, y = lib.tensor((6,)), lib.tensor((6,), data_type=DataType.INT8)
    operation = lib.pointwise(P.IDENTITY, XDESC=x, YDESC=y)
    (got,) = lib.run([operation], {x: [1.5, 2.5, -1.6, 300, -300, np.nan]}, [y])
    assert got.tolist() == [2, 2, -2, 127, -128, 0]


@pytest.mark.parametrize("missing", ["XDESC", "BDESC", "YDESC", "PW_DESCRIPTOR"])
def test_pointwise_without_a_tensor(lib, missing) -> None:
    operation = lib.new("OPERATION_POINTWISE")
    settings = lib.new("POINTWISE").finalize()
    given = {name: lib.tensor((2, 2)) for name in ("XDESC", "BDESC", "YDESC")}
    for name, value in {**given, "PW_DESCRIPTOR": settings}.items():
        if name != missing:
            operation.set(name, Type.BACKEND_DESCRIPTOR, value)
    assert operation.try_finalize() == Status.BAD_PARAM


# --- convolution ---------------------------------------------------------------------------------

GEOMETRIES = [
    # image, window, before, behind, stride, dilation, groups
    ((7, 6), (3, 2), (1, 0), (1, 0), (1, 1), (1, 1), 1),
    ((7, 6), (3, 3), (2, 1), (0, 1), (2, 1), (1, 2), 2),
    ((9,), (3,), (1,), (2,), (2,), (1,), 1),
    ((4, 5, 4), (2, 3, 2), (0, 1, 1), (1, 1, 0), (1, 2, 1), (2, 1, 1), 2),
]


def dense(geometry: tuple[Any, ...], x: Array, w: Array, mode: int) -> Array:
    """Convolution by its definition."""
    image, window, before, behind, stride, dilation, groups = geometry
    if mode == 0:
        w = np.flip(w, tuple(range(2, w.ndim)))
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, behind, strict=True)])
    output = [
        (n + p + q - d * (k - 1) - 1) // s + 1
        for n, k, p, q, s, d in zip(image, window, before, behind, stride, dilation, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *output))
    depth, filters = w.shape[1], w.shape[0] // groups
    for group in range(groups):
        channels = padded[:, group * depth : (group + 1) * depth]
        own = slice(group * filters, (group + 1) * filters)
        for position in np.ndindex(*output):
            at = tuple(
                slice(o * s, o * s + d * (k - 1) + 1, d)
                for o, s, d, k in zip(position, stride, dilation, window, strict=True)
            )
            seen = channels[(slice(None), slice(None), *at)]
            axes = tuple(range(1, w.ndim))
            y[(slice(None), own, *position)] = np.tensordot(seen, w[own], (axes, axes))
    return y


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=["plain", "groups", "1-d", "3-d"])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.5, -2.0)])
@pytest.mark.parametrize("parts", [1, 3])
def test_convolutions(lib, rng, engine, geometry, mode, alpha, beta, parts) -> None:
    image, window, before, behind, stride, dilation, groups = geometry
    data = single(rng, 3, 4, *image), single(rng, 6, 4 // groups, *window)
    want = dense(geometry, *data, mode)
    gradient = single(rng, *want.shape)
    conv = lib.convolution(before, behind, stride, dilation, mode)
    x, w = (lib.tensor(value.shape) for value in data)
    y = lib.tensor(want.shape, packed(want.shape, (0, *range(2, want.ndim), 1)))
    dx, dw, dy = (lib.tensor(tensor.shape) for tensor in (x, w, y))
    old = {tensor: single(rng, *tensor.shape) for tensor in (y, dx, dw)}
    scale = {"ALPHA": alpha, "BETA": beta, "CONV_DESC": conv}
    make = lib.operation
    cases = [
        (make("CONVOLUTION_FORWARD", **{"X": x, "W": w, "Y": y}, **scale), y, (x, w)),
        (
            make(
                "CONVOLUTION_BACKWARD_DATA",
                "OPERATION_CONVOLUTION_BWD_DATA_",
                **{"W": w, "DY": dy, "DX": dx},
                **scale,
            ),
            dx,
            (w, dy),
        ),
        (
            make(
                "CONVOLUTION_BACKWARD_FILTER",
                "OPERATION_CONVOLUTION_BWD_FILTER_",
                **{"X": x, "DY": dy, "DW": dw},
                **scale,
            ),
            dw,
            (x, dy),
        ),
    ]
    values = {x: data[0], w: data[1], dy: gradient}
    results = {}
    for operation, out, operands in cases:
        inputs = {tensor: values[tensor] for tensor in operands}
        if beta:
            inputs[out] = old[out]
        (got,) = lib.run([operation], inputs, [out], engine, SPLIT_K=parts)
        results[out] = (got - (beta * old[out] if beta else 0)) / alpha
    close(results[y], want, engine * (beta == 0), 256)
    check_gradient(lambda x: dense(geometry, x, data[1], mode), data[0], gradient, results[dx])
    check_gradient(lambda w: dense(geometry, data[0], w, mode), data[1], gradient, results[dw])


@pytest.mark.parametrize(
    ("x", "w", "y"),
    [
        ((2, 8, 6, 6), (8, 8, 3, 3), (2, 8, 5, 4)),
        ((2, 8, 6, 6), (8, 8, 3, 3), (2, 8, 4)),
        ((2, 8, 6, 6), (7, 8, 3, 3), (2, 8, 4, 4)),
        ((2, 8, 6, 6), (8, 3, 3, 3), (2, 8, 4, 4)),
    ],
)
def test_tensors_that_do_not_convolve(lib, x, w, y) -> None:
    operation = lib.new("OPERATION_CONVOLUTION_FORWARD").set(
        "CONV_DESC", Type.BACKEND_DESCRIPTOR, lib.convolution((0, 0))
    )
    for name, shape in zip("XWY", (x, w, y), strict=True):
        operation.set(name, Type.BACKEND_DESCRIPTOR, lib.tensor(shape))
    assert operation.try_finalize() == Status.BAD_PARAM


# --- matmul and reduction ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4, 7), (7, 5)),
        ((3, 4, 7), (3, 7, 5)),
        ((1, 4, 7), (3, 7, 5)),
        ((2, 1, 4, 7), (1, 3, 7, 5)),
    ],
)
@pytest.mark.parametrize("parts", [1, 4])
def test_matmul(lib, rng, engine, a, b, parts) -> None:
    left, right = single(rng, *a), single(rng, *b)
    want = left @ right
    transposed = packed(b, (*range(len(b) - 2), len(b) - 1, len(b) - 2))
    first, second, out = lib.tensor(a), lib.tensor(b, transposed), lib.tensor(want.shape)
    settings = lib.new("MATMUL").set("COMP_TYPE", Type.DATA_TYPE, 0).finalize()
    operation = lib.operation("MATMUL", ADESC=first, BDESC=second, CDESC=out, DESC=settings)
    inputs = {first: left, second: right}
    (got,) = lib.run([operation], inputs, [out], engine, SPLIT_K=parts)
    close(got, want, engine, 7)


REDUCTIONS = {
    ReduceTensorOp.ADD: lambda x, axis: x.sum(axis),
    ReduceTensorOp.MUL: lambda x, axis: x.prod(axis),
    ReduceTensorOp.MIN: lambda x, axis: x.min(axis),
    ReduceTensorOp.MAX: lambda x, axis: x.max(axis),
    ReduceTensorOp.AMAX: lambda x, axis: np.abs(x).max(axis),
    ReduceTensorOp.AVG: lambda x, axis: x.mean(axis),
    ReduceTensorOp.NORM1: lambda x, axis: np.abs(x).sum(axis),
    ReduceTensorOp.NORM2: lambda x, axis: (x**2).sum(axis) ** 0.5,
    ReduceTensorOp.MUL_NO_ZEROS: lambda x, axis: np.where(x, x, 1).prod(axis),
}


@pytest.mark.parametrize("chosen", REDUCTIONS, ids=lambda chosen: chosen.name)
@pytest.mark.parametrize("axes", [(0, 2), (1,), (0, 1, 2)])
def test_reductions(lib, rng, engine, chosen, axes) -> None:
    values = single(rng, 3, 4, 5)
    values[1, 2, 3] = 0
    shape = tuple(1 if axis in axes else size for axis, size in enumerate((3, 4, 5)))
    x, y = lib.tensor((3, 4, 5)), lib.tensor(shape)
    settings = lib.new("REDUCTION").set("OPERATOR", Type.REDUCTION_OPERATOR_TYPE, chosen)
    settings.set("COMP_TYPE", Type.DATA_TYPE, 0).finalize()
    operation = lib.operation("REDUCTION", XDESC=x, YDESC=y, DESC=settings)
    (got,) = lib.run([operation], {x: values}, [y], engine)
    close(got, REDUCTIONS[chosen](values, axes).reshape(shape), engine, 60)


# --- resample ------------------------------------------------------------------------------------


def resample(lib: GraphLibrary, mode: int, padding: int, sizes: Any, nan: int = 1) -> Backend:
    """`sizes`: window, stride, padding before and behind, per dimension; halves as (1, 2)."""
    settings = lib.new("RESAMPLE").set("MODE", Type.RESAMPLE_MODE, mode)
    settings.set("PADDING_MODE", Type.PADDING_MODE, padding)
    settings.set("NAN_PROPAGATION", Type.NAN_PROPOGATION, nan)
    settings.set("SPATIAL_DIMS", Type.INT64, len(sizes[0]))
    names = ("WINDOW_DIMS", "STRIDES", "PRE_PADDINGS", "POST_PADDINGS")
    for name, values in zip(names, sizes, strict=True):
        if isinstance(values[0], tuple):
            array = (cudnnFraction_t * len(values))(*values)
            settings.set_array(name, Type.FRACTION, array)
        else:
            settings.set(name, Type.INT64, *values)
    return settings.finalize()


POOLS = [
    ((2, 2), (2, 2), (0, 0), (0, 0)),
    ((3, 2), (2, 1), (1, 0), (1, 1)),
    ((3, 3), (1, 2), (1, 1), (1, 1)),
]
AVERAGES = (ResampleMode.AVGPOOL_INCLUDE_PADDING, ResampleMode.AVGPOOL_EXCLUDE_PADDING)


def pooled(x: Array, sizes: Any, mode: int) -> tuple[Array, Array]:
    """By loops: the results, and where in the window the largest stands."""
    window, stride, before, behind = sizes
    output = [
        1 + (n + p + q - w) // s
        for n, w, s, p, q in zip(x.shape[2:], window, stride, before, behind, strict=True)
    ]
    y, places = np.zeros((*x.shape[:2], *output)), np.zeros((*x.shape[:2], *output))
    for index in np.ndindex(y.shape):
        seen = []
        for place, tap in enumerate(np.ndindex(*window)):
            at = [o * s - p + t for o, s, p, t in zip(index[2:], stride, before, tap, strict=True)]
            if all(0 <= a < n for a, n in zip(at, x.shape[2:], strict=True)):
                seen.append((x[(*index[:2], *at)], -place))
        if mode == ResampleMode.MAXPOOL:
            y[index], places[index] = max(seen)
        else:
            include = mode == ResampleMode.AVGPOOL_INCLUDE_PADDING
            y[index] = sum(value for value, _ in seen) / (
                math.prod(window) if include else len(seen)
            )
    return y, -places


@pytest.mark.parametrize("mode", [ResampleMode.MAXPOOL, *AVERAGES], ids=lambda mode: mode.name)
@pytest.mark.parametrize("sizes", POOLS)
def test_pooling(lib, rng, engine, mode, sizes) -> None:
    values = rng.permutation(2 * 3 * 6 * 7).reshape(2, 3, 6, 7) / 8
    want, places = pooled(values, sizes, mode)
    gradient = single(rng, *want.shape)
    padding = PaddingMode.NEG_INF_PAD if mode == ResampleMode.MAXPOOL else PaddingMode.ZERO_PAD
    settings = resample(lib, mode, padding, sizes)
    x, dx = lib.tensor((2, 3, 6, 7)), lib.tensor((2, 3, 6, 7))
    y, dy = lib.tensor(want.shape), lib.tensor(want.shape)
    index = lib.tensor(want.shape, data_type=DataType.INT8)
    is_max = mode == ResampleMode.MAXPOOL
    indices = {"IDXDESC": index} if is_max else {}
    forward = lib.operation("RESAMPLE_FWD", XDESC=x, YDESC=y, DESC=settings, **indices)
    outputs = [y, index] if is_max else [y]
    got = lib.run([forward], {x: values}, outputs, engine)
    close(got[0], want, engine, 9)
    if is_max:
        np.testing.assert_array_equal(got[1], places)
    sources = [{"XDESC": x}, {"IDXDESC": index}] if is_max else [{}]
    for source in sources:
        backward = lib.operation("RESAMPLE_BWD", DXDESC=dx, DYDESC=dy, DESC=settings, **source)
        inputs = {dy: gradient, **{t: values if t is x else places for t in source.values()}}
        (back,) = lib.run([backward], inputs, [dx], engine)
        check_gradient(lambda x: pooled(x, sizes, mode)[0], values, gradient, back)


def test_resample_blends(lib, rng) -> None:
    values, old = single(rng, 1, 1, 4, 4), single(rng, 1, 1, 2, 2)
    settings = resample(lib, ResampleMode.AVGPOOL, 0, POOLS[0])
    x, y = lib.tensor((1, 1, 4, 4)), lib.tensor((1, 1, 2, 2))
    forward = lib.operation("RESAMPLE_FWD", XDESC=x, YDESC=y, DESC=settings, ALPHA=2.0, BETA=0.5)
    (got,) = lib.run([forward], {x: values, y: old}, [y])
    close(got, 2 * pooled(values, POOLS[0], ResampleMode.AVGPOOL)[0] + old / 2, 0)


def test_upsampling_by_two(lib, rng, engine) -> None:
    values = single(rng, 1, 2, 3, 3)
    x, near, linear = lib.tensor((1, 2, 3, 3)), lib.tensor((1, 2, 6, 6)), lib.tensor((1, 2, 6, 6))
    halves = [(1, 2)] * 2
    nearest = resample(
        lib,
        ResampleMode.NEAREST,
        PaddingMode.EDGE_VAL_PAD,
        ([(1, 1)] * 2, halves, [(0, 1)] * 2, halves),
    )
    bilinear = resample(
        lib,
        ResampleMode.BILINEAR,
        PaddingMode.EDGE_VAL_PAD,
        ([(2, 1)] * 2, halves, halves, [(1, 1)] * 2),
    )
    operations = [
        lib.operation("RESAMPLE_FWD", XDESC=x, YDESC=near, DESC=nearest),
        lib.operation("RESAMPLE_FWD", XDESC=x, YDESC=linear, DESC=bilinear),
    ]
    got = lib.run(operations, {x: values}, [near, linear], engine)
    np.testing.assert_array_equal(got[0], values.repeat(2, 2).repeat(2, 3))
    points = np.clip(np.arange(6) / 2 - 0.5, 0, 2)
    weights = np.maximum(0, 1 - np.abs(points[:, None] - np.arange(3)))
    close(got[1], np.einsum("ih,jw,nchw->ncij", weights, weights, values), engine, 4)


# --- norms ---------------------------------------------------------------------------------------

NORMS = {
    # axes of x that share statistics, shape of scale, shape of the statistics
    BackendNormMode.LAYER_NORM: ((1, 2, 3), (1, 4, 3, 2), (5, 1, 1, 1)),
    BackendNormMode.RMS_NORM: ((1, 2, 3), (1, 4, 3, 2), (5, 1, 1, 1)),
    BackendNormMode.INSTANCE_NORM: ((2, 3), (1, 4, 1, 1), (5, 4, 1, 1)),
    BackendNormMode.BATCH_NORM: ((0, 2, 3), (1, 4, 1, 1), (1, 4, 1, 1)),
}
EPSILON = 1e-3


def normalized(mode: int, x: Array, scale: Array, bias: Any) -> Array:
    axes = NORMS[mode][0]
    centred = x if mode == BackendNormMode.RMS_NORM else x - x.mean(axes, keepdims=True)
    return scale * centred / np.sqrt((centred**2).mean(axes, keepdims=True) + EPSILON) + bias


@pytest.mark.parametrize("mode", NORMS, ids=lambda mode: mode.name)
def test_norms(lib, rng, engine, mode) -> None:
    axes, parameters, statistics = NORMS[mode]
    rms = mode == BackendNormMode.RMS_NORM
    values, gradient = single(rng, 5, 4, 3, 2), single(rng, 5, 4, 3, 2)
    weights, offsets = single(rng, *parameters), single(rng, *parameters)
    offsets = offsets * (not rms)
    x, y, dy, dx = (lib.tensor((5, 4, 3, 2)) for _ in range(4))
    scale, bias, dscale, dbias = (lib.tensor(parameters) for _ in range(4))
    mean, inverse = lib.tensor(statistics), lib.tensor(statistics)
    epsilon = lib.tensor((1, 1, 1, 1), by_value=True)
    with_bias = {} if rms else {"BIAS_DESC": bias}
    saved = {"INV_VARIANCE_DESC": inverse, **({} if rms else {"MEAN_DESC": mean})}
    settings = {"MODE": (Type.NORM_MODE, mode)}

    def forward(phase: int, **more: Backend) -> Backend:
        return lib.operation(
            "NORM_FORWARD",
            "OPERATION_NORM_FWD_",
            **settings,
            PHASE=(Type.NORM_FWD_PHASE, phase),
            **{"XDESC": x, "YDESC": y, "SCALE_DESC": scale, "EPSILON_DESC": epsilon},
            **with_bias,
            **more,
        )

    inputs = {x: values, scale: weights, epsilon: np.full((1, 1, 1, 1), EPSILON)}
    if not rms:
        inputs[bias] = offsets
    training = forward(BackendNormFwdPhase.TRAINING, **saved)
    got = dict(
        zip([y, *saved], lib.run([training], inputs, [y, *saved.values()], engine), strict=True)
    )
    want = normalized(mode, values, weights, offsets)
    close(got[y], want, engine, 120)
    centre = 0 if rms else values.mean(axes, keepdims=True)
    deviation = np.sqrt(((values - centre) ** 2).mean(axes, keepdims=True) + np.float32(EPSILON))
    close(got["INV_VARIANCE_DESC"], 1 / deviation, engine, 120)
    if not rms:
        close(got["MEAN_DESC"], centre, engine, 120)

    known = {tensor: got[name] for name, tensor in saved.items()}
    inferred = mode == BackendNormMode.BATCH_NORM
    inference = forward(BackendNormFwdPhase.INFERENCE, **(saved if inferred else {}))
    given = {**inputs, **known} if inferred else inputs
    close(lib.run([inference], given, [y], engine)[0], want, 0, 120)

    for source in (saved, {"EPSILON_DESC": epsilon}):
        backward = lib.operation(
            "NORM_BACKWARD",
            "OPERATION_NORM_BWD_",
            **settings,
            **{"XDESC": x, "DYDESC": dy, "DXDESC": dx, "SCALE_DESC": scale},
            **{"DSCALE_DESC": dscale, "DBIAS_DESC": dbias},
            **source,
        )
        given = {x: values, dy: gradient, scale: weights}
        given |= known if source is saved else {epsilon: inputs[epsilon]}
        back, of_scale, of_bias = lib.run([backward], given, [dx, dscale, dbias], engine)
        check_gradient(lambda x: normalized(mode, x, weights, 0), values, gradient, back)
        check_gradient(lambda s: normalized(mode, values, s, 0), weights, gradient, of_scale)
        check_gradient(lambda b: normalized(mode, values, weights, b), offsets, gradient, of_bias)


def test_running_statistics(lib, rng, engine) -> None:
    values = single(rng, 5, 4, 3, 2)
    x, y = lib.tensor((5, 4, 3, 2)), lib.tensor((5, 4, 3, 2))
    scale, *running = (lib.tensor((1, 4, 1, 1)) for _ in range(5))
    epsilon, factor = (lib.tensor((1, 1, 1, 1), by_value=True) for _ in range(2))
    names = [
        f"{side}_RUNNING_{what}_DESC" for side in ("INPUT", "OUTPUT") for what in ("MEAN", "VAR")
    ]
    operation = lib.operation(
        "NORM_FORWARD",
        "OPERATION_NORM_FWD_",
        MODE=(Type.NORM_MODE, BackendNormMode.BATCH_NORM),
        PHASE=(Type.NORM_FWD_PHASE, BackendNormFwdPhase.TRAINING),
        **{"XDESC": x, "YDESC": y, "SCALE_DESC": scale, "EPSILON_DESC": epsilon},
        EXP_AVG_FACTOR_DESC=factor,
        **dict(zip(names, running, strict=True)),
    )
    old = single(rng, 1, 4, 1, 1), np.abs(single(rng, 1, 4, 1, 1))
    inputs = {x: values, scale: np.ones((1, 4, 1, 1)), running[0]: old[0], running[1]: old[1]}
    inputs |= {epsilon: [[[[EPSILON]]]], factor: [[[[0.25]]]]}
    _, mean, variance = lib.run([operation], inputs, [y, *running[2:]], engine)
    axes = (0, 2, 3)
    close(mean, 0.75 * old[0] + 0.25 * values.mean(axes, keepdims=True), engine, 30)
    close(variance, 0.75 * old[1] + 0.25 * values.var(axes, ddof=1, keepdims=True), engine, 30)


def test_batch_norm_in_parts(lib, rng, engine) -> None:
    """Statistics, finalize and apply give the norm; the backward factors give its gradient."""
    values, gradient = single(rng, 5, 4, 3, 2), single(rng, 5, 4, 3, 2)
    channels = (1, 4, 1, 1)
    x, y, dy, dx = (lib.tensor((5, 4, 3, 2)) for _ in range(4))
    total, squares, scale, bias, mean, inverse, eq_scale, eq_bias = (
        lib.tensor(channels) for _ in range(8)
    )
    previous, updated = [lib.tensor(channels) for _ in "mv"], [lib.tensor(channels) for _ in "mv"]
    count, epsilon, factor = (lib.tensor((1, 1, 1, 1), by_value=True) for _ in range(3))
    scaled, scaled_dy, scaled_x, both = (lib.tensor((5, 4, 3, 2), virtual=True) for _ in range(4))
    precision = {"MATH_PREC": (Type.DATA_TYPE, 0)}
    forward = [
        lib.operation(
            "GEN_STATS",
            "OPERATION_GENSTATS_",
            MODE=(Type.GENSTATS_MODE, 0),
            **precision,
            **{"XDESC": x, "SUMDESC": total, "SQSUMDESC": squares},
        ),
        lib.operation(
            "BN_FINALIZE_STATISTICS",
            "OPERATION_BN_FINALIZE_",
            STATS_MODE=(Type.BN_FINALIZE_STATS_MODE, 0),
            **precision,
            **{"Y_SUM_DESC": total, "Y_SQ_SUM_DESC": squares, "SCALE_DESC": scale},
            **{"BIAS_DESC": bias, "SAVED_MEAN_DESC": mean, "SAVED_INV_STD_DESC": inverse},
            **{"EQ_SCALE_DESC": eq_scale, "EQ_BIAS_DESC": eq_bias, "ACCUM_COUNT_DESC": count},
            **{"EPSILON_DESC": epsilon, "EXP_AVERATE_FACTOR_DESC": factor},
            **{"PREV_RUNNING_MEAN_DESC": previous[0], "PREV_RUNNING_VAR_DESC": previous[1]},
            **{"UPDATED_RUNNING_MEAN_DESC": updated[0], "UPDATED_RUNNING_VAR_DESC": updated[1]},
        ),
        lib.pointwise(P.MUL, XDESC=x, BDESC=eq_scale, YDESC=scaled),
        lib.pointwise(P.ADD, XDESC=scaled, BDESC=eq_bias, YDESC=y),
    ]
    weights, offsets = single(rng, *channels), single(rng, *channels)
    old = single(rng, *channels), np.abs(single(rng, *channels))
    inputs = {x: values, scale: weights, bias: offsets, previous[0]: old[0], previous[1]: old[1]}
    numbers = ((count, 30.0), (epsilon, EPSILON), (factor, 0.25))
    inputs |= {tensor: np.full((1, 1, 1, 1), value) for tensor, value in numbers}
    outputs = [total, squares, mean, inverse, eq_scale, eq_bias, *updated, y]
    results = dict(zip(outputs, lib.run(forward, inputs, outputs, engine), strict=True))
    mode, axes = BackendNormMode.BATCH_NORM, (0, 2, 3)
    close(results[total], values.sum(axes, keepdims=True), engine, 30)
    close(results[y], normalized(mode, values, weights, offsets), 0, 120)
    close(results[updated[0]], 0.75 * old[0] + 0.25 * values.mean(axes, keepdims=True), 0, 30)
    unbiased = values.var(axes, ddof=1, keepdims=True)
    close(results[updated[1]], 0.75 * old[1] + 0.25 * unbiased, 0, 30)

    dscale, dbias, of_dy, of_x, shift = (lib.tensor(channels) for _ in range(5))
    backward = [
        lib.operation(
            "BN_BWD_WEIGHTS",
            **precision,
            **{"MEAN_DESC": mean, "INVSTD_DESC": inverse, "BN_SCALE_DESC": scale, "X_DESC": x},
            **{"DY_DESC": dy, "DBN_SCALE_DESC": dscale, "DBN_BIAS_DESC": dbias},
            **{"EQ_DY_SCALE_DESC": of_dy, "EQ_X_SCALE_DESC": of_x, "EQ_BIAS": shift},
        ),
        lib.pointwise(P.MUL, XDESC=dy, BDESC=of_dy, YDESC=scaled_dy),
        lib.pointwise(P.MUL, XDESC=x, BDESC=of_x, YDESC=scaled_x),
        lib.pointwise(P.ADD, XDESC=scaled_dy, BDESC=scaled_x, YDESC=both),
        lib.pointwise(P.ADD, XDESC=both, BDESC=shift, YDESC=dx),
    ]
    inputs = {x: values, dy: gradient, scale: weights}
    inputs |= {mean: results[mean], inverse: results[inverse]}
    outputs = [dscale, dbias, of_dy, of_x, shift, dx]
    got = lib.run(backward, inputs, outputs, engine)
    check_gradient(lambda s: normalized(mode, values, s, 0), weights, gradient, got[0])
    check_gradient(lambda x: normalized(mode, x, weights, 0), values, gradient, got[-1])
    close(got[1], gradient.sum(axes, keepdims=True), engine, 30)


# --- moving data ---------------------------------------------------------------------------------


def test_reshape(lib, rng) -> None:
    values = single(rng, 2, 6, 4)
    x, y = lib.tensor((2, 6, 4), (24, 1, 6)), lib.tensor((3, 16))
    (got,) = lib.run([lib.operation("RESHAPE", XDESC=x, YDESC=y)], {x: values}, [y])
    np.testing.assert_array_equal(got, values.reshape(3, 16))


@pytest.mark.parametrize("kept", [None, 1])
def test_concat(lib, rng, kept) -> None:
    values = [single(rng, 2, size, 3) for size in (1, 4, 2)]
    parts = [lib.tensor(value.shape) for value in values]
    y = lib.tensor((2, 7, 3))
    axis = {"AXIS": (Type.INT64, 1)}
    in_place = {} if kept is None else {"INPLACE_INDEX": (Type.INT64, kept)}
    operation = lib.operation("CONCAT", INPUT_DESCS=parts, OUTPUT_DESC=y, **axis, **in_place)
    inputs = dict(zip(parts, values, strict=True))
    want = np.concatenate(values, 1)
    if kept is not None:
        before = np.full((2, 7, 3), np.nan)
        before[:, 1:5] = values[1]
        inputs[y] = before
        del inputs[parts[1]]
    (got,) = lib.run([operation], inputs, [y])
    np.testing.assert_array_equal(got, want)
