"""Tensors of a graph, and how their results are laid out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pycudnn import dtypes
from pycudnn.abi.cudnn_enums import DataType
from pycudnn.cudnn.graph.execution import Layout

if TYPE_CHECKING:
    from pycudnn.cudnn.graph.builder import Graph
    from pycudnn.cudnn.graph.operation import Operation

Shape = tuple[int, ...]


class Tensor:
    """A tensor of a graph; made by ``Graph.tensor``, ``Graph.scalar`` and the operations.

    Attributes: ``name``, ``uid`` (its unique id in the graph), ``shape``, ``strides`` (elements),
    ``value`` (of a scalar that is passed by value, else None) and ``alignment`` (bytes that its
    memory must be aligned to).
    """

    def __init__(
        self,
        graph: Graph,
        shape: Shape,
        strides: Shape,
        dtype: DataType | None,
        name: str,
        *,
        value: float | None = None,
        alignment: int = 16,
    ) -> None:
        self.graph = graph
        self.uid = len(graph._tensors) + 1
        self.name = name or f"t{self.uid}"
        self.shape = shape
        self.strides = strides
        self.value = value
        self.alignment = alignment
        self.source: Operation | None = None
        self.consumed = False
        self.marked = False  # as an output, though consumed
        self.alias: Tensor | None = None  # the input whose memory this output may share
        self._dtype = dtype

    @property
    def is_virtual(self) -> bool:
        """Does it exist inside the kernels only? So does a result that another operation uses."""
        return self.source is not None and self.consumed and not self.marked

    @property
    def is_output(self) -> bool:
        """Is it a result that is written to memory?"""
        return self.source is not None and not self.is_virtual

    @property
    def dtype(self) -> DataType:
        """As given; else of a virtual tensor the graph's intermediate type, of an output the type
        of the first operand that it comes from."""
        if self._dtype is not None:
            return self._dtype
        if self.is_virtual:
            return self.graph.intermediate_type
        first = self
        while first.source is not None and first._dtype is None:
            first = first.source.inputs[0]
        return first.dtype

    @property
    def layout(self) -> Layout:
        """What its memory must be like."""
        return Layout(
            self.uid, self.name, self.dtype, self.shape, self.strides, alignment=self.alignment,
            alias=None if self.alias is None else self.alias.uid,
        )  # fmt: skip

    def __repr__(self) -> str:
        role = "virtual" if self.is_virtual else "output" if self.is_output else "input"
        if self.value is not None:
            role = f"value {self.value:g}"
        dtype = dtypes.name(self.dtype)
        return f"Tensor({self.name}: {role}, {self.shape}, strides={self.strides}, {dtype})"


def packed(shape: Sequence[int], order: Sequence[int] | None = None) -> Shape:
    """Strides of elements without gaps, the axes from slowest to fastest (None: as they come)."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape)) if order is None else order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def channels_last(ndim: int) -> tuple[int, ...]:
    """The axes from slowest to fastest where channels, axis 1, are fastest."""
    return (0, *range(2, ndim), 1)


def strides_like(shape: Shape, like: Tensor) -> Shape:
    """Packed strides in the order of another tensor's axes."""
    ndim = len(like.shape)
    if len(shape) != ndim or ndim < 3:
        return packed(shape)
    # Sizes of 1 make the order ambiguous: prefer the two usual ones.
    if like.strides == packed(like.shape, channels_last(ndim)):
        return packed(shape, channels_last(ndim))
    order = sorted(range(ndim), key=lambda axis: (-like.strides[axis], axis))
    return packed(shape, order if 1 not in like.shape else None)


def broadcast(shapes: Sequence[Shape], names: Sequence[str]) -> Shape:
    """The common shape where sizes of 1 repeat; ValueError names what does not fit."""
    if len({len(shape) for shape in shapes}) != 1:
        raise ValueError(f"{' and '.join(names)} must have the same rank, got {_join(shapes)}")
    result = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    for shape in shapes:
        if any(size not in (1, full) for size, full in zip(shape, result, strict=True)):
            raise ValueError(f"{' and '.join(names)} do not broadcast: {_join(shapes)}")
    return result


def _join(shapes: Sequence[Any]) -> str:
    return " and ".join(map(str, shapes))
