#!/usr/bin/env python
"""Microseconds per LeNet training step, by batch size, with the loop of examples/train.py.

A step is: copy a batch to the device, forward, backward, SGD update, loss and accuracy, with both
read back; the next batch is gathered meanwhile. ``wall_us`` is the host's clock over all steps,
drained at both ends, ``device_us`` that of CUDA events around them. Where PyTorch is installed and
sees the GPU, the same network makes the same steps there, fed by the same loader: eager, and
replaying a CUDA graph. TF32 is off everywhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import results

from layers import MNIST, CapturedStep, CudaContext
from layers.models import lenet

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
import train  # noqa: E402

LEARNING_RATE = 0.02
BATCHES = {"cuda": (32, 256, 1024, 4096), "reference": (64, 256)}
STEPS = {"cuda": 400, "reference": 10}
WARM_UP = {"cuda": 30, "reference": 2}


def loader_of(context: CudaContext, batch: int) -> MNIST:
    """Make a loader of shuffled training images."""
    loader = MNIST(train.DATASET, context=context, seed=1)
    loader.train(batch, shuffle=True)
    return loader


def ours(context: CudaContext, graph: bool, batch: int, steps: int, warm_up: int) -> results.Row:
    """Time the loop of train.py, with its steps replayed as CUDA graphs or call by call."""
    model = lenet(seed=1)
    model.cuda(context)
    captured = CapturedStep(model) if graph else None
    loader = loader_of(context, batch)

    def run(steps: int) -> None:
        train.train(
            model, loader, range(steps), lambda step: LEARNING_RATE, train.History(),
            captured=captured,
        )  # fmt: skip

    run(warm_up)
    context.synchronize()
    stream = context.stream
    started, began = time.perf_counter(), stream.record()
    run(steps)
    ended = stream.record()
    context.synchronize()
    wall = time.perf_counter() - started
    return {
        "implementation": "pycudnn, CUDA graph" if graph else "pycudnn",
        "batch": batch,
        "wall_us": 1e6 * wall / steps,
        "device_us": 1e3 * ended.elapsed_ms(began) / steps,
        "steps": steps,
    }


def torch_lenet(torch: Any) -> Any:
    """Build the same network in PyTorch."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )  # fmt: skip


def torch_step(torch: Any, batch: int) -> tuple[Callable[[], None], Any, Any, Any]:
    """Return a step on static tensors, these tensors (x, target), and (loss, correct)."""
    device = torch.device("cuda")
    torch.manual_seed(1)
    model = torch_lenet(torch).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x = torch.zeros(batch, 1, 28, 28, device=device)
    target = torch.zeros(batch, 10, device=device)
    target[:, 0] = 1
    outcome = torch.zeros(2, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, target)
        outcome[0] = loss.detach()
        outcome[1] = (output.argmax(1) == target.argmax(1)).sum()
        loss.backward()
        optimizer.step()

    return step, x, target, outcome


def capture(torch: Any, step: Callable[[], None]) -> Callable[[], None]:
    """Capture a step in a CUDA graph, after a warm-up on a side stream, and return its replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def peer(
    torch: Any, context: CudaContext, graph: bool, batch: int, steps: int, warm_up: int
) -> results.Row:
    """Time the same steps in PyTorch, eager or as a graph."""
    step, x, target, outcome = torch_step(torch, batch)
    if graph:
        step = capture(torch, step)
    loader = loader_of(context, batch)

    def run(steps: int) -> None:
        loader.get_batch()
        for _ in range(steps):
            data, labels = loader.get_data().ptr, loader.get_target().ptr
            if len(data) == batch:  # a static batch: the smaller last one of an epoch is left out
                x.copy_(torch.from_numpy(data), non_blocking=True)
                target.copy_(torch.from_numpy(labels).view(batch, 10), non_blocking=True)
            step()
            loader.next()
            outcome.tolist()

    run(warm_up)
    torch.cuda.synchronize()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    started = time.perf_counter()
    began.record()
    run(steps)
    ended.record()
    torch.cuda.synchronize()
    wall = time.perf_counter() - started
    return {
        "implementation": "PyTorch, CUDA graph" if graph else "PyTorch, eager",
        "batch": batch,
        "wall_us": 1e6 * wall / steps,
        "device_us": 1e3 * began.elapsed_time(ended) / steps,
        "steps": steps,
    }


def find_torch(backend: str) -> Any:
    """Return the module torch with TF32 off, or None where there is none for the GPU."""
    if backend != "cuda":
        return None
    try:
        import torch
    except ImportError:
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch if torch.cuda.is_available() else None


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the result file."""
    parser = results.parser(__doc__)
    parser.add_argument("--batches", type=int, nargs="+")
    options = parser.parse_args(arguments)
    backend = results.backend(options)
    torch = find_torch(backend)
    steps = STEPS[backend] // (4 if options.quick else 1)
    batches = options.batches or BATCHES[backend]
    result = results.begin(
        "train-step",
        backend,
        packages=["torch"] if torch else [],
        model="lenet",
        tf32=False,
        warm_up_steps=WARM_UP[backend],
    )
    with CudaContext(backend) as context:
        for batch in batches:
            for graph in (False, True) if backend == "cuda" else (False,):
                result.rows.append(ours(context, graph, batch, steps, WARM_UP[backend]))
            for graph in (False, True) if torch else ():
                result.rows.append(peer(torch, context, graph, batch, steps, WARM_UP[backend]))
    results.finish(result, options, x="batch", y="wall_us", series="implementation")


if __name__ == "__main__":
    main()
