"""The convolution descriptor and its output size, call by call against the real libcudnn.

Left out on purpose, since the real library crashes there or answers at random: NULL out-pointers,
what a failed set leaves behind (there half-written, here unchanged), and sizes that overflow a C
int (there they wrap round, here they are refused).
"""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from c_library import CLibrary, ints, packed
from hypothesis import given, settings
from hypothesis import strategies as st

from pycudnn.abi.cudnn_enums import DataType, Status

CANARY = -77


@pytest.fixture(scope="module")
def real() -> CLibrary:
    return CLibrary("cuda")


@pytest.fixture(scope="module")
def ours() -> CLibrary:
    return CLibrary("reference")


def answer(lib: CLibrary, name: str, *inputs: Any, lengths: tuple[int, ...]) -> tuple:
    """A getter's status, and its out-arrays of int with two canaries behind each."""
    outs = [ints(*[CANARY] * (length + 2)) for length in lengths]
    status = getattr(lib, name)(*inputs, *outs)
    assert all(
        list(out)[length:] == [CANARY] * 2 for out, length in zip(outs, lengths, strict=True)
    )
    return (status, *map(list, outs))


def read_back(lib: CLibrary, conv: Any) -> list[tuple]:
    """All that can be asked of a descriptor."""
    answers = [
        answer(lib, f"cudnnGetConvolution{name}", conv, lengths=(1,))
        for name in ("MathType", "GroupCount", "ReorderType")
    ]
    answers.append(answer(lib, "cudnnGetConvolution2dDescriptor", conv, lengths=(1,) * 8))
    for requested in range(-1, 9):
        name, lengths = "cudnnGetConvolutionNdDescriptor", (1, 6, 6, 6, 1, 1)
        answers.append(answer(lib, name, conv, requested, lengths=lengths))
    return answers


def compare(real: CLibrary, ours: CLibrary, *calls: tuple) -> list[int]:
    """Both libraries give the same statuses to the calls (name, arguments after the descriptor),
    and the same descriptor after them."""
    results = []
    for lib in (real, ours):
        conv = lib.create("Convolution")
        statuses = []
        for name, *arguments in calls:
            statuses.append(getattr(lib, name)(conv, *arguments))
            if statuses[-1]:
                assert lib is real or lib.last_error(), "a failure that explains nothing"
        # A set that failed leaves the real one half-written.
        results.append((statuses, None if any(statuses) else read_back(lib, conv)))
        lib.check("cudnnDestroyConvolutionDescriptor", conv)
    assert results[0] == results[1], calls
    return results[0][0]


many = settings(deadline=None, max_examples=200)
modes = st.sampled_from([0, 1, 0, 1, 0, 1, -1, 2])
compute_types = st.sampled_from([0, 1, 2, 4] * 5 + list(range(-1, 20)))
paddings = st.one_of(st.integers(0, 5), st.integers(0, 5), st.integers(-2, 2**31 - 1))
steps = st.one_of(st.integers(1, 5), st.integers(1, 5), st.integers(-2, 2**31 - 1))


def arrays(elements: st.SearchStrategy[int], size: int = 10) -> st.SearchStrategy[list[int]]:
    return st.lists(elements, min_size=size, max_size=size)


@pytest.mark.library
def test_a_new_descriptor(real: CLibrary, ours: CLibrary) -> None:
    assert compare(real, ours) == []


@pytest.mark.library
@many
@given(arrays(paddings, 2), arrays(steps, 4), modes, compute_types)
def test_set_2d(real: CLibrary, ours: CLibrary, padding, others, mode, compute_type) -> None:
    compare(real, ours, ("cudnnSetConvolution2dDescriptor", *padding, *others, mode, compute_type))


@pytest.mark.library
@many
@given(st.integers(-2, 9), arrays(paddings), arrays(steps), arrays(steps), modes, compute_types)
def test_set_nd(real, ours, count, padding, stride, dilation, mode, compute_type) -> None:
    values = ints(*padding), ints(*stride), ints(*dilation)
    compare(real, ours, ("cudnnSetConvolutionNdDescriptor", count, *values, mode, compute_type))


