"""Valid calls of the object face to start from: those that the conformance problems make."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import PROBLEMS, Case

from pycudnn import CudaContext, _core

FACES = ("pycudnn.cudnn", "pycudnn.cublas")


@dataclass
class Call:
    """One call that worked: a public function or class, and its arguments by name."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    optional: frozenset[str]  # arguments that may be None
    result: Any = None
    pointer_mode: int | None = None  # of the cuBLAS handle, when the call was recorded

    def make(self, **changes: Any) -> Any:
        """Call again, with some arguments changed."""
        if self.pointer_mode is not None:
            self.arguments["handle"].pointer_mode = self.pointer_mode
        arguments = {**self.arguments, **changes}
        positional = []
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(arguments.pop(name))
        return self.function(*positional, **arguments)


def public_callables() -> dict[str, Callable[..., Any]]:
    """Every public function and class of the object face, enums and records left out."""
    found = {}
    for face in FACES:
        module = importlib.import_module(face)
        for name in module.__all__:
            value = getattr(module, name)
            plain = inspect.isclass(value) and issubclass(value, (int, tuple, list))
            if callable(value) and not plain:
                found[f"{face.removeprefix('pycudnn.')}.{name}"] = value
    return found


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """Record the calls made through the modules of the face inside a ``with`` block."""
    calls: list[Call] = []
    replaced = []
    for name, function in public_callables().items():
        face, _, attribute = f"pycudnn.{name}".rpartition(".")
        module = importlib.import_module(face)
        replaced.append((module, attribute, function))
        setattr(module, attribute, _recorder(name, function, calls))
    try:
        yield calls
    finally:
        for module, attribute, function in replaced:
            setattr(module, attribute, function)


def _recorder(name: str, function: Callable[..., Any], calls: list[Call]) -> Any:
    signature = inspect.signature(function)

    @functools.wraps(function, updated=())
    def record(*positional: Any, **named: Any) -> Any:
        result = function(*positional, **named)
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        parameters = signature.parameters.items()
        if not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for _, p in parameters):
            optional = {key for key, p in parameters if p.default is None}
            arguments = dict(bound.arguments)
            mode = getattr(arguments.get("handle"), "pointer_mode", None)
            calls.append(Call(name, function, arguments, frozenset(optional), result, mode))
        return result

    if inspect.isclass(function):  # class methods, and isinstance in the problems
        for attribute in dir(function):
            if not attribute.startswith("__"):
                setattr(record, attribute, getattr(function, attribute))
    return record


def alive(call: Call) -> bool:
    """Are all objects that the call used still open? A problem may close its own."""
    return not any(getattr(value, "closed", False) is True for value in call.arguments.values())


def calls_of(context: CudaContext, function: str, seed: int) -> tuple[Case, list[Call]]:
    """The calls of one random problem; the case keeps their operands alive."""
    case = Case(context, function, np.random.default_rng([seed, *function.encode()]))
    with recorded() as calls:
        PROBLEMS[function](case)
    return case, [call for call in calls if alive(call)]


class CannotMove(Exception):
    """A call that needs a handle, or an object that was not recorded."""


def moved(call: Call, calls: list[Call], library: str) -> Call:
    """The same call on descriptors of another library, which needs no GPU for that."""
    arguments = dict(call.arguments)
    if "library" in arguments:
        arguments["library"] = library
    for name, value in arguments.items():
        if isinstance(value, (_core.Handle, _core.Buffer, np.ndarray)):
            raise CannotMove(f"{call.name} takes {name}")
        if isinstance(value, _core.Owned):
            maker = next((made for made in calls if made.result is value), None)
            if maker is None:
                raise CannotMove(f"nobody recorded how {value!r} was made")
            arguments[name] = moved(maker, calls, library).make()
    return Call(f"{call.name} on {library}", call.function, arguments, call.optional)
