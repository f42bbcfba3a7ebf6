"""Results that lie on each other or on what they are made of: refused, unless it is in place."""

from __future__ import annotations

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn

SHAPE = (2, 4, 4, 4)
COUNT = 128
SPACE = 2**20  # bytes of workspace, more than any algorithm needs here
# By call: its operands, those with one number a channel in brackets; the result is the last. Then
# the operand whose memory the result may have.
CALLS = {
    "activation_forward": ("x y", "x"),
    "activation_backward": ("y dy x dx", "dy"),
    "pooling_forward": ("x y", None),
    "pooling_backward": ("y dy x dx", None),
    "softmax_forward": ("x y", "x"),
    "softmax_backward": ("y dy dx", "dy"),
    "dropout_forward": ("x y", "x"),
    "dropout_backward": ("dy dx", "dy"),
    "add_tensor": ("a c", "a"),
    "transform_tensor": ("x y", None),
    "convolution_backward_bias": ("dy [db]", None),
    "convolution_forward": ("x {w} y", None),
    "convolution_backward_data": ("{w} dy dx", None),
    "convolution_backward_filter": ("x dy {dw}", None),
    "convolution_bias_activation_forward": ("x {w} z [bias] y", "z"),
}
calls = pytest.mark.parametrize("name", CALLS)


class Hot:
    """One of the calls on 4 x 4 images of 4 channels; convolutions are 1 x 1, poolings 3 x 3."""

    def __init__(self, context, name):
        self.side, self.name = Side(context), name
        library = context.cudnn.library
        spelled, self.over = CALLS[name]
        self.descs = {}
        for operand in spelled.split():
            kind, bare = operand[0], operand.strip("{}[]")
            if kind == "{":
                self.descs[bare] = cudnn.FilterDescriptor((4, 4, 1, 1), library=library)
            else:
                shape = (1, 4, 1, 1) if kind == "[" else SHAPE
                self.descs[bare] = cudnn.TensorDescriptor(shape, library=library)
        self.result = list(self.descs)[-1]
        self.activation = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=library)
        self.pooling = cudnn.PoolingDescriptor(3, padding=1, stride=1, library=library)
        self.conv = cudnn.ConvolutionDescriptor(library=library)
        self.workspace = self.side.scratch(SPACE)
        if "dropout" in name:
            self.dropout = cudnn.DropoutDescriptor(context.cudnn, 0.5, seed=1)
            nbytes = cudnn.dropout_get_reserve_space_size(next(iter(self.descs.values())))
            self.reserve = self.side.put(np.full(nbytes, 255, np.uint8))

    def memory(self):
        """An array for each operand, and for the result NaN."""
        sizes = {name: int(np.prod(desc.shape)) for name, desc in self.descs.items()}
        return {
            name: self.side.put(np.full(size, np.nan if name == self.result else 0.5, np.float32))
            for name, size in sizes.items()
        }

    def call(self, memory, descs=None):
        descs = self.descs | (descs or {})
        pairs = {name: (descs[name], memory[name]) for name in descs}
        flat = [item for pair in pairs.values() for item in pair]
        function = getattr(cudnn, self.name)
        if "activation_" in self.name and "bias" not in self.name:
            flat = [self.activation, *flat]
        elif "pooling" in self.name:
            flat = [self.pooling, *flat]
        elif "softmax" in self.name:
            flat = [cudnn.SoftmaxAlgorithm.ACCURATE, cudnn.SoftmaxMode.CHANNEL, *flat]
        elif "dropout" in self.name:
            flat = [self.dropout, *flat, self.reserve]
        elif "bias_activation" in self.name:
            flat = [*flat[:4], self.conv, 1, self.workspace, *flat[4:8], self.activation, *flat[8:]]
        elif "convolution" in self.name and "backward_bias" not in self.name:
            algorithm = 0 if "filter" in self.name else 1
            flat = [*flat[:4], self.conv, algorithm, self.workspace, *flat[4:]]
        function(self.side.handle, *flat)


@pytest.fixture
def hot(context, name):
    return Hot(context, name)


@calls
def test_results_on_each_other(hot, name):
    desc, memory = hot.descs[hot.result], hot.memory()
    if isinstance(desc, cudnn.FilterDescriptor):
        return  # always packed
    if name.startswith("softmax"):
        return  # packed tensors alone
    folded = cudnn.TensorDescriptor(desc.shape, strides=(1, 1, 1, 1), library=hot.side.library)
    if desc.shape == (1, 4, 1, 1):
        assert not folded.overlaps_itself
        folded = cudnn.TensorDescriptor((2, 4, 1, 1), strides=(1, 1, 1, 1),
                                        library=hot.side.library)  # fmt: skip
    with pytest.raises(ValueError, match=f"^{hot.result} is written to, .* share memory: give"):
        hot.call(memory, {hot.result: folded})
    assert np.isnan(hot.side.get(memory[hot.result])).all()


