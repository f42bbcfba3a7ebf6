"""Descriptors of the graph API: create, set, get, finalize, destroy.

A descriptor is values by attribute. Finalizing checks them and makes of them what the rest of the
library works with (a :class:`~.tensors.Tensor`, an operation's node, a plan); only then can they
be read, and no longer be set. Descriptors that another one holds are kept alive by it.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pycudnn.abi.cudnn_enums import BackendAttributeType as Type
from pycudnn.abi.cudnn_enums import BackendDescriptorType as DescriptorType
from pycudnn.abi.cudnn_enums import Status as CudnnStatus
from pycudnn.abi.types import cudnnFraction_t

from ..memory import write
from ..runtime import (
    Status,
    add_object,
    bad_param,
    find_object,
    implements,
    not_supported,
    remove_object,
)
from . import operation_attributes, parameter_attributes, plan_attributes
from .attributes import Attribute, Kind, Need
from .handle import Handle

KINDS: dict[int, Kind] = {
    int(kind.type): kind
    for kind in itertools.chain(
        parameter_attributes.KINDS, operation_attributes.KINDS, plan_attributes.KINDS
    )
}

_NOT_TO_BE_CREATED = DescriptorType.INTERMEDIATE_INFO_DESCRIPTOR
_NO_SIZE_KNOWN = CudnnStatus.INTERNAL_ERROR_HOST_ALLOCATION_FAILED  # of a type that is none

_C_TYPES: dict[Type, Any] = {
    Type.HANDLE: ctypes.c_void_p,
    Type.BOOLEAN: ctypes.c_bool,
    Type.INT64: ctypes.c_int64,
    Type.INT32: ctypes.c_int32,
    Type.FLOAT: ctypes.c_float,
    Type.DOUBLE: ctypes.c_double,
    Type.VOID_PTR: ctypes.c_void_p,
    Type.BACKEND_DESCRIPTOR: ctypes.c_void_p,
    Type.CHAR: ctypes.c_char,
    Type.FRACTION: cudnnFraction_t,
}  # the others are enums: int


class Descriptor:
    """One descriptor: its kind, the values that are set, and after finalizing what they make."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.values: dict[str, tuple[Any, ...]] = {}
        self.types: dict[str, Type] = {}  # that the values were set with
        self.finalized = False
        self.made: Any = None

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def all(self, name: str) -> tuple[Any, ...]:
        """The values of an attribute; its default, or none, where it was not set."""
        row = next(row for row in self.kind.attributes.values() if row.name == name)
        default = () if isinstance(row.need, Need) else (row.need,)
        return self.values.get(name, default)

    def one(self, name: str) -> Any:
        """The value of an attribute of one element; None where it has none."""
        return next(iter(self.all(name)), None)

    def held(self, name: str) -> Any:
        """What the descriptor in this attribute has made; None where there is none."""
        held = self.one(name)
        return held and held.made

    def become(self, other: Descriptor) -> None:
        """Turn into a copy of a finalized descriptor of the same kind."""
        self.values, self.types = dict(other.values), dict(other.types)
        self.made, self.finalized = other.made, other.finalized


def new(kind_name: str) -> Descriptor:
    """An empty descriptor of a kind, for use within the library."""
    return Descriptor(next(kind for kind in KINDS.values() if kind.name == kind_name))


# --- finalizing ----------------------------------------------------------------------------------

_finalizers: dict[str, Callable[[Descriptor], Any]] = {}


def finalizes(*names: str) -> Callable[[Callable[[Descriptor], Any]], Callable[[Descriptor], Any]]:
    """Function decorator: it checks descriptors of these kinds, and returns what they make."""

    def register(function: Callable[[Descriptor], Any]) -> Callable[[Descriptor], Any]:
        _finalizers.update(dict.fromkeys(names, function))
        return function

    return register


def _unfinalized(kind: Kind) -> int:
    """The status for a descriptor of this kind that holds one that is not finalized."""
    return CudnnStatus.BAD_PARAM if kind.is_operation else CudnnStatus.BAD_PARAM_NOT_FINALIZED


def finalize(descriptor: Descriptor) -> None:
    """Check that all is there and fits, and make what the values describe."""
    if descriptor.kind.name not in _finalizers:
        raise not_supported(f"a {descriptor.kind.name} descriptor is for reading only")
    for row in descriptor.kind.attributes.values():
        if row.need is Need.REQUIRED and row.name not in descriptor:
            raise Status(row.missing, f"{descriptor.kind.prefix}{row.name} is required and not set")
        for held in descriptor.all(row.name):
            if isinstance(held, Descriptor) and not held.finalized:
                raise Status(
                    _unfinalized(descriptor.kind),
                    f"{descriptor.kind.prefix}{row.name}: the {held.kind.name} descriptor "
                    "is not finalized",
                )
    descriptor.made = _finalizers[descriptor.kind.name](descriptor)
    descriptor.finalized = True


