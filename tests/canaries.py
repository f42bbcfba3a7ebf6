"""Out-parameters between canaries: what a C function wrote, and what it should not have."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pycudnn import abi, raw
from pycudnn.abi.types import ctypes_type
from pycudnn.errors import FunctionNotFound
from pycudnn.loader import TITLES, version_number

CANARY, GUARD = 0xA5, 64


class Canaries:
    """Memory for values of some C types, by name, each with canaries before and behind it."""

    def __init__(self, types: dict[str, Any]) -> None:
        self._spans: dict[str, slice] = {}
        end = GUARD
        for name, type_ in types.items():
            self._spans[name] = slice(end, end + ctypes.sizeof(type_))
            end += -(-(ctypes.sizeof(type_) + GUARD) // 16) * 16
        self._memory = (ctypes.c_ubyte * end)(*[CANARY] * end)
        self.values = {
            name: type_.from_buffer(self._memory, self._spans[name].start)
            for name, type_ in types.items()
        }

    @property
    def pointers(self) -> dict[str, Any]:
        """What a C function takes for them; an array passes as it is."""
        return {
            name: value if isinstance(value, ctypes.Array) else byref(value)
            for name, value in self.values.items()
        }

    @property
    def written(self) -> set[str]:
        """The values of which some byte changed."""
        content = np.frombuffer(self._memory, np.uint8)
        return {name for name, span in self._spans.items() if (content[span] != CANARY).any()}

    @property
    def intact(self) -> bool:
        """Is all outside the values as it was?"""
        content = np.frombuffer(self._memory, np.uint8).copy()
        for span in self._spans.values():
            content[span] = CANARY
        return bool((content == CANARY).all())


@dataclass
class Call:
    """How to call a getter: its in-parameters, types that C leaves open, and what must be read.

    Every other parameter is an out-parameter. `expected` None: only that each was written.
    """

    inputs: dict[str, Any]
    types: dict[str, Any] = field(default_factory=dict)
    expected: list[Any] | None = None


def address(pointer: Any) -> int | None:
    return ctypes.cast(pointer, ctypes.c_void_p).value


def read(value: Any) -> Any:
    if isinstance(value, ctypes.Array):
        return value.value if value._type_ is ctypes.c_char else list(value)
    return address(value) if isinstance(value, ctypes._Pointer | ctypes._CFuncPtr) else value.value


def check_getter(functions: raw.Functions, name: str, call: Call) -> None:
    """The getter succeeds, writes each out-parameter with what is expected, and nothing else."""
    prototype = abi.prototype(abi.library_of(name), name)
    canaries = Canaries(
        {
            argument.name: call.types.get(argument.name) or ctypes_type(argument.type)._type_
            for argument in prototype.arguments
            if argument.name not in call.inputs
        }
    )
    arguments = call.inputs | canaries.pointers
    status = getattr(functions, name)(*(arguments[a.name] for a in prototype.arguments))
    if prototype.result.endswith("Status_t"):
        assert status.name == "SUCCESS", f"{name}: {status!r}"
    assert canaries.written == set(canaries.values), f"{name} did not write all"
    assert canaries.intact, f"{name} wrote outside its out-parameters"
    if call.expected is not None:
        assert [read(value) for value in canaries.values.values()] == call.expected


def check_lacking(functions: raw.Functions, name: str, version: int) -> bool:
    """Is a real library older than a function? Then the function must say so when it is called."""
    library = abi.library_of(name)
    prototype = abi.prototype(library, name)
    if version >= version_number(prototype.since):
        return False
    try:
        getattr(functions, name)(*([None] * len(prototype.arguments)))
    except FunctionNotFound as error:
        wanted = f"{name} needs {TITLES[library]} {prototype.since} or newer"
        assert str(error).startswith(wanted), error  # noqa: PT017
        return True
    raise AssertionError(f"{name} is newer than {version}, and there")
