"""A few random problems for every computing C function; run.py poses thousands."""

from __future__ import annotations

import secrets

import harness
import pytest

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
