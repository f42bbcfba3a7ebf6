"""Fixtures of the cuBLAS tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pycudnn import Buffer, cublas, from_numpy


@pytest.fixture
def handle(backend: str) -> Iterator[cublas.Handle]:
    with cublas.Handle(library=backend) as made:
        yield made


@pytest.fixture
def put(handle: cublas.Handle) -> Callable[[Any], Buffer]:
    """An array as memory of the handle's device."""
    return lambda array: from_numpy(np.asarray(array), device=handle.device)
