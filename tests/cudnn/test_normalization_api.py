"""The Normalization functions, which are batch normalization under other names."""

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

MODE, OPS, ALGO = cudnn.NormMode, cudnn.NormOps, cudnn.NormAlgo
CHOICES = {
    "per activation": (MODE.ACTIVATION, ALGO.STANDARD),
    "per channel": (MODE.CHANNEL, ALGO.STANDARD),
    "persistent": (MODE.CHANNEL, ALGO.PERSIST),
}
DTYPES = ["float32", "float64", "float16", "bfloat16"]
EPSILON = 1e-2
SHAPE = (8, 4, 3, 5)


class Problem:
    """One normalization: by default all of it in a layout that cuDNN fuses."""

    def __init__(self, context, rng, choice="persistent", ops=OPS.NORM, dtype="float32",
                 layout="channels last"):  # fmt: skip
        self.side, self.rng = Side(context), rng
        self.handle, self.library = self.side.handle, self.side.library
        self.mode, self.algo = CHOICES[choice]
        self.ops, self.dtype, self.layout = ops, dtype, layout
        self.per_activation = self.mode == MODE.ACTIVATION
        self.x = self.tensor(-2, 3)
        self.descs = cudnn.derive_norm_tensor_descriptor(self.x.desc, self.mode)
        self.scale, self.bias = self.parameters(0.5, 2), self.parameters()
        self.y = self.blank()
        self.z = self.tensor() if ops == OPS.NORM_ADD_ACTIVATION else None
        self.activation = None
        if ops:
            relu = cudnn.ActivationMode.RELU
            self.activation = cudnn.ActivationDescriptor(relu, library=self.library)

    def tensor(self, low=-1.0, high=1.0):
        return self.side.tensor(self.rng.uniform(low, high, SHAPE), self.dtype, self.layout)

    def blank(self):
        return self.side.blank(SHAPE, self.dtype, self.layout)

    def parameters(self, low=-1.0, high=1.0):
        values = self.rng.uniform(low, high, parameter_shape(SHAPE, self.per_activation))
        return self.side.tensor(values, "float64" if self.dtype == "float64" else "float32")

    def blank_parameters(self):
        dtype = "float64" if self.dtype == "float64" else "float32"
        return self.side.blank(parameter_shape(SHAPE, self.per_activation), dtype)

    @property
    def exact(self):
        return batch_normalization(
            self.x.values, self.scale.values, self.bias.values, self.per_activation, EPSILON
        )

    @property
    def start(self):
        return self.handle, self.mode, self.ops, self.algo

    @property
    def z_pair(self):
        return (self.z.desc, self.z.data) if self.z else (None, None)

    def sizes(self):
        """Of forward's and backward's workspace, and of the reserve space."""
        x_desc, z_desc = self.x.desc, self.z_pair[0]
        rest = self.descs[0], self.activation, self.descs[1]
        return (
            cudnn.get_normalization_forward_training_workspace_size(
                *self.start, x_desc, z_desc, self.y.desc, *rest
            ),
            cudnn.get_normalization_backward_workspace_size(
                *self.start, x_desc, self.y.desc, self.y.desc, z_desc, x_desc, *rest
            ),
            cudnn.get_normalization_training_reserve_space_size(
                *self.start, self.activation, x_desc
            ),
        )

    def train(self, workspace, reserve, running=(None, None), saved=(None, None), **options):
        statistics = [s and s.data for s in (*running, *saved)]
        cudnn.normalization_forward_training(
            *self.start, self.x.desc, self.x.data, self.descs[0], self.scale.data,
            self.bias.data, self.descs[1], *statistics, self.activation, *self.z_pair,
            self.y.desc, self.y.data, workspace, reserve, **{"epsilon": EPSILON, **options},
        )  # fmt: skip

    def infer(self, mean, variance, **options):
        cudnn.normalization_forward_inference(
            *self.start, self.x.desc, self.x.data, self.descs[0], self.scale.data,
            self.bias.data, self.descs[1], mean.data, variance.data, *self.z_pair,
            self.activation, self.y.desc, self.y.data, **{"epsilon": EPSILON, **options},
        )  # fmt: skip


