"""Recurrent networks: descriptors, sizes, and where each weight lies.

A network has ``num_layers`` layers, each of one direction or two; a layer in one direction is a
*pseudo-layer*, numbered 2 * layer + direction where there are two. Its *linear layers* are the
matrices of its cell, first those of the input, then those of the recurrence: 1 and 1 for RNN_RELU
and RNN_TANH, 4 and 4 for LSTM (input, forget, new, output gate), 3 and 3 for GRU (reset, update,
new gate). One more, behind them, is the LSTM's projection.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import (
    CUDNN_RNN_PADDED_IO_DISABLED,
    CUDNN_RNN_PADDED_IO_ENABLED,
    DataType,
    DirectionMode,
    ForwardMode,
    MathType,
    NanPropagation,
    RNNAlgo,
    RNNBiasMode,
    RNNClipMode,
    RNNInputMode,
    RNNMode,
)
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn._objects import choose_math_type, construct, finite, integer, member, require
from pycudnn.cudnn._sequences import as_dropout, sequence_type
from pycudnn.cudnn._weights import Locator, WeightView
from pycudnn.cudnn.dropout import DropoutDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.rnn_data import RNNDataDescriptor
from pycudnn.cudnn.tensor import MAX_BYTES
from pycudnn.libraries import Library, find_library

_GATES = {RNNMode.RNN_RELU: 1, RNNMode.RNN_TANH: 1, RNNMode.LSTM: 4, RNNMode.GRU: 3}


class RNNSettings(NamedTuple):
    """What the library has of an RNN descriptor."""

    algorithm: RNNAlgo
    cell_mode: RNNMode
    bias_mode: RNNBiasMode
    direction_mode: DirectionMode
    input_mode: RNNInputMode
    data_type: DataType
    math_precision: DataType
    math_type: MathType
    input_size: int
    hidden_size: int
    projection_size: int
    num_layers: int
    padded_io: bool


class RNNDescriptor(_core.Owned):
    """A recurrent network (cudnnSetRNNDescriptor_v8, cudnnRNNSetClip_v9).

    ``input_size`` is the length of an input vector, ``hidden_size`` that of the hidden state;
    ``projection_size`` (LSTM) that of the hidden state after its projection, at most
    ``hidden_size``, which means no projection, as None does. ``math_precision`` is the type
    computed in; None is float64 for float64, else float32. ``math_type`` None is FMA_MATH (plain
    float32) for float32 data, or DEFAULT_MATH, which may use TF32, where ``pycudnn.config.tf32`` is
    set or the data is of another type. ``dropout`` acts between layers.
    ``padded_io`` allows unpacked data with sequences of different lengths. ``clip`` (LSTM) is the
    smallest and largest value of the cell state; with ``clip_nan`` NOT_PROPAGATE_NAN a NaN in it
    is clipped too (cudnnRNNSetClip_v8).

    ValueError for a number or enum outside its range, an input size other than the hidden one
    with SKIP_INPUT, a clip of another cell than LSTM; CudnnNotSupported for combinations that the
    library has not.
    """

    c_type = "cudnnRNNDescriptor_t"
    library: Library
    dropout: DropoutDescriptor | None
    _is_set = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        num_layers: int = 1,
        cell_mode: RNNMode = RNNMode.LSTM,
        bias_mode: RNNBiasMode = RNNBiasMode.DOUBLE_BIAS,
        direction_mode: DirectionMode = DirectionMode.UNIDIRECTIONAL,
        input_mode: RNNInputMode = RNNInputMode.LINEAR_INPUT,
        dtype: Any = DataType.FLOAT,
        math_precision: Any = None,
        math_type: MathType | None = None,
        algorithm: RNNAlgo = RNNAlgo.STANDARD,
        projection_size: int | None = None,
        dropout: DropoutDescriptor | None = None,
        padded_io: bool = True,
        clip: tuple[float, float] | None = None,
        clip_nan: NanPropagation = NanPropagation.PROPAGATE_NAN,
        library: Library | str | None = None,
    ) -> None:
        hidden = integer(hidden_size, "hidden_size", 1)
        data_type = sequence_type(dtype)
        if math_precision is None:
            math_precision = DataType.DOUBLE if data_type == DataType.DOUBLE else DataType.FLOAT
        chosen = RNNSettings(
            member(RNNAlgo, algorithm, "algorithm"),
            member(RNNMode, cell_mode, "cell_mode"),
            member(RNNBiasMode, bias_mode, "bias_mode"),
            member(DirectionMode, direction_mode, "direction_mode"),
            member(RNNInputMode, input_mode, "input_mode"),
            data_type,
            dtypes.to_data_type(math_precision, "math_precision"),
            choose_math_type(math_type, data_type),
            integer(input_size, "input_size", 1),
            hidden,
            hidden
            if projection_size is None
            else integer(projection_size, "projection_size", 1, hidden),
            integer(num_layers, "num_layers", 1),
            bool(padded_io),
        )
        _check(chosen)
        limits = None if clip is None else _check_clip(clip, chosen.cell_mode)
        clip_nan = member(NanPropagation, clip_nan, "clip_nan")
        found = find_library("cudnn", library)
        self.dropout = dropout
        self._dropout = as_dropout(dropout, "dropout", found)

        def set_up(call: _core.ColdCall) -> None:
            call("cudnnSetRNNDescriptor_v8", self, *chosen[:-1], self._dropout, _flags(padded_io))
            self._is_set = True
            # Setting the descriptor clears its clip.
            if limits is not None and clip_nan == NanPropagation.PROPAGATE_NAN:
                call("cudnnRNNSetClip_v9", self, RNNClipMode.MINMAX, *limits)
            elif limits is not None:
                call("cudnnRNNSetClip_v8", self, RNNClipMode.MINMAX, clip_nan, *limits)

        settings = chosen._asdict()
        settings |= {"dropout": dropout, "clip": limits, "clip_nan": clip_nan}
        construct(self, found, "RNNDescriptor", settings, set_up)

    def read(self) -> RNNSettings:
        """All settings but the clip, as the library has them (cudnnGetRNNDescriptor_v8)."""
        numbers = [ctypes.c_int() for _ in range(12)]
        flags = ctypes.c_uint32()
        dropout = ctypes_type("cudnnDropoutDescriptor_t")()
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetRNNDescriptor_v8",
                self, *map(ctypes.byref, numbers), ctypes.byref(dropout), ctypes.byref(flags),
            )  # fmt: skip
        kinds = (RNNAlgo, RNNMode, RNNBiasMode, DirectionMode, RNNInputMode, DataType, DataType,
                 MathType, int, int, int, int)  # fmt: skip
        values = [kind(number.value) for kind, number in zip(kinds, numbers, strict=True)]
        padded_io = bool(flags.value & CUDNN_RNN_PADDED_IO_ENABLED)
        return RNNSettings._make([*values, padded_io])

    def _read_clip(self) -> tuple[RNNClipMode, NanPropagation, tuple[float, float]]:
        mode, nan = ctypes.c_int(), ctypes.c_int()
        low, high = ctypes.c_double(), ctypes.c_double()
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnRNNGetClip_v8",
                self, ctypes.byref(mode), ctypes.byref(nan), ctypes.byref(low), ctypes.byref(high),
            )  # fmt: skip
        return RNNClipMode(mode.value), NanPropagation(nan.value), (low.value, high.value)

    @property
    def algorithm(self) -> RNNAlgo:
        """How it is computed."""
        return self.read().algorithm

    @property
    def cell_mode(self) -> RNNMode:
        """The kind of cell."""
        return self.read().cell_mode

    @property
    def bias_mode(self) -> RNNBiasMode:
        """Which biases there are."""
        return self.read().bias_mode

    @property
    def direction_mode(self) -> DirectionMode:
        """One direction or both."""
        return self.read().direction_mode

    @property
    def input_mode(self) -> RNNInputMode:
        """Has the first layer input matrices?"""
        return self.read().input_mode

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type of data and weights."""
        return dtypes.to_numpy(self.read().data_type)

    @property
    def math_precision(self) -> np.dtype[Any] | DataType:
        """The type computed in."""
        return dtypes.to_numpy(self.read().math_precision)

    @property
    def math_type(self) -> MathType:
        """Are tensor cores used, and how?"""
        return self.read().math_type

    @property
    def input_size(self) -> int:
        """Length of an input vector."""
        return self.read().input_size

    @property
    def hidden_size(self) -> int:
        """Length of the hidden state before its projection, and of the cell state."""
        return self.read().hidden_size

    @property
    def projection_size(self) -> int:
        """Length of the hidden state after its projection: ``hidden_size`` where there is none."""
        return self.read().projection_size

    @property
    def num_layers(self) -> int:
        """Layers, one on the other."""
        return self.read().num_layers

    @property
    def padded_io(self) -> bool:
        """May unpacked data have sequences of different lengths?"""
        return self.read().padded_io

    @property
    def clip(self) -> tuple[float, float] | None:
        """Smallest and largest value of the cell state, None where it is not clipped."""
        mode, _, limits = self._read_clip()
        return limits if mode == RNNClipMode.MINMAX else None

    @property
    def clip_nan(self) -> NanPropagation:
        """Does a NaN in the cell state stay where it is clipped?"""
        mode, nan, _ = self._read_clip()
        return nan if mode == RNNClipMode.MINMAX else NanPropagation.PROPAGATE_NAN

    def __repr__(self) -> str:
        if self.closed:
            return "<closed RNNDescriptor>"
        if not self._is_set:  # the getter would fail, and describe this object in its error
            return "<unset RNNDescriptor>"
        read = self.read()
        projection = read.projection_size
        return (
            f"RNNDescriptor({read.input_size}, {read.hidden_size}, num_layers={read.num_layers}, "
            f"cell_mode={read.cell_mode.name}, bias_mode={read.bias_mode.name}, "
            f"direction_mode={read.direction_mode.name}, dtype={dtypes.name(read.data_type)}"
            + (f", projection_size={projection}" if projection < read.hidden_size else "")
            + (f", clip={self.clip}" if self.clip else "")
            + ")"
        )


