"""Vectors in cuBLAS: complex ones, rotations, and the Ex forms with a type for each argument."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from blas_library import DTYPES, Result, gathered, random, scalar, spread

from pycudnn.abi.cublas_enums import CudaDataType, Status

HALF, BF16 = np.float16, ml_dtypes.bfloat16
WIDTHS = ["", "_64"]
INCS = [(1, 1), (2, -1), (-3, 2)]
REAL = {np.complex64: np.float32, np.complex128: np.float64}
# Short name -> type code, NumPy type.
CUDA: dict[str, tuple[int, Any]] = {
    "H": (CudaDataType.R_16F, HALF),
    "B": (CudaDataType.R_16BF, BF16),
    "S": (CudaDataType.R_32F, np.float32),
    "D": (CudaDataType.R_64F, np.float64),
    "C": (CudaDataType.C_32F, np.complex64),
    "Z": (CudaDataType.C_64F, np.complex128),
}
PAIRS = ["HS", "BS", "SS", "DD", "CC", "ZZ"]  # type of the data, of the arithmetic
REAL_PAIRS = PAIRS[:4]


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def close(got: Any, want: Any, dtype: Any, terms: int = 1) -> None:
    unit = float(ml_dtypes.finfo(dtype).eps)
    tolerance = 4 * (terms + 1) * unit * (1 + np.abs(want).max(initial=0))
    np.testing.assert_allclose(wide(np.asarray(got)), want, rtol=0, atol=tolerance)


class Out:
    """One number of any type on the host."""

    def __init__(self, dtype: Any, value: Any = -7) -> None:
        self.array = np.array([value], dtype)
        self.address = self.array.ctypes.data

    @property
    def value(self) -> Any:
        return self.array[0]


# --- complex vectors -----------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", "CZ")
@pytest.mark.parametrize(("incx", "incy"), INCS)
def test_complex_vectors(blas, rng, letter, width, incx, incy) -> None:
    dtype, n, alpha = DTYPES[letter], 6, 2 - 1j
    x, y = random(rng, (n,), dtype), random(rng, (n,), dtype)

    def after(name: str, *before: Any, more: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
        vectors = blas.put(spread(x, incx), dtype), blas.put(spread(y, incy), dtype)
        places = vectors[0].address, incx, vectors[1].address, incy
        blas.check(f"{letter}{name}_v2{width}", n, *before, *places, *more)
        return gathered(vectors[0].read(), incx), gathered(vectors[1].read(), incy)

    close(after("axpy", scalar(alpha, dtype))[1], alpha * wide(x) + y, dtype)
    np.testing.assert_array_equal(after("copy")[1], x)
    np.testing.assert_array_equal(after("swap"), [y, x])
    for name, left in (("dotu", x), ("dotc", x.conj())):
        result = Out(dtype)
        after(name, more=(result.address,))
        want = sum(complex(a) * complex(b) for a, b in zip(left, y, strict=True))
        close(result.value, want, dtype, n)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", "CZ")
def test_one_complex_vector(blas, rng, letter, width) -> None:
    """|real| + |imag| is the size in asum, amax and amin, but not in nrm2."""
    dtype, n, inc = DTYPES[letter], 9, 2
    real = REAL[dtype]
    x = random(rng, (n,), dtype)
    memory = blas.put(spread(x, inc), dtype)
    prefix = {"C": "Sc", "Z": "Dz"}[letter]
    norm, total = Out(real), Out(real)
    blas.check(f"{prefix}nrm2_v2{width}", n, memory.address, inc, norm.address)
    blas.check(f"{prefix}asum_v2{width}", n, memory.address, inc, total.address)
    sizes = [abs(float(z.real)) + abs(float(z.imag)) for z in x]
    close(norm.value, sum(abs(complex(z)) ** 2 for z in x) ** 0.5, real, 4)
    close(total.value, sum(sizes), real, n)
    for name, best in (("amax", max), ("amin", min)):
        index = Result(ctypes.c_int64 if width else ctypes.c_int)
        blas.check(f"I{letter.lower()}{name}_v2{width}", n, memory.address, inc, index.pointer)
        assert index.value == 1 + sizes.index(best(sizes))
    for name, factor, kind in (
        (f"{letter}scal", 2 - 1j, dtype), ({"C": "Csscal", "Z": "Zdscal"}[letter], -3, real)
    ):  # fmt: skip
        memory = blas.put(spread(x, inc), dtype)
        blas.check(f"{name}_v2{width}", n, scalar(factor, kind), memory.address, inc)
        close(gathered(memory.read(), inc), factor * wide(x), dtype)


def test_sizes_of_complex_numbers_are_not_moduli(blas) -> None:
    """|3 + 3i| is below 5, but 3 + 3 is above."""
    memory, index = blas.put([3 + 3j, 5, 4.5j], np.complex64), Result(ctypes.c_int)
    blas.check("Icamax_v2", 3, memory.address, 1, index.pointer)
    assert index.value == 1
    blas.check("Icamin_v2", 3, memory.address, 1, index.pointer)
    assert index.value == 3


# --- rotations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "c_type", "s_type"),
    [
        ("Srot", np.float32, np.float32),
        ("Drot", np.float64, np.float64),
        ("Crot", np.float32, np.complex64),
        ("Csrot", np.float32, np.float32),
        ("Zrot", np.float64, np.complex128),
        ("Zdrot", np.float64, np.float64),
    ],
)
@pytest.mark.parametrize(("incx", "incy"), INCS)
def test_rot(blas, rng, name, c_type, s_type, incx, incy, width) -> None:
    dtype, n, c = DTYPES[name[0]], 5, 0.6
    s = 0.8j if np.dtype(s_type).kind == "c" else 0.8
    x, y = random(rng, (n,), dtype), random(rng, (n,), dtype)
    places = blas.put(spread(x, incx), dtype), blas.put(spread(y, incy), dtype)
    blas.check(
        f"{name}_v2{width}",
        *(n, places[0].address, incx, places[1].address, incy),
        *(scalar(c, c_type), scalar(s, s_type)),
    )
    close(gathered(places[0].read(), incx), c * wide(x) + s * wide(y), dtype)
    close(gathered(places[1].read(), incy), c * wide(y) - np.conj(s) * wide(x), dtype)


@pytest.mark.parametrize("letter", DTYPES)
def test_rotg(blas, rng, letter) -> None:
    """The rotation that is found turns (a, b) into (r, 0); z tells c and s again."""
    dtype = DTYPES[letter]
    pairs = [tuple(random(rng, (2,), dtype)) for _ in range(6)]
    for a, b in [*pairs, (3, 4), (4, -3), (-3, 3), (0, 2), (2, 0), (-2, 0)]:
        r, z, s = Out(dtype, a), Out(dtype, b), Out(dtype)
        c = Out(REAL.get(dtype, dtype))
        blas.check(f"{letter}rotg_v2", r.address, z.address, c.address, s.address)
        cosine, sine = float(c.value), complex(s.value)
        close(cosine * complex(a) + sine * complex(b), complex(r.value), dtype)
        close(cosine * complex(b) - np.conj(sine) * complex(a), 0, dtype)
        close(cosine**2 + abs(sine) ** 2, 1, dtype)
        if letter in "SD":
            cs = restored(float(z.value))
            close(np.array(cs), np.array([cosine, sine.real]), dtype)


def restored(z: float) -> tuple[float, float]:
    """c and s from z, as BLAS defines it."""
    if z == 1:
        return 0.0, 1.0
    if abs(z) < 1:
        return (1 - z * z) ** 0.5, z
    return 1 / z, (1 - 1 / (z * z)) ** 0.5


def test_rotg_of_nothing(blas) -> None:
    for letter, want_c, want_s in (("S", 1, 0), ("C", 0, 1)):
        dtype = DTYPES[letter]
        a, b, s = (Out(dtype, 0) for _ in range(3))
        c = Out(REAL.get(dtype, dtype))
        blas.check(f"{letter}rotg_v2", a.address, b.address, c.address, s.address)
        assert (a.value, c.value, s.value) == (0, want_c, want_s)


@pytest.mark.parametrize("letter", "SD")
@pytest.mark.parametrize("flag", [-2, -1, 0, 1])
@pytest.mark.parametrize(("incx", "incy"), INCS)
def test_rotm(blas, rng, letter, flag, incx, incy) -> None:
    dtype, n = DTYPES[letter], 4
    x, y = random(rng, (n,), dtype), random(rng, (n,), dtype)
    param = np.array([flag, 2, 3, 5, 7], dtype)
    h = {
        -2: [[1, 0], [0, 1]], -1: [[2, 5], [3, 7]], 0: [[1, 5], [3, 1]], 1: [[2, 1], [-1, 7]],
    }[flag]  # fmt: skip
    places = blas.put(spread(x, incx), dtype), blas.put(spread(y, incy), dtype)
    blas.check(
        f"{letter}rotm_v2", n, places[0].address, incx, places[1].address, incy, param.ctypes.data
    )
    want = np.array(h) @ np.array([wide(x), wide(y)])
    close(gathered(places[0].read(), incx), want[0], dtype)
    close(gathered(places[1].read(), incy), want[1], dtype)


ROTMG = [
    (1, 2, 3, 4), (2, 1, 4, 3), (1, 2, 0, 4), (0, 2, 3, 4), (1, -2, 4, 1), (1e10, 2e10, 3, 4),
    (1e-10, 2e-10, 3, 4), (1e-10, 1e10, 1, 1), (1, 1, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("letter", "SD")
@pytest.mark.parametrize("numbers", ROTMG)
def test_rotmg(blas, letter, numbers) -> None:
    """H turns (x1, y1) into (x, 0) and keeps the norm that is weighted by d1 and d2."""
    dtype = DTYPES[letter]
    d1, d2, x1, y1 = (Out(dtype, value) for value in numbers)
    param = np.full(5, np.nan, dtype)
    blas.check(
        f"{letter}rotmg_v2", d1.address, d2.address, x1.address, y1.address, param.ctypes.data
    )
    flag, h11, h21, h12, h22 = (float(value) for value in param)
    if flag == 0:
        h11 = h22 = 1.0
    elif flag == 1:
        h12, h21 = 1.0, -1.0
    x, y = numbers[2], numbers[3]
    first, second = h11 * x + h12 * y, h21 * x + h22 * y
    assert first == pytest.approx(float(x1.value), rel=1e-5)
    assert second == pytest.approx(0, abs=1e-5 * max(abs(h21 * x), abs(h22 * y)))
    # H^T D' H is D: the quadratic form stays as it was
    before = numbers[0] * x * x + numbers[1] * y * y
    assert float(d1.value) * first**2 == pytest.approx(before, rel=1e-4)
    assert float(y1.value) == numbers[3]
    for value in (float(d1.value), float(d2.value)):
        assert value == 0 or 4096**-2 < abs(value) < 4096**2


def test_rotmg_of_what_cannot_be_rotated(blas) -> None:
    for numbers, flag, left in (
        ((-1, 2, 3, 4), -1, (0, 0, 0)), ((1, -2, 3, 4), -1, (0, 0, 0)),
        ((1, 0, 3, 4), -2, (1, 0, 3)), ((1, 2, 3, 0), -2, (1, 2, 3)),
    ):  # fmt: skip
        outs = [Out(np.float32, value) for value in numbers]
        param = np.full(5, 7, np.float32)
        blas.check("Srotmg_v2", *(out.address for out in outs), param.ctypes.data)
        assert param.tolist() == [flag, *([0] * 4 if flag == -1 else [7] * 4)]
        assert tuple(out.value for out in outs[:3]) == left


# --- with a type for each argument ---------------------------------------------------------------


def numbers(rng: np.random.Generator, n: int, dtype: Any) -> np.ndarray:
    return random(rng, (n,), np.complex128 if np.dtype(dtype).kind == "c" else float).astype(dtype)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("incx", "incy"), INCS)
def test_two_vectors_ex(blas, rng, pair, width, incx, incy) -> None:
    (code, dtype), (execution, scale), n = CUDA[pair[0]], CUDA[pair[1]], 7
    x, y, alpha = numbers(rng, n, dtype), numbers(rng, n, dtype), -1.5
    x_place, y_place = spread(x, incx), spread(y, incy)

    def after(name: str, *before: Any, more: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
        vectors = blas.put(x_place, dtype), blas.put(y_place, dtype)
        places = vectors[0].address, code, incx, vectors[1].address, code, incy
        blas.check(name + width, n, *before, *places, *more)
        got = [wide(vector.read()) for vector in vectors]
        return gathered(got[0], incx), gathered(got[1], incy)

    got = after("AxpyEx", scalar(alpha, scale), execution, more=(execution,))[1]
    close(got, alpha * wide(x) + wide(y), dtype)
    np.testing.assert_array_equal(after("CopyEx")[1], wide(x))
    np.testing.assert_array_equal(after("SwapEx"), [wide(y), wide(x)])
    for name in ("DotEx", "DotcEx"):
        result = Out(dtype)
        after(name, more=(result.address, code, execution))
        left = wide(x).conj() if name == "DotcEx" else wide(x)
        close(result.value, np.array(sum(left * wide(y))), dtype, 2)
    c, s = 0.6, 0.8
    cs = np.array([c, s], dtype)
    got_x, got_y = after("RotEx", more=(cs[:1].ctypes.data, cs[1:].ctypes.data, code, execution))
    c, s = wide(cs)
    close(got_x, c * wide(x) + s * wide(y), dtype)
    close(got_y, c * wide(y) - np.conj(s) * wide(x), dtype)
    if pair in REAL_PAIRS:
        param = np.array([-1, 2, 3, 5, 7], dtype)
        got_x, got_y = after("RotmEx", more=(param.ctypes.data, code, execution))
        close(got_x, 2 * wide(x) + 5 * wide(y), dtype, 2)
        close(got_y, 3 * wide(x) + 7 * wide(y), dtype, 2)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("pair", PAIRS)
def test_one_vector_ex(blas, rng, pair, width) -> None:
    (code, dtype), (execution, scale), n, inc = CUDA[pair[0]], CUDA[pair[1]], 7, 2
    x = numbers(rng, n, dtype)
    memory = blas.put(spread(x, inc), dtype)
    sizes = np.abs(wide(x).real) + np.abs(wide(x).imag)
    real = {"C": "S", "Z": "D"}.get(pair[0], pair[0])
    result = Out(CUDA[real][1])
    blas.check(
        f"Nrm2Ex{width}",
        *(n, memory.address, code, inc, result.address, CUDA[real][0]),
        CUDA[{"C": "S", "Z": "D"}.get(pair[1], pair[1])][0],
    )
    close(result.value, np.sqrt(np.sum(np.abs(wide(x)) ** 2)), dtype, 4)
    total = Out(CUDA["D" if pair[0] in "DZ" else "S"][1])
    blas.check(
        f"AsumEx{width}",
        *(n, memory.address, code, inc, total.address),
        *(CUDA["D" if pair[0] in "DZ" else "S"][0], execution),
    )
    close(total.value, sizes.sum(), total.array.dtype.type, n)
    for name, best in (("Iamax", np.argmax), ("Iamin", np.argmin)):
        index = Result(ctypes.c_int64 if width else ctypes.c_int)
        blas.check(f"{name}Ex{width}", n, memory.address, code, inc, index.pointer)
        assert sizes[index.value - 1] == sizes[best(sizes)]
    blas.check(
        f"ScalEx{width}",
        *(n, scalar(-3, scale), execution, memory.address, code, inc, execution),
    )
    close(gathered(wide(memory.read()), inc), -3 * wide(x), dtype)


@pytest.mark.parametrize("pair", REAL_PAIRS)
def test_rotation_ex(blas, pair) -> None:
    (code, dtype), (execution, _) = CUDA[pair[0]], CUDA[pair[1]]
    a, b, c, s = (Out(dtype, value) for value in (3, 4, -7, -7))
    blas.check("RotgEx", a.address, b.address, code, c.address, s.address, code, execution)
    close(np.array([float(x.value) for x in (a, c, s)]), np.array([5, 0.6, 0.8]), dtype)
    values = [Out(dtype, value) for value in (1, 2, 3, 4)]
    param = np.full(5, 7, dtype)
    arguments = itertools.chain.from_iterable((x.address, code) for x in values)
    blas.check("RotmgEx", *arguments, param.ctypes.data, code, execution)
    close(
        np.array([float(x.value) for x in values]), [2 / 1.28125, 1 / 1.28125, 5.125, 4], dtype, 4
    )
    close(wide(param), [1, 0.375, 7, 7, 0.75], dtype, 4)


def test_half_sums_are_of_float32(blas) -> None:
    ones, result = blas.put(np.ones(4096), HALF), Out(HALF)
    half, single = CudaDataType.R_16F, CudaDataType.R_32F
    vector = ones.address, half, 1
    blas.check("DotEx", 4096, *vector, *vector, result.address, half, single)
    assert result.value == 4096


def test_types_that_do_not_go_together(blas) -> None:
    """NOT_SUPPORTED, and INVALID_VALUE for what is no type, where cuBLAS looks at that."""
    x, result, single, double = blas.put(np.ones(8)), Out(np.float64), 0, 1
    vector, one = (x.address, single, 1), scalar(1)
    wrong_pair = {
        "Nrm2Ex": (*vector, result.address, double, single),
        "AsumEx": (*vector, result.address, double, single),
        "DotEx": (*vector, *vector, result.address, double, single),
        "CopyEx": (*vector, x.address, double, 1),
        "SwapEx": (*vector, x.address, double, 1),
        "RotEx": (*vector, *vector, one, one, double, single),
        "RotmEx": (*vector, *vector, one, double, single),
    }
    for name, arguments in wrong_pair.items():
        assert blas.status(name, 4, *arguments) == Status.NOT_SUPPORTED, name
    assert blas.status("ScalEx", 4, one, double, *vector, single) == Status.NOT_SUPPORTED
    assert blas.status("ScalEx", 4, one, 99, *vector, single) == Status.INVALID_VALUE
    assert blas.status("AxpyEx", 4, one, 99, *vector, *vector, single) == Status.INVALID_VALUE
    index = Result(ctypes.c_int)
    for name in ("IamaxEx", "IaminEx"):
        assert blas.status(name, 4, x.address, 99, 1, index.pointer) == Status.NOT_SUPPORTED
    np.testing.assert_array_equal(x.read(), 1)
