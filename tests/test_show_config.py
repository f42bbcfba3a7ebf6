"""show_config and `python -m pycudnn`, with and without CUDA packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pycudnn
from pycudnn import loader

ROOT = Path(__file__).resolve().parents[1]
KEYS = {
    "pycudnn",
    "python",
    "platform",
    "extensions",
    "packages",
    "driver",
    "gpus",
    "libraries",
    "mixes",
    "default_backend",
    "settings",
    "missing",
}


def test_dict_has_the_documented_keys():
    info = pycudnn.show_config(as_dict=True)
    assert set(info) == KEYS
    assert info["pycudnn"] == pycudnn.__version__
    names = ("_core", "_core_blas", "_guard")
    assert info["extensions"] == {f"pycudnn.{name}": True for name in names}
    assert info["packages"]["numpy"] == np.__version__
    assert info["default_backend"] in ("cuda", "reference")
    assert json.loads(json.dumps(info)) == info


@pytest.mark.library
def test_libraries_are_those_that_the_loader_opens():
    info = pycudnn.show_config(as_dict=True)["libraries"]
    for name in ("cudnn", "cublas"):
        library = loader.load(name)
        assert info[name] == {
            "version": loader.version_text(library.version),
            "path": library.path,
            "cuda_major": library.cuda_major,
            "origin": library.origin,
        }
        assert os.path.isfile(library.path)


def test_report_prints_every_finding(capsys):
    assert pycudnn.show_config() is None
    text = capsys.readouterr().out
    info = pycudnn.show_config(as_dict=True)
    assert f"pycudnn          {pycudnn.__version__}\n" in text
    assert f"default backend  {info['default_backend']}\n" in text
    for library in info["libraries"].values():
        assert library.get("path", "was not found") in text
    for line in (*info["mixes"], *info["missing"], *(gpu["name"] for gpu in info["gpus"])):
        assert line in text


@pytest.mark.gpu
def test_gpu_is_described():
    info = pycudnn.show_config(as_dict=True)
    gpu = info["gpus"][0]
    assert float(gpu["compute_capability"]) >= 7.0
    assert gpu["memory"] > 2**30
    assert gpu["name"]
    assert int(info["driver"]["cuda"].split(".")[0]) >= 12
    assert info["missing"] == []


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_without_any_cuda_package():
    # What is installed beside pycudnn is out of sight once pycudnn is imported.
    # cuda-bindings 12 imports the package cuda at start-up.
    code = """\
import json, sys, pycudnn
sys.modules.pop("cuda", None)
sys.path[:] = [entry for entry in sys.path if "-packages" not in entry]
print(json.dumps(pycudnn.show_config(as_dict=True)))
"""
    info = json.loads(run("-c", code, LD_LIBRARY_PATH="", PYCUDNN_BACKEND="").stdout)
    assert info["default_backend"] == "reference"
    assert info["gpus"] == []
    assert info["packages"]["cuda-core"] is None
    hint = "cuda-python is not installed: pip install 'pycudnn[cu1"
    assert any(hint in line for line in info["missing"])
    for name, library in info["libraries"].items():
        if library.get("origin") != "system":
            assert "was not found" in library["error"]
            assert f"{loader.TITLES[name]}: pip install '{loader.extra()}'" in info["missing"]


def test_wrong_backend_variable_is_shown_and_not_raised():
    output = run("-m", "pycudnn", PYCUDNN_BACKEND="opencl").stdout
    assert "default backend  PYCUDNN_BACKEND must be one of" in output
    assert "'opencl'" in output


def test_command_line():
    assert "--coverage" in run("-m", "pycudnn", "--help").stdout
    assert set(json.loads(run("-m", "pycudnn", "--json").stdout)) == KEYS
