"""Graph networks: graphs on the host, aggregation and attention against float64."""

from __future__ import annotations

import numpy as np
import pytest
from gnn_oracle import Attention, Edges, gradient
from side import TOLERANCE, Side, numpy_dtype

from pycudnn import CudaContext, cudnn, errors
from pycudnn.cudnn import GnnActivationOp, GnnAggOp, GnnMhaParams

DTYPES = ("float32", "float16", "bfloat16")
# Two edges to node 0, none to node 1, one of node 2 twice; source 4 has none.
OFFSETS, INDICES, PLACES = [0, 2, 2, 5], [1, 0, 3, 3, 2], [4, 0, 3, 1, 2]
SOURCES, DESTINATIONS, EDGES = 5, 3, 5


@pytest.fixture
def side(context) -> Side:
    if context.cudnn.library.version < 92800:
        pytest.skip("cuDNN 9.28 has it")
    return Side(context)


@pytest.fixture
def reference():
    """A side for what is refused before a call."""
    with CudaContext("reference") as context:
        yield Side(context)


def graph(mapped=True, index_type="int32"):
    places = PLACES if mapped else None
    return cudnn.GnnCscGraph(
        OFFSETS, INDICES, SOURCES, map_csc_to_coo=places, index_type=index_type
    )


def edges(mapped=True):
    places = np.array(PLACES) if mapped else np.arange(EDGES)
    return Edges(np.array(OFFSETS), np.array(INDICES), places)


class Array:
    """A contiguous array on the device and its numbers in float64."""

    def __init__(self, side, values, dtype):
        stored = np.asarray(values).astype(numpy_dtype(dtype))
        self.side, self.dtype = side, dtype
        self.values = stored.astype(np.float64)
        self.data = side.put(stored)

    def read(self):
        return self.side.get(self.data).astype(np.float64)

    def check(self, expected, slack=2.0):
        got = self.read()
        assert np.isfinite(got).all()
        scale = max(1.0, np.abs(expected).max())
        assert np.abs(got - expected).max() <= TOLERANCE[self.dtype] * slack * scale


# ---- graphs --------------------------------------------------------------------------------------


def test_a_graph_knows_its_sizes():
    made = graph()
    assert (made.n_src_nodes, made.n_dst_nodes, made.n_indices) == (5, 3, 5)
    assert repr(made) == "GnnCscGraph(5 -> 3 nodes, 5 edges, INT32)"
    assert repr(graph(index_type="int64")).endswith("INT64)")


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"offsets": [1, 2, 5]}, ValueError, "offsets must rise from 0 to the number of indices"),
        ({"offsets": [0, 3, 2, 5]}, ValueError, "offsets must rise"),
        ({"offsets": [0, 2, 4]}, ValueError, "number of indices, 5"),
        ({"offsets": [0]}, ValueError, "must have nodes and edges"),
        ({"offsets": [], "indices": []}, TypeError, "offsets must be a row of ints"),
        ({"offsets": [0.0, 5.0]}, TypeError, "offsets must be a row of ints"),
        ({"indices": [1, 0, 3, 3, 5]}, ValueError, r"indices\[4\] must be in \[0, 4\], got 5"),
        ({"indices": [1, 0, -1, 3, 2]}, ValueError, r"indices\[2\] must be in \[0, 4\], got -1"),
        ({"indices": [1, 0, 2**40, 3, 2]}, ValueError, r"indices must have ints in \[0, 2\*\*31"),
        ({"indices": "abc"}, TypeError, "indices must be a row of ints"),
        ({"n_src_nodes": 0}, ValueError, "n_src_nodes must be in"),
        ({"map_csc_to_coo": [0, 1, 2, 3, 3]}, ValueError, "must have each place once"),
        ({"map_csc_to_coo": [0, 1, 2, 3]}, ValueError, "must have 5 ints, got 4"),
        ({"map_csc_to_coo": [0, 1, 2, 3, 5]}, ValueError, r"map_csc_to_coo\[4\] must be in"),
        ({"index_type": "int8"}, TypeError, "index_type must be int32 or int64, got 'int8'"),
    ],
)
def test_bad_graphs(changes, error, text):
    arguments = {"offsets": OFFSETS, "indices": INDICES, "n_src_nodes": SOURCES, **changes}
    with pytest.raises(error, match=text):
        cudnn.GnnCscGraph(**arguments)


def test_a_graph_on_the_device_is_refused(reference):
    buffer = reference.put(np.array(OFFSETS, np.int32))
    with pytest.raises(TypeError, match="offsets must be ints on the host"):
        cudnn.GnnCscGraph(buffer, INDICES, SOURCES)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"num_heads": 0}, ValueError, "num_heads must be in"),
        ({"activation": 7}, ValueError, "activation must be a GnnActivationOp"),
        ({"activation_alpha": 0}, ValueError, "must be positive for LEAKY_RELU, got 0"),
        ({"activation_alpha": float("inf")}, ValueError, "must be a finite number"),
    ],
)
def test_bad_params(settings, error, text):
    with pytest.raises(error, match=text):
        GnnMhaParams(**settings)


