"""Problems for cudnn_cnn.h: convolutions in all directions and types, their algorithms, bias."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from harness import FLOATING, Case, Operand, problem

sys.path.insert(0, str(Path(__file__).parents[1] / "cudnn"))

import exact

from pycudnn import cudnn
from pycudnn.errors import NotSupported

SCALES = ((1.0, 0.0), (0.5, 0.0), (1.0, 1.0), (-1.5, 0.5))
NCHW, NHWC, VECT = cudnn.TensorFormat
WORKSPACE_LIMIT = 2**26
RELU, IDENTITY = cudnn.ActivationMode.RELU, cudnn.ActivationMode.IDENTITY


class Convolution:
    """Shapes and settings of a random convolution, with its descriptor."""

    def __init__(self, case: Case, dtype: str, *, step: int = 1, dilation: int = 2) -> None:
        self.case, self.dtype = case, dtype
        rank = 2 if dtype == "int8" else case.choose(2, 2, 2, 3)
        self.groups = case.choose(1, 1, 2, 3) if step == 1 else 1
        self.geometry = {
            "padding": case.shape(rank, 0, 2), "stride": case.shape(rank, 1, 2),
            "dilation": case.shape(rank, 1, dilation),
        }  # fmt: skip
        self.mode = case.choose(*cudnn.ConvolutionMode)
        self.conv = cudnn.ConvolutionDescriptor(
            **self.geometry, mode=self.mode, groups=self.groups, ndim=rank, library=case.library,
            compute_type={"float64": "float64", "int8": "int32"}.get(dtype, "float32"),
        )  # fmt: skip
        channels, filters = (step * self.groups * case.integer(1, 4) for _ in range(2))
        space = tuple(4 + extra for extra in case.shape(rank, 1, 6))
        self.x = (case.integer(1, 3), channels, *space)
        self.w = (filters, channels // self.groups, *case.shape(rank, 1, 3))
        x = cudnn.TensorDescriptor(self.x, library=case.library)
        w = cudnn.FilterDescriptor(self.w, library=case.library)
        self.y = cudnn.get_convolution_forward_output_dim(self.conv, x, w)

    def exact(self, name: str, *operands: Any) -> np.ndarray:
        """The result of one of the functions of ``exact``."""
        is_flipped = self.mode == cudnn.ConvolutionMode.CONVOLUTION
        function = getattr(exact, name)
        return function(*operands, self.groups, **self.geometry, flip=is_flipped)

    def run(self, direction: str, first: Operand, second: Operand, out: Operand, **scales: Any):
        """Search as the C function says, run what was found, and return how far it may be off."""
        case, descs = self.case, (first.desc, second.desc, self.conv, out.desc)
        if case.function.endswith("Ex"):
            records = getattr(cudnn, f"find_convolution_{direction}_algorithm_ex")(
                case.handle, first.desc, first.data, second.desc, second.data, self.conv, out.desc,
                case.put(out.before), case.scratch(case.choose(0, 2**10, 2**24)),
            )  # fmt: skip
        elif "Find" in case.function:
            records = getattr(cudnn, f"find_convolution_{direction}_algorithm")(case.handle, *descs)
        else:
            name = f"get_convolution_{direction}_algorithm_v7"
            records = getattr(cudnn, name)(case.handle, *descs)
        fits = [
            record
            for record in records
            if record.status == cudnn.Status.SUCCESS and record.memory <= WORKSPACE_LIMIT
            and record.math_type == self.conv.math_type
        ]  # fmt: skip
        if not fits:
            raise NotSupported("no algorithm for this")
        record = case.choose(*fits)
        workspace_size = getattr(cudnn, f"get_convolution_{direction}_workspace_size")
        needed = workspace_size(case.handle, *descs, record.algorithm)
        assert needed <= record.memory
        getattr(cudnn, f"convolution_{direction}")(
            case.handle, first.desc, first.data, second.desc, second.data, self.conv,
            record.algorithm, case.scratch(needed), out.desc, out.data, **scales,
        )  # fmt: skip
        return 200 if record.algorithm.name.startswith(("WINOGRAD", "FFT")) else 2


def posed(direction: str) -> tuple[str, ...]:
    """The C functions of a direction: its convolution and the searches for an algorithm."""
    name = f"Convolution{direction}"
    return (
        f"cudnn{name}", f"cudnnGet{name}Algorithm_v7", f"cudnnFind{name}Algorithm",
        f"cudnnFind{name}AlgorithmEx",
    )  # fmt: skip


def layouts(case: Case) -> tuple[str, Any]:
    """Of tensors, and the filters' format: GPUs have few algorithms for what differs."""
    format = case.choose(NCHW, NHWC)
    layout = "channels last" if format == NHWC else case.choose("packed", "gaps")
    return layout, format


