"""The two calls that compute: products with what follows them, and transformations of matrices."""

from __future__ import annotations

import ctypes
import math
from contextlib import ExitStack
from numbers import Number
from typing import Any

from pycudnn import _core
from pycudnn.abi.cublas_enums import CudaDataType
from pycudnn.abi.cublaslt_enums import MatmulMatrixScale, PointerMode
from pycudnn.abi.types import HANDLES
from pycudnn.cublas._elements import Room
from pycudnn.cublas._engine import Frames
from pycudnn.cublas._shapes import Block
from pycudnn.cublaslt import heuristics
from pycudnn.cublaslt._memory import Memory
from pycudnn.cublaslt._operands import Operands
from pycudnn.cublaslt._problem import Problem, operated, read_problem
from pycudnn.cublaslt._types import element_of
from pycudnn.cublaslt.algorithm import Algorithm
from pycudnn.cublaslt.descriptor import MatmulDescriptor
from pycudnn.cublaslt.handle import Handle
from pycudnn.cublaslt.layout import MatrixLayout
from pycudnn.cublaslt.preference import MatmulPreference
from pycudnn.cublaslt.transform_descriptor import MatrixTransformDescriptor
from pycudnn.cudnn._objects import require

_NO_LAYOUT = HANDLES["cublasLtMatrixLayout_t"]()
# Where alpha and beta are: a number, a buffer of one, or a buffer of one for each row of D.
_NUMBER, _ONE, _ROWS = range(3)
_KINDS = {
    PointerMode.HOST: (_NUMBER, _NUMBER),
    PointerMode.DEVICE: (_ONE, _ONE),
    PointerMode.DEVICE_VECTOR: (_ROWS, _ROWS),
    PointerMode.ALPHA_DEVICE_VECTOR_BETA_ZERO: (_ROWS, _NUMBER),
    PointerMode.ALPHA_DEVICE_VECTOR_BETA_HOST: (_ROWS, _NUMBER),
}


def matmul(
    handle: Handle,
    desc: MatmulDescriptor,
    a: Any,
    a_layout: MatrixLayout,
    b: Any,
    b_layout: MatrixLayout,
    c: Any | None,
    c_layout: MatrixLayout | None,
    d: Any,
    d_layout: MatrixLayout,
    algorithm: Algorithm | None = None,
    workspace: Any = None,
    *,
    alpha: Any = 1.0,
    beta: Any = 0.0,
) -> None:
    """D = epilogue(alpha op(A) op(B) + beta C), once or for each of a batch (cublasLtMatmul).

    op(A) is m x k, op(B) k x n, C and D m x n. ``c`` and ``c_layout`` may be None where ``beta`` is
    the number 0; D may be C if both are laid out alike. ``algorithm`` None has cublasLt choose one
    that makes do with the ``workspace``, which must be aligned to 256 bytes. alpha and beta are
    numbers of the descriptor's scale type, or where its pointer mode says so buffers.

    ValueError for shapes that do not fit, memory that is too small, not aligned or overlaps,
    TypeError for memory of another type, NotSupported if cublasLt has no such product.
    """
    problem = read_problem(handle, desc, a_layout, b_layout, c_layout, d_layout)
    with ExitStack() as stack:
        frames = Frames(handle, stack)
        operands = Operands(frames)
        scalars = Scalars(operands, problem.desc.plan.pointer_mode, problem.desc.plan.scale_type)
        factor = scalars.address(alpha, "alpha", problem.m, *_alpha_batch(problem))
        old_factor = scalars.address(beta, "beta", problem.m)
        at = {
            name: operands.matrix(value, name, layout, writes=name == "d")
            for name, value, layout in zip("abcd", (a, b, c, d), problem.layouts, strict=True)
            if name != "c" or c is not None
        }
        if c is None and not scalars.is_zero("beta"):
            raise ValueError(f"c must be memory with beta = {beta!r}, got None")
        in_place = problem.layouts[2] == problem.layouts[3]
        if scalars.is_zero("beta"):  # C is not read: it may as well be D
            at["c"] = at["d"]
            problem = problem.with_c_as_d()
        for memory in problem.desc.memory.values():
            _place(memory, problem, operands)
        if problem.desc.emulated is not None:
            for memory in problem.desc.emulated.memory:
                memory.place(operands, _VALUE)
        if algorithm is None and problem.layouts[2] != problem.layouts[3]:
            algorithm = _choose(handle, problem, operands, workspace)
        needed = 0
        if algorithm is not None:
            needed = heuristics.check(handle, problem, algorithm).workspace
            _check_alignment(algorithm, problem, operands)
        space = operands.workspace(workspace, needed)
        operands.check_overlaps(in_place=in_place)
        layouts = problem.layouts
        frames.main(
            "cublasLtMatmul",
            handle, problem.desc, factor, at["a"], layouts[0], at["b"], layouts[1],
            old_factor, at["c"], layouts[2], at["d"], layouts[3],
            None if algorithm is None else ctypes.byref(algorithm.struct), *space,
            handle.stream.handle,
        )  # fmt: skip


