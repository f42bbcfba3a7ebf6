"""Fused operations: packs as the library has them, plans against float64."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn, errors
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn import FusedOps
from pycudnn.cudnn import FusedOpsConstParamLabel as Const
from pycudnn.cudnn import FusedOpsPointerPlaceHolder as PlaceHolder
from pycudnn.cudnn import FusedOpsVariantParamLabel as Variant
from pycudnn.libraries import get_library

ALIGNED = PlaceHolder.PTR_16B_ALIGNED
NHWC = cudnn.TensorFormat.NHWC
CONV = FusedOps.SCALE_BIAS_ACTIVATION_CONV_BNSTATS
FILTER_GRADIENT = FusedOps.SCALE_BIAS_ACTIVATION_WGRAD
TRAINING = FusedOps.BN_FINALIZE_STATISTICS_TRAINING
INFERENCE = FusedOps.BN_FINALIZE_STATISTICS_INFERENCE
RESERVED = (
    FusedOps.CONV_SCALE_BIAS_ADD_ACTIVATION,
    FusedOps.SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK,
    FusedOps.DACTIVATION_FORK_DBATCHNORM,
)


@pytest.fixture
def side(context) -> Side:
    return Side(context)


# ---- packs ---------------------------------------------------------------------------------------


def c_labels(library, pack, kind, count):
    """Labels that the C setter takes with NULL."""
    found = get_library("cudnn", library)
    setter = found.function(f"cudnnSetFusedOps{kind}ParamPackAttribute")
    pointer = ctypes.cast(pack.address, ctypes_type(pack.c_type))
    return [label for label in range(-1, count) if setter(pointer, label, None) == 0]


@pytest.mark.parametrize("ops", FusedOps)
def test_labels_are_those_of_the_library(library, ops):
    pack = cudnn.FusedOpsConstParamPack(ops, library=library)
    assert c_labels(library, pack, "Const", 45) == list(pack.labels)
    pack = cudnn.FusedOpsVariantParamPack(ops, library=library)
    assert c_labels(library, pack, "Variant", 110) == list(pack.labels)


def test_constants_are_read_back(library):
    conv = cudnn.ConvolutionDescriptor((1, 2), (2, 1), groups=2, library=library)
    given = {
        "XDESC": cudnn.TensorDescriptor((2, 3, 4, 5), "float16", format=NHWC, library=library),
        Const.WDESC: cudnn.FilterDescriptor((8, 3, 3, 3), "float16", format=NHWC, library=library),
        "conv_desc": conv,
        "ACTIVATION_DESC": cudnn.ActivationDescriptor(
            cudnn.ActivationMode.CLIPPED_RELU, coefficient=6, library=library
        ),
        "XDATA_PLACEHOLDER": ALIGNED,
        "BN_MODE": cudnn.BatchNormMode.SPATIAL_PERSISTENT,
    }
    pack = cudnn.FusedOpsConstParamPack(CONV, given, library=library)
    conv.close()  # the pack has a copy
    assert pack.get("XDESC").shape == (2, 3, 4, 5)
    assert pack.get("XDESC").strides == (60, 1, 15, 3)
    assert pack.get("WDESC").dtype == np.float16
    read = pack.get(Const.CONV_DESC)
    assert (read.padding, read.stride, read.groups) == ((1, 2), (2, 1), 2)
    assert pack.get("ACTIVATION_DESC").coefficient == 6
    assert pack.get("XDATA_PLACEHOLDER") is ALIGNED
    assert pack.get("BN_MODE") is cudnn.BatchNormMode.SPATIAL_PERSISTENT
    assert pack.get("YDESC") is None
    assert pack.get("YDATA_PLACEHOLDER") is PlaceHolder.NULL
    pack.set("XDESC", None)
    assert pack.get("XDESC") is None
    assert "with WDESC, CONV_DESC" in repr(pack)


def test_three_spatial_dimensions_are_read_back(library):
    conv = cudnn.ConvolutionDescriptor((1, 0, 2), ndim=3, library=library)
    pack = cudnn.FusedOpsConstParamPack(CONV, {"CONV_DESC": conv}, library=library)
    assert pack.get("CONV_DESC").padding == (1, 0, 2)


def test_scalars_are_read_back_and_arrays_kept(library):
    given = {
        "SCALAR_INT64_T_BN_ACCUMULATION_COUNT": 2**40,
        "SCALAR_DOUBLE_BN_EXP_AVG_FACTOR": 0.25,
        Variant.SCALAR_DOUBLE_BN_EPSILON: 1e-3,
    }
    pack = cudnn.FusedOpsVariantParamPack(TRAINING, given, library=library)
    assert [pack.get(label) for label in given] == [2**40, 0.25, 1e-3]
    pack.set("SCALAR_DOUBLE_BN_EXP_AVG_FACTOR", 0)
    assert pack.get("SCALAR_DOUBLE_BN_EXP_AVG_FACTOR") == 0
    array = np.zeros(3, np.float32)
    pack.set("PTR_YSUM", array)
    assert pack.get("PTR_YSUM") is array
    assert pack.get("PTR_YSQSUM") is None
    pack.set("SCALAR_DOUBLE_BN_EPSILON", None)
    assert pack.get("SCALAR_DOUBLE_BN_EPSILON") is None


@pytest.mark.parametrize(
    ("label", "value", "error", "text"),
    [
        ("DWDESC", None, ValueError, "label must be one that SCALE_BIAS_ACTIVATION_CONV_BNSTATS"),
        ("nonsense", 1, ValueError, "got 'nonsense'"),
        (99, 1, ValueError, "label must be a FusedOpsConstParamLabel"),
        (Variant.PTR_XDATA, 1, TypeError, "label must be a FusedOpsConstParamLabel"),
        ("XDESC", 5, TypeError, "XDESC must be a TensorDescriptor, got 5"),
        ("BN_MODE", 3, ValueError, "BN_MODE must be a BatchNormMode"),
        ("XDATA_PLACEHOLDER", 3, ValueError, "XDATA_PLACEHOLDER must be a FusedOpsPointer"),
    ],
)
def test_bad_constants(library, label, value, error, text):
    pack = cudnn.FusedOpsConstParamPack(CONV, library=library)
    with pytest.raises(error, match=text):
        pack.set(label, value)


@pytest.mark.parametrize(
    ("label", "value", "error", "text"),
    [
        ("SCALAR_INT64_T_BN_ACCUMULATION_COUNT", 0, ValueError, "must be in"),
        ("SCALAR_INT64_T_BN_ACCUMULATION_COUNT", 1.5, TypeError, "must be an int"),
        ("SCALAR_DOUBLE_BN_EXP_AVG_FACTOR", 1.5, ValueError, "must be at most 1"),
        ("SCALAR_DOUBLE_BN_EPSILON", float("nan"), ValueError, "must be a finite number"),
        ("SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES", 8, ValueError, "is that of PTR_WORKSPACE"),
        ("PTR_XDATA", None, ValueError, "label must be one that BN_FINALIZE_STATISTICS_TRAINING"),
        ("PTR_YSUM", 4096, TypeError, "PTR_YSUM must be an array on the device, got 4096"),
        ("PTR_YSUM", [1.0], TypeError, "PTR_YSUM must be an array"),
    ],
)
def test_bad_variants(library, label, value, error, text):
    pack = cudnn.FusedOpsVariantParamPack(TRAINING, library=library)
    with pytest.raises(error, match=text):
        pack.set(label, value)


def test_bad_operations_and_closed_packs(library):
    for kind in (cudnn.FusedOpsConstParamPack, cudnn.FusedOpsVariantParamPack):
        with pytest.raises(ValueError, match="ops must be a FusedOps"):
            kind(7, library=library)
        with pytest.raises(TypeError, match="params must be a Mapping"):
            kind(CONV, 5, library=library)
        pack = kind(CONV, library=library)
        pack.close()
        pack.close()
        with pytest.raises(ValueError, match="is closed"):
            _ = pack.address
        assert repr(pack) == f"<closed {kind.__name__}>"


def test_what_cudnn_does_not_tell(library):
    pack = cudnn.FusedOpsConstParamPack(RESERVED[0], {"XDATA_PLACEHOLDER": 1}, library=library)
    with pytest.raises(errors.CudnnBadParam):
        pack.get("XDATA_PLACEHOLDER")
    pack = cudnn.FusedOpsVariantParamPack(
        INFERENCE, {"SCALAR_DOUBLE_BN_EPSILON": 0.1}, library=library
    )
    with pytest.raises(errors.CudnnBadParam):
        pack.get("SCALAR_DOUBLE_BN_EPSILON")


# ---- batch normalization -------------------------------------------------------------------------

EPSILON, FACTOR, COUNT = 1e-3, 0.25, 50


class Statistics:
    """Sums of 50 random elements per channel, and all that is made of them."""

    def __init__(self, side, rng, ops, channels, dtype="float16", without=()):
        self.side, self.ops = side, ops
        x = rng.uniform(-1, 3, (COUNT, channels))
        names = ["BN_SCALE", "BN_BIAS", "BN_RUNNING_MEAN", "BN_RUNNING_VAR"]
        self.old = {name: rng.uniform(0.5, 1.5, channels) for name in names}
        if ops == TRAINING:
            self.old |= {"YSUM": x.sum(0), "YSQSUM": (x**2).sum(0)}
        self.mean, self.variance = x.mean(0), x.var(0)
        results = ["BN_SAVED_MEAN", "BN_SAVED_INVSTD"] if ops == TRAINING else []
        shape = (1, channels, 1, 1)
        single = cudnn.TensorDescriptor(shape, "float32", library=side.library)
        half = cudnn.TensorDescriptor(shape, dtype, library=side.library)
        self.arrays = {
            **{name: side.put(values.astype(np.float32)) for name, values in self.old.items()},
            **{name: side.put(np.full(channels, np.nan, np.float32)) for name in results},
            **{
                name: side.put(np.full(channels, np.nan, dtype))
                for name in ("BN_EQSCALE", "BN_EQBIAS")
            },
        }
        for name in without:
            del self.arrays[name]
        constants = {
            "BN_MODE": cudnn.BatchNormMode.SPATIAL,
            "BN_SCALEBIAS_MEANVAR_DESC": single,
            "BN_EQSCALEBIAS_DESC": half,
            **{f"{name}_PLACEHOLDER": PlaceHolder.ELEM_ALIGNED for name in self.arrays},
        }
        if ops == TRAINING:
            constants["YSTATS_DESC"] = single
        self.const = cudnn.FusedOpsConstParamPack(ops, constants, library=side.library)

    def run(self):
        """Results by name."""
        side = self.side
        plan = cudnn.FusedOpsPlan(side.handle, self.const)
        scalars = {"SCALAR_DOUBLE_BN_EPSILON": EPSILON}
        if self.ops == TRAINING:
            scalars["SCALAR_INT64_T_BN_ACCUMULATION_COUNT"] = COUNT
            scalars["SCALAR_DOUBLE_BN_EXP_AVG_FACTOR"] = FACTOR
        arrays = {f"PTR_{name}": array for name, array in self.arrays.items()}
        assert set(plan.arrays) == set(arrays)
        pack = cudnn.FusedOpsVariantParamPack(
            self.ops, {**arrays, **scalars, "PTR_WORKSPACE": side.scratch(plan.workspace_size)},
            library=side.library,
        )  # fmt: skip
        cudnn.fused_ops_execute(side.handle, plan, pack)
        return {name: side.get(array) for name, array in self.arrays.items()}

    def expected(self):
        """The same in float64."""
        mean, variance = self.mean, self.variance
        result = {}
        if self.ops == TRAINING:
            unbiased = variance * COUNT / (COUNT - 1)
            for name, new in (("BN_RUNNING_MEAN", mean), ("BN_RUNNING_VAR", unbiased)):
                result[name] = (1 - FACTOR) * self.old[name] + FACTOR * new
            result |= {"BN_SAVED_MEAN": mean, "BN_SAVED_INVSTD": 1 / np.sqrt(variance + EPSILON)}
        else:
            mean, variance = self.old["BN_RUNNING_MEAN"], self.old["BN_RUNNING_VAR"]
        scale = self.old["BN_SCALE"] / np.sqrt(variance + EPSILON)
        result |= {"BN_EQSCALE": scale, "BN_EQBIAS": self.old["BN_BIAS"] - scale * mean}
        return result


@pytest.mark.parametrize("ops", [TRAINING, INFERENCE])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("without", [(), ("BN_SAVED_MEAN", "BN_SAVED_INVSTD"),
                                     ("BN_RUNNING_MEAN", "BN_RUNNING_VAR")])  # fmt: skip
def test_statistics(side, rng, ops, dtype, without):
    if ops == INFERENCE and without:
        without = ()
    problem = Statistics(side, rng, ops, 32, dtype, without)
    got = problem.run()
    for name, expected in problem.expected().items():
        if name not in without:
            rtol = 2e-3 if name.startswith("BN_EQ") and dtype == "float16" else 2e-5
            np.testing.assert_allclose(got[name], expected, rtol=rtol, atol=rtol)


# ---- convolutions --------------------------------------------------------------------------------


def windows(x, taps, pad):
    """Of (n, c, h, w): (n, c, taps, taps, h', w')."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    h, w = (size + 2 * pad - taps + 1 for size in x.shape[2:])
    out = np.empty((*x.shape[:2], taps, taps, h, w))
    for i, j in itertools.product(range(taps), repeat=2):
        out[:, :, i, j] = padded[:, :, i : i + h, j : j + w]
    return out


