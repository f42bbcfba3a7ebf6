#!/usr/bin/env python
"""What the published code's errors do, measured: the figures of docs/errata.md.

Runs on any computer, on the reference library. Without arguments it takes some seconds; `training`
trains the book's networks with their errors mended one at a time, which takes about a quarter of an
hour on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import train

from layers import MNIST, Blob, CapturedStep, CrossEntropyLoss, CudaContext, Network
from layers.models import lenet

STEPS, BATCH = 1600, 256  # the published run


class Bench(NamedTuple):
    """What every measurement works with."""

    context: CudaContext
    dataset: Path

    def loader(self, *, as_printed: bool = False) -> MNIST:
        """Make a loader; call its ``train`` or ``test``."""
        return MNIST(self.dataset, context=self.context, seed=0, as_printed=as_printed)

    def blob(self, values: np.ndarray) -> Blob:
        """Make a blob of these values, with them on the device."""
        blob = Blob(*values.shape, context=self.context)
        blob.ptr[...] = values.reshape(blob.shape)
        blob.to("cuda")
        return blob

    def lenet(self) -> Network:
        """Make a LeNet that has seen no input."""
        model = lenet(seed=0)
        model.cuda(self.context)
        return model


def briefly_trained(bench: Bench) -> Network:
    """Train a LeNet for 100 steps of 64 images."""
    model, loader = bench.lenet(), bench.loader()
    loader.train(64, shuffle=True)
    step = CapturedStep(model)
    train.train(model, loader, range(100), lambda step: 0.1, train.History(), captured=step)
    return model


# ---- one function per erratum, each of which yields lines ----------------------------------------


def images(bench: Bench) -> Iterator[str]:
    """Distinct images seen by 1,600 training steps of 256 and by 1,000 test steps of 10."""
    for name, as_printed in (("published", True), ("here", False)):
        counts = []
        for split, steps in (("train", STEPS), ("test", 1000)):
            loader = bench.loader(as_printed=as_printed)
            if split == "train":
                loader.train(BATCH, shuffle=True)
            else:
                loader.test(10)
            seen: set[int] = set()
            for _ in range(steps):
                seen.update(loader.batch_indices().tolist())
                loader.next()
            counts.append(f"{len(seen):,} of {len(loader):,}")
        yield f"{name}: {counts[0]} training images, {counts[1]} test images"


def rate(bench: Bench) -> Iterator[str]:
    """Learning rate at some steps, from 0.02 with decay 5e-5."""
    for name, as_printed in (("published", True), ("here", False)):
        at = train.learning_rates(0.02, 5e-5, as_printed)
        rates = [at(step) for step in range(STEPS + 1)]
        shown = ", ".join(f"{rates[step]:.2e} at step {step:,}" for step in (200, 400, 800, STEPS))
        yield f"{name}: {shown}"


def batch(bench: Bench) -> Iterator[str]:
    """Test accuracy (first 1,000 images) if the test's batch size makes layers draw new weights."""
    model, tests = briefly_trained(bench), bench.loader()
    tests.test(250)
    kept = train.evaluate(model, tests, 4).accuracy
    for layer in model.layers:
        layer.init_weight_bias(seed=1)
    drawn = train.evaluate(model, tests, 4).accuracy
    yield f"published, layers not frozen: {drawn:.1f} %"
    yield f"here: {kept:.1f} %"


def gradients(bench: Bench) -> Iterator[str]:
    """Bytes of input gradients written past buffers of 16 samples by a batch of 32."""
    model, sizes = bench.lenet(), []
    for n in (16, 32):
        output = model.forward(bench.blob(np.zeros((n, 1, 28, 28), np.float32)))
        model.backward(bench.blob(np.zeros(output.shape, np.float32)))
        layers = [layer for layer in model.layers if not layer.gradient_stop]
        sizes.append(sum(layer.grad_input.buf_size for layer in layers))
    written = 4 * sum(layer.input.len for layer in layers)
    yield f"published: {written - sizes[0]:,} of {written:,}"
    yield f"here: {written - sizes[1]:,} of {written:,}"


def freeze(bench: Bench) -> Iterator[str]:
    """Largest change of conv1's weights in one step at 0.1 after ``freeze``."""
    changes = []
    for frozen in (False, True):  # the published update does not ask
        model, loader = bench.lenet(), bench.loader()
        loader.train(64)
        data, target = loader.get_data(), loader.get_target()
        loader.get_batch()
        data.to("cuda")
        target.to("cuda")
        model.forward(data)
        before = model.layers[0].weights.ptr.copy()
        if frozen:
            model.layers[0].freeze()
        model.backward(target)
        model.update(0.1)
        changes.append(np.abs(model.layers[0].weights.to("host") - before).max())
    yield f"published: {changes[0]:.1e}"
    yield f"here: {changes[1]:g}"


