"""Mutate every argument of the calls that problems and scenarios make, one at a time.

This runs in a process of its own, since the point is that it does not crash:

    python tests/fuzz/fuzz.py OPTIONS FUNCTION [FUNCTION ...]

OPTIONS is a JSON object: backend, seed, progress (a file), share (how many of the mutations, chosen
at random), seconds (how long it may take; null: no limit) and skip (mutations that crashed before).
Before each call its description goes
to the file ``progress``, so that the parent knows what crashed.
Prints one JSON object per function: how many mutations there were, and the faults: those accepted
although wrong, and those answered by an exception that is no TypeError, ValueError, MemoryError or
pycudnn's own. What needs no handle is called on the descriptors of the real library as well.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import harness
import numpy as np
from mutations import Mutation, mutations
from recording import Call, CannotMove, calls_of, moved

from pycudnn import CudaContext
from pycudnn.errors import CudnnNotInitialized, PycudnnError
from pycudnn.libraries import is_available

TYPED = (TypeError, ValueError, PycudnnError, MemoryError)
Tell = Callable[[str], None]


class Change(NamedTuple):
    """One mutation of one call's argument."""

    call: Call
    name: str
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.call.name}({self.name}: {self.mutation.label})"


class Effort:
    """How much of the work is done: a random share of the mutations, until the time is up.

    A function has an equal part of the time that is left for those not begun yet.
    """

    def __init__(
        self,
        seed: int,
        share: float,
        seconds: float | None,
        functions: int,
        skip: Sequence[str] = (),
    ) -> None:
        self._skip = frozenset(skip)
        self._rng = np.random.default_rng(seed)
        self._share = share
        self._end = None if seconds is None else time.monotonic() + seconds
        self._left = functions
        self._deadline: float | None = None

    def begin(self) -> None:
        """One more function begins."""
        if self._end is not None:
            now = time.monotonic()
            self._deadline = now + (self._end - now) / self._left
        self._left -= 1

    def choose(self, changes: Iterator[Change]) -> Sequence[Change]:
        """The mutations to do, in random order where not all may be reached."""
        changes = (change for change in changes if str(change) not in self._skip)
        if self._share == 1 and self._end is None:
            return list(changes)
        chosen = [change for change in changes if self._rng.random() < self._share]
        return [chosen[index] for index in self._rng.permutation(len(chosen))]

    @property
    def is_over(self) -> bool:
        """Is the function's time up?"""
        return self._deadline is not None and time.monotonic() > self._deadline


def changes(context: CudaContext, call: Call, calls: Sequence[Call]) -> Iterator[Change]:
    """Every mutation of every argument of a call."""
    for name in call.arguments:
        for mutation in mutations(context, call, name, calls):
            yield Change(call, name, mutation)


def make(context: CudaContext, change: Change) -> tuple[str, str]:
    """Make a call with a wrong argument: "refused" or "accepted", and the fault or nothing."""
    name, mutation = change.name, change.mutation
    try:
        change.call.make(**{name: mutation.value})
    except (*TYPED, OSError) as error:
        if isinstance(error, OSError) and name != "path":
            return "failed", f"{change}: {type(error).__name__}: {error}"
        return "refused", "" if str(error) else f"{change}: {type(error).__name__} without a text"
    except Exception as error:
        return "failed", f"{change}: {type(error).__name__}: {error}"[:300]
    context.synchronize()  # an error of the device belongs to this call
    return "accepted", f"{change}: accepted" if mutation.wrong else ""


def fuzz_calls(
    context: CudaContext,
    calls: Sequence[Call],
    makers: Sequence[Call],
    tell: Tell,
    effort: Effort | None = None,
) -> tuple[Counter, list[str]]:
    """The arguments of some calls; afterwards the calls still work.

    ``makers`` are the calls that made their objects.
    """
    effort = Effort(0, 1, None, 1) if effort is None else effort
    count: Counter = Counter()
    faults: list[str] = []
    tell(f"mutations of {', '.join(call.name for call in calls)}")
    every = (change for call in calls for change in changes(context, call, makers))
    for change in effort.choose(every):
        if effort.is_over:
            break
        tell(str(change))
        result, fault = make(context, change)
        count.update(("mutations", result))
        if fault:
            faults.append(fault)
    for call in calls:
        tell(f"{call.name} as recorded")
        try:
            call.make()
        except Exception as error:
            faults.append(f"{call.name} fails afterwards: {type(error).__name__}: {error}"[:300])
    return count, faults


def recorded_calls(
    context: CudaContext, function: str, seed: int
) -> tuple[list[Call], list[Call]]:
    """The calls of a problem that the library supports, each function once, and all its calls."""
    for attempt in range(8):
        try:
            _case, calls = calls_of(context, function, seed + attempt)
        except PycudnnError:
            continue
        different = list({call.name: call for call in calls}.values())
        if context.device.backend == "reference" and is_available("cudnn", "cuda"):
            for call in tuple(different):
                try:
                    different.append(moved(call, calls, "cuda"))
                except (CannotMove, PycudnnError):
                    continue  # it needs a GPU
        return different, calls
    return [], []


def can_be_made_again(call: Call, tell: Tell) -> bool:
    """Not so, say, adding to a graph that was built meanwhile: all would be refused for that."""
    tell(f"{call.name} once more")
    try:
        call.make()
    except CudnnNotInitialized:
        return not call.name.endswith(" on cuda")  # it needs a driver
    except TYPED:
        return "self" not in call.arguments
    return True


def fuzz(
    context: CudaContext, function: str, seed: int, seen: set[str], tell: Tell, effort: Effort
) -> dict:
    """The calls of one function's problem, or of a scenario, that are not in ``seen`` yet."""
    effort.begin()
    tell(f"the calls of {function}")
    calls, makers = recorded_calls(context, function, seed)
    new = [call for call in calls if call.name not in seen and can_be_made_again(call, tell)]
    seen.update(call.name for call in new)
    count, faults = fuzz_calls(context, new, makers, tell, effort)
    tell(f"synchronising after {function}")
    context.synchronize()
    if function in harness.PROBLEMS:
        outcome = harness.pose(context, function, seed)
        if outcome.result == "failed":
            faults.append(f"{function} is wrong afterwards: {outcome.text[-300:]}")
    return {"function": function, **count, "faults": faults}


def main(options: str, *functions: str) -> None:
    """Fuzz the problems of some functions and print a line for each."""
    given = json.loads(options)
    warnings.simplefilter("ignore")
    harness.load_problems()
    seen: set[str] = set()
    seed = given["seed"]
    effort = Effort(seed, given["share"], given["seconds"], len(functions), given["skip"])
    with Path(given["progress"]).open("w") as log, CudaContext(given["backend"]) as context:

        def tell(what: str) -> None:
            log.seek(0)
            log.truncate()
            log.write(what)
            log.flush()

        with np.errstate(all="ignore"):
            for function in functions:
                row = fuzz(context, function, seed, seen, tell, effort)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
