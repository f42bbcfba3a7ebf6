"""Symmetric, Hermitian and triangular matrices in products, and the extensions of cuBLAS."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from blas_library import DTYPES, C, N, T, assert_close, column_major, op, product, random, scalar

from pycudnn.abi.cublas_enums import CudaDataType, DiagType, FillMode, SideMode, Status

LOWER, UPPER = FillMode.LOWER, FillMode.UPPER
LEFT, RIGHT = SideMode.LEFT, SideMode.RIGHT
UNIT, NON_UNIT = DiagType.UNIT, DiagType.NON_UNIT
LETTERS = list(DTYPES)
WIDTHS = ["", "_64"]
SCALES = [(1.0, 0.0), (-0.5, 1.0), (2.0, -1.5)]
KINDS = [(letter, "sy", False) for letter in LETTERS] + [(x, "he", True) for x in "CZ"]


def inside(uplo: int, n: int) -> np.ndarray:
    i, j = np.indices((n, n))
    return i >= j if uplo == LOWER else i <= j


def factors(letter: str, alpha: float, beta: float) -> tuple[Any, Any]:
    return (alpha * (1 + 2j), beta * (2 - 1j)) if letter in "CZ" else (alpha, beta)


def real(dtype: Any) -> Any:
    return {np.complex64: np.float32, np.complex128: np.float64}.get(dtype, dtype)


def half_stored(matrix: np.ndarray, uplo: int, ld: int) -> np.ndarray:
    """Column-major with NaN in the triangle that must not be read."""
    return column_major(
        np.where(inside(uplo, len(matrix)), matrix, np.nan).astype(matrix.dtype), ld
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("letter", "kind", "hermitian"), KINDS)
@pytest.mark.parametrize("side", [LEFT, RIGHT])
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_symm(blas, rng, letter, kind, hermitian, side, uplo, width) -> None:
    dtype, (m, n) = DTYPES[letter], (4, 5)
    order = m if side == LEFT else n
    for alpha, beta in SCALES:
        alpha, beta = factors(letter, alpha, beta)
        a = random(rng, (order, order), dtype)
        whole = np.where(inside(uplo, order), a, a.conj().T if hermitian else a.T)
        if hermitian:  # imaginary parts on the diagonal do not count
            np.fill_diagonal(whole, whole.diagonal().real)
        b, c = random(rng, (m, n), dtype), random(rng, (m, n), dtype)
        old = np.full_like(c, np.nan) if beta == 0 else c
        places = (
            blas.put(half_stored(a, uplo, order + 1), dtype),
            blas.put(column_major(b, m), dtype),
            blas.put(column_major(old, m + 2), dtype),
        )
        blas.check(
            f"{letter}{kind}mm_v2{width}",
            *(side, uplo, m, n, scalar(alpha, dtype), places[0].address, order + 1),
            *(places[1].address, m, scalar(beta, dtype), places[2].address, m + 2),
        )
        got = places[2].read().reshape(n, m + 2)
        want = alpha * (product(whole, b) if side == LEFT else product(b, whole))
        assert_close(got[:, :m].T, want + (beta * c if beta else 0), dtype, order)
        assert np.isnan(got[:, m:]).all()


def rank_k_names(kind: str) -> list[str]:
    return [f"{kind}rk_v2", f"{kind}r2k_v2", f"{kind}rkx"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("letter", "kind", "hermitian"), KINDS)
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
@pytest.mark.parametrize("trans", [N, T, C])
@pytest.mark.parametrize("form", [0, 1, 2])
def test_rank_k(blas, rng, letter, kind, hermitian, uplo, trans, form, width) -> None:
    """syrk, syr2k, syrkx and the Hermitian ones: one triangle of C is written."""
    if letter in "CZ" and trans == (T if hermitian else C):
        return  # not an operation that BLAS has for this kind
    dtype, n, k = DTYPES[letter], 5, 3
    for alpha, beta in SCALES:
        beta_type = real(dtype) if hermitian else dtype
        alpha_type = real(dtype) if hermitian and form == 0 else dtype
        alpha = alpha if alpha_type != dtype else factors(letter, alpha, 0)[0]
        beta = beta if hermitian else factors(letter, 0, beta)[1]
        a, b = (random(rng, (n, k) if trans == N else (k, n), dtype) for _ in range(2))
        if form == 2 and hermitian:  # herkx is for products that are Hermitian
            b, alpha = dtype(0.5) * a, alpha.real
        c = random(rng, (n, n), dtype)
        old = np.full_like(c, np.nan) if beta == 0 else c
        left, right = (op(trans, x) for x in (a, a if form == 0 else b))
        if trans == C and not hermitian:
            left, right = a.T, (a if form == 0 else b).T  # real
        dagger = (lambda x: x.conj().T) if hermitian else (lambda x: x.T)
        want = alpha * product(left, dagger(right))
        if form == 1:
            want = want + (np.conj(alpha) if hermitian else alpha) * product(right, dagger(left))
        want = want + (beta * c if beta else 0)
        if hermitian:
            np.fill_diagonal(want, want.diagonal().real)
        rows = a.shape[0]
        places = (
            blas.put(column_major(a, rows + 1), dtype),
            blas.put(column_major(b, rows), dtype),
            blas.put(column_major(old, n + 1), dtype),
        )
        blas.check(
            letter + rank_k_names(kind)[form] + width,
            *(uplo, trans, n, k, scalar(alpha, alpha_type), places[0].address, rows + 1),
            *((places[1].address, rows) if form else ()),
            *(scalar(beta, beta_type), places[2].address, n + 1),
        )
        got = places[2].read().reshape(n, n + 1)
        assert np.isnan(got[:, n:]).all()
        mask = inside(uplo, n)
        assert_close(got[:, :n].T[mask], want[mask], dtype, 2 * k)
        np.testing.assert_array_equal(got[:, :n].T[~mask], old[~mask])


@pytest.mark.parametrize("name", ["CsyrkEx", "Csyrk3mEx", "CherkEx", "Cherk3mEx"])
def test_rank_k_ex(blas, rng, name) -> None:
    n, k, hermitian = 4, 3, "her" in name
    a, c = random(rng, (n, k), np.complex64), random(rng, (n, n), np.complex64)
    memory, out = (
        blas.put(column_major(a, n), np.complex64),
        blas.put(column_major(c, n), np.complex64),
    )
    scale = np.float32 if hermitian else np.complex64
    complex_float = CudaDataType.C_32F
    blas.check(
        name,
        *(UPPER, N, n, k, scalar(2, scale), memory.address, complex_float, n),
        *(scalar(-1, scale), out.address, complex_float, n),
    )
    want = 2 * product(a, a.conj().T if hermitian else a.T) - c
    if hermitian:
        np.fill_diagonal(want, want.diagonal().real)
    mask = inside(UPPER, n)
    assert_close(out.read().T[mask], want[mask], np.complex64, k)
    status = blas.status(
        name,
        *(UPPER, N, n, k, scalar(2, scale), memory.address, CudaDataType.R_32F, n),
        *(scalar(-1, scale), out.address, complex_float, n),
    )
    assert status == Status.NOT_SUPPORTED


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize(
    ("side", "uplo", "trans", "diag"),
    list(itertools.product([LEFT, RIGHT], [LOWER, UPPER], [N, T, C], [NON_UNIT, UNIT])),
)
def test_trmm_and_trsm(blas, rng, letter, side, uplo, trans, diag, width) -> None:
    dtype, (m, n) = DTYPES[letter], (4, 5)
    order, (alpha, _) = m if side == LEFT else n, factors(letter, 1.5, 0)
    a = (random(rng, (order, order), dtype) / order + 2 * np.eye(order)).astype(dtype)
    triangle = np.where(inside(uplo, order), a, 0).astype(dtype)
    if diag == UNIT:
        np.fill_diagonal(triangle, 1)
        np.fill_diagonal(a, np.nan)
    b = random(rng, (m, n), dtype)

    def times(right: np.ndarray) -> np.ndarray:
        matrix = op(trans, triangle)
        return product(matrix, right) if side == LEFT else product(right, matrix)

    memory = blas.put(half_stored(a, uplo, order + 1), dtype)
    head = side, uplo, trans, diag, m, n, scalar(alpha, dtype), memory.address, order + 1
    source, out = blas.put(column_major(b, m + 1), dtype), blas.put(np.full((n, m), np.nan), dtype)
    blas.check(f"{letter}trmm_v2{width}", *head, source.address, m + 1, out.address, m)
    assert_close(out.read().T, alpha * times(b), dtype, order)
    blas.check(f"{letter}trmm_v2{width}", *head, source.address, m + 1, source.address, m + 1)
    assert_close(source.read()[:, :m].T, alpha * times(b), dtype, order)

    source = blas.put(column_major(b, m + 1), dtype)
    blas.check(f"{letter}trsm_v2{width}", *head, source.address, m + 1)
    got = source.read().reshape(n, m + 1)
    assert_close(times(got[:, :m].T), alpha * b, dtype, 4 * order)
    assert np.isnan(got[:, m:]).all()


def test_a_large_triangular_solution(blas, rng) -> None:
    order, columns = 200, 70
    a = np.triu(random(rng, (order, order), np.float64)) / order + 2 * np.eye(order)
    b = random(rng, (columns, order), np.float64)
    memory, out = blas.put(column_major(a, order), float), blas.put(column_major(b, columns), float)
    blas.check(
        "Dtrsm_v2",
        *(RIGHT, UPPER, N, NON_UNIT, columns, order, scalar(1, float), memory.address, order),
        *(out.address, columns),
    )
    assert_close(out.read().T @ a, b, np.float64, order)


BAD = [
    ({"side": 9}, Status.INVALID_VALUE),
    ({"uplo": 9}, Status.INVALID_VALUE),
    ({"uplo": FillMode.FULL}, Status.INVALID_VALUE),
    ({"trans": 9}, Status.INVALID_VALUE),
    ({"trans": 3}, Status.INVALID_VALUE),
    ({"diag": 9}, Status.INVALID_VALUE),
    ({"m": -1}, Status.INVALID_VALUE),
    ({"n": -1}, Status.INVALID_VALUE),
    ({"k": -1}, Status.INVALID_VALUE),
    ({"lda": 3}, Status.INVALID_VALUE),
    ({"ldb": 3}, Status.INVALID_VALUE),
    ({"ldc": 3}, Status.INVALID_VALUE),
    ({"alpha": None}, Status.INVALID_VALUE),
    ({"n": 0}, Status.SUCCESS),
]
ORDERS = {
    "symm": "side uplo m n alpha a lda b ldb beta c ldc",
    "syrk": "uplo trans n k alpha a lda beta c ldc",
    "syr2k": "uplo trans n k alpha a lda b ldb beta c ldc",
    "trmm": "side uplo trans diag m n alpha a lda b ldb c ldc",
    "trsm": "side uplo trans diag m n alpha a lda b ldb",
}


@pytest.mark.parametrize(("changed", "status"), BAD)
@pytest.mark.parametrize("name", ORDERS)
def test_statuses(blas, name, changed, status) -> None:
    order = ORDERS[name].split()
    if not set(changed) <= set(order):
        return
    memory = {name: blas.put(np.ones(16)) for name in "abc"}
    values = {
        "side": LEFT, "uplo": LOWER, "trans": N, "diag": NON_UNIT, "m": 4, "n": 4, "k": 4,
        "alpha": scalar(1), "beta": scalar(1), "lda": 4, "ldb": 4, "ldc": 4,
        **{name: place.address for name, place in memory.items()}, **changed,
    }  # fmt: skip
    assert blas.status(f"S{name}_v2", *(values[argument] for argument in order)) == status
    for place in memory.values():
        np.testing.assert_array_equal(place.read(), 1)


def test_where_alpha_is_0_the_reference_reads_nothing(ours) -> None:
    """cuBLAS multiplies by 0 instead, and so spreads a NaN."""
    nan, zero, two = ours.put(np.full(16, np.nan)), scalar(0), scalar(2)
    for name, head in (
        ("Ssymm_v2", (LEFT, LOWER, 2, 2, zero, nan.address, 2, nan.address, 2)),
        ("Ssyrk_v2", (LOWER, N, 2, 2, zero, nan.address, 2)),
        ("Ssyr2k_v2", (LOWER, N, 2, 2, zero, nan.address, 2, nan.address, 2)),
    ):
        c = ours.put(np.ones((2, 2)))
        ours.check(name, *head, two, c.address, 2)
        assert c.read()[0, 1] == 2
    c = ours.put(np.full((2, 2), np.nan))
    head = (LEFT, LOWER, N, NON_UNIT, 2, 2, zero, nan.address, 2)
    ours.check("Strmm_v2", *head, nan.address, 2, c.address, 2)
    np.testing.assert_array_equal(c.read(), 0)
    c = ours.put(np.full((2, 2), np.nan))
    ours.check("Strsm_v2", *head, c.address, 2)
    np.testing.assert_array_equal(c.read(), 0)


# --- extensions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", "CZ")
@pytest.mark.parametrize(("transa", "transb"), list(itertools.product([N, T, C], [N, T, C])))
def test_complex_geam(blas, rng, letter, transa, transb) -> None:
    dtype, (m, n), alpha, beta = DTYPES[letter], (3, 4), 1 - 2j, 0.5j
    a, b = (random(rng, (m, n) if trans == N else (n, m), dtype) for trans in (transa, transb))
    places = (
        blas.put(column_major(a, a.shape[0]), dtype),
        blas.put(column_major(b, b.shape[0] + 1), dtype),
        blas.put(np.full((n, m), np.nan), dtype),
    )
    blas.check(
        f"{letter}geam",
        *(transa, transb, m, n, scalar(alpha, dtype), places[0].address, a.shape[0]),
        *(scalar(beta, dtype), places[1].address, b.shape[0] + 1, places[2].address, m),
    )
    assert_close(places[2].read().T, alpha * op(transa, a) + beta * op(transb, b), dtype)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize(("side", "inc"), [(LEFT, 1), (LEFT, -2), (RIGHT, -1), (RIGHT, 3)])
def test_dgmm(blas, rng, letter, side, inc, width) -> None:
    dtype, (m, n) = DTYPES[letter], (3, 5)
    a, x = random(rng, (m, n), dtype), random(rng, (m if side == LEFT else n,), dtype)
    forward = np.zeros((len(x) - 1) * abs(inc) + 1, dtype)
    forward[:: abs(inc)] = x if inc > 0 else x[::-1]
    places = (
        blas.put(column_major(a, m + 1), dtype),
        blas.put(forward, dtype),
        blas.put(np.full((n, m + 2), np.nan), dtype),
    )
    blas.check(
        f"{letter}dgmm{width}",
        *(side, m, n, places[0].address, m + 1, places[1].address, inc),
        *(places[2].address, m + 2),
    )
    got = places[2].read()
    want = x[:, None] * a if side == LEFT else a * x
    assert_close(got[:, :m].T, want, dtype)
    assert np.isnan(got[:, m:]).all()
    blas.check(
        f"{letter}dgmm{width}",
        *(side, m, n, places[0].address, m + 1, places[1].address, inc),
        *(places[0].address, m + 1),
    )
    assert_close(places[0].read()[:, :m].T, want, dtype)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_packing(blas, rng, letter, uplo) -> None:
    """Into a packed triangle and back: the other triangle stays as it is."""
    dtype, n = DTYPES[letter], 5
    a = random(rng, (n, n), dtype)
    want = [a[i, j] for j in range(n) for i in range(n) if (i >= j if uplo == LOWER else i <= j)]
    memory = blas.put(half_stored(a, uplo, n + 1), dtype)
    packed = blas.put(np.full(n * (n + 1) // 2, np.nan), dtype)
    blas.check(f"{letter}trttp", uplo, n, memory.address, n + 1, packed.address)
    np.testing.assert_array_equal(packed.read(), want)
    back = blas.put(np.full((n, n + 1), 7), dtype)
    blas.check(f"{letter}tpttr", uplo, n, packed.address, back.address, n + 1)
    got = back.read()[:, :n].T
    np.testing.assert_array_equal(got, np.where(inside(uplo, n), a, 7))


def test_statuses_of_extensions(blas) -> None:
    a, x, c = (blas.put(np.ones(16)) for _ in range(3))
    for side, m, n, lda, ldc in (
        (9, 4, 4, 4, 4),
        (LEFT, -1, 4, 4, 4),
        (LEFT, 4, -1, 4, 4),
        (LEFT, 4, 4, 3, 4),
        (LEFT, 4, 4, 4, 3),
    ):
        status = blas.status("Sdgmm", side, m, n, a.address, lda, x.address, 1, c.address, ldc)
        assert status == Status.INVALID_VALUE
    for uplo, n, lda in ((9, 4, 4), (FillMode.FULL, 4, 4), (LOWER, -1, 4), (LOWER, 4, 3)):
        for name in ("Stpttr", "Strttp"):
            order = (a.address, c.address, lda) if name == "Stpttr" else (c.address, lda, a.address)
            assert blas.status(name, uplo, n, *order) == Status.INVALID_VALUE
    for place in (a, x, c):
        np.testing.assert_array_equal(place.read(), 1)
