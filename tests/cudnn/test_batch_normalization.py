"""Batch normalization on the reference library and on the GPU, against float64."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from norm_oracle import (
    batch_normalization,
    batch_normalization_gradients,
    parameter_shape,
)
from side import Side

from pycudnn import cudnn, errors, raw
from pycudnn.libraries import get_library

DTYPES = ["float32", "float64", "float16", "bfloat16"]
LAYOUTS = ["packed", "channels last", "gaps"]
MODES = list(cudnn.BatchNormMode)
SPATIAL = cudnn.BatchNormMode.SPATIAL
PERSISTENT = cudnn.BatchNormMode.SPATIAL_PERSISTENT
OPS = cudnn.BatchNormOps
EPSILON = 1e-3


class Problem:
    """Operands of a batch normalization of x, on one side."""

    def __init__(self, context, rng, mode=SPATIAL, dtype="float32", layout="packed",
                 shape=(8, 4, 5, 3)):  # fmt: skip
        self.side = Side(context)
        self.handle, self.library = self.side.handle, self.side.library
        self.mode, self.dtype, self.layout, self.shape = mode, dtype, layout, shape
        self.rng = rng
        self.per_activation = mode == cudnn.BatchNormMode.PER_ACTIVATION
        self.x = self.tensor(-2, 3)
        self.desc = cudnn.derive_bn_tensor_descriptor(self.x.desc, mode)
        self.scale, self.bias = self.parameters(0.5, 2), self.parameters(-1, 1)
        self.y = self.blank()

    def tensor(self, low=-1.0, high=1.0, layout=None):
        values = self.rng.uniform(low, high, self.shape)
        return self.side.tensor(values, self.dtype, layout or self.layout)

    def blank(self, layout=None):
        return self.side.blank(self.shape, self.dtype, layout or self.layout)

    @property
    def param_dtype(self):
        return "float64" if self.dtype == "float64" else "float32"

    def parameters(self, low=-1.0, high=1.0):
        shape = parameter_shape(self.shape, self.per_activation)
        return self.side.tensor(self.rng.uniform(low, high, shape), self.param_dtype)

    def blank_parameters(self):
        return self.side.blank(parameter_shape(self.shape, self.per_activation), self.param_dtype)

    @property
    def exact(self):
        return batch_normalization(
            self.x.values, self.scale.values, self.bias.values, self.per_activation, EPSILON
        )

    def gradients(self, dy):
        return batch_normalization_gradients(
            self.x.values, dy, self.scale.values, self.per_activation, EPSILON
        )

    def train(self, *statistics, y=None, **options):
        y = y or self.y
        cudnn.batch_normalization_forward_training(
            self.handle, self.mode, self.x.desc, self.x.data, y.desc, y.data, self.desc,
            self.scale.data, self.bias.data, *[s and s.data for s in statistics],
            **{"epsilon": EPSILON, **options},
        )  # fmt: skip

    def infer(self, mean, variance, y=None, **options):
        y = y or self.y
        cudnn.batch_normalization_forward_inference(
            self.handle, self.mode, self.x.desc, self.x.data, y.desc, y.data, self.desc,
            self.scale.data, self.bias.data, mean.data, variance.data,
            **{"epsilon": EPSILON, **options},
        )  # fmt: skip

    def backward(self, dy, dx, dscale, dbias, *saved, **options):
        cudnn.batch_normalization_backward(
            self.handle, self.mode, self.x.desc, self.x.data, dy.desc, dy.data, dx.desc, dx.data,
            self.desc, self.scale.data, dscale.data, dbias.data, *[s.data for s in saved],
            **{"epsilon": EPSILON, **options},
        )  # fmt: skip


# ---- descriptors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", range(2, 9))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_derived_descriptor(library, mode, dtype, ndim):
    shape = tuple(range(2, 2 + ndim))
    x_desc = cudnn.TensorDescriptor(shape, dtype, library=library)
    derived = cudnn.derive_bn_tensor_descriptor(x_desc, mode)
    per_channel = (1, 3, *(1,) * (ndim - 2))
    assert derived.shape == (per_channel if mode else (1, *shape[1:]))
    packed = [int(np.prod(derived.shape[axis + 1 :])) for axis in range(ndim)]
    assert derived.strides == tuple(packed)
    assert derived.dtype == ("float64" if dtype == "float64" else "float32")
    assert derived == cudnn.TensorDescriptor(derived.shape, derived.dtype, library=library)


def test_derived_descriptor_of_channels_last_is_packed(library):
    x_desc = cudnn.TensorDescriptor((2, 3, 4, 5), format=cudnn.TensorFormat.NHWC, library=library)
    derived = cudnn.derive_bn_tensor_descriptor(x_desc, cudnn.BatchNormMode.PER_ACTIVATION)
    assert derived.strides == (60, 20, 5, 1)


def test_derive_refuses(library):
    x_desc = cudnn.TensorDescriptor((2, 3, 4, 5), library=library)
    with pytest.raises(ValueError, match="mode must be a BatchNormMode: PER_ACTIVATION.*got 3"):
        cudnn.derive_bn_tensor_descriptor(x_desc, 3)
    with pytest.raises(TypeError, match="x_desc must be a TensorDescriptor, got None"):
        cudnn.derive_bn_tensor_descriptor(None, SPATIAL)
    x_desc.close()
    with pytest.raises(ValueError, match="closed"):
        cudnn.derive_bn_tensor_descriptor(x_desc, SPATIAL)


@pytest.mark.parametrize(
    ("is_set", "mode", "status"),
    [(True, 0, "SUCCESS"), (True, 2, "SUCCESS"), (True, 3, "BAD_PARAM"), (True, -1, "BAD_PARAM"),
     (False, 1, "BAD_PARAM")],
)  # fmt: skip
def test_statuses_of_derive(library, is_set, mode, status):
    functions = raw.bind(get_library("cudnn", library))
    x_desc, derived = raw.cudnnTensorDescriptor_t(), raw.cudnnTensorDescriptor_t()
    for desc in (x_desc, derived):
        assert functions.cudnnCreateTensorDescriptor(ctypes.byref(desc)) == 0
    if is_set:
        functions.cudnnSetTensor4dDescriptor(x_desc, 0, 0, 2, 3, 4, 5)
    assert functions.cudnnDeriveBNTensorDescriptor(derived, x_desc, mode).name == status
    for desc in (x_desc, derived):
        functions.cudnnDestroyTensorDescriptor(desc)


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(8, 4, 5, 3), (9, 3, 2, 3, 2)], ids=["4d", "5d"])
@pytest.mark.parametrize("mode", MODES)
def test_forward_training(context, rng, mode, shape, layout, dtype):
    p = Problem(context, rng, mode, dtype, layout, shape)
    running = p.parameters(), p.parameters(0.5, 2)
    saved = p.blank_parameters(), p.blank_parameters()
    p.train(*running, *saved, exponential_average_factor=0.3)
    p.y.check(p.exact.y)
    running[0].check(0.7 * running[0].values + 0.3 * p.exact.mean)
    running[1].check(0.7 * running[1].values + 0.3 * p.exact.unbiased)
    saved[0].check(p.exact.mean)
    saved[1].check(p.exact.inverse)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_forward_inference(context, rng, mode, layout, dtype):
    p = Problem(context, rng, mode, dtype, layout)
    mean, variance = p.parameters(), p.parameters(0.5, 2)
    before = p.tensor()
    p.infer(mean, variance, before, alpha=0.5, beta=2.0)
    y = p.scale.values * (p.x.values - mean.values) / np.sqrt(variance.values + EPSILON)
    before.check(0.5 * (y + p.bias.values) + 2 * before.values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_saved", [True, False])
def test_backward(context, rng, is_saved, mode, layout, dtype):
    p = Problem(context, rng, mode, dtype, layout)
    saved = []
    if is_saved:
        saved = [p.blank_parameters(), p.blank_parameters()]
        p.train(None, None, *saved)
    dy, dx = p.tensor(), p.blank()
    dscale, dbias = p.blank_parameters(), p.blank_parameters()
    p.backward(dy, dx, dscale, dbias, *saved)
    expected = p.gradients(dy.values)
    for out, value in zip((dx, dscale, dbias), expected, strict=True):
        out.check(value, 4)


def test_backward_blends_data_and_parameters_apart(context, rng):
    p = Problem(context, rng)
    dy, dx = p.tensor(), p.tensor()
    dscale, dbias = p.parameters(), p.parameters()
    p.backward(
        dy, dx, dscale, dbias,
        alpha_data_diff=0.5, beta_data_diff=2.0, alpha_param_diff=-1.0, beta_param_diff=3.0,
    )  # fmt: skip
    expected = p.gradients(dy.values)
    dx.check(0.5 * expected[0] + 2 * dx.values, 4)
    dscale.check(-expected[1] + 3 * dscale.values, 4)
    dbias.check(-expected[2] + 3 * dbias.values, 4)


@pytest.mark.parametrize("mode", MODES)
def test_backward_is_the_derivative_of_forward(context, rng, mode):
    """Central differences of the C function itself, along random directions."""
    p = Problem(context, rng, mode, "float64", shape=(5, 3, 2, 2))
    dy, dx, dscale, dbias = p.tensor(), p.blank(), p.blank_parameters(), p.blank_parameters()
    p.backward(dy, dx, dscale, dbias)
    step = 1e-5
    for operand, gradient in ((p.x, dx), (p.scale, dscale), (p.bias, dbias)):
        direction = rng.standard_normal(operand.shape)
        losses = []
        for sign in (1, -1):
            moved = p.side.tensor(operand.values + sign * step * direction, "float64")
            kept, operand.data = operand.data, moved.data
            y = p.blank()
            p.train(y=y)
            operand.data = kept
            losses.append((y.read() * dy.values).sum())
        difference = (losses[0] - losses[1]) / (2 * step)
        assert difference == pytest.approx((gradient.read() * direction).sum(), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("mode", MODES)
def test_x_and_y_of_two_layouts(context, rng, mode):
    for layout, other in (("packed", "channels last"), ("channels last", "gaps")):
        p = Problem(context, rng, mode, layout=layout)
        y = p.blank(other)
        p.train(y=y)
        y.check(p.exact.y)
        dy, dx = p.tensor(layout=other), p.blank("gaps")
        p.backward(dy, dx, p.blank_parameters(), p.blank_parameters())
        dx.check(p.gradients(dy.values)[0], 4)


@pytest.mark.parametrize("mode", MODES)
def test_in_place(context, rng, mode):
    p = Problem(context, rng, mode)
    expected = p.exact.y
    p.train(y=p.x)
    p.x.check(expected)
    p = Problem(context, rng, mode)
    dy = p.tensor()
    expected = p.gradients(dy.values)[0]
    p.backward(dy, dy, p.blank_parameters(), p.blank_parameters())
    dy.check(expected, 4)


def test_beta_blends_with_what_was_there(context, rng):
    p = Problem(context, rng, dtype="float16")
    before = p.tensor()
    p.train(y=before, alpha=0.5, beta=2.0)
    before.check(0.5 * p.exact.y + 2 * before.values)


# ---- cases of users ------------------------------------------------------------------------------


def test_b2_the_factor_is_one_minus_the_momentum(context, rng):
    p = Problem(context, rng)
    p.x = p.side.tensor(10 + p.x.values - p.x.values.mean((0, 2, 3), keepdims=True))
    running = [p.side.tensor(np.zeros((1, 4, 1, 1))), p.side.tensor(np.ones((1, 4, 1, 1)))]
    p.train(*running, exponential_average_factor=1 - 0.9)
    running[0].check(np.full((1, 4, 1, 1), 1.0))


def test_b3_epsilon(context, rng):
    p = Problem(context, rng)
    p.train(epsilon=1e-6)
    deviation = np.sqrt(p.exact.variance + 1e-6)
    p.y.check(p.scale.values * (p.x.values - p.exact.mean) / deviation + p.bias.values)
    for epsilon in (-1, -1e-9, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="epsilon must be"):
            p.train(epsilon=epsilon)


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"exponential_average_factor": 1.5}, ValueError, "exponential_average_factor.*at most 1"),
        ({"exponential_average_factor": -0.1}, ValueError, "factor must be at least 0, got -0.1"),
        ({"exponential_average_factor": float("nan")}, ValueError, "finite number, got nan"),
        ({"epsilon": "much"}, TypeError, "epsilon must be a real number, got 'much'"),
        ({"epsilon": None}, TypeError, "epsilon must be a real number, got None"),
        ({"alpha": "1x"}, TypeError, "alpha must be a real number"),
        ({"beta": 10**400}, ValueError, "beta must fit a double"),
    ],
)
def test_wrong_numbers(context, rng, options, error, text):
    p = Problem(context, rng)
    with pytest.raises(error, match=text):
        p.train(**options)
    assert np.isnan(p.y.read()).all()


def test_wrong_modes_and_descriptors(context, rng):
    p = Problem(context, rng)
    other = Problem(context, rng, shape=(8, 5, 4, 3))
    half = Problem(context, rng, dtype="float16")

    def refuse(text, error=ValueError, **changes):
        arguments = {
            "handle": p.handle, "mode": SPATIAL, "x_desc": p.x.desc, "x": p.x.data,
            "y_desc": p.y.desc, "y": p.y.data, "bn_desc": p.desc, "scale": p.scale.data,
            "bias": p.bias.data, **changes,
        }  # fmt: skip
        with pytest.raises(error, match=text):
            cudnn.batch_normalization_forward_training(**arguments)

    refuse("mode must be a BatchNormMode", mode=3)
    refuse("y_desc must have the shape of x", y_desc=other.y.desc)
    refuse("y_desc must have the data type of x, float32", TypeError, y_desc=half.y.desc)
    refuse(r"bn_desc must have shape \(1, 4, 1, 1\), got \(1, 5, 1, 1\)", bn_desc=other.desc)
    refuse(r"bn_desc must have shape \(1, 4, 5, 3\)", mode=0)
    wide = cudnn.TensorDescriptor((1, 4, 1, 1), "float64", library=p.library)
    refuse("bn_desc must be float32 for x of float32", TypeError, bn_desc=wide)
    loose = cudnn.TensorDescriptor((1, 4, 1, 1), strides=(8, 2, 1, 1), library=p.library)
    refuse("bn_desc must be packed", bn_desc=loose)
    flat = cudnn.TensorDescriptor((8, 4, 15), library=p.library)
    refuse("x must have 4 or 5 dimensions", x_desc=flat, y_desc=flat)
    refuse("scale needs 16 bytes, got 12", scale=p.side.put(np.ones(3, np.float32)))
    refuse("y needs 1920 bytes", y=p.side.put(np.ones(3, np.float32)))
    refuse("x holds float16", TypeError, x=half.x.data)
    refuse("handle must be a Handle", TypeError, handle=None)
    refuse("bn_desc must be a TensorDescriptor", TypeError, bn_desc=None)
    refuse("running_mean and running_variance must both", running_mean=p.bias.data)
    refuse("saved_mean and saved_inv_variance must both", saved_inv_variance=p.bias.data)
    assert np.isnan(p.y.read()).all()


def test_what_is_written_is_no_other_operand(context, rng):
    p = Problem(context, rng)
    one, two = p.parameters(), p.parameters()
    with pytest.raises(ValueError, match="running_variance is written to and .* running_mean"):
        p.train(one, one)
    with pytest.raises(ValueError, match="saved_mean is written to and .* overlap running_mean"):
        p.train(one, two, one, two)
    with pytest.raises(ValueError, match="saved_mean is written to and must not overlap scale"):
        p.train(None, None, p.scale, one)
    with pytest.raises(ValueError, match="dbias is written to and must not overlap dscale"):
        p.backward(p.tensor(), p.blank(), one, one)
    with pytest.raises(ValueError, match="dscale is written to and must not overlap saved_mean"):
        p.backward(p.tensor(), p.blank(), one, two, one, p.bias)
    p.y = p.blank("channels last")
    p.y.data = p.x.data
    with pytest.raises(ValueError, match=r"y in the memory of x needs its strides, \(60, 15, 3, 1"):
        p.train()
    for operand in (one, two, p.x):
        operand.check(operand.values)


def test_one_element_has_no_unbiased_variance(context, rng):
    p = Problem(context, rng, shape=(1, 4, 1, 1))
    p.train()
    p.y.check(p.bias.values)
    with pytest.raises(ValueError, match="1 element for each mean and variance"):
        p.train(p.parameters(), p.parameters())


# ---- with addend and activation ------------------------------------------------------------------


class Fused(Problem):
    """The Ex functions."""

    def __init__(self, context, rng, ops, mode=PERSISTENT, dtype="float16",
                 layout="channels last", shape=(6, 8, 5, 3)):  # fmt: skip
        super().__init__(context, rng, mode, dtype, layout, shape)
        self.ops = ops
        self.z = self.tensor() if ops == OPS.BN_ADD_ACTIVATION else None
        relu = cudnn.ActivationMode.RELU
        self.activation = (
            None if ops == OPS.BN else cudnn.ActivationDescriptor(relu, library=self.library)
        )
        self.saved = self.blank_parameters(), self.blank_parameters()

    def pair(self, tensor):
        return (tensor.desc, tensor.data) if tensor else (None, None)

    def sizes(self):
        """Of the workspaces of forward and backward, and of the reserve space."""
        z_desc, x_desc = self.pair(self.z)[0], self.x.desc
        start = (self.handle, self.mode, self.ops)
        return (
            cudnn.get_batch_normalization_forward_training_ex_workspace_size(
                *start, x_desc, z_desc, self.y.desc, self.desc, self.activation
            ),
            cudnn.get_batch_normalization_backward_ex_workspace_size(
                *start, x_desc, self.y.desc, self.y.desc, z_desc, x_desc, self.desc,
                self.activation,
            ),
            cudnn.get_batch_normalization_training_ex_reserve_space_size(
                *start, self.activation, x_desc
            ),
        )  # fmt: skip

    def train_ex(self, workspace, reserve, *running, y=None, **options):
        y = y or self.y
        running = [r.data for r in running] or [None, None]
        cudnn.batch_normalization_forward_training_ex(
            self.handle, self.mode, self.ops, self.x.desc, self.x.data, *self.pair(self.z),
            y.desc, y.data, self.desc, self.scale.data, self.bias.data, *running,
            *[s.data for s in self.saved], self.activation, workspace, reserve,
            **{"epsilon": EPSILON, **options},
        )  # fmt: skip

    def backward_ex(self, dy, dz, dx, dscale, dbias, workspace, reserve, **options):
        cudnn.batch_normalization_backward_ex(
            self.handle, self.mode, self.ops, self.x.desc, self.x.data, self.y.desc, self.y.data,
            dy.desc, dy.data, *self.pair(dz), dx.desc, dx.data, self.desc, self.scale.data,
            self.bias.data, dscale.data, dbias.data, *[s.data for s in self.saved],
            self.activation, workspace, reserve, **{"epsilon": EPSILON, **options},
        )  # fmt: skip

    @property
    def expected(self):
        y = self.exact.y + (self.z.values if self.z else 0)
        return y if self.ops == OPS.BN else np.maximum(y, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("ops", OPS)
def test_fused(context, rng, ops, dtype):
    p = Fused(context, rng, ops, dtype=dtype)
    forward_size, backward_size, reserve_size = p.sizes()
    reserve = p.side.scratch(reserve_size)
    running = p.parameters(), p.parameters(0.5, 2)
    p.train_ex(p.side.scratch(forward_size), reserve, *running, exponential_average_factor=0.25)
    p.y.check(p.expected)
    running[0].check(0.75 * running[0].values + 0.25 * p.exact.mean)
    running[1].check(0.75 * running[1].values + 0.25 * p.exact.unbiased)
    for saved, value in zip(p.saved, (p.exact.mean, p.exact.inverse), strict=True):
        saved.check(value)

    dy, dx, dz = p.tensor(), p.blank(), p.blank() if p.z else None
    dscale, dbias = p.blank_parameters(), p.blank_parameters()
    p.backward_ex(dy, dz, dx, dscale, dbias, p.side.scratch(backward_size), reserve)
    passed = dy.values if ops == OPS.BN else dy.values * (p.y.read() > 0)
    for out, value in zip((dx, dscale, dbias), p.gradients(passed), strict=True):
        out.check(value, 4)
    if dz:
        dz.check(passed)


@pytest.mark.parametrize("ops", OPS)
def test_fused_blends_all_but_the_gradient_of_z(context, rng, ops):
    p = Fused(context, rng, ops, dtype="float32")
    forward_size, backward_size, reserve_size = p.sizes()
    reserve = p.side.scratch(reserve_size)
    before = p.tensor()
    p.train_ex(p.side.scratch(forward_size), reserve, y=before, alpha=0.5, beta=2.0)
    before.check(0.5 * p.expected + 2 * before.values)
    p.train_ex(p.side.scratch(forward_size), reserve)
    dy, dx, dz = p.tensor(), p.tensor(), p.tensor() if p.z else None
    dscale, dbias = p.parameters(), p.parameters()
    p.backward_ex(
        dy, dz, dx, dscale, dbias, p.side.scratch(backward_size), reserve,
        alpha_data_diff=0.5, beta_data_diff=2.0, alpha_param_diff=3.0, beta_param_diff=-1.0,
    )  # fmt: skip
    passed = dy.values if ops == OPS.BN else dy.values * (p.y.read() > 0)
    expected = p.gradients(passed)
    dx.check(0.5 * expected[0] + 2 * dx.values, 4)
    dscale.check(3 * expected[1] - dscale.values, 4)
    dbias.check(3 * expected[2] - dbias.values, 4)
    if dz:
        dz.check(passed)


@pytest.mark.parametrize("ops", [OPS.BN_ACTIVATION, OPS.BN_ADD_ACTIVATION])
@pytest.mark.parametrize(
    "changes",
    [
        {"mode": SPATIAL},
        {"mode": cudnn.BatchNormMode.PER_ACTIVATION},
        {"layout": "packed"},
        {"layout": "gaps"},
        {"dtype": "float64"},
    ],
    ids=str,
)
def test_what_is_not_fused_is_not_supported(context, rng, ops, changes):
    p = Fused(context, rng, ops, **changes)
    with pytest.raises(errors.CudnnNotSupported):
        p.train_ex(None, p.side.scratch(1 << 16))
    assert np.isnan(p.y.read()).all()


def test_addends_need_a_multiple_of_four_channels(context, rng):
    p = Fused(context, rng, OPS.BN_ADD_ACTIVATION, shape=(6, 6, 5, 3))
    with pytest.raises(errors.CudnnNotSupported):
        p.train_ex(None, None)


def test_other_activations_are_not_supported(context, rng):
    p = Fused(context, rng, OPS.BN_ACTIVATION)
    tanh = cudnn.ActivationMode.TANH
    p.activation = cudnn.ActivationDescriptor(tanh, library=p.library)
    with pytest.raises(errors.CudnnNotSupported):
        p.train_ex(None, None)


def test_fused_backward_needs_the_saved_statistics(context, rng):
    p = Fused(context, rng, OPS.BN_ACTIVATION)
    forward_size, backward_size, reserve_size = p.sizes()
    reserve = p.side.scratch(reserve_size)
    p.train_ex(p.side.scratch(forward_size), reserve)
    dx, dscale, dbias = p.blank(), p.blank_parameters(), p.blank_parameters()
    with pytest.raises(errors.CudnnNotSupported):
        cudnn.batch_normalization_backward_ex(
            p.handle, p.mode, p.ops, p.x.desc, p.x.data, p.y.desc, p.y.data, p.x.desc, p.x.data,
            None, None, dx.desc, dx.data, p.desc, p.scale.data, p.bias.data, dscale.data,
            dbias.data, None, None, p.activation, p.side.scratch(backward_size), reserve,
        )  # fmt: skip


def test_fused_without_activation_runs_everywhere(context, rng):
    for mode in MODES:
        for layout in LAYOUTS:
            p = Fused(context, rng, OPS.BN, mode, "float64", layout)
            forward_size, _, reserve_size = p.sizes()
            p.train_ex(p.side.scratch(forward_size), p.side.scratch(reserve_size))
            p.y.check(p.exact.y)


def test_spaces_one_byte_short(context, rng):
    p = Fused(context, rng, OPS.BN_ADD_ACTIVATION)
    forward_size, backward_size, reserve_size = p.sizes()
    assert reserve_size
    workspace = p.side.scratch(forward_size)
    text = f"reserve_space needs {reserve_size} bytes, got {reserve_size - 1}"
    with pytest.raises(ValueError, match=text):
        p.train_ex(workspace, p.side.scratch(reserve_size - 1))
    with pytest.raises(ValueError, match=f"reserve_space needs {reserve_size} bytes, got None"):
        p.train_ex(workspace, None)
    dy, dz, dx = p.tensor(), p.blank(), p.blank()
    dscale, dbias = p.blank_parameters(), p.blank_parameters()
    with pytest.raises(ValueError, match=text):
        p.backward_ex(dy, dz, dx, dscale, dbias, p.side.scratch(backward_size),
                      p.side.scratch(reserve_size - 1))  # fmt: skip
    if forward_size:
        with pytest.raises(ValueError, match=f"workspace needs {forward_size} bytes"):
            p.train_ex(p.side.scratch(forward_size - 1), p.side.scratch(reserve_size))
    assert np.isnan(p.y.read()).all()


def test_what_an_operation_does_not_have_must_be_none(context, rng):
    p = Fused(context, rng, OPS.BN)
    relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=p.library)
    p.activation = relu
    with pytest.raises(ValueError, match="activation must be None for BN, got Act"):
        p.train_ex(None, None)
    p.activation, p.z = None, p.tensor()
    with pytest.raises(ValueError, match="z_desc must be None for BN"):
        p.train_ex(None, None)
    p = Fused(context, rng, OPS.BN_ADD_ACTIVATION)
    p.activation = None
    with pytest.raises(TypeError, match="activation must be a ActivationDescriptor, got None"):
        p.train_ex(None, None)
    p = Fused(context, rng, OPS.BN_ADD_ACTIVATION)
    p.z = None
    with pytest.raises(TypeError, match="z_desc must be a TensorDescriptor, got None"):
        p.train_ex(None, None)
    p.ops = 3
    with pytest.raises(ValueError, match="ops must be a BatchNormOps"):
        p.train_ex(None, None)


def test_a_fused_backward_without_bias_is_refused(context, rng):
    """cuDNN 9.19 would read through the null pointer, an error that no later call survives."""
    p = Fused(context, rng, OPS.BN_ACTIVATION)
    p.bias.data = None
    dx, dscale, dbias = p.blank(), p.blank_parameters(), p.blank_parameters()
    with pytest.raises(TypeError, match="bias"):
        p.backward_ex(p.tensor(), None, dx, dscale, dbias, p.side.scratch(p.sizes()[1]), None)


def test_null_descriptors_in_c(context, rng):
    """C callers give NULL for what an operation does not have; the object face has a stand-in."""
    p = Fused(context, rng, OPS.BN, SPATIAL, "float32", "packed")
    functions = raw.bind(p.library)
    handle = ctypes.cast(p.handle.address, raw.cudnnHandle_t)
    x_desc, desc = (ctypes.cast(d.address, raw.cudnnTensorDescriptor_t) for d in (p.x.desc, p.desc))
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    no_tensor, no_activation = raw.cudnnTensorDescriptor_t(), raw.cudnnActivationDescriptor_t()
    data = [operand.data.address for operand in (p.x, p.y, p.scale, p.bias)]
    size = ctypes.c_size_t()
    assert 0 == functions.cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
        handle, SPATIAL, OPS.BN, x_desc, no_tensor, x_desc, desc, no_activation,
        ctypes.byref(size),
    )  # fmt: skip
    assert size.value == 0
    assert 0 == functions.cudnnBatchNormalizationForwardTrainingEx(
        handle, SPATIAL, OPS.BN, one, zero, x_desc, data[0], no_tensor, None, x_desc, data[1],
        desc, data[2], data[3], 0.5, None, None, EPSILON, None, None, no_activation,
        None, 0, None, 0,
    )  # fmt: skip
    p.y.check(p.exact.y)
    status = functions.cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
        handle, PERSISTENT, OPS.BN_ACTIVATION, x_desc, no_tensor, x_desc, desc, no_activation,
        ctypes.byref(size),
    )  # fmt: skip
    assert status.name == "BAD_PARAM"
