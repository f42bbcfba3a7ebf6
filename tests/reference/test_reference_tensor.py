"""AddTensor, SetTensor, ScaleTensor, TransformTensor against float64 loops written here."""

from __future__ import annotations

import itertools

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

from pycudnn.abi.cudnn_enums import DataType, Status

FORWARD = [*FLOATING, DataType.INT8]


def add_expected(a: np.ndarray, c: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """Element by element."""
    out = np.empty(c.shape)
    for index in np.ndindex(c.shape):
        repeated = tuple(min(i, n - 1) for i, n in zip(index, a.shape, strict=True))
        out[index] = alpha * a[repeated] + (beta * c[index] if beta else 0.0)
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
def test_add_tensor(lib: CLibrary, handle, rng, data_type: DataType, layout: str) -> None:
    shape = (3, 4, 2, 5)
    for a_shape, (alpha, beta) in itertools.product(
        [(1, 4, 1, 1), (3, 1, 1, 1), (1, 1, 2, 5), (1, 1, 1, 1), shape], [*SCALES, (1.0, 1.0)]
    ):
        bias = rounded(rng.standard_normal(a_shape), data_type)
        old = rounded(before(rng, shape, beta), data_type)
        a = Operand(lib, bias, data_type=data_type)
        c = Operand(lib, old, layouts(shape)[layout], data_type)
        factors = lib.scalar(alpha, data_type), lib.scalar(beta, data_type)
        if lib.supports(
            "cudnnAddTensor", handle, factors[0], *a.arguments, factors[1], *c.arguments
        ):
            assert_close(c.read(), add_expected(bias, old, alpha, beta), data_type)


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_add_tensor_any_shape(lib: CLibrary, handle, data) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=4, max_size=5)))
    a_shape = tuple(data.draw(st.sampled_from([1, n])) for n in shape)
    layout = data.draw(st.sampled_from(LAYOUTS))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    bias, old = (rounded(rng.standard_normal(s), DataType.FLOAT) for s in (a_shape, shape))
    a, c = Operand(lib, bias, layouts(a_shape)[layout]), Operand(lib, old, layouts(shape)[layout])
    alpha, beta = lib.scalar(0.75), lib.scalar(1.0)
    if lib.supports("cudnnAddTensor", handle, alpha, *a.arguments, beta, *c.arguments):
        assert_close(c.read(), add_expected(bias, old, 0.75, 1.0), DataType.FLOAT)


def test_d8_half_bias(lib: CLibrary, handle, rng) -> None:
    for n in range(1, 9):
        bias, old = rng.standard_normal((1, 512, 1, 1)), rng.standard_normal((n, 512, 28, 28))
        a, c = (Operand(lib, values, data_type=DataType.HALF) for values in (bias, old))
        one = lib.scalar(1)
        lib.check("cudnnAddTensor", handle, one, *a.arguments, one, *c.arguments)
        assert np.abs(c.read() - (bias + old)).max() < 1e-2


def test_add_tensor_refuses(lib: CLibrary, handle) -> None:
    half = DataType.HALF
    for a_shape, c_shape, a_type, c_type, status in [
        ((1, 2, 1, 1), (2, 3, 2, 2), 0, 0, Status.BAD_PARAM),
        ((2, 3, 2, 2), (1, 3, 1, 1), 0, 0, Status.BAD_PARAM),
        ((3, 2, 2), (2, 3, 2, 2), 0, 0, Status.BAD_PARAM),
        ((1, 3, 1, 1), (2, 3, 2, 2), half, 0, Status.BAD_PARAM),
        ((1, 3, 1, 1), (2, 3, 2, 2), 4, 4, Status.NOT_SUPPORTED),
        ((2, 1, 1, 1, 1, 1), (2, 3, 1, 1, 1, 1), 0, 0, Status.NOT_SUPPORTED),
    ]:
        a = Operand(lib, np.ones(a_shape), data_type=DataType(a_type))
        c = Operand(lib, np.ones(c_shape), data_type=DataType(c_type))
        one = lib.scalar(1)
        got = lib.cudnnAddTensor(handle, one, *a.arguments, one, *c.arguments)
        assert got == status, (a_shape, c_shape)
        assert (c.read() == 1).all(), "a refused call writes nothing"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FORWARD)
