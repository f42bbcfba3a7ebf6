"""The cuBLAS handle: its settings, its life, its use by threads."""

from __future__ import annotations

import ctypes
import gc
import threading
import time

import numpy as np
import pytest

from pycudnn import CudaContext, Device, _core, config, cublas, empty, from_numpy, get_library
from pycudnn.abi.types import ctypes_type
from pycudnn.cublas import Math, Operation, PointerMode
from pycudnn.errors import CublasNotInitialized, LibraryMismatch, NotSupported

N = Operation.N


def test_defaults(handle, backend):
    assert handle.math_mode is Math.DEFAULT_MATH
    assert handle.pointer_mode is PointerMode.HOST
    assert handle.device is Device(backend)
    assert handle.stream is handle.device.default_stream
    assert handle.library.name == "cublas"
    assert handle.version == handle.library.version
    assert 120000 <= handle.version < 200000


def test_tf32_is_one_switch(backend, monkeypatch):
    monkeypatch.setattr(config, "tf32", True)
    with cublas.Handle(library=backend) as handle:
        assert handle.math_mode is Math.TF32_TENSOR_OP_MATH


def test_math_mode(handle):
    handle.math_mode = Math.PEDANTIC_MATH
    assert handle.math_mode is Math.PEDANTIC_MATH
    flag = Math.MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
    handle.math_mode = Math.TF32_TENSOR_OP_MATH | flag
    assert handle.math_mode == Math.TF32_TENSOR_OP_MATH | flag
    for wrong in (5, "TF32", None):
        with pytest.raises(ValueError, match=r"^math_mode must be a Math: DEFAULT_MATH \(0\), .*"):
            handle.math_mode = wrong


def test_pointer_mode(handle):
    handle.pointer_mode = PointerMode.DEVICE
    assert handle.pointer_mode is PointerMode.DEVICE
    with pytest.raises(ValueError, match=r"^pointer_mode must be HOST \(0\) or DEVICE .* got 2$"):
        handle.pointer_mode = 2
    assert handle.pointer_mode is PointerMode.DEVICE


def test_stream(handle, put):
    with handle.device.create_stream() as stream:
        handle.stream = stream
        assert handle.stream is stream
        x = put(np.full(3, 2, np.float32))
        assert cublas.sdot(handle, 3, x, 1, x, 1) == 12.0
        assert x.last_stream is stream
        with pytest.raises(ValueError, match="^stream must be a Stream of .*, got 0$"):
            handle.stream = 0
        handle.stream = handle.device.default_stream


def test_stream_in_the_constructor(backend):
    device = Device(backend)
    with device.create_stream() as stream, cublas.Handle(device, stream) as handle:
        assert handle.stream is stream
        assert handle.device is device


def test_device_of_another_backend(backend):
    other = {"reference": "cuda", "cuda": "reference"}[backend]
    with pytest.raises((ValueError, ImportError), match="cuda"):
        cublas.Handle(Device(backend), library=other)


def test_a_cudnn_library_makes_no_cublas_handle(backend):
    with pytest.raises(ValueError, match="^library must be a cublas library, got <cudnn"):
        cublas.Handle(library=get_library("cudnn", backend))


def test_repr(handle, backend):
    assert repr(handle) == f"<cublas.Handle of {handle.library!r} on {backend}:0>"
    handle.close()
    assert repr(handle) == "<closed cublas.Handle>"


def test_close(backend):
    handle = cublas.Handle(library=backend)
    with handle:
        assert not handle.closed
    assert handle.closed
    handle.close()
    for name in ("stream", "math_mode", "pointer_mode", "version"):
        with pytest.raises(ValueError, match="this Handle is closed"):
            getattr(handle, name)
    with pytest.raises(ValueError, match="this Handle is closed"):
        handle.math_mode = Math.DEFAULT_MATH
    with pytest.raises(ValueError, match="this Handle is closed"):
        handle.pointer_mode = PointerMode.HOST
    with pytest.raises(ValueError, match="this Handle is closed"):
        handle.set_workspace(None)


def test_a_forgotten_handle_warns(backend):
    handle = cublas.Handle(library=backend)
    with pytest.warns(ResourceWarning, match="unclosed <cublas.Handle of"):
        del handle


def product(handle, put):
    a = put(np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7)
    c = put(np.full((64, 64), np.nan, np.float32))
    cublas.sgemm(handle, N, N, 64, 64, 64, 1.0, a, 64, a, 64, 0.0, c, 64)
    host = a.numpy()
    np.testing.assert_array_equal(c.numpy(), host @ host)


def test_workspace(handle, put):
    with empty(1 << 20, "uint8", device=handle.device) as workspace:
        handle.set_workspace(workspace)
        assert handle.workspace is workspace
        product(handle, put)
        with handle.device.create_stream() as stream:
            handle.stream = stream  # cuBLAS forgets a workspace here, the handle does not
            assert handle.workspace is workspace
            product(handle, put)
            stream.synchronize()
            assert workspace.last_stream is stream
            handle.stream = handle.device.default_stream
        handle.set_workspace(None)
        assert handle.workspace is None
        product(handle, put)


