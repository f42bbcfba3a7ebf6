"""Problems for plans of fused operations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from harness import Case, Operand, problem

from pycudnn import cudnn
from pycudnn.cudnn import FusedOps
from pycudnn.cudnn import FusedOpsPointerPlaceHolder as PlaceHolder

DESCRIPTORS = {
    "XDATA": "XDESC", "WDATA": "WDESC", "YDATA": "YDESC", "DWDATA": "DWDESC", "DYDATA": "DYDESC",
    "BN_EQSCALE": "BN_EQSCALEBIAS_DESC", "BN_EQBIAS": "BN_EQSCALEBIAS_DESC",
    "YSUM": "YSTATS_DESC", "YSQSUM": "YSTATS_DESC",
}  # fmt: skip


class Fused:
    """The operands of a fused operation by their names."""

    def __init__(self, case: Case, ops: FusedOps) -> None:
        self.case, self.ops = case, ops
        self.operands: dict[str, Operand] = {}
        self.constants: dict[str, Any] = {}
        self.scalars: dict[str, Any] = {}

    def add(self, operand: Operand, *names: str) -> Operand:
        """One more operand."""
        for name in names:
            self.operands[name] = operand
            self.constants[DESCRIPTORS.get(name, "BN_SCALEBIAS_MEANVAR_DESC")] = operand.desc
            self.constants[f"{name}_PLACEHOLDER"] = self.case.choose(
                PlaceHolder.ELEM_ALIGNED, PlaceHolder.PTR_16B_ALIGNED
            )
        return operand

    def run(self) -> None:
        """Make the plan and execute it."""
        case, library = self.case, {"library": self.case.library}
        const = cudnn.FusedOpsConstParamPack(self.ops, self.constants, **library)
        plan = cudnn.FusedOpsPlan(case.handle, const)
        arrays = {f"PTR_{name}": operand.data for name, operand in self.operands.items()}
        pack = cudnn.FusedOpsVariantParamPack(self.ops, {**arrays, **self.scalars}, **library)
        pack.set("PTR_WORKSPACE", case.scratch(plan.workspace_size))
        cudnn.fused_ops_execute(case.handle, plan, pack)


def windows(x: np.ndarray, taps: int, pad: int) -> np.ndarray:
    """Of (n, c, h, w): (n, c, taps, taps, h', w')."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    h, w = (size + 2 * pad - taps + 1 for size in x.shape[2:])
    out = np.empty((*x.shape[:2], taps, taps, h, w))
    for i, j in itertools.product(range(taps), repeat=2):
        out[:, :, i, j] = padded[:, :, i : i + h, j : j + w]
    return out


def convolution(case: Case, gradient: bool) -> None:
    ops = (
        FusedOps.SCALE_BIAS_ACTIVATION_WGRAD
        if gradient
        else FusedOps.SCALE_BIAS_ACTIVATION_CONV_BNSTATS
    )
    p = Fused(case, ops)
    channels, filters = 8 * case.integer(1, 6), 8 * case.integer(1, 6)
    taps = case.choose(1, 3)
    n, h, w = case.integer(1, 4), case.integer(3, 9), case.integer(3, 9)
    shape, pad, dtype = (n, channels, h, w), taps // 2, "float16"
    d = "D" if gradient else ""
    layout, nhwc = "channels last", cudnn.TensorFormat.NHWC
    x = p.add(case.tensor(shape, dtype, layout=layout), "XDATA")
    weights = case.filter((filters, channels, taps, taps), dtype, format=nhwc, blank=gradient)
    weights = p.add(weights, f"{d}WDATA")
    y = case.tensor((n, filters, h, w), dtype, layout=layout, blank=not gradient)
    y = p.add(y, f"{d}YDATA")
    p.constants["BN_MODE"] = case.choose(
        cudnn.BatchNormMode.SPATIAL, cudnn.BatchNormMode.SPATIAL_PERSISTENT
    )
    p.constants["CONV_DESC"] = cudnn.ConvolutionDescriptor(
        (pad, pad), math_type=cudnn.MathType.TENSOR_OP_MATH, library=case.library
    )
    values = x.values
    if case.choose(True, False):
        one = (1, channels, 1, 1)
        scale, bias = (case.tensor(one, dtype, layout="packed") for _ in range(2))
        values = values * p.add(scale, "BN_EQSCALE").values + p.add(bias, "BN_EQBIAS").values
    if case.choose(True, False):
        relu = cudnn.ActivationMode.RELU
        p.constants["ACTIVATION_DESC"] = cudnn.ActivationDescriptor(relu, library=case.library)
        values = np.maximum(values, 0)
    stats = []
    if not gradient and case.choose(True, False):
        one = (1, filters, 1, 1)
        stats = [
            p.add(case.tensor(one, "float32", layout="packed", blank=True), name)
            for name in ("YSUM", "YSQSUM")
        ]
    p.run()
    seen = windows(values, taps, pad)
    if gradient:
        case.check(weights, np.einsum("ncijhw,nkhw->kcij", seen, y.values), dtype)
        return
    exact = np.einsum("ncijhw,kcij->nkhw", seen, weights.values)
    case.check(y, exact, dtype)
    for operand, power in zip(stats, (1, 2), strict=False):
        case.check(operand, (exact**power).sum((0, 2, 3), keepdims=True)[:1], dtype)


