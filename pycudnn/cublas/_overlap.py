"""Do operands share elements? Exact: blocks of one big matrix may lie between each other.

BLAS forbids a result to lie in what else the call reads or writes; cuBLAS does not check it and
computes nonsense.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pycudnn import sharing
from pycudnn.cublas._shapes import Block
from pycudnn.sharing import Places


class Piece(NamedTuple):
    """Memory of one operand: a block of elements at an address, repeated every ``stride``."""

    name: str
    address: int
    block: Block
    item: int
    writes: bool
    copies: int = 1
    stride: int = 0  # elements

    @property
    def end(self) -> int:
        """The address behind its last element."""
        return self.address + (self.block.span + (self.copies - 1) * self.stride) * self.item

    def same_as(self, other: Piece) -> bool:
        """Are these the same elements in the same order?"""
        return (
            self[1:4] == other[1:4]
            and self.copies == other.copies
            and (self.copies == 1 or self.stride == other.stride)
        )


def _places(piece: Piece) -> Places:
    block, item = piece.block, piece.item
    return Places(
        piece.address,
        (piece.copies, block.runs, block.length),
        (piece.stride * item, abs(block.step) * item, item),
        item,
    )


def overlap(first: Piece, second: Piece) -> bool:
    """Have two pieces an element in common?"""
    if first.end <= second.address or second.end <= first.address:
        return False
    if not first.block.span or not second.block.span:
        return False
    return sharing.overlap(_places(first), _places(second))


def repeats(piece: Piece) -> bool:
    """Do the blocks of a strided batch share elements?"""
    block, copies, stride = piece.block, piece.copies, piece.stride
    if copies < 2 or not block.span or stride >= block.span:
        return False
    step = abs(block.step)
    if block.runs == 1:
        return stride < block.length
    # Block number i starts i * stride behind the first: in which run does that lie, and where?
    runs, places = np.divmod(np.arange(1, copies, dtype=np.int64) * stride, step)
    inside = (places < block.length) & (runs < block.runs)
    below = (step - places < block.length) & (runs + 1 < block.runs)
    return bool(np.any(inside | below))


def colliding(pieces: Iterable[Piece]) -> tuple[str, str] | None:
    """Names of two of many pieces, one of them written, that share elements; None if none do."""
    ordered = sorted((piece for piece in pieces if piece.block.span), key=lambda p: p.address)
    reach, writer_reach = 0, 0
    for piece in ordered:  # where spans do not meet, which is nearly always, this settles it
        if piece.address < (reach if piece.writes else writer_reach):
            return _colliding_runs(ordered)
        reach = max(reach, piece.end)
        writer_reach = max(writer_reach, piece.end) if piece.writes else writer_reach
    return None


def _colliding_runs(pieces: list[Piece]) -> tuple[str, str] | None:
    """The same run by run."""
    counts = [piece.block.runs for piece in pieces]
    owner = np.repeat(np.arange(len(pieces)), counts)
    starts = np.concatenate(
        [p.address + np.arange(p.block.runs) * (abs(p.block.step) * p.item) for p in pieces]
    )
    ends = starts + np.repeat([p.block.length * p.item for p in pieces], counts)
    order = np.argsort(starts, kind="stable")
    starts, ends, owner = starts[order], ends[order], owner[order]
    writes = np.array([piece.writes for piece in pieces])[owner]
    for bounds, later in ((ends, writes), (np.where(writes, ends, 0), np.ones_like(writes))):
        reach = np.maximum.accumulate(bounds)
        hits = np.flatnonzero((starts[1:] < reach[:-1]) & later[1:]) + 1
        if hits.size:
            hit = int(hits[0])
            earlier = int(np.argmax(bounds[:hit]))
            return pieces[owner[earlier]].name, pieces[owner[hit]].name
    return None
