"""Graph networks: features of each node's neighbours aggregated, and attention to them.

A graph says which source nodes each destination node has (``GnnCscGraph``). The functions take a
stream instead of a handle, and contiguous memory instead of descriptors; arrays of more than one
dimension must have the shape that is named. ``data_type`` is float32, float16 or bfloat16. They
need cuDNN 9.26 (aggregation) or 9.28 (attention) on compute capability 8.0 or newer, which compiles
its kernels on the first call of a kind.

What all raise: TypeError for another data type, or an operand of another one than is named;
ValueError for sizes that do not fit, memory that is too small, lies otherwise or is written and
another operand's as well, and for operands that are missing or one too many; LibraryMismatch for
memory of another device than the stream's.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn import dtypes
from pycudnn.abi.cudnn_enums import DataType, GnnActivationOp, GnnAggOp
from pycudnn.abi.types import cudnnGnnCscGraph_t, cudnnGnnMhaParams_t
from pycudnn.cudnn._objects import finite, integer, member, require
from pycudnn.cudnn._streams import StreamCall, stream_call
from pycudnn.device import Device, Stream
from pycudnn.libraries import Library
from pycudnn.memory import Buffer, from_numpy

_TYPES = (DataType.FLOAT, DataType.HALF, DataType.BFLOAT16)
_INDEX_TYPES = {DataType.INT32: np.int32, DataType.INT64: np.int64}
_EXTREMES = (GnnAggOp.MAX, GnnAggOp.MIN)


class GnnCscGraph:
    """A graph in compressed sparse columns (cudnnGnnCscGraph_t).

    The edges of destination node d come from the source nodes
    ``indices[offsets[d]:offsets[d + 1]]``. Features of edges stand in this order, or where
    ``map_csc_to_coo``, an index for each edge, says. ``index_type`` is int32 or int64.

    The arrays are ints on the host: cuDNN would follow any index on the device without a check.
    They are copied to a device when a call first needs them there, with those of the reversed graph
    for deterministic gradients. Make a call once before it is captured in a graph.

    ValueError for offsets that do not begin at 0, fall, or end elsewhere than the indices do, for
    indices that are no source node, for a map that has a place twice, and for a graph without
    nodes or edges; TypeError for what are no ints.
    """

    def __init__(
        self,
        offsets: Any,
        indices: Any,
        n_src_nodes: int,
        *,
        map_csc_to_coo: Any = None,
        index_type: Any = DataType.INT32,
    ) -> None:
        self.index_type = dtypes.to_data_type(index_type, "index_type")
        if self.index_type not in _INDEX_TYPES:
            raise TypeError(f"index_type must be int32 or int64, got {index_type!r}")
        starts, sources = _ints(offsets, "offsets"), _ints(indices, "indices")
        self.n_src_nodes = integer(n_src_nodes, "n_src_nodes", 1)
        self.n_dst_nodes, self.n_indices = len(starts) - 1, len(sources)
        if self.n_dst_nodes < 1 or not self.n_indices:
            raise ValueError(
                f"a graph must have nodes and edges, got {len(starts)} offsets and "
                f"{self.n_indices} indices"
            )
        _check_offsets(starts, self.n_indices)
        _check_range(sources, "indices", self.n_src_nodes)
        self._places = None
        if map_csc_to_coo is not None:
            self._places = _ints(map_csc_to_coo, "map_csc_to_coo")
            _check_permutation(self._places, self.n_indices)
        self._offsets, self._indices = starts, sources
        self._copies: dict[Device, dict[str, Buffer]] = {}

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All arrays by the names of the C struct."""
        order = np.argsort(self._indices, kind="stable")  # the edges by their source
        counts = np.bincount(self._indices, minlength=self.n_src_nodes)
        found = {
            "cscOffsets": self._offsets,
            "cscIndices": self._indices,
            "cscRevOffsets": np.concatenate([[0], np.cumsum(counts)]),
            "mapRevToCoo": order if self._places is None else self._places[order],
        }
        if self._places is not None:
            found["mapCscToCoo"] = self._places
        return found

    def _struct(self, call: StreamCall, stream: Stream, *, reversed: bool) -> Any:
        """A pointer to the C struct, over the copies on the stream's device."""
        if stream.device not in self._copies:
            kind = _INDEX_TYPES[self.index_type]
            self._copies[stream.device] = {
                name: from_numpy(values.astype(kind), device=stream.device, stream=stream)
                for name, values in self._arrays().items()
            }
        struct = cudnnGnnCscGraph_t(
            nSrcNodes=self.n_src_nodes, nDstNodes=self.n_dst_nodes, nIndices=self.n_indices,
            idxType=self.index_type,
        )  # fmt: skip
        for name, copy in self._copies[stream.device].items():
            if reversed or "Rev" not in name:
                address = call.read(copy, f"{name} of graph", copy.shape, self.index_type)
                setattr(struct, name, address)
        return ctypes.pointer(struct)

    def __repr__(self) -> str:
        return (
            f"GnnCscGraph({self.n_src_nodes} -> {self.n_dst_nodes} nodes, {self.n_indices} edges, "
            f"{self.index_type.name})"
        )


