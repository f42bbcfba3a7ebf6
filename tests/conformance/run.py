#!/usr/bin/env python
"""Pose random problems to every computing C function and compare the results with float64.

On a GPU the real libraries are asked, elsewhere the reference library. Writes one row per C
function: problems posed, passed, refused as not supported, and the largest error in units of the
tolerance. Exits with 1 if a problem failed, and says how to repeat it.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import command_line
import harness
import results

from pycudnn import CudaContext

PROBLEMS = 2000  # of a full run


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = results.parser(__doc__, plot=False)
    at_least = command_line.at_least
    parser.add_argument(
        "--problems", type=at_least(1), default=PROBLEMS, help=f"at least so many ({PROBLEMS})"
    )
    parser.add_argument("--seed", type=at_least(0), help="repeats a run (default: a random one)")
    parser.add_argument("--function", action="append", help="only this C function")
    parser.add_argument("--verbose", action="store_true", help="print refusals as well")
    options = parser.parse_args(arguments)
    problems = harness.load_problems()
    command_line.check_names(parser, "--function", options.function or (), sorted(problems))
    functions = list(dict.fromkeys(options.function or sorted(problems)))
    is_part = len(functions) < len(problems) or options.quick or options.problems < PROBLEMS
    seed = secrets.randbits(32) if options.seed is None else options.seed
    each = 1 if options.quick else -(-options.problems // len(functions))
    backend = results.backend(options)
    command_line.check_backend(parser, backend)
    command_line.make_folder(parser, "--output", options.output)
    result = results.begin("conformance", backend, seed=seed, problems_per_function=each)
    print(f"{len(functions)} functions, {each} problems each, --seed {seed}")
    failures = 0
    started = time.perf_counter()
    with CudaContext(backend) as context:
        for function in functions:
            outcomes = [harness.pose(context, function, seed + i) for i in range(each)]
            count = Counter(outcome.result for outcome in outcomes)
            failures += count["failed"]
            result.rows.append(
                {
                    "function": function,
                    "problems": each,
                    **{name: count[name] for name in ("passed", "refused", "absent", "failed")},
                    "largest_error": max(outcome.error for outcome in outcomes),
                }
            )
            shown = ("failed", "refused") if options.verbose else ("failed",)
            for name in shown:
                example = next((o for o in outcomes if o.result == name), None)
                if example:
                    print(f"{function}: {count[name]} {name}, --seed {example.seed}")
                    print("  " + example.text.replace("\n", "\n  "))
    total = Counter()
    for row in result.rows:
        total.update({name: row[name] for name in ("passed", "refused", "absent", "failed")})
    never = [row["function"] for row in result.rows if not row["passed"] and not row["failed"]]
    print(f"{sum(total.values())} problems in {time.perf_counter() - started:.0f} s: {dict(total)}")
    print(f"only refused or absent: {', '.join(never) or 'none'}")
    results.close(result, results.directory(options, is_part))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
