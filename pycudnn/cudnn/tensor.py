"""Tensor and filter descriptors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, DataType, TensorFormat
from pycudnn.cudnn._objects import construct, int_array, integers, member, shape_of
from pycudnn.libraries import Library, find_library

MAX_BYTES = 2**62


class TensorDescriptor(_core.TensorDescriptor):
    """Shape, strides and data type of a tensor (cudnnSetTensor4dDescriptor and its kind).

    ``shape`` is (N, C, H, W) or (N, C, D, H, W), or 2 to 8 dimensions; ``dtype`` a DataType, a
    NumPy dtype or its name. Either ``format`` gives the order in memory, or ``strides`` gives a
    stride in elements per dimension. What the properties tell is read back from the library.

    ValueError for a dimension or stride below 1, for more than 2**31 - 1 in one, and for other
    counts of strides than dimensions; TypeError for an unknown dtype; CudnnError where the library
    itself refuses.
    """

    library: Library

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
        data_type = dtypes.to_data_type(dtype)
        layout = member(TensorFormat, format, "format")
        steps = None if strides is None else integers(strides, "strides", 1, len(dims))
        check_size(dims, steps, data_type)
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
            self._lay_out(
                data_type, read_shape, read_strides, dtypes.item_bytes(data_type), size.value
            )

        settings = {"shape": dims, "dtype": data_type}
        # However the strides were given, it is they that count.
        settings |= {"format": layout} if steps is None else {"strides": steps}
        construct(self, found, "TensorDescriptor", settings, set_up)
        self._set_once({"shape": self.shape, "dtype": data_type, "strides": self.strides})

    @classmethod
    def like(
        cls, array: np.ndarray[Any, Any], *, library: Library | str | None = None
    ) -> TensorDescriptor:
        """The descriptor of an array: its shape, its strides, its dtype."""
        steps = [step // array.itemsize for step in array.strides]
        return cls(array.shape, array.dtype, strides=steps, library=library)

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type: a NumPy dtype, or a DataType where NumPy has none."""
        return dtypes.to_numpy(self.dtype_code)

    def __repr__(self) -> str:
        if self.closed:
            return "<closed TensorDescriptor>"
        return f"TensorDescriptor(shape={self.shape}, strides={self.strides}, dtype={self.dtype})"


class FilterDescriptor(_core.FilterDescriptor):
    """Shape and data type of convolution weights (cudnnSetFilter4dDescriptor, ...NdDescriptor).

    ``shape`` is (K, C / groups, R, S) or with three spatial dimensions, whatever the order in
    memory, which ``format`` gives: NCHW is KCRS, NHWC is KRSC. Errors as in TensorDescriptor.
    """

    library: Library
    format: TensorFormat

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
        data_type = dtypes.to_data_type(dtype)
        self.format = member(TensorFormat, format, "format")
        check_size(dims, None, data_type)
        found = find_library("cudnn", library)

        def set_up(call: _core.ColdCall) -> None:
            if len(dims) == 4:
                call("cudnnSetFilter4dDescriptor", self, data_type, self.format, *dims)
            else:
                call(
                    "cudnnSetFilterNdDescriptor",
                    self, data_type, self.format, len(dims), int_array(dims),
                )  # fmt: skip
            read_back = _read_filter(call, self)
            size = ctypes.c_size_t()
            call("cudnnGetFilterSizeInBytes", self, ctypes.byref(size))
            strides = _filter_strides(read_back, self.format)
            self._lay_out(data_type, read_back, strides, dtypes.item_bytes(data_type), size.value)

        settings = {"shape": dims, "dtype": data_type, "format": self.format}
        construct(self, found, "FilterDescriptor", settings, set_up)

    @property
    def dtype(self) -> np.dtype[Any] | DataType:
        """The element type: a NumPy dtype, or a DataType where NumPy has none."""
        return dtypes.to_numpy(self.dtype_code)

    def __repr__(self) -> str:
        if self.closed:
            return "<closed FilterDescriptor>"
        return (
            f"FilterDescriptor(shape={self.shape}, dtype={self.dtype}, format={self.format.name})"
        )


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


def _read_filter(call: _core.ColdCall, descriptor: FilterDescriptor) -> tuple[int, ...]:
    count, data_type, layout = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    dims = (ctypes.c_int * CUDNN_DIM_MAX)()
    call(
        "cudnnGetFilterNdDescriptor",
        descriptor, CUDNN_DIM_MAX, ctypes.byref(data_type), ctypes.byref(layout),
        ctypes.byref(count), dims,
    )  # fmt: skip
    return tuple(dims[: count.value])


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
