"""Problems for cuBLAS's grouped products and strided transfers, which the table does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Case, nan_filled, numpy_dtype, problem

from pycudnn import cublas, pinned_empty

Array = np.ndarray


def _grouped(case: Case, dtypes: tuple[str, ...], wide: bool = False) -> None:
    dtype = numpy_dtype(case.choose(*dtypes))
    groups = case.integer(1, 3)
    lists: dict[str, list[Any]] = {
        name: [] for name in "transa transb m n k alpha lda ldb beta ldc group_size".split()
    }
    operands: dict[str, list[Any]] = {"a": [], "b": [], "c": []}
    expected: list[Array] = []
    for _ in range(groups):
        m, n, k = (1 if wide else case.integer(1, 9) for _ in range(3))
        op_a, op_b = case.choose(0, 1, 2), case.choose(0, 1, 2)
        alpha, beta = case.choose(1.0, -0.5), case.choose(0.0, 2.0)
        size = case.integer(0, 3)
        more = 2**31 if wide else case.integer(0, 3)
        lda, ldb, ldc = (k if op_a else m) + more, (n if op_b else k) + more, m + more
        row = (op_a, op_b, m, n, k, alpha, lda, ldb, beta, ldc, size)
        for values, value in zip(lists.values(), row, strict=True):
            values.append(value)
        for _ in range(size):
            a, b, c = (case.values(s, dtype) for s in ((m, k), (k, n), (m, n)))
            operands["a"].append(_stored(case, a.T if op_a else a, lda, dtype))
            operands["b"].append(_stored(case, b.T if op_b else b, ldb, dtype))
            before = c if beta else np.full(c.shape, np.nan)
            operands["c"].append(_stored(case, before, ldc, dtype))
            expected.append(alpha * a @ b + (beta * c if beta else 0))
    call: dict[str, Any] = {**lists, **operands, "group_count": groups}
    if "Ex" in case.function:
        types = dict.fromkeys(("a_type", "b_type", "c_type"), dtype)
        cublas.gemm_grouped_batched_ex(case.context.cublas, **call, **types)
    else:
        letter = "s" if dtype == np.float32 else "d"
        getattr(cublas, f"{letter}gemm_grouped_batched")(case.context.cublas, **call)
    rows = zip(lists["m"], lists["ldc"], lists["group_size"], strict=True)
    sizes = [(m, ldc) for m, ldc, size in rows for _ in range(size)]
    case.checks += 1  # of no products there is nothing to compare
    for buffer, want, (m, ldc) in zip(operands["c"], expected, sizes, strict=True):
        memory = case.get(buffer)
        got = np.stack([memory[start : start + m] for start in range(0, len(memory), ldc)], axis=1)
        case.compare(got, want, dtype, slack=4)
        for column in range(want.shape[1] - 1):
            assert np.isnan(memory[column * ldc + m : (column + 1) * ldc]).all()


def _stored(case: Case, matrix: Array, ld: int, dtype: Any) -> Any:
    rows, columns = matrix.shape
    memory = nan_filled(rows + (columns - 1) * ld, dtype)
    for column in range(columns):
        memory[column * ld : column * ld + rows] = matrix[:, column]
    return case.put(memory)


@problem("cublasSgemmGroupedBatched")
def sgemm_grouped(case: Case) -> None:
    _grouped(case, ("float32",))


@problem("cublasSgemmGroupedBatched_64")
def sgemm_grouped_64(case: Case) -> None:
    _grouped(case, ("float32",), wide=True)


@problem("cublasDgemmGroupedBatched")
def dgemm_grouped(case: Case) -> None:
    _grouped(case, ("float64",))


@problem("cublasDgemmGroupedBatched_64")
def dgemm_grouped_64(case: Case) -> None:
    _grouped(case, ("float64",), wide=True)


@problem("cublasGemmGroupedBatchedEx")
def gemm_grouped_ex(case: Case) -> None:
    _grouped(case, ("float32", "float64", "float16", "bfloat16"))


@problem("cublasGemmGroupedBatchedEx_64")
def gemm_grouped_ex_64(case: Case) -> None:
    _grouped(case, ("float32", "float64", "float16", "bfloat16"), wide=True)


# ---- transfers -----------------------------------------------------------------------------------


@problem(*(
    f"cublas{verb}{noun}{form}{width}"
    for verb in ("Set", "Get") for noun in ("Vector", "Matrix")
    for form in ("", "Async") for width in ("", "_64")
))  # fmt: skip
def transfer(case: Case) -> None:
    """Elements arrive where the steps say, and nothing else changes."""
    name = case.function.removeprefix("cublas")
    wide, queued, is_matrix = "_64" in name, "Async" in name, "Matrix" in name
    dtype = numpy_dtype(case.choose("float32", "float64", "complex64", "int8"))
    length = case.integer(1, 9) if is_matrix else 1
    runs = 1 if wide else case.integer(1, 9)
    steps = [length + (2**31 if wide else case.integer(0, 3)) for _ in range(2)]
    spans = [length + (runs - 1) * step for step in steps]
    source = case.rng.integers(-99, 99, spans[0]).astype(dtype)
    before = case.rng.integers(-99, 99, spans[1] + 5).astype(dtype)
    want = before.copy()
    for run in range(runs):
        place, origin = run * steps[1], run * steps[0]
        want[place : place + length] = source[origin : origin + length]
    to_device = name.startswith("Set")
    host_array, device_array = (source, before) if to_device else (before, source)
    host, device = host_array.copy(), case.put(device_array)
    pinned = pinned_empty(host.shape, dtype, case.context.device)
    pinned.array[...] = host
    ends = [pinned if queued else host, device]
    first, second = ends if to_device else ends[::-1]
    sizes = (length, runs) if is_matrix else (runs,)
    verb = f"{name[:3].lower()}_{'matrix' if is_matrix else 'vector'}{'_async' if queued else ''}"
    stream = (case.context.stream,) if queued else ()
    case.context.stream.synchronize()
    getattr(cublas, verb)(*sizes, dtype.itemsize, first, steps[0], second, steps[1], *stream)
    case.context.stream.synchronize()
    got = case.get(device) if to_device else pinned.array if queued else host
    case.compare(got, want, dtype)