@pytest.mark.library
@pytest.mark.parametrize("value", [-(2**31), -1, 0, 1, 2, 3, 4, 7, 2**31 - 1])
@pytest.mark.parametrize("name", ["GroupCount", "MathType", "ReorderType"])
def test_single_settings(real: CLibrary, ours: CLibrary, name, value) -> None:
    compare(real, ours, (f"cudnnSetConvolution{name}", value))


@pytest.mark.library
def test_what_a_set_leaves_alone(real: CLibrary, ours: CLibrary) -> None:
    """Groups, math type and reordering outlive a change of the sizes."""
    single = [
        ("cudnnSetConvolutionGroupCount", 4),
        ("cudnnSetConvolutionMathType", 3),
        ("cudnnSetConvolutionReorderType", 1),
    ]
    sizes = ints(1, 2), ints(4, 5), ints(1, 2)
    sets = [
        ("cudnnSetConvolutionNdDescriptor", 2, *sizes, 0, DataType.DOUBLE),
        ("cudnnSetConvolution2dDescriptor", 1, 2, 3, 4, 5, 6, 1, DataType.FLOAT),
    ]
    assert compare(real, ours, *single, *sets) == [0] * 5
    assert compare(real, ours, *sets[::-1], *single) == [0] * 5


@pytest.mark.library
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cudnnSetConvolution2dDescriptor", (0, 0, 1, 1, 1, 1, 1, 0)),
        ("cudnnSetConvolutionGroupCount", (1,)),
        ("cudnnSetConvolutionMathType", (0,)),
        ("cudnnSetConvolutionReorderType", (0,)),
        ("cudnnDestroyConvolutionDescriptor", ()),
    ],
)
def test_null_descriptor(real: CLibrary, ours: CLibrary, name, arguments) -> None:
    statuses = [getattr(lib, name)(None, *arguments) for lib in (real, ours)]
    assert statuses[0] == statuses[1]


def test_null_out_pointers_give_a_status(ours: CLibrary) -> None:
    conv = ours.create("Convolution")
    out = ctypes.c_int()
    assert ours.cudnnCreateConvolutionDescriptor(None) == Status.BAD_PARAM
    for missing in range(8):
        pointers = [None if i == missing else ctypes.byref(out) for i in range(8)]
        assert ours.cudnnGetConvolution2dDescriptor(conv, *pointers) == Status.BAD_PARAM
    for name in ("MathType", "GroupCount", "ReorderType"):
        assert getattr(ours, f"cudnnGetConvolution{name}")(conv, None) == Status.BAD_PARAM
    arrays = [ints(1, 1)] * 3
    for missing in range(3):
        given_ = [None if i == missing else array for i, array in enumerate(arrays)]
        assert ours.cudnnSetConvolutionNdDescriptor(conv, 2, *given_, 1, 0) == Status.BAD_PARAM


def test_a_failed_set_changes_nothing(ours: CLibrary) -> None:
    conv = ours.create("Convolution")
    ours.check("cudnnSetConvolution2dDescriptor", conv, 1, 2, 3, 4, 5, 6, 1, 0)
    good = read_back(ours, conv)
    for wrong in ((-1, 0, 1, 1, 1, 1, 1, 0), (0, 0, 1, 0, 1, 1, 1, 0), (0, 0, 1, 1, 1, 1, 7, 0)):
        assert ours.cudnnSetConvolution2dDescriptor(conv, *wrong) == Status.BAD_PARAM
        assert read_back(ours, conv) == good


# --- the output size -----------------------------------------------------------------------------


def filter_of(lib: CLibrary, shape: list[int]) -> Any:
    descriptor = lib.create("Filter")
    lib.check("cudnnSetFilterNdDescriptor", descriptor, 0, 0, len(shape), ints(*shape))
    return descriptor


