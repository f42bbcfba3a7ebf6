"""cudnn_ops.h: descriptors of tensors, filters, pooling, activations and dropout, and what is
computed with them. One module for each group of functions."""

from __future__ import annotations

from . import (
    activation,
    batch_normalization,
    dropout,
    filter_descriptors,
    lrn,
    normalization,
    op_tensor,
    pooling,
    reduction,
    softmax,
    spatial_transformer,
    tensor,
    tensor_descriptors,
    transform,
)

__all__ = [
    "activation",
    "batch_normalization",
    "dropout",
    "filter_descriptors",
    "lrn",
    "normalization",
    "op_tensor",
    "pooling",
    "reduction",
    "softmax",
    "spatial_transformer",
    "tensor",
    "tensor_descriptors",
    "transform",
]
