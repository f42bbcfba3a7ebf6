"""A library is a table of C function addresses: of the real .so, or of NumPy functions.

Nothing above this module asks which of the two it talks to.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

from pycudnn import _core, abi, loader, reference
from pycudnn.abi import cublas_enums, cudnn_enums
from pycudnn.device import default_backend
from pycudnn.errors import (
    CUBLAS_CATEGORIES,
    CUDNN_CATEGORIES,
    CublasError,
    CudnnError,
    FunctionNotFound,
    LibraryNotFound,
    StatusError,
)

NAMES = ("cudnn", "cublas", "cublaslt")
BACKENDS = ("cuda", "reference")


class Library(_core.Library):
    """One of the libraries "cudnn", "cublas" and "cublaslt", of the backend "cuda" or "reference".

    Make it with ``get_library``. ``version`` is the number that the library itself reports
    (9.28.1 is 92801). Symbols are resolved one at a time, on first use.
    """

    def __init__(self, name: str, backend: str) -> None:
        self._functions: dict[str, Any] = {}
        self._loaded = loader.load(name) if backend == "cuda" else None
        self.version: int = self._loaded.version if self._loaded else reference.version(name)
        if self._loaded:
            _use_driver()

    def address(self, function: str) -> int:
        """Address of a C function. FunctionNotFound if this library lacks it."""
        try:
            prototype = abi.prototype(self.name, function)
        except KeyError:
            raise loader.function_not_found(self.name, function, self.version) from None
        if self._loaded is None:
            address = reference.address(self.name, function)
        else:
            symbol = getattr(self._loaded.cdll, function, None)
            address = symbol and ctypes.cast(symbol, ctypes.c_void_p).value
        if not address:
            title = loader.TITLES[self.name]
            needed = f"needs {title} {prototype.since} or newer"
            if self._loaded is None:
                needed = f"is not in the reference library, only in {title}"
            elif loader.version_number(prototype.since) <= self.version:
                needed = f"is declared in {prototype.header}.h, but {title} does not export it"
            raise FunctionNotFound(f"{function} {needed}; {self!r} does not have it")
        return address

    def function(self, function: str) -> Any:
        """The C function as a ctypes callable with typed arguments, unchecked."""
        if function not in self._functions:
            prototype = abi.function_type(abi.prototype(self.name, function))
            self._functions[function] = prototype(self.address(function))
        return self._functions[function]

    def fail(
        self, function: str, status: int, arguments: tuple[tuple[str, object], ...] = ()
    ) -> None:
        """Raise the exception for a status that is not success."""
        if self._loaded is None:
            pending = reference.take_pending()
            if pending is not None:
                raise pending
        raise self.error(function, status, arguments)

    def error(
        self, function: str, status: int, arguments: tuple[tuple[str, object], ...] = ()
    ) -> StatusError:
        """The exception for a status, with the library's last-error text."""
        described = [_describe(name, argument) for name, argument in arguments]
        if self.name != "cudnn":
            kind = CUBLAS_CATEGORIES.get(status, CublasError)
            name = _status_name(cublas_enums.Status, "CUBLAS_STATUS_", status)
            return kind(function, status, name, "", described)
        name = _status_name(cudnn_enums.Status, "CUDNN_STATUS_", status)
        return CUDNN_CATEGORIES.get(status // 1000, CudnnError)(
            function, status, name, self._last_error(), described
        )

    def _last_error(self) -> str:
        text = ctypes.create_string_buffer(2048)
        self.function("cudnnGetLastErrorString")(text, len(text))
        return text.value.decode(errors="replace").strip()

    def __repr__(self) -> str:
        return f"<{self.name} {self.version} ({self.backend})>"


_describing = threading.local()


def _describe(name: str, argument: object) -> str:
    """An argument for the text of an error. Its repr reads from the library, which may fail too."""
    kind = type(argument).__name__
    if getattr(_describing, "active", False):  # in the error of such a repr
        return f"{name}: <{kind}>"
    _describing.active = True
    try:
        return f"{name}: {argument!r}"
    except StatusError:
        return f"{name}: <unreadable {kind}>"
    except ValueError:  # a set that failed can leave numbers that no enum knows
        return f"{name}: <unset {kind}>"
    finally:
        _describing.active = False


def _status_name(statuses: Any, prefix: str, status: int) -> str:
    try:
        return prefix + statuses(status).name
    except ValueError:
        return "unknown status"


def _use_driver() -> None:
    """Tell _core how to make a handle's context current, where there is a driver."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return
    get, push, pop = (
        ctypes.cast(driver[name], ctypes.c_void_p).value or 0
        for name in ("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
    )
    _core.use_driver(get, push, pop)


_libraries: dict[tuple[str, str], Library] = {}
_lock = threading.Lock()


def get_library(name: str, backend: str | None = None) -> Library:
    """The library "cudnn", "cublas" or "cublaslt" of a backend (None: the machine's default one).

    One object per name and backend, for the life of the process. Raises LibraryNotFound where
    the real one is not installed, ValueError for another name.
    """
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"name must be one of {NAMES}, got {name!r}")
    if backend is None:
        backend = default_backend()
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS} or None, got {backend!r}")
    with _lock:
        if (name, backend) not in _libraries:
            _libraries[name, backend] = Library(name, backend)
        return _libraries[name, backend]


def find_library(name: str, library: Library | str | None) -> Library:
    """The ``library`` argument of every constructor: a Library, a backend's name, or None."""
    if library is None or (isinstance(library, str) and library in BACKENDS):
        return get_library(name, library)
    if not isinstance(library, Library):
        kind = ValueError if isinstance(library, str) else TypeError
        raise kind(f"library must be a Library, one of {BACKENDS} or None, got {library!r}")
    if library.name != name:
        raise ValueError(f"library must be a {name} library, got {library!r}")
    return library


def is_available(name: str, backend: str) -> bool:
    """Can this library be loaded here?"""
    try:
        get_library(name, backend)
    except LibraryNotFound:
        return False
    return True
