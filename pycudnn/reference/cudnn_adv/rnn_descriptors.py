"""Descriptors of recurrent networks, and how the weight space is divided.

The weight space holds the matrices of all pseudo-layers (a layer in one direction), then all
biases. A pseudo-layer's matrices are those of its gates for the input, those of its gates for the
recurrence, and the projection.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from pycudnn.abi.cudnn_enums import (
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
from pycudnn.abi.cudnn_enums import Status as Code

from ..cudnn_graph import Handle
from ..descriptors import Dropout, Tensor
from ..memory import numpy_dtype, write, write_wanted
from ..runtime import Status, bad_param, find_identifier, implements, not_supported, opaque
from .rnn_data import RNNData

GATES = {RNNMode.RNN_RELU: 1, RNNMode.RNN_TANH: 1, RNNMode.LSTM: 4, RNNMode.GRU: 3}

_PRECISIONS = {
    RNNAlgo.STANDARD: {
        (DataType.FLOAT, DataType.FLOAT),
        (DataType.DOUBLE, DataType.DOUBLE),
        (DataType.HALF, DataType.FLOAT),
        (DataType.HALF, DataType.HALF),
        (DataType.BFLOAT16, DataType.FLOAT),
    }
}
_STATIC = {
    (data_type, DataType.FLOAT) for data_type in (DataType.FLOAT, DataType.HALF, DataType.BFLOAT16)
}
_PRECISIONS |= {
    RNNAlgo.PERSIST_STATIC: _STATIC,
    RNNAlgo.PERSIST_DYNAMIC: {*_STATIC, (DataType.DOUBLE, DataType.DOUBLE)},
    RNNAlgo.PERSIST_STATIC_SMALL_H: _STATIC,
}


class Clip(NamedTuple):
    """Bounds of the LSTM's cell state; cuDNN takes any number as a mode."""

    mode: int = RNNClipMode.NONE
    nan: int = NanPropagation.NOT_PROPAGATE_NAN
    low: float = 0.0
    high: float = 0.0


@opaque("cudnnRNNDescriptor_t", "cudnnCreateRNNDescriptor", "cudnnDestroyRNNDescriptor")
@dataclass
class RNN:
    """All settings, in the order of the C function; sizes are 0 until they are set."""

    algorithm: RNNAlgo = RNNAlgo.STANDARD
    cell: RNNMode = RNNMode.RNN_RELU
    bias: RNNBiasMode = RNNBiasMode.NO_BIAS
    direction: DirectionMode = DirectionMode.UNIDIRECTIONAL
    input_mode: RNNInputMode = RNNInputMode.LINEAR_INPUT
    dtype: DataType = DataType.FLOAT
    precision: DataType = DataType.FLOAT
    math_type: MathType = MathType.DEFAULT_MATH
    input_size: int = 0
    hidden_size: int = 0
    projection_size: int = 0
    layers: int = 0
    dropout: Dropout | None = None
    flags: int = 0
    clip: Clip = Clip()

    @property
    def directions(self) -> int:
        """1 or 2."""
        return self.direction + 1

    @property
    def linear_layers(self) -> int:
        """Of one pseudo-layer; the last one is the projection."""
        return 2 * GATES[self.cell] + 1

    def matrix_shape(self, layer: int, linear: int) -> tuple[int, int]:
        """Rows and columns of a linear layer's matrix; (0, 0) where the network has none."""
        gates = GATES[self.cell]
        if linear == 2 * gates:
            projected = self.projection_size < self.hidden_size
            return (self.projection_size, self.hidden_size) if projected else (0, 0)
        if linear >= gates:
            return self.hidden_size, self.projection_size
        if layer >= self.directions:
            return self.hidden_size, self.directions * self.projection_size
        skipped = self.input_mode == RNNInputMode.SKIP_INPUT
        return (0, 0) if skipped else (self.hidden_size, self.input_size)

    def biased(self) -> range:
        """The linear layers that have a bias, which has an element per hidden one."""
        gates = GATES[self.cell]
        return {
            RNNBiasMode.NO_BIAS: range(0),
            RNNBiasMode.SINGLE_INP_BIAS: range(gates),
            RNNBiasMode.DOUBLE_BIAS: range(2 * gates),
            RNNBiasMode.SINGLE_REC_BIAS: range(gates, 2 * gates),
        }[self.bias]

    def _matrix_elements(self, layer: int, count: int) -> int:
        """Elements of the first `count` matrices of a pseudo-layer."""
        return sum(math.prod(self.matrix_shape(layer, linear)) for linear in range(count))

    def matrix_start(self, layer: int, linear: int = 0) -> int:
        """Elements before a matrix. The pseudo-layers of all layers but the first are alike."""
        first = min(layer, self.directions)
        before = first * self._matrix_elements(0, self.linear_layers)
        before += (layer - first) * self._matrix_elements(self.directions, self.linear_layers)
        return before + self._matrix_elements(layer, linear)

    def bias_start(self, layer: int, linear: int = 0) -> int:
        """Elements before a bias."""
        biased = self.biased()
        before = layer * len(biased) + max(linear - biased.start, 0)
        return self.matrix_start(self.pseudo_layers) + before * self.hidden_size

    @property
    def pseudo_layers(self) -> int:
        """Layers times directions."""
        return self.layers * self.directions


