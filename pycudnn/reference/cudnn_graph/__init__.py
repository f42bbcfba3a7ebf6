"""cudnn_graph.h: handles, versions, error strings, and the graph API.

Of the graph API there are the descriptors that the tables in ``parameter_attributes``,
``operation_attributes`` and ``plan_attributes`` list. Each module of operations checks and computes
one family of them, ``graphs`` puts operations in order, ``engines`` says how they are computed, and
``plans`` does it. Where the documentation is silent, the statuses are those of cuDNN 9.28 (set and
get) and of 9.19 on an H200 (the others), with these differences, all of them for safety:

* a descriptor of the wrong kind in an attribute is BAD_PARAM_DESCRIPTOR_TYPE when it is set;
  cuDNN often takes it for the right one, and crashes;
* an operation that lacks a tensor is BAD_PARAM when it is finalized; cuDNN finalizes some;
* shapes that cannot be broadcast are BAD_PARAM then, as documented; cuDNN refuses them later, when
  an engine is asked for.

Not here, so that creating one is NOT_SUPPORTED: signals, random numbers, kernel caches, device
properties, attention and its parts, block scaling, band matrices, grouped matrix products, softmax,
transpose, slice and rotary embedding. Described, but not computed by any engine: vectorized,
reordered and ragged tensors, data types that NumPy lacks, group and adaptive layer norm,
statistics of several GPUs.
"""

from __future__ import annotations

from . import (
    convolutions,
    engines,
    errors,
    linear,
    normalization,
    plans,
    pointwise,
    resampling,
    shapes,
    statistics,
)
from .handle import Handle
from .version import VERSION

__all__ = [
    "VERSION",
    "Handle",
    "convolutions",
    "engines",
    "errors",
    "linear",
    "normalization",
    "plans",
    "pointwise",
    "resampling",
    "shapes",
    "statistics",
]
