"""Features of each node's neighbours and edges, summed, averaged, or the largest or smallest."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cudnn_enums import DataType, GnnAggOp

from ..memory import numpy_dtype, store
from ..runtime import bad_param, implements
from .graphs import Array, Graph, check_features, check_type, read_array, read_graph

_EXTREMES = {GnnAggOp.MAX: np.argmax, GnnAggOp.MIN: np.argmin}


def _check(width: int, operation: int, positions: int) -> None:
    if not width:
        raise bad_param("nodeFeatDim and edgeFeatDim are both 0")
    if operation not in tuple(GnnAggOp):
        raise bad_param(f"aggOp is {operation}, no GnnAggOp")
    if bool(positions) != (operation in _EXTREMES):
        raise bad_param("outPositions must be there for MAX and MIN, and for them only")


class _Rows:
    """Features as (rows, size) in the type that they are stored in."""

    def __init__(self, address: int, rows: int, size: int, data_type: DataType) -> None:
        self.stored = np.empty((rows, 0), numpy_dtype(data_type))
        if address:
            self.stored = read_array(address, rows * size, data_type).reshape(rows, size)

    @property
    def values(self) -> Array:
        """In float32."""
        return self.stored.astype(np.float32)

    def set(self, values: Array) -> None:
        """Rounded to the stored type."""
        store(self.stored, values)


def _positions(address: int, graph: Graph, size: int) -> Array:
    """(destinations, size): the source node or edge that an extreme comes from, -1 for none."""
    count = graph.destination_count * size
    return read_array(address, count, graph.index_type).reshape(-1, size)


@implements("cudnnGnnAggSimpleForward")
def forward(
    stream: int,
    graph: int,
    nodes: int,
    edges: int,
    rest: int,
    out: int,
    out_positions: int,
    node_size: int,
    edge_size: int,
    rest_size: int,
    dtype: int,
    operation: int,
) -> None:
    """Rows of aggregated node features, aggregated edge features, and what is passed through.

    A node without neighbours has zeros.
    """
    found, data_type = read_graph(graph), check_type("dataType", dtype)
    check_features("nodeFeatures", nodes, node_size)
    check_features("edgeFeatures", edges, edge_size)
    check_features("concatFeatures", rest, rest_size)
    _check(node_size + edge_size, operation, out_positions)
    if not out:
        raise bad_param("output is NULL")
    x = _Rows(nodes, found.source_count, node_size, data_type).values
    e = _Rows(edges, found.edge_count, edge_size, data_type).values
    width = node_size + edge_size
    result = np.zeros((found.destination_count, width + rest_size), np.float32)
    result[:, width:] = _Rows(rest, found.destination_count, rest_size, data_type).values
    extreme = _EXTREMES.get(GnnAggOp(operation))
    positions = _positions(out_positions, found, width) if extreme else None
    if positions is not None:
        positions[...] = -1
    for node, sources, places in found.destinations():
        seen = np.concatenate([x[sources], e[places]], 1)
        if extreme is None:
            result[node, :width] = seen.sum(0)
            if operation == GnnAggOp.MEAN:
                result[node, :width] /= len(seen)
            continue
        which = extreme(seen, 0)
        result[node, :width] = seen[which, np.arange(width)]
        assert positions is not None
        positions[node, :node_size] = sources[which[:node_size]]
        positions[node, node_size:] = places[which[node_size:]]
    _Rows(out, *result.shape, data_type).set(result)


@implements("cudnnGnnAggSimpleBackward")
def backward(
    stream: int,
    graph: int,
    dout: int,
    out_positions: int,
    dnodes: int,
    dedges: int,
    drest: int,
    node_size: int,
    edge_size: int,
    rest_size: int,
    dtype: int,
    operation: int,
) -> None:
    """Gradients of nodes and edges, added to what is there; that of the rest is set."""
    found, data_type = read_graph(graph), check_type("dataType", dtype)
    check_features("gradNodeFeatures", dnodes, node_size)
    check_features("gradEdgeFeatures", dedges, edge_size)
    check_features("gradConcatFeatures", drest, rest_size)
    _check(node_size + edge_size, operation, out_positions)
    if not dout:
        raise bad_param("gradOutput is NULL")
    width = node_size + edge_size
    slope = _Rows(dout, found.destination_count, width + rest_size, data_type).values
    _Rows(drest, found.destination_count, rest_size, data_type).set(slope[:, width:])
    of_nodes = _Rows(dnodes, found.source_count, node_size, data_type)
    of_edges = _Rows(dedges, found.edge_count, edge_size, data_type)
    x, e = of_nodes.values, of_edges.values
    if operation in _EXTREMES:
        positions = _positions(out_positions, found, width)
        for sums, part, first in ((x, node_size, 0), (e, edge_size, node_size)):
            at = positions[:, first : first + part]
            columns = np.broadcast_to(np.arange(part), at.shape)
            known = at >= 0
            np.add.at(sums, (at[known], columns[known]), slope[:, first : first + part][known])
    else:
        for node, sources, places in found.destinations():
            share = slope[node, :width] / (len(sources) if operation == GnnAggOp.MEAN else 1)
            np.add.at(x, sources, share[:node_size])
            e[places] += share[node_size:]
    of_nodes.set(x)
    of_edges.set(e)