@implements("cudnnSetRNNDescriptor_v8", optional=("dropoutDesc",))
def set_rnn(
    descriptor: RNN,
    algorithm: int,
    cell: int,
    bias: int,
    direction: int,
    input_mode: int,
    dtype: int,
    precision: int,
    math_type: int,
    input_size: int,
    hidden_size: int,
    projection_size: int,
    layers: int,
    dropout: Dropout | None,
    flags: int,
) -> None:
    """Set everything but the clip, which is off afterwards."""
    _check_enum(RNNAlgo, algorithm, "algo")
    if algorithm == RNNAlgo.COUNT:
        raise bad_param("algo is COUNT, which is none")
    _check_enum(RNNMode, cell, "cellMode")
    _check_enum(RNNBiasMode, bias, "biasMode")
    _check_enum(DirectionMode, direction, "dirMode")
    _check_enum(RNNInputMode, input_mode, "inputMode")
    _check_enum(MathType, math_type, "mathType")
    for name, size in (
        ("inputSize", input_size), ("hiddenSize", hidden_size),
        ("projSize", projection_size), ("numLayers", layers),
    ):  # fmt: skip
        if size < 1:
            raise bad_param(f"{name} is {size}, must be at least 1")
    if flags & ~CUDNN_RNN_PADDED_IO_ENABLED:
        raise bad_param(f"auxFlags is {flags:#x}, has unknown bits")
    if (dtype, precision) not in _PRECISIONS[RNNAlgo(algorithm)]:
        raise not_supported(f"dataType {dtype} with mathPrec {precision} for algo {algorithm}")
    if projection_size > hidden_size:
        raise not_supported(f"projSize {projection_size} is larger than hiddenSize {hidden_size}")
    standard = algorithm == RNNAlgo.STANDARD
    if projection_size < hidden_size and not (standard and cell == RNNMode.LSTM):
        raise not_supported("a projection is for LSTM with algo STANDARD only")
    if bias != RNNBiasMode.DOUBLE_BIAS and not standard:
        raise not_supported(f"biasMode {bias} is for algo STANDARD only")
    fresh = RNN(
        RNNAlgo(algorithm), RNNMode(cell), RNNBiasMode(bias), DirectionMode(direction),
        RNNInputMode(input_mode), DataType(dtype), DataType(precision), MathType(math_type),
        input_size, hidden_size, projection_size, layers, dropout, flags,
    )  # fmt: skip
    vars(descriptor).update(vars(fresh))


def _check_enum(kind: type[IntEnum], value: int, name: str) -> None:
    if value not in list(kind):
        raise bad_param(f"{name} is {value}, no {kind.__name__}")


@implements("cudnnGetRNNDescriptor_v8")
def get_rnn(descriptor: RNN, *out: int) -> None:
    """What was set. NULL takes nothing."""
    if not descriptor.layers:
        raise Status(Code.NOT_INITIALIZED, "the RNN descriptor has not been set")
    values = list(vars(descriptor).values())[:-1]  # all but the clip
    values[-2] = find_identifier(descriptor.dropout)
    types = [ctypes.c_int] * 12 + [ctypes.c_void_p, ctypes.c_uint32]
    for address, c_type, value in zip(out, types, values, strict=True):
        write_wanted(address, c_type, value)


@implements("cudnnRNNSetClip_v8")
def set_clip_v8(descriptor: RNN, mode: int, nan: int, low: float, high: float) -> None:
    """Bound the cell state of an LSTM; with `nan` NOT_PROPAGATE_NAN a NaN is bounded too."""
    if math.isnan(low) or math.isnan(high) or low > high:
        raise bad_param(f"clip [{low}, {high}]: must be numbers in order")
    descriptor.clip = Clip(mode, nan, low, high)


