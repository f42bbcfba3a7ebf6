"""How operands lie in memory: each is a number of equal runs of elements.

A column-major matrix is one run a column, its leading dimension apart; a vector is runs of one
element, its increment apart; packed and plain storage is one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

Values = Mapping[str, int]


class Block(NamedTuple):
    """``runs`` runs of ``length`` elements, one every ``step`` elements (may be negative)."""

    length: int
    runs: int
    step: int

    @property
    def span(self) -> int:
        """Elements from the first to the last one."""
        return self.length + (self.runs - 1) * abs(self.step) if self.length and self.runs else 0


@dataclass(frozen=True)
class Shape:
    """A rule for the block of an operand.

    ``text`` says it for documentation, ``sizes`` computes (length, runs) from the other arguments,
    ``step`` names the argument that holds the step (None: one run).
    """

    text: str
    sizes: Callable[[Values], tuple[int, int]]
    step: str | None = None
    is_vector: bool = False

    def block(self, values: Values) -> Block:
        """The block for these arguments."""
        length, runs = self.sizes(values)
        return Block(length, runs, values[self.step] if self.step else length)


def matrix(rows: str, columns: str, ld: str, op: str | None = None) -> Shape:
    """A rows x columns matrix, stored transposed where the operation ``op`` is not N."""

    def sizes(values: Values) -> tuple[int, int]:
        r, c = values[rows], values[columns]
        return (c, r) if op and values[op] else (r, c)

    text = f"{rows} x {columns}"
    if op:
        text += f", or {columns} x {rows} unless {op} is N"
    return Shape(text, sizes, ld)


def sided(ld: str) -> Shape:
    """A square matrix that stands left (order m) or right (order n) of another."""

    def sizes(values: Values) -> tuple[int, int]:
        order = values["n"] if values["side"] else values["m"]
        return order, order

    return Shape("m x m if side is LEFT, else n x n", sizes, ld)


def band(*diagonals: str, ld: str = "lda") -> Shape:
    """A band matrix: a column of the storage holds the diagonals of a column of the matrix."""

    def sizes(values: Values) -> tuple[int, int]:
        return sum(values[name] for name in diagonals) + 1, values["n"]

    return Shape(f"band storage of {' + '.join(diagonals)} + 1 rows and n columns", sizes, ld)


def packed() -> Shape:
    """The triangle of an n x n matrix, column after column without gaps."""
    return Shape(
        "packed triangle of n (n + 1) / 2 elements",
        lambda values: (values["n"] * (values["n"] + 1) // 2, 1),
    )


def vector(n: str, inc: str, op: str | None = None, other: str = "") -> Shape:
    """A vector of n elements, or of ``other`` where the argument ``op`` is not 0."""
    text = f"{n} elements"
    if op == "side":
        text += f" if side is LEFT, else {other}"
    elif op:
        text += f", or {other} unless {op} is N"

    def sizes(values: Values) -> tuple[int, int]:
        return 1, values[other if op and values[op] else n]

    return Shape(f"{text}, every {inc}-th", sizes, inc, is_vector=True)


def plain(text: str, count: Callable[[Values], int]) -> Shape:
    """So many elements one after another."""
    return Shape(text, lambda values: (count(values), 1))