@pytest.mark.gpu
def test_captured_products_allocate_nothing(rng):
    """The workspace survives a change of stream: else cuBLAS's own becomes part of the graph."""
    from cuda.bindings import driver

    def check(result):
        assert result[0] == driver.CUresult.CUDA_SUCCESS
        return result[1] if len(result) == 2 else result[1:]

    with CudaContext("cuda") as context, context.device.create_stream() as stream:
        context.cublas.stream = stream
        array = rng.standard_normal((64, 8192)).astype(np.float32)
        a = from_numpy(array, context.device, stream)
        c = from_numpy(np.full((64, 64), np.nan, np.float32), context.device, stream)

        def multiply():
            cublas.sgemm(
                context.cublas, Operation.T, N, 64, 64, 8192, 1.0, a, 8192, a, 8192, 0.0, c, 64
            )

        multiply()
        stream.synchronize()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        with context.device.activate():
            check(driver.cuStreamBeginCapture(stream.handle, mode))
            multiply()
            graph = check(driver.cuStreamEndCapture(stream.handle))
            _, count = check(driver.cuGraphGetNodes(graph))
            nodes, _ = check(driver.cuGraphGetNodes(graph, count))
            kinds = {check(driver.cuGraphNodeGetType(node)).name for node in nodes}
            check(driver.cuGraphDestroy(graph))
        assert "CU_GRAPH_NODE_TYPE_KERNEL" in kinds
        assert not any("MEM_ALLOC" in kind or "MEM_FREE" in kind for kind in kinds)
        np.testing.assert_allclose(c.numpy(stream), array @ array.T, rtol=1e-4, atol=1e-2)


def test_workspace_that_was_closed(handle, put):
    workspace = empty(1 << 20, "uint8", device=handle.device)
    handle.set_workspace(workspace)
    workspace.close()
    with pytest.raises(ValueError, match="this Buffer is closed"):
        product(handle, put)
    handle.set_workspace(None)
    product(handle, put)


def test_workspace_stays_with_the_handle(handle, put):
    handle.set_workspace(empty(1 << 20, "uint8", device=handle.device))
    gc.collect()
    product(handle, put)


def test_workspace_that_is_none(handle):
    with pytest.raises((TypeError, LibraryMismatch), match="^workspace must be"):
        handle.set_workspace(4096)
    assert handle.workspace is None


@pytest.mark.gpu
def test_workspace_that_is_not_aligned():
    with cublas.Handle(library="cuda") as handle:
        workspace = empty(1 << 12, "uint8", device=handle.device).view(offset=8)
        with pytest.raises(ValueError, match="workspace must be aligned to 256 bytes"):
            handle.set_workspace(workspace)
        assert handle.workspace is None


def test_threads_share_a_handle(handle, put):
    """Each call is whole: a lock in the handle serialises them."""
    failures = []

    def work():
        try:
            for _ in range(20):
                product(handle, put)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_pointer_mode_changed_by_another_thread(handle, put):
    """A call sees one mode from its checks to its end, or says that it did not."""
    x, out = put(np.full(8, 2, np.float32)), put(np.zeros(1, np.float32))
    missing = "out is missing: the handle's pointer_mode is DEVICE, pass a buffer for one float32"
    changed = (
        "cublasSdot_v2: another thread changed the handle's pointer_mode during this call; "
        "give each thread its own handle"
    )
    stop = threading.Event()
    outcomes = set()

    def compute():
        while not stop.is_set():
            try:
                outcomes.add(cublas.sdot(handle, 8, x, 1, x, 1))
            except (TypeError, RuntimeError) as error:
                outcomes.add(str(error))

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    try:
        while not {32.0, changed} <= outcomes and time.monotonic() < deadline:
            handle.pointer_mode = PointerMode.DEVICE
            cublas.sdot(handle, 8, x, 1, x, 1, out=out)
            handle.pointer_mode = PointerMode.HOST
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert {32.0, changed} <= outcomes <= {32.0, changed, missing}
    assert out.numpy()[0] == 32.0


def test_closing_while_another_thread_computes(backend, put):
    """The handle lives until the last call that uses it has returned."""
    for _ in range(20):
        other = cublas.Handle(library=backend)
        started = threading.Event()
        errors = []

        def work(other=other, started=started, errors=errors):
            try:
                while True:
                    product(other, put)
                    started.set()
            except ValueError as error:
                errors.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        other.close()
        thread.join()
        assert errors == ["this Handle is closed"]


@pytest.mark.library
def test_the_real_library_without_a_gpu(has_gpu):
    if has_gpu:
        pytest.skip("there is a GPU")
    with pytest.raises(NotSupported, match="no CUDA device"):
        cublas.Handle(library="cuda")
    pointer = ctypes_type("cublasHandle_t")()
    with (
        _core.ColdCall(get_library("cublas", "cuda")) as call,
        pytest.raises(CublasNotInitialized, match="cublasCreate_v2 returned CUBLAS_STATUS_NOT_INI"),
    ):
        call("cublasCreate_v2", ctypes.byref(pointer))
