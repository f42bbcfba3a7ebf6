"""Descriptors of recurrent networks and of their data, and the division of the weight space."""

from __future__ import annotations

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest

from pycudnn import cudnn, empty, errors, from_numpy
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn import (
    DirectionMode,
    ForwardMode,
    NanPropagation,
    RNNAlgo,
    RNNBiasMode,
    RNNDataLayout,
    RNNInputMode,
    RNNMode,
)
from pycudnn.libraries import get_library

GATES = {RNNMode.RNN_RELU: 1, RNNMode.RNN_TANH: 1, RNNMode.LSTM: 4, RNNMode.GRU: 3}


# ---- settings ------------------------------------------------------------------------------------


def test_all_settings_are_read_back(library):
    rnn = cudnn.RNNDescriptor(
        6, 8, num_layers=3, cell_mode=RNNMode.LSTM, bias_mode=RNNBiasMode.SINGLE_REC_BIAS,
        direction_mode=DirectionMode.BIDIRECTIONAL, input_mode=RNNInputMode.LINEAR_INPUT,
        dtype="float16", math_precision="float16", math_type=cudnn.MathType.TENSOR_OP_MATH,
        algorithm=RNNAlgo.STANDARD, projection_size=5, padded_io=False, library=library,
    )  # fmt: skip
    assert (rnn.input_size, rnn.hidden_size, rnn.projection_size, rnn.num_layers) == (6, 8, 5, 3)
    assert rnn.cell_mode is RNNMode.LSTM
    assert rnn.bias_mode is RNNBiasMode.SINGLE_REC_BIAS
    assert rnn.direction_mode is DirectionMode.BIDIRECTIONAL
    assert rnn.input_mode is RNNInputMode.LINEAR_INPUT
    assert rnn.dtype == rnn.math_precision == np.float16
    assert rnn.math_type is cudnn.MathType.TENSOR_OP_MATH
    assert rnn.algorithm is RNNAlgo.STANDARD
    assert rnn.padded_io is False
    assert (rnn.clip, rnn.dropout) == (None, None)
    assert "projection_size=5" in repr(rnn)


def test_defaults(library):
    rnn = cudnn.RNNDescriptor(5, 3, library=library)
    assert rnn.cell_mode is RNNMode.LSTM
    assert rnn.bias_mode is RNNBiasMode.DOUBLE_BIAS
    assert rnn.padded_io is True
    assert rnn.num_layers == 1
    assert rnn.math_precision == np.float32
    assert cudnn.RNNDescriptor(5, 3, dtype="float64", library=library).math_precision == np.float64
    assert cudnn.RNNDescriptor(5, 3, dtype="bfloat16", library=library).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("projection", [None, 3])
def test_r9_a_projection_to_the_hidden_size_is_off(library, projection):
    rnn = cudnn.RNNDescriptor(5, 3, projection_size=projection, library=library)
    assert rnn.projection_size == rnn.hidden_size == 3
    assert "projection" not in repr(rnn)


def test_r9_a_projection_cannot_be_wider_than_the_hidden_state(library):
    with pytest.raises(ValueError, match=r"projection_size must be in \[1, 8\], got 9"):
        cudnn.RNNDescriptor(5, 8, projection_size=9, library=library)
    with pytest.raises(errors.CudnnNotSupported):
        cudnn.RNNDescriptor(5, 8, projection_size=4, cell_mode=RNNMode.GRU, library=library)


