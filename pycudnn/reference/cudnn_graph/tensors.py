"""The tensor descriptor, and the node that every operation becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import BackendTensorReordering, DataType

from ..memory import numpy_dtype
from ..runtime import bad_param, not_supported
from .descriptor import Descriptor, finalizes

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
MAX_DIMENSIONS = 8

_SIZES = {  # in bytes, of the types of more than one
    DataType.FLOAT: 4,
    DataType.DOUBLE: 8,
    DataType.HALF: 2,
    DataType.BFLOAT16: 2,
    DataType.INT32: 4,
    DataType.INT64: 8,
}
_VECTOR_TYPES = (DataType.INT8x4, DataType.UINT8x4, DataType.INT8x32)


@dataclass(frozen=True)
class Tensor:
    """A finalized tensor descriptor. Strides in elements."""

    uid: int
    dtype: DataType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int
    virtual: bool
    by_value: bool
    vector_count: int
    reordering: int
    ragged: bool

    def __str__(self) -> str:
        return f"tensor {self.uid} {self.shape}"


@dataclass(frozen=True)
class Arithmetic:
    """How an engine computes: in which type, with sums of products cut into how many parts."""

    dtype: np.dtype[Any]
    parts: int = 1


@dataclass(frozen=True)
class Node:
    """An operation: which tensors it reads and writes, by role, and what it computes.

    `compute` gets the inputs by role, in the type of the arithmetic, and returns the outputs.
    The outputs whose role is in `accumulates` are among the inputs too, as they were before.
    """

    name: str
    precision: DataType
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    compute: Callable[[Arrays, Arithmetic], Arrays]
    accumulates: tuple[str, ...] = field(default=())


@finalizes("TENSOR")
def make_tensor(descriptor: Descriptor) -> Tensor:
    """Positive sizes, one stride for each, and a type that the library knows."""
    shape, strides = descriptor.all("DIMENSIONS"), descriptor.all("STRIDES")
    if len(shape) != len(strides):
        raise bad_param(f"{len(shape)} dimensions and {len(strides)} strides")
    if not 1 <= len(shape) <= MAX_DIMENSIONS:
        raise bad_param(f"{len(shape)} dimensions, must be 1 to {MAX_DIMENSIONS}")
    if min(*shape, *strides) < 0:
        raise bad_param(f"dimensions {shape} or strides {strides} are negative")
    try:
        dtype = DataType(descriptor.one("DATA_TYPE"))
    except ValueError:
        raise bad_param(f"DATA_TYPE is {descriptor.one('DATA_TYPE')}") from None
    if dtype in _VECTOR_TYPES:
        raise not_supported(f"DATA_TYPE {dtype.name}: set a vector count instead")
    alignment = descriptor.one("BYTE_ALIGNMENT")
    size = _SIZES.get(dtype, 1)
    if alignment < 1 or alignment % size:
        raise bad_param(f"BYTE_ALIGNMENT is {alignment}, must be a multiple of {size}")
    return Tensor(
        uid=descriptor.one("UNIQUE_ID"),
        dtype=dtype,
        shape=shape,
        strides=strides,
        alignment=alignment,
        virtual=descriptor.one("IS_VIRTUAL"),
        by_value=descriptor.one("IS_BY_VALUE"),
        vector_count=descriptor.one("VECTOR_COUNT"),
        reordering=descriptor.one("REORDERING_MODE"),
        ragged="RAGGED_OFFSET_DESC" in descriptor,
    )


def check_supported(tensor: Tensor) -> None:
    """What can be described but not computed here is refused when an engine is asked for."""
    numpy_dtype(tensor.dtype)
    if 0 in tensor.shape:
        raise not_supported(f"{tensor} is empty")
    if tensor.vector_count != 1:
        raise not_supported(f"{tensor}: vectors of {tensor.vector_count} elements")
    if tensor.reordering != BackendTensorReordering.NONE:
        raise not_supported(f"{tensor}: reordering mode {tensor.reordering}")
    if tensor.ragged:
        raise not_supported(f"{tensor}: ragged")
    if tensor.dtype == DataType.BOOLEAN and not tensor.virtual:
        raise not_supported(f"{tensor}: booleans in memory, which cuDNN packs, eight to a byte")


def precision(value: int) -> DataType:
    """A type to compute in."""
    allowed = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16, DataType.INT32)
    if value not in allowed:
        raise not_supported(f"compute type {value}, must be in {[d.name for d in allowed]}")
    return DataType(value)


def check_shape(tensor: Tensor, expected: tuple[int, ...], what: str) -> None:
    """BAD_PARAM unless the tensor has this shape."""
    if tensor.shape != expected:
        raise bad_param(f"{what}: {tensor} must have shape {expected}")


def check_member(value: int, enum: Any, name: str) -> Any:
    """The member of `enum`; BAD_PARAM if it has none of this value."""
    try:
        return enum(value)
    except ValueError:
        raise bad_param(f"{name} is {value}, must be one of {list(enum)}") from None


def blended(result: Array, alpha: float, beta: float, before: Array | None) -> Array:
    """``alpha * result + beta * before``, in the type of `result`; beta 0 reads nothing."""
    scale = result.dtype.type
    if alpha != 1:
        result = result * scale(alpha)
    if beta != 0 and before is not None:
        result = result + scale(beta) * before
    return result
