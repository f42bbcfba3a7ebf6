"""Products in groups: each group has sizes, types of operation and scaling factors of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pycudnn.abi import function_type, prototype
from pycudnn.abi.cublas_enums import Operation, PointerMode
from pycudnn.cublas import _elements, _engine, _faults, _numbers
from pycudnn.cublas._elements import FLOAT32, FLOAT64, Element
from pycudnn.cublas._functions import FUNCTIONS, Argument
from pycudnn.cublas._overlap import Piece, colliding
from pycudnn.cublas._shapes import Block
from pycudnn.cublas.handle import Handle

_SHAPES = FUNCTIONS["sgemm"].family.shapes


def sgemm_grouped_batched(
    handle: Handle,
    transa: Sequence[int],
    transb: Sequence[int],
    m: Sequence[int],
    n: Sequence[int],
    k: Sequence[int],
    alpha: Sequence[Any],
    a: Sequence[Any],
    lda: Sequence[int],
    b: Sequence[Any],
    ldb: Sequence[int],
    beta: Sequence[Any],
    c: Sequence[Any],
    ldc: Sequence[int],
    group_count: int,
    group_size: Sequence[int],
) -> None:
    """C = alpha op(A) op(B) + beta C in float32 (cublasSgemmGroupedBatched).

    ``a``, ``b`` and ``c`` list the operands of all groups in order, sum(group_size) of them. Of
    everything else there is one a group. Needs the pointer mode HOST.
    """
    given = _given(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, group_size)
    elements = (FLOAT32,) * 4
    _run("cublasSgemmGroupedBatched", handle, given, group_count, elements, {})


def dgemm_grouped_batched(
    handle: Handle,
    transa: Sequence[int],
    transb: Sequence[int],
    m: Sequence[int],
    n: Sequence[int],
    k: Sequence[int],
    alpha: Sequence[Any],
    a: Sequence[Any],
    lda: Sequence[int],
    b: Sequence[Any],
    ldb: Sequence[int],
    beta: Sequence[Any],
    c: Sequence[Any],
    ldc: Sequence[int],
    group_count: int,
    group_size: Sequence[int],
) -> None:
    """``sgemm_grouped_batched`` in float64 (cublasDgemmGroupedBatched)."""
    given = _given(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, group_size)
    elements = (FLOAT64,) * 4
    _run("cublasDgemmGroupedBatched", handle, given, group_count, elements, {})


def gemm_grouped_batched_ex(
    handle: Handle,
    transa: Sequence[int],
    transb: Sequence[int],
    m: Sequence[int],
    n: Sequence[int],
    k: Sequence[int],
    alpha: Sequence[Any],
    a: Sequence[Any],
    a_type: Any,
    lda: Sequence[int],
    b: Sequence[Any],
    b_type: Any,
    ldb: Sequence[int],
    beta: Sequence[Any],
    c: Sequence[Any],
    c_type: Any,
    ldc: Sequence[int],
    group_count: int,
    group_size: Sequence[int],
    compute_type: int | None = None,
) -> None:
    """``sgemm_grouped_batched`` with types as in ``gemm_ex`` (cublasGemmGroupedBatchedEx)."""
    types: dict[str, int] = {
        name: _elements.type_code(value, name)
        for name, value in (("a_type", a_type), ("b_type", b_type), ("c_type", c_type))
    }
    compute = _numbers.check_compute_type(compute_type, types["c_type"])
    elements = (
        *(_elements.element_of(code) for code in types.values()),
        _elements.scaling_element(compute, types["c_type"]),
    )
    given = _given(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, group_size)
    types["compute_type"] = compute
    _run("cublasGemmGroupedBatchedEx", handle, given, group_count, elements, types)


_NAMES = "transa transb m n k alpha a lda b ldb beta c ldc group_size".split()


def _given(*values: Any) -> dict[str, Any]:
    return dict(zip(_NAMES, values, strict=True))


def _run(
    function: str,
    handle: Handle,
    given: dict[str, Any],
    group_count: Any,
    elements: tuple[Element, ...],
    types: dict[str, int],
) -> None:
    """``elements`` are those of A, B, C and the scaling factors."""
    if not isinstance(handle, Handle):
        raise TypeError(f"handle must be a cublas.Handle, got {handle!r}")
    count = _numbers.size(group_count, "group_count")
    numbers = _lists(given, count)
    alpha, beta = (
        _engine.read_list(given[name], name, count, "numbers") for name in ("alpha", "beta")
    )
    blocks = {name: _blocks(numbers, name, count) for name in "abc"}
    for name in "abc":
        _engine.read_list(given[name], name, sum(numbers["group_size"]))
    with ExitStack() as stack, handle.mode_lock:
        frames = _engine.Frames(handle, stack)
        if handle.pointer_mode_code != PointerMode.HOST:
            raise ValueError("pointer_mode must be HOST for grouped products, got DEVICE")
        if not sum(numbers["group_size"]):
            return
        addresses = _addresses(frames, given, numbers["group_size"], blocks, elements)
        rooms = {
            name: _several(values, name, elements[3])
            for name, values in (("alpha", alpha), ("beta", beta))
        }
        if handle.workspace is not None:
            frames.main.operand(handle.workspace, "workspace", True)
        is_wide = any(v > _numbers.INT_MAX for values in numbers.values() for v in values)
        c_name = function + ("_64" if is_wide else "")
        integer = ctypes.c_int64 if is_wide else ctypes.c_int
        declared = prototype("cublas", c_name).arguments[1:]
        arguments: list[Any] = []
        for argument, c_type in zip(
            declared, function_type(prototype("cublas", c_name))._argtypes_[1:], strict=True
        ):
            name = argument.name.removesuffix("_array").removesuffix("array").lower()
            if name in addresses:
                arguments.append(ctypes.cast(addresses[name], c_type))
            elif name in rooms:
                arguments.append(rooms[name].address)
            elif name in numbers:
                kind = ctypes.c_int if name.startswith("trans") else integer
                codes = numbers[name]
                if name.startswith("trans") and types:
                    codes = [_faults.operation(code, types[f"{name[-1]}_type"]) for code in codes]
                array = (kind * count)(*codes)
                arguments.append(ctypes.cast(array, c_type))
            elif name == "group_count":
                arguments.append(count)
            else:
                arguments.append(types[name.replace("type", "_type")])
        frames.main(c_name, handle, *arguments)


def _lists(given: dict[str, Any], count: int) -> dict[str, list[int]]:
    """The lists of whole numbers, each checked."""
    checks: dict[str, Callable[[Any, str], int]] = dict.fromkeys(
        ("m", "n", "k", "lda", "ldb", "ldc", "group_size"), _numbers.size
    )
    checks |= dict.fromkeys(("transa", "transb"), _operation)
    return {
        name: [
            check(value, f"{name}[{index}]")
            for index, value in enumerate(_engine.read_list(given[name], name, count, "ints"))
        ]
        for name, check in checks.items()
    }


def _operation(value: Any, name: str) -> int:
    choices = (Operation.N, Operation.T, Operation.C)
    return _numbers.choice(value, Argument(name, "enum", choices))


def _blocks(numbers: dict[str, list[int]], name: str, count: int) -> list[Block]:
    blocks = []
    for group in range(count):
        values = {key: found[group] for key, found in numbers.items()}
        block = _SHAPES[name].block(values)
        _numbers.check_leading(f"ld{name}[{group}]", values[f"ld{name}"], block.length)
        blocks.append(block)
    return blocks


def _addresses(
    frames: _engine.Frames,
    given: dict[str, Any],
    group_size: list[int],
    blocks: dict[str, list[Block]],
    elements: tuple[Element, ...],
) -> dict[str, int]:
    """Device arrays of pointers for A, B and C."""
    groups = [group for group, size in enumerate(group_size) for _ in range(size)]
    pieces, addresses = [], {}
    for name, element in zip("abc", elements[:3], strict=True):
        found = []
        for index, value in enumerate(given[name]):
            block = blocks[name][groups[index]]
            label = f"{name}[{index}]"
            needed = block.span * element.nbytes
            found.append(frames.address(value, label, name == "c", needed, element))
            pieces.append(Piece(label, found[-1], block, element.nbytes, name == "c"))
        addresses[name] = frames.pointers(found, name)
    names = colliding(pieces)
    if names:
        _engine.refuse_overlap(*names)
    return addresses


def _several(values: Sequence[Any], name: str, element: Element) -> _elements.Room:
    room = _elements.Room(element, len(values))
    room.write(values[0] if len(values) == 1 else values, name)
    return room