def output_sizes(lib: CLibrary, x: list[int], w: list[int], conv: tuple, groups: int) -> list:
    """The status of every question for the output size, and the answers to those that succeed."""
    descriptor = lib.create("Convolution")
    padding, stride, dilation = conv
    count = len(padding)
    lib.check(
        "cudnnSetConvolutionNdDescriptor",
        *(descriptor, count, ints(*padding), ints(*stride), ints(*dilation), 1, 0),
    )
    lib.check("cudnnSetConvolutionGroupCount", descriptor, groups)
    tensor, filter_ = lib.tensor(x, packed(tuple(x)), 0), filter_of(lib, w)
    arguments = descriptor, tensor, filter_
    answers = [answer(lib, "cudnnGetConvolution2dForwardOutputDim", *arguments, lengths=(1,) * 4)]
    for requested in range(-1, 10):
        name = "cudnnGetConvolutionNdForwardOutputDim"
        answers.append(answer(lib, name, *arguments, requested, lengths=(8,)))
    return [outcome if outcome[0] == 0 else outcome[0] for outcome in answers]


@st.composite
def questions(draw) -> tuple:
    """Mostly convolutions that fit, of 1 to 4 dimensions, but for one or two slips."""
    ndim, groups = draw(st.integers(1, 4)), draw(st.integers(1, 3))

    def each(low: int, high: int, count: int = ndim) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    channels = draw(st.integers(1, 3))
    x = [draw(st.integers(1, 3)), channels * groups, *each(1, 12)]
    w = [draw(st.integers(1, 6)), channels, *each(1, 5)]
    for shape in (x, w):
        slip = draw(st.integers(0, 11))
        if slip == 0 and len(shape) > 3:
            shape.pop()
        elif slip == 1:
            shape.append(2)
        elif slip == 2:
            shape[1] += 1
    return x, w, (each(0, 4), each(1, 4), each(1, 3)), groups


@pytest.mark.library
@settings(deadline=None, max_examples=400)
@given(questions())
def test_output_size(real: CLibrary, ours: CLibrary, question) -> None:
    assert output_sizes(ours, *question) == output_sizes(real, *question)


@pytest.mark.parametrize("lib", ["reference", pytest.param("cuda", marks=pytest.mark.library)])
def test_d4_output_of_a_line(lib: str) -> None:
    """x of 6 elements and w of 3, written as images of height 1."""
    plane = output_sizes(CLibrary(lib), [1, 1, 1, 6], [1, 1, 1, 3], ([0, 0], [1, 1], [1, 1]), 1)
    assert plane[0] == (0, [1, CANARY, CANARY], [1, CANARY, CANARY], [1, CANARY, CANARY],
                        [4, CANARY, CANARY])  # fmt: skip


@pytest.mark.library
def test_output_size_without_descriptors(real: CLibrary, ours: CLibrary) -> None:
    """NULL and empty descriptors, one at a time."""
    outcomes = []
    for lib in (real, ours):
        conv = lib.create("Convolution")
        lib.check("cudnnSetConvolution2dDescriptor", conv, 0, 0, 1, 1, 1, 1, 1, 0)
        full = [conv, lib.tensor((2, 3, 8, 9), (216, 72, 9, 1), 0), filter_of(lib, [5, 3, 3, 2])]
        empty = [None, None, None, *(lib.create(k) for k in ("Convolution", "Tensor", "Filter"))]
        statuses = []
        for index, instead in enumerate(empty):
            arguments = [*full]
            arguments[index % 3] = instead
            outs = [ctypes.byref(ctypes.c_int()) for _ in range(4)]
            statuses.append(lib.cudnnGetConvolution2dForwardOutputDim(*arguments, *outs))
            statuses.append(
                lib.cudnnGetConvolutionNdForwardOutputDim(*arguments, 4, ints(*[0] * 4))
            )
        outcomes.append(statuses)
    assert outcomes[0] == outcomes[1] == [Status.BAD_PARAM] * 12


def test_sizes_beyond_an_int_are_refused(ours: CLibrary) -> None:
    huge = 2**31 - 1
    outcomes = output_sizes(ours, [1, 1, 8, 8], [1, 1, 3, 3], ([huge, 0], [1, 1], [1, 1]), 1)
    assert outcomes[0] == Status.BAD_PARAM
    assert "too large for an int" in ours.last_error() or outcomes[5] == Status.BAD_PARAM
