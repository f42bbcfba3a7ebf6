"""Do tensors share memory? Exact: elements of one may lie between those of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

# Beyond this effort of NumPy's exact search, elements whose spans meet count as shared.
_EFFORT: dict[str, Any] = {"max_work": 1_000_000}


class Places(NamedTuple):
    """Where elements lie: shape, and in bytes address, strides and the size of one."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int


@dataclass(frozen=True)
class _Outline:
    """An array's outline for NumPy; the memory, which may be a GPU's, is not touched."""

    __array_interface__: dict[str, Any]


def _outline(places: Places) -> np.ndarray:
    # Axes that continue each other are one: the search takes exponential time in their number.
    shape, strides = [places.item], [1]
    for stride, size in sorted(zip(places.strides, places.shape, strict=True)):
        if size != 1 and stride == shape[-1] * strides[-1]:
            shape[-1] *= size
        elif size != 1:
            shape.append(size)
            strides.append(stride)
    interface = {
        "version": 3,
        "data": (places.address, True),
        "typestr": "|u1",
        "shape": tuple(shape),
        "strides": tuple(strides),
    }
    return np.asarray(_Outline(interface))


def overlap(first: Places, second: Places) -> bool:
    """Have two tensors memory in common?"""
    try:
        return np.shares_memory(_outline(first), _outline(second), **_EFFORT)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Do two elements of one tensor lie at the same place? Strides in elements.

    Two such elements differ in a first axis: by the steps from 1 on there, by any in those behind.
    """
    address = 1 << 32
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        inner_shape, inner_strides = shape[axis + 1 :], strides[axis + 1 :]
        one = Places(address, inner_shape, inner_strides, 1)
        others = Places(
            address + stride, (size - 1, *inner_shape), (stride, *inner_strides), 1
        )
        if size > 1 and overlap(one, others):
            return True
    return False
