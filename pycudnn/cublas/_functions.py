"""The cuBLAS functions as data: each argument of a prototype with its kind.

``FUNCTIONS`` holds, by Python name, what pycudnn/cublas/_engine.py needs to check and make a call,
and what scripts/generate_cublas.py needs to write its signature and docstring.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Literal

from pycudnn import abi
from pycudnn.abi.cublas_enums import DiagType, FillMode, Operation, SideMode
from pycudnn.abi.types import base_and_depth
from pycudnn.cublas._elements import OF_C_TYPE, Element
from pycudnn.cublas._families import FAMILIES, Family
from pycudnn.cublas._shapes import Shape

# What an argument is; the comment says which fields of Argument go with it.
Kind = Literal[
    "enum",  # choices
    "size",
    "leading",  # of: the operand whose rows it must hold
    "increment",
    "stride",
    "int",
    "type",  # a cudaDataType
    "compute_type",
    "algo",
    "operand",  # element or typed_by, shape, writes, batched, stride, optional
    "scalar",  # element or typed_by, count, direction
    "info",  # host int that names a bad argument
]

_PYTHON_NAMES = {
    "AP": "ap",
    "P": "p",
    "Ainv": "a_inv",
    "devIpiv": "ipiv",
    "devInfoArray": "dev_info",
    "TauArray": "tau",
    "result": "out",
    "executiontype": "execution_type",
    "computeType": "compute_type",
}
_ENUMS: dict[str, type[IntEnum]] = {
    "cublasOperation_t": Operation,
    "cublasFillMode_t": FillMode,
    "cublasSideMode_t": SideMode,
    "cublasDiagType_t": DiagType,
}
# CONJG and FULL are declared and taken by none of these functions.
_CHOICES: dict[type[IntEnum], tuple[IntEnum, ...]] = {
    Operation: (Operation.N, Operation.T, Operation.C),
    FillMode: (FillMode.LOWER, FillMode.UPPER),
    SideMode: tuple(SideMode),
    DiagType: tuple(DiagType),
}
_SIZES = ("m", "n", "k", "kl", "ku", "nrhs", "batch_count", "batch_size")
_SCALAR_NAMES = {
    "alpha": "in",
    "beta": "in",
    "param": "in",
    "out": "out",
    "c": "in",
    "s": "in",
}
_ROTATION_SCALARS = {
    "rotg": {"a": "inout", "b": "inout", "c": "out", "s": "out"},
    "rotmg": {"d1": "inout", "d2": "inout", "x1": "inout", "y1": "in", "param": "out"},
}


@dataclass(frozen=True)
class Argument:
    """One argument of a function, with its Python name; the fields that its kind has no use for
    keep their defaults."""

    name: str
    kind: Kind
    choices: tuple[IntEnum, ...] = ()
    of: str = ""
    element: Element | None = None
    typed_by: str = ""
    shape: Shape | None = None
    writes: bool = False
    batched: Literal["", "pointers", "strided"] = ""
    stride: str = ""
    optional: bool = False
    count: int = 1
    direction: str = "in"


@dataclass(frozen=True)
class Function:
    """One function: its Python and C names, its arguments in C order without the handle."""

    name: str
    c_name: str
    family: Family
    arguments: tuple[Argument, ...]

    @cached_property
    def signature(self) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
        """The positional arguments, and the keyword-only ones (results in device memory)."""
        given = [argument for argument in self.arguments if argument.kind != "info"]
        return (
            tuple(argument for argument in given if argument.direction != "out"),
            tuple(argument for argument in given if argument.direction == "out"),
        )

    @cached_property
    def results(self) -> tuple[Argument, ...]:
        """What a call in the pointer mode HOST returns."""
        return tuple(argument for argument in self.arguments if argument.direction != "in")

    @cached_property
    def batch(self) -> str:
        """The argument that holds the number of matrices, or an empty string."""
        names = {argument.name for argument in self.arguments}
        return next((name for name in ("batch_count", "batch_size") if name in names), "")

    @cached_property
    def wide_c_name(self) -> str:
        """The form with 64-bit integers."""
        return self.c_name + "_64"

    @cached_property
    def is_of_one_vector(self) -> bool:
        """Does it work on one vector and nothing else?"""
        increments = [argument for argument in self.arguments if argument.kind == "increment"]
        return len(increments) == 1 and len(self.family.shapes) == 1

    @cached_property
    def has_wide_form(self) -> bool:
        """Is there a form with 64-bit integers?"""
        return self.wide_c_name in abi.prototypes("cublas")


def python_name(c_name: str) -> str:
    """The Python name of a C function: cublasCgemm3mStridedBatched is cgemm3m_strided_batched."""
    name = c_name.removeprefix("cublas").removesuffix("_v2")
    name = re.sub(r"(StridedBatched|Batched|Bias|Ex)", lambda found: "_" + found[0], name)
    return name.replace("StridedBatched", "Strided_Batched").lower()


def _argument_name(c_name: str) -> str:
    if c_name in _PYTHON_NAMES:
        return _PYTHON_NAMES[c_name]
    name = re.sub(r"(Array|array)$", "", c_name)
    name = re.sub(r"(?<=[a-z0-9])(Type|Count|Size)$", lambda found: "_" + found[0], name)
    name = re.sub(r"^stride", "stride_", name)
    name = re.sub(r"^([ABC])type$", r"\1_type", name)
    return name.lower()


def _choices(enum: type[IntEnum], family: Family, letter: str) -> tuple[IntEnum, ...]:
    if enum is Operation and family.transposes == "hermitian":
        return (Operation.N, Operation.C)
    if enum is Operation and family.transposes == "symmetric" and letter in "CZ":
        return (Operation.N, Operation.T)
    return _CHOICES[enum]


def _function(family: Family, c_name: str) -> Function:
    prototype = abi.prototype("cublas", c_name)
    named = {_argument_name(argument.name): argument.type for argument in prototype.arguments}
    del named["handle"]
    roles = _ROTATION_SCALARS.get(family.name, _SCALAR_NAMES)
    made = []
    for name, spelling in named.items():
        base, depth = base_and_depth(spelling)
        typed_by = _type_argument(name, named) if base == "void" else ""
        if base in _ENUMS:
            letter = c_name.removeprefix("cublas")[0]
            argument = Argument(name, "enum", _choices(_ENUMS[base], family, letter))
        elif name in family.shapes:
            stride = f"stride_{name}"
            argument = Argument(
                name,
                "operand",
                element=OF_C_TYPE.get(base),
                typed_by=typed_by,
                shape=family.shapes[name],
                writes="const" not in spelling.split("*")[0],
                batched="pointers" if depth == 2 else "strided" if stride in named else "",
                stride=stride if stride in named else "",
                optional=name in ("p", "ipiv", "dev_info"),
            )
        elif depth and name in roles:
            count = family.counts.get(name, 1)
            argument = Argument(
                name,
                "scalar",
                element=OF_C_TYPE.get(base),
                typed_by=typed_by,
                count=count,
                direction=roles[name],
            )
        elif name == "info":
            argument = Argument(name, "info")
        elif name.startswith("ld"):
            of = next(n for n, shape in family.shapes.items() if shape.step == name)
            argument = Argument(name, "leading", of=of)
        else:
            argument = Argument(name, _number_kind(name))
        made.append(argument)
    return Function(python_name(c_name), c_name, family, tuple(made))


def _number_kind(name: str) -> Kind:
    if name in _SIZES:
        return "size"
    if name == "compute_type":
        return "compute_type"
    if name == "algo":
        return "algo"
    if name.endswith("_type"):
        return "type"
    if name.startswith("inc"):
        return "increment"
    return "stride" if name.startswith("stride_") else "int"


def _type_argument(name: str, names: dict[str, str]) -> str:
    """The argument that holds the type of a ``void *`` one."""
    candidates = {
        "out": "result_type",
        "alpha": "compute_type",
        "beta": "compute_type",
    }
    own = f"{name}_type"
    if own in names:
        return own
    if name in candidates:
        return candidates[name]
    return "cs_type" if name in "cs" else "ab_type"


def _all() -> dict[str, Function]:
    made = {}
    for family in FAMILIES:
        for name in family.functions:
            function = _function(family, f"cublas{name}")
            made[function.name] = function
    return made


FUNCTIONS: dict[str, Function] = _all()