@pytest.mark.parametrize("nan", list(NanPropagation))
def test_clip(library, nan):
    rnn = cudnn.RNNDescriptor(5, 3, clip=(-1.5, 2.5), clip_nan=nan, library=library)
    assert (rnn.clip, rnn.clip_nan) == ((-1.5, 2.5), nan)
    assert "clip=(-1.5, 2.5)" in repr(rnn)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"input_size": 0}, ValueError, r"input_size must be in \[1, 2147483647\], got 0"),
        ({"hidden_size": -1}, ValueError, "hidden_size.*got -1"),
        ({"hidden_size": 2.5}, TypeError, "hidden_size must be an int, got 2.5"),
        ({"num_layers": 0}, ValueError, "num_layers.*got 0"),
        ({"projection_size": 0}, ValueError, "projection_size.*got 0"),
        ({"hidden_size": 2**31 - 1, "num_layers": 2**31 - 1}, ValueError, "more than memory"),
        ({"algorithm": RNNAlgo.COUNT}, ValueError, "algorithm must be one that computes"),
        ({"algorithm": 5}, ValueError, "algorithm must be a RNNAlgo"),
        ({"cell_mode": 4}, ValueError, "cell_mode must be a RNNMode"),
        ({"bias_mode": -1}, ValueError, "bias_mode must be a RNNBiasMode"),
        ({"direction_mode": 2}, ValueError, "direction_mode must be a DirectionMode"),
        ({"input_mode": 2}, ValueError, "input_mode must be a RNNInputMode"),
        ({"input_mode": 1}, ValueError, "input_size must be hidden_size, 3, for SKIP_INPUT, got 5"),
        ({"math_type": 4}, ValueError, "math_type must be a MathType"),
        ({"dtype": "int8"}, TypeError, "dtype must be one of float32, .*got 'int8'"),
        ({"math_precision": "complex64"}, TypeError, "math_precision must be a DataType"),
        ({"clip": (1, -1)}, ValueError, "clip must be .low, high. with low <= high"),
        ({"clip": (float("nan"), 1)}, ValueError, r"clip\[0\] must be a finite number, got nan"),
        ({"clip": 3}, ValueError, "clip must be a pair"),
        ({"clip": (-1, 1), "clip_nan": 2}, ValueError, "clip_nan must be a NanPropagation"),
        ({"clip": (-1, 1), "cell_mode": RNNMode.GRU}, ValueError, "clip must be None for GRU"),
        ({"dropout": 0.5}, TypeError, "dropout must be a DropoutDescriptor, got 0.5"),
    ],
)
def test_bad_networks_are_refused(library, arguments, error, text):
    with pytest.raises(error, match=text):
        cudnn.RNNDescriptor(**{"input_size": 5, "hidden_size": 3, **arguments}, library=library)


def test_an_unsupported_combination_shows_the_settings(library):
    with pytest.raises(errors.CudnnNotSupported, match=r"algorithm: <RNNAlgo.PERSIST_STATIC: 1>"):
        cudnn.RNNDescriptor(
            5, 3, dtype="float64", algorithm=RNNAlgo.PERSIST_STATIC, library=library
        )


def test_equal_settings_make_equal_descriptors(library):
    first, same = (cudnn.RNNDescriptor(5, 3, clip=(-1, 1), library=library) for _ in range(2))
    other = cudnn.RNNDescriptor(5, 3, clip=(-1, 2), library=library)
    assert first == same
    assert hash(first) == hash(same)
    assert first != other
    first.close()
    assert repr(first) == "<closed RNNDescriptor>"


def test_dropout(context):
    with cudnn.DropoutDescriptor(context.cudnn, 0.25) as dropout:
        rnn = cudnn.RNNDescriptor(
            5, 3, num_layers=2, dropout=dropout, library=context.cudnn.library
        )
        assert rnn.dropout is dropout
        assert rnn != cudnn.RNNDescriptor(5, 3, num_layers=2, library=context.cudnn.library)


# ---- data ----------------------------------------------------------------------------------------


def test_data_is_read_back(library):
    data = cudnn.RNNDataDescriptor(
        [4, 0, 2], 5, max_seq_length=6, dtype="float64", padding_fill=-7,
        layout=RNNDataLayout.BATCH_MAJOR_UNPACKED, library=library,
    )  # fmt: skip
    assert (data.seq_lengths, data.batch_size) == ((4, 0, 2), 3)
    assert (data.max_seq_length, data.vector_size) == (6, 5)
    assert data.layout is RNNDataLayout.BATCH_MAJOR_UNPACKED
    assert data.dtype == np.float64
    assert data.padding_fill == -7
    assert (data.shape, data.strides) == ((3, 6, 5), (30, 5, 1))
    assert data.extent == 3 * 6 * 5 * 8


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_padding_fill_is_stored_in_the_data_type(library, dtype):
    data = cudnn.RNNDataDescriptor([2], 3, dtype=dtype, padding_fill=1.5, library=library)
    assert data.padding_fill == 1.5
    assert cudnn.RNNDataDescriptor([2], 3, dtype=dtype, library=library).padding_fill is None


