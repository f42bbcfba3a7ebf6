"""Buffers and pinned memory, on both sides."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest

import pycudnn
from pycudnn import Buffer, Device, cudnn, dtypes, empty, from_numpy, pinned_empty, zeros
from pycudnn.errors import LibraryMismatch

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"]


@pytest.fixture
def device(backend: str) -> Device:
    return Device(backend)


@pytest.fixture
def stream(device: Device):
    with device.create_stream() as made:
        yield made


# ---- making them ----


@pytest.mark.parametrize(
    "shape", [2.5, "12", None, [1.5], [[1]], {1: 2}, {3}, np.zeros(3)], ids=repr
)
def test_a_shape_of_no_ints_is_named(device, shape):
    text = "shape must be an int or a sequence of ints, got "
    for make in (empty, zeros, pinned_empty):
        with pytest.raises(TypeError, match=text):
            make(shape, device=device)
    if shape is not None:
        with pytest.raises(TypeError, match=text):
            empty(6, device=device).view(shape)


@pytest.mark.parametrize(
    "dtype",
    ["U3", "S3", "V4", "i4,f4", "M8[s]", "m8[s]", "O", ">f4", ("f4", 3), ("f4", -1), [], ",",
     np.zeros(4), None],
    ids=repr,
)  # fmt: skip
def test_a_dtype_of_no_numbers_is_named(device, dtype):
    text = "dtype must be a native NumPy number type, got "
    for make in (empty, zeros, pinned_empty):
        with pytest.raises(TypeError, match=text):
            make(3, dtype, device=device)


@pytest.mark.parametrize(
    "array",
    ["abc", b"abc", None, np.zeros(3, "M8[s]"), np.zeros(3, "i4,f4"),
     np.zeros(3, "V4"), np.zeros(2, ">f4")],
    ids=repr,
)  # fmt: skip
def test_an_array_of_no_numbers_is_named(device, array):
    with pytest.raises(TypeError, match="dtype of array must be a native NumPy number type, got "):
        from_numpy(array, device)


@pytest.mark.parametrize("dtype", [np.zeros(4), ",", ("f4", -1), [], None, "nope"], ids=repr)
def test_a_dtype_that_cudnn_has_no_type_for(dtype):
    with pytest.raises(TypeError, match="dtype must be a DataType or one of float32, .*, got "):
        cudnn.TensorDescriptor((1, 2, 3, 4), dtype, library="reference")


def test_a_buffer_that_was_never_made(device):
    made = empty(3, device=device)
    unmade = Buffer.__new__(Buffer)
    assert repr(unmade) == "<Buffer that was never made>"
    uses = (
        unmade.numpy, unmade.view, unmade.__array__, unmade.__dlpack__,
        lambda: unmade.reshape(3), lambda: unmade.fill_bytes(0),
        lambda: unmade.copy_from(made), lambda: made.copy_from(unmade),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(ValueError, match="this Buffer was never made: use empty, zeros or"):
            use()


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(device, stream, rng, dtype):
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    array = rng.integers(0, 2 if dtype == "bool" else 100, (2, 3, 4)).astype(kind)
    for buffer in (from_numpy(array, device), from_numpy(array, device, stream)):
        assert (buffer.shape, buffer.ndim, buffer.size) == ((2, 3, 4), 3, 24)
        assert buffer.dtype == kind
        assert buffer.nbytes == 24 * kind.itemsize
        assert buffer.dtype_code == dtypes.code(kind)
        assert buffer.address % 256 == 0
        assert (buffer.backend, buffer.device_index) == (device.backend, 0)
        back = buffer.numpy()
        assert back.dtype == kind
        assert np.array_equal(back, array)
        back[...] = 0
        assert np.array_equal(buffer.numpy(stream), array)


def test_the_source_may_go_at_once(device, stream):
    array = np.arange(1 << 20, dtype=np.float32)
    buffer = from_numpy(array, device, stream)
    array[...] = -1
    assert np.array_equal(buffer.numpy(), np.arange(1 << 20, dtype=np.float32))


@pytest.mark.parametrize(
    "array", [np.float32(3), np.arange(12.0).reshape(3, 4).T, np.zeros((0, 5))]
)
def test_from_numpy_of_every_layout(device, array):
    buffer = from_numpy(array, device)
    assert buffer.shape == array.shape
    assert np.array_equal(buffer.numpy(), array)


def test_zeros_and_fill(device, stream):
    for buffer in (zeros((3, 5), device=device), zeros((3, 5), device=device, stream=stream)):
        assert buffer.numpy().tolist() == [[0] * 5] * 3
        buffer.fill_bytes(255)
        assert np.isnan(buffer.numpy()).all()
        buffer.fill_bytes(0, stream)
        assert not buffer.numpy(stream).any()
    for value in (-1, 256):
        with pytest.raises(ValueError, match=rf"value must be in \[0, 255\], got {value}"):
            buffer.fill_bytes(value)


def test_shapes(device):
    assert empty(7, device=device).shape == (7,)
    assert empty((), device=device).shape == ()
    assert empty([2, np.int64(3)], device=device).shape == (2, 3)
    nothing = empty((4, 0, 2), device=device)
    assert (nothing.nbytes, nothing.numpy().shape) == (0, (4, 0, 2))
    assert nothing.address != 0
    with pytest.raises(ValueError, match="got -1 in dimension 1"):
        empty((2, -1), device=device)
    with pytest.raises(TypeError):
        empty((2, 1.5), device=device)


@pytest.mark.parametrize("dtype", ["object", None, "no type", ">f4"])
def test_dtypes_that_are_none(device, dtype):
    with pytest.raises(TypeError, match="dtype must be a native NumPy number type"):
        empty(3, dtype, device)


def test_dtype_by_its_cudnn_name(device):
    assert empty(3, cudnn.DataType.HALF, device).dtype == np.float16


def test_device_is_the_streams(device, stream, monkeypatch):
    assert empty(3, stream=stream).device is device
    monkeypatch.setenv("PYCUDNN_BACKEND", device.backend)
    assert empty(3).device is device


def test_out_of_memory_says_how_much(device):
    _, total = device.memory_info()
    wanted = 1 << 60
    with pytest.raises(MemoryError, match=rf"{wanted:,} bytes requested, [\d,]+ free of {total:,}"):
        empty(wanted, "uint8", device)
    assert zeros(3, device=device).numpy().tolist() == [0, 0, 0]


# ---- copies ----


def test_copies_between_buffers(device, stream, rng):
    array = rng.standard_normal((4, 6)).astype(np.float32)
    source = from_numpy(array, device, stream)
    target = empty((4, 6), device=device)
    target.copy_from(source)
    assert np.array_equal(target.numpy(), array)
    target.fill_bytes(0, stream)
    target.copy_from(source, stream)
    assert np.array_equal(target.numpy(), array)


def test_pinned_both_ways(device, stream, rng):
    upload = pinned_empty((3, 4), "float32", device)
    upload.array[...] = array = rng.standard_normal((3, 4)).astype(np.float32)
    buffer = empty((3, 4), device=device, stream=stream)
    buffer.copy_from(upload, stream)
    download = pinned_empty((3, 4), "float32", device)
    assert (download.shape, download.dtype, download.nbytes) == ((3, 4), np.float32, 48)
    download.copy_from(buffer, stream)
    stream.synchronize()
    assert np.array_equal(download.array, array)
    values = download.array
    del download, upload
    gc.collect()
    assert np.array_equal(values, array)


def test_pinned_scalar(device, stream):
    loss = from_numpy(np.array([2.5], np.float32), device, stream)
    read = pinned_empty(1, "float32", device)
    read.copy_from(loss, stream)
    copied = stream.record(timing=False)
    copied.synchronize()
    assert read.array[0] == 2.5
    with pytest.raises(TypeError, match="source must be a Buffer"):
        read.copy_from(np.zeros(1, np.float32))


def test_copies_between_the_sides():
    host = from_numpy(np.arange(3, dtype=np.float32), Device("reference"))
    other = zeros(3, device=Device("reference"))
    other.copy_from(host)
    assert other.numpy().tolist() == [0, 1, 2]


@pytest.mark.gpu
def test_copies_between_host_and_gpu_buffers():
    host = from_numpy(np.arange(3, dtype=np.float32), Device("reference"))
    there = zeros(3, device=Device("cuda"))
    there.copy_from(host)
    back = zeros(3, device=Device("reference"))
    back.copy_from(there)
    assert back.numpy().tolist() == [0, 1, 2]


def test_copy_refuses_another_shape_or_dtype(device):
    buffer = zeros((2, 3), device=device)
    for source in (np.zeros((3, 2), np.float32), zeros(6, device=device)):
        with pytest.raises(ValueError, match=r"source has shape .*, the destination \(2, 3\)"):
            buffer.copy_from(source)
    for source in (np.zeros((2, 3)), pinned_empty((2, 3), "float64", device)):
        with pytest.raises(TypeError, match="source has dtype float64, the destination float32"):
            buffer.copy_from(source)


def test_a_stream_of_another_side_is_refused(device):
    class Stranger:
        device = None
        capturing = False

    buffer = zeros(3, device=device)
    for use in (
        buffer.numpy,
        lambda s: buffer.fill_bytes(0, s),
        lambda s: buffer.copy_from(buffer, s),
    ):
        with pytest.raises(LibraryMismatch, match="stream must be a Stream of"):
            use(Stranger())
    with pytest.raises(TypeError, match="stream must be a Stream, got"):
        empty(3, device=device, stream=Stranger())
    with pytest.raises(TypeError, match="device must be a Device, got 5"):
        empty(3, device=5)


@pytest.mark.gpu
def test_the_first_use_on_another_stream_waits():
    device = Device("cuda")
    first, second = device.create_stream(), device.create_stream()
    buffer = zeros(1 << 30, "uint8", device, first)
    for value in range(1, 9):
        buffer.fill_bytes(value, first)
    assert np.all(buffer.view((1000,), offset=(1 << 30) - 1000).numpy(second) == 8)


@pytest.mark.gpu
def test_h9_dropped_memory_is_not_reused_before_its_work():
    device = Device("cuda")
    slow, fast = device.create_stream(), device.create_stream()
    size = 1 << 28
    result = zeros(size, "uint8", device, slow)
    source = zeros(size, "uint8", device, slow)
    source.fill_bytes(7, slow)
    for _ in range(20):
        result.copy_from(source, slow)
    del source
    for value in range(5):
        taken = empty(size, "uint8", device, fast)
        taken.fill_bytes(value, fast)
        del taken
    assert np.all(result.numpy() == 7)


@pytest.mark.gpu
def test_memory_of_two_streams_is_freed_after_both():
    device = Device("cuda")
    slow, fast = device.create_stream(), device.create_stream()
    size = 1 << 28
    source = zeros(size, "uint8", device, slow)
    source.fill_bytes(3, slow)
    result = zeros(size, "uint8", device, slow)
    for _ in range(20):
        result.copy_from(source, slow)
    fast_copy = zeros(16, "uint8", device, fast)
    fast_copy.copy_from(source.view((16,)), fast)
    del source
    taken = empty(size, "uint8", device, fast)
    taken.fill_bytes(9, fast)
    assert np.all(result.numpy() == 3)
    assert np.all(fast_copy.numpy() == 3)


@pytest.mark.gpu
def test_memory_comes_back():
    """To the pool, whose sizes are this process's own; others may be on the same GPU."""
    from cuda import core

    device = Device("cuda")
    pool = core.Device(device.index).memory_resource.attributes
    with device.create_stream() as stream:
        zeros(1 << 20, device=device, stream=stream)
        stream.synchronize()
        used, reserved = pool.used_mem_current, pool.reserved_mem_current
        for _ in range(1000):
            zeros(1 << 20, device=device, stream=stream)
        stream.synchronize()
        assert pool.used_mem_current - used < 64 << 20
        assert pool.reserved_mem_current - reserved < 64 << 20


