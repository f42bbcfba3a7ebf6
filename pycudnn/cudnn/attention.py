"""Multi-head attention: its descriptor, the sizes of its buffers, and where each weight lies.

For each query q and head h, ``p = softmax(sm_scaler (W_K,h k)^T (W_Q,h q))`` over the keys k, and
``out = sum over h of W_O,h sum over k of p W_V,h v``; biases are added to each product, a residual
to the output. A projection of size 0 is none: its input passes as it is; without that of the output
the heads stand side by side.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import (
    CUDNN_ATTN_ENABLE_PROJ_BIASES,
    CUDNN_ATTN_QUERYMAP_ONE_TO_ONE,
    DataType,
    MathType,
    MultiHeadAttnWeightKind,
)
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn._objects import choose_math_type, construct, finite, integer, member, require
from pycudnn.cudnn._sequences import sequence_type
from pycudnn.cudnn._weights import Locator, WeightView
from pycudnn.cudnn.dropout import DropoutDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import MAX_BYTES
from pycudnn.libraries import Library, find_library
from pycudnn.memory import Buffer


class AttentionSettings(NamedTuple):
    """What the library has of an attention descriptor, in the order of the C function."""

    one_to_one: bool
    proj_biases: bool
    num_heads: int
    sm_scaler: float
    data_type: DataType
    compute_precision: DataType
    math_type: MathType
    q_size: int
    k_size: int
    v_size: int
    q_proj_size: int
    k_proj_size: int
    v_proj_size: int
    o_proj_size: int
    qo_max_seq_length: int
    kv_max_seq_length: int
    max_batch_size: int
    max_beam_size: int

    @property
    def out_size(self) -> int:
        """Length of an output vector."""
        return self.o_proj_size or self.num_heads * (self.v_proj_size or self.v_size)


class AttentionDescriptor(_core.Owned):
    """Multi-head attention (cudnnSetAttnDescriptor).

    ``q_size``, ``k_size`` and ``v_size`` are the lengths of a query, key and value,
    ``q_proj_size`` and so on those of their projections in each head (0: no projection); queries
    and keys must have one length after theirs. The limits are of time steps, batch and beams of
    all data. With beams, all queries of a batch share its keys and values, or with ``one_to_one``
    each beam has its own. ``proj_biases`` adds a bias to each projection. ``compute_precision``
    None is float64 for float64, else float32. ``math_type`` None is FMA_MATH (plain float32) for
    float32 data, or DEFAULT_MATH, which may use TF32, where ``pycudnn.config.tf32`` is set or the
    data is of another type. ``attention_dropout`` acts on the softmax, ``post_dropout`` on the
    output, both in training only; the descriptor keeps them.

    ValueError for a number or enum outside its range and for several heads with ``o_proj_size`` but
    no ``v_proj_size``, which cuDNN gets wrong; TypeError for a dtype that is not floating,
    CudnnNotSupported for combinations that the library has not. ``read()`` tells what it has.
    """

    c_type = "cudnnAttnDescriptor_t"
    library: Library
    attention_dropout: DropoutDescriptor | None
    post_dropout: DropoutDescriptor | None

    def __init__(
        self,
        num_heads: int,
        q_size: int,
        k_size: int,
        v_size: int,
        *,
        q_proj_size: int = 0,
        k_proj_size: int = 0,
        v_proj_size: int = 0,
        o_proj_size: int = 0,
        qo_max_seq_length: int,
        kv_max_seq_length: int,
        max_batch_size: int = 1,
        max_beam_size: int = 1,
        sm_scaler: float = 1.0,
        dtype: Any = DataType.FLOAT,
        compute_precision: Any = None,
        math_type: MathType | None = None,
        one_to_one: bool = False,
        proj_biases: bool = False,
        attention_dropout: DropoutDescriptor | None = None,
        post_dropout: DropoutDescriptor | None = None,
        library: Library | str | None = None,
    ) -> None:
        data_type = sequence_type(dtype)
        if compute_precision is None:
            compute_precision = DataType.DOUBLE if data_type == DataType.DOUBLE else DataType.FLOAT
        chosen = AttentionSettings(
            bool(one_to_one),
            bool(proj_biases),
            integer(num_heads, "num_heads", 1),
            finite(sm_scaler, "sm_scaler", 0.0),
            data_type,
            dtypes.to_data_type(compute_precision, "compute_precision"),
            choose_math_type(math_type, data_type),
            integer(q_size, "q_size", 1),
            integer(k_size, "k_size", 1),
            integer(v_size, "v_size", 1),
            integer(q_proj_size, "q_proj_size", 0),
            integer(k_proj_size, "k_proj_size", 0),
            integer(v_proj_size, "v_proj_size", 0),
            integer(o_proj_size, "o_proj_size", 0),
            integer(qo_max_seq_length, "qo_max_seq_length", 1),
            integer(kv_max_seq_length, "kv_max_seq_length", 1),
            integer(max_batch_size, "max_batch_size", 1),
            integer(max_beam_size, "max_beam_size", 1),
        )
        _check(chosen)
        found = find_library("cudnn", library)
        self.attention_dropout, self.post_dropout = attention_dropout, post_dropout
        dropouts = (
            _or_null(attention_dropout, "attention_dropout"),
            _or_null(post_dropout, "post_dropout"),
        )
        mode = CUDNN_ATTN_QUERYMAP_ONE_TO_ONE * chosen.one_to_one
        mode |= CUDNN_ATTN_ENABLE_PROJ_BIASES * chosen.proj_biases

        def set_up(call: _core.ColdCall) -> None:
            call("cudnnSetAttnDescriptor", self, mode, *chosen[2:7], *dropouts, *chosen[7:])

        settings = chosen._asdict()
        settings |= {"attention_dropout": attention_dropout, "post_dropout": post_dropout}
        construct(self, found, "AttnDescriptor", settings, set_up)

    def read(self) -> AttentionSettings:
        """All settings as the library has them (cudnnGetAttnDescriptor)."""
        mode, scaler = ctypes.c_uint(), ctypes.c_double()
        heads, *types = (ctypes.c_int() for _ in range(4))
        dropouts = [ctypes_type("cudnnDropoutDescriptor_t")() for _ in range(2)]
        sizes = [ctypes.c_int() for _ in range(11)]
        with _core.ColdCall(self.library) as call:
            out = (mode, heads, scaler, *types, *dropouts, *sizes)
            call("cudnnGetAttnDescriptor", self, *map(ctypes.byref, out))
        data_type, precision, math_type = (number.value for number in types)
        return AttentionSettings(
            bool(mode.value & CUDNN_ATTN_QUERYMAP_ONE_TO_ONE),
            bool(mode.value & CUDNN_ATTN_ENABLE_PROJ_BIASES),
            heads.value,
            scaler.value,
            DataType(data_type),
            DataType(precision),
            MathType(math_type),
            *(size.value for size in sizes),
        )

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type of data and weights."""
        return dtypes.to_numpy(self.read().data_type)

    def __repr__(self) -> str:
        if self.closed:
            return "<closed AttentionDescriptor>"
        named = self.read()._asdict()
        named["data_type"] = dtypes.name(named["data_type"])
        named["compute_precision"] = dtypes.name(named["compute_precision"])
        named["math_type"] = named["math_type"].name
        return f"AttentionDescriptor({', '.join(f'{name}={named[name]}' for name in named)})"


