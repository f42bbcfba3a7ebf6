"""Problems for batch normalization, Normalization, LRN and divisive normalization."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import FLOATING, Case, Operand, problem
from norm_oracle import (
    Batch,
    Window,
    batch_normalization,
    batch_normalization_gradients,
    parameter_shape,
)

from pycudnn import cudnn

SCALES = ((1.0, 0.0), (0.5, 0.0), (1.0, 1.0), (-1.5, 0.5))
Norm = cudnn.NormMode
Bn = cudnn.BatchNormMode


class Problem:
    """Operands of one batch normalization. ``fused`` has a layout in which cuDNN fuses.

    Each mean is that of at least 8 elements: of 2 or 3 nearly equal ones the inverse deviation is
    as good as noise.
    """

    def __init__(self, case: Case, per_activation: bool, ops: int = 0, fused: bool = False) -> None:
        self.case, self.per_activation, self.ops = case, per_activation, ops
        self.dtype = case.choose(*[t for t in FLOATING if t != "float64" or not ops])
        self.layout = "channels last" if fused else None
        self.param_dtype = "float64" if self.dtype == "float64" else "float32"
        shape = list(case.shape(case.choose(4, 5), 1, 7))
        shape[0] = case.integer(8, 12)
        if fused:
            shape[1] = 4 * case.integer(1, 8)
        self.shape = tuple(shape)
        self.epsilon = case.choose(1e-5, 1e-3, 0.1)
        self.x = self.tensor(low=-2.0, high=3.0)
        self.scale = self.parameters(0.5, 2.0)
        self.bias = self.parameters(-1.0, 1.0)
        self.z = self.tensor() if ops == 2 else None
        relu = cudnn.ActivationMode.RELU
        self.activation = cudnn.ActivationDescriptor(relu, library=case.library) if ops else None

    def tensor(self, **options: Any) -> Operand:
        """A tensor like x."""
        return self.case.tensor(self.shape, self.dtype, layout=self.layout, **options)

    def parameters(self, low: float = 0.0, high: float = 0.0, blank: bool = False) -> Operand:
        """A tensor like scale."""
        shape = parameter_shape(self.shape, self.per_activation)
        return self.case.tensor(
            shape, self.param_dtype, layout="packed", low=low, high=high, blank=blank
        )

    @property
    def z_pair(self) -> tuple[Any, Any]:
        """Descriptor and memory of z, or None and None."""
        return (self.z.desc, self.z.data) if self.z else (None, None)

    def batch(self) -> Batch:
        """The normalization itself, in float64."""
        return batch_normalization(
            self.x.values, self.scale.values, self.bias.values, self.per_activation, self.epsilon
        )

    def activated(self, normalized: np.ndarray) -> np.ndarray:
        """With addend and activation."""
        if self.z:
            normalized = normalized + self.z.values
        return np.maximum(normalized, 0) if self.ops else normalized


def training(case: Case, problem: Problem, call: Any) -> None:
    """Forward: ``call(y, statistics, options)`` is the function under test."""
    alpha, beta = case.choose(*SCALES)
    y = problem.tensor(blank=beta == 0)
    factor = case.choose(0.0, 0.1, 1.0)
    running = [problem.parameters(-1.0, 1.0), problem.parameters(0.5, 2.0)]
    saved = [problem.parameters(blank=True), problem.parameters(blank=True)]
    call(
        y,
        [*running, *saved],
        {
            "alpha": alpha, "beta": beta, "epsilon": problem.epsilon,
            "exponential_average_factor": factor,
        },
    )  # fmt: skip
    batch = problem.batch()
    before = beta * y.values if beta else 0.0
    case.check(y, alpha * problem.activated(batch.y) + before, problem.dtype, 2)
    for running_one, new in zip(running, (batch.mean, batch.unbiased), strict=True):
        expected = (1 - factor) * running_one.values + factor * new
        case.check(running_one, expected, problem.param_dtype, 2)
    case.check(saved[0], batch.mean, problem.param_dtype, 2)
    case.check(saved[1], batch.inverse, problem.param_dtype, 2)


def inference(case: Case, problem: Problem, call: Any) -> None:
    """With statistics that are given: ``call(y, mean, variance, options)``."""
    alpha, beta = case.choose(*SCALES)
    y = problem.tensor(blank=beta == 0)
    mean, variance = problem.parameters(-1.0, 1.0), problem.parameters(0.5, 2.0)
    call(y, mean, variance, {"alpha": alpha, "beta": beta, "epsilon": problem.epsilon})
    deviation = np.sqrt(variance.values + problem.epsilon)
    normalized = (problem.x.values - mean.values) / deviation
    expected = alpha * (normalized * problem.scale.values + problem.bias.values)
    case.check(y, expected + (beta * y.values if beta else 0.0), problem.dtype, 4)


def gradients(case: Case, problem: Problem, call: Any, mask: Any = 1.0) -> None:
    """Backward: ``call(dy, dx, dscale, dbias, saved, options)``; ``mask`` is the activation's."""
    alpha, beta = case.choose(*SCALES)
    param_alpha, param_beta = case.choose(*SCALES)
    dy, dx = problem.tensor(), problem.tensor(blank=beta == 0)
    dscale, dbias = (problem.parameters(-1.0, 1.0, blank=param_beta == 0) for _ in range(2))
    batch = problem.batch()
    saved: list[Any] = [None, None]
    if problem.ops or case.choose(True, False):
        shape = batch.mean.shape
        saved = [
            case.tensor(shape, problem.param_dtype, layout="packed", values=values).data
            for values in (batch.mean, batch.inverse)
        ]
    call(
        dy, dx, dscale, dbias, saved,
        {
            "alpha_data_diff": alpha, "beta_data_diff": beta, "alpha_param_diff": param_alpha,
            "beta_param_diff": param_beta, "epsilon": problem.epsilon,
        },
    )  # fmt: skip
    expected = batch_normalization_gradients(
        problem.x.values, dy.values * mask, problem.scale.values,
        problem.per_activation, problem.epsilon,
    )  # fmt: skip
    slack = 2 * max(1.0, float(batch.inverse.max()))
    before = beta * dx.values if beta else 0.0
    case.check(dx, alpha * expected[0] + before, problem.dtype, slack)
    for out, value in ((dscale, expected[1]), (dbias, expected[2])):
        before = param_beta * out.values if param_beta else 0.0
        case.check(out, param_alpha * value + before, problem.param_dtype, slack)


