"""train.py from the command line, a few steps long, and its parts."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import train

from layers import MNIST, CudaContext
from layers.mnist import read_split

ROOT = Path(__file__).parents[2]
TRAINING, TEST = 4000, 1000


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 4,000 training and 1,000 test digits of MNIST, as files of their own."""
    directory = tmp_path_factory.mktemp("dataset")
    for stem, count in (("train", TRAINING), ("t10k", TEST)):
        for kind, array in zip(("images", "labels"), read_split(train.DATASET, stem), strict=True):
            header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, count, *array.shape[1:])
            path = directory / f"{stem}-{kind}-idx{array.ndim}-ubyte"
            path.write_bytes(header + array[:count].tobytes())
    return directory


@pytest.fixture
def command_line(backend: str, dataset: Path) -> Callable[..., list[str]]:
    """The options of a run on the backend and the small data set, with more of them."""

    def options(*more: object) -> list[str]:
        always = ("--backend", backend, "--seed", 1, "--dataset", dataset)
        return [str(option) for option in (*always, *more)]

    return options


def start(options: Sequence[str]) -> subprocess.Popen[str]:
    """Run the script as a user does."""
    return subprocess.Popen(
        [sys.executable, "-u", ROOT / "examples" / "train.py", *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(options: Sequence[str]) -> tuple[train.History, train.Evaluation]:
    """Run it in this process."""
    parsed = train.parse_arguments(list(options))
    with CudaContext(parsed.backend) as context:
        return train.run(parsed, context, quiet=True)


def accuracy(output: str) -> float:
    return float(re.search(r"\[INFERENCE\]\nloss: [\d.]+, accuracy: ([\d.]+)%", output)[1])


def test_a_short_training(command_line, tmp_path):
    """One epoch of 4,000 digits is enough for nine of ten; what is saved is what is tested."""
    pytest.importorskip("safetensors")
    pytest.importorskip("matplotlib")
    state, image = tmp_path / "state.safetensors", tmp_path / "plot.png"
    process = start(command_line("--epochs", 1, "--save", state, "--plot", image))
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors == ""  # no progress bar where nobody looks
    assert accuracy(output) > 85
    for line in (
        r"\[TRAIN\]\nloaded 4,000 images",
        r"conv2 +Conv2D +50x8x8 +25,050 parameters",
        r"63 steps of 64 images, learning rate 0.1",
        r"63 steps in [\d.]+ s, [\d,]+ us a step",
        r"Done\.\n$",
    ):
        assert re.search(line, output), line
    assert image.read_bytes().startswith(b"\x89PNG")

    # At rate 0 nothing changes: the state loaded has the accuracy of the state saved.
    again = command_line("--steps", 1, "--pretrained", state, "--learning-rate", 0)
    assert f"{run(again)[1].accuracy:.2f}" == f"{accuracy(output):.2f}"


def test_a_seed_repeats_a_training(command_line):
    options = command_line("--model", "ann", "--steps", 3, "--batch-size", 32)
    losses = [run(options)[0].losses for _ in range(2)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert len(losses[0]) == 3


def test_reports_come_every_200_steps(command_line, capsys):
    options = command_line("--model", "ann", "--steps", 400, "--batch-size", 8)
    assert train.main(options) == 0
    output = capsys.readouterr().out
    reported = re.findall(r"step: +(\d+), loss: ([\d.]+), accuracy: ([\d.]+)%", output)
    assert [int(step) for step, _, _ in reported] == [200, 400]
    first, second = (float(percent) for _, _, percent in reported)
    assert 40 < first < second
    assert accuracy(output) > 70


def test_the_smaller_last_batch_counts_by_its_size(context, dataset, monkeypatch):
    loader = MNIST(dataset, context=context, seed=1)
    loader.train(1500)
    model = train.MODELS["ann"](1)
    model.cuda(context)
    rates = []
    monkeypatch.setattr(model, "update", rates.append)
    history = train.History()
    train.train(model, loader, range(4), lambda step: 0.3, history)
    assert history.sizes == [1500, 1500, 1000, 1500]
    assert rates == pytest.approx([0.3, 0.3, 0.2, 0.3])


def test_the_test_counts_every_image(context, dataset):
    model = train.MODELS["ann"](1)
    model.cuda(context)
    tests = MNIST(dataset, context=context)
    tests.test(96)  # 1,000 = 10 * 96 + 40
    evaluation = train.evaluate(model, tests, tests.steps_per_epoch)
    assert evaluation.indices.tolist() == list(range(TEST))
    right = np.count_nonzero(evaluation.predictions == tests.labels)
    assert 0 < right < TEST
    assert evaluation.accuracy == pytest.approx(100 * right / TEST)
    tests.test(TEST)
    assert evaluation.loss == pytest.approx(train.evaluate(model, tests, 1).loss, rel=1e-5)


def test_m3_inverse_time_decay():
    rate = train.learning_rates(0.02, 5e-5, as_printed=False)
    assert rate(0) == 0.02
    assert rate(400) == pytest.approx(0.0196, abs=5e-5)
    assert rate(1600) == pytest.approx(0.0185, abs=5e-5)


def test_m3_as_printed_the_decay_compounds():
    rate = train.learning_rates(0.02, 5e-5, as_printed=True)
    rates = [rate(step) for step in range(1601)]
    assert rates[400] == pytest.approx(3.8e-4, rel=0.05)
    assert rates[1600] == pytest.approx(1.7e-29, rel=0.2)


def test_m8_as_printed_the_first_weights_are_narrower(command_line, context, dataset):
    options = train.parse_arguments(command_line("--as-printed"))
    loader = MNIST(dataset, context=context)
    loader.train(2)
    model = train.build(options, context, loader)
    largest = {
        layer.name: np.abs(layer.weights.cuda.numpy()).max()
        for layer in model.layers
        if layer.weights is not None
    }
    assert largest["conv2"] == pytest.approx(np.sqrt(6 / (20 * 12 * 12)), rel=0.01)  # .0456
    assert largest["conv1"] == pytest.approx(np.sqrt(6 / 784), rel=0.05)
    assert largest["dense1"] == pytest.approx(np.sqrt(6 / 800), rel=0.01)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("name", ["state.safetensors", "state"])
def test_ctrl_c_leaves_a_saved_state(name, command_line, tmp_path):
    if name.endswith(".safetensors"):
        pytest.importorskip("safetensors")
    path = tmp_path / name
    options = command_line("--steps", 1_000_000, "--batch-size", 16, "--save", path)
    process = start(options)
    output = ""
    while "learning rate" not in output:
        output += process.stdout.readline()
        assert process.poll() is None, process.stderr.read()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    made = int(re.search(r"interrupted after (\d+) steps", rest)[1])
    assert made > 0
    assert f"saved {path}" in rest
    assert "Traceback" not in errors

    # The training went on from it: one more step starts at a lower loss than the first one did.
    first, _ = run(command_line("--steps", 1, "--batch-size", 1000))
    later, _ = run(command_line("--steps", 1, "--batch-size", 1000, "--pretrained", path))
    assert later.losses[0] < first.losses[0]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--backend", "reference"], (None, 1.0, 64, 0.1, 2e-3)),
        (["--backend", "cuda"], (1600, None, 256, 0.1, 5e-4)),
        (["--backend", "cuda", "--model", "ann"], (2400, None, 256, 0.5, 5e-4)),
        (["--backend", "cuda", "--epochs", "1"], (None, 1.0, 64, 0.1, 2e-3)),
        (["--backend", "reference", "--steps", "9"], (9, None, 256, 0.1, 5e-4)),
        (["--backend", "reference", "--as-printed"], (1600, None, 256, 0.02, 5e-5)),
        (
            ["--backend", "cuda", "--as-printed", "--lr-decay", "0", "--learning-rate", "0.3"],
            (1600, None, 256, 0.3, 0.0),
        ),
    ],
    ids=str,
)
def test_defaults(options, wanted):
    found = train.parse_arguments(options)
    assert (
        found.steps, found.epochs, found.batch_size, found.learning_rate, found.lr_decay
    ) == wanted  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ["--batch-size", "0"],
        ["--steps", "0"],
        ["--epochs", "-1"],
        ["--epochs", "nan"],
        ["--steps", "1", "--epochs", "1"],
        ["--model", "resnet"],
    ],
    ids=str,
)
def test_bad_options_end_before_the_training(options, capsys):
    with pytest.raises(SystemExit) as caught:
        train.parse_arguments(["--backend", "reference", *options])
    assert caught.value.code == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "options"),
    [("matplotlib", ["--plot", "x.png"]), ("safetensors", ["--save", "x.safetensors"])],
)
def test_a_missing_package_ends_before_the_training(package, options, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit):
        train.parse_arguments(["--backend", "reference", *options])
    assert f"needs the package {package}: pip install {package}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--steps", "0"], "--steps: must be at least 1, got 0"),
        (["--steps", "two"], "--steps: must be a whole number at least 1, got 'two'"),
        (["--epochs", "0"], "--epochs: must be above 0, got 0"),
        (["--learning-rate", "nan"], "--learning-rate: must be at least 0, got nan"),
        (["--learning-rate", "-1"], "--learning-rate: must be at least 0, got -1"),
        (["--lr-decay", "-1"], "--lr-decay: must be at least 0, got -1"),
        (["--seed", "-1"], "--seed: must be at least 0, got -1"),
        (["--save", "missing/folder/a.safetensors"], "there is no folder missing/folder"),
        (["--plot", "missing/p.png"], "there is no folder missing"),
        (["--plot", "p.xyz"], "must be a .png file"),
        (["--dataset", "missing"], "--dataset: no train-images"),
        (["--pretrained", "missing.bin"], "--pretrained missing.bin: no pretrained"),
    ],
)
def test_bad_options_are_one_line_without_traceback(arguments, text):
    """One line that names the option, and no traceback."""
    done = subprocess.run(
        [sys.executable, train.__file__, "--backend", "reference", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
