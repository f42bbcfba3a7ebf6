"""cuDNN's C functions through ctypes, of the reference library or of the real one, with memory of
the side they need. Nothing of the object face is used: what is tested is the C interface."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from pycudnn import abi, loader, reference
from pycudnn.abi.cudnn_enums import DataType, Status
from pycudnn.abi.types import HANDLES

NUMPY_TYPES: dict[DataType, Any] = {
    DataType.FLOAT: np.float32,
    DataType.DOUBLE: np.float64,
    DataType.HALF: np.float16,
    DataType.BFLOAT16: ml_dtypes.bfloat16,
    DataType.INT8: np.int8,
    DataType.INT32: np.int32,
    DataType.UINT8: np.uint8,
}
# A unit in the last place of 1.0.
ROUNDING = {
    DataType.FLOAT: 2.0**-23,
    DataType.DOUBLE: 2.0**-52,
    DataType.HALF: 2.0**-10,
    DataType.BFLOAT16: 2.0**-7,
}


def ints(*values: int) -> Any:
    """A C array of int."""
    return (ctypes.c_int * len(values))(*values)


class CLibrary:
    """One library's functions. `call` returns the status, `check` insists on success."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._functions: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cudnn"):
            raise AttributeError(name)
        if name not in self._functions:
            if self.backend == "reference":
                address = reference.address("cudnn", name)
            else:
                cdll = loader.load("cudnn").cdll
                address = ctypes.cast(getattr(cdll, name), ctypes.c_void_p).value
            assert address, f"{self.backend} has no {name}"
            type_ = abi.function_type(abi.prototype("cudnn", name))
            self._functions[name] = type_(address)
        return self._functions[name]

    def check(self, name: str, *arguments: Any) -> None:
        status = getattr(self, name)(*arguments)
        assert status == 0, f"{name} returned {status}: {self.last_error()}"

    def supports(self, name: str, *arguments: Any) -> bool:
        """Like `check`, but the real cuDNN may answer NOT_SUPPORTED: False then."""
        status = getattr(self, name)(*arguments)
        if status == Status.NOT_SUPPORTED and self.backend == "cuda":
            return False
        assert status == 0, f"{name} returned {status}: {self.last_error()}"
        return True

    def last_error(self) -> str:
        text = ctypes.create_string_buffer(2000)
        self.cudnnGetLastErrorString(text, 2000)
        return text.value.decode()

    def create(self, kind: str) -> Any:
        """A handle (kind "") or an empty descriptor (kind "Tensor", "Pooling", ...)."""
        object_ = HANDLES[f"cudnn{kind}Descriptor_t" if kind else "cudnnHandle_t"]()
        name = f"cudnnCreate{kind}Descriptor" if kind else "cudnnCreate"
        self.check(name, ctypes.byref(object_))
        return object_

    def tensor(self, shape: Any, strides: Any, data_type: int) -> Any:
        """A tensor descriptor."""
        descriptor = self.create("Tensor")
        self.check(
            "cudnnSetTensorNdDescriptor",
            descriptor,
            data_type,
            len(shape),
            ints(*shape),
            ints(*strides),
        )
        return descriptor

    def scalar(self, value: float, data_type: int = DataType.FLOAT) -> Any:
        """alpha or beta, by reference: a double for double tensors."""
        c_type = ctypes.c_double if data_type == DataType.DOUBLE else ctypes.c_float
        return ctypes.byref(c_type(value))


class Memory:
    """Bytes on the library's side, from a NumPy array; freed with the object."""

    def __init__(self, library: CLibrary, array: np.ndarray[Any, Any]) -> None:
        self._host = np.ascontiguousarray(array).copy()
        self._on_gpu = library.backend == "cuda"
        self.address: int = self._host.ctypes.data
        if self._on_gpu:
            from cuda.bindings import runtime

            self._runtime = runtime
            self.address = self._cuda(runtime.cudaMalloc(max(self._host.nbytes, 1)))
            self._copy(self.address, self._host.ctypes.data, "HostToDevice")

    def _cuda(self, result: tuple[Any, ...]) -> Any:
        assert result[0] == self._runtime.cudaError_t.cudaSuccess, result[0]
        return result[1] if len(result) > 1 else None

    def _copy(self, to: int, source: int, kind: str) -> None:
        direction = getattr(self._runtime.cudaMemcpyKind, f"cudaMemcpy{kind}")
        self._cuda(self._runtime.cudaMemcpy(to, source, self._host.nbytes, direction))

    def read(self) -> np.ndarray[Any, Any]:
        if self._on_gpu:
            self._copy(self._host.ctypes.data, self.address, "DeviceToHost")
        return self._host

    def __del__(self) -> None:
        if self._on_gpu:
            self._runtime.cudaFree(self.address)


