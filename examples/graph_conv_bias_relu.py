#!/usr/bin/env python
"""Convolution + bias + ReLU as one kernel, against the three calls that do the same.

The graph API fuses what the older interface does with one call each. Shows for both their time and
their largest error against NumPy in float64, relative to the largest value.
"""

from __future__ import annotations

import argparse

import graph_tools as tools
from graph_tools import results

from pycudnn import CudaContext, config, cudnn
from pycudnn.cudnn.graph import Graph, time_call

NHWC = cudnn.TensorFormat.NHWC


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
    return {"form": "one graph", **operands.measure(plan, y, expected)}, operands


def three_calls(context: CudaContext, operands: tools.Operands) -> results.Row:
    """Run the same with the older interface, on the same memory."""
    handle, library = context.cudnn, context.cudnn.library
    (x, w, bias, y), buffers = operands.buffers, list(operands.buffers.values())
    x_desc, bias_desc, y_desc = (
        cudnn.TensorDescriptor(each.shape, each.dtype, strides=each.strides, library=library)
        for each in (x, bias, y)
    )
    w_desc = cudnn.FilterDescriptor(w.shape, w.dtype, format=NHWC, library=library)
    conv = cudnn.ConvolutionDescriptor(1, compute_type="float32", library=library)
    relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=library)
    algorithm = cudnn.ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM
    needed = cudnn.get_convolution_forward_workspace_size(
        handle, x_desc, w_desc, conv, y_desc, algorithm
    )
    workspace = context.workspace(needed) if needed else None

    def run() -> None:
        cudnn.convolution_forward(
            handle, x_desc, buffers[0], w_desc, buffers[1], conv, algorithm, workspace,
            y_desc, buffers[3],
        )  # fmt: skip
        cudnn.add_tensor(handle, bias_desc, buffers[2], y_desc, buffers[3])
        cudnn.activation_forward(handle, relu, y_desc, buffers[3], y_desc, buffers[3])

    time = time_call(context.stream, run)
    expected = tools.convolution_bias_relu(*operands.values.values())
    error = operands.error(y, expected)
    return {"form": "three calls", "workspace_bytes": needed, "time_us": time, "max_error": error}


def main(arguments: list[str] | None = None) -> None:
    """Run both forms and show them."""
    parser = tools.parser(__doc__)
    parser.add_argument(
        "--input", type=int, nargs=4, default=[32, 64, 28, 28], metavar=tuple("NCHW")
    )
    parser.add_argument("--filters", type=int, default=64, help="output channels (64)")
    options = parser.parse_args(arguments)
    shape = "x".join(map(str, options.input))
    result = results.begin(
        "graph-conv-bias-relu", tools.backend(options), input=shape, filters=options.filters,
        dtype=options.dtype, tf32=options.tf32,
    )  # fmt: skip
    with config.override(tf32=options.tf32), CudaContext(tools.backend(options)) as context:
        row, operands = fused(context, options)
        result.rows = [row, three_calls(context, operands)]
    tools.finish(result, options, "form")


if __name__ == "__main__":
    main()
