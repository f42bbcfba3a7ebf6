"""Which convolution algorithm: the heuristic, the search, workspace sizes and a choice.

The three directions have the same functions, which differ in the order of their descriptors
(C order): forward (x, w, conv, y), backward data (w, dy, conv, dx), backward filter
(x, dy, conv, dw).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from pycudnn import _core
from pycudnn.abi import types
from pycudnn.abi.cudnn_enums import (
    ConvolutionBwdDataAlgo,
    ConvolutionBwdFilterAlgo,
    ConvolutionFwdAlgo,
    Determinism,
    MathType,
    Status,
)
from pycudnn.cudnn._objects import LONG_MAX, integer, require
from pycudnn.cudnn.convolution import ConvolutionDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import FilterDescriptor, TensorDescriptor
from pycudnn.errors import (
    CudnnExecutionFailed,
    CudnnInternalError,
    NoAlgorithm,
    NotSupported,
)
from pycudnn.settings import config


class AlgorithmPerformance(NamedTuple):
    """One record of a search (cudnnConvolutionFwdAlgoPerf_t and its kind).

    ``time`` is in milliseconds, None where the heuristic only ranked; ``memory`` is the workspace
    in bytes. A record counts only if ``status`` is SUCCESS, and its algorithm is to be run with a
    convolution descriptor of its ``math_type``.
    """

    algorithm: IntEnum
    status: Status
    time: float | None
    memory: int
    determinism: Determinism
    math_type: MathType


class _Direction(NamedTuple):
    noun: str  # as in cudnnGetConvolution<noun>Algorithm_v7
    name: str  # of the functions here
    algorithms: type[IntEnum]
    record: Any
    descriptors: tuple[str, ...]  # in C order


_FORWARD = _Direction(
    "Forward", "{}_convolution_forward_algorithm", ConvolutionFwdAlgo,
    types.cudnnConvolutionFwdAlgoPerf_t, ("x_desc", "w_desc", "conv", "y_desc"),
)  # fmt: skip
_BACKWARD_DATA = _Direction(
    "BackwardData", "{}_convolution_backward_data_algorithm", ConvolutionBwdDataAlgo,
    types.cudnnConvolutionBwdDataAlgoPerf_t, ("w_desc", "dy_desc", "conv", "dx_desc"),
)  # fmt: skip
_BACKWARD_FILTER = _Direction(
    "BackwardFilter", "{}_convolution_backward_filter_algorithm", ConvolutionBwdFilterAlgo,
    types.cudnnConvolutionBwdFilterAlgoPerf_t, ("x_desc", "dy_desc", "conv", "dw_desc"),
)  # fmt: skip
DIRECTIONS = {
    "forward": _FORWARD, "backward_data": _BACKWARD_DATA, "backward_filter": _BACKWARD_FILTER
}  # fmt: skip
_KINDS = {"conv": ConvolutionDescriptor, "w_desc": FilterDescriptor, "dw_desc": FilterDescriptor}


def check_descriptors(
    direction: _Direction, descriptors: tuple[Any, ...], called: tuple[str, ...] = ()
) -> None:
    """TypeError or ValueError for a descriptor of another kind, or closed. ``called`` are further
    names of them."""
    for i, (name, descriptor) in enumerate(zip(direction.descriptors, descriptors, strict=True)):
        known_as = f"{called[i]} ({name})" if called and called[i] != name else name
        require(descriptor, _KINDS.get(name, TensorDescriptor), known_as)


def _room(direction: _Direction, handle: Handle, requested: int | None) -> Any:
    """An array for the records of a search, of the length asked for or the largest there is."""
    require(handle, Handle, "handle")
    if handle.stream.capturing:
        raise NotSupported(
            "an algorithm search cannot be captured: it runs, times and synchronises; "
            "search before the capture"
        )
    most = ctypes.c_int()
    with _core.ColdCall(handle.library, handle) as call:
        call(f"cudnnGetConvolution{direction.noun}AlgorithmMaxCount", handle, ctypes.byref(most))
    wanted = most.value
    if requested is not None:
        wanted = integer(requested, "requested", 1, most.value)
    return (direction.record * wanted)()


def _search(
    direction: _Direction,
    function: str,
    handle: Handle,
    descriptors: tuple[Any, ...],
    requested: int | None,
) -> list[AlgorithmPerformance]:
    check_descriptors(direction, descriptors)
    records = _room(direction, handle, requested)
    returned = ctypes.c_int()
    try:
        with _core.ColdCall(handle.library, handle) as call:
            call(function, handle, *descriptors, len(records), ctypes.byref(returned), records)
    except (CudnnInternalError, CudnnExecutionFailed) as error:
        if not function.startswith("cudnnFind"):
            raise
        free, total = handle.device.memory_info()
        remedy = (
            f"the search takes memory of its own, and {free} of {total} bytes are free: if that is "
            f"too little, call {direction.name.format('find')}_ex with a workspace, or "
            f"{direction.name.format('get')}_v7, which takes none"
        )
        raise type(error)(
            error.function, error.status, error.status_name, error.last_error,
            [*error.arguments, remedy],
        ) from None  # fmt: skip
    return _read(direction, records, returned.value)


def _search_ex(
    direction: _Direction,
    handle: Handle,
    pairs: tuple[tuple[Any, Any, str, bool], ...],
    conv: ConvolutionDescriptor,
    workspace: Any,
    requested: int | None,
) -> list[AlgorithmPerformance]:
    first, second, last = (pair[0] for pair in pairs)
    check_descriptors(direction, (first, second, conv, last))
    records = _room(direction, handle, requested)
    returned = ctypes.c_int()
    with _core.ColdCall(handle.library, handle) as call:
        data = [
            (descriptor, call.operand(value, name, writes, descriptor))
            for descriptor, value, name, writes in pairs
        ]
        space = 0 if workspace is None else call.operand(workspace, "workspace", True)
        call(
            f"cudnnFindConvolution{direction.noun}AlgorithmEx",
            handle, *data[0], *data[1], conv, *data[2], len(records), ctypes.byref(returned),
            records,
            space, 0 if workspace is None else workspace.nbytes,
        )  # fmt: skip
    return _read(direction, records, returned.value)


def _read(direction: _Direction, records: Any, returned: int) -> list[AlgorithmPerformance]:
    return [
        AlgorithmPerformance(
            direction.algorithms(record.algo),
            Status(record.status),
            record.time if record.time >= 0 else None,
            record.memory,
            Determinism(record.determinism),
            MathType(record.mathType),
        )
        for record in records[:returned]
    ]


def _workspace_size(
    direction: _Direction, handle: Handle, descriptors: tuple[Any, ...], algo: int
) -> int:
    require(handle, Handle, "handle")
    check_descriptors(direction, descriptors)
    algorithm = integer(algo, "algo", 0)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            f"cudnnGetConvolution{direction.noun}WorkspaceSize",
            handle, *descriptors, algorithm, ctypes.byref(size),
        )  # fmt: skip
    return size.value


def get_convolution_forward_algorithm_v7(
    handle: Handle,
    x_desc: TensorDescriptor,
    w_desc: FilterDescriptor,
    conv: ConvolutionDescriptor,
    y_desc: TensorDescriptor,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """The heuristic's ranking, best first, nothing run (cudnnGetConvolutionForwardAlgorithm_v7)."""
    return _search(
        _FORWARD, "cudnnGetConvolutionForwardAlgorithm_v7",
        handle, (x_desc, w_desc, conv, y_desc), requested,
    )  # fmt: skip


