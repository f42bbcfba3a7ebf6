"""A GPU with little memory left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_device(left: int = 1 << 20) -> Iterator[None]:
    """Take all of the current GPU's memory but some ``left`` bytes, in steps of 1 MiB."""
    from cuda.bindings import runtime as cuda

    taken, size = [], 1 << 34
    try:
        while size >= 1 << 20:
            free = cuda.cudaMemGetInfo()[1]
            error, address = cuda.cudaMalloc(size) if free >= size + left else (None, 0)
            if error == cuda.cudaError_t.cudaSuccess:
                taken.append(address)
            else:
                size //= 2
        cuda.cudaGetLastError()
        yield
    finally:
        for address in taken:
            cuda.cudaFree(address)
