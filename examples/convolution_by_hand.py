#!/usr/bin/env python
"""One convolution by hand: descriptors, workspaces and every algorithm, no layer in sight.

Runs one convolution forwards and backwards, to the data and to the filter, with each algorithm
that the library offers, and shows per algorithm its workspace, its time, and its largest error
against NumPy in float64, relative to the largest value.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pycudnn import Buffer, CudaContext, cudnn, empty, from_numpy
from pycudnn.errors import CudnnError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import results
from command_line import at_least, check_backend, check_picture, make_folder, refusing


class Direction(NamedTuple):
    """One of the three calls that make up a convolution's forward and backward pass."""

    name: str
    algorithms: type[IntEnum]
    workspace_size: Callable[..., int]
    descriptors: tuple[Any, ...]  # in C order
    run: Callable[[IntEnum, Buffer | None], None]
    output: Buffer


def in_float64(x: Any, w: Any, dy: Any, padding: int, stride: int) -> dict[str, np.ndarray]:
    """Compute y, dx and dw in float64, straight from the definition of cross-correlation."""
    x, w, dy = (np.asarray(each, np.float64) for each in (x, w, dy))
    window = w.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    dx = np.zeros_like(padded)
    height, width = dy.shape[2:]
    for r, s in np.ndindex(*window):
        reached = dx[:, :, r : r + stride * height : stride, s : s + stride * width : stride]
        reached += np.einsum("nkhw,kc->nchw", dy, w[:, :, r, s], optimize=True)
    inner = slice(padding, -padding or None)
    return {
        "forward": np.einsum("nchwrs,kcrs->nkhw", windows, w, optimize=True),
        "backward data": dx[:, :, inner, inner],
        "backward filter": np.einsum("nchwrs,nkhw->kcrs", windows, dy, optimize=True),
    }


def convolve(context: CudaContext, options: argparse.Namespace) -> list[results.Row]:
    """Run all three directions with all algorithms; one row for each."""
    handle, library = context.cudnn, context.cudnn.library
    random = np.random.default_rng(options.seed)

    # 1. Descriptors say what lies in memory: shape, type, order.
    x_desc = cudnn.TensorDescriptor(options.input, library=library)
    w_shape = (options.filters, options.input[1], options.window, options.window)
    w_desc = cudnn.FilterDescriptor(w_shape, library=library)
    conv = cudnn.ConvolutionDescriptor(
        options.padding, options.stride, math_type=options.math_type, library=library
    )

    # 2. The library says what comes out.
    y_desc = cudnn.TensorDescriptor(
        cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc), library=library
    )
    print(x_desc, w_desc, conv, y_desc, sep="\n")

    # 3. Memory on the device, with data for the operands.
    host = [random.standard_normal(desc.shape, np.float32) for desc in (x_desc, w_desc, y_desc)]
    device, stream = context.device, context.stream
    x, w, dy = (from_numpy(array, device=device, stream=stream) for array in host)
    y, dx, dw = (
        empty(desc.shape, device=device, stream=stream) for desc in (y_desc, x_desc, w_desc)
    )
    expected = in_float64(*host, options.padding, options.stride)

    # 4. Each direction has its algorithms, its descriptors and its call.
    directions = (
        Direction(
            "forward",
            cudnn.ConvolutionFwdAlgo,
            cudnn.get_convolution_forward_workspace_size,
            (x_desc, w_desc, conv, y_desc),
            lambda algorithm, workspace: cudnn.convolution_forward(
                handle, x_desc, x, w_desc, w, conv, algorithm, workspace, y_desc, y
            ),
            y,
        ),
        Direction(
            "backward data",
            cudnn.ConvolutionBwdDataAlgo,
            cudnn.get_convolution_backward_data_workspace_size,
            (w_desc, y_desc, conv, x_desc),
            lambda algorithm, workspace: cudnn.convolution_backward_data(
                handle, w_desc, w, y_desc, dy, conv, algorithm, workspace, x_desc, dx
            ),
            dx,
        ),
        Direction(
            "backward filter",
            cudnn.ConvolutionBwdFilterAlgo,
            cudnn.get_convolution_backward_filter_workspace_size,
            (x_desc, y_desc, conv, w_desc),
            lambda algorithm, workspace: cudnn.convolution_backward_filter(
                handle, x_desc, x, y_desc, dy, conv, algorithm, workspace, w_desc, dw
            ),
            dw,
        ),
    )
    return [
        measure(context, direction, algorithm, expected[direction.name])
        for direction in directions
        for algorithm in direction.algorithms
        if algorithm.name != "COUNT"
    ]


