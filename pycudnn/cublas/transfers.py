"""Copies of strided vectors and matrices between host and device (cublasSetVector and its like).

``Buffer.copy_from`` and ``Buffer.numpy`` copy whole buffers; these know increments and leading
dimensions, in elements of ``elem_size`` bytes. Host memory is a contiguous NumPy array, for the
queued forms (``..._async``) a PinnedBuffer, which must not be changed or read until the stream is
past the copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudnn import _core
from pycudnn.cublas._numbers import INT_MAX, LONG_MAX, check_leading, integer, size
from pycudnn.cublas._shapes import Block
from pycudnn.device import Stream
from pycudnn.errors import LibraryMismatch
from pycudnn.libraries import get_library
from pycudnn.memory import Buffer, PinnedBuffer


def set_vector(n: int, elem_size: int, x: Any, incx: int, y: Buffer, incy: int) -> None:
    """Copy n elements from the host x to the device y (cublasSetVector)."""
    _vector("cublasSetVector", n, elem_size, x, incx, y, incy, None)


def get_vector(n: int, elem_size: int, x: Buffer, incx: int, y: Any, incy: int) -> None:
    """Copy n elements from the device x to the host y (cublasGetVector)."""
    _vector("cublasGetVector", n, elem_size, x, incx, y, incy, None)


def set_matrix(rows: int, cols: int, elem_size: int, a: Any, lda: int, b: Buffer, ldb: int) -> None:
    """Copy a column-major rows x cols matrix from the host a to the device b (cublasSetMatrix)."""
    _matrix("cublasSetMatrix", rows, cols, elem_size, a, lda, b, ldb, None)


def get_matrix(rows: int, cols: int, elem_size: int, a: Buffer, lda: int, b: Any, ldb: int) -> None:
    """Copy a column-major rows x cols matrix from the device a to the host b (cublasGetMatrix)."""
    _matrix("cublasGetMatrix", rows, cols, elem_size, a, lda, b, ldb, None)


def set_vector_async(
    n: int, elem_size: int, x: PinnedBuffer, incx: int, y: Buffer, incy: int, stream: Stream
) -> None:
    """``set_vector`` queued on a stream (cublasSetVectorAsync)."""
    _vector("cublasSetVectorAsync", n, elem_size, x, incx, y, incy, _checked(stream))


def get_vector_async(
    n: int, elem_size: int, x: Buffer, incx: int, y: PinnedBuffer, incy: int, stream: Stream
) -> None:
    """``get_vector`` queued on a stream (cublasGetVectorAsync)."""
    _vector("cublasGetVectorAsync", n, elem_size, x, incx, y, incy, _checked(stream))


def set_matrix_async(
    rows: int, cols: int, elem_size: int, a: PinnedBuffer, lda: int, b: Buffer, ldb: int,
    stream: Stream,
) -> None:  # fmt: skip
    """``set_matrix`` queued on a stream (cublasSetMatrixAsync)."""
    _matrix("cublasSetMatrixAsync", rows, cols, elem_size, a, lda, b, ldb, _checked(stream))


def get_matrix_async(
    rows: int, cols: int, elem_size: int, a: Buffer, lda: int, b: PinnedBuffer, ldb: int,
    stream: Stream,
) -> None:  # fmt: skip
    """``get_matrix`` queued on a stream (cublasGetMatrixAsync)."""
    _matrix("cublasGetMatrixAsync", rows, cols, elem_size, a, lda, b, ldb, _checked(stream))


def _checked(stream: Any) -> Stream:
    if not isinstance(stream, Stream):
        raise TypeError(f"stream must be a Stream, got {stream!r}")
    return stream


def _vector(
    function: str, n: Any, elem_size: Any, x: Any, incx: Any, y: Any, incy: Any,
    stream: Stream | None,
) -> None:  # fmt: skip
    count = size(n, "n")
    steps = [
        integer(inc, name, 1, LONG_MAX, "an int from 1 to 2**63 - 1")
        for inc, name in ((incx, "incx"), (incy, "incy"))
    ]
    item = _item(elem_size)
    blocks = [Block(1, count, step) for step in steps]
    _copy(function, (count, item), [x, y], "xy", steps, blocks, item, stream)


def _matrix(
    function: str, rows: Any, cols: Any, elem_size: Any, a: Any, lda: Any, b: Any, ldb: Any,
    stream: Stream | None,
) -> None:  # fmt: skip
    m, n = size(rows, "rows"), size(cols, "cols")
    steps = [size(ld, name) for ld, name in ((lda, "lda"), (ldb, "ldb"))]
    for name, step in zip(("lda", "ldb"), steps, strict=True):
        check_leading(name, step, m)
    item = _item(elem_size)
    blocks = [Block(m, n, step) for step in steps]
    _copy(function, (m, n, item), [a, b], "ab", steps, blocks, item, stream)


def _item(elem_size: Any) -> int:
    return integer(elem_size, "elem_size", 1, INT_MAX, "an int from 1 to 2**31 - 1")


def _copy(
    function: str,
    sizes: tuple[int, ...],
    memories: list[Any],
    names: str,
    steps: list[int],
    blocks: list[Block],
    item: int,
    stream: Stream | None,
) -> None:
    to_device = "Set" in function
    buffer, host = memories[to_device], memories[not to_device]
    buffer_name, host_name = names[to_device], names[not to_device]
    if not isinstance(buffer, Buffer):
        raise TypeError(f"{buffer_name} must be a pycudnn Buffer, got {buffer!r}")
    array = _host_array(host, host_name, stream is not None, writes=not to_device)
    for nbytes, name, block in (
        (array.nbytes, host_name, blocks[not to_device]),
        (buffer.nbytes, buffer_name, blocks[to_device]),
    ):
        if nbytes < block.span * item:
            raise ValueError(f"{name} needs {block.span * item} bytes, got {nbytes}")
    if 0 in sizes:
        return
    if stream is not None and stream.device is not buffer.device:
        raise LibraryMismatch(f"{buffer_name} is memory of {buffer.device}, not of {stream!r}")
    addresses = [0, 0]
    addresses[not to_device] = array.ctypes.data
    is_wide = any(value > INT_MAX for value in (*sizes, *steps))
    library = get_library("cublas", buffer.device.backend)
    with buffer.device.activate(), _core.ColdCall(library) as call:
        addresses[to_device] = call.operand(buffer, buffer_name, to_device)
        if stream is None:  # the copy is no part of any stream: wait for earlier work, and for it
            buffer.device.synchronize()
        else:
            buffer._on(stream)
        queued = [] if stream is None else [stream.handle]
        first, second = ((a, s) for a, s in zip(addresses, steps, strict=True))
        call(function + ("_64" if is_wide else ""), *sizes, *first, *second, *queued)
        if stream is None:
            buffer.device.synchronize()
        else:
            stream.keep_alive(array)  # until what is queued by now is done


def _host_array(value: Any, name: str, pinned: bool, writes: bool) -> np.ndarray:
    if pinned:
        if not isinstance(value, PinnedBuffer):
            raise TypeError(f"{name} must be a PinnedBuffer, got {value!r}")
        return value.array
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, got {value!r}")
    if not value.flags.c_contiguous and not value.flags.f_contiguous:
        raise ValueError(f"{name} must be contiguous, got strides {value.strides} bytes")
    if writes and not value.flags.writeable:
        raise ValueError(f"{name} is written to, but this array is read-only")
    return value
