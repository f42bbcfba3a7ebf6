"""Engines, their configurations, and the plans that run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycudnn.abi.cudnn_enums import BackendBehaviorNote, BackendKnobType, BackendNumericalNote
from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.cudnn._objects import integer, require
from pycudnn.cudnn.graph.descriptor import BackendDescriptor
from pycudnn.cudnn.graph.plan import ExecutionPlan, Operands
from pycudnn.cudnn.graph.values import enum_member

if TYPE_CHECKING:
    from pycudnn.cudnn.graph.builder import Graph


@dataclass(frozen=True)
class Knob:
    """A setting of an engine: values from ``minimum`` to ``maximum`` in steps of ``stride``."""

    type: BackendKnobType | int  # a number where the library has a knob that we have no name for
    minimum: int
    maximum: int
    stride: int

    @property
    def name(self) -> str:
        """Its name, "TILE_SIZE" say."""
        return getattr(self.type, "name", f"KNOB_{int(self.type)}")

    @property
    def values(self) -> range:
        """The values that it can have."""
        return range(self.minimum, self.maximum + 1, max(self.stride, 1))


class Engine:
    """One way of cuDNN to run a graph (CUDNN_BACKEND_ENGINE); made by ``Graph.engines``.

    Attributes: ``index`` (global, the same in every run of one cuDNN version), ``descriptor``.
    """

    def __init__(self, graph: Graph, index: int) -> None:
        self._set(
            graph,
            BackendDescriptor(
                K.ENGINE_DESCRIPTOR,
                {"ENGINE_OPERATION_GRAPH": graph.build(), "ENGINE_GLOBAL_INDEX": index},
                library=graph.handle.library,
            ).finalize(),
        )

    def _set(self, graph: Graph, descriptor: BackendDescriptor) -> None:
        self.graph = graph
        self.descriptor = descriptor
        self.index = int(descriptor.get("ENGINE_GLOBAL_INDEX"))

    @classmethod
    def _of(cls, graph: Graph, descriptor: BackendDescriptor) -> Engine:
        made = cls.__new__(cls)
        made._set(graph, descriptor)
        return made

    @property
    def numerical_notes(self) -> tuple[BackendNumericalNote | int, ...]:
        """What it does to numbers: TENSOR_CORE, DOWN_CONVERT_INPUTS, NONDETERMINISTIC, ..."""
        return tuple(self.descriptor.get("ENGINE_NUMERICAL_NOTE"))

    @property
    def effects(self) -> frozenset[BackendNumericalNote | int]:
        """Its numerical notes, and TENSOR_CORE where cuDNN keeps quiet about it.

        Engine 0 of matrix products has no note and computes float32 in TF32, as the others do that
        have one (cuDNN 9.19 on an H200, each value of its knobs).
        """
        notes = frozenset(self.numerical_notes)
        is_real = self.graph.handle.library.backend == "cuda"
        if is_real and self.graph.has_matrix_products:
            return notes | {BackendNumericalNote.TENSOR_CORE}
        return notes

    @property
    def behavior_notes(self) -> tuple[BackendBehaviorNote | int, ...]:
        """How it behaves: RUNTIME_COMPILATION, SUPPORTS_CUDA_GRAPH_NATIVE_API, ..."""
        return tuple(self.descriptor.get("ENGINE_BEHAVIOR_NOTE"))

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The settings that ``config`` takes."""
        return tuple(
            Knob(
                info.get("KNOB_INFO_TYPE"),
                info.get("KNOB_INFO_MINIMUM_VALUE"),
                info.get("KNOB_INFO_MAXIMUM_VALUE"),
                info.get("KNOB_INFO_STRIDE"),
            )
            for info in self.descriptor.get("ENGINE_KNOB_INFO")
        )

    def config(
        self, knobs: Mapping[BackendKnobType | str | int, int] | None = None
    ) -> EngineConfig:
        """A configuration with some knobs set, by type or name (CUDNN_BACKEND_ENGINECFG).

        ValueError for a knob that the engine does not have or a value that it cannot have.
        CudnnNotSupported if cuDNN refuses the combination.
        """
        known = {int(knob.type): knob for knob in self.knobs}
        chosen = {} if knobs is None else knobs
        require(chosen, Mapping, "knobs")
        choices = []
        for given, value in chosen.items():
            code = int(enum_member(BackendKnobType, given, "knobs"))
            if code not in known:
                names = ", ".join(knob.name for knob in known.values())
                raise ValueError(f"engine {self.index} has the knobs {names}; got {given!r}")
            knob = known[code]
            number = integer(value, knob.name, knob.minimum, knob.maximum)
            if number not in knob.values:
                raise ValueError(f"{knob.name} must be one of {knob.values}, got {number}")
            choices.append(
                BackendDescriptor(
                    K.KNOB_CHOICE_DESCRIPTOR,
                    {"KNOB_CHOICE_KNOB_TYPE": knob.type, "KNOB_CHOICE_KNOB_VALUE": number},
                    library=self.descriptor.library,
                ).finalize()
            )
        config = BackendDescriptor(
            K.ENGINECFG_DESCRIPTOR,
            {"ENGINECFG_ENGINE": self.descriptor},
            library=self.descriptor.library,
        )
        if choices:
            config.set("ENGINECFG_KNOB_CHOICES", choices)
        return EngineConfig(self.graph, config.finalize())

    def __repr__(self) -> str:
        notes = [getattr(n, "name", n) for n in (*self.numerical_notes, *self.behavior_notes)]
        return f"Engine({self.index}, notes={notes}, knobs={[knob.name for knob in self.knobs]})"


