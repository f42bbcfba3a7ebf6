"""Level 1 with a type for each argument. Half types are computed in float32."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from pycudnn.abi.cublas_enums import CudaDataType

from .families import both_widths
from .handle import BlasHandle
from .products_ex import CUDA_TYPES, check_cuda_types
from .rotations import modified_rotation, plane_rotation, rotate, rotate_modified
from .storage import (
    Array,
    DType,
    array,
    cell,
    computable,
    forward_vector,
    not_supported,
    scalar,
    vector,
)
from .vectors import EXTREMES, norm, position, sizes_of

H, B, S, D = CudaDataType.R_16F, CudaDataType.R_16BF, CudaDataType.R_32F, CudaDataType.R_64F
C, Z = CudaDataType.C_32F, CudaDataType.C_64F

# Types of the data and of the arithmetic that go together.
_REAL = {(H, S), (B, S), (S, S), (D, D)}
_ALL = _REAL | {(C, C), (Z, Z)}


def _types(allowed: Collection[tuple[int, ...]], *types: int) -> tuple[DType, ...]:
    """The types as NumPy's, if they are one of the combinations allowed."""
    if types not in allowed:
        raise not_supported(f"types {types}: must be one of {sorted(allowed)}")
    return tuple(CUDA_TYPES[number] for number in types)


def _store(out: Array, values: Any) -> None:
    """Computed values into an array of a type that may be narrower."""
    np.copyto(out, values, casting="unsafe")


@both_widths("Nrm2Ex")
def nrm2_ex(
    handle: BlasHandle,
    n: int,
    x: int,
    x_type: int,
    incx: int,
    result: int,
    result_type: int,
    execution_type: int,
) -> None:
    """The Euclidean norm."""
    check_cuda_types(xType=x_type, resultType=result_type, executionType=execution_type)
    allowed = {(H, H, S), (B, B, S), (S, S, S), (D, D, D), (C, S, S), (Z, D, D)}
    stored, out, _ = _types(allowed, x_type, result_type, execution_type)
    _store(cell(result, out), norm(computable(forward_vector(x, stored, n, incx))))


@both_widths("AsumEx")
def asum_ex(
    handle: BlasHandle,
    n: int,
    x: int,
    x_type: int,
    incx: int,
    result: int,
    result_type: int,
    execution_type: int,
) -> None:
    """The sum of the sizes, |real| + |imag| for complex numbers."""
    allowed = {(H, S, S), (B, S, S), (S, S, S), (D, D, D), (C, S, C), (Z, D, Z)}
    stored, out, _ = _types(allowed, x_type, result_type, execution_type)
    _store(cell(result, out), sizes_of(computable(forward_vector(x, stored, n, incx))).sum())


@both_widths("DotEx", conjugate=False)
@both_widths("DotcEx", conjugate=True)
def dot_ex(
    handle: BlasHandle,
    n: int,
    x: int,
    x_type: int,
    incx: int,
    y: int,
    y_type: int,
    incy: int,
    result: int,
    result_type: int,
    execution_type: int,
    *,
    conjugate: bool,
) -> None:
    """The sum of x[i] * y[i], or of conj(x[i]) * y[i]."""
    check_cuda_types(
        xType=x_type, yType=y_type, resultType=result_type, executionType=execution_type
    )
    allowed = {(data, data, data, execution) for data, execution in _ALL}
    stored, *_ = _types(allowed, x_type, y_type, result_type, execution_type)
    left, right = (
        computable(vector(at, stored, n, inc, name))
        for at, inc, name in ((x, incx, "x"), (y, incy, "y"))
    )
    _store(cell(result, stored), np.dot(left.conj() if conjugate else left, right))


@both_widths("ScalEx")
def scal_ex(
    handle: BlasHandle,
    n: int,
    alpha: int,
    alpha_type: int,
    x: int,
    x_type: int,
    incx: int,
    execution_type: int,
) -> None:
    """``x = alpha * x``."""
    check_cuda_types(alphaType=alpha_type, xType=x_type, executionType=execution_type)
    allowed = {(execution, data, execution) for data, execution in _ALL}
    scale, stored, _ = _types(allowed, alpha_type, x_type, execution_type)
    out = forward_vector(x, stored, n, incx)
    if out.size:
        _store(out, scalar(alpha, scale, "alpha") * computable(out))


@both_widths("AxpyEx")
def axpy_ex(
    handle: BlasHandle,
    n: int,
    alpha: int,
    alpha_type: int,
    x: int,
    x_type: int,
    incx: int,
    y: int,
    y_type: int,
    incy: int,
    execution_type: int,
) -> None:
    """``y = alpha * x + y``."""
    check_cuda_types(alphaType=alpha_type, xType=x_type, yType=y_type, executionType=execution_type)
    allowed = {(execution, data, data, execution) for data, execution in _ALL}
    scale, stored, *_ = _types(allowed, alpha_type, x_type, y_type, execution_type)
    source, out = vector(x, stored, n, incx, "x"), vector(y, stored, n, incy, "y")
    if n > 0 and (factor := scalar(alpha, scale, "alpha")) != 0:
        _store(out, factor * computable(source) + computable(out))


