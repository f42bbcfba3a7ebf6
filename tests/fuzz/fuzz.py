"""Mutate every argument of the calls that conformance problems make, one at a time.

This runs in a process of its own, since the point is that it does not crash:

    python tests/fuzz/fuzz.py BACKEND SEED PROGRESS FUNCTION [FUNCTION ...]

Before each call its description goes to the file PROGRESS, so that the parent knows what crashed.
Prints one JSON object per function: how many mutations there were, and the faults: those accepted
although wrong, and those answered by an exception that is no TypeError, ValueError, MemoryError or
pycudnn's own. What needs no handle is called on the descriptors of the real library as well.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import numpy as np
from mutations import mutations
from recording import Call, CannotMove, calls_of, moved

from pycudnn import CudaContext, _core
from pycudnn.errors import PycudnnError
from pycudnn.libraries import is_available

TYPED = (TypeError, ValueError, PycudnnError, MemoryError)
Tell = Callable[[str], None]


def fuzz_call(context: CudaContext, call: Call, tell: Tell) -> tuple[Counter, list[str]]:
    """Every argument of one call; afterwards the call still works."""
    count: Counter = Counter()
    faults: list[str] = []
    objects = sum(isinstance(value, _core.Owned) for value in call.arguments.values())
    for name, value in call.arguments.items():
        for mutation in mutations(context, name, value, name in call.optional, objects == 1):
            what = f"{call.name}({name}: {mutation.label})"
            tell(what)
            count["mutations"] += 1
            try:
                call.make(**{name: mutation.value})
            except TYPED as error:
                count["refused"] += 1
                if not str(error):
                    faults.append(f"{what}: {type(error).__name__} without a text")
            except Exception as error:
                faults.append(f"{what}: {type(error).__name__}: {error}"[:300])
            else:
                count["accepted"] += 1
                if mutation.wrong:
                    faults.append(f"{what}: accepted")
    tell(f"{call.name} as recorded")
    try:
        call.make()
    except Exception as error:
        faults.append(f"{call.name} fails afterwards: {type(error).__name__}: {error}"[:300])
    return count, faults


def recorded_calls(context: CudaContext, function: str, seed: int) -> Iterator[Call]:
    """The calls of a problem that the library supports, each function once."""
    for attempt in range(8):
        try:
            _case, calls = calls_of(context, function, seed + attempt)
        except PycudnnError:
            continue
        yield from {call.name: call for call in calls}.values()
        if context.device.backend == "reference" and is_available("cudnn", "cuda"):
            for call in {call.name: call for call in calls}.values():
                try:
                    yield moved(call, calls, "cuda")
                except (CannotMove, PycudnnError):
                    continue  # it needs a GPU
        return


def fuzz(context: CudaContext, function: str, seed: int, seen: set[str], tell: Tell) -> dict:
    """The calls of one function's problem that are not in ``seen`` yet."""
    count: Counter = Counter()
    faults: list[str] = []
    tell(f"the problem of {function}")
    for call in recorded_calls(context, function, seed):
        if call.name not in seen:
            seen.add(call.name)
            counted, found = fuzz_call(context, call, tell)
            count += counted
            faults += found
    tell(f"synchronising after {function}")
    context.synchronize()
    outcome = harness.pose(context, function, seed)
    if outcome.result == "failed":
        faults.append(f"{function} is wrong afterwards: {outcome.text[-300:]}")
    return {"function": function, **count, "faults": faults}


def main(backend: str, seed: str, progress: str, *functions: str) -> None:
    """Fuzz the problems of some functions and print a line for each."""
    warnings.simplefilter("ignore")
    harness.load_problems()
    seen: set[str] = set()
    with Path(progress).open("w") as log, CudaContext(backend) as context:

        def tell(what: str) -> None:
            log.seek(0)
            log.truncate()
            log.write(what)
            log.flush()

        with np.errstate(all="ignore"):
            for function in functions:
                row = fuzz(context, function, int(seed), seen, tell)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
