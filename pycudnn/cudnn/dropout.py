"""Dropout: descriptor and sizes."""

from __future__ import annotations

import ctypes
from typing import Any

from pycudnn import _core, memory
from pycudnn.cudnn._objects import construct, integer, require
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor
from pycudnn.libraries import Library


class DropoutDescriptor(_core.DropoutDescriptor):
    """Probability and random states of a dropout (cudnnSetDropoutDescriptor).

    ``probability`` in [0, 1) is that of an element becoming 0. The states live in a buffer on the
    handle's device that the descriptor owns; the same ``seed`` gives the same masks. With
    ``states``, another descriptor's or a copy of them, it goes on where they are
    (cudnnRestoreDropoutDescriptor). ValueError for a probability or seed outside its range, or
    too few states.
    """

    library: Library
    probability: float
    seed: int

    def __init__(
        self, handle: Handle, probability: float, seed: int = 0, *, states: Any = None
    ) -> None:
        if not isinstance(probability, (int, float)) or not 0 <= probability < 1:
            raise ValueError(f"probability must be in [0, 1), got {probability!r}")
        self.probability = float(probability)
        self.seed = integer(seed, "seed", 0, 2**64 - 1)
        size = dropout_get_states_size(handle)
        function = "cudnnRestoreDropoutDescriptor"
        if states is None:
            function = "cudnnSetDropoutDescriptor"
            states = memory.empty((size,), "uint8", device=handle.device, stream=handle.stream)
        self._keep_states(states)
        settings = {"probability": probability, "seed": seed}

        def set_up(call: _core.ColdCall) -> None:
            # The states are filled on the handle's stream, so its lock is needed.
            with _core.ColdCall(handle.library, handle) as on_handle:
                address = on_handle.operand(states, "states", True, None, size)
                settings["states"] = address
                on_handle(function, self, handle, self.probability, address, size, self.seed)

        construct(self, handle.library, "DropoutDescriptor", settings, set_up)

    def __repr__(self) -> str:
        if self.closed:
            return "<closed DropoutDescriptor>"
        return f"DropoutDescriptor(probability={self.probability:g}, seed={self.seed})"


def get_dropout_descriptor(handle: Handle, dropout: DropoutDescriptor) -> tuple[float, int, int]:
    """Probability, address of the states, and seed, read back (cudnnGetDropoutDescriptor)."""
    require(handle, Handle, "handle")
    require(dropout, DropoutDescriptor, "dropout")
    probability, states = ctypes.c_float(), ctypes.c_void_p()
    seed = ctypes.c_ulonglong()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetDropoutDescriptor",
            dropout, handle, ctypes.byref(probability), ctypes.byref(states), ctypes.byref(seed),
        )  # fmt: skip
    return probability.value, states.value or 0, seed.value


def dropout_get_states_size(handle: Handle) -> int:
    """Bytes of the random states on the handle's device (cudnnDropoutGetStatesSize)."""
    require(handle, Handle, "handle")
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call("cudnnDropoutGetStatesSize", handle, ctypes.byref(size))
    return size.value


def dropout_get_reserve_space_size(x_desc: TensorDescriptor) -> int:
    """Bytes that dropout_forward leaves for dropout_backward (cudnnDropoutGetReserveSpaceSize)."""
    require(x_desc, TensorDescriptor, "x_desc")
    size = ctypes.c_size_t()
    with _core.ColdCall(x_desc.library) as call:
        call("cudnnDropoutGetReserveSpaceSize", x_desc, ctypes.byref(size))
    return size.value