# ---- views, closing ----


def test_views_share_and_keep(device, stream):
    array = np.arange(24, dtype=np.float32)
    buffer = from_numpy(array, device, stream)
    table = buffer.reshape(4, -1)
    part = table.view((2, 3), offset=12 * 4)
    raw = part.view(dtype="uint8")
    assert (table.shape, part.shape, raw.shape) == ((4, 6), (2, 3), (24,))
    assert part.address == buffer.address + 48
    buffer.fill_bytes(0, stream)
    buffer.copy_from(array, stream)
    buffer.close()
    del buffer, table
    gc.collect()
    assert part.numpy().tolist() == [[12, 13, 14], [15, 16, 17]]
    assert raw.numpy().tobytes() == array[12:18].tobytes()
    assert part.view(dtype="int32").shape == (2, 3)


def test_reshape_of_nothing(device):
    assert empty((0, 4), device=device).reshape((2, 0)).shape == (2, 0)
    assert empty((2, 6), device=device).reshape([3, 4]).shape == (3, 4)


def test_views_that_do_not_fit(device):
    buffer = zeros(6, device=device)
    with pytest.raises(ValueError, match="not the 6 elements"):
        buffer.reshape(4, 2)
    with pytest.raises(ValueError, match="not the 6 elements"):
        buffer.reshape(4, -1)
    with pytest.raises(ValueError, match="needs 28 bytes, .* has 24"):
        buffer.view((7,))
    for offset in (2, -4, 28):
        with pytest.raises(ValueError, match=rf"multiple of 4 in \[0, 24\], got {offset}"):
            buffer.view((1,), offset=offset)