def _flags(padded_io: bool) -> int:
    return CUDNN_RNN_PADDED_IO_ENABLED if padded_io else CUDNN_RNN_PADDED_IO_DISABLED


def _check(chosen: RNNSettings) -> None:
    """What the library takes, or takes and then gets wrong."""
    if chosen.algorithm == RNNAlgo.COUNT:
        raise ValueError("algorithm must be one that computes, got RNNAlgo.COUNT")
    if chosen.input_mode == RNNInputMode.SKIP_INPUT and chosen.input_size != chosen.hidden_size:
        raise ValueError(
            f"input_size must be hidden_size, {chosen.hidden_size}, for SKIP_INPUT, "
            f"got {chosen.input_size}"
        )
    directions = chosen.direction_mode + 1
    widest = max(chosen.input_size, directions * chosen.hidden_size) + 2 * chosen.hidden_size + 2
    rows = chosen.num_layers * directions * _GATES[chosen.cell_mode] * chosen.hidden_size
    if rows * widest * 8 > MAX_BYTES:
        raise ValueError(f"a network of {rows} x {widest} weights is more than memory can have")


def _check_clip(clip: Any, cell: RNNMode) -> tuple[float, float]:
    if cell != RNNMode.LSTM:
        raise ValueError(f"clip must be None for {cell.name}: only an LSTM has a cell state")
    if not isinstance(clip, (tuple, list)) or len(clip) != 2:
        raise ValueError(f"clip must be a pair of numbers (low, high), got {clip!r}")
    low, high = finite(clip[0], "clip[0]"), finite(clip[1], "clip[1]")
    if low > high:
        raise ValueError(f"clip must be (low, high) with low <= high, got {clip!r}")
    return low, high


