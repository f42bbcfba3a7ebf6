"""A function of one Python body has many C names: one for each type, in 32 and in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pycudnn import abi

from ..runtime import implements
from .storage import COMPLEX64, COMPLEX128, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., None])

LETTERS: dict[str, DType] = {
    "H": FLOAT16, "S": FLOAT32, "D": FLOAT64, "C": COMPLEX64, "Z": COMPLEX128,
}  # fmt: skip


def family(
    name: str, letters: str = "SDCZ", *, indexed: bool = False, **options: Any
) -> Callable[[AnyFunction], AnyFunction]:
    """Function decorator: the C functions cublas`name`, where ``{}`` stands for a type letter.

    The function gets the type of that letter before the C arguments, and `options` by keyword;
    where it is `indexed` also `integers`, the type of integers behind pointers.
    """

    def register(function: AnyFunction) -> AnyFunction:
        for letter in letters:
            typed = partial(function, LETTERS[letter], **options)
            publish(name.format(letter), typed, indexed)
        return function

    return register


def both_widths(
    name: str, *, indexed: bool = False, **options: Any
) -> Callable[[AnyFunction], AnyFunction]:
    """Function decorator: the C function cublas`name` and the one with 64-bit integers."""

    def register(function: AnyFunction) -> AnyFunction:
        publish(name, partial(function, **options), indexed)
        return function

    return register


def publish(name: str, function: Callable[..., None], indexed: bool = False) -> None:
    """Make `function` the C function cublas`name`, and cublas`name`_64 where there is one."""
    for full_name, integers in ((f"cublas{name}", INT32), (f"cublas{name}_64", INT64)):
        if full_name in abi.prototypes("cublas"):
            implements(full_name)(partial(function, integers=integers) if indexed else function)