def test_set_and_scale(lib: CLibrary, handle, data_type: DataType, layout: str) -> None:
    shape = (2, 3, 4, 5)
    values = np.arange(-60, 60).reshape(shape) / (1 if data_type == DataType.INT8 else 8)
    y = Operand(lib, values, layouts(shape)[layout], data_type)
    if lib.supports("cudnnScaleTensor", handle, *y.arguments, lib.scalar(2.5, data_type)):
        if data_type == DataType.INT8:  # to nearest, ties to even, like Python's round
            want = np.array([min(max(round(v), -128), 127) for v in (values * 2.5).flat])
            np.testing.assert_array_equal(y.read(), want.reshape(shape))
        else:
            assert_close(y.read(), values * 2.5, data_type)
    # Whatever the type of the tensor, the value is a C float, and a double for double.
    if lib.supports("cudnnSetTensor", handle, *y.arguments, lib.scalar(7.25, data_type)):
        want = 7 if data_type == DataType.INT8 else 7.25
        np.testing.assert_array_equal(y.read(), np.full(shape, want))


def test_scale_tensor_int8_rounds_to_even_and_saturates(lib: CLibrary, handle) -> None:
    y = Operand(lib, np.array([[[[1, 2, 3, -3, 100, -100]]]]), data_type=DataType.INT8)
    lib.check("cudnnScaleTensor", handle, *y.arguments, lib.scalar(1.5))
    np.testing.assert_array_equal(y.read().ravel(), [2, 3, 4, -4, 127, -128])


@pytest.mark.parametrize("data_type", [DataType.INT32, DataType.UINT8])
def test_set_and_scale_refuse_integers(lib: CLibrary, handle, data_type: DataType) -> None:
    y, one = Operand(lib, np.full((1, 1, 2, 2), 3), data_type=data_type), lib.scalar(1)
    assert lib.cudnnSetTensor(handle, *y.arguments, one) == Status.NOT_SUPPORTED
    assert lib.cudnnScaleTensor(handle, *y.arguments, one) == Status.NOT_SUPPORTED
    assert (y.read() == 3).all()


@pytest.mark.parametrize(("x_layout", "y_layout"), list(itertools.permutations(LAYOUTS, 2)))
@pytest.mark.parametrize("data_type", FLOATING)
def test_transform_layout(
    lib: CLibrary, handle, rng, data_type: DataType, x_layout: str, y_layout: str
) -> None:
    shape = (2, 3, 4, 5)
    for alpha, beta in SCALES:
        values = rounded(rng.standard_normal(shape), data_type)
        old = rounded(before(rng, shape, beta), data_type)
        x = Operand(lib, values, layouts(shape)[x_layout], data_type)
        y = Operand(lib, old, layouts(shape)[y_layout], data_type)
        factors = lib.scalar(alpha, data_type), lib.scalar(beta, data_type)
        if lib.supports(
            "cudnnTransformTensor", handle, factors[0], *x.arguments, factors[1], *y.arguments
        ):
            assert_close(y.read(), blended(values, alpha, beta, old), data_type)


@pytest.mark.parametrize(("x_type", "y_type"), list(itertools.product(FORWARD, FORWARD)))
def test_transform_data_type(
    lib: CLibrary, handle, rng, x_type: DataType, y_type: DataType
) -> None:
    shape = (2, 3, 4, 5)
    values = np.rint(rng.uniform(-80, 80, shape))
    if DataType.INT8 not in (x_type, y_type):
        values = rounded(values / 64, x_type)
    x = Operand(lib, values, data_type=x_type)
    y = Operand(lib, np.zeros(shape), layouts(shape)["NHWC"], y_type)
    # alpha and beta have the type that goes with x
    factors = lib.scalar(1.5, x_type), lib.scalar(0, x_type)
    status = lib.cudnnTransformTensor(handle, factors[0], *x.arguments, factors[1], *y.arguments)
    if {x_type, y_type} == {DataType.HALF, DataType.BFLOAT16}:
        assert status == Status.NOT_SUPPORTED
        return
    if (
        y_type == DataType.DOUBLE != x_type
    ):  # cuDNN 9.19 returns success and zeros or denormals, whatever the type of alpha
        assert lib.backend == "cuda" or status == Status.NOT_SUPPORTED
        return
    assert status == 0
    want = 1.5 * values
    if y_type == DataType.INT8:
        np.testing.assert_array_equal(y.read(), np.rint(want))
    else:
        assert_close(y.read(), want, y_type)


