"""The context that layers share: device, stream, cuBLAS and cuDNN handles, workspace."""

from __future__ import annotations

import atexit
import threading

from pycudnn.context import CudaContext
from pycudnn.device import default_backend

__all__ = ["CudaContext", "default_context"]

_contexts: dict[str, CudaContext] = {}
_lock = threading.Lock()


def default_context(backend: str | None = None) -> CudaContext:
    """Return the context that blobs and networks use where none was given.

    There is one per backend (``"cuda"``, ``"reference"``; None for the machine's default), made
    on first use and closed at interpreter exit.
    """
    backend = backend or default_backend()
    with _lock:
        if backend not in _contexts:
            _contexts[backend] = context = CudaContext(backend)
            atexit.register(context.close)
        return _contexts[backend]
