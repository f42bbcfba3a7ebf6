"""Dropout: the mask's statistics, its reserve space, and what a seed repeats."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from c_library import LAYOUTS, CLibrary, Memory, Operand, assert_close, layouts, rounded

from pycudnn.abi.cudnn_enums import DataType, Status

FLOATING = [DataType.FLOAT, DataType.DOUBLE, DataType.HALF]


class Dropout:
    """A descriptor with memory for its generator."""

    def __init__(self, lib: CLibrary, handle, probability: float, seed: int = 1) -> None:
        size = ctypes.c_size_t()
        lib.check("cudnnDropoutGetStatesSize", handle, ctypes.byref(size))
        self.lib, self.handle, self.size = lib, handle, size.value
        self.states = Memory(lib, np.zeros(self.size, np.uint8))
        self.descriptor = lib.create("Dropout")
        lib.check(
            "cudnnSetDropoutDescriptor",
            *(self.descriptor, handle, probability, self.states.address, self.size, seed),
        )

    def forward(self, x: Operand, y: Operand) -> Memory:
        size = ctypes.c_size_t()
        self.lib.check("cudnnDropoutGetReserveSpaceSize", x.descriptor, ctypes.byref(size))
        reserve = Memory(self.lib, np.zeros(size.value, np.uint8))
        self.lib.check(
            "cudnnDropoutForward",
            *(self.handle, self.descriptor, *x.arguments, *y.arguments),
            *(reserve.address, size.value),
        )
        self.reserve_size = size.value
        return reserve

    def backward(self, dy: Operand, dx: Operand, reserve: Memory) -> None:
        self.lib.check(
            "cudnnDropoutBackward",
            *(self.handle, self.descriptor, *dy.arguments, *dx.arguments),
            *(reserve.address, self.reserve_size),
        )

    def mask(self, count: int = 1000) -> np.ndarray:
        """Which of `count` ones the next forward call keeps."""
        ones = Operand(self.lib, np.ones((1, 1, 1, count)))
        y = Operand(self.lib, np.full((1, 1, 1, count), np.nan))
        self.forward(ones, y)
        return y.read().ravel() != 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
def test_forward_scales_what_it_keeps_and_backward_uses_its_mask(
    lib: CLibrary, handle, rng, data_type: DataType, layout: str
) -> None:
    shape, probability = (3, 5, 4, 7), 0.25
    values = rounded(1 + rng.random(shape), data_type)
    dropout = Dropout(lib, handle, probability)
    x = Operand(lib, values, layouts(shape)[layout], data_type)
    y = Operand(lib, np.full(shape, np.nan), layouts(shape)[layout], data_type)
    reserve = dropout.forward(x, y)
    kept = y.read() != 0
    assert 0 < kept.sum() < kept.size
    assert_close(y.read(), kept * values / (1 - probability), data_type)
    gradient = rounded(rng.standard_normal(shape), data_type)
    dy = Operand(lib, gradient, layouts(shape)[layout], data_type)
    dropout.backward(dy, dy, reserve)  # in place
    assert_close(dy.read(), kept * gradient / (1 - probability), data_type)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_share_of_dropped_elements(lib: CLibrary, handle, probability: float) -> None:
    count = 100_000
    dropped = 1 - Dropout(lib, handle, probability, seed=7).mask(count).mean()
    deviation = math.sqrt(probability * (1 - probability) / count)
    assert abs(dropped - probability) < 5 * deviation


def test_r10_seeds_calls_and_restored_states(lib: CLibrary, handle) -> None:
    first, twin = Dropout(lib, handle, 0.5, seed=3), Dropout(lib, handle, 0.5, seed=3)
    masks = [first.mask() for _ in range(4)]
    for mask in masks[:2]:
        np.testing.assert_array_equal(twin.mask(), mask)
    for one, other in zip(masks, masks[1:], strict=False):
        assert 300 < (one != other).sum() < 700, "each call draws anew, independently"
    assert (Dropout(lib, handle, 0.5, seed=4).mask() != masks[0]).any()

    restored = lib.create("Dropout")
    lib.check(
        "cudnnRestoreDropoutDescriptor",
        *(restored, handle, 0.5, twin.states.address, twin.size, 3),
    )
    twin.descriptor = restored
    for mask in masks[2:]:
        np.testing.assert_array_equal(twin.mask(), mask)


def test_probabilities_0_and_1(lib: CLibrary, handle) -> None:
    values = np.arange(1.0, 9).reshape(1, 2, 2, 2)
    for probability, want in ((0.0, values), (1.0, 0 * values)):
        x, y = Operand(lib, values), Operand(lib, np.full((1, 2, 2, 2), np.nan))
        dropout = Dropout(lib, handle, probability)
        reserve = dropout.forward(x, y)
        np.testing.assert_array_equal(y.read(), want)
        dropout.backward(x, y, reserve)
        np.testing.assert_array_equal(y.read(), want)


def test_a_dropped_infinity_or_nan_is_0(lib: CLibrary, handle) -> None:
    x = Operand(lib, np.array([np.nan, np.inf] * 64).reshape(1, 1, 1, 128))
    y = Operand(lib, np.ones((1, 1, 1, 128)))
    Dropout(lib, handle, 0.5).forward(x, y)
    got = y.read().ravel()
    assert (got == 0).any()
    assert (np.isnan(got) | np.isinf(got) | (got == 0)).all()


def test_get_returns_what_was_set(lib: CLibrary, handle) -> None:
    dropout = Dropout(lib, handle, 0.25, seed=2**63 + 5)

    def read() -> tuple:
        values = ctypes.c_float(), ctypes.c_void_p(), ctypes.c_ulonglong()
        lib.check(
            "cudnnGetDropoutDescriptor", dropout.descriptor, handle, *map(ctypes.byref, values)
        )
        return tuple(v.value for v in values)

    assert read() == (0.25, dropout.states.address, 2**63 + 5)
    # without states the old ones stay, with the generator as it is
    lib.check("cudnnSetDropoutDescriptor", dropout.descriptor, handle, 0.5, None, 0, 1)
    assert read() == (0.5, dropout.states.address, 1)


def test_refusals(lib: CLibrary, handle) -> None:
    dropout = Dropout(lib, handle, 0.5)
    descriptor, states, size = dropout.descriptor, dropout.states.address, dropout.size
    for function in (lib.cudnnSetDropoutDescriptor, lib.cudnnRestoreDropoutDescriptor):
        assert function(descriptor, handle, 0.5, states, size - 1, 1) == Status.BAD_PARAM
    assert lib.cudnnRestoreDropoutDescriptor(descriptor, handle, 0.5, None, 0, 1) == 2000
    if lib.backend == "reference":  # the real one takes any number
        for probability in (-0.1, 1.5, math.nan):
            status = lib.cudnnSetDropoutDescriptor(descriptor, handle, probability, states, size, 1)
            assert status == Status.BAD_PARAM
            assert "must be in [0, 1]" in lib.last_error()

    shape = (1, 2, 2, 2)
    x, y = Operand(lib, np.ones(shape)), Operand(lib, np.full(shape, 5))
    reserve = Memory(lib, np.zeros(8, np.uint8))

    def forward(
        x: Operand, y: Operand, address: int | None = reserve.address, size: int = 4
    ) -> int:
        return lib.cudnnDropoutForward(
            *(handle, descriptor, *x.arguments, *y.arguments, address, size)
        )

    assert forward(x, y, size=3) == Status.BAD_PARAM
    assert forward(x, y, address=None) == Status.BAD_PARAM
    assert forward(x, Operand(lib, np.ones((1, 2, 4, 2)))) == Status.BAD_PARAM
    assert forward(x, Operand(lib, np.ones(shape), data_type=DataType.HALF)) == Status.BAD_PARAM
    for data_type in (DataType.BFLOAT16, DataType.INT8, DataType.INT32):
        operand = Operand(lib, np.ones(shape), data_type=data_type)
        assert forward(operand, operand) == Status.NOT_SUPPORTED
    assert (y.read() == 5).all()


def test_without_states_there_is_no_mask(lib: CLibrary, handle) -> None:
    descriptor = lib.create("Dropout")
    lib.check("cudnnSetDropoutDescriptor", descriptor, handle, 0.5, None, 0, 1)
    x, reserve = Operand(lib, np.ones((1, 2, 2, 2))), Memory(lib, np.zeros(4, np.uint8))
    status = lib.cudnnDropoutForward(
        *(handle, descriptor, *x.arguments, *x.arguments, reserve.address, 4)
    )
    assert status == Status.BAD_PARAM
    assert (x.read() == 1).all()


def test_equal_size_is_enough(lib: CLibrary, handle) -> None:
    values = np.arange(1.0, 9)
    x, y = Operand(lib, values.reshape(1, 2, 2, 2)), Operand(lib, np.zeros((1, 2, 4, 1)))
    Dropout(lib, handle, 0.5).forward(x, y)
    got = y.read().ravel()
    np.testing.assert_array_equal(got[got != 0], 2 * values[got != 0])