def matrix_transform(
    handle: Handle,
    desc: MatrixTransformDescriptor,
    a: Any | None,
    a_layout: MatrixLayout | None,
    b: Any | None,
    b_layout: MatrixLayout | None,
    c: Any,
    c_layout: MatrixLayout,
    *,
    alpha: Any = 1.0,
    beta: Any = 0.0,
) -> None:
    """C = alpha op(A) + beta op(B), from any type and order into any other
    (cublasLtMatrixTransform).

    A or B with its layout may be None, which leaves it out, but not with a pointer mode of DEVICE.
    C must not overlap them. Errors as in ``matmul``.
    """
    require(handle, Handle, "handle")
    require(desc, MatrixTransformDescriptor, "desc")
    require(c_layout, MatrixLayout, "c_layout")
    sources = (("a", a, a_layout, desc.operations[0]), ("b", b, b_layout, desc.operations[1]))
    if a is None and b is None:
        raise ValueError("a or b must be memory, got None for both")
    for name, value, layout, operation in sources:
        if (value is None) != (layout is None):
            raise ValueError(f"{name} and {name}_layout must both be given or both be None")
        if layout is None:
            if desc.mode == PointerMode.DEVICE:  # a factor that is not 0 would have it read
                raise ValueError(f"{name} must be memory with the pointer_mode DEVICE, got None")
            continue
        require(layout, MatrixLayout, f"{name}_layout")
        shape = operated(operation, layout.shape)
        if (shape, layout.batch[:2]) != (c_layout.shape, c_layout.batch[:2]):
            raise ValueError(
                f"{name}_layout: op({name.upper()}) must have the shape and batch of C, "
                f"got {layout!r} for {c_layout!r}"
            )
    with ExitStack() as stack:
        frames = Frames(handle, stack)
        operands = Operands(frames)
        scalars = Scalars(operands, desc.mode, desc.scale)
        factors = [scalars.address(alpha, "alpha"), scalars.address(beta, "beta")]
        for place, layout in enumerate((a_layout, b_layout)):
            if layout is None:
                factors[place] = scalars.address(0.0, ("alpha", "beta")[place])
        addresses = [
            0 if layout is None else operands.matrix(value, name, layout, writes=False)
            for name, value, layout, _ in sources
        ]
        result = operands.matrix(c, "c", c_layout, writes=True)
        operands.check_overlaps()
        frames.main(
            "cublasLtMatrixTransform",
            handle, desc,
            factors[0], addresses[0], _NO_LAYOUT if a_layout is None else a_layout,
            factors[1], addresses[1], _NO_LAYOUT if b_layout is None else b_layout,
            result, c_layout, handle.stream.handle,
        )  # fmt: skip


# ---- scaling factors -----------------------------------------------------------------------------


