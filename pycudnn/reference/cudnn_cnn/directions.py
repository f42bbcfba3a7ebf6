"""Forward, backward data, backward filter: their algorithms, which is best, and running one.

The three directions have the same C functions under different names. In each, two operands and a
result play the roles of x, w and y:

==================  =========  =========  ======
direction           operand 1  operand 2  result
==================  =========  =========  ======
Forward             x          w          y
BackwardData        w          dy         dx
BackwardFilter      x          dy         dw
==================  =========  =========  ======
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi import types
from pycudnn.abi.cudnn_enums import (
    ConvolutionBwdDataAlgo,
    ConvolutionBwdFilterAlgo,
    ConvolutionFwdAlgo,
    Determinism,
)
from pycudnn.abi.cudnn_enums import Status as CudnnStatus

from .. import convolution
from ..convolution import Array, Geometry
from ..cudnn_graph import Handle
from ..cudnn_ops.vectors import joined, split
from ..descriptors import Filter, Tensor
from ..memory import blend, compute_dtype, numpy_dtype, raw, read_scalar, view, write
from ..runtime import bad_param, implements, not_supported
from .descriptor import Convolution, checked_geometry
from .int8 import check_int8, is_int8, load_input, load_weights

Descriptor = Tensor | Filter


class Algorithm(NamedTuple):
    """A way to compute one direction."""

    compute: Callable[..., None]  # a function of the module convolution
    keeps: str | None = None  # what it keeps in the workspace: "columns", "table", or nothing


class Direction(NamedTuple):
    """One of the three, with the algorithms that are here, as a rule the fastest first."""

    name: str
    algorithms: type[IntEnum]
    record: Any
    offered: dict[IntEnum, Algorithm]
    roles: tuple[int, int, int]  # where x, w and y stand among (operand 1, operand 2, result)
    check_types: Callable[[Convolution, Tensor, Filter, Tensor], None] | None = None


# Every algorithm is deterministic here: sums are always taken in the same order.
FORWARD = Direction(
    "Forward",
    ConvolutionFwdAlgo,
    types.cudnnConvolutionFwdAlgoPerf_t,
    {
        ConvolutionFwdAlgo.IMPLICIT_GEMM: Algorithm(convolution.forward),
        ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM: Algorithm(convolution.forward, "table"),
        ConvolutionFwdAlgo.GEMM: Algorithm(convolution.forward, "columns"),
    },
    (0, 1, 2),
)
_FORWARD_INT8 = FORWARD._replace(
    offered={
        member: FORWARD.offered[member]
        for member in (ConvolutionFwdAlgo.IMPLICIT_GEMM, ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM)
    },
    check_types=check_int8,
)
BACKWARD_DATA = Direction(
    "BackwardData",
    ConvolutionBwdDataAlgo,
    types.cudnnConvolutionBwdDataAlgoPerf_t,
    {
        ConvolutionBwdDataAlgo.ALGO_0: Algorithm(convolution.backward_data_scattered),
        ConvolutionBwdDataAlgo.ALGO_1: Algorithm(convolution.backward_data_gathered),
    },
    (2, 0, 1),
)
BACKWARD_FILTER = Direction(
    "BackwardFilter",
    ConvolutionBwdFilterAlgo,
    types.cudnnConvolutionBwdFilterAlgoPerf_t,
    {
        ConvolutionBwdFilterAlgo.ALGO_0: Algorithm(convolution.backward_filter),
        ConvolutionBwdFilterAlgo.ALGO_3: Algorithm(convolution.backward_filter, "table"),
        ConvolutionBwdFilterAlgo.ALGO_1: Algorithm(convolution.backward_filter_by_taps),
    },
    (0, 2, 1),
)


# --- what every function below starts with -------------------------------------------------------


def _geometry(
    direction: Direction, conv: Convolution, first: Descriptor, second: Descriptor, out: Descriptor
) -> Geometry:
    """The sizes, from descriptors that must fit each other."""
    x, w, y = ((first, second, out)[role] for role in direction.roles)
    return checked_geometry(conv, x, w, y, direction.check_types)  # type: ignore[arg-type]


def of_type(direction: Direction, first: Descriptor) -> Direction:
    """The direction as it is for an operand of this type."""
    return _FORWARD_INT8 if direction is FORWARD and is_int8(first) else direction


def _algorithm(direction: Direction, algo: int) -> Algorithm:
    """The algorithm of that number, if it is one of ours."""
    for member, algorithm in direction.offered.items():
        if member == algo:
            return algorithm
    known = ", ".join(f"{member.name} ({member})" for member in direction.offered)
    raise not_supported(f"algo {algo} is not in the reference library, only {known} are")


def _workspace_bytes(algorithm: Algorithm, geometry: Geometry, first: Descriptor) -> int:
    if algorithm.keeps == "columns":  # not for int8
        item = compute_dtype(numpy_dtype(first.dtype)).itemsize
        return geometry.batch * geometry.columns_per_image * item
    if algorithm.keeps == "table":
        return math.prod(geometry.table) * np.dtype(np.intp).itemsize
    return 0


def _compute(
    algorithm: Algorithm,
    geometry: Geometry,
    workspace: Array,
    first: Array,
    second: Array,
    out: Array,
    alpha: float,
    beta: float,
) -> None:
    """Run the algorithm, with what it keeps laid into the bytes of `workspace`."""
    kept: dict[str, Array] = {}
    if algorithm.keeps == "columns":
        kept["columns"] = workspace.view(compute_dtype(first.dtype))
    if algorithm.keeps == "table":
        kept["table"] = workspace.view(np.intp).reshape(geometry.table)
        convolution.window_table(geometry, kept["table"])
    algorithm.compute(geometry, first, second, out, alpha, beta, **kept)


def _bytes_at(address: int, size: int) -> Array:
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(raw(address, size), np.uint8)


def prepare(
    direction: Direction,
    first: Descriptor,
    second: Descriptor,
    conv: Convolution,
    out: Descriptor,
    algo: int,
    workspace: int,
    workspace_size: int,
) -> Callable[[Array, Array, Array, float, float], None]:
    """The function (operand 1, operand 2, result, alpha, beta) that an algorithm comes down to.

    All that can be told from the descriptors is checked first.
    """
    geometry = _geometry(direction, conv, first, second, out)
    algorithm = _algorithm(direction, algo)
    needed = _workspace_bytes(algorithm, geometry, first)
    given = workspace_size if workspace else 0
    if given < needed:
        raise bad_param(f"the workspace has {given} bytes, the algorithm needs {needed}")
    return partial(_compute, algorithm, geometry, _bytes_at(workspace, needed))


def load_operands(
    direction: Direction,
    conv: Convolution,
    first: Descriptor,
    first_data: int,
    second: Descriptor,
    second_data: int,
) -> tuple[Array, Array]:
    """Both operands as the algorithms take them: as they lie, or int8 as float64."""
    if isinstance(first, Tensor) and isinstance(second, Filter) and direction is _FORWARD_INT8:
        return load_input(first, first_data), load_weights(conv, second, second_data)
    return view(first_data, first, "operand 1"), view(second_data, second, "operand 2")


# --- cudnnConvolutionForward, BackwardData, BackwardFilter ---------------------------------------


def convolve(
    direction: Direction,
    handle: Handle,
    alpha: int,
    first: Descriptor,
    first_data: int,
    second: Descriptor,
    second_data: int,
    conv: Convolution,
    algo: int,
    workspace: int,
    workspace_size: int,
    beta: int,
    out: Descriptor,
    out_data: int,
) -> None:
    """``result = alpha * convolution(operands) + beta * result``, by one algorithm."""
    direction = of_type(direction, first)
    run = prepare(direction, first, second, conv, out, algo, workspace, workspace_size)
    scale = read_scalar(alpha, out.dtype, "alpha"), read_scalar(beta, out.dtype, "beta")
    operands = load_operands(direction, conv, first, first_data, second, second_data)
    result = split(out_data, out, "the result")
    if direction is not _FORWARD_INT8:
        run(*operands, joined(result), *scale)
        return
    sums = np.empty(out.shape, np.float64)
    run(*operands, sums, 1.0, 0.0)
    blend(result, sums.astype(np.float32).reshape(result.shape), *scale)


# --- which algorithm -----------------------------------------------------------------------------


def get_max_count(direction: Direction, handle: Handle, count: int) -> None:
    """How many records a search has at most: one for each algorithm that cuDNN knows."""
    write(count, ctypes.c_int, direction.algorithms["COUNT"], "count")


def get_workspace_size(
    direction: Direction,
    handle: Handle,
    first: Descriptor,
    second: Descriptor,
    conv: Convolution,
    out: Descriptor,
    algo: int,
    size: int,
) -> None:
    """The bytes of workspace that an algorithm needs for this convolution."""
    direction = of_type(direction, first)
    geometry = _geometry(direction, conv, first, second, out)
    needed = _workspace_bytes(_algorithm(direction, algo), geometry, first)
    write(size, ctypes.c_size_t, needed, "sizeInBytes")


class _Record(NamedTuple):
    """One record of a search, in the order in which it is reported."""

    time: float  # milliseconds, -1 if not measured
    algorithm: IntEnum
    status: CudnnStatus
    memory: int


def _unsupported(direction: Direction) -> list[_Record]:
    return [
        _Record(-1.0, member, CudnnStatus.NOT_SUPPORTED, 0)
        for member in direction.algorithms
        if member.name != "COUNT" and member not in direction.offered
    ]


def _check_request(requested: int, returned: int, results: int) -> None:
    if requested < 1:
        raise bad_param(f"requestedAlgoCount is {requested}, must be at least 1")
    if not returned or not results:
        raise bad_param("returnedAlgoCount or perfResults is NULL")


def _report(
    direction: Direction,
    conv: Convolution,
    records: list[_Record],
    requested: int,
    returned: int,
    results: int,
) -> None:
    """Write the first `requested` records, and how many they are."""
    records = records[:requested]
    array = (direction.record * len(records)).from_address(results)
    for index, (milliseconds, algorithm, status, memory) in enumerate(records):
        array[index] = direction.record(
            algorithm, status, milliseconds, memory, Determinism.DETERMINISTIC, conv.math_type
        )
    write(returned, ctypes.c_int, len(records))


def get_algorithm(
    direction: Direction,
    handle: Handle,
    first: Descriptor,
    second: Descriptor,
    conv: Convolution,
    out: Descriptor,
    requested: int,
    returned: int,
    results: int,
) -> None:
    """Algorithms in the order of what they probably cost, without running any: time is -1."""
    direction = of_type(direction, first)
    geometry = _geometry(direction, conv, first, second, out)
    _check_request(requested, returned, results)
    ranked = [
        _Record(-1.0, member, CudnnStatus.SUCCESS, _workspace_bytes(algorithm, geometry, first))
        for member, algorithm in direction.offered.items()
    ]
    ranked += _unsupported(direction)
    _report(direction, conv, ranked, requested, returned, results)


def _timed(
    algorithm: Algorithm,
    geometry: Geometry,
    operands: tuple[Array, Array, Array],
    workspace: Array,
) -> float:
    """Milliseconds of a run, the faster one of two: the first also warms up caches and BLAS."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        _compute(algorithm, geometry, workspace, *operands, 1.0, 0.0)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def _search(
    direction: Direction,
    geometry: Geometry,
    first: Descriptor,
    operands: tuple[Array, Array, Array],
    workspace: Callable[[int], Array | None],
) -> list[_Record]:
    """Run every algorithm for which `workspace` has the bytes; the fastest come first."""
    ran, failed = [], []
    for member, algorithm in direction.offered.items():
        needed = _workspace_bytes(algorithm, geometry, first)
        space = workspace(needed)
        if space is None:
            too_small = CudnnStatus.INTERNAL_ERROR_UNEXPECTED_VALUE
            failed.append(_Record(-1.0, member, too_small, needed))
        else:
            duration = _timed(algorithm, geometry, operands, space)
            ran.append(_Record(duration, member, CudnnStatus.SUCCESS, needed))
    return sorted(ran) + failed + _unsupported(direction)


