"""A fully connected layer in one call, on row-major arrays."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pycudnn.abi.cublas_enums import CudaDataType, Operation
from pycudnn.abi.cublaslt_enums import Epilogue
from pycudnn.cublas.products import Matrices, read_matrices
from pycudnn.cublaslt._types import type_code
from pycudnn.cublaslt.algorithm import Algorithm
from pycudnn.cublaslt.descriptor import MatmulDescriptor
from pycudnn.cublaslt.handle import Handle
from pycudnn.cublaslt.layout import MatrixLayout
from pycudnn.cublaslt.products import matmul
from pycudnn.cudnn._objects import require
from pycudnn.memory import empty

_ACTIVATIONS = {None: Epilogue.DEFAULT, "relu": Epilogue.RELU, "gelu": Epilogue.GELU}
_FLOATS = (CudaDataType.R_32F, CudaDataType.R_16F, CudaDataType.R_16BF)
_WITH_AUX = 128


def linear(
    handle: Handle,
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    activation: str | None = None,
    aux: Any = None,
    out: Any = None,
    algorithm: Algorithm | None = None,
    workspace: Any = None,
) -> Any:
    """out = f(x @ weight.T + bias), all of it in one kernel (cublasLtMatmul).

    ``x`` is (..., inputs), ``weight`` (outputs, inputs), ``bias`` (outputs,); ``out`` is (...,
    outputs), a new buffer if None, and is returned. All have one dtype: float32, float16 or
    bfloat16, summed up in float32 (in TF32 where ``pycudnn.config.tf32`` is set). ``activation`` f
    is None, "relu" or "gelu". ``aux`` receives what its gradient needs: of GELU the input, an array
    like ``out``, of ReLU a mask of uint8, (rows, bytes): one bit an output, in multiples of 16
    bytes. ``weight`` may be a transposed view, and rows may have gaps: nothing is copied.

    ValueError for shapes and layouts that do not fit, TypeError for other dtypes.
    """
    require(handle, Handle, "handle")
    if activation not in tuple(_ACTIVATIONS):
        raise ValueError(f"activation must be None, 'relu' or 'gelu', got {activation!r}")
    if aux is not None and activation is None:
        raise ValueError(f"aux must be None without an activation, got {aux!r}")
    rows = _flat(read_matrices(handle, x, "x"))
    weights = read_matrices(handle, weight, "weight")
    code = type_code(rows.buffer.dtype, "the type of x")
    if code not in _FLOATS:
        raise TypeError(f"x must hold float32, float16 or bfloat16, got {rows.buffer.dtype}")
    (n, k), (m, inner) = rows.shape, weights.shape
    if weights.batch or k != inner:
        raise ValueError(f"weight must be (outputs, {k}) for x of {k} inputs, got {weight!r}")
    shape = (*rows.batch, m)
    if out is None:
        out = empty(shape, rows.buffer.dtype, device=handle.device, stream=handle.stream)
    results = _flat(read_matrices(handle, out, "out"))
    if (*results.batch, results.shape[1]) != shape or not results.leading():
        raise ValueError(f"out must have shape {shape} and contiguous rows, got {out!r}")
    if not n or not m:
        return out
    epilogue = int(_ACTIVATIONS[activation])
    if bias is not None:
        epilogue = epilogue | Epilogue.BIAS if activation else Epilogue.BIAS
    if aux is not None:
        epilogue |= _WITH_AUX
    # Read by columns, row-major memory holds the transposes: out^T = weight x^T.
    left, right = _side(weights, code, handle), _side(rows, code, handle)
    desc = MatmulDescriptor(
        transa=_other(left.operation), transb=right.operation, epilogue=Epilogue(epilogue),
        bias=bias, aux=aux, library=handle.library,
    )  # fmt: skip
    target = MatrixLayout(code, m, n, results.leading(), library=handle.library)
    matmul(
        handle, desc, weights.buffer, left.layout, rows.buffer, right.layout, None, None,
        results.buffer, target, algorithm, workspace,
    )  # fmt: skip
    return out


class _Side(NamedTuple):
    """How column-major cublasLt reads the transpose of a row-major matrix."""

    operation: Operation
    layout: MatrixLayout


def _side(matrices: Matrices, code: CudaDataType, handle: Handle) -> _Side:
    operation, ld = matrices.stored()
    shape = matrices.shape[::-1] if operation == Operation.N else matrices.shape
    return _Side(operation, MatrixLayout(code, *shape, ld, library=handle.library))


def _other(operation: Operation) -> Operation:
    return Operation.T if operation == Operation.N else Operation.N


def _flat(matrices: Matrices) -> Matrices:
    """All rows of a batch as one matrix; ``batch`` is then the shape of those rows."""
    (rows, columns), (step, _) = matrices.shape, matrices.strides
    batch = (*matrices.batch, rows)
    expected = [step * math.prod(batch[axis + 1 :]) for axis in range(len(batch) - 1)]
    for size, have, want in zip(matrices.batch, matrices.batch_strides, expected, strict=True):
        if size > 1 and have != want:
            raise ValueError(
                f"{matrices.name} of batch {batch} must have its rows one step apart, got strides "
                f"{(*matrices.batch_strides, step)}: pass a copy"
            )
    return matrices._replace(shape=(math.prod(batch), columns), batch=batch, batch_strides=())
