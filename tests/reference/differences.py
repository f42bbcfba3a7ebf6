#!/usr/bin/env python
"""Write docs/reference_differences.md: where the reference library answers unlike the real one.

Needs the real libraries, of the versions that the page names, and no GPU. Every difference that
differential.py and graph_statuses.py find must have a reason here; the tests compare the page with
what they find.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import differential
from graph_reasons import graph_reason

from pycudnn import abi
from pycudnn.abi import cublas_enums, cudnn_enums
from pycudnn.abi.cudnn_enums import BackendDescriptorType as Kind

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference_differences.md"
CUDNN, CUBLAS = "9.28", "13.10"  # what the tables of the reference library follow


class Reason(NamedTuple):
    """Why some answers differ; ``shows``: the real library's answer is the same in each run."""

    title: str
    text: str
    applies: Callable[[str, Any, Any], bool]
    shows: bool = True


def _is_overrun(label: str, ours: Any, theirs: Any) -> bool:
    function, argument, *change = label.split()
    return (
        function == "cudnnSetSpatialTransformerNdDescriptor"
        and argument == "nbDims"
        and not 0 <= int(change[-1]) <= 8
    )


# The first that applies counts.
REASONS = (
    Reason(
        "Descriptors that are none",
        "A descriptor that was destroyed, or is of another kind. The real library looks at the "
        "memory: it takes it for one of its own, which mostly succeeds, or dies. The reference "
        "library knows each descriptor and answers as it does to NULL.",
        lambda label, ours, theirs: label.endswith((" foreign", " destroyed")),
        shows=False,
    ),
    Reason(
        "Descriptors that are overrun",
        "The real library writes past the end of the descriptor, and may die of it then or later. "
        "The reference library refuses more than 8 dimensions; fewer than 0 it takes for none.",
        _is_overrun,
        shows=False,
    ),
    Reason(
        "What kills the process",
        "The real library reads or writes through NULL, or past an array. The reference library "
        "answers with a status.",
        lambda label, ours, theirs: theirs == "crash",
    ),
    Reason(
        "Of the library itself",
        "There is no device code in the reference library, and no CUDA runtime.",
        lambda label, ours, theirs: label.startswith(
            ("cudnnGetMaxDeviceVersion", "cudnnGetCudartVersion")
        ),
        shows=False,
    ),
    Reason(
        "Texts of cuBLAS's statuses",
        "They are in words of our own.",
        lambda label, ours, theirs: "GetStatusString" in label,
        shows=False,
    ),
    Reason(
        "What was there before",
        "Setting a descriptor to fewer dimensions leaves the old numbers of the others in the real "
        "library, and asking for more than there are reads them. In the reference library they "
        "are 0.",
        lambda label, ours, theirs: ours[0] == theirs[0] == 0 and len(ours) > 1,
    ),
    Reason(
        "Several wrong arguments in one call",
        "Here every argument is 0 or NULL, the handle as well. Which of them is told first, and "
        "whether a call with nothing to do looks at them at all, differs.",
        lambda label, ours, theirs: label.endswith(" zeros"),
    ),
    Reason(
        "Marks of no value",
        "A batch mode of all ones is the real library's mark that there is none. The reference "
        "library keeps the number, as the real one does with any other.",
        lambda label, ours, theirs: "BATCH_MODE of 4 bytes = -1" in label,
    ),
)


def found() -> dict[str, tuple[Any, Any]]:
    """Answers of the reference and the real library to every case that can be compared.

    Left out is what the real library cannot do without a GPU.
    """
    names = json.dumps(differential.names())
    ours, theirs = (_run("differential.py", side, names) for side in ("reference", "cuda"))
    needs_gpu = [differential.NEEDS_GPU]
    return {case: (ours[case], theirs[case]) for case in ours if theirs[case] != needs_gpu}


def found_in_graphs() -> dict[str, tuple[Any, Any]]:
    """The same of backend descriptors."""
    ours, theirs = (_run("graph_statuses.py", side) for side in ("reference", "cuda"))
    return {case: (ours[case], theirs[case]) for case in ours}