# ---- batch normalization -------------------------------------------------------------------------


@problem("cudnnBatchNormalizationForwardTraining")
def forward_training(case: Case) -> None:
    mode = case.choose(*Bn)
    p = Problem(case, mode == Bn.PER_ACTIVATION)

    def call(y: Operand, statistics: list[Operand], options: dict[str, Any]) -> None:
        cudnn.batch_normalization_forward_training(
            case.handle, mode, p.x.desc, p.x.data, y.desc, y.data, p.scale.desc, p.scale.data,
            p.bias.data, *[s.data for s in statistics], **options,
        )  # fmt: skip

    training(case, p, call)


@problem("cudnnBatchNormalizationForwardInference")
def forward_inference(case: Case) -> None:
    mode = case.choose(*Bn)
    p = Problem(case, mode == Bn.PER_ACTIVATION)

    def call(y: Operand, mean: Operand, variance: Operand, options: dict[str, Any]) -> None:
        cudnn.batch_normalization_forward_inference(
            case.handle, mode, p.x.desc, p.x.data, y.desc, y.data, p.scale.desc, p.scale.data,
            p.bias.data, mean.data, variance.data, **options,
        )  # fmt: skip

    inference(case, p, call)


@problem("cudnnBatchNormalizationBackward")
def backward(case: Case) -> None:
    mode = case.choose(*Bn)
    p = Problem(case, mode == Bn.PER_ACTIVATION)

    def call(dy: Operand, dx: Operand, dscale: Operand, dbias: Operand, saved: list[Any],
             options: dict[str, Any]) -> None:  # fmt: skip
        cudnn.batch_normalization_backward(
            case.handle, mode, p.x.desc, p.x.data, dy.desc, dy.data, dx.desc, dx.data,
            p.scale.desc, p.scale.data, dscale.data, dbias.data, *saved, **options,
        )  # fmt: skip

    gradients(case, p, call)


