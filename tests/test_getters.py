"""E3: every getter of cuDNN, with each out-parameter between canaries, writes into them alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref
from typing import Any

import pytest
from canaries import Call, address, check_getter, check_lacking

from pycudnn import abi, empty, raw
from pycudnn.abi import cudnn_enums as e
from pycudnn.abi.types import ctypes_type
from pycudnn.errors import FunctionNotFound

NOT_IN_THE_REFERENCE = {"cudnnGetCallback"}
FLOAT, NCHW = int(e.DataType.FLOAT), int(e.TensorFormat.NCHW)


def ints(*values: int) -> ctypes.Array:
    return (ctypes.c_int * len(values))(*values)


class Maker:
    """Makes the C objects of one test and destroys them after it."""

    def __init__(self, library: str, context: Any = None) -> None:
        self.library = library
        self.functions = raw.bind(library)
        self.context = context
        self.made: list[tuple[str, Any]] = []

    def __call__(self, kind: str, *settings: tuple[Any, ...], create: tuple[int, ...] = ()) -> Any:
        """A descriptor from cudnnCreate<kind>, after each setting (function, *arguments)."""
        descriptor = getattr(self.functions, f"cudnn{kind}_t")()
        self.check(f"cudnnCreate{kind}", byref(descriptor), *create)
        self.made.append((kind, descriptor))
        for setter, *values in settings:
            self.check(setter, descriptor, *values)
        return descriptor

    def check(self, function: str, *arguments: Any) -> None:
        status = getattr(self.functions, function)(*arguments)
        if status is e.Status.SUBLIBRARY_LOADING_FAILED:
            pytest.skip(f"{function} needs a part of cuDNN that needs a driver")
        assert status is e.Status.SUCCESS, function

    @property
    def handle(self) -> Any:
        return ctypes.cast(self.context.cudnn.address, raw.cudnnHandle_t)

    def close(self) -> None:
        for kind, descriptor in reversed(self.made):
            getattr(self.functions, f"cudnnDestroy{kind}")(descriptor)

    def tensor(self, *shape: int) -> Any:
        setter = ("cudnnSetTensor4dDescriptor", NCHW, FLOAT, *shape)
        return self("TensorDescriptor", setter)

    def filter(self, *shape: int) -> Any:
        return self("FilterDescriptor", ("cudnnSetFilter4dDescriptor", FLOAT, NCHW, *shape))

    def convolution(self) -> Any:
        setter = ("cudnnSetConvolution2dDescriptor", 1, 0, 2, 1, 1, 2, 1, FLOAT)
        return self("ConvolutionDescriptor", setter)

    def pooling(self) -> Any:
        return self("PoolingDescriptor", ("cudnnSetPooling2dDescriptor", 1, 0, 5, 4, 2, 1, 3, 2))

    def activation(self, *settings: tuple[Any, ...]) -> Any:
        clipped = ("cudnnSetActivationDescriptor", int(e.ActivationMode.CLIPPED_RELU), 1, 6.5)
        return self("ActivationDescriptor", clipped, *settings)

    def rnn(self, *settings: tuple[Any, ...]) -> Any:
        """An LSTM of two layers; its dropout descriptor is the object made before it."""
        dropout = self("DropoutDescriptor")
        if self.context is not None:
            self.check("cudnnSetDropoutDescriptor", dropout, self.handle, 0.0, None, 0, 1)
        values = (0, 2, 2, 0, 0, FLOAT, FLOAT, 0, 5, 8, 8, 2)
        setter = ("cudnnSetRNNDescriptor_v8", *values, dropout, 0)
        return self("RNNDescriptor", setter, *settings)

    def rnn_data(self) -> Any:
        values = (FLOAT, 0, 4, 3, 5, ints(4, 2, 1), byref(ctypes.c_float(-7)))
        return self("RNNDataDescriptor", ("cudnnSetRNNDataDescriptor", *values))

    def attention(self) -> Any:
        values = (0, 2, 0.5, FLOAT, FLOAT, 0, None, None, 8, 8, 8, 4, 4, 4, 8, 7, 7, 3, 1)
        return self("AttnDescriptor", ("cudnnSetAttnDescriptor", *values))

    def loss(self, version: str, *values: int) -> Any:
        return self("CTCLossDescriptor", (f"cudnnSetCTCLossDescriptor{version}", *values))


GETTERS: dict[str, Callable[[Maker], Call]] = {}


def getter(function: Callable[[Maker], Call]) -> None:
    """Register under the C name, which the Python one is without its prefix."""
    GETTERS[f"cudnn{function.__name__}"] = function


def simple(name: str, argument: str, make: Callable[[Maker], Any], *expected: Any) -> None:
    """Register a getter whose one in-parameter is a descriptor."""
    GETTERS[name] = lambda maker: Call({argument: make(maker)}, expected=list(expected) or None)


four = ctypes.c_int * 4
three = ctypes.c_int * 3

simple(
    "cudnnGetTensor4dDescriptor", "tensorDesc", lambda make: make.tensor(2, 3, 4, 5),
    FLOAT, 2, 3, 4, 5, 60, 20, 5, 1,
)  # fmt: skip
simple("cudnnGetTensorSizeInBytes", "tensorDesc", lambda make: make.tensor(2, 3, 4, 5), 480)
simple(
    "cudnnGetFilter4dDescriptor", "filterDesc", lambda make: make.filter(6, 3, 2, 1),
    FLOAT, NCHW, 6, 3, 2, 1,
)  # fmt: skip
simple("cudnnGetFilterSizeInBytes", "filterDesc", lambda make: make.filter(6, 3, 2, 1), 144)
simple("cudnnGetPooling2dDescriptor", "poolingDesc", Maker.pooling, 1, 0, 5, 4, 2, 1, 3, 2)
simple("cudnnGetConvolution2dDescriptor", "convDesc", Maker.convolution, 1, 0, 2, 1, 1, 2, 1, FLOAT)
for what, value in (("GroupCount", 3), ("MathType", 3), ("ReorderType", 1)):
    simple(
        f"cudnnGetConvolution{what}", "convDesc",
        lambda make, what=what, value=value: make(
            "ConvolutionDescriptor", (f"cudnnSetConvolution{what}", value)
        ),
        value,
    )  # fmt: skip
simple(
    "cudnnGetActivationDescriptor", "activationDesc", Maker.activation,
    int(e.ActivationMode.CLIPPED_RELU), 1, 6.5,
)  # fmt: skip
simple(
    "cudnnGetActivationDescriptorSwishBeta", "activationDesc",
    lambda make: make.activation(("cudnnSetActivationDescriptorSwishBeta", 1.5)), 1.5,
)  # fmt: skip
simple("cudnnDropoutGetReserveSpaceSize", "xdesc", lambda make: make.tensor(2, 3, 4, 5))
simple(
    "cudnnGetOpTensorDescriptor", "opTensorDesc",
    lambda make: make("OpTensorDescriptor", ("cudnnSetOpTensorDescriptor", 2, FLOAT, 1)),
    2, FLOAT, 1,
)  # fmt: skip
simple(
    "cudnnGetReduceTensorDescriptor", "reduceTensorDesc",
    lambda make: make(
        "ReduceTensorDescriptor", ("cudnnSetReduceTensorDescriptor", 3, FLOAT, 1, 1, 0)
    ),
    3, FLOAT, 1, 1, 0,
)  # fmt: skip
simple(
    "cudnnGetLRNDescriptor", "normDesc",
    lambda make: make("LRNDescriptor", ("cudnnSetLRNDescriptor", 5, 0.25, 0.75, 2.5)),
    5, 0.25, 0.75, 2.5,
)  # fmt: skip
for version, values in (
    ("", (FLOAT,)), ("Ex", (FLOAT, 1, 1)), ("_v8", (FLOAT, 1, 1, 200)), ("_v9", (FLOAT, 1, 1, 200))
):  # fmt: skip
    simple(
        f"cudnnGetCTCLossDescriptor{version}", "ctcLossDesc",
        lambda make, version=version, values=values: make.loss(version, *values), *values,
    )  # fmt: skip
simple(
    "cudnnRNNGetClip_v8", "rnnDesc",
    lambda make: make.rnn(("cudnnRNNSetClip_v8", 1, 1, -2.0, 3.0)), 1, 1, -2.0, 3.0,
)  # fmt: skip
simple(
    "cudnnRNNGetClip_v9", "rnnDesc",
    lambda make: make.rnn(("cudnnRNNSetClip_v9", 1, -2.0, 3.0)), 1, -2.0, 3.0,
)  # fmt: skip
simple(
    "cudnnGetAttnDescriptor", "attnDesc", Maker.attention,
    0, 2, 0.5, FLOAT, FLOAT, 0, None, None, 8, 8, 8, 4, 4, 4, 8, 7, 7, 3, 1,
)  # fmt: skip


@getter
def GetLastErrorString(make: Maker) -> Call:
    make.functions.cudnnSetTensor4dDescriptor(raw.cudnnTensorDescriptor_t(), 0, 0, 1, 1, 1, 1)
    return Call({"max_size": 16}, {"message": ctypes.c_char * 16})


@getter
def GetProperty(make: Maker) -> Call:
    return Call({"type": 0}, expected=[9])


@getter
def GetCallback(make: Maker) -> Call:
    return Call({})


@getter
def BackendGetAttribute(make: Maker) -> Call:
    descriptor, pair = raw.cudnnBackendDescriptor_t(), ctypes.c_int64 * 2
    kind = e.BackendDescriptorType.CONVOLUTION_DESCRIPTOR
    make.check("cudnnBackendCreateDescriptor", kind, byref(descriptor))
    settings = {
        "SPATIAL_DIMS": ("INT64", ctypes.c_int64 * 1, [2]),
        "COMP_TYPE": ("DATA_TYPE", ctypes.c_int * 1, [FLOAT]),
        "CONV_MODE": ("CONVOLUTION_MODE", ctypes.c_int * 1, [1]),
        "PRE_PADDINGS": ("INT64", pair, [1, 2]),
        "POST_PADDINGS": ("INT64", pair, [3, 4]),
        "FILTER_STRIDES": ("INT64", pair, [5, 6]),
        "DILATIONS": ("INT64", pair, [7, 8]),
    }
    for name, (type_, array, values) in settings.items():
        attribute = e.BackendAttributeName[f"CONVOLUTION_{name}"], e.BackendAttributeType[type_]
        value = array(*values)
        make.check("cudnnBackendSetAttribute", descriptor, *attribute, len(values), byref(value))
    make.check("cudnnBackendFinalize", descriptor)
    return Call(
        {
            "descriptor": descriptor,
            "attributeName": attribute[0],
            "attributeType": attribute[1],
            "requestedElementCount": 2,
        },
        {"arrayOfElements": pair},
        [2, [7, 8]],
    )


@getter
def GetTensorNdDescriptor(make: Maker) -> Call:
    five = ctypes.c_int * 5
    tensor = make(
        "TensorDescriptor",
        ("cudnnSetTensorNdDescriptor", FLOAT, 5, ints(2, 3, 4, 5, 6), ints(360, 120, 30, 6, 1)),
    )
    return Call(
        {"tensorDesc": tensor, "nbDimsRequested": 5},
        {"dimA": five, "strideA": five},
        [FLOAT, 5, [2, 3, 4, 5, 6], [360, 120, 30, 6, 1]],
    )


@getter
def GetTensorTransformDescriptor(make: Maker) -> Call:
    unsigned = ctypes.c_uint * 2
    transform = make(
        "TensorTransformDescriptor",
        (
            "cudnnSetTensorTransformDescriptor", 4, NCHW, ints(0, 1, 2, 3), ints(3, 2, 1, 0),
            unsigned(1, 1), 0,
        ),
    )  # fmt: skip
    return Call(
        {"transformDesc": transform, "nbDimsRequested": 4},
        {"padBeforeA": four, "padAfterA": four, "foldA": unsigned},
        [NCHW, [0, 1, 2, 3], [3, 2, 1, 0], [1, 1], 0],
    )


@getter
def GetFilterNdDescriptor(make: Maker) -> Call:
    five = ctypes.c_int * 5
    setter = ("cudnnSetFilterNdDescriptor", FLOAT, NCHW, 5, ints(7, 3, 2, 2, 2))
    return Call(
        {"filterDesc": make("FilterDescriptor", setter), "nbDimsRequested": 5},
        {"filterDimA": five},
        [FLOAT, NCHW, 5, [7, 3, 2, 2, 2]],
    )


def pooling_3d(make: Maker) -> Any:
    setter = (
        "cudnnSetPoolingNdDescriptor", 1, 0, 3, ints(3, 2, 2), ints(1, 0, 1), ints(2, 1, 3)
    )  # fmt: skip
    return make("PoolingDescriptor", setter)


def tensor_5d(make: Maker) -> Any:
    setter = (
        "cudnnSetTensorNdDescriptor", FLOAT, 5, ints(2, 3, 4, 5, 6), ints(360, 120, 30, 6, 1)
    )  # fmt: skip
    return make("TensorDescriptor", setter)


@getter
def GetPoolingNdDescriptor(make: Maker) -> Call:
    return Call(
        {"poolingDesc": pooling_3d(make), "nbDimsRequested": 3},
        {"windowDimA": three, "paddingA": three, "strideA": three},
        [1, 0, 3, [3, 2, 2], [1, 0, 1], [2, 1, 3]],
    )


@getter
def GetPoolingNdForwardOutputDim(make: Maker) -> Call:
    inputs = {"poolingDesc": pooling_3d(make), "inputTensorDesc": tensor_5d(make), "nbDims": 5}
    # (4 + 2 - 3) // 2 + 1, (5 - 2) // 1 + 1, (6 + 2 - 2) // 3 + 1
    return Call(inputs, {"outputTensorDimA": ctypes.c_int * 5}, [[2, 3, 2, 4, 3]])


@getter
def GetPooling2dForwardOutputDim(make: Maker) -> Call:
    inputs = {"poolingDesc": make.pooling(), "inputTensorDesc": make.tensor(2, 3, 9, 8)}
    # (9 + 4 - 5) // 3 + 1, (8 + 2 - 4) // 2 + 1
    return Call(inputs, expected=[2, 3, 3, 4])


def convolution_3d(make: Maker) -> Any:
    setter = (
        "cudnnSetConvolutionNdDescriptor", 3, ints(0, 1, 0), ints(1, 2, 3), ints(1, 1, 1), 1, FLOAT
    )  # fmt: skip
    return make("ConvolutionDescriptor", setter)


@getter
def GetConvolutionNdDescriptor(make: Maker) -> Call:
    return Call(
        {"convDesc": convolution_3d(make), "arrayLengthRequested": 3},
        {"padA": three, "strideA": three, "dilationA": three},
        [3, [0, 1, 0], [1, 2, 3], [1, 1, 1], 1, FLOAT],
    )


@getter
def GetConvolutionNdForwardOutputDim(make: Maker) -> Call:
    setter = ("cudnnSetFilterNdDescriptor", FLOAT, NCHW, 5, ints(7, 3, 2, 2, 2))
    inputs = {
        "convDesc": convolution_3d(make),
        "inputTensorDesc": tensor_5d(make),
        "filterDesc": make("FilterDescriptor", setter),
        "nbDims": 5,
    }
    # 4 - 2 + 1, (5 + 2 - 2) // 2 + 1, (6 - 2) // 3 + 1
    return Call(inputs, {"tensorOuputDimA": ctypes.c_int * 5}, [[2, 7, 3, 3, 2]])


def problem(make: Maker) -> tuple[Any, Any, Any, Any]:
    """Descriptors of a convolution: input, filter, convolution, output."""
    x, y = make.tensor(2, 3, 9, 8), make.tensor(2, 4, 5, 4)
    return x, make.filter(4, 3, 3, 3), make.convolution(), y


@getter
def GetConvolution2dForwardOutputDim(make: Maker) -> Call:
    x, w, convolution, _ = problem(make)
    inputs = {"convDesc": convolution, "inputTensorDesc": x, "filterDesc": w}
    return Call(inputs, expected=[2, 4, 5, 4])


@getter
def GetFusedOpsConstParamPackAttribute(make: Maker) -> Call:
    label = e.FusedOpsConstParamLabel.XDATA_PLACEHOLDER
    aligned = ctypes.c_int(e.FusedOpsPointerPlaceHolder.PTR_16B_ALIGNED)
    pack = make(
        "FusedOpsConstParamPack",
        ("cudnnSetFusedOpsConstParamPackAttribute", label, byref(aligned)),
        create=(0,),
    )
    return Call(
        {"constPack": pack, "paramLabel": label}, {"param": ctypes.c_int}, [aligned.value, 0]
    )


@getter
def GetFusedOpsVariantParamPackAttribute(make: Maker) -> Call:
    label = e.FusedOpsVariantParamLabel.SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES
    pack = make(
        "FusedOpsVariantParamPack",
        ("cudnnSetFusedOpsVariantParamPackAttribute", label, byref(ctypes.c_size_t(4096))),
        create=(0,),
    )
    return Call({"varPack": pack, "paramLabel": label}, {"ptr": ctypes.c_size_t}, [4096])


@getter
def GetRNNDescriptor_v8(make: Maker) -> Call:
    rnn = make.rnn()
    dropout = address(make.made[-2][1])
    return Call({"rnnDesc": rnn}, expected=[0, 2, 2, 0, 0, FLOAT, FLOAT, 0, 5, 8, 8, 2, dropout, 0])


@getter
def GetRNNDataDescriptor(make: Maker) -> Call:
    return Call(
        {"rnnDataDesc": make.rnn_data(), "arrayLengthRequested": 3},
        {"seqLengthArray": three, "paddingFill": ctypes.c_float},
        [FLOAT, 0, 4, 3, 5, [4, 2, 1], -7.0],
    )


@getter
def GetSeqDataDescriptor(make: Maker) -> Call:
    lengths = ints(4, 2, 1, 3, 4, 4)
    fill = ctypes.c_float(0)
    setter = (
        "cudnnSetSeqDataDescriptor", FLOAT, 4, ints(4, 3, 2, 5), ints(0, 1, 2, 3), 6, lengths,
        byref(fill),
    )  # fmt: skip
    return Call(
        {
            "seqDataDesc": make("SeqDataDescriptor", setter),
            "nbDimsRequested": 4,
            "seqLengthSizeRequested": 6,
        },
        {
            "dimA": four,
            "axes": four,
            "seqLengthArray": ctypes.c_int * 6,
            "paddingFill": ctypes.c_float,
        },
        [FLOAT, 4, [4, 3, 2, 5], [0, 1, 2, 3], 6, list(lengths), 0.0],
    )


@getter
def LongFFTCausalConv1dGetBufferSizes(make: Maker) -> Call:
    sizes = {"batch": 1, "dim": 2, "seqLen": 16384, "kernelSize": 16384}
    return Call(sizes | {"dataType": FLOAT})


# ---- those that take a handle --------------------------------------------------------------------


@getter
def GetStream(make: Maker) -> Call:
    return Call({"handle": make.handle})


@getter
def DropoutGetStatesSize(make: Maker) -> Call:
    return Call({"handle": make.handle})


@getter
def GetDropoutDescriptor(make: Maker) -> Call:
    size = ctypes.c_size_t()
    make.check("cudnnDropoutGetStatesSize", make.handle, byref(size))
    states = empty(size.value, "uint8", stream=make.context.stream)
    make.states = states  # until the test is over
    setting = ("cudnnSetDropoutDescriptor", make.handle, 0.25, states.address, size.value, 77)
    return Call(
        {"dropoutDesc": make("DropoutDescriptor", setting), "handle": make.handle},
        expected=[0.25, states.address, 77],
    )


DIRECTIONS = {
    "Forward": ("srcDesc", "filterDesc", "destDesc"),
    "BackwardData": ("gradDesc", "filterDesc", "diffDesc"),
    "BackwardFilter": ("srcDesc", "gradDesc", "diffDesc"),
}
OPERANDS = {
    "Forward": ("xDesc", "wDesc", "yDesc"),
    "BackwardData": ("dxDesc", "wDesc", "dyDesc"),
    "BackwardFilter": ("xDesc", "gradDesc", "dyDesc"),
}


def search(direction: str) -> Callable[[Maker], Call]:
    def call(make: Maker) -> Call:
        x, w, convolution, y = problem(make)
        operands = dict(zip(DIRECTIONS[direction], (x, w, y), strict=True))
        name = f"cudnnGetConvolution{direction}Algorithm_v7"
        record = ctypes_type(abi.prototype("cudnn", name).arguments[-1].type)._type_
        inputs = {"handle": make.handle, "convDesc": convolution, "requestedAlgoCount": 2}
        return Call(inputs | operands, {"perfResults": record * 2})

    return call


def workspace(direction: str) -> Callable[[Maker], Call]:
    def call(make: Maker) -> Call:
        x, w, convolution, y = problem(make)
        operands = dict(zip(OPERANDS[direction], (x, w, y), strict=True))
        return Call({"handle": make.handle, "convDesc": convolution, "algo": 1} | operands)

    return call


for direction in DIRECTIONS:
    prefix = f"cudnnGetConvolution{direction}"
    GETTERS[f"{prefix}AlgorithmMaxCount"] = lambda make: Call({"handle": make.handle})
    GETTERS[f"{prefix}Algorithm_v7"] = search(direction)
    GETTERS[f"{prefix}WorkspaceSize"] = workspace(direction)


def reduction(make: Maker) -> Call:
    setter = ("cudnnSetReduceTensorDescriptor", 3, FLOAT, 1, 1, 0)
    return Call(
        {
            "handle": make.handle,
            "reduceTensorDesc": make("ReduceTensorDescriptor", setter),
            "aDesc": make.tensor(2, 3, 9, 8),
            "cDesc": make.tensor(2, 1, 9, 1),
        }
    )


GETTERS["cudnnGetReductionIndicesSize"] = reduction
GETTERS["cudnnGetReductionWorkspaceSize"] = reduction


def normalization(name: str) -> Callable[[Maker], Call]:
    def call(make: Maker) -> Call:
        inputs: dict[str, Any] = {"handle": make.handle, "mode": 1, "bnOps": 0, "normOps": 0}
        inputs |= {"algo": 0, "groupCnt": 1, "activationDesc": make.activation()}
        for argument in abi.prototype("cudnn", name).arguments:
            if argument.type == "const cudnnTensorDescriptor_t":
                data = len(argument.name) <= 6  # xDesc, dxDesc, ...
                inputs[argument.name] = make.tensor(2, 3, 9, 8) if data else make.tensor(1, 3, 1, 1)
        names = {argument.name for argument in abi.prototype("cudnn", name).arguments}
        return Call({key: value for key, value in inputs.items() if key in names})

    return call


for name in (
    "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize",
    "cudnnGetBatchNormalizationBackwardExWorkspaceSize",
    "cudnnGetBatchNormalizationTrainingExReserveSpaceSize",
    "cudnnGetNormalizationForwardTrainingWorkspaceSize",
    "cudnnGetNormalizationBackwardWorkspaceSize",
    "cudnnGetNormalizationTrainingReserveSpaceSize",
):
    GETTERS[name] = normalization(name)


@getter
def GetRNNTempSpaceSizes(make: Maker) -> Call:
    inputs = {"handle": make.handle, "rnnDesc": make.rnn(), "fwdMode": 1}
    return Call(inputs | {"xDesc": make.rnn_data()})


@getter
def GetRNNWeightSpaceSize(make: Maker) -> Call:
    return Call({"handle": make.handle, "rnnDesc": make.rnn()})


@getter
def GetRNNWeightParams(make: Maker) -> Call:
    rnn, size = make.rnn(), ctypes.c_size_t()
    make.check("cudnnGetRNNWeightSpaceSize", make.handle, rnn, byref(size))
    return Call(
        {
            "handle": make.handle,
            "rnnDesc": rnn,
            "pseudoLayer": 0,
            "weightSpaceSize": size.value,
            "weightSpace": 1 << 20,  # only computed with
            "linLayerID": 0,
            "mDesc": make("TensorDescriptor"),
            "bDesc": make("TensorDescriptor"),
        }
    )


@getter
def GetMultiHeadAttnBuffers(make: Maker) -> Call:
    return Call({"handle": make.handle, "attnDesc": make.attention()})


@getter
def GetMultiHeadAttnWeights(make: Maker) -> Call:
    attention, sizes = make.attention(), [ctypes.c_size_t() for _ in range(3)]
    make.check("cudnnGetMultiHeadAttnBuffers", make.handle, attention, *map(byref, sizes))
    return Call(
        {
            "handle": make.handle,
            "attnDesc": attention,
            "wKind": 0,
            "weightSizeInBytes": sizes[0].value,
            "weights": 1 << 20,  # only computed with
            "wDesc": make("TensorDescriptor"),
        }
    )


def loss_sizes(make: Maker) -> dict[str, Any]:
    setter = ("cudnnSetTensorNdDescriptor", FLOAT, 3, ints(6, 2, 5), ints(10, 5, 1))
    return {
        "handle": make.handle,
        "probsDesc": make("TensorDescriptor", setter),
        "gradientsDesc": make("TensorDescriptor", setter),
        "algo": 0,
    }


@getter
def GetCTCLossWorkspaceSize(make: Maker) -> Call:
    lengths = {"labels": ints(1, 2, 3), "labelLengths": ints(1, 2), "inputLengths": ints(6, 6)}
    return Call(loss_sizes(make) | lengths | {"ctcLossDesc": make.loss("", FLOAT)})


@getter
def GetCTCLossWorkspaceSize_v8(make: Maker) -> Call:
    return Call(loss_sizes(make) | {"ctcLossDesc": make.loss("_v8", FLOAT, 1, 1, 200)})


# ---- the tests -----------------------------------------------------------------------------------


def takes_handle(name: str) -> bool:
    arguments = abi.prototype("cudnn", name).arguments
    return any(argument.type == "cudnnHandle_t" for argument in arguments)


def test_every_getter_is_here():
    pointers = {
        name
        for name, proto in abi.prototypes("cudnn").items()
        if "Get" in name and any("*" in argument.type for argument in proto.arguments)
    }
    # It needs an execution plan: tests/cudnn/graph/test_graph_getters.py.
    assert set(GETTERS) == pointers - {"cudnnGetExecutionPlanWorkspaceSize"}


def run(name: str, make: Maker) -> None:
    try:
        if make.library == "reference" and name in NOT_IN_THE_REFERENCE:
            with pytest.raises(FunctionNotFound, match=f"{name} is not in the reference library"):
                getattr(make.functions, name)(None, None, None)
        elif not check_lacking(make.functions, name, make.functions.cudnnGetVersion()):
            check_getter(make.functions, name, GETTERS[name](make))
    finally:
        make.close()


@pytest.mark.parametrize("name", [name for name in GETTERS if not takes_handle(name)])
def test_e3_getters_write_only_their_out_parameters(library, name):
    run(name, Maker(library))


@pytest.mark.parametrize("name", [name for name in GETTERS if takes_handle(name)])
def test_e3_getters_with_a_handle_write_only_their_out_parameters(context, name):
    run(name, Maker(context.device.backend, context))
