#!/usr/bin/env python
"""Choice of an engine by knob: every value of one knob, timed, and the fastest taken.

Takes the problem of graph_engines.py and the engine that the heuristics propose first (or
``--engine``), lists its knobs, and turns one of them (``--knob``, else the one with most values)
through what it can be. The others stay as proposed.
"""

from __future__ import annotations

import argparse

import graph_tools as tools
from graph_engines import problem
from graph_tools import results

from pycudnn import CudaContext
from pycudnn.cudnn.graph import Engine, EngineConfig, Graph, Knob
from pycudnn.errors import CudnnError


def proposal(graph: Graph, index: int | None) -> EngineConfig:
    """Return the first proposed configuration whose engine has knobs, or is ``index``."""
    for config in graph.heuristics():
        if config.engine.index == index or (index is None and config.engine.knobs):
            return config
    engines = graph.engines()
    chosen = [engine for engine in engines if index in (None, engine.index)]
    if not chosen:
        known = ", ".join(str(engine.index) for engine in engines)
        raise ValueError(f"--engine {index}: there are {known} for this problem")
    return chosen[0].config()


def choose_knob(engine: Engine, name: str | None) -> Knob:
    """Return the knob of a name, or the one with most values."""
    for knob in engine.knobs:
        print(f"engine {engine.index} has {knob.name}: {knob.minimum} to {knob.maximum}")
    named = [knob for knob in engine.knobs if name in (None, knob.name)]
    if not named:
        raise ValueError(f"--knob: engine {engine.index} has no knob {name or 'at all'}")
    return max(named, key=lambda knob: len(knob.values))


def turn(context: CudaContext, options: argparse.Namespace) -> list[results.Row]:
    """Time each value of the knob; a row says why if one does not work."""
    graph, y = problem(context, options.input, options.filters, options.dtype)
    operands = tools.Operands(context, graph, options.seed)
    expected = tools.convolution_bias_relu(*operands.values.values())
    proposed = proposal(graph, options.engine)
    engine, knob = proposed.engine, choose_knob(proposed.engine, options.knob)
    rows: list[results.Row] = []
    for value in knob.values[: options.values]:
        row: results.Row = {"engine": engine.index, "knob": knob.name, "value": value}
        try:
            plan = engine.config({**proposed.knobs, knob.name: value}).plan()
            row |= operands.measure(plan, y, expected)
        except CudnnError as error:
            row["status"] = tools.status(error)
        rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Turn the knob, show the table, and name the choice."""
    parser = tools.convolution_parser(__doc__)
    parser.add_argument(
        "--engine", type=tools.at_least(0), help="global index (the first proposed)"
    )
    parser.add_argument("--knob", help="TILE_SIZE, say (the one with most values)")
    parser.add_argument(
        "--values", type=tools.size, default=64, help="try at most so many values (64)"
    )
    options = tools.parse(parser, arguments)
    shape = "x".join(map(str, options.input))
    result = results.begin(
        "graph-knobs", tools.backend(options), input=shape, filters=options.filters,
        dtype=options.dtype,
    )  # fmt: skip
    with tools.refusing(parser), CudaContext(tools.backend(options)) as context:
        result.rows = turn(context, options)
    tools.finish(result, options, "knob", "value")
    timed = [row for row in result.rows if "time_us" in row]
    if timed:
        best = min(timed, key=lambda row: row["time_us"])
        print(f"choice: engine {best['engine']} with {best['knob']} = {best['value']}")


if __name__ == "__main__":
    main()
