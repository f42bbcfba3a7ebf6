"""Pooling of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycudnn import dtypes
from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.abi.cudnn_enums import DataType, NanPropagation, PaddingMode, ResampleMode
from pycudnn.cudnn._objects import integers, shape_of
from pycudnn.cudnn.graph.operation import Operations, Settings
from pycudnn.cudnn.graph.tensor import Shape, Tensor
from pycudnn.cudnn.graph.values import enum_member
from pycudnn.errors import NotSupported

Axes = Any  # one int, or one per spatial axis


def _check_source(x: Tensor) -> None:
    """cuDNN 9.19 leaves parts of the output as they were if sums of products are pooled."""
    waiting = [x]
    while waiting:
        source = waiting.pop().source
        if source is None:
            continue
        if "CONVOLUTION" in source.kind.name or "MATMUL" in source.kind.name:
            raise NotSupported(
                f"a pooling of {x!r}, which comes from a convolution or product of this graph: "
                "give the pooling a graph of its own"
            )
        waiting.extend(source.inputs)


class ResampleOperations(Operations):
    """Resampling forward and backward."""

    def resample_forward(
        self,
        mode: ResampleMode | str,
        x: Tensor,
        window: Axes,
        *,
        padding: Axes = 0,
        post_padding: Axes = None,
        stride: Axes = None,
        padding_mode: PaddingMode | str | None = None,
        index: bool = False,
        dtype: Any = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """y of a pooling of x (N, C, ...), and with ``index`` which element of each window it was.

        ``mode`` is MAXPOOL, AVGPOOL_INCLUDE_PADDING or AVGPOOL_EXCLUDE_PADDING (interpolation is
        left to ``BackendDescriptor``); ``stride`` is the window where it is None. The index, of
        int8, is for MAXPOOL only. ``padding_mode`` is NEG_INF_PAD for MAXPOOL, else ZERO_PAD, where
        it is None.
        ValueError for a window larger than the padded input, or padding not smaller than it.
        NotSupported for what cuDNN 9.19 accepts and gets wrong: poolings of what a convolution or
        product of the same graph makes, and averages of bfloat16.
        """
        x = self._own(x, "x")
        settings, sizes = self._resample(
            mode, x.shape, window, padding, post_padding, stride, padding_mode
        )
        maximum = settings.attributes["RESAMPLE_MODE"] is ResampleMode.MAXPOOL
        _check_source(x)
        if not maximum and DataType.BFLOAT16 in (x.dtype, dtype and dtypes.to_data_type(dtype)):
            raise NotSupported("averages of bfloat16 in graphs: cuDNN 9.19 gives NaN")
        if index and not maximum:
            raise ValueError("index belongs to MAXPOOL")
        shape = (*x.shape[:2], *sizes)
        y = self._result(shape, x, dtype=dtype, name=name)
        which = None
        if index:
            which = self._result(shape, x, dtype="int8", name=f"{name}_index" if name else None)
        self._add(
            K.OPERATION_RESAMPLE_FWD_DESCRIPTOR,
            {
                "OPERATION_RESAMPLE_FWD_DESC": settings,
                "OPERATION_RESAMPLE_FWD_XDESC": x,
                "OPERATION_RESAMPLE_FWD_YDESC": y,
                "OPERATION_RESAMPLE_FWD_IDXDESC": which,
            },
            [x],
            [y, which],
        )
        return y, which

    def resample_backward(
        self,
        mode: ResampleMode | str,
        dy: Tensor,
        shape: Sequence[int],
        window: Axes,
        *,
        index: Tensor | None = None,
        padding: Axes = 0,
        post_padding: Axes = None,
        stride: Axes = None,
        padding_mode: PaddingMode | str | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> Tensor:
        """dx, of ``shape``, of a pooling from dy; MAXPOOL needs the index that it made."""
        dy = self._own(dy, "dy")
        x_shape = shape_of(shape, "shape")
        settings, sizes = self._resample(
            mode, x_shape, window, padding, post_padding, stride, padding_mode
        )
        expected = (*x_shape[:2], *sizes)
        if dy.shape != expected:
            raise ValueError(f"dy must have the shape {expected} of the output, got {dy.shape}")
        maximum = settings.attributes["RESAMPLE_MODE"] is ResampleMode.MAXPOOL
        if (index is not None) != maximum:
            raise ValueError(f"index must be given for MAXPOOL, and for it only; got {index!r}")
        if index is not None and self._own(index, "index").shape != expected:
            raise ValueError(f"index must have the shape {expected}, got {index.shape}")
        dx = self._result(x_shape, dy, dtype=dtype, name=name)
        self._add(
            K.OPERATION_RESAMPLE_BWD_DESCRIPTOR,
            {
                "OPERATION_RESAMPLE_BWD_DESC": settings,
                "OPERATION_RESAMPLE_BWD_DYDESC": dy,
                "OPERATION_RESAMPLE_BWD_IDXDESC": index,
                "OPERATION_RESAMPLE_BWD_DXDESC": dx,
            },
            [dy, index],
            [dx],
        )
        return dx

    def _resample(
        self, mode: Any, x: Shape, window: Axes, padding: Axes, post_padding: Axes,
        stride: Axes, padding_mode: Any,
    ) -> tuple[Settings, Shape]:  # fmt: skip
        """The descriptor, and the spatial sizes of the output."""
        chosen = enum_member(ResampleMode, mode, "mode")
        if chosen in (ResampleMode.NEAREST, ResampleMode.BILINEAR):
            raise ValueError(f"mode must be a pooling, got {chosen.name}")
        axes = len(x) - 2
        if not 1 <= axes <= 3:
            raise ValueError(f"x must have 3 to 5 dimensions (1 to 3 of space), got {x}")
        windows = integers(window, "window", 1, axes)
        before = integers(padding, "padding", 0, axes)
        after = before if post_padding is None else integers(post_padding, "post_padding", 0, axes)
        steps = windows if stride is None else integers(stride, "stride", 1, axes)
        for pads, label in ((before, "padding"), (after, "post_padding")):
            if any(pad >= size for pad, size in zip(pads, windows, strict=True)):
                raise ValueError(f"{label} must be smaller than the window {windows}, got {pads}")
        if padding_mode is None:
            maximum = chosen is ResampleMode.MAXPOOL
            padding_mode = PaddingMode.NEG_INF_PAD if maximum else PaddingMode.ZERO_PAD
        sizes = []
        for axis in range(axes):
            room = x[axis + 2] + before[axis] + after[axis]
            if windows[axis] > room:
                raise ValueError(
                    f"window {windows[axis]} > padded input {room} in spatial axis {axis}"
                )
            sizes.append(1 + (room - windows[axis]) // steps[axis])
        settings = Settings(
            K.RESAMPLE_DESCRIPTOR,
            {
                "RESAMPLE_MODE": chosen,
                "RESAMPLE_COMP_TYPE": self.compute_type,
                "RESAMPLE_NAN_PROPAGATION": NanPropagation.PROPAGATE_NAN,
                "RESAMPLE_SPATIAL_DIMS": axes,
                "RESAMPLE_PADDING_MODE": enum_member(PaddingMode, padding_mode, "padding_mode"),
                "RESAMPLE_WINDOW_DIMS": windows,
                "RESAMPLE_STRIDES": steps,
                "RESAMPLE_PRE_PADDINGS": before,
                "RESAMPLE_POST_PADDINGS": after,
            },
        )
        return settings, tuple(sizes)
