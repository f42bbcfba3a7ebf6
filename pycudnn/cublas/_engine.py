"""One call of a cuBLAS function: every argument checked by its kind, then the C function called.

In order: numbers and enums; leading dimensions against the matrices' rows; each operand's side,
device, type and size; whether a result lies in another operand. Sizes beyond 32 bits take the
``_64`` form of the function. Where the sizes leave nothing to do, no operand is touched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from pycudnn import _core, operands
from pycudnn.abi import function_type, prototype
from pycudnn.abi.cublas_enums import PointerMode
from pycudnn.cublas import _elements, _faults
from pycudnn.cublas._elements import INT32, INT64, Element, Room
from pycudnn.cublas._functions import FUNCTIONS, Argument, Function
from pycudnn.cublas._numbers import INT_MAX, LONG_MAX, check_blocks, check_numbers
from pycudnn.cublas._overlap import Piece, colliding, overlap, repeats
from pycudnn.cublas._shapes import Block
from pycudnn.cublas.handle import Handle
from pycudnn.errors import StatusError
from pycudnn.memory import Buffer, from_numpy

_PINS_A_FRAME = 30  # operands that one ColdCall takes, with room for its handle

Given = dict[str, Any]


def run(name: str, handle: Handle, *arguments: Any) -> Any:
    """Call a function with its arguments in the order of its Python signature."""
    function = FUNCTIONS[name]
    if not isinstance(handle, Handle):
        raise TypeError(f"handle must be a cublas.Handle, got {handle!r}")
    positional, keyword = function.signature
    given = {a.name: value for a, value in zip(positional + keyword, arguments, strict=True)}
    values = check_numbers(function, given)
    blocks = check_blocks(function, values)
    with ExitStack() as stack, handle.mode_lock:
        call = Call(function, handle, values, blocks, given, stack)
        if not function.results and call.has_nothing_to_do():
            return None
        return call.make()


# ---- operands ------------------------------------------------------------------------------------


class Frames:
    """The ColdCalls of one call: one for the call, and more to pin the operands of a long list."""

    def __init__(self, handle: _core.Handle, stack: ExitStack) -> None:
        self._handle = handle
        self._stack = stack
        self.main = self._current = stack.enter_context(_core.ColdCall(handle.library, handle))
        self._pinned = 0

    def address(self, value: Any, name: str, writes: bool, needed: int, element: Element) -> int:
        """The address of a checked operand that lives until the stream is past the call."""
        if needed > LONG_MAX:
            raise ValueError(f"{name} would span {needed} bytes, more than any memory")
        handle = self._handle
        if _is_buffer(value):
            buffer = value
        else:
            buffer = operands.view(value, name, handle.library.backend, None, handle.stream)
        if buffer.dtype != element.dtype:
            raise TypeError(f"{name} holds {buffer.dtype}, the call takes {element.name}")
        if self._pinned == _PINS_A_FRAME:
            self._current = self._stack.enter_context(
                _core.ColdCall(self._handle.library, self._handle)
            )
            self._pinned = 0
        self._pinned += 1
        return self._current.operand(buffer, name, writes, None, needed)

    def pointers(self, addresses: Sequence[int], name: str) -> int:
        """The address of a device array of pointers, made without waiting for the stream."""
        array = from_numpy(np.array(addresses, np.uint64), device=self._handle.device)
        return self.main.operand(array, name, False, None, array.nbytes)


def _is_buffer(value: Any) -> bool:
    return isinstance(value, (Buffer, operands.ForeignBuffer))


def _shown(value: Any) -> str:
    return f"{len(value)} operands" if isinstance(value, (list, tuple)) else repr(value)


def read_list(value: Any, name: str, count: int, what: str = "operands") -> Sequence[Any]:
    """The operands of a batch, or what else there is so many of."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} must be a list of {count} {what}, got {value!r}")
    if len(value) != count:
        raise ValueError(f"{name} must be a list of {count} {what}, got {len(value)}")
    return value


def refuse_overlap(written: str, other: str) -> None:
    """Raise for operands that share memory."""
    raise ValueError(f"{written} is written to and must not overlap {other}")


def device_scalar(
    frames: Frames, value: Any, name: str, element: Element, count: int, writes: bool
) -> int:
    """The address of a scaling factor or result in device memory."""
    if value is None or isinstance(value, (int, float, complex)):
        what = "is missing" if value is None else f"is the number {value!r}"
        article = "one" if count == 1 else f"{count} of"
        raise TypeError(
            f"{name} {what}{':' if value is None else ', but'} the handle's pointer_mode is "
            f"DEVICE{',' if value is None else ':'} pass a buffer for {article} {element.name}"
        )
    return frames.address(value, name, writes, count * element.nbytes, element)


def host_scalar(value: Any, name: str, element: Element, count: int = 1) -> Room:
    """A scaling factor in host memory."""
    if isinstance(value, _core.Buffer) or (count == 1 and getattr(value, "shape", None)):
        raise TypeError(
            f"{name} is {value!r}, but the handle's pointer_mode is HOST: pass a number, or set "
            "pointer_mode to DEVICE"
        )
    room = Room(element, count)
    room.write(value, name)
    return room


# ---- the call ------------------------------------------------------------------------------------


