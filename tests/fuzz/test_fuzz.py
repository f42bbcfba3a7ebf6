"""No argument of the face crashes the process, passes although wrong, or is answered badly."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import fuzz
import harness
import numpy as np
import pytest
import recording
import results

from pycudnn import _core

HERE = Path(__file__).parent
harness.load_problems()
FUNCTIONS = recording.functions()


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
    plan = runner.Plan(backend, seed, seconds=None if backend == "reference" else 100)
    rows = list(runner.fuzz_all(plan, FUNCTIONS, 2 if backend == "reference" else 8))
    assert {row["function"] for row in rows} == set(FUNCTIONS)
    crashes = [f"{row['function']}: {row['crash']}" for row in rows if "crash" in row]
    assert not crashes, f"--seed {seed}\n" + "\n".join(crashes)
    faults = [f"{row['function']}: {fault}" for row in rows for fault in row["faults"]]
    assert not faults, f"{len(faults)} faults, --seed {seed}\n" + "\n".join(faults[:80])
    assert sum(row.get("mutations", 0) for row in rows) >= 5000


def test_all_that_is_public_is_called(context, tmp_path, monkeypatch):
    """By problems or scenarios, or there is a reason why not."""
    monkeypatch.chdir(tmp_path)  # for what is saved
    called = set()
    with np.errstate(all="ignore"):
        for function in FUNCTIONS:
            called |= {call.name for call in fuzz.recorded_calls(context, function, 0)[1]}
    public = {**recording.public_callables(), **recording.public_methods()}
    assert called <= public.keys()
    assert public.keys() - called == recording.UNREACHED.keys()


def test_a_crash_is_seen_and_the_rest_goes_on(runner, tmp_path, monkeypatch):
    """The runner notices a child that dies, and does the functions after it."""
    (tmp_path / "fuzz.py").write_text(
        "import os, sys, json\n"
        "for name in sys.argv[2:]:\n"
        "    open(json.loads(sys.argv[1])['progress'], 'w').write('call of ' + name)\n"
        "    if name == 'b': os.abort()\n"
        "    if name == 'c':\n"
        "        open(json.loads(sys.argv[1])['progress'], 'w').write('c(x: 1)')\n"
        "        if 'c(x: 1)' not in json.loads(sys.argv[1])['skip']: os.abort()\n"
        "    print(json.dumps({'function': name, 'mutations': 1, 'faults': []}), flush=True)\n"
    )
    monkeypatch.setattr(runner, "HERE", tmp_path)
    rows = list(runner.fuzz_group(runner.Plan("reference", 0), ["a", "b", "c"]))
    assert [row["function"] for row in rows] == ["a", "b", "c", "c"]
    assert rows[1]["crash"].startswith("exit -6 in call of b")
    assert rows[2]["crash"].startswith("exit -6 in c(x: 1)")
    assert "crash" not in rows[0]
    assert "crash" not in rows[3]


def test_a_child_that_hangs_is_killed(runner, tmp_path, monkeypatch):
    (tmp_path / "fuzz.py").write_text(
        "import sys, json, time\n"
        "open(json.loads(sys.argv[1])['progress'], 'w').write('call of ' + sys.argv[2])\n"
        "if sys.argv[2] == 'a': time.sleep(1000)\n"
        "print(json.dumps({'function': sys.argv[2], 'mutations': 1, 'faults': []}), flush=True)\n"
    )
    monkeypatch.setattr(runner, "HERE", tmp_path)
    monkeypatch.setattr(runner, "PATIENCE", 1)
    rows = list(runner.fuzz_group(runner.Plan("reference", 0), ["a", "b"]))
    assert rows[0]["crash"].startswith("exit -9 in call of a")
    assert rows[1]["mutations"] == 1


@pytest.mark.parametrize(("share", "seconds"), [(0.5, None), (1, 0)])
def test_a_part_of_the_mutations(context, share, seconds):
    """A share is what it says, and no time is none."""
    call = recording.Call("f", lambda n, x: None, {"n": 5, "x": 3}, frozenset())
    everything = fuzz.fuzz_calls(context, [call], [], lambda what: None)[0]["mutations"]
    effort = fuzz.Effort(1, share, seconds, 1)
    effort.begin()
    count, _ = fuzz.fuzz_calls(context, [call], [], lambda what: None, effort)
    assert count["mutations"] in (range(10, everything - 10) if seconds is None else (0,))


def test_a_wrong_value_that_passes_is_a_fault(context):
    """The fuzzer notices acceptance, and errors of other kinds."""
    def lenient(n: int, x: int) -> None:
        if isinstance(x, str):
            raise AttributeError("x has no y")

    call = recording.Call("lenient", lenient, {"n": 5, "x": 3}, frozenset())
    count, faults = fuzz.fuzz_calls(context, [call], [], lambda what: None)
    assert count["mutations"] == len(faults) + count["accepted"] - sum(
        fault.endswith("accepted") for fault in faults
    )
    assert "lenient(n: None): accepted" in faults
    assert "lenient(x: int 'x'): AttributeError: x has no y" in faults


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--function", "cudnnPoolingForwar"], "close to it: cudnnPoolingForward, "),
        (["--function", "NOPE"], "known: cublasAsumEx, "),
        (["--share", "7"], "--share: must be above 0 and at most 1, got 7"),
        (["--share", "0"], "--share: must be above 0 and at most 1, got 0"),
        (["--seconds", "-1"], "--seconds: must be above 0, got -1"),
        (["--seconds", "nan"], "--seconds: must be above 0, got nan"),
        (["--workers", "0"], "--workers: must be at least 1, got 0"),
        (["--seed", "-1"], "--seed: must be at least 0, got -1"),
        (["--output", f"{__file__}/x"], "Not a directory"),
    ],
)
def test_bad_options_are_one_line(runner, options, text, backend, capsys):
    with pytest.raises(SystemExit) as stopped:
        runner.main(["--backend", backend, *options])
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert text in captured.err.splitlines()[-1]
    assert captured.out == ""


def test_a_part_is_written_only_where_it_is_told_to(runner, backend, tmp_path, monkeypatch, capsys):
    """It never takes the place of a full result."""
    monkeypatch.setattr(results, "DIRECTORY", tmp_path / "full")
    part = ["--backend", backend, "--function", "cudnnSetTensor", "--quick"]
    assert runner.main(part) == 0
    assert "not written" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert runner.main([*part, "--output", str(tmp_path / "part")]) == 0
    (path,) = (tmp_path / "part").iterdir()
    result = results.load(path)
    assert [row["function"] for row in result.rows] == ["cudnnSetTensor"]
    assert result.settings["share"] == 0.1
    assert not (tmp_path / "full").exists()


def test_what_was_never_made_can_be_shown():
    """An error may show it."""
    for name, kind in recording.public_callables().items():
        if isinstance(kind, type) and issubclass(kind, _core.Owned):
            assert "closed" in repr(kind.__new__(kind)), name