def get_convolution_backward_data_algorithm_v7(
    handle: Handle,
    w_desc: FilterDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dx_desc: TensorDescriptor,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """The heuristic's ranking (cudnnGetConvolutionBackwardDataAlgorithm_v7)."""
    return _search(
        _BACKWARD_DATA, "cudnnGetConvolutionBackwardDataAlgorithm_v7",
        handle, (w_desc, dy_desc, conv, dx_desc), requested,
    )  # fmt: skip


def get_convolution_backward_filter_algorithm_v7(
    handle: Handle,
    x_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dw_desc: FilterDescriptor,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """The heuristic's ranking (cudnnGetConvolutionBackwardFilterAlgorithm_v7)."""
    return _search(
        _BACKWARD_FILTER, "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
        handle, (x_desc, dy_desc, conv, dw_desc), requested,
    )  # fmt: skip


def find_convolution_forward_algorithm(
    handle: Handle,
    x_desc: TensorDescriptor,
    w_desc: FilterDescriptor,
    conv: ConvolutionDescriptor,
    y_desc: TensorDescriptor,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """Run and time every algorithm on memory of its own (cudnnFindConvolutionForwardAlgorithm)."""
    return _search(
        _FORWARD, "cudnnFindConvolutionForwardAlgorithm",
        handle, (x_desc, w_desc, conv, y_desc), requested,
    )  # fmt: skip


def find_convolution_backward_data_algorithm(
    handle: Handle,
    w_desc: FilterDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dx_desc: TensorDescriptor,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """Run and time every algorithm (cudnnFindConvolutionBackwardDataAlgorithm)."""
    return _search(
        _BACKWARD_DATA, "cudnnFindConvolutionBackwardDataAlgorithm",
        handle, (w_desc, dy_desc, conv, dx_desc), requested,
    )  # fmt: skip


def find_convolution_backward_filter_algorithm(
    handle: Handle,
    x_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dw_desc: FilterDescriptor,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """Run and time every algorithm (cudnnFindConvolutionBackwardFilterAlgorithm)."""
    return _search(
        _BACKWARD_FILTER, "cudnnFindConvolutionBackwardFilterAlgorithm",
        handle, (x_desc, dy_desc, conv, dw_desc), requested,
    )  # fmt: skip


def find_convolution_forward_algorithm_ex(
    handle: Handle,
    x_desc: TensorDescriptor,
    x: Any,
    w_desc: FilterDescriptor,
    w: Any,
    conv: ConvolutionDescriptor,
    y_desc: TensorDescriptor,
    y: Any,
    workspace: Any,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """Run and time algorithms on the caller's memory; y is overwritten.

    Only those that fit into ``workspace`` run (cudnnFindConvolutionForwardAlgorithmEx).
    """
    pairs = ((x_desc, x, "x", False), (w_desc, w, "w", False), (y_desc, y, "y", True))
    return _search_ex(_FORWARD, handle, pairs, conv, workspace, requested)


def find_convolution_backward_data_algorithm_ex(
    handle: Handle,
    w_desc: FilterDescriptor,
    w: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    conv: ConvolutionDescriptor,
    dx_desc: TensorDescriptor,
    dx: Any,
    workspace: Any,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """Run and time algorithms on the caller's memory; dx is overwritten.

    Only those that fit into ``workspace`` run (cudnnFindConvolutionBackwardDataAlgorithmEx).
    """
    pairs = ((w_desc, w, "w", False), (dy_desc, dy, "dy", False), (dx_desc, dx, "dx", True))
    return _search_ex(_BACKWARD_DATA, handle, pairs, conv, workspace, requested)


def find_convolution_backward_filter_algorithm_ex(
    handle: Handle,
    x_desc: TensorDescriptor,
    x: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    conv: ConvolutionDescriptor,
    dw_desc: FilterDescriptor,
    dw: Any,
    workspace: Any,
    requested: int | None = None,
) -> list[AlgorithmPerformance]:
    """Run and time algorithms on the caller's memory; dw is overwritten.

    Only those that fit into ``workspace`` run (cudnnFindConvolutionBackwardFilterAlgorithmEx).
    """
    pairs = ((x_desc, x, "x", False), (dy_desc, dy, "dy", False), (dw_desc, dw, "dw", True))
    return _search_ex(_BACKWARD_FILTER, handle, pairs, conv, workspace, requested)


def get_convolution_forward_workspace_size(
    handle: Handle,
    x_desc: TensorDescriptor,
    w_desc: FilterDescriptor,
    conv: ConvolutionDescriptor,
    y_desc: TensorDescriptor,
    algo: int,
) -> int:
    """Bytes of workspace that an algorithm needs (cudnnGetConvolutionForwardWorkspaceSize)."""
    return _workspace_size(_FORWARD, handle, (x_desc, w_desc, conv, y_desc), algo)


def get_convolution_backward_data_workspace_size(
    handle: Handle,
    w_desc: FilterDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dx_desc: TensorDescriptor,
    algo: int,
) -> int:
    """Bytes of workspace that an algorithm needs (cudnnGetConvolutionBackwardDataWorkspaceSize)."""
    return _workspace_size(_BACKWARD_DATA, handle, (w_desc, dy_desc, conv, dx_desc), algo)


def get_convolution_backward_filter_workspace_size(
    handle: Handle,
    x_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dw_desc: FilterDescriptor,
    algo: int,
) -> int:
    """Bytes that an algorithm needs (cudnnGetConvolutionBackwardFilterWorkspaceSize)."""
    return _workspace_size(_BACKWARD_FILTER, handle, (x_desc, dy_desc, conv, dw_desc), algo)


def select_algorithm(
    records: Iterable[AlgorithmPerformance],
    *,
    workspace_limit: int | None = None,
    deterministic: bool | None = None,
) -> AlgorithmPerformance:
    """The first usable record: successful, within the limit in bytes, deterministic if asked for.

    Searches return the best first. ``workspace_limit`` and ``deterministic`` None are what
    ``pycudnn.config`` says. NoAlgorithm, with the reason per record, if none survives; TypeError
    for what is no record.
    """
    workspace_limit, deterministic = limits(workspace_limit, deterministic)
    refused = []
    for record in records:
        require(record, AlgorithmPerformance, "each of records")
        if record.status != Status.SUCCESS:
            refused.append(f"{record.algorithm.name}: {record.status.name}")
        elif workspace_limit is not None and record.memory > workspace_limit:
            refused.append(f"{record.algorithm.name}: needs {record.memory} bytes of workspace")
        elif deterministic and record.determinism != Determinism.DETERMINISTIC:
            refused.append(f"{record.algorithm.name}: not deterministic")
        else:
            return record
    raise NoAlgorithm(
        f"no algorithm with workspace_limit={workspace_limit}, deterministic={deterministic}: "
        + ("; ".join(refused) or "the search returned no record")
    )


def limits(workspace_limit: int | None, deterministic: bool | None) -> tuple[int | None, bool]:
    """The two limits of a choice, checked; ``pycudnn.config`` decides where one is None."""
    if workspace_limit is None:
        workspace_limit = config.workspace_limit
    else:
        workspace_limit = integer(workspace_limit, "workspace_limit", 0, LONG_MAX)
    if deterministic is None:
        deterministic = config.deterministic
    require(deterministic, bool, "deterministic")
    return workspace_limit, deterministic