class Operand:
    """A tensor in memory with its descriptor, for any strides; gaps between elements are NaN (in
    integers: 77), and `read` checks that they stay so."""

    def __init__(
        self,
        library: CLibrary,
        values: Any,
        strides: tuple[int, ...] | None = None,
        data_type: DataType = DataType.FLOAT,
    ) -> None:
        values = np.asarray(values)
        dtype = np.dtype(NUMPY_TYPES[data_type])
        if strides is None:
            strides = packed(values.shape)
        self.shape, self.strides, self.data_type = values.shape, strides, data_type
        extent = 1 + sum((n - 1) * s for n, s in zip(values.shape, strides, strict=True))
        self._gap = 77 if dtype.kind in "iu" else np.nan
        storage = np.full(extent, self._gap, dtype)
        self._logical(storage)[...] = values.astype(dtype)
        self.descriptor = library.tensor(values.shape, strides, data_type)
        self.memory = Memory(library, storage)

    def _logical(self, storage: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return as_strided(storage, self.shape, [s * storage.itemsize for s in self.strides])

    @property
    def address(self) -> int:
        return self.memory.address

    @property
    def arguments(self) -> tuple[Any, int]:
        """Descriptor and address, as most functions take them."""
        return self.descriptor, self.address

    def stored(self) -> np.ndarray[Any, Any]:
        """The tensor in its own data type."""
        storage = self.memory.read().copy()
        in_use = np.zeros(storage.shape, bool)
        self._logical(in_use)[...] = True
        gaps = storage[~in_use].astype(np.float64)
        np.testing.assert_array_equal(gaps, np.full(gaps.shape, self._gap, np.float64))
        return self._logical(storage)

    def read(self) -> np.ndarray[Any, Any]:
        """The tensor as float64."""
        return self.stored().astype(np.float64)


def packed(shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Strides without gaps; `order` lists the dimensions from outermost to innermost."""
    strides, step = [0] * len(shape), 1
    for dimension in reversed(order or range(len(shape))):
        strides[dimension] = step
        step *= shape[dimension]
    return tuple(strides)


def layouts(shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Strides of the layouts that users meet: rows last, channels last, padded, transposed."""
    last = len(shape) - 1
    channels_last = (0, *range(2, last + 1), 1)
    loose, step = [0] * len(shape), 2
    for dimension in reversed(range(len(shape))):
        loose[dimension] = step
        step = step * shape[dimension] + 1
    return {
        "NCHW": packed(shape),
        "NHWC": packed(shape, channels_last),
        "padded": tuple(loose),
        "transposed": packed(shape, (*range(last - 1), last, last - 1)),
    }


def rounded(values: Any, data_type: DataType) -> np.ndarray[Any, Any]:
    """float64 of what the data type can hold of `values`."""
    return np.asarray(values).astype(NUMPY_TYPES[data_type]).astype(np.float64)


def assert_close(
    got: np.ndarray[Any, Any], want: Any, data_type: DataType, ulps: float | None = None
) -> None:
    """Equal up to `ulps` units in the last place of the largest value; NaN where NaN.

    By default 8 for float and double, which the library computes in, and 1 for half types, which
    it stores in only.
    """
    if ulps is None:
        ulps = 1 if data_type in (DataType.HALF, DataType.BFLOAT16) else 8
    want = np.asarray(want, np.float64)
    finite = np.abs(want[np.isfinite(want)])
    largest = max(1.0, finite.max()) if finite.size else 1.0
    tolerance = ulps * ROUNDING[data_type] * largest
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, equal_nan=True)


FLOATING = [DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16]
LAYOUTS = ["NCHW", "NHWC", "padded", "transposed"]
# (alpha, beta); with beta 0 the output holds NaN before the call.
SCALES = [(1.0, 0.0), (2.5, 0.0), (-0.5, 1.0), (1.0, -1.5)]


def before(rng: np.random.Generator, shape: tuple[int, ...], beta: float) -> np.ndarray[Any, Any]:
    """What the output holds before a call: NaN if nobody may read it."""
    return np.full(shape, np.nan) if beta == 0 else rng.standard_normal(shape)


def blended(want: Any, alpha: float, beta: float, old: Any) -> np.ndarray[Any, Any]:
    """alpha * want + beta * old, where beta == 0 does not look at old."""
    scaled = alpha * np.asarray(want, np.float64)
    return scaled if beta == 0 else scaled + beta * np.asarray(old, np.float64)