class Convolution:
    """A convolution of 32 half-precision channels, or its filter gradient."""

    def __init__(self, side, rng, ops, scale, relu, stats=False, taps=3):
        self.side, self.ops = side, ops
        pad, self.scale, self.relu, self.taps = taps // 2, scale, relu, taps
        shape, filters = (3, 32, 6, 5), (32, 32, taps, taps)

        def numbers(shape, low=-1.0):
            return rng.uniform(low, 1, shape).astype(np.float16).astype(np.float64)

        self.x, self.w = numbers(shape), numbers(filters) / 8
        self.y = numbers(shape) / 8
        self.eq = numbers(32, 0.25), numbers(32)
        library = side.library

        def tensor(shape, dtype="float16"):
            return cudnn.TensorDescriptor(shape, dtype, format=NHWC, library=library)

        filter_desc = cudnn.FilterDescriptor(filters, "float16", format=NHWC, library=library)
        gradient = "D" if ops == FILTER_GRADIENT else ""
        data = {
            "XDATA": self.packed(self.x),
            f"{gradient}WDATA": self.packed(np.full_like(self.w, np.nan) if gradient else self.w),
            f"{gradient}YDATA": self.packed(self.y if gradient else np.full_like(self.y, np.nan)),
        }
        constants = {
            "XDESC": tensor(shape), f"{gradient}WDESC": filter_desc, f"{gradient}YDESC":
            tensor(shape), "BN_MODE": cudnn.BatchNormMode.SPATIAL,
            "CONV_DESC": cudnn.ConvolutionDescriptor(
                (pad, pad), math_type=cudnn.MathType.TENSOR_OP_MATH, library=library
            ),
        }  # fmt: skip
        if scale:
            constants["BN_EQSCALEBIAS_DESC"] = tensor((1, 32, 1, 1))
            data |= {
                name: side.put(values.astype(np.float16))
                for name, values in zip(("BN_EQSCALE", "BN_EQBIAS"), self.eq, strict=True)
            }
        if relu:
            constants["ACTIVATION_DESC"] = cudnn.ActivationDescriptor(
                cudnn.ActivationMode.RELU, library=library
            )
        if stats:
            constants["YSTATS_DESC"] = tensor((1, 32, 1, 1), "float32")
            data |= {name: side.put(np.full(32, np.nan, "f4")) for name in ("YSUM", "YSQSUM")}
        constants |= {f"{name}_PLACEHOLDER": ALIGNED for name in data}
        self.const = cudnn.FusedOpsConstParamPack(ops, constants, library=library)
        self.data = data

    def packed(self, values):
        return self.side.put(values.transpose(0, 2, 3, 1).astype(np.float16))

    def read(self, name):
        return self.side.get(self.data[name]).astype(np.float64)

    def variant(self, plan, **changes):
        arrays = {f"PTR_{name}": array for name, array in self.data.items()}
        arrays["PTR_WORKSPACE"] = self.side.scratch(plan.workspace_size)
        return cudnn.FusedOpsVariantParamPack(
            self.ops, {**arrays, **changes}, library=self.side.library
        )

    def run(self):
        plan = cudnn.FusedOpsPlan(self.side.handle, self.const)
        cudnn.fused_ops_execute(self.side.handle, plan, self.variant(plan))

    def normalized(self):
        x = self.x
        if self.scale:
            x = x * self.eq[0][:, None, None] + self.eq[1][:, None, None]
        return np.maximum(x, 0) if self.relu else x

    def expected(self):
        seen = windows(self.normalized(), self.taps, self.taps // 2)
        if self.ops == FILTER_GRADIENT:
            return np.einsum("ncijhw,nkhw->kcij", seen, self.y)
        return np.einsum("ncijhw,kcij->nkhw", seen, self.w)


def check(got, expected):
    assert np.isfinite(got).all()
    assert np.abs(got - expected).max() <= 4e-3 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("taps", [1, 3])
def test_convolution(side, rng, scale, relu, taps):
    problem = Convolution(side, rng, CONV, scale, relu, taps=taps)
    problem.run()
    check(problem.read("YDATA").transpose(0, 3, 1, 2), problem.expected())


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("taps", [1, 3])
def test_filter_gradient(side, rng, scale, relu, taps):
    problem = Convolution(side, rng, FILTER_GRADIENT, scale, relu, taps=taps)
    problem.run()
    check(problem.read("DWDATA").transpose(0, 3, 1, 2), problem.expected())


def test_sums_of_a_convolution(side, rng):
    problem = Convolution(side, rng, CONV, True, True, stats=True)
    try:
        problem.run()
    except errors.CudnnNotSupported:
        assert side.library.backend == "cuda"  # Hopper has no kernel for it
        return
    expected = problem.expected()
    check(problem.read("YDATA").transpose(0, 3, 1, 2), expected)
    check(problem.read("YSUM"), expected.sum((0, 2, 3)))
    check(problem.read("YSQSUM"), (expected**2).sum((0, 2, 3)))


# ---- what is refused -----------------------------------------------------------------------------


def test_missing_constants(side, rng):
    problem = Convolution(side, rng, CONV, True, True)
    for label in ("CONV_DESC", "XDESC", "WDATA_PLACEHOLDER", "BN_EQSCALEBIAS_DESC"):
        value = problem.const.get(label)
        problem.const.set(label, None)
        with pytest.raises(ValueError, match=f"{CONV.name} needs {label}$"):
            cudnn.FusedOpsPlan(side.handle, problem.const)
        problem.const.set(label, value)
    cudnn.FusedOpsPlan(side.handle, problem.const).close()


def test_a_reserved_operation_has_no_plan(side, rng):
    given = Convolution(side, rng, CONV, True, True).const
    pack = cudnn.FusedOpsConstParamPack(RESERVED[0], library=side.library)
    for label in pack.labels:
        if label in given.labels:
            pack.set(label, given.get(label))
    with pytest.raises(errors.CudnnNotSupported):
        cudnn.FusedOpsPlan(side.handle, pack)


def test_scale_and_bias_are_of_the_datas_type(side, rng):
    const = Convolution(side, rng, CONV, True, True).const
    single = cudnn.TensorDescriptor((1, 32, 1, 1), "float32", library=side.library)
    const.set("BN_EQSCALEBIAS_DESC", single)
    with pytest.raises(TypeError, match="must have the data type of XDESC, float16, got float32"):
        cudnn.FusedOpsPlan(side.handle, const)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"BN_MODE": cudnn.BatchNormMode.PER_ACTIVATION}, errors.CudnnBadParam),
        ({"YDESC": (3, 32, 5, 5)}, errors.CudnnBadParam),
        ({"ACTIVATION_DESC": cudnn.ActivationMode.TANH}, errors.CudnnNotSupported),
        ({"ACTIVATION_DESC": cudnn.ActivationMode.IDENTITY}, None),
        ({"BN_MODE": cudnn.BatchNormMode.SPATIAL_PERSISTENT}, None),
    ],
)
def test_plans_that_cudnn_has_and_has_not(side, rng, changes, error):
    const = Convolution(side, rng, CONV, True, True).const
    for label, value in changes.items():
        if label == "ACTIVATION_DESC":
            value = cudnn.ActivationDescriptor(value, library=side.library)
        elif label == "YDESC":
            value = cudnn.TensorDescriptor(value, "float16", format=NHWC, library=side.library)
        const.set(label, value)
    if error is None:
        cudnn.FusedOpsPlan(side.handle, const).close()
    else:
        with pytest.raises(error):
            cudnn.FusedOpsPlan(side.handle, const)


