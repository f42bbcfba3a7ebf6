"""Level 1: vectors, each function for one type.

Of a complex number, `asum` and the search for extremes take |real| + |imag| as its size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .families import family
from .handle import BlasHandle
from .storage import FLOAT64, Array, DType, cell, forward_vector, real_type, scalar, vector


@family("{}axpy_v2")
def axpy(
    dtype: DType, handle: BlasHandle, n: int, alpha: int, x: int, incx: int, y: int, incy: int
) -> None:
    """``y = alpha * x + y``."""
    source, out = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    if n > 0 and (factor := scalar(alpha, dtype, "alpha")) != 0:
        out += factor * source


@family("{}copy_v2")
def copy(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, y: int, incy: int) -> None:
    """``y = x``."""
    vector(y, dtype, n, incy, "y")[...] = vector(x, dtype, n, incx, "x")


@family("{}swap_v2")
def swap(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, y: int, incy: int) -> None:
    """x and y exchanged."""
    left, right = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    left[...], right[...] = right, left.copy()


@family("{}dot_v2", "SD", conjugate=False)
@family("{}dotu_v2", "CZ", conjugate=False)
@family("{}dotc_v2", "CZ", conjugate=True)
def dot(
    dtype: DType,
    handle: BlasHandle,
    n: int,
    x: int,
    incx: int,
    y: int,
    incy: int,
    result: int,
    *,
    conjugate: bool,
) -> None:
    """The sum of x[i] * y[i], of conj(x[i]) * y[i] for `dotc`; 0 for no elements."""
    left, right = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    cell(result, dtype)[0] = np.dot(left.conj() if conjugate else left, right)


@family("{}scal_v2", real=False)
@family("Csscal_v2", "C", real=True)
@family("Zdscal_v2", "Z", real=True)
def scal(
    dtype: DType, handle: BlasHandle, n: int, alpha: int, x: int, incx: int, *, real: bool
) -> None:
    """``x = alpha * x``; alpha is `real`, or of the type of x."""
    out = forward_vector(x, dtype, n, incx)
    if out.size:
        out *= scalar(alpha, real_type(dtype) if real else dtype, "alpha")


@family("{}nrm2_v2", "SD")
@family("Scnrm2_v2", "C")
@family("Dznrm2_v2", "Z")
def nrm2(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, result: int) -> None:
    """The Euclidean norm, which is real."""
    cell(result, real_type(dtype))[0] = norm(forward_vector(x, dtype, n, incx))


def norm(values: Array) -> float:
    """The Euclidean norm, scaled by the largest element so that no square overflows."""
    magnitudes = np.abs(values).astype(FLOAT64)
    largest = magnitudes.max(initial=0)
    if 0 < largest < np.inf:
        magnitudes /= largest
        largest *= np.sqrt(np.dot(magnitudes, magnitudes))
    return float(largest)


def sizes_of(values: Array) -> Array:
    """|x|, or |real| + |imag|."""
    return np.abs(values.real) + np.abs(values.imag) if values.dtype.kind == "c" else np.abs(values)


@family("{}asum_v2", "SD")
@family("Scasum_v2", "C")
@family("Dzasum_v2", "Z")
def asum(dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, result: int) -> None:
    """The sum of the sizes."""
    cell(result, real_type(dtype))[0] = sizes_of(forward_vector(x, dtype, n, incx)).sum()


def position(values: Array, pick: Callable[[Array], Any], not_a_number: float) -> int:
    """The first index, counted from 1, of the largest or smallest size; 0 if there is none.

    `not_a_number` stands for a NaN, so that it is never picked while there are numbers.
    """
    magnitudes = sizes_of(values)
    magnitudes[np.isnan(magnitudes)] = not_a_number
    return int(pick(magnitudes)) + 1 if magnitudes.size else 0


def _extreme(
    dtype: DType,
    handle: BlasHandle,
    n: int,
    x: int,
    incx: int,
    result: int,
    *,
    pick: Callable[[Array], Any],
    not_a_number: float,
    integers: DType,
) -> None:
    cell(result, integers)[0] = position(forward_vector(x, dtype, n, incx), pick, not_a_number)


EXTREMES: dict[str, tuple[Callable[[Array], Any], float]] = {
    "amax": (np.argmax, -1.0),
    "amin": (np.argmin, np.inf),
}
for _letter in "SDCZ":
    for _name, (_pick, _nan) in EXTREMES.items():
        family(
            f"I{_letter.lower()}{_name}_v2", _letter, indexed=True, pick=_pick, not_a_number=_nan
        )(_extreme)
