"""The convolution descriptor, and the output size that follows from it.

Unlike cuDNN's, a set that fails leaves the descriptor as it was, and an output too large for a C
int is refused instead of wrapping round.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from pycudnn.abi.cudnn_enums import (
    CUDNN_DIM_MAX,
    ConvolutionMode,
    DataType,
    MathType,
    ReorderType,
)

from ..convolution import Geometry, output_size
from ..cudnn_ops.checks import FLOATING, check_4d_or_5d
from ..descriptors import Filter, Tensor
from ..memory import read_array, write, write_array
from ..runtime import bad_param, implements, not_supported, opaque

_MAX_SPATIAL = CUDNN_DIM_MAX - 2
_LARGEST_INT = 2**31 - 1
_COMPUTE_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.INT32)


@opaque(
    "cudnnConvolutionDescriptor_t",
    "cudnnCreateConvolutionDescriptor",
    "cudnnDestroyConvolutionDescriptor",
)
@dataclass
class Convolution:
    """Padding, stride and dilation for each spatial dimension, and what concerns all of them."""

    padding: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    mode: ConvolutionMode = ConvolutionMode.CONVOLUTION
    compute_type: DataType = DataType.FLOAT
    groups: int = 1
    math_type: MathType = MathType.DEFAULT_MATH
    reorder_type: ReorderType = ReorderType.DEFAULT_REORDER


def _check_kinds(mode: int, compute_type: int) -> None:
    if mode not in tuple(ConvolutionMode):
        raise bad_param(f"mode is {mode}, must be CONVOLUTION (0) or CROSS_CORRELATION (1)")
    if compute_type not in _COMPUTE_TYPES:
        names = ", ".join(member.name for member in _COMPUTE_TYPES)
        raise bad_param(f"computeType is {compute_type}, must be one of {names}")


def _set(
    conv: Convolution,
    padding: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    mode: int,
    compute_type: int,
) -> None:
    _check_kinds(mode, compute_type)
    for name, values, least in (
        ("pad", padding, 0),
        ("stride", stride, 1),
        ("dilation", dilation, 1),
    ):
        if min(values, default=least) < least:
            raise bad_param(f"{name} is {values}, must be at least {least} everywhere")
    conv.padding, conv.stride, conv.dilation = padding, stride, dilation
    conv.mode, conv.compute_type = ConvolutionMode(mode), DataType(compute_type)


@implements("cudnnSetConvolution2dDescriptor")
def set_convolution_2d(
    conv: Convolution,
    pad_h: int,
    pad_w: int,
    stride_h: int,
    stride_w: int,
    dilation_h: int,
    dilation_w: int,
    mode: int,
    compute_type: int,
) -> None:
    """Two spatial dimensions. Groups, math type and reordering keep what they were set to."""
    _set(
        conv,
        (pad_h, pad_w),
        (stride_h, stride_w),
        (dilation_h, dilation_w),
        mode,
        compute_type,
    )


@implements("cudnnSetConvolutionNdDescriptor")
def set_convolution_nd(
    conv: Convolution,
    count: int,
    padding: int,
    stride: int,
    dilation: int,
    mode: int,
    compute_type: int,
) -> None:
    """`count` spatial dimensions, at most 6."""
    _check_kinds(mode, compute_type)
    if count < 0:
        raise bad_param(f"arrayLength is {count}, must not be negative")
    if count > _MAX_SPATIAL:
        raise not_supported(f"arrayLength is {count}, must be at most {_MAX_SPATIAL}")
    _set(
        conv,
        read_array(padding, ctypes.c_int, count, "padA"),
        read_array(stride, ctypes.c_int, count, "filterStrideA"),
        read_array(dilation, ctypes.c_int, count, "dilationA"),
        mode,
        compute_type,
    )


def _first(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Exactly `count` numbers, filled up with 0 as cuDNN does."""
    return (values + (0,) * _MAX_SPATIAL)[:count]