@calls
def test_results_that_reach_into_an_operand(hot, name):
    """16 bytes behind its start, in memory that is long enough for both."""
    for other in list(hot.descs)[:-1]:
        memory = hot.memory()
        both = hot.side.put(np.full(COUNT + 4, 0.25, np.float32))
        start = 32 if other == "bias" else 0  # it is 16 bytes long
        memory[other] = both.view((COUNT - start // 4,), offset=start)
        memory[hot.result] = both.view((COUNT,), offset=16)
        text = f"^{hot.result} is written to and must not overlap {other}"
        with pytest.raises(ValueError, match=text + (", unless" if other == hot.over else "$")):
            hot.call(memory)
        if {other, hot.result}.isdisjoint({"bias", "db"}):
            memory[other], memory[hot.result] = memory[hot.result], memory[other]
            with pytest.raises(ValueError, match=text):
                hot.call(memory)
        np.testing.assert_array_equal(hot.side.get(both), np.full(COUNT + 4, np.float32(0.25)))


@calls
def test_in_place(hot, name):
    """As the call allows it: the numbers are those of a result of its own. Else it is refused."""
    memory = hot.memory()
    values = np.linspace(-1, 1, COUNT).astype(np.float32)
    for other in list(hot.descs)[:-1]:
        if hot.descs[other].shape != SHAPE or hot.descs[hot.result].shape != SHAPE:
            continue
        in_place = hot.side.put(values)
        shared = memory | {other: in_place, hot.result: in_place}
        if other != hot.over:
            with pytest.raises(ValueError, match=f"^{hot.result} is written to and .* {other}$"):
                hot.call(shared)
            np.testing.assert_array_equal(hot.side.get(in_place), values)
            continue
        if name == "add_tensor":
            memory[hot.result] = hot.side.put(values)  # beta is 1
        own = memory | {other: hot.side.put(values)}
        hot.call(own)
        expected = hot.side.get(own[hot.result])
        assert np.isfinite(expected).all()
        if name == "dropout_forward":  # its random numbers go on
            hot.call(shared)
            got = hot.side.get(in_place)
            assert 0 < (got != 0).sum() < COUNT
            np.testing.assert_array_equal(got, np.where(got != 0, 2 * values, 0))
            continue
        hot.call(shared)
        np.testing.assert_allclose(hot.side.get(in_place), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["activation_forward", "add_tensor"])
def test_in_place_in_another_layout(hot, name):
    memory, other = hot.memory(), hot.over
    memory[other] = memory[hot.result]
    turned = cudnn.TensorDescriptor(SHAPE, format=cudnn.TensorFormat.NHWC, library=hot.side.library)
    with pytest.raises(ValueError, match=f"overlap {other}, unless .* in the same layout and type"):
        hot.call(memory, {hot.result: turned})


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["activation_forward", "convolution_forward", "add_tensor"])
def test_channels_of_one_tensor(hot, name, last):
    """Results go to some channels of the tensor whose others they are made of."""
    values = np.linspace(-1, 1, 2 * COUNT + 8).astype(np.float32)
    whole = hot.side.put(values)
    strides = (128, 1, 32, 8) if last else (128, 16, 4, 1)
    shift = 4 if last else 64  # the last four of eight channels
    half = cudnn.TensorDescriptor(SHAPE, strides=strides, library=hot.side.library)
    source = next(iter(hot.descs))
    memory = hot.memory() | {source: whole, hot.result: whole.view(offset=4 * shift)}

    def channels(flat):
        steps = [4 * step for step in strides]
        return np.lib.stride_tricks.as_strided(flat, SHAPE, steps)

    before, weights = channels(values).copy(), np.full((4, 4), 0.5)
    old = channels(values[shift:]).copy()
    expected = {
        "activation_forward": np.maximum(before, 0),
        "convolution_forward": np.einsum("kc,nchw->nkhw", weights, before),
        "add_tensor": before + old,
    }[name]
    for repeat in range(2):  # the second time it is known that they are apart
        if repeat and name == "add_tensor":
            expected = expected + before
        hot.call(memory, {source: half, hot.result: half})
        got = hot.side.get(whole)
        np.testing.assert_array_equal(channels(got), before)
        np.testing.assert_allclose(channels(got[shift:]), expected, rtol=1e-5, atol=1e-6)
    memory[hot.result] = whole.view(offset=32 if last else 192)  # channels 0 on, and 3 on
    with pytest.raises(ValueError, match=f"^{hot.result} is written to and must not overlap"):
        hot.call(memory, {source: half, hot.result: half})


@pytest.mark.parametrize("name", ["convolution_forward", "convolution_bias_activation_forward"])
def test_a_workspace_on_an_operand(hot, name):
    for other in hot.descs:
        memory = hot.memory()
        memory[other] = hot.workspace.view((COUNT,), np.float32, offset=SPACE // 2)
        names = ("y", "workspace") if other == "y" else ("workspace", other)
        text = "^{} is written to and must not overlap {}$".format(*names)
        with pytest.raises(ValueError, match=text):
            hot.call(memory)


@pytest.mark.parametrize("name", ["dropout_forward", "dropout_backward"])
def test_a_reserve_space_on_an_operand(hot, name):
    memory = hot.memory()
    for other in hot.descs:
        hot.reserve = hot.side.put(np.zeros(2**12, np.uint8))
        lying = memory | {other: hot.reserve.view((COUNT,), np.float32)}
        with pytest.raises(ValueError, match=f"(reserve_space|{other}) is written to and must not"):
            hot.call(lying)


# ---- calls that check it in Python ---------------------------------------------------------------


@pytest.fixture
def side(context):
    return Side(context)


def test_reductions(side):
    """16 bytes in, and indices or a workspace on the numbers."""
    x = side.tensor(np.arange(128.0).reshape(SHAPE))
    c_desc = cudnn.TensorDescriptor((1, 4, 1, 1), library=side.library)
    reduce = cudnn.ReduceTensorDescriptor(cudnn.ReduceTensorOp.ADD, library=side.library)
    space, own = side.scratch(2**16), side.put(np.full(4, np.nan, np.float32))
    with pytest.raises(ValueError, match="^c is written to and must not overlap a$"):
        cudnn.reduce_tensor(side.handle, reduce, None, space, x.desc, x.data, c_desc,
                            x.data.view((4,), offset=16))  # fmt: skip
    with pytest.raises(ValueError, match="^workspace is written to and must not overlap a$"):
        cudnn.reduce_tensor(side.handle, reduce, None, space, x.desc,
                            space.view((128,), np.float32), c_desc, own)  # fmt: skip
    assert np.isnan(side.get(own)).all()
    cudnn.reduce_tensor(side.handle, reduce, None, space, x.desc, x.data, c_desc, own)
    np.testing.assert_allclose(side.get(own), x.values.sum((0, 2, 3)))


def test_batch_normalization_beside_its_input(side):
    memory = side.put(np.zeros(COUNT + 4, np.float32))
    desc = cudnn.TensorDescriptor(SHAPE, library=side.library)
    mode = cudnn.BatchNormMode.SPATIAL
    bn_desc = cudnn.derive_bn_tensor_descriptor(desc, mode)
    one = side.put(np.ones(4, np.float32))
    x, y = memory.view((COUNT,)), memory.view((COUNT,), offset=16)
    for first, second in ((x, y), (y, x)):
        with pytest.raises(ValueError, match="^y is written to and must not overlap x$"):
            cudnn.batch_normalization_forward_inference(
                side.handle, mode, desc, first, desc, second, bn_desc, one, one, one, one
            )
    with pytest.raises(ValueError, match="^y is written to and must not overlap bias$"):
        cudnn.batch_normalization_forward_inference(
            side.handle, mode, desc, side.put(np.ones(COUNT, np.float32)), desc, y, bn_desc, one,
            y.view((4,), offset=16), one, one,
        )  # fmt: skip
    assert not side.get(memory).any()


def test_op_tensor_beside_its_operands(side):
    memory = side.put(np.zeros(COUNT + 4, np.float32))
    desc = cudnn.TensorDescriptor(SHAPE, library=side.library)
    op = cudnn.OpTensorDescriptor(cudnn.OpTensorOp.ADD, library=side.library)
    low, high = memory.view((COUNT,)), memory.view((COUNT,), offset=16)
    other = side.put(np.ones(COUNT, np.float32))
    for name, a, b in (("a", low, other), ("b", other, low), ("b", high, low)):
        with pytest.raises(ValueError, match=f"^c is written to and must not overlap {name}$"):
            cudnn.op_tensor(side.handle, op, desc, a, desc, b, desc, high)
    assert not side.get(memory).any()
