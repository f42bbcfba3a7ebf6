"""Every function that needs no GPU answers as in the real library; docs/reference_differences.md
says where not, and nothing else."""

from __future__ import annotations

import differences
import differential
import pytest

from pycudnn import abi, loader
from pycudnn.abi.cudnn_enums import Status
from pycudnn.abi.types import base_and_depth

pytestmark = pytest.mark.library


@pytest.fixture(scope="module")
def answers():
    """Reference and real answer by case."""
    versions = (loader.load("cudnn").version // 100, loader.load("cublas").version // 100)
    if versions != (928, 1310):
        pytest.skip("the tables follow cuDNN 9.28 and cuBLAS 13.10")
    return differences.found()


def test_every_function_without_a_handle_is_asked():
    for name in differential.names():
        arguments = abi.prototype(abi.library_of(name), name).arguments
        given = [base_and_depth(argument.type) for argument in arguments]
        needs_gpu = any(
            base.endswith("Handle_t") or base.startswith("cudaStream") or "Fused" in base
            for base, _ in given
        )
        if name.startswith(("cublasSet", "cublasGet")) and name.endswith(COPIES):
            continue  # copies from and to a GPU
        if not needs_gpu and given and name not in differential.VALID:
            assert differential.is_create(name) or name in OTHERWISE or "Destroy" in name, name


COPIES = ("Vector", "Matrix", "Vector_64", "Matrix_64", "Async", "Async_64")
# Asked by other tests.
OTHERWISE = {
    "cudnnGetLastErrorString": "test_reference_runtime.py",
    "cudnnBackendCreateDescriptor": "graph_statuses.py",
    "cudnnBackendInitialize": "graph_statuses.py",
    "cudnnBackendFinalize": "graph_statuses.py",
    "cudnnBackendSetAttribute": "graph_statuses.py",
    "cudnnBackendGetAttribute": "graph_statuses.py",
    "cublasLoggerConfigure": "tests/cublas",
    "cublasSetLoggerCallback": "tests/cublas",
    "cublasGetLoggerCallback": "tests/cublas",
    "cublasLtMatmulAlgoCapGetAttribute": "tests/cublaslt, for an algorithm needs a handle",
    "cublasLtMatmulAlgoConfigSetAttribute": "tests/cublaslt",
    "cublasLtMatmulAlgoConfigGetAttribute": "tests/cublaslt",
    "cublasLtHeuristicsCacheSetCapacity": "tests/cublaslt: it takes as much memory as it is told",
    "cublasLtLoggerSetCallback": "tests/cublaslt",
    "cublasLtLoggerSetFile": "tests/cublaslt",
    "cublasLtLoggerOpenFile": "tests/cublaslt",
    "cublasLtLoggerSetLevel": "tests/cublaslt",
    "cublasLtLoggerSetMask": "tests/cublaslt",
}


def test_the_reference_library_never_dies(answers):
    assert len(answers) > 9000
    assert [case for case, (ours, _) in answers.items() if ours == "crash"] == []
    failed = [Status.INTERNAL_ERROR]
    assert [case for case, pair in answers.items() if pair[0] == failed != pair[1]] == []


def test_right_calls_succeed(answers):
    right = {case: pair for case, pair in answers.items() if case.endswith(" valid")}
    assert len(right) > 90
    for case, (ours, theirs) in right.items():
        assert ours[0] == theirs[0] == 0 or "GetErrorString" in case or "GetStatus" in case, case


def test_each_difference_has_a_reason(answers):
    assert differences.unexplained(answers) == []


def test_the_page_is_what_was_found(answers):
    page = differences.page(answers, differences.found_in_graphs())
    assert differences.PAGE.read_text() == page, "run tests/reference/differences.py"
