"""cudnn_gnn_ops.h: sums, means and extremes over the neighbours in a graph, and attention to them.

All take a stream instead of a handle, and contiguous memory instead of descriptors."""

from __future__ import annotations

from . import aggregation, attention, graphs

__all__ = ["aggregation", "attention", "graphs"]