def finalize(case: Case, training: bool) -> None:
    ops = (
        FusedOps.BN_FINALIZE_STATISTICS_TRAINING
        if training
        else FusedOps.BN_FINALIZE_STATISTICS_INFERENCE
    )
    p = Fused(case, ops)
    channels, count = case.integer(1, 70), case.integer(2, 500)
    eq_dtype = case.choose("float16", "float32")
    shape = (1, channels, 1, 1)

    def parameter(name: str, **options: Any) -> Operand:
        return p.add(case.tensor(shape, "float32", layout="packed", **options), name)

    p.constants["BN_MODE"] = case.choose(
        cudnn.BatchNormMode.SPATIAL, cudnn.BatchNormMode.SPATIAL_PERSISTENT
    )
    scale, bias = parameter("BN_SCALE"), parameter("BN_BIAS")
    epsilon, factor = case.choose(1e-5, 1e-3, 0.1), case.choose(0.0, 0.1, 1.0)
    p.scalars["SCALAR_DOUBLE_BN_EPSILON"] = epsilon
    running = []
    if not training or case.choose(True, False):
        running = [parameter("BN_RUNNING_MEAN"), parameter("BN_RUNNING_VAR", low=0.5, high=2.0)]
    saved = []
    if training:
        p.scalars |= {
            "SCALAR_INT64_T_BN_ACCUMULATION_COUNT": count,
            "SCALAR_DOUBLE_BN_EXP_AVG_FACTOR": factor,
        }
        mean, spread = case.values(shape, "float32"), case.values(shape, "float32", 0.5, 2.0)
        sums = parameter("YSUM", values=mean * count)
        squares = parameter("YSQSUM", values=(spread + mean**2) * count)
        mean = sums.values / count
        variance = squares.values / count - mean**2
        if case.choose(True, False):
            saved = [parameter(f"BN_SAVED_{name}", blank=True) for name in ("MEAN", "INVSTD")]
    else:
        mean, variance = (operand.values for operand in running)
    results = [
        p.add(case.tensor(shape, eq_dtype, layout="packed", blank=True), name)
        for name in ("BN_EQSCALE", "BN_EQBIAS")
    ]
    p.run()
    inverse = 1 / np.sqrt(variance + epsilon)
    case.check(results[0], scale.values * inverse, eq_dtype, 2)
    case.check(results[1], bias.values - scale.values * inverse * mean, eq_dtype, 2)
    if training:
        for old, new in zip(running, (mean, variance * count / (count - 1)), strict=False):
            case.check(old, (1 - factor) * old.values + factor * new, "float32", 2)
        for operand, value in zip(saved, (mean, inverse), strict=False):
            case.check(operand, value, "float32", 2)


@problem("cudnnFusedOpsExecute")
def fused_ops_execute(case: Case) -> None:
    kind = case.choose("convolution", "filter gradient", "training", "inference")
    if kind in ("training", "inference"):
        finalize(case, kind == "training")
    else:
        convolution(case, kind == "filter gradient")
