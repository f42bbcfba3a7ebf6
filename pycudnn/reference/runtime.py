"""What every function of the reference library stands on.

A C caller sees addresses: of functions, and of the opaque objects (handles, descriptors) that
some functions make and others take. This module provides both.

* :func:`implements` registers a Python function under a C name, and :func:`address` turns it into
  a C function pointer, built on first use from the prototype in ``pycudnn.abi``.
* :func:`opaque` declares which Python class stands behind a C handle or descriptor type. C code
  holds identifiers, the functions here get the objects; an identifier that is NULL, unknown,
  destroyed or of another kind gives a status, where cuDNN itself often crashes.
* :class:`Status` is how a function reports failure; its text is kept per thread for
  ``cudnnGetLastErrorString``.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pycudnn import abi
from pycudnn._guard import Guard
from pycudnn.abi.cublas_enums import Status as CublasStatus
from pycudnn.abi.cudnn_enums import Status as CudnnStatus
from pycudnn.abi.prototypes import Argument, Prototype

Function = Callable[..., Any]
AnyClass = TypeVar("AnyClass", bound=type)
AnyFunction = TypeVar("AnyFunction", bound=Function)


class Status(Exception):
    """The status that a C function returns instead of success, and the text that explains it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(int(code), text)
        self.code = int(code)
        self.text = text


def bad_param(text: str) -> Status:
    """cuDNN's status for an argument that is wrong in itself, to be raised."""
    return Status(CudnnStatus.BAD_PARAM, text)


def not_supported(text: str) -> Status:
    """cuDNN's status for arguments that are right but not served, to be raised."""
    return Status(CudnnStatus.NOT_SUPPORTED, text)


# --- per thread: the last error's text, and what must be raised again by the caller -------------


class _ThreadState(threading.local):
    last_error: str = ""
    pending: BaseException | None = None


_thread = _ThreadState()


def take_last_error() -> str:
    """This thread's last error text; reading clears it, as in cuDNN."""
    text, _thread.last_error = _thread.last_error, ""
    return text


def take_pending() -> BaseException | None:
    """This thread's exception that was no ordinary ``Exception`` (Ctrl-C, ``SystemExit``).

    C code cannot carry an exception, so the callback keeps it and returns an internal error;
    whoever called through C takes it from here and raises it.
    """
    exception, _thread.pending = _thread.pending, None
    return exception


# --- functions -----------------------------------------------------------------------------------

_functions: dict[str, Function] = {}
_optional: dict[str, tuple[str, ...]] = {}
_callbacks: dict[str, Any] = {}
_callbacks_lock = threading.Lock()

# C result type -> status for success, for a bug of ours
_STATUSES = {
    "cudnnStatus_t": (CudnnStatus.SUCCESS, CudnnStatus.INTERNAL_ERROR),
    "cublasStatus_t": (CublasStatus.SUCCESS, CublasStatus.INTERNAL_ERROR),
}


def implements(name: str, optional: tuple[str, ...] = ()) -> Callable[[AnyFunction], AnyFunction]:
    """Function decorator: this is the reference library's C function `name`.

    It receives the C arguments in order: a handle or descriptor as its Python object, numbers and
    enums as numbers, any other pointer as its address (0 for NULL). The `optional` descriptors, by
    their C names, may be NULL, which is None. It returns None for success
    and raises :class:`Status` otherwise. Where the C function does not return a status, the value
    returned is the C result (a pointer as its address).
    """

    def register(function: AnyFunction) -> AnyFunction:
        _functions[name] = function
        _optional[name] = optional
        return function

    return register


def names() -> frozenset[str]:
    """The C functions that the reference library has."""
    return frozenset(_functions)


def address(library: str, name: str) -> int | None:
    """The address of the C function `name` of the library; None if there is none here."""
    if name not in _functions or name not in abi.prototypes(library):
        return None
    with _callbacks_lock:
        if name not in _callbacks:
            prototype = abi.prototype(library, name)
            _callbacks[name] = abi.callback_type(prototype)(_callback(prototype, _functions[name]))
        return ctypes.cast(_callbacks[name], ctypes.c_void_p).value


