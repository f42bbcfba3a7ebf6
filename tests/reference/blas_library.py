"""cuBLAS's C functions through ctypes, of the reference library or of the real one on a GPU, and
matrices and vectors in memory of its side."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
from c_library import CLibrary, Memory

from pycudnn import abi, loader, reference
from pycudnn.abi.cublas_enums import Operation
from pycudnn.abi.types import HANDLES

N, T, C = Operation.N, Operation.T, Operation.C
DTYPES: dict[str, Any] = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}


class BlasLibrary:
    """One library with a handle. Calls go by the C name without "cublas"; the handle is added."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._memory = CLibrary(backend)
        self.handle = HANDLES["cublasHandle_t"]()
        assert self.function("Create_v2")(ctypes.byref(self.handle)) == 0

    def close(self) -> None:
        assert self.function("Destroy_v2")(self.handle) == 0

    def function(self, name: str, untyped: bool = False) -> Any:
        """The C function; `untyped` takes any address for any pointer."""
        name = f"cublas{name}"
        if self.backend == "reference":
            address = reference.address("cublas", name)
        else:
            symbol = getattr(loader.load("cublas").cdll, name)
            address = ctypes.cast(symbol, ctypes.c_void_p).value
        assert address, f"{self.backend} has no {name}"
        kind = abi.callback_type if untyped else abi.function_type
        return kind(abi.prototype("cublas", name))(address)

    def status(self, name: str, *arguments: Any) -> int:
        return self.function(name, untyped=True)(self.handle, *arguments)

    def check(self, name: str, *arguments: Any) -> None:
        status = self.status(name, *arguments)
        assert status == 0, f"cublas{name} returned {status}"

    def put(self, array: Any, dtype: Any = np.float32) -> Memory:
        """Any array as contiguous memory."""
        return Memory(self._memory, np.asarray(array, dtype))


def scalar(value: complex, dtype: Any = np.float32) -> Any:
    """A scalar on the host, by address; the array lives as long as the pointer."""
    array = np.array([value], dtype)
    pointer = ctypes.cast(array.ctypes.data, ctypes.c_void_p)
    pointer._keep = array  # type: ignore[attr-defined]
    return pointer


class Result:
    """Where a function writes one number on the host."""

    def __init__(self, c_type: Any) -> None:
        self._value = c_type(-7)
        self.pointer = ctypes.byref(self._value)

    @property
    def value(self) -> Any:
        return self._value.value


def column_major(matrix: np.ndarray, ld: int) -> np.ndarray:
    """Columns one after another, each followed by NaN up to the leading dimension."""
    stored = np.full((matrix.shape[1], ld), np.nan, matrix.dtype)
    stored[:, : matrix.shape[0]] = matrix.T
    return stored


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def op(operation: int, matrix: np.ndarray) -> np.ndarray:
    return {N: matrix, T: matrix.T, C: matrix.conj().T}[Operation(operation)]


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A row times a column for every element."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    result = np.zeros((a.shape[0], b.shape[1]), wide)
    for i, j in itertools.product(*map(range, result.shape)):
        result[i, j] = sum(a[i, t] * b[t, j] for t in range(a.shape[1]))
    return result


def assert_close(got: np.ndarray, want: np.ndarray, dtype: Any, terms: int = 1) -> None:
    tolerance = 8 * (terms + 4) * float(np.finfo(dtype).eps) * (1 + np.abs(want).max(initial=0))
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)


def spread(vector: np.ndarray, inc: int) -> np.ndarray:
    """The memory of a vector: NaN between its elements, and from back to front if inc < 0."""
    memory = np.full((len(vector) - 1) * abs(inc) + 1, np.nan, vector.dtype)
    memory[:: abs(inc)] = vector if inc > 0 else vector[::-1]
    return memory


def gathered(memory: np.ndarray, inc: int) -> np.ndarray:
    between = np.ones(memory.size, bool)
    between[:: abs(inc)] = False
    assert np.isnan(memory[between]).all(), "written between the elements"
    return memory[:: abs(inc)][:: 1 if inc > 0 else -1]
