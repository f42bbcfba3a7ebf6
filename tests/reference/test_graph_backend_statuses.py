"""Backend descriptors answer as those of the real libcudnn, in every case that needs no GPU.

``graph_statuses`` lists the cases: each attribute of each kind with every type, with several
counts, NULL, invalid enums, descriptors of the wrong kind, gets before finalizing, and all
attributes of other kinds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from graph_reasons import LACKING, graph_reason

from pycudnn import loader
from pycudnn.abi.cudnn_enums import Status

SCRIPT = Path(__file__).with_name("graph_statuses.py")


def statuses(backend: str) -> dict[str, int | str]:
    command = [sys.executable, str(SCRIPT), backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def reference() -> dict[str, int | str]:
    return statuses("reference")


def test_nothing_crashes(reference: dict[str, int | str]) -> None:
    assert len(reference) > 20_000
    assert "crash" not in reference.values()
    assert Status.INTERNAL_ERROR not in reference.values()


@pytest.mark.library
def test_statuses_are_those_of_libcudnn(reference: dict[str, int | str]) -> None:
    if loader.load("cudnn").version // 100 != 928:
        pytest.skip("the tables follow cuDNN 9.28")
    real = statuses("cuda")
    assert reference.keys() == real.keys()
    differences = {case: (reference[case], real[case]) for case in real}
    differences = {case: pair for case, pair in differences.items() if pair[0] != pair[1]}
    unexplained = {
        case: pair for case, pair in differences.items() if graph_reason(case, *pair) is None
    }
    assert unexplained == {}


def test_what_the_real_library_dies_of_is_refused(reference: dict[str, int | str]) -> None:
    wrong = {case: status for case, status in reference.items() if case.startswith("wrong kind")}
    allowed = {
        Status.BAD_PARAM_DESCRIPTOR_TYPE,
        Status.BAD_PARAM_NOT_FINALIZED,  # asked first, as in the real library
        Status.NOT_INITIALIZED,
    }
    assert len(wrong) > 100
    assert set(wrong.values()) <= allowed


def test_kinds_that_are_not_here(reference: dict[str, int | str]) -> None:
    for kind in LACKING:
        assert reference[f"create {int(kind)}"] == Status.NOT_SUPPORTED