def test_missing_and_superfluous_variants(side, rng):
    problem = Convolution(side, rng, CONV, False, False)
    plan = cudnn.FusedOpsPlan(side.handle, problem.const)

    def refuse(error, text, **changes):
        with pytest.raises(error, match=text):
            cudnn.fused_ops_execute(side.handle, plan, problem.variant(plan, **changes))

    half = side.put(np.zeros(32, np.float16))
    refuse(ValueError, "needs PTR_XDATA, PTR_WDATA$", PTR_XDATA=None, PTR_WDATA=None)
    refuse(ValueError, "BN_EQSCALE_PLACEHOLDER of the plan is NULL", PTR_BN_EQSCALE=half)
    refuse(ValueError, "PTR_XDATA needs 5760 bytes, got 64", PTR_XDATA=half)
    refuse(TypeError, "PTR_XDATA holds float32", PTR_XDATA=side.put(np.zeros(2880, np.float32)))
    refuse(ValueError, "PTR_YDATA is written and must not share memory with PTR_XDATA",
           PTR_YDATA=problem.data["XDATA"])  # fmt: skip
    long = side.put(np.zeros(2888, np.float16))
    refuse(ValueError, "PTR_XDATA must .* 16", PTR_XDATA=long.view(offset=2))
    half.close()
    refuse(ValueError, "PTR_XDATA must not be closed", PTR_XDATA=half)
    if plan.workspace_size:
        small = side.scratch(plan.workspace_size - 1)
        refuse(ValueError, f"PTR_WORKSPACE needs {plan.workspace_size} bytes", PTR_WORKSPACE=small)


