"""A strided data gradient as one without stride, on folded operands.

With stride u, what becomes of an input element depends on its place in a block of u elements. FOLD
makes these places channels. Then a window, which starts at a multiple of u, covers whole blocks;
zeros around it and around the image fill blocks up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pycudnn.abi.cudnn_enums import FoldingDirection, TensorFormat

from ..cudnn_graph import Handle
from ..cudnn_ops.transform import TensorTransform, transformed_shape
from ..descriptors import Filter, Tensor, packed_strides
from ..runtime import bad_param, implements, not_supported
from .descriptor import Convolution

_CHANNELS = 8  # filters, and channels of the folded image as far as blocks allow, come in eights


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


@dataclass
class _Axis:
    """One spatial dimension: sizes of image and window, padding and stride."""

    image: int
    window: int
    padding: int
    stride: int

    @property
    def before(self) -> int:
        """Zeros before the window, so that the padded image starts with a whole block."""
        return _round_up(self.padding, self.stride) - self.padding

    @property
    def after(self) -> int:
        """Zeros behind the window, so that it ends with a whole block."""
        filled = self.before + self.window
        return _round_up(filled, self.stride) - filled

    @property
    def blocks(self) -> int:
        """The image in blocks, as far as windows reach."""
        steps = (self.image + 2 * self.padding - self.window) // self.stride
        reached = steps * self.stride + self.window - self.padding
        return -(-min(self.image, reached) // self.stride)

    @property
    def missing(self) -> int:
        """Output positions to add: the folded window must slide over all blocks."""
        outputs = 1 + (self.image + 2 * self.padding - self.window) // self.stride
        window = (self.before + self.window + self.after) // self.stride
        padding = _round_up(self.padding, self.stride) // self.stride
        return max(self.blocks - (outputs + window - 1 - 2 * padding), 0)


def _check(w: Filter, dy: Tensor, conv: Convolution, dx: Tensor, layout: int) -> None:
    if not len(w.shape) == len(dy.shape) == len(dx.shape) == len(conv.padding) + 2 == 4:
        raise bad_param(
            f"w {w.shape}, dy {dy.shape} and dx {dx.shape} must have 4 dimensions, the "
            f"convolution 2 instead of {len(conv.padding)}"
        )
    if layout not in (TensorFormat.NCHW, TensorFormat.NHWC):
        raise not_supported(f"transformFormat is {layout}, must be NCHW (0) or NHWC (1)")


def _filled(w: Filter, conv: Convolution) -> tuple[int, int]:
    """Filters and channels to add."""
    places = math.prod(conv.stride)
    channels = _round_up(w.shape[1] * places, _CHANNELS) // places
    return _round_up(w.shape[0], _CHANNELS) - w.shape[0], channels - w.shape[1]


@implements("cudnnGetFoldedConvBackwardDataDescriptors")
def get_folded_descriptors(
    handle: Handle,
    w: Filter,
    dy: Tensor,
    conv: Convolution,
    dx: Tensor,
    layout: int,
    folded_w: Filter,
    padded_dy: Tensor,
    folded_conv: Convolution,
    folded_dx: Tensor,
    fold_w: TensorTransform,
    pad_dy: TensorTransform,
    fold_dx: TensorTransform,
    unfold_dx: TensorTransform,
) -> None:
    """Four descriptors for the gradient on folded operands, and four transforms to and from them.

    As in cuDNN, dilation, mode and groups stay as they are, which makes no sense of any but 1,
    CROSS_CORRELATION and 1; and whether dy fits the convolution is not asked.
    """
    _check(w, dy, conv, dx, layout)
    axes = [
        _Axis(*sizes)
        for sizes in zip(dx.shape[2:], w.shape[2:], conv.padding, conv.stride, strict=True)
    ]
    filters, channels = _filled(w, conv)
    sizes = [axis.blocks * axis.stride for axis in axes]
    behind = [axis.image - size for axis, size in zip(axes, sizes, strict=True)]
    form = TensorFormat(layout)
    _set(
        fold_w,
        form,
        (0, 0, *(axis.before for axis in axes)),
        (filters, channels, *(axis.after for axis in axes)),
        conv.stride,
    )
    _set(pad_dy, form, (0,) * 4, (0, filters, *(axis.missing for axis in axes)), (0, 0))
    crop = (min(-size, 0) for size in behind)
    _set(fold_dx, form, (0,) * 4, (0, channels, *crop), conv.stride)
    _set(unfold_dx, _layout(dx), (0,) * 4, (0, -channels, *behind), conv.stride)
    unfold_dx.direction = FoldingDirection.UNFOLD

    folded_w.dtype, folded_w.format = w.dtype, form
    folded_w.shape = transformed_shape(fold_w, w.shape)
    for target, transform, source in ((padded_dy, pad_dy, dy), (folded_dx, fold_dx, dx)):
        shape = transformed_shape(transform, source.shape)
        vars(target).update(vars(Tensor(source.dtype, shape, packed_strides(shape, form))))
    vars(folded_conv).update(vars(conv))
    folded_conv.padding = tuple(-(-axis.padding // axis.stride) for axis in axes)
    folded_conv.stride = (1, 1)


def _set(
    transform: TensorTransform,
    form: TensorFormat,
    before: tuple[int, ...],
    after: tuple[int, ...],
    fold: tuple[int, ...],
) -> None:
    transform.format, transform.direction = form, FoldingDirection.FOLD
    transform.pad_before, transform.pad_after, transform.fold = before, after, fold


def _layout(tensor: Tensor) -> TensorFormat:
    """NHWC where channels lie side by side."""
    packed = packed_strides(tensor.shape, TensorFormat.NCHW)
    channels_last = tensor.strides[1] == 1 and tensor.strides != packed
    return TensorFormat.NHWC if channels_last else TensorFormat.NCHW
