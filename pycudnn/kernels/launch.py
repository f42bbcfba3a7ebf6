"""What the launchers share: checked operands, compiled sources, the choice of side."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from pycudnn.device import Stream
from pycudnn.memory import Buffer

Array = np.ndarray[Any, Any]


@functools.cache
def _source(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


def launch(
    stream: Stream,
    source: str,
    function: str,
    grid: tuple[int, ...],
    block: int,
    buffers: tuple[Buffer, ...],
    sizes: tuple[int, ...],
) -> None:
    """Queue ``function`` of the file ``source``: pointers first, then 64-bit sizes."""
    kernel = stream.device._compile(_source(source), function)
    addresses = [buffer._on(stream) for buffer in buffers]
    stream._launch(kernel, grid, block, (*addresses, *sizes))


def on_host(stream: Stream) -> bool:
    """Does work on this stream run in NumPy?"""
    return stream.device.backend == "reference"


def array(stream: Stream, buffer: Buffer) -> Array:
    """A reference buffer's memory as an array."""
    buffer._on(stream)
    return buffer._array()


def check(buffer: Any, name: str, dtype: str, shape: tuple[int | None, ...] | None = None) -> None:
    """TypeError or ValueError unless a buffer has this dtype and shape (None: any size)."""
    if not isinstance(buffer, Buffer):
        raise TypeError(f"{name} must be a Buffer, got {buffer!r}")
    if buffer.dtype != dtype:
        raise TypeError(f"{name} must hold {dtype}, got {buffer.dtype}")
    if shape is not None and (
        len(buffer.shape) != len(shape)
        or any(want not in (None, have) for want, have in zip(shape, buffer.shape, strict=True))
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape ({wanted}), got {buffer.shape}")
