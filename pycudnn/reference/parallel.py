"""All cores for one function: parts of its result on threads, each with a BLAS of one thread.

A BLAS can use several threads itself, but these wait for each other many times within a product.
Measured with OpenBLAS on two cores, products of the size that a convolution makes gain little that
way while the machine is idle, and take 10 to 100 times as long while something else runs on it.
Threads that each compute a part of their own wait once, at the end, and share the copying too.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

Array = np.ndarray[Any, Any]
Item = TypeVar("Item")
Value = TypeVar("Value")

_WORTH_A_THREAD = 8_000_000  # multiplications: they take a few times as long as a thread to start


class _SingleThreadedBlas:
    """While anyone is within this context, the BLAS of NumPy uses one thread for each product."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 1
        self._get, self._set = _find_openblas()

    @property
    def possible(self) -> bool:
        """Is it an OpenBLAS, whose threads can be counted and limited?"""
        return self._set is not None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = self._get()
                self._set(1)

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._set(self._before)


def _find_openblas() -> tuple[Any, Any]:
    """The functions that get and set the number of threads, under the names that builds use."""
    try:
        # A symbol is looked for in a library and in all that it links to.
        library = ctypes.CDLL(importlib.import_module("numpy.linalg._umath_linalg").__file__)
    except (ImportError, OSError):
        return None, None
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", "_64", ""):
            get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            set_ = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if get and set_:
                return get, set_
    return None, None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_blas = _SingleThreadedBlas()
_inside = threading.local()

# How many threads compute at once. With another BLAS than OpenBLAS, one, and that BLAS its own way.
WORKERS = _cores() if _blas.possible else 1


def each(work: Callable[[Item], Value], items: Sequence[Item]) -> list[Value]:
    """``[work(item) for item in items]``, on all cores.

    Returns, or raises the first exception, when no thread is at work any more. Within `work`, what
    would be parallel is not.
    """
    helpers = min(WORKERS, len(items)) - 1
    if helpers < 1 or getattr(_inside, "work", False):
        return [work(item) for item in items]
    remaining = iter(enumerate(items))
    lock = threading.Lock()
    values: dict[int, Value] = {}
    errors: list[BaseException] = []

    def take() -> tuple[int, Item] | None:
        with lock:
            return None if errors else next(remaining, None)

    def run() -> None:
        _inside.work = True
        try:
            with np.errstate(all="ignore"):  # each thread has its own setting
                for index, item in iter(take, None):
                    values[index] = work(item)
        except BaseException as error:
            errors.append(error)
        finally:
            _inside.work = False

    threads = [threading.Thread(target=run) for _ in range(helpers)]
    with _blas:
        for thread in threads:
            with contextlib.suppress(RuntimeError):  # no thread to be had: the others do its share
                thread.start()
        run()
        for thread in threads:
            while thread.is_alive():
                try:
                    thread.join()
                except BaseException as error:  # Ctrl-C must wait: the caller's memory is in use
                    errors.append(error)
    if errors:
        raise errors[0]
    return [values[index] for index in range(len(items))]


def cut(size: int, parts: int) -> list[slice]:
    """`size` elements in so many slices of nearly one length, in fewer if they are few."""
    parts = max(1, min(parts, size))
    ends = [size * part // parts for part in range(parts + 1)]
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def matmul(left: Array, right: Array, out: Array | None = None) -> Array:
    """``np.matmul`` of stacks of matrices, (stack, m, k) by (stack, k, n), on all cores."""
    stack, rows, inner = left.shape
    columns = right.shape[-1]
    if out is None:
        out = np.empty((stack, rows, columns), left.dtype)
    if not _blas.possible:
        return np.matmul(left, right, out=out)
    threads = min(WORKERS, stack * rows * inner * columns // _WORTH_A_THREAD)
    if threads < 2:
        with _blas:
            return np.matmul(left, right, out=out)
    if stack >= threads:
        axis, size = 0, stack
    else:
        axis, size = (2, columns) if columns >= rows else (1, rows)

    def part(at: slice) -> None:
        if axis == 0:
            np.matmul(left[at], right[at], out=out[at])
        elif axis == 1:
            np.matmul(left[:, at], right, out=out[:, at])
        else:
            np.matmul(left, right[:, :, at], out=out[:, :, at])

    each(part, cut(size, threads))
    return out
