"""Fixtures that every part shares: which backend, a context on it, fresh random numbers."""

from __future__ import annotations

import os
import secrets
from collections import Counter

import numpy as np
import pytest

from pycudnn import CudaContext, loader
from pycudnn.errors import LibraryNotFound


def _gpu_missing() -> str | None:
    """Why no test can run on a GPU here, or None."""
    try:
        from cuda.bindings import runtime
    except ImportError:
        return "cuda-python is not installed"
    error, count = runtime.cudaGetDeviceCount()
    if error != runtime.cudaError_t.cudaSuccess or not count:
        return f"no GPU ({error.name})"
    return None


def _library_missing() -> str | None:
    """Why the real libcudnn cannot be tested here, or None."""
    try:
        loader.load("cudnn")
    except LibraryNotFound as error:
        return str(error).splitlines()[0]
    return None


GPU_MISSING = _gpu_missing()
LIBRARY_MISSING = _library_missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, reason in (("gpu", GPU_MISSING), ("library", LIBRARY_MISSING)):
        if reason:
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=f"{marker} tier: {reason}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the closing lines which tiers ran, and why anything was skipped."""
    tiers = ["reference"]
    tiers.append("library" if LIBRARY_MISSING is None else f"no library ({LIBRARY_MISSING})")
    tiers.append("gpu" if GPU_MISSING is None else f"no gpu ({GPU_MISSING})")
    terminalreporter.write_line(f"tiers: {', '.join(tiers)}")
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")


def pytest_report_header() -> str:
    return f"random seed: {SEED} (PYCUDNN_TEST_SEED repeats it)"


SEED = int(os.environ.get("PYCUDNN_TEST_SEED") or secrets.randbits(32))

BACKENDS = ["reference", pytest.param("cuda", marks=pytest.mark.gpu)]
# The libraries whose descriptors can be tested here: the real one needs no GPU for that.
LIBRARIES = ["reference", pytest.param("cuda", marks=pytest.mark.library)]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """A backend that can compute: the reference library, or cuDNN on a GPU."""
    return request.param


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    """A backend whose descriptors exist: the reference library, or the real libcudnn."""
    return request.param


@pytest.fixture(scope="session")
def has_gpu() -> bool:
    """Is there a GPU to run on?"""
    return GPU_MISSING is None


@pytest.fixture
def context(backend: str):
    """A CudaContext of the backend, closed afterwards."""
    with CudaContext(backend) as made:
        yield made


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh random numbers; the header names the seed that repeats them."""
    return np.random.default_rng([SEED, *request.node.nodeid.encode()])
