"""The operation graph: nodes in the order to compute them, and its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from ..runtime import bad_param
from .descriptor import Descriptor, finalizes
from .tensors import Node, Tensor

ENGINES = 2  # how many engines there are; see the module engines


@dataclass(frozen=True)
class OperationGraph:
    """A finalized operation graph."""

    nodes: tuple[Node, ...]  # each after those that write what it reads
    tensors: dict[int, Tensor]  # by unique id

    @property
    def virtual(self) -> list[Tensor]:
        """The tensors that live only while the graph is computed."""
        return [tensor for tensor in self.tensors.values() if tensor.virtual]

    @property
    def real(self) -> list[Tensor]:
        """The tensors in the caller's memory."""
        return [tensor for tensor in self.tensors.values() if not tensor.virtual]


@finalizes("OPERATIONGRAPH")
def make_graph(descriptor: Descriptor) -> OperationGraph:
    """One description for each unique id, one writer for each tensor, and no cycle."""
    nodes = tuple(operation.made for operation in descriptor.all("OPS"))
    if not nodes:
        raise bad_param("an operation graph needs an operation")
    tensors = _tensors(nodes)
    writers = _writers(nodes)
    descriptor.values["ENGINE_GLOBAL_COUNT"] = (ENGINES,)
    ordered = _in_order(nodes, writers)
    return OperationGraph(ordered, tensors)


def _tensors(nodes: tuple[Node, ...]) -> dict[int, Tensor]:
    tensors: dict[int, Tensor] = {}
    for node in nodes:
        for tensor in (*node.inputs.values(), *node.outputs.values()):
            if tensors.setdefault(tensor.uid, tensor) != tensor:
                raise bad_param(f"two different tensors have the unique id {tensor.uid}")
    return tensors


def _writers(nodes: tuple[Node, ...]) -> dict[int, int]:
    """Unique id of a tensor -> the index of the node that writes it."""
    writers: dict[int, int] = {}
    for index, node in enumerate(nodes):
        for tensor in node.outputs.values():
            if tensor.uid in writers:
                raise bad_param(f"{tensor} is written twice")
            writers[tensor.uid] = index
    return writers


def _in_order(nodes: tuple[Node, ...], writers: dict[int, int]) -> tuple[Node, ...]:
    """Each node after those that write what it reads; otherwise in the order given."""
    waiting = {
        index: {writers.get(t.uid, index) for t in node.inputs.values()} - {index}
        for index, node in enumerate(nodes)
    }
    ordered: list[int] = []
    while waiting:
        ready = next((index for index, needs in waiting.items() if needs <= set(ordered)), None)
        if ready is None:
            raise bad_param("the operation graph has a cycle")
        ordered.append(ready)
        del waiting[ready]
    return tuple(nodes[index] for index in ordered)
