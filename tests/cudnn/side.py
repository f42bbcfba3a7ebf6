"""Tensors on the side of a context, in any dtype and layout, for the tests of single functions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pycudnn import cudnn, empty, from_numpy

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Largest error relative to the largest expected number, after one rounding and a few additions.
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2, "int8": 0.5}


def numpy_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of a name; "bfloat16" too."""
    return BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)


def strides(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """In elements: "packed", "channels last", or "gaps" (three unused elements after each row)."""
    order = list(range(len(shape)))
    if layout == "channels last":
        order.append(order.pop(1))
    steps, step = [0] * len(shape), 1
    for axis in reversed(order):
        steps[axis] = step
        step = step * shape[axis] + (3 if layout == "gaps" else 0)
    return tuple(steps)


class Tensor:
    """A descriptor, its memory (NaN where the strides skip) and the numbers in it, in float64."""

    def __init__(self, side: Side, values: Any, dtype: str, layout: str) -> None:
        values = np.asarray(values)
        self.side, self.shape = side, values.shape
        self.dtype = numpy_dtype(dtype)
        steps = strides(self.shape, layout)
        self.desc = cudnn.TensorDescriptor(self.shape, self.dtype, strides=steps,
                                           library=side.library)  # fmt: skip
        count = self.desc.extent // self.dtype.itemsize
        memory = np.frombuffer(bytearray(b"\xff" * self.desc.extent), self.dtype, count)
        self._at(memory)[...] = values
        self.values = self._at(memory).astype(np.float64)
        self._skipped = self._between(memory)
        self.data = side.put(memory)

    def _at(self, memory: np.ndarray) -> np.ndarray:
        steps = [step * self.dtype.itemsize for step in self.desc.strides]
        return np.lib.stride_tricks.as_strided(memory, self.shape, steps)

    def _between(self, memory: np.ndarray) -> bytes:
        copy = memory.copy()
        self._at(copy)[...] = 0
        return copy.tobytes()

    def read(self) -> np.ndarray:
        """The numbers as they are now, in float64; what the strides skip must be as before."""
        memory = self.side.get(self.data)
        assert self._between(memory) == self._skipped, "memory between the elements changed"
        return self._at(memory).astype(np.float64)

    def check(self, expected: Any, slack: float = 1.0) -> None:
        """The numbers are the expected ones, within the dtype's tolerance times ``slack``."""
        got, expected = self.read(), np.asarray(expected, np.float64)
        assert got.shape == expected.shape
        assert np.isfinite(got).all()
        tolerance = TOLERANCE[self.dtype.name] * slack * max(1.0, np.abs(expected).max())
        assert np.abs(got - expected).max() <= tolerance


class Side:
    """Makes tensors and buffers on a context's device."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.handle = context.cudnn
        self.library = context.cudnn.library

    def tensor(self, values: Any, dtype: str = "float32", layout: str = "packed") -> Tensor:
        """A tensor that holds the values."""
        return Tensor(self, values, dtype, layout)

    def blank(self, shape: tuple[int, ...], dtype: str = "float32", layout: str = "packed"):
        """A tensor of NaN (of 77 for integers)."""
        fill = 77 if numpy_dtype(dtype).kind in "iu" else np.nan
        return Tensor(self, np.full(shape, fill), dtype, layout)

    def put(self, array: np.ndarray) -> Any:
        """A buffer with an array's content."""
        return from_numpy(
            np.ascontiguousarray(array), device=self.context.device, stream=self.context.stream
        )

    def get(self, data: Any) -> np.ndarray:
        """The content of a buffer."""
        return data.numpy(self.context.stream)

    def scratch(self, nbytes: int) -> Any:
        """A workspace of exactly so many bytes, all of them 0xFF; None for 0."""
        if not nbytes:
            return None
        buffer = empty((nbytes,), "uint8", device=self.context.device, stream=self.context.stream)
        buffer.fill_bytes(0xFF, stream=self.context.stream)
        return buffer
