"""Networks: whole steps against float64, parameters, freezing, files, errors."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path

import float64_layers as exact
import numpy as np
import pytest

from layers import Activation, Blob, Conv2D, CudaContext, Dense, Network, Pooling, Softmax
from layers.mnist import read_split
from layers.models import MODELS, lenet
from pycudnn import cudnn
from pycudnn.cudnn import ActivationMode, PoolingMode
from pycudnn.errors import CudnnBadParam, CudnnError

CLASSES = 4
DATASET = Path(__file__).parents[2] / "examples" / "dataset"


def small_network(context: CudaContext, seed: int | None = None) -> Network:
    """One layer of each kind, for inputs (n, 2, 8, 7)."""
    model = Network(seed)
    model.add_layer(Conv2D("conv", 3, 3))
    model.add_layer(Activation("relu", ActivationMode.RELU))
    model.add_layer(Pooling("pool", 2, 0, 2, PoolingMode.MAX))
    model.add_layer(Dense("dense1", 6))
    model.add_layer(Activation("tanh", ActivationMode.TANH))
    model.add_layer(Dense("dense2", CLASSES))
    model.add_layer(Softmax("softmax"))
    model.cuda(context)
    return model


def batch(context, rng, n):
    """An input and a target blob with random values."""
    x = exact.blob_of(rng.standard_normal((n, 2, 8, 7)), context)
    target = exact.blob_of(exact.one_hot(rng.integers(0, CLASSES, n), CLASSES), context)
    return x, target


def step(model, x, target, learning_rate):
    model.forward(x)
    model.backward(target)
    model.update(learning_rate)


def arrays(model: Network) -> dict[str, np.ndarray]:
    return {name: array for layer in model.layers for name, array in layer.arrays().items()}


def digest(model: Network) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays(model).values())).hexdigest()


def logits64(x, parameters):
    """The small network's logits in float64."""
    w = {name: array.astype(np.float64) for name, array in parameters.items()}
    y = exact.convolution(x, w["conv.weight"], w["conv.bias"])
    y = exact.pooling(np.maximum(y, 0), 2, 0, 2, "max")
    y = np.tanh(exact.dense(y, w["dense1.weight"], w["dense1.bias"]))
    return exact.dense(y, w["dense2.weight"], w["dense2.bias"])


def test_steps_are_gradient_descent_on_the_mean_loss(context, rng):
    model = small_network(context)
    rate = 0.3
    for n in (5, 2):
        x, target = batch(context, rng, n)
        model.forward(x)
        before = arrays(model)
        model.backward(target)
        model.update(rate)
        after = arrays(model)
        x64 = x.ptr.astype(np.float64)
        for name, array in before.items():

            def loss(value, name=name, x64=x64, before=before, target=target):
                return exact.cross_entropy(logits64(x64, {**before, name: value}), target.ptr)

            wanted = array - rate * exact.finite_differences(loss, array)
            exact.assert_close(after[name], wanted, 1e-4)
        model.forward(x)
        logits = logits64(x64, after)
        assert model.loss(target) == pytest.approx(
            exact.cross_entropy(logits, target.ptr), rel=1e-4
        )
        right = (logits.argmax(axis=1) == target.ptr.argmax(axis=1)).sum()
        assert model.get_accuracy(target) == right


def test_measure_is_of_the_last_forward(context, rng):
    model = small_network(context)
    x, target = batch(context, rng, 9)
    model.forward(x)
    model.measure(target)
    loss, right = model.measured()
    assert loss == model.loss(target)
    assert right == model.get_accuracy(target)


def test_m4_weights_survive_a_changing_batch(context, rng):
    model = small_network(context)
    batches = {n: batch(context, rng, n) for n in (256, 96)}
    step(model, *batches[256], 0.1)
    trained = digest(model)
    for n in (96, 256, 96):
        model.forward(batches[n][0])
        assert digest(model) == trained
    step(model, *batches[96], 0.1)
    assert digest(model) != trained


def test_another_blob_of_the_same_shape_is_computed_on(context, rng):
    """The book keeps the first input's address as long as the batch size is the same."""
    model = small_network(context)
    for _ in range(2):
        x, _ = batch(context, rng, 3)
        output = model.forward(x)
        wanted = exact.softmax(logits64(x.ptr.astype(np.float64), arrays(model)))
        exact.assert_close(output.to("host"), wanted, 1e-4)