def measure(
    context: CudaContext, direction: Direction, algorithm: IntEnum, expected: np.ndarray
) -> results.Row:
    """Run one algorithm: its workspace, time and error, or the status that it was refused with."""
    row: results.Row = {"direction": direction.name, "algorithm": algorithm.name}
    output, stream = direction.output, context.stream
    try:
        needed = direction.workspace_size(context.cudnn, *direction.descriptors, algorithm)
        workspace = context.workspace(needed) if needed else None
        output.fill_bytes(0xFF, stream)  # NaN: nothing left from before can pass as a result
        row["workspace_bytes"] = needed
        row["time_us"] = time(context, lambda: direction.run(algorithm, workspace))
    except CudnnError as error:
        return {**row, "note": error.status_name}
    difference = np.abs(output.numpy(stream) - expected).max()
    return {**row, "max_error": float(difference / np.abs(expected).max())}


def time(context: CudaContext, call: Callable[[], None]) -> float:
    """Return the microseconds of one call, by events around as many as fill 20 ms."""
    call()  # the first one may load code
    calls = 1
    while True:
        began = context.stream.record()
        for _ in range(calls):
            call()
        milliseconds = context.stream.record().elapsed_ms(began)
        if milliseconds > 20:
            return 1e3 * milliseconds / calls
        calls *= 4


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line; the default problem is LeNet's second convolution."""
    parser = argparse.ArgumentParser(description=__doc__)
    option = parser.add_argument
    option("--backend", choices=("auto", "cuda", "reference"), default="auto")
    option("--input", type=at_least(1), nargs=4, default=[64, 20, 12, 12], metavar=tuple("NCHW"))
    option("--filters", type=at_least(1), default=50, help="output channels (50)")
    option("--window", type=at_least(1), default=5, help="filter height and width (5)")
    option("--padding", type=at_least(0), default=0)
    option("--stride", type=at_least(1), default=1)
    option(
        "--math-type",
        choices=list(cudnn.MathType.__members__),
        default="FMA_MATH",
        help="FMA_MATH (the default) is plain float32, DEFAULT_MATH may use TF32",
    )
    option("--seed", type=at_least(0), default=0)
    option("--plot", type=Path, metavar="FILE", help="PNG with a bar per algorithm")
    option("--output", type=Path, metavar="DIR", help="write a result file there")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run the convolution, print the table, and write what was asked for."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    options.backend = None if options.backend == "auto" else options.backend
    options.math_type = cudnn.MathType[options.math_type]
    check_picture(parser, "--plot", options.plot)
    make_folder(parser, "--output", options.output)
    check_backend(parser, options.backend)
    result = results.begin(
        "convolution-by-hand",
        options.backend,
        input="x".join(map(str, options.input)),
        filters=options.filters,
        window=options.window,
        padding=options.padding,
        stride=options.stride,
        math_type=options.math_type.name,
        seed=options.seed,
    )
    with refusing(parser), CudaContext(options.backend) as context:
        result.rows = convolve(context, options)
    results.show(result)
    if options.plot is not None:
        results.draw_bars(result, options.plot, labels=("direction", "algorithm"), y="time_us")
        print(f"plotted {options.plot}")
    if options.output is not None:
        print(f"wrote {results.save(result, options.output)}")


if __name__ == "__main__":
    main()
