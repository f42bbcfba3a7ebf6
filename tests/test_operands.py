"""Memory of others as operands: NumPy on the reference side, CuPy, PyTorch and JAX on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import CudaContext, cublas, cudnn, empty, errors, from_numpy

SHAPE = (2, 3, 4, 5)


def tanh(context, x, y, desc=None):
    desc = desc or cudnn.TensorDescriptor(SHAPE, library=context.cudnn.library)
    function = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library=context.cudnn.library)
    y_desc = cudnn.TensorDescriptor(SHAPE, library=context.cudnn.library)
    cudnn.activation_forward(context.cudnn, function, desc, x, y_desc, y)


@pytest.mark.gpu
@pytest.mark.parametrize("package", ["cupy", "torch"])
def test_arrays_of_others_go_in_and_out(package, rng):
    module = pytest.importorskip(package)
    values = rng.standard_normal(SHAPE).astype(np.float32)
    with CudaContext("cuda") as context:
        if package == "cupy":
            x, y = module.asarray(values), module.empty(SHAPE, "float32")
            module.cuda.Device().synchronize()
        else:
            x = module.from_numpy(values).cuda()
            y = module.empty(SHAPE, device="cuda")
            module.cuda.synchronize()
        tanh(context, x, y)
        context.synchronize()
        result = y.get() if package == "cupy" else y.cpu().numpy()
        np.testing.assert_allclose(result, np.tanh(values), atol=1e-6)
        # A view with other strides than the descriptor's is refused, one with its own is taken.
        turned = x.transpose(0, 1, 3, 2) if package == "cupy" else x.transpose(2, 3)
        with pytest.raises(ValueError, match="x must be contiguous"):
            tanh(context, turned, y)
        with pytest.raises(TypeError, match="x holds float64"):
            tanh(context, x.astype("float64") if package == "cupy" else x.double(), y)
        with pytest.raises(ValueError, match="x needs 480 bytes, got 240"):
            tanh(context, x[:1], y)


@pytest.mark.gpu
def test_bfloat16_of_torch(rng):
    torch = pytest.importorskip("torch")
    with CudaContext("cuda") as context:
        x = torch.from_numpy(rng.standard_normal(SHAPE).astype(np.float32)).cuda().bfloat16()
        y = torch.empty_like(x)
        torch.cuda.synchronize()
        desc = cudnn.TensorDescriptor(SHAPE, "bfloat16")
        function = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU)
        cudnn.activation_forward(context.cudnn, function, desc, x, desc, y)
        context.synchronize()
        assert (y.float() == x.float().clamp(min=0)).all()


@pytest.mark.gpu
def test_dlpack_of_jax(rng, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    values = rng.standard_normal(SHAPE).astype(np.float32)
    with CudaContext("cuda") as context:
        x = jax.device_put(values).block_until_ready()
        y = empty(SHAPE, device=context.device, stream=context.stream)
        tanh(context, x, y)
        np.testing.assert_allclose(y.numpy(context.stream), np.tanh(values), atol=1e-6)


@pytest.mark.gpu
def test_dropped_operands_live_until_the_stream_is_past_them(rng):
    """H9: all references gone, memory taken by somebody else: the result is still right."""
    torch = pytest.importorskip("torch")
    values = rng.standard_normal((64, 3, 256, 256)).astype(np.float32)
    with CudaContext("cuda") as context:
        desc = cudnn.TensorDescriptor(values.shape)
        function = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH)
        y = empty(values.shape, device=context.device, stream=context.stream)
        x = torch.from_numpy(values).cuda()
        torch.cuda.synchronize()
        for _ in range(20):
            cudnn.activation_forward(context.cudnn, function, desc, x, desc, y)
        del x
        other = torch.full(values.shape, 7.0, device="cuda")
        torch.cuda.synchronize()
        np.testing.assert_allclose(y.numpy(context.stream), np.tanh(values), atol=1e-5)
        del other


@pytest.mark.gpu
def test_each_side_refuses_the_others_memory(rng):
    values = rng.standard_normal(SHAPE).astype(np.float32)
    with CudaContext("cuda") as gpu, CudaContext("reference") as host:
        on_gpu = empty(SHAPE, device=gpu.device, stream=gpu.stream)
        with pytest.raises(errors.LibraryMismatch, match="x must be CUDA memory"):
            tanh(gpu, values, on_gpu)
        with pytest.raises(errors.LibraryMismatch, match="x is cuda memory"):
            tanh(host, on_gpu, values)


def test_the_reference_refuses_what_claims_to_be_on_a_gpu():
    class Claim:
        __cuda_array_interface__ = {
            "shape": SHAPE, "typestr": "<f4", "data": (4096, False), "version": 3,
        }  # fmt: skip

    with CudaContext("reference") as context:
        with pytest.raises(errors.LibraryMismatch, match="x must be host memory, got Claim"):
            tanh(context, Claim(), np.empty(SHAPE, np.float32))


@pytest.mark.gpu
@pytest.mark.parametrize("package", ["cupy", "torch"])
def test_the_other_librarys_current_stream_is_waited_for(package, rng):
    """Slow work that is still queued on their stream is done before ours reads its result."""
    module = pytest.importorskip(package)
    shape = (8, 8, 512, 512)
    with CudaContext("cuda") as context:
        desc = cudnn.TensorDescriptor(shape)
        relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU)
        y = empty(shape, device=context.device, stream=context.stream)
        theirs = (
            module.cuda.Stream() if package == "torch" else module.cuda.Stream(non_blocking=True)
        )
        use = module.cuda.stream(theirs) if package == "torch" else theirs
        for attempt in range(3):
            with use:
                if package == "torch":
                    x = module.zeros(shape, device="cuda")
                else:
                    x = module.zeros(shape, "float32")
                for _ in range(200):
                    x += 1.0
                cudnn.activation_forward(context.cudnn, relu, desc, x, desc, y)
            result = y.numpy(context.stream)
            assert (result == 200).all(), attempt


@pytest.mark.gpu
def test_their_stream_as_ours(rng):
    """A context on PyTorch's current stream: no synchronisation is needed either way."""
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), CudaContext("cuda", stream=stream) as context:
        desc = cudnn.TensorDescriptor((4, 4, 256, 256))
        relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU)
        x = torch.randn(desc.shape, device="cuda")
        y = torch.empty_like(x)
        for _ in range(50):
            cudnn.activation_forward(context.cudnn, relu, desc, x, desc, y)
            z = y * 2
        assert (z == 2 * x.clamp(min=0)).all()


