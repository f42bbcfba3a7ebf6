"""Which algorithms there are: counts, the heuristic, and searches that really run them."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np
import pytest
from c_library import CLibrary, Memory
from convolution_problem import CASES, OFFERED, PLAIN, RECORDS, ROLES, Problem
from test_convolution import assert_near

from pycudnn.abi.cudnn_enums import DataType, Determinism, MathType, Status

COUNTS = {"Forward": 8, "BackwardData": 6, "BackwardFilter": 7}
SUCCESS = Status.SUCCESS


class Search:
    """A search on a problem, into an array of records with a canary behind it."""

    def __init__(self, problem: Problem, handle: Any, direction: str) -> None:
        self.problem, self.handle, self.direction = problem, handle, direction
        self.operands = [problem.put(role) for role in ROLES[direction]]
        self.returned = ctypes.c_int(-1)
        self.records = (RECORDS[direction] * 20)()
        ctypes.memset(self.records, 0xA5, ctypes.sizeof(self.records))

    def status(self, kind: str, requested: int, workspace: Memory | None = None) -> int:
        """kind is "Get" (the heuristic), "Find" or "FindEx"."""
        suffix = {"Get": "Algorithm_v7", "Find": "Algorithm", "FindEx": "AlgorithmEx"}[kind]
        name = f"cudnn{kind.removesuffix('Ex')}Convolution{self.direction}{suffix}"
        arguments = [
            value
            for operand in self.operands
            for value in (operand.arguments if kind == "FindEx" else (operand.descriptor,))
        ]
        arguments.insert(4 if kind == "FindEx" else 2, self.problem.conv)
        arguments += [requested, ctypes.byref(self.returned), self.records]
        if kind == "FindEx":
            size = len(workspace.read()) if workspace else 0
            arguments += [workspace.address if workspace else None, size]
        return getattr(self.problem.library, name)(self.handle, *arguments)

    def found(self, kind: str, requested: int = 20, workspace: Memory | None = None) -> list[Any]:
        status = self.status(kind, requested, workspace)
        assert status == SUCCESS, self.problem.library.last_error()
        found = list(self.records)[: self.returned.value]
        behind = bytes(self.records)[len(found) * ctypes.sizeof(self.records[0]) :]
        assert set(behind) <= {0xA5}, "written behind the records"
        return found


@pytest.fixture(params=list(OFFERED))
def direction(request) -> str:
    return request.param


@pytest.fixture
def search(lib: CLibrary, handle, rng, direction) -> Search:
    return Search(Problem(lib, PLAIN, rng), handle, direction)


def test_c5_max_count(lib: CLibrary, handle, direction) -> None:
    """At least one record for each algorithm; a GPU has more, for its math types."""
    count = ctypes.c_int()
    lib.check(f"cudnnGetConvolution{direction}AlgorithmMaxCount", handle, ctypes.byref(count))
    assert count.value >= COUNTS[direction]
    assert lib.backend == "cuda" or count.value == COUNTS[direction]


@pytest.mark.parametrize("kind", ["Get", "Find"])
def test_c5_every_algorithm_has_a_record(search: Search, kind) -> None:
    found = search.found(kind)
    assert {record.algo for record in found} == set(range(COUNTS[search.direction]))
    succeeded = [record.status == SUCCESS for record in found]
    assert sorted(succeeded, reverse=True) == succeeded, "those that failed come last"
    assert succeeded[0]


@pytest.mark.parametrize("kind", ["Get", "Find", "FindEx"])
def test_c5_no_more_records_than_asked_for(search: Search, kind) -> None:
    for requested in (1, 2, 3):
        assert len(search.found(kind, requested)) == requested
        ctypes.memset(search.records, 0xA5, ctypes.sizeof(search.records))


def test_heuristic(search: Search, handle) -> None:
    """Time -1, and the workspace that the algorithm asks for."""
    for record in search.found("Get"):
        assert record.time == -1
        if record.status == SUCCESS:
            size = search.problem.workspace_size(handle, search.direction, record.algo)
            assert record.memory == size


def test_what_the_reference_offers(rng, direction) -> None:
    lib = CLibrary("reference")
    search = Search(Problem(lib, PLAIN, rng), lib.create(""), direction)
    for kind in ("Get", "Find"):
        for record in search.found(kind):
            offered = record.algo in OFFERED[direction]
            assert record.status == (SUCCESS if offered else Status.NOT_SUPPORTED)
            assert record.determinism == Determinism.DETERMINISTIC
            assert list(record.reserved) == [0, 0, 0]
            assert offered or (record.time, record.memory) == (-1, 0)


def test_the_math_type_is_reported(rng, direction) -> None:
    lib = CLibrary("reference")
    problem = Problem(lib, PLAIN, rng)
    for math_type in MathType:
        lib.check("cudnnSetConvolutionMathType", problem.conv, math_type)
        found = Search(problem, lib.create(""), direction).found("Get")
        assert {record.mathType for record in found} == {math_type}


def test_find_measures_and_sorts(search: Search) -> None:
    times = [record.time for record in search.found("Find") if record.status == SUCCESS]
    assert min(times) > 0
    assert sorted(times) == times


def test_find_reports_milliseconds(search: Search) -> None:
    """Each algorithm ran within the call, so the times cannot add up to more than it took."""
    began = time.perf_counter()
    found = search.found("Find")
    took = 1000 * (time.perf_counter() - began)
    assert 1e-4 < sum(record.time for record in found if record.status == SUCCESS) < took


def test_find_ex_leaves_the_result(lib: CLibrary, handle, rng, direction) -> None:
    problem = Problem(lib, CASES["strided"], rng)
    search = Search(problem, handle, direction)
    search.operands[2] = problem.put(
        ROLES[direction][2], np.full(problem.sizes.shape(ROLES[direction][2]), np.nan)
    )
    search.found("FindEx", workspace=Memory(lib, np.zeros(1 << 22, np.uint8)))
    assert_near(problem, direction, search.operands[2].read(), problem.exact(direction))


def test_c6_find_ex_in_a_small_workspace(search: Search) -> None:
    """One that needs more than there is has its own status; what fits is measured."""
    needs = {record.algo: record.memory for record in search.found("Get")}
    for size in (0, 1, 400):
        ctypes.memset(search.records, 0xA5, ctypes.sizeof(search.records))
        space = Memory(search.problem.library, np.zeros(size, np.uint8)) if size else None
        for record in search.found("FindEx", workspace=space):
            assert (record.time > 0) == (record.status == SUCCESS)
            if record.status == SUCCESS:
                assert record.memory <= size
            elif record.status != Status.NOT_SUPPORTED:
                assert record.status == Status.INTERNAL_ERROR_UNEXPECTED_VALUE
                assert record.memory == needs[record.algo] > size


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "padded"])
@pytest.mark.parametrize("data_type", [DataType.DOUBLE, DataType.BFLOAT16])
def test_find_on_any_layout_and_type(rng, direction, data_type, layout) -> None:
    lib = CLibrary("reference")
    problem = Problem(lib, CASES["grouped"], rng, data_type, layout)
    found = Search(problem, lib.create(""), direction).found("Find")
    assert [record.status for record in found].count(SUCCESS) == len(OFFERED[direction])


def test_requests_that_make_no_sense(rng, direction) -> None:
    lib = CLibrary("reference")
    search = Search(Problem(lib, PLAIN, rng), lib.create(""), direction)
    for kind in ("Get", "Find", "FindEx"):
        for requested in (0, -1):
            assert search.status(kind, requested) == Status.BAD_PARAM
            assert f"requestedAlgoCount is {requested}" in lib.last_error()
    search.records = None
    assert search.status("Get", 1) == Status.BAD_PARAM
