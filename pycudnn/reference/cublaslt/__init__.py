"""cublasLt.h: a product with what goes before and after it, described by objects.

Descriptors are sets of attributes, which the reference library keeps as it is given them and looks
at when a product is computed, as cublasLt does. There is one algorithm. It computes what has no
8-bit floats in it: neither these types nor their scaling factors are served, nor planes of complex
numbers, grouped batches and memory orders other than columns and rows; all of them are
NOT_SUPPORTED. Descriptors are made by the functions that create them: those that initialise memory
of the caller's (``..._internal``) are missing.
"""

from __future__ import annotations

from . import algorithms, attributes, epilogues, layouts, library, matmul, transform

__all__ = ["algorithms", "attributes", "epilogues", "layouts", "library", "matmul", "transform"]
