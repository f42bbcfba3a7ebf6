"""Problems for cublasLt: products with every epilogue, and transformations of matrices.

Types, sizes, operations, orders, leading dimensions, batches, pointer modes and epilogues are
random. Matrices lie in memory full of NaN; what a call must not write is compared byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import GUARD, Case, nan_filled, numpy_dtype, problem

from pycudnn import cublaslt
from pycudnn.cublaslt import BatchMode, ComputeType, Epilogue, Operation, Order, PointerMode
from pycudnn.errors import CublasBadParam, NotSupported

Array = np.ndarray
E = Epilogue

# Types of A and B, of C and D, of alpha and beta; what is summed up in.
_FLOAT_TYPES = (
    ("float32", "float32", "float32", ComputeType.COMPUTE_32F),
    ("float32", "float32", "float32", ComputeType.COMPUTE_32F_PEDANTIC),
    ("float16", "float16", "float32", ComputeType.COMPUTE_32F),
    ("float16", "float32", "float32", ComputeType.COMPUTE_32F),
    ("bfloat16", "bfloat16", "float32", ComputeType.COMPUTE_32F),
    ("bfloat16", "float32", "float32", ComputeType.COMPUTE_32F),
)
_OTHER_TYPES = (
    ("float64", "float64", "float64", ComputeType.COMPUTE_64F),
    ("complex64", "complex64", "complex64", ComputeType.COMPUTE_32F),
    ("complex128", "complex128", "complex128", ComputeType.COMPUTE_64F),
    ("int8", "int32", "int32", ComputeType.COMPUTE_32I),
    ("int8", "int8", "float32", ComputeType.COMPUTE_32I),
    ("int8", "float32", "float32", ComputeType.COMPUTE_32F),
    ("float16", "float16", "float16", ComputeType.COMPUTE_16F),
)


@dataclass
class Stored:
    """A matrix or a batch of them in memory."""

    case: Case
    layout: cublaslt.MatrixLayout
    dtype: np.dtype[Any]
    arrays: list[Array]
    buffers: list[Any]
    values: Array  # batch x rows x columns

    @property
    def data(self) -> Any:
        """The operand."""
        is_list = self.layout.batch_mode == BatchMode.POINTER_ARRAY
        return self.buffers if is_list else self.buffers[0]

    def views(self, arrays: list[Array]) -> list[Array]:
        """Each matrix of the batch, rows x columns."""
        layout, item = self.layout, self.dtype.itemsize
        steps = (layout.ld * item, item) if layout.order == Order.ROW else (item, layout.ld * item)
        shape, stride = (layout.rows, layout.columns), layout.batch_stride
        starts = arrays
        if layout.batch_mode == BatchMode.STRIDED:
            starts = [arrays[0][index * stride :] for index in range(layout.batch_count)]
        return [np.lib.stride_tricks.as_strided(start, shape, steps) for start in starts]

    def check(self, expected: Array, dtype: Any, slack: float) -> None:
        """What the matrices hold, and that nothing else was written."""
        now = [self.case.get(buffer) for buffer in self.buffers]
        got = np.stack([view.astype(_wide(self.dtype)) for view in self.views(now)])
        self.case.compare(got, expected, dtype, slack)
        before = [array.copy() for array in self.arrays]
        for arrays in (now, before):
            for view in self.views(arrays):
                view[...] = 0
        assert [a.tobytes() for a in now] == [a.tobytes() for a in before], "written outside"


def _wide(dtype: np.dtype[Any]) -> Any:
    return np.complex128 if dtype.kind == "c" else np.float64


def _numbers(case: Case, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "c":
        real, imaginary = (case.rng.uniform(-1, 1, shape) for _ in range(2))
        return (real + 1j * imaginary).astype(dtype).astype(np.complex128)
    high = 2 if dtype.kind == "i" else 1
    return case.values(shape, dtype, -high, high)


def _store(
    case: Case,
    dtype: Any,
    shape: tuple[int, int],
    batch: int,
    mode: BatchMode,
    *,
    blank: bool = False,
    shared: bool = False,
    order: Order | None = None,
    even: bool = False,
) -> Stored:
    """Random (or, ``blank``, no) numbers in a random layout; ``shared``: one matrix for all,
    ``even``: in steps of 16 elements."""
    dtype = numpy_dtype(dtype)
    order = case.choose(Order.COL, Order.COL, Order.COL, Order.ROW) if order is None else order
    rows, columns = shape
    length, runs = (columns, rows) if order == Order.ROW else (rows, columns)
    ld = length + case.choose(0, 0, 16 if even else 3)
    span = length + (runs - 1) * ld
    stride = 0
    if not shared and mode == BatchMode.STRIDED:
        stride = span + case.choose(0, 0 if even else 5)
    layout = cublaslt.MatrixLayout(
        dtype, rows, columns, ld, order=order, batch_count=batch, batch_mode=mode,
        batch_stride=stride, library=case.context.cublaslt.library,
    )  # fmt: skip
    is_list = mode == BatchMode.POINTER_ARRAY
    extents = [span] * batch if is_list else [span + (batch - 1) * stride]
    arrays = [nan_filled(extent + GUARD, dtype) for extent in extents]
    made = Stored(case, layout, dtype, arrays, [], np.empty(0))
    views = made.views(arrays)
    if not blank:
        for view in views:
            view[...] = _numbers(case, shape, dtype)
    made.values = np.stack([view.astype(_wide(dtype)) for view in views])
    made.buffers = [case.put(array) for array in arrays]
    return made


def _op(operation: int, values: Array) -> Array:
    if operation == Operation.N:
        return values
    transposed = values.swapaxes(1, 2)
    return transposed.conj() if operation == Operation.C else transposed


# ---- epilogues -----------------------------------------------------------------------------------


def _gelu(x: Array) -> Array:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _gelu_slope(x: Array) -> Array:
    step = 1e-5
    return (_gelu(x + step) - _gelu(x - step)) / (2 * step)


class Post:
    """A random epilogue: its memory, what it makes of a product, and what it must leave there."""

    def __init__(self, case: Case, dtype: Any, m: int, n: int, batch: int) -> None:
        self.case, self.m, self.n, self.batch = case, m, n, batch
        self.dtype = numpy_dtype(dtype)
        self.kind = case.choose(*E)
        name = self.kind.name
        self.arguments: dict[str, Any] = {"epilogue": self.kind}
        self.is_mask = name.startswith("DRELU") or name.startswith("RELU_AUX")
        self.reads_aux = name.startswith("D") and self.kind != E.DEFAULT
        self.writes_bias = "BGRAD" in name
        length = n if self.kind == E.BGRADB else m
        if self.writes_bias or "BIAS" in name:
            self.bias_shape = (batch, length + case.choose(0, 0, 8))
            self.bias = nan_filled(self.bias_shape[0] * self.bias_shape[1], self.dtype)
            self.bias = self.bias.reshape(self.bias_shape)
            if not self.writes_bias:
                self.bias[:, :length] = _numbers(case, (batch, length), self.dtype)
            self.length = length
            self.arguments["bias"] = self.bias_buffer = case.put(self.bias)
        if self.is_mask or "GELU_AUX" in name or self.reads_aux:
            self._draw_aux()

    def _draw_aux(self) -> None:
        case, batch, n, m = self.case, self.batch, self.n, self.m
        if self.is_mask:
            width = -(-m // 128) * 16 + case.choose(0, 16)
            self.aux = case.rng.integers(0, 256, (batch, n, width)).astype(np.uint8)
        else:
            width = -(-m // 8) * 8 + case.choose(0, 8)
            self.aux = nan_filled(batch * n * width, self.dtype).reshape(batch, n, width)
            if self.reads_aux:
                self.aux[:, :, :m] = case.values((batch, n, m), self.dtype, -3, 3)
        self.arguments["aux"] = self.aux_buffer = case.put(self.aux)

    def _mask(self, aux: Array) -> Array:
        bits = np.unpackbits(aux, axis=-1, bitorder="little")[:, :, : self.m]
        return bits.swapaxes(1, 2).astype(bool)

    def __call__(self, x: Array, left: Array, right: Array) -> Array:
        """D from the scaled product; remembers what bias and aux must become."""
        name = self.kind.name
        if "BIAS" in name:
            x = x + self.bias[:, : self.length, np.newaxis].astype(np.float64)
        self.before = x
        if name.startswith("RELU"):
            x = np.maximum(x, 0)
        elif name.startswith("GELU"):
            x = _gelu(x)
        elif name.startswith("DRELU"):
            x = np.where(self._mask(self.aux), x, 0)
        elif name.startswith("DGELU"):
            x = x * _gelu_slope(self.aux[:, :, : self.m].swapaxes(1, 2).astype(np.float64))
        if self.kind == E.BGRADA:
            self.sums = left.sum(2)
        elif self.kind == E.BGRADB:
            self.sums = right.sum(1)
        elif self.writes_bias:
            self.sums = x.sum(2)
        return x

    def check(self, slack: float) -> None:
        """What the epilogue wrote beside D."""
        case, name = self.case, self.kind.name
        if self.writes_bias:
            got = case.get(self.bias_buffer)
            case.compare(got[:, : self.length].astype(np.float64), self.sums, self.dtype, 4 * slack)
            assert np.isnan(got[:, self.length :].astype(np.float64)).all()
        if "AUX" not in name or self.reads_aux:
            return
        aux = case.get(self.aux_buffer)
        if self.is_mask:
            sure = np.abs(self.before) > 1e-2
            assert (self._mask(aux) == (self.before > 0))[sure].all()
            case.checks += 1
            return
        got = aux[:, :, : self.m].swapaxes(1, 2).astype(np.float64)
        case.compare(got, self.before, self.dtype, slack)


# ---- products ------------------------------------------------------------------------------------


@problem("cublasLtMatmul")
def matmul(case: Case) -> None:
    """D = epilogue(alpha op(A) op(B) + beta C)."""
    if case.choose(*range(8)) == 0:
        _float8(case)
        return
    handle = case.context.cublaslt
    is_plain = case.choose(True, True, False)
    source, target, scale, compute = case.choose(*(_FLOAT_TYPES if is_plain else _OTHER_TYPES))
    is_integer = numpy_dtype(source).kind == "i"
    # Many epilogues, and all integers, want even sizes and one form of product.
    is_even = case.choose(True, False)
    m, n, k = (case.integer(1, 20) * (16 if is_even else 1) for _ in range(3))
    if is_integer:
        k = 16  # sums that int8 holds
    batch = case.choose(1, 1, 3)
    mode = case.choose(*[BatchMode.STRIDED] * 5, BatchMode.POINTER_ARRAY)
    operations = case.choose(0, 1, 2), case.choose(0, 1, 2)
    if is_integer and is_even:
        operations = Operation.T, Operation.N
    first, second = (m, k) if not operations[0] else (k, m), (k, n) if not operations[1] else (n, k)
    shares = [mode == BatchMode.STRIDED and case.choose(False, False, True) for _ in range(2)]
    even: dict[str, Any] = {"even": is_even, "order": Order.COL if is_even else None}
    a = _store(case, source, first, batch, mode, shared=shares[0], **even)
    b = _store(case, source, second, batch, mode, shared=shares[1], **even)
    post = Post(case, target, m, n, batch) if is_plain else None
    order = case.choose(Order.COL, Order.COL, Order.ROW)
    if is_even or (post and post.kind != E.DEFAULT):
        order = Order.COL
    in_place = case.choose(True, False)
    even["order"] = order
    c = _store(case, target, (m, n), batch, mode, **even)
    d = c
    if not in_place:
        d = _store(case, target, (m, n), batch, mode, blank=True, **even)
    scalars = _Scalars(case, scale, is_integer, m, len(a.values))
    desc = cublaslt.MatmulDescriptor(
        compute, scale, transa=operations[0], transb=operations[1], **scalars.arguments,
        **(post.arguments if post else {}), library=handle.library,
    )  # fmt: skip
    try:
        chosen = _choose(case, desc, a, b, c, d)
        cublaslt.matmul(
            handle, desc, a.data, a.layout, b.data, b.layout, c.data, c.layout, d.data, d.layout,
            **chosen, alpha=scalars.alpha, beta=scalars.beta,
        )  # fmt: skip
    except CublasBadParam as error:  # so cublasLt refuses some products of two types
        if source == target:
            raise
        raise NotSupported(str(error)) from None
    left, right = _op(operations[0], a.values), _op(operations[1], b.values)
    want = scalars.factor * (left @ right) + scalars.old_factor * c.values
    want = post(want, left, right) if post else want
    want = np.rint(want) if numpy_dtype(target).kind == "i" else want
    slack = 1 + np.sqrt(k)
    precision = source if compute != ComputeType.COMPUTE_32F else target
    d.check(want, precision if not is_integer else target, slack)
    if post:
        post.check(slack)


def _choose(case: Case, desc: Any, a: Stored, b: Stored, c: Stored, d: Stored) -> dict[str, Any]:
    """No algorithm, or one of those that the heuristic proposes, with just its workspace."""
    if case.choose(True, False):
        return {}
    library = case.context.cublaslt.library
    records = cublaslt.get_heuristics(
        case.context.cublaslt, desc, a.layout, b.layout, c.layout, d.layout,
        cublaslt.MatmulPreference(1 << 20, library=library), 4,
    )  # fmt: skip
    record = records[case.integer(0, len(records) - 1)]
    return {"algorithm": record.algorithm, "workspace": case.scratch(record.workspace)}


class _Scalars:
    """alpha and beta in a random pointer mode; ``factor`` and ``old_factor`` are their numbers."""

    def __init__(self, case: Case, scale: str, is_integer: bool, rows: int, batch: int) -> None:
        dtype = numpy_dtype(scale)
        mode = PointerMode.HOST
        if not is_integer and case.choose(*range(4)) == 0:
            mode = case.choose(*PointerMode)
        self.arguments: dict[str, Any] = {"pointer_mode": mode}
        number = 1 if is_integer else case.choose(1.0, -0.5)
        old = case.choose(0, 1) if is_integer else case.choose(0.0, 2.0)
        if dtype.kind == "c":
            number = number * (1 - 0.5j)
        if mode == PointerMode.ALPHA_DEVICE_VECTOR_BETA_ZERO:
            old = 0.0
        self.alpha, self.beta = self.factor, self.old_factor = number, old
        if mode == PointerMode.DEVICE:
            self.alpha, self.beta = (case.put(np.array([x], dtype)) for x in (number, old))
        elif mode != PointerMode.HOST:
            vector = _numbers(case, (rows,), dtype)
            self.alpha, self.factor = case.put(vector.astype(dtype)), vector[:, np.newaxis]
        if mode == PointerMode.DEVICE_VECTOR:
            olds = _numbers(case, (rows,), dtype)
            self.beta, self.old_factor = case.put(olds.astype(dtype)), olds[:, np.newaxis]


def _float8(case: Case) -> None:
    """Products of 8-bit floats, in the one form that Hopper has: A transposed, sizes of 16."""
    handle = case.context.cublaslt
    m, n, k = (16 * case.integer(1, 4) for _ in range(3))
    kinds = case.choose(
        ("float8_e4m3fn", "float8_e4m3fn"), ("float8_e4m3fn", "float8_e5m2"),
        ("float8_e5m2", "float8_e4m3fn"),
    )  # fmt: skip
    target = case.choose("bfloat16", "float16", "float32")
    layouts, values, buffers = [], [], []
    for kind, columns in zip(kinds, (m, n), strict=True):
        layout = cublaslt.MatrixLayout(kind, k, columns, library=handle.library)
        held = case.rng.uniform(-1, 1, (columns, k)).astype(layout.dtype)
        layouts.append(layout)
        values.append(held.astype(np.float64))
        buffers.append(case.put(held))
    d_layout = cublaslt.MatrixLayout(target, m, n, library=handle.library)
    d = case.put(nan_filled(m * n, numpy_dtype(target)).reshape(n, m))
    scales = [case.choose(0.5, 2.0, 1.0) for _ in range(2)]
    a_scale, b_scale = (case.put(np.array([scale], np.float32)) for scale in scales)
    desc = cublaslt.MatmulDescriptor(
        transa=Operation.T, a_scale=a_scale, b_scale=b_scale, fast_accum=case.choose(True, False),
        library=handle.library,
    )  # fmt: skip
    cublaslt.matmul(
        handle, desc, buffers[0], layouts[0], buffers[1], layouts[1], None, None, d, d_layout,
        workspace=case.scratch(1 << 20), alpha=0.5,
    )  # fmt: skip
    want = 0.5 * scales[0] * scales[1] * values[1] @ values[0].T
    case.compare(case.get(d).astype(np.float64), want, "bfloat16")


# ---- transformations -----------------------------------------------------------------------------


@problem("cublasLtMatrixTransform")
def matrix_transform(case: Case) -> None:
    """C = alpha op(A) + beta op(B), between types and orders."""
    handle = case.context.cublaslt
    if case.choose(*range(6)) == 0:
        _tiles(case)
        return
    scale = case.choose("float32", "float32", "float64")
    types = ("float64",) if scale == "float64" else ("float32", "float16", "bfloat16", "int8")
    source, target = case.choose(*types), case.choose(*types)
    is_integer = "int8" in (source, target)
    m, n, batch = case.integer(1, 40), case.integer(1, 40), case.choose(1, 1, 3)
    operations = case.choose(0, 1), case.choose(0, 1)
    shapes = [(n, m) if operation else (m, n) for operation in operations]
    a = _store(case, source, shapes[0], batch, BatchMode.STRIDED)
    b = _store(case, source, shapes[1], batch, BatchMode.STRIDED)
    c = _store(case, target, (m, n), batch, BatchMode.STRIDED, blank=True)
    alpha, beta = (2.0, -1.0) if is_integer else (case.choose(0.5, -2.0), case.choose(0.0, 1.5))
    if target == "int8" and source != "int8":
        alpha, beta = 32.0, 8.0  # numbers worth rounding
    mode = case.choose(PointerMode.HOST, PointerMode.HOST, PointerMode.DEVICE)
    factors: list[Any] = [alpha, beta]
    if mode == PointerMode.DEVICE:
        factors = [case.put(np.array([x], numpy_dtype(scale))) for x in factors]
    desc = cublaslt.MatrixTransformDescriptor(
        scale, transa=operations[0], transb=operations[1], pointer_mode=mode,
        library=handle.library,
    )  # fmt: skip
    both = mode == PointerMode.DEVICE or case.choose(True, False)
    others = (b.data, b.layout) if both else (None, None)
    cublaslt.matrix_transform(
        handle, desc, a.data, a.layout, *others, c.data, c.layout, alpha=factors[0],
        beta=factors[1],
    )  # fmt: skip
    want = alpha * _op(operations[0], a.values)
    want = want + beta * _op(operations[1], b.values) if both else want
    if target == "int8":
        want = np.rint(want)
    c.check(want, target, 2.0)


def _tiles(case: Case) -> None:
    """Into an order of tiles and back; only the real library has them."""
    handle = case.context.cublaslt
    dtype, order = case.choose("int8", "float32"), case.choose(Order.COL32, Order.COL4_4R2_8C)
    a = _store(case, dtype, (case.integer(1, 70), case.integer(1, 70)), 1, BatchMode.STRIDED)
    shape = (a.layout.rows, a.layout.columns)
    back = _store(case, dtype, shape, 1, BatchMode.STRIDED, blank=True)
    tiled = cublaslt.MatrixLayout(dtype, *shape, order=order, library=handle.library)
    between = case.put(nan_filled(tiled.extent // a.dtype.itemsize, a.dtype))
    desc = cublaslt.MatrixTransformDescriptor(library=handle.library)
    for source, source_layout, target, target_layout in (
        (a.data, a.layout, between, tiled), (between, tiled, back.data, back.layout),
    ):  # fmt: skip
        cublaslt.matrix_transform(
            handle, desc, source, source_layout, None, None, target, target_layout
        )
    back.check(a.values, dtype, 1.0)
