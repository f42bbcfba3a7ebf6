"""Which operand has which memory, in calls whose results must be no other operand."""

from __future__ import annotations


class Claims:
    """The memory of a call's operands; what is written must share none with any other."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, str, bool]] = []  # first byte, end, name, written

    def add(self, address: int, nbytes: int, name: str, *, writes: bool) -> None:
        """One more operand; ValueError if it shares memory with another and one is written."""
        end = address + nbytes
        for other_start, other_end, other, written in self._pieces:
            if address < other_end and other_start < end and (writes or written):
                first, second = (name, other) if writes else (other, name)
                raise ValueError(f"{first} is written and must not share memory with {second}")
        self._pieces.append((address, end, name, writes))
