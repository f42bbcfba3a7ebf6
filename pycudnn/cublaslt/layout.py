"""Matrix layouts: where the elements of a matrix, or of each matrix of a batch, lie."""

from __future__ import annotations

import math
from ctypes import c_int32, c_int64, c_uint32, c_uint64
from typing import Any

from pycudnn.abi.cublaslt_enums import BatchMode, MatrixLayoutAttribute, Order
from pycudnn.cublas._shapes import Block
from pycudnn.cublaslt._attributes import Attribute, Descriptor, attribute, known
from pycudnn.cublaslt._types import dtype_of, element_of, type_code
from pycudnn.cudnn._objects import LONG_MAX, integer, member
from pycudnn.libraries import Library, find_library

_ALIGNED = 256  # bytes; nothing asks for more
A = MatrixLayoutAttribute
_TYPE = Attribute(A.MATRIX_LAYOUT_TYPE, c_uint32)
_ORDER = Attribute(A.MATRIX_LAYOUT_ORDER, c_int32, Order.COL)
_ROWS = Attribute(A.MATRIX_LAYOUT_ROWS, c_uint64)
_COLUMNS = Attribute(A.MATRIX_LAYOUT_COLS, c_uint64)
_LD = Attribute(A.MATRIX_LAYOUT_LD, c_int64)
_BATCH_COUNT = Attribute(A.MATRIX_LAYOUT_BATCH_COUNT, c_int32, 1)
_BATCH_STRIDE = Attribute(A.MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, c_int64)
_PLANE_OFFSET = Attribute(A.MATRIX_LAYOUT_PLANE_OFFSET, c_int64)
_BATCH_MODE = Attribute(A.MATRIX_LAYOUT_BATCH_MODE, c_uint32, BatchMode.STRIDED)

# Orders of whole tiles: columns in a tile, and what its rows are padded to.
_TILES = {Order.COL32: (32, 1), Order.COL4_4R2_8C: (32, 8), Order.COL32_2R_4R4: (32, 32)}


class MatrixLayout(Descriptor):
    """A matrix of ``rows`` x ``columns`` in memory (cublasLtMatrixLayoutCreate).

    ``dtype`` is a NumPy dtype, its name ("bfloat16", "float8_e4m3fn" too) or a CudaDataType. ``ld``
    counts elements from one column to the next, from one row to the next with ``order`` ROW, and
    from one group of 32 columns to the next in the orders of tiles; None is the least there can be.
    ``batch_count`` matrices lie ``batch_stride`` elements apart: None is one after the other, 0 one
    for all products. With ``batch_mode`` POINTER_ARRAY the operand is a list of so many buffers.

    ValueError for sizes below 1, a leading dimension that is too small, a matrix larger than any
    memory, and an unknown type.
    """

    c_type = "cublasLtMatrixLayout_t"
    NOUN = "MatrixLayout"
    SHOWN = ("data_type", "rows", "columns", "ld", "order", "batch_count", "batch_stride")

    def __init__(
        self,
        dtype: Any,
        rows: int,
        columns: int,
        ld: int | None = None,
        *,
        order: Order = Order.COL,
        batch_count: int = 1,
        batch_stride: int | None = None,
        batch_mode: BatchMode = BatchMode.STRIDED,
        library: Library | str | None = None,
    ) -> None:
        code = type_code(dtype, "dtype")
        rows = integer(rows, "rows", 1, LONG_MAX)
        columns = integer(columns, "columns", 1, LONG_MAX)
        order = member(Order, order, "order")
        batch_mode = member(BatchMode, batch_mode, "batch_mode")
        if batch_mode == BatchMode.GROUPED:
            raise ValueError("batch_mode must be STRIDED (0) or POINTER_ARRAY (1), got GROUPED (2)")
        count = integer(batch_count, "batch_count", 1)
        length, runs = _runs(order, rows, columns)
        step = length if ld is None else integer(ld, "ld", 1, LONG_MAX)
        if step < length:
            raise ValueError(
                f"ld must be at least {length} for {rows} x {columns} in the order {order.name}, "
                f"got {step}"
            )
        self.block = Block(length, runs, step)
        apart = 0
        if batch_stride is not None:
            apart = integer(batch_stride, "batch_stride", 0, LONG_MAX)
        elif count > 1 and batch_mode == BatchMode.STRIDED:
            apart = step * runs
        if batch_mode == BatchMode.POINTER_ARRAY and apart:
            raise ValueError(f"batch_stride must be 0 or None with POINTER_ARRAY, got {apart}")
        self.code, self.element = code, element_of(code)
        span = self.block.span + (count - 1) * apart
        if span * self.element.nbytes > LONG_MAX:
            raise ValueError(
                f"{rows} x {columns} with ld={step}, batch_count={count}, batch_stride={apart} "
                "is more than any memory"
            )
        self.shape, self.order_code = (rows, columns), order
        self.batch = (batch_mode, count, apart)
        arguments = {
            "dtype": code, "rows": rows, "columns": columns, "ld": step, "order": order,
            "batch_count": count, "batch_stride": apart, "batch_mode": batch_mode,
        }  # fmt: skip
        values = {
            _ORDER: order, _BATCH_COUNT: count, _BATCH_STRIDE: apart, _BATCH_MODE: batch_mode,
        }  # fmt: skip
        found = find_library("cublaslt", library)
        self._build(found, arguments, (code, rows, columns, step), values)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of an element, or its CudaDataType where NumPy has none."""
        return dtype_of(self.data_type)

    @property
    def extent(self) -> int:
        """Bytes from the first element to the last, of the whole batch if it lies in strides."""
        _, count, apart = self.batch
        return (self.block.span + (count - 1) * apart) * self.element.nbytes

    @property
    def alignment(self) -> int:
        """What all columns (or rows) and matrices lie at multiples of, if the first one does."""
        _, count, apart = self.batch
        steps = [self.block.step] if self.block.runs > 1 else []
        steps += [apart] if count > 1 else []
        return math.gcd(*(step * self.element.nbytes for step in steps), _ALIGNED)

    data_type = attribute(_TYPE, lambda code: type_code(code, "dtype"), "The CudaDataType.")
    rows = attribute(_ROWS, int, "The rows of each matrix.")
    columns = attribute(_COLUMNS, int, "The columns of each matrix.")
    ld = attribute(_LD, int, "The leading dimension, in elements.")
    order = attribute(_ORDER, known(Order), "By columns, by rows, or in tiles: an Order.")
    batch_count = attribute(_BATCH_COUNT, int, "How many matrices there are.")
    batch_stride = attribute(_BATCH_STRIDE, int, "Elements from one matrix to the next.")
    batch_mode = attribute(_BATCH_MODE, known(BatchMode), "How a batch is given: a BatchMode.")


def _runs(order: Order, rows: int, columns: int) -> tuple[int, int]:
    """Elements of a contiguous run, and how many runs there are."""
    if order == Order.COL:
        return rows, columns
    if order == Order.ROW:
        return columns, rows
    width, unit = _TILES[order]
    return width * (-(-rows // unit) * unit), -(-columns // width)