def _float64_zeros(descriptor: Descriptor) -> Array:
    """An operand as int8 is computed with."""
    return np.zeros(descriptor.shape)


def _zeros(descriptor: Descriptor) -> Array:
    """Memory of our own, laid out as the descriptor says."""
    dtype = numpy_dtype(descriptor.dtype)
    strides = [stride * dtype.itemsize for stride in descriptor.strides]
    last = sum((n - 1) * s for n, s in zip(descriptor.shape, descriptor.strides, strict=True))
    return np.ndarray(descriptor.shape, dtype, np.zeros(last + 1, dtype), 0, strides)


def find_algorithm(
    direction: Direction,
    handle: Handle,
    first: Descriptor,
    second: Descriptor,
    conv: Convolution,
    out: Descriptor,
    requested: int,
    returned: int,
    results: int,
) -> None:
    """Run and time every algorithm, on memory of the library's own; the fastest comes first."""
    direction = of_type(direction, first)
    geometry = _geometry(direction, conv, first, second, out)
    _check_request(requested, returned, results)
    blank = _zeros if direction is not _FORWARD_INT8 else _float64_zeros
    operands = blank(first), blank(second), blank(out)
    records = _search(
        direction, geometry, first, operands, lambda needed: np.empty(needed, np.uint8)
    )
    _report(direction, conv, records, requested, returned, results)


