#!/usr/bin/env python
"""The reference library against PyTorch on the CPU: one LeNet training step at batch 256.

Both make the same step (forward, loss and accuracy, backward, SGD update) on the same batch with
the same number of threads; the figure is the fastest step, which leaves out what other processes
took. PyTorch is optional: without it, only the reference library is measured and no ratio given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import results

from layers import Blob, CudaContext
from layers.models import lenet

LEARNING_RATE = 0.02


def batch_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw pixels in 0 .. 1 (n, 1, 28, 28) and classes (n,)."""
    random = np.random.default_rng(0)
    return random.random((size, 1, 28, 28), np.float32), random.integers(0, 10, size)


def reference_step(context: CudaContext, pixels: np.ndarray, classes: np.ndarray) -> Any:
    """Return one training step on the reference library, as a function."""
    model = lenet(seed=1)
    model.cuda(context)
    data, target = Blob(*pixels.shape, context=context), Blob(len(classes), 10, context=context)
    data.ptr[...] = pixels
    target.ptr[np.arange(len(classes)), classes] = 1

    def step() -> None:
        data.to("cuda")
        target.to("cuda")
        model.forward(data)
        model.measure(target)
        model.backward(target)
        model.update(LEARNING_RATE)
        model.measured()

    return step


def torch_step(torch: Any, pixels: np.ndarray, classes: np.ndarray) -> Any:
    """Return the same step in PyTorch, as a function."""
    from train_step import torch_lenet

    torch.manual_seed(1)
    model = torch_lenet(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = torch.from_numpy(pixels), torch.from_numpy(classes)

    def step() -> None:
        optimizer.zero_grad()
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
        loss.item()
        (output.argmax(1) == target).sum().item()

    return step


def milliseconds(step: Callable[[], None], steps: int) -> float:
    """Return the time of the fastest step after two for warming up."""
    times = []
    for _ in range(steps + 2):
        began = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - began))
    return min(times[2:])


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the result file."""
    parser = results.parser(__doc__)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args(arguments)
    steps = 3 if options.quick else options.steps
    try:
        import torch
    except ImportError:
        torch = None
    threads = len(os.sched_getaffinity(0))
    result = results.begin(
        "reference-step",
        "reference",
        packages=["torch"] if torch else [],
        batch_size=options.batch_size,
        steps=steps,
        threads=threads,
    )
    pixels, classes = batch_of(options.batch_size)
    with CudaContext("reference") as context:
        ours = milliseconds(reference_step(context, pixels, classes), steps)
    result.rows.append({"implementation": "pycudnn reference", "ms": ours, "ratio": None})
    if torch:
        torch.set_num_threads(threads)
        theirs = milliseconds(torch_step(torch, pixels, classes), steps)
        result.rows[0]["ratio"] = ours / theirs
        result.rows.append({"implementation": "PyTorch CPU", "ms": theirs, "ratio": 1.0})
    results.finish(result, options, labels=("implementation",), y="ms")


if __name__ == "__main__":
    main()