# ---- aggregation ---------------------------------------------------------------------------------


class Aggregation:
    """Features of dimensions 4, 3 and 2, and their aggregate."""

    def __init__(self, side, rng, dtype, operation, mapped=True, index_type="int32"):
        self.side, self.dtype, self.operation = side, dtype, operation
        self.graph, self.edges = graph(mapped, index_type), edges(mapped)
        shapes = (SOURCES, 4), (EDGES, 3), (DESTINATIONS, 2)
        self.features = [Array(side, rng.permutation(np.linspace(-1, 1, n * m)).reshape(n, m),
                               dtype) for n, m in shapes]  # fmt: skip
        self.positions = None
        if operation in (GnnAggOp.MAX, GnnAggOp.MIN):
            self.positions = side.put(np.full((DESTINATIONS, 7), -7, index_type))
        self.end = (4, 3, 2, dtype, operation)
        self.options = {"library": side.library}

    def blank(self, rows, columns, fill=np.nan):
        return Array(self.side, np.full((rows, columns), fill), self.dtype)

    def forward(self):
        out = self.blank(DESTINATIONS, 9)
        cudnn.gnn_agg_simple_forward(
            self.side.context.stream, self.graph, *[f.data for f in self.features], out.data,
            self.positions, *self.end, **self.options,
        )  # fmt: skip
        return out

    def expected(self, nodes, of_edges, rest):
        out = np.zeros((DESTINATIONS, 9), np.result_type(nodes, of_edges, rest))
        out[:, 7:] = rest
        for node in range(DESTINATIONS):
            rows = [np.concatenate([nodes[s], of_edges[at]]) for s, at in self.edges.of(node)]
            if not rows:
                continue
            rows = np.array(rows)
            if self.operation in (GnnAggOp.SUM, GnnAggOp.MEAN):
                out[node, :7] = rows.sum(0)
                if self.operation == GnnAggOp.MEAN:
                    out[node, :7] /= len(rows)
            else:
                pick = np.argmax if self.operation == GnnAggOp.MAX else np.argmin
                out[node, :7] = rows[pick(rows.real, 0), np.arange(7)]
        return out


@pytest.mark.parametrize("operation", GnnAggOp)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("mapped", "index_type"), [(True, "int32"), (False, "int64")])
def test_aggregation(side, rng, operation, dtype, mapped, index_type):
    problem = Aggregation(side, rng, dtype, operation, mapped, index_type)
    values = [one.values for one in problem.features]
    problem.forward().check(problem.expected(*values))
    dout = Array(side, rng.uniform(-1, 1, (DESTINATIONS, 9)), dtype)
    got = [problem.blank(*f.values.shape, fill) for f, fill in
           zip(problem.features, (0.5, -0.25, np.nan), strict=True)]  # fmt: skip
    cudnn.gnn_agg_simple_backward(
        side.context.stream, problem.graph, dout.data, problem.positions, *[g.data for g in got],
        *problem.end, **problem.options,
    )  # fmt: skip
    for which, start in enumerate((0.5, -0.25, 0.0)):
        exact = gradient(lambda *x: (problem.expected(*x) * dout.values).sum(), values, which)
        got[which].check(exact + start)


def test_features_of_one_kind(side, rng):
    for sizes in ((4, 0, 0), (0, 3, 0), (0, 3, 2), (4, 0, 2)):
        problem = Aggregation(side, rng, "float32", GnnAggOp.SUM)
        keep = [f if size else None for f, size in zip(problem.features, sizes, strict=True)]
        out = problem.blank(DESTINATIONS, sum(sizes))
        cudnn.gnn_agg_simple_forward(
            side.context.stream, problem.graph, *[f and f.data for f in keep], out.data, None,
            *sizes, "float32", GnnAggOp.SUM, **problem.options,
        )  # fmt: skip
        parts = ([0, 1, 2, 3], [4, 5, 6], [7, 8])
        columns = [c for part, size in zip(parts, sizes, strict=True) if size for c in part]
        expected = problem.expected(*[f.values for f in problem.features])
        out.check(expected[:, columns])


# ---- attention -----------------------------------------------------------------------------------


