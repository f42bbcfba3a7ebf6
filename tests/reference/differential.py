"""Statuses of C functions that need no GPU, for valid calls and each argument changed, as JSON.

Run as a script with "reference" or "cuda". ``VALID`` has one right call per function; every case
puts another value in the place of one argument: NULL, a descriptor that was never set, is of
another kind or destroyed, numbers in and out of range, other elements in an array. In addition
every function of the libraries is called with nothing but zeros, and every attribute of cublasLt's
descriptors is set and read in several sizes. After a success what was written or set counts, too.
 The cases run in child processes: where one dies, the next goes on with the case after, and the
answer is "crash".
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pycudnn import abi, loader, reference
from pycudnn.abi.types import ENUMS, HANDLES, base_and_depth, ctypes_type

Answer = Any  # of JSON: "crash", or [result] and, after a success, what was written
INTS = (-(2**31), -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 1000, 65536, 2**31 - 1)
UNSIGNED = (0, 1, 2, 3, 5, 8, 9, 17, 1000, 2**31, 2**32 - 1)
SIZES = (0, 1, 2, 3, 4, 8, 1000, 2**31, 2**63, 2**64 - 1)
FLOATS = (math.nan, math.inf, -math.inf, -1.0, -0.0, 0.0, 1e-30, 0.5, 2.0, 1e300, -1e300)
ELEMENTS = (-(2**31), -1, 0, 1, 2, 65536, 2**31 - 1)
NEEDS_GPU = 1008  # SUBLIBRARY_LOADING_FAILED: a part of cuDNN asks for the driver
STRANGERS = (" unset", " foreign", " destroyed")
_CANARY = 0x5A
_ROOM = 64  # elements of each array, so that wrong counts stay inside


# ---- arguments -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A descriptor of one of the ``MAKERS``."""

    name: str


@dataclass(frozen=True)
class Other:
    """A descriptor that is none: "unset", "destroyed" or "foreign" (of another kind)."""

    type: str
    how: str


@dataclass(frozen=True)
class Out:
    """Room to write to; ``read`` elements of it count, 0 for pointers."""

    read: int = 1


Arguments = tuple[Any, ...]  # the above, numbers, lists of numbers, None for NULL

# Descriptors by name: their C type, what sets them, and its arguments.
MAKERS: dict[str, tuple[str, str, Arguments]] = {
    "tensor": (
        "cudnnTensorDescriptor_t",
        "cudnnSetTensorNdDescriptor",
        (0, 4, [2, 3, 6, 5], [90, 30, 5, 1]),
    ),
    "volume": (
        "cudnnTensorDescriptor_t",
        "cudnnSetTensorNdDescriptor",
        (0, 5, [2, 3, 6, 5, 4], [360, 120, 20, 4, 1]),
    ),
    "filter": ("cudnnFilterDescriptor_t", "cudnnSetFilterNdDescriptor", (0, 0, 4, [4, 3, 3, 2])),
    "convolution": (
        "cudnnConvolutionDescriptor_t",
        "cudnnSetConvolutionNdDescriptor",
        (2, [1, 1], [2, 1], [1, 1], 1, 0),
    ),
    "pooling": (
        "cudnnPoolingDescriptor_t",
        "cudnnSetPoolingNdDescriptor",
        (0, 0, 2, [2, 2], [0, 0], [2, 2]),
    ),
    "activation": ("cudnnActivationDescriptor_t", "cudnnSetActivationDescriptor", (1, 0, 0.5)),
    "lrn": ("cudnnLRNDescriptor_t", "cudnnSetLRNDescriptor", (5, 1e-4, 0.75, 2.0)),
    "op": ("cudnnOpTensorDescriptor_t", "cudnnSetOpTensorDescriptor", (0, 0, 0)),
    "reduce": (
        "cudnnReduceTensorDescriptor_t",
        "cudnnSetReduceTensorDescriptor",
        (3, 0, 0, 1, 0),
    ),
    "ctc": ("cudnnCTCLossDescriptor_t", "cudnnSetCTCLossDescriptor_v9", (0, 1, 0, 33)),
    "sampler": (
        "cudnnSpatialTransformerDescriptor_t",
        "cudnnSetSpatialTransformerNdDescriptor",
        (0, 0, 4, [2, 3, 6, 5]),
    ),
    "dropout": ("cudnnDropoutDescriptor_t", "", ()),
    "rnn": (
        "cudnnRNNDescriptor_t",
        "cudnnSetRNNDescriptor_v8",
        (0, 2, 2, 0, 0, 0, 0, 0, 5, 4, 4, 2, Made("dropout"), 1),
    ),
    "rnn data": (
        "cudnnRNNDataDescriptor_t",
        "cudnnSetRNNDataDescriptor",
        (0, 0, 4, 3, 5, [4, 2, 1], [0]),
    ),
    "sequences": (
        "cudnnSeqDataDescriptor_t",
        "cudnnSetSeqDataDescriptor",
        (0, 4, [4, 3, 2, 5], [0, 1, 2, 3], 6, [4, 3, 2, 1, 4, 4], None),
    ),
    "attention": (
        "cudnnAttnDescriptor_t",
        "cudnnSetAttnDescriptor",
        (0, 2, 1.0, 0, 0, 0, None, None, 5, 6, 7, 3, 3, 4, 8, 6, 7, 3, 2),
    ),
    "transform": (
        "cudnnTensorTransformDescriptor_t",
        "cudnnSetTensorTransformDescriptor",
        (4, 0, [0, 0, 1, 0], [0, 0, 0, 1], [1, 1], 0),
    ),
    "layout": ("cublasLtMatrixLayout_t", "", ()),
    "matmul": ("cublasLtMatmulDesc_t", "", ()),
    "matrix transform": ("cublasLtMatrixTransformDesc_t", "", ()),
    "preference": ("cublasLtMatmulPreference_t", "", ()),
    "emulation": ("cublasLtEmulationDesc_t", "", ()),
}

