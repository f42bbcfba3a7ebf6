"""A product's shapes, checked before cublasLt is asked anything."""

from __future__ import annotations

from typing import NamedTuple

from pycudnn.abi.cublas_enums import Operation
from pycudnn.cublaslt.descriptor import MatmulDescriptor
from pycudnn.cublaslt.handle import Handle
from pycudnn.cublaslt.layout import MatrixLayout
from pycudnn.cudnn._objects import require
from pycudnn.errors import LibraryMismatch

Shape = tuple[int, int]


class Problem(NamedTuple):
    """What a product's descriptors say together; D is m x n, sums have k terms."""

    desc: MatmulDescriptor
    layouts: tuple[MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout]
    m: int
    n: int
    k: int

    def with_c_as_d(self) -> Problem:
        """The same with C laid out as D, where they have one type."""
        a, b, c, d = self.layouts
        return self._replace(layouts=(a, b, d if c.code == d.code else c, d))


def operated(operation: Operation, shape: Shape) -> Shape:
    """The shape of op(matrix)."""
    return shape if operation == Operation.N else shape[::-1]


def read_problem(
    handle: Handle,
    desc: MatmulDescriptor,
    a_layout: MatrixLayout,
    b_layout: MatrixLayout,
    c_layout: MatrixLayout | None,
    d_layout: MatrixLayout,
) -> Problem:
    """Check the types of the objects and the shapes of a product; C is laid out as D if None."""
    require(handle, Handle, "handle")
    require(desc, MatmulDescriptor, "desc")
    for layout, name in ((a_layout, "a"), (b_layout, "b"), (d_layout, "d")):
        require(layout, MatrixLayout, f"{name}_layout")
    c_layout = d_layout if c_layout is None else c_layout
    require(c_layout, MatrixLayout, "c_layout")
    if not c_layout.address or c_layout.library is not handle.library:  # it may not be passed on
        raise LibraryMismatch(
            f"{c_layout!r} belongs to {c_layout.library!r}, this call runs on {handle.library!r}; "
            "make both with the same library"
        )
    layouts = (a_layout, b_layout, c_layout, d_layout)
    first, second = desc.plan.operations
    m, k = operated(first, a_layout.shape)
    inner, n = operated(second, b_layout.shape)
    if k != inner:
        raise ValueError(
            f"b_layout: op(B) must have the {k} rows that op(A) has columns, got {inner} x {n} "
            f"from {b_layout!r}"
        )
    for layout, name in ((d_layout, "d_layout"), (c_layout, "c_layout")):
        if layout.shape != (m, n):
            raise ValueError(f"{name} must be {m} x {n}, as op(A) op(B) is, got {layout!r}")
    if c_layout.order_code != d_layout.order_code:  # cublasLt has no such product
        raise ValueError(f"c_layout must have the order of {d_layout!r}, got {c_layout!r}")
    mode, count, _ = a_layout.batch
    for layout, name in ((b_layout, "b"), (d_layout, "d"), (c_layout, "c")):
        if layout.batch[:2] != (mode, count):
            raise ValueError(
                f"{name}_layout must have a batch of {count}, {mode.name}, as a_layout has, got "
                f"{layout.batch[1]}, {layout.batch[0].name}"
            )
    return Problem(desc._suited_to(a_layout.code), layouts, m, n, k)
