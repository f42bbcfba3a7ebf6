"""Settings that hold for cuDNN and cuBLAS alike."""

from __future__ import annotations

import os

# May float32 products be computed in TF32? Read when a convolution descriptor or a cuBLAS
# handle is made without a math type of its own.
tf32: bool = os.environ.get("PYCUDNN_TF32", "0") not in ("", "0")
