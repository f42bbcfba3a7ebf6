#!/usr/bin/env python
"""Fuzz the whole object face, each group of functions in a child process, and write the counts.

Mutates every argument of every call that problems and scenarios make: wrong types, enums, sizes,
closed and foreign objects, memory that is too small or elsewhere. Exits with 1 if a child crashed
or hung, a wrong argument was accepted, or an error was of another kind than promised. ``--quick``,
``--share`` and ``--seconds`` do a random part of it, ``--function`` one of its functions.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PATHS = [HERE, HERE.parent / "conformance", HERE.parents[1] / "benchmarks", HERE.parents[1]]
sys.path[:0] = map(str, PATHS)

import command_line  # noqa: E402
import harness  # noqa: E402
import recording  # noqa: E402
import results  # noqa: E402

PATIENCE = 60  # seconds that a child may be at one call
MOST_CRASHES = 40  # of a group, after which no function is done again
COUNTS = ("mutations", "refused", "accepted", "faults", "crashes")


class Plan(NamedTuple):
    """What each child does; see the options."""

    backend: str
    seed: int
    share: float = 1.0
    seconds: float | None = None


def fuzz_group(plan: Plan, functions: Sequence[str]) -> Iterator[dict]:
    """Rows of some functions. A crash is a row; what it was in is done again without that
    mutation, or left out where it crashes without one."""
    end = None if plan.seconds is None else time.monotonic() + plan.seconds
    left, skip = list(functions), list[str]()
    while left:
        seconds = None if end is None else max(1.0, end - time.monotonic())
        with tempfile.TemporaryDirectory() as directory:
            progress, errors = Path(directory) / "progress", Path(directory) / "errors"
            changing = {"progress": str(progress), "seconds": seconds, "skip": skip}
            options = json.dumps(plan._asdict() | changing)
            with errors.open("w") as stderr:
                child = subprocess.Popen(
                    [sys.executable, HERE / "fuzz.py", options, *left],
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=directory,
                    text=True,
                    env={
                        **os.environ,
                        "PYTHONPATH": os.pathsep.join(map(str, PATHS)),
                        "OPENBLAS_NUM_THREADS": "1",  # many small products, several processes
                    },
                )
            watch = threading.Thread(target=_kill_if_hung, args=(child, progress), daemon=True)
            watch.start()
            assert child.stdout is not None
            for line in child.stdout:
                if line[:1] == "{":
                    row = json.loads(line)
                    left.remove(row["function"])
                    yield row
            if child.wait():
                where = progress.read_text() if progress.exists() else "the start"
                text = f"exit {child.returncode} in {where}\n{errors.read_text()[-600:]}"
                yield {"function": left[0] if left else functions[-1], "faults": [], "crash": text}
                if left and ("(" not in where or where in skip or len(skip) == MOST_CRASHES):
                    left.pop(0)
                skip.append(where)


def _kill_if_hung(child: subprocess.Popen, progress: Path) -> None:
    started = time.time()
    while child.poll() is None:
        time.sleep(1)
        try:
            last = progress.stat().st_mtime
        except FileNotFoundError:
            last = started
        if time.time() - last > PATIENCE:
            child.kill()


def fuzz_all(plan: Plan, functions: Sequence[str], workers: int) -> Iterator[dict]:
    """Rows of all functions as they come, several processes at a time."""
    # With a limit of time all groups run at once, else smaller ones keep every worker busy.
    count = workers if plan.seconds is not None else 2 * workers
    groups = [functions[i::count] for i in range(min(count, len(functions)))]
    rows: queue.SimpleQueue[dict | None] = queue.SimpleQueue()

    def work(group: Sequence[str]) -> None:
        try:
            for row in fuzz_group(plan, group):
                rows.put(row)
        finally:
            rows.put(None)

    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(work, group) for group in groups]
        for _ in groups:
            yield from iter(rows.get, None)
        for future in running:
            future.result()


def flat(row: dict) -> dict:
    """A row of the result file."""
    counts = {name: row.get(name, 0) for name in COUNTS[:3]}
    return {
        "function": row["function"], **counts,
        "faults": len(row["faults"]), "crashes": int("crash" in row),
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = results.parser(__doc__, plot=False)
    at_least = command_line.at_least
    parser.add_argument("--seed", type=at_least(0), help="repeats a run (default: a random one)")
    parser.add_argument("--function", action="append", help="only this problem or scenario")
    parser.add_argument(
        "--share",
        type=at_least(0, float, above=True, most=1),
        help="of the mutations, chosen at random (default: 1, with --quick 0.1)",
    )
    parser.add_argument(
        "--seconds",
        type=at_least(0, float, above=True),
        help="stop each function where its part of the time is over",
    )
    parser.add_argument(
        "--workers", type=at_least(1), help="processes at a time (default: 2, GPU: 1)"
    )
    options = parser.parse_args(arguments)
    backend = results.backend(options)
    command_line.check_backend(parser, backend)
    command_line.make_folder(parser, "--output", options.output)
    harness.load_problems()
    known = recording.functions()
    command_line.check_names(parser, "--function", options.function or (), known)
    functions = list(dict.fromkeys(options.function or known))
    seed = secrets.randbits(32) if options.seed is None else options.seed
    workers = options.workers or (1 if backend == "cuda" else 2)
    share = options.share or (0.1 if options.quick else 1.0)
    plan = Plan(backend, seed, share, options.seconds)
    is_part = len(functions) < len(known) or share < 1 or options.seconds is not None
    directory = results.directory(options, is_part)
    print(f"{len(functions)} problems and scenarios, --seed {seed}", flush=True)
    settings = {name: value for name, value in plan._asdict().items() if name != "backend"}
    result = results.begin("fuzz", backend, **settings)
    total: Counter = Counter(dict.fromkeys(COUNTS, 0))
    saved = time.monotonic()
    for row in fuzz_all(plan, functions, workers):
        for text in filter(None, (row.get("crash"), *row["faults"])):
            print(f"{row['function']}: {text}", flush=True)
        result.rows.append(flat(row))
        total.update({name: result.rows[-1][name] for name in COUNTS})
        if options.output and time.monotonic() > saved + 10:  # if cut off, leaves what it has
            saved = time.monotonic()
            results.save(result, options.output)
    result.rows.sort(key=lambda row: row["function"])
    print(", ".join(f"{total[name]:,} {name}" for name in COUNTS))
    results.close(result, directory)
    return 1 if total["faults"] or total["crashes"] else 0


if __name__ == "__main__":
    sys.exit(main())
