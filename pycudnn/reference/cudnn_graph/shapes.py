"""Operations that only move data: reshape and concatenation."""

from __future__ import annotations

import math

import numpy as np

from pycudnn.abi.cudnn_enums import DataType

from ..runtime import bad_param
from .descriptor import Descriptor, finalizes
from .tensors import Arithmetic, Arrays, Node, check_shape


@finalizes("OPERATION_RESHAPE")
def make_reshape(descriptor: Descriptor) -> Node:
    """The elements of X in row-major order, as the elements of Y in row-major order."""
    x, y = descriptor.held("XDESC"), descriptor.held("YDESC")
    if math.prod(x.shape) != math.prod(y.shape):
        raise bad_param(f"{x} and {y} differ in their number of elements")

    def run(inputs: Arrays, arithmetic: Arithmetic) -> Arrays:
        return {"YDESC": inputs["XDESC"].reshape(y.shape)}

    return Node("OPERATION_RESHAPE", DataType.DOUBLE, {"XDESC": x}, {"YDESC": y}, run)


@finalizes("OPERATION_CONCAT")
def make_concat(descriptor: Descriptor) -> Node:
    """Inputs one behind the other along an axis; one of them may lie in the output already."""
    parts = [held.made for held in descriptor.all("INPUT_DESCS")]
    y, axis, kept = (
        descriptor.held("OUTPUT_DESC"),
        *map(descriptor.one, ("AXIS", "INPLACE_INDEX")),
    )
    if not parts or not 0 <= axis < len(y.shape):
        raise bad_param(f"AXIS is {axis}, of {len(parts)} inputs and {y}")
    if kept is not None and not 0 <= kept < len(parts):
        raise bad_param(f"INPLACE_INDEX is {kept}, of {len(parts)} inputs")
    for part in parts:
        if len(part.shape) != len(y.shape):
            raise bad_param(f"{part} and {y} differ in their number of dimensions")
        same = (*y.shape[:axis], part.shape[axis], *y.shape[axis + 1 :])
        check_shape(part, same, f"concatenation to {y}")
    ends = np.cumsum([part.shape[axis] for part in parts]).tolist()
    if ends[-1] != y.shape[axis]:
        raise bad_param(f"the inputs have {ends[-1]} elements along axis {axis}, {y} has others")
    places = [slice(end - part.shape[axis], end) for part, end in zip(parts, ends, strict=True)]

    def run(inputs: Arrays, arithmetic: Arithmetic) -> Arrays:
        pieces = [
            inputs["OUTPUT_DESC"][(slice(None),) * axis + (places[index],)]
            if index == kept
            else inputs[str(index)]
            for index in range(len(parts))
        ]
        return {"OUTPUT_DESC": np.concatenate(pieces, axis)}

    return Node(
        "OPERATION_CONCAT",
        DataType.DOUBLE,
        {str(index): part for index, part in enumerate(parts) if index != kept},
        {"OUTPUT_DESC": y},
        run,
        accumulates=() if kept is None else ("OUTPUT_DESC",),
    )
