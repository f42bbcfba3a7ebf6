"""Every function of the table against float64, on random problems of all kinds.

The problems are those of tests/conformance, which has an oracle of its own; here each function gets
a few with seeds that stay, so that a failure repeats, and the table itself is tested.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import harness
import problems_cublas
import pytest

from pycudnn import abi, cublas, reference
from pycudnn.cublas._functions import FUNCTIONS

ROOT = Path(__file__).parent.parent.parent
HANDLED_ELSEWHERE = (
    "Create", "Destroy", "Version", "Workspace", "Stream", "Mode", "SmCountTarget", "Emulation",
)  # fmt: skip


# What cuBLAS does not compute with 64-bit sizes, or what we refuse since it does so wrongly.
REFUSED_WIDE = {
    **{f"{letter}trsm_batched": "returned CUBLAS_STATUS_NOT_SUPPORTED" for letter in "sdcz"},
    **{f"{letter}trsv": "reads outside of an upper matrix" for letter in "sdcz"},
    "nrm2_ex": "takes n and incx modulo 2**32",
    "cherk_ex": "fails with CUBLAS_STATUS_INTERNAL_ERROR",
    "cherk3m_ex": "fails with CUBLAS_STATUS_INTERNAL_ERROR",
}
# 8-bit products exist for some shapes and operations only.
NARROW = ("gemm_ex", "gemm_batched_ex", "gemm_strided_batched_ex")


def check_outcome(outcome, context, name, refusal=None):
    if outcome.result == "refused":
        assert context.device.backend == "cuda"
        narrow = name in NARROW and "R_8I" in outcome.text
        assert narrow or (refusal and refusal in outcome.text), outcome.text
    else:
        assert outcome.result == "passed", f"seed {outcome.seed}: {outcome.text}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_float64(context, name):
    for seed in range(6):
        check_outcome(harness.pose(context, FUNCTIONS[name].c_name, seed), context, name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_problems_notice_a_wrong_result(context, name, monkeypatch):
    """A function that does nothing, or returns something else, fails."""
    results = len(FUNCTIONS[name].results)
    wrong = None if not results else 2.5 if results == 1 else ((2.5,) * results)
    if name.endswith(("rotmg", "rotmg_ex")):
        wrong = (1.0, 1.0, 1.0, (-1.0, 1.0, 1.0, 1.0, 1.0))
    monkeypatch.setattr(cublas, name, lambda handle, **arguments: wrong)
    outcomes = [harness.pose(context, FUNCTIONS[name].c_name, seed) for seed in range(4)]
    assert any(outcome.result == "failed" for outcome in outcomes)


def test_every_computing_function_has_a_python_one():
    """Of what takes a handle, and with both widths of integers."""
    table = abi.prototypes("cublas")
    mine = {function.c_name for function in FUNCTIONS.values()}
    mine |= {function.wide_c_name for function in FUNCTIONS.values()}
    for name, prototype in table.items():
        computes = prototype.arguments and prototype.arguments[0].type == "cublasHandle_t"
        if not computes or any(part in name for part in HANDLED_ELSEWHERE):
            continue
        assert name in mine or "Grouped" in name, f"{name} has no Python function"


def test_reference_has_what_the_table_has():
    for function in FUNCTIONS.values():
        assert reference.address("cublas", function.c_name), function.name


def test_every_function_has_a_problem():
    for function in FUNCTIONS.values():
        assert function.c_name in harness.PROBLEMS
        assert (function.wide_c_name in harness.PROBLEMS) == function.has_wide_form
    assert problems_cublas.FUNCTIONS is FUNCTIONS


@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS.values() if f.has_wide_form])
def test_wide_forms_against_float64(context, name):
    """64-bit leading dimensions and increments, which one column or element has room for."""
    for seed in range(3):
        outcome = harness.pose(context, FUNCTIONS[name].wide_c_name, seed)
        check_outcome(outcome, context, name, REFUSED_WIDE.get(name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_and_docstring(name):
    function, entry = getattr(cublas, name), FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    positional, keyword = entry.signature
    assert list(parameters) == ["handle", *(a.name for a in positional + keyword)]
    for argument in keyword:
        assert parameters[argument.name].kind is inspect.Parameter.KEYWORD_ONLY
    assert entry.c_name in function.__doc__
    assert name in cublas.__all__


def test_generated_modules_are_as_the_table_says():
    pytest.importorskip("ruff")
    script = ROOT / "scripts" / "generate_cublas.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
