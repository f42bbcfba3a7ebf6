"""Outputs against float64, and every gradient against finite differences of that."""

from __future__ import annotations

from collections.abc import Callable

import float64_layers as exact
import numpy as np
import pytest

from layers import Activation, Blob, Conv2D, CudaContext, Dense, Layer, Pooling, Softmax
from pycudnn.cudnn import ActivationMode, PoolingMode

Array = np.ndarray


def check_layer(
    layer: Layer, forward: Callable[..., Array], x: Array, context: CudaContext, rng
) -> None:
    """Compare output, dx, dw and db of a layer with those of ``forward(x[, w, b])``."""
    layer.set_cuda_context(context)
    layer.forward(exact.blob_of(x[::-1], context))  # must not stick
    output = layer.forward(exact.blob_of(x, context))
    parameters = [array.astype(np.float64) for array in layer.arrays().values()]
    if parameters:
        parameters[1][:] = rng.standard_normal(parameters[1].shape)
        layer.biases.ptr[...] = parameters[1].reshape(layer.biases.shape)
        layer.biases.to("cuda")
        parameters[1] = layer.arrays()[f"{layer.name}.bias"].astype(np.float64)
        output = layer.forward(exact.blob_of(x, context))
    operands = [x.astype(np.float64), *parameters]
    exact.assert_close(output.to("host"), forward(*operands))

    weighting = rng.standard_normal(output.shape)
    grad_input = layer.backward(exact.blob_of(weighting, context))
    gradients = [grad_input, layer.grad_weights, layer.grad_biases][: len(operands)]
    for position, gradient in enumerate(gradients):

        def objective(value: Array, position: int = position) -> float:
            changed = [*operands[:position], value, *operands[position + 1 :]]
            return float((forward(*changed) * weighting).sum())

        wanted = exact.finite_differences(objective, operands[position])
        exact.assert_close(gradient.to("host"), wanted, 1e-4)


def apart_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random values, none near a kink at 0."""
    x = rng.standard_normal(shape)
    return (x + 0.1 * np.sign(x)).astype(np.float32)


def all_different(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values 0.1 apart from each other, in random order: a maximum stays one."""
    return (rng.permutation(np.prod(shape)) * 0.1 - 3).reshape(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(3, 6), (1, 2, 3, 4), (5, 1, 1, 1)])
def test_dense(shape, context, rng):
    x = rng.standard_normal(shape).astype(np.float32)
    check_layer(Dense("dense", 4), exact.dense, x, context, rng)


@pytest.mark.parametrize("bias_gradient", ["channel_sum", "cudnn"])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3},
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": 3, "padding": 2},
        {"kernel_size": 2, "dilation": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 2},
        {"kernel_size": 1},
    ],
    ids=str,
)
def test_conv2d(options, bias_gradient, context, rng):
    x = rng.standard_normal((2, 4, 6, 5)).astype(np.float32)
    layer = Conv2D("conv", 6, bias_gradient=bias_gradient, **options)
    rest = {name: value for name, value in options.items() if name != "kernel_size"}
    check_layer(layer, lambda *a: exact.convolution(*a, **rest), x, context, rng)


