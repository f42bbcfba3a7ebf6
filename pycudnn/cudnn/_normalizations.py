"""Checks of the arguments that batch normalizations and normalizations share."""

from __future__ import annotations

import ctypes
import math
from enum import IntEnum
from typing import Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import CUDNN_BN_MIN_EPSILON, ActivationMode, DataType
from pycudnn.cudnn._objects import finite, real, require
from pycudnn.cudnn.activation import ActivationDescriptor
from pycudnn.cudnn.tensor import TensorDescriptor, read_tensor
from pycudnn.dtypes import name as dtype_name
from pycudnn.libraries import Library

# What the ops of both families say, by number: BatchNormOps and NormOps agree.
_ACTIVATION, _ADD_ACTIVATION = 1, 2


def derive(
    function: str, count: int, x_desc: TensorDescriptor, *options: int
) -> list[TensorDescriptor]:
    """The ``count`` descriptors that a C function derives from that of x."""
    require(x_desc, TensorDescriptor, "x_desc")
    library = x_desc.library
    blanks = [TensorDescriptor((1, 1), library=library) for _ in range(count)]
    with _core.ColdCall(library) as call:
        call(function, *blanks, x_desc, *options)
        derived = [read_tensor(call, blank) for blank in blanks]
    return [
        TensorDescriptor(shape, dtype, strides=strides, library=library)
        for dtype, shape, strides in derived
    ]


def check_alike(x_desc: TensorDescriptor, **others: TensorDescriptor | None) -> None:
    """All are given, and tensors of the shape and data type of x."""
    require(x_desc, TensorDescriptor, "x_desc")
    for name, desc in others.items():
        if not isinstance(desc, TensorDescriptor):
            raise TypeError(f"{name} must be a TensorDescriptor, got {desc!r}")
        if desc.shape != x_desc.shape:
            raise ValueError(f"{name} must have the shape of x, {x_desc.shape}, got {desc.shape}")
        if desc.dtype_code != x_desc.dtype_code:
            raise TypeError(
                f"{name} must have the data type of x, {dtype_name(x_desc.dtype_code)}, "
                f"got {dtype_name(desc.dtype_code)}"
            )


def check_parameters(
    desc: TensorDescriptor, name: str, x_desc: TensorDescriptor, per_activation: bool
) -> None:
    """A packed tensor of one number per activation or per channel, as the library derives it."""
    require(desc, TensorDescriptor, name)
    if len(x_desc.shape) not in (4, 5):
        raise ValueError(f"x must have 4 or 5 dimensions, got shape {x_desc.shape}")
    shape = (1, *x_desc.shape[1:])
    if not per_activation:
        shape = (1, x_desc.shape[1], *(1,) * (len(shape) - 2))
    dtype = DataType.DOUBLE if x_desc.dtype_code == DataType.DOUBLE else DataType.FLOAT
    if desc.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {desc.shape}: derive it from x_desc")
    if desc.dtype_code != dtype:
        raise TypeError(
            f"{name} must be {dtype_name(dtype)} for x of {dtype_name(x_desc.dtype_code)}, "
            f"got {dtype_name(desc.dtype_code)}: derive it from x_desc"
        )
    packed = 1
    for size, stride in zip(reversed(desc.shape), reversed(desc.strides), strict=True):
        if size != 1 and stride != packed:
            raise ValueError(f"{name} must be packed, got strides {desc.strides} for {desc.shape}")
        packed *= size


def check_epsilon(epsilon: Any) -> float:
    """What is added to variances, at least CUDNN_BN_MIN_EPSILON."""
    return finite(epsilon, "epsilon", CUDNN_BN_MIN_EPSILON)


def check_factor(factor: Any) -> float:
    """The weight of the new value in a running average."""
    return finite(factor, "exponential_average_factor", 0.0, 1.0)


