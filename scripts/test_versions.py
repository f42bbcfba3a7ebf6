"""Run the tests that need no GPU on several versions of NVIDIA's wheels.

    python scripts/test_versions.py                # all combinations, one environment at a time
    python scripts/test_versions.py --only 9.14    # those with this cuDNN

Each combination of cuDNN, cuBLAS and CUDA major gets a fresh virtual environment with the wheels
and the test tools, runs there (a) the tests of what depends on the library's version and (b) all
tests marked `library`, and is deleted again. pycudnn itself is this checkout, so this Python must
have its extensions (`make test` builds them).

The results go to benchmarks/results: versions-<machine>.json has the counts, and
coverage-<machine>.json the functions that each version exports, from which
scripts/make_coverage.py writes docs/coverage.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import results  # noqa: E402


class Combination(NamedTuple):
    """One environment; an empty version is the newest."""

    cuda: int
    cudnn: str
    cublas: str

    @property
    def wheels(self) -> list[str]:
        """What pip is to install."""
        if self.cuda == 12:
            packages = ["nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12"]
        else:
            packages = ["nvidia-cudnn-cu13", "nvidia-cublas", "nvidia-cuda-runtime"]
        cublas = f"=={self.cublas}" if self.cublas else f">={self.cuda},<{self.cuda + 1}"
        return [
            packages[0] + (f"=={self.cudnn}" if self.cudnn else ""),
            packages[1] + cublas,
            packages[2] + f">={self.cuda},<{self.cuda + 1}",
            f"cuda-python>={self.cuda},<{self.cuda + 1}",
            "cuda-core>=1.2",
        ]


COMBINATIONS = (
    Combination(13, "9.14.0.64", "13.0.0.19"),
    Combination(13, "9.19.0.56", "13.1.0.3"),
    Combination(13, "", ""),
    Combination(12, "", ""),
    Combination(12, "9.14.0.64", "12.4.5.8"),
)
TOOLS = ("numpy", "ml_dtypes", "pytest>=8", "hypothesis>=6.100", "pycparser>=2.22")
# What depends on the version of a library; the rest of the tests only where it calls one.
PLACES = (
    "tests/abi",
    "tests/test_coverage.py",
    "tests/test_getters.py",
    "tests/test_getters_blas.py",
    "tests/test_loader.py",
    "tests/test_raw.py",
    "tests/test_show_config.py",
)


def run(python: Path, *arguments: str, accept: tuple[int, ...] = (0,)) -> str:
    """Run Python of an environment on this checkout; its output. Leaves on another exit code."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [python, *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode not in accept:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def pytest(python: Path, *arguments: str) -> dict[str, int]:
    """Run tests; how many passed, failed and were skipped. Prints those that failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        output = run(
            python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
            "--continue-on-collection-errors",
            *arguments, accept=(0, 1),
        )  # fmt: skip
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
        counts = {name: int(suite.get(name, 0)) for name in ("tests", "errors", "failures")}
        skipped = int(suite.get("skipped", 0))
    failed = counts["errors"] + counts["failures"]
    if failed:
        print(output[-8000:], flush=True)
    return {
        "passed": counts["tests"] - failed - skipped,
        "failed": failed,
        "skipped": skipped,
    }


def try_out(combination: Combination) -> tuple[results.Row, list[results.Row]]:
    """Make the environment, run the tests in it and count what its libraries export."""
    folder = Path(tempfile.mkdtemp(prefix="pycudnn-versions-"))
    try:
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", *TOOLS, *combination.wheels)
        began = time.monotonic()
        first = pytest(python, "-m", "not gpu", *PLACES)
        ignored = [f"--ignore={place}" for place in PLACES]
        second = pytest(python, "-m", "library", *ignored, "tests")
        seconds = round(time.monotonic() - began)
        info = json.loads(run(python, "-m", "pycudnn", "--json"))
        exported = json.loads(run(python, "-m", "pycudnn", "--coverage", "--json"))
    finally:
        shutil.rmtree(folder)
    libraries = {name: info["libraries"][name]["version"] for name in ("cudnn", "cublas")}
    row = {"cuda": combination.cuda, **libraries, "numpy": info["packages"]["numpy"]}
    counts = {name: first[name] + second[name] for name in first}
    rows = [
        {
            "cuda": combination.cuda,
            **{name: each[name] for name in ("library", "version", "header")},
            **{name: each[name] for name in ("known", "exported")},
        }
        for each in exported
    ]
    return row | counts | {"seconds": seconds}, rows


def save(benchmark: str, rows: list[dict[str, Any]]) -> None:
    """Write a result file; the versions are in its rows."""
    result = results.begin(benchmark, "reference")
    for name in ("cudnn", "cublas", "numpy"):
        del result.versions[name]
    result.rows = rows
    results.show(result)
    print(f"wrote {results.save(result)}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="CUDNN", help="cuDNN versions that begin so; no files")
    options = parser.parse_args()
    counts: list[results.Row] = []
    exported: list[results.Row] = []
    for combination in COMBINATIONS:
        if options.only is None or combination.cudnn.startswith(options.only):
            print(f"{', '.join(combination.wheels)}", flush=True)
            row, rows = try_out(combination)
            print(results.table([row]), flush=True)
            counts.append(row)
            exported += rows
    if options.only is None:
        save("versions", counts)
        save("coverage", exported)
    if any(row["failed"] for row in counts):
        raise SystemExit("some tests failed")


if __name__ == "__main__":
    main()
