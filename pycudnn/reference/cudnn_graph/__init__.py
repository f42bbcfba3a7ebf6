"""cudnn_graph.h: handles, versions, error strings."""

from __future__ import annotations

from . import errors
from .handle import Handle
from .version import VERSION

__all__ = ["VERSION", "Handle", "errors"]
