"""Operands that share memory: found exactly, and refused unless BLAS allows it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pycudnn import cublas
from pycudnn.cublas._overlap import Piece, colliding, overlap, repeats
from pycudnn.cublas._shapes import Block


def elements(piece):
    """The addresses of all bytes of a piece, by counting."""
    block = piece.block
    return [
        piece.address + (copy * piece.stride + run * abs(block.step) + i) * piece.item + byte
        for copy in range(piece.copies)
        for run in range(block.runs)
        for i in range(block.length)
        for byte in range(piece.item)
    ]


def random_piece(rng, name, writes=True, copies=None):
    length, runs = (int(size) for size in rng.integers(0, 4, 2))
    step = max(1, length) + int(rng.integers(0, 6))
    block = Block(length, runs, step * int(rng.choice([-1, 1])))
    copies = int(rng.integers(1, 4)) if copies is None else copies
    item = int(rng.choice([2, 4]))
    address = 1000 + 2 * int(rng.integers(0, 40))
    return Piece(name, address, block, item, writes, copies, int(rng.integers(0, 12)))


def test_pairs_against_counting(rng):
    found = set()
    for _ in range(2000):
        first, second = random_piece(rng, "a"), random_piece(rng, "b")
        want = bool(set(elements(first)) & set(elements(second)))
        assert overlap(first, second) == want, (first, second)
        found.add((want, first.end > second.address and second.end > first.address))
    assert {(True, True), (False, True), (False, False)} <= found


def test_batches_against_counting(rng):
    found = set()
    for _ in range(2000):
        piece = random_piece(rng, "c", copies=int(rng.integers(1, 6)))
        counted = elements(piece)
        want = len(counted) != len(set(counted))
        assert repeats(piece) == want, piece
        found.add(want)
    assert found == {False, True}


def test_many_against_counting(rng):
    found = set()
    for _ in range(2000):
        pieces = [
            random_piece(rng, f"p{i}", writes=bool(rng.integers(2)), copies=1)._replace(item=4)
            for i in range(3)
        ]
        want = any(
            (first.writes or second.writes) and set(elements(first)) & set(elements(second))
            for first, second in itertools.combinations(pieces, 2)
        )
        names = colliding(pieces)
        assert (names is not None) == want, pieces
        found.add(want)
    assert found == {False, True}


def test_rows_of_one_matrix_lie_between_each_other(handle, put):
    """Exchanging rows of a column-major matrix: spans meet, elements do not."""
    memory = put(np.arange(12.0))
    second = memory.view((11,), offset=8)
    cublas.dswap(handle, 4, memory, 3, second, 3)
    want = np.arange(12.0).reshape(4, 3)[:, [1, 0, 2]].ravel()
    np.testing.assert_array_equal(memory.numpy(), want)


def test_rows_of_a_complex_matrix(handle, put):
    memory = put(np.arange(12) * 1j)
    cublas.zswap(handle, 4, memory, 3, memory.view((11,), offset=16), 3)
    want = 1j * np.arange(12).reshape(4, 3)[:, [1, 0, 2]].ravel()
    np.testing.assert_array_equal(memory.numpy(), want)
    with pytest.raises(ValueError, match="^x is written to and must not overlap y$"):
        cublas.zswap(handle, 4, memory, 2, memory.view((11,), offset=16), 1)


def test_a_block_updates_its_neighbour(handle, put, rng):
    """The step of a blocked factorisation: three blocks of one matrix."""
    whole = rng.standard_normal((8, 8)) + 1j * rng.standard_normal((8, 8))
    memory = put(whole.T)  # column-major
    left, upper, corner = (memory.view((28,), offset=16 * start) for start in (4, 32, 36))
    cublas.zgemm(handle, 0, 0, 4, 4, 4, -1.0, left, 8, upper, 8, 1.0, corner, 8)
    want = whole.copy()
    want[4:, 4:] -= whole[4:, :4] @ whole[:4, 4:]
    np.testing.assert_allclose(memory.numpy().T, want)
    with pytest.raises(ValueError, match="^c is written to and must not overlap a$"):
        cublas.zgemm(handle, 0, 0, 4, 4, 4, -1.0, left, 8, upper, 8, 1.0, left, 8)


def test_what_blas_allows_in_place(handle, put, rng):
    a, b = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    upper, result = put(np.triu(a).T), put(b.T)
    cublas.dtrmm(handle, 0, 1, 0, 0, 3, 3, 2.0, upper, 3, result, 3, result, 3)
    np.testing.assert_allclose(result.numpy().T, 2 * np.triu(a) @ b)
    z = put(b.T * 1j)
    cublas.zgeam(handle, 0, 0, 3, 3, 2.0, z, 3, 1.0, put(a.T + 0j), 3, z, 3)
    np.testing.assert_allclose(z.numpy().T, 2j * b + a)
    with pytest.raises(ValueError, match="^c is written to and must not overlap a$"):
        cublas.zgeam(handle, 1, 0, 3, 3, 2.0, z, 3, 1.0, put(a.T + 0j), 3, z, 3)
    x = put(np.arange(3) * 1j)
    cublas.zaxpy(handle, 3, 2.0, x, 1, x, 1)
    np.testing.assert_array_equal(x.numpy(), np.arange(3) * 3j)
    with pytest.raises(ValueError, match="^y is written to and must not overlap x$"):
        cublas.zaxpy(handle, 3, 2.0, x, 1, x, -1)
    with pytest.raises(ValueError, match="^[xy] is written to and must not overlap [xy]$"):
        cublas.zrot(handle, 3, x, 1, x, 1, 1.0, 0.0)


def test_results_of_a_batch_that_lie_on_each_other(handle, put):
    a, c = put(np.ones((4, 4), np.complex64)), put(np.zeros(40, np.complex64))
    for stride in (0, 3):
        with pytest.raises(ValueError, match=f"^stride_c must keep .* apart, got {stride} "):
            cublas.cgemm_strided_batched(
                handle, 0, 0, 2, 2, 2, 1.0, a, 2, 4, a, 2, 4, 0.0, c, 2, stride, 3
            )
    # Side by side in one matrix they are apart, although each spans the others.
    cublas.cgemm_strided_batched(handle, 0, 0, 2, 2, 2, 1.0, a, 2, 4, a, 2, 4, 0.0, c, 8, 2, 4)
    np.testing.assert_array_equal(c.numpy()[:16], np.full(16, 2))


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("sgemm_strided_batched", ()),
        ("dgemm_strided_batched", ()),
        ("gemm_strided_batched_ex", ("float32",)),
    ],
)
def test_strides_of_results(handle, put, name, types):
    """2 x 2 blocks in columns of any length, one block every ``stride`` elements: by counting."""
    dtype = np.float64 if name.startswith("d") else np.float32
    a, c = put(np.array([[1, 2], [3, 4]], dtype)), put(np.zeros(40, dtype))
    found = set()
    for ld in (2, 4, 7):
        for stride in range(10):
            places = [[i * stride + ld * column + row for column in range(2) for row in range(2)]
                      for i in range(3)]  # fmt: skip
            is_apart = len(set(np.ravel(places))) == 12
            c.fill_bytes(0)
            arguments = (handle, 0, 0, 2, 2, 2, 1.0, a, *types, 2, 0, a, *types, 2, 0, 0.0,
                         c, *types, ld, stride, 3)  # fmt: skip
            if is_apart:
                getattr(cublas, name)(*arguments)
            else:
                with pytest.raises(ValueError, match=f"^stride_c must keep .* got {stride} for"):
                    getattr(cublas, name)(*arguments)
            want = np.zeros(40)
            if is_apart:
                want[places] = [7, 10, 15, 22]
            np.testing.assert_array_equal(c.numpy(), want)
            found.add((is_apart, stride < ld + 2))
    assert found == {(False, True), (True, True), (True, False)}


def test_the_calls_that_come_first(handle, put, rng):
    """Results one element beside an operand, or in it: refused before anything is written."""
    values = rng.standard_normal(40)
    memory = put(values)
    a, beside, far = memory.view((9,)), memory.view((9,), offset=8), put(rng.standard_normal(9))
    refused = [
        ("c", "a", cublas.dgemm, (0, 0, 3, 3, 3, 1.0, a, 3, far, 3, 0.0, beside, 3)),
        ("c", "b", cublas.dgemm, (0, 0, 3, 3, 3, 1.0, far, 3, a, 3, 0.0, beside, 3)),
        ("c", "a", cublas.dgeam, (0, 0, 3, 3, 1.0, a, 3, 1.0, far, 3, beside, 3)),
        ("c", "a", cublas.dgeam, (1, 0, 3, 3, 1.0, a, 3, 1.0, far, 3, a, 3)),
        ("y", "a", cublas.dgemv, (0, 3, 3, 1.0, a, 3, far, 1, 0.0, beside, 1)),
        ("y", "x", cublas.dgemv, (0, 3, 3, 1.0, far, 3, a, 1, 0.0, beside, 1)),
        ("a", "x", cublas.dger, (3, 3, 1.0, a, 1, far, 1, beside, 3)),
        ("y", "x", cublas.daxpy, (9, 1.0, a, 1, beside, 1)),
        ("y", "x", cublas.daxpy, (9, 1.0, a, 1, a, -1)),
        ("y", "x", cublas.dcopy, (9, a, 1, beside, 1)),
        ("x", "y", cublas.dswap, (9, a, 1, beside, 1)),
    ]
    for written, other, call, arguments in refused:
        with pytest.raises(ValueError, match=f"^{written} is written to and must not .* {other}$"):
            call(handle, *arguments)
    np.testing.assert_array_equal(memory.numpy(), values)
    # In place, and a block of a matrix made of another one.
    cublas.daxpy(handle, 9, 2.0, a, 1, a, 1)
    cublas.dgeam(handle, 0, 0, 3, 3, 1.0, a, 3, 1.0, far, 3, a, 3)
    expected = values.copy()
    expected[:9] = 3 * values[:9] + far.numpy()
    np.testing.assert_allclose(memory.numpy(), expected)
    left, right = memory.view((23,)), memory.view((23,), offset=24)  # 3 rows each of 6
    cublas.dgemm(handle, 0, 0, 3, 3, 3, 1.0, left, 6, far, 3, 1.0, right, 6)
    whole = expected[:18].reshape(3, 6).T
    whole[3:] += whole[:3] @ far.numpy().reshape(3, 3).T
    np.testing.assert_allclose(memory.numpy(), expected)


def test_packed_and_unpacked_share_nothing(handle, put):
    memory = put(np.ones(32))
    with pytest.raises(ValueError, match="^a is written to and must not overlap ap$"):
        cublas.dtpttr(handle, 0, 3, memory, memory.view((16,), offset=16), 3)
