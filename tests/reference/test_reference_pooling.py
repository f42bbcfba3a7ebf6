"""Pooling against loops over outputs and windows in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from c_library import (
    FLOATING,
    LAYOUTS,
    SCALES,
    CLibrary,
    Operand,
    assert_close,
    before,
    blended,
    ints,
    layouts,
    rounded,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pycudnn.abi.cudnn_enums import DataType, NanPropagation, PoolingMode, Status

MODES = list(PoolingMode)
MAX, INCLUDE, EXCLUDE, DETERMINISTIC = (
    PoolingMode.MAX,
    PoolingMode.AVERAGE_COUNT_INCLUDE_PADDING,
    PoolingMode.AVERAGE_COUNT_EXCLUDE_PADDING,
    PoolingMode.MAX_DETERMINISTIC,
)
PROPAGATE, NOT_PROPAGATE = NanPropagation.PROPAGATE_NAN, NanPropagation.NOT_PROPAGATE_NAN
Geometry = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # window, padding, stride

GEOMETRIES: list[Geometry] = [
    ((2, 2), (0, 0), (2, 2)),
    ((3, 2), (1, 0), (2, 1)),
    ((2, 3), (1, 1), (3, 3)),
    ((3, 3), (1, 1), (1, 1)),
]


def output_shape(shape: tuple[int, ...], geometry: Geometry) -> tuple[int, ...]:
    spatial = [1 + (n + 2 * p - w) // s for n, w, p, s in zip(shape[2:], *geometry, strict=True)]
    return (*shape[:2], *spatial)


def windows(shape: tuple[int, ...], geometry: Geometry):
    """For each output index: the input indices in its window that are no padding."""
    for index in np.ndindex(output_shape(shape, geometry)):
        ranges = [
            [i for i in range(o * s - p, o * s - p + w) if 0 <= i < n]
            for o, n, w, p, s in zip(index[2:], shape[2:], *geometry, strict=True)
        ]
        yield index, [(*index[:2], *position) for position in itertools.product(*ranges)]


def expected(x: np.ndarray, mode: PoolingMode, geometry: Geometry) -> np.ndarray:
    out = np.empty(output_shape(x.shape, geometry))
    for index, inside in windows(x.shape, geometry):
        values = [x[i] for i in inside]
        if mode in (MAX, DETERMINISTIC):
            out[index] = max(values, default=-np.inf)
        else:
            count = math.prod(geometry[0]) if mode == INCLUDE else len(values)
            out[index] = math.fsum(values) / count if count else np.nan
    return out


def gradient(x: np.ndarray, dy: np.ndarray, mode: PoolingMode, geometry: Geometry) -> np.ndarray:
    out = np.zeros(x.shape)
    for index, inside in windows(x.shape, geometry):
        if mode in (MAX, DETERMINISTIC):
            if inside:
                out[max(inside, key=lambda i: x[i])] += dy[index]  # the first of several
        else:
            count = math.prod(geometry[0]) if mode == INCLUDE else len(inside)
            for i in inside:
                out[i] += dy[index] / count
    return out


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers exact in bfloat16 up to a size of 512, and no ties: on a GPU, only for NCHW is it
    the first of equal elements that gets the gradient."""
    size = math.prod(shape)
    return (rng.permutation(size).reshape(shape) - size // 2) / 16


def pooling(lib: CLibrary, mode: int, geometry: Geometry, nan: int = NOT_PROPAGATE):
    descriptor = lib.create("Pooling")
    arrays = [ints(*values) for values in geometry]
    lib.check("cudnnSetPoolingNdDescriptor", descriptor, mode, nan, len(geometry[0]), *arrays)
    return descriptor


def forward(lib: CLibrary, handle, descriptor, x: Operand, y: Operand, alpha=1.0, beta=0.0) -> bool:
    factors = lib.scalar(alpha, y.data_type), lib.scalar(beta, y.data_type)
    return lib.supports(
        "cudnnPoolingForward",
        *(handle, descriptor, factors[0], *x.arguments, factors[1], *y.arguments),
    )


def backward(
    lib: CLibrary, handle, descriptor, operands: tuple[Operand, ...], alpha=1.0, beta=0.0
) -> bool:
    y, dy, x, dx = operands
    factors = lib.scalar(alpha, dx.data_type), lib.scalar(beta, dx.data_type)
    inputs = *y.arguments, *dy.arguments, *x.arguments
    return lib.supports(
        "cudnnPoolingBackward",
        *(handle, descriptor, factors[0], *inputs, factors[1], *dx.arguments),
    )


def run(lib: CLibrary, handle, mode: int, geometry: Geometry, x, nan: int = NOT_PROPAGATE):
    """The output for one channel x, and the gradient for dy = 1, 2, 3, ... in float32."""
    values = np.asarray(x, float)[None, None]
    source = Operand(lib, values)
    y = Operand(lib, np.full(output_shape(values.shape, geometry), np.nan))
    assert forward(lib, handle, pooling(lib, mode, geometry, nan), source, y)
    dy = Operand(lib, 1.0 + np.arange(math.prod(y.shape)).reshape(y.shape))
    dx = Operand(lib, np.full(values.shape, np.nan))
    assert backward(lib, handle, pooling(lib, mode, geometry, nan), (y, dy, source, dx))
    return y.read()[0, 0], dx.read()[0, 0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("mode", MODES)
def test_forward_and_backward(lib: CLibrary, handle, rng, mode, data_type, layout) -> None:
    shape = (2, 3, 7, 6)
    for geometry, (alpha, beta) in zip(GEOMETRIES, SCALES, strict=True):
        out_shape = output_shape(shape, geometry)
        values = distinct(rng, shape)
        old = rounded(before(rng, out_shape, beta), data_type)
        x = Operand(lib, values, layouts(shape)[layout], data_type)
        y = Operand(lib, old, layouts(out_shape)[layout], data_type)
        descriptor, want = pooling(lib, mode, geometry), expected(values, mode, geometry)
        if not forward(lib, handle, descriptor, x, y, alpha, beta):
            continue
        assert_close(y.read(), blended(want, alpha, beta, old), data_type)

        dy_values = rounded(rng.standard_normal(out_shape), data_type)
        old = rounded(before(rng, shape, beta), data_type)
        y = Operand(lib, want, layouts(out_shape)[layout], data_type)
        dy = Operand(lib, dy_values, layouts(out_shape)[layout], data_type)
        dx = Operand(lib, old, layouts(shape)[layout], data_type)
        if backward(lib, handle, descriptor, (y, dy, x, dx), alpha, beta):
            want = blended(gradient(values, dy_values, mode, geometry), alpha, beta, old)
            assert_close(dx.read(), want, data_type, 16 if data_type < DataType.HALF else 2)


@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_geometry(lib: CLibrary, handle, data) -> None:
    mode, ndim = data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from([2, 3]))

    def draw(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.lists(st.integers(low, high), min_size=ndim, max_size=ndim)))

    geometry = draw(1, 4), draw(0, 1), draw(1, 4)
    shape = (*data.draw(st.tuples(st.integers(1, 2), st.integers(1, 3))), *draw(3, 7))
    for n, window, padding in zip(shape[2:], *geometry[:2], strict=True):
        assume(padding < window <= n + 2 * padding)
    strides = layouts(shape)[data.draw(st.sampled_from(LAYOUTS))]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = distinct(rng, shape)
    x = Operand(lib, values, strides)
    y = Operand(lib, np.full(output_shape(shape, geometry), np.nan))
    descriptor = pooling(lib, mode, geometry)
    if not forward(lib, handle, descriptor, x, y):
        return
    assert_close(y.read(), expected(values, mode, geometry), DataType.FLOAT)
    dy_values = rounded(rng.standard_normal(y.shape), DataType.FLOAT)
    dy, dx = Operand(lib, dy_values), Operand(lib, np.full(shape, np.nan), strides)
    if backward(lib, handle, descriptor, (y, dy, x, dx)):
        assert_close(dx.read(), gradient(values, dy_values, mode, geometry), DataType.FLOAT, 32)


