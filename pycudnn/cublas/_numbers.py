"""Checks of what is neither memory nor a scalar: enums, sizes, leading dimensions, increments.

An error names the argument and says what would be right.
"""

from __future__ import annotations

import operator
from typing import Any

from pycudnn.abi.cublas_enums import ComputeType, GemmAlgo
from pycudnn.abi.members import check_kind
from pycudnn.cublas import _elements
from pycudnn.cublas._functions import Argument, Function
from pycudnn.cublas._shapes import Block

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def integer(value: Any, name: str, low: int, high: int, wanted: str) -> int:
    """An int in a range; TypeError or ValueError that says what is wanted."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {wanted}, got {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return number


def size(value: Any, name: str, bits: int = 63) -> int:
    """A number of rows, columns or matrices, or a leading dimension."""
    return integer(value, name, 0, 2**bits - 1, f"an int from 0 to 2**{bits} - 1")


def choice(value: Any, argument: Argument) -> int:
    """The number of one of an argument's choices."""
    check_kind(type(argument.choices[0]), value, argument.name)
    try:
        number = operator.index(value)
        if number in argument.choices:
            return number
        kind: type[Exception] = ValueError
    except TypeError:
        kind = TypeError
    known = [f"{choice.name} ({choice.value})" for choice in argument.choices]
    enum = type(argument.choices[0]).__name__
    raise kind(
        f"{argument.name} must be {'an' if enum[0] in 'AEIOU' else 'a'} {enum}: "
        f"{', '.join(known[:-1])} or {known[-1]}, got {value!r}"
    ) from None


def _increment(value: Any, name: str, alone: bool, bits: int) -> int:
    limit = 2**bits - 1
    if alone:  # cuBLAS would report success and do nothing
        return integer(value, name, 1, limit, f"an int from 1 to 2**{bits} - 1")
    wanted = f"a non-zero int of {bits + 1} bits"
    number = integer(value, name, -limit, limit, wanted)
    if number == 0:
        raise ValueError(f"{name} must be {wanted}, got 0")
    return number


def check_compute_type(value: Any, result: int) -> int:
    """A cublasComputeType_t; None is the natural one for the type of the result."""
    if value is None:
        return _elements.default_compute_type(result)
    check_kind(ComputeType, value, "compute_type")
    if value not in tuple(ComputeType):
        raise ValueError(f"compute_type must be a ComputeType or None, got {value!r}")
    return int(value)


def check_numbers(function: Function, given: dict[str, Any]) -> dict[str, int]:
    """Every argument that is neither an operand nor a scalar, checked for itself."""
    values: dict[str, int] = {}
    bits = 63 if function.has_wide_form else 31
    for argument in function.arguments:
        name, kind = argument.name, argument.kind
        if kind in ("operand", "scalar", "info"):
            continue
        value = given[name]
        if kind == "enum":
            values[name] = choice(value, argument)
        elif kind in ("size", "leading"):
            values[name] = size(value, name, bits)
        elif kind == "increment":
            values[name] = _increment(value, name, function.is_of_one_vector, bits)
        elif kind == "stride":
            values[name] = integer(value, name, 0, LONG_MAX, "an int from 0 to 2**63 - 1")
        elif kind == "type":
            values[name] = _elements.type_code(value, name)
            known = function.family.types.get(name)
            if known and values[name] not in known:
                names = " or ".join(code.name for code in known)
                raise ValueError(f"{name} must be {names}, got {value!r}")
        elif kind == "compute_type":
            values[name] = check_compute_type(value, values["c_type"])
        elif kind == "algo":
            check_kind(GemmAlgo, value, name)
            if value not in tuple(GemmAlgo):
                raise ValueError(f"algo must be a GemmAlgo, got {value!r}")
            values[name] = int(value)
        else:
            values[name] = integer(value, name, -INT_MAX - 1, INT_MAX, "an int of 32 bits")
    for name, limit in function.family.limits.items():
        if values[name] > limit:
            raise ValueError(f"{name} must be at most {limit}, got {values[name]}")
    return values


def check_blocks(function: Function, values: dict[str, int]) -> dict[str, Block]:
    """The block of each operand; ValueError for a leading dimension below the rows stored."""
    blocks = {
        argument.name: argument.shape.block(values)
        for argument in function.arguments
        if argument.shape is not None
    }
    for argument in function.arguments:
        if argument.kind == "leading":
            check_leading(argument.name, values[argument.name], blocks[argument.of].length)
    return blocks


def check_leading(name: str, value: int, rows: int) -> None:
    """A leading dimension must hold the rows of its matrix, and be at least 1."""
    if value < max(1, rows):
        raise ValueError(
            f"{name} must be at least {max(1, rows)}, the rows of the matrix as stored, got {value}"
        )
