"""find_algorithm: the records of a search, sorted as one likes, shown as a table, remembered."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pycudnn.abi.cudnn_enums import (
    ConvolutionBwdDataAlgo,
    ConvolutionBwdFilterAlgo,
    ConvolutionFwdAlgo,
    Determinism,
    MathType,
    Status,
)
from pycudnn.cudnn import algorithms
from pycudnn.cudnn._objects import LONG_MAX, finite, integer, member, require
from pycudnn.cudnn.algorithms import (
    AlgorithmPerformance,
    check_descriptors,
    limits,
    select_algorithm,
)
from pycudnn.cudnn.convolution import ConvolutionDescriptor
from pycudnn.cudnn.handle import Handle

DIRECTIONS = ("forward", "backward_data", "backward_filter")
SEARCHES = ("heuristic", "find")

_ALGORITHMS: dict[
    str, type[ConvolutionFwdAlgo] | type[ConvolutionBwdDataAlgo] | type[ConvolutionBwdFilterAlgo]
] = {
    "forward": ConvolutionFwdAlgo,
    "backward_data": ConvolutionBwdDataAlgo,
    "backward_filter": ConvolutionBwdFilterAlgo,
}
_FUNCTIONS = {
    "heuristic": "get_convolution_{}_algorithm_v7",
    "find": "find_convolution_{}_algorithm",
}
_SETTINGS = ("padding", "stride", "dilation", "groups", "mode", "compute_type", "math_type")


class AlgorithmRecords(list[AlgorithmPerformance]):
    """The records of one search, best first; ``sort`` and slices work as in any list.

    ``workspace_limit`` and ``deterministic`` are those that ``best`` keeps to.
    """

    def __init__(
        self,
        records: Iterable[AlgorithmPerformance],
        workspace_limit: int | None = None,
        deterministic: bool = False,
    ) -> None:
        super().__init__(records)
        self.workspace_limit = workspace_limit
        self.deterministic = deterministic

    @property
    def best(self) -> AlgorithmPerformance:
        """The first record within the limits (``select_algorithm``); NoAlgorithm if none is."""
        return select_algorithm(
            self, workspace_limit=self.workspace_limit, deterministic=self.deterministic
        )

    def __str__(self) -> str:
        """A table; the time of a record that was only ranked is n/a."""
        heads = ("algorithm", "time ms", "workspace", "math type", "determinism", "status")
        rows = [
            (
                record.algorithm.name,
                "n/a" if record.time is None else f"{record.time:.4f}",
                f"{record.memory:,}",
                record.math_type.name,
                record.determinism.name,
                record.status.name,
            )
            for record in self
        ]
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = []
        for row in (heads, *rows):
            cells = (
                cell.rjust(width) if place in (1, 2) else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


class AlgorithmCache:
    """Searches by all that their answer depends on; can be saved and loaded.

    The key is the direction, the kind of search, shapes, strides and data types, padding, stride,
    dilation, groups, mode, compute and math type, the device and library, the workspace limit and
    the wanted determinism. ``searches`` counts those that were really made.
    """

    def __init__(self) -> None:
        self.searches = 0
        self._records: dict[str, list[AlgorithmPerformance]] = {}
        self._lock = threading.Lock()

    def get(
        self, key: str, search: Callable[[], list[AlgorithmPerformance]]
    ) -> list[AlgorithmPerformance]:
        """The records under a key, a text in JSON, by searching if there are none yet."""
        require(key, str, "key")
        with self._lock:
            known = self._records.get(key)
        if known is None:
            try:
                json.loads(key)  # ``save`` writes it as such
            except ValueError:
                raise ValueError(f"key must be JSON, got {key!r}") from None
            known = search()
            with self._lock:
                self.searches += 1
                self._records[key] = known
        return known

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._records.clear()
            self.searches = 0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all records as JSON, for a later process on the same device and library."""
        with self._lock:
            entries = [
                {"key": json.loads(key), "records": [[*map(_plain, record)] for record in records]}
                for key, records in self._records.items()
            ]
        Path(path).write_text(json.dumps(entries, indent=1) + "\n")

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add the records of a saved file; ValueError names the file that is not one."""
        try:
            entries = json.loads(Path(path).read_text())
            if not isinstance(entries, list):
                raise TypeError("it holds no list")
            found = {
                json.dumps(entry["key"]): [
                    _record(entry["key"][0], *record) for record in entry["records"]
                ]
                for entry in entries
            }
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise ValueError(f"{path} is no saved algorithm cache: {error!r}") from None
        with self._lock:
            self._records.update(found)

    def __len__(self) -> int:
        return len(self._records)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, int) else value


def _record(
    direction: str,
    algorithm: int,
    status: int,
    time: float | None,
    memory: int,
    determinism: int,
    math_type: int,
) -> AlgorithmPerformance:
    kind = _ALGORITHMS[direction]
    if time is not None:
        finite(time, "time", 0.0)
    return AlgorithmPerformance(
        kind(integer(algorithm, "algorithm", 0, kind.COUNT - 1)),
        member(Status, status, "status"),
        time,
        integer(memory, "memory", 0, LONG_MAX),
        member(Determinism, determinism, "determinism"),
        member(MathType, math_type, "math_type"),
    )


algorithm_cache = AlgorithmCache()


def find_algorithm(
    direction: str,
    handle: Handle,
    first_desc: Any,
    second_desc: Any,
    conv: ConvolutionDescriptor,
    last_desc: Any,
    *,
    search: str = "find",
    workspace_limit: int | None = None,
    deterministic: bool | None = None,
    cache: AlgorithmCache | None = algorithm_cache,
) -> AlgorithmRecords:
    """Which algorithms one convolution can run with, best first, each with its cost.

    ``direction`` is "forward" (x_desc, w_desc, conv, y_desc), "backward_data" (w_desc, dy_desc,
    conv, dx_desc) or "backward_filter" (x_desc, dy_desc, conv, dw_desc); the descriptors are in C
    order. ``search`` "find" runs and times every algorithm on memory of its own
    (cudnnFindConvolution...Algorithm), "heuristic" only ranks (cudnnGetConvolution..._v7), and its
    times are None. ``workspace_limit`` in bytes and ``deterministic`` bound ``records.best``; None
    is what ``pycudnn.config`` says. All records are returned, also those that failed.

    The answer is remembered in ``cache``; None searches anew. NotSupported during a capture. Where
    memory is short, cuDNN's own search fails: use ``search="heuristic"``, or
    ``find_convolution_..._algorithm_ex`` with a workspace of the size there is.

        records = cudnn.find_algorithm("forward", handle, x_desc, w_desc, conv, y_desc)
        print(records)
        records.sort(key=lambda record: record.memory)
    """
    for name, value, known in (("direction", direction, DIRECTIONS), ("search", search, SEARCHES)):
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}")
    require(handle, Handle, "handle")
    descriptors = (first_desc, second_desc, conv, last_desc)
    check_descriptors(
        algorithms.DIRECTIONS[direction], descriptors,
        ("first_desc", "second_desc", "conv", "last_desc"),
    )  # fmt: skip
    if cache is not None:
        require(cache, AlgorithmCache, "cache")
    limit, repeatable = limits(workspace_limit, deterministic)
    function = getattr(algorithms, _FUNCTIONS[search].format(direction))

    def run() -> list[AlgorithmPerformance]:
        found: list[AlgorithmPerformance] = function(handle, *descriptors)
        return found

    if cache is None:
        records = run()
    else:
        records = cache.get(_key(direction, search, handle, descriptors, limit, repeatable), run)
    return AlgorithmRecords(records, limit, repeatable)


def _key(
    direction: str,
    search: str,
    handle: Handle,
    descriptors: tuple[Any, ...],
    workspace_limit: int | None,
    deterministic: bool,
) -> str:
    first, second, conv, last = descriptors
    tensors = [
        (list(each.shape), list(each.strides), int(each.dtype_code))
        for each in (first, second, last)
    ]
    settings = [getattr(conv, name) for name in _SETTINGS]
    return json.dumps(
        [
            direction, search, tensors, [str(value) for value in settings],
            handle.device.name, handle.device.index, handle.library.backend,
            handle.library.version, workspace_limit, deterministic,
        ]
    )  # fmt: skip
