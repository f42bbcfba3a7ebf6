#!/usr/bin/env python
"""Convolution + bias + ReLU as one kernel, against the calls that do the same.

The graph API fuses what the older interface does with one call each, or, for this one chain, with a
call of its own. Shows for each the time and the largest error against NumPy in float64, relative to
the largest value.
"""

from __future__ import annotations

import argparse
import itertools
import math

import graph_tools as tools
from graph_tools import results

from pycudnn import CudaContext, config, cudnn
from pycudnn.cudnn.graph import Graph, Tensor
from pycudnn.errors import CudnnError

NHWC = cudnn.TensorFormat.NHWC
ALGORITHMS = [each for each in cudnn.ConvolutionFwdAlgo if each.name != "COUNT"]


def fused(context: CudaContext, options: argparse.Namespace) -> tuple[results.Row, tools.Operands]:
    """Run the graph; the sums and what is added to them never reach memory."""
    n, c, h, w = options.input
    graph = Graph(context.cudnn)
    x = graph.tensor((n, c, h, w), options.dtype, format=NHWC, name="x")
    filters = graph.tensor((options.filters, c, 3, 3), options.dtype, format=NHWC, name="w")
    bias = graph.tensor((1, options.filters, 1, 1), options.dtype, format=NHWC, name="bias")
    sums = graph.convolution_forward(x, filters, padding=1)
    y = graph.relu(graph.add(sums, bias), name="y")
    operands = tools.Operands(context, graph, options.seed)
    expected = tools.convolution_bias_relu(*operands.values.values())
    plan = graph.plan()
    engine = f"engine {plan.config.engine.index}" if plan.config else ""
    row = {"form": "one graph", "algorithm": engine, **operands.measure(plan, y, expected)}
    return row, operands


def by_calls(context: CudaContext, operands: tools.Operands) -> list[results.Row]:
    """Run the same with the older interface, on the same memory: by its fastest algorithm."""
    handle, library = context.cudnn, context.cudnn.library
    (x, w, bias, y), (x_data, w_data, bias_data, y_data) = operands.buffers, operands.memory
    x_desc, bias_desc, y_desc = (
        cudnn.TensorDescriptor(each.shape, each.dtype, strides=each.strides, library=library)
        for each in (x, bias, y)
    )
    w_desc = cudnn.FilterDescriptor(w.shape, w.dtype, format=NHWC, library=library)
    relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=library)

    def three_calls() -> None:
        cudnn.convolution_forward(handle, *convolution, workspace, y_desc, y_data)
        cudnn.add_tensor(handle, bias_desc, bias_data, y_desc, y_data)
        cudnn.activation_forward(handle, relu, y_desc, y_data, y_desc, y_data)

    def one_call() -> None:
        cudnn.convolution_bias_activation_forward(
            handle, *convolution, workspace, y_desc, y_data, bias_desc, bias_data, relu,
            y_desc, y_data, alpha2=0,
        )  # fmt: skip

    rows: dict[str, list[results.Row]] = {"three calls": [], "one call": []}
    expected = tools.convolution_bias_relu(*operands.values.values())
    for algorithm, math_type in itertools.product(ALGORITHMS, math_types(x)):
        conv = cudnn.ConvolutionDescriptor(1, math_type=math_type, library=library)
        convolution = (x_desc, x_data, w_desc, w_data, conv, algorithm)
        try:
            needed = cudnn.get_convolution_forward_workspace_size(
                handle, x_desc, w_desc, conv, y_desc, algorithm
            )
        except CudnnError:
            continue
        workspace = context.workspace(needed) if needed else None
        for form, call in (("three calls", three_calls), ("one call", one_call)):
            row = operands.measure_call(call, needed, y, expected)
            rows[form].append({"form": form, "algorithm": algorithm.name.lower(), **row})
    return [min(tried, key=lambda row: row.get("time_us", math.inf)) for tried in rows.values()]


def math_types(x: Tensor) -> tuple[cudnn.MathType, ...]:
    """Those that keep to float32 where TF32 is not allowed, and all that use tensor cores else."""
    if x.dtype == cudnn.DataType.FLOAT and not config.tf32:
        return (cudnn.MathType.FMA_MATH,)
    return cudnn.MathType.DEFAULT_MATH, cudnn.MathType.TENSOR_OP_MATH


def main(arguments: list[str] | None = None) -> None:
    """Run both forms and show them."""
    parser = tools.convolution_parser(__doc__)
    options = tools.parse(parser, arguments)
    shape = "x".join(map(str, options.input))
    result = results.begin(
        "graph-conv-bias-relu", tools.backend(options), input=shape, filters=options.filters,
        dtype=options.dtype, tf32=options.tf32,
    )  # fmt: skip
    with (
        tools.refusing(parser),
        config.override(tf32=options.tf32),
        CudaContext(tools.backend(options)) as context,
    ):
        row, operands = fused(context, options)
        result.rows = [row, *by_calls(context, operands)]
    tools.finish(result, options, "form")


if __name__ == "__main__":
    main()
