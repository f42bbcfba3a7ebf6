#!/usr/bin/env python
"""What the published code's errors do, measured: the figures of docs/errata.md.

Runs on any computer, on the reference library, in about a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import train

from layers import MNIST, Blob, CapturedStep, CrossEntropyLoss, CudaContext, Network
from layers.models import lenet

STEPS, BATCH = 1600, 256


def images_seen(context: CudaContext, dataset: Path) -> str:
    """Distinct training images in the default run, by loader."""
    counts = []
    for as_printed in (True, False):
        loader = MNIST(dataset, context=context, seed=0, as_printed=as_printed)
        loader.train(BATCH, shuffle=True)
        seen: set[int] = set()
        for _ in range(loader.steps_per_epoch if not as_printed else STEPS):
            seen.update(loader.batch_indices().tolist())
            loader.next()
        counts.append(len(seen))
    return (
        f"published loader {counts[0]:,} images in {STEPS:,} steps, ours {counts[1]:,} in one epoch"
    )


def learning_rate(context: CudaContext, dataset: Path) -> str:
    """The rate after some steps, by rule, from 0.02 with decay 5e-5."""
    texts = []
    for as_printed in (True, False):
        rate = train.learning_rates(0.02, 5e-5, as_printed)
        rates = [rate(step) for step in range(STEPS + 1)]
        texts.append(f"{rates[400]:.2e} at step 400, {rates[STEPS]:.2e} at step {STEPS}")
    return f"published {texts[0]}; ours {texts[1]}"


def _accuracy(model: Network, loader: MNIST, batches: int) -> float:
    return train.evaluate(model, loader, batches).accuracy


def changed_batch_size(context: CudaContext, dataset: Path) -> str:
    """Test accuracy around a batch size that changes, with the weights drawn anew and without."""
    model = lenet(seed=0)
    model.cuda(context)
    loader = MNIST(dataset, context=context, seed=0)
    loader.train(64, shuffle=True)
    train.train(
        model, loader, range(100), lambda step: 0.1, train.History(), captured=CapturedStep(model)
    )
    tests = MNIST(dataset, context=context)
    tests.test(250)
    kept = _accuracy(model, tests, 4)
    for layer in model.layers:
        if layer.weights is not None:
            layer.init_weight_bias(1)
    return f"weights drawn anew {_accuracy(model, tests, 4):.1f} %, kept {kept:.1f} %"


def loss_of_large_logits(context: CudaContext, dataset: Path) -> str:
    """Loss of the logits [0, 200] for either class, from the probabilities and from the logits."""
    logits = np.array([0, 200], np.float32)
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    with np.errstate(divide="ignore"):
        published = -np.log(probabilities)
    measured = []
    loss = CrossEntropyLoss(context)
    for target in np.eye(2, dtype=np.float32):
        blobs = Blob(1, 2, context=context), Blob(1, 2, context=context)
        for blob, values in zip(blobs, (logits, target), strict=True):
            blob.ptr.reshape(-1)[...] = values
            blob.to("cuda")
        measured.append(loss.loss(*blobs))
    return (
        f"log of the probabilities {published[0]:g} and {published[1]:g}, "
        f"from the logits {measured[0]:g} and {measured[1]:g}"
    )


def accuracy_of_a_ragged_test(context: CudaContext, dataset: Path) -> str:
    """What 10,000 right answers count as, in batches of 256."""
    tests = MNIST(dataset, context=context)
    tests.test(BATCH)
    return (
        f"divided by steps times batch {100 * len(tests) / tests.steps_per_epoch / BATCH:.2f} %, "
        f"divided by the images {100 * len(tests) / len(tests):.2f} %"
    )


def initial_range(context: CudaContext, dataset: Path) -> str:
    """Largest initial weight of conv2, with the published fan-in and with the right one."""
    model = lenet(seed=0)
    model.cuda(context)
    model.forward(Blob(1, 1, 28, 28, context=context))
    conv2 = next(layer for layer in model.layers if layer.name == "conv2")
    right = float(np.abs(conv2.weights.ptr).max())
    train.narrow_initial_weights(model)
    return f"published {np.abs(conv2.weights.ptr).max():.4f}, ours {right:.4f}"


MEASUREMENTS = {
    "loader": images_seen,
    "learning rate": learning_rate,
    "batch size": changed_batch_size,
    "loss": loss_of_large_logits,
    "accuracy": accuracy_of_a_ragged_test,
    "initial weights": initial_range,
}


def main() -> None:
    """Print one line per erratum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=Path, default=train.DATASET, metavar="DIR")
    options = parser.parse_args()
    with CudaContext("reference") as context:
        for name, measure in MEASUREMENTS.items():
            print(f"{name}: {measure(context, options.dataset)}", flush=True)


if __name__ == "__main__":
    main()
