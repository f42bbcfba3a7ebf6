"""Multi-head attention: forward and both gradients.

Arrays have the axes batch, beam, head, time, vector inside. A training step leaves its windows in
the reserve space; the gradients compute the rest again.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import MultiHeadAttnWeightKind, WgradMode

from ..cudnn_graph import Handle
from ..memory import load, numpy_dtype, read_array, store, view, write_array
from ..runtime import bad_param, implements, not_supported
from .attention_descriptors import Attention, check_weights
from .sequence import SeqData

Array = np.ndarray[Any, Any]
Kind = MultiHeadAttnWeightKind

_QUERY, _KEY, _VALUE, _OUTPUT = range(4)
_BIAS = Kind.Q_BIASES  # from a weight to its bias


@dataclass
class _Block:
    """The layout of one weight in the buffer of all."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Weights:
    """The weights in a buffer, by kind; what the attention does not have is None."""

    def __init__(self, attention: Attention, address: int) -> None:
        self._attention, self._address = attention, address
        self._item = numpy_dtype(attention.dtype).itemsize

    def view(self, kind: int) -> Array | None:
        """As stored; writing to it changes the buffer."""
        shape = self._attention.shape(kind)
        if not shape:
            return None
        block = _Block(self._attention.dtype, shape, self._attention.strides(kind))
        return view(self._address + self._attention.offset(kind) * self._item, block, "weights")

    def load(self, kind: int) -> Array | None:
        """In the type to compute in."""
        stored = self.view(kind)
        computed = np.float64 if self._item == 8 else np.float32
        return None if stored is None else stored.astype(computed)

    def project(self, x: Array, kind: int) -> Array:
        """An input (batch, beam, 1, time, size) as each head sees it."""
        weight, bias = self.load(kind), self.load(kind + _BIAS)
        if weight is None:
            return x
        projected = x @ weight.swapaxes(-1, -2)
        return projected if bias is None else projected + bias.swapaxes(-1, -2)


@dataclass
class _Pass:
    """What the forward pass computes; the gradients start from it."""

    weights: _Weights
    q: Array
    k: Array
    v: Array
    probabilities: Array
    heads: Array


def _by_batch(x: Array) -> Array:
    """(time, batch, beam, vector) as (batch, beam, 1, time, vector)."""
    return x.transpose(1, 2, 0, 3)[:, :, None]


def _by_time(x: Array) -> Array:
    """(batch, beam, time, vector) as (time, batch, beam, vector)."""
    return x.transpose(2, 0, 1, 3)


def _steps(desc: SeqData) -> Array:
    """(batch, beam, time): is this time step part of its sequence?"""
    time, batch, beam, _ = desc.shape
    lengths = np.array(desc.lengths).reshape(batch, beam, 1)
    return np.arange(time) < lengths


def _check(attention: Attention, q: SeqData, k: SeqData, v: SeqData, o: SeqData) -> None:
    """Descriptors fit the attention and each other."""
    if any(desc.dtype != attention.dtype or not desc.lengths for desc in (q, k, v, o)):
        raise bad_param(f"data must be set and {attention.dtype.name}, as the attention is")
    time, batch, beam, _ = q.shape
    kv_beam = beam if attention.one_to_one else 1
    limits = (attention.qo_length, attention.batch, attention.beam, attention.kv_length)
    if any(size > most for size, most in zip((time, batch, beam, k.shape[0]), limits, strict=True)):
        raise bad_param(f"queries {q.shape} or keys {k.shape} exceed the attention's {limits}")
    for name, desc, shape in (
        ("qDesc", q, (time, batch, beam, attention.q_size)),
        ("kDesc", k, (k.shape[0], batch, kv_beam, attention.k_size)),
        ("vDesc", v, (k.shape[0], batch, kv_beam, attention.v_size)),
        ("oDesc", o, (time, batch, beam, attention.output_size)),
    ):
        if desc.shape != shape:
            raise bad_param(f"{name} has shape {desc.shape}, must be {shape}")
        if desc.axes != q.axes:
            raise bad_param(f"{name} has axes {desc.axes}, must be {q.axes} as qDesc")


