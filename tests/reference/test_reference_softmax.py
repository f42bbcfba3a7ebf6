"""Softmax, row by row in exact summation, and its gradient by the whole Jacobian."""

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
    layouts,
    rounded,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pycudnn.abi.cudnn_enums import DataType, SoftmaxAlgorithm, SoftmaxMode, Status

ALGORITHMS, MODES = list(SoftmaxAlgorithm), list(SoftmaxMode)
ACCURATE, FAST, LOG = SoftmaxAlgorithm.ACCURATE, SoftmaxAlgorithm.FAST, SoftmaxAlgorithm.LOG
INSTANCE, CHANNEL = SoftmaxMode.INSTANCE, SoftmaxMode.CHANNEL


def rows(x: np.ndarray, mode: SoftmaxMode) -> list[tuple]:
    """Indices of what is normalised together: an image, or the channels of one pixel."""
    if mode == INSTANCE:
        return [(n,) for n in range(x.shape[0])]
    pixels = np.ndindex(x.shape[0], *x.shape[2:])
    return [(n, slice(None), *pixel) for n, *pixel in pixels]


def expected(x: np.ndarray, algorithm: SoftmaxAlgorithm, mode: SoftmaxMode) -> np.ndarray:
    out = np.empty(x.shape)
    for index in rows(x, mode):
        row = x[index]
        total = math.fsum(math.exp(v) for v in row.flat)
        out[index] = row - math.log(total) if algorithm == LOG else np.exp(row) / total
    return out


def gradient(
    x: np.ndarray, dy: np.ndarray, algorithm: SoftmaxAlgorithm, mode: SoftmaxMode
) -> np.ndarray:
    out = np.empty(x.shape)
    for index in rows(x, mode):
        p = expected(x, ACCURATE, mode)[index].ravel()
        if algorithm == LOG:
            jacobian = np.eye(p.size) - p[None, :]  # d log p_i / d x_j
        else:
            jacobian = np.diag(p) - np.outer(p, p)
        out[index] = (dy[index].ravel() @ jacobian).reshape(x[index].shape)
    return out


def forward(
    lib: CLibrary, handle, algorithm, mode, x: Operand, y: Operand, alpha=1.0, beta=0.0
) -> bool:
    factors = lib.scalar(alpha, y.data_type), lib.scalar(beta, y.data_type)
    return lib.supports(
        "cudnnSoftmaxForward",
        *(handle, algorithm, mode, factors[0], *x.arguments, factors[1], *y.arguments),
    )


def backward(
    lib: CLibrary, handle, algorithm, mode, operands: tuple[Operand, ...], alpha=1.0, beta=0.0
) -> bool:
    y, dy, dx = operands
    factors = lib.scalar(alpha, dx.data_type), lib.scalar(beta, dx.data_type)
    inputs = *y.arguments, *dy.arguments
    return lib.supports(
        "cudnnSoftmaxBackward",
        *(handle, algorithm, mode, factors[0], *inputs, factors[1], *dx.arguments),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_forward(lib: CLibrary, handle, rng, algorithm, mode, data_type, layout) -> None:
    shape = (3, 4, 2, 3)
    for alpha, beta in SCALES:
        values = rounded(2 * rng.standard_normal(shape), data_type)
        old = rounded(before(rng, shape, beta), data_type)
        x = Operand(lib, values, layouts(shape)[layout], data_type)
        y = Operand(lib, old, layouts(shape)[layout], data_type)
        if forward(lib, handle, algorithm, mode, x, y, alpha, beta):
            want = blended(expected(values, algorithm, mode), alpha, beta, old)
            assert_close(y.read(), want, data_type)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_backward(lib: CLibrary, handle, rng, algorithm, mode, data_type, layout) -> None:
    shape = (3, 4, 2, 3)
    strides = layouts(shape)[layout]
    for alpha, beta in SCALES:
        values = rng.standard_normal(shape)
        dy_values = rounded(rng.standard_normal(shape), data_type)
        old = rounded(before(rng, shape, beta), data_type)
        y = Operand(lib, expected(values, algorithm, mode), strides, data_type)
        dy, dx = Operand(lib, dy_values, strides, data_type), Operand(lib, old, strides, data_type)
        if backward(lib, handle, algorithm, mode, (y, dy, dx), alpha, beta):
            want = blended(gradient(values, dy_values, algorithm, mode), alpha, beta, old)
            half = data_type in (DataType.HALF, DataType.BFLOAT16)
            assert_close(dx.read(), want, data_type, 4 if half else 16)  # y is stored rounded


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_shape_in_place(lib: CLibrary, handle, data) -> None:
    algorithm, mode = data.draw(st.sampled_from(ALGORITHMS)), data.draw(st.sampled_from(MODES))
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=3, max_size=5)))
    layout = data.draw(st.sampled_from(LAYOUTS))
    if lib.backend == "cuda" and layout not in ("NCHW", "NHWC"):
        return  # cuDNN 9.19 returns success and computes only a part: the face refuses these
    strides = layouts(shape)[layout]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = rounded(rng.standard_normal(shape), DataType.FLOAT)
    y = Operand(lib, values, strides)
    if not forward(lib, handle, algorithm, mode, y, y):
        return
    assert_close(y.read(), expected(values, algorithm, mode), DataType.FLOAT)
    dy_values = rounded(rng.standard_normal(shape), DataType.FLOAT)
    dx = Operand(lib, dy_values, strides)
    if backward(lib, handle, algorithm, mode, (y, dx, dx)):
        assert_close(dx.read(), gradient(values, dy_values, algorithm, mode), DataType.FLOAT, 64)


