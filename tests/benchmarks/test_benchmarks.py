"""Each benchmark runs, and its figures are plausible."""

from __future__ import annotations

import shutil

import call_overhead
import pytest
import reference_step
import results
import train_step


def rows_of(directory, benchmark):
    (path,) = directory.glob(f"{benchmark}-*.json")
    return results.load(path).rows


@pytest.mark.library
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_cython_call_is_five_times_cheaper_than_ctypes(tmp_path):
    """Of the same function, both with every operand and the status checked."""
    call_overhead.main(["--quick", "--output", str(tmp_path)])
    functions = {}
    for row in rows_of(tmp_path, "call-overhead"):
        functions.setdefault(row["function"], {})[row["route"]] = row
    assert "cudnnGetConvolution2dForwardOutputDim" in functions
    for routes in functions.values():
        assert set(routes) == {"C", "cython", "ctypes checked", "ctypes"}
        assert 0 < routes["C"]["ns"] < routes["cython"]["ns"] < routes["ctypes checked"]["ns"]
        assert routes["ctypes checked"]["net_ns"] >= 5 * routes["cython"]["net_ns"]
        assert routes["ctypes checked"]["times_cython"] == pytest.approx(
            routes["ctypes checked"]["net_ns"] / routes["cython"]["net_ns"]
        )


def test_p2_event_time_and_wall_time_agree(backend, tmp_path):
    batches = (16, 128)
    train_step.main(
        ["--backend", backend, "--quick", "--output", str(tmp_path),
         "--batches", *map(str, batches)]
    )  # fmt: skip
    rows = [row for row in rows_of(tmp_path, "train-step") if row["implementation"] == "pycudnn"]
    assert [row["batch"] for row in rows] == list(batches)
    for row in rows:
        assert row["device_us"] == pytest.approx(row["wall_us"], rel=0.1)
    if backend == "reference":
        assert rows[0]["wall_us"] < rows[1]["wall_us"]


def test_reference_step(tmp_path):
    reference_step.main(["--quick", "--batch-size", "16", "--output", str(tmp_path)])
    ours, *theirs = rows_of(tmp_path, "reference-step")
    assert ours["implementation"] == "pycudnn reference"
    assert ours["ms"] > 0
    for row in theirs:  # PyTorch, where it is installed
        assert ours["ratio"] == pytest.approx(ours["ms"] / row["ms"])