def terms(shape: tuple[int, ...]) -> float:
    """Square root of the number of products in a sum: how errors add up."""
    return math.sqrt(math.prod(shape))


@problem(*posed("Forward"))
def convolution_forward(case: Case) -> None:
    p = Convolution(case, case.choose(*FLOATING))
    layout, format = layouts(case)
    x, w = case.tensor(p.x, p.dtype, layout=layout), case.filter(p.w, p.dtype, format=format)
    alpha, beta = case.choose(*SCALES)
    y = case.tensor(p.y, p.dtype, layout=layout, blank=beta == 0)
    slack = p.run("forward", x, w, y, alpha=alpha, beta=beta)
    expected = alpha * p.exact("convolution", x.values, w.values, p.y)
    expected += beta * y.values if beta else 0.0
    case.check(y, expected, p.dtype, slack + terms(p.w[1:]))


@problem(*posed("BackwardData"))
def convolution_backward_data(case: Case) -> None:
    p = Convolution(case, case.choose(*FLOATING))
    layout, format = layouts(case)
    w, dy = case.filter(p.w, p.dtype, format=format), case.tensor(p.y, p.dtype, layout=layout)
    alpha, beta = case.choose(*SCALES)
    dx = case.tensor(p.x, p.dtype, layout=layout, blank=beta == 0)
    slack = p.run("backward_data", w, dy, dx, alpha=alpha, beta=beta)
    expected = alpha * p.exact("convolution_data", dy.values, w.values, p.x)
    expected += beta * dx.values if beta else 0.0
    case.check(dx, expected, p.dtype, slack + terms((p.w[0], *p.w[2:])))


@problem(*posed("BackwardFilter"))
def convolution_backward_filter(case: Case) -> None:
    p = Convolution(case, case.choose(*FLOATING))
    layout, format = layouts(case)
    x, dy = (case.tensor(shape, p.dtype, layout=layout) for shape in (p.x, p.y))
    alpha, beta = case.choose(*SCALES)
    dw = case.filter(p.w, p.dtype, format=format, blank=beta == 0)
    slack = p.run("backward_filter", x, dy, dw, alpha=alpha, beta=beta)
    expected = alpha * p.exact("convolution_filter", x.values, dy.values, p.w)
    expected += beta * dw.values if beta else 0.0
    case.check(dw, expected, p.dtype, slack + terms((p.y[0], *p.y[2:])))


@problem("cudnnConvolutionBackwardBias")
def convolution_backward_bias(case: Case) -> None:
    dtype, rank = case.choose(*FLOATING), case.choose(4, 5)
    dy = case.tensor(case.shape(rank), dtype)
    alpha, beta = case.choose(*SCALES)
    shape = (1, dy.desc.shape[1], *(1,) * (rank - 2))
    db = case.tensor(shape, dtype, layout="packed", blank=beta == 0)
    cudnn.convolution_backward_bias(
        case.handle, dy.desc, dy.data, db.desc, db.data, alpha=alpha, beta=beta
    )
    expected = alpha * dy.values.sum((0, *range(2, rank)), keepdims=True)
    count = dy.values.size // shape[1]
    case.check(db, expected + (beta * db.values if beta else 0.0), dtype, 2 + math.sqrt(count))


# ---- with bias and activation, and int8 ----------------------------------------------------------


def activated(values: np.ndarray, activation: Any) -> np.ndarray:
    return np.maximum(values, 0) if activation == RELU else values


def fused(
    case: Case, p: Convolution, x: Any, w: Any, z: Any, bias: Operand, y: Any,
    mode: Any, **scales: float,
) -> None:  # fmt: skip
    """One call of the fused function, with the algorithm that IDENTITY needs."""
    needed = cudnn.get_convolution_forward_workspace_size(
        case.handle, x.desc, w.desc, p.conv, y.desc, 1
    )
    activation = cudnn.ActivationDescriptor(mode, library=case.library)
    cudnn.convolution_bias_activation_forward(
        case.handle, x.desc, x.data, w.desc, w.data, p.conv, 1, case.scratch(needed), z.desc,
        z.data, bias.desc, bias.data, activation, y.desc, y.data, **scales,
    )  # fmt: skip


