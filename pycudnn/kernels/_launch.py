"""What the launchers share: sources, checked operands, scratch memory."""

from __future__ import annotations

import math
from importlib import resources
from typing import Any

import numpy as np

from pycudnn.device import Device, Stream
from pycudnn.memory import Buffer, empty, zeros

THREADS = 256  # per block, in every kernel


def read_source(name: str) -> str:
    """The text of ``<name>.cu`` with the reductions in front of it."""
    folder = resources.files(__package__)
    parts = ("reduction.cu", f"{name}.cu")
    return "".join(f'#line 1 "{part}"\n{(folder / part).read_text("utf-8")}' for part in parts)


class Kernel:
    """A function of a .cu file, compiled at its first launch on each device."""

    def __init__(self, source: str, function: str) -> None:
        self._source = source
        self._function = function
        self._compiled: dict[Device, Any] = {}

    def __call__(self, stream: Stream, grid: tuple[int, ...], *arguments: int) -> None:
        """Queue it; each argument is an address or a 64-bit integer."""
        compiled = self._compiled.get(stream.device)
        if compiled is None:
            compiled = stream.device._compile(read_source(self._source), self._function)
            self._compiled[stream.device] = compiled
        stream._launch(compiled, grid, THREADS, arguments)


def check_operand(name: str, value: Any, dtype: type, size: int | None = None) -> None:
    """TypeError unless it is a Buffer of that dtype, ValueError unless of that size."""
    if not isinstance(value, Buffer):
        raise TypeError(f"{name} must be a Buffer, got {value!r}")
    if value.dtype != dtype:
        raise TypeError(f"{name} must be {np.dtype(dtype)}, got {value!r}")
    if size is not None and value.size != size:
        raise ValueError(f"{name} must have {size} element(s), got {value!r}")


def scratch(stream: Stream, counters: int, partials: int) -> tuple[int, int]:
    """Addresses of counters that are zero and of room for partial sums, both of 32 bits.

    They are kept per stream, and per capture: a graph may run beside its stream.
    """
    notes = stream._notes
    buffers: dict[str, Buffer] = notes.setdefault("kernels.scratch", {})
    for name, size, make in (("counters", counters, zeros), ("partials", partials, empty)):
        if name not in buffers or buffers[name].size < size:
            room = 2 ** math.ceil(math.log2(max(size, 1024)))
            buffers[name] = make(room, np.int32, device=stream.device)
    return buffers["counters"]._on(stream), buffers["partials"]._on(stream)