def test_m6_logits_that_underflow_a_probability(lib: CLibrary, handle) -> None:
    values = np.array([0.0, 200.0]).reshape(1, 2, 1, 1)
    wanted = {ACCURATE: [0.0, 1.0], LOG: [-200.0, 0.0], FAST: [0.0, np.nan]}
    for algorithm, want in wanted.items():
        x, y = Operand(lib, values), Operand(lib, values)
        assert forward(lib, handle, algorithm, CHANNEL, x, y)
        assert_close(y.read().ravel(), want, DataType.FLOAT)


def test_rows_without_a_largest_number(lib: CLibrary, handle) -> None:
    values = np.array([[np.nan, 1, 2], [np.inf, 1, 1], [-np.inf] * 3]).reshape(3, 3, 1, 1)
    for algorithm, last in ((ACCURATE, 0.0), (LOG, -np.inf)):
        x, y = Operand(lib, values), Operand(lib, values)
        assert forward(lib, handle, algorithm, INSTANCE, x, y)
        got = y.read().reshape(3, 3)
        assert np.isnan(got[:2]).all()
        np.testing.assert_array_equal(got[2], [last] * 3)


def test_int8_forward(lib: CLibrary, handle) -> None:
    x = Operand(lib, np.array([-100, 100]).reshape(1, 2, 1, 1), data_type=DataType.INT8)
    y = Operand(lib, np.full((1, 2, 1, 1), 5), data_type=DataType.INT8)
    assert forward(lib, handle, ACCURATE, INSTANCE, x, y)
    np.testing.assert_array_equal(y.read().ravel(), [0, 1])


def test_refusals(lib: CLibrary, handle) -> None:
    shape, one, zero = (2, 3, 2, 2), lib.scalar(1), lib.scalar(0)
    x, y = Operand(lib, np.ones(shape)), Operand(lib, np.full(shape, 5))

    def status(x: Operand, y: Operand, algorithm: int = 1, mode: int = 0) -> int:
        return lib.cudnnSoftmaxForward(
            *(handle, algorithm, mode, one, *x.arguments, zero, *y.arguments)
        )

    assert status(x, y, algorithm=3) == Status.BAD_PARAM
    assert status(x, y, mode=2) == Status.BAD_PARAM
    assert status(x, Operand(lib, np.ones((2, 3, 4, 1)))) == Status.BAD_PARAM
    assert status(x, Operand(lib, np.ones(shape), data_type=DataType.HALF)) == Status.BAD_PARAM
    matrix = Operand(lib, np.ones((2, 3)))
    assert status(matrix, matrix) == Status.BAD_PARAM
    integers = Operand(lib, np.ones(shape), data_type=DataType.INT32)
    assert status(integers, integers) == Status.NOT_SUPPORTED
    assert (y.read() == 5).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_pairs_of_layouts(rng, algorithm, mode) -> None:
    """Of the reference alone: cuDNN 9.19 returns success and may write y with the strides of x."""
    lib, shape = CLibrary("reference"), (2, 3, 4, 5)
    handle = lib.create("")
    for first, second in itertools.permutations(LAYOUTS, 2):
        values = rounded(rng.standard_normal(shape), DataType.FLOAT)
        x = Operand(lib, values, layouts(shape)[first])
        y = Operand(lib, np.full(shape, np.nan), layouts(shape)[second])
        assert forward(lib, handle, algorithm, mode, x, y)
        assert_close(y.read(), expected(values, algorithm, mode), DataType.FLOAT)
