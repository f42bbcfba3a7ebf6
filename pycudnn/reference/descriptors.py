"""The plain data behind each descriptor of cudnn_graph and cudnn_ops.

A descriptor is created empty and filled by its set function; an empty one is refused where its
content is needed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from pycudnn.abi.cudnn_enums import (
    ActivationMode,
    DataType,
    NanPropagation,
    PoolingMode,
    TensorFormat,
)

from .runtime import opaque

# Channels in one vector of NCHW_VECT_C, which are its bytes as well.
VECTOR_WIDTHS = {DataType.INT8x4: 4, DataType.UINT8x4: 4, DataType.INT8x32: 32}


@opaque("cudnnTensorDescriptor_t", "cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor")
@dataclass
class Tensor:
    """Shape and strides (in elements) of a tensor; (N, C, *spatial) whatever the memory order.

    In NCHW_VECT_C an element is a vector of `width` channels; `shape` counts channels.
    """

    dtype: DataType = DataType.FLOAT
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    width: int = 1


@opaque("cudnnFilterDescriptor_t", "cudnnCreateFilterDescriptor", "cudnnDestroyFilterDescriptor")
@dataclass
class Filter:
    """A packed weight tensor: (K, C, *spatial), stored in the order that `format` says."""

    dtype: DataType = DataType.FLOAT
    format: TensorFormat = TensorFormat.NCHW
    shape: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Channels in an element, as of a tensor."""
        return VECTOR_WIDTHS[self.dtype] if self.format == TensorFormat.NCHW_VECT_C else 1

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        return packed_strides(in_vectors(self.shape, self.width), self.format)


@opaque("cudnnPoolingDescriptor_t", "cudnnCreatePoolingDescriptor", "cudnnDestroyPoolingDescriptor")
@dataclass
class Pooling:
    """Window, padding and stride per spatial dimension."""

    mode: PoolingMode = PoolingMode.MAX
    nan_propagation: NanPropagation = NanPropagation.NOT_PROPAGATE_NAN
    window: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()


@opaque(
    "cudnnActivationDescriptor_t",
    "cudnnCreateActivationDescriptor",
    "cudnnDestroyActivationDescriptor",
)
@dataclass
class Activation:
    """Mode and its one parameter: the ceiling of CLIPPED_RELU, the alpha of ELU."""

    mode: ActivationMode | None = None
    nan_propagation: NanPropagation = NanPropagation.NOT_PROPAGATE_NAN
    coefficient: float = 0.0
    swish_beta: float = 1.0


@opaque("cudnnDropoutDescriptor_t", "cudnnCreateDropoutDescriptor", "cudnnDestroyDropoutDescriptor")
@dataclass
class Dropout:
    """Probability of dropping an element, and the caller's memory that holds the generator."""

    probability: float = 0.0
    states: int = 0
    seed: int = 0


@opaque("cudnnLRNDescriptor_t", "cudnnCreateLRNDescriptor", "cudnnDestroyLRNDescriptor")
@dataclass
class LRN:
    """Window and coefficients of ``(k + alpha / n * sum of squares) ** beta``; cuDNN's defaults."""

    n: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 2.0


def in_vectors(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    """The shape with channels counted in vectors of `width`."""
    return shape if width == 1 else (shape[0], shape[1] // width, *shape[2:])


def packed_strides(shape: tuple[int, ...], format: TensorFormat) -> tuple[int, ...]:
    """Strides in elements of a packed tensor: rows last (NCHW), or channels last (NHWC).

    >>> packed_strides((2, 3, 4, 5), TensorFormat.NHWC)
    (60, 1, 15, 3)
    """
    order = list(range(len(shape)))  # dimensions from outermost to innermost
    if format == TensorFormat.NHWC:
        order.append(order.pop(1))
    strides = [1] * len(shape)
    for outer, inner in reversed(list(itertools.pairwise(order))):
        strides[outer] = strides[inner] * shape[inner]
    return tuple(strides)