class BatchNormEx:
    """The Ex functions with the arguments of a Problem."""

    def __init__(self, case: Case, mode: Any, p: Problem) -> None:
        self.case, self.p = case, p
        self.choice = (mode, cudnn.BatchNormOps(p.ops))
        size = cudnn.get_batch_normalization_training_ex_reserve_space_size(
            case.handle, *self.choice, p.activation, p.x.desc
        )
        self.reserve = case.scratch(size)

    def forward(self, y: Operand, statistics: list[Any], options: dict[str, Any]) -> None:
        """Statistics are operands, or None."""
        p, handle, desc = self.p, self.case.handle, self.p.scale.desc
        size = cudnn.get_batch_normalization_forward_training_ex_workspace_size(
            handle, *self.choice, p.x.desc, p.z_pair[0], y.desc, desc, p.activation
        )
        cudnn.batch_normalization_forward_training_ex(
            handle, *self.choice, p.x.desc, p.x.data, *p.z_pair, y.desc, y.data, desc,
            p.scale.data, p.bias.data, *[s and s.data for s in statistics], p.activation,
            self.case.scratch(size), self.reserve, **options,
        )  # fmt: skip

    def backward(self, y: Operand, dz: Operand | None, dy: Operand, dx: Operand, dscale: Operand,
                 dbias: Operand, saved: list[Any], options: dict[str, Any]) -> None:  # fmt: skip
        """After forward."""
        p, handle, desc = self.p, self.case.handle, self.p.scale.desc
        size = cudnn.get_batch_normalization_backward_ex_workspace_size(
            handle, *self.choice, p.x.desc, y.desc, dy.desc, dz and dz.desc, dx.desc, desc,
            p.activation,
        )  # fmt: skip
        cudnn.batch_normalization_backward_ex(
            handle, *self.choice, p.x.desc, p.x.data, y.desc, y.data, dy.desc, dy.data,
            dz and dz.desc, dz and dz.data, dx.desc, dx.data, desc, p.scale.data, p.bias.data,
            dscale.data, dbias.data, *saved, p.activation, self.case.scratch(size), self.reserve,
            **options,
        )  # fmt: skip


class Normalization:
    """The Normalization functions with the arguments of a Problem."""

    def __init__(self, case: Case, mode: Any, algo: Any, p: Problem) -> None:
        self.case, self.p = case, p
        self.choice = (mode, cudnn.NormOps(p.ops), algo)
        size = cudnn.get_normalization_training_reserve_space_size(
            case.handle, *self.choice, p.activation, p.x.desc
        )
        self.reserve = case.scratch(size)

    def forward(self, y: Operand, statistics: list[Any], options: dict[str, Any]) -> None:
        """Statistics are operands, or None."""
        p, handle, desc = self.p, self.case.handle, self.p.scale.desc
        size = cudnn.get_normalization_forward_training_workspace_size(
            handle, *self.choice, p.x.desc, p.z_pair[0], y.desc, desc, p.activation, desc
        )
        cudnn.normalization_forward_training(
            handle, *self.choice, p.x.desc, p.x.data, desc, p.scale.data, p.bias.data, desc,
            *[s and s.data for s in statistics], p.activation, *p.z_pair, y.desc, y.data,
            self.case.scratch(size), self.reserve, **options,
        )  # fmt: skip

    def backward(self, y: Operand, dz: Operand | None, dy: Operand, dx: Operand, dscale: Operand,
                 dbias: Operand, saved: list[Any], options: dict[str, Any]) -> None:  # fmt: skip
        """After forward."""
        p, handle, desc = self.p, self.case.handle, self.p.scale.desc
        size = cudnn.get_normalization_backward_workspace_size(
            handle, *self.choice, p.x.desc, y.desc, dy.desc, dz and dz.desc, dx.desc, desc,
            p.activation, desc,
        )  # fmt: skip
        cudnn.normalization_backward(
            handle, *self.choice, p.x.desc, p.x.data, y.desc, y.data, dy.desc, dy.data,
            dz and dz.desc, dz and dz.data, dx.desc, dx.data, desc, p.scale.data, p.bias.data,
            dscale.data, dbias.data, desc, *saved, p.activation, self.case.scratch(size),
            self.reserve, **options,
        )  # fmt: skip