class Heads:
    """Two heads of 3 elements, and all operands of either kind of attention."""

    def __init__(self, side, rng, second, dtype="float32", *, activation="LEAKY_RELU",
                 concatenates=True, has_edges=True, drops=False, mapped=True):  # fmt: skip
        self.side, self.dtype, self.second = side, dtype, second
        self.graph = graph(mapped)
        node, edge = 6, (6 if second else 4) * has_edges
        self.params = GnnMhaParams(2, GnnActivationOp[activation], 0.3, concatenates)

        def array(*shape):
            return Array(side, rng.uniform(-1, 1, shape), dtype)

        features = [array(SOURCES, node), array(DESTINATIONS, node)]
        self.edge = array(EDGES, edge) if has_edges else None
        weights = array(node if second else 2 * node + edge)
        self.inputs = [*features, self.edge, weights]
        self.values = [
            np.zeros((EDGES, 0)) if one is None else one.values for one in self.inputs
        ]
        mask = np.array([[0, 2, 2, 0, 2], [2, 2, 0, 2, 2.0]]) if drops else np.ones((2, EDGES))
        self.mask = Array(side, mask, "float32") if drops else None
        self.exact = Attention(
            edges(mapped), 2, self.params.activation, 0.3, concatenates, second, mask
        )
        self.width = node if concatenates else node // 2
        self.sizes = (node,) if second else (node, edge)
        self.scores = self.blank((2, 2, EDGES), "float32")
        self.vectors = [self.blank((EDGES, node))] if second else []
        self.prefix = f"gnn_mha_gat_{'v2_' * second}"
        self.options = {"library": side.library}

    def blank(self, shape, dtype=""):
        return Array(self.side, np.full(shape, np.nan), dtype or self.dtype)

    def data(self, *arrays):
        return [one and one.data for one in arrays]

    def forward(self):
        out = self.blank((DESTINATIONS, self.width))
        getattr(cudnn, f"{self.prefix}forward")(
            self.side.context.stream, self.graph,
            *self.data(*self.inputs, self.mask, out, self.scores, *self.vectors), *self.sizes,
            self.params, self.dtype, **self.options,
        )  # fmt: skip
        return out

    def backward(self, dout, dattention, wide, deterministic=False, one_array=False):
        gradients = [one and self.blank(one.values.shape, wide) for one in self.inputs]
        if one_array:
            gradients[1] = gradients[0]
        dscores = self.blank((2, 2, EDGES), "float32")
        spaces = [None, None]
        if deterministic:
            shapes = (EDGES, 6), (DESTINATIONS, len(self.values[3]))
            spaces = [self.blank(shape, wide) for shape in shapes]
        getattr(cudnn, f"{self.prefix}backward")(
            self.side.context.stream, self.graph,
            *self.data(dout, *self.inputs, self.scores, *self.vectors, self.mask, dattention,
                       *gradients, dscores, *spaces),
            *self.sizes, self.params, self.dtype, *[wide] * (1 if self.second else 2),
            **self.options,
        )  # fmt: skip
        assert np.isfinite(dscores.read()).all()
        return gradients

    def check(self, dtype="", deterministic=False):
        """Forward and backward."""
        rng = np.random.default_rng(7)
        result = self.exact.forward(*self.values)
        self.forward().check(result["output"])
        self.scores.check(result["scores"])
        for vectors in self.vectors:
            vectors.check(result["vectors"])
        dout = Array(self.side, rng.uniform(-1, 1, (DESTINATIONS, self.width)), self.dtype)
        slope = Array(self.side, rng.uniform(-1, 1, (2, EDGES)), "float32")
        got = self.backward(dout, slope, dtype or self.dtype, deterministic)
        exact = self.exact.backward(self.values, dout.values, slope.values)
        for one, expected in zip(got, exact, strict=True):
            if one is not None:
                one.check(expected, 4 if one.dtype == self.dtype else 500)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("activation", GnnActivationOp.__members__)
def test_activations(side, rng, second, activation):
    Heads(side, rng, second, activation=activation).check()


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("concatenates", [False, True])
@pytest.mark.parametrize("has_edges", [False, True])
@pytest.mark.parametrize("drops", [False, True])
def test_options_of_attention(side, rng, second, concatenates, has_edges, drops):
    options = {"concatenates": concatenates, "has_edges": has_edges, "drops": drops}
    Heads(side, rng, second, mapped=drops, **options).check(deterministic=drops)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", ["", "float32"])
def test_types_of_attention(side, rng, second, dtype, wide):
    Heads(side, rng, second, dtype, drops=True).check(wide)


@pytest.mark.parametrize("second", [False, True])
def test_one_array_of_gradients_gets_their_sum(side, rng, second):
    problem = Heads(side, rng, second)
    problem.graph = cudnn.GnnCscGraph([0, 2, 2, 5], [1, 0, 2, 2, 1], 3)
    problem.exact.edges = Edges(
        np.array([0, 2, 2, 5]), np.array([1, 0, 2, 2, 1]), np.arange(EDGES)
    )
    problem.inputs[0], problem.values[0] = problem.inputs[1], problem.values[1]
    problem.forward()
    dout = Array(side, rng.uniform(-1, 1, (DESTINATIONS, 6)), "float32")
    got = problem.backward(dout, None, "float32", one_array=True)
    source, destination, *_ = problem.exact.backward(
        problem.values, dout.values, np.zeros((2, EDGES))
    )
    got[0].check(source + destination, 4)


