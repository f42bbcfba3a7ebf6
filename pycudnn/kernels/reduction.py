"""Sums over a tensor's axes (channel_sum.cu)."""

from __future__ import annotations

import math

import numpy as np

from pycudnn import memory
from pycudnn.device import Stream
from pycudnn.kernels.launch import array, check, launch, on_host
from pycudnn.memory import Buffer

_THREADS = 256
_BLOCKS = 1024  # a few per multiprocessor
_ELEMENTS_PER_BLOCK = 4096  # fewer are not worth a block


def channel_sum(stream: Stream, y: Buffer, sums: Buffer) -> None:
    """sums[c] = sum of y over n, h and w: the gradient of a convolution's bias.

    y float32 (N, C, H, W), sums float32 with C elements. The order of the additions is fixed, so
    equal inputs give equal bits; cudnnConvolutionBackwardBias computes the same.
    """
    check(y, "y", "float32", (None,) * 4)
    check(sums, "sums", "float32")
    samples, channels, area = y.shape[0], y.shape[1], math.prod(y.shape[2:])
    if sums.size != channels:
        raise ValueError(f"sums must have {channels} elements, got {sums.size}")
    if 0 in y.shape:
        sums.fill_bytes(0, stream=stream)
        return
    if on_host(stream):
        rows = array(stream, y).reshape(samples * channels, area)
        # A product with ones sums contiguous rows several times faster than np.sum does.
        row_sums = rows @ np.ones(area, np.float32)
        array(stream, sums).reshape(-1)[...] = row_sums.reshape(samples, channels).sum(axis=0)
        return
    useful = -(-samples * area // _ELEMENTS_PER_BLOCK)
    splits = max(1, min(samples, useful, _BLOCKS // channels))
    partial = _scratch(stream, splits * channels)
    launch(
        stream, "channel_sum.cu", "partial_sums", (channels, splits), _THREADS, (y, partial),
        (samples, channels, area),
    )  # fmt: skip
    launch(
        stream, "channel_sum.cu", "final_sums", (channels,), _THREADS, (partial, sums),
        (splits, channels),
    )  # fmt: skip


def _scratch(stream: Stream, elements: int) -> Buffer:
    """Memory for partial results, one per stream: its work runs in order."""
    found = stream._notes.get("channel_sum")
    if found is None or found.size < elements:
        found = memory.empty((elements,), "float32", device=stream.device, stream=stream)
        stream._notes["channel_sum"] = found
    return found
