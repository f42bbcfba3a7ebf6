"""Fixtures of the tests at C level."""

from __future__ import annotations

import pytest
from blas_library import BlasLibrary
from c_library import CLibrary


@pytest.fixture
def lib(backend: str) -> CLibrary:
    """A cuDNN that can compute: the reference, or the real one on a GPU."""
    return CLibrary(backend)


@pytest.fixture
def handle(lib: CLibrary):
    """A handle of `lib`, destroyed afterwards."""
    made = lib.create("")
    yield made
    lib.check("cudnnDestroy", made)


@pytest.fixture
def blas(backend: str):
    """A cuBLAS that can compute, with a handle: the reference, or the real one on a GPU."""
    made = BlasLibrary(backend)
    yield made
    made.close()


@pytest.fixture
def ours():
    """The reference cuBLAS, with a handle."""
    made = BlasLibrary("reference")
    yield made
    made.close()
