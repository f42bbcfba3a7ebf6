"""Engines, their knobs and configurations, and the heuristics that rank them.

There are two engines for every operation graph, and neither is ever unable to compute what the
other can:

=====  ==============================================  =====================================
index  arithmetic                                      workspace
=====  ==============================================  =====================================
0      float32 (float64 where an operation's compute   none
       type is DOUBLE or INT32)
1      float64, rounded once when a result is stored   the virtual tensors, in float64
=====  ==============================================  =====================================

Both have one knob, SPLIT_K: into how many parts each sum of products (of a convolution, a matrix
product) is cut; the parts are summed in their order. Sums are always taken in the same order, so
both engines are deterministic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pycudnn.abi.cudnn_enums import (
    BackendHeurMode,
    BackendKnobType,
    BackendNumericalNote,
    DataType,
)

from ..runtime import Status, bad_param, not_supported
from .descriptor import Descriptor, finalize, finalizes, new
from .graphs import ENGINES, OperationGraph
from .tensors import Arithmetic, Node, Tensor, check_supported

FLOAT32, FLOAT64 = range(ENGINES)
MAX_PARTS = 16
_SLOT = 16  # bytes that the place of a virtual tensor in the workspace is a multiple of


@dataclass(frozen=True)
class Engine:
    """A finalized engine."""

    graph: OperationGraph
    index: int

    def arithmetic(self, node: Node, parts: int) -> Arithmetic:
        """How this engine computes an operation."""
        exact = node.precision in (DataType.DOUBLE, DataType.INT32)
        wide = exact or self.index == FLOAT64
        return Arithmetic(np.dtype(np.float64 if wide else np.float32), parts)


@dataclass(frozen=True)
class EngineConfig:
    """A finalized engine configuration."""

    engine: Engine
    parts: int

    @property
    def places(self) -> dict[int, int]:
        """Unique id of a virtual tensor -> where in the workspace it lies, in bytes."""
        if self.engine.index == FLOAT32:
            return {}
        places, end = {}, 0
        for tensor in self.engine.graph.virtual:
            places[tensor.uid] = end
            end += _room(tensor)
        return places

    @property
    def workspace_size(self) -> int:
        """In bytes."""
        return sum(_room(self.engine.graph.tensors[uid]) for uid in self.places)


def _room(tensor: Tensor) -> int:
    return math.ceil(8 * math.prod(tensor.shape) / _SLOT) * _SLOT


@finalizes("ENGINE")
def make_engine(descriptor: Descriptor) -> Engine:
    """An index that exists, and a graph of which all can be computed here."""
    graph, index = descriptor.held("OPERATION_GRAPH"), descriptor.one("GLOBAL_INDEX")
    if index not in range(ENGINES):
        raise not_supported(f"GLOBAL_INDEX is {index}, there are {ENGINES} engines")
    for tensor in graph.tensors.values():
        check_supported(tensor)
    written: set[int] = set()
    for node in graph.nodes:
        for tensor in node.inputs.values():
            if tensor.virtual and tensor.uid not in written:
                raise not_supported(f"virtual {tensor} is read before it is written")
        written |= {tensor.uid for tensor in node.outputs.values()}
    knob = new("KNOB_INFO")
    knob.values = {
        "TYPE": (BackendKnobType.SPLIT_K,),
        "MINIMUM_VALUE": (1,),
        "MAXIMUM_VALUE": (MAX_PARTS,),
        "STRIDE": (1,),
    }
    knob.finalized = True
    descriptor.values["KNOB_INFO"] = (knob,)
    descriptor.values["NUMERICAL_NOTE"] = (BackendNumericalNote.STRICT_NAN_PROP,)
    return Engine(graph, index)


@finalizes("KNOB_CHOICE")
def make_knob_choice(descriptor: Descriptor) -> tuple[int, int]:
    """Type and value; whether an engine has such a knob is for its configuration to see."""
    return descriptor.one("KNOB_TYPE"), descriptor.one("KNOB_VALUE")


@finalizes("ENGINECFG")
def make_config(descriptor: Descriptor) -> EngineConfig:
    """Each knob at most once, at a value that it has; the others stay at their first value."""
    choices = [choice.made for choice in descriptor.all("KNOB_CHOICES")]
    if len({kind for kind, _ in choices}) < len(choices):
        raise bad_param("a knob is chosen twice")
    for kind, chosen in choices:
        if kind != BackendKnobType.SPLIT_K or not 1 <= chosen <= MAX_PARTS:
            raise not_supported(f"knob {kind} at {chosen}: only SPLIT_K from 1 to {MAX_PARTS}")
    config = EngineConfig(descriptor.held("ENGINE"), dict(choices).get(BackendKnobType.SPLIT_K, 1))
    descriptor.values["WORKSPACE_SIZE"] = (config.workspace_size,)
    return config


def config_of(graph: Descriptor, index: int) -> Descriptor:
    """The finalized configuration of one engine for a graph, its knob at the first value."""
    engine, config = new("ENGINE"), new("ENGINECFG")
    engine.values = {"OPERATION_GRAPH": (graph,), "GLOBAL_INDEX": (index,)}
    finalize(engine)
    config.values = {"ENGINE": (engine,)}
    finalize(config)
    return config


_BOTH = (FLOAT32, FLOAT64)
_RANKINGS: dict[int, tuple[int, ...]] = {
    BackendHeurMode.MODE_INSTANT: _BOTH,
    BackendHeurMode.MODE_B: _BOTH,
    BackendHeurMode.MODE_FALLBACK: (FLOAT64,),
    BackendHeurMode.MODE_A: _BOTH,
}


@finalizes("ENGINEHEUR")
def make_ranking(descriptor: Descriptor) -> tuple[Descriptor, ...]:
    """Which engines to try, the fastest first; mode FALLBACK gives the accurate one alone."""
    mode = descriptor.one("MODE")
    graph = descriptor.one("OPERATION_GRAPH")
    try:
        results = tuple(config_of(graph, index) for index in _RANKINGS.get(mode, ()))
    except Status:  # no engine computes this graph
        results = ()
    descriptor.values["RESULTS"] = results
    return results
