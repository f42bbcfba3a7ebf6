"""The memory of a call: every operand checked against its layout, and against the others.

A result must not lie in what else the call reads or writes: cublasLt does not check it and
computes nonsense. Only D may be C itself.
"""

from __future__ import annotations

from typing import Any

from pycudnn.abi.cublaslt_enums import BatchMode
from pycudnn.cublas._engine import Frames, read_list, refuse_overlap
from pycudnn.cublas._overlap import Piece, colliding, overlap, repeats
from pycudnn.cublas._shapes import Block
from pycudnn.cublaslt._types import Element
from pycudnn.cublaslt.layout import MatrixLayout

ALIGNMENT = 256  # bytes, of a workspace


class Operands:
    """The operands of one call, by name; their addresses live until the stream is past it."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._pieces: list[Piece] = []
        self._has_lists = False
        self.starts: dict[str, list[int]] = {}  # where each matrix of a batch starts

    def matrix(self, value: Any, name: str, layout: MatrixLayout, writes: bool) -> int:
        """The address of a matrix or batch, or of a device array of pointers to its matrices."""
        mode, count, apart = layout.batch
        block, element = layout.block, layout.element
        if mode == BatchMode.POINTER_ARRAY:
            self._has_lists = True
            addresses = [
                self.place(item, f"{name}[{index}]", block, element, writes)
                for index, item in enumerate(read_list(value, name, count))
            ]
            self.starts[name] = addresses
            return self._frames.pointers(addresses, name)
        address = self.place(value, name, block, element, writes, count, apart)
        self.starts[name] = [address]
        return address

    def place(
        self,
        value: Any,
        name: str,
        block: Block,
        element: Element,
        writes: bool,
        count: int = 1,
        apart: int = 0,
    ) -> int:
        """The address of ``count`` blocks of elements, each so many elements ``apart``."""
        size = (block.span + (count - 1) * apart) * element.nbytes
        address = self._frames.address(value, name, writes, size, element)
        if address % element.nbytes:
            raise ValueError(
                f"{name} must be aligned to its elements of {element.nbytes} bytes, got the "
                f"address {address:#x}"
            )
        self.add(Piece(name, address, block, element.nbytes, writes, count, apart))
        return address

    def add(self, piece: Piece) -> None:
        """One more piece of memory that the call touches."""
        if piece.writes and repeats(piece):
            raise ValueError(
                f"the matrices of {piece.name} must not overlap, got a batch stride of "
                f"{piece.stride} elements for {piece.block.span}"
            )
        self._pieces.append(piece)

    def workspace(self, value: Any, needed: int) -> tuple[int, int]:
        """Address and bytes of the workspace; None has none."""
        if value is None:
            if needed:
                raise ValueError(f"workspace needs {needed} bytes, got None")
            return 0, 0
        address = self._frames.main.operand(value, "workspace", True, None, needed)
        nbytes = int(value.nbytes)
        if nbytes and address % ALIGNMENT:
            raise ValueError(
                f"workspace must be aligned to {ALIGNMENT} bytes, got the address {address:#x}"
            )
        self.add(Piece("workspace", address, Block(nbytes, 1, nbytes), 1, True))
        return address, nbytes

    def check_overlaps(self, *, in_place: bool = False) -> None:
        """ValueError for a result that lies in another operand; ``in_place``: C may be D itself."""
        results = [piece for piece in self._pieces if _operand_of(piece) == "d"]
        pieces = [
            piece
            for piece in self._pieces
            if not (in_place and _operand_of(piece) == "c" and any(map(piece.same_as, results)))
        ]
        if self._has_lists:
            names = colliding(pieces)
            if names:
                refuse_overlap(*names)
            return
        for index, first in enumerate(pieces):
            for second in pieces[index + 1 :]:
                if (first.writes or second.writes) and overlap(first, second):
                    written, other = (first, second) if first.writes else (second, first)
                    refuse_overlap(written.name, other.name)


def _operand_of(piece: Piece) -> str:
    return piece.name.split("[")[0]
