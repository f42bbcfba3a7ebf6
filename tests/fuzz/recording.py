"""Valid calls of the object face to start from: those that problems and scenarios make.

Functions are recorded by name in the modules of the face; constructors, methods and setters of
properties in their classes. What these call inside pycudnn is not recorded.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
import scenarios
import scenarios_cublaslt  # noqa: F401 (registers its own)
from harness import PROBLEMS, Case

from pycudnn import CudaContext, _core
from pycudnn.cudnn import graph
from pycudnn.device import Device, Stream

_IS_MUTABLE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class in Python
FACES = ("pycudnn.cudnn", "pycudnn.cublas", "pycudnn.cublaslt", "pycudnn.cudnn.graph")


@dataclass
class Call:
    """One call that worked: what was called, and its arguments by name, ``self`` included."""

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


# What problems and scenarios cannot call, and why.
UNREACHED = {
    "cublaslt.forbid_logging": "holds for the rest of the process",
    "cudnn.graph.Engine": "made by Graph.engines and Graph.engine",
    "cudnn.graph.EngineConfig": "made by Engine.config and Graph.heuristics",
    "cudnn.graph.ExecutionPlan": "made by Graph.plan and EngineConfig.plan",
    "cudnn.graph.Tensor": "made by Graph.tensor and the operations",
    "cudnn.graph.populate_cuda_graph": "needs a graph of the CUDA driver",
    "cudnn.graph.update_cuda_graph": "needs a graph of the CUDA driver",
}

# ---- what there is to call -----------------------------------------------------------------------


def public_callables() -> dict[str, Callable[..., Any]]:
    """Every public function and class of the object face, enums and records left out."""
    found = {}
    for face in FACES:
        module = importlib.import_module(face)
        for name in module.__all__:
            value = getattr(module, name)
            is_class = inspect.isclass(value)
            plain = is_class and (issubclass(value, (int, tuple, list)) or is_dataclass(value))
            if callable(value) and not plain:
                found[f"{face.removeprefix('pycudnn.')}.{name}"] = value
    return found


def public_methods() -> dict[str, tuple[type, str]]:
    """Methods and ``name =`` for settable properties of the public classes: the class, and its
    attribute. Those that only end an object's life are left out."""
    found = {}
    for name, value in public_callables().items():
        if not inspect.isclass(value):
            continue
        for base in value.__mro__:
            if not base.__module__.startswith("pycudnn") or not base.__flags__ & _IS_MUTABLE:
                continue
            for attribute, member in vars(base).items():
                if attribute.startswith("_") or attribute == "close":
                    continue
                if inspect.isfunction(member) or isinstance(member, classmethod):
                    found.setdefault(f"{name}.{attribute}", (base, attribute))
                elif isinstance(member, property) and member.fset:
                    found.setdefault(f"{name}.{attribute} =", (base, attribute))
    return found


# ---- recording -----------------------------------------------------------------------------------


