"""Which algorithm: the heuristic's proposals for a product, and whether one can run at all."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import NamedTuple

from pycudnn import _core
from pycudnn.abi.cublas_enums import Status
from pycudnn.abi.types import cublasLtMatmulHeuristicResult_t
from pycudnn.cublaslt._attributes import known
from pycudnn.cublaslt._problem import Problem, read_problem
from pycudnn.cublaslt.algorithm import Algorithm
from pycudnn.cublaslt.descriptor import MatmulDescriptor
from pycudnn.cublaslt.handle import Handle
from pycudnn.cublaslt.layout import MatrixLayout
from pycudnn.cublaslt.preference import MatmulPreference
from pycudnn.cudnn._objects import integer, require
from pycudnn.device import Stream
from pycudnn.errors import LibraryMismatch, NoAlgorithm
from pycudnn.handles import check_stream

_MOST = 1000  # records of one search

_FOR_STREAM = {
    "cublasLtMatmulAlgoGetHeuristic": "cublasLtMatmulAlgoGetHeuristicForStream",
    "cublasLtMatmulAlgoCheck": "cublasLtMatmulAlgoCheckForStream",
}
_COLUMNS = ("algorithm", "tile", "stages", "split k", "workspace", "waves", "status")


class HeuristicRecord(NamedTuple):
    """One algorithm for a product (cublasLtMatmulHeuristicResult_t).

    ``workspace`` is in bytes; ``waves`` is how often the device is filled with thread blocks: 0.7
    leaves 30% of it idle. A record counts only if ``status`` is SUCCESS.
    """

    algorithm: Algorithm
    workspace: int
    waves: float
    status: Status


class HeuristicRecords(list[HeuristicRecord]):
    """The answer to one question, what is thought the fastest first; prints as a table.

    ``max_workspace_bytes`` is the limit that was asked for, to which ``best`` keeps.
    """

    def __init__(self, records: Iterable[HeuristicRecord], max_workspace_bytes: int) -> None:
        super().__init__(records)
        self.max_workspace_bytes = max_workspace_bytes

    @property
    def best(self) -> HeuristicRecord:
        """The first record that counts and keeps to the limit; NoAlgorithm if none does."""
        for record in self:
            if record.status == Status.SUCCESS and record.workspace <= self.max_workspace_bytes:
                return record
        raise NoAlgorithm(
            f"no algorithm for this product with max_workspace_bytes={self.max_workspace_bytes}, "
            f"of {len(self)} proposed"
        )

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [_COLUMNS]
        for algorithm, workspace, waves, status in self:
            texts = (getattr(i, "name", str(i)) for i in (algorithm.tile, algorithm.stages))
            rows.append(
                (
                    str(algorithm.id), *texts, str(algorithm.split_k), f"{workspace:,}",
                    f"{waves:.2f}", getattr(status, "name", str(status)),
                )
            )  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if place in (0, 3, 4, 5) else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )


def get_heuristics(
    handle: Handle,
    desc: MatmulDescriptor,
    a_layout: MatrixLayout,
    b_layout: MatrixLayout,
    c_layout: MatrixLayout | None,
    d_layout: MatrixLayout,
    preference: MatmulPreference | None = None,
    requested: int = 8,
    *,
    stream: Stream | None = None,
) -> HeuristicRecords:
    """Up to ``requested`` algorithms for a product, best first (cublasLtMatmulAlgoGetHeuristic).

    Nothing is run. ``preference`` None is ``MatmulPreference()``, whose limits come from
    ``pycudnn.config``; ``c_layout`` None is that of D. With a ``stream`` what it limits the device
    to counts (cublasLtMatmulAlgoGetHeuristicForStream, since cublasLt 13.5). Algorithms that need
    another alignment than the leading dimensions and strides have are left out.

    NotSupported if there is no algorithm, ValueError for shapes that do not fit.

        records = cublaslt.get_heuristics(handle, desc, a_layout, b_layout, None, d_layout)
        print(records)
        workspace = context.workspace(records.best.workspace)
    """
    problem = read_problem(handle, desc, a_layout, b_layout, c_layout, d_layout)
    if preference is None:
        preference = MatmulPreference(library=handle.library)
    require(preference, MatmulPreference, "preference")
    return search(handle, problem, preference, integer(requested, "requested", 1, _MOST), stream)


def search(
    handle: Handle,
    problem: Problem,
    preference: MatmulPreference,
    requested: int,
    stream: Stream | None = None,
) -> HeuristicRecords:
    """``get_heuristics`` of shapes that are checked."""
    results = (cublasLtMatmulHeuristicResult_t * requested)()
    count = ctypes.c_int()
    _ask(
        handle, "cublasLtMatmulAlgoGetHeuristic", problem, stream,
        preference, len(results), results, ctypes.byref(count),
    )  # fmt: skip
    records = (_read(handle, result) for result in results[: count.value])
    return HeuristicRecords(
        (record for record in records if _fits(record.algorithm, problem)),
        preference.max_workspace_bytes,
    )


def _fits(algorithm: Algorithm, problem: Problem) -> bool:
    """cublasLt looks at C's leading dimension only, and a kernel that faults does so for good."""
    needed = algorithm.alignments
    return all(
        layout.alignment % needed[name] == 0
        for name, layout in zip("abcd", problem.layouts, strict=True)
    )


def check_algorithm(
    handle: Handle,
    desc: MatmulDescriptor,
    a_layout: MatrixLayout,
    b_layout: MatrixLayout,
    c_layout: MatrixLayout | None,
    d_layout: MatrixLayout,
    algorithm: Algorithm,
    *,
    stream: Stream | None = None,
) -> HeuristicRecord:
    """What an algorithm needs for a product (cublasLtMatmulAlgoCheck, ...CheckForStream).

    NotSupported or CublasBadParam if it cannot run it. ``matmul`` asks this by itself.
    """
    problem = read_problem(handle, desc, a_layout, b_layout, c_layout, d_layout)
    return check(handle, problem, algorithm, stream)


def check(
    handle: Handle, problem: Problem, algorithm: Algorithm, stream: Stream | None = None
) -> HeuristicRecord:
    """``check_algorithm`` of shapes that are checked."""
    check_library(handle, algorithm)
    result = cublasLtMatmulHeuristicResult_t()
    _ask(
        handle, "cublasLtMatmulAlgoCheck", problem, stream,
        ctypes.byref(algorithm.struct), ctypes.byref(result),
    )  # fmt: skip
    return HeuristicRecord(
        algorithm, result.workspaceSize, result.wavesCount, known(Status)(result.state)
    )


def _ask(
    handle: Handle, function: str, problem: Problem, stream: Stream | None, *rest: object
) -> None:
    on_stream: tuple[object, ...] = ()
    if stream is not None:
        check_stream(handle, stream)
        function, on_stream = _FOR_STREAM[function], (stream.handle,)
    with _core.ColdCall(handle.library, handle) as call:
        call(function, handle, problem.desc, *problem.layouts, *rest, *on_stream)


def check_library(handle: Handle, algorithm: Algorithm) -> None:
    """Is it an algorithm, and of the handle's library?"""
    require(algorithm, Algorithm, "algorithm")
    if algorithm.library is not handle.library:
        raise LibraryMismatch(
            f"algorithm is of {algorithm.library!r}, this call runs on {handle.library!r}"
        )


def _read(handle: Handle, result: cublasLtMatmulHeuristicResult_t) -> HeuristicRecord:
    return HeuristicRecord(
        Algorithm._copy(handle.library, result.algo),
        result.workspaceSize,
        result.wavesCount,
        known(Status)(result.state),
    )
