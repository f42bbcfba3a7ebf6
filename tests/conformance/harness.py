"""Random problems for every computing C function, each compared with float64.

A *problem function* poses one random problem through the object face:

    @problem("cudnnAddTensor")
    def add_tensor(case: Case) -> None:
        dtype = case.choose("float32", "float64", "float16", "bfloat16")
        shape = case.shape(4)
        a, c = case.tensor(shape, dtype), case.tensor(shape, dtype)
        cudnn.add_tensor(case.handle, a.desc, a.data, c.desc, c.data, alpha=0.5, beta=2.0)
        case.check(c, 0.5 * a.values + 2.0 * c.values, dtype)

Its expected result comes from NumPy in float64, written apart from the reference library. Inputs
lie in random layouts; outputs and workspaces hold NaN before the call. What an operand's strides
skip must come out untouched.

A problem ends in one of three ways: *passed*; *refused*, when the library says NOT_SUPPORTED, as a
typed error; or *failed*, by any other exception. ``run.py`` poses thousands and writes the result.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from pycudnn import CudaContext, cudnn, empty, from_numpy
from pycudnn.errors import FunctionNotFound, NotSupported

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Largest error, relative to the largest expected number, of one rounding and a few additions.
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}
FLOATING = tuple(TOLERANCE)
GUARD = 64  # elements behind each operand, which no call may touch

ProblemFunction = Callable[["Case"], None]
PROBLEMS: dict[str, ProblemFunction] = {}


def problem(*functions: str) -> Callable[[ProblemFunction], ProblemFunction]:
    """Register a problem function for the C functions that it calls."""

    def register(pose: ProblemFunction) -> ProblemFunction:
        for function in functions:
            if function in PROBLEMS:
                raise ValueError(f"{function} has a problem function already")
            PROBLEMS[function] = pose
        return pose

    return register


def load_problems() -> dict[str, ProblemFunction]:
    """Import every problems_*.py beside this file; C function to problem function."""
    for path in sorted(Path(__file__).parent.glob("problems_*.py")):
        importlib.import_module(path.stem)
    return PROBLEMS


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype of a name; "bfloat16" too."""
    return BFLOAT16 if dtype in ("bfloat16", BFLOAT16) else np.dtype(dtype)


@dataclass
class Operand:
    """A tensor on the device: descriptor, memory, and the numbers put there, in float64."""

    desc: Any
    data: Any
    values: np.ndarray
    before: np.ndarray = field(repr=False)  # all of the memory as it was


