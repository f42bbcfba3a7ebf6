"""Sequence data descriptors, on the reference library and on the real one."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from pycudnn import cudnn
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn import SeqDataAxis
from pycudnn.libraries import get_library

TIME, BATCH, BEAM, VECT = SeqDataAxis
SHAPE = (6, 3, 2, 5)


def test_settings_are_read_back(library):
    lengths = (6, 5, 4, 3, 2, 1)
    desc = cudnn.SeqDataDescriptor(
        SHAPE, "float64", axes=(BATCH, BEAM, TIME, VECT), seq_lengths=lengths, padding_fill=-7,
        library=library,
    )  # fmt: skip
    assert desc.axes == (BATCH, BEAM, TIME, VECT)
    assert desc.seq_lengths == lengths
    assert desc.padding_fill == -7
    assert desc.dtype == np.float64
    assert (desc.shape, desc.extent) == (SHAPE, 6 * 3 * 2 * 5 * 8)
    assert "axes=(BATCH_DIM, BEAM_DIM, TIME_DIM, VECT_DIM)" in repr(desc)


def test_defaults(library):
    desc = cudnn.SeqDataDescriptor(SHAPE, library=library)
    assert desc.axes == (TIME, BATCH, BEAM, VECT)
    assert desc.seq_lengths == (6,) * 6
    assert desc.padding_fill is None
    assert desc.dtype == np.float32


@pytest.mark.parametrize("outer", list(itertools.permutations((TIME, BATCH, BEAM))))
def test_strides_follow_the_axes(library, outer):
    desc = cudnn.SeqDataDescriptor(SHAPE, axes=(*outer, VECT), library=library)
    memory = np.empty([SHAPE[axis] for axis in (*outer, VECT)], np.float32)
    by_axis = memory.transpose(np.argsort((*outer, VECT)))
    assert desc.strides == tuple(step // 4 for step in by_axis.strides)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_padding_fill_is_stored_in_the_data_type(library, dtype):
    desc = cudnn.SeqDataDescriptor(SHAPE, dtype, padding_fill=1.5, library=library)
    assert desc.padding_fill == 1.5


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"shape": (6, 3, 2)}, ValueError, "shape must be an int or 4 ints"),
        ({"shape": 7}, TypeError, "shape must be 4 ints, got 7"),
        ({"shape": (6, 3, 0, 5)}, ValueError, r"shape\[2\].*got 0"),
        ({"shape": (2**31 - 1,) * 4}, ValueError, "more than memory"),
        ({"dtype": "int8"}, TypeError, "dtype must be one of float32"),
        ({"axes": (0, 1, 2, 2)}, ValueError, "axes must have each SeqDataAxis once"),
        ({"axes": (3, 0, 1, 2)}, ValueError, "VECT_DIM last"),
        ({"axes": (0, 1, 2, 4)}, ValueError, r"axes\[3\] must be a SeqDataAxis"),
        ({"axes": 3}, TypeError, "axes must be 4 SeqDataAxis"),
        ({"seq_lengths": (6,) * 5}, ValueError, "batch x beam = 6 lengths, got 5"),
        ({"seq_lengths": (6, 6, 6, 0, 6, 6)}, ValueError, r"seq_lengths\[3\].*got 0"),
        ({"seq_lengths": (6, 6, 7, 6, 6, 6)}, ValueError, r"seq_lengths\[2\] must be at most 6"),
        ({"seq_lengths": ()}, ValueError, "at least one length"),
        ({"padding_fill": 1e5, "dtype": "float16"}, ValueError, "padding_fill must fit float16"),
    ],
)
def test_bad_sequences_are_refused(library, arguments, error, text):
    with pytest.raises(error, match=text):
        cudnn.SeqDataDescriptor(**{"shape": SHAPE, **arguments}, library=library)


def test_equal_settings_make_equal_descriptors(library):
    first, same = (cudnn.SeqDataDescriptor(SHAPE, library=library) for _ in range(2))
    assert first == same
    assert hash(first) == hash(same)
    assert first != cudnn.SeqDataDescriptor(SHAPE, seq_lengths=[5] * 6, library=library)
    first.close()
    assert repr(first) == "<closed SeqDataDescriptor>"


# ---- statuses of the C functions, equal on both sides --------------------------------------------

SET = {
    "dtype": 0, "ndim": 4, "dims": SHAPE, "axes": (0, 1, 2, 3), "count": 6, "lengths": (6,) * 6,
}  # fmt: skip


def ints(values):
    return (ctypes.c_int * len(values))(*values)


class Descriptor:
    """A C descriptor by its functions."""

    def __init__(self, library):
        self.library = get_library("cudnn", library)
        self.pointer = ctypes_type("cudnnSeqDataDescriptor_t")()
        assert self.call("Create", ctypes.byref(self.pointer), pointer=False) == 0

    def call(self, verb, *arguments, pointer=True):
        function = self.library.function(f"cudnn{verb}SeqDataDescriptor")
        return function(*([self.pointer] if pointer else []), *arguments)

    def set(self, fill=None, **changes):
        values = {**SET, **changes}
        arrays = {name: ints(values[name]) for name in ("dims", "axes", "lengths")}
        return self.call("Set", *{**values, **arrays}.values(), fill)

    def get(self, dims=4, lengths=6):
        dtype, ndim, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
        arrays = [ints([55] * 8) for _ in range(3)]
        fill = (ctypes.c_float * 2)(3, 3)
        status = self.call(
            "Get", ctypes.byref(dtype), ctypes.byref(ndim), dims, *arrays[:2],
            ctypes.byref(count), lengths, arrays[2], fill,
        )  # fmt: skip
        return status, dtype.value, ndim.value, count.value, *map(list, arrays), list(fill)


@pytest.fixture
def descriptor(library):
    made = Descriptor(library)
    yield made
    assert made.call("Destroy") == 0


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"dtype": -1}, 2000),
        *[({"dtype": dtype}, 4000) for dtype in (3, 4, 5, 6, 8, 10, 14)],
        ({"dtype": 9}, 0),
        ({"ndim": 0}, 2000),
        ({"ndim": 3}, 3000),
        ({"ndim": 5}, 3000),
        ({"ndim": 3, "dtype": 3}, 3000),
        ({"dtype": 3, "dims": (0, 1, 1, 1)}, 2000),
        ({"dims": (6, 3, 2, 0)}, 2000),
        ({"dims": (-1, 3, 2, 5)}, 2000),
        ({"axes": (3, 2, 1, 0)}, 2000),
        ({"axes": (0, 1, 2, 2)}, 2000),
        ({"axes": (-1, 1, 2, 3)}, 2000),
        ({"axes": (2, 1, 0, 3)}, 0),
        ({"count": 5}, 2000),
        ({"count": 7}, 2000),
        ({"count": 0}, 2000),
        ({"lengths": (7,) * 6}, 2000),
        ({"lengths": (6, 6, 0, 6, 6, 6)}, 2000),
    ],
)
def test_status_of_a_set(descriptor, changes, status):
    assert descriptor.set(**changes) == status


def test_the_getter_writes_what_was_asked(descriptor):
    assert descriptor.get() == (
        0, 0, 4, 0, [0] * 4 + [55] * 4, [0] * 4 + [55] * 4, [55] * 8, [0, 3],
    )  # fmt: skip
    fill = ctypes.c_float(-7)
    assert descriptor.set(ctypes.byref(fill), lengths=(6, 5, 4, 3, 2, 1)) == 0
    for dims, lengths in ((4, 6), (2, 3), (8, 8), (0, 0)):
        status, dtype, ndim, count, sizes, axes, got, read = descriptor.get(dims, lengths)
        assert (status, dtype, ndim, count, read) == (0, 0, 4, 6, [-7, 3])
        assert sizes == [*SHAPE[:dims], *[55] * 8][:8]
        assert axes == [*(0, 1, 2, 3)[:dims], *[55] * 8][:8]
        assert got == [*(6, 5, 4, 3, 2, 1)[:lengths], *[55] * 8][:8]
    assert descriptor.get(-1)[0] == 2000


def test_a_fill_of_bfloat16_cannot_be_read(descriptor):
    assert descriptor.set(dtype=9) == 0
    assert descriptor.get()[:2] == (4000, 9)


def test_a_failed_set_changes_nothing(descriptor):
    assert descriptor.set() == 0
    before = descriptor.get()
    assert descriptor.set(dims=(6, 3, 2, 9), axes=(3, 2, 1, 0)) == 2000
    assert descriptor.get() == before
