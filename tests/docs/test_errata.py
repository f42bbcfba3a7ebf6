"""docs/errata.md shows what examples/errata.py prints."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import errata
import pytest

from layers import CudaContext

DOCUMENT = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
SHOWN = dict(re.findall(r"```text\n((\w+): .*?)```", DOCUMENT, re.S))
SHOWN = {name: text for text, name in SHOWN.items()}
# Depend on how sums are rounded: the shown and the measured figures may differ by so much.
ROUNDED = {"batch": 3.0, "freeze": 1e-3, "test_loss": 0.05}


@functools.cache
def measured(name: str) -> list[str]:
    with CudaContext("reference") as context:
        return list(errata.MEASUREMENTS[name](errata.Bench(context, errata.train.DATASET)))


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", text)]


def test_every_quick_measurement_is_shown():
    assert set(SHOWN) == {measure.__name__ for measure in errata.QUICK}


@pytest.mark.parametrize("name", SHOWN)
def test_the_document_shows_what_is_measured(name):
    lines = "".join(f"  {line}\n" for line in measured(name))
    title, shown = SHOWN[name].split("\n", 1)
    assert title == f"{name}: {errata.MEASUREMENTS[name].__doc__}"
    if name not in ROUNDED:
        assert shown == lines
        return
    assert re.sub(r"[\d.]+", "#", shown) == re.sub(r"[\d.]+", "#", lines)
    assert numbers(shown) == pytest.approx(numbers(lines), abs=ROUNDED[name])


@pytest.mark.parametrize("name", SHOWN)
def test_published_and_ours_differ(name):
    published, here = (line.split(":", 1) for line in measured(name))
    assert published[0].startswith("published")
    assert here[0].startswith("here")
    assert published[1] != here[1]


def test_the_training_table_has_every_run():
    pattern = r"^\| (ann|lenet) \| ([\w ,]+) \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|$"
    rows = re.findall(pattern, DOCUMENT, re.M)
    wanted = [
        (name, which, f"{rate:g}")
        for name in ("ann", "lenet")
        for which, (_, rate, _) in errata.runs_of(name).items()
    ]
    assert [row[:3] for row in rows] == wanted
    test = {row[:2]: float(row[4]) for row in rows}
    for name in ("ann", "lenet"):
        best = test[name, "all mended, our rate"]
        assert test[name, "as printed"] < 90 < test[name, "all mended"] < best
