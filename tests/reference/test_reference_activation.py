"""Activations against float64 formulas, their gradients against central differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

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

from pycudnn.abi.cudnn_enums import ActivationMode, DataType, NanPropagation, Status

COEFFICIENT, SWISH_BETA = 0.75, 1.5
PROPAGATE, NOT_PROPAGATE = NanPropagation.PROPAGATE_NAN, NanPropagation.NOT_PROPAGATE_NAN

SCALAR: dict[ActivationMode, Callable[[float], float]] = {
    ActivationMode.SIGMOID: lambda x: 0.5 + 0.5 * math.tanh(x / 2),
    ActivationMode.RELU: lambda x: x if x > 0 else 0.0,
    ActivationMode.TANH: lambda x: 1 - 2 / (math.exp(2 * x) + 1),
    ActivationMode.CLIPPED_RELU: lambda x: sorted([0.0, x, COEFFICIENT])[1],
    ActivationMode.ELU: lambda x: x if x > 0 else COEFFICIENT * (math.exp(x) - 1),
    ActivationMode.SWISH: lambda x: x / (1 + math.exp(-SWISH_BETA * x)),
}
MODES = list(SCALAR)


def expected(mode: ActivationMode, x: np.ndarray) -> np.ndarray:
    return np.array([SCALAR[mode](float(v)) for v in x.flat]).reshape(x.shape)


def slope(mode: ActivationMode, x: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """The derivative by central differences of fourth order: right to about 1e-12."""

    def difference(h: float) -> np.ndarray:
        return (expected(mode, x + h) - expected(mode, x - h)) / (2 * h)

    return (4 * difference(step) - difference(2 * step)) / 3


# Units that a gradient may be off by: for doubles it is the difference that is inexact, in half
# types the stored y.
GRADIENT_ULPS = {
    DataType.FLOAT: 32,
    DataType.DOUBLE: 2**16,
    DataType.HALF: 3,
    DataType.BFLOAT16: 3,
}


def away_from_kinks(x: np.ndarray) -> np.ndarray:
    """No value at a corner of a rectifier, where there is no derivative."""
    return np.where(np.minimum(abs(x), abs(x - COEFFICIENT)) < 0.02, x + 0.05, x)


def activation(lib: CLibrary, mode: int, nan: int = PROPAGATE, coefficient: float = COEFFICIENT):
    descriptor = lib.create("Activation")
    lib.check("cudnnSetActivationDescriptor", descriptor, mode, nan, coefficient)
    lib.check("cudnnSetActivationDescriptorSwishBeta", descriptor, SWISH_BETA)
    return descriptor


def forward(lib: CLibrary, handle, descriptor, x: Operand, y: Operand, alpha=1.0, beta=0.0) -> bool:
    factors = lib.scalar(alpha, y.data_type), lib.scalar(beta, y.data_type)
    return lib.supports(
        "cudnnActivationForward",
        *(handle, descriptor, factors[0], *x.arguments, factors[1], *y.arguments),
    )


def backward(
    lib: CLibrary, handle, descriptor, operands: tuple[Operand, ...], alpha=1.0, beta=0.0
) -> bool:
    y, dy, x, dx = operands
    factors = lib.scalar(alpha, dx.data_type), lib.scalar(beta, dx.data_type)
    inputs = *y.arguments, *dy.arguments, *x.arguments
    return lib.supports(
        "cudnnActivationBackward",
        *(handle, descriptor, factors[0], *inputs, factors[1], *dx.arguments),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("mode", MODES)
def test_forward(lib: CLibrary, handle, rng, mode, data_type, layout) -> None:
    shape = (2, 3, 4, 5)
    for alpha, beta in SCALES:
        values = rounded(3 * rng.standard_normal(shape), data_type)
        old = rounded(before(rng, shape, beta), data_type)
        x = Operand(lib, values, layouts(shape)[layout], data_type)
        y = Operand(lib, old, layouts(shape)["NCHW"], data_type)
        if forward(lib, handle, activation(lib, mode), x, y, alpha, beta):
            assert_close(y.read(), blended(expected(mode, values), alpha, beta, old), data_type)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("mode", MODES)
def test_backward(lib: CLibrary, handle, rng, mode, data_type, layout) -> None:
    shape = (2, 3, 4, 5)
    strides = layouts(shape)[layout]
    for alpha, beta in SCALES:
        values = rounded(away_from_kinks(3 * rng.standard_normal(shape)), data_type)
        gradient = rounded(rng.standard_normal(shape), data_type)
        old = rounded(before(rng, shape, beta), data_type)
        y = Operand(lib, expected(mode, values), strides, data_type)
        dy, x, dx = (Operand(lib, v, strides, data_type) for v in (gradient, values, old))
        if backward(lib, handle, activation(lib, mode), (y, dy, x, dx), alpha, beta):
            want = blended(gradient * slope(mode, values), alpha, beta, old)
            assert_close(dx.read(), want, data_type, GRADIENT_ULPS[data_type])


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_shape_in_place(lib: CLibrary, handle, data) -> None:
    mode = data.draw(st.sampled_from(MODES))
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=3, max_size=5)))
    strides = layouts(shape)[data.draw(st.sampled_from(LAYOUTS))]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = rounded(away_from_kinks(rng.standard_normal(shape)), DataType.FLOAT)
    gradient = rounded(rng.standard_normal(shape), DataType.FLOAT)
    descriptor = activation(lib, mode)
    x, y = Operand(lib, values, strides), Operand(lib, values, strides)
    if not forward(lib, handle, descriptor, y, y):
        return
    assert_close(y.read(), expected(mode, values), DataType.FLOAT)
    dx = Operand(lib, gradient, strides)
    if backward(lib, handle, descriptor, (y, dx, x, dx)):
        assert_close(dx.read(), gradient * slope(mode, values), DataType.FLOAT, 64)


def test_nan_propagation(lib: CLibrary, handle) -> None:
    values = np.array([[[[np.nan, -1.0, 2.0, np.inf, -np.inf]]]])
    for mode, top in ((ActivationMode.RELU, np.inf), (ActivationMode.CLIPPED_RELU, 3.0)):
        for nan, first in ((PROPAGATE, np.nan), (NOT_PROPAGATE, 0.0)):
            x, y = Operand(lib, values), Operand(lib, values)
            assert forward(lib, handle, activation(lib, mode, nan, 3.0), x, y)
            np.testing.assert_array_equal(y.read().ravel(), [first, 0, 2, top, 0])
    for mode in (
        ActivationMode.SIGMOID,
        ActivationMode.TANH,
        ActivationMode.ELU,
        ActivationMode.SWISH,
    ):
        x, y = Operand(lib, values), Operand(lib, values)
        assert forward(lib, handle, activation(lib, mode, NOT_PROPAGATE), x, y)
        assert np.isnan(y.read().ravel()[0])


def test_gradients_that_are_not_kept_leave_no_trace(lib: CLibrary, handle) -> None:
    x = Operand(lib, np.array([[[[-1.0, 0.0, 1.0, np.nan]]]]))
    dy = Operand(lib, np.array([[[[np.inf, np.nan, np.nan, 5.0]]]]))
    dx = Operand(lib, np.full((1, 1, 1, 4), np.nan))
    assert backward(lib, handle, activation(lib, ActivationMode.RELU), (x, dy, x, dx))
    np.testing.assert_array_equal(dx.read().ravel(), [0, 0, np.nan, 0])


def test_which_operand_decides_the_gradient(lib: CLibrary, handle) -> None:
    """As measured on cuDNN 9.19 with an x and a y that do not belong together."""
    x, y = np.array([-1.0, 1.0, 0.5, 0.5]), np.array([0.5, -0.5, 0.25, -0.25])
    wanted = {
        ActivationMode.RELU: x > 0,
        ActivationMode.CLIPPED_RELU: (x > 0) & (x < COEFFICIENT),
        ActivationMode.SIGMOID: y * (1 - y),
        ActivationMode.TANH: 1 - y**2,
        ActivationMode.ELU: np.where(y < 0, y + COEFFICIENT, 1.0),
    }
    for mode, want in wanted.items():
        operands = [Operand(lib, v.reshape(1, 1, 1, 4)) for v in (y, np.ones(4), x, np.zeros(4))]
        assert backward(lib, handle, activation(lib, mode), tuple(operands))
        assert_close(operands[3].read().ravel(), want, DataType.FLOAT)


def test_int8_forward(lib: CLibrary, handle) -> None:
    x = Operand(lib, np.array([[[[-3, 2, 0]]]]), data_type=DataType.INT8)
    for mode, want in ((ActivationMode.RELU, [0, 2, 0]), (ActivationMode.TANH, [-1, 1, 0])):
        y = Operand(lib, np.zeros((1, 1, 1, 3)), data_type=DataType.INT8)
        assert forward(lib, handle, activation(lib, mode), x, y)
        np.testing.assert_array_equal(y.read().ravel(), want)


def test_refusals(lib: CLibrary, handle) -> None:
    def status(x: Operand, y: Operand, descriptor=None, address: int | None = None) -> int:
        descriptor = descriptor or activation(lib, ActivationMode.RELU)
        one, zero = lib.scalar(1), lib.scalar(0)
        target = y.address if address is None else address
        return lib.cudnnActivationForward(
            *(handle, descriptor, one, *x.arguments, zero, y.descriptor, target)
        )

    shape = (2, 2, 3, 4)
    x, y = Operand(lib, np.ones(shape)), Operand(lib, np.full(shape, 5))
    channels_last = Operand(lib, np.full(shape, 5), layouts(shape)["NHWC"])
    assert status(x, y, activation(lib, ActivationMode.IDENTITY)) == Status.BAD_PARAM
    assert status(x, y, lib.create("Activation")) == Status.BAD_PARAM
    assert status(x, Operand(lib, np.ones((2, 2, 4, 3)))) == Status.BAD_PARAM
    assert status(x, Operand(lib, np.ones(shape), data_type=DataType.HALF)) == Status.BAD_PARAM
    assert status(Operand(lib, np.ones((2, 3))), Operand(lib, np.ones((2, 3)))) == 2000
    assert status(x, channels_last, address=x.address) == Status.BAD_PARAM, "in place"
    for data_type in (DataType.INT32, DataType.UINT8):
        integers = Operand(lib, np.ones(shape), data_type=data_type)
        assert status(integers, integers) == Status.NOT_SUPPORTED
    assert (y.read() == 5).all()
    assert (x.read() == 1).all()


def test_all_pairs_of_layouts(lib: CLibrary, handle, rng) -> None:
    shape = (2, 3, 4, 5)
    for first, second in itertools.permutations(LAYOUTS, 2):
        values = rounded(rng.standard_normal(shape), DataType.FLOAT)
        x = Operand(lib, values, layouts(shape)[first])
        y = Operand(lib, np.full(shape, np.nan), layouts(shape)[second])
        if forward(lib, handle, activation(lib, ActivationMode.TANH), x, y):
            assert_close(y.read(), np.tanh(values), DataType.FLOAT)


@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("mode", MODES)
def test_every_stride_in_place(lib: CLibrary, handle, rng, mode, data_type) -> None:
    """NumPy's loops branch on strides; one of them (np.negative of 2.4) is wrong for some."""
    for count, stride in itertools.product((2, 5, 9), range(1, 18)):
        values = rounded(rng.standard_normal((count, 1, 1)), data_type)
        y = Operand(lib, values, (stride, 1, 1), data_type)
        if forward(lib, handle, activation(lib, mode), y, y):
            assert_close(y.read(), expected(mode, values), data_type)
