"""cudnn_cnn.h: the convolution descriptor, the choice of an algorithm, and what is computed.

Not here, and so without an address: im2col on its own, the int8 filter reordering and the folding
of strided gradients, all of which the graph API has replaced.
"""

from __future__ import annotations

from . import bias, descriptor, directions, folding, rearrange, fused_ops, fused_packs

__all__ = ["bias", "descriptor", "directions", "fused_ops", "fused_packs"]