def test_height_and_width_may_change(context, rng):
    model = Network()
    model.add_layer(Conv2D("conv", 3, 3, padding=1))
    model.add_layer(Pooling("pool", 2))
    model.cuda(context)
    for h, w in ((6, 6), (4, 9), (6, 6)):
        x = rng.standard_normal((2, 2, h, w))
        output = model.forward(exact.blob_of(x, context))
        parameters = arrays(model)
        wanted = exact.convolution(x, parameters["conv.weight"], parameters["conv.bias"], padding=1)
        exact.assert_close(output.to("host"), exact.pooling(wanted, 2, 0, 2, "max"))


def test_m7_accuracy_with_a_smaller_last_batch(context, rng):
    """10,000 samples in batches of 256, the last of 16, count as in batches of 10."""
    model = Network()
    model.add_layer(Dense("dense", 10))
    model.add_layer(Softmax("softmax"))
    model.cuda(context)
    x = rng.standard_normal((10_000, 6)).astype(np.float32)
    labels = rng.integers(0, 10, len(x))
    right = {}
    for size in (256, 10):
        right[size] = 0
        for first in range(0, len(x), size):
            here = slice(first, first + size)
            model.forward(exact.blob_of(x[here], context))
            right[size] += model.get_accuracy(exact.blob_of(exact.one_hot(labels[here]), context))
    parameters = arrays(model)
    logits = exact.dense(x, parameters["dense.weight"], parameters["dense.bias"])
    assert right[256] == right[10] == (logits[:, :, 0, 0].argmax(axis=1) == labels).sum()


def test_m8_he_range_has_the_filters_fan_in(context):
    conv = Conv2D("conv2", 50, 5)
    dense = Dense("dense1", 500)
    for layer in (conv, dense):
        layer.set_cuda_context(context)
    dense.forward(conv.forward(exact.blob_of(np.zeros((1, 20, 12, 12)), context)))
    conv_weights, dense_weights = conv.arrays()["conv2.weight"], dense.arrays()["dense1.weight"]
    assert conv_weights.shape == (50, 20, 5, 5)
    assert 0.105 < np.abs(conv_weights).max() <= np.sqrt(6 / 500) < 0.1096
    assert dense_weights.shape == (500, 50 * 8 * 8)
    limit = np.sqrt(6 / 3200)
    assert 0.999 * limit < np.abs(dense_weights).max() <= limit
    for weights in (conv_weights, dense_weights):  # uniform, around 0
        assert abs(weights.mean()) < 5 * weights.std() / np.sqrt(weights.size)
        assert weights.std() == pytest.approx(np.abs(weights).max() / np.sqrt(3), rel=0.02)
    assert not conv.arrays()["conv2.bias"].any()
    assert not dense.arrays()["dense1.bias"].any()


def test_m8_a_group_sees_its_own_channels_only(context):
    conv = Conv2D("conv", 64, 3, groups=4)
    conv.set_cuda_context(context)
    conv.forward(exact.blob_of(np.zeros((1, 16, 5, 5)), context))
    limit = np.sqrt(6 / (4 * 9))
    assert 0.99 * limit < np.abs(conv.arrays()["conv.weight"]).max() <= limit


def test_seeds(context, rng):
    x, _ = batch(context, rng, 1)

    def weights(seed):
        model = small_network(context, seed)
        model.forward(x)
        return arrays(model)

    first, again, other = weights(5), weights(5), weights(6)
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
        if name.endswith("weight"):
            assert (array != other[name]).all()
    assert digest_of(weights(None)) != digest_of(weights(None))
    # Two layers of the same shape must not start with the same weights.
    model = Network(seed=5)
    for name in ("a", "b"):
        model.add_layer(Dense(name, 5))
    model.cuda(context)
    model.forward(exact.blob_of(np.zeros((1, 5)), context))
    a, b = (layer.arrays()[f"{layer.name}.weight"] for layer in model.layers)
    assert (a != b).all()


def digest_of(parameters):
    return hashlib.sha256(b"".join(a.tobytes() for a in parameters.values())).hexdigest()


def test_gradient_stop_on_the_first_layer_only(context, rng, monkeypatch):
    model = small_network(context)
    assert [layer.gradient_stop for layer in model.layers] == [True] + 6 * [False]

    def refuse(*arguments, **options):
        pytest.fail("the first layer computed a gradient of its input")

    monkeypatch.setattr(cudnn, "convolution_backward_data", refuse)
    x, target = batch(context, rng, 3)
    step(model, x, target, 0.1)