@pytest.mark.parametrize(("window", "padding", "stride"), [(2, 0, 2), (3, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize(
    ("mode", "how"),
    [
        (PoolingMode.MAX, "max"),
        (PoolingMode.MAX_DETERMINISTIC, "max"),
        (PoolingMode.AVERAGE_COUNT_INCLUDE_PADDING, "include"),
        (PoolingMode.AVERAGE_COUNT_EXCLUDE_PADDING, "exclude"),
    ],
)
def test_pooling(window, padding, stride, mode, how, context, rng):
    layer = Pooling("pool", window, padding, stride, mode)
    x = all_different(rng, (2, 3, 6, 5))
    check_layer(layer, lambda x: exact.pooling(x, window, padding, stride, how), x, context, rng)


@pytest.mark.parametrize(
    ("mode", "coef", "f"),
    [
        (ActivationMode.RELU, 0.0, lambda x: np.maximum(x, 0)),
        (ActivationMode.SIGMOID, 0.0, lambda x: 1 / (1 + np.exp(-x))),
        (ActivationMode.TANH, 0.0, np.tanh),
        (ActivationMode.CLIPPED_RELU, 10.0, lambda x: np.clip(x, 0, 10)),
        (ActivationMode.ELU, 0.7, lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    ],
)
def test_activation(mode, coef, f, context, rng):
    x = apart_from_zero(rng, (3, 4, 2, 2))
    check_layer(Activation("act", mode, coef), f, x, context, rng)


def test_softmax_gradient_is_that_of_the_mean_loss(context, rng):
    logits = rng.standard_normal((5, 4)).astype(np.float32)
    target = exact.one_hot(rng.integers(0, 4, 5), 4)
    layer = Softmax("softmax")
    layer.set_cuda_context(context)
    output = layer.forward(exact.blob_of(logits, context))
    exact.assert_close(output.to("host"), exact.softmax(logits.astype(np.float64)))
    grad_input = layer.backward(exact.blob_of(target, context))
    wanted = exact.finite_differences(lambda x: exact.cross_entropy(x, target), logits)
    exact.assert_close(grad_input.to("host"), wanted, 1e-4)


def test_m5_gradients_follow_a_growing_batch(context, rng):
    conv, dense = Conv2D("conv", 3, 2), Dense("dense", 4)
    for layer in (conv, dense):
        layer.set_cuda_context(context)
    for n in (16, 32, 8):
        x = rng.standard_normal((n, 2, 4, 3))
        middle = conv.forward(exact.blob_of(x, context))
        output = dense.forward(middle)
        weighting = rng.standard_normal(output.shape)
        grad_middle = dense.backward(exact.blob_of(weighting, context))
        grad_input = conv.backward(grad_middle)
        assert grad_middle.shape == middle.shape
        assert grad_input.shape == (n, 2, 4, 3)

        w1, b1, w2, b2 = [
            array.astype(np.float64) for layer in (conv, dense) for array in layer.arrays().values()
        ]

        def objective(x, w1=w1, b1=b1, w2=w2, b2=b2, weighting=weighting):
            return float((exact.dense(exact.convolution(x, w1, b1), w2, b2) * weighting).sum())

        # The first and the last sample: the last one is what an old, smaller buffer would miss.
        for i in (0, n - 1):

            def one(sample, i=i, x=x, objective=objective):
                changed = x.copy()
                changed[i] = sample
                return objective(changed)

            exact.assert_close(grad_input.to("host")[i], exact.finite_differences(one, x[i]), 1e-4)
        wanted = exact.finite_differences(lambda w, f=objective, x=x: f(x, w1=w), w1)
        exact.assert_close(conv.grad_weights.to("host"), wanted, 1e-4)
        wanted = exact.finite_differences(lambda w, f=objective, x=x: f(x, w2=w), w2)
        exact.assert_close(dense.grad_weights.to("host"), wanted, 1e-4)


def test_d3_a_batch_of_0(context, monkeypatch):
    """The output has its shape and the weight gradient is 0, without a library call."""
    conv, pool = Conv2D("conv", 3, 3, stride=2, padding=1), Pooling("pool", 2)
    dense, relu, softmax = Dense("d", 5), Activation("r", ActivationMode.RELU), Softmax("s")
    chain = (conv, relu, pool, dense, softmax)
    for layer in chain:
        layer.set_cuda_context(context)
    some = Blob(4, 2, 9, 7, context=context)
    some.to("cuda")
    for layer in chain:
        some = layer.forward(some)
    target = Blob(4, 5, context=context)
    target.to("cuda")
    for layer in reversed(chain):
        target = layer.backward(target)

    refuse_calls(monkeypatch)
    output = Blob(0, 2, 9, 7, context=context)
    shapes = []
    for layer in chain:
        output = layer.forward(output)
        shapes.append(output.shape)
    assert shapes == [(0, 3, 5, 4), (0, 3, 5, 4), (0, 3, 2, 2), (0, 5, 1, 1), (0, 5, 1, 1)]
    for layer in (conv, dense):
        layer.grad_weights.cuda.fill_bytes(1)
        layer.grad_biases.cuda.fill_bytes(1)
    gradient = Blob(0, 5, context=context)
    for layer in reversed(chain):
        gradient = layer.backward(gradient)
    assert gradient.shape == (0, 2, 9, 7)
    for layer in (conv, dense):
        assert not layer.grad_weights.to("host").any()
        assert not layer.grad_biases.to("host").any()


def refuse_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every cuDNN, cuBLAS and kernel call of the layers fails the test."""
    from pycudnn import cublas, cudnn, kernels

    def refuse(*arguments: object, **options: object) -> None:
        pytest.fail("a library was called for a batch of 0")

    for module, names in (
        (cudnn, [name for name in cudnn.__all__ if name.islower()]),
        (cublas, ["sgemm", "sgemv", "saxpy", "sscal"]),
        (kernels, ["channel_sum"]),
    ):
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr(cudnn, "TensorDescriptor", refuse)
