"""Aggregation and attention in graphs in float64, one edge at a time; gradients by complex steps.

Written apart from pycudnn/reference. Everything here takes complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.cudnn import GnnActivationOp as Act

Array = np.ndarray


@dataclass
class Edges:
    """A graph as a list of edges: source, destination, and where each edge's features stand."""

    offsets: Array
    indices: Array
    places: Array

    @classmethod
    def random(cls, rng: np.random.Generator, sources: int, destinations: int) -> Edges:
        """Some nodes have no edges, and some edges are twice there; there is one at least."""
        counts = rng.integers(0, 5, destinations)
        counts[rng.integers(destinations)] += 1
        offsets = np.concatenate([[0], np.cumsum(counts)])
        count = int(offsets[-1])
        return cls(offsets, rng.integers(0, sources, count), rng.permutation(count))

    def of(self, node: int) -> list[tuple[int, int]]:
        """Source and place of the features of a destination's edges."""
        edges = range(self.offsets[node], self.offsets[node + 1])
        return [(int(self.indices[edge]), int(self.places[edge])) for edge in edges]


def activate(z: Array, activation: Any, alpha: float) -> Array:
    """An activation; of complex numbers, that of the real part, with the slope there."""
    positive = z.real > 0
    return {
        Act.LINEAR: lambda: z,
        Act.RELU: lambda: np.where(positive, z, 0),
        Act.SIGMOID: lambda: 1 / (1 + np.exp(-z)),
        Act.TANH: lambda: np.tanh(z),
        Act.ELU: lambda: np.where(positive, z, np.exp(z) - 1),
        Act.SCALAR: lambda: alpha * z,
        Act.LEAKY_RELU: lambda: np.where(positive, z, alpha * z),
    }[activation]()


@dataclass
class Attention:
    """Attention in a graph: ``second`` is GATv2. ``mask`` is (heads, edges)."""

    edges: Edges
    heads: int
    activation: Any
    alpha: float
    concatenates: bool
    second: bool
    mask: Array

    def logits(self, source: Array, destination: Array, edge: Array, weights: Array) -> list[Array]:
        """(heads,) of one edge, and in GATv2 its activated vector."""
        node = len(source)
        if self.second:
            z = source + destination + (edge if edge.size else 0)
            vector = activate(z, self.activation, self.alpha)
            return [(vector * weights).reshape(self.heads, -1).sum(1), vector]
        parts = np.split(weights, [node, 2 * node])
        z = sum(
            (x * w).reshape(self.heads, -1).sum(1)
            for x, w in zip((source, destination, edge), parts, strict=True)
        )
        return [activate(z, self.activation, self.alpha)]

    def forward(
        self, source: Array, destination: Array, edge: Array, weights: Array
    ) -> dict[str, Array]:
        """Output, scores (2, heads, edges), coefficients after dropout, activated vectors."""
        kind = np.result_type(source, destination, edge, weights)
        count, width = len(self.edges.indices), source.shape[1]
        scores = np.zeros((2, self.heads, count), kind)
        vectors = np.zeros((count, width), kind)
        out = np.zeros((len(destination), self.heads, width // self.heads), kind)
        for node in range(len(destination)):
            seen = self.edges.of(node)
            for s, place in seen:
                logit, *vector = self.logits(source[s], destination[node], edge[place], weights)
                scores[0, :, place] = logit
                if vector:
                    vectors[place] = vector[0]
            places = [place for _, place in seen]
            if places:
                top = scores[0][:, places].real.max(1, keepdims=True)
                powers = np.exp(scores[0][:, places] - top)
                scores[1][:, places] = powers / powers.sum(1, keepdims=True)
            for s, place in seen:
                kept = scores[1, :, place] * self.mask[:, place]
                out[node] += kept[:, None] * source[s].reshape(self.heads, -1)
        merged = out.reshape(len(out), -1) if self.concatenates else out.mean(1)
        return {
            "output": merged, "scores": scores, "attention": scores[1] * self.mask,
            "vectors": vectors,
        }  # fmt: skip

    def backward(self, operands: list[Array], dout: Array, dattention: Array) -> list[Array]:
        """Gradients of the four operands."""

        def loss(*changed: Array) -> Any:
            result = self.forward(*changed)
            return (result["output"] * dout).sum() + (result["attention"] * dattention).sum()

        return [gradient(loss, operands, which) for which in range(len(operands))]


def gradient(function: Callable[..., Any], operands: list[Array], which: int) -> Array:
    """Of a function for one of its operands, exact to the last digits."""
    result = np.zeros_like(operands[which])
    for index in np.ndindex(result.shape):
        stepped = operands[which].astype(complex)
        stepped[index] += 1e-30j
        changed = [stepped if i == which else operand for i, operand in enumerate(operands)]
        result[index] = function(*changed).imag / 1e-30
    return result
