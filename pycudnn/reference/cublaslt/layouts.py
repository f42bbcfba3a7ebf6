"""Matrices in memory as their layouts say: column- or row-major, one or a batch."""

from __future__ import annotations

from typing import NamedTuple

from pycudnn.abi.cublaslt_enums import BatchMode, MatrixLayoutAttribute, Order

from ..cublas.products_ex import CUDA_TYPES
from ..cublas.storage import Array, DType, array, invalid, not_supported, pointers
from .attributes import MatrixLayout

Layout = MatrixLayoutAttribute


class Matrix(NamedTuple):
    """What a layout says, checked."""

    name: str
    dtype: DType
    rows: int
    columns: int
    steps: tuple[int, int]
    batch: int
    stride: int
    by_pointers: bool

    def views(self, address: int) -> list[Array]:
        """Each matrix of the batch, rows x columns."""
        if self.by_pointers:
            places = pointers(address, self.batch, self.name)
        else:
            if not address and self.rows * self.columns:
                raise invalid(f"{self.name} is NULL")
            step = self.stride * self.dtype.itemsize
            places = [address + i * step for i in range(self.batch)]
        shape = (self.rows, self.columns)
        return [array(place, self.dtype, shape, self.steps, self.name) for place in places]


def read_layout(layout: MatrixLayout, name: str) -> Matrix:
    """Check a layout: INVALID_VALUE for what cannot be, NOT_SUPPORTED for what is not served."""
    rows, columns = layout[Layout.MATRIX_LAYOUT_ROWS], layout[Layout.MATRIX_LAYOUT_COLS]
    ld, order = layout[Layout.MATRIX_LAYOUT_LD], layout[Layout.MATRIX_LAYOUT_ORDER]
    batch = layout[Layout.MATRIX_LAYOUT_BATCH_COUNT]
    stride = layout[Layout.MATRIX_LAYOUT_STRIDED_BATCH_OFFSET]
    mode = layout[Layout.MATRIX_LAYOUT_BATCH_MODE]
    if order not in tuple(Order):
        raise invalid(f"the order of {name} is {order}, must be a cublasLtOrder_t")
    dtype = CUDA_TYPES.get(layout[Layout.MATRIX_LAYOUT_TYPE])
    served = order in (Order.COL, Order.ROW) and mode in (
        BatchMode.STRIDED,
        BatchMode.POINTER_ARRAY,
    )
    if dtype is None or not served or layout[Layout.MATRIX_LAYOUT_PLANE_OFFSET]:
        raise not_supported(f"{name}: type, order, batch mode or planes that are not served")
    along = rows if order == Order.COL else columns
    if not rows or not columns or ld < along:
        raise invalid(f"{name} is {rows} x {columns} with a leading dimension of {ld}")
    if batch < 1 or stride < 0:
        raise invalid(f"{name} has a batch count of {batch} and a stride of {stride}")
    steps = (1, ld) if order == Order.COL else (ld, 1)
    by_pointers = mode == BatchMode.POINTER_ARRAY
    return Matrix(name, dtype, rows, columns, steps, batch, stride, by_pointers)