def test_use_after_close(device):
    buffer = zeros(3, device=device)
    with buffer:
        pass
    buffer.close()
    assert buffer.closed
    assert "closed" in repr(buffer)
    for use in (
        buffer.numpy,
        lambda: buffer.fill_bytes(0),
        lambda: buffer.copy_from(np.zeros(3, np.float32)),
        lambda: buffer.reshape(3, 1),
        buffer.__dlpack_device__,
    ):
        with pytest.raises(ValueError, match="this Buffer is closed"):
            use()


def test_close_while_another_thread_reads(device):
    array = np.arange(1 << 22, dtype=np.float32)
    for _ in range(5):
        buffer = from_numpy(array, device)
        results = []

        def read(buffer=buffer, results=results):
            try:
                results.append(np.array_equal(buffer.numpy(), array))
            except ValueError as error:
                results.append("closed" in str(error))

        thread = threading.Thread(target=read)
        thread.start()
        buffer.close()
        thread.join()
        assert results == [True]


def test_never_pickled(device):
    buffer = zeros(3, device=device)
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            use(buffer)


def test_repr(device):
    assert repr(zeros((2, 3), "int32", device)) == f"Buffer((2, 3), int32, {device.backend}:0)"
    assert repr(pinned_empty(2, "int8", device)) == f"PinnedBuffer((2,), int8, {device.backend}:0)"