def _run(
    attention: Attention,
    windows: tuple[tuple[int, ...], tuple[int, ...]],
    weights: _Weights,
    data: tuple[tuple[SeqData, int], tuple[SeqData, int], tuple[SeqData, int]],
) -> _Pass:
    """Up to the heads' results; `data` are descriptor and address of queries, keys and values."""
    loaded = (_by_batch(load(address, desc)) for desc, address in data)
    q, k, v = (weights.project(x, kind) for kind, x in enumerate(loaded))
    (q_desc, _), (k_desc, _), _ = data
    position = np.arange(k_desc.shape[0])
    low, high = (np.array(bound)[:, None] for bound in windows)
    seen = (position >= low) & (position < high)
    seen = seen & _steps(k_desc)[:, :, None, :]  # (batch, beam, query, key)
    scores = q.dtype.type(attention.scaler) * (q @ k.swapaxes(-1, -2))
    seen = seen & _steps(q_desc)[..., None]
    probabilities = _softmax(scores, seen[:, :, None])
    shape = (*q.shape[:2], attention.heads, q_desc.shape[0], v.shape[-1])
    heads = np.broadcast_to(probabilities @ v, shape)
    return _Pass(weights, q, k, v, probabilities, heads)


def _softmax(scores: Array, seen: Array) -> Array:
    """Over the keys that are seen; zeros where there are none."""
    found = seen.any(axis=-1, keepdims=True)
    scores = np.where(seen, scores, -np.inf)
    largest = np.where(found, scores.max(axis=-1, keepdims=True), 0)
    powers = np.exp(scores - largest)
    return powers / np.where(found, powers.sum(axis=-1, keepdims=True), 1)


def _join(attention: Attention, weights: _Weights, heads: Array) -> Array:
    """The heads' results projected and added, or side by side: (batch, beam, time, vector)."""
    weight, bias = weights.load(_OUTPUT), weights.load(_OUTPUT + _BIAS)
    if weight is None:
        joined = heads.swapaxes(2, 3)
        return joined.reshape(*joined.shape[:3], -1)
    out = (heads @ weight.swapaxes(-1, -2)).sum(axis=2)
    return out if bias is None else out + bias.reshape(-1)