@both_widths("CopyEx")
def copy_ex(
    handle: BlasHandle, n: int, x: int, x_type: int, incx: int, y: int, y_type: int, incy: int
) -> None:
    """``y = x``."""
    stored, _ = _types({(data, data) for data, _ in _ALL}, x_type, y_type)
    vector(y, stored, n, incy, "y")[...] = vector(x, stored, n, incx, "x")


@both_widths("SwapEx")
def swap_ex(
    handle: BlasHandle, n: int, x: int, x_type: int, incx: int, y: int, y_type: int, incy: int
) -> None:
    """x and y exchanged."""
    stored, _ = _types({(data, data) for data, _ in _ALL}, x_type, y_type)
    left, right = vector(x, stored, n, incx, "x"), vector(y, stored, n, incy, "y")
    left[...], right[...] = right, left.copy()


def _extreme_ex(
    handle: BlasHandle,
    n: int,
    x: int,
    x_type: int,
    incx: int,
    result: int,
    *,
    pick: Callable[[Array], Any],
    not_a_number: float,
    integers: DType,
) -> None:
    (stored,) = _types({(data,) for data, _ in _ALL}, x_type)
    values = computable(forward_vector(x, stored, n, incx))
    cell(result, integers)[0] = position(values, pick, not_a_number)


for _name, (_pick, _nan) in EXTREMES.items():
    both_widths(f"I{_name}Ex", indexed=True, pick=_pick, not_a_number=_nan)(_extreme_ex)


@both_widths("RotEx")
def rot_ex(
    handle: BlasHandle,
    n: int,
    x: int,
    x_type: int,
    incx: int,
    y: int,
    y_type: int,
    incy: int,
    c: int,
    s: int,
    cs_type: int,
    execution_type: int,
) -> None:
    """``x, y = c x + s y, c y - conj(s) x``; c and s are of one type."""
    allowed = {(data, data, data, execution) for data, execution in _ALL}
    allowed |= {(C, C, S, C), (Z, Z, D, Z)}
    stored, _, scale, _ = _types(allowed, x_type, y_type, cs_type, execution_type)
    left, right = vector(x, stored, n, incx, "x"), vector(y, stored, n, incy, "y")
    if n > 0:
        new_left, new_right = (np.array(computable(values)) for values in (left, right))
        rotate(new_left, new_right, scalar(c, scale, "c"), scalar(s, scale, "s"))
        _store(left, new_left)
        _store(right, new_right)


@both_widths("RotgEx")
def rotg_ex(
    handle: BlasHandle,
    a: int,
    b: int,
    ab_type: int,
    c: int,
    s: int,
    cs_type: int,
    execution_type: int,
) -> None:
    """The c and s that rotate (a, b) into (r, 0)."""
    allowed = {(data, data, execution) for data, execution in _REAL}
    stored, *_ = _types(allowed, ab_type, cs_type, execution_type)
    cells = [cell(at, stored, name) for at, name in zip((a, b, c, s), "abcs", strict=True)]
    values = plane_rotation(computable(cells[0])[0], computable(cells[1])[0])
    for place, value in zip(cells, values, strict=True):
        _store(place, value)


@both_widths("RotmEx")
def rotm_ex(
    handle: BlasHandle,
    n: int,
    x: int,
    x_type: int,
    incx: int,
    y: int,
    y_type: int,
    incy: int,
    param: int,
    param_type: int,
    execution_type: int,
) -> None:
    """``x, y = h11 x + h12 y, h21 x + h22 y``."""
    allowed = {(data, data, data, execution) for data, execution in _REAL}
    stored, *_ = _types(allowed, x_type, y_type, param_type, execution_type)
    left, right = vector(x, stored, n, incx, "x"), vector(y, stored, n, incy, "y")
    if n > 0:
        new_left, new_right = (np.array(computable(values)) for values in (left, right))
        h = computable(array(param, stored, (5,), (1,), "param"))
        rotate_modified(new_left, new_right, h)
        _store(left, new_left)
        _store(right, new_right)


@both_widths("RotmgEx")
def rotmg_ex(
    handle: BlasHandle,
    d1: int,
    d1_type: int,
    d2: int,
    d2_type: int,
    x1: int,
    x1_type: int,
    y1: int,
    y1_type: int,
    param: int,
    param_type: int,
    execution_type: int,
) -> None:
    """The H that rotates (sqrt(d1) x1, sqrt(d2) y1) so that its second number becomes 0."""
    allowed = {(*(data,) * 5, execution) for data, execution in _REAL}
    stored, *_ = _types(allowed, d1_type, d2_type, x1_type, y1_type, param_type, execution_type)
    modified_rotation(stored, (d1, d2, x1), y1, param)