class Case:
    """One problem's random choices, operands and checks. ``function`` is the C function posed."""

    def __init__(self, context: CudaContext, function: str, rng: np.random.Generator) -> None:
        self.context = context
        self.function = function
        self.rng = rng
        self.handle = context.cudnn
        self.library = context.cudnn.library
        self.backend = context.device.backend
        self.choices: list[str] = []  # for the report of a failure
        self.error = 0.0  # largest error so far, in units of its tolerance
        self.checks = 0

    # ---- random choices --------------------------------------------------------------------------

    def choose(self, *options: Any) -> Any:
        """One of the options."""
        option = options[int(self.rng.integers(len(options)))]
        self.choices.append(str(option))
        return option

    def integer(self, low: int, high: int) -> int:
        """An int from ``low`` to ``high``, both included."""
        number = int(self.rng.integers(low, high + 1))
        self.choices.append(str(number))
        return number

    def shape(self, ndim: int = 4, low: int = 1, high: int = 9) -> tuple[int, ...]:
        """A shape of ``ndim`` dimensions."""
        shape = tuple(int(size) for size in self.rng.integers(low, high + 1, ndim))
        self.choices.append(str(shape))
        return shape

    def strides(self, shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
        """Strides in elements: "packed", "channels last", or "gaps" (room after each row)."""
        order = list(range(len(shape)))
        if layout == "channels last":
            order.append(order.pop(1))
        steps, step = [0] * len(shape), 1
        for axis in reversed(order):
            steps[axis] = step
            step = step * shape[axis] + (int(self.rng.integers(0, 4)) if layout == "gaps" else 0)
        return tuple(steps)

    # ---- operands --------------------------------------------------------------------------------

    def tensor(
        self,
        shape: Iterable[int],
        dtype: Any,
        *,
        layout: str | None = None,
        values: Any = None,
        low: float = -1.0,
        high: float = 1.0,
        blank: bool = False,
    ) -> Operand:
        """A tensor of random (or the given) values, or of NaN (``blank``), in a random layout."""
        shape = tuple(shape)
        layout = layout or self.choose("packed", "channels last", "gaps")
        desc = cudnn.TensorDescriptor(
            shape, numpy_dtype(dtype), strides=self.strides(shape, layout), library=self.library
        )
        return self.operand(desc, dtype, values=values, low=low, high=high, blank=blank)

    def filter(
        self, shape: Iterable[int], dtype: Any, *, format: Any = None, blank: bool = False
    ) -> Operand:
        """Weights of random values, or NaN, in NCHW or NHWC order."""
        format = format or self.choose(cudnn.TensorFormat.NCHW, cudnn.TensorFormat.NHWC)
        desc = cudnn.FilterDescriptor(
            tuple(shape), numpy_dtype(dtype), format=format, library=self.library
        )
        return self.operand(desc, dtype, blank=blank)

    def operand(
        self,
        desc: Any,
        dtype: Any,
        *,
        values: Any = None,
        low: float = -1.0,
        high: float = 1.0,
        blank: bool = False,
    ) -> Operand:
        """Memory for a descriptor with shape, strides and extent, filled like ``tensor``'s."""
        dtype = numpy_dtype(dtype)
        memory = nan_filled(desc.extent // dtype.itemsize + GUARD, dtype)
        at = strided(memory, desc)
        if not blank:
            at[...] = self.values(desc.shape, dtype, low, high) if values is None else values
        return Operand(desc, self.put(memory), at.astype(np.float64), memory.copy())

    def values(
        self, shape: tuple[int, ...], dtype: Any, low: float = -1.0, high: float = 1.0
    ) -> np.ndarray:
        """Random numbers that ``dtype`` holds exactly, in float64 (integers for integer types)."""
        dtype = numpy_dtype(dtype)
        if dtype.kind in "iu":
            return self.rng.integers(int(low), int(high) + 1, shape).astype(np.float64)
        return self.rng.uniform(low, high, shape).astype(dtype).astype(np.float64)

    def put(self, array: np.ndarray) -> Any:
        """A device buffer with the array's content."""
        return from_numpy(
            np.ascontiguousarray(array), device=self.context.device, stream=self.context.stream
        )

    def get(self, data: Any) -> np.ndarray:
        """The content of a device buffer."""
        return data.numpy(self.context.stream)

    def scratch(self, nbytes: int) -> Any:
        """A workspace or reserve space of exactly so many bytes, all ones (NaN); None for 0."""
        if not nbytes:
            return None
        buffer = empty((nbytes,), "uint8", device=self.context.device, stream=self.context.stream)
        buffer.fill_bytes(0xFF, stream=self.context.stream)
        return buffer

    # ---- checks ----------------------------------------------------------------------------------

    def check(
        self, operand: Operand, expected: Any, dtype: Any = "float32", slack: float = 1.0
    ) -> None:
        """The operand holds the expected numbers, and what lies between them is as before.

        The tolerance is that of ``dtype``, times ``slack`` (square root of the additions, say).
        """
        memory = self.get(operand.data)
        self.compare(strided(memory, operand.desc), expected, dtype, slack)
        now, before = memory.copy(), operand.before.copy()
        strided(now, operand.desc)[...] = 0
        strided(before, operand.desc)[...] = 0
        assert now.tobytes() == before.tobytes(), "memory between or behind the elements changed"

    def compare(self, got: Any, expected: Any, dtype: Any = "float32", slack: float = 1.0) -> None:
        """Numbers agree within the tolerance of ``dtype`` times ``slack``; complex ones too."""
        wide = np.complex128 if np.iscomplexobj(got) or np.iscomplexobj(expected) else np.float64
        got, expected = np.asarray(got).astype(wide), np.asarray(expected, wide)
        assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
        assert np.isfinite(got).all(), f"{np.sum(~np.isfinite(got))} of {got.size} not finite"
        self.checks += 1
        if not got.size:
            return
        tolerance = tolerance_of(dtype) * slack
        is_exact = numpy_dtype(dtype).kind in "iub"
        scale = 1.0 if is_exact else max(1.0, float(np.abs(expected).max()))
        error = float(np.abs(got - expected).max()) / scale / tolerance
        self.error = max(self.error, error)
        assert error <= 1, f"error is {error:.3g} times the tolerance {tolerance:.2g}"


def tolerance_of(dtype: Any) -> float:
    """Tolerance of a dtype; complex types have that of their parts, integers half a unit."""
    dtype = numpy_dtype(dtype)
    if dtype.kind in "iub":
        return 0.5
    if dtype.kind == "c":
        dtype = np.empty(0, dtype).real.dtype
    return TOLERANCE[dtype.name]


def nan_filled(count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """All bits set: NaN in every floating type, -1 or the largest number in integer ones."""
    return np.frombuffer(bytearray(b"\xff" * (count * dtype.itemsize)), dtype)


def strided(memory: np.ndarray, desc: Any) -> np.ndarray:
    """The elements that a descriptor describes, as a view."""
    steps = [step * memory.itemsize for step in desc.strides]
    return np.lib.stride_tricks.as_strided(memory, desc.shape, steps)


@dataclass
class Outcome:
    """How one problem ended."""

    function: str
    seed: int
    result: str  # "passed", "refused", "absent" or "failed"
    error: float  # largest error in units of its tolerance
    text: str = ""


def pose(context: CudaContext, function: str, seed: int) -> Outcome:
    """Pose one random problem; the seed repeats it."""
    case = Case(context, function, np.random.default_rng([seed, *function.encode()]))
    try:
        PROBLEMS[function](case)
        context.synchronize()
    except FunctionNotFound as error:
        return Outcome(function, seed, "absent", 0.0, str(error))
    except NotSupported as error:
        return Outcome(function, seed, "refused", 0.0, f"{', '.join(case.choices)}: {error}")
    except Exception:
        text = f"{', '.join(case.choices)}\n{traceback.format_exc()}"
        return Outcome(function, seed, "failed", case.error, text)
    if not case.checks:
        return Outcome(function, seed, "failed", 0.0, "the problem function checked nothing")
    return Outcome(function, seed, "passed", case.error)
