"""A few random problems for every computing C function; run.py poses thousands."""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path

import harness
import pytest
import results

PROBLEMS = harness.load_problems()


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_random_problems(context, function):
    outcomes = [harness.pose(context, function, secrets.randbits(32)) for _ in range(4)]
    for outcome in outcomes:
        assert outcome.result != "failed", f"--seed {outcome.seed}: {outcome.text}"


def test_a_wrong_result_fails(context, monkeypatch):
    """The harness notices a wrong number, a write outside, and a problem that checks nothing."""

    def wrong(case):
        x = case.tensor((2, 3), "float32")
        case.check(x, x.values + 1e-3)

    def outside(case):
        x = case.tensor((2, 3), "float32", layout="packed")
        memory = x.before.copy()
        memory[7] = 0
        x.data.copy_from(memory, stream=case.context.stream)
        case.check(x, x.values)

    for function in (wrong, outside, lambda case: None):
        monkeypatch.setitem(harness.PROBLEMS, "f", function)
        assert harness.pose(context, "f", 1).result == "failed"


@pytest.fixture(scope="module")
def runner():
    """run.py beside this file; there is another of that name."""
    path = Path(__file__).with_name("run.py")
    spec = importlib.util.spec_from_file_location("conformance_run", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--function", "cudnnPoolingForwar"], "close to it: cudnnPoolingForward, "),
        (["--problems", "-4"], "--problems: must be at least 1, got -4"),
        (["--seed", "-1"], "--seed: must be at least 0, got -1"),
    ],
)
def test_bad_options_are_one_line(runner, options, text, backend, capsys):
    with pytest.raises(SystemExit) as stopped:
        runner.main(["--backend", backend, *options])
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err.splitlines()[-1]


def test_a_part_is_written_only_where_it_is_told_to(runner, backend, tmp_path, monkeypatch, capsys):
    """It never takes the place of a full result."""
    monkeypatch.setattr(results, "DIRECTORY", tmp_path / "full")
    part = ["--backend", backend, "--function", "cudnnSetTensor", "--problems", "3"]
    assert runner.main(part) == 0
    assert "not written" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert runner.main([*part, "--output", str(tmp_path / "part")]) == 0
    (path,) = (tmp_path / "part").iterdir()
    (row,) = results.load(path).rows
    assert (row["function"], row["problems"]) == ("cudnnSetTensor", 3)
    assert not (tmp_path / "full").exists()
