"""One convolution for the tests: its descriptors on a library, random operands on both sides, and
the three results computed in float64 by padding and summing over the places of the window."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from c_library import CLibrary, Memory, Operand, ints, layouts, packed, rounded

from pycudnn.abi import types
from pycudnn.abi.cudnn_enums import (
    ConvolutionBwdDataAlgo,
    ConvolutionBwdFilterAlgo,
    ConvolutionFwdAlgo,
    ConvolutionMode,
    DataType,
    MathType,
    TensorFormat,
)

CROSS_CORRELATION, CONVOLUTION = ConvolutionMode.CROSS_CORRELATION, ConvolutionMode.CONVOLUTION
NCHW, NHWC = TensorFormat.NCHW, TensorFormat.NHWC
# The directions, with the algorithms that the reference library offers.
OFFERED: dict[str, list[Any]] = {
    "Forward": [
        ConvolutionFwdAlgo.IMPLICIT_GEMM,
        ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM,
        ConvolutionFwdAlgo.GEMM,
    ],
    "BackwardData": [ConvolutionBwdDataAlgo.ALGO_0, ConvolutionBwdDataAlgo.ALGO_1],
    "BackwardFilter": [
        ConvolutionBwdFilterAlgo.ALGO_0,
        ConvolutionBwdFilterAlgo.ALGO_1,
        ConvolutionBwdFilterAlgo.ALGO_3,
    ],
}
RECORDS = {
    "Forward": types.cudnnConvolutionFwdAlgoPerf_t,
    "BackwardData": types.cudnnConvolutionBwdDataAlgoPerf_t,
    "BackwardFilter": types.cudnnConvolutionBwdFilterAlgoPerf_t,
}
ALGORITHMS = [(direction, algo) for direction, algos in OFFERED.items() for algo in algos]
# The operands and the result of a direction, by the roles that they play.
ROLES = {"Forward": "xwy", "BackwardData": "wyx", "BackwardFilter": "xyw"}


@dataclass(frozen=True)
class Sizes:
    """What decides a convolution, as plain numbers."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    mode: int = CROSS_CORRELATION

    @property
    def y(self) -> tuple[int, ...]:
        """Count the places where a window fits, one dimension at a time."""
        counts = []
        for axis, size in enumerate(self.x[2:]):
            reach = (self.w[axis + 2] - 1) * self.dilation[axis]
            last = size + 2 * self.padding[axis] - 1 - reach
            counts.append(len(range(0, last + 1, self.stride[axis])))
        return (self.x[0], self.w[0], *counts)

    def shape(self, role: str) -> tuple[int, ...]:
        return getattr(self, role)

    # --- the exact results -----------------------------------------------------------------------

    def _padded(self, x: np.ndarray) -> np.ndarray:
        return np.pad(x, [(0, 0), (0, 0), *((pad, pad) for pad in self.padding)])

    def _places(self):
        """For each place of the window and each group: the slices of x, w and y that meet."""
        channels, filters = self.w[1], self.w[0] // self.groups
        for tap in np.ndindex(*self.w[2:]):
            met = tuple(
                slice(t * d, t * d + (count - 1) * u + 1, u)
                for t, d, u, count in zip(tap, self.dilation, self.stride, self.y[2:], strict=True)
            )
            if self.mode == CONVOLUTION:
                tap = tuple(size - 1 - t for size, t in zip(self.w[2:], tap, strict=True))
            for group in range(self.groups):
                cs = slice(group * channels, (group + 1) * channels)
                ks = slice(group * filters, (group + 1) * filters)
                yield (slice(None), cs, *met), (ks, slice(None), *tap), (slice(None), ks)

    def exact(self, direction: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The result of a direction from its operands, in float64."""
        result = np.zeros(self.shape(ROLES[direction][-1]))
        if direction == "Forward":
            padded = self._padded(first)
            for at_x, at_w, at_y in self._places():
                result[at_y] += np.einsum("nc...,kc->nk...", padded[at_x], second[at_w])
        elif direction == "BackwardData":
            padded = self._padded(result)
            for at_x, at_w, at_y in self._places():
                padded[at_x] += np.einsum("kc,nk...->nc...", first[at_w], second[at_y])
            inner = (
                slice(pad, pad + size) for pad, size in zip(self.padding, self.x[2:], strict=True)
            )
            result = padded[(slice(None), slice(None), *inner)]
        else:
            padded = self._padded(first)
            for at_x, at_w, at_y in self._places():
                met = padded[at_x].reshape(len(first), self.w[1], -1)
                gradients = second[at_y].reshape(len(first), self.w[0] // self.groups, -1)
                result[at_w] += np.einsum("nci,nki->kc", met, gradients)
        return result

    def terms(self, direction: str) -> int:
        """How many products an element of the result sums up at most."""
        window = int(np.prod(self.w[2:]))
        if direction == "Forward":
            return self.w[1] * window
        if direction == "BackwardData":
            return self.w[0] // self.groups * window
        return self.x[0] * int(np.prod(self.y[2:]))


class Filters:
    """Weights in memory with their descriptor."""

    def __init__(
        self,
        library: CLibrary,
        values: np.ndarray,
        data_type: DataType = DataType.FLOAT,
        format: TensorFormat = NCHW,
    ) -> None:
        order = (0, *range(2, values.ndim), 1) if format == NHWC else None
        self.data_type = data_type
        self._operand = Operand(library, values, packed(values.shape, order), data_type)
        self.descriptor = library.create("Filter")
        library.check(
            "cudnnSetFilterNdDescriptor",
            *(self.descriptor, data_type, format, values.ndim, ints(*values.shape)),
        )

    @property
    def address(self) -> int:
        return self._operand.address

    @property
    def arguments(self) -> tuple[Any, int]:
        return self.descriptor, self.address

    def read(self) -> np.ndarray:
        return self._operand.read()


class Problem:
    """A convolution with operands on a library; the result of each direction can be asked for."""

    def __init__(
        self,
        library: CLibrary,
        sizes: Sizes,
        rng: np.random.Generator,
        data_type: DataType = DataType.FLOAT,
        layout: str = "NCHW",
        y_layout: str | None = None,
        compute_type: DataType | None = None,
    ) -> None:
        self.library, self.sizes, self.data_type = library, sizes, data_type
        self.layouts = {"x": layout, "y": y_layout or layout}
        self.format = NHWC if layout == "NHWC" else NCHW
        self.values = {
            role: rounded(rng.standard_normal(sizes.shape(role)), data_type) for role in "xwy"
        }
        if compute_type is None:
            compute_type = DataType.DOUBLE if data_type == DataType.DOUBLE else DataType.FLOAT
        self.conv = descriptor(library, sizes, compute_type)

    def put(self, role: str, values: np.ndarray | None = None) -> Operand | Filters:
        """An operand in memory: the values given, or those drawn for the role."""
        if values is None:
            values = self.values[role]
        if role == "w":
            return Filters(self.library, values, self.data_type, self.format)
        strides = layouts(values.shape)[self.layouts[role]]
        return Operand(self.library, values, strides, self.data_type)

    def operands(self, direction: str) -> list[Any]:
        return [self.put(role) for role in ROLES[direction][:2]]

    def exact(self, direction: str) -> np.ndarray:
        first, second = (self.values[role] for role in ROLES[direction][:2])
        return self.sizes.exact(direction, first, second)

    def workspace_size(self, handle: Any, direction: str, algo: int) -> int:
        """What the library asks for; -1 if it does not support the algorithm here."""
        a, b, out = (self.put(role).descriptor for role in ROLES[direction])
        size = ctypes.c_size_t(0)
        name = f"cudnnGetConvolution{direction}WorkspaceSize"
        arguments = handle, a, b, self.conv, out, algo, ctypes.byref(size)
        return size.value if self.library.supports(name, *arguments) else -1

    def run(
        self,
        handle: Any,
        direction: str,
        algo: int,
        before: np.ndarray,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> np.ndarray | None:
        """The result over what was there before; None if the library does not support this."""
        size = self.workspace_size(handle, direction, algo)
        if size < 0:
            return None
        space = Memory(self.library, np.full(size + 8, 0xA5, np.uint8))
        first, second = self.operands(direction)
        out = self.put(ROLES[direction][-1], before)
        factors = (self.library.scalar(factor, self.data_type) for factor in (alpha, beta))
        done = self.library.supports(
            f"cudnnConvolution{direction}",
            *(handle, next(factors), *first.arguments, *second.arguments, self.conv, algo),
            *(space.address, size, next(factors), *out.arguments),
        )
        assert (space.read()[size:] == 0xA5).all(), "written behind the workspace"
        return out.read() if done else None


def descriptor(library: CLibrary, sizes: Sizes, compute_type: int = DataType.FLOAT) -> Any:
    """A convolution descriptor."""
    conv = library.create("Convolution")
    library.check(
        "cudnnSetConvolutionNdDescriptor",
        *(conv, len(sizes.padding), ints(*sizes.padding), ints(*sizes.stride)),
        *(ints(*sizes.dilation), sizes.mode, compute_type),
    )
    library.check("cudnnSetConvolutionGroupCount", conv, sizes.groups)
    if len(sizes.padding) > 2:  # DEFAULT_MATH lets these run in TF32 on a GPU
        library.check("cudnnSetConvolutionMathType", conv, MathType.FMA_MATH)
    return conv


PLAIN = Sizes((3, 4, 8, 9), (6, 4, 3, 2), (0, 0), (1, 1), (1, 1))
# Different in every dimension, so that a mixed-up axis shows.
CASES = {
    "plain": PLAIN,
    "padded": replace(PLAIN, padding=(2, 1)),
    "strided": replace(PLAIN, padding=(1, 0), stride=(2, 3)),
    "dilated": replace(PLAIN, padding=(3, 2), stride=(1, 2), dilation=(3, 2)),
    "grouped": replace(PLAIN, w=(6, 2, 3, 2), padding=(1, 1), groups=2),
    "depthwise": replace(PLAIN, w=(4, 1, 3, 2), padding=(1, 0), groups=4),
    "turned": replace(PLAIN, padding=(1, 2), stride=(2, 1), mode=CONVOLUTION),
    "pointwise": replace(PLAIN, w=(6, 4, 1, 1), stride=(2, 2)),
    "volume": Sizes((2, 4, 4, 5, 6), (2, 2, 2, 3, 2), (1, 0, 2), (1, 2, 1), (2, 1, 2), groups=2),
}
