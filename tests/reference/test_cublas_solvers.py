"""LU and QR factorizations of many matrices, and what is solved with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from blas_library import DTYPES, BlasLibrary, C, N, T, assert_close, column_major, op, random

from pycudnn.abi.cublas_enums import Status

LETTERS = list(DTYPES)


class Many:
    """Matrices in memory of their own, and the array of their addresses."""

    def __init__(self, blas: BlasLibrary, matrices: list[np.ndarray], ld: int, dtype: Any) -> None:
        self._rows = matrices[0].shape[0]
        self._memory = [blas.put(column_major(matrix, ld), dtype) for matrix in matrices]
        self._addresses = blas.put([memory.address for memory in self._memory], np.uintp)
        self.address = self._addresses.address

    def read(self) -> list[np.ndarray]:
        """In double precision; what lies between the columns is still NaN."""
        found = [memory.read() for memory in self._memory]
        for stored in found:
            assert np.isnan(stored[:, self._rows :]).all()
        return [wide(stored[:, : self._rows].T) for stored in found]


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def integers(blas: BlasLibrary, count: int) -> Any:
    return blas.put(np.full(count, -7), np.int32)


def exchanged(matrix: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    result = matrix.copy()
    for i, pivot in enumerate(pivots):
        result[[i, pivot - 1]] = result[[pivot - 1, i]]
    return result


def factors(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.tril(packed, -1) + np.eye(len(packed)), np.triu(packed)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("pivoting", [True, False])
@pytest.mark.parametrize("n", [1, 4, 7])
def test_getrf(blas, rng, letter, pivoting, n) -> None:
    """P A is L U; without pivots A is."""
    dtype, batch = DTYPES[letter], 3
    a = [random(rng, (n, n), dtype) for _ in range(batch)]
    if not pivoting:
        a = [(matrix + 4 * np.eye(n)).astype(dtype) for matrix in a]
    many, pivots, info = (
        Many(blas, a, n + 1, dtype),
        integers(blas, n * batch),
        integers(blas, batch),
    )
    blas.check(
        f"{letter}getrfBatched",
        *(n, many.address, n + 1, pivots.address if pivoting else None, info.address, batch),
    )
    assert info.read().tolist() == [0] * batch
    for i, packed in enumerate(many.read()):
        lower, upper = factors(packed)
        rows = pivots.read()[i * n : (i + 1) * n]
        want = exchanged(a[i], rows) if pivoting else a[i]
        assert_close(lower @ upper, want, dtype, n)
        if pivoting:
            assert np.abs(lower.real).max() < 1.5, "the largest element is the pivot"


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("trans", [N, T, C])
@pytest.mark.parametrize("pivoting", [True, False])
def test_getrs_and_getri(blas, rng, letter, trans, pivoting) -> None:
    dtype, n, columns, batch = DTYPES[letter], 5, 3, 2
    a = [(random(rng, (n, n), dtype) + 3 * np.eye(n)).astype(dtype) for _ in range(batch)]
    b = [random(rng, (n, columns), dtype) for _ in range(batch)]
    many, right = Many(blas, a, n, dtype), Many(blas, b, n + 1, dtype)
    pivots, info = integers(blas, n * batch), integers(blas, batch)
    at = pivots.address if pivoting else None
    blas.check(f"{letter}getrfBatched", n, many.address, n, at, info.address, batch)
    told = np.array([-7], np.int32)
    blas.check(
        f"{letter}getrsBatched",
        *(trans, n, columns, many.address, n, at, right.address, n + 1, told.ctypes.data, batch),
    )
    assert told[0] == 0
    for matrix, x, want in zip(a, right.read(), b, strict=True):
        assert_close(op(trans, matrix) @ x, want, dtype, 8 * n)
    inverse = Many(blas, [np.full((n, n), np.nan, dtype)] * batch, n + 2, dtype)
    blas.check(
        f"{letter}getriBatched",
        *(n, many.address, n, at, inverse.address, n + 2, info.address, batch),
    )
    for matrix, x in zip(a, inverse.read(), strict=True):
        assert_close(matrix @ x, np.eye(n), dtype, 8 * n)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("n", [1, 5, 32])
def test_matinv(blas, rng, letter, n) -> None:
    dtype, batch = DTYPES[letter], 2
    a = [(random(rng, (n, n), dtype) + 9 * np.eye(n)).astype(dtype) for _ in range(batch)]
    many, info = Many(blas, a, n + 1, dtype), integers(blas, batch)
    inverse = Many(blas, [np.full((n, n), np.nan, dtype)] * batch, n, dtype)
    blas.check(
        f"{letter}matinvBatched",
        *(n, many.address, n + 1, inverse.address, n, info.address, batch),
    )
    assert info.read().tolist() == [0] * batch
    for matrix, x in zip(a, inverse.read(), strict=True):
        assert_close(matrix @ x, np.eye(n), dtype, 4 * n)
    for read, matrix in zip(many.read(), a, strict=True):
        np.testing.assert_array_equal(read, wide(matrix))


def test_singular_matrices(blas) -> None:
    """info counts from 1 and names the first zero on the diagonal of U."""
    a = [np.array(x, np.float32) for x in ([[0, 2], [3, 4]], [[1, 2], [2, 4]], [[0, 0], [0, 0]])]
    many, pivots, info = Many(blas, a, 2, np.float32), integers(blas, 6), integers(blas, 3)
    blas.check("SgetrfBatched", 2, many.address, 2, pivots.address, info.address, 3)
    assert info.read().tolist() == [0, 2, 1]
    assert pivots.read()[:4].tolist() == [2, 2, 2, 2]
    many, info = Many(blas, a, 2, np.float32), integers(blas, 3)
    blas.check("SgetrfBatched", 2, many.address, 2, None, info.address, 3)
    assert info.read().tolist() == [1, 2, 1]
    many, info = Many(blas, a, 2, np.float32), integers(blas, 3)
    inverse = Many(blas, a, 2, np.float32)
    blas.check("SmatinvBatched", 2, many.address, 2, inverse.address, 2, info.address, 3)
    assert info.read().tolist() == [0, 2, 1]


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize(("m", "n"), [(5, 3), (4, 4), (3, 5), (1, 1)])
def test_geqrf(blas, rng, letter, m, n) -> None:
    """Q from the reflectors is unitary, and Q R is A."""
    dtype, batch, rank = DTYPES[letter], 2, min(m, n)
    a = [random(rng, (m, n), dtype) for _ in range(batch)]
    many = Many(blas, a, m + 1, dtype)
    taus = Many(blas, [np.full((rank, 1), np.nan, dtype)] * batch, rank, dtype)
    told = np.array([-7], np.int32)
    blas.check(
        f"{letter}geqrfBatched",
        *(m, n, many.address, m + 1, taus.address, told.ctypes.data, batch),
    )
    assert told[0] == 0
    for matrix, packed, tau in zip(a, many.read(), taus.read(), strict=True):
        q = np.eye(m, dtype=packed.dtype)
        for j in range(rank):
            v = np.concatenate([np.zeros(j), [1], packed[j + 1 :, j]])
            q = q @ (np.eye(m) - tau[j, 0] * np.outer(v, v.conj()))
        assert_close(q.conj().T @ q, np.eye(m), dtype, m)
        assert_close(q @ np.triu(packed), matrix, dtype, m)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize(("m", "n"), [(6, 3), (4, 4)])
def test_gels(blas, rng, letter, m, n) -> None:
    """The least squares: the residual is orthogonal to the columns of A."""
    dtype, columns, batch = DTYPES[letter], 2, 3
    a = [random(rng, (m, n), dtype) for _ in range(batch)]
    b = [random(rng, (m, columns), dtype) for _ in range(batch)]
    many, right, info = Many(blas, a, m, dtype), Many(blas, b, m + 1, dtype), integers(blas, batch)
    told = np.array([-7], np.int32)
    blas.check(
        f"{letter}gelsBatched",
        *(N, m, n, columns, many.address, m, right.address, m + 1, told.ctypes.data),
        *(info.address, batch),
    )
    assert told[0] == 0
    assert info.read().tolist() == [0] * batch
    for matrix, x, want in zip(a, right.read(), b, strict=True):
        residual = wide(want) - wide(matrix) @ x[:n]
        assert_close(wide(matrix).conj().T @ residual, np.zeros((n, columns)), dtype, 60 * m)


def test_gels_is_for_tall_matrices(blas) -> None:
    many, info = Many(blas, [np.ones((4, 4), np.float32)], 4, np.float32), integers(blas, 1)
    told = np.array([-7], np.int32)
    for trans, m, n in ((T, 4, 3), (N, 3, 4), (T, 4, 4), (9, 4, 3)):
        status = blas.status(
            "SgelsBatched",
            *(trans, m, n, 1, many.address, 4, many.address, 4, told.ctypes.data, info.address, 1),
        )
        assert status == Status.NOT_SUPPORTED
    np.testing.assert_array_equal(many.read()[0], 1)


def test_statuses(blas) -> None:
    many, info, pivots = (
        Many(blas, [np.eye(4)], 4, np.float32),
        integers(blas, 1),
        integers(blas, 4),
    )
    a = many.address
    for n, lda, batch in ((-1, 4, 1), (4, 3, 1), (4, 0, 1)):
        for name, arguments in {
            "getrf": (n, a, lda, pivots.address, info.address, batch),
            "getri": (n, a, lda, pivots.address, a, 4, info.address, batch),
            "matinv": (n, a, lda, a, 4, info.address, batch),
        }.items():
            status = blas.status(f"S{name}Batched", *arguments)
            assert status == Status.INVALID_VALUE, (name, n, lda)
    status = blas.status("SmatinvBatched", 33, a, 33, a, 33, info.address, 1)
    assert status == Status.INVALID_VALUE
    np.testing.assert_array_equal(many.read()[0], np.eye(4))


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [({"trans": 9}, 1), ({"n": -1}, 2), ({"columns": -1}, 3), ({"lda": 3}, 5), ({"ldb": 3}, 8)],
)
def test_info_names_the_parameter(blas, changed, parameter) -> None:
    many, pivots = Many(blas, [np.eye(4)], 4, np.float32), integers(blas, 4)
    told = np.array([-7], np.int32)
    v = {"trans": N, "n": 4, "columns": 1, "lda": 4, "ldb": 4, **changed}
    status = blas.status(
        "SgetrsBatched",
        *(v["trans"], v["n"], v["columns"], many.address, v["lda"], pivots.address),
        *(many.address, v["ldb"], told.ctypes.data, 1),
    )
    assert status == Status.INVALID_VALUE
    assert told[0] == -parameter
