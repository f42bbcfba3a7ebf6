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
from typing import Any

import numpy as np

from pycudnn import Buffer, CudaContext, cudnn, empty, from_numpy
from pycudnn.errors import CudnnError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import results  # noqa: E402

# A convolution as (run with algorithm and workspace, workspace size of algorithm, output).
Run = Callable[[IntEnum, "Buffer | None"], None]


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


def measure(context: CudaContext, run: Run, algorithm: IntEnum, workspace: int) -> float:
    """Return the microseconds of one call, by events around as many as fill a while."""
    space = context.workspace(workspace) if workspace else None
    stream = context.stream
    run(algorithm, space)  # the first call may load code
    calls = 1
    while True:
        began = stream.record()
        for _ in range(calls):
            run(algorithm, space)
        milliseconds = stream.record().elapsed_ms(began)
        if milliseconds > 20 or calls >= 1000:
            return 1e3 * milliseconds / calls
        calls *= 4


def convolve(context: CudaContext, options: argparse.Namespace) -> list[results.Row]:
    """Run all three directions with all algorithms; one row for each that the library has."""
    handle, library = context.cudnn, context.cudnn.library
    random = np.random.default_rng(options.seed)

    # 1. Descriptors say what lies in memory: shape, type, order.
    x_desc = cudnn.TensorDescriptor(options.input, library=library)
    w_shape = (options.filters, options.input[1], options.window, options.window)
    w_desc = cudnn.FilterDescriptor(w_shape, library=library)
    conv = cudnn.ConvolutionDescriptor(options.padding, options.stride, library=library)

    # 2. The library says what comes out.
    y_desc = cudnn.TensorDescriptor(
        cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc), library=library
    )
    print(x_desc, w_desc, conv, y_desc, sep="\n")

    # 3. Memory on the device, with data for the operands.
    host = [random.standard_normal(desc.shape, np.float32) for desc in (x_desc, w_desc, y_desc)]
    place = {"device": context.device, "stream": context.stream}
    x, w, dy = (from_numpy(array, **place) for array in host)
    y, dx, dw = (empty(desc.shape, **place) for desc in (y_desc, x_desc, w_desc))
    expected = in_float64(*host, options.padding, options.stride)

    # 4. Each direction: its algorithms, its descriptors in C order, its call.
    rows = []
    for math_type in options.math_types:
        conv = conv.replace(math_type=math_type)
        directions: list[tuple[str, type[IntEnum], Callable[..., int], tuple[Any, ...], Run, Buffer]]
        directions = [
            (
                "forward",
                cudnn.ConvolutionFwdAlgo,
                cudnn.get_convolution_forward_workspace_size,
                (x_desc, w_desc, conv, y_desc),
                lambda algorithm, space, conv=conv: cudnn.convolution_forward(
                    handle, x_desc, x, w_desc, w, conv, algorithm, space, y_desc, y
                ),
                y,
            ),
            (
                "backward data",
                cudnn.ConvolutionBwdDataAlgo,
                cudnn.get_convolution_backward_data_workspace_size,
                (w_desc, y_desc, conv, x_desc),
                lambda algorithm, space, conv=conv: cudnn.convolution_backward_data(
                    handle, w_desc, w, y_desc, dy, conv, algorithm, space, x_desc, dx
                ),
                dx,
            ),
            (
                "backward filter",
                cudnn.ConvolutionBwdFilterAlgo,
                cudnn.get_convolution_backward_filter_workspace_size,
                (x_desc, y_desc, conv, w_desc),
                lambda algorithm, space, conv=conv: cudnn.convolution_backward_filter(
                    handle, x_desc, x, y_desc, dy, conv, algorithm, space, w_desc, dw
                ),
                dw,
            ),
        ]
        for direction, algorithms, workspace_size, descriptors, run, output in directions:
            for algorithm in algorithms:
                row: results.Row = {
                    "direction": direction,
                    "algorithm": algorithm.name,
                    "math_type": math_type.name,
                    "workspace_bytes": None,
                    "time_us": None,
                    "max_error": None,
                }
                try:
                    workspace = workspace_size(handle, *descriptors, algorithm)
                    output.fill_bytes(0xFF, context.stream)  # NaN: nothing old may pass as a result
                    row["time_us"] = measure(context, run, algorithm, workspace)
                except CudnnError as error:
                    row["note"] = error.status_name.removeprefix("CUDNN_STATUS_").lower()
                else:
                    wanted = expected[direction]
                    error_size = np.abs(output.numpy(context.stream) - wanted).max()
                    row["workspace_bytes"] = workspace
                    row["max_error"] = float(error_size / np.abs(wanted).max())
                rows.append(row)
    return rows


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; the default problem is the second convolution of LeNet."""
    parser = argparse.ArgumentParser(description=__doc__)
    option = parser.add_argument
    option("--backend", choices=("auto", "cuda", "reference"), default="auto")
    option("--input", type=int, nargs=4, default=[64, 20, 12, 12], metavar=tuple("NCHW"))
    option("--filters", type=int, default=50, help="output channels (50)")
    option("--window", type=int, default=5, help="filter height and width (5)")
    option("--padding", type=int, default=0)
    option("--stride", type=int, default=1)
    option(
        "--math",
        nargs="+",
        choices=[each.name for each in cudnn.MathType],
        default=["FMA_MATH"],
        help="FMA_MATH is plain float32, DEFAULT_MATH may use TF32",
    )
    option("--seed", type=int, default=0)
    option("--plot", type=Path, metavar="FILE", help="PNG with a bar per algorithm")
    option("--output", type=Path, metavar="DIR", help="write a result file there")
    options = parser.parse_args(arguments)
    options.backend = None if options.backend == "auto" else options.backend
    options.math_types = [cudnn.MathType[name] for name in options.math]
    return options


def main(arguments: list[str] | None = None) -> None:
    """Run the convolution, print the table, and write what was asked for."""
    options = parse_arguments(arguments)
    result = results.begin(
        "convolution-by-hand",
        options.backend,
        input="x".join(map(str, options.input)),
        filters=options.filters,
        window=options.window,
        padding=options.padding,
        stride=options.stride,
        seed=options.seed,
    )
    with CudaContext(options.backend) as context:
        result.rows = convolve(context, options)
    results.show(result)
    if options.plot is not None:
        results.draw_bars(
            result, options.plot, labels=("direction", "algorithm", "math_type"), y="time_us"
        )
        print(f"plotted {options.plot}")
    if options.output is not None:
        print(f"wrote {results.save(result, options.output)}")


if __name__ == "__main__":
    main()
