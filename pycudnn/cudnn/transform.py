"""Tensor transforms: padding, cropping, folding space into channels, other layouts."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pycudnn import _core
from pycudnn._core import get_convolution_forward_output_dim
from pycudnn.abi.cudnn_enums import (
    ConvolutionMode,
    DataType,
    FoldingDirection,
    TensorFormat,
)
from pycudnn.cudnn._objects import (
    INT_MAX,
    construct,
    integer,
    integers,
    member,
    require,
    scaling,
)
from pycudnn.cudnn.convolution import ConvolutionDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import FilterDescriptor, TensorDescriptor, read_filter, read_tensor
from pycudnn.errors import NotSupported
from pycudnn.libraries import Library, find_library

Described = TensorDescriptor | FilterDescriptor

_MAX_NDIM = 5  # a descriptor may have 8, but no tensor of more than 5 is transformed


class TensorTransformDescriptor(_core.Owned):
    """How one tensor is made of another (cudnnSetTensorTransformDescriptor).

    ``pad_before`` and ``pad_after`` are elements to add in each dimension, one int for all or one
    per dimension; negative ones crop. ``fold`` are block sizes, one per spatial dimension.
    ``direction`` FOLD pads space, then makes the elements of each block channels: channel c at
    place p of the blocks becomes channel p * C + c. A channel to pad is as many zero channels as a
    block has places, behind all others. UNFOLD is the inverse, and crops channels. ``format`` is
    the order in memory that ``init_transform_dest`` gives the result, NCHW or NHWC. ``ndim`` is 3
    to 5. Of a CUDA library this descriptor needs a driver.

    ValueError for another count than dimensions, a block size below 1, or an unknown enum;
    NotSupported for NCHW_VECT_C.
    """

    c_type = "cudnnTensorTransformDescriptor_t"
    library: Library
    ndim: int

    def __init__(
        self,
        format: TensorFormat = TensorFormat.NCHW,
        *,
        pad_before: int | Sequence[int] = 0,
        pad_after: int | Sequence[int] = 0,
        fold: int | Sequence[int] = 1,
        direction: FoldingDirection = FoldingDirection.FOLD,
        ndim: int = 4,
        library: Library | str | None = None,
    ) -> None:
        self.ndim = count = integer(ndim, "ndim", 3, _MAX_NDIM)
        layout = _plain_format(format, "format")
        before = integers(pad_before, "pad_before", -INT_MAX, count)
        after = integers(pad_after, "pad_after", -INT_MAX, count)
        blocks = integers(fold, "fold", 1, count - 2)
        direction = member(FoldingDirection, direction, "direction")

        def set_up(call: _core.ColdCall) -> None:
            call(
                "cudnnSetTensorTransformDescriptor",
                self, count, layout, _int32s(before), _int32s(after), _uint32s(blocks), direction,
            )  # fmt: skip

        settings = {
            "format": layout, "pad_before": before, "pad_after": after, "fold": blocks,
            "direction": direction,
        }  # fmt: skip
        found = find_library("cudnn", library)
        construct(self, found, "TensorTransformDescriptor", settings, set_up)

    def _read(
        self,
    ) -> tuple[TensorFormat, tuple[int, ...], tuple[int, ...], tuple[int, ...], FoldingDirection]:
        layout, direction = ctypes.c_int(), ctypes.c_int()
        before, after = (_int32s((0,) * self.ndim) for _ in range(2))
        blocks = _uint32s((0,) * (self.ndim - 2))
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetTensorTransformDescriptor",
                self, self.ndim, ctypes.byref(layout), before, after, blocks,
                ctypes.byref(direction),
            )  # fmt: skip
        return (
            TensorFormat(layout.value),
            tuple(before),
            tuple(after),
            tuple(blocks),
            FoldingDirection(direction.value),
        )

    @property
    def format(self) -> TensorFormat:
        """The result's order in memory."""
        return self._read()[0]

    @property
    def pad_before(self) -> tuple[int, ...]:
        """Elements added before the first, per dimension."""
        return self._read()[1]

    @property
    def pad_after(self) -> tuple[int, ...]:
        """Elements added behind the last, per dimension."""
        return self._read()[2]

    @property
    def fold(self) -> tuple[int, ...]:
        """Block size per spatial dimension."""
        return self._read()[3]

    @property
    def direction(self) -> FoldingDirection:
        """From space into channels (FOLD), or back."""
        return self._read()[4]

    def __repr__(self) -> str:
        if self.closed:
            return "<closed TensorTransformDescriptor>"
        layout, before, after, blocks, direction = self._read()
        return (
            f"TensorTransformDescriptor({layout.name}, pad_before={before}, pad_after={after}, "
            f"fold={blocks}, direction={direction.name})"
        )


