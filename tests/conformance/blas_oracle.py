"""What each cuBLAS family computes, in float64 and complex128, for one matrix of a batch.

A rule takes the arguments by name: sizes and enums as ints, scalars as numbers, and operands as
they are stored (a matrix with the rows that its storage has, a band in band storage, a packed
triangle or vector in one dimension). It returns what each written operand holds afterwards, NaN
where it must stay as it is, and "out" or the scalars that come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Rule = Callable[[Any], dict[str, Any]]
RULES: dict[str, Rule] = {}


def rule(*families: str) -> Callable[[Rule], Rule]:
    """Register a rule for families of pycudnn/cublas/_families.py."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(families, function))
        return function

    return register


# ---- storage -------------------------------------------------------------------------------------


def wide(array: Array) -> Array:
    """The same numbers in float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def op(operation: int, matrix: Array) -> Array:
    """The matrix, its transpose or its conjugate transpose."""
    return (matrix, matrix.T, matrix.conj().T)[operation]


def in_triangle(n: int, uplo: int) -> Array:
    """Which elements of an n x n matrix belong to the lower (0) or upper (1) triangle."""
    rows, columns = np.indices((n, n))
    return rows <= columns if uplo else rows >= columns


def part(values: Array, uplo: int) -> Array:
    """A triangle of a matrix, NaN elsewhere."""
    return np.where(in_triangle(len(values), uplo), values, np.nan)


def triangle(g: Any, dense: Array) -> Array:
    """The triangular matrix that the arguments describe."""
    found = np.where(in_triangle(len(dense), g.uplo), dense, 0)
    if g.diag:
        np.fill_diagonal(found, 1)
    return found


def mirrored(uplo: int, dense: Array, conjugate: bool) -> Array:
    """The whole symmetric or Hermitian matrix of which one triangle is stored."""
    half = np.where(in_triangle(len(dense), uplo), dense, 0)
    other = half.conj().T if conjugate else half.T
    diagonal = np.diag(np.diag(half).real if conjugate else np.diag(half))
    return half + other - np.diag(np.diag(other)) - np.diag(np.diag(half)) + diagonal


def unpacked(packed: Array, n: int, uplo: int) -> Array:
    """A packed triangle in its place in an n x n matrix, 0 elsewhere."""
    dense = np.zeros((n, n), packed.dtype)
    columns, rows = np.nonzero(in_triangle(n, uplo).T)
    dense[rows, columns] = packed
    return dense


def repacked(dense: Array, uplo: int) -> Array:
    """A triangle of a matrix, column after column."""
    columns, rows = np.nonzero(in_triangle(len(dense), uplo).T)
    return dense[rows, columns]


def unbanded(band: Array, m: int, upper: int) -> Array:
    """The m x n matrix of a band storage whose main diagonal is row ``upper``."""
    dense = np.zeros((m, band.shape[1]), band.dtype)
    for i, j in np.ndindex(dense.shape):
        if 0 <= upper + i - j < len(band):
            dense[i, j] = band[upper + i - j, j]
    return dense


def in_band(rows: int, m: int, n: int, upper: int) -> Array:
    """Which elements of a band storage belong to the m x n matrix."""
    place, j = np.indices((rows, n))
    i = place - upper + j
    return (0 <= i) & (i < m)


# ---- vectors -------------------------------------------------------------------------------------


@rule("copy")
def copy(g: Any) -> dict[str, Any]:
    return {"y": g.x}


@rule("swap")
def swap(g: Any) -> dict[str, Any]:
    return {"x": g.y, "y": g.x}


@rule("scal")
def scal(g: Any) -> dict[str, Any]:
    return {"x": g.alpha * g.x}


@rule("axpy")
def axpy(g: Any) -> dict[str, Any]:
    return {"y": g.alpha * g.x + g.y}


@rule("dot")
def dot(g: Any) -> dict[str, Any]:
    return {"out": np.sum(g.x * g.y)}


@rule("dotc")
def dotc(g: Any) -> dict[str, Any]:
    return {"out": np.sum(g.x.conj() * g.y)}


@rule("nrm2")
def nrm2(g: Any) -> dict[str, Any]:
    return {"out": np.sqrt(np.sum(np.abs(g.x) ** 2))}


def _size(x: Array) -> Array:
    return np.abs(x.real) + np.abs(x.imag)


@rule("asum")
def asum(g: Any) -> dict[str, Any]:
    return {"out": np.sum(_size(g.x))}


@rule("amax")
def amax(g: Any) -> dict[str, Any]:
    return {"out": 1 + np.argmax(_size(g.x))}


@rule("amin")
def amin(g: Any) -> dict[str, Any]:
    return {"out": 1 + np.argmin(_size(g.x))}


@rule("rot")
def rot(g: Any) -> dict[str, Any]:
    return {"x": g.c * g.x + g.s * g.y, "y": g.c * g.y - np.conj(g.s) * g.x}


@rule("rotm")
def rotm(g: Any) -> dict[str, Any]:
    flag, h11, h21, h12, h22 = g.param
    if flag == -2:
        h11, h21, h12, h22 = 1, 0, 0, 1
    elif flag == 0:
        h11, h22 = 1, 1
    elif flag == 1:
        h12, h21 = 1, -1
    return {"x": h11 * g.x + h12 * g.y, "y": h21 * g.x + h22 * g.y}


# ---- matrices with vectors -----------------------------------------------------------------------


@rule("gemv")
def gemv(g: Any) -> dict[str, Any]:
    return {"y": g.alpha * op(g.trans, g.a) @ g.x + g.scaled("y")}


@rule("gbmv")
def gbmv(g: Any) -> dict[str, Any]:
    dense = unbanded(g.a, g.m, g.ku)
    return {"y": g.alpha * op(g.trans, dense) @ g.x + g.scaled("y")}


def _square(g: Any) -> Array:
    """A of a triangular or symmetric function from dense, band or packed storage."""
    if hasattr(g, "ap"):
        return unpacked(g.ap, g.n, g.uplo)
    if hasattr(g, "k"):
        return unbanded(g.a, g.n, g.k if g.uplo else 0)
    return g.a


@rule("trmv", "tbmv", "tpmv")
def trmv(g: Any) -> dict[str, Any]:
    return {"x": op(g.trans, triangle(g, _square(g))) @ g.x}


@rule("trsv", "tbsv", "tpsv")
def trsv(g: Any) -> dict[str, Any]:
    return {"x": np.linalg.solve(op(g.trans, triangle(g, _square(g))), g.x)}


@rule("symv", "sbmv", "spmv")
def symv(g: Any) -> dict[str, Any]:
    return {"y": g.alpha * mirrored(g.uplo, _square(g), False) @ g.x + g.scaled("y")}


@rule("hemv", "hbmv", "hpmv")
def hemv(g: Any) -> dict[str, Any]:
    return {"y": g.alpha * mirrored(g.uplo, _square(g), True) @ g.x + g.scaled("y")}


@rule("ger")
def ger(g: Any) -> dict[str, Any]:
    return {"a": g.alpha * np.outer(g.x, g.y) + g.a}


@rule("gerc")
def gerc(g: Any) -> dict[str, Any]:
    return {"a": g.alpha * np.outer(g.x, g.y.conj()) + g.a}


def _updated(g: Any, update: Array, conjugate: bool) -> dict[str, Any]:
    dense = mirrored(g.uplo, _square(g), conjugate) + update
    if hasattr(g, "ap"):
        return {"ap": repacked(dense, g.uplo)}
    return {"a": part(dense, g.uplo)}


@rule("syr", "spr")
def syr(g: Any) -> dict[str, Any]:
    return _updated(g, g.alpha * np.outer(g.x, g.x), False)


@rule("her", "hpr")
def her(g: Any) -> dict[str, Any]:
    return _updated(g, g.alpha * np.outer(g.x, g.x.conj()), True)


@rule("syr2", "spr2")
def syr2(g: Any) -> dict[str, Any]:
    return _updated(g, g.alpha * (np.outer(g.x, g.y) + np.outer(g.y, g.x)), False)


@rule("her2", "hpr2")
def her2(g: Any) -> dict[str, Any]:
    one = g.alpha * np.outer(g.x, g.y.conj())
    return _updated(g, one + one.conj().T, True)


# ---- matrices ------------------------------------------------------------------------------------


@rule("gemm")
def gemm(g: Any) -> dict[str, Any]:
    return {"c": g.alpha * op(g.transa, g.a) @ op(g.transb, g.b) + g.scaled("c")}


def _ranked(g: Any, update: Array, conjugate: bool) -> dict[str, Any]:
    old = 0 if g.beta == 0 else g.beta * mirrored(g.uplo, g.c, conjugate)
    return {"c": part(update + old, g.uplo)}


@rule("syrk")
def syrk(g: Any) -> dict[str, Any]:
    a = op(g.trans, g.a)
    return _ranked(g, g.alpha * a @ a.T, False)


@rule("herk")
def herk(g: Any) -> dict[str, Any]:
    a = op(g.trans, g.a)
    return _ranked(g, g.alpha * a @ a.conj().T, True)


@rule("syr2k")
def syr2k(g: Any) -> dict[str, Any]:
    a, b = op(g.trans, g.a), op(g.trans, g.b)
    return _ranked(g, g.alpha * (a @ b.T + b @ a.T), False)


@rule("her2k")
def her2k(g: Any) -> dict[str, Any]:
    one = g.alpha * op(g.trans, g.a) @ op(g.trans, g.b).conj().T
    return _ranked(g, one + one.conj().T, True)


@rule("syrkx")
def syrkx(g: Any) -> dict[str, Any]:
    return _ranked(g, g.alpha * op(g.trans, g.a) @ op(g.trans, g.b).T, False)


@rule("herkx")
def herkx(g: Any) -> dict[str, Any]:
    return _ranked(g, g.alpha * op(g.trans, g.a) @ op(g.trans, g.b).conj().T, True)


def _beside(g: Any, a: Array, b: Array) -> Array:
    return b @ a if g.side else a @ b


@rule("symm")
def symm(g: Any) -> dict[str, Any]:
    return {"c": g.alpha * _beside(g, mirrored(g.uplo, g.a, False), g.b) + g.scaled("c")}


@rule("hemm")
def hemm(g: Any) -> dict[str, Any]:
    return {"c": g.alpha * _beside(g, mirrored(g.uplo, g.a, True), g.b) + g.scaled("c")}


@rule("trmm")
def trmm(g: Any) -> dict[str, Any]:
    return {"c": g.alpha * _beside(g, op(g.trans, triangle(g, g.a)), g.b)}


@rule("trsm")
def trsm(g: Any) -> dict[str, Any]:
    inverse = np.linalg.inv(op(g.trans, triangle(g, g.a)))
    return {"b": g.alpha * _beside(g, inverse, g.b)}


@rule("geam")
def geam(g: Any) -> dict[str, Any]:
    return {"c": g.alpha * op(g.transa, g.a) + g.beta * op(g.transb, g.b)}


@rule("dgmm")
def dgmm(g: Any) -> dict[str, Any]:
    return {"c": g.a * g.x if g.mode else g.x[:, None] * g.a}


@rule("tpttr")
def tpttr(g: Any) -> dict[str, Any]:
    return {"a": part(unpacked(g.ap, g.n, g.uplo), g.uplo)}


@rule("trttp")
def trttp(g: Any) -> dict[str, Any]:
    return {"ap": repacked(g.a, g.uplo)}


@rule("getri")
def getri(g: Any) -> dict[str, Any]:
    return {"c": np.linalg.inv(g.original), "info": np.zeros(1)}


@rule("getrs")
def getrs(g: Any) -> dict[str, Any]:
    return {"b": np.linalg.solve(op(g.trans, g.original), g.b)}


@rule("matinv")
def matinv(g: Any) -> dict[str, Any]:
    return {"a_inv": np.linalg.inv(g.a), "info": np.zeros(1)}
