"""How many C functions of each header pycudnn has, and which it lacks.

Four counts per header: the functions that the tables declare, those that the real library found
here exports, those that the reference library implements, and those that the object face calls.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycudnn import abi, loader, reference
from pycudnn.abi.prototypes import Prototype
from pycudnn.errors import LibraryNotFound

_PACKAGE = Path(__file__).parent
# Not the object face: the tables, the other ways to call, and this module.
_OTHERS = ("abi", "reference", "raw.py", "coverage.py", "show_config.py", "_prototypes.pxd")


@dataclass(frozen=True)
class Row:
    """The functions of one header. `known` and `exported` are None where no library loads."""

    library: str  # "cudnn", "cublas" or "cublaslt"
    version: str | None  # of the real library found here
    header: str
    declared: tuple[str, ...]  # by the newest headers that pycudnn's tables were made from
    known: tuple[str, ...] | None  # those that this version's headers declare
    exported: tuple[str, ...] | None
    reference: tuple[str, ...]
    face: tuple[str, ...]

    @property
    def lacking(self) -> dict[str, list[str]]:
        """Declared functions that are not there, by place."""
        places = {"reference": self.reference, "face": self.face}
        if self.exported is not None:
            places["exported"] = self.exported
        return {
            place: [name for name in self.declared if name not in names]
            for place, names in places.items()
        }

    def counts(self) -> dict[str, Any]:
        """The row with numbers for names."""
        return {
            key: len(value) if isinstance(value, tuple) else value
            for key, value in vars(self).items()
        }

    def as_json(self, missing: bool) -> dict[str, Any]:
        """The counts and, with `missing`, the names of the functions that are not there."""
        return self.counts() | ({"missing": self.lacking} if missing else {})


def coverage() -> list[Row]:
    """One row per header of cuDNN, cuBLAS and cublasLt."""
    called = face_functions()
    rows: list[Row] = []
    for library in loader.TITLES:
        try:
            found = loader.load(library)
        except LibraryNotFound:
            found = None
        table = abi.prototypes(library).values()
        for header, group in itertools.groupby(table, key=lambda proto: proto.header):
            functions = list(group)
            rows.append(
                Row(
                    library,
                    loader.version_text(found.version) if found else None,
                    header,
                    _names(functions),
                    _names(p for p in functions if _since(p) <= found.version) if found else None,
                    _names(p for p in functions if hasattr(found.cdll, p.name)) if found else None,
                    _names(p for p in functions if reference.address(library, p.name)),
                    _names(p for p in functions if p.name in called),
                )
            )
    return rows


def _names(functions: Iterable[Prototype]) -> tuple[str, ...]:
    return tuple(proto.name for proto in functions)


def _since(proto: Prototype) -> int:
    return loader.version_number(proto.since)


# ---- the object face -----------------------------------------------------------------------------


def face_functions() -> set[str]:
    """The C functions that the object face calls, read off its sources.

    A function counts if its name stands in them as a string, whole or put together: an f-string's
    placeholders are filled with the other strings of the sources (`f"cudnnCreate{noun}"` is
    cudnnCreateDropoutDescriptor because "DropoutDescriptor" is there). cuBLAS's functions are
    those of its own table.
    """
    declared = {name for library in loader.TITLES for name in abi.prototypes(library)}
    words: set[str] = set()
    patterns: set[str] = set()
    for text in _strings():
        if "{" not in text:
            words.add(text)
        elif abi.library_of(text):
            patterns.add(re.sub(r"\\\{\\\}", r"(\\w+)", re.escape(text)))
    found = words & declared
    for pattern, name in itertools.product(patterns, declared):
        match = re.fullmatch(pattern, name)
        if match and words.issuperset(match.groups()):
            found.add(name)
    return found | _cublas_functions()


def _strings() -> Iterator[str]:
    """The strings of the sources, with {} for what an f-string puts in."""
    for path in sorted(_PACKAGE.rglob("*.py*")):
        if path.relative_to(_PACKAGE).parts[0] in _OTHERS:
            continue
        if path.suffix == ".pyx":  # not Python: its names are plain strings
            yield from re.findall(r'"(\w+)"', path.read_text(encoding="utf-8"))
        elif path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(
                        str(part.value) if isinstance(part, ast.Constant) else "{}"
                        for part in node.values
                    )


def _cublas_functions() -> set[str]:
    """The C functions of pycudnn.cublas's own table, with their forms for 64-bit sizes."""
    from pycudnn.cublas._functions import FUNCTIONS

    names = {name for f in FUNCTIONS.values() for name in (f.c_name, f.wide_c_name)}
    return names & set(abi.prototypes("cublas"))


# ---- what `python -m pycudnn --coverage` prints --------------------------------------------------

COLUMNS = ("library", "version", "header", "declared", "known", "exported", "reference", "face")


def table(rows: list[Row]) -> list[tuple[str, ...]]:
    """The counts as text, a line per header and one per library; the first line has the titles."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for _, group in itertools.groupby(rows, key=lambda row: row.library):
        counts = [row.counts() for row in group]
        total = dict(counts[0], header="all")
        for column in COLUMNS[3:]:
            numbers = [row[column] for row in counts]
            total[column] = None if None in numbers else sum(numbers)
        for row in [*counts, total] if len(counts) > 1 else counts:
            cells = dict(row, library=loader.TITLES[row["library"]])
            lines.append(
                tuple("-" if cells[name] is None else str(cells[name]) for name in COLUMNS)
            )
    return lines


def print_coverage(missing: bool = False) -> None:
    """Print the table and, with `missing`, the functions that are not there, by header."""
    rows = coverage()
    lines = table(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    print(
        "declared: in the newest headers; known: of those, in the headers of this version; face: "
        "called by the object face"
    )
    for row in rows if missing else ():
        for place, names in row.lacking.items():
            where = {"exported": f"{loader.TITLES[row.library]} {row.version}"}.get(place, place)
            print(f"\n{row.header}, not in {where}: {len(names)}")
            for name in names:
                print(f"  {name}")