def fused_gradients(case: Case, p: Problem, functions: Any) -> None:
    """Forward for y and the reserve space, then backward."""
    y = p.tensor(blank=True)
    functions.forward(y, [None] * 4, {"epsilon": p.epsilon})
    # The mask is taken from what forward wrote: near 0 it may round to either side.
    mask = (case_values(case, y) > 0) if p.ops else 1.0
    dz = p.tensor(blank=True) if p.z else None
    kept: list[Operand] = []

    def call(dy: Operand, *others: Any) -> None:
        kept.append(dy)
        functions.backward(y, dz, dy, *others)

    gradients(case, p, call, mask)
    if dz:
        case.check(dz, kept[0].values * mask, p.dtype)


def case_values(case: Case, operand: Operand) -> np.ndarray:
    """What an operand holds now, in float64."""
    memory = case.get(operand.data)
    steps = [step * memory.itemsize for step in operand.desc.strides]
    shape = operand.desc.shape
    return np.lib.stride_tricks.as_strided(memory, shape, steps).astype(np.float64)


def batch_norm_ex(case: Case) -> tuple[Problem, BatchNormEx]:
    """Any mode without an activation, SPATIAL_PERSISTENT with one."""
    ops = case.choose(0, 1, 2)
    mode = Bn.SPATIAL_PERSISTENT if ops else case.choose(*Bn)
    p = Problem(case, mode == Bn.PER_ACTIVATION, ops, fused=ops > 0)
    return p, BatchNormEx(case, mode, p)


def normalization(case: Case) -> tuple[Problem, Normalization]:
    """Any mode and algorithm without an activation, CHANNEL and PERSIST with one."""
    ops = case.choose(0, 1, 2)
    choices = ((Norm.ACTIVATION, 0), (Norm.CHANNEL, 0), (Norm.CHANNEL, 1))
    mode, algo = choices[2] if ops else case.choose(*choices)
    p = Problem(case, mode == Norm.ACTIVATION, ops, fused=ops > 0)
    return p, Normalization(case, mode, cudnn.NormAlgo(algo), p)


@problem("cudnnBatchNormalizationForwardTrainingEx")
def forward_training_ex(case: Case) -> None:
    p, functions = batch_norm_ex(case)
    training(case, p, functions.forward)


@problem("cudnnBatchNormalizationBackwardEx")
def backward_ex(case: Case) -> None:
    fused_gradients(case, *batch_norm_ex(case))


@problem("cudnnNormalizationForwardTraining")
def normalization_forward_training(case: Case) -> None:
    p, functions = normalization(case)
    training(case, p, functions.forward)


@problem("cudnnNormalizationBackward")
def normalization_backward(case: Case) -> None:
    fused_gradients(case, *normalization(case))


@problem("cudnnNormalizationForwardInference")
def normalization_forward_inference(case: Case) -> None:
    mode, algo = case.choose((Norm.ACTIVATION, 0), (Norm.CHANNEL, 0), (Norm.CHANNEL, 1))
    p = Problem(case, mode == Norm.ACTIVATION)
    choice = (mode, cudnn.NormOps.NORM, cudnn.NormAlgo(algo))

    def call(y: Operand, mean: Operand, variance: Operand, options: dict[str, Any]) -> None:
        cudnn.normalization_forward_inference(
            case.handle, *choice, p.x.desc, p.x.data, p.scale.desc, p.scale.data, p.bias.data,
            mean.desc, mean.data, variance.data, None, None, None, y.desc, y.data, **options,
        )  # fmt: skip

    inference(case, p, call)


# ---- LRN and divisive normalization --------------------------------------------------------------


