"""What counts as a member of an enum of the C headers."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, TypeVar

E = TypeVar("E", bound=IntEnum)


def check_kind(kind: type[IntEnum], value: Any, name: str) -> None:
    """TypeError for a bool, a float or a member of another enum: Python takes them for numbers."""
    if isinstance(value, (bool, float, Enum)) and not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__} or its number, got {value!r}")


def member(kind: type[E], value: Any, name: str) -> E:
    """A member of an enum, by itself or by number; ValueError lists what there is."""
    check_kind(kind, value, name)
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(f"{item.name} ({item.value})" for item in kind)
        raise ValueError(f"{name} must be a {kind.__name__}: {known}; got {value!r}") from None
