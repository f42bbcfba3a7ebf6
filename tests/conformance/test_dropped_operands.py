"""H9: what a call uses lives until its stream is past it, however it was forgotten.

Every conformance problem runs twice from one seed. The first run learns which operands the call
changes. In the second a slow fill goes before each call; before a result is read, all other
operands, workspaces and reserve spaces are closed, and a second stream takes and fills as much
memory at once. If a call had not told its stream about an operand, the numbers would be wrong.
"""

from __future__ import annotations

import gc
import re
from typing import Any, NamedTuple

import harness
import numpy as np
import pytest

from pycudnn import Buffer, CudaContext, empty, from_numpy
from pycudnn.errors import FunctionNotFound, NotSupported

# One of the types and sizes of a cuBLAS function stands for all; copies to the host end before they
# return.
LIKE_OTHERS = re.compile(r"cublas([DCZ][a-z]|[SG]et(Vector|Matrix)|.*_64$)")
PROBLEMS = {
    function: pose
    for function, pose in harness.load_problems().items()
    if not LIKE_OTHERS.match(function)
}
SEEDS = 30  # tried until the library computes one
SLOW = {"cuda": (1 << 28, 16), "reference": (1 << 10, 1)}  # bytes, fills: about a millisecond


class Reading(NamedTuple):
    """One read of a first run."""

    place: int  # of the buffer among those made
    changed: bool
    content: np.ndarray


class FirstRun(harness.Case):
    """Notes what is made and read. Buffers are on no stream until a call uses them."""

    def __init__(self, context: CudaContext, function: str, seed: int) -> None:
        super().__init__(context, function, np.random.default_rng([seed, *function.encode()]))
        self.made: list[Buffer] = []
        self.before: list[bytes] = []
        self.readings: list[Reading] = []

    def put(self, array: np.ndarray) -> Buffer:
        array = np.ascontiguousarray(array)
        return self._note(from_numpy(array, self.context.device), array.tobytes())

    def scratch(self, nbytes: int) -> Buffer | None:
        if not nbytes:
            return None
        ones = np.full(nbytes, 0xFF, np.uint8)
        return self._note(from_numpy(ones, self.context.device), ones.tobytes())

    def get(self, data: Buffer) -> np.ndarray:
        content = super().get(data)
        place = next(place for place, buffer in enumerate(self.made) if buffer is data)
        changed = content.tobytes() != self.before[place]
        self.readings.append(Reading(place, changed, content))
        return content

    def _note(self, buffer: Buffer, content: bytes) -> Buffer:
        self.made.append(buffer)
        self.before.append(content)
        return buffer


class SecondRun(FirstRun):
    """Closes what the first run did not see changed, before the result number ``last`` is read."""

    def __init__(
        self, context: CudaContext, function: str, seed: int, expected: list[Reading], last: int
    ) -> None:
        super().__init__(context, function, seed)
        self.expected = list(reversed(expected))
        self.results = {reading.place for reading in expected if reading.changed}
        self.results_to_come = last

    def get(self, data: Buffer) -> np.ndarray:
        reading = self.expected.pop()
        if not reading.changed:
            return reading.content.copy()
        if self.results_to_come == 0:
            self.drop()
        self.results_to_come -= 1
        return harness.Case.get(self, data)

    def drop(self) -> None:
        """Close all that is no result, and take and fill as much memory elsewhere."""
        sizes = []
        for place, buffer in enumerate(self.made):
            if place not in self.results:
                sizes.append(buffer.nbytes)
                buffer.close()
        gc.collect()
        with self.context.device.create_stream() as stream:
            for size in sizes:
                empty(size, "uint8", stream=stream).fill_bytes(0xFF, stream)


@pytest.fixture(scope="module", params=["reference", pytest.param("cuda", marks=pytest.mark.gpu)])
def slow(request: pytest.FixtureRequest):
    """A context on whose stream each first use of a buffer queues behind a slow fill."""
    use, (size, fills) = Buffer._used_on, SLOW[request.param]
    with CudaContext(request.param) as context, pytest.MonkeyPatch.context() as patch:
        big = empty(size, "uint8", stream=context.stream)

        def use_later(buffer: Buffer, stream: Any) -> None:
            if stream is context.stream:
                for _ in range(fills):
                    big.fill_bytes(0, stream)
            use(buffer, stream)

        patch.setattr(Buffer, "_used_on", use_later)
        yield context


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_h9_operands_are_dropped_behind_a_slow_kernel(slow, function):
    for seed in range(SEEDS):
        first = FirstRun(slow, function, seed)
        try:
            PROBLEMS[function](first)
        except FunctionNotFound as error:
            pytest.skip(str(error))
        except NotSupported:
            continue
        results = sum(reading.changed for reading in first.readings)
        if results:
            check_second_run(slow, function, seed, first, results)
            return
    pytest.skip(f"this library computes none of {SEEDS} problems of {function}")


def check_second_run(
    context: CudaContext, function: str, seed: int, first: FirstRun, results: int
) -> None:
    """Drop before the first result; where a later call needs an operand again, before the next."""
    for last in range(results):
        second = SecondRun(context, function, seed, first.readings, last)
        try:
            PROBLEMS[function](second)
        except ValueError as error:
            if "is closed" not in str(error) or last == results - 1:
                raise
        else:
            assert second.checks == first.checks
            return
