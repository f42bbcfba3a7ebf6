"""Memory that a descriptor refers to by its address, and so keeps."""

from __future__ import annotations

from typing import Any, NamedTuple

from pycudnn import _core, operands
from pycudnn.cublas._shapes import Block
from pycudnn.cublaslt._operands import Operands
from pycudnn.cublaslt._types import Element
from pycudnn.libraries import Library


class Memory(NamedTuple):
    """One such piece of memory: a buffer or an array of somebody else's."""

    name: str
    value: Any
    address: int
    element: Element
    writes: bool

    def place(self, operands: Operands, block: Block, count: int = 1, apart: int = 0) -> None:
        """Check it as an operand of a call, which it lives for."""
        address = operands.place(
            self.value, self.name, block, self.element, self.writes, count, apart
        )
        if address != self.address:
            raise ValueError(
                f"{self.name} lies at {address:#x} now, the descriptor was made for "
                f"{self.address:#x}: make it again"
            )


def take(
    library: Library, value: Any, name: str, writes: bool, types: tuple[Element, ...]
) -> Memory:
    """Memory for a descriptor of a library, of one of these types.

    TypeError for another type, LibraryMismatch for memory of the other side.
    """
    if isinstance(value, _core.Buffer):
        buffer: Any = value
    else:
        buffer = operands.view(value, name, library.backend)
    with _core.ColdCall(library) as call:
        address = call.operand(buffer, name, writes)
    for element in types:
        if element.dtype == getattr(buffer, "dtype", None):
            return Memory(name, value, address, element, writes)
    wanted = ", ".join(element.name for element in types)
    raise TypeError(f"{name} must hold {wanted}, got {getattr(buffer, 'dtype', None)}")
