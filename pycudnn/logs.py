"""What the logs of the three libraries share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class Quiet(threading.local):
    """Whether this thread is at work whose messages a log drops.

    That is the delivery of a message, since a handler may call the library, which tells of that
    call too, and the switching of the log, which holds a lock that a handler may want.
    """

    active = False

    def run(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do some work; the messages that it causes in this thread are to be dropped."""
        before, self.active = self.active, True
        try:
            work(*arguments)
        finally:
            self.active = before


def choice(value: str, name: str, choices: tuple[str, ...]) -> str:
    """``value``, one of ``choices``; TypeError and ValueError call it ``name``."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value


def file_path(file: str | os.PathLike[str] | None) -> bytes | None:
    """The path of a log file for C; TypeError for what is none, ValueError for a NUL in it."""
    if file is None:
        return None
    try:
        path = os.fsencode(file)
    except TypeError:
        raise TypeError(f"file must be a path or None, got {file!r}") from None
    if b"\0" in path:
        raise ValueError(f"file must be a path without NUL, got {file!r}")
    return path
