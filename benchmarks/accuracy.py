#!/usr/bin/env python
"""Test accuracy of examples/train.py over several seeds, by model, with its defaults.

On a GPU: the default number of steps, one epoch, and the published behaviour (--as-printed). On
the reference library, where an epoch takes a minute or two: one epoch of LeNet for one seed,
unless --seeds asks for more.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import results

from layers import CudaContext

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import train

# (what the row is called, arguments of train.py)
RUNS = {
    "cuda": (
        ("lenet", ["--model", "lenet"]),
        ("lenet, one epoch", ["--model", "lenet", "--epochs", "1"]),
        ("lenet-printed", ["--model", "lenet-printed"]),
        ("ann", ["--model", "ann"]),
        ("lenet as printed", ["--model", "lenet", "--as-printed"]),
        ("ann as printed", ["--model", "ann", "--as-printed"]),
    ),
    "reference": (("lenet, one epoch", ["--model", "lenet", "--epochs", "1"]),),
}
SEEDS = {"cuda": 5, "reference": 1}


def measure(name: str, arguments: list[str], backend: str, seed: int) -> results.Row:
    """Train and test once."""
    options = train.parse_arguments([*arguments, "--backend", backend, "--seed", str(seed)])
    with CudaContext(backend) as context:
        started = time.perf_counter()
        history, evaluation = train.run(options, context, quiet=True)
        seconds = time.perf_counter() - started
    return {
        "run": name,
        "seed": seed,
        "steps": len(history.losses),
        "batch": options.batch_size,
        "learning_rate": options.learning_rate,
        "last_200_steps_percent": history.accuracy(train.MONITORING_STEP),
        "test_percent": evaluation.accuracy,
        "seconds": seconds,
    }


def main() -> None:
    """Measure, print and save."""
    parser = results.parser(__doc__)
    parser.add_argument("--seeds", type=int, help="how many (GPU: 5, reference: 1)")
    options = parser.parse_args()
    backend = results.backend(options)
    seeds = options.seeds or SEEDS[backend]
    result = results.begin("accuracy", backend, seeds=seeds)
    for name, arguments in RUNS[backend]:
        for seed in range(seeds):
            result.rows.append(measure(name, arguments, backend, seed))
    results.finish(result, options, labels=("run", "seed"), y="test_percent")


if __name__ == "__main__":
    main()
