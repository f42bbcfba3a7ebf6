"""Handles in threads, in contexts of others, on a full device, and at the interpreter's end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import exact
import numpy as np
import pytest
from full_device import full_device

from pycudnn import CudaContext, abi, cublas, cudnn, empty, from_numpy
from pycudnn.device import Device
from pycudnn.errors import StatusError
from pycudnn.libraries import get_library
from pycudnn.reference import runtime


def convolution(context: CudaContext, x: np.ndarray, w: np.ndarray) -> cudnn.TensorDescriptor:
    """Descriptors of a padded 3 x 3 convolution."""
    library = context.cudnn.library
    x_desc = cudnn.TensorDescriptor(x.shape, library=library)
    w_desc = cudnn.FilterDescriptor(w.shape, library=library)
    conv = cudnn.ConvolutionDescriptor(padding=1, library=library)
    shape = cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc)
    return x_desc, w_desc, conv, cudnn.TensorDescriptor(shape, library=library)


def test_h4_eight_threads_with_their_own_streams(backend, rng):
    """200 convolutions each, every result right."""
    calls = 200 if backend == "cuda" else 40
    inputs = [rng.standard_normal((2, 3, 8, 9)).astype(np.float32) for _ in range(8)]
    weights = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    settings = {"padding": (1, 1), "stride": (1, 1), "dilation": (1, 1)}
    errors: list[float] = []

    def work(array: np.ndarray) -> None:
        wanted = exact.convolution(
            array.astype(float), weights.astype(float), (2, 4, 8, 9), **settings
        )
        with CudaContext(backend) as context:
            x_desc, w_desc, conv, y_desc = convolution(context, array, weights)
            x, w = (
                from_numpy(a, device=context.device, stream=context.stream)
                for a in (array, weights)
            )
            outputs = [
                empty(y_desc.shape, device=context.device, stream=context.stream)
                for _ in range(calls)
            ]
            for y in outputs:
                cudnn.convolution_forward(
                    context.cudnn, x_desc, x, w_desc, w, conv,
                    cudnn.ConvolutionFwdAlgo.IMPLICIT_GEMM, None, y_desc, y,
                )  # fmt: skip
            for y in outputs:
                errors.append(float(np.abs(y.numpy(context.stream) - wanted).max()))

    threads = [threading.Thread(target=work, args=(array,)) for array in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 8 * calls
    assert max(errors) < 1e-5


@pytest.mark.gpu
def test_h8_another_context_is_current(rng):
    """A handle belongs to its device's primary context, whatever is current when it is called."""
    from cuda.bindings import driver

    driver.cuInit(0)
    array = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    error, device = driver.cuDeviceGet(0)
    error, stranger = driver.cuCtxCreate(None, 0, device)
    assert error == driver.CUresult.CUDA_SUCCESS
    try:
        with CudaContext("cuda") as context:
            desc = cudnn.TensorDescriptor(array.shape, library="cuda")
            tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library="cuda")
            x = from_numpy(array, device=context.device, stream=context.stream)
            y = empty(array.shape, device=context.device, stream=context.stream)
            cudnn.activation_forward(context.cudnn, tanh, desc, x, desc, y)
            cublas.sscal(context.cublas, y.size, 2.0, y, 1)
            got = y.numpy(context.stream)
            _, current = driver.cuCtxGetCurrent()
            assert int(current) == int(stranger)
        np.testing.assert_allclose(got, 2 * np.tanh(array.astype(float)), rtol=1e-5)
    finally:
        driver.cuCtxDestroy(stranger)


@pytest.mark.gpu
@pytest.mark.whole_gpu
def test_e7_a_handle_on_a_full_device():
    """Creation works in what is left, or the error says how much memory is free."""
    device = Device("cuda")
    with full_device():
        handles, failure = [], "memory: 0 bytes free"  # as if, where all can be made
        try:
            for _ in range(64):
                handles += [cudnn.Handle(device), cublas.Handle(device)]
        except (StatusError, MemoryError) as error:
            failure = str(error)
        for handle in handles:
            handle.close()
        assert "memory" in failure
        assert "bytes free" in failure
    with cudnn.Handle(device) as handle:
        assert handle.library.version > 90000


def test_e7_the_error_of_a_failed_creation_has_the_memory(monkeypatch):
    def full(out: int) -> None:
        raise runtime.Status(cudnn.Status.INTERNAL_ERROR, "no memory")

    prototype = abi.prototype("cudnn", "cudnnCreate")
    failing = abi.callback_type(prototype)(runtime._callback(prototype, full))
    library = get_library("cudnn", "reference")
    failing.argtypes = library.function("cudnnCreate").argtypes
    monkeypatch.setitem(library._functions, "cudnnCreate", failing)
    with pytest.raises(StatusError, match=r"device memory: \d+ of \d+ bytes free"):
        cudnn.Handle(library="reference")


EXIT = """
    import gc, threading, time
    import numpy as np
    import pycudnn
    from pycudnn import cudnn, cublas, cublaslt
    from pycudnn.cudnn.graph import Graph

    context = pycudnn.CudaContext({backend!r})
    x = pycudnn.from_numpy(np.ones((1, 2, 4, 4), np.float32), context.device, context.stream)
    y = pycudnn.empty((1, 2, 4, 4), device=context.device, stream=context.stream)
    library = context.cudnn.library
    desc = cudnn.TensorDescriptor((1, 2, 4, 4), library=library)
    tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library=library)
    cudnn.activation_forward(context.cudnn, tanh, desc, x, desc, y)
    graph = Graph(context.cudnn)
    left = graph.tensor((1, 64, 64), "float16", name="left")
    right = graph.tensor((1, 64, 64), "float16", name="right")
    plan = (graph.relu(graph.matmul(left, right), name="out"), graph.plan())[1]
    halves = {{
        name: pycudnn.zeros((1, 64, 64), "float16", context.device, context.stream)
        for name in ("left", "right", "out")
    }}
    scratch = context.workspace(plan.workspace_size)
    plan.execute(halves, scratch)
    weights = pycudnn.zeros((64, 64), "float16", context.device, context.stream)
    linear = cublaslt.linear(context.cublaslt, halves["left"].reshape(64, 64), weights)
    if {backend!r} == "cuda":
        with context.stream.capture() as captured:
            cudnn.activation_forward(context.cudnn, tanh, desc, x, desc, y)
            plan.execute(halves, scratch)
        captured.launch()
    cycle = [cudnn.PoolingDescriptor(2, library=library), desc, tanh, plan, linear]
    cycle.append(cycle)

    def spin():
        with pycudnn.CudaContext({backend!r}) as mine:
            while True:
                plan.config.engine.numerical_notes
                z = pycudnn.empty((1, 2, 4, 4), device=mine.device, stream=mine.stream)
                cudnn.activation_forward(mine.cudnn, tanh, desc, x, desc, z)
                cublas.sscal(mine.cublas, 32, 1.0, z, 1)
    for _ in range(2):
        threading.Thread(target=spin, daemon=True).start()
    time.sleep(0.1)
"""


def test_twenty_exits_with_everything_alive(backend):
    """Global handles, descriptors, graphs, cycles and running threads: exit code 0 and silent."""

    def leave(_: int) -> tuple[int, str, str]:
        code = textwrap.dedent(EXIT.format(backend=backend))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    with ThreadPoolExecutor(4) as pool:
        for ending in pool.map(leave, range(20)):
            assert ending == (0, "", "")
