"""Strided copies between host and device."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import cublas, pinned_empty, zeros
from pycudnn.device import Device
from pycudnn.errors import LibraryMismatch


@pytest.fixture
def stream(handle):
    with handle.device.create_stream() as made:
        yield made


def test_vectors(handle, put, rng):
    host = rng.standard_normal(10)
    device = put(np.full(9, np.nan))
    cublas.set_vector(4, 8, host, 3, device, 2)
    want = np.full(9, np.nan)
    want[:8:2] = host[::3]
    np.testing.assert_array_equal(device.numpy(), want)
    back = np.full(5, np.nan)
    cublas.get_vector(3, 8, device, 2, back, 1)
    np.testing.assert_array_equal(back, [*host[:9:3], np.nan, np.nan])


@pytest.mark.parametrize("dtype", ["complex64", "float16", "int8"])
def test_matrices(handle, put, rng, dtype):
    host = rng.integers(-9, 9, (4, 5)).astype(dtype)  # column-major: 5 rows, 4 columns
    device = put(np.zeros((4, 7), dtype))
    item = host.itemsize
    cublas.set_matrix(3, 4, item, host, 5, device, 7)
    want = np.zeros((4, 7), dtype)
    want[:, :3] = host[:, :3]
    np.testing.assert_array_equal(device.numpy(), want)
    back = np.zeros((2, 3), dtype)
    cublas.get_matrix(3, 2, item, device, 7, back, 3)
    np.testing.assert_array_equal(back, host[:2, :3])


def test_queued_copies(handle, put, stream, rng):
    source, back = (pinned_empty((3, 4), "float64", handle.device) for _ in range(2))
    source.array[...] = rng.standard_normal((3, 4))
    back.array[...] = np.nan
    device = put(np.zeros((3, 6)))
    cublas.set_matrix_async(4, 3, 8, source, 4, device, 6, stream)
    cublas.get_matrix_async(4, 3, 8, device, 6, back, 4, stream)
    assert device.last_stream is stream
    stream.synchronize()
    np.testing.assert_array_equal(back.array, source.array)
    cublas.set_vector_async(3, 8, source, 1, device, 6, stream)
    cublas.get_vector_async(3, 8, device, 6, back, 4, stream)
    stream.synchronize()
    np.testing.assert_array_equal(back.array[:, 0], source.array.ravel()[:3])


def test_64_bit_increments(handle, put):
    device = put(np.zeros(1))
    cublas.set_vector(1, 8, np.array([2.5]), 2**31, device, 2**31)
    assert device.numpy()[0] == 2.5


def test_nothing_to_copy(handle, put):
    device = put(np.ones(1))
    cublas.set_vector(0, 8, np.zeros(0), 1, device, 1)
    cublas.set_matrix(0, 3, 8, np.zeros(0), 1, device, 1)
    assert device.numpy()[0] == 1.0


@pytest.mark.parametrize(
    ("spoilt", "kind", "text"),
    [
        ({"n": -1}, ValueError, "^n must be an int from 0"),
        ({"n": 2.0}, TypeError, "^n must be an int from 0"),
        ({"elem_size": 0}, ValueError, "^elem_size must be an int from 1"),
        ({"incx": 0}, ValueError, "^incx must be an int from 1"),
        ({"incy": -1}, ValueError, "^incy must be an int from 1"),
        ({"x": [1.0]}, TypeError, "^x must be a NumPy array"),
        ({"x": np.zeros(8)[::2]}, ValueError, "^x must be contiguous"),
        ({"x": np.zeros(3)}, ValueError, "^x needs 32 bytes, got 24"),
        ({"y": np.zeros(4)}, TypeError, "^y must be a pycudnn Buffer"),
        ({"incy": 2}, ValueError, "^y needs 56 bytes, got 32"),
    ],
)
def test_refusals(handle, put, spoilt, kind, text):
    device = put(np.ones(4))
    arguments = {"n": 4, "elem_size": 8, "x": np.zeros(4), "incx": 1, "y": device, "incy": 1}
    with pytest.raises(kind, match=text):
        cublas.set_vector(**(arguments | spoilt))
    np.testing.assert_array_equal(device.numpy(), np.ones(4))


def test_refusals_of_matrices(handle, put):
    device, host = put(np.ones(6)), np.zeros(6)
    with pytest.raises(ValueError, match="^lda must be at least 3, .* got 2$"):
        cublas.set_matrix(3, 2, 8, host, 2, device, 3)
    with pytest.raises(ValueError, match="^ldb must be at least 3, .* got 0$"):
        cublas.get_matrix(3, 2, 8, device, 3, host, 0)
    host.flags.writeable = False
    with pytest.raises(ValueError, match="^b is written to, but this array is read-only$"):
        cublas.get_matrix(3, 2, 8, device, 3, host, 3)
    with pytest.raises(TypeError, match="^a must be a pycudnn Buffer"):
        cublas.get_matrix(3, 2, 8, np.zeros(6), 3, np.zeros(6), 3)


def test_refusals_of_queued_copies(handle, put, stream):
    device, pinned = put(np.ones(4)), pinned_empty(4, "float64", handle.device)
    with pytest.raises(TypeError, match="^x must be a PinnedBuffer"):
        cublas.set_vector_async(4, 8, np.zeros(4), 1, device, 1, stream)
    with pytest.raises(TypeError, match="^stream must be a Stream, got 0$"):
        cublas.set_vector_async(4, 8, pinned, 1, device, 1, 0)


@pytest.mark.gpu
def test_a_stream_of_another_device():
    reference, cuda = Device("reference"), Device("cuda")
    pinned = pinned_empty(4, "float64", cuda)
    with (
        reference.create_stream() as stream,
        pytest.raises(LibraryMismatch, match="^y is memory of .*cuda:0"),
    ):
        cublas.set_vector_async(4, 8, pinned, 1, zeros(4, "float64", cuda), 1, stream)
