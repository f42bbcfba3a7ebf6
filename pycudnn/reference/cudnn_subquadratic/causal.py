"""The causal convolution of a sequence, its gradients, and the arguments that all calls share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import DataType

from ..descriptors import Tensor
from ..memory import compute_dtype, load, store, view
from ..runtime import bad_param, not_supported

Array = np.ndarray[Any, Any]

FLOATING = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16)


# ---- what is computed ----------------------------------------------------------------------------


def convolve(x: Array, weight: Array) -> Array:
    """``y[..., t] = sum over j of x[..., t - j] weight[..., K - 1 - j]``: the last weight is now.

    The channels of ``weight`` (..., K) broadcast against those of ``x`` (..., T).
    """
    taps, steps = weight.shape[-1], x.shape[-1]
    y = np.zeros(np.broadcast_shapes(x.shape, (*weight.shape[:-1], steps)), x.dtype)
    for delay in range(min(taps, steps)):
        y[..., delay:] += x[..., : steps - delay] * weight[..., taps - 1 - delay, None]
    return y


def gradients(x: Array, weight: Array, dy: Array) -> tuple[Array, Array]:
    """Gradients of ``convolve``: of x, and of the weight for each sequence apart, (..., K)."""
    taps, steps = weight.shape[-1], x.shape[-1]
    dx, dweight = np.zeros_like(dy), np.zeros((*dy.shape[:-1], taps), dy.dtype)
    for delay in range(min(taps, steps)):
        tap = taps - 1 - delay
        dx[..., : steps - delay] += dy[..., delay:] * weight[..., tap, None]
        dweight[..., tap] = (dy[..., delay:] * x[..., : steps - delay]).sum(-1)
    return dx, dweight


# ---- arguments -----------------------------------------------------------------------------------


def check_sizes(**sizes: int) -> None:
    """Sizes are positive."""
    for name, size in sizes.items():
        if size <= 0:
            raise bad_param(f"{name} is {size}, must be positive")


def check_pointers(**addresses: int) -> None:
    """None is NULL."""
    for name, address in addresses.items():
        if not address:
            raise bad_param(f"{name} is NULL")


def check_aligned(**addresses: int) -> None:
    """All are multiples of 16, and none is NULL."""
    check_pointers(**addresses)
    for name, address in addresses.items():
        if address % 16:
            raise bad_param(f"{name} is {address:#x}, must be aligned to 16 bytes")


def check_type(data_type: int) -> DataType:
    """A real data type."""
    if data_type not in FLOATING:
        raise not_supported(f"dataType is {data_type}, must be FLOAT, DOUBLE, HALF or BFLOAT16")
    return DataType(data_type)


def check_gradient_type(data_type: DataType, gradient_type: int) -> DataType:
    """DOUBLE for DOUBLE data, FLOAT for all others."""
    wanted = DataType.DOUBLE if data_type == DataType.DOUBLE else DataType.FLOAT
    if gradient_type != wanted:
        raise not_supported(f"dwDataType is {gradient_type}, must be {wanted.name}")
    return wanted


# ---- memory --------------------------------------------------------------------------------------


def _packed(shape: tuple[int, ...], data_type: DataType) -> Tensor:
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return Tensor(data_type, shape, tuple(strides))


def read(address: int, shape: tuple[int, ...], data_type: DataType) -> Array:
    """Contiguous memory, in the type that is computed in."""
    return load(address, _packed(shape, data_type))


def write(address: int, values: Array, data_type: DataType) -> None:
    """Values into contiguous memory, rounded to its type."""
    store(view(address, _packed(values.shape, data_type)), values)


def add(address: int, values: Array, data_type: DataType) -> None:
    """Values onto what is in contiguous memory of the type that is computed in."""
    out = view(address, _packed(values.shape, data_type))
    out += values.astype(compute_dtype(out.dtype), copy=False)
