"""The functions of cudnn_cnn.h: convolution descriptors, algorithms, and the computation.

Two algorithms are offered per direction. IMPLICIT_GEMM (forward) and ALGO_0 (backward) need no
workspace; GEMM and ALGO_1 report the columns that ``convolution`` builds as their workspace, as
cuDNN's GEMM does. Both give the same bits. IMPLICIT_PRECOMP_GEMM is offered as well, since the
fused forward call requires it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi import types
from pycudnn.abi.cudnn_enums import (
    CUDNN_DIM_MAX,
    ActivationMode,
    ConvolutionBwdDataAlgo,
    ConvolutionBwdFilterAlgo,
    ConvolutionFwdAlgo,
    ConvolutionMode,
    DataType,
    Determinism,
    MathType,
    NanPropagation,
    ReorderType,
)
from pycudnn.abi.cudnn_enums import Status as CudnnStatus

from . import convolution
from .descriptors import Activation, Filter, Tensor
from .memory import (
    blend,
    compute_dtype,
    destination,
    load,
    numpy_dtype,
    read_array,
    read_scalar,
    view,
    write,
    write_array,
)
from .runtime import bad_param, implements, not_supported, opaque

_COMPUTE_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.INT32)
_MAX_SPATIAL = CUDNN_DIM_MAX - 2


# --- descriptor -----------------------------------------------------------------------------------


@opaque(
    "cudnnConvolutionDescriptor_t",
    "cudnnCreateConvolutionDescriptor",
    "cudnnDestroyConvolutionDescriptor",
)
@dataclass
class Convolution:
    """How a filter moves over a tensor; one entry per spatial axis."""

    padding: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    mode: ConvolutionMode = ConvolutionMode.CONVOLUTION
    compute_type: DataType = DataType.FLOAT
    groups: int = 1
    math_type: MathType = MathType.DEFAULT_MATH
    reorder_type: ReorderType = ReorderType.DEFAULT_REORDER

    @property
    def geometry(self) -> convolution.Geometry:
        """As the NumPy algorithms take it."""
        flip = self.mode == ConvolutionMode.CONVOLUTION
        return convolution.Geometry(self.padding, self.stride, self.dilation, self.groups, flip)


def _set(
    conv: Convolution, padding: Any, stride: Any, dilation: Any, mode: int, type_: int
) -> None:
    if mode not in tuple(ConvolutionMode):
        raise bad_param(f"mode {mode} is neither CONVOLUTION nor CROSS_CORRELATION")
    if type_ not in _COMPUTE_TYPES:
        raise bad_param(f"compute type {type_} must be FLOAT, DOUBLE, HALF or INT32")
    for name, values, least in (
        ("padding", padding, 0), ("stride", stride, 1), ("dilation", dilation, 1)
    ):  # fmt: skip
        for axis, value in enumerate(values):
            if value < least:
                raise bad_param(f"{name}[{axis}] = {value} must be at least {least}")
    conv.padding, conv.stride, conv.dilation = tuple(padding), tuple(stride), tuple(dilation)
    conv.mode, conv.compute_type = ConvolutionMode(mode), DataType(type_)


@implements("cudnnSetConvolution2dDescriptor")
def _set_2d(
    conv: Convolution, pad_h: int, pad_w: int, u: int, v: int, dilation_h: int, dilation_w: int,
    mode: int, type_: int,
) -> None:  # fmt: skip
    _set(conv, (pad_h, pad_w), (u, v), (dilation_h, dilation_w), mode, type_)


@implements("cudnnSetConvolutionNdDescriptor")
def _set_nd(
    conv: Convolution, count: int, padding: int, stride: int, dilation: int, mode: int, type_: int
) -> None:
    if count < 0:
        raise bad_param(f"arrayLength must be at least 0, got {count}")
    if count > _MAX_SPATIAL:
        raise not_supported(f"arrayLength must be at most {_MAX_SPATIAL}, got {count}")
    pads, strides, dilations = (
        read_array(address, ctypes.c_int, count, name)
        for address, name in ((padding, "padA"), (stride, "strideA"), (dilation, "dilationA"))
    )
    _set(conv, pads, strides, dilations, mode, type_)


def _padded_to(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * count)[:count]


@implements("cudnnGetConvolution2dDescriptor")
def _get_2d(conv: Convolution, *out: int) -> None:
    axes = (_padded_to(values, 2) for values in (conv.padding, conv.stride, conv.dilation))
    values = (*(value for axis in axes for value in axis), conv.mode, conv.compute_type)
    for address, value in zip(out, values, strict=True):
        write(address, ctypes.c_int, value)


@implements("cudnnGetConvolutionNdDescriptor")
def _get_nd(
    conv: Convolution, requested: int, count: int, padding: int, stride: int, dilation: int,
    mode: int, type_: int,
) -> None:  # fmt: skip
    if requested < 0:
        raise bad_param(f"arrayLengthRequested must be at least 0, got {requested}")
    if requested > _MAX_SPATIAL:
        raise not_supported(f"arrayLengthRequested is at most {_MAX_SPATIAL}, got {requested}")
    write(count, ctypes.c_int, len(conv.padding))
    for address, values in (
        (padding, conv.padding), (stride, conv.stride), (dilation, conv.dilation)
    ):  # fmt: skip
        if requested:
            write_array(address, ctypes.c_int, _padded_to(values, requested))
    write(mode, ctypes.c_int, conv.mode)
    write(type_, ctypes.c_int, conv.compute_type)


@implements("cudnnSetConvolutionGroupCount")
def _set_groups(conv: Convolution, groups: int) -> None:
    if groups < 1:
        raise bad_param(f"groupCount must be at least 1, got {groups}")
    conv.groups = groups


@implements("cudnnGetConvolutionGroupCount")
def _get_groups(conv: Convolution, out: int) -> None:
    write(out, ctypes.c_int, conv.groups)


@implements("cudnnSetConvolutionMathType")
def _set_math_type(conv: Convolution, math_type: int) -> None:
    if math_type not in tuple(MathType):
        raise bad_param(f"mathType {math_type} is none of cudnnMathType_t")
    conv.math_type = MathType(math_type)


@implements("cudnnGetConvolutionMathType")
def _get_math_type(conv: Convolution, out: int) -> None:
    write(out, ctypes.c_int, conv.math_type)


@implements("cudnnSetConvolutionReorderType")
def _set_reorder_type(conv: Convolution, reorder_type: int) -> None:
    if reorder_type not in tuple(ReorderType):
        raise bad_param(f"reorderType {reorder_type} is none of cudnnReorderType_t")
    conv.reorder_type = ReorderType(reorder_type)


@implements("cudnnGetConvolutionReorderType")
def _get_reorder_type(conv: Convolution, out: int) -> None:
    write(out, ctypes.c_int, conv.reorder_type)


# --- shapes ---------------------------------------------------------------------------------------


def _output_shape(conv: Convolution, x: Tensor, w: Filter) -> tuple[int, ...]:
    """Shape of the output, or BAD_PARAM where x, w and conv do not fit together."""
    spatial = len(x.shape) - 2
    if spatial < 1 or len(w.shape) != len(x.shape) or len(conv.padding) != spatial:
        raise bad_param(
            f"ranks differ: x {len(x.shape)}, w {len(w.shape)}, conv {len(conv.padding)} + 2"
        )
    if x.shape[1] != w.shape[1] * conv.groups:
        raise bad_param(f"x has {x.shape[1]} channels, w wants {w.shape[1]} x {conv.groups} groups")
    if w.shape[0] % conv.groups:
        raise bad_param(f"{w.shape[0]} filters cannot be split into {conv.groups} groups")
    shape = convolution.output_shape(x.shape, w.shape, conv.geometry)
    if min(shape) < 1:
        raise bad_param(f"w {w.shape[2:]} is larger than the padded x {x.shape[2:]}")
    return shape


@implements("cudnnGetConvolution2dForwardOutputDim")
def _output_2d(conv: Convolution, x: Tensor, w: Filter, *out: int) -> None:
    if len(x.shape) != 4:
        raise bad_param(f"x has {len(x.shape)} dimensions, not 4")
    for address, size in zip(out, _output_shape(conv, x, w), strict=True):
        write(address, ctypes.c_int, size)


@implements("cudnnGetConvolutionNdForwardOutputDim")
def _output_nd(conv: Convolution, x: Tensor, w: Filter, count: int, out: int) -> None:
    shape = _output_shape(conv, x, w)
    if count != len(shape):
        raise bad_param(f"nbDims {count} is not the number of dimensions, {len(shape)}")
    write_array(out, ctypes.c_int, shape)


def _check(conv: Convolution, x: Tensor, w: Filter, y: Tensor) -> None:
    """Do these descriptors describe one convolution that can be computed here?"""
    if len(x.shape) < 4:
        raise not_supported(f"x has {len(x.shape)} dimensions; convolution needs at least 4")
    expected = _output_shape(conv, x, w)
    if y.shape != expected:
        raise bad_param(f"y must have shape {expected}, got {y.shape}")
    if not x.dtype == w.dtype == y.dtype:
        names = ", ".join(DataType(item.dtype).name for item in (x, w, y))
        raise not_supported(f"x, w and y must have one data type, got {names}")
    if numpy_dtype(x.dtype).kind in "iub":
        raise not_supported(f"data type {DataType(x.dtype).name} is not in the reference library")
    if (x.dtype == DataType.DOUBLE) != (conv.compute_type == DataType.DOUBLE):
        raise not_supported("double tensors need compute type DOUBLE, and only they")


# --- computation ----------------------------------------------------------------------------------


def _check_algorithm(direction: _Direction, algo: int, needed: int, got: int) -> None:
    if algo not in tuple(direction.algorithms) or direction.algorithms(algo).name == "COUNT":
        raise bad_param(f"algo {algo} is none of {direction.algorithms.__name__}")
    if direction.algorithms(algo) not in direction.offered:
        raise not_supported(f"algo {direction.algorithms(algo).name} is not in this library")
    if got < needed:
        raise bad_param(f"the workspace has {got} bytes, algo needs {needed}")


@implements("cudnnConvolutionForward")
def _forward(
    handle: Any, alpha: int, x_desc: Tensor, x: int, w_desc: Filter, w: int, conv: Convolution,
    algo: int, workspace: int, workspace_bytes: int, beta: int, y_desc: Tensor, y: int,
) -> None:  # fmt: skip
    """y = alpha conv(x, w) + beta y."""
    _check(conv, x_desc, w_desc, y_desc)
    needed = _needed(FORWARD, x_desc, w_desc, y_desc, algo)
    _check_algorithm(FORWARD, algo, needed, workspace_bytes)
    a, b = read_scalar(alpha, y_desc.dtype, "alpha"), read_scalar(beta, y_desc.dtype, "beta")
    out = view(y, y_desc, "y")
    result = destination(out, a, b)
    convolution.forward(load(x, x_desc, "x"), load(w, w_desc, "w"), conv.geometry, result)
    blend(out, result, a, b)


@implements("cudnnConvolutionBackwardData")
def _backward_data(
    handle: Any, alpha: int, w_desc: Filter, w: int, dy_desc: Tensor, dy: int, conv: Convolution,
    algo: int, workspace: int, workspace_bytes: int, beta: int, dx_desc: Tensor, dx: int,
) -> None:  # fmt: skip
    """dx = alpha (what each input element contributed to the outputs, times dy) + beta dx."""
    _check(conv, dx_desc, w_desc, dy_desc)
    needed = _needed(BACKWARD_DATA, dx_desc, w_desc, dy_desc, algo)
    _check_algorithm(BACKWARD_DATA, algo, needed, workspace_bytes)
    a, b = read_scalar(alpha, dx_desc.dtype, "alpha"), read_scalar(beta, dx_desc.dtype, "beta")
    out = view(dx, dx_desc, "dx")
    result = destination(out, a, b)
    convolution.backward_data(load(dy, dy_desc, "dy"), load(w, w_desc, "w"), conv.geometry, result)
    blend(out, result, a, b)


@implements("cudnnConvolutionBackwardFilter")
def _backward_filter(
    handle: Any, alpha: int, x_desc: Tensor, x: int, dy_desc: Tensor, dy: int, conv: Convolution,
    algo: int, workspace: int, workspace_bytes: int, beta: int, dw_desc: Filter, dw: int,
) -> None:  # fmt: skip
    """dw = alpha (what each filter element contributed to the outputs, times dy) + beta dw."""
    _check(conv, x_desc, dw_desc, dy_desc)
    needed = _needed(BACKWARD_FILTER, x_desc, dw_desc, dy_desc, algo)
    _check_algorithm(BACKWARD_FILTER, algo, needed, workspace_bytes)
    a, b = read_scalar(alpha, dw_desc.dtype, "alpha"), read_scalar(beta, dw_desc.dtype, "beta")
    out = view(dw, dw_desc, "dw")
    result = destination(out, a, b)
    convolution.backward_filter(
        load(x, x_desc, "x"), load(dy, dy_desc, "dy"), conv.geometry, result
    )
    blend(out, result, a, b)


@implements("cudnnConvolutionBackwardBias")
def _backward_bias(
    handle: Any, alpha: int, dy_desc: Tensor, dy: int, beta: int, db_desc: Tensor, db: int
) -> None:
    """db = alpha (sum of dy over all axes but the channels) + beta db."""
    expected = tuple(size if axis == 1 else 1 for axis, size in enumerate(dy_desc.shape))
    if db_desc.shape != expected:
        raise bad_param(f"db must have shape {expected}, got {db_desc.shape}")
    if db_desc.dtype != dy_desc.dtype:
        raise not_supported("dy and db must have one data type")
    a, b = read_scalar(alpha, db_desc.dtype, "alpha"), read_scalar(beta, db_desc.dtype, "beta")
    gradient = load(dy, dy_desc, "dy")
    # A product with ones sums a contiguous axis several times faster than np.sum does.
    rows = gradient.reshape(-1, int(np.prod(gradient.shape[2:])))
    sums = rows @ np.ones(rows.shape[1], rows.dtype)
    sums = sums.reshape(gradient.shape[:2]).sum(axis=0)
    blend(view(db, db_desc, "db"), sums.reshape(expected), a, b)


@implements("cudnnConvolutionBiasActivationForward")
def _bias_activation_forward(
    handle: Any, alpha1: int, x_desc: Tensor, x: int, w_desc: Filter, w: int, conv: Convolution,
    algo: int, workspace: int, workspace_bytes: int, alpha2: int, z_desc: Tensor, z: int,
    bias_desc: Tensor, bias: int, activation: Activation, y_desc: Tensor, y: int,
) -> None:  # fmt: skip
    """y = activation(alpha1 conv(x, w) + alpha2 z + bias)."""
    _check(conv, x_desc, w_desc, y_desc)
    needed = _needed(FORWARD, x_desc, w_desc, y_desc, algo)
    _check_algorithm(FORWARD, algo, needed, workspace_bytes)
    if z_desc.shape != y_desc.shape or z_desc.dtype != y_desc.dtype:
        raise bad_param(f"z must be like y, {y_desc.shape}, got {z_desc.shape}")
    channels = tuple(size if axis == 1 else 1 for axis, size in enumerate(y_desc.shape))
    if bias_desc.shape != channels:
        raise bad_param(f"bias must have shape {channels}, got {bias_desc.shape}")
    if activation.mode == ActivationMode.IDENTITY:
        if algo != ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM:
            raise not_supported("the identity activation needs algo IMPLICIT_PRECOMP_GEMM")
    elif activation.mode != ActivationMode.RELU:
        raise not_supported("activation must be RELU or IDENTITY")
    a1 = read_scalar(alpha1, y_desc.dtype, "alpha1")
    a2 = read_scalar(alpha2, y_desc.dtype, "alpha2")
    out = view(y, y_desc, "y")
    result = np.empty(out.shape, compute_dtype(out.dtype))
    convolution.forward(load(x, x_desc, "x"), load(w, w_desc, "w"), conv.geometry, result)
    result *= result.dtype.type(a1)
    if a2 != 0:
        result += result.dtype.type(a2) * load(z, z_desc, "z")
    result += load(bias, bias_desc, "bias")
    if activation.mode == ActivationMode.RELU:
        propagates = activation.nan_propagation == NanPropagation.PROPAGATE_NAN
        (np.maximum if propagates else np.fmax)(result, 0, out=result)
    blend(out, result, 1.0, 0.0)


# --- algorithms -----------------------------------------------------------------------------------


class _Direction(NamedTuple):
    """What the algorithm functions of one direction need to know."""

    algorithms: Any
    offered: tuple[int, ...]  # the heuristic's order
    hungry: int  # the one that reports a workspace
    record: Any
    run: Callable[..., None]


def _run_forward(
    x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], y: np.ndarray[Any, Any], geometry: Any
) -> None:
    convolution.forward(x, w, geometry, y)


def _run_data(
    x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], y: np.ndarray[Any, Any], geometry: Any
) -> None:
    convolution.backward_data(y, w, geometry, x)


def _run_filter(
    x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], y: np.ndarray[Any, Any], geometry: Any
) -> None:
    convolution.backward_filter(x, y, geometry, w)


FORWARD = _Direction(
    ConvolutionFwdAlgo,
    (
        ConvolutionFwdAlgo.IMPLICIT_GEMM,
        ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM,
        ConvolutionFwdAlgo.GEMM,
    ),
    ConvolutionFwdAlgo.GEMM,
    types.cudnnConvolutionFwdAlgoPerf_t,
    _run_forward,
)
BACKWARD_DATA = _Direction(
    ConvolutionBwdDataAlgo,
    (ConvolutionBwdDataAlgo.ALGO_0, ConvolutionBwdDataAlgo.ALGO_1),
    ConvolutionBwdDataAlgo.ALGO_1,
    types.cudnnConvolutionBwdDataAlgoPerf_t,
    _run_data,
)
BACKWARD_FILTER = _Direction(
    ConvolutionBwdFilterAlgo,
    (ConvolutionBwdFilterAlgo.ALGO_0, ConvolutionBwdFilterAlgo.ALGO_1),
    ConvolutionBwdFilterAlgo.ALGO_1,
    types.cudnnConvolutionBwdFilterAlgoPerf_t,
    _run_filter,
)


def _needed(direction: _Direction, x: Tensor, w: Filter, y: Tensor, algo: int) -> int:
    """Workspace of an algorithm in bytes."""
    if algo != direction.hungry:
        return 0
    item_bytes = compute_dtype(numpy_dtype(x.dtype)).itemsize
    return convolution.columns_bytes(x.shape, w.shape, y.shape, item_bytes)


class _Problem(NamedTuple):
    conv: Convolution
    x: Tensor
    w: Filter
    y: Tensor


def _search(
    direction: _Direction,
    problem: _Problem,
    requested: int,
    returned: int,
    records: int,
    measure: Callable[[int], float] | None = None,
    workspace_limit: int | None = None,
) -> None:
    """Write records: those offered, by the heuristic's order or by measured time, then the rest."""
    if requested < 1:
        raise bad_param(f"requestedAlgoCount must be at least 1, got {requested}")
    if not records or not returned:
        raise bad_param("the result arrays must not be NULL")
    _check(*problem)
    done, failed = [], []
    for algo in direction.algorithms:
        if algo.name == "COUNT":
            continue
        memory = _needed(direction, *problem[1:], algo)
        status = CudnnStatus.SUCCESS
        if algo not in direction.offered:
            status = CudnnStatus.NOT_SUPPORTED
        elif workspace_limit is not None and memory > workspace_limit:
            status = CudnnStatus.BAD_PARAM
        if status != CudnnStatus.SUCCESS:
            failed.append((-1.0, algo, status, memory))
        elif measure is None:
            done.append((float(direction.offered.index(algo)), algo, status, memory))
        else:
            done.append((measure(algo), algo, status, memory))
    results = sorted(done) + failed
    count = min(requested, len(results))
    array = (direction.record * count).from_address(records)
    for record, (rank, algo, status, memory) in zip(array, results, strict=False):
        record.algo = algo
        record.status = status
        record.time = rank if measure and status == CudnnStatus.SUCCESS else -1.0
        record.memory = memory
        record.determinism = Determinism.DETERMINISTIC
        record.mathType = problem.conv.math_type
        record.reserved[:] = [0, 0, 0]
    write(returned, ctypes.c_int, count)


