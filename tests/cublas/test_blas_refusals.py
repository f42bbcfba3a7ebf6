"""Every argument of every function of the table, spoilt in every way that its kind allows.

Each is a TypeError or ValueError whose text begins with the argument's name, and nothing is
written: the operands hold afterwards what they held before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from harness import Case
from problems_cublas import Posed

from pycudnn import cublas, cudnn
from pycudnn.cublas import PointerMode
from pycudnn.cublas._functions import FUNCTIONS, Argument

INT64 = 2**63
# By kind: values and the error that they give.
NUMBERS: dict[str, list[tuple[Any, type[Exception]]]] = {
    "enum": [(7, ValueError), (-1, ValueError), (3, ValueError), ("N", TypeError)],
    "size": [(-1, ValueError), (INT64, ValueError), (2**80, ValueError), (1.5, TypeError)],
    "leading": [(-1, ValueError), (0, ValueError), (INT64, ValueError), ("1", TypeError)],
    "increment": [(0, ValueError), (INT64, ValueError), (-INT64, ValueError), (1.0, TypeError)],
    "stride": [(-1, ValueError), (INT64, ValueError), (2.0, TypeError)],
    "int": [(2**31, ValueError), (-(2**40), ValueError), (0.5, TypeError)],
    "type": [(99, ValueError), ("float8", ValueError), (None, ValueError), ([], ValueError)],
    "compute_type": [(1, ValueError), ("float32", ValueError)],
    "algo": [(24, ValueError), (None, ValueError)],
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.fixture
def pose(context, rng):
    """A valid call of a function: what it is made of, and its arguments."""

    def make(name: str) -> tuple[Posed, dict[str, Any]]:
        posed = Posed(Case(context, FUNCTIONS[name].c_name, rng), FUNCTIONS[name])
        return posed, posed.keywords()

    return make


def refused(posed: Posed, keywords: dict[str, Any], kind: Any, text: str) -> None:
    """The call raises an error that begins with a text, and writes nothing."""
    with pytest.raises(kind, match=text):
        getattr(cublas, posed.function.name)(posed.case.context.cublas, **keywords)
    posed.check_untouched(posed.results())


@functions
def test_numbers_and_enums(pose, name):
    posed, keywords = pose(name)
    for argument in FUNCTIONS[name].arguments:
        for value, kind in NUMBERS.get(argument.kind, []):
            spoilt = keywords | {argument.name: value}
            refused(posed, spoilt, kind, f"^{argument.name} must be")
        if argument.kind not in ("operand", "scalar", "info", "type", "compute_type", "algo"):
            refused(posed, keywords | {argument.name: None}, TypeError, f"^{argument.name} must be")


@functions
def test_a_leading_dimension_below_the_rows(pose, name):
    posed, keywords = pose(name)
    for argument in FUNCTIONS[name].arguments:
        if argument.kind == "leading":
            rows = posed.memory[argument.of].block.length
            spoilt = keywords | {argument.name: rows - 1}
            refused(posed, spoilt, ValueError, f"^{argument.name} must be at least {rows}")


def spoilt_memory(posed: Posed, argument: Argument) -> Iterator[tuple[Any, type, str]]:
    """Operands that are wrong: the value, the error, how its text goes on after the name."""
    memory = posed.memory[argument.name]
    extent = len(memory.arrays[0]) - 64  # without the harness's guard
    element = memory.element.dtype
    put = posed.case.put
    if not argument.optional:
        yield None, TypeError, " must be"
    yield 4096, TypeError, " must be"
    other = np.dtype(np.int64)
    yield put(np.zeros(extent + 64, other)), TypeError, f" holds int64, the call takes {element}"
    if extent > 0:
        short = put(memory.arrays[0][: extent - 1])
        yield short, ValueError, f" needs {extent * element.itemsize} bytes"
    closed = put(memory.arrays[0])
    closed.close()
    yield closed, ValueError, ""


@functions
def test_operands(pose, name):
    posed, keywords = pose(name)
    for argument in FUNCTIONS[name].arguments:
        if argument.kind != "operand":
            continue
        for value, kind, text in spoilt_memory(posed, argument):
            if argument.batched == "pointers":
                given = [value, *keywords[argument.name][1:]]
                start = rf"^{argument.name}\[0\]{text}"
            else:
                given, start = value, f"^{argument.name}{text}"
            start = start if text else "this Buffer is closed"
            refused(posed, keywords | {argument.name: given}, kind, start)


@functions
def test_lists_of_operands(pose, name):
    posed, keywords = pose(name)
    for argument in FUNCTIONS[name].arguments:
        if argument.batched != "pointers":
            continue
        given = keywords[argument.name]
        wanted = f"^{argument.name} must be a list of {len(given)} operands, got"
        refused(posed, keywords | {argument.name: given[0]}, TypeError, wanted)
        refused(posed, keywords | {argument.name: None}, TypeError, wanted)
        refused(posed, keywords | {argument.name: [*given, given[0]]}, ValueError, wanted)
        if argument.writes and len(given) > 1:
            twice = [given[0]] * len(given)
            text = rf"^{argument.name}\[\d\] is written to and must not overlap"
            refused(posed, keywords | {argument.name: twice}, ValueError, text)


@functions
def test_results_over_what_is_read(pose, name):
    """A result in the memory of an operand, where BLAS does not allow exactly that."""
    posed, keywords = pose(name)
    entry = FUNCTIONS[name]
    operands = [a for a in entry.arguments if a.kind == "operand"]
    for written in operands:
        for other in operands:
            shared = posed.memory[other.name]
            is_usable = (
                written.writes
                and written is not other
                and shared.element == posed.memory[written.name].element
            )
            if not is_usable:
                continue
            # Large enough for both, and shifted so that it is not the same place exactly.
            extent = sum(len(memory.arrays[0]) for memory in posed.memory.values())
            room = posed.case.put(np.ones(extent + 1, shared.element.dtype))
            shift = room.view((extent,), shared.element.dtype, offset=shared.element.dtype.itemsize)
            overlapping = {written.name: room, other.name: shift}
            for argument in (written, other):
                if argument.batched == "pointers":
                    many = keywords[argument.name][1:]
                    overlapping[argument.name] = [overlapping[argument.name], *many]
            first, second = posed.memory[written.name].block, shared.block
            if first.length == 1 or second.length == 1:
                continue  # increments may keep them apart: test_blas_overlap.py
            refused(posed, keywords | overlapping, ValueError, "is written to and must not overlap")


@functions
def test_scalars(pose, name):
    posed, keywords = pose(name)
    handle = posed.case.context.cublas
    for argument in FUNCTIONS[name].arguments:
        if argument.kind != "scalar":
            continue
        element = posed.element(argument)
        if argument.direction == "out":
            room = posed.case.put(np.zeros(argument.count, element.dtype))
            text = f"^{argument.name} must be None: the handle's pointer_mode is HOST"
            refused(posed, keywords | {argument.name: room}, TypeError, text)
            continue
        for value in (None, "1", [1.0, 2.0, 3.0]) if argument.count == 1 else (None, 1.0, "ab"):
            kinds = (TypeError, ValueError)
            refused(posed, keywords | {argument.name: value}, kinds, f"^{argument.name} must be")
        if argument.count == 1 and element.dtype.kind == "f":
            text = f"^{argument.name} must be a real number, got 1j$"
            refused(posed, keywords | {argument.name: 1j}, TypeError, text)
        if argument.count == 1:
            room = posed.case.put(np.zeros(1, element.dtype))
            text = f"^{argument.name} is .*pointer_mode is HOST: pass a number"
            refused(posed, keywords | {argument.name: room}, TypeError, text)
    scalars = [a for a in FUNCTIONS[name].arguments if a.kind == "scalar"]
    handle.pointer_mode = PointerMode.DEVICE
    rooms = {a.name: posed.case.put(np.ones(a.count, posed.element(a).dtype)) for a in scalars}
    for argument in scalars:
        element = posed.element(argument)
        missing = keywords | rooms | {argument.name: None}
        text = f"^{argument.name} (is missing: the handle's pointer_mode is DEVICE|must be a)"
        refused(posed, missing, TypeError, text)
        wrong = posed.case.put(np.ones(8, np.int64))
        text = f"^{argument.name} holds int64, the call takes {element.name}"
        refused(posed, keywords | rooms | {argument.name: wrong}, TypeError, text)
        if argument.direction != "out":
            text = f"^{argument.name} is the number 2.5, but the handle's pointer_mode is DEVICE"
            refused(posed, keywords | rooms | {argument.name: 2.5}, TypeError, text)


@functions
def test_handles(pose, name):
    posed, keywords = pose(name)
    function = getattr(cublas, name)
    for wrong in (None, 1, posed.case.context.cudnn):
        with pytest.raises(TypeError, match="handle"):
            function(wrong, **keywords)
    other = cublas.Handle(posed.case.context.device)
    other.close()
    with pytest.raises(ValueError, match="this Handle is closed"):
        function(other, **keywords)


def test_a_handle_of_cudnn_is_none_of_cublas(backend):
    with cudnn.Handle(library=backend) as other, pytest.raises(TypeError, match="handle"):
        cublas.zherk(other, 0, 0, 1, 1, 1.0, np.ones(1), 1, 0.0, np.ones(1), 1)


def test_operations_that_complex_rank_updates_do_not_have(context):
    """cuBLAS takes C for T in csyrk, and T for C in cherk, and says nothing."""
    for name, wrong, known in (("csyrk", 2, r"N \(0\) or T \(1\)"), ("cherk", 1, r"N \(0\) or C")):
        wanted = f"^trans must be an Operation: {known}.*, got {wrong}$"
        arguments = (1, wrong, 1, 1, 1.0, None, 1, 0.0, None, 1)
        with pytest.raises(ValueError, match=wanted):
            getattr(cublas, name)(context.cublas, *arguments)


def test_types_that_cublas_does_not_check(context):
    """cublasCsyrkEx reports success for a result of any type."""
    arguments = (1, 0, 1, 1, 1.0, None, "complex64", 1, 0.0, None, "float64", 1)
    with pytest.raises(ValueError, match="^c_type must be C_32F, got 'float64'$"):
        cublas.csyrk_ex(context.cublas, *arguments)
    with pytest.raises(ValueError, match="^n must be at most 32, got 33$"):
        cublas.smatinv_batched(context.cublas, 33, [], 33, [], 33, None, 0)