class Recorder:
    """The calls from outside; those that a recorded call makes itself are not."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._depth = 0

    def function(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that records its calls."""

        @functools.wraps(function)
        def record(*positional: Any, **named: Any) -> Any:
            result = self._inside(function, positional, named)
            self._note(name, function, function, positional, named, result)
            return result

        return record

    def method(
        self, classes: Mapping[type, str], attribute: str, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A method that records, under the name of the object's class: it may be inherited."""

        @functools.wraps(function)
        def record(self_: Any, *positional: Any, **named: Any) -> Any:
            result = self._inside(function, (self_, *positional), named)
            if type(self_) in classes:
                name = f"{classes[type(self_)]}.{attribute}"
                self._note(name, function, function, (self_, *positional), named, result)
            return result

        return record

    def constructor(self, name: str, made: type) -> Callable[..., None]:
        """An ``__init__`` that records."""
        initialise = made.__init__

        @functools.wraps(initialise)
        def record(self_: Any, *positional: Any, **named: Any) -> None:
            self._inside(initialise, (self_, *positional), named)
            if type(self_) is made:
                self._note(name, made, initialise, (self_, *positional), named, self_)

        return record

    def _inside(self, function: Callable[..., Any], positional: Any, named: Any) -> Any:
        self._depth += 1
        try:
            return function(*positional, **named)
        finally:
            self._depth -= 1

    def _note(
        self,
        name: str,
        function: Callable[..., Any],
        signed: Callable[..., Any],
        positional: Sequence[Any],
        named: dict[str, Any],
        result: Any,
    ) -> None:
        signature = inspect.signature(signed)
        parameters = signature.parameters.items()
        if self._depth or any(p.kind is p.VAR_POSITIONAL for _, p in parameters):
            return
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        for key, p in parameters:
            if p.kind is p.VAR_KEYWORD:
                arguments |= arguments.pop(key)
        if function is not signed:
            del arguments["self"]  # the object that a class makes
        optional = frozenset(
            key for key, p in parameters if p.default is None or "None" in str(p.annotation)
        )
        mode = getattr(arguments.get("handle"), "pointer_mode", None)
        self.calls.append(Call(name, function, arguments, optional, result, mode))


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """Record the calls that are made inside a ``with`` block."""
    recorder = Recorder()
    replaced: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, attribute: str, by: Any) -> None:
        replaced.append((owner, attribute, vars(owner)[attribute]))
        setattr(owner, attribute, by)

    for name, function in public_callables().items():
        if not inspect.isclass(function):
            face, _, attribute = f"pycudnn.{name}".rpartition(".")
            replace(importlib.import_module(face), attribute, recorder.function(name, function))
        elif "__init__" in vars(function):
            replace(function, "__init__", recorder.constructor(name, function))
    classes = {value: name for name, value in public_callables().items() if inspect.isclass(value)}
    patched = set()
    for name, (owner, attribute) in public_methods().items():
        if (owner, attribute) in patched:
            continue
        patched.add((owner, attribute))
        member = vars(owner)[attribute]
        if isinstance(member, property):
            setter = recorder.function(name, member.fset)
            replace(owner, attribute, property(member.fget, setter, member.fdel, member.__doc__))
        elif isinstance(member, classmethod):
            bound = recorder.function(name, getattr(owner, attribute))
            replace(owner, attribute, staticmethod(bound))
        else:
            replace(owner, attribute, recorder.method(classes, attribute, member))
    try:
        yield recorder.calls
    finally:
        for owner, attribute, member in reversed(replaced):
            setattr(owner, attribute, member)


def alive(call: Call) -> bool:
    """Are all objects that the call used still open? A problem may close its own."""
    return not any(getattr(value, "closed", False) is True for value in call.arguments.values())


def functions() -> list[str]:
    """What ``calls_of`` can record: the C functions of the problems, and the scenarios."""
    return [*sorted(PROBLEMS), *scenarios.SCENARIOS]


def calls_of(context: CudaContext, function: str, seed: int) -> tuple[Case, list[Call]]:
    """The calls of one random problem or scenario; the case keeps their operands alive."""
    case = Case(context, function, np.random.default_rng([seed, *function.encode()]))
    with recorded() as calls:
        (PROBLEMS.get(function) or scenarios.SCENARIOS[function])(case)
    return case, [call for call in calls if alive(call)]


# ---- the same call elsewhere ---------------------------------------------------------------------


# What is of a library, and was not made from numbers alone.
_BOUND = (
    *(graph.Graph, graph.Tensor, graph.Engine, graph.ExecutionPlan, graph.BackendDescriptor),
    *(_core.Handle, _core.Buffer, np.ndarray, Device, Stream),
)


class CannotMove(Exception):
    """A call that needs a handle or memory, or an object that was not recorded."""


def _is_bound(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, _core.Owned) or _is_bound(item) for item in value)
    return isinstance(value, _BOUND)


def moved(call: Call, calls: Sequence[Call], library: str) -> Call:
    """The same call on descriptors of another library, which needs no GPU for that."""
    arguments = dict(call.arguments)
    if "library" in arguments:
        arguments["library"] = library
    for name, value in arguments.items():
        if _is_bound(value):
            raise CannotMove(f"{call.name} takes {name}")
        if isinstance(value, _core.Owned):
            maker = next((made for made in calls if made.result is value), None)
            if maker is None:
                raise CannotMove(f"nobody recorded how {value!r} was made")
            arguments[name] = moved(maker, calls, library).make()
    return Call(f"{call.name} on {library}", call.function, arguments, call.optional)
