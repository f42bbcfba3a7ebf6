"""The context object, on both sides."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pycudnn
from pycudnn import CudaContext, Device, cublas, cudnn, empty, from_numpy


def test_attributes(backend):
    with CudaContext(backend) as context:
        assert context.device is Device(backend)
        assert (context.one, context.zero, context.minus_one) == (1.0, 0.0, -1.0)
        assert context.stream is not context.device.default_stream
        for handle, kind in ((context.cudnn, cudnn.Handle), (context.cublas, cublas.Handle)):
            assert isinstance(handle, kind)
            assert handle.stream is context.stream
            assert handle.device is context.device
        assert repr(context) == f"CudaContext({backend}:0)"


def test_close_closes_what_it_made(backend):
    context = CudaContext(backend)
    handles, stream = (context.cudnn, context.cublas), context.stream
    context.close()
    context.close()
    assert context.closed
    assert all(handle.closed for handle in handles)
    assert stream.closed
    assert "closed" in repr(context)
    with pytest.raises(ValueError, match="this CudaContext is closed"):
        context.workspace(1)
    with pytest.raises(ValueError, match="this CudaContext is closed"), context:
        pass


def test_a_given_stream_stays_open(backend):
    stream = Device(backend).create_stream()
    with CudaContext(backend, stream=stream) as context:
        assert context.stream is stream
    assert not stream.closed
    stream.close()


def test_nothing_warns(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            CudaContext(backend).close()


def test_a_failed_constructor_leaves_nothing_open(backend, monkeypatch):
    made = []

    class Recorded(cudnn.Handle):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)

    def refuse(*arguments, **options):
        raise MemoryError("no memory for a handle")

    monkeypatch.setattr(cudnn, "Handle", Recorded)
    monkeypatch.setattr(cublas, "Handle", refuse)
    with pytest.raises(MemoryError):
        CudaContext(backend)
    assert made[0].closed


def test_workspace_grows_and_never_shrinks(context):
    small = context.workspace(1000)
    assert small.nbytes == 1000
    assert small.dtype == np.uint8
    assert context.workspace(10) is small
    assert context.workspace(0) is small
    large = context.workspace(5000)
    assert large.nbytes == 5000
    assert context.workspace(1000) is large
    with pytest.raises(ValueError, match="nbytes must not be negative, got -1"):
        context.workspace(-1)
    for wrong in (1.5, "12", None):
        with pytest.raises(TypeError, match=f"nbytes must be an int, got {wrong!r}"):
            context.workspace(wrong)


def test_no_memory_for_a_workspace(context):
    with pytest.raises(MemoryError, match="bytes requested"):
        context.workspace(1 << 60)
    assert context.workspace(100).nbytes == 100


def test_both_handles_compute_in_order(context, rng):
    # The second reads what the first wrote, with nothing but the stream between them.
    a, b = (rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    device, stream = context.device, context.stream
    a_there, b_there = from_numpy(a, device, stream), from_numpy(b, device, stream)
    product, positive = (empty((8, 8), device=device, stream=stream) for _ in range(2))
    none = cublas.Operation.N
    cublas.sgemm(context.cublas, none, none, 8, 8, 8, 1.0, b_there, 8, a_there, 8, 0.0, product, 8)
    described = cudnn.TensorDescriptor((1, 1, 8, 8), library=context.cudnn.library)
    relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=context.cudnn.library)
    cudnn.activation_forward(context.cudnn, relu, described, product, described, positive)
    expected = np.maximum(a.astype(np.float64) @ b, 0)
    np.testing.assert_allclose(positive.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
class TestGraphs:
    """A captured computation, and what happens around it before it is launched again."""

    @pytest.fixture
    def context(self):
        with CudaContext("cuda") as made:
            yield made

    def convolution(self, context, shape, filters):
        library = context.cudnn.library
        x_desc = cudnn.TensorDescriptor(shape, library=library)
        w_desc = cudnn.FilterDescriptor(filters, library=library)
        conv = cudnn.ConvolutionDescriptor(padding=1, library=library)
        y_shape = cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc)
        y_desc = cudnn.TensorDescriptor(y_shape, library=library)
        algo = cudnn.ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM
        needed = cudnn.get_convolution_forward_workspace_size(
            context.cudnn, x_desc, w_desc, conv, y_desc, algo
        )

        def run(x, w, y):
            workspace = context.workspace(needed)
            cudnn.convolution_forward(
                context.cudnn, x_desc, x, w_desc, w, conv, algo, workspace, y_desc, y
            )

        return run, y_shape, needed

    def test_g2_a_workspace_that_grows_leaves_the_graph_alone(self, context, rng):
        device, stream = context.device, context.stream
        run, y_shape, _ = self.convolution(context, (2, 8, 8, 8), (8, 8, 3, 3))
        x = from_numpy(rng.standard_normal((2, 8, 8, 8)).astype(np.float32), device, stream)
        w = from_numpy(rng.standard_normal((8, 8, 3, 3)).astype(np.float32), device, stream)
        y = empty(y_shape, device=device, stream=stream)
        context.workspace(1)
        run(x, w, y)
        expected = y.numpy()
        with stream.capture() as graph:
            run(x, w, y)
            # All of a captured workspace counts, not only what the convolution needs.
            context.workspace(1 << 20).fill_bytes(1, stream)
        large, large_shape, needed = self.convolution(context, (16, 64, 64, 64), (64, 64, 3, 3))
        big_x = pycudnn.zeros((16, 64, 64, 64), device=device, stream=stream)
        big_w = pycudnn.zeros((64, 64, 3, 3), device=device, stream=stream)
        big_y = empty(large_shape, device=device, stream=stream)
        context.workspace(max(needed, 64 << 20))
        large(big_x, big_w, big_y)
        taken = [pycudnn.zeros(1 << 18, device=device, stream=stream) for _ in range(16)]
        y.fill_bytes(255, stream)
        graph.launch()
        np.testing.assert_array_equal(y.numpy(), expected)
        assert all(not buffer.numpy().any() for buffer in taken)

    def test_a_captured_gemm_and_a_context_that_stays_open(self, rng):
        a = rng.standard_normal((64, 64)).astype(np.float32)
        device = Device("cuda")
        context = CudaContext("cuda")
        there = from_numpy(a, device, context.stream)
        result = empty((64, 64), device=device, stream=context.stream)
        none = cublas.Operation.N

        def multiply():
            cublas.sgemm(
                context.cublas, none, none, 64, 64, 64, 1.0, there, 64, there, 64, 0.0, result, 64
            )

        multiply()
        expected = result.numpy()
        with context.stream.capture() as graph:
            multiply()
        with pytest.raises(RuntimeError, match="captured"), context.stream.capture():
            context.close()
        context.workspace(1 << 20)
        result.fill_bytes(255, context.stream)
        graph.launch()
        np.testing.assert_array_equal(result.numpy(), expected)
        graph.close()
        context.close()


def test_a_context_is_made_once(backend):
    with CudaContext(backend) as context:
        handle = context.cudnn
        with pytest.raises(ValueError, match="already made"):
            context.__init__(backend)
        assert context.cudnn is handle
