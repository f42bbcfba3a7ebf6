"""The time of queued work, by events."""

from __future__ import annotations

from collections.abc import Callable

from pycudnn.cudnn._objects import finite, require
from pycudnn.device import Stream
from pycudnn.errors import CudnnError, NotSupported

_CAPTURED = 16  # calls in a CUDA graph


def time_call(stream: Stream, call: Callable[[], None], milliseconds: float = 20.0) -> float:
    """Microseconds of one call that queues work on a stream, by events around many calls.

    As many as take ``milliseconds``, at most 60,000. On a GPU they are replayed as a CUDA graph,
    where the stream and the work allow it: then it is the time of the kernels, not that of
    launching them.
    """
    require(stream, Stream, "stream")
    finite(milliseconds, "milliseconds", 0.0, 60_000.0)
    call()  # the first one may load code
    run, calls = _batch(stream, call)
    rounds = 1
    while True:
        began = stream.record()
        for _ in range(rounds):
            run()
        taken = stream.record().elapsed_ms(began)
        if taken >= milliseconds:
            return 1e3 * taken / (rounds * calls)
        rounds *= 4


def _batch(stream: Stream, call: Callable[[], None]) -> tuple[Callable[[], None], int]:
    """Something to run, and how many calls it is."""
    try:
        with stream.capture() as graph:
            for _ in range(_CAPTURED):
                call()
    except (CudnnError, NotSupported, ValueError):
        return call, 1
    graph.launch()
    return graph.launch, _CAPTURED
