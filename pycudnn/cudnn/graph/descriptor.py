"""Backend descriptors: owning objects with typed attributes, and the calls that run them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import (
    BackendAttributeName,
    BackendDescriptorType,
    DataType,
    ResampleMode,
)
from pycudnn.abi.cudnn_enums import BackendAttributeType as T
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn._objects import require
from pycudnn.cudnn.graph import values
from pycudnn.cudnn.graph.attributes import ATTRIBUTES, Attribute, of_kind
from pycudnn.cudnn.handle import Handle
from pycudnn.errors import LibraryMismatch
from pycudnn.libraries import Library, find_library

_QUERY_FROM = 64  # arrays that may be longer are asked for their length first


class Owner(_core.Owned):
    """The C object of a descriptor; it lives as long as a descriptor or a parent refers to it.

    ``contents`` are the elements of what was set: numbers, and the owners, handles and memory that
    an attribute refers to, which thereby stay alive.
    """

    c_type = "cudnnBackendDescriptor_t"
    library: Library

    def __init__(self, library: Library, kind: BackendDescriptorType) -> None:
        self.kind = kind
        self.finalized = False
        self.contents: dict[BackendAttributeName, tuple[Any, ...]] = {}
        self.origin: Owner | None = None  # what it was read from
        pointer = ctypes_type("cudnnBackendDescriptor_t")()
        with _core.ColdCall(library) as call:
            call("cudnnBackendCreateDescriptor", kind, ctypes.byref(pointer))
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        self._own(library, address, "cudnnBackendDestroyDescriptor")

    def walk(self) -> Iterator[Owner]:
        """This owner and all that it refers to, each once."""
        seen: set[int] = set()
        waiting: list[Any] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Owner) and id(item) not in seen:
                seen.add(id(item))
                yield item
                waiting.append(item.origin)
                for elements in item.contents.values():
                    waiting.extend(elements)

    @property
    def handle(self) -> Handle | None:
        """The handle that it or what it refers to was made for."""
        for owner in self.walk():
            for elements in owner.contents.values():
                if elements and isinstance(elements[0], Handle):
                    return elements[0]
        return None

    def __repr__(self) -> str:
        return self.kind.name


class BackendDescriptor:
    """A descriptor of the graph API (cudnnBackendCreateDescriptor).

    ``kind`` is a BackendDescriptorType or its name, "TENSOR_DESCRIPTOR" say; ``attributes`` are
    set in their order. What an attribute refers to (descriptors, a handle, memory) stays alive with
    the descriptor that refers to it, even if it is closed meanwhile.
    """

    library: Library
    kind: BackendDescriptorType

    def __init__(
        self,
        kind: BackendDescriptorType | str,
        attributes: Mapping[BackendAttributeName | str, Any] | None = None,
        *,
        library: Library | str | None = None,
    ) -> None:
        self._owner: Owner | None = None
        found = values.enum_member(BackendDescriptorType, kind, "kind")
        given = {} if attributes is None else attributes
        require(given, Mapping, "attributes")
        self.kind = BackendDescriptorType(found)
        self.library = find_library("cudnn", library)
        self._owner = Owner(self.library, self.kind)
        for name, value in given.items():
            self.set(name, value)

    # ---- life ------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Has ``close()`` been called?"""
        return self._owner is None

    @property
    def finalized(self) -> bool:
        """Has it been finalized, after which attributes can be read but not set?"""
        return self._open().finalized

    @property
    def address(self) -> int:
        """The C pointer, for raw.py; ValueError once closed."""
        return self._open().address

    def close(self) -> None:
        """Give it up; the C object is destroyed when no other descriptor refers to it."""
        self._owner = None

    def __enter__(self) -> BackendDescriptor:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> Owner:
        owner = self._owner
        if owner is None:
            raise ValueError(f"this {self.kind.name} is closed")
        return owner

    def finalize(self) -> BackendDescriptor:
        """Have the library check it (cudnnBackendFinalize); returns itself.

        ValueError if it is finalized already or lacks an attribute that it must have, CudnnError
        if the library refuses it.
        """
        owner = self._open()
        if owner.finalized:
            raise ValueError(f"this {self.kind.name} is finalized already")
        missing = [
            name.name
            for name in self.attributes
            if ATTRIBUTES[name].required and name not in owner.contents
        ]
        if missing:
            raise ValueError(f"this {self.kind.name} needs {', '.join(missing)} first")
        if _is_maximum_without_index(owner):
            raise ValueError(f"this {self.kind.name} of MAXPOOL needs its IDXDESC first")
        if self.kind == BackendDescriptorType.OPERATIONGRAPH_DESCRIPTOR:
            _check_unique_ids(owner)
        with _core.ColdCall(self.library, owner.handle) as call:
            call("cudnnBackendFinalize", owner)
        owner.finalized = True
        return self

    # ---- attributes ------------------------------------------------------------------------------

    @property
    def attributes(self) -> tuple[BackendAttributeName, ...]:
        """The attributes that this kind of descriptor has."""
        return of_kind(self.kind)

    def _attribute(self, name: BackendAttributeName | str) -> Attribute:
        text = name.removeprefix("CUDNN_ATTR_") if isinstance(name, str) else name
        found = BackendAttributeName(values.enum_member(BackendAttributeName, text, "name"))
        spec = ATTRIBUTES.get(found)
        if spec is None or spec.owner != self.kind:
            known = ", ".join(known.name for known in self.attributes)
            raise ValueError(
                f"name must be an attribute of {self.kind.name}: {known}; got {name!r}"
            )
        return spec

    def set(self, name: BackendAttributeName | str, value: Any, *, type: Any = None) -> None:
        """Set an attribute (cudnnBackendSetAttribute).

        ``name`` is a BackendAttributeName or its name; ``value`` one element, or a sequence of them
        where the attribute is an array. Enums by member or name, data types as NumPy's too, JSON as
        str. ``type`` chooses where an attribute takes several ("FLOAT", "DOUBLE"); a Fraction goes
        as FRACTION.

        TypeError or ValueError before the call for a value of a wrong type, count or range, for a
        descriptor of another kind or closed, and after ``finalize()``; LibraryMismatch for a
        descriptor or handle of another library.
        """
        owner, spec = self._open(), self._attribute(name)
        if owner.finalized:
            raise ValueError(f"{spec.name.name}: this {self.kind.name} is finalized")
        if not spec.settable:
            raise ValueError(f"{spec.name.name} can only be read")
        kind = values.choose_type(spec, type, value)
        with _core.ColdCall(self.library) as call:
            if kind in (T.BACKEND_DESCRIPTOR, T.HANDLE, T.VOID_PTR):
                kept, addresses = self._refer(call, spec, kind, value)
                array = (ctypes.c_void_p * len(addresses))(*addresses)
            else:
                array = values.to_c(spec, kind, value, self.library.version)
                kept = values.from_c(kind, array, len(array))
            call(
                "cudnnBackendSetAttribute",
                owner, spec.name, kind, len(array), ctypes.cast(array, ctypes.c_void_p),
            )  # fmt: skip
        owner.contents[spec.name] = kept

    def _refer(
        self, call: _core.ColdCall, spec: Attribute, kind: T, value: Any
    ) -> tuple[tuple[Any, ...], list[int | None]]:
        """What the descriptor must keep alive, and its addresses."""
        given = values.elements(spec, value)
        names = [
            f"{spec.name.name}[{i}]" if spec.is_array else spec.name.name for i in range(len(given))
        ]
        pairs = zip(given, names, strict=True)
        if kind is T.BACKEND_DESCRIPTOR:
            owners = tuple(self._child(spec, item, name) for item, name in pairs)
            return owners, [owner.address for owner in owners]
        if kind is T.HANDLE:
            return given, [self._handle(item, name) for item, name in pairs]
        return given, [
            None if item is None else address_of(call, item, name) for item, name in pairs
        ]

    def _child(self, spec: Attribute, item: Any, name: str) -> Owner:
        wanted = " or ".join(kind.name for kind in spec.child[:2])
        if not isinstance(item, BackendDescriptor):
            raise TypeError(f"{name} must be a {wanted}, got {item!r}")
        if item.library is not self.library:
            raise LibraryMismatch(f"{name} is of {item.library!r}, this is of {self.library!r}")
        if item.kind not in spec.child:
            raise TypeError(f"{name} must be a {wanted}, got a {item.kind.name}")
        owner = item._open()
        if not owner.finalized:
            raise ValueError(f"{name} must be finalized first: {item!r}")
        return owner

    def _handle(self, handle: Any, name: str) -> int:
        if not isinstance(handle, Handle):
            raise TypeError(f"{name} must be a Handle, got {handle!r}")
        if handle.library is not self.library:
            raise LibraryMismatch(f"{name} is {handle!r}, this is of {self.library!r}")
        return handle.address

    def get(self, name: BackendAttributeName | str, *, type: Any = None) -> Any:
        """Read an attribute of a finalized descriptor (cudnnBackendGetAttribute).

        One value, or a tuple where the attribute is an array. Descriptors come as new objects, the
        handle, memory and operations as what was set (None if it was not). CudnnError for what
        this version of the library does not tell.
        """
        owner, spec = self._open(), self._attribute(name)
        if not owner.finalized:
            raise ValueError(f"{spec.name.name}: this {self.kind.name} is not finalized")
        kind = values.choose_type(spec, type)
        if kind in (T.HANDLE, T.VOID_PTR):
            found: tuple[Any, ...] = owner.contents.get(spec.name, ())
        elif kind is T.BACKEND_DESCRIPTOR:
            found = self._read_descriptors(owner, spec)
        else:
            room = spec.high
            if spec.high > _QUERY_FROM:
                room = self._read(owner, spec, kind, 0, None)
            array = (values.c_type(kind) * room)()
            count = self._read(owner, spec, kind, room, array) if room else 0
            if kind is T.CHAR:
                return bytes(array[:count]).rstrip(b"\0").decode()
            found = values.from_c(kind, array, min(count, room))
        if spec.is_array:
            return found
        return found[0] if found else None

    def _read(self, owner: Owner, spec: Attribute, kind: T, room: int, array: Any) -> int:
        count = ctypes.c_int64()
        address = None if array is None else ctypes.cast(array, ctypes.c_void_p)
        with _core.ColdCall(self.library, owner.handle) as call:
            call(
                "cudnnBackendGetAttribute",
                owner, spec.name, kind, room, ctypes.byref(count), address,
            )  # fmt: skip
        return count.value

    def _read_descriptors(self, owner: Owner, spec: Attribute) -> tuple[BackendDescriptor, ...]:
        """New descriptors, which the library fills in."""
        if len(spec.child) > 1 or not spec.readable:  # operations: only the caller knows their kind
            return tuple(self._of(item) for item in owner.contents.get(spec.name, ()))
        kind = T.BACKEND_DESCRIPTOR
        room = spec.high if spec.high <= _QUERY_FROM else self._read(owner, spec, kind, 0, None)
        made = [Owner(self.library, spec.child[0]) for _ in range(room)]
        array = (ctypes.c_void_p * room)(*(item.address for item in made))
        count = self._read(owner, spec, kind, room, array) if room else 0
        for item in made[:count]:
            item.finalized, item.origin = True, owner
        for item, original in zip(made, owner.contents.get(spec.name, ()), strict=False):
            item.contents = original.contents  # the library does not tell everything
        return tuple(self._of(item) for item in made[:count])

    @classmethod
    def _of(cls, owner: Owner) -> BackendDescriptor:
        """A descriptor over a C object that exists."""
        made = cls.__new__(cls)
        made.library, made.kind, made._owner = owner.library, owner.kind, owner
        return made

    def __repr__(self) -> str:
        owner = self._owner
        state = "closed " if owner is None else "" if owner.finalized else "unfinished "
        return f"<{state}{self.kind.name} of {self.library!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"a {self.kind.name} owns a C object and cannot be pickled")