def _milliseconds(
    direction: _Direction, problem: _Problem, data: tuple[Any, ...] | None = None
) -> Callable[[int], float]:
    """A function that really runs the convolution, on the caller's memory or its own."""
    if data is None:
        dtype = compute_dtype(numpy_dtype(problem.x.dtype))
        data = tuple(np.ones(item.shape, dtype) for item in problem[1:])

    def measure(algo: int) -> float:
        started = time.perf_counter()
        direction.run(*data, problem.conv.geometry)
        return 1e3 * (time.perf_counter() - started)

    return measure


def _register(
    noun: str, direction: _Direction, order: Callable[[Any, Any, Any, Any], _Problem]
) -> None:
    """The five functions of one direction; `order` sorts its descriptors, given in C order."""

    @implements(f"cudnnGetConvolution{noun}AlgorithmMaxCount")
    def max_count(handle: Any, out: int) -> None:
        write(out, ctypes.c_int, len(direction.algorithms) - 1)

    @implements(f"cudnnGetConvolution{noun}WorkspaceSize")
    def workspace_size(
        handle: Any, first: Any, second: Any, conv: Any, third: Any, algo: int, out: int
    ) -> None:
        problem = order(first, second, conv, third)
        _check(*problem)
        _check_algorithm(direction, algo, 0, 0)
        write(out, ctypes.c_size_t, _needed(direction, *problem[1:], algo))

    @implements(f"cudnnGetConvolution{noun}Algorithm_v7")
    def rank(
        handle: Any, first: Any, second: Any, conv: Any, third: Any,
        requested: int, returned: int, records: int,
    ) -> None:  # fmt: skip
        _search(direction, order(first, second, conv, third), requested, returned, records)

    @implements(f"cudnnFindConvolution{noun}Algorithm")
    def find(
        handle: Any, first: Any, second: Any, conv: Any, third: Any,
        requested: int, returned: int, records: int,
    ) -> None:  # fmt: skip
        problem = order(first, second, conv, third)
        _check(*problem)
        measure = _milliseconds(direction, problem)
        _search(direction, problem, requested, returned, records, measure)

    @implements(f"cudnnFindConvolution{noun}AlgorithmEx")
    def find_ex(
        handle: Any, first: Any, first_data: int, second: Any, second_data: int, conv: Any,
        third: Any, third_data: int, requested: int, returned: int, records: int,
        workspace: int, workspace_bytes: int,
    ) -> None:  # fmt: skip
        problem = order(first, second, conv, third)
        _check(*problem)
        addresses: Any = order(first_data, second_data, None, third_data)
        x = load(addresses.x, problem.x, "x")
        w = load(addresses.w, problem.w, "w")
        y = load(addresses.y, problem.y, "y")
        measure = _milliseconds(direction, problem, (x, w, y))
        _search(direction, problem, requested, returned, records, measure, workspace_bytes)


_register("Forward", FORWARD, lambda x, w, conv, y: _Problem(conv, x, w, y))
_register("BackwardData", BACKWARD_DATA, lambda w, dy, conv, dx: _Problem(conv, dx, w, dy))
_register("BackwardFilter", BACKWARD_FILTER, lambda x, dy, conv, dw: _Problem(conv, x, dw, dy))
