"""Every C function of cuDNN, cuBLAS and cublasLt under its own name, through ctypes.

    >>> import ctypes
    >>> from pycudnn import raw
    >>> tensor = raw.cudnnTensorDescriptor_t()
    >>> raw.cudnnCreateTensorDescriptor(ctypes.byref(tensor))
    <Status.SUCCESS: 0>

All of cuDNN's headers graph, ops, cnn, adv, subquadratic_ops and gnn_ops, of cublas_api.h with its
`_64` forms and of cublasLt.h are here. What the library that is found lacks is FunctionNotFound
when it is called, which says what version has it; a name that cuDNN 9 no longer has is one at
once, which says what to call today.

The names in this module call the real libraries; `raw.reference` holds the same names for the
reference library, and `raw.bind` those of one Library object. A C status comes back as the
Status enum and raises nothing. C types are here too: handles, structs and, as IntEnum, enums
(`raw.cudnnDataType_t.FLOAT`). As cublas_v2.h has it, `cublasSgemm` means `cublasSgemm_v2`. The
six functions that cublasLt.h defines itself are here too: `cublasLtMatmulDescInit` fills a
`cublasLtMatmulDescOpaque_t` of yours.

An argument of the wrong handle or descriptor type is a TypeError. Nothing else is checked:
a bad pointer, size or a destroyed descriptor can crash the process, as in C.
"""

from __future__ import annotations

import ctypes
import inspect
import re
from collections.abc import Callable
from typing import Any

from pycudnn import abi
from pycudnn.abi.prototypes import Prototype
from pycudnn.abi.types import ENUMS, HANDLES, STRUCTS, cuComplex, cuDoubleComplex
from pycudnn.libraries import Library, get_library
from pycudnn.loader import TITLES, function_not_found, versioned_name
from pycudnn.reference import take_pending

TYPES: dict[str, Any] = {
    **HANDLES,
    **STRUCTS,
    **ENUMS,
    "cuComplex": cuComplex,
    "cuDoubleComplex": cuDoubleComplex,
}


def _result_converter(result: str) -> Callable[[Any], Any]:
    if result == "const char *":
        return lambda text: text.decode(errors="replace")
    if result not in ENUMS:
        return lambda value: value
    enum = ENUMS[result]
    members = {int(member): member for member in enum}
    return lambda value: members.get(value, value)  # a newer library may know more statuses


def _make_function(proto: Prototype, library: Callable[[], Library]) -> Callable[..., Any]:
    """A Python function for a C function; the library is opened by the first call."""
    convert = _result_converter(proto.result)
    function: Any = None
    reference = False

    def call(*arguments: Any) -> Any:
        nonlocal function, reference
        if function is None:
            function = library().function(proto.name)
            reference = library().backend == "reference"
        if len(arguments) != len(proto.arguments):
            raise _wrong_count(proto, arguments)
        try:
            result = function(*arguments)
        except ctypes.ArgumentError as error:
            position = int(re.findall(r"argument (\d+)", str(error))[0]) - 1
            argument = proto.arguments[position]
            raise TypeError(
                f"{proto.name}: {argument.name} must be {argument.type}, "
                f"got {arguments[position]!r}"
            ) from None
        if reference and result:
            pending = take_pending()
            if pending is not None:
                raise pending
        return convert(result)

    return _described(call, proto)


def _make_inline(proto: Prototype, internal: Callable[..., Any]) -> Callable[..., Any]:
    """What cublasLt.h defines as the call of NAME_internal with the size of the struct."""
    size = ctypes.sizeof(HANDLES[proto.arguments[0].type]._type_)

    def call(*arguments: Any) -> Any:
        if len(arguments) != len(proto.arguments):
            raise _wrong_count(proto, arguments)
        return internal(arguments[0], size, *arguments[1:])

    return _described(call, proto)


def _wrong_count(proto: Prototype, arguments: tuple[Any, ...]) -> TypeError:
    return TypeError(f"{len(arguments)} arguments given, {proto} takes {len(proto.arguments)}")


def _described(call: Callable[..., Any], proto: Prototype) -> Callable[..., Any]:
    """`call` with the name, docstring and signature of the C function."""
    call.__name__ = call.__qualname__ = proto.name
    title = TITLES[abi.library_of(proto.name) or ""]
    call.__doc__ = (
        f"{proto}\n\nDeclared in {proto.header}.h, first seen in {title} {proto.since}."
        + (" Deprecated there." if proto.deprecated else "")
    )
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_ONLY)
            for argument in proto.arguments
        ]
    )
    return call


class Functions:
    """The C functions of one backend, or of one Library, as attributes."""

    def __init__(self, source: Library | str) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name in TYPES:
            return TYPES[name]
        library = abi.library_of(name)
        if library is None:
            raise AttributeError(
                f"{name} is neither a C function nor a C type of cuDNN, cuBLAS or cublasLt"
            )
        source = self._source
        if isinstance(source, Library) and source.name != library:
            raise AttributeError(f"{name} is not in {source!r}")
        symbol = versioned_name(library, name)
        if symbol != name:
            return getattr(self, symbol)
        if name in abi.INLINE:
            internal = getattr(self, f"{name}_internal")
            setattr(self, name, _make_inline(abi.INLINE[name], internal))
            return getattr(self, name)
        if name not in abi.prototypes(library):
            raise function_not_found(library, name)
        if isinstance(source, Library):
            function = _make_function(abi.prototype(library, name), lambda: source)
        else:
            function = _make_function(
                abi.prototype(library, name), lambda: get_library(library, source)
            )
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        names = [self._source.name] if isinstance(self._source, Library) else list(TITLES)
        functions = {function for name in names for function in abi.prototypes(name)}
        if "cublaslt" in names:
            functions |= set(abi.INLINE)
        return sorted({*TYPES, *functions})

    def __repr__(self) -> str:
        return f"raw.bind({self._source!r})"


def bind(source: Library | str) -> Functions:
    """The C functions of a backend ("cuda" or "reference") or of a Library, as attributes."""
    return Functions(source)


reference = bind("reference")
_real = bind("cuda")


def __getattr__(name: str) -> Any:
    return getattr(_real, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_real)})