@implements("cudnnRNNSetClip_v9")
def set_clip_v9(descriptor: RNN, mode: int, low: float, high: float) -> None:
    """Bound the cell state of an LSTM; a NaN stays."""
    set_clip_v8(descriptor, mode, NanPropagation.PROPAGATE_NAN, low, high)


@implements("cudnnRNNGetClip_v8")
def get_clip_v8(descriptor: RNN, mode: int, nan: int, low: int, high: int) -> None:
    """What was set. NULL takes nothing."""
    get_clip_v9(descriptor, mode, low, high)
    write_wanted(nan, ctypes.c_int, descriptor.clip.nan)


@implements("cudnnRNNGetClip_v9")
def get_clip_v9(descriptor: RNN, mode: int, low: int, high: int) -> None:
    """What was set. NULL takes nothing."""
    write_wanted(mode, ctypes.c_int, descriptor.clip.mode)
    write_wanted(low, ctypes.c_double, descriptor.clip.low)
    write_wanted(high, ctypes.c_double, descriptor.clip.high)


@implements("cudnnBuildRNNDynamic")
def build_dynamic(handle: Handle, descriptor: RNN, batch_size: int) -> None:
    """Nothing is compiled here."""
    if batch_size <= 0:
        raise bad_param(f"miniBatch is {batch_size}, must be positive")


@implements("cudnnGetRNNWeightSpaceSize")
def get_weight_space_size(handle: Handle, descriptor: RNN, size: int) -> None:
    """Bytes of all weights and biases."""
    elements = descriptor.bias_start(descriptor.pseudo_layers)
    write(size, ctypes.c_size_t, elements * numpy_dtype(descriptor.dtype).itemsize)


@implements("cudnnGetRNNTempSpaceSizes")
def get_temp_space_sizes(
    handle: Handle, descriptor: RNN, mode: int, x_desc: RNNData, workspace: int, reserve: int
) -> None:
    """No workspace; for training, room for the gates and both states of every step."""
    _check_enum(ForwardMode, mode, "fwdMode")
    if (x_desc.dtype, x_desc.vector_size) != (descriptor.dtype, descriptor.input_size):
        raise bad_param(
            f"xDesc has {x_desc.vector_size} {x_desc.dtype.name}, "
            f"the network takes {descriptor.input_size} {descriptor.dtype.name}"
        )
    kept = 0
    if mode == ForwardMode.TRAINING:
        steps = descriptor.pseudo_layers * x_desc.max_seq_length * len(x_desc.lengths)
        kept = steps * (GATES[descriptor.cell] + 2) * descriptor.hidden_size
    write(workspace, ctypes.c_size_t, 0, "workSpaceSize")
    if reserve:
        write(reserve, ctypes.c_size_t, kept * numpy_dtype(descriptor.precision).itemsize)


@implements("cudnnGetRNNWeightParams")
def get_weight_params(
    handle: Handle,
    descriptor: RNN,
    layer: int,
    size: int,
    weights: int,
    linear: int,
    m_desc: Tensor,
    m_address: int,
    b_desc: Tensor,
    b_address: int,
) -> None:
    """Layout and address of a linear layer's matrix and bias; NULL for what there is not."""
    if not 0 <= layer < descriptor.pseudo_layers:
        raise bad_param(f"pseudoLayer is {layer}, must be in [0, {descriptor.pseudo_layers})")
    if not 0 <= linear < descriptor.linear_layers:
        raise bad_param(f"linLayerID is {linear}, must be in [0, {descriptor.linear_layers})")
    item = numpy_dtype(descriptor.dtype).itemsize
    shape = descriptor.matrix_shape(layer, linear)
    start = descriptor.matrix_start(layer, linear)
    _describe(m_desc, descriptor.dtype, shape)
    write(m_address, ctypes.c_void_p, weights + item * start if shape[0] else 0, "mAddr")
    biased = linear in descriptor.biased()
    start = descriptor.bias_start(layer, linear)
    _describe(b_desc, descriptor.dtype, (descriptor.hidden_size if biased else 0, 1))
    write(b_address, ctypes.c_void_p, weights + item * start if biased else 0, "bAddr")


def _describe(tensor: Tensor, dtype: DataType, shape: tuple[int, int]) -> None:
    """Make it (1, rows, columns), or unset where there are no rows."""
    rows, columns = shape
    fresh = Tensor(dtype, (1, rows, columns), (rows * columns, columns, 1)) if rows else Tensor()
    vars(tensor).update(vars(fresh))
