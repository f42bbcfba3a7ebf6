"""Problems for multi-head attention and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from exact_attention import Attention
from harness import FLOATING, Case, Operand, numpy_dtype, problem

from pycudnn import cudnn
from pycudnn.cudnn import MultiHeadAttnWeightKind, WgradMode

NAMES = dict(
    zip(MultiHeadAttnWeightKind, ("q", "k", "v", "o", "bq", "bk", "bv", "bo"), strict=True)
)
SCALER = 0.7
SLACK = 2.0  # for sums over vectors and keys, of numbers that were rounded on their way


class Problem:
    """A random attention, its operands, and the same in float64."""

    def __init__(self, case: Case, *dtypes: str) -> None:
        self.case = case
        self.dtype = case.choose(*(dtypes or FLOATING))
        self.heads = case.choose(1, 2, 3)
        self.choose_sizes()
        self.choose_shapes()
        settings = self.attn.read()
        q, k, v = settings.q_size, settings.k_size, settings.v_size
        self.operands = {
            "q": self.operand(self.time, self.beam, q, self.q_lengths),
            "k": self.operand(self.keys, 1, k, self.k_lengths),
            "v": self.operand(self.keys, 1, v, self.k_lengths),
        }
        self.out_size = settings.out_size
        self.residual = self.out_size == q and case.choose(True, False)
        nbytes = self.sizes(training=False).weights
        self.flat = case.values((nbytes // numpy_dtype(self.dtype).itemsize,), self.dtype)
        self.weights = case.put(self.flat.astype(numpy_dtype(self.dtype))) if nbytes else None
        self.views = {
            name: cudnn.get_multi_head_attn_weights(case.handle, self.attn, kind, self.weights)
            for kind, name in NAMES.items()
        }
        self.exact = Attention(
            self.heads, SCALER, *(self.operands[name].values for name in "qkv"),
            self.split(self.flat), self.q_lengths, self.k_lengths, self.low, self.high,
        )  # fmt: skip

    def choose_sizes(self) -> None:
        """Lengths of vectors and of their projections, in some of which none takes part."""
        case = self.case
        q, v = case.integer(1, 8), case.integer(1, 8)
        projected = case.choose(True, False)
        common = case.integer(1, 6) if projected else 0
        k = case.integer(1, 8) if projected else q
        v_proj = case.choose(0, case.integer(1, 6))
        o_proj = case.choose(0, case.integer(1, 8), q) if v_proj or self.heads == 1 else 0
        self.time, self.keys = case.integer(1, 6), case.integer(1, 6)
        self.batch, self.beam = case.integer(1, 3), case.choose(1, 2)
        precise = numpy_dtype(self.dtype).itemsize > 2
        self.attn = cudnn.AttentionDescriptor(
            self.heads, q, k, v, q_proj_size=common, k_proj_size=common, v_proj_size=v_proj,
            o_proj_size=o_proj, qo_max_seq_length=self.time, kv_max_seq_length=self.keys,
            max_batch_size=self.batch, max_beam_size=self.beam, sm_scaler=SCALER,
            dtype=numpy_dtype(self.dtype), proj_biases=case.choose(True, False),
            math_type=cudnn.MathType.FMA_MATH if precise else cudnn.MathType.DEFAULT_MATH,
            library=case.library,
        )  # fmt: skip

    def choose_shapes(self) -> None:
        """Order in memory, lengths of the sequences, and which keys each time step sees."""
        case, rng = self.case, self.case.rng
        self.axes = case.choose((0, 1, 2, 3), (1, 0, 2, 3), (1, 2, 0, 3), (2, 0, 1, 3))
        full = case.choose(True, False)
        counts = ((self.time, self.batch * self.beam), (self.keys, self.batch))
        self.q_lengths, self.k_lengths = (
            (size,) * count if full else tuple(rng.integers(1, size + 1, count).tolist())
            for size, count in counts
        )
        self.low, self.high = (0,) * self.time, (self.keys,) * self.time
        if case.choose(True, False):
            low = rng.integers(0, self.keys, self.time)
            self.low = tuple(low.tolist())
            self.high = tuple(int(rng.integers(start + 1, self.keys + 1)) for start in low)
        self.windows = {"lo_win": self.low, "hi_win": self.high}

    def operand(
        self, time: int, beam: int, size: int, lengths: Any, *, blank: bool = False
    ) -> Operand:
        """Sequences of random vectors, or of NaN."""
        desc = cudnn.SeqDataDescriptor(
            (time, self.batch, beam, size), numpy_dtype(self.dtype), axes=self.axes,
            seq_lengths=lengths, library=self.case.library,
        )  # fmt: skip
        return self.case.operand(desc, self.dtype, blank=blank)

    def output(self, *, blank: bool = False) -> Operand:
        """Sequences like the output."""
        return self.operand(self.time, self.beam, self.out_size, self.q_lengths, blank=blank)

    def sizes(self, *, training: bool) -> Any:
        """Bytes of the buffers."""
        return cudnn.get_multi_head_attn_buffers(self.case.handle, self.attn, training=training)

    def buffers(self, *, training: bool) -> tuple[Any, Any]:
        """Workspace and reserve space."""
        sizes = self.sizes(training=training)
        return self.case.scratch(sizes.workspace), self.case.scratch(sizes.reserve_space)

    def split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Single weights out of all of them."""
        found, item = {}, numpy_dtype(self.dtype).itemsize
        for name, view in self.views.items():
            if view is not None:
                steps = [step * flat.itemsize for step in view.desc.strides]
                found[name] = np.lib.stride_tricks.as_strided(
                    flat[view.offset // item :], view.desc.shape, steps
                )
        return found

    def forward(self, buffers: tuple[Any, Any]) -> tuple[Operand, np.ndarray]:
        """The output, and what it must be."""
        out = self.output(blank=True)
        residual = self.output() if self.residual else None
        q, k, v = (self.operands[name] for name in "qkv")
        cudnn.multi_head_attn_forward(
            self.case.handle, self.attn, q.desc, q.data, residual and residual.data, k.desc,
            k.data, v.desc, v.data, out.desc, out.data, self.weights, *buffers, **self.windows,
        )  # fmt: skip
        return out, self.exact.forward(residual.values if residual else 0.0)

    def backward_data(self, buffers: tuple[Any, Any]) -> tuple[Operand, dict[str, Operand]]:
        """The output's gradient, and those of queries, keys and values."""
        dout = self.output()
        gradients = {
            name: self.case.operand(operand.desc, self.dtype, blank=True)
            for name, operand in self.operands.items()
        }
        triples = (
            (self.operands[name].desc, gradients[name].data, self.operands[name].data)
            for name in "qkv"
        )
        cudnn.multi_head_attn_backward_data(
            self.case.handle, self.attn, dout.desc, dout.data,
            *(argument for triple in triples for argument in triple), self.weights, *buffers,
            **self.windows,
        )  # fmt: skip
        return dout, gradients


@problem("cudnnMultiHeadAttnForward")
def forward(case: Case) -> None:
    p = Problem(case)
    out, expected = p.forward(p.buffers(training=case.choose(True, False)))
    case.check(out, expected, p.dtype, SLACK)


@problem("cudnnMultiHeadAttnBackwardData")
def backward_data(case: Case) -> None:
    p = Problem(case)
    buffers = p.buffers(training=True)
    p.forward(buffers)
    dout, gradients = p.backward_data(buffers)
    expected, _ = p.exact.backward(dout.values)
    for name, gradient in gradients.items():
        case.check(gradient, expected[name], p.dtype, SLACK)


@problem("cudnnMultiHeadAttnBackwardWeights")
def backward_weights(case: Case) -> None:
    p = Problem(case)
    while p.weights is None:  # without a projection there are none
        p = Problem(case)
    buffers = p.buffers(training=True)
    p.forward(buffers)
    dout, _ = p.backward_data(buffers)
    _, expected = p.exact.backward(dout.values)
    mode = case.choose(*WgradMode)
    start = case.values(p.flat.shape, p.dtype)
    before = start if mode == WgradMode.ADD else np.full_like(start, np.nan)
    dweights = case.put(before.astype(numpy_dtype(p.dtype)))
    q, k, v = (p.operands[name] for name in "qkv")
    cudnn.multi_head_attn_backward_weights(
        case.handle, p.attn, mode, q.desc, q.data, k.desc, k.data, v.desc, v.data, dout.desc,
        dout.data, p.weights, dweights, *buffers,
    )  # fmt: skip
    got = p.split(case.get(dweights).astype(np.float64))
    added = p.split(start)
    for name, gradient in expected.items():
        if mode == WgradMode.ADD:
            gradient = gradient + added[name]
        case.compare(got[name], gradient, p.dtype, 2 * SLACK)