@pytest.mark.parametrize("ndim", range(2, 9))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODE)
def test_derived_descriptors(library, mode, dtype, ndim):
    shape = tuple(range(2, 2 + ndim))
    x_desc = cudnn.TensorDescriptor(shape, dtype, library=library)
    first, second = cudnn.derive_norm_tensor_descriptor(x_desc, mode)
    assert first == second
    assert first.shape == ((1, 3, *(1,) * (ndim - 2)) if mode else (1, *shape[1:]))
    assert first.dtype == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize(
    ("mode", "groups", "status"),
    [(0, 1, "SUCCESS"), (1, 1, "SUCCESS"), (2, 1, "BAD_PARAM"), (-1, 1, "BAD_PARAM"),
     (0, 0, "NOT_SUPPORTED"), (1, 2, "NOT_SUPPORTED"), (1, -1, "NOT_SUPPORTED")],
)  # fmt: skip
def test_statuses_of_derive(library, mode, groups, status):
    functions = raw.bind(get_library("cudnn", library))
    descs = [raw.cudnnTensorDescriptor_t() for _ in range(3)]
    for desc in descs:
        assert functions.cudnnCreateTensorDescriptor(ctypes.byref(desc)) == 0
    functions.cudnnSetTensor4dDescriptor(descs[2], 0, 0, 2, 4, 4, 5)
    assert functions.cudnnDeriveNormTensorDescriptor(*descs, mode, groups).name == status
    for desc in descs:
        functions.cudnnDestroyTensorDescriptor(desc)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["packed", "channels last", "gaps"])
