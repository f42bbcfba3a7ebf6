#!/usr/bin/env python
"""Fuzz the whole object face, each group of functions in a child process, and write the counts.

Mutates every argument of every call that the conformance problems make: wrong types, enums, sizes,
closed and foreign objects, memory that is too small or elsewhere. Exits with 1 if a child crashed,
a wrong argument was accepted, or an error was of another kind than promised.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

HERE = Path(__file__).parent
PATHS = [HERE, HERE.parent / "conformance", HERE.parents[1] / "benchmarks", HERE.parents[1]]
sys.path[:0] = map(str, PATHS)

import harness  # noqa: E402
import results  # noqa: E402

GROUPS = 24  # processes, each with its share of the functions


def fuzz_group(backend: str, seed: int, functions: Sequence[str]) -> list[dict]:
    """Rows of some functions; a crash is a row, and the functions after it are done anew."""
    rows: list[dict] = []
    left = list(functions)
    while left:
        with tempfile.TemporaryDirectory() as directory:
            progress = Path(directory) / "progress"
            child = subprocess.run(
                [sys.executable, HERE / "fuzz.py", backend, str(seed), progress, *left],
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATHS))},
            )
            done = [json.loads(line) for line in child.stdout.splitlines() if line[:1] == "{"]
            rows += done
            left = left[len(done) :]
            if child.returncode and left:
                where = progress.read_text() if progress.exists() else "the start"
                text = f"exit {child.returncode} in {where}\n{child.stderr[-600:]}"
                rows.append({"function": left.pop(0), "faults": [], "crash": text})
            elif child.returncode:
                rows[-1]["crash"] = f"exit {child.returncode} at the end\n{child.stderr[-600:]}"
    return rows


def fuzz_all(
    backend: str, seed: int, functions: Sequence[str], workers: int
) -> Iterator[list[dict]]:
    """Rows of all functions, group by group, several processes at a time."""
    groups = [functions[i::GROUPS] for i in range(min(GROUPS, len(functions)))]
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda group: fuzz_group(backend, seed, group), groups)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = results.parser(__doc__)
    parser.add_argument("--seed", type=int, help="repeats a run (default: a random one)")
    parser.add_argument("--function", action="append", help="only this C function's problem")
    parser.add_argument("--workers", type=int, help="processes at a time (default: 2, GPU: 1)")
    options = parser.parse_args(arguments)
    backend = results.backend(options)
    functions = options.function or sorted(harness.load_problems())
    seed = secrets.randbits(32) if options.seed is None else options.seed
    workers = options.workers or (1 if backend == "cuda" else 2)
    print(f"problems of {len(functions)} functions, --seed {seed}")
    result = results.begin("fuzz", backend, seed=seed)
    faults = 0
    for row in chain.from_iterable(fuzz_all(backend, seed, functions, workers)):
        crash = row.get("crash", "")
        for text in filter(None, (crash, *row["faults"])):
            print(f"{row['function']}: {text}", flush=True)
        faults += len(row["faults"]) + bool(crash)
        counts = {name: row.get(name, 0) for name in ("mutations", "refused", "accepted")}
        result.rows.append(
            {
                "function": row["function"], **counts,
                "faults": len(row["faults"]), "crashes": int(bool(crash)),
            }
        )  # fmt: skip
    result.rows.sort(key=lambda row: row["function"])
    total = {
        name: sum(row[name] for row in result.rows)
        for name in ("mutations", "refused", "accepted", "faults", "crashes")
    }
    print(", ".join(f"{count:,} {name}" for name, count in total.items()))
    print(f"wrote {results.save(result, options.output)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
