"""Problems for aggregation and attention in graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from gnn_oracle import Attention, Edges
from harness import Case, Operand, problem

from pycudnn import cudnn

Op = cudnn.GnnAggOp
Act = cudnn.GnnActivationOp
TYPES = ("float32", "float16", "bfloat16")


class GraphProblem:
    """A random graph and contiguous arrays."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtype = case.choose(*TYPES)
        self.sources, self.destinations = case.integer(1, 8), case.integer(1, 8)
        self.edges = Edges.random(case.rng, self.sources, self.destinations)
        self.count = len(self.edges.indices)
        mapped = case.choose(True, False)
        if not mapped:
            self.edges.places = np.arange(self.count)
        self.index_type = case.choose("int32", "int64")
        self.graph = cudnn.GnnCscGraph(
            self.edges.offsets, self.edges.indices, self.sources, index_type=self.index_type,
            map_csc_to_coo=self.edges.places if mapped else None,
        )  # fmt: skip
        self.stream, self.options = case.context.stream, {"library": case.library}

    def array(
        self, shape: tuple[int, ...], dtype: str = "", *, blank: bool = False, values: Any = None
    ) -> Operand | None:
        """Of random numbers, the given ones, or NaN; None if it has no columns."""
        if not shape[-1]:
            return None
        padded = (1,) * (2 - len(shape)) + shape
        if values is not None:
            values = np.reshape(values, padded)
        return self.case.tensor(
            padded, dtype or self.dtype, layout="packed", blank=blank, values=values
        )


def data(operand: Operand | None) -> Any:
    """Its memory, or None."""
    return operand and operand.data


# ---- aggregation ---------------------------------------------------------------------------------


class Aggregation(GraphProblem):
    """Features of nodes, edges and destinations."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.sizes = (case.integer(0, 6), case.integer(0, 5), case.integer(0, 4))
        if not self.sizes[0] + self.sizes[1]:
            self.sizes = (3, 0, self.sizes[2])
        self.op = case.choose(*Op)
        rows = (self.sources, self.count, self.destinations)
        self.shapes = list(zip(rows, self.sizes, strict=True))
        self.features = [self.array(shape) for shape in self.shapes]
        self.width = self.sizes[0] + self.sizes[1]
        self.out_shape = (self.destinations, self.width + self.sizes[2])
        self.positions = None
        if self.op in (Op.MAX, Op.MIN):
            shape = (self.destinations, self.width)
            self.positions = case.put(np.full(shape, -7, self.index_type))
        self.end = (*self.sizes, self.dtype, self.op)

    def values(self, which: int) -> np.ndarray:
        operand = self.features[which]
        return np.zeros(self.shapes[which]) if operand is None else operand.values

    def seen(self, node: int) -> tuple[list[tuple[int, int]], np.ndarray]:
        """A destination's edges, and the features that are aggregated: (edges, width)."""
        edges = self.edges.of(node)
        nodes, of_edges = self.values(0), self.values(1)
        rows = [np.concatenate([nodes[s], of_edges[place]]) for s, place in edges]
        return edges, np.array(rows).reshape(len(edges), self.width)

    def forward(self) -> Operand:
        out = self.array(self.out_shape, blank=True)
        assert out is not None
        cudnn.gnn_agg_simple_forward(
            self.stream, self.graph, *map(data, self.features), out.data, self.positions,
            *self.end, **self.options,
        )  # fmt: skip
        return out


@problem("cudnnGnnAggSimpleForward")
def aggregate(case: Case) -> None:
    p = Aggregation(case)
    expected = np.zeros(p.out_shape)
    expected[:, p.width :] = p.values(2)
    merge = {Op.SUM: np.sum, Op.MEAN: np.mean, Op.MAX: np.max, Op.MIN: np.min}[p.op]
    for node in range(p.destinations):
        edges, rows = p.seen(node)
        if edges:
            expected[node, : p.width] = merge(rows, 0)
    case.check(p.forward(), expected, p.dtype)


@problem("cudnnGnnAggSimpleBackward")
def aggregate_backward(case: Case) -> None:
    p = Aggregation(case)
    p.forward()
    dout = p.array(p.out_shape)
    gradients = [p.array(shape) for shape in p.shapes[:2]]
    gradients.append(p.array(p.shapes[2], blank=True))
    cudnn.gnn_agg_simple_backward(
        p.stream, p.graph, data(dout), p.positions, *map(data, gradients), *p.end,
        **p.options,
    )  # fmt: skip
    expected = [
        np.zeros(shape) if one is None else one.values.copy()
        for shape, one in zip(p.shapes, gradients, strict=True)
    ]
    expected[2] = dout.values[:, p.width :]
    nodes = p.sizes[0]
    for node in range(p.destinations):
        edges, rows = p.seen(node)
        if not edges:
            continue
        share = np.full(rows.shape, 1 / len(edges) if p.op == Op.MEAN else 1.0)
        if p.positions is not None:
            first = (np.argmax if p.op == Op.MAX else np.argmin)(rows, 0)
            share = (np.arange(len(edges))[:, None] == first).astype(float)
            # Of equal ones any may be the extreme; a problem of such is another.
            extremes = rows == rows[first, np.arange(p.width)]
            twice = [edges[row][0] for row in range(len(edges))]
            for column in range(p.width):
                at = np.flatnonzero(extremes[:, column])
                alike = {twice[row] for row in at} if column < nodes else set(at)
                if len(alike) > 1:
                    return aggregate_backward(case)
        for (s, place), part in zip(edges, share * dout.values[node, : p.width], strict=True):
            expected[0][s] += part[:nodes]
            expected[1][place] += part[nodes:]
    for one, exact in zip(gradients, expected, strict=True):
        if one is not None:
            case.check(one, exact, p.dtype, 2)
    return None