@pytest.mark.parametrize("choice", CHOICES)
def test_without_activation(context, rng, choice, layout, dtype):
    p = Problem(context, rng, choice, dtype=dtype, layout=layout)
    forward_size, backward_size, reserve_size = p.sizes()
    reserve = p.side.scratch(reserve_size)
    running = p.parameters(), p.parameters(0.5, 2)
    saved = p.blank_parameters(), p.blank_parameters()
    p.train(p.side.scratch(forward_size), reserve, running, saved, exponential_average_factor=0.5)
    p.y.check(p.exact.y)
    running[0].check(0.5 * running[0].values + 0.5 * p.exact.mean)
    running[1].check(0.5 * running[1].values + 0.5 * p.exact.unbiased)
    saved[0].check(p.exact.mean)
    saved[1].check(p.exact.inverse)

    dy, dx, dscale, dbias = p.tensor(), p.blank(), p.blank_parameters(), p.blank_parameters()
    for statistics in ([s.data for s in saved], [None, None]):
        cudnn.normalization_backward(
            *p.start, p.x.desc, p.x.data, p.y.desc, p.y.data, dy.desc, dy.data, None, None,
            dx.desc, dx.data, p.descs[0], p.scale.data, p.bias.data, dscale.data, dbias.data,
            p.descs[1], *statistics, None, p.side.scratch(backward_size), reserve,
            epsilon=EPSILON,
        )  # fmt: skip
        expected = batch_normalization_gradients(
            p.x.values, dy.values, p.scale.values, p.per_activation, EPSILON
        )
        for out, value in zip((dx, dscale, dbias), expected, strict=True):
            out.check(value, 4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("ops", [OPS.NORM_ACTIVATION, OPS.NORM_ADD_ACTIVATION])
def test_with_activation(context, rng, ops, dtype):
    p = Problem(context, rng, ops=ops, dtype=dtype)
    forward_size, backward_size, reserve_size = p.sizes()
    reserve = p.side.scratch(reserve_size)
    saved = p.blank_parameters(), p.blank_parameters()
    p.train(p.side.scratch(forward_size), reserve, saved=saved)
    p.y.check(np.maximum(p.exact.y + (p.z.values if p.z else 0), 0))

    dy, dx, dscale, dbias = p.tensor(), p.tensor(), p.parameters(), p.parameters()
    dz = p.tensor() if p.z else None
    cudnn.normalization_backward(
        *p.start, p.x.desc, p.x.data, p.y.desc, p.y.data, dy.desc, dy.data,
        dz and dz.desc, dz and dz.data, dx.desc, dx.data, p.descs[0], p.scale.data, p.bias.data,
        dscale.data, dbias.data, p.descs[1], *[s.data for s in saved], p.activation,
        p.side.scratch(backward_size), reserve, epsilon=EPSILON,
        alpha_data_diff=2.0, beta_data_diff=0.5, alpha_param_diff=0.5, beta_param_diff=2.0,
    )  # fmt: skip
    passed = dy.values * (p.y.read() > 0)
    expected = batch_normalization_gradients(
        p.x.values, passed, p.scale.values, p.per_activation, EPSILON
    )
    dx.check(2 * expected[0] + 0.5 * dx.values, 4)
    dscale.check(0.5 * expected[1] + 2 * dscale.values, 4)
    dbias.check(0.5 * expected[2] + 2 * dbias.values, 4)
    if dz:
        dz.check(passed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("choice", CHOICES)
def test_inference(context, rng, choice, dtype):
    p = Problem(context, rng, choice, dtype=dtype)
    p.y = p.tensor()
    mean, variance = p.parameters(), p.parameters(0.5, 2)
    p.infer(mean, variance, alpha=0.5, beta=-1.0)
    normalized = (p.x.values - mean.values) / np.sqrt(variance.values + EPSILON)
    p.y.check(0.5 * (p.scale.values * normalized + p.bias.values) - p.y.values)


@pytest.mark.parametrize("ops", [OPS.NORM_ACTIVATION, OPS.NORM_ADD_ACTIVATION])
def test_inference_has_no_activation(context, rng, ops):
    p = Problem(context, rng, ops=ops)
    with pytest.raises(errors.CudnnNotSupported):
        p.infer(p.parameters(), p.parameters(0.5, 2))


def test_what_is_not_supported(context, rng):
    cases = [
        {"choice": "per channel", "ops": OPS.NORM_ACTIVATION},
        {"choice": "per activation", "ops": OPS.NORM_ACTIVATION},
        {"layout": "packed", "ops": OPS.NORM_ADD_ACTIVATION},
        {"dtype": "float64", "ops": OPS.NORM_ACTIVATION},
    ]
    for case in cases:
        p = Problem(context, rng, **case)
        with pytest.raises(errors.CudnnNotSupported):
            p.train(None, p.side.scratch(1 << 16))
    p = Problem(context, rng, "per activation")
    p.algo = ALGO.PERSIST
    with pytest.raises(errors.CudnnNotSupported):
        p.sizes()


def test_refusals(context, rng):
    p = Problem(context, rng)
    for name, value, text in (
        ("mode", 2, "mode must be a NormMode"),
        ("ops", 3, "ops must be a NormOps"),
        ("algo", -1, "algo must be a NormAlgo"),
    ):
        kept = getattr(p, name)
        setattr(p, name, value)
        with pytest.raises(ValueError, match=text):
            p.train(None, None)
        setattr(p, name, kept)
    for options, text in (
        ({"epsilon": -1.0}, "epsilon must be at least 0"),
        ({"exponential_average_factor": 2}, "factor must be at most 1"),
        ({"saved": (p.parameters(), None)}, "saved_mean and saved_inv_variance must both"),
    ):
        with pytest.raises(ValueError, match=text):
            p.train(p.side.scratch(p.sizes()[0]), None, **options)
    other = cudnn.TensorDescriptor((1, 4, 3, 5), library=p.library)
    p.descs = p.descs[0], other
    with pytest.raises(ValueError, match=r"mean_var_desc must have shape \(1, 4, 1, 1\)"):
        p.train(None, None)
    p.descs = other, p.descs[0]
    with pytest.raises(ValueError, match=r"scale_bias_desc must have shape \(1, 4, 1, 1\)"):
        p.train(None, None)
    p = Problem(context, rng, ops=OPS.NORM_ADD_ACTIVATION)
    p.z = None
    with pytest.raises(TypeError, match="z_desc must be a TensorDescriptor"):
        p.train(None, None)
    p = Problem(context, rng, ops=OPS.NORM_ADD_ACTIVATION)
    size = p.sizes()[2]
    with pytest.raises(ValueError, match=f"reserve_space needs {size} bytes, got {size - 1}"):
        p.train(p.side.scratch(p.sizes()[0]), p.side.scratch(size - 1))
    assert np.isnan(p.y.read()).all()