def test_layouts(library):
    lengths = [5, 3, 2]
    layouts = {
        RNNDataLayout.SEQ_MAJOR_UNPACKED: (5, 3, 4),
        RNNDataLayout.BATCH_MAJOR_UNPACKED: (3, 5, 4),
        RNNDataLayout.SEQ_MAJOR_PACKED: (10, 4),
    }
    for layout, shape in layouts.items():
        data = cudnn.RNNDataDescriptor(lengths, 4, layout=layout, library=library)
        assert (data.shape, data.layout) == (shape, layout)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"seq_lengths": []}, ValueError, "seq_lengths must have at least one"),
        ({"seq_lengths": [0, 0]}, ValueError, "seq_lengths must have one of at least 1"),
        ({"seq_lengths": [4, -1]}, ValueError, r"seq_lengths\[1\].*got -1"),
        ({"seq_lengths": [4, 1.5]}, TypeError, r"seq_lengths\[1\] must be an int"),
        ({"max_seq_length": 3}, ValueError, r"seq_lengths\[0\] must be at most 3, got 4"),
        ({"max_seq_length": 0}, ValueError, "max_seq_length.*got 0"),
        ({"vector_size": 0}, ValueError, "vector_size.*got 0"),
        ({"vector_size": 2**31 - 1, "max_seq_length": 2**31 - 1}, ValueError, "more than memory"),
        ({"layout": 3}, ValueError, "layout must be a RNNDataLayout"),
        ({"dtype": "int32"}, TypeError, "dtype must be one of float32"),
        ({"padding_fill": "x"}, TypeError, "padding_fill must be a real number"),
        ({"padding_fill": 1e6, "dtype": "float16"}, ValueError, "padding_fill must fit float16"),
        ({"layout": 1, "seq_lengths": [2, 5, 3]}, ValueError, "must descend from max_seq_length"),
        ({"layout": 1, "max_seq_length": 6}, ValueError, "must descend from max_seq_length, 6"),
        ({"layout": 1, "seq_lengths": [4, 0]}, ValueError, r"seq_lengths\[1\].*got 0"),
    ],
)
def test_r6_bad_data_is_refused(library, arguments, error, text):
    with pytest.raises(error, match=text):
        cudnn.RNNDataDescriptor(
            **{"seq_lengths": [4, 2], "vector_size": 5, **arguments}, library=library
        )


def test_data_compares(library):
    first, same = (cudnn.RNNDataDescriptor([4, 2], 5, library=library) for _ in range(2))
    assert first == same
    assert first != cudnn.RNNDataDescriptor([4, 3], 5, library=library)
    first.close()
    assert repr(first) == "<closed RNNDataDescriptor>"
    with pytest.raises(ValueError, match="closed"):
        _ = first.seq_lengths


# ---- statuses of the C functions, equal on both sides --------------------------------------------

RNN = {
    "algo": 0, "cell": 2, "bias": 2, "direction": 0, "input": 0, "dtype": 0, "precision": 0,
    "math": 0, "input_size": 5, "hidden": 3, "projection": 3, "layers": 2, "dropout": None,
    "flags": 1,
}  # fmt: skip


def c_functions(library):
    found = get_library("cudnn", library)
    return lambda name, *arguments: found.function(name)(*arguments)


def create(call, kind):
    descriptor = ctypes_type(f"cudnn{kind}Descriptor_t")()
    assert call(f"cudnnCreate{kind}Descriptor", ctypes.byref(descriptor)) == 0
    return descriptor


def destroy(call, kind, descriptor):
    assert call(f"cudnnDestroy{kind}Descriptor", descriptor) == 0


BAD, UNSUPPORTED = 2000, 3000


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        *[({name: -1}, BAD) for name in ("algo", "cell", "bias", "direction", "input", "math")],
        ({"algo": 4}, BAD),
        ({"cell": 4}, BAD),
        ({"bias": 4}, BAD),
        ({"direction": 2}, BAD),
        ({"input": 2}, BAD),
        ({"math": 4}, BAD),
        *[({name: 0}, BAD) for name in ("input_size", "hidden", "projection", "layers")],
        ({"flags": 0}, 0),
        ({"flags": 2}, BAD),
        ({"projection": 4}, UNSUPPORTED),
        ({"projection": 2}, 0),
        ({"projection": 2, "cell": 3}, UNSUPPORTED),
        ({"projection": 2, "algo": 1}, UNSUPPORTED),
        ({"bias": 0, "algo": 1}, UNSUPPORTED),
        ({"input": 1}, 0),
        ({"dtype": -1}, UNSUPPORTED),
        ({"dtype": 3}, UNSUPPORTED),
        ({"precision": 9}, UNSUPPORTED),
        ({"layers": 2**31 - 1}, 0),
    ],
)
def test_status_of_a_set(library, changes, status):
    call = c_functions(library)
    descriptor = create(call, "RNN")
    arguments = list({**RNN, **changes}.values())
    assert call("cudnnSetRNNDescriptor_v8", descriptor, *arguments) == status
    destroy(call, "RNN", descriptor)