def factors(x_desc: TensorDescriptor, **values: Any) -> list[Any]:
    """Pointers to scaling factors: double for float64 tensors, float for all others."""
    c_type = ctypes.c_double if x_desc.dtype_code == DataType.DOUBLE else ctypes.c_float
    return [ctypes.byref(c_type(real(value, name))) for name, value in values.items()]


class Operands:
    """Addresses of a call's operands. What is written must overlap no other operand of it.

    The exceptions, which cuDNN computes in place, are named: ``over``.
    """

    def __init__(self, call: _core.ColdCall) -> None:
        self._call = call
        self._known: list[tuple[str, TensorDescriptor, int, bool]] = []  # the last: is it written?

    def read(self, value: Any, name: str, desc: TensorDescriptor) -> int:
        """An operand that is read."""
        address = self._call.operand(value, name, False, desc)
        for other, other_desc, start, is_written in self._known:
            if is_written and _core.overlap(desc, address, other_desc, start):
                raise ValueError(f"{other} is written to and must not overlap {name}")
        self._known.append((name, desc, address, False))
        return address

    def write(self, value: Any, name: str, desc: TensorDescriptor, over: str = "") -> int:
        """An operand that is written."""
        address = self._call.operand(value, name, True, desc)
        for other, other_desc, start, _ in self._known:
            if not _core.overlap(desc, address, other_desc, start):
                continue
            if other != over or address != start:
                raise ValueError(f"{name} is written to and must not overlap {other}")
            if desc.strides != other_desc.strides:
                raise ValueError(
                    f"{name} in the memory of {other} needs its strides, {other_desc.strides}, "
                    f"got {desc.strides}"
                )
        self._known.append((name, desc, address, True))
        return address

    def pair(self, desc: TensorDescriptor, writes: bool, **operands: Any) -> list[int]:
        """Two operands that come together or not at all."""
        (name, value), (other_name, other) = operands.items()
        if (value is None) != (other is None):
            raise ValueError(f"{name} and {other_name} must both be given or both be None")
        if value is None:
            return [0, 0]
        method = self.write if writes else self.read
        return [method(item, key, desc) for key, item in operands.items()]

    def addend(
        self, ops: IntEnum, value: Any, name: str, writes: bool, desc: TensorDescriptor
    ) -> int:
        """z or its gradient, which is there if and only if the operation adds one."""
        if ops == _ADD_ACTIVATION:
            return (self.write if writes else self.read)(value, name, desc)
        if value is not None:
            raise ValueError(f"{name} must be None for {ops.name}, got {value!r}")
        return 0


def check_count(x_desc: TensorDescriptor, desc: TensorDescriptor, running: Any) -> None:
    """The running variance is that of a batch times n / (n - 1), which n = 1 makes NaN."""
    if running is not None and math.prod(x_desc.shape) == math.prod(desc.shape):
        raise ValueError(
            f"x of shape {x_desc.shape} has 1 element for each mean and variance, "
            "running_variance needs at least 2"
        )


def fused_activation(
    ops: IntEnum, activation: ActivationDescriptor | None, library: Library
) -> ActivationDescriptor:
    """The activation if the operation has one. If not it must be None, and one stands in."""
    if ops >= _ACTIVATION:
        require(activation, ActivationDescriptor, "activation")
    elif activation is not None:
        raise ValueError(f"activation must be None for {ops.name}, got {activation!r}")
    return activation or ActivationDescriptor(ActivationMode.RELU, library=library)


def fused_addend(
    ops: IntEnum, x_desc: TensorDescriptor, name: str, desc: TensorDescriptor | None
) -> TensorDescriptor:
    """z or its gradient, like x, if the operation adds one. If not it must be None, x stands in."""
    if ops == _ADD_ACTIVATION:
        check_alike(x_desc, **{f"{name}_desc": desc})
    elif desc is not None:
        raise ValueError(f"{name}_desc must be None for {ops.name}, got {desc!r}")
    return desc or x_desc
