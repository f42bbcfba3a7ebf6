"""Descriptors call by call against the real libcudnn, which needs no GPU for them.

Left out on purpose: vector data types and NCHW_VECT_C (the reference answers NOT_SUPPORTED), NULL
arrays (the real library crashes), and what a failed set leaves behind (there half-written, here
unchanged).
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest
from c_library import CLibrary, ints
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pycudnn import reference
from pycudnn.abi.cudnn_enums import DataType, PoolingMode, Status, TensorFormat

pytestmark = pytest.mark.library

VECTOR_TYPES = (DataType.INT8x4, DataType.UINT8x4, DataType.INT8x32)
INT, DOUBLE, SIZE = ctypes.c_int, ctypes.c_double, ctypes.c_size_t
CANARY = 0xA5


@pytest.fixture(scope="module")
def real() -> CLibrary:
    return CLibrary("cuda")


@pytest.fixture(scope="module")
def ours() -> CLibrary:
    return CLibrary("reference")


def query(lib: CLibrary, name: str, inputs: tuple, outs: list[tuple[Any, int]]) -> tuple:
    """Call a getter whose out-arrays stand between canaries: its status and all bytes after it."""
    buffers = []
    for c_type, count in outs:
        buffers.append((c_type * (count + 2))())
        ctypes.memset(buffers[-1], CANARY, ctypes.sizeof(buffers[-1]))
    pointers = [
        ctypes.cast(ctypes.byref(buffer, ctypes.sizeof(c_type)), ctypes.POINTER(c_type))
        for buffer, (c_type, _) in zip(buffers, outs, strict=True)
    ]
    status = getattr(lib, name)(*inputs, *pointers)
    for buffer, (c_type, _) in zip(buffers, outs, strict=True):
        raw, size = bytes(buffer), ctypes.sizeof(c_type)
        assert raw[:size] + raw[-size:] == bytes([CANARY]) * (2 * size), f"{name} wrote outside"
    return status, [bytes(buffer) for buffer in buffers]


def tensor_queries(lib: CLibrary, tensor: Any) -> list[tuple]:
    results = [
        query(lib, "cudnnGetTensor4dDescriptor", (tensor,), [(INT, 1)] * 9),
        query(lib, "cudnnGetTensorSizeInBytes", (tensor,), [(SIZE, 1)]),
    ]
    for requested in (-1, 0, 1, 3, 4, 8, 9):
        outs = [(INT, 1), (INT, 1), (INT, 9), (INT, 9)]
        results.append(query(lib, "cudnnGetTensorNdDescriptor", (tensor, requested), outs))
    return results


def filter_queries(lib: CLibrary, filter_: Any) -> list[tuple]:
    results = [
        query(lib, "cudnnGetFilter4dDescriptor", (filter_,), [(INT, 1)] * 6),
        query(lib, "cudnnGetFilterSizeInBytes", (filter_,), [(SIZE, 1)]),
    ]
    for requested in (-1, 0, 1, 3, 4, 8, 9):
        outs = [(INT, 1), (INT, 1), (INT, 1), (INT, 9)]
        results.append(query(lib, "cudnnGetFilterNdDescriptor", (filter_, requested), outs))
    return results


def pooling_queries(lib: CLibrary, pooling: Any) -> list[tuple]:
    results = [query(lib, "cudnnGetPooling2dDescriptor", (pooling,), [(INT, 1)] * 8)]
    for requested in (-1, 0, 1, 2, 3, 6, 7):
        outs = [(INT, 1), (INT, 1), (INT, 1), (INT, 9), (INT, 9), (INT, 9)]
        results.append(query(lib, "cudnnGetPoolingNdDescriptor", (pooling, requested), outs))
    return results


def activation_queries(lib: CLibrary, activation: Any) -> list[tuple]:
    return [
        query(
            lib, "cudnnGetActivationDescriptor", (activation,), [(INT, 1), (INT, 1), (DOUBLE, 1)]
        ),
        query(lib, "cudnnGetActivationDescriptorSwishBeta", (activation,), [(DOUBLE, 1)]),
    ]


QUERIES = {
    "Tensor": tensor_queries,
    "Filter": filter_queries,
    "Pooling": pooling_queries,
    "Activation": activation_queries,
}


def compare(real: CLibrary, ours: CLibrary, kind: str, name: str, *arguments: Any) -> int:
    """Both libraries give one status, and after success one answer to every query."""
    statuses, answers = [], []
    for lib in (real, ours):
        descriptor = lib.create(kind)
        statuses.append(getattr(lib, name)(descriptor, *arguments))
        if statuses[-1] == 0:
            answers.append(QUERIES[kind](lib, descriptor))
        elif lib is ours:
            assert lib.last_error() != "", "a failure that explains nothing"
        lib.check(f"cudnnDestroy{kind}Descriptor", descriptor)
    assert statuses[0] == statuses[1], f"{name}{arguments}"
    if statuses[0] == 0:
        assert answers[0] == answers[1], f"{name}{arguments}"
    return statuses[0]


many = settings(deadline=None, max_examples=150)
data_types = st.sampled_from(
    [*range(-1, 25), *[DataType.FLOAT, DataType.HALF] * 6, *VECTOR_TYPES * 2]
)
formats = st.sampled_from([0, 1, 0, 1, 0, 1, -1, 3])  # vectors have a test of their own
sizes = st.one_of(st.integers(1, 9), st.integers(1, 9), st.integers(-1, 300))
counts = st.one_of(st.integers(2, 6), st.integers(2, 6), st.integers(-2, 12))


def arrays(elements: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    return st.lists(elements, min_size=12, max_size=12)


@many
@given(st.tuples(formats, data_types, sizes, sizes, sizes, sizes))
def test_set_tensor_4d(real: CLibrary, ours: CLibrary, arguments) -> None:
    compare(real, ours, "Tensor", "cudnnSetTensor4dDescriptor", *arguments)


@many
@given(data_types, st.tuples(*[sizes] * 4), st.tuples(*[st.integers(-3, 400)] * 4))
def test_set_tensor_4d_ex(real: CLibrary, ours: CLibrary, data_type, dims, strides) -> None:
    compare(real, ours, "Tensor", "cudnnSetTensor4dDescriptorEx", data_type, *dims, *strides)


@many
@given(data_types, counts, arrays(sizes), arrays(st.integers(-3, 400)))
def test_set_tensor_nd(real: CLibrary, ours: CLibrary, data_type, count, dims, strides) -> None:
    arrays_ = ints(*dims), ints(*strides)
    compare(real, ours, "Tensor", "cudnnSetTensorNdDescriptor", data_type, count, *arrays_)


@many
@given(formats, data_types, counts, arrays(sizes))
def test_set_tensor_nd_ex(real: CLibrary, ours: CLibrary, format_, data_type, count, dims) -> None:
    # Channels last takes 3 dimensions; of 2 the real library makes strides of 0.
    assume(not (format_ == TensorFormat.NHWC and count == 2))
    assume(count < 2 or np.prod(dims[:count], dtype=object) < 2**31)  # counted in 32 bits
    compare(
        real, ours, "Tensor", "cudnnSetTensorNdDescriptorEx", format_, data_type, count, ints(*dims)
    )


@many
@given(st.tuples(data_types, formats, sizes, sizes, sizes, sizes))
def test_set_filter_4d(real: CLibrary, ours: CLibrary, arguments) -> None:
    compare(real, ours, "Filter", "cudnnSetFilter4dDescriptor", *arguments)


@many
@given(data_types, formats, counts, arrays(sizes))
def test_set_filter_nd(real: CLibrary, ours: CLibrary, data_type, format_, count, dims) -> None:
    compare(
        real, ours, "Filter", "cudnnSetFilterNdDescriptor", data_type, format_, count, ints(*dims)
    )


modes = st.sampled_from([0, 1, 2, 3, 0, 1, 2, 3, -1, 4])
nan_modes = st.sampled_from([0, 1, 0, 1, 0, 1, -1, 2])
windows = st.one_of(st.integers(1, 5), st.integers(1, 5), st.integers(-1, 5))
paddings = st.integers(-1, 4)


@many
@given(modes, nan_modes, st.tuples(windows, windows, paddings, paddings, windows, windows))
def test_set_pooling_2d(real: CLibrary, ours: CLibrary, mode, nan_mode, numbers) -> None:
    compare(real, ours, "Pooling", "cudnnSetPooling2dDescriptor", mode, nan_mode, *numbers)


@many
@given(modes, nan_modes, counts, st.tuples(arrays(windows), arrays(paddings), arrays(windows)))
def test_set_pooling_nd(real: CLibrary, ours: CLibrary, mode, nan_mode, count, lists) -> None:
    arrays_ = [ints(*values) for values in lists]
    compare(real, ours, "Pooling", "cudnnSetPoolingNdDescriptor", mode, nan_mode, count, *arrays_)


@many
@given(st.tuples(st.integers(-1, 8), nan_modes, st.floats()))
def test_set_activation(real: CLibrary, ours: CLibrary, arguments) -> None:
    compare(real, ours, "Activation", "cudnnSetActivationDescriptor", *arguments)


@settings(deadline=None, max_examples=20)
@given(st.floats())
def test_set_swish_beta(real: CLibrary, ours: CLibrary, beta: float) -> None:
    answers = []
    for lib in (real, ours):
        activation = lib.create("Activation")
        lib.check("cudnnSetActivationDescriptor", activation, 6, 1, 0.5)
        lib.check("cudnnSetActivationDescriptorSwishBeta", activation, beta)
        answers.append(activation_queries(lib, activation))
    assert answers[0] == answers[1]


@many
@given(
    st.integers(1, 3),
    arrays(st.integers(1, 5)),
    arrays(st.integers(-1, 3)),
    arrays(st.integers(1, 4)),
    st.integers(2, 5),
    arrays(st.integers(1, 9)),
    st.integers(2, 6),
)
def test_pooling_output_dims(
    real: CLibrary, ours: CLibrary, ndim, window, padding, stride, tensor_ndim, dims, asked
) -> None:
    answers = []
    for lib in (real, ours):
        pooling = lib.create("Pooling")
        arrays_ = ints(*window), ints(*padding), ints(*stride)
        lib.check("cudnnSetPoolingNdDescriptor", pooling, 0, 0, ndim, *arrays_)
        tensor = lib.create("Tensor")
        arguments = tensor, 0, 0, tensor_ndim, ints(*dims)
        lib.check("cudnnSetTensorNdDescriptorEx", *arguments)
        results = [
            query(
                lib, "cudnnGetPoolingNdForwardOutputDim", (pooling, tensor, asked), [(INT, asked)]
            ),
            query(lib, "cudnnGetPooling2dForwardOutputDim", (pooling, tensor), [(INT, 1)] * 4),
        ]
        answers.append([(status, out if status == 0 else None) for status, out in results])
    assert answers[0] == answers[1]


def test_d2_strides_read_back(real: CLibrary, ours: CLibrary) -> None:
    for lib in (real, ours):
        for format_, strides in (
            (TensorFormat.NCHW, [60, 20, 5, 1]),
            (TensorFormat.NHWC, [60, 1, 15, 3]),
        ):
            tensor = lib.create("Tensor")
            lib.check("cudnnSetTensor4dDescriptor", tensor, format_, DataType.FLOAT, 2, 3, 4, 5)
            numbers = [INT() for _ in range(9)]
            lib.check("cudnnGetTensor4dDescriptor", tensor, *map(ctypes.byref, numbers))
            assert [n.value for n in numbers] == [0, 2, 3, 4, 5, *strides]


def test_d7_window_larger_than_the_padded_input(real: CLibrary, ours: CLibrary) -> None:
    for lib in (real, ours):
        pooling, tensor = lib.create("Pooling"), lib.tensor((1, 1, 2, 2), (4, 4, 2, 1), 0)
        mode = PoolingMode.AVERAGE_COUNT_INCLUDE_PADDING
        lib.check("cudnnSetPooling2dDescriptor", pooling, mode, 0, 7, 7, 0, 0, 7, 7)
        out = [ctypes.byref(INT()) for _ in range(4)]
        status = lib.cudnnGetPooling2dForwardOutputDim(pooling, tensor, *out)
        assert status == Status.BAD_PARAM
    assert "window 7 > padded input 2" in ours.last_error()


@pytest.mark.parametrize(
    ("dims", "strides"),
    [
        ((2, 1, 1, 1), (2**31 - 2, 1, 1, 1)),
        ((2, 1, 1, 1), (2**31 - 1, 1, 1, 1)),
        ((3, 1, 1, 1), (2**30 - 1, 1, 1, 1)),
        ((3, 1, 1, 1), (2**30, 1, 1, 1)),
        ((65536, 65536, 1, 1), (65536, 1, 1, 1)),
        ((65536, 65536, 2, 2), (1, 1, 1, 1)),
        ((1, 1, 1, 3), (0, 0, 0, 1)),
    ],
)
def test_largest_extent(real: CLibrary, ours: CLibrary, dims, strides) -> None:
    compare(real, ours, "Tensor", "cudnnSetTensor4dDescriptorEx", DataType.INT8, *dims, *strides)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([0, 1, 2, 3, 4, 6, 9]), st.integers(2, 5), arrays(st.integers(1, 9)))
def test_dropout_reserve_size(real: CLibrary, ours: CLibrary, data_type, ndim, dims) -> None:
    answers = []
    for lib in (real, ours):
        tensor = lib.create("Tensor")
        lib.check("cudnnSetTensorNdDescriptorEx", tensor, 0, data_type, ndim, ints(*dims))
        status, out = query(lib, "cudnnDropoutGetReserveSpaceSize", (tensor,), [(SIZE, 1)])
        answers.append((status, out if status == 0 else None))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", ["Tensor", "Filter", "Pooling"])
def test_get_before_set(real: CLibrary, ours: CLibrary, kind: str) -> None:
    if kind == "Pooling":  # the real library refuses the n-d getter here: mode 0, no dimension
        answers = [
            query(lib, "cudnnGetPooling2dDescriptor", (lib.create(kind),), [(INT, 1)] * 8)
            for lib in (real, ours)
        ]
    else:
        answers = [QUERIES[kind](lib, lib.create(kind)) for lib in (real, ours)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("data_type", [*VECTOR_TYPES, DataType.FLOAT, DataType.INT8])
@pytest.mark.parametrize("dims", [(2, 64, 3, 4), (2, 8, 3, 4), (2, 6, 3, 4), (1, 4, 1, 1)])
def test_vectors_of_channels(real: CLibrary, ours: CLibrary, data_type, dims) -> None:
    """Not for fewer than two dimensions: the real getter then scales a number it has not read."""
    answers = []
    for lib in (real, ours):
        tensor, vect = lib.create("Tensor"), TensorFormat.NCHW_VECT_C
        answer = [lib.cudnnSetTensor4dDescriptor(tensor, vect, data_type, *dims)]
        if answer == [0]:
            outs = [(INT, 1), (INT, 1), (INT, 9), (INT, 9)]
            answer.append(query(lib, "cudnnGetTensorNdDescriptor", (tensor, 8), outs))
            answer.append(query(lib, "cudnnGetTensorSizeInBytes", (tensor,), [(SIZE, 1)]))
        answers.append(answer)
    assert answers[0] == answers[1]
    width = 32 if data_type == DataType.INT8x32 else 4
    if data_type not in VECTOR_TYPES or dims[1] % width:
        return  # of a filter's channels the real library drops those that fill no vector
    answers = []
    for lib in (real, ours):
        filter_ = lib.create("Filter")
        lib.check("cudnnSetFilter4dDescriptor", filter_, data_type, vect, *dims)
        results = filter_queries(lib, filter_)
        answers.append([results[1], results[6]])  # the size, and all four dimensions
    assert answers[0] == answers[1]


def test_a_failed_set_leaves_the_descriptor_as_it_was(ours: CLibrary) -> None:
    pooling = ours.create("Pooling")
    ours.check("cudnnSetPooling2dDescriptor", pooling, 0, 1, 3, 2, 1, 0, 2, 1)
    before = pooling_queries(ours, pooling)
    assert ours.cudnnSetPooling2dDescriptor(pooling, 0, 1, 9, 9, 1, 0, 0, 1) == Status.BAD_PARAM
    assert pooling_queries(ours, pooling) == before
    tensor = ours.tensor((2, 3, 4, 5), (60, 20, 5, 1), 0)
    before = tensor_queries(ours, tensor)
    assert ours.cudnnSetTensor4dDescriptor(tensor, 0, 0, 7, 7, 0, 7) == Status.BAD_PARAM
    assert "[2] is 0" in ours.last_error()
    assert tensor_queries(ours, tensor) == before


def test_error_strings(real: CLibrary, ours: CLibrary) -> None:
    older = real.cudnnGetVersion() < ours.cudnnGetVersion()
    for status in (*Status, -1, 1, 1999, 9999):
        text = real.cudnnGetErrorString(status)
        if not older or text != b"CUDNN_UNKNOWN_STATUS":
            assert ours.cudnnGetErrorString(status) == text


def test_properties_spell_the_version(real: CLibrary, ours: CLibrary) -> None:
    for lib in (real, ours):
        major, minor, patch = (INT() for _ in range(3))
        for type_, out in enumerate((major, minor, patch)):
            lib.check("cudnnGetProperty", type_, ctypes.byref(out))
        spelled = major.value * 10000 + minor.value * 100 + patch.value
        assert lib.cudnnGetVersion() == spelled
        for type_ in (-1, 3):
            assert lib.cudnnGetProperty(type_, ctypes.byref(major)) == Status.BAD_PARAM
        assert lib.cudnnGetProperty(0, None) == Status.BAD_PARAM
    assert ours.cudnnGetVersion() == reference.version("cudnn")


def test_the_reference_is_built_with_no_cuda(ours: CLibrary) -> None:
    assert ours.cudnnGetCudartVersion() == 0
    assert ours.cudnnGetMaxDeviceVersion() == 0


def test_destroy_null(real: CLibrary, ours: CLibrary) -> None:
    for lib in (real, ours):
        for kind in ("Tensor", "Filter", "Pooling", "Activation", "Dropout"):
            assert getattr(lib, f"cudnnDestroy{kind}Descriptor")(None) == 0
        assert lib.cudnnDestroy(None) == 0


def test_null_descriptors_and_handles(real: CLibrary, ours: CLibrary) -> None:
    number = ctypes.byref(INT())
    calls = {
        "cudnnSetTensor4dDescriptor": (None, 0, 0, 1, 1, 1, 1),
        "cudnnSetFilter4dDescriptor": (None, 0, 0, 1, 1, 1, 1),
        "cudnnSetPooling2dDescriptor": (None, 0, 0, 1, 1, 0, 0, 1, 1),
        "cudnnSetActivationDescriptor": (None, 0, 0, 0.0),
        "cudnnGetTensorSizeInBytes": (None, ctypes.byref(SIZE())),
        "cudnnGetPooling2dForwardOutputDim": (None, None, number, number, number, number),
        "cudnnDropoutGetReserveSpaceSize": (None, ctypes.byref(SIZE())),
        "cudnnDropoutGetStatesSize": (None, ctypes.byref(SIZE())),
        "cudnnSetDropoutDescriptor": (None, None, 0.5, None, 0, 1),
        "cudnnAddTensor": (None, None, None, None, None, None, None),
        "cudnnActivationForward": (None, None, None, None, None, None, None, None),
        "cudnnSoftmaxForward": (None, 0, 0, None, None, None, None, None, None),
        "cudnnPoolingForward": (None, None, None, None, None, None, None, None),
        "cudnnSetStream": (None, 0),
    }
    for name, arguments in calls.items():
        statuses = [getattr(lib, name)(*arguments) for lib in (real, ours)]
        assert statuses == [Status.BAD_PARAM] * 2, name
        assert re.search("NULL", ours.last_error()), name