# ---- other libraries ----


def test_numpy_sees_host_memory():
    buffer = from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), Device("reference"))
    for array in (np.asarray(buffer), np.from_dlpack(buffer), np.array(buffer, copy=False)):
        assert array.ctypes.data == buffer.address
        array[0, 0] += 1
    assert buffer.numpy().tolist() == [[3, 1, 2], [3, 4, 5]]
    seen = np.asarray(buffer)
    buffer.close()
    del buffer
    gc.collect()
    trash = [np.full((2, 3), 9, np.float32) for _ in range(100)]
    assert seen.tolist() == [[3, 1, 2], [3, 4, 5]]
    assert len(trash) == 100


def test_numpy_sees_bfloat16():
    buffer = from_numpy(np.array([1.5, 2], ml_dtypes.bfloat16), Device("reference"))
    seen = np.asarray(buffer)
    assert seen.dtype == ml_dtypes.bfloat16
    assert seen.ctypes.data == buffer.address
    assert np.asarray(buffer, np.float32).tolist() == [1.5, 2]


def test_interfaces_name_their_side(device):
    buffer = zeros((2, 3), device=device)
    assert hasattr(buffer, "__cuda_array_interface__") == (device.backend == "cuda")
    assert hasattr(buffer, "__array_interface__") == (device.backend == "reference")
    assert buffer.__dlpack_device__() == ((2, 0) if device.backend == "cuda" else (1, 0))
    with pytest.raises(BufferError, match="another device"):
        buffer.__dlpack__(dl_device=(7, 0))


@pytest.mark.gpu
class TestCudaExport:
    @pytest.fixture
    def buffer(self) -> Buffer:
        device = Device("cuda")
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        return from_numpy(array, device, device.create_stream())

    def test_cuda_array_interface(self, buffer):
        interface = buffer.__cuda_array_interface__
        assert interface == {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (buffer.address, False),
            "strides": None,
            "version": 3,
            "stream": buffer.stream.handle,
        }

    def test_the_host_cannot_read_it_in_place(self, buffer):
        with pytest.raises(TypeError, match=r"copy it to the host with numpy\(\)"):
            np.asarray(buffer)

    def test_cuda_core_reads_the_type(self, buffer):
        from cuda.core.utils import StridedMemoryView

        view = StridedMemoryView.from_dlpack(buffer, stream_ptr=buffer.stream.handle)
        assert (view.ptr, view.shape, view.dtype) == (buffer.address, (2, 3), np.float32)
        assert (view.device_id, view.is_device_accessible) == (0, True)

    def test_torch_shares_it(self, buffer):
        torch = pytest.importorskip("torch")
        tensor = torch.from_dlpack(buffer)
        assert tensor.data_ptr() == buffer.address
        assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
        tensor += 1
        torch.cuda.synchronize()
        assert buffer.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
        buffer.close()
        del buffer
        gc.collect()
        taken = [pycudnn.zeros(6, device=Device("cuda")) for _ in range(100)]
        assert tensor.tolist() == [[1, 2, 3], [4, 5, 6]]
        assert len(taken) == 100

    def test_cupy_shares_it(self, buffer):
        cupy = pytest.importorskip("cupy")
        for array in (cupy.from_dlpack(buffer), cupy.asarray(buffer)):
            assert array.data.ptr == buffer.address
            assert array.dtype == np.float32
            assert array.tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_bfloat16_is_exported_as_bits(self):
        buffer = from_numpy(np.array([1.5], ml_dtypes.bfloat16), Device("cuda"))
        with pytest.raises(BufferError, match="uint16"):
            buffer.__dlpack__()
        torch = pytest.importorskip("torch")
        bits = torch.from_dlpack(buffer.view(dtype="uint16"))
        assert bits.view(torch.bfloat16).tolist() == [1.5]
