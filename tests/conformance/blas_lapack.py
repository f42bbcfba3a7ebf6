"""Checks of cuBLAS results that are not unique, by what they promise: factors and rotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blas_oracle
import numpy as np

CHECKS: dict[str, Callable[[Any], None]] = {}


def check(*families: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a check for families."""

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        CHECKS.update(dict.fromkeys(families, function))
        return function

    return register


@check("rotg")
def rotg(posed: Any) -> None:
    """c a + s b = r, and the other row gives 0."""
    a, b = posed.scalars["a"], posed.scalars["b"]
    r, _, c, s = posed.call()
    posed.case.compare(
        [c * a + s * b, c * b - np.conj(s) * a, abs(c) ** 2 + abs(s) ** 2, abs(r)],
        [r, 0, 1 if a or b else abs(c) ** 2, np.hypot(abs(a), abs(b))],
        posed.precision(),
        8,
    )


@check("rotmg")
def rotmg(posed: Any) -> None:
    """H takes (x1, y1) to (x1', 0) and keeps d1 x1^2 + d2 y1^2."""
    d1, d2, x1, y1 = (posed.scalars[name] for name in ("d1", "d2", "x1", "y1"))
    new_d1, _, new_x1, (flag, h11, h21, h12, h22) = posed.call()
    if flag == -2:
        h11, h21, h12, h22 = 1, 0, 0, 1
    elif flag == 0:
        h11, h22 = 1, 1
    elif flag == 1:
        h12, h21 = 1, -1
    posed.case.compare(
        [h11 * x1 + h12 * y1, h21 * x1 + h22 * y1, new_d1 * new_x1**2],
        [new_x1, 0, d1 * x1**2 + d2 * y1**2],
        posed.precision(),
        8,
    )


def _factor(posed: Any) -> tuple[dict[str, Any], list[np.ndarray], list[np.ndarray]]:
    """Results of a call, with the first operand of each matrix before and after it."""
    posed.call()
    results = posed.results()
    memory = posed.memory["a"]
    count = posed.values["batch_size"]
    before = [memory.numbers(memory.arrays, index) for index in range(count)]
    after = [memory.numbers(results["a"], index) for index in range(count)]
    return results, before, after


def _keep(posed: Any, results: dict[str, Any], *names: str) -> None:
    """Everything but the operands ``names``, which were checked, is as it was."""
    for name in names:
        memory = posed.memory[name]
        for index in range(len(memory.places)):
            memory.stored(results[name], index)[...] = memory.stored(memory.arrays, index)
    posed.check_untouched(results)


@check("getrf")
def getrf(posed: Any) -> None:
    """The rows of A, exchanged as P says, are L U."""
    results, before, after = _factor(posed)
    n = posed.values["n"]
    pivots = results["p"][0][: n * len(before)].reshape(-1, n)
    for a, lu, swaps in zip(before, after, pivots, strict=True):
        wanted = a.copy()
        for row, other in enumerate(swaps - 1):
            wanted[[row, other]] = wanted[[other, row]]
        product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
        posed.case.compare(product, wanted, posed.precision(), 8)
    posed.case.compare(results["info"][0][: len(before)], np.zeros(len(before)), "int32")
    _keep(posed, results, "a", "p", "info")


def _prefactor(posed: Any) -> list[np.ndarray]:
    """Put the factors of A in its place, as getrf does without exchanges; the originals."""
    memory, pivots = posed.memory["a"], posed.memory["p" if "p" in posed.memory else "ipiv"]
    n, count = posed.values["n"], posed.values["batch_size"]
    originals = []
    for index in range(count):
        view = memory.stored(memory.arrays, index)
        lu = blas_oracle.wide(view.copy()) + 4 * np.eye(n)
        originals.append((np.tril(lu, -1) + np.eye(n)) @ np.triu(lu))
        view[...] = lu
        originals[-1] = (np.tril(blas_oracle.wide(view), -1) + np.eye(n)) @ np.triu(
            blas_oracle.wide(view)
        )
    pivots.arrays[0][: n * count] = np.tile(np.arange(1, n + 1), count)
    for operand in (memory, pivots):
        operand.before = [array.tobytes() for array in operand.arrays]
        operand.buffers = [posed.case.put(array) for array in operand.arrays]
    return originals


@check("getri", "getrs")
def solved(posed: Any) -> None:
    """Inverse or solution from factors."""
    originals = _prefactor(posed)
    posed.call()
    results = posed.results()
    for index, original in enumerate(originals):
        g = posed.given(index)
        g.original = original
        want = blas_oracle.RULES[posed.function.family.name](g)
        want.pop("info", None)
        posed.check(results, index, want, 16)
    if "info" in results:
        posed.case.compare(results["info"][0][: len(originals)], np.zeros(len(originals)), "int32")
        _keep(posed, results, "info")
    else:
        posed.check_untouched(results)


@check("matinv")
def matinv(posed: Any) -> None:
    """The inverse of each matrix."""
    posed.call()
    results = posed.results()
    count = posed.values["batch_size"]
    for index in range(count):
        posed.check(results, index, {"a_inv": np.linalg.inv(posed.given(index).a)}, 16)
    posed.case.compare(results["info"][0][:count], np.zeros(count), "int32")
    _keep(posed, results, "info")


@check("geqrf")
def geqrf(posed: Any) -> None:
    """Q from the Householder vectors, times R, is A."""
    results, before, after = _factor(posed)
    tau = posed.memory["tau"]
    for index, (a, qr) in enumerate(zip(before, after, strict=True)):
        rows = len(a)
        q = np.eye(rows, dtype=qr.dtype)
        for k, factor in enumerate(tau.numbers(results["tau"], index)):
            v = np.concatenate([np.zeros(k), [1], qr[k + 1 :, k]])
            q = q @ (np.eye(rows) - factor * np.outer(v, v.conj()))
        posed.case.compare(q @ np.triu(qr), a, posed.precision(), 16)
    _keep(posed, results, "a", "tau")


@check("gels")
def gels(posed: Any) -> None:
    """The first n rows of C are the least-squares solution."""
    given = [posed.given(index) for index in range(posed.values["batch_size"])]
    results, before, _ = _factor(posed)
    c, n = posed.memory["c"], posed.values["n"]
    for index, a in enumerate(before):
        got = c.numbers(results["c"], index)[:n]
        # Of A's inverse nothing is known: compare what the solution minimises.
        normal = a.conj().T @ (a @ got - given[index].c)
        posed.case.compare(
            normal, np.zeros_like(normal), posed.precision(), 64 * (1 + abs(got).max())
        )
    count = len(before)
    posed.case.compare(results["dev_info"][0][:count], np.zeros(count), "int32")
    _keep(posed, results, "a", "c", "dev_info")


@check("gemm_bias")
def gemm_bias(posed: Any) -> None:
    """8-bit products of small numbers, which neither overflow nor are cut off."""
    posed.values["transc"] = 0
    for memory in posed.memory.values():
        memory.stored(memory.arrays, 0)[...] = posed.case.rng.integers(0, 6, memory.block[:2])
        memory.before = [array.tobytes() for array in memory.arrays]
        memory.buffers = [posed.case.put(array) for array in memory.arrays]
    g = posed.given(0)
    posed.call()
    results = posed.results()
    want = blas_oracle.op(g.transa, g.a) @ blas_oracle.op(g.transb, g.b)
    posed.check(results, 0, {"c": want})
    posed.check_untouched(results)