def _or_null(dropout: DropoutDescriptor | None, name: str) -> Any:
    """For C; with a descriptor that was never set, training would fail."""
    if dropout is None:
        return ctypes_type("cudnnDropoutDescriptor_t")()
    require(dropout, DropoutDescriptor, name)
    return dropout


def _check(chosen: AttentionSettings) -> None:
    """What the library takes, or takes and then gets wrong."""
    query = chosen.q_proj_size or chosen.q_size
    key = chosen.k_proj_size or chosen.k_size
    if query != key:
        raise ValueError(
            f"queries and keys must have one length after their projections, got {query} "
            f"(q_proj_size or q_size) and {key} (k_proj_size or k_size)"
        )
    if chosen.o_proj_size and not chosen.v_proj_size and chosen.num_heads > 1:
        raise ValueError(
            f"an output projection without one of the values must have num_heads 1, as cuDNN gets "
            f"more wrong: got {chosen.num_heads}, v_proj_size 0 and o_proj_size "
            f"{chosen.o_proj_size}"
        )
    value = chosen.v_proj_size or chosen.v_size
    weights = chosen.num_heads * (
        chosen.q_proj_size * (chosen.q_size + 1)
        + chosen.k_proj_size * (chosen.k_size + 1)
        + chosen.v_proj_size * (chosen.v_size + 1)
        + chosen.o_proj_size * (value + 1)
    )
    scores = math.prod(
        (chosen.num_heads, chosen.max_batch_size, chosen.max_beam_size,
         chosen.qo_max_seq_length + query + value, chosen.kv_max_seq_length + query + value)
    )  # fmt: skip
    if 8 * max(weights, scores) > MAX_BYTES:
        raise ValueError(
            f"{weights} weights and about {scores} scores are more than memory can have"
        )