@pytest.mark.gpu
def test_a_tensor_that_wants_a_gradient(rng):
    torch = pytest.importorskip("torch")
    with CudaContext("cuda") as context:
        x = torch.ones(SHAPE, device="cuda", requires_grad=True)
        y = empty(SHAPE, device=context.device, stream=context.stream)
        with pytest.raises(ValueError, match="x cannot be shared.*detach"):
            tanh(context, x, y)
        tanh(context, x.detach(), y)
        np.testing.assert_allclose(y.numpy(), np.tanh(np.ones(SHAPE)), atol=1e-6)


@pytest.mark.gpu
def test_tensors_whose_memory_is_not_their_numbers():
    """PyTorch conjugates and negates by a bit of the tensor, and leaves the memory as it is."""
    torch = pytest.importorskip("torch")
    with CudaContext("cuda") as context:
        z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64, device="cuda")
        w = torch.zeros_like(z)
        with pytest.raises(ValueError, match=r"x cannot be shared.*x\.resolve_conj\(\)"):
            cublas.ccopy(context.cublas, 2, z.conj(), 1, w, 1)
        turned = torch.conj(z).imag
        assert turned.is_neg()
        with pytest.raises(ValueError, match=r"x cannot be shared.*x\.resolve_neg\(\)"):
            cublas.scopy(context.cublas, 2, turned, 2, w, 1)
        sparse = torch.eye(2, device="cuda").to_sparse()
        with pytest.raises(ValueError, match="x cannot be shared"):
            cublas.scopy(context.cublas, 2, sparse, 1, w, 1)
        cublas.ccopy(context.cublas, 2, z.conj().resolve_conj(), 1, w, 1)
        assert w.tolist() == [1 - 2j, 3 + 4j]


@pytest.mark.gpu
def test_numba_arrays(rng):
    cuda = pytest.importorskip("numba.cuda")
    values = rng.standard_normal(SHAPE).astype(np.float32)
    with CudaContext("cuda") as context:
        x, y = cuda.to_device(values), cuda.device_array(SHAPE, np.float32)
        tanh(context, x, y)
        context.synchronize()
        np.testing.assert_allclose(y.copy_to_host(), np.tanh(values), atol=1e-6)


@pytest.mark.gpu
def test_memory_between_multiples_of_16_bytes_is_refused(rng):
    """Some of cuDNN's kernels end there in a misaligned address, and so does the CUDA context."""
    values = rng.standard_normal(124).astype(np.float32)
    with CudaContext("cuda") as context:
        room = from_numpy(values, context.device, context.stream)
        y = empty(SHAPE, device=context.device, stream=context.stream)
        with pytest.raises(ValueError, match="x must be aligned to 16 bytes"):
            tanh(context, room.view(SHAPE, offset=4), y)
        tanh(context, room.view(SHAPE, offset=16), y)
        np.testing.assert_allclose(y.numpy().ravel(), np.tanh(values[4:]), atol=1e-6)