def test_types_that_go_together(library):
    call = c_functions(library)
    descriptor = create(call, "RNN")
    both = {(0, 0), (2, 0), (9, 0)}
    supported = {0: {*both, (1, 1), (2, 2)}, 1: both, 2: {*both, (1, 1)}, 3: both}
    for algo, dtype, precision in itertools.product(range(4), (0, 1, 2, 3, 9), (0, 1, 2, 9)):
        arguments = {**RNN, "algo": algo, "dtype": dtype, "precision": precision}
        status = call("cudnnSetRNNDescriptor_v8", descriptor, *arguments.values())
        assert (status == 0) == ((dtype, precision) in supported[algo]), (algo, dtype, precision)
        assert status in (0, UNSUPPORTED)
    destroy(call, "RNN", descriptor)


def read_clip(call, descriptor):
    mode, nan, low, high = ctypes.c_int(), ctypes.c_int(), ctypes.c_double(), ctypes.c_double()
    out = [ctypes.byref(value) for value in (mode, nan, low, high)]
    assert call("cudnnRNNGetClip_v8", descriptor, *out) == 0
    nine = ctypes.c_int(), ctypes.c_double(), ctypes.c_double()
    assert call("cudnnRNNGetClip_v9", descriptor, *map(ctypes.byref, nine)) == 0
    assert tuple(value.value for value in nine) == (mode.value, low.value, high.value)
    return mode.value, nan.value, low.value, high.value


def test_clips_in_c(library):
    """Any mode passes, bounds must be numbers in order, and setting the network clears it all."""
    call = c_functions(library)
    descriptor = create(call, "RNN")
    off = (0, 0, 0.0, 0.0)
    assert read_clip(call, descriptor) == off
    assert call("cudnnRNNSetClip_v9", descriptor, 7, -1.0, 1.0) == 0
    assert read_clip(call, descriptor) == (7, 1, -1.0, 1.0)
    assert call("cudnnRNNSetClip_v8", descriptor, 1, 5, -2.0, np.inf) == 0
    assert read_clip(call, descriptor) == (1, 5, -2.0, np.inf)
    for low, high in ((1.0, -1.0), (np.nan, 1.0), (0.0, np.nan)):
        assert call("cudnnRNNSetClip_v9", descriptor, 1, low, high) == BAD
        assert call("cudnnRNNSetClip_v8", descriptor, 1, 0, low, high) == BAD
    assert read_clip(call, descriptor) == (1, 5, -2.0, np.inf)
    assert call("cudnnSetRNNDescriptor_v8", descriptor, *RNN.values()) == 0
    assert read_clip(call, descriptor) == off
    destroy(call, "RNN", descriptor)


def read_network(call, descriptor):
    numbers = [ctypes.c_int(77) for _ in range(12)]
    dropout, flags = ctypes_type("cudnnDropoutDescriptor_t")(), ctypes.c_uint32()
    out = map(ctypes.byref, (*numbers, dropout, flags))
    status = call("cudnnGetRNNDescriptor_v8", descriptor, *out)
    return status, [number.value for number in numbers], bool(dropout), flags.value


def test_a_network_that_was_never_set(library):
    call = c_functions(library)
    descriptor = create(call, "RNN")
    assert read_network(call, descriptor)[0] == 1001
    assert call("cudnnSetRNNDescriptor_v8", descriptor, *RNN.values()) == 0
    set_once = (0, list(RNN.values())[:12], False, 1)
    assert read_network(call, descriptor) == set_once
    assert call("cudnnSetRNNDescriptor_v8", descriptor, *{**RNN, "algo": 9}.values()) == BAD
    assert read_network(call, descriptor) == set_once
    dropout = create(call, "Dropout")
    assert call("cudnnSetRNNDescriptor_v8", descriptor, *{**RNN, "dropout": dropout}.values()) == 0
    assert read_network(call, descriptor)[2]
    destroy(call, "RNN", descriptor)
    destroy(call, "Dropout", dropout)