# ---- sizes and weights ---------------------------------------------------------------------------


class AttentionBuffers(NamedTuple):
    """Bytes of the three buffers; the reserve space is 0 for inference."""

    weights: int
    workspace: int
    reserve_space: int


def get_multi_head_attn_buffers(
    handle: Handle, attn: AttentionDescriptor, *, training: bool
) -> AttentionBuffers:
    """Sizes of the buffers, for training or inference (cudnnGetMultiHeadAttnBuffers)."""
    require(handle, Handle, "handle")
    require(attn, AttentionDescriptor, "attn")
    weights, workspace, reserve = (ctypes.c_size_t() for _ in range(3))
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetMultiHeadAttnBuffers",
            handle, attn, ctypes.byref(weights), ctypes.byref(workspace),
            ctypes.byref(reserve) if training else None,
        )  # fmt: skip
    return AttentionBuffers(weights.value, workspace.value, reserve.value)


def get_multi_head_attn_weights(
    handle: Handle, attn: AttentionDescriptor, kind: MultiHeadAttnWeightKind, weights: Any
) -> WeightView | None:
    """Where a weight or bias lies in the buffer of all (cudnnGetMultiHeadAttnWeights).

    Weights have shape (heads, projected size, size), biases (heads, projected size, 1), that of
    the output (1, size, 1). None for what the attention does not have. ValueError if ``weights``
    is smaller than all of them.
    """
    needed = get_multi_head_attn_buffers(handle, attn, training=False).weights
    which = member(MultiHeadAttnWeightKind, kind, "kind")
    place = Locator(attn.library)
    with _core.ColdCall(handle.library, handle) as call:
        address = weights_operand(call, attn, weights, needed, "weights", False)
        call(
            "cudnnGetMultiHeadAttnWeights",
            handle, attn, which, needed, address, place.desc, place.pointer,
        )  # fmt: skip
        return place.view(call, address)


def weights_operand(
    call: _core.ColdCall,
    attn: AttentionDescriptor,
    value: Any,
    needed: int,
    name: str,
    writes: bool,
) -> int:
    """Address of the buffer of all weights, of the attention's dtype or of bytes; None will do
    where there are none."""
    if value is None and not needed:
        return 0
    if isinstance(value, (Buffer, np.ndarray)) and value.dtype not in (attn.dtype, np.uint8):
        raise TypeError(f"{name} must hold {attn.dtype} or uint8, got {value.dtype}")
    return call.operand(value, name, writes, None, needed)
