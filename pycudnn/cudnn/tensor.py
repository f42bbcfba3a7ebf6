"""Tensor and filter descriptors."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, DataType, TensorFormat
from pycudnn.cudnn._objects import (
    INT_MAX,
    construct,
    int_array,
    integers,
    member,
    require,
    shape_of,
)
from pycudnn.libraries import Library, find_library

MAX_BYTES = 2**62


class TensorDescriptor(_core.TensorDescriptor):
    """Shape, strides and data type of a tensor (cudnnSetTensor4dDescriptor and its kind).

    ``shape`` is (N, C, H, W) or (N, C, D, H, W), or 2 to 8 dimensions; ``dtype`` a DataType, a
    NumPy dtype or its name. Either ``format`` gives the order in memory, or ``strides`` gives a
    stride in elements per dimension. What the properties tell is read back from the library.

    The vector types INT8x4, UINT8x4 and INT8x32 go with the format NCHW_VECT_C alone: 4 or 32
    channels lie side by side, memory and ``dtype`` are int8 or uint8, and strides count vectors.

    ValueError for a dimension or stride below 1, for more than 2**31 - 1 in one, for other counts
    of strides than dimensions, and for channels that do not fill their vectors; TypeError for an
    unknown dtype; CudnnError where the library itself refuses.
    """

    library: Library
    data_type: DataType = DataType.FLOAT
    """The library's type; that of the vectors, where ``dtype`` is that of their channels."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any = DataType.FLOAT,
        *,
        format: TensorFormat = TensorFormat.NCHW,
        strides: Sequence[int] | None = None,
        library: Library | str | None = None,
    ) -> None:
        dims = shape_of(shape, "shape")
        self.data_type = data_type = dtypes.to_data_type(dtype)
        layout = member(TensorFormat, format, "format")
        steps = None if strides is None else integers(strides, "strides", 1, len(dims))
        check_size(dims, steps, data_type)
        stored, item_bytes = _stored_as(data_type, layout, dims)
        if steps is not None and not item_bytes:
            raise ValueError(f"strides must be None for {data_type.name}, got {strides!r}")
        outermost = math.prod(dims[1:]) // (1 if item_bytes else _VECTORS[data_type][1])
        if steps is None and outermost > INT_MAX:
            # cuDNN wraps it around in silence.
            raise ValueError(
                f"shape {dims} makes a stride of {outermost} elements, strides have 32 bits"
            )
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            if steps is not None and len(dims) == 4:
                call("cudnnSetTensor4dDescriptorEx", self, data_type, *dims, *steps)
            elif steps is not None:
                call(
                    "cudnnSetTensorNdDescriptor",
                    self, data_type, len(dims), int_array(dims), int_array(steps),
                )  # fmt: skip
            elif len(dims) == 4:
                call("cudnnSetTensor4dDescriptor", self, layout, data_type, *dims)
            else:
                call(
                    "cudnnSetTensorNdDescriptorEx",
                    self, layout, data_type, len(dims), int_array(dims),
                )  # fmt: skip
            _, read_shape, read_strides = read_tensor(call, self)
            size = ctypes.c_size_t()
            call("cudnnGetTensorSizeInBytes", self, ctypes.byref(size))
            self._lay_out(stored, read_shape, read_strides, item_bytes, size.value)

        settings = {"shape": dims, "dtype": data_type}
        # However the strides were given, it is they that count.
        settings |= {"format": layout} if steps is None else {"strides": steps}
        construct(self, found, "TensorDescriptor", settings, set_up)
        self._set_once({"shape": self.shape, "dtype": data_type, "strides": self.strides})

    @classmethod
    def like(
        cls, array: np.ndarray[Any, Any], *, library: Library | str | None = None
    ) -> TensorDescriptor:
        """The descriptor of an array: its shape, its strides, its dtype.

        ValueError for strides that are no whole number of elements.
        """
        require(array, np.ndarray, "array")
        if any(step % array.itemsize for step in array.strides):
            raise ValueError(
                f"array must have strides of whole elements, got {array.strides} bytes for "
                f"{array.dtype}"
            )
        steps = [step // array.itemsize for step in array.strides]
        return cls(array.shape, array.dtype, strides=steps, library=library)

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type: a NumPy dtype, or a DataType where NumPy has none."""
        return dtypes.to_numpy(self.dtype_code)

    @property
    def is_vectors(self) -> bool:
        """Do channels lie in vectors (NCHW_VECT_C)?"""
        return self.data_type in _VECTORS

    def __repr__(self) -> str:
        if self.closed:
            return "<closed TensorDescriptor>"
        dtype = self.data_type.name if self.is_vectors else self.dtype
        return f"TensorDescriptor(shape={self.shape}, strides={self.strides}, dtype={dtype})"


class FilterDescriptor(_core.FilterDescriptor):
    """Shape and data type of convolution weights (cudnnSetFilter4dDescriptor, ...NdDescriptor).

    ``shape`` is (K, C / groups, R, S) or with three spatial dimensions, whatever the order in
    memory, which ``format`` gives: NCHW is KCRS, NHWC is KRSC. Errors as in TensorDescriptor.
    """

    library: Library
    format: TensorFormat
    data_type: DataType = DataType.FLOAT
    """As of a tensor."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any = DataType.FLOAT,
        *,
        format: TensorFormat = TensorFormat.NCHW,
        library: Library | str | None = None,
    ) -> None:
        dims = shape_of(shape, "shape")
        if len(dims) < 3:
            raise ValueError(f"shape must have 3 to {CUDNN_DIM_MAX} dimensions, got {shape!r}")
        self.data_type = data_type = dtypes.to_data_type(dtype)
        self.format = member(TensorFormat, format, "format")
        check_size(dims, None, data_type)
        stored, item_bytes = _stored_as(data_type, self.format, dims)
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            if len(dims) == 4:
                call("cudnnSetFilter4dDescriptor", self, data_type, self.format, *dims)
            else:
                call(
                    "cudnnSetFilterNdDescriptor",
                    self, data_type, self.format, len(dims), int_array(dims),
                )  # fmt: skip
            _, _, read_back = read_filter(call, self)
            size = ctypes.c_size_t()
            call("cudnnGetFilterSizeInBytes", self, ctypes.byref(size))
            strides = _filter_strides(read_back, self.format)
            self._lay_out(stored, read_back, strides, item_bytes, size.value)

        settings = {"shape": dims, "dtype": data_type, "format": self.format}
        construct(self, found, "FilterDescriptor", settings, set_up)

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type: a NumPy dtype, or a DataType where NumPy has none."""
        return dtypes.to_numpy(self.dtype_code)

    @property
    def is_vectors(self) -> bool:
        """Do channels lie in vectors (NCHW_VECT_C)?"""
        return self.data_type in _VECTORS

    def __repr__(self) -> str:
        if self.closed:
            return "<closed FilterDescriptor>"
        dtype = self.data_type.name if self.is_vectors else self.dtype
        return f"FilterDescriptor(shape={self.shape}, dtype={dtype}, format={self.format.name})"


def check_size(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, data_type: DataType
) -> None:
    """cuDNN lets the size in bytes wrap around in silence."""
    elements = 1
    if strides is None:
        for size in shape:
            elements *= size
    else:
        elements += sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if elements * dtypes.item_bytes(data_type) > MAX_BYTES:
        raise ValueError(f"shape {shape} spans {elements} elements, more than memory can have")


# Vector type: what its elements are in memory, and how many channels one vector holds.
_VECTORS = {
    DataType.INT8x4: (DataType.INT8, 4),
    DataType.UINT8x4: (DataType.UINT8, 4),
    DataType.INT8x32: (DataType.INT8, 32),
}


def _stored_as(
    data_type: DataType, layout: TensorFormat, shape: tuple[int, ...]
) -> tuple[DataType, int]:
    """The type in memory, and the bytes of an element; 0 for a vector's, which strides skip.

    cuDNN takes vector formats of plain types, and channels that do not fill their vectors.
    """
    if (data_type in _VECTORS) != (layout == TensorFormat.NCHW_VECT_C):
        raise ValueError(
            f"format NCHW_VECT_C goes with INT8x4, UINT8x4 and INT8x32 only, and these with no "
            f"other; got {layout.name} with {data_type.name}"
        )
    if data_type not in _VECTORS:
        return data_type, dtypes.item_bytes(data_type)
    stored, width = _VECTORS[data_type]
    if shape[1] % width:
        raise ValueError(f"shape[1] must be a multiple of {width} for {data_type.name}: {shape}")
    return stored, 0


def read_tensor(
    call: _core.ColdCall, descriptor: TensorDescriptor
) -> tuple[DataType, tuple[int, ...], tuple[int, ...]]:
    """Data type, shape and strides as the library has them."""
    count = ctypes.c_int()
    data_type = ctypes.c_int()
    dims = (ctypes.c_int * CUDNN_DIM_MAX)()
    strides = (ctypes.c_int * CUDNN_DIM_MAX)()
    call(
        "cudnnGetTensorNdDescriptor",
        descriptor, CUDNN_DIM_MAX, ctypes.byref(data_type), ctypes.byref(count), dims, strides,
    )  # fmt: skip
    return DataType(data_type.value), tuple(dims[: count.value]), tuple(strides[: count.value])


def read_filter(
    call: _core.ColdCall, descriptor: FilterDescriptor
) -> tuple[DataType, TensorFormat, tuple[int, ...]]:
    """Data type, format and shape as the library has them."""
    count, data_type, layout = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    dims = (ctypes.c_int * CUDNN_DIM_MAX)()
    call(
        "cudnnGetFilterNdDescriptor",
        descriptor, CUDNN_DIM_MAX, ctypes.byref(data_type), ctypes.byref(layout),
        ctypes.byref(count), dims,
    )  # fmt: skip
    return DataType(data_type.value), TensorFormat(layout.value), tuple(dims[: count.value])


def _filter_strides(shape: tuple[int, ...], layout: TensorFormat) -> tuple[int, ...]:
    """Strides in elements; cuDNN has no getter for them."""
    order = list(range(len(shape)))
    if layout == TensorFormat.NHWC:
        order = [0, *order[2:], 1]
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)
