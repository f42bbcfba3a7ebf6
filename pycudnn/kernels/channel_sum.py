"""The gradient of a convolution's bias (channel_sum.cu).

cudnnConvolutionBackwardBias computes the same, at a small part of the memory's speed.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from pycudnn.device import Stream
from pycudnn.kernels._launch import THREADS, Kernel, check_operand, host_arrays, scratch
from pycudnn.memory import Buffer

_BLOCKS_PER_MULTIPROCESSOR = 8  # of 256 threads: all that fit
_MOST_SLICES = 1024

_channel_sum = Kernel("channel_sum", "channel_sum")
_channel_sum_float4 = Kernel("channel_sum", "channel_sum_float4")


@functools.lru_cache(maxsize=1024)
def _slices(loads: int, channels: int, multiprocessors: int) -> int:
    """Blocks per channel: enough for the whole GPU, with a load for each of their threads."""
    wanted = -(-_BLOCKS_PER_MULTIPROCESSOR * multiprocessors // channels)
    return max(1, min(wanted, loads // THREADS, _MOST_SLICES))


def channel_sum(stream: Stream, x: Buffer, sums: Buffer) -> None:
    """Sum over all dimensions but the second.

    ``x``: float32 (n, channels, ...), contiguous, as NCHW is. ``sums``: float32, ``channels``
    elements. ValueError for other shapes, TypeError for other dtypes, LibraryMismatch for memory of
    another device.
    """
    check_operand("x", x, np.float32)
    if x.ndim < 2 or x.size == 0:
        raise ValueError(f"x must be (n, channels, ...) and not empty, got {x!r}")
    images, channels = x.shape[:2]
    plane = math.prod(x.shape[2:])
    check_operand("sums", sums, np.float32, channels)
    if stream.device.backend == "reference":
        values, result = host_arrays(stream, x, sums)
        planes = values.reshape(images, channels, plane).sum(axis=2)
        result[...] = planes.sum(axis=0, dtype=np.float64).reshape(sums.shape)
        return
    kernel = _channel_sum
    if plane % 4 == 0 and x.address % 16 == 0:
        kernel, plane = _channel_sum_float4, plane // 4
    slices = _slices(images * plane, channels, stream.device.multiprocessor_count)
    room = scratch(stream, channels, channels * slices)
    kernel(stream, (channels, slices), x, images, channels, plane, *room, sums)