def _plain_format(value: Any, name: str) -> TensorFormat:
    layout = member(TensorFormat, value, name)
    if layout == TensorFormat.NCHW_VECT_C:
        raise NotSupported(f"{name} must be NCHW or NHWC: cuDNN transforms no vectors of channels")
    return layout


def _check_plain(desc: Described, name: str) -> None:
    if desc.is_vectors:
        raise NotSupported(f"{name} must not be vectors of channels, got {desc!r}")


def _int32s(values: Sequence[int]) -> Any:
    return (ctypes.c_int32 * len(values))(*values)


def _uint32s(values: Sequence[int]) -> Any:
    return (ctypes.c_uint32 * len(values))(*values)


# ---- the result's shape --------------------------------------------------------------------------


def init_transform_dest(
    transform: TensorTransformDescriptor, src_desc: TensorDescriptor
) -> TensorDescriptor:
    """The descriptor of what a transform makes of a tensor (cudnnInitTransformDest).

    It is packed, in the transform's format (with 3 dimensions in NCHW, always), and of the data
    type of ``src_desc``. Space or channels that do not fill their blocks are rounded up. ValueError
    for another number of dimensions than the transform has, and for a result with no elements of
    the source, or with more than 2**31 - 1 in a dimension.
    """
    require(transform, TensorTransformDescriptor, "transform")
    require(src_desc, TensorDescriptor, "src_desc")
    _result(transform, src_desc, "src_desc")
    size = ctypes.c_size_t()
    library = src_desc.library
    with TensorDescriptor(src_desc.shape, library=library) as blank:
        with _core.ColdCall(library) as call:
            call("cudnnInitTransformDest", transform, src_desc, blank, ctypes.byref(size))
            dtype, shape, strides = read_tensor(call, blank)
    return TensorDescriptor(shape, dtype, strides=strides, library=library)


class _Result(NamedTuple):
    shape: tuple[int, ...]
    is_filled: bool  # with zeros, in some places


