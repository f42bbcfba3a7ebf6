"""Multi-head attention: forward and the gradients of data and weights.

Operands are laid out as their SeqDataDescriptors say. The lengths of the sequences come from
there, too: a descriptor keeps a copy on the device. That is made on its first use, so make a call
once before it is captured in a graph.

What stands behind the end of a sequence must be finite, as it is multiplied by 0. The output there
is that of heads which found nothing: the output's bias, and the residual. A window that a short
sequence leaves without keys gives the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import WgradMode
from pycudnn.cudnn._objects import int_array, integer, integers, member, optional, require
from pycudnn.cudnn._objects import workspace as workspace_operand
from pycudnn.cudnn._sequences import device_lengths
from pycudnn.cudnn.attention import (
    AttentionBuffers,
    AttentionDescriptor,
    AttentionSettings,
    get_multi_head_attn_buffers,
    weights_operand,
)
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.sequence import SeqDataDescriptor
from pycudnn.dtypes import name as dtype_name


def multi_head_attn_forward(
    handle: Handle,
    attn: AttentionDescriptor,
    q_desc: SeqDataDescriptor,
    queries: Any,
    residuals: Any,
    k_desc: SeqDataDescriptor,
    keys: Any,
    v_desc: SeqDataDescriptor,
    values: Any,
    o_desc: SeqDataDescriptor,
    out: Any,
    weights: Any,
    workspace: Any,
    reserve_space: Any = None,
    *,
    lo_win: Any = None,
    hi_win: Any = None,
    current_index: int | None = None,
) -> None:
    """Attention of each query over the keys in its window (cudnnMultiHeadAttnForward).

    The query of time step t sees the keys from ``lo_win[t]`` to before ``hi_win[t]`` (one int or
    one per time step; None: all), as far as their sequence goes. ``residuals``, laid out like the
    output, which must be as long as a query, is added to it; None is none. With ``current_index``
    only that time step is computed, None computes all. A ``reserve_space`` makes it a training
    step, which keeps there what the gradients need; its buffers are those of
    ``get_multi_head_attn_buffers(training=True)``.

    TypeError for a data type other than the attention's, ValueError for shapes, lengths, axes or
    windows that do not fit it or each other, for buffers that are too small, and for what cuDNN
    gets wrong: residuals in training with a ``post_dropout``, and a padding fill.
    """
    shapes = _Shapes(handle, attn, q_desc, k_desc, v_desc, o_desc, "o_desc")
    windows = shapes.windows(lo_win, hi_win)
    training = reserve_space is not None
    _check_residuals(attn, shapes.settings, residuals, training)
    _check_fill(shapes.settings, o_desc, residuals)
    step = -1
    if current_index is not None:
        if training:
            raise ValueError(f"current_index must be None in training, got {current_index!r}")
        step = integer(current_index, "current_index", 0, q_desc.shape[0] - 1)
    sizes = get_multi_head_attn_buffers(handle, attn, training=training)
    with _core.ColdCall(handle.library, handle) as call:
        buffers = _buffers(call, attn, sizes, weights, workspace, reserve_space)
        call(
            "cudnnMultiHeadAttnForward",
            handle, attn, step, *windows, *shapes.lengths(call),
            q_desc, call.operand(queries, "queries", False, q_desc),
            optional(call, residuals, "residuals", False, o_desc),
            k_desc, call.operand(keys, "keys", False, k_desc),
            v_desc, call.operand(values, "values", False, v_desc),
            o_desc, call.operand(out, "out", True, o_desc),
            *_apart(call, buffers),
        )  # fmt: skip


def multi_head_attn_backward_data(
    handle: Handle,
    attn: AttentionDescriptor,
    do_desc: SeqDataDescriptor,
    dout: Any,
    dq_desc: SeqDataDescriptor,
    dqueries: Any,
    queries: Any,
    dk_desc: SeqDataDescriptor,
    dkeys: Any,
    keys: Any,
    dv_desc: SeqDataDescriptor,
    dvalues: Any,
    values: Any,
    weights: Any,
    workspace: Any,
    reserve_space: Any,
    *,
    lo_win: Any = None,
    hi_win: Any = None,
) -> None:
    """Gradients of queries, keys and values (cudnnMultiHeadAttnBackwardData).

    Windows, weights, data and reserve space are those of the forward call. The gradient of the
    residuals is ``dout`` itself; what that has behind the end of a sequence changes the gradient of
    the output's bias only. Errors as in ``multi_head_attn_forward``; ValueError also for less data
    than the attention's maxima, where cuDNN 9.19 gets gradients wrong now and then.
    """
    shapes = _Shapes(handle, attn, dq_desc, dk_desc, dv_desc, do_desc, "do_desc")
    shapes.check_full()
    windows = shapes.windows(lo_win, hi_win)
    sizes = get_multi_head_attn_buffers(handle, attn, training=True)
    with _core.ColdCall(handle.library, handle) as call:
        buffers = _buffers(call, attn, sizes, weights, workspace, reserve_space)
        call(
            "cudnnMultiHeadAttnBackwardData",
            handle, attn, *windows, *shapes.lengths(call),
            do_desc, call.operand(dout, "dout", False, do_desc),
            dq_desc, call.operand(dqueries, "dqueries", True, dq_desc),
            call.operand(queries, "queries", False, dq_desc),
            dk_desc, call.operand(dkeys, "dkeys", True, dk_desc),
            call.operand(keys, "keys", False, dk_desc),
            dv_desc, call.operand(dvalues, "dvalues", True, dv_desc),
            call.operand(values, "values", False, dv_desc),
            *_apart(call, buffers),
        )  # fmt: skip


def multi_head_attn_backward_weights(
    handle: Handle,
    attn: AttentionDescriptor,
    add_grad: WgradMode,
    q_desc: SeqDataDescriptor,
    queries: Any,
    k_desc: SeqDataDescriptor,
    keys: Any,
    v_desc: SeqDataDescriptor,
    values: Any,
    do_desc: SeqDataDescriptor,
    dout: Any,
    weights: Any,
    dweights: Any,
    workspace: Any,
    reserve_space: Any,
) -> None:
    """Gradients of weights and biases, set or added (cudnnMultiHeadAttnBackwardWeights).

    It comes after ``multi_head_attn_backward_data`` with the same buffers. Errors as in
    ``multi_head_attn_forward``.
    """
    mode = member(WgradMode, add_grad, "add_grad")
    _Shapes(handle, attn, q_desc, k_desc, v_desc, do_desc, "do_desc")
    sizes = get_multi_head_attn_buffers(handle, attn, training=True)
    with _core.ColdCall(handle.library, handle) as call:
        size, address, *temporary = _buffers(call, attn, sizes, weights, workspace, reserve_space)
        call(
            "cudnnMultiHeadAttnBackwardWeights",
            handle, attn, mode,
            q_desc, call.operand(queries, "queries", False, q_desc),
            k_desc, call.operand(keys, "keys", False, k_desc),
            v_desc, call.operand(values, "values", False, v_desc),
            do_desc, call.operand(dout, "dout", False, do_desc),
            size, address, weights_operand(call, attn, dweights, sizes.weights, "dweights", True),
            *_apart(call, temporary),
        )  # fmt: skip


def _check_residuals(
    attn: AttentionDescriptor, settings: AttentionSettings, residuals: Any, training: bool
) -> None:
    if residuals is None:
        return
    if settings.out_size != settings.q_size:
        raise ValueError(
            f"residuals must be None unless outputs are as long as queries, got outputs of "
            f"{settings.out_size} and queries of {settings.q_size}"
        )
    if training and attn.post_dropout is not None:
        raise ValueError(
            "residuals must be None in training with a post_dropout, as cuDNN then adds to what "
            "out held before"
        )


def _check_fill(settings: AttentionSettings, o_desc: SeqDataDescriptor, residuals: Any) -> None:
    """cuDNN does not look at the fill; without bias and residuals it leaves zeros."""
    fill = o_desc.padding_fill
    if fill is None or min(o_desc.seq_lengths) == o_desc.shape[0]:
        return
    zeros = residuals is None and not (settings.proj_biases and settings.o_proj_size)
    if fill != 0 or not zeros:
        raise ValueError(
            f"o_desc must have the padding_fill None, as cuDNN puts there "
            f"{'0' if zeros else 'the bias of the output and the residuals'}, got {fill}"
        )


def _apart(call: _core.ColdCall, arguments: Sequence[int]) -> Sequence[int]:
    """The last arguments: all operands are known by now."""
    call.keep_apart()
    return arguments


def _buffers(
    call: _core.ColdCall,
    attn: AttentionDescriptor,
    sizes: AttentionBuffers,
    weights: Any,
    workspace: Any,
    reserve_space: Any,
) -> tuple[int, int, int, int, int, int]:
    """Size and address of weights, workspace and reserve space."""
    dropouts = [each for each in (attn.attention_dropout, attn.post_dropout) if each is not None]
    for states in {id(dropout.states): dropout.states for dropout in dropouts}.values():
        call.operand(states, "states", True)  # they live as long as the queued work
    space, space_bytes = workspace_operand(call, workspace, sizes.workspace)
    reserve, reserve_bytes = workspace_operand(
        call, reserve_space, sizes.reserve_space, "reserve_space"
    )
    address = weights_operand(call, attn, weights, sizes.weights, "weights", False)
    return sizes.weights, address, space_bytes, space, reserve_bytes, reserve


class _Shapes:
    """The descriptors of a call, which fit the attention and each other."""

    def __init__(
        self,
        handle: Handle,
        attn: AttentionDescriptor,
        q_desc: SeqDataDescriptor,
        k_desc: SeqDataDescriptor,
        v_desc: SeqDataDescriptor,
        o_desc: SeqDataDescriptor,
        o_name: str,
    ) -> None:
        require(handle, Handle, "handle")
        require(attn, AttentionDescriptor, "attn")
        self.handle, self.q_desc, self.k_desc = handle, q_desc, k_desc
        for name in ("attention_dropout", "post_dropout"):
            dropout = getattr(attn, name)
            if dropout is not None and dropout.closed:
                raise ValueError(f"the {name} of this attention is closed")
        self.settings = settings = attn.read()
        named = {"q_desc": q_desc, "k_desc": k_desc, "v_desc": v_desc, o_name: o_desc}
        for name, desc in named.items():
            require(desc, SeqDataDescriptor, name)
            if desc.dtype_code != settings.data_type:
                raise TypeError(
                    f"{name} must be {dtype_name(settings.data_type)} as the attention is, "
                    f"got {dtype_name(desc.dtype_code)}"
                )
        time, batch, beam, _ = q_desc.shape
        kv_time, kv_beam = k_desc.shape[0], beam if settings.one_to_one else 1
        for name, size, limit in self._maxima():
            if size > limit:
                raise ValueError(f"the attention's {name} is {limit}, the data has {size}")
        for name, desc, shape in (
            ("q_desc", q_desc, (time, batch, beam, settings.q_size)),
            ("k_desc", k_desc, (kv_time, batch, kv_beam, settings.k_size)),
            ("v_desc", v_desc, (kv_time, batch, kv_beam, settings.v_size)),
            (o_name, o_desc, (time, batch, beam, settings.out_size)),
        ):
            if desc.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {desc.shape}")
            if desc.axes != q_desc.axes:
                raise ValueError(f"{name} must have the axes of q_desc, got {desc!r}")
        for name, desc, other in (("v_desc", v_desc, k_desc), (o_name, o_desc, q_desc)):
            if desc.seq_lengths != other.seq_lengths:
                raise ValueError(
                    f"{name} must have the sequence lengths {other.seq_lengths}, "
                    f"got {desc.seq_lengths}"
                )

    def _maxima(self) -> list[tuple[str, int, int]]:
        """Name, size of the data, and limit of the attention."""
        (time, batch, beam, _), settings = self.q_desc.shape, self.settings
        return [
            ("max_batch_size", batch, settings.max_batch_size),
            ("max_beam_size", beam, settings.max_beam_size),
            ("qo_max_seq_length", time, settings.qo_max_seq_length),
            ("kv_max_seq_length", self.k_desc.shape[0], settings.kv_max_seq_length),
        ]

    def check_full(self) -> None:
        """The data must be as large as the attention allows."""
        for name, size, limit in self._maxima():
            if size != limit:
                raise ValueError(
                    f"gradients want data of the attention's {name}, {limit}, got {size}: make an "
                    "attention of the data's sizes"
                )

    def windows(self, low: Any, high: Any) -> tuple[Any, Any]:
        """The keys that each query sees, as C arrays of their first and their end.

        They are as long as the attention's limit, in case the library reads as many.
        """
        time, keys = self.q_desc.shape[0], self.k_desc.shape[0]
        starts = integers(0 if low is None else low, "lo_win", 0, time)
        ends = integers(keys if high is None else high, "hi_win", 0, time)
        for step, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if not start < end <= keys:
                raise ValueError(
                    f"lo_win[{step}] < hi_win[{step}] <= {keys} must hold, got {start} and {end}"
                )
        more = self.settings.qo_max_seq_length - time
        return int_array((*starts, *(0,) * more)), int_array((*ends, *(keys,) * more))

    def lengths(self, call: _core.ColdCall) -> tuple[Any, Any]:
        """Pointers to the lengths of queries and keys on the device."""
        queries, keys = (device_lengths(desc, self.handle) for desc in (self.q_desc, self.k_desc))
        return (
            _int_pointer(call.operand(queries, "the lengths of q_desc", False)),
            _int_pointer(call.operand(keys, "the lengths of k_desc", False)),
        )


def _int_pointer(address: int) -> Any:
    return ctypes.cast(ctypes.c_void_p(address), ctypes.POINTER(ctypes.c_int))