def test_a_gradient_stop_further_up_trains_what_follows_it(context, rng):
    model = small_network(context)
    x, target = batch(context, rng, 3)
    step(model, x, target, 0.1)
    before = arrays(model)
    model.layers[3].set_gradient_stop()  # dense1
    step(model, x, target, 0.1)
    after = arrays(model)
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed == {f"dense{i}.{kind}" for i in (1, 2) for kind in ("weight", "bias")}


def test_frozen_layers_stay_and_cost_nothing(context, rng, monkeypatch):
    model = small_network(context)
    x, target = batch(context, rng, 3)
    step(model, x, target, 0.1)
    conv = model.layers[0]
    before = arrays(model)
    conv.freeze()
    with monkeypatch.context() as patch:

        def refuse(*arguments, **options):
            pytest.fail("a frozen layer computed its weight gradient")

        patch.setattr(cudnn, "convolution_backward_filter", refuse)
        for _ in range(2):
            step(model, x, target, 0.1)
    frozen = arrays(model)
    changed = {name for name in before if (before[name] != frozen[name]).any()}
    assert changed == {f"dense{i}.{kind}" for i in (1, 2) for kind in ("weight", "bias")}
    conv.unfreeze()
    model.update(0.1)  # no backward since: the old gradient must not count again
    np.testing.assert_array_equal(arrays(model)["conv.weight"], before["conv.weight"])
    step(model, x, target, 0.1)
    assert (arrays(model)["conv.weight"] != before["conv.weight"]).any()


def test_a_frozen_layer_still_passes_the_gradient_on(context, rng):
    x, target = batch(context, rng, 3)
    updates = []
    for freeze in (False, True):
        model = small_network(context, seed=1)
        model.forward(x)
        before = arrays(model)["conv.weight"]
        if freeze:
            model.layers[5].freeze()
        step(model, x, target, 0.1)
        updates.append(arrays(model)["conv.weight"] - before)
    assert updates[0].any()
    np.testing.assert_array_equal(*updates)


@pytest.mark.parametrize("where", ["state.safetensors", "state"])
@pytest.mark.parametrize("when", ["before the first forward", "after it"])
def test_parameters_survive_a_file(where, when, context, rng, tmp_path):
    if where.endswith(".safetensors"):
        pytest.importorskip("safetensors")
    model = small_network(context)
    x, target = batch(context, rng, 4)
    step(model, x, target, 0.5)
    model.write_file(tmp_path / where)
    other = small_network(context)
    if when == "after it":
        step(other, x, target, 0.5)
    other.load_pretrain(tmp_path / where)
    output = other.forward(x)
    assert digest(other) == digest(model)
    np.testing.assert_array_equal(output.to("host"), model.forward(x).to("host"))


def test_the_books_files(context, rng, tmp_path):
    """<name>.bin and <name>.bias.bin: float32, in the order in memory."""
    model = small_network(context)
    model.forward(batch(context, rng, 1)[0])
    model.write_file(tmp_path)
    parameters = arrays(model)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{end}" for name in ("conv", "dense1", "dense2") for end in ("bin", "bias.bin")
    }
    for name in ("conv", "dense1", "dense2"):
        raw = (tmp_path / f"{name}.bin").read_bytes()
        assert raw == parameters[f"{name}.weight"].tobytes()
        assert (tmp_path / f"{name}.bias.bin").read_bytes() == parameters[f"{name}.bias"].tobytes()