def _is_maximum_without_index(owner: Owner) -> bool:
    """A gradient of a maximum pooling without the index, on which libcudnn 9.19 crashes."""
    resampling = owner.contents.get(BackendAttributeName.OPERATION_RESAMPLE_BWD_DESC)
    index = BackendAttributeName.OPERATION_RESAMPLE_BWD_IDXDESC
    if resampling is None or index in owner.contents:
        return False
    mode = resampling[0].contents.get(BackendAttributeName.RESAMPLE_MODE)
    return bool(mode == (ResampleMode.MAXPOOL,))


# What two descriptors of one tensor must agree in, and what it is where it is not set.
_IDENTITY = (
    (BackendAttributeName.TENSOR_DATA_TYPE, ()),
    (BackendAttributeName.TENSOR_DIMENSIONS, ()),
    (BackendAttributeName.TENSOR_STRIDES, ()),
    (BackendAttributeName.TENSOR_IS_VIRTUAL, (False,)),
    (BackendAttributeName.TENSOR_IS_BY_VALUE, (False,)),
)


def _check_unique_ids(graph: Owner) -> None:
    """In a graph a unique id is one tensor: cuDNN goes by it alone to find the memory."""
    known: dict[int, tuple[Any, ...]] = {}
    for owner in graph.walk():
        if owner.kind == BackendDescriptorType.TENSOR_DESCRIPTOR:
            (uid,) = owner.contents[BackendAttributeName.TENSOR_UNIQUE_ID]
            described = tuple(owner.contents.get(name, default) for name, default in _IDENTITY)
            if known.setdefault(uid, described) != described:
                raise ValueError(f"OPERATIONGRAPH_OPS has two tensors with the unique id {uid}")


class ByValue:
    """A number in host memory, for a variant pack's tensor that is passed by value.

    ``dtype`` is the tensor's. ValueError for NaN, infinities and what the type cannot hold.
    """

    def __init__(self, value: float, dtype: Any = DataType.FLOAT) -> None:
        self.dtype = dtypes.to_data_type(dtype)
        self.value = values.number_of(value, self.dtype, "value")
        data = dtypes.scalar_bytes(self.value, self.dtype)
        self._memory = ctypes.create_string_buffer(data, max(len(data), 16))
        self.address = ctypes.addressof(self._memory)

    def __repr__(self) -> str:
        return f"ByValue({self.value:g}, {dtypes.name(self.dtype)})"


def address_of(call: _core.ColdCall, item: Any, name: str) -> int:
    """Address of memory for a variant pack, of any data type and size."""
    return item.address if isinstance(item, ByValue) else call.operand(item, name, False)