# ---- attention -----------------------------------------------------------------------------------


class AttentionProblem(GraphProblem):
    """Attention of the first or the second kind, and the same in float64."""

    def __init__(self, case: Case, second: bool) -> None:
        super().__init__(case)
        self.second, self.heads = second, case.choose(1, 2, 3)
        self.node = self.heads * case.integer(1, 4)
        has_edges = case.choose(True, False)
        self.edge = (self.node if second else self.heads * case.integer(1, 3)) * has_edges
        self.params = cudnn.GnnMhaParams(
            self.heads, case.choose(*Act), case.choose(0.2, 0.5), case.choose(True, False)
        )
        self.source = self.array((self.sources, self.node))
        self.destination = self.array((self.destinations, self.node))
        self.edge_features = self.array((self.count, self.edge))
        self.weights_shape = (self.node if second else 2 * self.node + self.edge,)
        self.weights = self.array(self.weights_shape)
        per_edge = (self.heads, self.count)
        self.mask = None
        if case.choose(True, False):
            values = case.rng.choice([0.0, 2.0], per_edge)
            self.mask = self.array(per_edge, "float32", values=values)
        mask = np.ones(per_edge) if self.mask is None else self.mask.values
        self.exact = Attention(
            self.edges, self.heads, self.params.activation, self.params.activation_alpha,
            self.params.concat_heads, second, mask,
        )  # fmt: skip
        edge_values = np.zeros((self.count, 0))
        if self.edge_features is not None:
            edge_values = self.edge_features.values
        self.operands = [
            self.source.values, self.destination.values, edge_values, self.weights.values[0]
        ]  # fmt: skip
        self.inputs = [
            data(one) for one in (self.source, self.destination, self.edge_features, self.weights)
        ]
        width = self.node if self.params.concat_heads else self.node // self.heads
        self.out_shape = (self.destinations, width)
        self.scores = self.array((2, *per_edge), "float32", blank=True)
        self.vectors = [self.array((self.count, self.node), blank=True)] if second else []
        self.sizes = (self.node,) if second else (self.node, self.edge)
        self.prefix = f"gnn_mha_gat_{'v2_' * second}"

    def forward(self) -> Operand:
        out = self.array(self.out_shape, blank=True)
        getattr(cudnn, f"{self.prefix}forward")(
            self.stream, self.graph, *self.inputs, data(self.mask), out.data, self.scores.data,
            *map(data, self.vectors), *self.sizes, self.params, self.dtype, **self.options,
        )  # fmt: skip
        return out

    def check_forward(self) -> None:
        case, exact = self.case, self.exact.forward(*self.operands)
        case.check(self.forward(), exact["output"], self.dtype, 2)
        case.check(self.scores, exact["scores"], self.dtype, 2)
        for vectors in self.vectors:
            case.check(vectors, exact["vectors"], self.dtype, 2)

    def check_backward(self) -> None:
        case = self.case
        self.forward()
        dout = self.array(self.out_shape)
        dattention = None
        if case.choose(True, False):
            dattention = self.array((self.heads, self.count), "float32")
        wide = case.choose(self.dtype, "float32")
        shapes = [one.shape for one in self.operands]
        shapes[3] = self.weights_shape
        gradients = [self.array(shape, wide, blank=True) for shape in shapes]
        dscores = self.array(self.scores.values.shape, "float32", blank=True)
        spaces: list[Any] = [None, None]
        if case.choose(True, False):
            rows = ((self.count, self.node), (self.destinations, *self.weights_shape))
            spaces = [data(self.array(shape, wide, blank=True)) for shape in rows]
        types = (wide,) if self.second else (wide, wide)
        getattr(cudnn, f"{self.prefix}backward")(
            self.stream, self.graph, dout.data, *self.inputs, self.scores.data,
            *map(data, self.vectors), data(self.mask), data(dattention), *map(data, gradients),
            dscores.data, *spaces, *self.sizes, self.params, self.dtype, *types, **self.options,
        )  # fmt: skip
        slope = np.zeros((self.heads, self.count)) if dattention is None else dattention.values
        expected = self.exact.backward(self.operands, dout.values, slope)
        for one, exact in zip(gradients, expected, strict=True):
            if one is not None:
                case.check(one, exact.reshape(one.values.shape), self.dtype, 3)


@problem("cudnnGnnMhaGatForward")
def gat(case: Case) -> None:
    AttentionProblem(case, second=False).check_forward()


@problem("cudnnGnnMhaGatBackward")
def gat_backward(case: Case) -> None:
    AttentionProblem(case, second=False).check_backward()


@problem("cudnnGnnMhaGatV2Forward")
def gat_v2(case: Case) -> None:
    AttentionProblem(case, second=True).check_forward()


@problem("cudnnGnnMhaGatV2Backward")
def gat_v2_backward(case: Case) -> None:
    AttentionProblem(case, second=True).check_backward()