@dataclass(frozen=True)
class GnnMhaParams:
    """Attention with heads (cudnnGnnMhaParams_t).

    ``activation_alpha`` is the slope of LEAKY_RELU below 0, which must be positive, or the factor
    of SCALAR. ``concat_heads`` puts the heads side by side in the output, or else averages them.
    """

    num_heads: int = 1
    activation: GnnActivationOp = GnnActivationOp.LEAKY_RELU
    activation_alpha: float = 0.2
    concat_heads: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_heads", integer(self.num_heads, "num_heads", 1))
        activation = member(GnnActivationOp, self.activation, "activation")
        object.__setattr__(self, "activation", activation)
        alpha = finite(self.activation_alpha, "activation_alpha", -3e38, 3e38)
        if activation == GnnActivationOp.LEAKY_RELU and alpha <= 0:
            raise ValueError(f"activation_alpha must be positive for LEAKY_RELU, got {alpha:g}")
        object.__setattr__(self, "activation_alpha", alpha)
        object.__setattr__(self, "concat_heads", bool(self.concat_heads))

    def _struct(self) -> Any:
        return ctypes.pointer(
            cudnnGnnMhaParams_t(
                self.activation, self.activation_alpha, self.num_heads, self.concat_heads
            )
        )


# ---- aggregation ---------------------------------------------------------------------------------


def gnn_agg_simple_forward(
    stream: Stream,
    graph: GnnCscGraph,
    node_features: Any,
    edge_features: Any,
    concat_features: Any,
    output: Any,
    out_positions: Any,
    node_feat_dim: int,
    edge_feat_dim: int,
    concat_feat_dim: int,
    data_type: Any,
    agg_op: GnnAggOp,
    *,
    library: Library | str | None = None,
) -> None:
    """Features of neighbours and edges, aggregated for each node (cudnnGnnAggSimpleForward).

    ``output`` is (destination nodes, node_feat_dim + edge_feat_dim + concat_feat_dim): sum, mean,
    maximum or minimum of ``node_features`` (source nodes, node_feat_dim) over the node's sources
    and of ``edge_features`` (edges, edge_feat_dim) over its edges, then ``concat_features``
    (destination nodes, concat_feat_dim) as they are. A feature of dimension 0 is None.
    ``out_positions``, of the graph's index type, (destination nodes, node_feat_dim +
    edge_feat_dim), takes where each maximum or minimum comes from, for the gradients; it is None
    for sums and means.
    """
    shapes = _Aggregation(graph, node_feat_dim, edge_feat_dim, concat_feat_dim, data_type, agg_op)
    with stream_call(stream, library) as call:
        call(
            "cudnnGnnAggSimpleForward",
            graph._struct(call, stream, reversed=False),
            shapes.features(call, node_features, "node_features", shapes.nodes),
            shapes.features(call, edge_features, "edge_features", shapes.edges),
            shapes.features(call, concat_features, "concat_features", shapes.rest),
            call.write(output, "output", shapes.out, shapes.data_type),
            shapes.positions(call, out_positions, writes=True),
            *shapes.sizes, shapes.data_type, shapes.agg_op,
        )  # fmt: skip