def test_b4_padding_in_averages_and_in_the_maximum(lib: CLibrary, handle) -> None:
    geometry = (2, 2), (1, 1), (2, 2)
    ones = np.ones((2, 2))
    assert (run(lib, handle, INCLUDE, geometry, ones)[0] == 0.25).all()
    assert (run(lib, handle, EXCLUDE, geometry, ones)[0] == 1.0).all()
    for mode in (MAX, DETERMINISTIC):
        assert (run(lib, handle, mode, geometry, -ones)[0] == -1).all()


@pytest.mark.parametrize("mode", [MAX, DETERMINISTIC])
def test_nan_in_the_maximum(lib: CLibrary, handle, mode: PoolingMode) -> None:
    nan, inf, lowest = np.nan, np.inf, np.finfo(np.float32).min
    x = [[1, nan, 2, 3], [0, -1, nan, nan], [nan, nan, -5, -inf], [nan, nan, -inf, -7]]
    geometry = (2, 2), (0, 0), (2, 2)
    y, dx = run(lib, handle, mode, geometry, x, NOT_PROPAGATE)
    np.testing.assert_array_equal(y, np.float32([[1, 3], [lowest, -5]]))
    want = np.zeros((4, 4))
    want[0, 0], want[0, 3], want[2, 2] = 1, 2, 4
    np.testing.assert_array_equal(dx, want)
    y, dx = run(lib, handle, mode, geometry, x, PROPAGATE)
    np.testing.assert_array_equal(y, [[nan, nan], [nan, -5]])
    want = np.zeros((4, 4))
    want[0, 1], want[1, 2], want[2, 0], want[2, 2] = 1, 2, 3, 4  # the first NaN of each
    np.testing.assert_array_equal(dx, want)


