#!/usr/bin/env python
"""Make docs/performance.md, and its plots, from the result files: no figure there is typed in."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import results

DOCUMENT = Path(__file__).parents[1] / "docs" / "performance.md"

HEAD = """# Performance

Made by `python benchmarks/make_performance.py` from the files in benchmarks/results; each section
says which script measured it, on what, and with which versions. To measure here:
`python benchmarks/<name>.py`.
"""


@dataclass(frozen=True)
class Section:
    """How one benchmark is shown; its columns default to all of them."""

    benchmark: str
    title: str
    text: str
    columns: Sequence[str] | None = None
    prepare: Callable[[list[results.Row]], list[results.Row]] = list
    lines: tuple[str, str, str] | None = None  # x, y, series of a plot
    bars: tuple[str, ...] = ()  # columns that name the bars of a plot of time_us


def by_batch(rows: list[results.Row]) -> list[results.Row]:
    """One row per implementation, one column per batch size: microseconds of wall time."""
    table: dict[str, results.Row] = {}
    for row in rows:
        name = row["implementation"]
        entry = table.setdefault(name, {"implementation": name})
        entry[f"batch {row['batch']}"] = round(row["wall_us"])
    return list(table.values())


def over_seeds(rows: list[results.Row]) -> list[results.Row]:
    """One row per kind of run: the worst, the mean and the best test accuracy over the seeds."""
    table = []
    for name in dict.fromkeys(row["run"] for row in rows):
        runs = [row for row in rows if row["run"] == name]
        tests = [row["test_percent"] for row in runs]
        table.append(
            {
                "run": name,
                "steps": runs[0]["steps"],
                "batch": runs[0]["batch"],
                "learning rate": runs[0]["learning_rate"],
                "seeds": len(runs),
                "test accuracy, lowest": f"{min(tests):.2f} %",
                "mean": f"{sum(tests) / len(tests):.2f} %",
                "highest": f"{max(tests):.2f} %",
                "training, last 200 steps, lowest": (
                    f"{min(row['last_200_steps_percent'] for row in runs):.2f} %"
                ),
            }
        )
    return table


def that_ran(rows: list[results.Row]) -> list[results.Row]:
    """Leave out what the library refused."""
    return [row for row in rows if "time_us" in row]


SECTIONS = (
    Section(
        "train-step",
        "A training step",
        "Microseconds of LeNet per training step of examples/train.py: the copy of the batch to "
        "the device, forward, backward, update, loss and accuracy read back. The plain loop makes "
        "some fifty calls a step; a CUDA graph replays them.",
        prepare=by_batch,
        lines=("batch", "wall_us", "implementation"),
    ),
    Section(
        "call-overhead",
        "A call",
        "Host time of one checked call, in nanoseconds, and net of what the C function takes. "
        "`cython` is what `pycudnn.cudnn` offers, `ctypes checked` the same checks on the path "
        "that only rare calls take, `ctypes` a typed call with nothing checked but its status.",
    ),
    Section(
        "accuracy",
        "Accuracy",
        "Test accuracy of examples/train.py over several seeds. *As printed* is the published "
        "code's loader, learning rate, decay and initial range (docs/errata.md): high accuracy "
        "on the few images it sees, low accuracy on the test set.",
        prepare=over_seeds,
    ),
    Section(
        "reference-step",
        "The reference library",
        "Milliseconds of one LeNet training step without a GPU, with PyTorch on the same cores as "
        "the measure.",
    ),
    Section(
        "convolution-by-hand",
        "Algorithms of one convolution",
        "What examples/convolution_by_hand.py shows: every algorithm of the three directions with "
        "its workspace, time, and largest error against float64, relative to the largest value.",
    ),
    Section(
        "graph-conv-bias-relu",
        "Convolution, bias and ReLU as one graph",
        "What examples/graph_conv_bias_relu.py shows: the same work as one graph, as three calls "
        "of the older interface, and as the one call that it has for this chain; of both the "
        "fastest algorithm.",
    ),
    Section(
        "graph-matmul-bias-gelu",
        "Matrix product, bias and GELU as one graph",
        "What examples/graph_matmul_bias_gelu.py shows: what bias and GELU cost when they are "
        "computed where the sums of the product are, before these are written.",
    ),
    Section(
        "graph-engines",
        "Engines of one graph",
        "What examples/graph_engines.py shows: every engine that takes convolution, bias and ReLU "
        "as one graph, with its knobs as they are at first, and the notes that cuDNN has on it.",
        bars=("engine",),
    ),
    Section(
        "graph-knobs",
        "One knob of one engine",
        "What examples/graph_knobs.py shows: the engine that the heuristics propose first for that "
        "graph, with one of its knobs at every value and the others as proposed. Values that cuDNN "
        "does not support are left out.",
        prepare=that_ran,
        bars=("knob", "value"),
    ),
)

# What other documents show.
ELSEWHERE = ("conformance", "coverage", "versions")


def render(section: Section, result: results.Result) -> str:
    """Write out one result: where it comes from, and its table."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    settings = ", ".join(
        f"{name.replace('_', ' ')} {results.format_value(value)}"
        for name, value in result.settings.items()
    )
    return (
        f"### {result.device}\n\n"
        f"{results.markdown(section.prepare(result.rows), section.columns)}\n\n"
        f"{result.benchmark}, {result.date[:10]}, commit {result.commit}; {versions}; {settings}.\n"
    )


def draw(section: Section, result: results.Result, image: Path) -> None:
    """Draw the picture of a section."""
    if section.lines is not None:
        x, y, series = section.lines
        results.draw_lines(result, image, x=x, y=y, series=series)
    else:
        results.draw_bars(result, image, labels=section.bars, y="time_us")


def make(directory: Path, document: Path, plots: bool = True) -> str:
    """Write the document from all result files in ``directory``, and return its text."""
    found = [results.load(path) for path in sorted(directory.glob("*.json"))]
    found = [result for result in found if result.benchmark not in ELSEWHERE]
    unknown = {result.benchmark for result in found} - {each.benchmark for each in SECTIONS}
    if unknown:
        raise ValueError(f"no section for {', '.join(sorted(unknown))}")
    parts = [HEAD]
    for section in SECTIONS:
        mine = [result for result in found if result.benchmark == section.benchmark]
        if not mine:
            continue
        parts.append(f"## {section.title}\n\n{textwrap.fill(section.text, 100)}\n")
        for result in mine:
            parts.append(render(section, result))
            if plots and (section.lines is not None or section.bars):
                image = document.with_name(result.file_name).with_suffix(".png")
                draw(section, result, image)
                parts.append(f"![{section.title}, {result.device}]({image.name})\n")
    text = "\n".join(parts)
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(text)
    return text


def main(arguments: list[str] | None = None) -> None:
    """Make the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=results.DIRECTORY, metavar="DIR")
    parser.add_argument("--document", type=Path, default=DOCUMENT, metavar="FILE")
    parser.add_argument("--no-plots", action="store_true", help="needs no matplotlib")
    options = parser.parse_args(arguments)
    make(options.results, options.document, not options.no_plots)
    print(f"wrote {options.document}")


if __name__ == "__main__":
    main()
