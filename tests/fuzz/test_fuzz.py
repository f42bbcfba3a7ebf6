"""No argument of the face crashes the process, passes although wrong, or is answered badly."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import harness
import pytest
import recording

HERE = Path(__file__).parent
FUNCTIONS = sorted(harness.load_problems())


@pytest.fixture(scope="module")
def runner():
    """run.py beside this file; there is another of that name."""
    spec = importlib.util.spec_from_file_location("fuzz_run", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_argument_of_every_call(backend, runner, rng):
    seed = int(rng.integers(2**32))
    workers = 2 if backend == "reference" else 6
    rows = [row for group in runner.fuzz_all(backend, seed, FUNCTIONS, workers) for row in group]
    assert sorted(row["function"] for row in rows) == FUNCTIONS
    crashes = [f"{row['function']}: {row['crash']}" for row in rows if "crash" in row]
    assert not crashes, f"--seed {seed}\n" + "\n".join(crashes)
    faults = [f"{row['function']}: {fault}" for row in rows for fault in row["faults"]]
    assert not faults, f"{len(faults)} faults, --seed {seed}\n" + "\n".join(faults[:80])
    assert sum(row["mutations"] for row in rows) >= 5000


def test_a_crash_is_seen_and_the_rest_goes_on(runner, tmp_path, monkeypatch):
    """The runner notices a child that dies, and does the functions after it."""
    (tmp_path / "fuzz.py").write_text(
        "import os, sys, json\n"
        "for name in sys.argv[4:]:\n"
        "    open(sys.argv[3], 'w').write('call of ' + name)\n"
        "    if name == 'b': os.abort()\n"
        "    print(json.dumps({'function': name, 'mutations': 1, 'faults': []}), flush=True)\n"
    )
    monkeypatch.setattr(runner, "HERE", tmp_path)
    rows = runner.fuzz_group("reference", 0, ["a", "b", "c"])
    assert [row["function"] for row in rows] == ["a", "b", "c"]
    assert rows[1]["crash"].startswith("exit -6 in call of b")
    assert "crash" not in rows[0]
    assert "crash" not in rows[2]


def test_a_wrong_value_that_passes_is_a_fault(context):
    """The fuzzer notices acceptance, and errors of other kinds."""
    import fuzz

    def lenient(n: int, x: int) -> None:
        if isinstance(x, str):
            raise AttributeError("x has no y")

    call = recording.Call("lenient", lenient, {"n": 5, "x": 3}, frozenset())
    count, faults = fuzz.fuzz_call(context, call, lambda what: None)
    assert count["mutations"] == len(faults) + count["accepted"] - sum(
        fault.endswith("accepted") for fault in faults
    )
    assert "lenient(n: None): accepted" in faults
    assert "lenient(x: int 'x'): AttributeError: x has no y" in faults