def _callback(prototype: Prototype, function: Function) -> Function:
    """`function` as ctypes needs it: C arguments in, C result out, never an exception.

    What is no ordinary ``Exception`` is left to the guard, which keeps it for `take_pending`.
    """
    as_objects = function not in _destroyers
    converters = [
        _object_converter(
            argument, _kinds[_base_type(argument)], argument.name in _optional[prototype.name]
        )
        if as_objects and _base_type(argument) in _kinds
        else _number
        for argument in prototype.arguments
    ]
    success, failure = _STATUSES.get(prototype.result, (None, 0))

    def call(*arguments: Any) -> Any:
        try:
            values = [convert(value) for convert, value in zip(converters, arguments, strict=True)]
            with np.errstate(all="ignore"):  # C arithmetic does not warn
                result = function(*values)
            return result if success is None else success
        except Status as status:
            _thread.last_error = status.text
            return status.code
        except Exception as error:
            _thread.last_error = traceback.format_exception_only(type(error), error)[-1].strip()
            return failure

    return Guard(call, _thread, failure)


def _base_type(argument: Argument) -> str:
    return argument.type.removeprefix("const ").strip()


def _number(value: int | float | None) -> int | float:
    """A number as it is; ctypes hands NULL over as None."""
    return 0 if value is None else value


def _object_converter(argument: Argument, kind: type, optional: bool) -> Function:
    def convert(identifier: int | None) -> Any:
        if optional and not identifier:
            return None
        value = _objects.get(identifier)
        if type(value) is not kind:
            raise _no_such_object(identifier, value, argument.name, _base_type(argument), kind)
        return value

    return convert


def _no_such_object(
    identifier: int | None, value: Any, name: str, c_type: str, kind: type
) -> Status:
    """What a handle or descriptor that is none is answered with."""
    code: int = CublasStatus.INVALID_VALUE
    if c_type.startswith("cudnn"):
        code = CudnnStatus.BAD_PARAM
    elif c_type in ("cublasHandle_t", "cublasLtHandle_t"):
        code = CublasStatus.NOT_INITIALIZED
    if not identifier:
        found = "NULL"
    elif value is None:
        found = f"{identifier:#x}, which was destroyed or never created"
    else:
        found = f"{identifier:#x}, a {type(value).__name__}"
    return Status(code, f"{name} must be a live {kind.__name__} object, got {found}")


# --- opaque objects ------------------------------------------------------------------------------

_kinds: dict[str, type] = {}
_destroyers: set[Function] = set()
_objects: dict[int | None, Any] = {}
# Identifiers look like pointers but are no valid x86-64 addresses, and none is ever used twice:
# one that strays into a real library faults at once instead of reaching somebody's object there,
# and a destroyed one never comes to mean a newer object.
_identifiers = itertools.count(0x7EF0_0000_0000_0000, 16)


def add_object(value: Any) -> int:
    """The identifier by which C code now knows `value`."""
    identifier = next(_identifiers)
    _objects[identifier] = value
    return identifier


def find_object(identifier: int, kind: type) -> Any:
    """What C code knows by this identifier, if it is a live object of that kind; else None."""
    value = _objects.get(identifier)
    return value if type(value) is kind else None


def find_identifier(value: Any) -> int:
    """By what C code knows a live object; 0 if it is none."""
    return next((known for known, found in list(_objects.items()) if found is value), None) or 0


def remove_object(identifier: int) -> None:
    """C code knows nothing by this identifier any more."""
    del _objects[identifier]


def opaque(c_type: str, create: str, destroy: str) -> Callable[[AnyClass], AnyClass]:
    """Class decorator: the C type `c_type` (of handles or descriptors) refers to its objects.

    Also registers the C functions `create`, which makes an object by calling the class with the
    other arguments and writes its identifier through the out-pointer, and `destroy`, which forgets
    it.
    """

    is_cudnn = c_type.startswith("cudnn")
    null_pointer = CudnnStatus.BAD_PARAM if is_cudnn else CublasStatus.INVALID_VALUE
    # Most let NULL pass, as free() does; the handles of cuBLAS do not.
    takes_null = c_type not in ("cublasHandle_t", "cublasLtHandle_t")

    def register(cls: AnyClass) -> AnyClass:
        def create_object(out: int, *arguments: Any) -> None:
            if not out:
                raise Status(null_pointer, f"{create}: the out-pointer is NULL")
            ctypes.c_void_p.from_address(out).value = add_object(cls(*arguments))

        def destroy_object(identifier: int) -> None:
            if not identifier and takes_null:
                return
            value = _objects.get(identifier)
            if type(value) is not cls:
                raise _no_such_object(identifier, value, destroy, c_type, cls)
            remove_object(identifier)

        _kinds[c_type] = cls
        _destroyers.add(destroy_object)
        implements(create)(create_object)
        implements(destroy)(destroy_object)
        return cls

    return register


def live_objects() -> Counter[str]:
    """How many objects of each class exist: leaks show here."""
    return Counter(type(value).__name__ for value in list(_objects.values()))
