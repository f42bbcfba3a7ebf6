"""Fixtures of the tests at C level."""

from __future__ import annotations

import pytest
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
