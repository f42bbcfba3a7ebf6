"""The documents tell the truth: code prints what they show, and what they name exists."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import layers
import pycudnn
from pycudnn import abi, cudnn
from pycudnn.abi.removed import REPLACEMENTS
from pycudnn.abi.types import ENUMS, HANDLES
from pycudnn.loader import versioned_name

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def blocks(document: Path) -> list[tuple[str, str | None]]:
    """Blocks of Python, each with the block of text after it: what it prints, if that is shown."""
    pattern = r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?"
    return [
        (code, shown or None) for code, shown in re.findall(pattern, document.read_text(), re.S)
    ]


def run(code: str, names: dict[str, Any]) -> str:
    """Run a block and return what it printed; something left open is an error."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        exec(compile(code, "block", "exec"), names)
    return printed.getvalue()


@pytest.fixture
def on_the_reference(monkeypatch):
    monkeypatch.setenv("PYCUDNN_BACKEND", "reference")


LESSONS = [
    ROOT / "docs" / "guide.md",
    ROOT / "docs" / "from_c.md",
    *sorted((ROOT / "docs" / "tutorials").glob("[0-9]*.md")),
]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.name)
def test_code_prints_what_is_shown(on_the_reference, lesson):
    names: dict[str, Any] = {"__name__": lesson.stem}
    found = blocks(lesson)
    assert sum(shown is not None for _, shown in found) >= 2
    for code, shown in found:
        printed = run(code, names)
        assert printed == (shown or ""), f"printed by\n{code}"


def test_the_readmes_code_runs(on_the_reference):
    convolution, graph, every_function = (code for code, _ in blocks(ROOT / "README.md"))
    printed = run(convolution, {})
    assert re.search(r"^algorithm +time ms +workspace", printed)
    assert re.search(r"\n[A-Z_]+ [\d.e+]+\n$", printed)
    assert re.fullmatch(r"Engine\(0, .*\) 0\n", run(graph, {}))
    assert run(every_function, {}) == "SUCCESS\n"


def test_the_readmes_counts():
    found = re.search(
        r"all (\d+) of cuDNN's \((.*?)\), all (\d+) of cuBLAS.* the (\d+) of cublasLt",
        (ROOT / "README.md").read_text(), re.S,
    )  # fmt: skip
    cudnn_count, headers, *others = found.groups()
    tables = [abi.prototypes(name) for name in ("cudnn", "cublas", "cublaslt")]
    assert [int(count) for count in (cudnn_count, *others)] == [len(table) for table in tables]
    declared = {proto.header for proto in tables[0].values()}
    assert {f"cudnn_{name}" for name in re.split(r",\s+", headers)} == declared


# ---- files, commands, options --------------------------------------------------------------------


@each_document
def test_every_file_named_exists(document):
    folders = r"(?:docs|examples|benchmarks|scripts|layers|tests|pycudnn|\.ci)"
    named = re.findall(rf"(?<![\w/.-]){folders}/[\w./-]*[\w/]", document.read_text())
    assert not [name for name in named if not (ROOT / name).exists()]


@each_document
def test_every_make_target_named_exists(document):
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)`|^ +make (\w+)", document.read_text(), re.M):
        name = "".join(target)
        assert re.search(rf"^{name}:", makefile, re.M), name


@each_document
def test_every_extra_named_exists(document):
    project = (ROOT / "pyproject.toml").read_text()
    for extra in re.findall(r"pip install \"?\.\[(\w+)\]", document.read_text()):
        assert re.search(rf"^{extra} = \[", project, re.M), extra


@each_document
def test_every_option_named_exists(document):
    """`python examples/x.py --option` in a document: the script's --help knows the option."""
    text = document.read_text().replace("python -m pycudnn\n", "python -m pycudnn ")
    commands = re.findall(
        r"(?:python |`)((?:(?:examples|benchmarks)/\w+\.py|-m pycudnn))([^`\n]*)", text
    )
    for script in {script for script, _ in commands}:
        command = script.split() if script.startswith("-m") else [str(ROOT / script)]
        done = subprocess.run(
            [sys.executable, *command, "--help"], capture_output=True, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for rest in (rest for name, rest in commands if name == script):
            for option in re.findall(r"--[\w-]+", rest):
                assert re.search(rf"{option}\b", done.stdout), f"{script} has no {option}"


# ---- names ---------------------------------------------------------------------------------------

FACES = ("cudnn", "cublas", "cublaslt", "kernels", "errors", "config", "raw")


def exists(name: str) -> bool:
    """Is a dotted name in a document one of ours? Its first part is a package, face or class."""
    first, *rest = name.split(".")
    if first in ("pycudnn", "layers"):
        found: Any = importlib.import_module(first)
    elif first == "config":
        found = pycudnn.config
    elif first in FACES:
        found = importlib.import_module(f"pycudnn.{first}")
    else:
        found = getattr(layers, first, None) or getattr(cudnn, first)
    for part in rest:
        if inspect.ismodule(found) and not hasattr(found, part):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{found.__name__}.{part}")
        if not hasattr(found, part):
            return inspect.isclass(found) and sets(found, part)
        found = getattr(found, part)
    return True


def sets(cls: type, attribute: str) -> bool:
    """Do the methods of a class or its bases set this attribute?"""
    setting = re.compile(rf"\bself\.{attribute}\b[^=\n]*= ")
    for base in cls.__mro__:
        with contextlib.suppress(OSError, TypeError):  # a compiled one has no source
            if setting.search(inspect.getsource(base)):
                return True
    return False


CLASSES = "|".join([*layers.__all__, r"\w+Descriptor"])
OURS = re.compile(rf"`((?:pycudnn|layers|{'|'.join(FACES)}|{CLASSES})(?:\.\w+)+)(?:\([^`]*\))?`")


@each_document
def test_every_name_of_ours_exists(document):
    missing = [name for name in OURS.findall(document.read_text()) if not exists(name)]
    assert not missing


def test_the_name_check_sees_names():
    assert OURS.findall("`Blob.n`, `cudnn.softmax_forward(handle)`") == [
        "Blob.n",
        "cudnn.softmax_forward",
    ]
    assert exists("Conv2D.filter_desc")
    assert exists("Layer.output")
    assert not exists("Blob.nothing")
    assert not exists("TensorDescriptor.nothing")
    assert not exists("cudnn.nothing")
    assert len(OURS.findall((ROOT / "docs" / "book.md").read_text())) > 60


@each_document
def test_every_c_function_named_is_declared_or_known_to_be_gone(document):
    for name, library in re.findall(
        r"\b((cudnn|cublasLt|cublas(?!Lt))[A-Z]\w+)", document.read_text()
    ):
        known = versioned_name(library.lower(), name) in abi.prototypes(library.lower())
        known = known or name in REPLACEMENTS
        assert known or name in HANDLES or name in ENUMS, name
