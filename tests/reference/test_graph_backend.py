"""The graph API of the reference library, from tensors to executing a plan."""

from __future__ import annotations

import ctypes
import json

import numpy as np
import pytest
from c_library import CLibrary, Memory
from graph_backend import Backend, Data, GraphLibrary

from pycudnn.abi.cudnn_enums import BackendAttributeType as Type
from pycudnn.abi.cudnn_enums import (
    BackendHeurMode,
    BackendKnobType,
    BackendNumericalNote,
    DataType,
    PointwiseMode,
    Status,
)


@pytest.fixture
def lib() -> GraphLibrary:
    return GraphLibrary(CLibrary("reference"))


def convolved(x: np.ndarray, w: np.ndarray, padding: int = 1) -> np.ndarray:
    """Cross-correlation of images with square windows in float64."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w, optimize=True)


class Fused:
    """y = relu(conv(x, w) + b), by three operations and two virtual tensors."""

    def __init__(self, lib: GraphLibrary, rng: np.random.Generator) -> None:
        self.x, self.w = lib.tensor((2, 3, 6, 5)), lib.tensor((4, 3, 3, 3))
        self.b, self.y = lib.tensor((1, 4, 1, 1)), lib.tensor((2, 4, 6, 5))
        first = lib.tensor((2, 4, 6, 5), virtual=True)
        second = lib.tensor((2, 4, 6, 5), virtual=True)
        self.operations = [
            lib.operation(
                "CONVOLUTION_FORWARD",
                CONV_DESC=lib.convolution((1, 1)),
                **{"X": self.x, "W": self.w, "Y": first, "ALPHA": 1.0, "BETA": 0.0},
            ),
            lib.pointwise(PointwiseMode.ADD, XDESC=first, BDESC=self.b, YDESC=second),
            lib.pointwise(PointwiseMode.RELU_FWD, XDESC=second, YDESC=self.y),
        ]
        tensors = self.x, self.w, self.b
        self.inputs = {tensor: rng.standard_normal(tensor.shape) for tensor in tensors}
        x, w, b = (self.inputs[tensor].astype(np.float32).astype(np.float64) for tensor in tensors)
        self.expected = np.maximum(convolved(x, w) + b, 0)


@pytest.mark.parametrize("engine", [0, 1])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_convolution_bias_relu(lib, rng, engine: int, order: tuple[int, ...]) -> None:
    fused = Fused(lib, rng)
    operations = [fused.operations[index] for index in order]
    (y,) = lib.run(operations, fused.inputs, [fused.y], engine)
    np.testing.assert_allclose(y, fused.expected, rtol=0, atol=2e-5)


def test_engine_1_rounds_once(lib, rng) -> None:
    fused = Fused(lib, rng)
    (y,) = lib.run(fused.operations, fused.inputs, [fused.y], 1)
    np.testing.assert_array_equal(y, fused.expected.astype(np.float32))


def test_engine_1_keeps_virtual_tensors_in_its_workspace(lib, rng) -> None:
    fused = Fused(lib, rng)
    graph = lib.graph(*fused.operations)
    sizes = []
    for index in (0, 1):
        plan = lib.plan(lib.config(lib.engine(graph, index)))
        sizes.append(plan.get("WORKSPACE_SIZE", Type.INT64)[0])
    assert sizes == [0, 2 * 8 * 240]
    data = {tensor: Data(lib.library, tensor, value) for tensor, value in fused.inputs.items()}
    data[fused.y] = Data(lib.library, fused.y, None)
    assert lib.try_execute(plan, lib.pack(data)) == Status.BAD_PARAM
    workspace = Memory(lib.library, np.zeros(sizes[1], np.uint8))
    assert lib.try_execute(plan, lib.pack(data, workspace.address)) == 0
    kept = workspace.read().view(np.float64).reshape(2, *fused.y.shape)
    np.testing.assert_array_equal(np.maximum(kept[1], 0).astype(np.float32), data[fused.y].read())


def test_knob_splits_sums_and_changes_rounding_only(lib, rng) -> None:
    x, w, y = lib.tensor((1, 64, 3, 3)), lib.tensor((2, 64, 3, 3)), lib.tensor((1, 2, 3, 3))
    operation = lib.operation(
        "CONVOLUTION_FORWARD", X=x, W=w, Y=y, CONV_DESC=lib.convolution((1, 1))
    )
    inputs = {x: rng.standard_normal(x.shape), w: rng.standard_normal(w.shape)}
    results = [lib.run([operation], inputs, [y], 0, SPLIT_K=parts)[0] for parts in (1, 2, 7, 16)]
    exact = convolved(*(np.float64(np.float32(value)) for value in inputs.values()))
    for result in results:
        np.testing.assert_allclose(result, exact, rtol=0, atol=1e-4)
    assert len({result.tobytes() for result in results}) > 1


def test_engine_says_what_it_is(lib, rng) -> None:
    graph = lib.graph(*Fused(lib, rng).operations)
    assert graph.get("ENGINE_GLOBAL_COUNT", Type.INT64) == [2]
    for index in (0, 1):
        engine = lib.engine(graph, index)
        assert engine.get("GLOBAL_INDEX", Type.INT64) == [index]
        notes = engine.get("NUMERICAL_NOTE", Type.NUMERICAL_NOTE, 10)
        assert notes == [BackendNumericalNote.STRICT_NAN_PROP]
        assert engine.count("BEHAVIOR_NOTE", Type.BEHAVIOR_NOTE) == 0
        (knob,) = engine.held("KNOB_INFO", "KNOB_INFO", 5)
        assert knob.get("TYPE", Type.KNOB_TYPE) == [BackendKnobType.SPLIT_K]
        limits = [knob.get(f"{end}_VALUE", Type.INT64)[0] for end in ("MINIMUM", "MAXIMUM")]
        assert limits + knob.get("STRIDE", Type.INT64) == [1, 16, 1]
    out_of_range = lib.new("ENGINE").set("OPERATION_GRAPH", Type.BACKEND_DESCRIPTOR, graph)
    assert out_of_range.set("GLOBAL_INDEX", Type.INT64, 2).try_finalize() == Status.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("mode", "indices"),
    [
        (BackendHeurMode.MODE_A, [0, 1]),
        (BackendHeurMode.MODE_INSTANT, [0, 1]),
        (BackendHeurMode.MODE_B, [0, 1]),
        (BackendHeurMode.MODE_FALLBACK, [1]),
        (9, []),
    ],
)
def test_heuristics(lib, rng, mode: int, indices: list[int]) -> None:
    ranked = lib.ranking(lib.graph(*Fused(lib, rng).operations), mode)
    engines = [config.held("ENGINE", "ENGINE")[0] for config in ranked]
    assert [engine.get("GLOBAL_INDEX", Type.INT64)[0] for engine in engines] == indices


def text_of(plan: Backend) -> bytes:
    size = plan.count("JSON_REPRESENTATION", Type.CHAR)
    text = ctypes.create_string_buffer(size)
    assert plan.try_get("JSON_REPRESENTATION", Type.CHAR, text, size) == (0, size)
    assert b"\0" not in text.raw  # none is counted or written
    return text.raw


def test_plan_to_text_and_back(lib, rng) -> None:
    fused = Fused(lib, rng)
    graph = lib.graph(*fused.operations)
    plan = lib.plan(lib.config(lib.engine(graph, 1), SPLIT_K=2))
    text = text_of(plan)
    assert json.loads(text)["cudnn"] == lib.library.cudnnGetVersion()
    again = lib.new("EXECUTION_PLAN")
    again.set("HANDLE", Type.HANDLE, ctypes.cast(lib.handle, ctypes.c_void_p).value)
    again.set("JSON_REPRESENTATION", Type.CHAR, *(bytes([byte]) for byte in text)).finalize()
    assert text_of(again) == text
    data = {tensor: Data(lib.library, tensor, value) for tensor, value in fused.inputs.items()}
    results = []
    for each in (plan, again):
        data[fused.y] = Data(lib.library, fused.y, None)
        workspace = Memory(lib.library, np.zeros(4000, np.uint8))
        assert lib.try_execute(each, lib.pack(data, workspace.address)) == 0
        results.append(data[fused.y].read())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("text", [b"{}", b"no JSON", b"[1]", b""])
def test_plan_from_a_text_of_something_else(lib, text: bytes) -> None:
    plan = lib.new("EXECUTION_PLAN")
    plan.set("JSON_REPRESENTATION", Type.CHAR, *(bytes([byte]) for byte in text))
    assert plan.try_finalize() == Status.BAD_PARAM


def test_variant_packs(lib, rng) -> None:
    fused = Fused(lib, rng)
    plan = lib.plan(lib.config(lib.engine(lib.graph(*fused.operations), 0)))
    data = {tensor: Data(lib.library, tensor, value) for tensor, value in fused.inputs.items()}
    data[fused.y] = Data(lib.library, fused.y, None)
    assert lib.try_execute(plan, lib.pack(data)) == 0
    extra = {**data, lib.tensor((1,)): data[fused.y]}
    assert lib.try_execute(plan, lib.pack(extra)) == 0
    missing = {tensor: value for tensor, value in data.items() if tensor is not fused.b}
    assert lib.try_execute(plan, lib.pack(missing)) == Status.BAD_PARAM
    pointers = [value.address for value in data.values()]

    def executed(pointers: list[int]) -> int:
        pack = lib.new("VARIANT_PACK").set("UNIQUE_IDS", Type.INT64, *(t.uid for t in data))
        pack.set("DATA_POINTERS", Type.VOID_PTR, *pointers).finalize()
        return lib.try_execute(plan, pack)

    assert executed(pointers) == 0
    assert executed(pointers[:-1]) == Status.BAD_PARAM
    assert executed([*pointers[:-1], 0]) == Status.BAD_PARAM
    assert executed([pointers[0] + 2, *pointers[1:]]) == Status.BAD_PARAM_MISALIGNED_POINTER


def test_execute_wants_the_right_descriptors(lib, rng) -> None:
    fused = Fused(lib, rng)
    plan = lib.plan(lib.config(lib.engine(lib.graph(*fused.operations), 0)))
    pack = lib.new("VARIANT_PACK").finalize()
    execute = lib.library.cudnnBackendExecute
    assert execute(None, plan.pointer, pack.pointer) == Status.BAD_PARAM
    assert execute(lib.handle, None, pack.pointer) == Status.BAD_PARAM
    assert execute(lib.handle, plan.pointer, None) == Status.BAD_PARAM
    assert execute(lib.handle, pack.pointer, pack.pointer) == Status.BAD_PARAM
    assert lib.try_execute(plan, lib.new("VARIANT_PACK")) == Status.BAD_PARAM
    unfinalized = lib.new("EXECUTION_PLAN")
    assert lib.try_execute(unfinalized, pack) == Status.BAD_PARAM_NOT_FINALIZED


def test_operation_graphs_that_are_none(lib) -> None:
    def relu(x: Backend, y: Backend) -> Backend:
        return lib.pointwise(PointwiseMode.RELU_FWD, XDESC=x, YDESC=y)

    def status(*operations: Backend) -> int:
        graph = lib.new("OPERATIONGRAPH").set("OPS", Type.BACKEND_DESCRIPTOR, *operations)
        return graph.try_finalize()

    a, b, c = (lib.tensor((2, 3), virtual=True) for _ in range(3))
    assert status() == Status.BAD_PARAM
    assert status(relu(a, b)) == 0
    assert status(relu(a, b), relu(b, a)) == Status.BAD_PARAM  # a cycle
    assert status(relu(a, c), relu(b, c)) == Status.BAD_PARAM  # written twice
    other = lib.tensor((2, 3), (1, 2), uid=b.uid)
    assert status(relu(a, b), relu(other, c)) == Status.BAD_PARAM  # one id, two tensors
    unfinalized = lib.new("OPERATION_POINTWISE")
    graph = lib.new("OPERATIONGRAPH")
    refused = graph.try_set("OPS", Type.BACKEND_DESCRIPTOR, unfinalized)
    assert refused == Status.BAD_PARAM_NOT_FINALIZED


def test_no_engine_reads_what_nobody_wrote(lib) -> None:
    x, y = lib.tensor((2, 3), virtual=True), lib.tensor((2, 3))
    graph = lib.graph(lib.pointwise(PointwiseMode.RELU_FWD, XDESC=x, YDESC=y))
    engine = lib.new("ENGINE").set("OPERATION_GRAPH", Type.BACKEND_DESCRIPTOR, graph)
    assert engine.set("GLOBAL_INDEX", Type.INT64, 0).try_finalize() == Status.NOT_SUPPORTED
    assert lib.ranking(graph) == []


def test_in_place(lib, rng) -> None:
    x = lib.tensor((4, 5))
    values = rng.standard_normal((4, 5))
    operation = lib.pointwise(PointwiseMode.RELU_FWD, XDESC=x, YDESC=x)
    (y,) = lib.run([operation], {x: values}, [x])
    np.testing.assert_array_equal(y, np.maximum(values.astype(np.float32), 0))


def test_knobs_that_an_engine_lacks(lib, rng) -> None:
    engine = lib.engine(lib.graph(*Fused(lib, rng).operations), 0)
    for kind, value in ((BackendKnobType.SPLIT_K, 0), (BackendKnobType.SPLIT_K, 17), (2, 1)):
        choice = lib.new("KNOB_CHOICE").set("KNOB_TYPE", Type.KNOB_TYPE, kind)
        choice.set("KNOB_VALUE", Type.INT64, value).finalize()
        config = lib.new("ENGINECFG").set("ENGINE", Type.BACKEND_DESCRIPTOR, engine)
        config.set("KNOB_CHOICES", Type.BACKEND_DESCRIPTOR, choice)
        assert config.try_finalize() == Status.NOT_SUPPORTED


def test_held_descriptors_outlive_their_destruction(lib, rng) -> None:
    fused = Fused(lib, rng)
    plan = lib.plan(lib.config(lib.engine(lib.graph(*fused.operations), 0)))
    data = {tensor: Data(lib.library, tensor, value) for tensor, value in fused.inputs.items()}
    data[fused.y] = Data(lib.library, fused.y, None)
    fused.operations.clear()  # graph, engine and configuration are gone already
    assert lib.try_execute(plan, lib.pack(data)) == 0
    np.testing.assert_allclose(data[fused.y].read(), fused.expected, rtol=0, atol=2e-5)


def test_half_types_are_stored_and_not_computed_in(lib, rng) -> None:
    x = lib.tensor((3, 7), data_type=DataType.HALF)
    y = lib.tensor((3, 7), data_type=DataType.BFLOAT16)
    values = rng.standard_normal((3, 7)).astype(np.float16)
    operation = lib.pointwise(PointwiseMode.EXP, XDESC=x, YDESC=y)
    (got,) = lib.run([operation], {x: values}, [y])
    want = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=2**-8)