class Neighbours:
    """An LRN descriptor, its window, x and dy, and the scaling of the outputs."""

    def __init__(self, case: Case, divisive: bool, odd: bool = False) -> None:
        self.case = case
        self.dtype = case.choose("float32", "float64", "float16")
        # Beyond 4 dimensions cuDNN's LRN wants the spatial ones packed; of 3 it takes one order.
        ndim = case.choose(4, 5) if divisive else case.choose(3, 4, 5, 6)
        shape = case.shape(ndim, 1, 7)
        layouts = {3: ("packed", "gaps"), 4: ("packed", "channels last", "gaps")}
        self.layout = case.choose(*layouts.get(ndim, ("packed",)))
        n = case.choose(1, 3, 5, 7) if odd else case.integer(1, 16)
        settings = (n, case.choose(1e-4, 0.5, 2.0), case.choose(0.5, 0.75, 1.0), 2.0)
        axes = tuple(range(2, ndim)) if divisive else (1,)
        self.window = Window(*settings, axes)
        self.lrn = cudnn.LRNDescriptor(*settings, library=case.library)
        self.alpha, self.beta = case.choose(*SCALES)
        self.shape, self.divisive = shape, divisive
        self.x = case.tensor(shape, self.dtype, layout=self.layout, low=-2.0, high=2.0)
        self.dy = self.tensor()
        self.scales = {"alpha": self.alpha, "beta": self.beta}

    def tensor(self, **options: Any) -> Operand:
        """A tensor like x, which for the divisive functions lies in memory like x too."""
        if self.divisive:
            return self.case.operand(self.x.desc, self.dtype, **options)
        return self.case.tensor(self.shape, self.dtype, layout=self.layout, **options)

    def output(self) -> Operand:
        """NaN unless it is blended with."""
        return self.tensor(blank=self.beta == 0)

    def check(self, out: Operand, expected: np.ndarray) -> None:
        """Blended, within a slack for the sums over windows."""
        before = self.beta * out.values if self.beta else 0.0
        self.case.check(out, self.alpha * expected + before, self.dtype, 8)


@problem("cudnnLRNCrossChannelForward")
def lrn_forward(case: Case) -> None:
    p = Neighbours(case, divisive=False)
    y = p.output()
    cudnn.lrn_cross_channel_forward(
        case.handle, p.lrn, p.x.desc, p.x.data, y.desc, y.data, **p.scales
    )
    p.check(y, p.window.normalize(p.x.values, np.zeros(p.shape)))


@problem("cudnnLRNCrossChannelBackward")
def lrn_backward(case: Case) -> None:
    p = Neighbours(case, divisive=False)
    zeros = np.zeros(p.shape)
    y, dx = p.tensor(values=p.window.normalize(p.x.values, zeros)), p.output()
    cudnn.lrn_cross_channel_backward(
        case.handle, p.lrn, y.desc, y.data, p.dy.desc, p.dy.data, p.x.desc, p.x.data,
        dx.desc, dx.data, **p.scales,
    )  # fmt: skip
    p.check(dx, p.window.gradients(p.x.values, zeros, p.dy.values)[0])


@problem("cudnnDivisiveNormalizationForward")
def divisive_forward(case: Case) -> None:
    p = Neighbours(case, divisive=True)
    means = p.tensor() if case.choose(True, False) else None
    y = p.output()
    cudnn.divisive_normalization_forward(
        case.handle, p.lrn, p.x.desc, p.x.data, means and means.data,
        p.tensor(blank=True).data, p.tensor(blank=True).data, y.desc, y.data, **p.scales,
    )  # fmt: skip
    centre = means.values if means else np.zeros(p.shape)
    p.check(y, p.window.normalize(p.x.values, centre))


@problem("cudnnDivisiveNormalizationBackward")
def divisive_backward(case: Case) -> None:
    p = Neighbours(case, divisive=True, odd=True)
    means = p.tensor() if case.choose(True, False) else None
    dx, dmeans = p.output(), p.output()
    cudnn.divisive_normalization_backward(
        case.handle, p.lrn, p.x.desc, p.x.data, means and means.data, p.dy.data,
        p.tensor(blank=True).data, p.tensor(blank=True).data, dx.desc, dx.data, dmeans.data,
        **p.scales,
    )  # fmt: skip
    centre = means.values if means else np.zeros(p.shape)
    expected = p.window.gradients(p.x.values, centre, p.dy.values)
    p.check(dx, expected[0])
    p.check(dmeans, expected[1])
