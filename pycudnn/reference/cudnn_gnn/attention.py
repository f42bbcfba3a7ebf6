"""Attention of each node to its neighbours, of the first and the second kind (GAT, GATv2).

Per head h and edge from s to d, with features x and weights w: the logit is
``act(w_src x_s + w_dst x_d + w_edge x_e)`` in GAT, ``w act(x_s + x_d + x_e)`` in GATv2. The softmax
of the logits over the edges of d, times the dropout mask, weights the features x_s in the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from pycudnn.abi.cudnn_enums import DataType, GnnActivationOp
from pycudnn.abi.types import cudnnGnnMhaParams_t

from ..memory import store
from ..runtime import bad_param, implements
from .graphs import Array, Graph, check_features, check_type, read_array, read_graph

# Of an activation z -> a: the function of z and alpha, and its derivative from a and alpha.
_ACTIVATIONS: dict[int, tuple[Callable[..., Array], Callable[..., Array]]] = {
    GnnActivationOp.LINEAR: (lambda z, _: z, lambda a, _: np.ones_like(a)),
    GnnActivationOp.RELU: (lambda z, _: np.maximum(z, 0), lambda a, _: (a > 0).astype(a.dtype)),
    GnnActivationOp.SIGMOID: (lambda z, _: 1 / (1 + np.exp(-z)), lambda a, _: a * (1 - a)),
    GnnActivationOp.TANH: (lambda z, _: np.tanh(z), lambda a, _: 1 - a * a),
    GnnActivationOp.ELU: (
        lambda z, _: np.maximum(z, 0) + np.expm1(np.minimum(z, 0)),
        lambda a, _: 1 + np.minimum(a, 0),
    ),
    GnnActivationOp.SCALAR: (lambda z, alpha: alpha * z, lambda a, alpha: np.full_like(a, alpha)),
    GnnActivationOp.LEAKY_RELU: (
        lambda z, alpha: np.maximum(z, 0) + alpha * np.minimum(z, 0),
        lambda a, alpha: np.where(a > 0, 1.0, alpha),
    ),
}


@dataclass
class _Settings:
    """What a cudnnGnnMhaParams_t says."""

    activation: int
    alpha: float
    heads: int
    concatenates: bool

    @classmethod
    def read(cls, address: int, *sizes: int) -> _Settings:
        """BAD_PARAM for what does not fit the sizes of the features."""
        if not address:
            raise bad_param("params is NULL")
        struct = cudnnGnnMhaParams_t.from_address(address)
        made = cls(struct.activation, np.float32(struct.activationAlpha), struct.numHeads,
                   bool(struct.concatHeads))  # fmt: skip
        if made.activation not in _ACTIVATIONS:
            raise bad_param(f"activation is {made.activation}, no GnnActivationOp")
        if made.activation == GnnActivationOp.LEAKY_RELU and not made.alpha > 0:
            raise bad_param(f"activationAlpha is {made.alpha}, must be positive")
        if made.heads <= 0 or any(size % made.heads for size in sizes):
            raise bad_param(f"numHeads is {made.heads}, must divide the sizes {sizes}")
        return made

    def activate(self, z: Array) -> Array:
        """The activation itself."""
        return _ACTIVATIONS[self.activation][0](z, self.alpha).astype(np.float32)

    def slope(self, a: Array) -> Array:
        """Its derivative, from its result."""
        return _ACTIVATIONS[self.activation][1](a, self.alpha)


@dataclass
class _Problem:
    """Graph, settings and features, as (rows, heads, size per head)."""

    graph: Graph
    settings: _Settings
    source: Array
    destination: Array
    edge: Array
    mask: Array | None  # (heads, edges)
    weights: list[Array] = field(default_factory=list)  # (heads, size per head) each

    def destinations(self) -> Iterator[tuple[int, Array, Array, Array]]:
        """Each destination with its sources, places of edges, and its mask (edges, heads)."""
        for node, sources, places in self.graph.destinations():
            kept = np.ones((len(places), self.settings.heads), np.float32)
            if self.mask is not None:
                kept = self.mask[:, places].T
            yield node, sources, places, kept

    def aggregate(self, logits: Array) -> tuple[Array, Array]:
        """The output, (destinations, size), and the coefficients, from logits (edges, heads)."""
        out = np.zeros((self.graph.destination_count, *self.source.shape[1:]), np.float32)
        coefficients = np.zeros_like(logits)
        for node, sources, places, kept in self.destinations():
            powers = np.exp(logits[places] - logits[places].max(0))
            coefficients[places] = powers / powers.sum(0)
            weights = (coefficients[places] * kept)[..., None]
            out[node] = (weights * self.source[sources]).sum(0)
        merged = out.reshape(len(out), -1) if self.settings.concatenates else out.mean(1)
        return merged, coefficients

    def slopes(
        self, dout: Array, dattention: Array | None, coefficients: Array
    ) -> tuple[Array, Array, Array]:
        """Gradients of logits and coefficients (edges, heads), and of sources through the sum."""
        heads = self.settings.heads
        if self.settings.concatenates:
            dout = dout.reshape(len(dout), heads, -1)
        else:
            dout = np.repeat(dout[:, None] / heads, heads, 1)
        of_logits, of_coefficients = np.zeros_like(coefficients), np.zeros_like(coefficients)
        of_source = np.zeros_like(self.source)
        for node, sources, places, kept in self.destinations():
            seen = self.source[sources]
            slope = (seen * dout[node]).sum(-1)
            if dattention is not None:
                slope = slope + dattention[:, places].T
            slope = slope * kept
            c = coefficients[places]
            of_coefficients[places] = slope
            of_logits[places] = c * (slope - (c * slope).sum(0))
            np.add.at(of_source, sources, (c * kept)[..., None] * dout[node])
        return of_logits, of_coefficients, of_source


def _features(address: int, rows: int, heads: int, size: int, data_type: DataType) -> Array:
    """(rows, heads, size per head) in float32."""
    if not address:
        return np.zeros((rows, heads, 0), np.float32)
    values = read_array(address, rows * size, data_type).astype(np.float32)
    return values.reshape(rows, heads, size // heads)


def _scores(address: int, edges: int, heads: int) -> Array:
    """Logits and coefficients, (2, edges, heads); memory has the edges of a head together."""
    return read_array(address, 2 * heads * edges, DataType.FLOAT).reshape(2, heads, edges).swapaxes(
        1, 2
    )


def _per_head(address: int, edges: int, heads: int) -> Array | None:
    """(heads, edges); None for NULL."""
    if not address:
        return None
    return read_array(address, heads * edges, DataType.FLOAT).reshape(heads, edges)


def _write(address: int, values: Array, data_type: DataType) -> None:
    if address:
        store(read_array(address, values.size, data_type), values.ravel())


def _check_pointers(**addresses: int) -> None:
    for name, address in addresses.items():
        if not address:
            raise bad_param(f"{name} is NULL")


def _check_workspaces(graph: Graph, features: int, weights: int) -> None:
    if bool(features) != bool(weights):
        raise bad_param("gradWspaceFeat and gradWspaceWeights must both be there or both be NULL")
    if features and not graph.reversible:
        raise bad_param("a deterministic gradient needs cscRevOffsets and mapRevToCoo")


def _write_node_gradients(
    source_at: int, destination_at: int, source: Array, destination: Array, data_type: DataType
) -> None:
    """Into two arrays, or both into one."""
    if source_at == destination_at:
        _write(source_at, source + destination, data_type)
        return
    _write(source_at, source, data_type)
    _write(destination_at, destination, data_type)


# ---- GAT -----------------------------------------------------------------------------------------


def _gat(
    graph: int, source: int, destination: int, edge: int, weights: int, mask: int,
    node_size: int, edge_size: int, params: int, dtype: int,
) -> tuple[_Problem, DataType]:  # fmt: skip
    found, data_type = read_graph(graph), check_type("dataType", dtype)
    _check_pointers(srcFeatures=source, dstFeatures=destination, attnWeights=weights)
    check_features("edgeFeatures", edge, edge_size)
    if node_size <= 0:
        raise bad_param(f"dimNode is {node_size}, must be positive")
    settings = _Settings.read(params, node_size, edge_size)
    heads = settings.heads
    problem = _Problem(
        found,
        settings,
        _features(source, found.source_count, heads, node_size, data_type),
        _features(destination, found.destination_count, heads, node_size, data_type),
        _features(edge, found.edge_count, heads, edge_size, data_type),
        _per_head(mask, found.edge_count, heads),
    )
    flat = read_array(weights, 2 * node_size + edge_size, data_type).astype(np.float32)
    parts = np.split(flat, [node_size, 2 * node_size])
    problem.weights = [part.reshape(heads, -1) for part in parts]
    return problem, data_type


@implements("cudnnGnnMhaGatForward")
def gat_forward(
    stream: int, graph: int, source: int, destination: int, edge: int, weights: int, mask: int,
    out: int, scores: int, node_size: int, edge_size: int, params: int, dtype: int,
) -> None:  # fmt: skip
    """The output, and the logits and coefficients that the gradients need."""
    _check_pointers(output=out, smScores=scores)
    p, data_type = _gat(graph, source, destination, edge, weights, mask, node_size, edge_size,
                        params, dtype)  # fmt: skip
    of_source, of_destination, of_edge = (
        (values * w).sum(-1)
        for values, w in zip((p.source, p.destination, p.edge), p.weights, strict=True)
    )
    kept = _scores(scores, p.graph.edge_count, p.settings.heads)
    logits = np.zeros(kept.shape[1:], np.float32)
    for node, sources, places, _ in p.destinations():
        z = of_source[sources] + of_destination[node] + of_edge[places]
        logits[places] = p.settings.activate(z)
    result, coefficients = p.aggregate(logits)
    kept[0], kept[1] = logits, coefficients
    _write(out, result, data_type)


@implements("cudnnGnnMhaGatBackward")
def gat_backward(
    stream: int, graph: int, dout: int, source: int, destination: int, edge: int, weights: int,
    scores: int, mask: int, dattention: int, dsource: int, ddestination: int, dedge: int,
    dweights: int, dscores: int, space: int, weight_space: int, node_size: int, edge_size: int,
    params: int, dtype: int, gradient_type: int, weight_type: int,
) -> None:  # fmt: skip
    """Gradients of features, weights and scores, all set."""
    _check_pointers(
        gradOut=dout, smScores=scores, gradSrcFeatures=dsource, gradDstFeatures=ddestination,
        gradWeights=dweights, gradSmScores=dscores,
    )  # fmt: skip
    p, data_type = _gat(graph, source, destination, edge, weights, mask, node_size, edge_size,
                        params, dtype)  # fmt: skip
    features_as = check_type("gradDataType", gradient_type, dtype, DataType.FLOAT)
    weights_as = check_type("gradWeightType", weight_type, dtype, DataType.FLOAT)
    check_features("gradEdgeFeatures", dedge, edge_size)
    _check_workspaces(p.graph, space, weight_space)
    heads, edges = p.settings.heads, p.graph.edge_count
    logits, coefficients = _scores(scores, edges, heads)
    slope = read_array(dout, _out_count(p, node_size), data_type).astype(np.float32)
    of_logits, of_coefficients, to_source = p.slopes(
        slope.reshape(p.graph.destination_count, -1), _per_head(dattention, edges, heads),
        coefficients,
    )  # fmt: skip
    of_z = of_logits * p.settings.slope(logits)
    to_destination, to_edge = np.zeros_like(p.destination), np.zeros_like(p.edge)
    to_weights = [np.zeros_like(w) for w in p.weights]
    for node, sources, places, _ in p.destinations():
        z = of_z[places][..., None]
        np.add.at(to_source, sources, z * p.weights[0])
        to_destination[node] += (z * p.weights[1]).sum(0)
        to_edge[places] = z * p.weights[2]
        seen = (p.source[sources], p.destination[node], p.edge[places])
        for total, values in zip(to_weights, seen, strict=True):
            total += (z * values).sum(0)
    kept = _scores(dscores, edges, heads)
    kept[0], kept[1] = of_logits, of_coefficients
    _write_node_gradients(dsource, ddestination, to_source, to_destination, features_as)
    _write(dedge, to_edge, features_as)
    _write(dweights, np.concatenate([total.ravel() for total in to_weights]), weights_as)


def _out_count(p: _Problem, node_size: int) -> int:
    width = node_size if p.settings.concatenates else node_size // p.settings.heads
    return p.graph.destination_count * width


# ---- GATv2 ---------------------------------------------------------------------------------------


def _gat_v2(
    graph: int, source: int, destination: int, edge: int, weights: int, mask: int,
    node_size: int, params: int, dtype: int,
) -> tuple[_Problem, DataType]:  # fmt: skip
    found, data_type = read_graph(graph), check_type("dataType", dtype)
    _check_pointers(srcFeatures=source, dstFeatures=destination, attnWeights=weights)
    if node_size <= 0:
        raise bad_param(f"dimNode is {node_size}, must be positive")
    settings = _Settings.read(params, node_size)
    heads = settings.heads
    edges = np.zeros((found.edge_count, heads, node_size // heads), np.float32)
    problem = _Problem(
        found,
        settings,
        _features(source, found.source_count, heads, node_size, data_type),
        _features(destination, found.destination_count, heads, node_size, data_type),
        _features(edge, found.edge_count, heads, node_size, data_type) if edge else edges,
        _per_head(mask, found.edge_count, heads),
    )
    flat = read_array(weights, node_size, data_type).astype(np.float32)
    problem.weights = [flat.reshape(heads, -1)]
    return problem, data_type


@implements("cudnnGnnMhaGatV2Forward")
def gat_v2_forward(
    stream: int, graph: int, source: int, destination: int, edge: int, weights: int, mask: int,
    out: int, scores: int, activated: int, node_size: int, params: int, dtype: int,
) -> None:  # fmt: skip
    """The output, and the logits, coefficients and activated vectors that the gradients need."""
    _check_pointers(output=out, smScores=scores, actScores=activated)
    p, data_type = _gat_v2(graph, source, destination, edge, weights, mask, node_size, params,
                           dtype)  # fmt: skip
    vectors = np.zeros_like(p.edge)
    for node, sources, places, _ in p.destinations():
        z = p.source[sources] + p.destination[node] + p.edge[places]
        vectors[places] = p.settings.activate(z)
    logits = (vectors * p.weights[0]).sum(-1)
    result, coefficients = p.aggregate(logits)
    kept = _scores(scores, p.graph.edge_count, p.settings.heads)
    kept[0], kept[1] = logits, coefficients
    _write(activated, vectors, data_type)
    _write(out, result, data_type)


@implements("cudnnGnnMhaGatV2Backward")
def gat_v2_backward(
    stream: int, graph: int, dout: int, source: int, destination: int, edge: int, weights: int,
    scores: int, activated: int, mask: int, dattention: int, dsource: int, ddestination: int,
    dedge: int, dweights: int, dscores: int, space: int, weight_space: int, node_size: int,
    params: int, dtype: int, gradient_type: int,
) -> None:  # fmt: skip
    """Gradients of features, weights and scores, all set."""
    _check_pointers(
        gradOut=dout, smScores=scores, actScores=activated, gradSrcFeatures=dsource,
        gradDstFeatures=ddestination, gradSmScores=dscores,
    )  # fmt: skip
    if bool(edge) != bool(dedge):
        raise bad_param("edgeFeatures and gradEdgeFeatures must both be there or both be NULL")
    p, data_type = _gat_v2(graph, source, destination, edge, weights, mask, node_size, params,
                           dtype)  # fmt: skip
    written_as = check_type("gradType", gradient_type, dtype, DataType.FLOAT)
    _check_workspaces(p.graph, space, weight_space)
    heads, edges = p.settings.heads, p.graph.edge_count
    _, coefficients = _scores(scores, edges, heads)
    vectors = _features(activated, edges, heads, node_size, data_type)
    slope = read_array(dout, _out_count(p, node_size), data_type).astype(np.float32)
    of_logits, of_coefficients, to_source = p.slopes(
        slope.reshape(p.graph.destination_count, -1), _per_head(dattention, edges, heads),
        coefficients,
    )  # fmt: skip
    to_vectors = of_logits[..., None] * p.weights[0] * p.settings.slope(vectors)
    to_destination = np.zeros_like(p.destination)
    for node, sources, places, _ in p.destinations():
        np.add.at(to_source, sources, to_vectors[places])
        to_destination[node] += to_vectors[places].sum(0)
    kept = _scores(dscores, edges, heads)
    kept[0], kept[1] = of_logits, of_coefficients
    _write_node_gradients(dsource, ddestination, to_source, to_destination, written_as)
    _write(dedge, to_vectors, written_as)
    _write(dweights, (of_logits[..., None] * vectors).sum(0), written_as)