def _run(script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


# ---- the page ------------------------------------------------------------------------------------


def reason_of(case: str, ours: Any, theirs: Any) -> Reason | None:
    """Why an answer may differ, also where it happens not to; None: it may not."""
    certain = next((r for r in REASONS if not r.shows and r.applies(case, ours, theirs)), None)
    if certain or ours == theirs:
        return certain
    return next((r for r in REASONS if r.applies(case, ours, theirs)), None)


def unexplained(answers: dict[str, tuple[Any, Any]]) -> list[str]:
    """The differences that have no reason."""
    return [
        f"{case}: {ours}, really {theirs}"
        for case, (ours, theirs) in answers.items()
        if ours != theirs and reason_of(case, ours, theirs) is None
    ]


def page(answers: dict[str, tuple[Any, Any]], of_graphs: dict[str, tuple[Any, Any]]) -> str:
    """The page's text."""
    return "\n".join([*_introduction(len(answers) + len(of_graphs)), *_sections(answers),
                      *_graph_sections(of_graphs)]).rstrip() + "\n"  # fmt: skip


def _introduction(count: int) -> Iterator[str]:
    yield "# Where the reference library answers otherwise"
    yield ""
    yield from textwrap.wrap(
        f"Made by `python tests/reference/differences.py` from some {count // 1000},000 calls of "
        f"functions that need no GPU, each made in the reference library and in cuDNN {CUDNN} and "
        f"cuBLAS {CUBLAS}: right calls, and the same with one argument changed. Status and result "
        "are the same but for what is listed here; a test fails where they differ and the page "
        "does not say so, and where it says so and they do not. What computes is compared in "
        "numbers, by the conformance problems.",
        108,
    )
    yield ""


def _sections(answers: dict[str, tuple[Any, Any]]) -> Iterator[str]:
    for reason in REASONS:
        rows: dict[tuple[str, str, str], list[str]] = {}
        for case, (ours, theirs) in answers.items():
            if reason_of(case, ours, theirs) is reason:
                function, _, change = case.partition(" ")
                shown = _shown(function, theirs) if reason.shows else ""
                rows.setdefault((function, _shown(function, ours), shown), []).append(change)
        yield f"## {reason.title}"
        yield ""
        yield from textwrap.wrap(reason.text, 108)
        yield ""
        yield from _table(rows, reason.shows)
        yield ""


def _table(rows: dict[tuple[str, str, str], list[str]], shows: bool) -> Iterator[str]:
    heads = ["function", "changed", "reference", *(["real"] if shows else [])]
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join(['---'] * len(heads))} |"
    grouped: dict[tuple[str, ...], list[str]] = {}
    for (function, ours, theirs), changes in rows.items():  # functions with one row in common
        cells = (_joined(changes), ours, *([theirs] if shows else []))
        grouped.setdefault(cells, []).append(function)
    for cells, functions in grouped.items():
        yield f"| {', '.join(functions)} | {' | '.join(cells)} |"


def _joined(changes: list[str]) -> str:
    """Changes of one argument together: ``n = 0, = 1``."""
    whole = {"zeros": "everything is 0", "valid": "nothing"}
    by_argument: dict[str, list[str]] = {}
    for change in changes:
        argument, _, value = whole.get(change, change).partition(" ")
        by_argument.setdefault(argument, []).append(value)
    return "; ".join(
        f"{name} {', '.join(values)}".strip() for name, values in by_argument.items()
    )


def _shown(function: str, answer: Any) -> str:
    if answer == "crash":
        return "dies"
    if isinstance(answer[0], str) or "Version" in function and "_v2" not in function:
        return str(answer[0])
    statuses = cudnn_enums.Status if abi.library_of(function) == "cudnn" else cublas_enums.Status
    if len(answer) == 1:
        return statuses(answer[0]).name
    return " ".join(json.dumps(answer[-1]).replace("|", "/").split())


def _graph_sections(of_graphs: dict[str, tuple[Any, Any]]) -> Iterator[str]:
    yield "## Backend descriptors"
    yield ""
    reasons: dict[str, dict[str, list[str]]] = {}
    for case, (ours, theirs) in of_graphs.items():
        reason = graph_reason(case, ours, theirs)
        if ours != theirs and reason:
            what, first, *rest = case.split()
            if what == "create":
                first, rest = "cudnnBackendCreateDescriptor", [_kind(int(first))]
            name = f"{what} {first}" if what not in ("create", "wrong") else first
            if what == "wrong":  # "wrong kind DESCRIPTOR ATTRIBUTE GIVEN"
                name, rest = rest[0], rest[1:2]
            reasons.setdefault(reason, {}).setdefault(name, []).append(" ".join(rest))
    for reason, rows in reasons.items():
        yield f"{reason[0].upper()}{reason[1:]}:"
        yield ""
        for name, changes in rows.items():
            text = f"- {name}: {', '.join(dict.fromkeys(changes))}"
            yield from textwrap.wrap(text, 108, subsequent_indent="  ", break_long_words=False)
        yield ""


def _kind(number: int) -> str:
    return Kind(number).name if number in tuple(Kind) else str(number)


def main() -> None:
    """Write the page; the differences without a reason end it."""
    answers, of_graphs = found(), found_in_graphs()
    left = unexplained(answers)
    if left:
        sys.exit("\n".join(left))
    PAGE.write_text(page(answers, of_graphs))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
