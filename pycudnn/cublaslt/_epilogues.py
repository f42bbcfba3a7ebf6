"""What each epilogue does with the memory of its descriptor."""

from __future__ import annotations

from typing import NamedTuple

from pycudnn.abi.cublaslt_enums import Epilogue

# The bits that a cublasLtEpilogue_t is made of.
_RELU, _BIAS, _DRELU, _BGRAD, _DGELU, _AUX = 2, 4, 8, 16, 64, 128


class Parts(NamedTuple):
    """Of bias and aux: True if written, False if read, None if not used."""

    bias: bool | None
    aux: bool | None
    is_mask: bool  # aux has a bit an element
    is_by_column: bool  # bias has a number for each column of D, not for each row


def parts_of(epilogue: Epilogue) -> Parts:
    """What an epilogue uses."""
    bias: bool | None = None
    if epilogue & _BIAS:
        bias = False
    elif epilogue & (_BGRAD | Epilogue.BGRADA | Epilogue.BGRADB):
        bias = True
    aux = not epilogue & (_DRELU | _DGELU) if epilogue & _AUX else None
    is_mask = aux is not None and bool(epilogue & (_RELU | _DRELU))
    return Parts(bias, aux, is_mask, epilogue == Epilogue.BGRADB)
