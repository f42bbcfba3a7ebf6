"""Fixtures of the cublasLt tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from pycudnn import Buffer, cublaslt, from_numpy


@pytest.fixture
def handle(backend: str) -> Iterator[cublaslt.Handle]:
    with cublaslt.Handle(library=backend) as made:
        yield made


@pytest.fixture
def put(handle: cublaslt.Handle) -> Callable[[Any], Buffer]:
    """An array as memory of the handle's device."""
    return lambda array: from_numpy(np.ascontiguousarray(array), device=handle.device)


@pytest.fixture
def layout(backend: str) -> Callable[..., cublaslt.MatrixLayout]:
    """Makes layouts of the backend's library."""
    return partial(cublaslt.MatrixLayout, library=backend)


@pytest.fixture
def describe(backend: str) -> Callable[..., cublaslt.MatmulDescriptor]:
    """Makes descriptors of the backend's library."""
    return partial(cublaslt.MatmulDescriptor, library=backend)