def _result(transform: TensorTransformDescriptor, src_desc: Described, name: str) -> _Result:
    """Where it does not fit an int, cuDNN's own answer is negative."""
    _check_plain(src_desc, name)
    shape = src_desc.shape
    if len(shape) != transform.ndim:
        raise ValueError(
            f"{name} must have the transform's {transform.ndim} dimensions, got {shape}"
        )
    _, before, after, blocks, direction = transform._read()
    margins = [sum(pair) for pair in zip(before, after, strict=True)]
    count = math.prod(blocks)
    if direction == FoldingDirection.FOLD:
        padded, moved = shape, _added(shape, margins)
        n, c, *space = moved
        sizes = zip(space, blocks, strict=True)
        result = (n, c * count, *(-(-size // block) for size, block in sizes))
        has_rest = math.prod(result) != math.prod(moved)
    else:
        n, c, *space = shape
        padded = (n, -(-c // count), *map(math.prod, zip(space, blocks, strict=True)))
        result = _added(padded, margins)
        has_rest = math.prod(padded) != math.prod(shape)
    crops = [min(first, 0) + min(last, 0) for first, last in zip(before, after, strict=True)]
    if not 0 < min(result) <= max(result) <= INT_MAX or min(_added(padded, crops)) < 1:
        raise ValueError(
            f"{transform!r} makes {result} of {name}, which must hold some of it, at least 1 and "
            f"at most {INT_MAX} in each dimension"
        )
    return _Result(result, has_rest or max(before + after) > 0)


def _added(shape: Sequence[int], margins: Sequence[int]) -> tuple[int, ...]:
    return tuple(size + margin for size, margin in zip(shape, margins, strict=True))


# ---- computing -----------------------------------------------------------------------------------


def transform_tensor_ex(
    handle: Handle,
    transform: TensorTransformDescriptor,
    src_desc: TensorDescriptor,
    src: Any,
    dest_desc: TensorDescriptor,
    dest: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``dest = alpha * transform(src) + beta * dest`` (cudnnTransformTensorEx).

    ``dest_desc`` has the shape of ``init_transform_dest``, and any strides. What is padded is 0,
    and ``beta`` must be 0 then.

    ValueError for another shape, for a dest that overlaps src, and for what cuDNN gets wrong:
    padding a dest with gaps, which it clears, and folding a tensor that does not lie row by row.
    NotSupported for data types that do not go together, and for folding with channels that are
    padded before the others, cropped by FOLD or padded by UNFOLD, of which cuDNN loses some.
    """
    require(src_desc, TensorDescriptor, "src_desc")
    require(dest_desc, TensorDescriptor, "dest_desc")
    _transform(
        "cudnnTransformTensorEx", handle, transform, src_desc, src, dest_desc, dest, alpha, beta
    )


def transform_filter(
    handle: Handle,
    transform: TensorTransformDescriptor,
    src_desc: FilterDescriptor,
    src: Any,
    dest_desc: FilterDescriptor,
    dest: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """``dest = alpha * transform(src) + beta * dest`` for weights (cudnnTransformFilter).

    Shapes as for a tensor of the filter's shape. Errors as in ``transform_tensor_ex``.
    """
    require(src_desc, FilterDescriptor, "src_desc")
    require(dest_desc, FilterDescriptor, "dest_desc")
    _transform(
        "cudnnTransformFilter", handle, transform, src_desc, src, dest_desc, dest, alpha, beta
    )


def _transform(
    function: str,
    handle: Handle,
    transform: TensorTransformDescriptor,
    src_desc: Described,
    src: Any,
    dest_desc: Described,
    dest: Any,
    alpha: float,
    beta: float,
) -> None:
    require(handle, Handle, "handle")
    require(transform, TensorTransformDescriptor, "transform")
    expected = _result(transform, src_desc, "src_desc")
    _check_plain(dest_desc, "dest_desc")
    if dest_desc.shape != expected.shape:
        raise ValueError(f"dest_desc must have shape {expected.shape}, got {dest_desc.shape}")
    if expected.is_filled and _has_gaps(dest_desc):
        raise ValueError(f"dest_desc must not have gaps: cuDNN clears them, got {dest_desc!r}")
    _check_fold(transform, src_desc, dest_desc)
    if dest_desc.dtype_code == DataType.DOUBLE != src_desc.dtype_code:
        raise NotSupported(f"cuDNN cannot convert {src_desc!r} to float64")
    scales = scaling(alpha, beta, src_desc.dtype_code)
    with _core.ColdCall(handle.library, handle) as call:
        src_at = call.operand(src, "src", False, src_desc)
        dest_at = call.operand(dest, "dest", True, dest_desc)
        call.keep_apart()
        call(
            function,
            handle, transform, scales[0], src_desc, src_at, scales[1], dest_desc, dest_at,
        )  # fmt: skip


def _has_gaps(desc: Described) -> bool:
    sizes = zip(desc.shape, desc.strides, strict=True)
    return 1 + sum((size - 1) * stride for size, stride in sizes) > math.prod(desc.shape)


def _check_fold(
    transform: TensorTransformDescriptor, src_desc: Described, dest_desc: Described
) -> None:
    _, before, after, blocks, direction = transform._read()
    if max(blocks) == 1:
        return
    is_fold = direction == FoldingDirection.FOLD
    if before[1] or (after[1] < 0 if is_fold else after[1] > 0):
        raise NotSupported(
            f"cuDNN loses channels: folding may pad them behind the others, unfolding crop them "
            f"there, got {transform!r}"
        )
    # It numbers the places of a block in the order of the strides.
    name, desc = ("src_desc", src_desc) if is_fold else ("dest_desc", dest_desc)
    if any(outer < inner for outer, inner in itertools.pairwise(desc.strides[2:])):
        raise ValueError(f"{name} must lie row by row, got {desc!r} for {transform!r}")


# ---- strided gradients ---------------------------------------------------------------------------


class FoldedConvolution(NamedTuple):
    """A strided convolution's data gradient as one without stride, on folded operands."""

    filter_desc: FilterDescriptor
    diff_desc: TensorDescriptor
    conv: ConvolutionDescriptor
    grad_desc: TensorDescriptor
    filter_fold: TensorTransformDescriptor
    diff_pad: TensorTransformDescriptor
    grad_fold: TensorTransformDescriptor
    grad_unfold: TensorTransformDescriptor


def get_folded_conv_backward_data_descriptors(
    handle: Handle,
    w_desc: FilterDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dx_desc: TensorDescriptor,
    format: TensorFormat = TensorFormat.NCHW,
) -> FoldedConvolution:
    """Descriptors that fold a strided data gradient (cudnnGetFoldedConvBackwardDataDescriptors).

    The weights go through ``filter_fold``, the gradient of the output through ``diff_pad``; the
    data gradient of ``conv`` on them, through ``grad_unfold``, is the gradient of the input.
    ``format`` is that of the folded operands. ValueError for descriptors that do not fit each
    other, NotSupported for what cuDNN folds wrongly: dilation, groups, mode CONVOLUTION.
    """
    require(handle, Handle, "handle")
    _check_convolution(w_desc, dy_desc, conv, dx_desc)
    layout = _plain_format(format, "format")
    library, rank = handle.library, len(w_desc.shape)
    with (
        FilterDescriptor(w_desc.shape, w_desc.dtype, library=library) as blank_filter,
        TensorDescriptor(dy_desc.shape, library=library) as blank_diff,
        ConvolutionDescriptor(ndim=conv.ndim, library=library) as blank_conv,
        TensorDescriptor(dx_desc.shape, library=library) as blank_grad,
    ):
        transforms = [TensorTransformDescriptor(ndim=rank, library=library) for _ in range(4)]
        with _core.ColdCall(library, handle) as call:
            call(
                "cudnnGetFoldedConvBackwardDataDescriptors",
                handle, w_desc, dy_desc, conv, dx_desc, layout, blank_filter, blank_diff,
                blank_conv, blank_grad, *transforms,
            )  # fmt: skip
            filter_type, filter_format, filter_shape = read_filter(call, blank_filter)
            tensors = [read_tensor(call, blank) for blank in (blank_diff, blank_grad)]
        folded = blank_conv.replace()
    diff, grad = (
        TensorDescriptor(shape, dtype, strides=strides, library=library)
        for dtype, shape, strides in tensors
    )
    return FoldedConvolution(
        FilterDescriptor(filter_shape, filter_type, format=filter_format, library=library),
        diff,
        folded,
        grad,
        *(_again(transform) for transform in transforms),
    )


def _check_convolution(
    w_desc: FilterDescriptor,
    dy_desc: TensorDescriptor,
    conv: ConvolutionDescriptor,
    dx_desc: TensorDescriptor,
) -> None:
    """cuDNN asks for none of this but the number of dimensions."""
    require(w_desc, FilterDescriptor, "w_desc")
    require(dy_desc, TensorDescriptor, "dy_desc")
    require(conv, ConvolutionDescriptor, "conv")
    require(dx_desc, TensorDescriptor, "dx_desc")
    if conv.ndim != 2:
        raise NotSupported(f"cuDNN folds 2-d convolutions only, got {conv!r}")
    is_plain = conv.mode == ConvolutionMode.CROSS_CORRELATION and max(conv.dilation) == 1
    if not is_plain or conv.groups > 1:
        raise NotSupported(
            f"conv must be a CROSS_CORRELATION without dilation and groups, got {conv!r}"
        )
    shape = get_convolution_forward_output_dim(conv, dx_desc, w_desc)
    if dy_desc.shape != shape:
        raise ValueError(f"dy_desc must have shape {shape}, got {dy_desc.shape}")
    _check_plain(w_desc, "w_desc")
    types = [desc.data_type.name for desc in (w_desc, dy_desc, dx_desc)]
    if len(set(types)) > 1:
        raise TypeError(f"w_desc, dy_desc and dx_desc must be of one data type, got {types}")


def _again(transform: TensorTransformDescriptor) -> TensorTransformDescriptor:
    """A descriptor with the settings that the library has put into this one."""
    with transform:
        layout, before, after, blocks, direction = transform._read()
        return TensorTransformDescriptor(
            layout, pad_before=before, pad_after=after,
            fold=[max(block, 1) for block in blocks],  # it says 0 for none
            direction=direction, ndim=transform.ndim, library=transform.library,
        )  # fmt: skip
