"""Tensor transforms: padding, cropping, folding space into channels, another order in memory."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, FoldingDirection, TensorFormat

from ..cudnn_graph import Handle
from ..descriptors import Filter, Tensor, packed_strides
from ..memory import Layout, blend, load, read_array, read_scalar, view, write, write_array
from ..runtime import bad_param, implements, not_supported, opaque
from .tensor import check_conversion
from .tensor_descriptors import extent, first, item_size
from .vectors import channel_type

_LARGEST_SIZE = 2**31 - 1
_LARGEST_RANK = 5

Array = np.ndarray[Any, Any]


@opaque(
    "cudnnTensorTransformDescriptor_t",
    "cudnnCreateTensorTransformDescriptor",
    "cudnnDestroyTensorTransformDescriptor",
)
@dataclass
class TensorTransform:
    """What is added before and behind each dimension (negative: taken away), and the blocks.

    Arrays may be shorter than a tensor has dimensions: what is missing is 0. A block size of 0
    means 1.
    """

    format: TensorFormat = TensorFormat.NCHW
    pad_before: tuple[int, ...] = ()
    pad_after: tuple[int, ...] = ()
    fold: tuple[int, ...] = ()
    direction: FoldingDirection = FoldingDirection.FOLD

    def blocks(self, spatial: int) -> tuple[int, ...]:
        """The block size of each spatial dimension."""
        return tuple(max(size, 1) for size in first(self.fold, spatial))

    def margins(self, count: int) -> list[tuple[int, int]]:
        """Elements to add before and behind, for each dimension."""
        return list(zip(first(self.pad_before, count), first(self.pad_after, count), strict=True))


@implements("cudnnSetTensorTransformDescriptor")
def set_tensor_transform(
    transform: TensorTransform,
    count: int,
    layout: int,
    pad_before: int,
    pad_after: int,
    fold: int,
    direction: int,
) -> None:
    """`count` dimensions. An array that is NULL leaves what was set before.

    Any direction but FOLD is UNFOLD, as in cuDNN.
    """
    if count < 2:
        raise bad_param(f"nbDims is {count}, must be at least 2")
    if count > CUDNN_DIM_MAX:
        raise not_supported(f"nbDims is {count}, must be at most {CUDNN_DIM_MAX}")
    if layout not in tuple(TensorFormat):
        raise not_supported(f"destFormat is {layout}, must be one of 0 to {max(TensorFormat)}")
    transform.format = TensorFormat(layout)
    if pad_before:
        transform.pad_before = read_array(pad_before, ctypes.c_int32, count)
    if pad_after:
        transform.pad_after = read_array(pad_after, ctypes.c_int32, count)
    if fold:
        transform.fold = read_array(fold, ctypes.c_uint32, count - 2)
    transform.direction = FoldingDirection(min(direction % 2**32, 1))


@implements("cudnnGetTensorTransformDescriptor")
def get_tensor_transform(
    transform: TensorTransform,
    requested: int,
    layout: int,
    pad_before: int,
    pad_after: int,
    fold: int,
    direction: int,
) -> None:
    """Exactly `requested` entries, 0 where there are fewer; nothing where a pointer is NULL."""
    if not 2 < requested <= CUDNN_DIM_MAX:
        raise bad_param(f"nbDimsRequested is {requested}, must be 3 to {CUDNN_DIM_MAX}")
    if layout:
        write(layout, ctypes.c_int, transform.format)
    for address, c_type, values, count in (
        (pad_before, ctypes.c_int32, transform.pad_before, requested),
        (pad_after, ctypes.c_int32, transform.pad_after, requested),
        (fold, ctypes.c_uint32, transform.fold, requested - 2),
    ):
        if address:
            write_array(address, c_type, first(values, count))
    write(direction, ctypes.c_int, transform.direction, "direction")


# --- the result's shape --------------------------------------------------------------------------


def _padded(transform: TensorTransform, shape: Iterable[int], count: int) -> tuple[int, ...]:
    sizes = zip(shape, transform.margins(count), strict=True)
    return tuple(before + size + after for size, (before, after) in sizes)


def transformed_shape(transform: TensorTransform, shape: tuple[int, ...]) -> tuple[int, ...]:
    """FOLD pads, then moves blocks into channels; UNFOLD moves channels into blocks, then pads.

    Space that does not fill its blocks, or channels that do not fill theirs, are rounded up.
    """
    rank = len(shape)
    blocks = transform.blocks(rank - 2)
    count = math.prod(blocks)
    if transform.direction == FoldingDirection.FOLD:
        n, c, *space = _padded(transform, shape, rank)
        sizes = zip(space, blocks, strict=True)
        result = (n, c * count, *(-(-size // block) for size, block in sizes))
    else:
        n, c, *space = shape
        sizes = zip(space, blocks, strict=True)
        opened = (n, -(-c // count), *(size * block for size, block in sizes))
        result = _padded(transform, opened, rank)
    if min(result) < 1:
        raise bad_param(f"nothing is left of {shape}: the result would be {result}")
    if max(result) > _LARGEST_SIZE:
        raise not_supported(f"the result would be {result}, too large for an int")
    return result


def _check(transform: TensorTransform, src: Layout) -> None:
    rank = len(src.shape)
    if not rank:
        raise not_supported("the source has not been set")
    if src.dtype != channel_type(src.dtype):
        raise not_supported(f"vectors of channels cannot be transformed, got {src.dtype.name}")
    if rank > _LARGEST_RANK:
        raise not_supported(f"the source has {rank} dimensions, must have at most {_LARGEST_RANK}")
    packed = (packed_strides(src.shape, form) for form in (TensorFormat.NCHW, TensorFormat.NHWC))
    if rank != 4 and max(transform.blocks(rank - 2), default=1) > 1 and src.strides not in packed:
        raise not_supported(f"only 4-d tensors can have gaps and be folded, not {src.shape}")


@implements("cudnnInitTransformDest")
def init_transform_dest(transform: TensorTransform, src: Tensor, dest: Tensor, size: int) -> None:
    """`dest` becomes what the transform makes of `src`: of its type, packed in the format set.

    With less than 4 dimensions it is NCHW, whatever was set.
    """
    _check(transform, src)
    if transform.format == TensorFormat.NCHW_VECT_C:
        raise not_supported("nothing can be transformed into NCHW_VECT_C")
    shape = transformed_shape(transform, src.shape)
    layout = transform.format if len(shape) > 3 else TensorFormat.NCHW
    result = Tensor(src.dtype, shape, packed_strides(shape, layout))
    if extent(result) > _LARGEST_SIZE:
        raise not_supported(f"a tensor of {shape} has over 2**31 - 1 elements")
    vars(dest).update(vars(result))
    if size:
        write(size, ctypes.c_size_t, item_size(dest.dtype) * extent(dest))


# --- computing -----------------------------------------------------------------------------------


def _pad(array: Array, margins: list[tuple[int, int]]) -> Array:
    """With zeros around, or without what is cropped."""
    kept = tuple(
        slice(max(-before, 0), size - max(-after, 0))
        for size, (before, after) in zip(array.shape, margins, strict=True)
    )
    return np.pad(array[kept], [(max(before, 0), max(after, 0)) for before, after in margins])


def _fold(array: Array, blocks: tuple[int, ...]) -> Array:
    """(N, C, H, W) as (N, h * w * C, H / h, W / w): the places of a block become channels."""
    rest = zip(array.shape[2:], blocks, strict=True)
    array = np.pad(array, [(0, 0), (0, 0), *((0, -size % block) for size, block in rest)])
    n, c, *space = array.shape
    outer = [size // block for size, block in zip(space, blocks, strict=True)]
    array = array.reshape(n, c, *itertools.chain(*zip(outer, blocks, strict=True)))
    axes = range(2, array.ndim)
    array = array.transpose(0, *axes[1::2], 1, *axes[::2])
    return array.reshape(n, math.prod(blocks) * c, *outer)


def _unfold(array: Array, blocks: tuple[int, ...]) -> Array:
    """The inverse of `_fold`."""
    n, c, *outer = array.shape
    array = array.reshape(n, *blocks, c // math.prod(blocks), *outer)
    rank = len(blocks)
    pairs = itertools.chain(*((rank + 2 + axis, 1 + axis) for axis in range(rank)))
    array = array.transpose(0, rank + 1, *pairs)
    space = [size * block for size, block in zip(outer, blocks, strict=True)]
    return array.reshape(n, -1, *space)


def transformed(transform: TensorTransform, array: Array) -> Array:
    """What the transform makes of an array (N, C, *space).

    Channels are padded where each stands for a place of a block, in as many for each one asked
    for: behind the places of a block, not at each place.
    """
    margins, blocks = transform.margins(array.ndim), transform.blocks(array.ndim - 2)
    count = math.prod(blocks)
    (before, after), margins[1] = margins[1], (0, 0)
    around = [(0, 0), (before * count, after * count), *[(0, 0)] * len(blocks)]
    if transform.direction == FoldingDirection.FOLD:
        return _pad(_fold(_pad(array, margins), blocks), around)
    around[1] = (around[1][0], around[1][1] + -array.shape[1] % count)
    return _pad(_unfold(_pad(array, around), blocks), margins)


def _check_channels(transform: TensorTransform, rank: int) -> None:
    """cuDNN loses channels if others than these are padded or cropped."""
    before, after = transform.margins(rank)[1]
    is_fold = transform.direction == FoldingDirection.FOLD
    is_wrong = before != 0 or (after < 0 if is_fold else after > 0)
    if is_wrong and math.prod(transform.blocks(rank - 2)) > 1:
        raise not_supported(
            f"channels are padded by ({before}, {after}): FOLD can pad behind the others only, "
            "UNFOLD crop there"
        )


def _crops_all(transform: TensorTransform, shape: tuple[int, ...]) -> bool:
    """Is some dimension cropped by more than it has? What is padded then is all that is left."""
    rank = len(shape)
    blocks = transform.blocks(rank - 2)
    if transform.direction == FoldingDirection.UNFOLD:
        space = (size * block for size, block in zip(shape[2:], blocks, strict=True))
        shape = (shape[0], -(-shape[1] // math.prod(blocks)), *space)
    sizes = zip(shape, transform.margins(rank), strict=True)
    return any(size + min(before, 0) + min(after, 0) < 1 for size, (before, after) in sizes)


def _leaves_gaps(transform: TensorTransform, shape: tuple[int, ...]) -> bool:
    """Does the result have elements that come from nowhere?"""
    blocks = transform.blocks(len(shape) - 2)
    sizes = zip(_padded(transform, shape, len(shape))[2:], blocks, strict=True)
    is_fold = transform.direction == FoldingDirection.FOLD
    rest = any(size % block for size, block in sizes) if is_fold else shape[1] % math.prod(blocks)
    return bool(rest) or any(max(pair) > 0 for pair in transform.margins(len(shape)))


def _transform(
    transform: TensorTransform, alpha: int, src: Layout, x: int, beta: int, dest: Layout, y: int
) -> None:
    """``y = alpha * transform(x) + beta * y``."""
    _check(transform, src)
    shape = transformed_shape(transform, src.shape)
    if dest.shape != shape:
        raise bad_param(f"dest is {dest.shape}, must be {shape} for src {src.shape}")
    check_conversion(src.dtype, dest.dtype)
    if _crops_all(transform, src.shape):
        raise not_supported(f"no element of {src.shape} is left")
    _check_channels(transform, len(src.shape))
    source, out = load(x, src, "src"), view(y, dest, "dest")
    scale = read_scalar(alpha, src.dtype, "alpha"), read_scalar(beta, src.dtype, "beta")
    if scale[1] and _leaves_gaps(transform, src.shape):
        raise not_supported(f"beta is {scale[1]}, must be 0 where the result is padded")
    blend(out, transformed(transform, source), *scale)


@implements("cudnnTransformTensorEx")
def transform_tensor_ex(
    handle: Handle,
    transform: TensorTransform,
    alpha: int,
    src: Tensor,
    x: int,
    beta: int,
    dest: Tensor,
    y: int,
) -> None:
    """``y = alpha * transform(x) + beta * y`` for tensors in any strides."""
    _transform(transform, alpha, src, x, beta, dest, y)


@implements("cudnnTransformFilter")
def transform_filter(
    handle: Handle,
    transform: TensorTransform,
    alpha: int,
    src: Filter,
    x: int,
    beta: int,
    dest: Filter,
    y: int,
) -> None:
    """``y = alpha * transform(x) + beta * y`` for weights (K, C, *window)."""
    _transform(transform, alpha, src, x, beta, dest, y)
