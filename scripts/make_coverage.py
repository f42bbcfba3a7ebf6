"""Write docs/coverage.md: what pycudnn has of each C header, and what each library version exports.

    python scripts/make_coverage.py

The columns of declared functions, reference library and object face come from this checkout, those
of the library versions from benchmarks/results/coverage-*.json, which scripts/test_versions.py
writes.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import results  # noqa: E402

from pycudnn import coverage, loader  # noqa: E402

DOCUMENT = ROOT / "docs" / "coverage.md"
HEAD = """# Coverage

Made by `python scripts/make_coverage.py` (`make coverage`); `python -m pycudnn --coverage` prints
the same for the libraries of a machine, and `--missing` with it names the functions.

Every function that NVIDIA's headers declare is in `pycudnn.raw`. *Reference* counts those that the
reference library computes, *object face* those that the classes and functions of `pycudnn.cudnn`,
`pycudnn.cublas` and their like call.

Some functions stay out of the object face on purpose. The `_internal` ones of cublasLt initialise
descriptors in memory of the caller's, which their constructors do by other functions. Grouped
matrix layouts keep their sizes on the device, where nothing can be checked before a call.
"""
EXPORTED = """## Library versions

Functions that a version exports, of those that its own headers declare. A function that is not in
a library raises `FunctionNotFound` when it is used, with the version that has it.
`cublasLtDisableCpuInstructionsSetMask` is declared in cublasLt.h and exported by no version.
"""


def has(rows: list[coverage.Row]) -> str:
    """The table of what pycudnn has."""
    lines: list[results.Row] = []
    for library, group in itertools.groupby(rows, key=lambda row: row.library):
        mine = [
            {
                "library": loader.TITLES[library],
                "header": f"{row.header}.h",
                "declared": len(row.declared),
                "reference": len(row.reference),
                "object face": len(row.face),
            }
            for row in group
        ]
        lines += mine
        if len(mine) > 1:
            sums = {name: sum(line[name] for line in mine) for name in list(mine[0])[2:]}
            lines.append({"library": loader.TITLES[library], "header": "all"} | sums)
    return results.markdown(lines)


def exports(recorded: list[results.Row]) -> str:
    """The table of what the libraries have, a column per version that was seen."""
    lines: dict[str, results.Row] = {}
    for row in recorded:
        line = lines.setdefault(row["header"], {"header": f"{row['header']}.h"})
        column = f"{row['version']}, CUDA {row['cuda']}"
        line[column] = f"{row['exported']} of {row['known']}"
    by_columns = itertools.groupby(lines.values(), key=lambda line: list(line))
    return "\n\n".join(results.markdown(list(group)) for _, group in by_columns)


def lacking(rows: list[coverage.Row]) -> str:
    """The functions that the reference library and the object face lack, by header."""
    parts = []
    for place, title in (("reference", "reference library"), ("face", "object face")):
        parts.append(f"## Not in the {title}\n")
        for row in rows:
            names = row.lacking[place]
            if names:
                text = textwrap.fill(", ".join(names), 100, break_long_words=False)
                parts.append(f"**{row.header}.h**, {len(names)}:\n{text}\n")
    return "\n".join(parts)


def make() -> str:
    """The text of the document."""
    rows = coverage.coverage()
    recorded = [
        row
        for path in sorted(results.DIRECTORY.glob("coverage-*.json"))
        for row in results.load(path).rows
    ]
    return f"{HEAD}\n{has(rows)}\n\n{EXPORTED}\n{exports(recorded)}\n\n{lacking(rows)}"


def main() -> None:
    """Write the document."""
    DOCUMENT.write_text(make())
    print(f"wrote {DOCUMENT}")


if __name__ == "__main__":
    main()
