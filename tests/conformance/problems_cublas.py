"""Problems for every cuBLAS function, drawn from the table of the face.

Sizes, leading dimensions, increments, batches, operations and types are random. Operands lie in
memory full of NaN: what a function must not read (the other triangle, what lies between columns)
would show in its result, what it must not write is compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import blas_lapack
import blas_oracle
import numpy as np
from blas_types import TYPES
from harness import GUARD, Case, nan_filled, problem

from pycudnn import cublas
from pycudnn.cublas import CudaDataType, PointerMode, _elements
from pycudnn.cublas._functions import FUNCTIONS, Argument, Function
from pycudnn.cublas._shapes import Block

Array = np.ndarray

_TRIANGULAR = ("trmv", "tbmv", "tpmv", "trsv", "tbsv", "tpsv", "trmm", "trsm")
_HALF_READ = {
    **dict.fromkeys(("symv", "hemv", "symm", "hemm", "trttp"), "a"),
    **dict.fromkeys(("syr", "her", "syr2", "her2"), "a"),
    **dict.fromkeys(("syrk", "herk", "syr2k", "her2k", "syrkx", "herkx"), "c"),
    **dict.fromkeys(("trmv", "trsv", "trmm", "trsm"), "a"),
}
_HERMITIAN = {
    **dict.fromkeys(("her", "her2"), "a"),
    **dict.fromkeys(("hpr", "hpr2"), "ap"),
    **dict.fromkeys(("herk", "her2k", "herkx"), "c"),
}


@dataclass
class Memory:
    """One operand of one problem: arrays of memory, and the block of each matrix in them."""

    argument: Argument
    block: Block
    element: _elements.Element
    arrays: list[Array]  # one a list entry
    places: list[tuple[int, int]]  # by matrix of the batch: array, first element
    before: list[bytes] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)

    def stored(self, arrays: list[Array], index: int) -> Array:
        """Matrix ``index`` as a (length, runs) view, a vector in one dimension and in order."""
        which, start = self.places[index]
        item = self.element.dtype.itemsize
        steps = (item, abs(self.block.step) * item)
        view = np.lib.stride_tricks.as_strided(
            arrays[which][start:], (self.block.length, self.block.runs), steps
        )
        assert self.argument.shape is not None
        if self.argument.shape.is_vector:
            return view[0, :: -1 if self.block.step < 0 else 1]
        return view if self.argument.shape.step else view[:, 0]

    def numbers(self, arrays: list[Array], index: int) -> Array:
        """A wide copy of what is stored for matrix ``index``."""
        return blas_oracle.wide(self.stored(arrays, index).copy())


class Posed:
    """One random call of a function; a ``wide`` one has steps that need 64 bits.

    Those have sizes of 1: a second column would lie 2**31 elements away.
    """

    def __init__(self, case: Case, function: Function, wide: bool = False) -> None:
        self.case = case
        self.function = function
        self.wide = wide
        self.values: dict[str, Any] = {}
        self.scalars: dict[str, Any] = {}
        self.memory: dict[str, Memory] = {}
        self._draw_numbers()
        self._draw_scalars()
        for argument in function.arguments:
            if argument.kind == "operand":
                self.memory[argument.name] = self._draw_memory(argument)
        if function.family.name == "herkx":  # the caller's part: op(A) op(B)^H is Hermitian
            self.scalars["alpha"] = self.scalars["alpha"].real
            a, b = self.memory["a"], self.memory["b"]
            b.stored(b.arrays, 0)[...] = a.stored(a.arrays, 0)
            b.buffers = [case.put(b.arrays[0])]

    # ---- drawing ----

    def _draw_numbers(self) -> None:
        case, function, values, wide = self.case, self.function, self.values, self.wide
        name = function.name
        for argument in function.arguments:
            if argument.kind == "enum":
                values[argument.name] = int(case.choose(*argument.choices))
            elif argument.kind == "size":
                many = argument.name not in ("kl", "ku", "batch_count", "batch_size")
                low, high = (1, 9) if many else (0, 3)
                is_batch = argument.name == function.batch
                values[argument.name] = case.integer(low, low if wide and not is_batch else high)
            elif argument.kind == "stride":
                values[argument.name] = 0  # drawn with the operand
            elif argument.kind == "int":  # of the 8-bit product: nothing added, scaled by 1
                values[argument.name] = int(argument.name == "c_mult")
            elif argument.kind == "increment":
                alone = sum(a.kind == "increment" for a in function.arguments) == 1
                choices = (1, 2, 3) if alone and "a" not in values else (1, 2, -1, -3)
                values[argument.name] = case.choose(*choices) * (2**31 if wide else 1)
        for batch in ("batch_count", "batch_size"):
            if batch in values:
                values[batch] = max(1, values[batch])
        if function.family.name == "gels":
            values["trans"] = 0
            values["m"], values["n"] = sorted((values["m"], values["n"]), reverse=True)
        if name in TYPES:
            values |= case.choose(*TYPES[name])
        for argument in function.arguments:  # after the sizes that they depend on
            if argument.kind == "leading":
                shape = function.family.shapes[argument.of]
                rows, _ = shape.sizes(values)
                room = 2**31 if wide else case.integer(0, 3)
                values[argument.name] = self._aligned(max(1, rows) + room)

    def _aligned(self, step: int) -> int:
        """A step of 8-bit matrices, which cuBLAS takes in multiples of 4."""
        is_narrow = self.values.get("a_type") == CudaDataType.R_8I
        return -(-step // 4) * 4 if is_narrow else step

    def element(self, argument: Argument) -> _elements.Element:
        """The type of an operand or scalar."""
        if self.wide and argument.name == "out" and argument.element is _elements.INT32:
            return _elements.INT64  # positions
        if argument.element is not None:
            return argument.element
        if argument.typed_by == "compute_type":
            compute = self.values.get("compute_type")
            if compute is None:
                compute = _elements.default_compute_type(self.values["c_type"])
            return _elements.scaling_element(compute, self.values["c_type"])
        return _elements.element_of(self.values[argument.typed_by])

    def _draw_scalars(self) -> None:
        rng, family = self.case.rng, self.function.family.name
        for argument in self.function.arguments:
            if argument.kind != "scalar" or argument.direction == "out":
                continue
            element = self.element(argument)
            value: Any = self._scalar(element)
            if argument.name == "beta" and rng.integers(2):
                value = 0
            if family == "rot":
                angle = rng.uniform(0, 6)
                phase = np.exp(1j * rng.uniform(0, 6)) if element.dtype.kind == "c" else 1
                value = np.cos(angle) if argument.name == "c" else np.sin(angle) * phase
            elif argument.count == 5:
                value = [float(rng.integers(-2, 2)), *self._plain(4, element)]
            elif argument.name in ("d1", "d2"):
                value = abs(value) + 0.5
            self.scalars[argument.name] = value
        if family == "rot":  # as the type of c and s holds them
            for name in "cs":
                argument = next(a for a in self.function.arguments if a.name == name)
                held = np.asarray(self.scalars[name]).astype(self.element(argument).dtype)
                self.scalars[name] = complex(held) if held.dtype.kind == "c" else float(held)

    def _scalar(self, element: _elements.Element) -> Any:
        if element.dtype.kind in "iu":
            return int(self.case.rng.integers(-3, 4))
        real, imaginary = self._plain(2, element)
        return complex(real, imaginary) if element.dtype.kind == "c" else real

    def _plain(self, count: int, element: _elements.Element) -> list[float]:
        """Multiples of 1/8, which every type holds."""
        return [float(x) / 8 for x in self.case.rng.integers(-16, 17, count)]

    def _draw_memory(self, argument: Argument) -> Memory:
        assert argument.shape is not None
        values, case = self.values, self.case
        block, element = argument.shape.block(values), self.element(argument)
        batch = values.get(self.function.batch, 1)
        extents, places = [block.span], [(0, 0)]
        if argument.batched == "pointers":
            extents, places = [block.span] * batch, [(i, 0) for i in range(batch)]
        elif argument.batched == "strided":
            shared = not argument.writes and case.choose(True, False, False)
            stride = 0 if shared else self._aligned(block.span + case.integer(0, 5))
            values[argument.stride] = stride
            extents = [block.span + (batch - 1) * stride]
            places = [(0, index * stride) for index in range(batch)]
        arrays = [nan_filled(extent + GUARD, element.dtype) for extent in extents]
        made = Memory(argument, block, element, arrays, places)
        for index in range(len(places)):
            view = made.stored(arrays, index)
            view[...] = self._content(argument, view.shape, element)
        made.before = [array.tobytes() for array in arrays]
        made.buffers = [case.put(array) for array in arrays]
        return made

    def _content(self, argument: Argument, shape: tuple[int, ...], element: Any) -> Array:
        """Numbers where the function reads, NaN elsewhere."""
        rng, values, family = self.case.rng, self.values, self.function.family.name
        if element.dtype.kind in "iu":
            return rng.integers(-9, 10, shape).astype(element.dtype)
        found: Array = rng.uniform(-1, 1, shape)
        if element.dtype.kind == "c":
            found = found + 1j * rng.uniform(-1, 1, shape)
        name = argument.name
        if argument.writes and self.scalars.get("beta", 1) == 0 and name in ("c", "y"):
            return np.full(shape, np.nan)
        if family == "tpttr" and name == "a" or name == "a_inv":
            return np.full(shape, np.nan)
        if family in _TRIANGULAR and name in ("a", "ap"):
            found = self._well_conditioned(found, name)
        elif family in ("getrf", "getri", "getrs", "matinv") and name == "a":
            found = found + 4 * np.eye(*shape)
        if _HERMITIAN.get(family) == name:
            self._make_diagonal_real(found, name)
        if _HALF_READ.get(family) == name:
            found = np.where(blas_oracle.in_triangle(len(found), values["uplo"]), found, np.nan)
        if name == "a" and (family == "gbmv" or "k" in values and family[1:3] in ("bm", "bs")):
            upper = values["ku"] if family == "gbmv" else values["k"] if values["uplo"] else 0
            rows = values.get("m", values["n"])
            found = np.where(blas_oracle.in_band(len(found), rows, shape[1], upper), found, np.nan)
        return found

    def _diagonal(self, found: Array, name: str) -> Any:
        """An index of the main diagonal, however the matrix is stored."""
        n, uplo = len(found), self.values["uplo"]
        if name == "ap":
            n = self.values["n"]
            columns, rows = np.nonzero(blas_oracle.in_triangle(n, uplo).T)
            return np.flatnonzero(columns == rows)
        if self.function.family.name in ("tbmv", "tbsv"):
            return (self.values["k"] if uplo else 0, slice(None))
        return (np.arange(n), np.arange(n))

    def _well_conditioned(self, found: Array, name: str) -> Array:
        found = found / 8
        found[self._diagonal(found, name)] += 1.5
        if self.values["diag"]:
            found[self._diagonal(found, name)] = np.nan  # not read
        return found

    def _make_diagonal_real(self, found: Array, name: str) -> None:
        at = self._diagonal(found, name)
        found[at] = found[at].real

    # ---- calling and checking ----

    def keywords(self) -> dict[str, Any]:
        """The arguments of the call by name, for the pointer mode HOST."""
        keywords: dict[str, Any] = {}
        for argument in self.function.signature[0]:
            if argument.kind == "operand":
                buffers = self.memory[argument.name].buffers
                keywords[argument.name] = buffers if argument.batched == "pointers" else buffers[0]
            elif argument.name not in ("compute_type", "algo") or argument.name in self.values:
                source = self.scalars if argument.kind == "scalar" else self.values
                keywords[argument.name] = source[argument.name]
        return keywords

    def call(self) -> Any:
        """Call the function of the face, in one of the pointer modes; its results."""
        keywords = self.keywords()
        face = getattr(cublas, self.function.name)
        if self.case.choose(True, True, False):
            return face(self.case.context.cublas, **keywords)
        return self._call_with_device_scalars(face, keywords)

    def _call_with_device_scalars(self, face: Callable[..., Any], keywords: dict[str, Any]) -> Any:
        handle = self.case.context.cublas
        scalars = [a for a in self.function.arguments if a.kind == "scalar"]
        for argument in scalars:
            room = nan_filled(argument.count, self.element(argument).dtype)
            if argument.direction != "out":
                room[...] = keywords[argument.name]
            keywords[argument.name] = self.case.put(room)
        handle.pointer_mode = PointerMode.DEVICE
        try:
            assert face(handle, **keywords) is None
        finally:
            handle.pointer_mode = PointerMode.HOST
        results = [self.case.get(keywords[a.name]) for a in self.function.results]
        numbers = [blas_oracle.wide(found).tolist() for found in results]
        found = [number if len(number) > 1 else number[0] for number in numbers]
        return tuple(found) if len(found) != 1 else found[0]

    def given(self, index: int) -> SimpleNamespace:
        """What the oracle is told about matrix ``index`` of the batch."""
        stored = {
            name: blas_oracle.wide(
                memory.stored(memory.arrays, min(index, len(memory.places) - 1)).copy()
            )
            for name, memory in self.memory.items()
        }
        g = SimpleNamespace(**{**self.values, **self.scalars, **stored})
        g.scaled = lambda name: 0 if g.beta == 0 else g.beta * getattr(g, name)
        return g

    def results(self) -> dict[str, list[Array]]:
        """The arrays of each written operand after the call."""
        return {
            name: [self.case.get(buffer) for buffer in memory.buffers]
            for name, memory in self.memory.items()
            if memory.argument.writes
        }

    def check(self, results: dict[str, list[Array]], index: int, expected: Mapping[str, Any],
              slack: float = 1.0) -> None:  # fmt: skip
        """Compare matrix ``index`` of the batch, and blank it so that the rest can be compared."""
        for name, want in expected.items():
            if name not in results:
                continue
            memory = self.memory[name]
            now = memory.stored(results[name], index)
            want = np.asarray(want).reshape(now.shape)
            stays = np.isnan(want)
            got = blas_oracle.wide(np.where(stays, 0, now))
            self.case.compare(got, np.where(stays, 0, want), self.precision(), slack)
            now[...] = np.where(stays, now, memory.stored(memory.arrays, index))

    def check_untouched(self, results: dict[str, list[Array]]) -> None:
        """Everything but the results that were checked is as it was, bit by bit."""
        for name, arrays in results.items():
            after = [array.tobytes() for array in arrays]
            assert after == self.memory[name].before, f"{name}: written where it must not be"

    def precision(self) -> Any:
        """The narrowest type of the call: its rounding is what the result may be off by."""
        elements = [self.element(a) for a in self.function.arguments if a.element or a.typed_by]
        floats = [e.dtype for e in elements if e.dtype.kind not in "iu"]
        order = ("bfloat16", "float16", "float32", "complex64", "float64", "complex128")
        return min(floats, key=lambda d: order.index(d.name)) if floats else np.dtype(np.int32)


def pose_function(case: Case, function: Function, wide: bool) -> None:
    """One problem of a function, its results compared with the oracle's."""
    posed = Posed(case, function, wide)
    checks = blas_lapack.CHECKS.get(function.family.name)
    if checks is not None:
        checks(posed)
        return
    with np.errstate(invalid="ignore"):
        expected = [
            blas_oracle.RULES[function.family.name](posed.given(index))
            for index in range(posed.values.get(function.batch, 1))
        ]
    returned = posed.call()
    if "out" in expected[0]:
        case.compare(returned, expected[0]["out"], posed.precision(), 4)
    results = posed.results()
    slack = 16 if posed.function.family.name[-2:] in ("sv", "sm") or "3m" in function.name else 4
    for index, wanted in enumerate(expected):
        posed.check(results, index, wanted, slack)
    posed.check_untouched(results)


def _problem_of(function: Function, wide: bool) -> Callable[[Case], None]:
    def pose(case: Case) -> None:
        pose_function(case, function, wide)

    return pose


for _function in FUNCTIONS.values():
    problem(_function.c_name)(_problem_of(_function, wide=False))
    if _function.has_wide_form:
        problem(_function.wide_c_name)(_problem_of(_function, wide=True))
