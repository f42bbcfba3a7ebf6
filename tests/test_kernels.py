"""The package's own kernels against float64 NumPy, and that every source compiles."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pycudnn import Device, empty, from_numpy, kernels, zeros
from pycudnn.errors import LibraryMismatch
from pycudnn.kernels import _launch


def loss_of(context, logits, target):
    device, stream = context.device, context.stream
    loss = empty(1, device=device, stream=stream)
    loss.fill_bytes(255, stream)
    kernels.softmax_cross_entropy_loss(
        stream, from_numpy(logits, device, stream), from_numpy(target, device, stream), loss
    )
    return loss.numpy()[0]


def correct_of(context, scores, target):
    device, stream = context.device, context.stream
    count = empty(1, "int32", device, stream)
    count.fill_bytes(255, stream)
    kernels.count_correct(
        stream, from_numpy(scores, device, stream), from_numpy(target, device, stream), count
    )
    return count.numpy()[0]


def sums_of(context, x):
    device, stream = context.device, context.stream
    sums = empty(x.shape[1], device=device, stream=stream)
    sums.fill_bytes(255, stream)
    kernels.channel_sum(stream, from_numpy(x, device, stream), sums)
    return sums.numpy()


def one_hot(labels, classes):
    return np.eye(classes, dtype=np.float32)[labels]


def log_softmax(logits):
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


# ---- loss ----


@pytest.mark.parametrize("rows", [1, 7, 10, 256, 600, 1000, 9000])
@pytest.mark.parametrize("classes", [2, 10, 33, 1000])
def test_m6_loss_from_logits(context, rng, rows, classes):
    if rows * classes > 1_000_000:
        rows = 1_000_000 // classes
    logits = (rng.standard_normal((rows, classes)) * 10).astype(np.float32)
    labels = rng.integers(0, classes, rows)
    expected = -log_softmax(logits)[np.arange(rows), labels].mean()
    found = loss_of(context, logits, one_hot(labels, classes))
    assert found == pytest.approx(expected, rel=3e-6, abs=1e-6)


def test_m6_loss_of_certain_rows(context):
    logits = np.array([[0, 200]], np.float32)
    assert loss_of(context, logits, one_hot([1], 2)) == 0
    assert loss_of(context, logits, one_hot([0], 2)) == 200


@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_m6_loss_is_finite_for_finite_logits(context, scale):
    logits = np.array([[-1, 0, 1], [1, -1, 0]], np.float32) * np.float32(scale)
    found = loss_of(context, logits, one_hot([2, 1], 3))
    assert found == pytest.approx(scale, rel=1e-6)  # (0 + 2 scale) / 2


def test_loss_of_a_masked_class(context):
    logits = np.array([[-np.inf, 1, 1]], np.float32)
    assert loss_of(context, logits, one_hot([2], 3)) == pytest.approx(np.log(2), rel=1e-6)


def test_loss_of_soft_targets(context, rng):
    logits = rng.standard_normal((50, 7)).astype(np.float32)
    target = rng.random((50, 7)).astype(np.float32)
    expected = -(target.astype(np.float64) * log_softmax(logits)).sum(axis=1).mean()
    assert loss_of(context, logits, target) == pytest.approx(expected, rel=3e-6)


def test_loss_of_nan_is_nan(context):
    logits = np.array([[0, np.nan, 1], [1, 2, 3]], np.float32)
    assert np.isnan(loss_of(context, logits, one_hot([0, 1], 3)))


def test_loss_of_blobs_with_further_dimensions(context, rng):
    logits = rng.standard_normal((5, 3, 1, 1)).astype(np.float32)
    target = one_hot([0, 1, 2, 0, 1], 3).reshape(5, 3, 1, 1)
    expected = loss_of(context, logits.reshape(5, 3), target.reshape(5, 3))
    assert loss_of(context, logits, target) == expected


# ---- accuracy ----


@pytest.mark.parametrize("rows", [1, 10, 256, 1000, 9000])
@pytest.mark.parametrize("classes", [1, 2, 10, 40])
def test_count_correct(context, rng, rows, classes):
    scores = rng.standard_normal((rows, classes)).astype(np.float32)
    labels = rng.integers(0, classes, rows)
    expected = np.count_nonzero(scores.argmax(axis=1) == labels)
    assert correct_of(context, scores, one_hot(labels, classes)) == expected


def test_count_correct_breaks_ties_as_numpy(context, rng):
    scores = rng.integers(0, 3, (500, 50)).astype(np.float32)
    scores[3, 20] = np.nan
    scores[4] = -np.inf
    target = rng.integers(0, 2, (500, 50)).astype(np.float32)
    expected = np.count_nonzero(scores.argmax(axis=1) == target.argmax(axis=1))
    assert 0 < expected < 500
    assert correct_of(context, scores, target) == expected
    assert correct_of(context, scores, scores) == 500


# ---- sums over channels ----


@pytest.mark.parametrize(
    "shape",
    [
        (256, 20, 24, 24),  # the book's conv1: planes in float4
        (256, 50, 8, 8),
        (7, 3, 5, 5),  # planes in single floats
        (1, 1, 1, 1),
        (64, 500),  # no plane at all
        (3, 2, 1000, 1000),  # few large planes
        (1, 4096, 2, 2),  # more channels than blocks are wanted
        (2, 3, 4, 5, 6),
    ],
)
def test_channel_sum(context, rng, shape):
    x = rng.standard_normal(shape).astype(np.float32)
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    expected = x.sum(axis=axes, dtype=np.float64)
    magnitude = np.abs(x).sum(axis=axes, dtype=np.float64)
    assert np.all(np.abs(sums_of(context, x) - expected) <= 1e-6 * magnitude + 1e-6)


def test_channel_sum_of_an_odd_address(context, rng):
    # A view that starts 4 bytes into the memory: no loads of 16 bytes there.
    x = rng.standard_normal(1 + 2 * 3 * 16).astype(np.float32)
    there = from_numpy(x, context.device, context.stream)
    sums = empty(3, device=context.device, stream=context.stream)
    kernels.channel_sum(context.stream, there.view((2, 3, 4, 4), offset=4), sums)
    expected = x[1:].reshape(2, 3, 16).sum(axis=(0, 2), dtype=np.float64)
    np.testing.assert_allclose(sums.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_sums_are_the_same_in_every_run(context, rng):
    x = from_numpy(
        rng.standard_normal((64, 20, 24, 24)).astype(np.float32), context.device, context.stream
    )
    logits = from_numpy(rng.standard_normal((3000, 10)).astype(np.float32), context.device)
    target = from_numpy(one_hot(rng.integers(0, 10, 3000), 10), context.device)
    sums, loss = empty(20, device=context.device), empty(1, device=context.device)
    seen = set()
    for _ in range(20):
        kernels.channel_sum(context.stream, x, sums)
        kernels.softmax_cross_entropy_loss(context.stream, logits, target, loss)
        seen.add((sums.numpy().tobytes(), loss.numpy().tobytes()))
    assert len(seen) == 1


@pytest.mark.gpu
def test_kernels_of_many_sizes_share_their_scratch(rng):
    device = Device("cuda")
    with device.create_stream() as stream:
        for channels in (3, 2000, 20, 5000, 1):
            x = rng.integers(-4, 4, (9, channels, 6, 6)).astype(np.float32)
            sums = empty(channels, device=device, stream=stream)
            kernels.channel_sum(stream, from_numpy(x, device, stream), sums)
            assert np.array_equal(sums.numpy(), x.sum(axis=(0, 2, 3)))


@pytest.mark.gpu
def test_captured_kernels_run_beside_their_stream(rng):
    device = Device("cuda")
    stream, other = device.create_stream(), device.create_stream()
    x = rng.integers(-4, 4, (64, 20, 24, 24)).astype(np.float32)
    there = from_numpy(x, device, stream)
    captured, direct = empty(20, device=device), empty(20, device=device)
    kernels.channel_sum(stream, there, direct)
    with stream.capture() as graph:
        kernels.channel_sum(stream, there, captured)
    for _ in range(50):
        graph.launch(other)
        kernels.channel_sum(stream, there, direct)
    expected = x.sum(axis=(0, 2, 3))
    assert np.array_equal(captured.numpy(other), expected)
    assert np.array_equal(direct.numpy(stream), expected)


def test_threads_with_streams_of_their_own(backend, rng):
    device = Device(backend)
    arrays = [rng.integers(-4, 4, (8, 5, 6, 6)).astype(np.float32) for _ in range(4)]
    wrong = []

    def work(x):
        with device.create_stream() as stream:
            there, sums = from_numpy(x, device, stream), empty(5, device=device, stream=stream)
            for _ in range(50):
                kernels.channel_sum(stream, there, sums)
                if not np.array_equal(sums.numpy(), x.sum(axis=(0, 2, 3))):
                    wrong.append(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- what is refused ----


def test_operands_are_checked(context):
    device, stream = context.device, context.stream
    logits, target = zeros((4, 3), device=device), zeros((4, 3), device=device)
    loss, count = zeros(1, device=device), zeros(1, "int32", device)
    measure, number = kernels.softmax_cross_entropy_loss, kernels.count_correct
    with pytest.raises(TypeError, match="logits must be a Buffer"):
        measure(stream, np.zeros((4, 3), np.float32), target, loss)
    with pytest.raises(TypeError, match="target must be float32, got Buffer.*int32"):
        measure(stream, logits, zeros((4, 3), "int32", device), loss)
    with pytest.raises(ValueError, match=r"target must have logits's shape \(4, 3\)"):
        measure(stream, logits, zeros((3, 4), device=device), loss)
    with pytest.raises(ValueError, match=r"loss must have 1 element\(s\)"):
        measure(stream, logits, target, zeros(2, device=device))
    with pytest.raises(ValueError, match="scores must be .rows, classes. and not empty"):
        number(stream, zeros((0, 3), device=device), target, count)
    with pytest.raises(TypeError, match="count must be int32"):
        number(stream, logits, target, loss)
    with pytest.raises(ValueError, match=r"sums must have 3 element\(s\)"):
        kernels.channel_sum(stream, logits, loss)
    with pytest.raises(ValueError, match="x must be .n, channels"):
        kernels.channel_sum(stream, loss, loss)
    loss.close()
    with pytest.raises(ValueError, match="this Buffer is closed"):
        measure(stream, logits, target, loss)


@pytest.mark.gpu
def test_memory_of_the_other_side_is_refused():
    there, here = Device("cuda"), Device("reference")
    with pytest.raises(LibraryMismatch):
        kernels.channel_sum(
            there.create_stream(), zeros((2, 3), device=here), zeros(3, device=here)
        )


# ---- compilation, with or without a GPU ----


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["loss", "channel_sum"])
def test_sources_compile(name, architecture):
    core = pytest.importorskip("cuda.core")
    pytest.importorskip("cuda.bindings.nvrtc")
    source = _launch.read_source(name)
    options = core.ProgramOptions(arch=architecture, std="c++17")
    code = core.Program(source, "c++", options).compile("cubin")
    assert bytes(code.code)[:4] == b"\x7fELF"
    for line in source.splitlines():
        if 'extern "C"' in line:
            function = line.split("void ")[1].split("(")[0]
            assert function.encode() in bytes(code.code)