@implements("cudnnGetConvolution2dDescriptor")
def get_convolution_2d(
    conv: Convolution,
    pad_h: int,
    pad_w: int,
    stride_h: int,
    stride_w: int,
    dilation_h: int,
    dilation_w: int,
    mode: int,
    compute_type: int,
) -> None:
    """The first two spatial dimensions of any descriptor; 0 where it has fewer."""
    outs = (pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, mode, compute_type)
    sizes = _first(conv.padding, 2) + _first(conv.stride, 2) + _first(conv.dilation, 2)
    for out, value in zip(outs, (*sizes, conv.mode, conv.compute_type), strict=True):
        write(out, ctypes.c_int, value)


@implements("cudnnGetConvolutionNdDescriptor")
def get_convolution_nd(
    conv: Convolution,
    requested: int,
    count: int,
    padding: int,
    stride: int,
    dilation: int,
    mode: int,
    compute_type: int,
) -> None:
    """The true number of spatial dimensions, and exactly `requested` entries of each array."""
    if requested < 0:
        raise bad_param(f"arrayLengthRequested is {requested}, must not be negative")
    if requested > _MAX_SPATIAL:
        raise not_supported(f"arrayLengthRequested is {requested}, must be at most {_MAX_SPATIAL}")
    write(count, ctypes.c_int, len(conv.padding), "arrayLength")
    if requested:
        write_array(padding, ctypes.c_int, _first(conv.padding, requested), "padA")
        write_array(stride, ctypes.c_int, _first(conv.stride, requested), "strideA")
        write_array(dilation, ctypes.c_int, _first(conv.dilation, requested), "dilationA")
    write(mode, ctypes.c_int, conv.mode, "mode")
    write(compute_type, ctypes.c_int, conv.compute_type, "computeType")


@implements("cudnnSetConvolutionGroupCount")
def set_group_count(conv: Convolution, groups: int) -> None:
    """Into how many parts channels and filters are cut; 1 unless set."""
    if groups < 1:
        raise bad_param(f"groupCount is {groups}, must be at least 1")
    conv.groups = groups


@implements("cudnnGetConvolutionGroupCount")
def get_group_count(conv: Convolution, groups: int) -> None:
    """What was set."""
    write(groups, ctypes.c_int, conv.groups, "groupCount")


@implements("cudnnSetConvolutionMathType")
def set_math_type(conv: Convolution, math_type: int) -> None:
    """Which arithmetic the GPU may use. Here float32 and float64 are always computed as such."""
    if math_type not in tuple(MathType):
        raise bad_param(f"mathType is {math_type}, must be one of 0 to {max(MathType)}")
    conv.math_type = MathType(math_type)


@implements("cudnnGetConvolutionMathType")
def get_math_type(conv: Convolution, math_type: int) -> None:
    """What was set."""
    write(math_type, ctypes.c_int, conv.math_type, "mathType")


@implements("cudnnSetConvolutionReorderType")
def set_reorder_type(conv: Convolution, reorder_type: int) -> None:
    """Whether int8 filters are reordered first. Kept, without effect on what is computed here."""
    if reorder_type not in tuple(ReorderType):
        raise bad_param(f"reorderType is {reorder_type}, must be 0 or 1")
    conv.reorder_type = ReorderType(reorder_type)


@implements("cudnnGetConvolutionReorderType")
def get_reorder_type(conv: Convolution, reorder_type: int) -> None:
    """What was set."""
    write(reorder_type, ctypes.c_int, conv.reorder_type, "reorderType")


# --- the output size -----------------------------------------------------------------------------


def output_shape(
    conv: Convolution, x: Tensor, w: Filter, count: int = CUDNN_DIM_MAX
) -> tuple[int, ...]:
    """(N, K, *output) of a convolution of x with w, or the first `count` of that (at least 2)."""
    if len(x.shape) != len(w.shape):
        raise bad_param(f"x has {len(x.shape)} dimensions and w has {len(w.shape)}, must be equal")
    spatial = len(conv.padding)
    if len(w.shape) != spatial + 2:
        raise bad_param(
            f"the convolution has {spatial} spatial dimensions, so x and w need {spatial + 2}: "
            f"x is {x.shape}, w is {w.shape}"
        )
    if x.shape[1] != conv.groups * w.shape[1]:
        raise bad_param(
            f"x has {x.shape[1]} channels, w is for {conv.groups} groups of {w.shape[1]}: "
            f"x is {x.shape}, w is {w.shape}"
        )
    padded = [n + 2 * more for n, more in zip(x.shape[2:], conv.padding, strict=True)]
    if max(padded) > _LARGEST_INT:
        raise bad_param(f"padded sizes {padded} are too large for an int")
    sizes = zip(x.shape[2:], w.shape[2:], conv.padding, conv.stride, conv.dilation, strict=True)
    output = tuple(output_size(*size) for size in itertools.islice(sizes, max(count - 2, 0)))
    if min(output, default=1) < 1:
        raise bad_param(
            f"the window does not fit: x is {x.shape}, w is {w.shape}, padding {conv.padding}, "
            f"dilation {conv.dilation}"
        )
    if max(output, default=1) > _LARGEST_INT:
        raise bad_param(f"output dimensions {output} are too large for an int")
    return (x.shape[0], w.shape[0], *output)