def find_algorithm_ex(
    direction: Direction,
    handle: Handle,
    first: Descriptor,
    first_data: int,
    second: Descriptor,
    second_data: int,
    conv: Convolution,
    out: Descriptor,
    out_data: int,
    requested: int,
    returned: int,
    results: int,
    workspace: int,
    workspace_size: int,
) -> None:
    """Run and time every algorithm on the caller's memory; the result is overwritten.

    One that needs more workspace than there is gets a record with the status that cuDNN gives it.
    """
    direction = of_type(direction, first)
    geometry = _geometry(direction, conv, first, second, out)
    _check_request(requested, returned, results)
    result = joined(split(out_data, out, "the result"))
    if direction is _FORWARD_INT8:
        result = np.empty(out.shape, np.float64)
    operands = (*load_operands(direction, conv, first, first_data, second, second_data), result)
    room = workspace_size if workspace else 0
    records = _search(
        direction,
        geometry,
        first,
        operands,
        lambda needed: _bytes_at(workspace, needed) if needed <= room else None,
    )
    _report(direction, conv, records, requested, returned, results)


for _direction in (FORWARD, BACKWARD_DATA, BACKWARD_FILTER):
    _name = f"Convolution{_direction.name}"
    implements(f"cudnn{_name}")(partial(convolve, _direction))
    implements(f"cudnnGet{_name}AlgorithmMaxCount")(partial(get_max_count, _direction))
    implements(f"cudnnGet{_name}WorkspaceSize")(partial(get_workspace_size, _direction))
    implements(f"cudnnGet{_name}Algorithm_v7")(partial(get_algorithm, _direction))
    implements(f"cudnnFind{_name}Algorithm")(partial(find_algorithm, _direction))
    implements(f"cudnnFind{_name}AlgorithmEx")(partial(find_algorithm_ex, _direction))
