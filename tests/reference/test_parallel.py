"""Work spread over threads: results in order, errors passed on, and BLAS left as it was."""

from __future__ import annotations

import itertools
import threading
import time
import warnings

import numpy as np
import pytest

from pycudnn.reference import parallel

openblas = pytest.mark.skipif(not parallel._blas.possible, reason="this NumPy has no OpenBLAS")


@pytest.fixture(autouse=True)
def three_workers(monkeypatch) -> None:
    """On any machine; where there is no OpenBLAS, all is serial and the tests hold as well."""
    if parallel._blas.possible:
        monkeypatch.setattr(parallel, "WORKERS", 3)


def test_results_in_order() -> None:
    def late_first(item: int) -> int:
        time.sleep(0.002 * (5 - item))
        return item * item

    assert parallel.each(late_first, range(6)) == [0, 1, 4, 9, 16, 25]
    assert parallel.each(late_first, []) == []


@openblas
def test_threads_work_at_the_same_time() -> None:
    """Each of three waits for the two others."""
    barrier = threading.Barrier(3, timeout=10)
    parallel.each(lambda item: barrier.wait(), range(3))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, IndexError])
def test_errors_come_out_when_all_have_stopped(error) -> None:
    at_work: set[int] = set()

    def work(item: int) -> None:
        at_work.add(item)
        time.sleep(0.001)
        at_work.discard(item)
        if item == 4:
            raise error("the fourth")

    with pytest.raises(error, match="the fourth"):
        parallel.each(work, range(1000))
    assert not at_work


def test_after_an_error_nothing_new_begins() -> None:
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        time.sleep(0.001)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        parallel.each(work, range(1000))
    assert len(begun) <= 3


@openblas
def test_blas_has_one_thread_meanwhile_and_its_own_afterwards() -> None:
    get = parallel._blas._get
    before = get()
    assert parallel.each(lambda item: get(), range(5)) == [1] * 5
    assert get() == before
    with pytest.raises(ZeroDivisionError):
        parallel.each(lambda item: item // 0, range(5))
    assert get() == before

    def many_times(item: int) -> None:
        for _ in range(200):
            parallel.matmul(np.ones((1, 2, 2)), np.ones((1, 2, 2)))

    callers = [threading.Thread(target=many_times, args=(0,)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert get() == before


def test_parallel_work_within_parallel_work_is_serial() -> None:
    def inner(item: int) -> int:
        return threading.get_ident()

    for threads in parallel.each(lambda item: set(parallel.each(inner, range(5))), range(4)):
        assert len(threads) == 1


@openblas
def test_where_no_thread_can_be_started(monkeypatch) -> None:
    def refuse(self) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert parallel.each(abs, range(-4, 0)) == [4, 3, 2, 1]


def test_arithmetic_in_threads_does_not_warn() -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel.each(lambda item: np.float32(item) / np.float32(0), range(6))


@pytest.mark.parametrize(("size", "parts"), list(itertools.product([1, 2, 7, 12], [1, 3, 5, 20])))
def test_cut(size, parts) -> None:
    pieces = [list(range(size))[piece] for piece in parallel.cut(size, parts)]
    assert list(itertools.chain(*pieces)) == list(range(size))
    lengths = [len(piece) for piece in pieces]
    assert len(pieces) == min(size, parts)
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("worth", [1, 10**9])
@pytest.mark.parametrize(
    "shape", [(1, 5, 4, 9), (1, 9, 4, 5), (2, 3, 1, 8), (7, 3, 4, 2), (3, 1, 1, 1)]
)
def test_matmul(rng, monkeypatch, shape, worth) -> None:
    """Cut along the stack, the columns and the rows; into given memory of any layout."""
    monkeypatch.setattr(parallel, "_WORTH_A_THREAD", worth)
    stack, m, k, n = shape
    left, right = rng.standard_normal((stack, m, k)), rng.standard_normal((stack, k, n))
    want = np.einsum("smk,skn->smn", left, right)
    np.testing.assert_allclose(parallel.matmul(left, right), want, rtol=1e-12, atol=1e-12)
    out = np.full((stack, n, m), np.nan).transpose(0, 2, 1)
    assert parallel.matmul(left, right, out) is out
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-12)


def test_matmul_with_another_blas(rng, monkeypatch) -> None:
    monkeypatch.setattr(parallel._blas, "_set", None)
    left, right = rng.standard_normal((1, 3, 4)), rng.standard_normal((1, 4, 5))
    np.testing.assert_allclose(parallel.matmul(left, right), left @ right, rtol=1e-12)