class Call:
    """One call whose numbers are checked: its operands, scalars and results."""

    def __init__(
        self,
        function: Function,
        handle: Handle,
        values: dict[str, int],
        blocks: dict[str, Block],
        given: Given,
        stack: ExitStack,
    ) -> None:
        self._function = function
        self._handle = handle
        self._values = values
        self._blocks = blocks
        self._given = given
        self._frames = Frames(handle, stack)
        self._mode = handle.pointer_mode_code
        kinds = {argument.name: argument.kind for argument in function.arguments}
        integers = ("size", "leading", "increment")
        self._is_wide = any(
            abs(value) > INT_MAX for name, value in values.items() if kinds[name] in integers
        ) or _faults.needs_wide_form(function, values)
        self._rooms: dict[str, Room] = {}
        self._pieces: list[Piece] = []

    def has_nothing_to_do(self) -> bool:
        """Is a size 0 that leaves no result?"""
        return any(self._values.get(name) == 0 for name in ("m", "n", "batch_count", "batch_size"))

    def make(self) -> Any:
        """Check the memory, call, and return what a call in the pointer mode HOST does."""
        function, handle = self._function, self._handle
        if handle.workspace is not None:
            self._frames.main.operand(handle.workspace, "workspace", True)
        if handle.library.backend == "cuda":
            _faults.refuse(function, self._values, self._is_wide)
        c_name = function.wide_c_name if self._is_wide else function.c_name
        types = function_type(prototype("cublas", c_name))._argtypes_[1:]
        info = ctypes.c_int()
        arguments = []
        for argument, c_type in zip(function.arguments, types, strict=True):
            if argument.kind == "operand":
                address = self._operand(argument)
                arguments.append(
                    ctypes.cast(address, c_type) if argument.batched == "pointers" else address
                )
            elif argument.kind == "scalar":
                arguments.append(self._scalar(argument))
            elif argument.kind == "info":
                arguments.append(ctypes.byref(info))
            elif argument.kind == "enum":
                arguments.append(self._enum(argument.name))
            else:
                arguments.append(self._values[argument.name])
        self._check_overlaps()
        try:
            self._frames.main(c_name, handle, *arguments)
        except StatusError as error:
            described = [f"{name}: {_shown(value)}" for name, value in self._given.items()]
            raise type(error)(
                error.function, error.status, error.status_name, error.last_error, described
            ) from None
        results = [self._rooms[a.name].read() for a in function.results if a.name in self._rooms]
        return (results[0] if len(results) == 1 else tuple(results)) if results else None

    def _enum(self, name: str) -> int:
        code = self._values[name]
        typed = self._values.get(f"{name.removeprefix('trans')}_type")  # of a for transa
        return code if typed is None else _faults.operation(code, typed)

    def _element(self, argument: Argument) -> Element:
        if argument.name == "out" and argument.element is INT32 and self._is_wide:
            return INT64
        if argument.element is not None:
            return argument.element
        if argument.typed_by == "compute_type":
            values = self._values
            return _elements.scaling_element(values["compute_type"], values["c_type"])
        return _elements.element_of(self._values[argument.typed_by])

    def _operand(self, argument: Argument) -> int:
        name, block, element = argument.name, self._blocks[argument.name], self._element(argument)
        value, values = self._given[name], self._values
        if value is None and argument.optional:
            return 0
        if argument.batched == "pointers":
            addresses = []
            for index, item in enumerate(read_list(value, name, values[self._function.batch])):
                addresses.append(self._place(argument, f"{name}[{index}]", item, block, element))
            return self._frames.pointers(addresses, name)
        if argument.batched == "strided":
            count, stride = values[self._function.batch], values[argument.stride]
            return self._place(argument, name, value, block, element, count, stride)
        return self._place(argument, name, value, block, element)

    def _place(
        self,
        argument: Argument,
        name: str,
        value: Any,
        block: Block,
        element: Element,
        count: int = 1,
        stride: int = 0,
    ) -> int:
        elements = block.span + (count - 1) * stride if block.span else 0
        address = self._frames.address(
            value, name, argument.writes, elements * element.nbytes, element
        )
        self._pieces.append(
            Piece(name, address, block, element.nbytes, argument.writes, count, stride)
        )
        return address

    def _scalar(self, argument: Argument) -> int:
        name, element, count = argument.name, self._element(argument), argument.count
        value, direction = self._given[name], argument.direction
        if self._mode == PointerMode.DEVICE:
            return device_scalar(self._frames, value, name, element, count, direction != "in")
        if direction == "out":
            if value is not None:
                raise TypeError(
                    f"{name} must be None: the handle's pointer_mode is HOST and the result is "
                    "returned; set pointer_mode to DEVICE to have it in a buffer"
                )
            room = Room(element, count)
        else:
            room = host_scalar(value, name, element, count)
            if self._function.family.finite and not room.is_finite:
                raise ValueError(f"{name} must be finite in {element.name}, got {value!r}")
        self._rooms[name] = room
        return room.address

    def _check_overlaps(self) -> None:
        pieces = self._pieces
        if any(argument.batched == "pointers" for argument in self._function.arguments):
            names = colliding(pieces)
            if names:
                refuse_overlap(*names)
            return
        for piece in pieces:
            if piece.writes and repeats(piece):
                raise ValueError(
                    f"stride_{piece.name} must keep the results apart, got {piece.stride} for "
                    f"blocks that span {piece.block.span} elements"
                )
        for index, first in enumerate(pieces):
            for second in pieces[index + 1 :]:
                if (first.writes or second.writes) and overlap(first, second):
                    self._allow_in_place(*sorted((first, second), key=lambda p: not p.writes))

    def _allow_in_place(self, written: Piece, other: Piece) -> None:
        """Some results may be the very operand that they come from."""
        is_transposed = self._values.get(f"trans{other.name}", 0) != 0
        allowed = other.name in self._function.family.in_place.get(written.name, ())
        if not allowed or is_transposed or not written.same_as(other):
            refuse_overlap(written.name, other.name)
