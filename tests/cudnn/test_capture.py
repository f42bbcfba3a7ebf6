"""Captured work: what a graph replays, and what cannot be captured."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import CudaContext, cudnn, errors, from_numpy, zeros


def test_capture_is_not_the_references():
    with CudaContext("reference") as context, pytest.raises(errors.NotSupported):
        with context.stream.capture():
            pass


@pytest.mark.gpu
def test_g2_a_search_during_a_capture_is_refused():
    with CudaContext("cuda") as context:
        x_desc = cudnn.TensorDescriptor((1, 1, 8, 8))
        w_desc = cudnn.FilterDescriptor((1, 1, 3, 3))
        y_desc = cudnn.TensorDescriptor((1, 1, 6, 6))
        conv = cudnn.ConvolutionDescriptor()
        arguments = (context.cudnn, x_desc, w_desc, conv, y_desc)
        with context.stream.capture():
            with pytest.raises(errors.NotSupported, match="search cannot be captured"):
                cudnn.find_convolution_forward_algorithm(*arguments)
        assert cudnn.find_convolution_forward_algorithm(*arguments)


@pytest.mark.gpu
def test_g2_a_replay_outlives_everything_it_used(rng):
    """Descriptors, buffers and the workspace are dropped or outgrown; the graph still computes."""
    with CudaContext("cuda") as context:
        array = rng.standard_normal((4, 3, 16, 16)).astype(np.float32)
        y = zeros(array.shape, device=context.device, stream=context.stream)

        def capture():
            desc = cudnn.TensorDescriptor(array.shape)
            tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH)
            x = from_numpy(array, device=context.device, stream=context.stream)
            context.workspace(1 << 16)
            with context.stream.capture() as graph:
                cudnn.activation_forward(context.cudnn, tanh, desc, x, desc, y)
            return graph

        graph = capture()
        context.workspace(1 << 26)
        fill = zeros((1 << 20,), device=context.device, stream=context.stream)
        fill.fill_bytes(0xFF, stream=context.stream)
        for _ in range(3):
            y.fill_bytes(0, stream=context.stream)
            graph.launch(context.stream)
            np.testing.assert_allclose(y.numpy(context.stream), np.tanh(array), atol=1e-5)
