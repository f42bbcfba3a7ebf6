"""Column-major storage and error bounds for the tests of this folder."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from pycudnn.cublas import Operation

Array = npt.NDArray[Any]
DTYPES = {"s": np.dtype(np.float32), "d": np.dtype(np.float64)}
LETTERS = tuple(DTYPES)
OPERATIONS = (Operation.N, Operation.T, Operation.C)


def stored(matrix: Array, ld: int) -> Array:
    """The memory of a column-major matrix, one column a row; NaN (or 99) between the columns."""
    padding = 99 if matrix.dtype.kind == "i" else np.nan
    memory = np.full((matrix.shape[1], ld), padding, matrix.dtype)
    memory[:, : matrix.shape[0]] = matrix.T
    return memory


def matrix_in(memory: Array, rows: int) -> Array:
    """The matrix that ``stored`` put there; its padding must be untouched."""
    padding = memory[:, rows:]
    assert np.all((padding != padding) | (padding == 99)), "written between the columns"
    return memory[:, :rows].T


def spread(vector: Array, inc: int) -> Array:
    """The memory of a vector with an increment, NaN between the elements."""
    memory = np.full(max(0, (vector.size - 1) * abs(inc) + 1), np.nan, vector.dtype)
    memory[:: abs(inc)] = vector if inc > 0 else vector[::-1]
    return memory


def vector_in(memory: Array, inc: int) -> Array:
    """The vector that ``spread`` put there; what lies between its elements must be untouched."""
    between = np.delete(memory, np.s_[:: abs(inc)])
    assert np.all(np.isnan(between)), "written between the elements"
    return memory[:: abs(inc)] if inc > 0 else memory[:: abs(inc)][::-1]


def op(operation: Operation, matrix: Array) -> Array:
    """op(matrix) in float64."""
    wide = matrix.astype(np.float64)
    return wide if operation == Operation.N else wide.T


def assert_near(got: Any, want: Any, magnitude: Any, terms: int, dtype: Any = np.float32) -> None:
    """``got`` is ``want`` but for the rounding of a sum of ``terms`` terms computed in ``dtype``.

    ``magnitude`` is the same sum over absolute values: in any order of summation the error stays
    below terms * eps * magnitude.
    """
    bound = (terms + 4) * float(ml_dtypes.finfo(dtype).eps) * np.abs(magnitude) + 1e-300
    error = np.abs(np.asarray(got, np.float64) - want)
    assert np.all(error <= bound), f"error {np.max(error - bound)} over the bound"
