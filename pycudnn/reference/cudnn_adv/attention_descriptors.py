"""Multi-head attention descriptors, sizes, and how the weights lie in their one buffer."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import numpy as np

from pycudnn.abi.cudnn_enums import (
    CUDNN_ATTN_ENABLE_PROJ_BIASES,
    CUDNN_ATTN_QUERYMAP_ONE_TO_ONE,
    DataType,
    MathType,
    MultiHeadAttnWeightKind,
)

from ..cudnn_graph import Handle
from ..descriptors import Dropout, Tensor
from ..memory import numpy_dtype, write, write_wanted
from ..runtime import bad_param, find_identifier, implements, not_supported, opaque
from .sequence import FLOATING

_PRECISIONS = {
    (DataType.FLOAT, DataType.FLOAT),
    (DataType.DOUBLE, DataType.DOUBLE),
    (DataType.HALF, DataType.HALF),
    (DataType.HALF, DataType.FLOAT),
    (DataType.BFLOAT16, DataType.FLOAT),
}
_FIRST_BIAS = MultiHeadAttnWeightKind.Q_BIASES
_OUTPUT = MultiHeadAttnWeightKind.O_WEIGHTS


@opaque("cudnnAttnDescriptor_t", "cudnnCreateAttnDescriptor", "cudnnDestroyAttnDescriptor")
@dataclass
class Attention:
    """All settings, in the order of the C function. A projection of size 0 is none."""

    mode: int = 0
    heads: int = 0
    scaler: float = 0.0
    dtype: DataType = DataType.FLOAT
    precision: DataType = DataType.FLOAT
    math_type: MathType = MathType.DEFAULT_MATH
    attention_dropout: Dropout | None = None
    post_dropout: Dropout | None = None
    q_size: int = 0
    k_size: int = 0
    v_size: int = 0
    q_projection: int = 0
    k_projection: int = 0
    v_projection: int = 0
    o_projection: int = 0
    qo_length: int = 0
    kv_length: int = 0
    batch: int = 0
    beam: int = 0

    @property
    def one_to_one(self) -> bool:
        """Has each beam keys and values of its own?"""
        return bool(self.mode & CUDNN_ATTN_QUERYMAP_ONE_TO_ONE)

    @property
    def output_size(self) -> int:
        """Length of an output vector: that of the heads side by side if it is not projected."""
        return self.o_projection or self.heads * (self.v_projection or self.v_size)

    def shape(self, kind: int) -> tuple[int, ...]:
        """Of a weight (heads, rows, columns) or bias (heads, rows, 1); () where there is none."""
        of_bias = kind >= _FIRST_BIAS
        if of_bias and not self.mode & CUDNN_ATTN_ENABLE_PROJ_BIASES:
            return ()
        kind %= _FIRST_BIAS
        rows, columns = (
            (self.q_projection, self.q_size),
            (self.k_projection, self.k_size),
            (self.v_projection, self.v_size),
            (self.o_projection, self.v_projection or self.v_size),
        )[kind]
        if not rows:
            return ()
        if of_bias:
            return (1 if kind == _OUTPUT else self.heads, rows, 1)
        return self.heads, rows, columns

    def strides(self, kind: int) -> tuple[int, ...]:
        """Columns one after another; of input weights, each holds a column of every head."""
        heads, rows, columns = self.shape(kind)
        if kind >= _FIRST_BIAS:
            return rows, 1, 1
        if kind == _OUTPUT:
            return rows * columns, 1, rows
        return rows, 1, heads * rows

    def offset(self, kind: int) -> int:
        """Elements before a weight: they lie in the order of the enum."""
        shapes = [self.shape(before) for before in range(kind)]
        return sum(math.prod(shape) for shape in shapes if shape)

    @property
    def weight_bytes(self) -> int:
        """Size of the buffer of all weights."""
        return self.offset(len(MultiHeadAttnWeightKind)) * numpy_dtype(self.dtype).itemsize

    @property
    def reserve_bytes(self) -> int:
        """What a training step keeps: the windows, for the gradient of the weights."""
        return 2 * self.qo_length * np.dtype(np.int32).itemsize


@implements("cudnnSetAttnDescriptor", optional=("attnDropoutDesc", "postDropoutDesc"))
def set_attention(
    descriptor: Attention,
    mode: int,
    heads: int,
    scaler: float,
    dtype: int,
    precision: int,
    math_type: int,
    attention_dropout: Dropout | None,
    post_dropout: Dropout | None,
    *sizes: int,
) -> None:
    """Queries and keys must have one length after their projections."""
    if mode & ~(CUDNN_ATTN_QUERYMAP_ONE_TO_ONE | CUDNN_ATTN_ENABLE_PROJ_BIASES):
        raise bad_param(f"attnMode is {mode:#x}, has unknown bits")
    if scaler < 0:
        raise bad_param(f"smScaler is {scaler}, must not be negative")
    if dtype not in FLOATING or precision not in FLOATING[:3]:
        raise bad_param(f"dataType {dtype} with computePrec {precision}: must be floating")
    if math_type not in list(MathType):
        raise bad_param(f"mathType is {math_type}, no MathType")
    if (dtype, precision) not in _PRECISIONS:
        raise not_supported(f"dataType {dtype} with computePrec {precision}")
    q, k, _, q_projection, k_projection, *_, beam = sizes
    inputs, projections, limits = sizes[:3], sizes[3:7], sizes[7:]
    if min(heads, *inputs, *limits) < 1 or min(projections) < 0:
        raise bad_param(
            f"nHeads {heads} and sizes {sizes} must be positive, projections at least 0"
        )
    if (q_projection or q) != (k_projection or k):
        raise bad_param(
            f"queries have size {q_projection or q}, keys {k_projection or k}: must be the same"
        )
    if mode & CUDNN_ATTN_QUERYMAP_ONE_TO_ONE and beam > 1:
        raise not_supported(f"QUERYMAP_ONE_TO_ONE with maxBeamSize {beam}")
    fresh = Attention(
        mode, heads, scaler, DataType(dtype), DataType(precision), MathType(math_type),
        attention_dropout, post_dropout, *sizes,
    )  # fmt: skip
    vars(descriptor).update(vars(fresh))


@implements("cudnnGetAttnDescriptor")
def get_attention(descriptor: Attention, *out: int) -> None:
    """What was set; zeros if nothing was. NULL takes nothing."""
    values = list(vars(descriptor).values())
    values[6:8] = [find_identifier(dropout) if dropout else 0 for dropout in values[6:8]]
    types = [ctypes.c_uint, ctypes.c_int, ctypes.c_double, *[ctypes.c_int] * 3]
    types += [ctypes.c_void_p] * 2 + [ctypes.c_int] * 11
    for address, c_type, value in zip(out, types, values, strict=True):
        write_wanted(address, c_type, value)


@implements("cudnnGetMultiHeadAttnBuffers")
def get_buffers(
    handle: Handle, descriptor: Attention, weights: int, workspace: int, reserve: int
) -> None:
    """Bytes of weights, workspace and, for training, reserve space (NULL: inference)."""
    write(weights, ctypes.c_size_t, descriptor.weight_bytes, "weightSizeInBytes")
    write(workspace, ctypes.c_size_t, 0, "workSpaceSizeInBytes")
    if reserve:
        write(reserve, ctypes.c_size_t, descriptor.reserve_bytes)


def check_weights(descriptor: Attention, size: int, address: int) -> None:
    """The buffer holds all weights that the descriptor says."""
    if descriptor.weight_bytes and not address:
        raise bad_param("weights is NULL")
    if size < descriptor.weight_bytes:
        raise bad_param(f"weightSizeInBytes is {size}, must be {descriptor.weight_bytes}")


@implements("cudnnGetMultiHeadAttnWeights")
def get_weights(
    handle: Handle,
    descriptor: Attention,
    kind: int,
    size: int,
    weights: int,
    w_desc: Tensor,
    w_address: int,
) -> None:
    """Layout and address of one weight or bias; NULL where there is none."""
    if kind not in list(MultiHeadAttnWeightKind):
        raise bad_param(f"wKind is {kind}, no MultiHeadAttnWeightKind")
    check_weights(descriptor, size, weights)
    fresh, address = Tensor(), 0
    if descriptor.shape(kind):
        fresh = Tensor(descriptor.dtype, descriptor.shape(kind), descriptor.strides(kind))
        address = weights + descriptor.offset(kind) * numpy_dtype(descriptor.dtype).itemsize
    vars(w_desc).update(vars(fresh))
    write(w_address, ctypes.c_void_p, address, "wAddr")
