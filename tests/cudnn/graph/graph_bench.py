"""Runs a graph on host numbers: puts operands in their layouts, fills the rest with NaN."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pycudnn import CudaContext, dtypes, empty, from_numpy
from pycudnn.cudnn.graph import ExecutionPlan, Graph, Tensor

TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}


def strided(memory: np.ndarray, tensor: Tensor) -> np.ndarray:
    """The elements of a tensor in flat memory, as a view."""
    steps = [step * memory.itemsize for step in tensor.strides]
    return np.lib.stride_tricks.as_strided(memory, tensor.shape, steps)


class GraphBench:
    """Memory for the operands of graphs on one context."""

    def __init__(self, context: CudaContext, rng: np.random.Generator) -> None:
        self.context, self.rng = context, rng
        self.place = {"device": context.device, "stream": context.stream}

    def graph(self, **settings) -> Graph:
        return Graph(self.context.cudnn, **settings)

    def values(self, tensor: Tensor, low: float = -1.0, high: float = 1.0) -> np.ndarray:
        """Random numbers that the tensor's type holds exactly, in float64."""
        numbers = self.rng.uniform(low, high, tensor.shape)
        return numbers.astype(dtypes.to_numpy(tensor.dtype)).astype(np.float64)

    def memory(self, tensor: Tensor, values: np.ndarray | None = None):
        """A buffer with the values in the tensor's layout, all bits set elsewhere."""
        dtype = dtypes.to_numpy(tensor.dtype)
        count = tensor.layout.extent // dtype.itemsize
        flat = np.frombuffer(bytearray(b"\xff" * (count * dtype.itemsize)), dtype)
        if values is not None:
            strided(flat, tensor)[...] = values
        return from_numpy(flat, **self.place)

    def scratch(self, nbytes: int):
        """A workspace of just so many bytes, all of them 0xFF; None for none."""
        if not nbytes:
            return None
        buffer = empty(nbytes, "uint8", **self.place)
        buffer.fill_bytes(0xFF, self.context.stream)
        return buffer

    def read(self, tensor: Tensor, buffer) -> np.ndarray:
        """The elements of a tensor, in float64."""
        return strided(buffer.numpy(self.context.stream), tensor).astype(np.float64)

    def operands(self, graph: Graph, inputs: Mapping[Tensor, np.ndarray]) -> dict:
        """A buffer for each operand of the graph."""
        return {tensor: self.memory(tensor, inputs.get(tensor)) for tensor in graph.operands}

    def run(
        self, graph: Graph, inputs: Mapping[Tensor, np.ndarray], plan: ExecutionPlan | None = None
    ) -> dict[Tensor, np.ndarray]:
        """Outputs of one execution, in float64."""
        plan = plan or graph.plan()
        operands = self.operands(graph, inputs)
        plan.execute(operands, self.scratch(plan.workspace_size))
        outputs = [tensor for tensor in graph.operands if tensor.is_output]
        return {tensor: self.read(tensor, operands[tensor]) for tensor in outputs}


def check(got: np.ndarray, expected: np.ndarray, dtype: str = "float32", slack: float = 1.0):
    """Agreement relative to the largest expected number."""
    assert np.isfinite(got).all()
    error = np.abs(got - expected).max() / max(1.0, np.abs(expected).max())
    assert error <= TOLERANCE[dtype] * slack