# ---- sizes and weights ---------------------------------------------------------------------------


def get_rnn_weight_space_size(handle: Handle, rnn: RNNDescriptor) -> int:
    """Bytes that all weights and biases take (cudnnGetRNNWeightSpaceSize)."""
    require(handle, Handle, "handle")
    require(rnn, RNNDescriptor, "rnn")
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call("cudnnGetRNNWeightSpaceSize", handle, rnn, ctypes.byref(size))
    return size.value


def get_rnn_temp_space_sizes(
    handle: Handle, rnn: RNNDescriptor, forward_mode: ForwardMode, x_desc: RNNDataDescriptor
) -> tuple[int, int]:
    """Bytes of workspace and of reserve space for data like x (cudnnGetRNNTempSpaceSizes).

    The reserve space is 0 for INFERENCE. Ask again whenever the shape changes.
    """
    require(handle, Handle, "handle")
    require(rnn, RNNDescriptor, "rnn")
    require(x_desc, RNNDataDescriptor, "x_desc")
    mode = member(ForwardMode, forward_mode, "forward_mode")
    workspace, reserve = ctypes.c_size_t(), ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetRNNTempSpaceSizes",
            handle, rnn, mode, x_desc, ctypes.byref(workspace), ctypes.byref(reserve),
        )  # fmt: skip
    return workspace.value, reserve.value


class RNNWeights(NamedTuple):
    """Matrix and bias of one linear layer; None for what the network does not have."""

    matrix: WeightView | None
    bias: WeightView | None


def get_rnn_weight_params(
    handle: Handle, rnn: RNNDescriptor, pseudo_layer: int, weight_space: Any, linear_layer: int
) -> RNNWeights:
    """Where matrix and bias of a linear layer lie in the weight space (cudnnGetRNNWeightParams).

    Matrices have shape (1, rows, columns), biases (1, rows, 1). ValueError for a pseudo-layer or
    linear layer that the network has not, or a ``weight_space`` smaller than its weights.
    """
    needed = get_rnn_weight_space_size(handle, rnn)
    read = rnn.read()
    layers = read.num_layers * (read.direction_mode + 1)
    layer = integer(pseudo_layer, "pseudo_layer", 0, layers - 1)
    linear = integer(linear_layer, "linear_layer", 0, 2 * _GATES[read.cell_mode])
    matrix, bias = Locator(rnn.library), Locator(rnn.library)
    with _core.ColdCall(handle.library, handle) as call:
        address = call.operand(weight_space, "weight_space", False, None, needed)
        call(
            "cudnnGetRNNWeightParams",
            handle, rnn, layer, needed, address, linear,
            matrix.desc, matrix.pointer, bias.desc, bias.pointer,
        )  # fmt: skip
        return RNNWeights(matrix.view(call, address), bias.view(call, address))


def build_rnn_dynamic(handle: Handle, rnn: RNNDescriptor, batch_size: int) -> None:
    """Compile the kernels of PERSIST_DYNAMIC for a batch size (cudnnBuildRNNDynamic)."""
    require(handle, Handle, "handle")
    require(rnn, RNNDescriptor, "rnn")
    count = integer(batch_size, "batch_size", 1)
    with _core.ColdCall(handle.library, handle) as call:
        call("cudnnBuildRNNDynamic", handle, rnn, count)
