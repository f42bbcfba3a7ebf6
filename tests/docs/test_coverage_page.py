"""docs/coverage.md: its numbers are not more than the truth, and those of versions are recorded."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import results

from pycudnn import coverage, loader

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "make_coverage.py"
PAGE = (ROOT / "docs" / "coverage.md").read_text()

if not SCRIPT.is_file():
    pytest.skip("scripts/ is not in this installation", allow_module_level=True)


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_coverage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows() -> list[coverage.Row]:
    return coverage.coverage()


def cells(text: str) -> dict[tuple[str, str], list[str]]:
    """The lines of the first table in a text by library and header."""
    found = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0]
    lines = [line.strip("| ").split(" | ") for line in found.splitlines()[2:]]
    return {(line[0], line[1]): line[2:] for line in lines}


def test_page_claims_no_more_than_there_is(rows):
    page = cells(PAGE)
    for row in rows:
        declared, implemented, called = map(
            int, page[loader.TITLES[row.library], f"{row.header}.h"]
        )
        assert declared == len(row.declared)
        assert implemented <= len(row.reference)
        assert called <= len(row.face)


def test_page_names_every_function_that_lacks(rows):
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    for place, title in (("reference", "Not in the reference"), ("face", "Not in the object")):
        named = set(re.findall(r"cu\w+", next(part for part in parts if part.startswith(title))))
        assert {name for row in rows for name in row.lacking[place]} <= named


def test_versions_of_the_page_are_those_recorded(script):
    recorded = [
        row for path in results.DIRECTORY.glob("coverage-*.json") for row in results.load(path).rows
    ]
    assert recorded
    assert script.exports(recorded) in PAGE
    for row in recorded:
        short = row["header"] == "cublasLt" and row["known"] >= 45
        assert row["exported"] == row["known"] - short


def test_the_script_writes_what_there_is(script, rows, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "DOCUMENT", tmp_path / "coverage.md")
    script.main()
    text = (tmp_path / "coverage.md").read_text()
    counts = cells(text)["cuDNN", "all"]
    assert counts == ["239", *(
        str(sum(len(getattr(row, place)) for row in rows if row.library == "cudnn"))
        for place in ("reference", "face")
    )]  # fmt: skip