@pytest.mark.parametrize("mode", [MAX, DETERMINISTIC])
def test_c8_the_first_of_equal_elements_gets_the_gradient(lib, handle, mode) -> None:
    x = [[1, 2, 1, 2], [2, 2, 0, 2], [3, 0, 0, 3], [0, 3, 3, 0]]
    geometry = (3, 3), (1, 1), (2, 2)
    first = run(lib, handle, mode, geometry, x)
    np.testing.assert_array_equal(
        first[1],
        gradient(
            np.float64(x)[None, None], np.float64([[1, 2], [3, 4]])[None, None], mode, geometry
        )[0, 0],
    )
    for _ in range(20):
        for again, once in zip(run(lib, handle, mode, geometry, x), first, strict=True):
            assert again.tobytes() == once.tobytes()


def test_windows_of_padding_alone(lib: CLibrary, handle) -> None:
    geometry, x = ((2, 2), (2, 2), (2, 2)), np.full((3, 3), -1.0)
    outside = np.ones((3, 3), bool)
    outside[1:, 1:] = False  # the first row and column of windows lie before the input
    for mode, want in (
        (MAX, np.float32(np.finfo(np.float32).min)),
        (INCLUDE, 0),
        (EXCLUDE, np.nan),
    ):
        y, _ = run(lib, handle, mode, geometry, x)
        np.testing.assert_array_equal(y[outside], np.full(outside.sum(), want))


def test_negative_padding_crops(lib: CLibrary, handle) -> None:
    y, dx = run(lib, handle, MAX, ((2, 2), (-1, 0), (1, 1)), np.arange(16.0).reshape(4, 4))
    np.testing.assert_array_equal(y, [[9, 10, 11]])
    np.testing.assert_array_equal(dx[2], [0, 1, 2, 3])


def test_the_maximum_is_found_in_x_whatever_y_holds(lib: CLibrary, handle) -> None:
    geometry = (2, 2), (0, 0), (2, 2)
    x = Operand(lib, np.arange(4.0).reshape(1, 1, 2, 2))
    y, dy = Operand(lib, np.full((1, 1, 1, 1), 2.0)), Operand(lib, np.ones((1, 1, 1, 1)))
    dx = Operand(lib, np.full((1, 1, 2, 2), np.nan))
    assert backward(lib, handle, pooling(lib, MAX, geometry), (y, dy, x, dx))
    np.testing.assert_array_equal(dx.read().ravel(), [0, 0, 0, 1])


def test_int8(lib: CLibrary, handle) -> None:
    values = np.array([[1, 2, 3], [4, -5, 7], [-4, -4, -4]])[None, None]
    geometry = (2, 2), (1, 1), (1, 1)
    x = Operand(lib, values, data_type=DataType.INT8)
    for mode in (MAX, EXCLUDE):
        y = Operand(lib, np.zeros((1, 1, 4, 4)), data_type=DataType.INT8)
        assert forward(lib, handle, pooling(lib, mode, geometry), x, y)
        np.testing.assert_array_equal(y.read(), np.rint(expected(values, mode, geometry)))
    one, zero = lib.scalar(1), lib.scalar(0)
    status = lib.cudnnPoolingBackward(
        *(handle, pooling(lib, MAX, geometry), one, *y.arguments, *y.arguments),
        *(*x.arguments, zero, *x.arguments),
    )
    assert status == Status.NOT_SUPPORTED


def test_refusals(lib: CLibrary, handle) -> None:
    geometry, one, zero = ((2, 2), (0, 0), (2, 2)), lib.scalar(1), lib.scalar(0)
    x = Operand(lib, np.ones((1, 2, 4, 4)))

    def status(x: Operand, shape, geometry: Geometry = geometry, data_type=DataType.FLOAT) -> int:
        y = Operand(lib, np.full(shape, 5), data_type=data_type)
        got = lib.cudnnPoolingForward(
            *(handle, pooling(lib, 0, geometry), one, *x.arguments, zero, *y.arguments)
        )
        assert (y.read() == 5).all()
        return got

    assert status(x, (1, 3, 2, 2)) == Status.BAD_PARAM
    assert status(x, (1, 2, 2, 2), data_type=DataType.HALF) == Status.BAD_PARAM
    line = Operand(lib, np.ones((1, 1, 4)))
    assert status(line, (1, 1, 2), ((2,), (0,), (2,))) == Status.NOT_SUPPORTED
    integers = Operand(lib, np.ones((1, 2, 4, 4)), data_type=DataType.INT32)
    assert status(integers, (1, 2, 2, 2), data_type=DataType.INT32) == Status.NOT_SUPPORTED
    if lib.backend == "reference":  # the real one looks at N and C alone
        assert status(x, (1, 2, 2, 1)) == Status.BAD_PARAM
        assert "(1, 2, 2, 2)" in lib.last_error()
