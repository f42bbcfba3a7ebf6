"""Causal convolutions with a few weights per channel, SiLU behind them, and their gradients.

The Nwh functions have the channels innermost in all tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import CausalConv1dActivation, DataType

from ..runtime import bad_param, implements
from .causal import (
    Array,
    add,
    check_gradient_type,
    check_pointers,
    check_sizes,
    check_type,
    convolve,
    gradients,
    read,
    write,
)

_LARGEST = {False: 256, True: 128}  # kernelSize, by whether the channels are innermost


class _Problem:
    """The arguments that all four functions have, checked; arrays are (..., channels, time)."""

    def __init__(
        self, sizes: tuple[int, ...], data_type: int, activation: int, *, innermost: bool
    ) -> None:
        batch, channels, steps, taps = sizes
        check_sizes(batch=batch, dim=channels, seqLen=steps)
        if not 2 <= taps <= _LARGEST[innermost]:
            raise bad_param(f"kernelSize is {taps}, must be in [2, {_LARGEST[innermost]}]")
        if activation not in tuple(CausalConv1dActivation):
            raise bad_param(f"activation is {activation}, must be 0 (IDENTITY) or 1 (SILU)")
        self.data_type = check_type(data_type)
        self.is_silu = activation == CausalConv1dActivation.SILU
        self.data, self.weights = (batch, channels, steps), (channels, taps)
        self.channels, self.innermost = channels, innermost

    def _turn(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-2], shape[-1], shape[-2]) if self.innermost else shape

    def read(self, address: int, shape: tuple[int, ...]) -> Array:
        """Memory as (..., channels, time)."""
        values = read(address, self._turn(shape), self.data_type)
        return values.swapaxes(-1, -2) if self.innermost else values

    def arranged(self, values: Array) -> Array:
        """(..., channels, time) as memory has it."""
        return values.swapaxes(-1, -2) if self.innermost else values

    def inputs(self, x: int, weight: int, bias: int) -> tuple[Array, Array, Array]:
        """x, the weights, and the sum that the activation is of."""
        values, weights = self.read(x, self.data), self.read(weight, self.weights)
        offset = read(bias, (self.channels,), self.data_type)
        return values, weights, convolve(values, weights) + offset[:, None]


def _sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def _forward(innermost: bool, addresses: tuple[int, ...], *rest: Any) -> None:
    x, weight, bias, y = addresses
    *sizes, data_type, activation = rest
    check_pointers(x=x, weight=weight, bias=bias, y=y)
    problem = _Problem(tuple(sizes), data_type, activation, innermost=innermost)
    _, _, z = problem.inputs(x, weight, bias)
    result = z * _sigmoid(z) if problem.is_silu else z
    write(y, problem.arranged(result), problem.data_type)


def _backward(innermost: bool, addresses: tuple[int, ...], *rest: Any) -> None:
    x, weight, bias, dy, dx, dweight, dbias = addresses
    *sizes, data_type, gradient_type, activation = rest
    check_pointers(x=x, weight=weight, bias=bias, dy=dy, dx=dx, dweight=dweight, dbias=dbias)
    problem = _Problem(tuple(sizes), data_type, activation, innermost=innermost)
    wide: DataType = check_gradient_type(problem.data_type, gradient_type)
    values, weights, z = problem.inputs(x, weight, bias)
    slope = problem.read(dy, problem.data)
    if problem.is_silu:
        s = _sigmoid(z)
        slope = slope * s * (1 + z * (1 - s))
    to_x, to_weights = gradients(values, weights, slope)
    write(dx, problem.arranged(to_x), problem.data_type)
    add(dweight, problem.arranged(to_weights.sum(0)), wide)
    add(dbias, slope.sum((0, 2)), wide)


@implements("cudnnCausalConv1dForward")
def forward(stream: int, *arguments: int) -> None:
    """``y = act(x convolved with the weights + bias)``, all (..., channels, time)."""
    _forward(False, arguments[:4], *arguments[4:])


@implements("cudnnCausalConv1dNwhForward")
def forward_nwh(stream: int, *arguments: int) -> None:
    """The same with (..., time, channels)."""
    _forward(True, arguments[:4], *arguments[4:])


@implements("cudnnCausalConv1dBackward")
def backward(stream: int, *arguments: int) -> None:
    """Its gradients; those of weights and bias are added to what is there."""
    _backward(False, arguments[:7], *arguments[7:])


@implements("cudnnCausalConv1dNwhBackward")
def backward_nwh(stream: int, *arguments: int) -> None:
    """The same with (..., time, channels)."""
    _backward(True, arguments[:7], *arguments[7:])


@implements("cudnnSubquadraticOpsVersionCheck")
def version_check() -> None:
    """The parts of this library are always of one version."""
