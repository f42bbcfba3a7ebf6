"""Graphs: tensors and operations, then the engines that can run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycudnn import dtypes
from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.abi.cudnn_enums import BackendHeurMode, DataType, TensorFormat
from pycudnn.cudnn._objects import INT_MAX, integer, integers, member, require
from pycudnn.cudnn.graph.choice import Choice
from pycudnn.cudnn.graph.convolution import ConvolutionOperations
from pycudnn.cudnn.graph.descriptor import BackendDescriptor
from pycudnn.cudnn.graph.engines import Engine, EngineConfig
from pycudnn.cudnn.graph.execution import check_stored
from pycudnn.cudnn.graph.normalization import NormOperations
from pycudnn.cudnn.graph.operation import Operation, Settings
from pycudnn.cudnn.graph.plan import ExecutionPlan
from pycudnn.cudnn.graph.pointwise import PointwiseOperations
from pycudnn.cudnn.graph.resampling import ResampleOperations
from pycudnn.cudnn.graph.tensor import Tensor, channels_last, packed
from pycudnn.cudnn.graph.values import enum_member
from pycudnn.cudnn.handle import Handle
from pycudnn.errors import CudnnNotSupported, NoAlgorithm

_MAX_BYTES = 2**63 - 1


class Graph(ConvolutionOperations, PointwiseOperations, NormOperations, ResampleOperations):
    """A small network of operations that cuDNN runs as one (CUDNN_BACKEND_OPERATIONGRAPH).

    >>> graph = Graph(handle)
    >>> x, w = graph.tensor((32, 64, 28, 28)), graph.tensor((128, 64, 3, 3))
    >>> y = graph.relu(graph.convolution_forward(x, w, padding=1))
    >>> graph.plan().execute({x: x_data, w: w_data, y: y_data}, workspace)

    Computes in ``compute_type``. A result that another operation uses is virtual: it exists inside
    the kernels, in ``intermediate_type`` (None: the compute type), unless ``output`` marks it.
    The graph is built when it is first asked for engines; then nothing can be added.
    """

    def __init__(
        self, handle: Handle, *, compute_type: Any = "float32", intermediate_type: Any = None
    ) -> None:
        require(handle, Handle, "handle")
        self.handle = handle
        self.compute_type = dtypes.to_data_type(compute_type, "compute_type")
        self.intermediate_type = (
            self.compute_type
            if intermediate_type is None
            else dtypes.to_data_type(intermediate_type, "intermediate_type")
        )
        self._tensors: list[Tensor] = []
        self._operations: list[Operation] = []
        self._built: BackendDescriptor | None = None

    # ---- tensors ---------------------------------------------------------------------------------

    def tensor(
        self,
        shape: Sequence[int],
        dtype: Any = DataType.FLOAT,
        *,
        strides: Sequence[int] | None = None,
        format: TensorFormat = TensorFormat.NCHW,
        name: str | None = None,
        alignment: int = 16,
    ) -> Tensor:
        """An input: 1 to 8 dimensions, strides in elements, or else packed in the order of
        ``format`` (NCHW: as the dimensions come; NHWC: channels, axis 1, last).

        ``alignment`` is that of its memory, in bytes. ValueError for a wrong size, or for a name
        that another tensor has.
        """
        self._check_growing()
        dims = integers(shape, "shape", 1)
        if not isinstance(shape, Sequence) or not 1 <= len(dims) <= 8:
            raise ValueError(f"shape must have 1 to 8 dimensions, got {shape!r}")
        order = None
        if member(TensorFormat, format, "format") == TensorFormat.NHWC and len(dims) > 2:
            order = channels_last(len(dims))
        if strides is None:
            steps = packed(dims, order)
        else:
            steps = integers(strides, "strides", 1, len(dims))
        data_type = dtypes.to_data_type(dtype)
        span = 1 + sum((size - 1) * step for size, step in zip(dims, steps, strict=True))
        if span * dtypes.item_bytes(data_type) > _MAX_BYTES or max(steps) > INT_MAX:
            raise ValueError(f"shape {dims} spans {span} elements, more than memory can have")
        if name is not None:
            require(name, str, "name")
        aligned = integer(alignment, "alignment", 1, 4096)
        if aligned % dtypes.item_bytes(data_type):
            raise ValueError(f"alignment must be a multiple of an element's size, got {alignment}")
        return self._put(Tensor(self, dims, steps, data_type, name or "", alignment=aligned))

    def output(
        self,
        tensor: Tensor,
        dtype: Any = None,
        *,
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """Have a result written to memory even if another operation uses it; returns it.

        Also sets its data type and strides, where they are given. ValueError for an input.
        """
        self._check_growing()
        if self._own(tensor, "tensor").source is None:
            raise ValueError(f"tensor must be the result of an operation, got {tensor!r}")
        tensor.marked = True
        if dtype is not None:
            tensor._dtype = dtypes.to_data_type(dtype)
        if strides is not None:
            tensor.strides = integers(strides, "strides", 1, len(tensor.shape))
        return tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, in the order in which they were made."""
        return tuple(self._tensors)

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The tensors that ``ExecutionPlan.execute`` needs memory for."""
        return tuple(t for t in self._tensors if t.value is None and not t.is_virtual)

    # ---- the operation graph ---------------------------------------------------------------------

    def build(self) -> BackendDescriptor:
        """The operation graph's descriptor, made on the first call.

        ValueError for a graph without operations, and for a tensor of bool that is not virtual;
        CudnnError if cuDNN refuses a part of it.
        """
        if self._built is None:
            if not self._operations:
                raise ValueError("this graph has no operations")
            library = self.handle.library
            tensors = {tensor: self._describe(tensor) for tensor in self._tensors}
            real = "DOUBLE" if self.compute_type == DataType.DOUBLE else "FLOAT"
            operations = [each.make(library, tensors, real) for each in self._operations]
            self._built = BackendDescriptor(
                K.OPERATIONGRAPH_DESCRIPTOR,
                {"OPERATIONGRAPH_HANDLE": self.handle, "OPERATIONGRAPH_OPS": operations},
                library=library,
            ).finalize()
        return self._built

    def _describe(self, tensor: Tensor) -> BackendDescriptor:
        if not tensor.is_virtual:
            check_stored(tensor.dtype, repr(tensor))
        return Settings(
            K.TENSOR_DESCRIPTOR,
            {
                "TENSOR_UNIQUE_ID": tensor.uid,
                "TENSOR_DATA_TYPE": tensor.dtype,
                "TENSOR_BYTE_ALIGNMENT": tensor.alignment,
                "TENSOR_DIMENSIONS": tensor.shape,
                "TENSOR_STRIDES": tensor.strides,
                "TENSOR_IS_VIRTUAL": tensor.is_virtual or None,
                "TENSOR_IS_BY_VALUE": tensor.value is not None or None,
            },
        ).make(self.handle.library, {}, "FLOAT")

    # ---- engines ---------------------------------------------------------------------------------

    def engine(self, index: int) -> Engine:
        """The engine of a global index; CudnnNotSupported if it cannot run this graph."""
        return Engine(self, integer(index, "index", 0, self.engine_count - 1))

    @property
    def engine_count(self) -> int:
        """How many engines cuDNN has for graphs of this form; not each can run this one."""
        return int(self.build().get("OPERATIONGRAPH_ENGINE_GLOBAL_COUNT"))

    def engines(self) -> list[Engine]:
        """All engines that can run this graph, by global index."""
        found = []
        for index in range(self.engine_count):
            try:
                found.append(Engine(self, index))
            except CudnnNotSupported:
                continue
        return found

    def heuristics(self, mode: BackendHeurMode | str = "A") -> list[EngineConfig]:
        """Configurations that a heuristic proposes, best first (CUDNN_BACKEND_ENGINEHEUR).

        ``mode`` is "A", "B", "INSTANT" or "FALLBACK". The list can be empty.
        """
        chosen = enum_member(BackendHeurMode, mode, "mode")
        heuristic = BackendDescriptor(
            K.ENGINEHEUR_DESCRIPTOR,
            {"ENGINEHEUR_OPERATION_GRAPH": self.build(), "ENGINEHEUR_MODE": chosen},
            library=self.handle.library,
        ).finalize()
        return [EngineConfig(self, each) for each in heuristic.get("ENGINEHEUR_RESULTS")]

    def plan(
        self,
        mode: BackendHeurMode | str = "A",
        *,
        tf32: bool | None = None,
        deterministic: bool | None = None,
        workspace_limit: int | None = None,
    ) -> ExecutionPlan:
        """The plan of the first configuration that works, of those that ``mode``, then FALLBACK
        proposes.

        Without ``tf32``, engines that use tensor cores on float32 are left out, which cuDNN 9.19
        does in all those for products of matrices; ``deterministic``
        leaves out those that are not; ``workspace_limit`` bounds the workspace in bytes. Where one
        is None, ``pycudnn.config`` decides. NoAlgorithm, with the reasons, if none is left.
        """
        wanted = Choice.of(self._has_float32_products(), tf32, deterministic, workspace_limit)
        reasons: list[str] = []
        for each in dict.fromkeys((mode, "FALLBACK")):
            for config in self._proposed(each):
                plan, reason = wanted.try_plan(config)
                if plan is not None:
                    return plan
                reasons.append(reason)
        raise NoAlgorithm(
            f"no engine for {self!r}: " + ("; ".join(dict.fromkeys(reasons)) or "none is proposed")
        )

    def _proposed(self, mode: BackendHeurMode | str) -> list[EngineConfig]:
        try:
            return self.heuristics(mode)
        except CudnnNotSupported:
            return []

    def _has_float32_products(self) -> bool:
        """Are there convolutions or products of float32, which TF32 would compute?"""
        return any(
            tensor.dtype == DataType.FLOAT
            for operation in self._operations
            if "CONVOLUTION" in operation.kind.name or "MATMUL" in operation.kind.name
            for tensor in operation.inputs
        )

    def __repr__(self) -> str:
        names = ", ".join(
            each.kind.name.removeprefix("OPERATION_").removesuffix("_DESCRIPTOR")
            for each in self._operations
        )
        return f"Graph({names or 'empty'})"