DATA = {"dtype": 0, "layout": 0, "longest": 4, "batch": 2, "vector": 5, "lengths": (4, 2)}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"dtype": -1}, BAD),
        ({"dtype": 3}, UNSUPPORTED),
        ({"dtype": 14}, UNSUPPORTED),
        ({"layout": -1}, BAD),
        ({"layout": 3}, BAD),
        *[({name: size}, BAD) for name in ("longest", "batch", "vector") for size in (0, -1)],
        ({"longest": 3}, BAD),
        ({"lengths": (4, 0)}, 0),
        ({"lengths": (4, -1)}, BAD),
        ({"lengths": (5, 2)}, BAD),
        ({"lengths": None}, BAD),
        ({"lengths": (2, 4)}, 0),
        *[({"layout": 1, "lengths": lengths}, BAD) for lengths in ((2, 4), (4, 0), (3, 2))],
        ({"layout": 1}, 0),
    ],
)
def test_status_of_a_data_set(library, changes, status):
    call = c_functions(library)
    descriptor = create(call, "RNNData")
    *numbers, lengths = {**DATA, **changes}.values()
    array = None if lengths is None else (ctypes.c_int * len(lengths))(*lengths)
    assert call("cudnnSetRNNDataDescriptor", descriptor, *numbers, array, None) == status
    destroy(call, "RNNData", descriptor)


def test_the_data_getter_writes_as_many_lengths_as_asked(library):
    call = c_functions(library)
    descriptor = create(call, "RNNData")
    *numbers, lengths = DATA.values()
    array = (ctypes.c_int * 2)(*lengths)
    fill = ctypes.c_float(-7)
    assert call("cudnnSetRNNDataDescriptor", descriptor, *numbers, array, ctypes.byref(fill)) == 0
    for asked, expected in ((0, [55] * 4), (1, [4, 55, 55, 55]), (3, [4, 2, 0, 55])):
        out = [ctypes.c_int() for _ in range(5)]
        got, read = (ctypes.c_int * 4)(*[55] * 4), (ctypes.c_float * 2)(3, 3)
        assert 0 == call(
            "cudnnGetRNNDataDescriptor", descriptor, *map(ctypes.byref, out), asked, got, read
        )
        assert [value.value for value in out] == numbers
        assert list(got) == expected
        assert list(read) == [-7, 3]
    out = [ctypes.c_int() for _ in range(5)]
    assert BAD == call(
        "cudnnGetRNNDataDescriptor", descriptor, *map(ctypes.byref, out), -1, got, read
    )
    destroy(call, "RNNData", descriptor)


# ---- the weight space ----------------------------------------------------------------------------


def weights_of(context, rnn):
    """Every matrix and bias as (pseudo-layer, linear layer, kind, shape, offset)."""
    handle = context.cudnn
    size = cudnn.get_rnn_weight_space_size(handle, rnn)
    space = empty((max(size, 1),), "uint8", device=context.device, stream=context.stream)
    found = []
    for layer in range(rnn.num_layers * (rnn.direction_mode + 1)):
        for linear in range(2 * GATES[rnn.cell_mode] + 1):
            weights = cudnn.get_rnn_weight_params(handle, rnn, layer, space, linear)
            for kind, view in weights._asdict().items():
                if view is not None:
                    assert view.desc.dtype == rnn.dtype
                    found.append((layer, linear, kind, view.desc, view.offset))
    return size, found


def test_r4_pseudo_layers_and_their_widths(context):
    rnn = cudnn.RNNDescriptor(
        5, 3, num_layers=2, direction_mode=DirectionMode.BIDIRECTIONAL,
        library=context.cudnn.library,
    )  # fmt: skip
    _, found = weights_of(context, rnn)
    inputs = {
        layer: desc.shape for layer, linear, kind, desc, _ in found
        if linear == 0 and kind == "matrix"
    }  # fmt: skip
    assert inputs == {0: (1, 3, 5), 1: (1, 3, 5), 2: (1, 3, 6), 3: (1, 3, 6)}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cell_mode": RNNMode.RNN_TANH, "num_layers": 1},
        {"cell_mode": RNNMode.GRU, "direction_mode": DirectionMode.BIDIRECTIONAL},
        {"bias_mode": RNNBiasMode.NO_BIAS},
        {"bias_mode": RNNBiasMode.SINGLE_INP_BIAS, "dtype": "float64"},
        {"bias_mode": RNNBiasMode.SINGLE_REC_BIAS, "dtype": "float16"},
        {"projection_size": 2, "direction_mode": DirectionMode.BIDIRECTIONAL, "num_layers": 3},
        {"input_size": 3, "input_mode": RNNInputMode.SKIP_INPUT},
    ],
    ids=str,
)
def test_r4_the_views_cover_each_weight_once(context, settings):
    rnn = cudnn.RNNDescriptor(
        **{"input_size": 5, "hidden_size": 3, "num_layers": 2, **settings},
        library=context.cudnn.library,
    )
    size, found = weights_of(context, rnn)
    covered = np.zeros(size, np.int64)
    for *_, desc, offset in found:
        covered[offset : offset + desc.extent] += 1
    assert size > 0
    assert (covered == 1).all()
    biases = [linear for layer, linear, kind, *_ in found if kind == "bias" and layer == 0]
    gates = GATES[rnn.cell_mode]
    assert (
        biases
        == {
            RNNBiasMode.NO_BIAS: [],
            RNNBiasMode.SINGLE_INP_BIAS: list(range(gates)),
            RNNBiasMode.DOUBLE_BIAS: list(range(2 * gates)),
            RNNBiasMode.SINGLE_REC_BIAS: list(range(gates, 2 * gates)),
        }[rnn.bias_mode]
    )


