"""cudnn_subquadratic_ops.h: causal depthwise convolutions of sequences, direct and by FFT.

All take a stream instead of a handle, and contiguous memory instead of descriptors."""

from __future__ import annotations

from . import back_to_back, direct, fourier

__all__ = ["back_to_back", "direct", "fourier"]