def published_loss(probabilities: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Loss per row as loss.cu has it: -sum(target * log(probability)) in float32."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return -(target * np.log(probabilities)).sum(axis=1)


def loss(bench: Bench) -> Iterator[str]:
    """Loss of the logits [0, 200] if class 0 is right, and if class 1 is."""
    logits, targets = np.array([[0, 200]], np.float32), np.eye(2, dtype=np.float32)
    exponentials = np.exp(logits - logits.max())
    published = published_loss(exponentials / exponentials.sum(), targets)
    ours = CrossEntropyLoss(bench.context)
    here = [ours.loss(bench.blob(logits), bench.blob(row[None])) for row in targets]
    yield f"published: {published[0]:g} and {published[1]:g}"
    yield f"here: {here[0]:g} and {here[1]:g}"


def rows(bench: Bench) -> Iterator[str]:
    """Mean loss of a batch whose rows all have the loss log(10), by batch size."""
    sizes, here = (10, 256, 600, 1000), []
    ours = CrossEntropyLoss(bench.context)
    for n in sizes:
        logits = np.zeros((n, 10), np.float32)
        target = np.eye(10, dtype=np.float32)[np.arange(n) % 10]
        here.append(ours.loss(bench.blob(logits), bench.blob(target)))
    # loss.cu launches one block of 512 threads for up to 512 classes, and a thread takes one row.
    published = [np.log(10) * min(n, 512) / n for n in sizes]

    def shown(losses: list[float]) -> str:
        return ", ".join(f"{x:.4f} for {n}" for n, x in zip(sizes, losses, strict=True))

    yield f"published, where the rows never reached count as 0: {shown(published)}"
    yield f"here: {shown(here)}"


def test_loss(bench: Bench) -> Iterator[str]:
    """Test loss of a LeNet after 100 steps of 64 images."""
    model, tests = briefly_trained(bench), bench.loader()
    tests.test(10)
    data, target = tests.get_data(), tests.get_target()
    tests.get_batch()
    losses = []
    for _ in range(tests.steps_per_epoch):
        data.to("cuda")
        target.to("cuda")
        model.forward(data)
        losses.append(model.loss(target))
        tests.next()
    yield f"published, of the last 10 images: {losses[-1]:.4f}"
    yield f"here, of all {len(tests):,}: {np.mean(losses):.4f}"


def ragged(bench: Bench) -> Iterator[str]:
    """Test accuracy if all answers are right, in batches of 256."""
    tests = bench.loader()
    tests.test(BATCH)
    images, steps = len(tests), tests.steps_per_epoch
    yield f"published, right answers / (steps * batch): {100 * images / (steps * BATCH):.2f} %"
    yield f"here, right answers / images: {100 * images / images:.2f} %"


def weights(bench: Bench) -> Iterator[str]:
    """Largest initial weight of conv1 and conv2."""
    model = bench.lenet()
    model.forward(Blob(1, 1, 28, 28, context=bench.context))
    convolutions = [layer for layer in model.layers if layer.name in ("conv1", "conv2")]

    def largest() -> str:
        return " and ".join(f"{np.abs(layer.weights.ptr).max():.4f}" for layer in convolutions)

    here = largest()
    train.narrow_initial_weights(model)
    yield f"published: {largest()}"
    yield f"here: {here}"


# ---- the errors in training ----------------------------------------------------------------------


class Errors(NamedTuple):
    """Which of the published errors a training has."""

    loader: bool
    decay: bool
    range: bool


def runs_of(name: str) -> dict[str, tuple[Errors, float, float]]:
    """What is trained: errors, first learning rate and decay, by what the table calls it."""
    all_errors, none = Errors(True, True, True), Errors(False, False, False)
    book, ours = (0.02, 5e-5), (train.LEARNING_RATES[name], train.STEPS_GIVEN.decay)
    runs = {
        "as printed": (all_errors, *book),
        "loader mended": (all_errors._replace(loader=False), *book),
        "decay mended": (all_errors._replace(decay=False), *book),
        "initial range mended": (all_errors._replace(range=False), *book),
        "all mended": (none, *book),
        "all mended, our rate": (none, *ours),
    }
    if name == "ann":
        del runs["initial range mended"]  # that error is the convolutions'
    return runs


def trained(
    bench: Bench, name: str, errors: Errors, rate: float, decay: float
) -> tuple[float, float]:
    """Accuracy in percent over the last 200 steps, and on all test images."""
    loader = bench.loader(as_printed=errors.loader)
    loader.train(BATCH, shuffle=True)
    arguments = ["--model", name, "--seed", "0", *(["--as-printed"] if errors.range else [])]
    model = train.build(train.parse_arguments(arguments), bench.context, loader)
    history, steps = train.History(), range(train.STEPS[name])
    rates = train.learning_rates(rate, decay, errors.decay)
    train.train(model, loader, steps, rates, history, captured=CapturedStep(model))
    tests = bench.loader()
    tests.test(train.TEST_BATCH)
    evaluation = train.evaluate(model, tests, tests.steps_per_epoch)
    return history.accuracy(train.MONITORING_STEP), evaluation.accuracy


def training(bench: Bench) -> Iterator[str]:
    """Accuracy over the last 200 steps, and on all 10,000 test images; one seed, batch 256."""
    yield "| network | errors | learning rate | last 200 steps | test |"
    yield "| --- | --- | --- | --- | --- |"
    for name in ("ann", "lenet"):
        for which, (errors, rate, decay) in runs_of(name).items():
            running, test = trained(bench, name, errors, rate, decay)
            yield f"| {name} | {which} | {rate:g} | {running:.2f} % | {test:.2f} % |"


QUICK = (images, rate, batch, gradients, freeze, loss, rows, test_loss, ragged, weights)
MEASUREMENTS = {measure.__name__: measure for measure in (*QUICK, training)}


def main(arguments: list[str] | None = None) -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "name", nargs="*", metavar="NAME",
        help=f"one or more of {', '.join(MEASUREMENTS)}; none: all but training",
    )  # fmt: skip
    parser.add_argument("--dataset", type=Path, default=train.DATASET, metavar="DIR")
    options = parser.parse_args(arguments)
    unknown = set(options.name) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"{', '.join(unknown)}: must be one of {', '.join(MEASUREMENTS)}")
    with CudaContext("reference") as context:
        bench = Bench(context, options.dataset)
        for name in options.name or [measure.__name__ for measure in QUICK]:
            print(f"{name}: {(MEASUREMENTS[name].__doc__ or '').strip()}")
            for line in MEASUREMENTS[name](bench):
                print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
