"""Wrong values for an argument, and which of them must be refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from recording import Call, CannotMove, moved

from pycudnn import CudaContext, _core, cudnn, zeros
from pycudnn.device import Device, Stream, cuda_device_count
from pycudnn.errors import PycudnnError
from pycudnn.memory import Buffer

OTHER = {"reference": "cuda", "cuda": "reference"}  # library
JUNK = ("x", b"x", object(), {}, 1j, float("nan"), lambda: None, type)


class Mutation(NamedTuple):
    """A value to put in the place of an argument; ``wrong`` if no call may accept it."""

    label: str
    value: Any
    wrong: bool


# Numbers of any sign and size, NaN included, are meant in these, and in alpha... and beta....
ANY_NUMBER = frozenset("value a b c s c_ s_ d1 d2 x1 y1 padding_fill".split())
# Arrays of pivots, statuses, means and gradients that their functions do without.
MAY_BE_NONE = frozenset(
    "p ipiv dev_info means gradients buffer residuals dropout_mask edge_features grad_attention "
    "grad_weights".split()
)
# The calls that take a workspace of any size, or none.
ANY_WORKSPACE = ("_algorithm_ex", ".set_workspace", "cublaslt.matmul", "cublaslt.linear")
# Texts of any content.
FREE_TEXTS = frozenset(("key", "path"))
# Any number of 64 bits.
SEEDS = frozenset(("seed", "implementations"))
# Sizes of matrices, and what is counted in their elements, may need 64 bits.
WIDE = tuple("m n k ld".split())
# Vector increments run backwards where they are negative, padding crops; the others are summands or
# count from the end.
SIGNED = frozenset(
    "incx incy a_bias b_bias c_bias c_mult c_shift offset axes mantissa_bit_offset pad_before "
    "pad_after".split()
)
# As many as one likes.
ANY_LENGTH = frozenset(("seq_lengths",))


def mutations(
    context: CudaContext, call: Call, name: str, makers: Sequence[Call] = ()
) -> Iterator[Mutation]:
    """Values to try for one argument of a call; ``makers`` are the calls that made its objects."""
    value = call.arguments[name]
    if name == "self":
        if isinstance(value, _core.Owned):
            yield Mutation("method of an unmade object", type(value).__new__(type(value)), True)
        return
    if name not in call.optional and value is not None:
        is_free = name in MAY_BE_NONE or isinstance(value, bool) or _any_workspace(call, name)
        is_free |= "ParamPack.set" in call.name and name == "value"  # unsets it
        is_free |= call.name == "cudnn.op_tensor" and name == "b"  # NOT and SQRT have none
        yield Mutation("None", None, not is_free)
    if isinstance(value, _core.Owned):
        # With nothing else of a library among the arguments any library will do.
        bound = [isinstance(other, (_core.Owned, Buffer)) for other in call.arguments.values()]
        yield from _owned(value, sum(bound) == 1, makers)
    elif isinstance(value, (Buffer, np.ndarray)):
        yield from _operand(context, call, name, value)
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
        yield from _sequence(name, value)
        if value and isinstance(value[-1], (Buffer, np.ndarray)):
            for inner in _operand(context, call, name, value[-1]):
                yield inner._replace(value=[*value[:-1], inner.value])
    elif isinstance(value, str):
        for wrong in (-7, 1.5, b"x", object(), "no such thing", ""):
            is_free = isinstance(wrong, str) and name in FREE_TEXTS
            yield Mutation(f"str {_label(wrong)}", wrong, not is_free)
    elif isinstance(value, Mapping):
        yield from _mapping(context, call, name, value)
    elif isinstance(value, (Device, Stream)):
        for wrong in (0, 5, *JUNK):
            yield Mutation(f"{type(value).__name__} {_label(wrong)}", wrong, True)
    else:
        yield from _junk(type(value).__name__, wrong=False)


def _any_number(name: str) -> bool:
    return name in ANY_NUMBER or name.startswith(("alpha", "beta"))


def _any_workspace(call: Call, name: str) -> bool:
    return name == "workspace" and call.name.endswith(ANY_WORKSPACE)


def _junk(kind: str, *, wrong: bool = True) -> Iterator[Mutation]:
    for value in JUNK:
        yield Mutation(f"{kind} {_label(value)}", value, wrong)


def _label(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 2**40:
        return f"of {value.bit_length()} bits"
    return repr(value).split(" at 0x")[0]


def _owned(value: _core.Owned, alone: bool, makers: Sequence[Call]) -> Iterator[Mutation]:
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
    closed = _another(value, library, makers, is_closed=True)
    if closed is not None:
        closed.close()
        yield Mutation(f"closed {kind.__name__}", closed, True)
    stranger = _another(value, OTHER[library], makers)
    if stranger is not None:
        yield Mutation(f"{kind.__name__} of another library", stranger, not alone)


@functools.cache
def _handle(kind: type[_core.Handle], library: str, is_closed: bool) -> Any:
    """One of each kind, since making one takes long."""
    return kind(library=library)


def _another(
    value: _core.Owned, library: str, makers: Sequence[Call], *, is_closed: bool = False
) -> Any:
    """An object like this one, of a library; None where it cannot be had."""
    try:
        if isinstance(value, _core.Handle):
            return _handle(type(value), library, is_closed)
        maker = next((made for made in makers if made.result is value), None)
        return maker and moved(maker, makers, library).make()
    except (ImportError, CannotMove, PycudnnError, RuntimeError):
        return None  # no library, no GPU, or made from what has to be on a device


def _operand(context: CudaContext, call: Call, name: str, value: Any) -> Iterator[Mutation]:
    def buffer(shape: Any, dtype: Any) -> Buffer:
        # Zeros: numbers on the device, of which some are lengths, are the caller's to get right.
        return zeros(shape, dtype, device=context.device, stream=context.stream)

    is_scratch = "workspace" in name or "reserve" in name
    for wrong in (0, 4096, 2**63, -1, *JUNK, [1.0], 0.5):
        yield Mutation(f"operand {_label(wrong)}", wrong, True)
    closed = buffer(value.shape, value.dtype)
    closed.close()
    yield Mutation("closed operand", closed, True)
    # Copies between host and device are told the size of an element, not its type.
    # A pack's arrays are looked at when it is executed.
    is_packed = "VariantParamPack" in call.name
    is_typed = "elem_size" not in call.arguments and not is_packed
    is_wider = value.nbytes > 1 and value.dtype != np.uint8 and is_typed
    yield Mutation("operand of one byte", buffer((1,), "uint8"), is_wider)
    # Problems give exactly what is needed.
    if is_scratch and value.nbytes > 1 and not _any_workspace(call, name):
        yield Mutation("scratch one byte short", buffer(value.nbytes - 1, "uint8"), True)
    desc = call.arguments.get(f"{name}_desc")
    if isinstance(desc, _core.TensorLike):
        short = desc.extent // value.dtype.itemsize - 1
        yield Mutation("operand one element short", buffer(short, value.dtype), True)
    room = buffer(value.size + 1, value.dtype)
    is_real_cudnn = context.device.backend == "cuda" and call.name.startswith("cudnn.")
    aligned = not is_real_cudnn or not isinstance(call.arguments.get("handle"), cudnn.Handle)
    off = room.view(offset=value.dtype.itemsize)
    yield Mutation("operand off by an element", off, not aligned)
    host = np.zeros(value.shape, value.dtype)
    is_for_host = not is_typed or call.name.endswith(".like")
    is_wrong = context.device.backend == "cuda" and not is_for_host
    yield Mutation("NumPy operand", host, is_wrong)
    gaps = np.zeros((7, 9, 2), np.float32)[:, ::3, 0]
    is_any = is_packed or call.name.endswith(".like")
    yield Mutation("non-contiguous operand", gaps, not is_any)
    host.flags.writeable = False
    yield Mutation("read-only operand", host, False)
    if value.dtype != np.uint8:
        other = np.float64 if value.dtype != np.float64 else np.int32
        shape = (value.nbytes // np.dtype(other).itemsize + 1,)
        wrong = not is_scratch and is_typed
        yield Mutation("operand of another type", buffer(shape, other), wrong)
    for device in other_devices(context):
        elsewhere = zeros(value.shape, value.dtype, device=device)
        # Without a handle, memory of the host is the reference library's to copy.
        yield Mutation(f"operand of {device}", elsewhere, is_typed or device.backend == "cuda")


def _mapping(
    context: CudaContext, call: Call, name: str, value: Mapping[Any, Any]
) -> Iterator[Mutation]:
    yield from (junk for junk in _junk("mapping") if junk.value != {})
    yield Mutation("empty mapping", {}, False)
    yield Mutation("mapping with a strange key", {**value, "no such thing": 1}, True)
    yield Mutation("mapping with an object as key", {**value, object(): 1}, True)
    for key, item in value.items():
        rest = {other: value[other] for other in value if other != key}
        yield Mutation(f"mapping without {key}", rest, False)
        if isinstance(item, (Buffer, np.ndarray)):
            for inner in _operand(context, call, name, item):
                yield inner._replace(value={**value, key: inner.value})
        else:
            for wrong in JUNK:
                yield Mutation(f"mapping with {_label(wrong)}", {**value, key: wrong}, True)


def other_devices(context: CudaContext) -> list[Device]:
    """A device of the other side, and a second GPU, as far as there are any."""
    backend = context.device.backend
    found = [Device("reference")] if backend == "cuda" else []
    if backend == "cuda" and cuda_device_count() > 1:
        found.append(Device("cuda", 1))
    return found


def _sequence(name: str, value: Any) -> Iterator[Mutation]:
    yield from _junk(type(value).__name__)
    yield Mutation("empty sequence", (), False)
    yield Mutation("sequence of one more", (*value, *value[:1]), False)
    yield Mutation("sequence of 40", (1,) * 40, len(value) > 0 and name not in ANY_LENGTH)
    if value and all(isinstance(item, int) for item in value):
        for wrong in (-1, 2**31, 2**200, 1.5, "x", None, float("nan")):
            is_wide = wrong == 2**31 and name.startswith(WIDE)
            is_right = is_wide or (wrong == -1 and name in SIGNED)
            yield Mutation(f"sequence with {_label(wrong)}", (*value[:-1], wrong), not is_right)
        yield Mutation("sequence with 0", (*value[:-1], 0), False)
        yield Mutation("huge sequence", (65536,) * len(value), False)