def test_transform_into_int8_saturates_and_takes_nan_as_0(lib: CLibrary, handle) -> None:
    x = Operand(lib, np.array([[[[1.5, 2.5, -2.5, 300, -300, np.nan, 1e10]]]]))
    y = Operand(lib, np.ones((1, 1, 1, 7)), data_type=DataType.INT8)
    one, zero = lib.scalar(1), lib.scalar(0)
    lib.check("cudnnTransformTensor", handle, one, *x.arguments, zero, *y.arguments)
    np.testing.assert_array_equal(y.read().ravel(), [2, 2, -2, 127, -128, 0, 127])


def test_transform_refuses(lib: CLibrary, handle) -> None:
    x, one = Operand(lib, np.ones((1, 2, 3, 4))), lib.scalar(1)
    for shape, data_type, status in [
        ((1, 2, 4, 3), DataType.FLOAT, Status.BAD_PARAM),
        ((1, 2, 12), DataType.FLOAT, Status.BAD_PARAM),
        ((1, 2, 3, 4), DataType.INT32, Status.NOT_SUPPORTED),
        ((1, 2, 3, 4), DataType.UINT8, Status.NOT_SUPPORTED),
    ]:
        y = Operand(lib, np.full(shape, 5), data_type=data_type)
        got = lib.cudnnTransformTensor(handle, one, *x.arguments, one, *y.arguments)
        assert got == status
        assert (y.read() == 5).all()


def test_null_data_and_scale_factors_are_refused(lib: CLibrary, handle) -> None:
    x, one = Operand(lib, np.ones((1, 2, 3, 4))), lib.scalar(1)
    for status in (
        lib.cudnnAddTensor(handle, None, *x.arguments, one, *x.arguments),
        lib.cudnnAddTensor(handle, one, x.descriptor, None, one, *x.arguments),
        lib.cudnnSetTensor(handle, *x.arguments, None),
        lib.cudnnScaleTensor(handle, x.descriptor, None, one),
        lib.cudnnTransformTensor(handle, one, *x.arguments, one, x.descriptor, None),
    ):
        assert status == Status.BAD_PARAM
    if lib.backend == "reference":
        assert lib.last_error() == "y is NULL"
    assert (x.read() == 1).all()


def test_descriptors_that_were_not_set_are_refused(lib: CLibrary, handle) -> None:
    x, one, empty = Operand(lib, np.ones((1, 2, 3, 4))), lib.scalar(1), lib.create("Tensor")
    status = lib.cudnnAddTensor(handle, one, empty, x.address, one, empty, x.address)
    assert status == Status.BAD_PARAM
    status = lib.cudnnTransformTensor(handle, one, empty, x.address, one, empty, x.address)
    assert status == Status.BAD_PARAM
    assert (x.read() == 1).all()


def test_negative_strides_are_refused() -> None:
    """The real library takes them; whether it then reads before the tensor is not for us to try."""
    lib = CLibrary("reference")
    handle, one = lib.create(""), lib.scalar(1)
    x = Operand(lib, np.ones((1, 2, 3, 4)))
    backward = lib.tensor((1, 2, 3, 4), (24, 12, -4, 1), DataType.FLOAT)
    status = lib.cudnnScaleTensor(handle, backward, x.address + 32, one)
    assert status == Status.NOT_SUPPORTED
    assert "negative stride" in lib.last_error()
