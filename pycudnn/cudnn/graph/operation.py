"""One operation of a graph, and the base of the classes that add them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pycudnn import dtypes
from pycudnn.abi.cudnn_enums import BackendDescriptorType, DataType
from pycudnn.cudnn._objects import integer, integers, require
from pycudnn.cudnn.graph.descriptor import BackendDescriptor
from pycudnn.cudnn.graph.tensor import Shape, Tensor, packed, strides_like
from pycudnn.cudnn.graph.values import number_of
from pycudnn.errors import StatusError
from pycudnn.libraries import Library


class Settings:
    """A descriptor to be made: its kind and attributes, tensors and other Settings among them."""

    def __init__(self, kind: BackendDescriptorType, attributes: Mapping[str, Any]) -> None:
        self.kind = kind
        self.attributes = attributes

    def make(
        self, library: Library, tensors: Mapping[Tensor, BackendDescriptor], real: str
    ) -> BackendDescriptor:
        """The finalized descriptor; an error of the library tells what was set.

        ``real`` is the type of scaling factors, "FLOAT" or "DOUBLE".
        """
        try:
            made = BackendDescriptor(self.kind, library=library)
            for name, value in self.attributes.items():
                if isinstance(value, Settings):
                    value = value.make(library, tensors, real)
                elif isinstance(value, Tensor):
                    value = tensors[value]
                if value is not None:
                    made.set(name, value, type=real if isinstance(value, float) else None)
            return made.finalize()
        except StatusError as error:
            given = [f"{name}: {value!r}" for name, value in self.attributes.items()]
            raise type(error)(
                error.function, error.status, error.status_name, error.last_error, given
            ) from None

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        return f"{self.kind.name}({inner})"


class Operation(Settings):
    """An operation with the tensors that it reads and writes."""

    def __init__(
        self,
        kind: BackendDescriptorType,
        attributes: Mapping[str, Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
    ) -> None:
        super().__init__(kind, attributes)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)


class Operations:
    """What adding operations needs; the graph itself is their common subclass."""

    compute_type: DataType
    intermediate_type: DataType
    _tensors: list[Tensor]
    _operations: list[Operation]
    _built: BackendDescriptor | None

    def _check_growing(self) -> None:
        if self._built is not None:
            raise ValueError("this graph is built already: nothing can be added to it")

    def _own(self, value: Any, name: str) -> Tensor:
        """An operand that must be a tensor of this graph."""
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a Tensor of this graph, got {value!r}")
        if value.graph is not self:
            raise ValueError(f"{name} must be a Tensor of this graph, {value!r} is of another")
        return value

    def scalar(
        self, value: float, dtype: Any = None, *, ndim: int = 4, name: str | None = None
    ) -> Tensor:
        """A tensor of one element that is part of the graph and passed by value.

        ``dtype`` is the graph's compute type where it is None. ValueError for NaN and infinities,
        and for a number that the type cannot hold.
        """
        self._check_growing()
        data_type = self.compute_type if dtype is None else dtypes.to_data_type(dtype)
        shape = (1,) * integer(ndim, "ndim", 1, 8)
        number = number_of(value, data_type, "value")
        return self._put(Tensor(self, shape, shape, data_type, name or "", value=number))  # type: ignore[arg-type]

    def _put(self, tensor: Tensor) -> Tensor:
        require(tensor.name, str, "name")
        if any(known.name == tensor.name for known in self._tensors):
            raise ValueError(f"name must be new in the graph, got {tensor.name!r} again")
        self._tensors.append(tensor)
        return tensor

    def _result(
        self,
        shape: Shape,
        like: Tensor | None,
        *,
        dtype: Any = None,
        strides: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """A new tensor for an operation's result."""
        self._check_growing()
        if strides is not None:
            steps = integers(strides, "strides", 1, len(shape))
        else:
            steps = packed(shape) if like is None else strides_like(shape, like)
        data_type = None if dtype is None else dtypes.to_data_type(dtype)
        return self._put(Tensor(self, shape, steps, data_type, name or ""))  # type: ignore[arg-type]

    def _add(
        self,
        kind: BackendDescriptorType,
        attributes: Mapping[str, Any],
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
    ) -> Operation:
        read = [tensor for tensor in inputs if tensor is not None]
        written = [tensor for tensor in outputs if tensor is not None]
        operation = Operation(kind, attributes, read, written)
        for tensor in read:
            tensor.consumed = True
        for tensor in written:
            tensor.source = operation
        self._operations.append(operation)
        return operation
