"""What a row of the attribute tables says: type, count, need and statuses of one attribute.

The statuses that a set returns for a wrong type or count differ from row to row in cuDNN, without
a rule behind them; the tables have what libcudnn 9.28 was seen to return.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from pycudnn.abi.cudnn_enums import BackendAttributeName as Name
from pycudnn.abi.cudnn_enums import BackendAttributeType as Type
from pycudnn.abi.cudnn_enums import BackendDescriptorType as DescriptorType
from pycudnn.abi.cudnn_enums import Status


class Need(Enum):
    """Whether an attribute without a default must be set before its descriptor is finalized."""

    REQUIRED = 1
    OPTIONAL = 2


REQUIRED, OPTIONAL = Need.REQUIRED, Need.OPTIONAL


class Count(NamedTuple):
    """How many elements a set takes, and what it returns for fewer or more."""

    least: int | None = 1  # None: the count is not looked at
    most: int | None = 1
    too_few: int = Status.BAD_PARAM
    too_many: int = Status.BAD_PARAM
    first_only: bool = False  # of the elements, only the first is taken


ONE = Count()
ALONE = Count(too_few=Status.NOT_SUPPORTED, too_many=Status.NOT_SUPPORTED)
ONE_OR_REFUSED = Count(too_many=Status.NOT_SUPPORTED)
SOME = Count(most=None)
ANY = Count(least=0, most=None)
FIRST = Count(most=None, first_only=True)
UNCOUNTED = Count(least=None, most=None, first_only=True)
AT_WILL = Count(least=None, most=None)
TEXT = Count(least=0, most=None, too_few=Status.INTERNAL_ERROR_HOST_ALLOCATION_FAILED)


class Attribute(NamedTuple):
    """One attribute of one kind of descriptor."""

    name: str  # without the prefix of its kind
    types: tuple[Type, ...]
    need: Any  # REQUIRED, OPTIONAL, or the default value
    counts: Count = ONE
    wrong_type: int | None = None  # status of a set with another type; None: as its kind has it
    kind: str = ""  # of the descriptors that it holds; "OPERATION" stands for every operation
    null: int = Status.SUCCESS  # status for a NULL among them; SUCCESS: the attribute is unset
    unfinalized: int = Status.SUCCESS  # status for one that is not finalized, if a set asks
    members: type[Enum] | None = None  # values that a set is checked for
    writable: bool = True
    missing: int = Status.BAD_PARAM  # what finalizing returns where it is required and not set
    unreadable: int = Status.SUCCESS  # what a get returns where cuDNN has no answer to it


class Kind(NamedTuple):
    """One kind of descriptor."""

    type: DescriptorType
    prefix: str  # of its attributes
    wrong_type: int
    attributes: dict[int, Attribute]  # by number
    foreign: int = Status.BAD_PARAM  # status of a set of an attribute that it does not have

    @property
    def name(self) -> str:
        """What kind, in a word: TENSOR, OPERATION_MATMUL."""
        return self.type.name.removesuffix("_DESCRIPTOR")

    @property
    def is_operation(self) -> bool:
        """Can it be a node of an operation graph?"""
        return self.name.startswith("OPERATION_")


def kind(
    name: str, prefix: str, wrong_type: int, *rows: Attribute, foreign: int = Status.BAD_PARAM
) -> Kind:
    """A kind from its rows, whose names lack the prefix."""
    return Kind(
        DescriptorType[f"{name}_DESCRIPTOR"],
        prefix,
        wrong_type,
        {int(Name[prefix + row.name]): row for row in rows},
        foreign,
    )


def value(name: str, types: str, need: Any = OPTIONAL, **options: Any) -> Attribute:
    """An attribute of numbers, of one of the types "A|B"."""
    return Attribute(name, tuple(Type[word] for word in types.split("|")), need, **options)


def descriptor(name: str, kind: str, need: Any = OPTIONAL, **options: Any) -> Attribute:
    """An attribute that holds descriptors of one kind."""
    return Attribute(name, (Type.BACKEND_DESCRIPTOR,), need, kind=kind, **options)


def tensor(name: str, need: Any = OPTIONAL, **options: Any) -> Attribute:
    """An attribute that holds tensors."""
    return descriptor(name, "TENSOR", need, **options)


def read_only(
    name: str, types: str, status: int = Status.NOT_SUPPORTED, **options: Any
) -> Attribute:
    """An attribute that cannot be set; `status` is what a set returns."""
    return value(name, types, OPTIONAL, wrong_type=status, writable=False, **options)
