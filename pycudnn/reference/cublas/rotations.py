"""Level 1: plane rotations, plain (rot, rotg) and modified (rotm, rotmg).

A modified rotation is stored in five numbers: a flag that says which entries of the 2 x 2 matrix H
are given, then h11, h21, h12, h22.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .families import family
from .handle import BlasHandle
from .storage import Array, DType, array, cell, computable, real_type, scalar, vector

_GAM = 4096.0  # rotmg keeps d1 and d2 between 1 / _GAM**2 and _GAM**2 by powers of it


@family("{}rot_v2", real_s=False)
@family("Csrot_v2", "C", real_s=True)
@family("Zdrot_v2", "Z", real_s=True)
def rot(
    dtype: DType,
    handle: BlasHandle,
    n: int,
    x: int,
    incx: int,
    y: int,
    incy: int,
    c: int,
    s: int,
    *,
    real_s: bool,
) -> None:
    """``x, y = c x + s y, c y - conj(s) x``; c is real, s is `real_s` or of the type of x."""
    left, right = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    if n > 0:
        cosine = scalar(c, real_type(dtype), "c")
        rotate(left, right, cosine, scalar(s, real_type(dtype) if real_s else dtype, "s"))


def rotate(x: Array, y: Array, c: float, s: complex) -> None:
    """Rotate the pairs (x[i], y[i]) in place."""
    x[...], y[...] = c * x + s * y, c * y - np.conj(s) * x


@family("{}rotg_v2")
def rotg(dtype: DType, handle: BlasHandle, a: int, b: int, c: int, s: int) -> None:
    """The c and s that rotate (a, b) into (r, 0); a becomes r.

    For real numbers b becomes the one number z that both can be found from again.
    """
    at_a, at_b, at_s = (
        cell(address, dtype, name) for address, name in ((a, "a"), (b, "b"), (s, "s"))
    )
    at_c = cell(c, real_type(dtype), "c")
    make = _complex_rotation if dtype.kind == "c" else plane_rotation
    at_a[0], at_b[0], at_c[0], at_s[0] = make(at_a[0], at_b[0])


def plane_rotation(a: Any, b: Any) -> tuple[float, float, float, float]:
    """r, z, c and s of two real numbers."""
    size = np.hypot(a, b)
    if size == 0:
        return 0.0, 0.0, 1.0, 0.0
    r = float(np.copysign(size, a if abs(a) > abs(b) else b))
    c, s = float(a / r), float(b / r)
    if abs(a) > abs(b):
        return r, s, c, s
    return r, 1 / c if c != 0 else 1.0, c, s


def _complex_rotation(a: Any, b: Any) -> tuple[complex, complex, float, complex]:
    size = np.abs(a)
    if size == 0:
        return complex(b), complex(b), 0.0, 1.0
    norm, direction = np.hypot(size, np.abs(b)), a / size
    return direction * norm, complex(b), float(size / norm), direction * np.conj(b) / norm


@family("{}rotm_v2", "SD")
def rotm(
    dtype: DType, handle: BlasHandle, n: int, x: int, incx: int, y: int, incy: int, param: int
) -> None:
    """``x, y = h11 x + h12 y, h21 x + h22 y``; any flag but -1, 0, 1 leaves them."""
    left, right = vector(x, dtype, n, incx, "x"), vector(y, dtype, n, incy, "y")
    if n > 0:
        rotate_modified(left, right, array(param, dtype, (5,), (1,), "param"))


def rotate_modified(x: Array, y: Array, param: Array) -> None:
    """Apply H of the five numbers `param` to the pairs (x[i], y[i]) in place."""
    flag, h11, h21, h12, h22 = param
    if flag not in (-1, 0, 1):
        return
    if flag == 0:
        h11, h22 = 1, 1
    elif flag == 1:
        h12, h21 = 1, -1
    x[...], y[...] = h11 * x + h12 * y, h21 * x + h22 * y


@family("{}rotmg_v2", "SD")
def rotmg(dtype: DType, handle: BlasHandle, d1: int, d2: int, x1: int, y1: int, param: int) -> None:
    """The H that rotates (sqrt(d1) x1, sqrt(d2) y1) so that its second number becomes 0.

    d1, d2 and x1 become those of the result.
    """
    modified_rotation(dtype, (d1, d2, x1), y1, param)


def modified_rotation(dtype: DType, places: tuple[int, int, int], y1: int, param: int) -> None:
    """The same for numbers of any type at the addresses of d1, d2, x1, of y1 and of `param`."""
    cells = [cell(at, dtype, name) for at, name in zip(places, ("d1", "d2", "x1"), strict=True)]
    out = array(param, dtype, (5,), (1,), "param")
    d1, d2, x1 = (float(computable(place)[0]) for place in cells)
    values, h = _modified_rotation(d1, d2, x1, float(scalar(y1, dtype, "y1")))
    for place, value in zip(cells, values, strict=True):
        place[0] = value
    for i, entry in enumerate(h):
        if entry is not None:
            out[i] = entry


def _modified_rotation(
    d1: float, d2: float, x1: float, y1: float
) -> tuple[tuple[float, float, float], tuple[float | None, ...]]:
    """(d1, d2, x1) of the result, and flag, h11, h21, h12, h22; None is for what is not stored."""
    nothing = (0.0, 0.0, 0.0), (-1.0, 0.0, 0.0, 0.0, 0.0)
    if d1 < 0:
        return nothing
    p1, p2 = d1 * x1, d2 * y1
    if p2 == 0:
        return (d1, d2, x1), (-2.0, None, None, None, None)
    if abs(p1 * x1) > abs(p2 * y1):
        h11, h21, h12, h22 = 1.0, -y1 / x1, p2 / p1, 1.0
        u = 1 - h12 * h21
        if u <= 0:
            return nothing
        flag, d1, d2, x1 = 0.0, d1 / u, d2 / u, x1 * u
    elif p2 * y1 < 0:
        return nothing
    else:
        h11, h21, h12, h22 = p1 / p2, -1.0, 1.0, x1 / y1
        u = 1 + h11 * h22
        flag, d1, d2, x1 = 1.0, d2 / u, d1 / u, y1 * u
    for power in _powers(d1):
        flag, d1, x1 = -1.0, d1 * power**2, x1 / power
        h11, h12 = h11 / power, h12 / power
    for power in _powers(d2):
        flag, d2 = -1.0, d2 * power**2
        h21, h22 = h21 / power, h22 / power
    stored = {-1.0: (h11, h21, h12, h22), 0.0: (None, h21, h12, None), 1.0: (h11, None, None, h22)}
    return (d1, d2, x1), (flag, *stored[flag])


def _powers(d: float) -> Iterator[float]:
    """The factors _GAM or 1 / _GAM by which d is brought into its range, each by its square."""
    while d != 0 and math.isfinite(d):
        if abs(d) <= _GAM**-2:
            power = _GAM
        elif abs(d) >= _GAM**2:
            power = 1 / _GAM
        else:
            return
        d *= power**2
        yield power
