#!/usr/bin/env python
"""Train the book's networks on MNIST: the port of its train.cpp.

On a GPU it makes the book's 1,600 steps of 256 images (2,400 for the fully connected network); on
the reference library, which is NumPy, one epoch. Either way every option can be changed.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from layers import MNIST, CapturedStep, Conv2D, CudaContext, Network
from layers.models import MODELS
from pycudnn.device import default_backend
from pycudnn.errors import PycudnnError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from command_line import at_least, check_file, check_package, check_picture

try:
    from nvtx import annotate

    HAS_NVTX = True
except ImportError:
    annotate = contextlib.nullcontext
    HAS_NVTX = False

DATASET = Path(__file__).parent / "dataset"
MONITORING_STEP = 200
TEST_BATCH = 250

STEPS = {"lenet": 1600, "lenet-printed": 1600, "ann": 2400}  # the book's

# The book's learning rate, 0.02, is too low for the steps it makes; its decay, 5e-5, leaves the
# rate as it is, so that a last step on odd images can cost several percent of accuracy.
LEARNING_RATES = {"lenet": 0.1, "lenet-printed": 0.05, "ann": 0.5}


class Length(NamedTuple):
    """Defaults that depend on how the length of the training is given."""

    batch_size: int
    decay: float


STEPS_GIVEN = Length(256, 5e-4)  # the book's batch size
EPOCHS_GIVEN = Length(64, 2e-3)  # more and smaller steps get further in one epoch

PRINTED_LEARNING_RATE = 0.02
PRINTED_DECAY = 5e-5
PRINTED_TEST_BATCH = 10


@dataclass
class History:
    """Loss, right samples and batch size of every training step made."""

    losses: list[float] = field(default_factory=list)
    correct: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def accuracy(self, last: int) -> float:
        """Return the accuracy, in percent, over the last so many steps."""
        return 100 * sum(self.correct[-last:]) / sum(self.sizes[-last:])


@dataclass
class Evaluation:
    """Mean loss, accuracy (percent), and the class given to each of the samples ``indices``."""

    loss: float
    accuracy: float
    indices: np.ndarray
    predictions: np.ndarray


def learning_rates(first: float, decay: float, as_printed: bool) -> Callable[[int], float]:
    """Return the learning rate as a function of the step.

    Inverse-time decay, first / (1 + decay * step). The published code multiplies that factor
    into the rate again at every step, so that nothing is left of it after a few hundred.
    """
    if not as_printed:
        return lambda step: first / (1 + decay * step)
    rate = first

    def compounding(step: int) -> float:
        nonlocal rate
        rate *= 1 / (1 + decay * step)
        return rate

    return compounding


def train(
    model: Network,
    loader: MNIST,
    steps: Iterable[int],
    rate: Callable[[int], float],
    history: History,
    report: Callable[[int, History], None] = lambda step, history: None,
    captured: CapturedStep | None = None,
) -> None:
    """Make training steps; ``report`` is called every 200.

    Each step is the book's four calls, or ``captured``'s replay of them. The next batch is
    gathered while the device works; loss and accuracy of each step are read back at its end. The
    smaller last batch of an epoch counts less, so that every image counts the same.
    """
    data, target = loader.get_data(), loader.get_target()
    loader.get_batch()
    for step in steps:
        with annotate("step"):
            n = data.n
            learning_rate = rate(step) * n / loader.batch_size
            data.to("cuda")
            target.to("cuda")
            if captured is not None:
                captured(data, target, learning_rate)
            else:
                with annotate("forward"):
                    model.forward(data)
                model.measure(target)
                with annotate("backward"):
                    model.backward(target)
                with annotate("update"):
                    model.update(learning_rate)
            loader.next()
            loss, correct = model.measured()
        history.losses.append(loss)
        history.correct.append(correct)
        history.sizes.append(n)
        if (step + 1) % MONITORING_STEP == 0:
            report(step + 1, history)


def evaluate(model: Network, loader: MNIST, steps: int) -> Evaluation:
    """Run ``steps`` test batches forwards; an epoch of them counts every sample once."""
    model.test()
    data, target = loader.get_data(), loader.get_target()
    loader.get_batch()
    loss = correct = total = 0.0
    indices, predictions = [], []
    for _ in range(steps):
        data.to("cuda")
        target.to("cuda")
        output = model.forward(data)
        model.measure(target)
        mean, right = model.measured()
        indices.append(loader.batch_indices())
        predictions.append(np.asarray(output.to("host")).reshape(data.n, -1).argmax(axis=1))
        loss += mean * data.n
        correct += right
        total += data.n
        loader.next()
    model.train()
    return Evaluation(
        loss / total, 100 * correct / total, np.concatenate(indices), np.concatenate(predictions)
    )


def narrow_initial_weights(model: Network) -> None:
    """Scale the convolutions' first weights to the published range, sqrt(6 / (c * h * w)).

    There the whole input counts as fan-in, where c * k * k of its values reach an output.
    """
    for layer in model.layers:
        if isinstance(layer, Conv2D) and layer.input is not None:
            fan_in = layer.weights.len / layer.out_channels
            layer.weights.ptr[...] *= np.sqrt(fan_in / layer.input.size)
            layer.weights.to("cuda")


def describe(model: Network, input_shape: tuple[int, ...]) -> str:
    """List the layers with their output shapes and parameter counts, after a first forward."""
    lines = [f"{'input':<10}{'':<12}{'x'.join(map(str, input_shape[1:])):>12}"]
    for layer in model.layers:
        shape = "x".join(map(str, layer.output.shape[1:]))
        count = sum(blob.len for blob in layer.parameters().values())
        parameters = f"{count:>10,} parameters" if count else ""
        lines.append(f"{layer.name:<10}{type(layer).__name__:<12}{shape:>12}{parameters}")
    return "\n".join(lines)


def plot(path: Path, history: History, evaluation: Evaluation, tests: MNIST, title: str) -> None:
    """Draw loss and accuracy over the steps, and a sheet of test digits with predictions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.5), layout="constrained")
    figure.suptitle(title)
    curves, sheet = figure.subfigures(1, 2, width_ratios=[1, 1.2])
    upper, lower = curves.subplots(2, 1, sharex=True)
    steps = np.arange(1, len(history.losses) + 1)
    accuracies = 100 * np.array(history.correct) / np.array(history.sizes)
    for axes, values, name in ((upper, history.losses, "loss"), (lower, accuracies, "accuracy, %")):
        axes.plot(steps, values, alpha=0.3)
        axes.plot(*_smooth(steps, np.asarray(values)), color="C0")
        axes.set_ylabel(f"training {name}")
        axes.grid(alpha=0.3)
    upper.set_yscale("log")
    lower.axhline(evaluation.accuracy, color="C1", label=f"test: {evaluation.accuracy:.2f} %")
    lower.set_xlabel("step")
    lower.legend(loc="lower right")

    labels = tests.labels[evaluation.indices]
    wrong = np.flatnonzero(evaluation.predictions != labels)
    shown = [*range(40), *wrong[wrong >= 40][:20]]
    sheet.suptitle("the first 40 test digits, and the first 20 wrong ones after them", fontsize=10)
    grid = sheet.subplots(6, 10).ravel()
    for axes in grid:
        axes.axis("off")
    for axes, i in zip(grid, shown, strict=False):
        prediction, label = evaluation.predictions[i], labels[i]
        axes.imshow(tests.images[evaluation.indices[i]].reshape(28, 28), cmap="gray_r")
        right = prediction == label
        axes.set_title(
            str(prediction) if right else f"{prediction}, is {label}",
            fontsize=8,
            color="black" if right else "red",
        )
    figure.savefig(path, dpi=120)


