"""cuDNN's own log, delivered to Python's logging: off by default.

    logging.basicConfig(level=logging.DEBUG)
    cudnn.enable_logging("INFO")

Each message becomes one record of the logger "pycudnn.cudnn": its text as cuDNN writes it, and the
attributes ``cudnn_function``, ``cudnn_status`` (a Status number) and ``cudnn_version``. Of calls
that a handler of the logger makes there are none, nor of switching the log.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import re
import threading
from typing import Any

from pycudnn import _core, logs
from pycudnn.abi.cudnn_enums import (
    CUDNN_SEV_ERROR_EN,
    CUDNN_SEV_INFO_EN,
    CUDNN_SEV_WARNING_EN,
    Severity,
)
from pycudnn.abi.types import cudnnDebug_t
from pycudnn.libraries import get_library

logger = logging.getLogger("pycudnn.cudnn")

_LEVELS = {
    Severity.FATAL: logging.CRITICAL,
    Severity.ERROR: logging.ERROR,
    Severity.WARNING: logging.WARNING,
    Severity.INFO: logging.INFO,
}
# What each choice of the user asks cuDNN for; errors always come.
_MASKS = {
    "ERROR": CUDNN_SEV_ERROR_EN,
    "WARNING": CUDNN_SEV_ERROR_EN | CUDNN_SEV_WARNING_EN,
    "INFO": CUDNN_SEV_ERROR_EN | CUDNN_SEV_WARNING_EN | CUDNN_SEV_INFO_EN,
}
# As cudnnCallback_t, but for the text as an address: it holds more than one C string.
_Callback = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(cudnnDebug_t), ctypes.c_void_p
)
_lock = threading.RLock()
_quiet = logs.Quiet()
_enabled = False


def enable_logging(level: str = "INFO") -> None:
    """Have cuDNN report to the logger "pycudnn.cudnn" (cudnnSetCallback).

    ``level`` is "ERROR", "WARNING" or "INFO", which tells of every call with its arguments and
    costs time on each. It holds for the whole process. LibraryNotFound without the real cuDNN: the
    reference library has no log. ValueError for another level, TypeError for what is no text.
    """
    global _enabled
    mask = _MASKS[logs.choice(level, "level", tuple(_MASKS))]
    with _lock:
        _quiet.run(_set, mask, ctypes.cast(_receive, ctypes.c_void_p).value or 0)
        if not _enabled:
            atexit.register(disable_logging)  # no Python runs once the interpreter is gone
        _enabled = True


def disable_logging() -> None:
    """Have cuDNN's messages ignored again; nothing if they are."""
    global _enabled
    with _lock:
        if _enabled:
            _quiet.run(_set, 0, _core.message_sink())  # NULL would have cuDNN print errors itself
            _enabled = False
            atexit.unregister(disable_logging)


def _set(mask: int, callback: int) -> None:
    with _core.ColdCall(get_library("cudnn", "cuda")) as call:
        call("cudnnSetCallback", mask, None, callback)


@_Callback
def _receive(severity: int, _: int, record: Any, text: int | None) -> None:
    if not _quiet.active:
        _quiet.run(_deliver, severity, record, text)


def _deliver(severity: int, record: Any, text: int | None) -> None:
    level = _LEVELS.get(Severity(severity), logging.ERROR)
    if not logger.isEnabledFor(level):
        return
    lines = _strings(text)
    function = re.search(r"function (\w+)\(\)", lines[0]) if lines else None
    logger.log(
        level,
        "%s",
        "\n".join(lines),
        extra={
            "cudnn_function": function[1] if function else "",
            "cudnn_status": record.contents.cudnnStatus if record else 0,
            "cudnn_version": record.contents.cudnn_version if record else 0,
        },
    )


def _strings(address: int | None) -> list[str]:
    """C strings one after another, up to an empty one."""
    found = []
    while address and (string := ctypes.string_at(address)):
        found.append(string.decode(errors="replace").rstrip())
        address += len(string) + 1
    return found
