"""The documents tell the truth: their code runs, and what they name exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def run(code: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYCUDNN_BACKEND": "reference"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr


def python_blocks(document: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", document.read_text(), re.S)


def test_the_guides_code_runs_in_order():
    blocks = python_blocks(ROOT / "docs" / "guide.md")
    assert len(blocks) >= 8
    run("\n".join(blocks))


@pytest.mark.library
@pytest.mark.parametrize("index", [0, 1])
def test_the_readmes_code_runs(index):
    run(python_blocks(ROOT / "README.md")[index])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_named_exists(document):
    text = document.read_text()
    pattern = r"\b(?:docs|examples|benchmarks|scripts|layers|tests|pycudnn)/[\w./-]*[\w/]"
    named = set(re.findall(pattern, text))
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_make_target_named_exists(document):
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)`|^ +make (\w+)", document.read_text(), re.M):
        name = "".join(target)
        assert re.search(rf"^{name}:", makefile, re.M), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_option_named_exists(document):
    """`python examples/x.py --option` in a document: the script's --help knows the option."""
    for script, rest in re.findall(
        r"python ((?:examples|benchmarks)/\w+\.py)(.*)", document.read_text()
    ):
        options = re.findall(r"--[\w-]+", rest)
        done = subprocess.run(
            [sys.executable, ROOT / script, "--help"], capture_output=True, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for option in options:
            assert option in done.stdout, f"{script} has no {option}"
