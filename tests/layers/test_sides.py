"""Whole networks, step by step, on the GPU against the reference library."""

from __future__ import annotations

import numpy as np
import pytest

from layers import Blob
from layers.models import MODELS
from pycudnn import CudaContext


def run(model, context, batches):
    """What every layer put out and learned, after each step."""
    model.cuda(context)
    history = []
    for pixels, labels in batches:
        data = Blob(*pixels.shape, context=context)
        target = Blob(*labels.shape, context=context)
        for blob, values in ((data, pixels), (target, labels)):
            blob.ptr[...] = values
            blob.to("cuda")
        model.forward(data)
        outputs = {f"{layer.name} output": layer.output.to("host").copy() for layer in model.layers}
        loss, correct = model.loss(target), model.get_accuracy(target)
        model.backward(target)
        model.update(0.05)
        learned = {name: a for layer in model.layers for name, a in layer.arrays().items()}
        history.append((loss, correct, {**outputs, **learned}))
    return history


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_gpu_and_reference_agree_step_by_step(name, rng):
    batches = [
        (
            rng.uniform(0, 1, (n, 1, 28, 28)).astype(np.float32),
            np.eye(10, dtype=np.float32)[rng.integers(0, 10, n)].reshape(n, 10, 1, 1),
        )
        for n in (32, 32, 7, 32, 64)
    ]
    with CudaContext("cuda") as gpu, CudaContext("reference") as reference:
        on_gpu = run(MODELS[name](seed=5), gpu, batches)
        on_reference = run(MODELS[name](seed=5), reference, batches)
    for step, (ours, theirs) in enumerate(zip(on_gpu, on_reference, strict=True)):
        assert ours[0] == pytest.approx(theirs[0], rel=1e-3), f"loss of step {step}"
        assert abs(ours[1] - theirs[1]) <= 1, f"right samples of step {step}"
        for key, values in theirs[2].items():
            scale = max(1.0, float(np.abs(values).max()))
            error = float(np.abs(ours[2][key] - values).max())
            # Winograd, which the heuristic may choose, is exact to 1e-3 only.
            assert error < 1e-2 * scale, f"{key} after step {step}: {error}"