@problem("cudnnConvolutionBiasActivationForward")
def convolution_bias_activation_forward(case: Case) -> None:
    p = Convolution(case, case.choose(*FLOATING))
    layout, format = layouts(case)
    x, w = case.tensor(p.x, p.dtype, layout=layout), case.filter(p.w, p.dtype, format=format)
    y = case.tensor(p.y, p.dtype, layout=layout, blank=True)
    z = case.operand(y.desc, p.dtype)
    shape = (1, p.y[1], *(1,) * (len(p.y) - 2))
    bias = case.tensor(shape, p.dtype, layout="packed")
    mode, (alpha1, alpha2) = case.choose(RELU, IDENTITY), case.choose(*SCALES)
    fused(case, p, x, w, z, bias, y, mode, alpha1=alpha1, alpha2=alpha2)
    sums = alpha1 * p.exact("convolution", x.values, w.values, p.y) + bias.values
    expected = activated(sums + (alpha2 * z.values if alpha2 else 0.0), mode)
    case.check(y, expected, p.dtype, 4 + terms(p.w[1:]))


# Types and format of x and w; the types that y can have.
INT8 = {
    "int8": ("INT8", "INT8", NHWC, ("INT8", "FLOAT")),
    "uint8": ("UINT8", "INT8", NHWC, ("INT8", "FLOAT")),
    "int8x4": ("INT8x4", "INT8x4", VECT, ("INT8x4", "FLOAT")),
    "uint8x4": ("UINT8x4", "INT8x4", VECT, ("INT8x4", "FLOAT")),
    "int8x32": ("INT8x32", "INT8x32", VECT, ("INT8x32",)),
}
WIDTHS = {"INT8x4": 4, "UINT8x4": 4, "INT8x32": 32}


class Bytes:
    """A tensor or filter of int8 or float32: channels last, or in vectors."""

    def __init__(
        self, case: Case, type_name: str, format: Any, values: np.ndarray, *, weights: bool = False
    ) -> None:
        make = cudnn.FilterDescriptor if weights else cudnn.TensorDescriptor
        self.desc = make(
            values.shape, cudnn.DataType[type_name], format=format, library=case.library
        )
        # How (N, C / v, v, *space) lies; without vectors v is 1.
        self.width = WIDTHS.get(type_name, 1)
        self.order = (0, 2, *range(3, values.ndim + 1), 1) if format == NHWC else (
            0, 1, *range(3, values.ndim + 1), 2
        )  # fmt: skip
        self.values = values
        dtype = {"F": np.float32, "U": np.uint8, "I": np.int8}[type_name[0]]
        self.data = case.put(self._split(values).transpose(self.order).astype(dtype))

    def _split(self, values: np.ndarray) -> np.ndarray:
        n, c, *space = values.shape
        return values.reshape(n, c // self.width, self.width, *space)

    def read(self, case: Case) -> np.ndarray:
        places = self._split(np.arange(self.values.size).reshape(self.values.shape))
        got = np.empty(self.values.size)
        got[places.transpose(self.order).ravel()] = case.get(self.data).ravel()
        return got.reshape(self.values.shape)


@problem("cudnnConvolutionForward: int8", "cudnnConvolutionBiasActivationForward: int8")
def int8(case: Case) -> None:
    x_type, w_type, format, y_types = INT8[case.choose(*INT8)]
    y_type = case.choose(*y_types)
    dilation = 2 if x_type == "INT8x32" else 1
    p = Convolution(case, "int8", step=WIDTHS.get(w_type, 4), dilation=dilation)
    low = 0 if x_type[0] == "U" else -9
    x = Bytes(case, x_type, format, case.rng.integers(low, 10, p.x).astype(float))
    w = Bytes(case, w_type, format, case.rng.integers(-5, 6, p.w).astype(float), weights=True)
    y_format = format if y_type != "FLOAT" or format == NHWC else NCHW
    y = Bytes(case, y_type, y_format, case.rng.integers(-20, 21, p.y).astype(float))
    alpha, beta = case.choose((0.5, 0.0), (0.25, -1.0), (2.0, 1.0))
    expected = alpha * p.exact("convolution", x.values, w.values, p.y) + beta * y.values
    if "Bias" in case.function:
        numbers = case.rng.integers(-20, 21, (1, p.y[1], 1, 1))
        bias = case.tensor(numbers.shape, "float32", layout="packed", values=numbers)
        mode = case.choose(RELU, IDENTITY)
        fused(case, p, x, w, y, bias, y, mode, alpha1=alpha, alpha2=beta)
        expected = activated(expected + bias.values, mode)
    else:
        algo = case.choose(0, 1)
        descs = x.desc, w.desc, p.conv, y.desc
        needed = cudnn.get_convolution_forward_workspace_size(case.handle, *descs, algo)
        cudnn.convolution_forward(
            case.handle, x.desc, x.data, w.desc, w.data, p.conv, algo, case.scratch(needed), y.desc,
            y.data, alpha=alpha, beta=beta,
        )  # fmt: skip
    if y_type == "FLOAT":
        case.compare(y.read(case), expected, "float32", 2)
    else:
        case.compare(y.read(case), np.clip(np.rint(expected), -128, 127), "int8")