# ---- what is refused -----------------------------------------------------------------------------


def test_older_libraries_say_what_is_needed(context):
    if context.cudnn.library.version >= 92600:
        return
    side = Side(context)
    with pytest.raises(errors.FunctionNotFound, match="cudnnGnnAggSimpleForward needs cuDNN 9.26"):
        Aggregation(side, np.random.default_rng(1), "float32", GnnAggOp.SUM).forward()


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"graph": None}, TypeError, "graph must be a GnnCscGraph"),
        ({"node_features": None}, TypeError, "node_features must be a pycudnn buffer"),
        ({"concat_feat_dim": 0}, ValueError, "concat_features must be None for dimension 0"),
        ({"node_feat_dim": 0, "edge_feat_dim": 0}, ValueError, "must not both be 0"),
        ({"node_feat_dim": -1}, ValueError, "node_feat_dim must be in"),
        ({"edge_feat_dim": 4}, ValueError, r"edge_features must have shape \(5, 4\) or be flat"),
        ({"data_type": "float64"}, TypeError, "data_type must be one of float32, float16, bfl"),
        ({"agg_op": 4}, ValueError, "agg_op must be a GnnAggOp"),
        ({"agg_op": GnnAggOp.MAX}, TypeError, "out_positions must be a pycudnn buffer"),
        ({"out_positions": np.zeros((3, 7), np.int32)}, ValueError, "out_positions must be None"),
        ({"output": np.zeros((3, 9), np.float16)}, TypeError, "output holds float16"),
        ({"output": np.zeros((3, 8), np.float32)}, ValueError, r"output must have shape \(3, 9\)"),
        ({"output": np.zeros((9, 3), np.float32).T}, ValueError, "output must be laid out as"),
    ],
)
def test_wrong_arguments_of_aggregation(reference, rng, changes, error, text):
    problem = Aggregation(reference, rng, "float32", GnnAggOp.SUM)
    names = ("node_features", "edge_features", "concat_features")
    arguments = {
        "stream": reference.context.stream, "graph": problem.graph,
        **{name: f.data for name, f in zip(names, problem.features, strict=True)},
        "output": problem.blank(DESTINATIONS, 9).data, "out_positions": None, "node_feat_dim": 4,
        "edge_feat_dim": 3, "concat_feat_dim": 2, "data_type": "float32", "agg_op": GnnAggOp.SUM,
        "library": "reference", **changes,
    }  # fmt: skip
    with pytest.raises(error, match=text):
        cudnn.gnn_agg_simple_forward(**arguments)


def test_positions_of_another_index_type(reference, rng):
    problem = Aggregation(reference, rng, "float32", GnnAggOp.MAX)
    problem.positions = reference.put(np.zeros((DESTINATIONS, 7), np.int64))
    with pytest.raises(TypeError, match="out_positions holds int64"):
        problem.forward()


def test_wrong_arguments_of_attention(reference, rng):
    def refuse(error, text, **changes):
        problem = Heads(reference, rng, False)
        for name, value in changes.items():
            setattr(problem, name, value)
        with pytest.raises(error, match=text):
            problem.forward()

    refuse(ValueError, "dim_node must be a multiple of num_heads, 2, got 5", sizes=(5, 4))
    refuse(ValueError, "dim_edge must be a multiple of num_heads, 2, got 3", sizes=(6, 3))
    refuse(ValueError, "edge_features must be None for dimension 0", sizes=(6, 0))
    refuse(TypeError, "params must be a GnnMhaParams", params=5)
    refuse(TypeError, "sm_scores holds float16",
           scores=Array(reference, np.zeros((2, 2, EDGES)), "float16"))  # fmt: skip
    problem = Heads(reference, rng, False)
    problem.forward()
    dout = Array(reference, np.zeros((DESTINATIONS, 6)), "float32")
    with pytest.raises(TypeError, match="grad_data_type must be one of float32, got 'float16'"):
        problem.backward(dout, None, "float16")
    with pytest.raises(ValueError, match="grad_dst_features must have shape"):
        problem.backward(dout, None, "float32", one_array=True)
    with pytest.raises(ValueError, match="must both be given or both be None"):
        cudnn.gnn_mha_gat_backward(
            reference.context.stream, problem.graph, *[None] * 13, dout.data, None, 6, 4,
            problem.params, "float32",
        )  # fmt: skip
