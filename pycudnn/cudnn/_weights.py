"""Single weights inside the one buffer that holds all of a layer's."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from pycudnn import _core
from pycudnn.cudnn.tensor import TensorDescriptor, read_tensor
from pycudnn.libraries import Library


class WeightView(NamedTuple):
    """Where one weight lies in the weight space: its layout and its first byte there."""

    desc: TensorDescriptor
    offset: int


class Locator:
    """The two out-arguments by which a C function tells where a weight lies."""

    def __init__(self, library: Library) -> None:
        self.desc = TensorDescriptor((1, 1), library=library)
        self._address = ctypes.c_void_p()
        self.pointer = ctypes.byref(self._address)

    def view(self, call: _core.ColdCall, base: int) -> WeightView | None:
        """What the function wrote; None for a weight that the layer does not have."""
        if self._address.value is None:
            return None
        dtype, shape, strides = read_tensor(call, self.desc)
        desc = TensorDescriptor(shape, dtype, strides=strides, library=self.desc.library)
        return WeightView(desc, self._address.value - base)