def _smooth(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average over windows of a fiftieth of the run."""
    window = max(1, len(values) // 50)
    means = np.convolve(values, np.full(window, 1 / window), mode="valid")
    return steps[window - 1 :], means


def progress(steps: range) -> Any:
    """Wrap the steps in a progress bar, silent where the output is no terminal."""
    try:
        from tqdm import tqdm
    except ImportError:
        return steps
    return tqdm(steps, unit="step", disable=None, leave=False)


class UsageError(Exception):
    """An option names something that cannot be used."""


@contextlib.contextmanager
def blaming(option: str) -> Iterator[None]:
    """Say which option an error comes from."""
    try:
        yield
    except (OSError, ValueError, KeyError, PycudnnError) as error:
        raise UsageError(f"{option}: {error}") from error


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line and fill in the defaults of the model and the backend."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("--model", choices=MODELS, default="lenet")
    option("--backend", choices=("auto", "cuda", "reference"), default="auto")
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument("--steps", type=at_least(1), help="training steps (GPU: 1600, ann 2400)")
    lengths.add_argument(
        "--epochs",
        type=at_least(0, float, above=True),
        help="epochs in place of steps (reference: 1)",
    )
    option(
        "--batch-size", type=at_least(1), help="256 where steps are counted, 64 where epochs are"
    )
    option(
        "--learning-rate",
        type=at_least(0, float),
        help="lenet 0.1, lenet-printed 0.05, ann 0.5",
    )
    option(
        "--lr-decay",
        type=at_least(0, float),
        help="d in rate / (1 + d * step): 5e-4, or 2e-3 where epochs are counted",
    )
    option("--seed", type=at_least(0), help="fixes initial weights and the order of the images")
    option("--dataset", type=Path, default=DATASET, metavar="DIR")
    option("--pretrained", type=Path, metavar="FILE", help="start from this saved state")
    option("--save", type=Path, metavar="FILE", help="FILE.safetensors, or a directory")
    option("--plot", type=Path, metavar="FILE", help="PNG of the curves and of test digits")
    option(
        "--as-printed",
        action="store_true",
        help="as the published code: its loader, learning rate, decay and initial range",
    )
    option(
        "--no-graph",
        action="store_true",
        help="make each call of a step anew; slower, and always so where nvtx is installed",
    )
    options = parser.parse_args(arguments)

    if options.backend == "auto":
        options.backend = default_backend()
    if options.as_printed or options.backend == "cuda":
        default_steps = STEPS[options.model]
    else:
        default_steps = None
    if options.steps is None and options.epochs is None:
        options.steps = default_steps
        options.epochs = 1.0 if default_steps is None else None
    length = EPOCHS_GIVEN if options.steps is None else STEPS_GIVEN
    if options.batch_size is None:
        options.batch_size = length.batch_size
    if options.learning_rate is None:
        options.learning_rate = (
            PRINTED_LEARNING_RATE if options.as_printed else LEARNING_RATES[options.model]
        )
    if options.lr_decay is None:
        options.lr_decay = PRINTED_DECAY if options.as_printed else length.decay
    if options.save is not None and options.save.suffix == ".safetensors":
        check_package(parser, "--save FILE.safetensors", "safetensors")
    check_file(parser, "--save", options.save)
    check_picture(parser, "--plot", options.plot)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Train, save, test and plot; returns the exit status: 2 for bad options, 130 after Ctrl-C."""
    options = parse_arguments(arguments)
    print("== MNIST training with cuDNN ==")
    if options.backend == "reference":
        print("No GPU is used: the reference library (NumPy) computes.")
    try:
        with blaming(f"--backend {options.backend}"):
            made = CudaContext(options.backend)
        with made as context:
            run(options, context)
    except UsageError as error:
        print(f"train.py: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print("Done.")
    return 0


def run(
    options: argparse.Namespace, context: CudaContext, quiet: bool = False
) -> tuple[History, Evaluation]:
    """Do what the options say: the phases of the book's train.cpp."""
    say = (lambda text: None) if quiet else print
    say("[TRAIN]")
    loader = MNIST(
        options.dataset, context=context, seed=options.seed, as_printed=options.as_printed
    )
    with blaming("--dataset"):
        loader.train(options.batch_size, shuffle=True)
    steps = options.steps or max(1, round(options.epochs * loader.steps_per_epoch))
    say(f"loaded {len(loader):,} images from {options.dataset}")

    model = build(options, context, loader)
    say(f".. model configuration: {options.model} ..")
    say(describe(model, loader.get_data().shape))
    say(
        f".. {steps:,} steps of {loader.batch_size} images, learning rate "
        f"{options.learning_rate:g}, on {context.device.name} .."
    )

    history = History()
    rate = learning_rates(options.learning_rate, options.lr_decay, options.as_printed)
    bar = range(steps) if quiet else progress(range(steps))
    write = getattr(bar, "write", say)

    def report(step: int, history: History) -> None:
        write(
            f"step: {step:5}, loss: {history.losses[-1]:.4f}, "
            f"accuracy: {history.accuracy(MONITORING_STEP):.3f}%"
        )

    started = time.perf_counter()
    try:
        call_by_call = options.no_graph or HAS_NVTX  # a graph has no ranges inside
        captured = None if call_by_call else CapturedStep(model)
        train(model, loader, bar, rate, history, report, captured)
        context.synchronize()
        seconds = time.perf_counter() - started
        say(f"{steps:,} steps in {seconds:.1f} s, {1e6 * seconds / steps:,.0f} us a step")
    except KeyboardInterrupt:
        say(f"interrupted after {len(history.losses)} steps")
        raise
    finally:
        if options.save is not None:
            model.write_file(options.save)
            say(f"saved {options.save}")

    say("[INFERENCE]")
    tests = MNIST(options.dataset, context=context, as_printed=options.as_printed)
    tests.test(PRINTED_TEST_BATCH if options.as_printed else TEST_BATCH)
    # The published loader has no smaller last batch; 10 divides 10,000 anyway.
    evaluation = evaluate(model, tests, tests.steps_per_epoch)
    say(f"loss: {evaluation.loss:.4f}, accuracy: {evaluation.accuracy:.2f}%")
    if options.plot is not None:
        title = f"{options.model} on MNIST, {steps:,} steps of {loader.batch_size}"
        plot(options.plot, history, evaluation, tests, title)
        say(f"plotted {options.plot}")
    return history, evaluation


def build(options: argparse.Namespace, context: CudaContext, loader: MNIST) -> Network:
    """Make the network with its weights, for which it must have seen one input."""
    model = MODELS[options.model](options.seed)
    model.cuda(context)
    loader.get_batch()
    loader.get_data().to("cuda")
    if options.pretrained is None:
        model.forward(loader.get_data())
    else:
        with blaming(f"--pretrained {options.pretrained}"):
            model.load_pretrain(options.pretrained)
            model.forward(loader.get_data())
    if options.as_printed and options.pretrained is None:
        narrow_initial_weights(model)
    return model


if __name__ == "__main__":
    sys.exit(main())