# --- C functions ---------------------------------------------------------------------------------


def _find(identifier: int, null: int = CudnnStatus.BAD_PARAM_NULL_POINTER) -> Descriptor:
    found = find_object(identifier, Descriptor)
    if found is None:
        if not identifier:
            raise Status(null, "the descriptor is NULL")
        raise bad_param(f"{identifier:#x} is no live backend descriptor")
    return found


@implements("cudnnBackendCreateDescriptor")
def create_descriptor(descriptor_type: int, out: int) -> None:
    """An empty descriptor of one of the kinds of the tables."""
    if not out:
        raise bad_param("descriptor: the out-pointer is NULL")
    if descriptor_type not in KINDS:
        is_one = descriptor_type in tuple(DescriptorType) and descriptor_type != _NOT_TO_BE_CREATED
        raise Status(
            CudnnStatus.NOT_SUPPORTED if is_one else _NO_SIZE_KNOWN,
            f"descriptor type {descriptor_type} is not in the reference library",
        )
    write(out, ctypes.c_void_p, add_object(Descriptor(KINDS[descriptor_type])))


@implements("cudnnBackendDestroyDescriptor")
def destroy_descriptor(identifier: int) -> None:
    """Forget a descriptor; others that hold it keep it."""
    _find(identifier)
    remove_object(identifier)


@implements("cudnnBackendInitialize")
def initialize(identifier: int) -> None:
    """Make a descriptor empty again."""
    descriptor = _find(identifier, CudnnStatus.BAD_PARAM)
    descriptor.become(Descriptor(descriptor.kind))


@implements("cudnnBackendFinalize")
def finalize_descriptor(identifier: int) -> None:
    """Check a descriptor; from now on it can be read and used, and not be set."""
    descriptor = _find(identifier)
    if descriptor.finalized:
        raise bad_param(f"the {descriptor.kind.name} descriptor is finalized already")
    finalize(descriptor)


def _attribute(descriptor: Descriptor, number: int) -> Attribute:
    row = descriptor.kind.attributes.get(number)
    if row is None:
        raise Status(descriptor.kind.foreign, f"a {descriptor.kind.name} has no attribute {number}")
    return row


def _check_type(descriptor: Descriptor, row: Attribute, given: int) -> None:
    wrong = descriptor.kind.wrong_type if row.wrong_type is None else row.wrong_type
    if (given not in row.types or not row.writable) and wrong:
        raise Status(wrong, f"{row.name} takes values of type {_names(row)}, got type {given}")


def _names(row: Attribute) -> str:
    return " or ".join(type_.name for type_ in row.types)


@implements("cudnnBackendSetAttribute")
def set_attribute(
    identifier: int, attribute: int, attribute_type: int, count: int, array: int
) -> None:
    """Set an attribute of a descriptor that is not finalized; a second set replaces the first."""
    descriptor = _find(identifier)
    if descriptor.finalized:
        raise bad_param(f"the {descriptor.kind.name} descriptor is finalized")
    if not array:
        raise bad_param("arrayOfElements is NULL")
    row = _attribute(descriptor, attribute)
    if not row.writable:
        raise Status(row.wrong_type or CudnnStatus.NOT_SUPPORTED, f"{row.name} cannot be set")
    _check_type(descriptor, row, attribute_type)
    rule = row.counts
    if rule.least is not None and count < rule.least:
        raise Status(rule.too_few, f"{row.name} takes at least {rule.least} elements, got {count}")
    if rule.most is not None and count > rule.most:
        raise Status(rule.too_many, f"{row.name} takes one element, got {count}")
    taken = 1 if rule.first_only else max(count, 0)
    type_ = Type(attribute_type) if attribute_type in row.types else row.types[0]
    values = _read(row, type_, taken, array)
    if values or rule.least != 1:
        descriptor.values[row.name], descriptor.types[row.name] = values, type_
    else:
        descriptor.values.pop(row.name, None)  # NULL in the place of a descriptor unsets


