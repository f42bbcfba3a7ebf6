"""Wrong values for an argument, and which of them must be refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from pycudnn import CudaContext, _core, cudnn, empty
from pycudnn.memory import Buffer

JUNK = ("x", b"x", object(), {}, 1j, float("nan"), lambda: None, type)


class Mutation(NamedTuple):
    """A value to put in the place of an argument; ``wrong`` if no call may accept it."""

    label: str
    value: Any
    wrong: bool


# Numbers of any sign and size, NaN included, are meant in these, and in alpha... and beta....
ANY_NUMBER = frozenset("value a b c s c_ s_ d1 d2 x1 y1 padding_fill".split())
# Arrays of pivots, statuses and means that their functions do without.
MAY_BE_NONE = frozenset(("p", "ipiv", "dev_info", "means"))
# Any number of 64 bits.
SEEDS = frozenset(("seed",))
# Vector increments run backwards where they are negative; the others are summands.
SIGNED = frozenset("incx incy a_bias b_bias c_bias c_mult c_shift".split())


def mutations(
    context: CudaContext, name: str, value: Any, may_be_none: bool, alone: bool
) -> Iterator[Mutation]:
    """Values to try for the argument ``name`` whose valid value is ``value``.

    ``alone``: no other argument is a handle or descriptor, so any library will do.
    """
    if not may_be_none and value is not None:
        yield Mutation("None", None, name not in MAY_BE_NONE)
    if isinstance(value, _core.Owned):
        yield from _owned(value, alone)
    elif isinstance(value, (Buffer, np.ndarray)):
        yield from _operand(context, name, value)
    elif isinstance(value, IntEnum):
        for wrong in (-2, -1, 9999, 2**40, 2**200, 1.5, *JUNK):
            known = isinstance(wrong, int) and wrong in tuple(type(value))
            yield Mutation(f"enum {_label(wrong)}", wrong, not known)
    elif isinstance(value, bool):
        yield from _junk("bool", wrong=False)
    elif isinstance(value, (int, float)) and _any_number(name):
        for junk in _junk("number"):
            yield junk._replace(wrong=not isinstance(junk.value, (complex, float)))
        for other in (0.0, -1.0, 1e300, math.inf, 10**400, 2**63):
            yield Mutation(f"number {_label(other)}", other, False)
    elif isinstance(value, int):
        yield from _junk("int")
        for wrong in (2**63, 2**200, -(2**63), -(2**200), 1.5):
            yield Mutation(f"int {_label(wrong)}", wrong, name not in SEEDS or wrong != 2**63)
        for other in (-1, 0, 1, 2**31 - 1, 2**31, 2**32 + 1):
            yield Mutation(f"int {other}", other, False)
        if name not in SIGNED:
            yield Mutation("int -7", -7, True)
    elif isinstance(value, float):
        yield from _junk("float")
        for other in (math.inf, -math.inf):
            yield Mutation(f"float {other}", other, True)
        for other in (0.0, -1.0, 1e300, 1e-320, 10**400):
            yield Mutation(f"float {_label(other)}", other, False)
    elif isinstance(value, (tuple, list)):
        yield from _sequence(value)
    elif isinstance(value, str):
        for wrong in (5, 1.5, b"x", object(), "no such thing", ""):
            yield Mutation(f"str {_label(wrong)}", wrong, True)
    else:
        yield from _junk(type(value).__name__, wrong=False)


def _any_number(name: str) -> bool:
    return name in ANY_NUMBER or name.startswith(("alpha", "beta"))


def _junk(kind: str, *, wrong: bool = True) -> Iterator[Mutation]:
    for value in JUNK:
        yield Mutation(f"{kind} {_label(value)}", value, wrong)


def _label(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 2**40:
        return f"of {value.bit_length()} bits"
    return repr(value).split(" at 0x")[0]


def _owned(value: _core.Owned, alone: bool) -> Iterator[Mutation]:
    kind = type(value)
    for wrong in (0, 5, value.address, *JUNK):
        yield Mutation(f"{kind.__name__} {type(wrong).__name__}", wrong, True)
    yield Mutation(f"unmade {kind.__name__}", kind.__new__(kind), True)
    library = value.library.backend
    for other in (
        cudnn.PoolingDescriptor(2, library=library),
        cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=library),
    ):
        if type(other) is not kind:
            yield Mutation(f"{type(other).__name__} for {kind.__name__}", other, True)
    closed = _copy(value)
    if closed is not None:
        closed.close()
        yield Mutation(f"closed {kind.__name__}", closed, True)
    stranger = _copy(value, "reference" if library == "cuda" else "cuda")
    if stranger is not None:
        yield Mutation(f"{kind.__name__} of another library", stranger, not alone)


def _copy(value: _core.Owned, library: str | None = None) -> Any:
    """An equal tensor, filter or convolution descriptor, perhaps of another library."""
    where = library or value.library.backend
    try:
        if isinstance(value, cudnn.TensorDescriptor):
            return cudnn.TensorDescriptor(
                value.shape, value.dtype, strides=value.strides, library=where
            )
        if isinstance(value, cudnn.FilterDescriptor):
            return cudnn.FilterDescriptor(
                value.shape, value.dtype, format=value.format, library=where
            )
        if isinstance(value, cudnn.ConvolutionDescriptor):
            return value.replace(library=where)
    except ImportError:  # no real library here
        pass
    return None


def _operand(context: CudaContext, name: str, value: Any) -> Iterator[Mutation]:
    for wrong in (0, 4096, 2**63, -1, *JUNK, [1.0], 0.5):
        yield Mutation(f"operand {_label(wrong)}", wrong, True)
    closed = empty(value.shape, value.dtype, device=context.device, stream=context.stream)
    closed.close()
    yield Mutation("closed operand", closed, True)
    small = empty((1,), "uint8", device=context.device, stream=context.stream)
    yield Mutation("operand of one byte", small, value.nbytes > 1 and value.dtype != np.uint8)
    host = np.zeros(value.shape, value.dtype)
    yield Mutation("NumPy operand", host, context.device.backend == "cuda")
    yield Mutation("non-contiguous operand", np.zeros((7, 9, 2), np.float32)[:, ::3, 0], True)
    host.flags.writeable = False
    yield Mutation("read-only operand", host, False)
    if value.dtype != np.uint8:
        other = np.float64 if value.dtype != np.float64 else np.int32
        shape = (value.nbytes // np.dtype(other).itemsize + 1,)
        yield Mutation(
            "operand of another type",
            empty(shape, other, device=context.device, stream=context.stream),
            "workspace" not in name and "reserve" not in name,
        )


def _sequence(value: Any) -> Iterator[Mutation]:
    yield from _junk(type(value).__name__)
    yield Mutation("empty sequence", (), False)
    yield Mutation("sequence of one more", (*value, *value[:1]), False)
    yield Mutation("sequence of 40", (1,) * 40, len(value) > 0)
    if value and all(isinstance(item, int) for item in value):
        for wrong in (-1, 2**31, 2**200, 1.5, "x", None, float("nan")):
            yield Mutation(f"sequence with {_label(wrong)}", (*value[:-1], wrong), True)
        yield Mutation("sequence with 0", (*value[:-1], 0), False)
        yield Mutation("huge sequence", (65536,) * len(value), False)
