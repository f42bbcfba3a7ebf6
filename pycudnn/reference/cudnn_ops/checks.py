"""Argument checks that several functions share. Statuses are those of cuDNN 9.19 on a GPU."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from pycudnn.abi.cudnn_enums import DataType

from ..descriptors import Tensor
from ..runtime import bad_param, not_supported

# What cuDNN computes with: gradients are real numbers, forward functions take int8 as well.
FLOATING = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16)
FORWARD = (*FLOATING, DataType.INT8)

AnyEnum = TypeVar("AnyEnum", bound=IntEnum)


def checked_member(kind: type[AnyEnum], number: int, name: str) -> AnyEnum:
    """The member of an enum; BAD_PARAM for another number."""
    try:
        return kind(number)
    except ValueError:
        known = ", ".join(f"{member.value} ({member.name})" for member in kind)
        raise bad_param(f"{name} is {number}, must be one of {known}") from None


def check_alike(first: Tensor, second: Tensor, names: str) -> None:
    """Two tensors of one shape and one data type; their strides may differ."""
    if first.shape != second.shape:
        raise bad_param(f"{names} differ in shape: {first.shape} and {second.shape}")
    check_same_type(first, second, names)


def check_same_type(first: Tensor, second: Tensor, names: str) -> None:
    """Two tensors of one data type."""
    if first.dtype != second.dtype:
        raise bad_param(f"{names} differ in data type: {first.dtype.name}, {second.dtype.name}")


def check_type(descriptor: Tensor, name: str, allowed: tuple[DataType, ...]) -> None:
    """A tensor of a data type that the function is there for."""
    if descriptor.dtype not in allowed:
        types = ", ".join(data_type.name for data_type in allowed)
        raise not_supported(f"{name} has data type {descriptor.dtype.name}, must be in {types}")


def check_channels(descriptor: Tensor, name: str) -> None:
    """A tensor that has N, C and at least one more dimension."""
    if len(descriptor.shape) < 3:
        raise bad_param(f"{name} has shape {descriptor.shape}, needs at least 3 dimensions")


def check_4d_or_5d(descriptor: Tensor, name: str) -> None:
    """Images or volumes: N, C and 2 or 3 spatial dimensions."""
    if not descriptor.shape:
        raise bad_param(f"the descriptor of {name} has not been set")
    if len(descriptor.shape) not in (4, 5):
        raise not_supported(f"{name} has {len(descriptor.shape)} dimensions, must have 4 or 5")


def check_in_place(first: Tensor, x: int, second: Tensor, y: int, names: str) -> None:
    """Input and output at one address must be laid out alike."""
    if x == y and first.strides != second.strides:
        raise bad_param(f"{names} are one tensor with two strides: in place needs equal strides")
