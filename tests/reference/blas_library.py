"""cuBLAS's C functions through ctypes, of the reference library or of the real one on a GPU, and
matrices and vectors in memory of its side."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from c_library import CLibrary, Memory

from pycudnn import abi, loader, reference
from pycudnn.abi.types import HANDLES


class BlasLibrary:
    """One library with a handle. Calls go by the C name without "cublas"; the handle is added."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._memory = CLibrary(backend)
        self.handle = HANDLES["cublasHandle_t"]()
        assert self.function("Create_v2")(ctypes.byref(self.handle)) == 0

    def close(self) -> None:
        assert self.function("Destroy_v2")(self.handle) == 0

    def function(self, name: str) -> Any:
        name = f"cublas{name}"
        if self.backend == "reference":
            address = reference.address("cublas", name)
        else:
            symbol = getattr(loader.load("cublas").cdll, name)
            address = ctypes.cast(symbol, ctypes.c_void_p).value
        assert address, f"{self.backend} has no {name}"
        return abi.function_type(abi.prototype("cublas", name))(address)

    def status(self, name: str, *arguments: Any) -> int:
        return self.function(name)(self.handle, *arguments)

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