def gnn_agg_simple_backward(
    stream: Stream,
    graph: GnnCscGraph,
    grad_output: Any,
    out_positions: Any,
    grad_node_features: Any,
    grad_edge_features: Any,
    grad_concat_features: Any,
    node_feat_dim: int,
    edge_feat_dim: int,
    concat_feat_dim: int,
    data_type: Any,
    agg_op: GnnAggOp,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients of ``gnn_agg_simple_forward`` (cudnnGnnAggSimpleBackward).

    Those of nodes and edges are added to what is there, so begin with zeros; cuDNN adds in any
    order. That of the concatenated features is set. ``out_positions`` is what the forward call
    wrote.
    """
    shapes = _Aggregation(graph, node_feat_dim, edge_feat_dim, concat_feat_dim, data_type, agg_op)
    with stream_call(stream, library) as call:
        call(
            "cudnnGnnAggSimpleBackward",
            graph._struct(call, stream, reversed=False),
            call.read(grad_output, "grad_output", shapes.out, shapes.data_type),
            shapes.positions(call, out_positions, writes=False),
            shapes.features(call, grad_node_features, "grad_node_features", shapes.nodes, True),
            shapes.features(call, grad_edge_features, "grad_edge_features", shapes.edges, True),
            shapes.features(call, grad_concat_features, "grad_concat_features", shapes.rest, True),
            *shapes.sizes, shapes.data_type, shapes.agg_op,
        )  # fmt: skip


# ---- attention -----------------------------------------------------------------------------------


def gnn_mha_gat_forward(
    stream: Stream,
    graph: GnnCscGraph,
    src_features: Any,
    dst_features: Any,
    edge_features: Any,
    attn_weights: Any,
    dropout_mask: Any,
    output: Any,
    sm_scores: Any,
    dim_node: int,
    dim_edge: int,
    params: GnnMhaParams,
    data_type: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """Attention of each node to its sources, as in GAT (cudnnGnnMhaGatForward).

    For each head and edge, ``a = act(w_src x_src + w_dst x_dst + w_edge x_edge)``, with the part of
    features and weights that is the head's. The softmax of a over the node's edges, times
    ``dropout_mask``, weights the sources' features in ``output``.

    ``src_features`` is (source nodes, dim_node), ``dst_features`` (destination nodes, dim_node),
    ``edge_features`` (edges, dim_edge) or None with dim_edge 0, ``attn_weights`` (2 dim_node +
    dim_edge,): those of source, destination and edge. ``dropout_mask``, (heads, edges) in float32,
    has 0 or 1 / (1 - p); None drops nothing. ``output`` is (destination nodes, dim_node), or
    (destination nodes, dim_node / heads) where the heads are averaged. ``sm_scores``, (2, heads,
    edges) in float32, takes the logits and the coefficients of the softmax.
    """
    shapes = _Attention(graph, params, data_type, dim_node, dim_edge)
    with stream_call(stream, library) as call:
        call(
            "cudnnGnnMhaGatForward",
            graph._struct(call, stream, reversed=False),
            *shapes.inputs(call, src_features, dst_features, edge_features, attn_weights),
            shapes.per_edge(call, dropout_mask, "dropout_mask"),
            call.write(output, "output", shapes.out, shapes.data_type),
            call.write(sm_scores, "sm_scores", shapes.scores, DataType.FLOAT),
            *shapes.sizes, params._struct(), shapes.data_type,
        )  # fmt: skip


def gnn_mha_gat_backward(
    stream: Stream,
    graph: GnnCscGraph,
    grad_out: Any,
    src_features: Any,
    dst_features: Any,
    edge_features: Any,
    attn_weights: Any,
    sm_scores: Any,
    dropout_mask: Any,
    grad_attention: Any,
    grad_src_features: Any,
    grad_dst_features: Any,
    grad_edge_features: Any,
    grad_weights: Any,
    grad_sm_scores: Any,
    grad_wspace_feat: Any,
    grad_wspace_weights: Any,
    dim_node: int,
    dim_edge: int,
    params: GnnMhaParams,
    data_type: Any,
    grad_data_type: Any = None,
    grad_weight_type: Any = None,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients of ``gnn_mha_gat_forward``, all set (cudnnGnnMhaGatBackward).

    ``sm_scores`` is what the forward call wrote. ``grad_attention``, (heads, edges) in float32, is
    a gradient of the coefficients after dropout, or None. The gradients have the shapes of what
    they are of; those of sources and destinations may be one array, which gets their sum.
    ``grad_data_type`` and ``grad_weight_type`` are ``data_type`` (None) or float32.

    With both workspaces sums are taken in one order: ``grad_wspace_feat`` is (edges, dim_node) of
    grad_data_type, ``grad_wspace_weights`` (destination nodes, 2 dim_node + dim_edge) of
    grad_weight_type. With None for both they are taken in any.
    """
    shapes = _Attention(graph, params, data_type, dim_node, dim_edge)
    features_as = shapes.gradient_type(grad_data_type, "grad_data_type")
    weights_as = shapes.gradient_type(grad_weight_type, "grad_weight_type")
    _check_pair(grad_wspace_feat, grad_wspace_weights)
    with stream_call(stream, library) as call:
        call(
            "cudnnGnnMhaGatBackward",
            graph._struct(call, stream, reversed=grad_wspace_feat is not None),
            call.read(grad_out, "grad_out", shapes.out, shapes.data_type),
            *shapes.inputs(call, src_features, dst_features, edge_features, attn_weights),
            call.read(sm_scores, "sm_scores", shapes.scores, DataType.FLOAT),
            shapes.per_edge(call, dropout_mask, "dropout_mask"),
            shapes.per_edge(call, grad_attention, "grad_attention"),
            *shapes.node_gradients(call, grad_src_features, grad_dst_features, features_as),
            shapes.edge_gradient(call, grad_edge_features, features_as),
            call.write(grad_weights, "grad_weights", shapes.weights, weights_as),
            call.write(grad_sm_scores, "grad_sm_scores", shapes.scores, DataType.FLOAT),
            *shapes.workspaces(call, grad_wspace_feat, grad_wspace_weights, features_as,
                               weights_as),
            *shapes.sizes, params._struct(), shapes.data_type, features_as, weights_as,
        )  # fmt: skip


def gnn_mha_gat_v2_forward(
    stream: Stream,
    graph: GnnCscGraph,
    src_features: Any,
    dst_features: Any,
    edge_features: Any,
    attn_weights: Any,
    dropout_mask: Any,
    output: Any,
    sm_scores: Any,
    act_scores: Any,
    dim_node: int,
    params: GnnMhaParams,
    data_type: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """Attention of each node to its sources, as in GATv2 (cudnnGnnMhaGatV2Forward).

    As ``gnn_mha_gat_forward``, but with ``a = w act(x_src + x_dst + x_edge)``: ``attn_weights`` is
    (dim_node,), ``edge_features`` (edges, dim_node) or None. ``act_scores``, (edges, dim_node) of
    ``data_type``, takes the activated vectors.
    """
    shapes = _AttentionV2(graph, params, data_type, dim_node, edge_features is not None)
    with stream_call(stream, library) as call:
        call(
            "cudnnGnnMhaGatV2Forward",
            graph._struct(call, stream, reversed=False),
            *shapes.inputs(call, src_features, dst_features, edge_features, attn_weights),
            shapes.per_edge(call, dropout_mask, "dropout_mask"),
            call.write(output, "output", shapes.out, shapes.data_type),
            call.write(sm_scores, "sm_scores", shapes.scores, DataType.FLOAT),
            call.write(act_scores, "act_scores", shapes.vectors, shapes.data_type),
            *shapes.sizes, params._struct(), shapes.data_type,
        )  # fmt: skip


def gnn_mha_gat_v2_backward(
    stream: Stream,
    graph: GnnCscGraph,
    grad_out: Any,
    src_features: Any,
    dst_features: Any,
    edge_features: Any,
    attn_weights: Any,
    sm_scores: Any,
    act_scores: Any,
    dropout_mask: Any,
    grad_attention: Any,
    grad_src_features: Any,
    grad_dst_features: Any,
    grad_edge_features: Any,
    grad_weights: Any,
    grad_sm_scores: Any,
    grad_wspace_feat: Any,
    grad_wspace_weights: Any,
    dim_node: int,
    params: GnnMhaParams,
    data_type: Any,
    grad_type: Any = None,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients of ``gnn_mha_gat_v2_forward``, all set (cudnnGnnMhaGatV2Backward).

    As ``gnn_mha_gat_backward``, with one ``grad_type`` for all. ``grad_weights`` may be None;
    ``grad_wspace_weights`` is (destination nodes, dim_node).
    """
    shapes = _AttentionV2(graph, params, data_type, dim_node, edge_features is not None)
    written_as = shapes.gradient_type(grad_type, "grad_type")
    _check_pair(grad_wspace_feat, grad_wspace_weights)
    with stream_call(stream, library) as call:
        call(
            "cudnnGnnMhaGatV2Backward",
            graph._struct(call, stream, reversed=grad_wspace_feat is not None),
            call.read(grad_out, "grad_out", shapes.out, shapes.data_type),
            *shapes.inputs(call, src_features, dst_features, edge_features, attn_weights),
            call.read(sm_scores, "sm_scores", shapes.scores, DataType.FLOAT),
            call.read(act_scores, "act_scores", shapes.vectors, shapes.data_type),
            shapes.per_edge(call, dropout_mask, "dropout_mask"),
            shapes.per_edge(call, grad_attention, "grad_attention"),
            *shapes.node_gradients(call, grad_src_features, grad_dst_features, written_as),
            shapes.edge_gradient(call, grad_edge_features, written_as),
            0 if grad_weights is None
            else call.write(grad_weights, "grad_weights", shapes.weights, written_as),
            call.write(grad_sm_scores, "grad_sm_scores", shapes.scores, DataType.FLOAT),
            *shapes.workspaces(call, grad_wspace_feat, grad_wspace_weights, written_as,
                               written_as),
            *shapes.sizes, params._struct(), shapes.data_type, written_as,
        )  # fmt: skip


# ---- checks --------------------------------------------------------------------------------------


def _ints(value: Any, name: str) -> np.ndarray[Any, Any]:
    """A copy of ints on the host, as int64."""
    if isinstance(value, Buffer) or hasattr(value, "__cuda_array_interface__"):
        raise TypeError(f"{name} must be ints on the host, got {value!r}")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"{name} must be a row of ints on the host, got {value!r}")
    if array.size and not -1 <= int(array.min()) <= int(array.max()) < 2**31:
        raise ValueError(f"{name} must have ints in [0, 2**31), got {array.min()}, {array.max()}")
    return array.astype(np.int64)


def _check_offsets(offsets: np.ndarray[Any, Any], edges: int) -> None:
    if offsets[0] or (np.diff(offsets) < 0).any() or offsets[-1] != edges:
        raise ValueError(
            f"offsets must rise from 0 to the number of indices, {edges}, got "
            f"{offsets.tolist()[:20]}"
        )


def _check_range(values: np.ndarray[Any, Any], name: str, count: int) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= count))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"{name}[{at}] must be in [0, {count - 1}], got {values[at]}")


def _check_permutation(places: np.ndarray[Any, Any], edges: int) -> None:
    if len(places) != edges:
        raise ValueError(f"map_csc_to_coo must have {edges} ints, got {len(places)}")
    _check_range(places, "map_csc_to_coo", edges)
    if len(np.unique(places)) != edges:
        raise ValueError("map_csc_to_coo must have each place once")


def _check_pair(features: Any, weights: Any) -> None:
    if (features is None) != (weights is None):
        raise ValueError(
            "grad_wspace_feat and grad_wspace_weights must both be given or both be None"
        )


def _data_type(value: Any, name: str, known: tuple[DataType, ...] = _TYPES) -> DataType:
    data_type = dtypes.to_data_type(value, name)
    if data_type not in known:
        names = ", ".join(dtypes.name(one) for one in known)
        raise TypeError(f"{name} must be one of {names}, got {value!r}")
    return data_type


class _Shapes:
    """What all functions know of their operands."""

    def __init__(self, graph: GnnCscGraph, data_type: Any) -> None:
        require(graph, GnnCscGraph, "graph")
        self.graph = graph
        self.data_type = _data_type(data_type, "data_type")

    def features(
        self,
        call: StreamCall,
        value: Any,
        name: str,
        shape: tuple[int, int],
        writes: bool = False,
        data_type: DataType | None = None,
    ) -> int:
        """Address of features that are None if their dimension is 0, and only then."""
        if not shape[1]:
            if value is not None:
                raise ValueError(f"{name} must be None for dimension 0, got {value!r}")
            return 0
        access = call.write if writes else call.read
        return access(value, name, shape, self.data_type if data_type is None else data_type)


class _Aggregation(_Shapes):
    """Sizes of an aggregation, and the shapes that follow."""

    def __init__(
        self, graph: GnnCscGraph, node: int, edge: int, rest: int, data_type: Any, agg_op: Any
    ) -> None:
        super().__init__(graph, data_type)
        names = ("node_feat_dim", "edge_feat_dim", "concat_feat_dim")
        self.sizes = tuple(
            integer(size, name, 0) for size, name in zip((node, edge, rest), names, strict=True)
        )
        node, edge, rest = self.sizes
        if not node + edge:
            raise ValueError("node_feat_dim and edge_feat_dim must not both be 0")
        self.agg_op = member(GnnAggOp, agg_op, "agg_op")
        self.nodes, self.edges = (graph.n_src_nodes, node), (graph.n_indices, edge)
        self.rest, self.width = (graph.n_dst_nodes, rest), node + edge
        self.out = (graph.n_dst_nodes, node + edge + rest)

    def positions(self, call: StreamCall, value: Any, *, writes: bool) -> int:
        """Address of where extremes come from."""
        if self.agg_op not in _EXTREMES:
            if value is not None:
                raise ValueError(f"out_positions must be None for {self.agg_op.name}")
            return 0
        access = call.write if writes else call.read
        shape = (self.graph.n_dst_nodes, self.width)
        return access(value, "out_positions", shape, self.graph.index_type)


class _Attention(_Shapes):
    """Sizes of an attention, and the shapes that follow."""

    def __init__(
        self, graph: GnnCscGraph, params: GnnMhaParams, data_type: Any, node: int, edge: int
    ) -> None:
        super().__init__(graph, data_type)
        require(params, GnnMhaParams, "params")
        self.heads = params.num_heads
        node = self._divisible(node, "dim_node", 1)
        edge = self._divisible(edge, "dim_edge", 0)
        self.sizes: tuple[int, ...] = (node, edge)
        self.source, self.destination = (graph.n_src_nodes, node), (graph.n_dst_nodes, node)
        self.edges, self.vectors = (graph.n_indices, edge), (graph.n_indices, node)
        self.weights: tuple[int, ...] = (2 * node + edge,)
        self.out = (graph.n_dst_nodes, node if params.concat_heads else node // self.heads)
        self.scores = (2, self.heads, graph.n_indices)

    def _divisible(self, value: Any, name: str, low: int) -> int:
        size = integer(value, name, low)
        if size % self.heads:
            raise ValueError(f"{name} must be a multiple of num_heads, {self.heads}, got {size}")
        return size

    def gradient_type(self, value: Any, name: str) -> DataType:
        """That of the data, or float32."""
        if value is None:
            return self.data_type
        known = tuple(dict.fromkeys((self.data_type, DataType.FLOAT)))
        return _data_type(value, name, known)

    def inputs(
        self, call: StreamCall, source: Any, destination: Any, edge: Any, weights: Any
    ) -> list[int]:
        """Their addresses."""
        return [
            call.read(source, "src_features", self.source, self.data_type),
            call.read(destination, "dst_features", self.destination, self.data_type),
            self.features(call, edge, "edge_features", self.edges),
            call.read(weights, "attn_weights", self.weights, self.data_type),
        ]

    def per_edge(self, call: StreamCall, value: Any, name: str) -> Any:
        """Pointer to numbers for each head and edge; None has none."""
        if value is None:
            return None
        address = call.read(value, name, self.scores[1:], DataType.FLOAT)
        return ctypes.cast(address, ctypes.POINTER(ctypes.c_float))

    def node_gradients(
        self, call: StreamCall, source: Any, destination: Any, data_type: DataType
    ) -> tuple[int, int]:
        """Addresses of two arrays, or twice that of one."""
        first = call.write(source, "grad_src_features", self.source, data_type)
        if destination is source and self.source == self.destination:
            return first, first
        return first, call.write(destination, "grad_dst_features", self.destination, data_type)

    def edge_gradient(self, call: StreamCall, value: Any, data_type: DataType) -> int:
        """Address of the edges' gradient, which is there if the edges have features."""
        return self.features(call, value, "grad_edge_features", self.edges, True, data_type)

    def workspaces(
        self,
        call: StreamCall,
        features: Any,
        weights: Any,
        features_as: DataType,
        weights_as: DataType,
    ) -> tuple[int, int]:
        """Addresses of both; None and None for sums in any order."""
        if features is None:
            return 0, 0
        rows = (self.graph.n_dst_nodes, *self.weights)
        return (
            call.write(features, "grad_wspace_feat", self.vectors, features_as),
            call.write(weights, "grad_wspace_weights", rows, weights_as),
        )


class _AttentionV2(_Attention):
    """Of the second kind: edges have vectors as long as nodes, or none."""

    def __init__(
        self, graph: GnnCscGraph, params: GnnMhaParams, data_type: Any, node: int, has_edges: bool
    ) -> None:
        super().__init__(graph, params, data_type, node, 0)
        (node, _), self.sizes = self.sizes, self.sizes[:1]
        self.weights = (node,)
        self.edges = (graph.n_indices, node if has_edges else 0)
