"""What counts as a member of an enum of the C headers."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any


def check_kind(kind: type[IntEnum], value: Any, name: str) -> None:
    """TypeError for a bool, a float or a member of another enum: Python takes them for numbers."""
    if isinstance(value, (bool, float, Enum)) and not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__} or its number, got {value!r}")
