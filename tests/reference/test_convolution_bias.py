"""The gradient of the bias, and convolution, bias and activation at once, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from c_library import (
    FLOATING,
    LAYOUTS,
    SCALES,
    CLibrary,
    Memory,
    Operand,
    assert_close,
    before,
    blended,
    layouts,
    packed,
    rounded,
)
from convolution_problem import CASES, Problem

from pycudnn.abi.cudnn_enums import (
    ActivationMode,
    ConvolutionFwdAlgo,
    DataType,
    NanPropagation,
    Status,
)

RELU, IDENTITY = ActivationMode.RELU, ActivationMode.IDENTITY
PRECOMPUTED = ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM

# --- the gradient of the bias --------------------------------------------------------------------


def backward_bias(lib: CLibrary, handle, dy: Operand, db: Operand, alpha=1.0, beta=0.0) -> bool:
    factors = lib.scalar(alpha, db.data_type), lib.scalar(beta, db.data_type)
    return lib.supports(
        "cudnnConvolutionBackwardBias",
        *(handle, factors[0], *dy.arguments, factors[1], *db.arguments),
    )


@pytest.mark.parametrize("shape", [(3, 5, 4, 6), (2, 3, 4, 5, 3), (1, 4, 1, 1)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data_type", FLOATING)
def test_backward_bias(lib: CLibrary, handle, rng, data_type, layout, shape) -> None:
    gradient = rounded(rng.standard_normal(shape), data_type)
    want = np.array([sum(gradient[:, c].flat) for c in range(shape[1])])
    for alpha, beta in SCALES:
        old = rounded(before(rng, (1, shape[1], *[1] * (len(shape) - 2)), beta), data_type)
        dy = Operand(lib, gradient, layouts(shape)[layout], data_type)
        db = Operand(lib, old, data_type=data_type)
        if backward_bias(lib, handle, dy, db, alpha, beta):
            expected = blended(want.reshape(old.shape), alpha, beta, old)
            assert_close(db.read(), expected, data_type, 2 if data_type > 1 else 64)


def test_backward_bias_of_many_elements(rng) -> None:
    """The first convolution of LeNet at batch 256: 147,456 terms, summed without drift."""
    lib = CLibrary("reference")
    gradient = rng.random((256, 20, 24, 24), np.float32)
    for strides in (packed(gradient.shape), packed(gradient.shape, (0, 2, 3, 1))):
        db = Operand(lib, np.zeros((1, 20, 1, 1)))
        assert backward_bias(lib, lib.create(""), Operand(lib, gradient, strides), db)
        want = gradient.astype(np.float64).sum(axis=(0, 2, 3))
        np.testing.assert_allclose(db.read().ravel(), want, rtol=1e-6)  # 1e-7 seen


@pytest.mark.parametrize(
    ("shape", "data_type", "status"),
    [
        ((1, 5, 1, 1), DataType.FLOAT, Status.BAD_PARAM),
        ((2, 6, 1, 1), DataType.FLOAT, Status.BAD_PARAM),
        ((1, 6, 6, 8), DataType.FLOAT, Status.BAD_PARAM),
        ((6, 1, 1, 1), DataType.FLOAT, Status.BAD_PARAM),
        ((1, 6, 1), DataType.FLOAT, Status.BAD_PARAM),
        ((1, 6, 1, 1, 1), DataType.FLOAT, Status.BAD_PARAM),
        ((1, 6, 1, 1), DataType.HALF, Status.BAD_PARAM),
    ],
)
def test_backward_bias_refusals(lib: CLibrary, handle, rng, shape, data_type, status) -> None:
    dy = Operand(lib, rng.standard_normal((2, 6, 6, 8)))
    db = Operand(lib, np.zeros(shape), data_type=data_type)
    arguments = handle, lib.scalar(1), *dy.arguments, lib.scalar(0), *db.arguments
    assert lib.cudnnConvolutionBackwardBias(*arguments) == status
    assert lib.backend == "cuda" or lib.last_error()


def test_backward_bias_needs_images(lib: CLibrary, handle) -> None:
    dy, db = Operand(lib, np.zeros((2, 6, 7))), Operand(lib, np.zeros((1, 6, 1)))
    arguments = handle, lib.scalar(1), *dy.arguments, lib.scalar(0), *db.arguments
    assert lib.cudnnConvolutionBackwardBias(*arguments) == Status.NOT_SUPPORTED


# --- convolution, bias and activation at once ----------------------------------------------------


class Fused:
    """One fused call; every operand can be replaced before it is made."""

    def __init__(
        self,
        lib: CLibrary,
        handle: Any,
        rng: np.random.Generator,
        mode: int = RELU,
        nan: int = NanPropagation.NOT_PROPAGATE_NAN,
        case: str = "padded",
        data_type: DataType = DataType.FLOAT,
        layout: str = "NCHW",
        algo: int = PRECOMPUTED,
    ) -> None:
        self.lib, self.handle, self.algo, self.mode = lib, handle, algo, mode
        self.problem = Problem(lib, CASES[case], rng, data_type, layout)
        self.x, self.w = self.problem.operands("Forward")
        shape = self.problem.sizes.y
        self.addend = rounded(rng.standard_normal(shape), data_type)
        self.biases = rounded(
            rng.standard_normal((1, shape[1], *[1] * (len(shape) - 2))), data_type
        )
        self.z, self.bias = self.problem.put("y", self.addend), self.bias_of(self.biases)
        self.y = self.problem.put("y", np.full(shape, np.nan))
        self.activation = lib.create("Activation")
        lib.check("cudnnSetActivationDescriptor", self.activation, mode, nan, 0.0)

    def bias_of(self, values: np.ndarray, data_type: DataType | None = None) -> Operand:
        return Operand(self.lib, values, data_type=data_type or self.problem.data_type)

    def status(self, alpha1: float = 1.0, alpha2: float = 1.0) -> int:
        size = self.problem.workspace_size(self.handle, "Forward", self.algo)
        if size < 0:
            return Status.NOT_SUPPORTED
        space = Memory(self.lib, np.zeros(size + 1, np.uint8))
        factors = [self.lib.scalar(factor, self.problem.data_type) for factor in (alpha1, alpha2)]
        return self.lib.cudnnConvolutionBiasActivationForward(
            *(self.handle, factors[0], *self.x.arguments, *self.w.arguments, self.problem.conv),
            *(self.algo, space.address, size, factors[1], *self.z.arguments),
            *(*self.bias.arguments, self.activation, *self.y.arguments),
        )

    def want(self, alpha1: float = 1.0, alpha2: float = 1.0) -> np.ndarray:
        total = alpha1 * self.problem.exact("Forward") + alpha2 * self.addend + self.biases
        return np.maximum(total, 0) if self.mode == RELU else total


@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", ["padded", "grouped", "turned", "volume"])
@pytest.mark.parametrize("mode", [RELU, IDENTITY])
def test_c13_fused(lib: CLibrary, handle, rng, mode, case, layout, data_type) -> None:
    for alpha1, alpha2 in ((1.0, 1.0), (-0.5, 2.0), (2.0, 0.0)):
        fused = Fused(lib, handle, rng, mode, case=case, data_type=data_type, layout=layout)
        status = fused.status(alpha1, alpha2)
        if status == Status.NOT_SUPPORTED and lib.backend == "cuda":
            continue
        assert status == Status.SUCCESS, lib.last_error()
        ulps = {DataType.FLOAT: 32, DataType.DOUBLE: 32}.get(data_type, 1)
        if lib.backend == "cuda":
            ulps *= 8
        assert_close(fused.y.read(), fused.want(alpha1, alpha2), data_type, ulps)


def test_c13_identity_needs_the_precomputed_algorithm(rng) -> None:
    lib = CLibrary("reference")
    for algo in (ConvolutionFwdAlgo.IMPLICIT_GEMM, ConvolutionFwdAlgo.GEMM):
        handle = lib.create("")
        assert Fused(lib, handle, rng, RELU, algo=algo).status() == Status.SUCCESS
        fused = Fused(lib, handle, rng, IDENTITY, algo=algo)
        assert fused.status() == Status.NOT_SUPPORTED
        assert lib.last_error() == (
            f"IDENTITY needs the algorithm IMPLICIT_PRECOMP_GEMM, got {algo.name}"
        )
        assert np.isnan(fused.y.read()).all()


def test_z_may_be_y(lib: CLibrary, handle, rng) -> None:
    fused = Fused(lib, handle, rng)
    fused.y = fused.z
    assert fused.status() == Status.SUCCESS
    assert_close(fused.y.read(), fused.want(), DataType.FLOAT, 256)


def test_z_is_not_read_where_alpha2_is_0(lib: CLibrary, handle, rng) -> None:
    fused = Fused(lib, handle, rng)
    fused.z = fused.problem.put("y", np.full(fused.problem.sizes.y, np.nan))
    assert fused.status(alpha2=0.0) == Status.SUCCESS
    assert_close(fused.y.read(), fused.want(alpha2=0.0), DataType.FLOAT, 256)


def test_nan_through_relu(rng) -> None:
    lib = CLibrary("reference")
    for nan, kept in (
        (NanPropagation.PROPAGATE_NAN, True),
        (NanPropagation.NOT_PROPAGATE_NAN, False),
    ):
        fused = Fused(lib, lib.create(""), rng, nan=nan)
        fused.addend[0, 0, 0, 0] = np.nan
        fused.z = fused.problem.put("y", fused.addend)
        assert fused.status() == Status.SUCCESS
        got = fused.y.read()
        assert np.isnan(got).sum() == kept
        assert kept or got[0, 0, 0, 0] == 0


def replaced_bias(shape: tuple[int, ...], data_type: DataType = DataType.FLOAT):
    def change(fused: Fused) -> None:
        fused.bias = fused.bias_of(np.zeros(shape), data_type)

    return change


def replaced_z(shape: tuple[int, ...], layout: str = "NCHW", data_type=DataType.FLOAT):
    def change(fused: Fused) -> None:
        fused.z = Operand(fused.lib, np.zeros(shape), layouts(shape)[layout], data_type)

    return change


def set_activation(mode: int):
    def change(fused: Fused) -> None:
        fused.lib.check("cudnnSetActivationDescriptor", fused.activation, mode, 0, 1.0)

    return change


Y = CASES["padded"].y
REFUSALS = {
    "too few biases": (replaced_bias((1, 5, 1, 1)), Status.NOT_SUPPORTED_SHAPE),
    "a bias for each image": (replaced_bias((3, 6, 1, 1)), Status.NOT_SUPPORTED_SHAPE),
    "a bias for each element": (replaced_bias((1, *Y[1:])), Status.NOT_SUPPORTED_SHAPE),
    "a bias in half": (
        replaced_bias((1, 6, 1, 1), DataType.HALF),
        Status.NOT_SUPPORTED_DATA_TYPE,
    ),
    "another shape of z": (replaced_z((1, 6, 1, 1)), Status.NOT_SUPPORTED_SHAPE),
    "other strides of z": (replaced_z(Y, "NHWC"), Status.NOT_SUPPORTED_SHAPE),
    "z in half": (replaced_z(Y, data_type=DataType.HALF), Status.NOT_SUPPORTED_SHAPE),
    **{
        f"activation {mode.name}": (set_activation(mode), Status.NOT_SUPPORTED)
        for mode in ActivationMode
        if mode not in (RELU, IDENTITY)
    },
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(lib: CLibrary, handle, rng, name) -> None:
    """Statuses as measured on cuDNN 9.19."""
    change, status = REFUSALS[name]
    fused = Fused(lib, handle, rng)
    change(fused)
    assert fused.status() == status
    assert lib.backend == "cuda" or lib.last_error()
    assert np.isnan(fused.y.read()).all(), "nothing may be written"


def test_y_cannot_be_x(lib: CLibrary, handle, rng) -> None:
    fused = Fused(lib, handle, rng, case="plain")
    fused.y.memory = fused.x.memory
    assert fused.status() == Status.NOT_SUPPORTED


def test_unset_activation_and_missing_z(lib: CLibrary, handle, rng) -> None:
    fused = Fused(lib, handle, rng)
    fused.activation = lib.create("Activation")
    assert fused.status() == Status.NOT_SUPPORTED
    fused = Fused(lib, handle, rng)
    problem, none = fused.problem, lib.scalar(0)
    arguments = [
        *(handle, lib.scalar(1), *fused.x.arguments, *fused.w.arguments, problem.conv),
        *(ConvolutionFwdAlgo.IMPLICIT_GEMM, None, 0, none, fused.z.descriptor, None),
        *(*fused.bias.arguments, fused.activation, *fused.y.arguments),
    ]
    assert lib.cudnnConvolutionBiasActivationForward(*arguments) == Status.BAD_PARAM
