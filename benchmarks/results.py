"""Result files of the benchmarks: the one place that writes, reads, prints and draws them.

A file is ``benchmarks/results/<benchmark>-<device>.json`` and holds one object: ``benchmark``,
``device``, ``versions``, ``commit``, ``date``, ``settings`` and ``rows``, a list of flat objects.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import pycudnn
from pycudnn.device import Device, default_backend
from pycudnn.libraries import get_library

DIRECTORY = Path(__file__).parent / "results"

Row = dict[str, Any]


@dataclass
class Result:
    """One run of one benchmark on one device."""

    benchmark: str
    device: str
    versions: dict[str, str]
    commit: str
    date: str
    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    @property
    def file_name(self) -> str:
        """``<benchmark>-<device>.json``, the device in lower case with dashes."""
        return f"{self.benchmark}-{slug(self.device)}.json"


def begin(
    benchmark: str,
    backend: str | None = None,
    *,
    packages: Sequence[str] = (),
    **settings: Any,
) -> Result:
    """Start a result on the device of ``backend``; ``packages`` are peers whose version counts."""
    device = Device(backend)
    return Result(
        benchmark=benchmark,
        device=describe_device(device),
        versions=versions(device.backend, packages),
        commit=commit(),
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        settings=settings,
    )


def describe_device(device: Device) -> str:
    """Name the GPU, or the processor with its number of usable cores."""
    if device.backend == "cuda":
        return device.name
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return re.sub(r"\(R\)|\(TM\)|CPU|Processor|@.*", "", model)


def slug(text: str) -> str:
    """Lower case, with one dash for whatever is no letter or digit."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def versions(backend: str, packages: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python, NumPy, pycudnn, both libraries of ``backend`` and ``packages``."""
    found = {"python": platform.python_version(), "pycudnn": pycudnn.__version__}
    for package in ("numpy", *packages):
        found[package] = metadata.version(package)
    for library in ("cudnn", "cublas"):
        found[library] = f"{get_library(library, backend).version} ({backend})"
    return found


def commit() -> str:
    """Return the commit the code is at, with ``-dirty`` where files differ from it.

    Outside a git checkout it is what the environment variable PYCUDNN_COMMIT says.
    """
    if "PYCUDNN_COMMIT" in os.environ:
        return os.environ["PYCUDNN_COMMIT"]
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def parser(description: str | None, plot: bool = True) -> argparse.ArgumentParser:
    """Make a parser with the options that every benchmark has; not each can ``plot``."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--backend", choices=("auto", "cuda", "reference"), default="auto")
    made.add_argument("--quick", action="store_true", help="less of everything, for a check")
    made.add_argument(
        "--output", type=Path, metavar="DIR",
        help="write the result there (a full run: benchmarks/results, one of a part: nowhere)",
    )  # fmt: skip
    if plot:
        made.add_argument("--plot", type=Path, metavar="FILE", help="draw the result as a PNG")
    return made


def backend(options: argparse.Namespace) -> str:
    """Return the backend that ``--backend`` stands for."""
    return default_backend() if options.backend == "auto" else options.backend


def directory(options: argparse.Namespace, is_part: bool) -> Path | None:
    """Return where a result goes: a part of a run takes the place of no full one unasked."""
    if options.output is not None:
        return Path(options.output)
    return None if is_part else DIRECTORY


def close(result: Result, directory: Path | None) -> None:
    """Write the result if it has a place, and say so."""
    if directory is None:
        print("not written, since it is a part of a run: --output DIR writes it")
    else:
        print(f"wrote {save(result, directory)}")


def save(result: Result, directory: str | Path = DIRECTORY) -> Path:
    """Write the result file and return its path."""
    path = Path(directory) / result.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(result), indent=1) + "\n")
    return path


def load(path: str | Path) -> Result:
    """Read a result file; ValueError names the file where its form is another."""
    content = json.loads(Path(path).read_text())
    try:
        result = Result(**content)
    except TypeError as error:
        raise ValueError(f"{path} is no result file: {error}") from error
    for row in result.rows:
        nested = [name for name, value in row.items() if isinstance(value, (dict, list))]
        if nested:
            raise ValueError(f"{path}: rows must be flat, {nested} are not")
    return result


def format_value(value: Any) -> str:
    """Show numbers with four significant digits and None as n/a."""
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _cells(rows: Sequence[Row], columns: Sequence[str] | None) -> list[list[str]]:
    """Headings and formatted cells; the columns default to every name in order of appearance."""
    columns = columns or list(dict.fromkeys(name for row in rows for name in row))
    return [list(columns)] + [[format_value(row.get(name)) for name in columns] for row in rows]


def table(rows: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """Lay out rows as aligned text."""
    cells = _cells(rows, columns)
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    )


def markdown(rows: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """Lay out rows as a Markdown table."""
    cells = _cells(rows, columns)
    cells.insert(1, ["---"] * len(cells[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def show(result: Result, columns: Sequence[str] | None = None) -> None:
    """Print the result: what ran where, then its table."""
    settings = ", ".join(f"{name} {format_value(value)}" for name, value in result.settings.items())
    print(f"{result.benchmark} on {result.device} ({settings})")
    print(table(result.rows, columns))


def finish(result: Result, options: argparse.Namespace, **axes: Any) -> None:
    """Print the result, write its file if it is no quick one and, with ``--plot``, draw it.

    ``axes`` are those of ``draw_lines`` (x, y, series) or ``draw_bars`` (labels, y).
    """
    show(result)
    close(result, directory(options, options.quick))
    if options.plot is not None and axes:
        draw = draw_lines if "x" in axes else draw_bars
        draw(result, options.plot, **axes)
        print(f"plotted {options.plot}")


def draw_lines(
    result: Result, path: str | Path, *, x: str, y: str, series: str, title: str = ""
) -> None:
    """Draw column ``y`` over column ``x`` on logarithmic axes, one line per value of ``series``."""
    figure, axes = _figure(title or f"{result.benchmark} on {result.device}")
    for name in dict.fromkeys(row[series] for row in result.rows):
        points = [row for row in result.rows if row[series] == name and row.get(y) is not None]
        axes.plot([row[x] for row in points], [row[y] for row in points], marker="o", label=name)
    axes.set(xlabel=x.replace("_", " "), ylabel=y.replace("_", " "), xscale="log", yscale="log")
    axes.legend()
    axes.grid(which="both", alpha=0.3)
    figure.savefig(path, dpi=150)


def draw_bars(
    result: Result, path: str | Path, *, labels: Sequence[str], y: str, title: str = ""
) -> None:
    """Draw column ``y`` as horizontal bars, one per row, called by the columns ``labels``.

    On a logarithmic axis where the longest would leave the others too short to be seen.
    """
    rows = [row for row in result.rows if row.get(y) is not None]
    figure, axes = _figure(title or f"{result.benchmark} on {result.device}", len(rows))
    names = [", ".join(str(row[label]) for label in labels) for row in rows]
    values = [row[y] for row in rows]
    bars = axes.barh(names, values)
    axes.bar_label(bars, [format_value(value) for value in values], padding=3)
    if min(values, default=1) > 0 and max(values, default=0) > 50 * min(values, default=1):
        axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set(xlabel=y.replace("_", " "), ylabel=", ".join(labels).replace("_", " "))
    figure.savefig(path, dpi=150)


def _figure(title: str, bars: int = 0) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(8, max(4.5, 0.35 * bars + 1.2)), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes
