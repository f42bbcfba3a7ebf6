"""The form of the prototype tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Argument(NamedTuple):
    """One argument of a C function. An array argument has the pointer type that C gives it."""

    type: str
    name: str


class Prototype(NamedTuple):
    """One C function.

    `header` is the file that declares it (without .h), `since` the first library version known
    to have it, `deprecated` whether the newest header marks it so.
    """

    name: str
    result: str
    arguments: tuple[Argument, ...]
    header: str
    since: str
    deprecated: bool

    def __str__(self) -> str:
        """The declaration as C writes it."""
        arguments = ", ".join(
            f"{type}{name}" if type.endswith("*") else f"{type} {name}"
            for type, name in self.arguments
        )
        space = "" if self.result.endswith("*") else " "
        return f"{self.result}{space}{self.name}({arguments or 'void'})"


Row = tuple[str, str, tuple[tuple[str, str], ...], str, str, bool]


def table(rows: Iterable[Row]) -> dict[str, Prototype]:
    """Prototypes by name from the rows of a generated file."""
    return {
        name: Prototype(
            name,
            result,
            tuple(Argument(type, argument) for type, argument in arguments),
            header,
            since,
            deprecated,
        )
        for result, name, arguments, header, since, deprecated in rows
    }
