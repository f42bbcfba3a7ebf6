"""Vectors of channels (NCHW_VECT_C): tensors as arrays in which each channel has its place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi.cudnn_enums import DataType

from ..descriptors import Filter, Tensor, in_vectors
from ..memory import view

# What the channels of a vector are.
_CHANNEL_TYPES = {
    DataType.INT8x4: DataType.INT8,
    DataType.UINT8x4: DataType.UINT8,
    DataType.INT8x32: DataType.INT8,
}

Array = np.ndarray[Any, Any]


class _Split(NamedTuple):
    dtype: DataType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def channel_type(data_type: DataType) -> DataType:
    """The type of a single channel."""
    return _CHANNEL_TYPES.get(data_type, data_type)


def split(address: int, descriptor: Tensor | Filter, name: str = "data") -> Array:
    """The tensor at `address` as (N, C / v, v, *space); no copy. Without vectors v is 1."""
    width = descriptor.width
    if width == 1:
        return view(address, descriptor, name)[:, :, None]
    n, vectors, *space = in_vectors(descriptor.shape, width)
    outer, between, *within = (width * stride for stride in descriptor.strides)
    layout = _Split(
        channel_type(descriptor.dtype),
        (n, vectors, width, *space),
        (outer, between, 1, *within),
    )
    return view(address, layout, name)


def joined(array: Array) -> Array:
    """(N, C / v, v, *space) as (N, C, *space): a copy where v is not 1."""
    n, vectors, width, *space = array.shape
    return array.reshape(n, vectors * width, *space)
