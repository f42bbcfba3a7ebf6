"""Multi-head attention and its gradients in float64, one query or key at a time.

Written apart from pycudnn/reference. Data are (time, batch, beam, vector); weights come as a
dict from a kind's name ("q", "k", "v", "o") to (heads, projected, size), and from "bq" and so on
to their biases, which are rows of the heads. What is missing is no projection or no bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray


@dataclass
class Attention:
    """One problem: data, weights, and what each query sees."""

    heads: int
    scaler: float
    q: Array
    k: Array
    v: Array
    weights: dict[str, Array] = field(default_factory=dict)
    q_lengths: tuple[int, ...] = ()  # by batch, then beam
    k_lengths: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()

    @property
    def out_size(self) -> int:
        if "o" in self.weights:
            return self.weights["o"].shape[1]
        return self.heads * (self.weights["v"].shape[1] if "v" in self.weights else self.v.shape[3])

    def project(self, x: Array, kind: str, head: int) -> Array:
        if kind not in self.weights:
            return x
        bias = self.weights.get("b" + kind)
        return self.weights[kind][head] @ x + (0 if bias is None else bias[head].ravel())

    def queries(self) -> Iterator[tuple[int, int, int, int, list[int]]]:
        """Time, batch, beam, beam of the keys, and the keys it sees, of each that sees any."""
        time, batch, beam, _ = self.q.shape
        kv_beam = self.k.shape[2]
        for n in range(batch):
            for m in range(beam):
                mk = m if kv_beam > 1 else 0
                for t in range(min(self.q_lengths[n * beam + m], time)):
                    end = min(self.high[t], self.k_lengths[n * kv_beam + mk])
                    if self.low[t] < end:
                        yield t, n, m, mk, list(range(self.low[t], end))

    def softmax(self, t: int, n: int, m: int, mk: int, seen: list[int], head: int) -> Array:
        query = self.project(self.q[t, n, m], "q", head)
        scores = np.array(
            [self.scaler * query @ self.project(self.k[s, n, mk], "k", head) for s in seen]
        )
        powers = np.exp(scores - scores.max())
        return powers / powers.sum()

    def forward(self, residual: Array | float = 0.0) -> Array:
        """Where a query sees nothing, as behind the end of its sequence, heads find 0."""
        out = np.zeros((*self.q.shape[:3], self.out_size))
        for t, n, m, mk, seen in self.queries():
            heads = [
                sum(
                    p * self.project(self.v[s, n, mk], "v", head)
                    for p, s in zip(self.softmax(t, n, m, mk, seen, head), seen, strict=True)
                )
                for head in range(self.heads)
            ]
            if "o" in self.weights:
                out[t, n, m] = sum(w @ h for w, h in zip(self.weights["o"], heads, strict=True))
            else:
                out[t, n, m] = np.concatenate(heads)
        return out + self.weights.get("bo", np.zeros(1)).ravel() + residual

    def backward(self, dout: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """Gradients of q, k, v and of the weights; checked against differences in the tests."""
        data = {name: np.zeros(getattr(self, name).shape) for name in "qkv"}
        weights = {name: np.zeros(weight.shape) for name, weight in self.weights.items()}

        def pull(kind: str, head: int, at: tuple[int, int, int], gradient: Array) -> None:
            """From a projected vector's gradient to those of its input, weight and bias."""
            if kind not in self.weights:
                data[kind][at] += gradient
                return
            data[kind][at] += self.weights[kind][head].T @ gradient
            weights[kind][head] += np.outer(gradient, getattr(self, kind)[at])
            if "b" + kind in weights:
                weights["b" + kind][head] += gradient.reshape(weights["b" + kind][head].shape)

        if "bo" in weights:
            weights["bo"] += dout.sum(axis=(0, 1, 2)).reshape(weights["bo"].shape)
        for t, n, m, mk, seen in self.queries():
            dy = dout[t, n, m]
            for head in range(self.heads):
                p = self.softmax(t, n, m, mk, seen, head)
                values = np.array([self.project(self.v[s, n, mk], "v", head) for s in seen])
                if "o" in self.weights:
                    weights["o"][head] += np.outer(dy, p @ values)
                    dhead = self.weights["o"][head].T @ dy
                else:
                    dhead = dy.reshape(self.heads, -1)[head]
                dp = values @ dhead
                ds = self.scaler * p * (dp - dp @ p)
                keys = np.array([self.project(self.k[s, n, mk], "k", head) for s in seen])
                query = self.project(self.q[t, n, m], "q", head)
                pull("q", head, (t, n, m), ds @ keys)
                for s, d, weight in zip(seen, ds, p, strict=True):
                    pull("k", head, (s, n, mk), d * query)
                    pull("v", head, (s, n, mk), weight * dhead)
        return data, weights
