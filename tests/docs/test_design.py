"""docs/design.md is kept: imports go one way, and layers use public names only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Rooms by height; a module imports from lower rooms and from its own.
HEIGHTS = {
    "abi": 0, "errors": 0, "settings": 0, "_guard": 0, "logs": 0,
    "loader": 1, "reference": 1, "dtypes": 1, "_core": 1,
    "device": 2, "_device_cuda": 2, "_device_reference": 2,
    "_core_blas": 3, "libraries": 3, "memory": 3, "operands": 3,
    "handles": 4, "kernels": 4,
    "cudnn": 5, "cublas": 5, "raw": 5, "show_config": 5, "coverage": 5,
    "cublaslt": 6, "context": 7, "__main__": 7, "__init__": 8,
}  # fmt: skip
MODULES = sorted(
    path
    for suffix in ("py", "pyx")
    for path in (ROOT / "pycudnn").rglob(f"*.{suffix}")
    if path.stem != "_prototypes"
)


def room_of(path: Path) -> str:
    inside = path.relative_to(ROOT / "pycudnn")
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def rooms_imported(path: Path) -> set[str]:
    """Rooms of pycudnn imported when the module is, not inside functions."""
    found = set()
    for module, names in re.findall(
        r"^(?:from|import) (pycudnn[\w.]*)(?: c?import (\([^)]*\)|.*))?", path.read_text(), re.M
    ):
        parts = module.split(".")
        found.update(parts[1:2] or re.findall(r"\w+", names))
    return {room for room in found if room in HEIGHTS}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    room = room_of(path)
    for other in rooms_imported(path) - {room}:
        same_house = room.startswith("_device") and other == "device"
        assert HEIGHTS[other] < HEIGHTS[room] or same_house, f"{room} imports {other}"


def test_the_import_check_sees_imports():
    assert {"_core", "abi", "loader", "reference"} <= rooms_imported(
        ROOT / "pycudnn" / "libraries.py"
    )
    assert "_core" in rooms_imported(ROOT / "pycudnn" / "_core_blas.pyx")


def private_names(source: str) -> list[str]:
    """Private names of pycudnn that a module imports or reaches into."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pycudnn"):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            found += [name for name in names if name.startswith("_")]
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own and node.attr != "_replace":  # a NamedTuple's, public
                found.append(node.attr)
    return found


def test_private_names_are_found():
    assert private_names("from pycudnn import _core") == ["_core"]
    assert private_names("from pycudnn._core import x\nself._y\nz._w") == ["_core", "_w"]


@pytest.mark.parametrize("folder", ["layers", "examples"])
def test_layers_and_examples_use_public_names_only(folder):
    for path in (ROOT / folder).glob("*.py"):
        assert not private_names(path.read_text()), path