def test_a_projection_narrows_the_recurrence(context):
    rnn = cudnn.RNNDescriptor(5, 8, projection_size=4, library=context.cudnn.library)
    _, found = weights_of(context, rnn)
    shapes = {linear: desc.shape for _, linear, kind, desc, _ in found if kind == "matrix"}
    assert shapes == {**dict.fromkeys(range(4), (1, 8, 5)), **dict.fromkeys(range(4, 8), (1, 8, 4)),
                      8: (1, 4, 8)}  # fmt: skip


def test_a_weight_space_that_is_too_small_is_refused(context):
    rnn = cudnn.RNNDescriptor(5, 3, library=context.cudnn.library)
    size = cudnn.get_rnn_weight_space_size(context.cudnn, rnn)
    small = from_numpy(np.zeros(size - 1, np.uint8), device=context.device)
    with pytest.raises(ValueError, match=f"weight_space needs {size} bytes, got {size - 1}"):
        cudnn.get_rnn_weight_params(context.cudnn, rnn, 0, small, 0)
    enough = from_numpy(np.zeros(size, np.uint8), device=context.device)
    with pytest.raises(ValueError, match=r"pseudo_layer must be in \[0, 0\], got 1"):
        cudnn.get_rnn_weight_params(context.cudnn, rnn, 1, enough, 0)
    with pytest.raises(ValueError, match=r"linear_layer must be in \[0, 8\], got 9"):
        cudnn.get_rnn_weight_params(context.cudnn, rnn, 0, enough, 9)


def test_r8_sizes_follow_the_shape(context):
    handle, library = context.cudnn, context.cudnn.library
    rnn = cudnn.RNNDescriptor(5, 3, num_layers=2, library=library)
    sizes = {}
    for steps, batch in ((1, 1), (5, 7), (5, 32)):
        x_desc = cudnn.RNNDataDescriptor([steps] * batch, 5, library=library)
        inference = cudnn.get_rnn_temp_space_sizes(handle, rnn, ForwardMode.INFERENCE, x_desc)
        assert inference[1] == 0
        training = cudnn.get_rnn_temp_space_sizes(handle, rnn, ForwardMode.TRAINING, x_desc)
        sizes[steps, batch] = training[1]
    assert sizes[1, 1] < sizes[5, 7] < sizes[5, 32]
    with pytest.raises(ValueError, match="forward_mode must be a ForwardMode"):
        cudnn.get_rnn_temp_space_sizes(handle, rnn, 2, x_desc)
    wrong = cudnn.RNNDataDescriptor([2], 6, library=library)
    with pytest.raises(errors.CudnnError, match="BAD_PARAM"):
        cudnn.get_rnn_temp_space_sizes(handle, rnn, ForwardMode.INFERENCE, wrong)
    with pytest.raises(TypeError, match="x_desc must be a RNNDataDescriptor"):
        cudnn.get_rnn_temp_space_sizes(handle, rnn, ForwardMode.INFERENCE, rnn)


def test_build_dynamic(context):
    rnn = cudnn.RNNDescriptor(
        32, 32, algorithm=RNNAlgo.PERSIST_DYNAMIC, library=context.cudnn.library
    )
    cudnn.build_rnn_dynamic(context.cudnn, rnn, 4)
    with pytest.raises(ValueError, match="batch_size.*got 0"):
        cudnn.build_rnn_dynamic(context.cudnn, rnn, 0)
    with pytest.raises(TypeError, match="rnn must be a RNNDescriptor"):
        cudnn.build_rnn_dynamic(context.cudnn, context.cudnn, 4)