def test_the_safetensors_file_has_the_usual_shapes(context, rng, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = small_network(context)
    model.forward(batch(context, rng, 1)[0])
    model.write_file(tmp_path / "x.safetensors")
    stored = safetensors.load_file(tmp_path / "x.safetensors")
    assert {name: array.shape for name, array in stored.items()} == {
        "conv.weight": (3, 2, 3, 3),
        "conv.bias": (3,),
        "dense1.weight": (6, 3 * 3 * 2),
        "dense1.bias": (6,),
        "dense2.weight": (CLASSES, 6),
        "dense2.bias": (CLASSES,),
    }
    for name, array in arrays(model).items():
        np.testing.assert_array_equal(stored[name], array)


def test_files_that_do_not_fit(context, rng, tmp_path):
    x, _ = batch(context, rng, 1)
    with pytest.raises(FileNotFoundError, match="no pretrained parameters at .*nowhere"):
        small_network(context).load_pretrain(tmp_path / "nowhere")
    np.zeros(7, np.float32).tofile(tmp_path / "conv.bin")
    model = small_network(context)
    model.load_pretrain(tmp_path)
    for _ in range(2):  # a failure leaves no half-made weights to compute with
        with pytest.raises(ValueError, match=r"conv\.bin has 28 bytes, .* takes 216"):
            model.forward(x)
    layer = Dense("dense", 2)
    layer.set_cuda_context(context)
    layer.set_load_pretrain({"dense.weight": np.zeros((2, 3))})
    with pytest.raises(ValueError, match=r"'dense.weight' has shape \(2, 3\), expected 4 values"):
        layer.forward(exact.blob_of(np.zeros((1, 2)), context))
    layer.set_load_pretrain({"other.weight": np.zeros((2, 3))})
    with pytest.raises(KeyError, match="no array 'dense.weight'; there are other.weight"):
        layer.forward(exact.blob_of(np.zeros((1, 2)), context))


def test_an_interrupted_write_leaves_the_old_file(context, rng, tmp_path, monkeypatch):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = small_network(context)
    x, target = batch(context, rng, 1)
    model.forward(x)
    path = tmp_path / "x.safetensors"
    model.write_file(path)
    old = path.read_bytes()
    step(model, x, target, 0.5)

    def half(arrays, file):
        file.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors, "save_file", half)
    with pytest.raises(KeyboardInterrupt):
        model.write_file(path)
    assert path.read_bytes() == old


def test_two_layers_of_one_name_are_not_saved(context, tmp_path):
    model = Network()
    model.add_layer(Dense("fc", 2))
    model.add_layer(Dense("fc", 2))
    model.cuda(context)
    model.forward(exact.blob_of(np.zeros((1, 2)), context))
    with pytest.raises(ValueError, match="2 layers with parameters are called 'fc'"):
        model.write_file(tmp_path)


def test_d9_errors_name_the_layer(context, rng):
    """An unsupported combination inside a network: 2 groups on 3 channels."""
    model = Network()
    model.add_layer(Conv2D("first", 3, 1))
    model.add_layer(Conv2D("grouped", 4, 3, groups=2))
    model.cuda(context)
    with pytest.raises((CudnnError, ValueError)) as caught:
        model.forward(exact.blob_of(rng.standard_normal((2, 2, 6, 5)), context))
    text = "".join(traceback.format_exception(caught.value))
    assert "layer 'grouped' (Conv2D)" in text
    assert "Blob(2, 3, 6, 5)" in text  # what the layer was given
    assert "'first'" not in text
    for part in ("shape=(2, 3, 6, 5)", "strides=(90, 30, 5, 1)", "float32", "groups=2"):
        assert part in text


def test_d9_a_failing_call_shows_function_dims_and_last_error(context, rng, monkeypatch):
    """What cuDNN itself refuses, at run time: an algorithm number it does not have."""
    model = small_network(context)
    x, target = batch(context, rng, 2)
    step(model, x, target, 0.1)
    conv = model.layers[0]
    choice = conv._choices["backward_filter"]
    conv._choices["backward_filter"] = choice._replace(algorithm=99)
    model.forward(x)
    with pytest.raises((CudnnError, ValueError)) as caught:
        model.backward(target)
    text = "".join(traceback.format_exception(caught.value))
    assert "in backward of layer 'conv' (Conv2D)" in text
    if isinstance(caught.value, CudnnError):
        # cuDNN refuses it when asked for the workspace size.
        for part in ("cudnnGetConvolutionBackwardFilter", "(2, 2, 8, 7)", "strides=", "float32"):
            assert part in text
        if caught.value.last_error:  # cuDNN 9.19 has none for this failure
            assert f"last error: {caught.value.last_error}" in text
        else:
            assert context.device.backend == "cuda"


@pytest.mark.parametrize("kind", [CudnnBadParam, ValueError])
def test_d9_on_python_3_10_the_message_itself_names_the_layer(kind, context, monkeypatch):
    """There, exceptions have no notes."""

    class WithoutNotes(kind):
        @property
        def add_note(self):
            raise AttributeError

    def fail(*arguments):
        if kind is ValueError:
            raise WithoutNotes("no such thing")
        raise WithoutNotes("cudnnSomething", 2000, "CUDNN_STATUS_BAD_PARAM", "why", ("x: 1",))

    model = small_network(context)
    monkeypatch.setattr(cudnn, "convolution_forward", fail)
    with pytest.raises(WithoutNotes, match="in forward of layer 'conv'") as caught:
        model.forward(Blob(1, 2, 8, 7, context=context))
    for part in ["no such thing"] if kind is ValueError else ["cudnnSomething", "why", "x: 1"]:
        assert part in str(caught.value)


