"""How a convolution layer chooses its algorithms and finds its workspace."""

from __future__ import annotations

import warnings

import float64_layers as exact
import numpy as np
import pytest

from layers import Conv2D, CudaContext
from layers import algorithms as chosen
from pycudnn import cudnn
from pycudnn.cudnn import algorithms as searching
from pycudnn.errors import NoAlgorithm


@pytest.fixture(autouse=True)
def no_choices_from_before():
    """What other tests have searched does not count."""
    cudnn.algorithm_cache.clear()


def run(layer, context, n, rng, c=2, h=8, w=8):
    """Forward and backward on random data: output and gradients, on the host."""
    layer.set_cuda_context(context)
    output = layer.forward(exact.blob_of(rng.standard_normal((n, c, h, w)), context))
    grad_input = layer.backward(exact.blob_of(rng.standard_normal(output.shape), context))
    blobs = (output, grad_input, layer.grad_weights, layer.grad_biases)
    return [blob.to("host").copy() for blob in blobs]


@pytest.fixture
def searches(monkeypatch):
    """Counts the searches, per function."""
    counts = {}
    for direction in chosen.DIRECTIONS:
        for pattern in ("get_convolution_{}_algorithm_v7", "find_convolution_{}_algorithm"):
            name = pattern.format(direction)
            real = getattr(searching, name)

            def counted(*arguments, name=name, function=real):
                counts[name] = counts.get(name, 0) + 1
                return function(*arguments)

            monkeypatch.setattr(searching, name, counted)
    return counts


@pytest.mark.parametrize("search", ["heuristic", "find"])
def test_c12_two_batch_sizes_are_two_searches(search, context, rng, searches):
    layer = Conv2D("conv", 3, 3, search=search)
    for n in (256, 96, 256, 96):
        run(layer, context, n, rng)
    name = {
        "heuristic": "get_convolution_{}_algorithm_v7",
        "find": "find_convolution_{}_algorithm",
    }[search]
    assert searches == {name.format(direction): 2 for direction in chosen.DIRECTIONS}
    run(Conv2D("other", 3, 3, search=search), context, 96, rng)  # the same convolution again
    assert set(searches.values()) == {2}


@pytest.mark.parametrize(
    "other",
    [
        {"out_channels": 4},
        {"kernel_size": 2},
        {"stride": 2},
        {"padding": 1},
        {"dilation": 2},
        {"groups": 2, "out_channels": 4},
        {"search": "find"},
        {"workspace_limit": 1 << 20},
        {"deterministic": True},
    ],
    ids=str,
)
def test_c12_the_key_has_every_setting(other, context, rng, searches):
    run(Conv2D("conv", **{"out_channels": 3, "kernel_size": 3}), context, 4, rng)
    run(Conv2D("conv", **{"out_channels": 3, "kernel_size": 3, **other}), context, 4, rng)
    assert sum(searches.values()) == 6


def test_c12_the_key_has_shapes_and_the_math_type(context, rng, searches, monkeypatch):
    run(Conv2D("conv", 3, 3), context, 4, rng)
    for shape in ({"c": 3}, {"h": 9}, {"w": 9}):
        run(Conv2D("conv", 3, 3), context, 4, rng, **shape)
    monkeypatch.setattr("pycudnn.config.tf32", True)
    run(Conv2D("conv", 3, 3), context, 4, rng)
    assert set(searches.values()) == {5}


def test_c5_failed_and_too_large_records_are_skipped(context, rng, monkeypatch):
    layer = Conv2D("conv", 3, 3, workspace_limit=1000)
    real = searching.get_convolution_forward_algorithm_v7

    def doctored(handle, *descriptors):
        usable = [record for record in real(handle, *descriptors) if record.memory == 0]
        failed = usable[0]._replace(status=cudnn.Status.NOT_SUPPORTED)
        large = usable[0]._replace(memory=1001)
        return [failed, large, *usable]

    monkeypatch.setattr(searching, "get_convolution_forward_algorithm_v7", doctored)
    output, *_ = run(layer, context, 2, rng)
    weights, biases = layer.arrays().values()
    exact.assert_close(
        output, exact.convolution(layer.input.ptr.astype(np.float64), weights, biases)
    )
    assert layer._choices["forward"].workspace <= 1000

    monkeypatch.setattr(
        searching,
        "get_convolution_forward_algorithm_v7",
        lambda *arguments: doctored(*arguments)[:2],
    )
    with pytest.raises(NoAlgorithm, match=r"NOT_SUPPORTED.*needs 1001 bytes"):
        run(layer, context, 3, rng)


def needing_workspace(monkeypatch):
    """Make every search prefer an algorithm with a workspace."""
    for direction in chosen.DIRECTIONS:
        name = f"get_convolution_{direction}_algorithm_v7"
        real = getattr(searching, name)

        def largest_first(*arguments, function=real):
            return sorted(function(*arguments), key=lambda record: -record.memory)

        monkeypatch.setattr(searching, name, largest_first)


def test_c7_without_memory_for_a_workspace(context, monkeypatch):
    """The layer falls back to algorithms without one, warns once, and computes the same."""
    needing_workspace(monkeypatch)
    rich, poor = Conv2D("conv", 3, 3), Conv2D("conv", 3, 3)
    rich.seed = poor.seed = 4
    wanted = run(rich, context, 4, np.random.default_rng(1))
    assert rich._choices["forward"].workspace > 0

    def no_memory(self, nbytes):
        raise MemoryError(f"{nbytes} bytes asked for, 0 free")

    def run_thrice():
        for n in (4, 5, 4):
            results = run(poor, context, n, np.random.default_rng(1))
        return results

    monkeypatch.setattr(CudaContext, "workspace", no_memory)
    with pytest.warns(RuntimeWarning, match="layer 'conv': no memory for a workspace") as caught:
        results = run_thrice()
    assert len(caught) == 1
    assert {choice.workspace for choice in poor._choices.values()} == {0}
    for ours, theirs in zip(results, wanted, strict=True):
        exact.assert_close(ours, theirs)


def test_the_workspace_limit_holds(context, rng, monkeypatch):
    needing_workspace(monkeypatch)
    asked = []
    real = CudaContext.workspace

    def watched(self, nbytes):
        asked.append(nbytes)
        return real(self, nbytes)

    monkeypatch.setattr(CudaContext, "workspace", watched)
    run(Conv2D("conv", 3, 3), context, 4, rng)
    assert max(asked) > 0
    asked.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(Conv2D("conv", 3, 3, workspace_limit=0), context, 4, rng)
    assert not any(asked)


def test_c8_deterministic_gradients_repeat(context):
    runs = []
    for _ in range(20):
        layer = Conv2D("conv", 8, 3, deterministic=True)
        layer.seed = 1
        runs.append(run(layer, context, 16, np.random.default_rng(2), c=4, h=14, w=14))
    for other in runs[1:]:
        for ours, theirs in zip(runs[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_both_bias_gradients_agree(context):
    results = [
        run(Conv2D("conv", 5, 3, bias_gradient=how), context, 7, np.random.default_rng(3))[3]
        for how in ("channel_sum", "cudnn")
    ]
    exact.assert_close(results[0], results[1].astype(np.float64))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"search": "fast"}, "search is 'fast', must be one of"),
        ({"bias_gradient": "sum"}, "bias_gradient is 'sum', must be one of"),
    ],
)
def test_unknown_options(option, message):
    with pytest.raises(ValueError, match=message):
        Conv2D("conv", 3, 3, **option)
