"""What the launchers share: sources, checked operands, scratch memory."""

from __future__ import annotations

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

    def __call__(self, stream: Stream, grid: tuple[int, ...], *arguments: Buffer | int) -> None:
        """Queue it; a Buffer is passed as its address, an int as 64 bits."""
        # Held until the launch, should another thread close a buffer.
        held = [value._open() for value in arguments if isinstance(value, Buffer)]
        passed = [value._on(stream) if isinstance(value, Buffer) else value for value in arguments]
        compiled = self._compiled.get(stream.device)
        if compiled is None:
            compiled = stream.device._compile(read_source(self._source), self._function)
            self._compiled[stream.device] = compiled
        stream._launch(compiled, grid, THREADS, passed)
        del held


def host_arrays(stream: Stream, *buffers: Buffer) -> list[np.ndarray]:
    """The memory of reference buffers, for a launcher's NumPy form."""
    for buffer in buffers:
        buffer._on(stream)
    return [buffer._array() for buffer in buffers]


def check_operand(name: str, value: Any, dtype: type, size: int | None = None) -> None:
    """TypeError unless it is a Buffer of that dtype, ValueError unless of that size."""
    if not isinstance(value, Buffer):
        raise TypeError(f"{name} must be a Buffer, got {value!r}")
    if value.dtype != dtype:
        raise TypeError(f"{name} must be {np.dtype(dtype)}, got {value!r}")
    if size is not None and value.size != size:
        raise ValueError(f"{name} must have {size} element(s), got {value!r}")


def scratch(stream: Stream, counters: int, partials: int) -> tuple[Buffer, Buffer]:
    """Counters that are zero, and room for partial sums; both of 32 bits.

    They are kept per stream, and per capture: a graph may run beside its stream.
    """
    have: tuple[Buffer, Buffer] | None = stream._notes.get("scratch")
    if have is not None and have[0].size >= counters and have[1].size >= partials:
        return have
    rooms = [1 << (max(size, 1024) - 1).bit_length() for size in (counters, partials)]
    if have is not None:
        rooms = [max(room, old.size) for room, old in zip(rooms, have, strict=True)]
    device = stream.device
    made = zeros(rooms[0], np.int32, device), empty(rooms[1], np.int32, device)
    stream._notes["scratch"] = made
    return made