def test_d7_a_window_that_does_not_fit(context, monkeypatch):
    pool = Pooling("pool", 7, mode=PoolingMode.AVERAGE_COUNT_INCLUDE_PADDING)
    conv = Conv2D("conv", 2, 3, padding=1, dilation=3)
    for layer in (pool, conv):
        layer.set_cuda_context(context)
    small = exact.blob_of(np.zeros((1, 1, 2, 2)), context)
    monkeypatch.setattr("pycudnn.memory.empty", lambda *a, **k: pytest.fail("allocated"))
    with pytest.raises(ValueError, match="window 7 > padded input 2"):
        pool.forward(small)
    with pytest.raises(ValueError, match="window 7 > padded input 4"):
        conv.forward(small)
    assert conv.weights is None


def test_inputs_that_do_not_fit_the_weights(context):
    conv, dense = Conv2D("conv", 2, 1), Dense("dense", 2)
    for layer, shape, message in (
        (conv, (1, 3, 4, 4), "has 3 channels, the weights of layer 'conv' take 2"),
        (dense, (1, 3, 1, 1), "has 3 values a sample, the weights of layer 'dense' take 2"),
    ):
        layer.set_cuda_context(context)
        layer.forward(exact.blob_of(np.zeros((1, 2, 1, 1)), context))
        with pytest.raises(ValueError, match=message):
            layer.forward(exact.blob_of(np.zeros(shape), context))


def test_misuse(context, rng):
    x, target = batch(context, rng, 2)
    model = Network()
    model.add_layer(Dense("dense", CLASSES))
    with pytest.raises(RuntimeError, match=r"call cuda\(\) first"):
        model.forward(x)
    with pytest.raises(RuntimeError, match=r"no context: call Network.cuda\(\) first"):
        model.layers[0].forward(x)
    model.cuda(context)
    with pytest.raises(RuntimeError, match="'dense': backward before forward"):
        model.backward(target)
    model.forward(x)
    with pytest.raises(
        RuntimeError, match=r"need a Softmax as the last layer, not Dense\('dense'\)"
    ):
        model.loss(target)
    with pytest.raises(ValueError, match=r"grad_output has shape \(3, 4, 1, 1\), the last output"):
        model.backward(Blob(3, CLASSES, context=context))
    with pytest.raises(NotImplementedError, match="layer 'dense' has no loss"):
        model.layers[0].get_loss(target)
    with CudaContext(context.device.backend) as other:
        with pytest.raises(ValueError, match="input belongs to another context"):
            model.forward(Blob(2, 2, 8, 7, context=other))
        with pytest.raises(ValueError, match="has its weights on another context"):
            model.cuda(other)


def test_phases(context, rng):
    model = small_network(context)
    x, target = batch(context, rng, 2)
    step(model, x, target, 0.1)
    model.test()
    model.forward(x)
    for call in (lambda: model.backward(target), lambda: model.update(0.1)):
        with pytest.raises(RuntimeError, match=r"in the inference phase: call train\(\) first"):
            call()
    model.train()
    step(model, x, target, 0.1)


@pytest.mark.parametrize(
    ("name", "parameters", "activations"),
    [("lenet", 431_080, 3), ("lenet-printed", 431_080, 1), ("ann", 397_510, 1)],
)
def test_the_books_networks(name, parameters, activations, context):
    model = MODELS[name](0)
    model.cuda(context)
    output = model.forward(exact.blob_of(np.zeros((2, 1, 28, 28)), context))
    assert output.shape == (2, 10, 1, 1)
    assert sum(array.size for array in arrays(model).values()) == parameters
    assert sum(isinstance(layer, Activation) for layer in model.layers) == activations


def test_lenet_learns_a_batch(context):
    """The gradients of all layers work together: the loss of one batch all but vanishes."""
    images, labels = read_split(DATASET, "train")
    model = lenet(seed=0)
    model.cuda(context)
    x = exact.blob_of(images[:32, None] / 255, context)
    target = exact.blob_of(exact.one_hot(labels[:32]), context)
    model.forward(x)
    assert model.loss(target) > 2
    for _ in range(60):
        step(model, x, target, 0.05)
    model.forward(x)
    assert model.loss(target) < 0.2
    assert model.get_accuracy(target) == 32
