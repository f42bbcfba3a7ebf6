"""cudnn_graph.h: handles, versions, error strings, and the graph API.

Of the graph API there are the descriptors that the tables in ``parameter_attributes``,
``operation_attributes`` and ``plan_attributes`` list. Each module of operations checks and computes
one family of them, ``graphs`` puts operations in order, ``engines`` says how they are computed, and
``plans`` does it.
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
