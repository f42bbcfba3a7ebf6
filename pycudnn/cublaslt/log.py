"""cublasLt's own log, delivered to Python's logging: off by default.

    logging.basicConfig(level=logging.INFO)
    cublaslt.enable_logging("HINTS")

Each message becomes one record of the logger "pycudnn.cublaslt": its text, and the attributes
``cublaslt_function`` (the C function that tells it) and ``cublaslt_kind`` (a name from ``KINDS``).
Of calls that a handler of the logger makes there are none, nor of switching the log.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import threading
from collections.abc import Sequence

from pycudnn import _core, logs
from pycudnn.libraries import get_library

logger = logging.getLogger("pycudnn.cublaslt")

# In the order of C's levels, from 1; kind number i is bit i of its mask.
KINDS = ("ERROR", "TRACE", "HINTS", "HEURISTICS", "API")

_LEVELS = {"ERROR": logging.ERROR, "HINTS": logging.WARNING}
# As cublasLtLoggerCallback_t, but for the texts as addresses: decoding them must not fail.
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_lock = threading.RLock()
_quiet = logs.Quiet()
_enabled = False


def enable_logging(
    level: str = "API",
    *,
    kinds: Sequence[str] | None = None,
    file: str | os.PathLike[str] | None = None,
) -> None:
    """Have cublasLt report to the logger "pycudnn.cublaslt" (cublasLtLoggerSetCallback).

    ``level`` is one of ``KINDS``, which takes those before it too: errors, launches of kernels,
    hints for speed, what the heuristic does, every call with its arguments. ``kinds`` chooses
    single ones instead (cublasLtLoggerSetLevel, cublasLtLoggerSetMask). cublasLt itself writes the
    messages to a ``file`` as well, None is none (cublasLtLoggerOpenFile, cublasLtLoggerSetFile).
    All of it holds for the whole process.

    LibraryNotFound without the real cublasLt: the reference library has no log. ValueError for
    another level or kind, TypeError for what is no text, CublasBadParam for a file that cannot be
    written.
    """
    global _enabled
    highest = _number(level, "level")
    if kinds is not None and not isinstance(kinds, (list, tuple)):
        raise TypeError(f"kinds must be a list of {', '.join(KINDS)}, got {kinds!r}")
    mask = sum({1 << _number(kind, "kinds") for kind in kinds or ()})
    choice = ("cublasLtLoggerSetLevel", highest + 1)
    if kinds is not None:
        choice = ("cublasLtLoggerSetMask", mask)
    with _lock:
        _quiet.run(_switch_on, choice, logs.file_path(file))
        if not _enabled:
            atexit.register(disable_logging)  # no Python runs once the interpreter is gone
        _enabled = True


def disable_logging() -> None:
    """Have cublasLt report nothing again; nothing if it does not."""
    global _enabled
    with _lock:
        if _enabled:
            _quiet.run(_switch_off)
            _enabled = False
            atexit.unregister(disable_logging)


def forbid_logging() -> None:
    """Have cublasLt report nothing for the rest of the process, whatever is asked for later
    (cublasLtLoggerForceDisable)."""
    disable_logging()
    with _core.ColdCall(get_library("cublaslt", "cuda")) as call:
        call("cublasLtLoggerForceDisable")


def _switch_on(choice: tuple[str, int], path: bytes | None) -> None:
    with _core.ColdCall(get_library("cublaslt", "cuda")) as call:
        _silence(call)
        if path is not None:
            call("cublasLtLoggerOpenFile", path)
        call("cublasLtLoggerSetCallback", ctypes.cast(_receive, ctypes.c_void_p))
        call(*choice)


def _switch_off() -> None:
    with _core.ColdCall(get_library("cublaslt", "cuda")) as call:
        _silence(call)


def _silence(call: _core.ColdCall) -> None:
    call("cublasLtLoggerSetLevel", 0)
    call("cublasLtLoggerSetMask", 0)
    call("cublasLtLoggerSetCallback", None)
    call("cublasLtLoggerSetFile", None)  # it would print, at first


def _number(name: str, argument: str) -> int:
    return KINDS.index(logs.choice(name, argument, KINDS))


@_Callback
def _receive(level: int, function: int | None, message: int | None) -> None:
    if not _quiet.active:
        _quiet.run(_deliver, level, function, message)


def _deliver(level: int, function: int | None, message: int | None) -> None:
    kind = KINDS[level - 1] if 1 <= level <= len(KINDS) else str(level)
    number = _LEVELS.get(kind, logging.INFO)
    if logger.isEnabledFor(number):
        extra = {"cublaslt_function": _text(function), "cublaslt_kind": kind}
        logger.log(number, "%s", _text(message), extra=extra)


def _text(address: int | None) -> str:
    return ctypes.string_at(address).decode(errors="replace").rstrip() if address else ""
