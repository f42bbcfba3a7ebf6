"""The library context, and the stream that it was given."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from ..memory import write
from ..runtime import implements, opaque


@opaque("cudnnHandle_t", "cudnnCreate", "cudnnDestroy")
@dataclass
class Handle:
    """The library context; here it holds no more than the stream it was given."""

    stream: int = 0


@implements("cudnnSetStream")
def set_stream(handle: Handle, stream: int) -> None:
    """Remember the stream. Calls are synchronous, so nothing else follows from it."""
    handle.stream = stream


@implements("cudnnGetStream")
def get_stream(handle: Handle, out: int) -> None:
    """The stream that was set last, 0 at first."""
    write(out, ctypes.c_void_p, handle.stream, "streamId")