def test_scalars_must_be_there(side, rng):
    problem = Statistics(side, rng, TRAINING, 8)
    plan = cudnn.FusedOpsPlan(side.handle, problem.const)
    arrays = {f"PTR_{name}": array for name, array in problem.arrays.items()}
    pack = cudnn.FusedOpsVariantParamPack(TRAINING, arrays, library=side.library)
    with pytest.raises(ValueError, match="needs SCALAR_INT64_T_BN_ACCUMULATION_COUNT, SCALAR_D"):
        cudnn.fused_ops_execute(side.handle, plan, pack)


def test_plan_and_pack_belong_together(side, rng):
    problem = Convolution(side, rng, CONV, False, False)
    plan = cudnn.FusedOpsPlan(side.handle, problem.const)
    other = cudnn.FusedOpsVariantParamPack(TRAINING, library=side.library)
    with pytest.raises(ValueError, match=f"var_pack must be of {CONV.name}, got one of BN_FIN"):
        cudnn.fused_ops_execute(side.handle, plan, other)
    with pytest.raises(TypeError, match="plan must be a FusedOpsPlan"):
        cudnn.fused_ops_execute(side.handle, problem.const, other)
    assert f"FusedOpsPlan({CONV.name}" in repr(plan)
    plan.close()
    with pytest.raises(ValueError, match="this FusedOpsPlan is closed"):
        cudnn.fused_ops_execute(side.handle, plan, problem.variant(plan, PTR_WORKSPACE=None))
    assert repr(plan) == "<closed FusedOpsPlan>"
