#!/usr/bin/env python
"""Matrix product + bias + GELU as one kernel, beside the product alone.

What follows the product is computed where its sums are, before they are written: it costs next to
nothing. Shows the time of each chain and its largest error against NumPy in float64, relative to
the largest value.
"""

from __future__ import annotations

import argparse
import math

import graph_tools as tools
import numpy as np
from graph_tools import results

from pycudnn import CudaContext, config
from pycudnn.cudnn.graph import Graph
from pycudnn.errors import NoAlgorithm


def gelu(x: np.ndarray) -> np.ndarray:
    """Compute x times the normal distribution function of x."""
    return np.asarray(x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def chain(context: CudaContext, options: argparse.Namespace, length: int) -> results.Row:
    """Run the product and the first ``length`` of the operations behind it as one graph."""
    graph = Graph(context.cudnn)
    a = graph.tensor((1, options.m, options.k), options.dtype, name="a")
    b = graph.tensor((1, options.k, options.n), options.dtype, name="b")
    y = graph.matmul(a, b)
    if length > 0:
        bias = graph.tensor((1, 1, options.n), options.dtype, name="bias")
        y = graph.add(y, bias)
    if length > 1:
        y = graph.gelu(y)
    operands = tools.Operands(context, graph, options.seed)
    values = operands.values
    expected = values["a"] @ values["b"] + values.get("bias", 0)
    row: results.Row = {"chain": " + ".join(("product", "bias", "GELU")[: length + 1])}
    try:
        plan = graph.plan()
    except NoAlgorithm:  # float32 without TF32, say
        return {**row, "status": "not_supported"}
    return row | operands.measure(plan, y, gelu(expected) if length > 1 else expected)


def main(arguments: list[str] | None = None) -> None:
    """Run the three chains and show them."""
    parser = tools.parser(__doc__)
    for name, size in (("m", 512), ("n", 1024), ("k", 512)):
        parser.add_argument(f"--{name}", type=tools.size, default=size)
    options = tools.parse(parser, arguments)
    result = results.begin(
        "graph-matmul-bias-gelu", tools.backend(options), m=options.m, n=options.n, k=options.k,
        dtype=options.dtype, tf32=options.tf32,
    )  # fmt: skip
    with (
        tools.refusing(parser),
        config.override(tf32=options.tf32),
        CudaContext(tools.backend(options)) as context,
    ):
        result.rows = [chain(context, options, length) for length in range(3)]
    tools.finish(result, options, "chain")


if __name__ == "__main__":
    main()
