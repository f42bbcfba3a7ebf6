"""cuBLAS's own log, delivered to Python's logging: off by default.

    logging.basicConfig(level=logging.INFO)
    cublas.enable_logging()

Each message becomes one record of the logger "pycudnn.cublas", with its text. Of a call there are
several: its name, a line for each argument, the time. Of calls that a handler of the logger makes
there are none, nor of switching the log.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import threading

from pycudnn import _core, logs
from pycudnn.libraries import get_library

logger = logging.getLogger("pycudnn.cublas")

_LEVELS = {"E": logging.ERROR, "W": logging.WARNING}
# As cublasLogCallback, but for the text as an address: decoding it must not fail.
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_lock = threading.RLock()
_quiet = logs.Quiet()
_enabled = False


def enable_logging(*, file: str | os.PathLike[str] | None = None) -> None:
    """Have cuBLAS report every call to the logger "pycudnn.cublas" (cublasSetLoggerCallback).

    It writes its messages to a ``file`` as well, None is none (cublasLoggerConfigure). It holds for
    the whole process and takes the place of a callback set before. LibraryNotFound without the real
    cuBLAS: the reference library has no log. TypeError for a ``file`` that is no path.
    """
    global _enabled
    path = logs.file_path(file)
    with _lock:
        _quiet.run(_switch_on, path)
        if not _enabled:
            atexit.register(disable_logging)  # no Python runs once the interpreter is gone
        _enabled = True


def disable_logging() -> None:
    """Have cuBLAS report nothing again; nothing if it does not. The callback of somebody else who
    has taken the place of ours stays."""
    global _enabled
    with _lock:
        if _enabled:
            _quiet.run(_switch_off)
            _enabled = False
            atexit.unregister(disable_logging)


def _switch_on(path: bytes | None) -> None:
    with _core.ColdCall(get_library("cublas", "cuda")) as call:
        call("cublasSetLoggerCallback", ctypes.cast(_receive, ctypes.c_void_p))
        call("cublasLoggerConfigure", 1, 0, 0, path)


def _switch_off() -> None:
    with _core.ColdCall(get_library("cublas", "cuda")) as call:
        found = ctypes.c_void_p()
        call("cublasGetLoggerCallback", ctypes.byref(found))
        if found.value == ctypes.cast(_receive, ctypes.c_void_p).value:
            call("cublasLoggerConfigure", 0, 0, 0, None)
            call("cublasSetLoggerCallback", None)


@_Callback
def _receive(message: int | None) -> None:
    if not _quiet.active:
        _quiet.run(_deliver, message)


def _deliver(message: int | None) -> None:
    text = ctypes.string_at(message).decode(errors="replace").rstrip() if message else ""
    number = _LEVELS.get(text[:1], logging.INFO)
    if logger.isEnabledFor(number):
        logger.log(number, "%s", text)