def _windows(q_desc: SeqData, low: int, high: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    time = q_desc.shape[0]
    return (
        read_array(low, ctypes.c_int, time, "loWinIdx"),
        read_array(high, ctypes.c_int, time, "hiWinIdx"),
    )


@implements("cudnnMultiHeadAttnForward")
def forward(
    handle: Handle,
    attention: Attention,
    step: int,
    low: int,
    high: int,
    q_lengths: int,
    k_lengths: int,
    q_desc: SeqData,
    q: int,
    residuals: int,
    k_desc: SeqData,
    k: int,
    v_desc: SeqData,
    v: int,
    o_desc: SeqData,
    out: int,
    weight_size: int,
    weights: int,
    work_size: int,
    work: int,
    reserve_size: int,
    reserve: int,
) -> None:
    """All time steps (`step` < 0) or one of them; as in cuDNN, padding is not filled."""
    _check(attention, q_desc, k_desc, v_desc, o_desc)
    check_weights(attention, weight_size, weights)
    windows = _windows(q_desc, low, high)
    if step >= q_desc.shape[0]:
        raise bad_param(f"currIdx is {step}, must be less than {q_desc.shape[0]}")
    if reserve:
        _keep_windows(attention, reserve_size, reserve, windows)
    parts = _Weights(attention, weights)
    done = _run(attention, windows, parts, ((q_desc, q), (k_desc, k), (v_desc, v)))
    result = _by_time(_join(attention, parts, done.heads))
    if residuals:
        if o_desc.shape != q_desc.shape:
            raise bad_param(f"residuals need outputs of {q_desc.shape}, not {o_desc.shape}")
        result = result + load(residuals, o_desc)
    chosen = slice(None) if step < 0 else slice(step, step + 1)
    store(view(out, o_desc, "out")[chosen], result[chosen])


def _keep_windows(
    attention: Attention, size: int, reserve: int, windows: tuple[tuple[int, ...], ...]
) -> None:
    for dropout in (attention.attention_dropout, attention.post_dropout):
        if dropout is not None and dropout.probability:
            raise not_supported("training with dropout in the attention")
    _check_reserve(attention, size, reserve)
    for index, bounds in enumerate(windows):
        write_array(reserve + 4 * index * attention.qo_length, ctypes.c_int32, bounds)


def _check_reserve(attention: Attention, size: int, reserve: int) -> None:
    if not reserve:
        raise bad_param("reserveSpace is NULL")
    if size < attention.reserve_bytes:
        raise bad_param(f"reserveSpaceSizeInBytes is {size}, must be {attention.reserve_bytes}")


def _differentiate(attention: Attention, done: _Pass, dout: Array) -> tuple[Array, Array, Array]:
    """Gradients of the heads' queries, keys and values: (batch, beam, head, time, vector)."""
    weight = done.weights.load(_OUTPUT)
    if weight is None:
        dheads = dout.reshape(*dout.shape[:3], attention.heads, -1).swapaxes(2, 3)
    else:
        dheads = dout[:, :, None] @ weight
    p = done.probabilities
    dp = dheads @ done.v.swapaxes(-1, -2)
    ds = p.dtype.type(attention.scaler) * p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    dk, dv = ds.swapaxes(-1, -2) @ done.q, p.swapaxes(-1, -2) @ dheads
    if done.k.shape[1] == 1:  # all beams share their keys and values
        dk, dv = dk.sum(axis=1, keepdims=True), dv.sum(axis=1, keepdims=True)
    return ds @ done.k, dk, dv


def _output_gradient(desc: SeqData, dout: int) -> Array:
    """As (batch, beam, time, vector)."""
    return load(dout, desc, "dout").transpose(1, 2, 0, 3)


@implements("cudnnMultiHeadAttnBackwardData")
def backward_data(
    handle: Handle,
    attention: Attention,
    low: int,
    high: int,
    q_lengths: int,
    k_lengths: int,
    do_desc: SeqData,
    dout: int,
    q_desc: SeqData,
    dq: int,
    q: int,
    k_desc: SeqData,
    dk: int,
    k: int,
    v_desc: SeqData,
    dv: int,
    v: int,
    weight_size: int,
    weights: int,
    work_size: int,
    work: int,
    reserve_size: int,
    reserve: int,
) -> None:
    """Gradients of queries, keys and values; that of the residuals is `dout` itself."""
    _check(attention, q_desc, k_desc, v_desc, do_desc)
    check_weights(attention, weight_size, weights)
    _check_reserve(attention, reserve_size, reserve)
    parts = _Weights(attention, weights)
    data = ((q_desc, q), (k_desc, k), (v_desc, v))
    done = _run(attention, _windows(q_desc, low, high), parts, data)
    gradients = _differentiate(attention, done, _output_gradient(do_desc, dout))
    for kind, (gradient, desc, address) in enumerate(
        zip(gradients, (q_desc, k_desc, v_desc), (dq, dk, dv), strict=True)
    ):
        weight = parts.load(kind)
        of_input = (gradient if weight is None else gradient @ weight).sum(axis=2)
        store(view(address, desc, "gradient"), _by_time(of_input))


@implements("cudnnMultiHeadAttnBackwardWeights")
def backward_weights(
    handle: Handle,
    attention: Attention,
    mode: int,
    q_desc: SeqData,
    q: int,
    k_desc: SeqData,
    k: int,
    v_desc: SeqData,
    v: int,
    do_desc: SeqData,
    dout: int,
    weight_size: int,
    weights: int,
    dweights: int,
    work_size: int,
    work: int,
    reserve_size: int,
    reserve: int,
) -> None:
    """Gradients of weights and biases, set or added, with the windows of the forward pass."""
    if mode not in list(WgradMode):
        raise bad_param(f"addGrad is {mode}, no WgradMode")
    _check(attention, q_desc, k_desc, v_desc, do_desc)
    check_weights(attention, weight_size, weights)
    check_weights(attention, weight_size, dweights)
    _check_reserve(attention, reserve_size, reserve)
    first, second = (reserve + 4 * index * attention.qo_length for index in range(2))
    data = ((q_desc, q), (k_desc, k), (v_desc, v))
    done = _run(attention, _windows(q_desc, first, second), _Weights(attention, weights), data)
    gradient = _output_gradient(do_desc, dout)
    out = _Weights(attention, dweights)
    found = {
        _OUTPUT: (gradient[:, :, None].swapaxes(-1, -2) @ done.heads).sum(axis=(0, 1)),
        _OUTPUT + _BIAS: gradient.sum(axis=(0, 1, 2)).reshape(1, -1, 1),
    }
    for kind, (of_heads, (desc, address)) in enumerate(
        zip(_differentiate(attention, done, gradient), data, strict=True)
    ):
        x = _by_batch(load(address, desc))
        found[kind] = (of_heads.swapaxes(-1, -2) @ x).sum(axis=(0, 1))
        found[kind + _BIAS] = of_heads.sum(axis=(0, 1, 3))[..., None]
    for kind, values in found.items():
        target = out.view(kind)
        if target is not None:
            added = values + out.load(kind) if mode == WgradMode.ADD else values
            store(target, added)