@implements("cudnnGetConvolutionNdForwardOutputDim")
def get_output_dims_nd(conv: Convolution, x: Tensor, w: Filter, count: int, dims: int) -> None:
    """The first `count` of (N, K, *output), but N and K in any case.

    Along each dimension ``1 + (x + 2 * pad - dilation * (w - 1) - 1) // stride``.
    """
    if not 0 <= count <= len(x.shape):
        raise bad_param(f"nbDims is {count}, must be between 0 and {len(x.shape)}, those of x")
    write_array(dims, ctypes.c_int, output_shape(conv, x, w, count), "tensorOutputDimA")


@implements("cudnnGetConvolution2dForwardOutputDim")
def get_output_dims_2d(
    conv: Convolution, x: Tensor, w: Filter, n: int, c: int, h: int, w_out: int
) -> None:
    """The first four of (N, K, *output), whatever the number of spatial dimensions."""
    if len(x.shape) < 4:
        raise bad_param(f"x is {x.shape}, needs at least 4 dimensions")
    for out, value in zip((n, c, h, w_out), output_shape(conv, x, w, 4), strict=True):
        write(out, ctypes.c_int, value)


# --- what the computing functions ask for --------------------------------------------------------


def checked_geometry(
    conv: Convolution,
    x: Tensor,
    w: Filter,
    y: Tensor,
    check_types: Callable[[Convolution, Tensor, Filter, Tensor], None] | None = None,
) -> Geometry:
    """The sizes of a convolution whose three descriptors fit each other, of floating types."""
    expected = output_shape(conv, x, w)
    check_4d_or_5d(x, "x")
    if y.shape != expected:
        raise bad_param(
            f"y is {y.shape}, must be {expected} for x {x.shape}, w {w.shape}, padding "
            f"{conv.padding}, stride {conv.stride}, dilation {conv.dilation}"
        )
    if w.shape[0] % conv.groups:
        raise bad_param(f"{w.shape[0]} filters cannot be cut into {conv.groups} groups")
    (check_types or _check_floating)(conv, x, w, y)
    return Geometry(
        batch=x.shape[0],
        groups=conv.groups,
        channels=w.shape[1],
        filters=w.shape[0] // conv.groups,
        image=x.shape[2:],
        window=w.shape[2:],
        output=y.shape[2:],
        padding=conv.padding,
        stride=conv.stride,
        dilation=conv.dilation,
        turned=conv.mode == ConvolutionMode.CONVOLUTION,
    )


def _check_floating(conv: Convolution, x: Tensor, w: Filter, y: Tensor) -> None:
    """One floating type for all three, and a type to compute in that goes with it."""
    types = {x.dtype, w.dtype, y.dtype}
    if len(types) > 1 or x.dtype not in FLOATING:
        raise not_supported(
            f"x, w and y must be of one floating type: they are {x.dtype.name}, {w.dtype.name}, "
            f"{y.dtype.name}"
        )
    allowed = {
        DataType.DOUBLE: (DataType.DOUBLE,),
        DataType.HALF: (DataType.FLOAT, DataType.HALF),
    }.get(x.dtype, (DataType.FLOAT,))
    if conv.compute_type not in allowed:
        names = " or ".join(member.name for member in allowed)
        raise not_supported(
            f"{x.dtype.name} tensors need compute type {names}, not {conv.compute_type.name}"
        )
