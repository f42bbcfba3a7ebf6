"""What the examples of the graph API share: options, operands, and how results are shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pycudnn import Buffer, CudaContext, dtypes, from_numpy
from pycudnn.cudnn.graph import ExecutionPlan, Graph, Tensor, time_call
from pycudnn.errors import CudnnError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import results
from command_line import at_least, check_backend, check_picture, make_folder
from command_line import refusing as refusing  # for the examples

size = at_least(1)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options that each of the examples has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--backend", choices=("auto", "cuda", "reference"), default="auto")
    made.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float16")
    made.add_argument("--tf32", action="store_true", help="allow TF32 for float32")
    made.add_argument("--seed", type=at_least(0), default=0)
    made.add_argument("--plot", type=Path, metavar="FILE", help="draw a PNG")
    made.add_argument("--output", type=Path, metavar="DIR", help="write a result file there")
    return made


def convolution_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options of a convolution as well."""
    made = parser(description)
    made.add_argument(
        "--input", type=size, nargs=4, default=[32, 64, 28, 28], metavar=tuple("NCHW")
    )
    made.add_argument("--filters", type=size, default=64, help="output channels (64)")
    return made


def parse(made: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line, and check what can be checked before the work."""
    options = made.parse_args(arguments)
    check_picture(made, "--plot", options.plot)
    make_folder(made, "--output", options.output)
    check_backend(made, backend(options))
    return options


def backend(options: argparse.Namespace) -> str | None:
    """Return the backend that ``--backend`` stands for; None is the default one."""
    return None if options.backend == "auto" else str(options.backend)


def status(error: CudnnError) -> str:
    """Name a status in a table, "not_supported" say."""
    return error.status_name.removeprefix("CUDNN_STATUS_").lower()


class Operands:
    """A buffer for each operand of a graph: random numbers in the inputs, NaN in the outputs."""

    def __init__(self, context: CudaContext, graph: Graph, seed: int = 0) -> None:
        self.context = context
        self.buffers: dict[Tensor, Buffer] = {}
        self.values: dict[str, np.ndarray] = {}  # of the inputs, in float64
        random = np.random.default_rng(seed)
        for tensor in graph.operands:
            dtype = dtypes.to_numpy(tensor.dtype)
            flat = np.full(tensor.layout.extent // dtype.itemsize, np.nan).astype(dtype)
            if not tensor.is_output:
                view = self._view(tensor, flat)
                view[...] = random.uniform(-1, 1, tensor.shape)
                self.values[tensor.name] = view.astype(np.float64)
            place = {"device": context.device, "stream": context.stream}
            self.buffers[tensor] = from_numpy(flat, **place)

    @staticmethod
    def _view(tensor: Tensor, flat: np.ndarray) -> np.ndarray:
        steps = [step * flat.itemsize for step in tensor.strides]
        return np.lib.stride_tricks.as_strided(flat, tensor.shape, steps)

    @property
    def memory(self) -> tuple[Buffer, ...]:
        """The buffers alone, in the order of the tensors."""
        return tuple(self.buffers.values())

    def measure(self, plan: ExecutionPlan, y: Tensor, expected: np.ndarray) -> results.Row:
        """Run a plan: its workspace, its time, and its error."""
        workspace = self.context.workspace(plan.workspace_size) if plan.workspace_size else None
        return self.measure_call(
            lambda: plan.execute(self.buffers, workspace), plan.workspace_size, y, expected
        )

    def measure_call(
        self, call: Callable[[], None], needed: int, y: Tensor, expected: np.ndarray
    ) -> results.Row:
        """Run a call that writes y; the row has its workspace, time and error, or why it failed."""
        self.buffers[y].fill_bytes(0xFF, self.context.stream)  # nothing left from before can pass
        try:
            time = time_call(self.context.stream, call)
        except CudnnError as error:
            return {"status": status(error)}
        row = {"status": "success", "workspace_bytes": needed, "time_us": time}
        return row | {"max_error": self.error(y, expected)}

    def error(self, y: Tensor, expected: np.ndarray) -> float:
        """Compute the largest error of an output, relative to its largest value."""
        got = self._view(y, self.buffers[y].numpy(self.context.stream)).astype(np.float64)
        return float(np.abs(got - expected).max() / np.abs(expected).max())


def convolution_bias_relu(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray, padding: int = 1
) -> np.ndarray:
    """Compute the larger of 0 and the convolution of x (N, C, H, W) with w plus bias."""
    pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads), w.shape[2:], axis=(2, 3))
    sums = np.einsum("nchwrs,kcrs->nkhw", windows, w, optimize=True)
    return np.asarray(np.maximum(sums + bias, 0))


def finish(result: results.Result, options: argparse.Namespace, *labels: str) -> None:
    """Print the table, and write and draw what was asked for."""
    results.show(result)
    if options.plot is not None:
        results.draw_bars(result, options.plot, labels=labels, y="time_us")
        print(f"plotted {options.plot}")
    if options.output is not None:
        print(f"wrote {results.save(result, options.output)}")
