"""Convolutions and matrix products of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.abi.cudnn_enums import ConvolutionMode
from pycudnn.cudnn._objects import integers, shape_of
from pycudnn.cudnn.graph.operation import Operations, Settings
from pycudnn.cudnn.graph.tensor import Shape, Tensor, broadcast
from pycudnn.cudnn.graph.values import enum_member

Axes = Any  # one int, or one per spatial axis


class _Window:
    """Padding, stride and dilation of a convolution, per spatial axis."""

    def __init__(
        self, ndim: int, padding: Axes, post_padding: Axes, stride: Axes, dilation: Axes, mode: Any
    ) -> None:
        self.axes = ndim - 2
        if not 1 <= self.axes <= 3:
            raise ValueError(f"x must have 3 to 5 dimensions (1 to 3 of space), got {ndim}")
        self.before = integers(padding, "padding", 0, self.axes)
        after = padding if post_padding is None else post_padding
        self.after = integers(after, "post_padding", 0, self.axes)
        self.stride = integers(stride, "stride", 1, self.axes)
        self.dilation = integers(dilation, "dilation", 1, self.axes)
        self.mode = enum_member(ConvolutionMode, mode, "mode")

    def output(self, x: Shape, w: Shape) -> Shape:
        """Spatial sizes of the output; ValueError where the window is larger than the input."""
        sizes = []
        for axis in range(self.axes):
            reach = (w[axis] - 1) * self.dilation[axis] + 1
            room = x[axis] + self.before[axis] + self.after[axis]
            if reach > room:
                raise ValueError(
                    f"the window spans {reach} elements in spatial axis {axis}, "
                    f"the padded input has {room}"
                )
            sizes.append(1 + (room - reach) // self.stride[axis])
        return tuple(sizes)

    def settings(self, compute_type: Any) -> Settings:
        return Settings(
            K.CONVOLUTION_DESCRIPTOR,
            {
                "CONVOLUTION_COMP_TYPE": compute_type,
                "CONVOLUTION_CONV_MODE": self.mode,
                "CONVOLUTION_SPATIAL_DIMS": self.axes,
                "CONVOLUTION_DILATIONS": self.dilation,
                "CONVOLUTION_FILTER_STRIDES": self.stride,
                "CONVOLUTION_PRE_PADDINGS": self.before,
                "CONVOLUTION_POST_PADDINGS": self.after,
            },
        )


def _check_channels(x: Shape, w: Shape) -> None:
    """x is (N, C, ...), w (K, C / groups, ...)."""
    if len(x) != len(w):
        raise ValueError(f"x and w must have the same rank, got {x} and {w}")
    groups, rest = divmod(x[1], w[1])
    if rest or w[0] % groups:
        raise ValueError(
            f"the {x[1]} channels of x must be a multiple of the {w[1]} of w, and its {w[0]} "
            "filters one of the number of groups"
        )


class ConvolutionOperations(Operations):
    """Convolution forward, its two gradients, and matrix products."""

    def convolution_forward(
        self,
        x: Tensor,
        w: Tensor,
        *,
        padding: Axes = 0,
        post_padding: Axes = None,
        stride: Axes = 1,
        dilation: Axes = 1,
        mode: ConvolutionMode | str = ConvolutionMode.CROSS_CORRELATION,
        dtype: Any = None,
        strides: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """y of a convolution of x (N, C, ...) with w (K, C / groups, ...), 1 to 3 spatial axes.

        ``padding`` is before each axis and, unless ``post_padding`` says otherwise, behind it.
        ``dtype``, ``strides`` and ``name`` are those of the result. ValueError for shapes that do
        not fit.
        """
        x, w = self._own(x, "x"), self._own(w, "w")
        window = _Window(len(x.shape), padding, post_padding, stride, dilation, mode)
        _check_channels(x.shape, w.shape)
        shape = (x.shape[0], w.shape[0], *window.output(x.shape[2:], w.shape[2:]))
        y = self._result(shape, x, dtype=dtype, strides=strides, name=name)
        self._convolve("FORWARD", window, {"X": x, "W": w}, {"Y": y})
        return y

    def convolution_data_gradient(
        self,
        dy: Tensor,
        w: Tensor,
        shape: Sequence[int] | None = None,
        *,
        padding: Axes = 0,
        post_padding: Axes = None,
        stride: Axes = 1,
        dilation: Axes = 1,
        mode: ConvolutionMode | str = ConvolutionMode.CROSS_CORRELATION,
        dtype: Any = None,
        strides: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """dx of a convolution from dy and w.

        ``shape`` is that of x; None takes the smallest that gives dy. ValueError if the convolution
        of such an x has another shape than dy.
        """
        dy, w = self._own(dy, "dy"), self._own(w, "w")
        window = _Window(len(dy.shape), padding, post_padding, stride, dilation, mode)
        if shape is None:
            if len(w.shape) != len(dy.shape):
                raise ValueError(f"dy and w must have the same rank, got {dy.shape} and {w.shape}")
            space = [
                (dy.shape[axis + 2] - 1) * window.stride[axis]
                + (w.shape[axis + 2] - 1) * window.dilation[axis]
                + 1
                - window.before[axis]
                - window.after[axis]
                for axis in range(window.axes)
            ]
            shape = (dy.shape[0], w.shape[1], *space)
        x_shape = shape_of(shape, "shape")
        self._check_output(window, x_shape, w.shape, dy.shape)
        dx = self._result(x_shape, dy, dtype=dtype, strides=strides, name=name)
        self._convolve("BWD_DATA", window, {"DY": dy, "W": w}, {"DX": dx})
        return dx

    def convolution_filter_gradient(
        self,
        x: Tensor,
        dy: Tensor,
        shape: Sequence[int],
        *,
        padding: Axes = 0,
        post_padding: Axes = None,
        stride: Axes = 1,
        dilation: Axes = 1,
        mode: ConvolutionMode | str = ConvolutionMode.CROSS_CORRELATION,
        dtype: Any = None,
        strides: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """dw, of ``shape`` (K, C / groups, ...), of a convolution from x and dy."""
        x, dy = self._own(x, "x"), self._own(dy, "dy")
        window = _Window(len(x.shape), padding, post_padding, stride, dilation, mode)
        w_shape = shape_of(shape, "shape")
        self._check_output(window, x.shape, w_shape, dy.shape)
        dw = self._result(w_shape, x, dtype=dtype, strides=strides, name=name)
        self._convolve("BWD_FILTER", window, {"X": x, "DY": dy}, {"DW": dw})
        return dw

    @staticmethod
    def _check_output(window: _Window, x: Shape, w: Shape, dy: Shape) -> None:
        _check_channels(x, w)
        expected = (x[0], w[0], *window.output(x[2:], w[2:]))
        if expected != dy:
            raise ValueError(
                f"dy must have the shape {expected} of the convolution's output, got {dy}"
            )

    def _convolve(
        self, direction: str, window: _Window, inputs: dict[str, Tensor], outputs: dict[str, Tensor]
    ) -> None:
        prefix = f"OPERATION_CONVOLUTION_{direction}_"
        attributes = {
            "CONV_DESC": window.settings(self.compute_type),
            **inputs,
            **outputs,
            "ALPHA": 1.0,
            "BETA": 0.0,
        }
        kind = {
            "FORWARD": K.OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            "BWD_DATA": K.OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            "BWD_FILTER": K.OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        }[direction]
        named = {prefix + name: value for name, value in attributes.items()}
        self._add(kind, named, list(inputs.values()), list(outputs.values()))

    @property
    def has_matrix_products(self) -> bool:
        """Has ``matmul`` been called?"""
        return any(each.kind is K.OPERATION_MATMUL_DESCRIPTOR for each in self._operations)

    def matmul(
        self,
        a: Tensor,
        b: Tensor,
        *,
        dtype: Any = None,
        strides: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Matrix products of a (..., M, K) and b (..., K, N), at least 3 dimensions each.

        The dimensions before the last two are batches; sizes of 1 repeat. A transposed matrix is
        a tensor with such strides. ValueError for shapes that do not fit.
        """
        a, b = self._own(a, "a"), self._own(b, "b")
        if len(a.shape) < 3 or len(a.shape) != len(b.shape):
            raise ValueError(
                f"a and b must have the same rank, at least 3, got {a.shape} and {b.shape}"
            )
        if a.shape[-1] != b.shape[-2]:
            raise ValueError(f"the columns of a must be the rows of b: {a.shape} and {b.shape}")
        batch = broadcast((a.shape[:-2], b.shape[:-2]), ("the batches of a", "of b"))
        shape = (*batch, a.shape[-2], b.shape[-1])
        c = self._result(shape, None, dtype=dtype, strides=strides, name=name)
        self._add(
            K.OPERATION_MATMUL_DESCRIPTOR,
            {
                "OPERATION_MATMUL_DESC": Settings(
                    K.MATMUL_DESCRIPTOR, {"MATMUL_COMP_TYPE": self.compute_type}
                ),
                "OPERATION_MATMUL_ADESC": a,
                "OPERATION_MATMUL_BDESC": b,
                "OPERATION_MATMUL_CDESC": c,
            },
            [a, b],
            [c],
        )
        return c
