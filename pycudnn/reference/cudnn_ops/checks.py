"""Argument checks that several functions share."""

from __future__ import annotations

from pycudnn.abi.cudnn_enums import DataType

from ..descriptors import Tensor
from ..runtime import bad_param, not_supported

_FLOATING = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16)


def check_alike(first: Tensor, second: Tensor, names: str) -> None:
    """Two tensors of one shape and one data type; their strides may differ."""
    if first.shape != second.shape:
        raise bad_param(f"{names} differ in shape: {first.shape} and {second.shape}")
    if first.dtype != second.dtype:
        raise bad_param(f"{names} differ in data type: {first.dtype.name}, {second.dtype.name}")


def check_floating(descriptor: Tensor, name: str) -> None:
    """A tensor of real numbers: float16, bfloat16, float32 or float64."""
    if descriptor.dtype not in _FLOATING:
        raise not_supported(f"{name} has data type {descriptor.dtype.name}, must be floating point")


def check_in_place(first: Tensor, x: int, second: Tensor, y: int, names: str) -> None:
    """Input and output at one address must be laid out alike."""
    if x == y and first.strides != second.strides:
        raise bad_param(f"{names} are one tensor with two strides: in place needs equal strides")
