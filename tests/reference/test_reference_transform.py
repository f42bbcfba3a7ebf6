"""Tensor transforms and folded gradients at C level: settings, statuses, and the descriptors that
cuDNN 9.28 makes, written down from it."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from c_library import CLibrary, ints, packed

from pycudnn.abi.cudnn_enums import DataType, FoldingDirection, Status, TensorFormat

FOLD, UNFOLD = FoldingDirection
NCHW, NHWC, VECT = TensorFormat


def unsigned(*values: int) -> Any:
    return (ctypes.c_uint32 * len(values))(*values)


def set_transform(
    lib: CLibrary, transform, before, after, fold, direction=FOLD, layout=NCHW, count=None
) -> int:
    return lib.cudnnSetTensorTransformDescriptor(
        transform,
        len(before or after) if count is None else count,
        layout,
        before and ints(*before),
        after and ints(*after),
        fold and unsigned(*fold),
        direction,
    )


def get_transform(lib: CLibrary, transform, count: int) -> tuple:
    layout, direction = ctypes.c_int(-99), ctypes.c_int(-99)
    before, after = (ints(*[-99] * count) for _ in range(2))
    fold = unsigned(*[99] * (count - 2))
    lib.check(
        "cudnnGetTensorTransformDescriptor",
        *(transform, count, ctypes.byref(layout), before, after, fold, ctypes.byref(direction)),
    )
    return layout.value, tuple(before), tuple(after), tuple(fold), direction.value


def get_tensor(lib: CLibrary, tensor) -> tuple:
    data_type, count = ctypes.c_int(), ctypes.c_int()
    shape, strides = (ints(*[0] * 8) for _ in range(2))
    lib.check(
        "cudnnGetTensorNdDescriptor",
        *(tensor, 8, ctypes.byref(data_type), ctypes.byref(count), shape, strides),
    )
    return data_type.value, tuple(shape[: count.value]), tuple(strides[: count.value])


# ---- settings ------------------------------------------------------------------------------------


def test_settings_come_back(lib: CLibrary) -> None:
    transform = lib.create("TensorTransform")
    assert get_transform(lib, transform, 4) == (NCHW, (0,) * 4, (0,) * 4, (0, 0), FOLD)
    assert set_transform(lib, transform, (1, -2, 3, 4), (5, 6, -7, 8), (2, 3), UNFOLD, NHWC) == 0
    assert get_transform(lib, transform, 4) == (NHWC, (1, -2, 3, 4), (5, 6, -7, 8), (2, 3), UNFOLD)
    assert get_transform(lib, transform, 3) == (NHWC, (1, -2, 3), (5, 6, -7), (2,), UNFOLD)
    more = get_transform(lib, transform, 5)
    assert more == (NHWC, (1, -2, 3, 4, 0), (5, 6, -7, 8, 0), (2, 3, 0), UNFOLD)
    # NULL leaves what was set; every direction but 0 is UNFOLD.
    assert set_transform(lib, transform, None, (9,) * 4, None, 5, NCHW) == 0
    assert get_transform(lib, transform, 4) == (NCHW, (1, -2, 3, 4), (9,) * 4, (2, 3), UNFOLD)
    lib.check("cudnnDestroyTensorTransformDescriptor", transform)


def test_statuses(lib: CLibrary) -> None:
    transform = lib.create("TensorTransform")
    settings = (0,) * 9, (0,) * 9, (1,) * 7
    for count in range(11):
        want = Status.BAD_PARAM if count < 2 else Status.SUCCESS
        want = Status.NOT_SUPPORTED if count > 8 else want
        assert set_transform(lib, transform, *settings, count=count) == want
    for layout, want in ((VECT, 0), (3, Status.NOT_SUPPORTED), (4, Status.NOT_SUPPORTED)):
        assert set_transform(lib, transform, *settings, layout=layout, count=4) == want
    outs = ints(*[0] * 9)
    for count in (0, 1, 2, 9):
        status = lib.cudnnGetTensorTransformDescriptor(
            transform, count, outs, outs, outs, unsigned(*[0] * 9), outs
        )
        assert status == Status.BAD_PARAM


# ---- what a transform makes of a tensor ----------------------------------------------------------

NONE = (0, 0, 0, 0)
# Shape, padding before and behind, blocks, direction; the result's shape or a status.
RESULTS = [
    ((2, 16, 6, 8), NONE, NONE, (2, 4), FOLD, (2, 128, 3, 2)),
    ((2, 16, 6, 8), NONE, NONE, (2, 4), UNFOLD, (2, 2, 12, 32)),
    ((2, 5, 5, 7), NONE, NONE, (2, 4), FOLD, (2, 40, 3, 2)),
    ((2, 5, 5, 7), NONE, NONE, (2, 4), UNFOLD, (2, 1, 10, 28)),
    ((2, 4, 6, 8), NONE, NONE, (0, 2), FOLD, (2, 8, 6, 4)),
    ((2, 16, 5, 7), (1, 2, 0, 1), (0, 6, 1, 0), (2, 4), FOLD, (3, 192, 3, 2)),
    ((2, 16, 5, 7), (1, 2, 0, 1), (0, 6, 1, 0), (2, 4), UNFOLD, (3, 10, 11, 29)),
    ((2, 4, 6, 8), (-1, -1, -2, -3), (0, 1, -1, -2), (1, 1), FOLD, (1, 4, 3, 3)),
    ((2, 4, 6, 8), (-1, -4, -2, -3), NONE, (1, 1), FOLD, Status.BAD_PARAM),
    ((2, 4, 6, 8), (-1, -5, -2, -3), NONE, (1, 1), FOLD, Status.BAD_PARAM),
    ((2, 16, 6), (0, 0, 0), (0, 0, 0), (2,), FOLD, (2, 32, 3)),
    ((2, 16, 6), (0, 0, 0), (0, 0, 0), (2,), UNFOLD, (2, 8, 12)),
    ((2, 16, 6, 8, 10), (0,) * 5, (0,) * 5, (2, 4, 5), FOLD, (2, 640, 3, 2, 2)),
    ((2, 16, 6, 8, 10), (0,) * 5, (0,) * 5, (2, 4, 5), UNFOLD, (2, 1, 12, 32, 50)),
]


@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize(("shape", "before", "after", "fold", "direction", "want"), RESULTS)
def test_results(lib: CLibrary, shape, before, after, fold, direction, want, layout) -> None:
    transform = lib.create("TensorTransform")
    assert set_transform(lib, transform, before, after, fold, direction, layout) == 0
    # Only 4-d tensors can have gaps and be folded.
    strides = tuple((2 if len(shape) == 4 else 1) * stride for stride in packed(shape))
    for data_type in (DataType.FLOAT, DataType.HALF, DataType.INT32):
        dest, size = lib.create("Tensor"), ctypes.c_size_t()
        status = lib.cudnnInitTransformDest(
            transform, lib.tensor(shape, strides, data_type), dest, ctypes.byref(size)
        )
        if isinstance(want, Status):
            assert status == want
            continue
        assert status == 0
        rank = len(shape)
        channels_last = layout == NHWC and rank > 3
        expected = packed(want, (0, *range(2, rank), 1) if channels_last else None)
        assert get_tensor(lib, dest) == (data_type, want, expected)
        elements = 1
        for extent in want:
            elements *= extent
        assert size.value == elements * (2 if data_type == DataType.HALF else 4)


@pytest.mark.parametrize("shape", [(2, 16, 6), (2, 8, 4, 4, 6), (1, 2, 3, 4, 5, 6)])
def test_folding_of_other_ranks(lib: CLibrary, shape) -> None:
    transform, dest, size = lib.create("TensorTransform"), lib.create("Tensor"), ctypes.c_size_t()
    rank = len(shape)
    channels_last = packed(shape, (0, *range(2, rank), 1))
    gaps = tuple(2 * stride for stride in packed(shape))
    for blocks, gaps_status in ((1, 0), (2, Status.NOT_SUPPORTED)):
        fold = (blocks,) * (rank - 2)
        assert set_transform(lib, transform, (0,) * rank, (0,) * rank, fold) == 0
        for strides, want in ((packed(shape), 0), (channels_last, 0), (gaps, gaps_status)):
            src = lib.tensor(shape, strides, DataType.FLOAT)
            status = lib.cudnnInitTransformDest(transform, src, dest, ctypes.byref(size))
            assert status == (want if rank <= 5 else Status.NOT_SUPPORTED)


def test_results_that_are_none(lib: CLibrary) -> None:
    transform, dest, size = lib.create("TensorTransform"), lib.create("Tensor"), ctypes.c_size_t()
    src = lib.tensor((2, 4, 6, 8), packed((2, 4, 6, 8)), DataType.FLOAT)
    # A transform that was never set changes nothing.
    assert lib.cudnnInitTransformDest(transform, src, dest, ctypes.byref(size)) == 0
    assert get_tensor(lib, dest) == (DataType.FLOAT, (2, 4, 6, 8), (192, 48, 8, 1))
    assert set_transform(lib, transform, NONE, NONE, (1, 1), layout=VECT) == 0
    status = lib.cudnnInitTransformDest(transform, src, dest, ctypes.byref(size))
    assert status == Status.NOT_SUPPORTED
    assert set_transform(lib, transform, NONE, NONE, (1, 1)) == 0
    for other, want in ((None, Status.BAD_PARAM), (lib.create("Tensor"), Status.NOT_SUPPORTED)):
        if other or lib.backend == "reference":  # NULL kills cuDNN
            status = lib.cudnnInitTransformDest(transform, other, dest, ctypes.byref(size))
            assert status == want


# ---- folded gradients ----------------------------------------------------------------------------

# w, x, padding, stride; then of the folded: w, dy, padding, dx, and the padding of the transforms:
# w before and behind, dy behind, dx behind before folding, dx behind after unfolding.
FOLDED = [
    (
        ((8, 4, 3, 3), (2, 4, 9, 9), (0, 0), (2, 2)),
        ((8, 16, 2, 2), (2, 8, 4, 4), (0, 0), (2, 16, 5, 5)),
        ((0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, -1, -1)),
    ),
    (
        ((8, 4, 3, 3), (2, 4, 9, 9), (2, 1), (2, 2)),
        ((8, 16, 2, 2), (2, 8, 6, 6), (1, 1), (2, 16, 5, 5)),
        ((0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0), (0, 0, -1, -1)),
    ),
    (
        ((8, 4, 3, 3), (2, 4, 9, 9), (0, 0), (4, 4)),
        ((8, 64, 1, 1), (2, 8, 2, 2), (0, 0), (2, 64, 2, 2)),
        ((0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 0, 0), (0, 0, -1, -1), (0, 0, 1, 1)),
    ),
    (
        ((8, 4, 3, 3), (2, 4, 9, 9), (1, 1), (4, 4)),
        ((8, 64, 2, 2), (2, 8, 4, 4), (1, 1), (2, 64, 3, 3)),
        ((0, 0, 3, 3), (0, 0, 2, 2), (0, 0, 1, 1), (0, 0, 0, 0), (0, 0, -3, -3)),
    ),
    (
        ((8, 3, 3, 3), (2, 3, 9, 9), (0, 0), (3, 1)),
        ((8, 15, 1, 3), (2, 8, 3, 7), (0, 0), (2, 15, 3, 9)),
        ((0, 0, 0, 0), (0, 2, 0, 0), (0, 0, 0, 0), (0, 2, 0, 0), (0, -2, 0, 0)),
    ),
    (
        ((5, 4, 3, 3), (2, 4, 9, 9), (0, 0), (2, 2)),
        ((8, 16, 2, 2), (2, 8, 4, 4), (0, 0), (2, 16, 5, 5)),
        ((0, 0, 0, 0), (3, 0, 1, 1), (0, 3, 0, 0), (0, 0, 0, 0), (0, 0, -1, -1)),
    ),
    (
        ((8, 4, 3, 3), (2, 4, 11, 8), (1, 1), (2, 2)),
        ((8, 16, 2, 2), (2, 8, 7, 5), (1, 1), (2, 16, 6, 4)),
        ((0, 0, 1, 1), (0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 0, 0), (0, 0, -1, 0)),
    ),
    (
        ((8, 4, 3, 3), (2, 4, 9, 9), (50, 50), (2, 2)),
        ((8, 16, 2, 2), (2, 8, 54, 54), (25, 25), (2, 16, 5, 5)),
        ((0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, -1, -1)),
    ),
]


def fold(lib: CLibrary, handle, sizes, *, layout=NCHW, channels_last=False):
    """Status, and the eight descriptors."""
    w_shape, x_shape, padding, stride = sizes
    w, conv = lib.create("Filter"), lib.create("Convolution")
    lib.check("cudnnSetFilterNdDescriptor", w, 0, NCHW, len(w_shape), ints(*w_shape))
    lib.check(
        "cudnnSetConvolutionNdDescriptor",
        *(conv, len(stride), ints(*padding), ints(*stride), ints(*[1] * len(stride)), 1, 0),
    )
    output = ints(*[0] * len(x_shape))
    order = (0, *range(2, len(x_shape)), 1) if channels_last else None
    x = lib.tensor(x_shape, packed(x_shape, order), 0)
    lib.check("cudnnGetConvolutionNdForwardOutputDim", conv, x, w, len(x_shape), output)
    dy = lib.tensor(tuple(output), packed(tuple(output)), 0)
    results = [lib.create(kind) for kind in ("Filter", "Tensor", "Convolution", "Tensor")]
    results += [lib.create("TensorTransform") for _ in range(4)]
    status = lib.cudnnGetFoldedConvBackwardDataDescriptors(
        handle, w, dy, conv, x, layout, *results
    )
    return status, results


@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize(("sizes", "operands", "margins"), FOLDED)
def test_folded_gradients(lib: CLibrary, handle, sizes, operands, margins, layout) -> None:
    status, (w, dy, conv, dx, *transforms) = fold(lib, handle, sizes, layout=layout)
    assert status == 0
    w_shape, dy_shape, padding, dx_shape = operands
    data_type, form, count = (ctypes.c_int() for _ in range(3))
    numbers = ints(*[0] * 4)
    references = map(ctypes.byref, (data_type, form, count))
    lib.check("cudnnGetFilterNdDescriptor", w, 4, *references, numbers)
    assert (form.value, tuple(numbers)) == (layout, w_shape)
    order = (0, 2, 3, 1) if layout == NHWC else None
    assert get_tensor(lib, dy) == (0, dy_shape, packed(dy_shape, order))
    assert get_tensor(lib, dx) == (0, dx_shape, packed(dx_shape, order))
    pads, strides, dilations = (ints(0, 0) for _ in range(3))
    references = map(ctypes.byref, (count, data_type, form))
    lib.check(
        "cudnnGetConvolutionNdDescriptor",
        *(conv, 2, next(references), pads, strides, dilations, *references),
    )
    assert (tuple(pads), tuple(strides), tuple(dilations)) == (padding, (1, 1), (1, 1))
    before, *behind = margins
    stride = sizes[3]
    wants = [
        (layout, before, behind[0], stride, FOLD),
        (layout, NONE, behind[1], (0, 0), FOLD),
        (layout, NONE, behind[2], stride, FOLD),
        (NCHW, NONE, behind[3], stride, UNFOLD),
    ]
    assert [get_transform(lib, transform, 4) for transform in transforms] == wants


def test_the_unfolded_gradient_lies_like_the_given_one(lib: CLibrary, handle) -> None:
    for channels_last in (False, True):
        _, results = fold(lib, handle, FOLDED[0][0], channels_last=channels_last)
        assert get_transform(lib, results[7], 4)[0] == int(channels_last)


def test_what_does_not_fold(lib: CLibrary, handle) -> None:
    volume = (8, 4, 3, 3, 3), (2, 4, 9, 9, 9), (0,) * 3, (2,) * 3
    assert fold(lib, handle, volume)[0] == Status.BAD_PARAM
    for layout in (VECT, 3):
        assert fold(lib, handle, FOLDED[0][0], layout=layout)[0] == Status.NOT_SUPPORTED