class Scalars:
    """alpha and beta of one call, as its descriptor's pointer mode wants them."""

    def __init__(self, operands: Operands, mode: PointerMode, scale_type: CudaDataType) -> None:
        self._operands = operands
        self._mode = mode
        self._element = element_of(scale_type)
        self._rooms: dict[str, Room] = {}

    def address(self, value: Any, name: str, rows: int = 1, count: int = 1, apart: int = 0) -> int:
        """Where a factor is: in host memory or a buffer's; ``count`` vectors for a batch."""
        kind = _KINDS[self._mode][name == "beta"]
        but = f"{name} is {value!r}, but the descriptor's pointer_mode is {self._mode.name}"
        if kind == _NUMBER:
            if isinstance(value, _core.Buffer) or getattr(value, "shape", None):
                raise TypeError(f"{but}: pass a number")
            self._rooms[name] = room = Room(self._element)
            room.write(value, name)
            if self._mode == PointerMode.ALPHA_DEVICE_VECTOR_BETA_ZERO and not self.is_zero("beta"):
                raise ValueError(f"{but}: pass 0")
            return room.address
        if value is None or isinstance(value, Number):
            raise TypeError(f"{but}: pass a buffer of {self._element.name}")
        length = rows if kind == _ROWS else 1
        block = Block(length, 1, length)
        return self._operands.place(value, name, block, self._element, False, count, apart)

    def is_zero(self, name: str) -> bool:
        """Is a factor the number 0?"""
        return name in self._rooms and self._rooms[name].read() == 0


def _alpha_batch(problem: Problem) -> tuple[int, int]:
    """How many alpha vectors there are, and how far apart."""
    apart = problem.desc.plan.alpha_stride
    return (problem.layouts[3].batch[1] if apart else 1, apart)


# ---- what the descriptor refers to ---------------------------------------------------------------

_VALUE = Block(1, 1, 1)
_PROPOSALS = 8
_AUX_ALIGNMENT = 16  # kernels read so much at a time, and fault for good on other addresses


def _place(memory: Memory, problem: Problem, operands: Operands) -> None:
    """Check memory of the descriptor against the product's sizes."""
    plan, m, n = problem.desc.plan, problem.m, problem.n
    batch = problem.layouts[3].batch[1]
    if memory.name == "bias":
        length = n if plan.parts.is_by_column else m
        apart = plan.bias_stride
        memory.place(operands, Block(length, 1, length), batch, apart)
    elif memory.name == "aux":
        if plan.aux_ld < m:
            raise ValueError(f"aux_ld must be at least the {m} rows of D, got {plan.aux_ld}")
        bits = 8 if plan.parts.is_mask else 1
        width, apart = plan.aux_ld // bits, plan.aux_stride // bits
        memory.place(operands, Block(width if bits == 8 else m, n, width), batch, apart)
        if memory.address % _AUX_ALIGNMENT:
            raise ValueError(
                f"aux must be aligned to {_AUX_ALIGNMENT} bytes, got the address "
                f"{memory.address:#x}"
            )
    else:
        count = 1
        for name, mode, length in zip(
            ("a_scale", "b_scale"), plan.scale_modes, (m, n), strict=True
        ):
            if memory.name == name and mode == MatmulMatrixScale.OUTER_VEC_32F:
                count = length
        memory.place(operands, Block(count, 1, count))


# ---- alignment -----------------------------------------------------------------------------------


def _choose(handle: Handle, problem: Problem, operands: Operands, workspace: Any) -> Algorithm:
    """An algorithm for a C that is laid out otherwise than D: cublasLt's own choice may fault."""
    alignments = {
        f"min_alignment_{name}": math.gcd(layout.alignment, *operands.starts.get(name, ()))
        for name, layout in zip("abcd", problem.layouts, strict=True)
    }
    room = getattr(workspace, "nbytes", 0)
    preference = MatmulPreference(room, **alignments, library=handle.library)
    return heuristics.search(handle, problem, preference, _PROPOSALS).best.algorithm


def _check_alignment(algorithm: Algorithm, problem: Problem, operands: Operands) -> None:
    """Operands must lie as the algorithm needs them."""
    for name, layout in zip("abcd", problem.layouts, strict=True):
        needed = algorithm.alignments[name]
        if layout.alignment % needed:
            raise ValueError(
                f"{name}_layout must have its leading dimension and stride at multiples of "
                f"{needed} bytes for this algorithm, got {layout!r}"
            )
        for start in operands.starts.get(name, ()):
            if start % needed:
                raise ValueError(
                    f"{name} must be aligned to {needed} bytes for this algorithm, got the "
                    f"address {start:#x}: ask get_heuristics with a MatmulPreference of "
                    f"min_alignment_{name}={start & -start}"
                )
