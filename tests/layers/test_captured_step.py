"""A captured training step computes what the plain one does."""

from __future__ import annotations

import numpy as np
import pytest

from layers import Blob, CapturedStep, Network
from layers.models import lenet


def batch(context, rng, n):
    data, target = (Blob(n, *shape, context=context) for shape in ((1, 28, 28), (10, 1, 1)))
    data.ptr[...] = rng.uniform(0, 1, data.shape)
    target.ptr[...] = np.eye(10)[rng.integers(0, 10, n)].reshape(target.shape)
    return data, target


def train(context, batches, captured):
    """Parameters, losses and right samples after a few steps at falling rates."""
    model = lenet(seed=3)
    model.cuda(context)
    step = CapturedStep(model)
    blobs = [Blob(*array.shape, context=context) for array in batches[0]]
    outcomes = []
    for i, arrays in enumerate(batches):
        for blob, array in zip(blobs, arrays, strict=True):
            blob.reset(*array.shape)
            blob.ptr[...] = array
            blob.to("cuda")
        rate = 0.1 / (1 + i)
        if captured:
            step(*blobs, rate)
        else:
            model.forward(blobs[0])
            model.measure(blobs[1])
            model.backward(blobs[1])
            model.update(rate)
        outcomes.append(model.measured())
    arrays = {name: a for layer in model.layers for name, a in layer.arrays().items()}
    return arrays, outcomes


def test_equals_the_plain_step(context, rng):
    """Six steps of one size, two of another, again four of the first: each at its own rate."""
    batches = []
    for n in (16, 16, 16, 16, 16, 16, 5, 5, 16, 16, 16, 16):
        data, target = batch(context, rng, n)
        batches.append((data.ptr.copy(), target.ptr.copy()))
    plain, plain_outcomes = train(context, batches, captured=False)
    replayed, outcomes = train(context, batches, captured=True)
    assert [correct for _, correct in outcomes] == [correct for _, correct in plain_outcomes]
    np.testing.assert_allclose(
        [loss for loss, _ in outcomes], [loss for loss, _ in plain_outcomes], rtol=1e-4
    )
    for name, array in plain.items():
        np.testing.assert_allclose(replayed[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


def test_follows_freeze(context, rng):
    model = lenet(seed=3)
    model.cuda(context)
    step = CapturedStep(model)
    data, target = batch(context, rng, 8)
    for blob in (data, target):
        blob.to("cuda")
    for _ in range(4):
        step(data, target, 0.1)
    model.layers[0].freeze()
    frozen = model.layers[0].weights.to("host").copy()
    later = model.layers[-2].weights.to("host").copy()
    for _ in range(3):
        step(data, target, 0.1)
    assert (model.layers[0].weights.to("host") == frozen).all()
    assert (model.layers[-2].weights.to("host") != later).any()


def test_needs_a_context():
    with pytest.raises(RuntimeError, match="call cuda"):
        CapturedStep(Network())


@pytest.mark.gpu
def test_is_replayed_on_a_gpu(rng):
    from pycudnn import CudaContext

    with CudaContext("cuda") as context:
        model = lenet(seed=3)
        model.cuda(context)
        step = CapturedStep(model)
        data, target = batch(context, rng, 8)
        for blob in (data, target):
            blob.to("cuda")
        step(data, target, 0.1)
        step(data, target, 0.1)
        assert step._forward is not None
        graph = step._forward
        step(data, target, 0.1)
        assert step._forward is graph