def _read(row: Attribute, type_: Type, count: int, array: int) -> tuple[Any, ...]:
    """The elements of a caller's array, descriptors as objects."""
    if type_ == Type.CHAR:
        text = ctypes.string_at(array, count)
        return (text.split(b"\0")[0],)
    elements = (_C_TYPES.get(type_, ctypes.c_int) * count).from_address(array)
    if type_ == Type.BACKEND_DESCRIPTOR:
        found = (_held(row, identifier) for identifier in elements)
        return tuple(held for held in found if held is not None)
    if type_ == Type.HANDLE:
        return tuple(_handle(row, identifier) for identifier in elements)
    if type_ == Type.FRACTION:
        return tuple((element.numerator, element.denominator) for element in elements)
    for element in elements:
        if row.members and element not in tuple(row.members):
            raise bad_param(f"{row.name} is {element}, must be one of {list(row.members)}")
    return tuple(elements)


def _held(row: Attribute, identifier: int | None) -> Descriptor | None:
    if not identifier:
        if row.null:
            raise Status(row.null, f"{row.name} holds NULL")
        return None
    held = _find(identifier)
    if row.kind != held.kind.name and not (row.kind == "OPERATION" and held.kind.is_operation):
        if row.unfinalized and not held.finalized:
            raise Status(row.unfinalized, f"{row.name}: a descriptor is not finalized")
        raise Status(
            CudnnStatus.BAD_PARAM_DESCRIPTOR_TYPE,
            f"{row.name} holds {row.kind} descriptors, got a {held.kind.name}",
        )
    if row.unfinalized and not held.finalized:
        raise Status(row.unfinalized, f"{row.name}: a descriptor is not finalized")
    return held


def _handle(row: Attribute, identifier: int | None) -> int:
    """The identifier of a live handle, or 0."""
    if not identifier:
        if row.null:
            raise Status(row.null, f"{row.name} is NULL")
        return 0
    if find_object(identifier, Handle) is None:
        raise bad_param(f"{row.name}: {identifier:#x} is no live handle")
    return identifier


@implements("cudnnBackendGetAttribute")
def get_attribute(
    identifier: int, attribute: int, attribute_type: int, requested: int, count: int, array: int
) -> None:
    """Read an attribute of a finalized descriptor.

    `array` gets the first `requested` elements and `count` how many that are; without an array,
    how many there are. Descriptors are copied into those of the caller whose identifiers `array`
    holds, up to the first that is finalized.
    """
    descriptor = _find(identifier, CudnnStatus.BAD_PARAM)
    if not descriptor.finalized:
        raise Status(
            CudnnStatus.NOT_INITIALIZED, f"the {descriptor.kind.name} descriptor is not finalized"
        )
    row = _attribute(descriptor, attribute)
    if row.unreadable:
        raise Status(row.unreadable, f"{row.name} cannot be read")
    if attribute_type not in row.types:
        raise Status(
            row.wrong_type if row.wrong_type and row.writable else descriptor.kind.wrong_type,
            f"{row.name} has values of type {_names(row)}, not of type {attribute_type}",
        )
    values: Sequence[Any] = descriptor.all(row.name)
    type_ = Type(attribute_type)
    if len(row.types) > 1 and descriptor.types.get(row.name) != type_:
        raise bad_param(f"{row.name} was not set with type {type_.name}")
    if type_ == Type.CHAR:
        values = b"".join(values)
    single = row.writable and row.counts.most == 1
    if requested < 0 or (single and array and requested != 1):
        raise bad_param(f"{row.name} has {len(values)} elements, {requested} are requested")
    available = len(values)
    if array:
        available = _write(row, type_, values[:requested], array)
    if count:
        write(count, ctypes.c_int64, available)


def _write(row: Attribute, type_: Type, values: Sequence[Any], array: int) -> int:
    """Write elements into the caller's array; how many."""
    if type_ == Type.CHAR:
        ctypes.memmove(array, bytes(values), len(values))
        return len(values)
    elements = (_C_TYPES.get(type_, ctypes.c_int) * len(values)).from_address(array)
    if type_ == Type.BACKEND_DESCRIPTOR:
        return _copy(row, list(elements), values)
    for index, element in enumerate(values):
        elements[index] = element
    return len(values)


def _copy(row: Attribute, identifiers: list[int | None], values: Sequence[Descriptor]) -> int:
    """Make the caller's descriptors copies of those that are held; how many."""
    for index, (identifier, held) in enumerate(zip(identifiers, values, strict=True)):
        copy = _find(identifier or 0)
        if copy.kind is not held.kind:
            raise bad_param(f"{row.name} has {held.kind.name}s, got a {copy.kind.name} for one")
        if copy.finalized:
            return index
        copy.become(held)
    return len(values)
