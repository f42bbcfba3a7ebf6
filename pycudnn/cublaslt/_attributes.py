"""What the descriptors share: sets of attributes of fixed sizes, set once, read back one by one.

cublasLt takes any value for an attribute and looks at it when it computes, so the constructors
check them all. An attribute that has its first value is not set: an older library may lack it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from pycudnn import _core
from pycudnn.abi.types import HANDLES
from pycudnn.errors import CublasBadParam, NotSupported, StatusError
from pycudnn.libraries import Library


class Attribute(NamedTuple):
    """One attribute: its number, C type, and what it is in a new descriptor."""

    key: IntEnum
    c_type: Any
    first: Any = 0


class Descriptor(_core.Owned):
    """A descriptor of cublasLt: owns the C object, remembers its constructor's arguments."""

    NOUN: ClassVar[str]  # as in cublasLt<NOUN>Create
    SHOWN: ClassVar[tuple[str, ...]]  # properties in the repr
    library: Library

    def _build(
        self,
        library: Library,
        arguments: dict[str, Any],
        created_from: Iterable[Any],
        values: dict[Attribute, Any],
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Create the C object and set its attributes; free it again if that fails.

        ``arguments`` are the constructor's, for ``replace``; ``settings`` are what descriptors
        compare by, if it is not the same.
        """
        pointer = HANDLES[self.c_type]()
        with _core.ColdCall(library) as call:
            call(f"cublasLt{self.NOUN}Create", ctypes.byref(pointer), *created_from)
            address = ctypes.cast(pointer, ctypes.c_void_p).value
            self._own(library, address, f"cublasLt{self.NOUN}Destroy")
            try:
                for (key, c_type, first), value in values.items():
                    if value != first:
                        self._set(call, key, c_type, value)
            except BaseException:
                self.close()
                raise
        self._arguments = arguments | {"library": library}
        self._set_once(arguments if settings is None else settings)

    def _set(self, call: _core.ColdCall, key: IntEnum, c_type: Any, value: Any) -> None:
        room = c_type(value)
        try:
            call(
                f"cublasLt{self.NOUN}SetAttribute",
                self, key, ctypes.addressof(room), ctypes.sizeof(room),
            )  # fmt: skip
        except CublasBadParam:  # a library takes any value of an attribute that it knows
            raise NotSupported(f"{self.library!r} has no attribute {key.name}") from None

    def _get(self, attribute: Attribute) -> Any:
        room = attribute.c_type()
        try:
            with _core.ColdCall(self.library) as call:
                call(
                    f"cublasLt{self.NOUN}GetAttribute",
                    self, attribute.key, ctypes.addressof(room), ctypes.sizeof(room), None,
                )  # fmt: skip
        except CublasBadParam:
            raise NotSupported(f"{self.library!r} has no attribute {attribute.key.name}") from None
        return room.value

    def replace(self, **changes: Any) -> Any:
        """A new descriptor that differs in the given constructor arguments."""
        return type(self)(**{**self._arguments, **changes})

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.closed:
            return f"<closed {name}>"
        try:
            shown = [(key, getattr(self, key)) for key in self.SHOWN]
        except (StatusError, NotSupported):
            return f"<unreadable {name}>"
        texts = (f"{key}={v.name if isinstance(v, IntEnum) else v}" for key, v in shown)
        return f"{name}({', '.join(texts)})"


def attribute(spec: Attribute, convert: Callable[[Any], Any], text: str) -> Any:
    """A property that reads an attribute back from the library."""

    def read(self: Descriptor) -> Any:
        return convert(self._get(spec))

    return property(read, doc=text)


def known(kind: type[IntEnum]) -> Callable[[int], Any]:
    """A converter to an enum; a number that it does not have stays as it is."""

    def convert(value: int) -> Any:
        try:
            return kind(value)
        except ValueError:
            return value

    return convert
