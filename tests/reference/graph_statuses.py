"""The statuses of creating, setting, getting and destroying backend descriptors, as JSON.

Run as a script with "reference" or "cuda". The cases run in child processes: where one dies, the
next goes on with the case after, and the status is "crash".
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from c_library import CLibrary

from pycudnn.abi.cudnn_enums import BackendAttributeName as Name
from pycudnn.abi.cudnn_enums import BackendAttributeType as Type
from pycudnn.abi.cudnn_enums import BackendDescriptorType as Kind
from pycudnn.abi.types import HANDLES
from pycudnn.reference.cudnn_graph.attributes import Attribute
from pycudnn.reference.cudnn_graph.descriptor import KINDS

Case = tuple[str, Callable[[], int]]
COUNTS = (-1, 0, 1, 2, 3, 9, 20)
NOT_ENUMS = (
    Type.HANDLE,
    Type.BOOLEAN,
    Type.INT64,
    Type.INT32,
    Type.FLOAT,
    Type.DOUBLE,
    Type.VOID_PTR,
    Type.BACKEND_DESCRIPTOR,
    Type.CHAR,
    Type.FRACTION,
)


class Statuses:
    """The cases on one library."""

    def __init__(self, library: CLibrary) -> None:
        self.library = library

    def new(self, kind: int) -> Any:
        descriptor = HANDLES["cudnnBackendDescriptor_t"]()
        self.library.check("cudnnBackendCreateDescriptor", kind, ctypes.byref(descriptor))
        return descriptor

    def create(self, kind: int) -> int:
        out = HANDLES["cudnnBackendDescriptor_t"]()
        return self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(out))

    def set(
        self, kind: int, attribute: int, type_: int, count: int, held: int | None, fill: int = 0
    ) -> int:
        """Set an attribute of a new descriptor, to new ones of kind `held`, or to numbers."""
        array = (ctypes.c_int64 * 64)(*[fill] * 64)
        if held is not None:
            children = [self.new(held) for _ in range(max(1, count))]
            for index, child in enumerate(children):
                array[index] = ctypes.cast(child, ctypes.c_void_p).value
        arguments = self.new(kind), attribute, type_, count, array
        return self.library.cudnnBackendSetAttribute(*arguments)

    def set_null(self, kind: int, attribute: int, type_: int) -> int:
        arguments = self.new(kind), attribute, type_, 1, None
        return self.library.cudnnBackendSetAttribute(*arguments)

    def get(self, kind: int, attribute: int, type_: int, requested: int, array: bool) -> int:
        """Get an attribute of a descriptor that is not finalized."""
        count = ctypes.c_int64()
        memory = (ctypes.c_int64 * 64)() if array else None
        arguments = self.new(kind), attribute, type_, requested, ctypes.byref(count), memory
        return self.library.cudnnBackendGetAttribute(*arguments)

    def cases(self) -> Iterator[Case]:
        for kind in (*range(-1, 60), 1000):
            yield f"create {kind}", lambda kind=kind: self.create(kind)
        yield from self._null_descriptors()
        for kind in KINDS.values():
            for number, row in kind.attributes.items():
                yield from self._of_attribute(int(kind.type), number, row)
            for name in Name:
                if int(name) not in kind.attributes:
                    yield (
                        f"foreign {kind.name} {name.name}",
                        lambda kind=kind, name=name: self.set(kind.type, name, Type.INT64, 1, None),
                    )

    def _null_descriptors(self) -> Iterator[Case]:
        library, number = self.library, ctypes.byref(ctypes.c_int64())
        functions = {
            "SetAttribute": (Name.TENSOR_UNIQUE_ID, Type.INT64, 1, number),
            "GetAttribute": (Name.TENSOR_UNIQUE_ID, Type.INT64, 1, number, number),
            "DestroyDescriptor": (),
            "Finalize": (),
            "Initialize": (),
        }
        for name, arguments in functions.items():
            function = getattr(library, f"cudnnBackend{name}")
            yield f"NULL {name}", lambda f=function, a=arguments: f(None, *a)
        yield "NULL Execute", lambda: library.cudnnBackendExecute(None, None, None)

    def _of_attribute(self, kind: int, number: int, row: Attribute) -> Iterator[Case]:
        title = f"{Kind(kind).name} {row.name}"
        held = next((k for k, of in KINDS.items() if of.name == row.kind), None)
        for type_ in (*Type, 99):
            is_descriptor = type_ == Type.BACKEND_DESCRIPTOR
            if is_descriptor and held is None and Type.BACKEND_DESCRIPTOR in row.types:
                continue  # no descriptor to be had of the kind
            child = (Kind.TENSOR_DESCRIPTOR if held is None else held) if is_descriptor else None
            yield (
                f"type {title} {int(type_)}",
                lambda type_=type_, child=child: self.set(kind, number, type_, 1, child),
            )
        for type_ in row.types if row.writable else ():
            is_descriptor = type_ == Type.BACKEND_DESCRIPTOR
            child = held if is_descriptor else None
            for count in COUNTS if not is_descriptor or held is not None else ():
                yield (
                    f"count {title} {type_.name} {count}",
                    lambda t=type_, n=count, c=child: self.set(kind, number, t, n, c),
                )
            yield f"no array {title}", lambda t=type_: self.set_null(kind, number, t)
            if is_descriptor:
                yield f"holds NULL {title}", lambda t=type_: self.set(kind, number, t, 1, None)
                for wrong in (Kind.TENSOR_DESCRIPTOR, Kind.MATMUL_DESCRIPTOR):
                    if wrong != held:
                        yield (
                            f"wrong kind {title} {wrong.name}",
                            lambda t=type_, w=wrong: self.set(kind, number, t, 1, w),
                        )
            elif type_ not in NOT_ENUMS:
                yield (
                    f"invalid enum {title}",
                    lambda t=type_: self.set(kind, number, t, 1, None, 999),
                )
        for type_ in row.types:
            for requested, array in ((1, True), (0, False), (-1, True)):
                yield (
                    f"get {title} {type_.name} {requested}",
                    lambda t=type_, r=requested, a=array: self.get(kind, number, t, r, a),
                )


def run(cases: list[Case], first: int, pipe: int) -> None:
    """Run the cases from `first` on, and write each status when it is known."""
    for _, call in cases[first:]:
        os.write(pipe, b"%d\n" % call())


def main(backend: str) -> dict[str, int | str]:
    cases = list(Statuses(CLibrary(backend)).cases())
    statuses: list[int | str] = []
    while len(statuses) < len(cases):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a dying libcudnn says
            run(cases, len(statuses), writing)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as lines:
            statuses += [int(line) for line in lines]
        os.waitpid(child, 0)
        if len(statuses) < len(cases):
            statuses.append("crash")
    return dict(zip((name for name, _ in cases), statuses, strict=True))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
