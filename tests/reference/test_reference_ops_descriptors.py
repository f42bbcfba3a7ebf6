"""Setters and getters of the smaller descriptors: one status and one answer in both libraries."""

from __future__ import annotations

import ctypes

import pytest
from c_library import CLibrary, ints

pytestmark = pytest.mark.library

# Setter: descriptor kind, getter, good arguments, and values to try for each of them.
NUMBERS = range(-2, 21)
CASES = {
    "cudnnSetOpTensorDescriptor": ("OpTensor", "cudnnGetOpTensorDescriptor", (0, 0, 0)),
    "cudnnSetReduceTensorDescriptor": (
        "ReduceTensor", "cudnnGetReduceTensorDescriptor", (3, 0, 0, 1, 0)
    ),
    "cudnnSetCTCLossDescriptor": ("CTCLoss", "cudnnGetCTCLossDescriptor_v9", (0,)),
    "cudnnSetCTCLossDescriptorEx": ("CTCLoss", "cudnnGetCTCLossDescriptor_v9", (0, 1, 0)),
    "cudnnSetCTCLossDescriptor_v8": ("CTCLoss", "cudnnGetCTCLossDescriptor_v8", (0, 1, 0, 33)),
    "cudnnSetCTCLossDescriptor_v9": ("CTCLoss", "cudnnGetCTCLossDescriptor_v9", (1, 1, 1, 33)),
}  # fmt: skip


@pytest.fixture(scope="module")
def real() -> CLibrary:
    return CLibrary("cuda")


@pytest.fixture(scope="module")
def ours() -> CLibrary:
    return CLibrary("reference")


def answer(lib: CLibrary, setter: str, arguments: tuple[int, ...]) -> tuple:
    """Status of a set, and after success what the getter tells."""
    kind, getter, _ = CASES[setter]
    descriptor = lib.create(kind)
    status = getattr(lib, setter)(descriptor, *arguments)
    values = []
    if status == 0:
        count = len(getattr(lib, getter).argtypes) - 1
        values = [ctypes.c_int(-99) for _ in range(count)]
        lib.check(getter, descriptor, *map(ctypes.byref, values))
    lib.check(f"cudnnDestroy{kind}Descriptor", descriptor)
    return status, [value.value for value in values]


@pytest.mark.parametrize("setter", CASES)
def test_every_number_in_every_place(real: CLibrary, ours: CLibrary, setter: str) -> None:
    _, _, good = CASES[setter]
    for place in range(len(good)):
        for number in NUMBERS:
            arguments = (*good[:place], number, *good[place + 1 :])
            assert answer(ours, setter, arguments) == answer(real, setter, arguments), arguments
    assert answer(ours, setter, good)[0] == 0


def test_spatial_transformers(real: CLibrary, ours: CLibrary) -> None:
    """Up to 8 dimensions: past them the real library overruns its descriptor."""
    for sampler in range(-1, 3):
        for data_type in NUMBERS:
            for count in (-1, 0, 2, 4, 5, 8):
                statuses = []
                for lib in (real, ours):
                    descriptor = lib.create("SpatialTransformer")
                    statuses.append(
                        lib.cudnnSetSpatialTransformerNdDescriptor(
                            descriptor, sampler, data_type, count, ints(*[1] * 8)
                        )
                    )
                assert statuses[0] == statuses[1], (sampler, data_type, count)


@pytest.mark.parametrize("setter", CASES)
def test_nothing_and_strangers(ours: CLibrary, setter: str) -> None:
    kind, getter, good = CASES[setter]
    nothing = type(ours.create(kind))()
    assert getattr(ours, setter)(nothing, *good) == 2000
    gone = ours.create(kind)
    ours.check(f"cudnnDestroy{kind}Descriptor", gone)
    assert getattr(ours, setter)(gone, *good) == 2000