class EngineConfig:
    """An engine with its knobs set; made by ``Engine.config`` and ``Graph.heuristics``."""

    def __init__(self, graph: Graph, descriptor: BackendDescriptor) -> None:
        self.graph = graph
        self.descriptor = descriptor

    @property
    def engine(self) -> Engine:
        """The engine that it configures."""
        return Engine._of(self.graph, self.descriptor.get("ENGINECFG_ENGINE"))

    @property
    def knobs(self) -> dict[str, int]:
        """The knobs that are set, by name."""
        chosen = {}
        for choice in self.descriptor.get("ENGINECFG_KNOB_CHOICES"):
            kind = choice.get("KNOB_CHOICE_KNOB_TYPE")
            chosen[getattr(kind, "name", f"KNOB_{kind}")] = choice.get("KNOB_CHOICE_KNOB_VALUE")
        return chosen

    @property
    def flaw(self) -> str | None:
        """What of its graph cuDNN gets wrong with it; None: nothing that we know of."""
        if not self.graph.has_instance_gradients:
            return None
        # Engine 0 of cuDNN 9.19 adds up sums of samples before all of them are there.
        if all(knob.name != "NUM_C_PER_BLOCK" for knob in self.engine.knobs):
            return None
        return "gradients of scale and bias of INSTANCE_NORM over several samples"

    def plan(self) -> ExecutionPlan:
        """A plan that runs it (CUDNN_BACKEND_EXECUTION_PLAN).

        CudnnError if it cannot, ValueError if it is known to get something wrong (``flaw``).
        """
        graph = self.graph
        if self.flaw is not None:
            raise ValueError(f"engine {self.engine.index} gets {self.flaw} wrong: take another")
        descriptor = BackendDescriptor(
            K.EXECUTION_PLAN_DESCRIPTOR,
            {
                "EXECUTION_PLAN_HANDLE": graph.handle,
                "EXECUTION_PLAN_ENGINE_CONFIG": self.descriptor,
            },
            library=graph.handle.library,
        ).finalize()
        return ExecutionPlan(graph.handle, descriptor, Operands.of(graph.tensors), config=self)

    def __repr__(self) -> str:
        return f"EngineConfig(engine={self.engine.index}, knobs={self.knobs})"