# Arguments behind the out-pointer of functions that create; the others have none.
CREATED_WITH: dict[str, Arguments] = {
    "cublasLtMatrixLayout_t": (0, 6, 5, 7),
    "cublasLtMatmulDesc_t": (68, 0),
    "cublasLtMatrixTransformDesc_t": (0,),
}

_GETTERS_4 = (Out(), Out(), Out(), Out())
VALID: dict[str, Arguments] = {
    # ---- of the library itself
    "cudnnGetErrorString": (2000,),
    "cudnnGetProperty": (0, Out()),
    "cublasGetProperty": (0, Out()),
    "cublasGetStatusName": (7,),
    "cublasGetStatusString": (7,),
    "cublasLtGetProperty": (0, Out()),
    "cublasLtGetStatusName": (7,),
    "cublasLtHeuristicsCacheGetCapacity": (Out(),),
    "cublasLtGetStatusString": (7,),
    # ---- tensors and filters
    "cudnnSetTensor4dDescriptor": (Made("tensor"), 0, 0, 2, 3, 4, 5),
    "cudnnSetTensor4dDescriptorEx": (Made("tensor"), 0, 2, 3, 4, 5, 60, 20, 5, 1),
    "cudnnGetTensor4dDescriptor": (Made("tensor"), Out(), *_GETTERS_4, *_GETTERS_4),
    "cudnnSetTensorNdDescriptor": (Made("tensor"), 0, 4, [2, 3, 4, 5], [60, 20, 5, 1]),
    "cudnnSetTensorNdDescriptorEx": (Made("tensor"), 0, 0, 4, [2, 3, 4, 5]),
    "cudnnGetTensorNdDescriptor": (Made("tensor"), 4, Out(), Out(), Out(4), Out(4)),
    "cudnnGetTensorSizeInBytes": (Made("tensor"), Out()),
    "cudnnSetFilter4dDescriptor": (Made("filter"), 0, 0, 4, 3, 3, 2),
    "cudnnGetFilter4dDescriptor": (Made("filter"), Out(), Out(), *_GETTERS_4),
    "cudnnSetFilterNdDescriptor": (Made("filter"), 0, 0, 4, [4, 3, 3, 2]),
    "cudnnGetFilterNdDescriptor": (Made("filter"), 4, Out(), Out(), Out(), Out(4)),
    "cudnnGetFilterSizeInBytes": (Made("filter"), Out()),
    "cudnnSetTensorTransformDescriptor": (
        *(Made("transform"), 4, 0, [0, 0, 1, 0], [0, 0, 0, 1], [1, 1], 0),
    ),
    "cudnnGetTensorTransformDescriptor": (
        *(Made("transform"), 4, Out(), Out(4), Out(4), Out(2), Out()),
    ),
    "cudnnInitTransformDest": (Made("transform"), Made("tensor"), Made("tensor"), Out()),
    # ---- ops
    "cudnnSetOpTensorDescriptor": (Made("op"), 0, 0, 0),
    "cudnnGetOpTensorDescriptor": (Made("op"), Out(), Out(), Out()),
    "cudnnSetReduceTensorDescriptor": (Made("reduce"), 3, 0, 0, 1, 0),
    "cudnnGetReduceTensorDescriptor": (Made("reduce"), Out(), Out(), Out(), Out(), Out()),
    "cudnnSetPooling2dDescriptor": (Made("pooling"), 0, 0, 2, 2, 1, 1, 2, 2),
    "cudnnGetPooling2dDescriptor": (Made("pooling"), Out(), Out(), *_GETTERS_4, Out(), Out()),
    "cudnnSetPoolingNdDescriptor": (Made("pooling"), 0, 0, 2, [2, 2], [1, 1], [2, 2]),
    "cudnnGetPoolingNdDescriptor": (
        *(Made("pooling"), 2, Out(), Out(), Out(), Out(2), Out(2), Out(2)),
    ),
    "cudnnGetPooling2dForwardOutputDim": (Made("pooling"), Made("tensor"), *_GETTERS_4),
    "cudnnGetPoolingNdForwardOutputDim": (Made("pooling"), Made("tensor"), 4, Out(4)),
    "cudnnSetActivationDescriptor": (Made("activation"), 1, 0, 0.5),
    "cudnnGetActivationDescriptor": (Made("activation"), Out(), Out(), Out()),
    "cudnnSetActivationDescriptorSwishBeta": (Made("activation"), 1.5),
    "cudnnGetActivationDescriptorSwishBeta": (Made("activation"), Out()),
    "cudnnSetLRNDescriptor": (Made("lrn"), 5, 1e-4, 0.75, 2.0),
    "cudnnGetLRNDescriptor": (Made("lrn"), Out(), Out(), Out(), Out()),
    "cudnnDeriveBNTensorDescriptor": (Made("tensor"), Made("tensor"), 1),
    "cudnnDeriveNormTensorDescriptor": (
        *(Made("tensor"), Made("tensor"), Made("tensor"), 1, 1),
    ),
    "cudnnSetSpatialTransformerNdDescriptor": (Made("sampler"), 0, 0, 4, [2, 3, 6, 5]),
    "cudnnDropoutGetReserveSpaceSize": (Made("tensor"), Out()),
    # ---- convolutions
    "cudnnSetConvolutionMathType": (Made("convolution"), 1),
    "cudnnGetConvolutionMathType": (Made("convolution"), Out()),
    "cudnnSetConvolutionGroupCount": (Made("convolution"), 2),
    "cudnnGetConvolutionGroupCount": (Made("convolution"), Out()),
    "cudnnSetConvolutionReorderType": (Made("convolution"), 1),
    "cudnnGetConvolutionReorderType": (Made("convolution"), Out()),
    "cudnnSetConvolution2dDescriptor": (Made("convolution"), 1, 1, 2, 1, 1, 1, 1, 0),
    "cudnnGetConvolution2dDescriptor": (
        *(Made("convolution"), *_GETTERS_4, *_GETTERS_4),
    ),
    "cudnnSetConvolutionNdDescriptor": (
        *(Made("convolution"), 2, [1, 1], [2, 1], [1, 1], 1, 0),
    ),
    "cudnnGetConvolutionNdDescriptor": (
        *(Made("convolution"), 2, Out(), Out(2), Out(2), Out(2), Out(), Out()),
    ),
    "cudnnGetConvolution2dForwardOutputDim": (
        *(Made("convolution"), Made("tensor"), Made("filter"), *_GETTERS_4),
    ),
    "cudnnGetConvolutionNdForwardOutputDim": (
        *(Made("convolution"), Made("tensor"), Made("filter"), 4, Out(4)),
    ),
    # ---- sequences
    "cudnnSetRNNDescriptor_v8": (Made("rnn"), *MAKERS["rnn"][2]),
    "cudnnGetRNNDescriptor_v8": (Made("rnn"), *(Out(),) * 12, Out(0), Out()),
    "cudnnRNNSetClip_v8": (Made("rnn"), 1, 0, -2.0, 3.0),
    "cudnnRNNSetClip_v9": (Made("rnn"), 1, -2.0, 3.0),
    "cudnnRNNGetClip_v8": (Made("rnn"), Out(), Out(), Out(), Out()),
    "cudnnRNNGetClip_v9": (Made("rnn"), Out(), Out(), Out()),
    "cudnnSetRNNDataDescriptor": (Made("rnn data"), *MAKERS["rnn data"][2]),
    "cudnnGetRNNDataDescriptor": (
        *(Made("rnn data"), Out(), Out(), Out(), Out(), Out(), 3, Out(3), Out()),
    ),
    "cudnnSetSeqDataDescriptor": (Made("sequences"), *MAKERS["sequences"][2]),
    "cudnnGetSeqDataDescriptor": (
        *(Made("sequences"), Out(), Out(), 4, Out(4), Out(4), Out(), 6, Out(6), Out(0)),
    ),
    "cudnnSetAttnDescriptor": (Made("attention"), *MAKERS["attention"][2]),
    "cudnnGetAttnDescriptor": (
        *(Made("attention"), *(Out(),) * 6, Out(0), Out(0), *(Out(),) * 11),
    ),
    "cudnnSetCTCLossDescriptor": (Made("ctc"), 0),
    "cudnnSetCTCLossDescriptorEx": (Made("ctc"), 0, 1, 0),
    "cudnnSetCTCLossDescriptor_v8": (Made("ctc"), 0, 1, 0, 33),
    "cudnnSetCTCLossDescriptor_v9": (Made("ctc"), 0, 1, 1, 33),
    "cudnnGetCTCLossDescriptor": (Made("ctc"), Out()),
    "cudnnGetCTCLossDescriptorEx": (Made("ctc"), Out(), Out(), Out()),
    "cudnnGetCTCLossDescriptor_v8": (Made("ctc"), *_GETTERS_4),
    "cudnnGetCTCLossDescriptor_v9": (Made("ctc"), *_GETTERS_4),
    "cudnnLongFFTCausalConv1dGetBufferSizes": (2, 4, 8192, 8192, 0, Out(), Out()),
    # ---- cublasLt
    "cublasLtMatrixLayoutSetAttribute": (Made("layout"), 3, [9], 8),
    "cublasLtMatrixLayoutGetAttribute": (Made("layout"), 2, Out(), 8, Out()),
    "cublasLtMatmulDescSetAttribute": (Made("matmul"), 3, [1], 4),
    "cublasLtMatmulDescGetAttribute": (Made("matmul"), 3, Out(), 4, Out()),
    "cublasLtMatrixTransformDescSetAttribute": (Made("matrix transform"), 2, [1], 4),
    "cublasLtMatrixTransformDescGetAttribute": (Made("matrix transform"), 2, Out(), 4, Out()),
    "cublasLtMatmulPreferenceSetAttribute": (Made("preference"), 1, [1024], 8),
    "cublasLtMatmulPreferenceGetAttribute": (Made("preference"), 1, Out(), 8, Out()),
    "cublasLtEmulationDescSetAttribute": (Made("emulation"), 0, [1], 4),
    "cublasLtEmulationDescGetAttribute": (Made("emulation"), 0, Out(), 4, Out()),
}


