"""Dropout descriptors, and dropout forward and backward.

The random numbers come from Philox, a counter-based generator: the key is the seed, the counter
is the number of forward calls, and both are all of its state. The caller's states buffer holds
them, so equal seeds give equal masks and a saved buffer resumes where it was.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import DataType

from ..cudnn_graph import Handle
from ..descriptors import Dropout, Tensor
from ..memory import keep_where, load, store, view, write
from ..runtime import bad_param, implements, not_supported
from .checks import check_in_place, check_same_type, check_type

_DATA_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF)  # cuDNN has no bfloat16 here


class _States(ctypes.Structure):
    """The generator's state in the caller's memory."""

    _fields_ = (("seed", ctypes.c_uint64), ("calls", ctypes.c_uint64))


@implements("cudnnDropoutGetStatesSize")
def get_states_size(handle: Handle, size: int) -> None:
    """Bytes of the states buffer."""
    write(size, ctypes.c_size_t, ctypes.sizeof(_States), "sizeInBytes")


def _reserve_size(descriptor: Tensor) -> int:
    """One bit for each element, in whole 32-bit words."""
    return 4 * -(-math.prod(descriptor.shape) // 32)


@implements("cudnnDropoutGetReserveSpaceSize")
def get_reserve_space_size(x_desc: Tensor, size: int) -> None:
    """Bytes that forward needs to leave the mask for backward."""
    if x_desc.dtype == DataType.INT8:
        raise not_supported("dropout of an INT8 tensor")
    write(size, ctypes.c_size_t, _reserve_size(x_desc), "sizeInBytes")


@implements("cudnnSetDropoutDescriptor")
def set_dropout(
    descriptor: Dropout, handle: Handle, probability: float, states: int, size: int, seed: int
) -> None:
    """Set the probability of dropping an element, and seed the generator in `states`.

    With `states` NULL the descriptor keeps the buffer that it has, and the generator goes on.
    """
    if not states:
        descriptor.probability = _checked_probability(probability)
        descriptor.seed = seed
        return
    restore_dropout(descriptor, handle, probability, states, size, seed)
    contents = _States.from_address(states)
    contents.seed, contents.calls = seed, 0


@implements("cudnnRestoreDropoutDescriptor")
def restore_dropout(
    descriptor: Dropout, handle: Handle, probability: float, states: int, size: int, seed: int
) -> None:
    """Like set, but go on with the generator as it is in `states`."""
    if not states:
        raise bad_param("states is NULL")
    if size < ctypes.sizeof(_States):
        raise bad_param(f"stateSizeInBytes is {size}, must be at least {ctypes.sizeof(_States)}")
    descriptor.probability = _checked_probability(probability)
    descriptor.states, descriptor.seed = states, seed


def _checked_probability(probability: float) -> float:
    """cuDNN takes any number here, and NaN."""
    if not 0 <= probability <= 1:
        raise bad_param(f"dropout is {probability}, must be in [0, 1]")
    return probability


@implements("cudnnGetDropoutDescriptor")
def get_dropout(
    descriptor: Dropout, handle: Handle, probability: int, states: int, seed: int
) -> None:
    """What was set."""
    write(probability, ctypes.c_float, descriptor.probability, "dropout")
    write(states, ctypes.c_void_p, descriptor.states, "states")
    write(seed, ctypes.c_uint64, descriptor.seed, "seed")


def _draw_mask(dropout: Dropout, count: int) -> np.ndarray[Any, Any]:
    """True for the elements to keep; advances the state by one call."""
    if not dropout.states:
        raise bad_param("the dropout descriptor has no states")
    states = _States.from_address(dropout.states)
    # One call may draw 2**64 blocks: the low word of the counter is its own.
    bits = np.random.Philox(key=states.seed, counter=[0, states.calls, 0, 0])
    states.calls += 1
    return np.random.Generator(bits).random(count, np.float32) >= dropout.probability


def _check(
    x_desc: Tensor, x: int, y_desc: Tensor, y: int, reserve: int, size: int, names: str
) -> None:
    if math.prod(x_desc.shape) != math.prod(y_desc.shape):
        raise bad_param(f"{names} differ in size: {x_desc.shape} and {y_desc.shape}")
    check_same_type(x_desc, y_desc, names)
    check_type(x_desc, names, _DATA_TYPES)
    check_in_place(x_desc, x, y_desc, y, names)
    if not reserve:
        raise bad_param("reserveSpace is NULL")
    if size < _reserve_size(x_desc):
        raise bad_param(
            f"reserveSpaceSizeInBytes is {size}, must be at least {_reserve_size(x_desc)}"
        )


def _apply(
    dropout: Dropout, kept: np.ndarray[Any, Any], x_desc: Tensor, x: int, y_desc: Tensor, y: int
) -> None:
    """``y = x / (1 - p)`` where kept, else 0."""
    source, out = load(x, x_desc), view(y, y_desc)
    if dropout.probability < 1:
        source = source * source.dtype.type(1 / (1 - dropout.probability))
    store(out, keep_where(kept.reshape(source.shape), source).reshape(out.shape))


@implements("cudnnDropoutForward")
def dropout_forward(
    handle: Handle,
    dropout: Dropout,
    x_desc: Tensor,
    x: int,
    y_desc: Tensor,
    y: int,
    reserve: int,
    size: int,
) -> None:
    """Each element is dropped (becomes 0) with probability p, or divided by 1 - p.

    So the expected value stays. The mask goes into the reserve space, one bit an element.
    """
    _check(x_desc, x, y_desc, y, reserve, size, "x and y")
    kept = _draw_mask(dropout, math.prod(x_desc.shape))
    packed = np.packbits(kept)
    ctypes.memmove(reserve, packed.ctypes.data, packed.nbytes)
    _apply(dropout, kept, x_desc, x, y_desc, y)


@implements("cudnnDropoutBackward")
def dropout_backward(
    handle: Handle,
    dropout: Dropout,
    dy_desc: Tensor,
    dy: int,
    dx_desc: Tensor,
    dx: int,
    reserve: int,
    size: int,
) -> None:
    """The same elements as in forward are 0, the others are divided by 1 - p."""
    _check(dy_desc, dy, dx_desc, dx, reserve, size, "dy and dx")
    packed = np.frombuffer(ctypes.string_at(reserve, _reserve_size(dy_desc)), np.uint8)
    kept = np.unpackbits(packed, count=math.prod(dy_desc.shape)).view(np.bool_)
    _apply(dropout, kept, dy_desc, dy, dx_desc, dx)
