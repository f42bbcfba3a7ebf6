"""cudnn_cnn.h: the convolution descriptor, the choice of an algorithm, and what is computed."""

from __future__ import annotations

from . import bias, descriptor, directions, folding, fused_ops, fused_packs, rearrange

__all__ = [
    "bias",
    "descriptor",
    "directions",
    "folding",
    "fused_ops",
    "fused_packs",
    "rearrange",
]
