"""cudnn_ops.h: descriptors of tensors, filters, pooling, activations and dropout, and what is
computed with them. One module for each group of functions."""

from __future__ import annotations

from . import (
    activation,
    dropout,
    filter_descriptors,
    op_tensor,
    pooling,
    reduction,
    softmax,
    tensor,
    tensor_descriptors,
)

__all__ = [
    "activation",
    "dropout",
    "filter_descriptors",
    "op_tensor",
    "pooling",
    "reduction",
    "softmax",
    "tensor",
    "tensor_descriptors",
]