class NeedsGpu(Exception):
    """An argument cannot be made without a GPU."""


# ---- one library ---------------------------------------------------------------------------------


def _parts(c_type: str) -> tuple[str, str]:
    """Names of the functions that create and destroy a descriptor."""
    name = c_type.removesuffix("_t")
    if name.startswith("cublasLt"):
        return f"{name}Create", f"{name}Destroy"
    noun = name.removeprefix("cudnn")
    return f"cudnnCreate{noun}", f"cudnnDestroy{noun}"


class Side:
    """One of the two implementations, and calls of its functions."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._functions: dict[str, Any] = {}
        self._alive: list[Any] = []  # of the call that is being made

    def address(self, name: str) -> int | None:
        """Where a function is; None if this side lacks it."""
        library = abi.library_of(name)
        if self.backend == "reference":
            return reference.address(library, name)
        found = getattr(loader.load(library).cdll, name, None)
        return found and ctypes.cast(found, ctypes.c_void_p).value

    def function(self, name: str) -> Any:
        """The function itself."""
        if name not in self._functions:
            type_ = abi.function_type(abi.prototype(abi.library_of(name), name))
            self._functions[name] = type_(self.address(name))
        return self._functions[name]

    def _create(self, c_type: str) -> Any:
        descriptor = HANDLES[c_type]()
        create = _parts(c_type)[0]
        self.call(create, (ctypes.byref(descriptor), *CREATED_WITH.get(c_type, ())))
        return descriptor

    def _descriptor(self, given: Made | Other) -> Any:
        if isinstance(given, Made):
            c_type, setter, arguments = MAKERS[given.name]
            made = self._create(c_type)
            status = self.call(setter, (made, *arguments))[0] if setter else 0
            if status == NEEDS_GPU:
                raise NeedsGpu
            assert status == 0, setter
            return made
        if given.how == "foreign":
            other = "pooling" if "Pooling" not in given.type else "activation"
            if given.type.startswith("cublasLt"):
                other = "matmul" if "Layout" in given.type else "layout"
            return ctypes.cast(self._descriptor(Made(other)), HANDLES[given.type])
        made = self._create(given.type)
        if given.how == "destroyed":
            self.call(_parts(given.type)[1], (made,))
        return made

    def _argument(self, given: Any, c_type: str) -> Any:
        if isinstance(given, (Made, Other)):
            return self._descriptor(given)
        element = _element(c_type)
        if isinstance(given, list):
            room = (element * _ROOM)(*given, *[1] * (_ROOM - len(given)))
            self._alive.append(room)
            return ctypes.cast(room, ctypes_type(c_type))
        if isinstance(given, Out):
            room = (element * _ROOM)()
            ctypes.memset(room, _CANARY, ctypes.sizeof(room))
            self._alive.append(room)
            return ctypes.cast(room, ctypes_type(c_type))
        return given

    def call(self, name: str, arguments: Arguments) -> list:
        """[result], and after a success what was written or set."""
        prototype = abi.prototype(abi.library_of(name), name)
        pairs = zip(arguments, prototype.arguments, strict=True)
        passed = [self._argument(given, declared.type) for given, declared in pairs]
        result = self.function(name)(*passed)
        if isinstance(result, bytes):
            return [result.decode(errors="replace")]
        answer = [result]
        if result == 0:
            for given, declared, at in zip(arguments, prototype.arguments, passed, strict=True):
                if isinstance(given, Out) and given.read:
                    array = ctypes.cast(at, ctypes.POINTER(_element(declared.type)))
                    answer.append([_plain(array[index]) for index in range(given.read)])
            getter = name.replace("Set", "Get")
            is_descriptor = bool(arguments) and isinstance(arguments[0], (Made, Other))
            if getter != name and getter in VALID and is_descriptor and "Attribute" not in name:
                answer.append(self.call(getter, (passed[0], *VALID[getter][1:])))
        return answer


def _element(c_type: str) -> Any:
    """What a pointer argument points to, as far as numbers go; 8 bytes for void."""
    base, depth = base_and_depth(c_type)
    if depth == 0 or base in HANDLES or depth > 1:
        return ctypes.c_int64
    return ctypes.c_int64 if base in ("void", "FILE") else ctypes_type(base)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) else value


# ---- the cases -----------------------------------------------------------------------------------


def _changes(name: str, c_type: str, given: Any) -> Iterator[tuple[str, Any]]:
    """Other values for an argument, each with a label."""
    base, depth = base_and_depth(c_type)
    if base in HANDLES and depth == 0:
        yield "NULL", None
        for how in ("unset", "foreign", "destroyed"):
            yield how, Other(base, how)
    elif isinstance(given, Out):
        yield "NULL", None
    elif isinstance(given, list):
        yield "NULL", None
        for index in range(len(given)):
            for number in ELEMENTS:
                if base.startswith(("u", "size_t")):
                    number %= 2**32
                yield f"[{index}] = {number}", [*given[:index], number, *given[index + 1 :]]
    elif base in ENUMS:
        members = {int(member) for member in ENUMS[base]}
        for number in sorted({*members, -1, max(members) + 1, 99, 2**31 - 1}):
            if -(2**31) <= number < 2**31:
                yield f"= {number}", number
    elif base in ("double", "float"):
        yield from ((f"= {number}", number) for number in FLOATS)
    elif base in ("size_t", "uint64_t"):
        yield from ((f"= {number}", number) for number in SIZES)
    elif base.startswith("u"):
        yield from ((f"= {number}", number) for number in UNSIGNED)
    elif isinstance(given, int):
        # So many lengths are written or read, whatever there are.
        most = _ROOM if name in ("arrayLengthRequested", "batchSize") else 2**31 - 1
        yield from ((f"= {number}", number) for number in INTS if number <= most)


def _zero(c_type: str) -> Any:
    base, depth = base_and_depth(c_type)
    if depth or base in HANDLES or issubclass(ctypes_type(c_type), ctypes._Pointer):
        return None
    type_ = ctypes_type(c_type)
    return type_() if issubclass(type_, (ctypes.Structure, ctypes._CFuncPtr)) else 0


# These end processes, print or stop the world, or their C declaration has no function.
NOT_CALLED = frozenset(
    (
        "cudnnSetCallback",
        "cublasXerbla",
        "cublasLtLoggerForceDisable",
        "cublasLtDisableCpuInstructionsSetMask",
    )
)


def names() -> list[str]:
    """The functions that both libraries have."""
    sides = Side("reference"), Side("cuda")
    return [
        name
        for library in ("cudnn", "cublas", "cublaslt")
        for name in abi.prototypes(library)
        if name not in NOT_CALLED and all(side.address(name) for side in sides)
    ]


def cases(functions: list[str]) -> Iterator[tuple[str, str, Arguments]]:
    """Label, function and arguments."""
    yield from _attributes(functions)
    for name in functions:
        declared = abi.prototype(abi.library_of(name), name).arguments
        yield f"{name} zeros", name, tuple(_zero(argument.type) for argument in declared)
        if name in VALID:
            arguments = VALID[name]
        elif is_create(name):
            made = HANDLES[base_and_depth(declared[0].type)[0]]
            c_type = next(key for key, value in HANDLES.items() if value is made)
            arguments = (Out(0), *CREATED_WITH.get(c_type, ()))
        else:
            continue
        yield f"{name} valid", name, arguments
        for index, (argument, given) in enumerate(zip(declared, arguments, strict=True)):
            for label, other in _changes(argument.name, argument.type, given):
                changed = (*arguments[:index], other, *arguments[index + 1 :])
                yield f"{name} {argument.name} {label}", name, changed


_LT = {
    "MatrixLayout": ("layout", "cublasLtMatrixLayoutAttribute_t"),
    "MatmulDesc": ("matmul", "cublasLtMatmulDescAttributes_t"),
    "MatrixTransformDesc": ("matrix transform", "cublasLtMatrixTransformDescAttributes_t"),
    "MatmulPreference": ("preference", "cublasLtMatmulPreferenceAttributes_t"),
    "EmulationDesc": ("emulation", "cublasLtEmulationDescAttributes_t"),
}


def _attributes(functions: list[str]) -> Iterator[tuple[str, str, Arguments]]:
    for noun, (made, enum) in _LT.items():
        set_, get = f"cublasLt{noun}SetAttribute", f"cublasLt{noun}GetAttribute"
        if set_ not in functions or get not in functions:
            continue
        for attribute in ENUMS[enum]:
            for size in (0, 1, 2, 4, 8, 16, 32, 64):
                label = f"{attribute.name} of {size} bytes"
                yield f"{get} {label}", get, (Made(made), attribute, Out(), size, Out())
                for value in (-1, 0, 1, 2, 3, 64, 999):
                    arguments = (Made(made), attribute, [value, *[0] * 7], size)
                    yield f"{set_} {label} = {value}", set_, arguments


def is_create(name: str) -> bool:
    """Does it create a descriptor without a handle?"""
    is_one = name.startswith("cudnnCreate") or name.endswith("Create")
    return is_one and name not in ("cudnnCreate", "cublasLtCreate") and "Fused" not in name


def _run(side: Side, wanted: list[tuple[str, str, Arguments]], pipe: int) -> None:
    """Up to and with the first case that may damage the memory of what comes after it."""
    for label, name, arguments in wanted:
        try:
            answer = side.call(name, arguments)
        except NeedsGpu:
            answer = [NEEDS_GPU]
        if label.endswith(STRANGERS):
            answer = answer[:1]  # what there is to read depends on what the memory held before
        os.write(pipe, json.dumps(answer).encode() + b"\n")
        if label.endswith(STRANGERS[1:]) or "SpatialTransformer" in label:
            return


def answers(backend: str, functions: list[str]) -> dict[str, Answer]:
    """The answer to every case, by label."""
    side, wanted = Side(backend), list(cases(functions))
    for part in ("Graph", "Ops", "Cnn", "Adv"):  # opened here, not in each child
        side.call(f"cudnn{part}VersionCheck", ())
    found: list[Answer] = []
    while len(found) < len(wanted):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1), os.dup2(quiet, 2)  # what a dying library says
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _run(side, wanted[len(found) :], writing)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as lines:
            found += [json.loads(line) for line in lines]
        if os.waitpid(child, 0)[1]:
            found.append("crash")
    return dict(zip((label for label, _, _ in wanted), found, strict=True))


if __name__ == "__main__":
    print(json.dumps(answers(sys.argv[1], json.loads(sys.argv[2]) if sys.argv[2:] else names())))
