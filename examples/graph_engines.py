#!/usr/bin/env python
"""All engines of cuDNN for one problem: time, workspace, error and notes of each.

The problem is convolution + bias + ReLU. Engines are what the older interface calls algorithms,
only more of them; the notes say what an engine does to numbers and how it behaves.
"""

from __future__ import annotations

import graph_tools as tools
from graph_tools import results

from pycudnn import CudaContext, cudnn
from pycudnn.cudnn.graph import Engine, Graph, Tensor
from pycudnn.errors import CudnnError

NHWC = cudnn.TensorFormat.NHWC


def problem(
    context: CudaContext, shape: list[int], filters: int, dtype: str
) -> tuple[Graph, Tensor]:
    """Build the graph, and return its output too."""
    graph = Graph(context.cudnn)
    x = graph.tensor(shape, dtype, format=NHWC, name="x")
    w = graph.tensor((filters, shape[1], 3, 3), dtype, format=NHWC, name="w")
    bias = graph.tensor((1, filters, 1, 1), dtype, format=NHWC, name="bias")
    return graph, graph.relu(graph.add(graph.convolution_forward(x, w, padding=1), bias), name="y")


def names(notes: tuple[object, ...]) -> str:
    """Join the names of notes."""
    return ", ".join(str(getattr(note, "name", note)) for note in notes).lower() or "-"


def try_engine(
    engine: Engine, operands: tools.Operands, y: Tensor, expected: object
) -> results.Row:
    """Run an engine with its knobs as they are; the row says why if it cannot."""
    row: results.Row = {"engine": engine.index}
    try:
        row |= operands.measure(engine.config().plan(), y, expected)
    except CudnnError as error:
        row["status"] = tools.status(error)
    row["numbers"] = names(engine.numerical_notes)
    row["behaviour"] = names(engine.behavior_notes)
    return row


def main(arguments: list[str] | None = None) -> None:
    """Try every engine and show the table."""
    parser = tools.convolution_parser(__doc__)
    options = tools.parse(parser, arguments)
    shape = "x".join(map(str, options.input))
    result = results.begin(
        "graph-engines", tools.backend(options), input=shape, filters=options.filters,
        dtype=options.dtype,
    )  # fmt: skip
    with tools.refusing(parser), CudaContext(tools.backend(options)) as context:
        graph, y = problem(context, options.input, options.filters, options.dtype)
        operands = tools.Operands(context, graph, options.seed)
        expected = tools.convolution_bias_relu(*operands.values.values())
        result.rows = [try_engine(each, operands, y, expected) for each in graph.engines()]
    tools.finish(result, options, "engine")


if __name__ == "__main__":
    main()
