"""ctypes types for the C types that the prototypes of cuDNN, cuBLAS and cublasLt name."""

from __future__ import annotations

import ctypes
import functools
from enum import IntEnum
from typing import Any

from pycudnn.abi import cublas, cublas_enums, cublaslt, cublaslt_enums, cudnn, cudnn_enums


class Opaque(ctypes.Structure):
    """Base of the structs that only the library sees inside."""


def _words(struct: str, count: int) -> Any:
    fields = [("data", ctypes.c_uint64 * count)]
    return type(struct, (ctypes.Structure,), {"__doc__": f"struct {struct}", "_fields_": fields})


# cublasLt's descriptors and algorithms: their size is known, so that a caller can hold them.
_WORDS: dict[str, Any] = {name: _words(name, count) for name, count in cublaslt.STRUCTS.items()}


def _opaque_pointer(struct: str) -> Any:
    known = _WORDS.get(struct)
    return ctypes.POINTER(known or type(struct, (Opaque,), {"__doc__": f"struct {struct}"}))


# A pointer type of its own for each handle and descriptor: ctypes then refuses the wrong one.
HANDLES: dict[str, Any] = {
    name: _opaque_pointer(struct)
    for name, struct in {**cudnn.OPAQUE, **cublas.OPAQUE, **cublaslt.OPAQUE}.items()
}
# C declares this one as void *, but it is a handle like the others.
HANDLES["cudnnBackendDescriptor_t"] = _opaque_pointer("cudnnBackendDescriptor")

# Enum classes by C name; cuBLAS's headers spell the data type in three ways.
ENUMS: dict[str, type[IntEnum]] = {
    **cublas_enums.ENUMS,
    **cudnn_enums.ENUMS,
    **cublaslt_enums.ENUMS,
    "cudaDataType_t": cublas_enums.CudaDataType,
    "cublasDataType_t": cublas_enums.CudaDataType,
}


class cudnnRuntimeTag_t(Opaque):
    """struct cudnnRuntimeTag_t, declared and never defined."""


class _AlgoPerf(ctypes.Structure):
    _fields_ = [
        ("algo", ctypes.c_int),
        ("status", ctypes.c_int),
        ("time", ctypes.c_float),  # milliseconds, -1 from the heuristic
        ("memory", ctypes.c_size_t),  # workspace in bytes
        ("determinism", ctypes.c_int),
        ("mathType", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    ]


class cudnnConvolutionFwdAlgoPerf_t(_AlgoPerf):
    """One record of a search for a forward algorithm."""


class cudnnConvolutionBwdDataAlgoPerf_t(_AlgoPerf):
    """One record of a search for a backward-data algorithm."""


class cudnnConvolutionBwdFilterAlgoPerf_t(_AlgoPerf):
    """One record of a search for a backward-filter algorithm."""


class cudnnDebug_t(ctypes.Structure):
    """What cuDNN tells a callback about the call it reports."""

    _fields_ = [
        ("cudnn_version", ctypes.c_uint),
        ("cudnnStatus", ctypes.c_int),
        ("time_sec", ctypes.c_uint),
        ("time_usec", ctypes.c_uint),
        ("time_delta", ctypes.c_uint),
        ("handle", HANDLES["cudnnHandle_t"]),
        ("stream", ctypes.c_void_p),
        ("pid", ctypes.c_ulonglong),
        ("tid", ctypes.c_ulonglong),
        ("cudaDeviceId", ctypes.c_int),
        ("reserved", ctypes.c_int * 15),
    ]


class cudnnFraction_t(ctypes.Structure):
    """A fraction of 64-bit integers."""

    _fields_ = [("numerator", ctypes.c_int64), ("denominator", ctypes.c_int64)]


class cudnnGnnCscGraph_t(ctypes.Structure):
    """A graph in compressed sparse columns; the pointers are device addresses."""

    _fields_ = [
        ("cscOffsets", ctypes.c_void_p),
        ("cscIndices", ctypes.c_void_p),
        ("mapCscToCoo", ctypes.c_void_p),
        ("mapRevToCoo", ctypes.c_void_p),
        ("nSrcNodes", ctypes.c_int64),
        ("nDstNodes", ctypes.c_int64),
        ("nIndices", ctypes.c_int64),
        ("idxType", ctypes.c_int),
        ("cscRevOffsets", ctypes.c_void_p),
    ]


class cudnnGnnMhaParams_t(ctypes.Structure):
    """Settings of multi-head attention on a graph."""

    _fields_ = [
        ("activation", ctypes.c_int),
        ("activationAlpha", ctypes.c_float),  # slope of leaky ReLU, or the scalar
        ("numHeads", ctypes.c_int),
        ("concatHeads", ctypes.c_int),  # 1 concatenates the heads, 0 averages them
    ]


class cublasLtMatmulHeuristicResult_t(ctypes.Structure):
    """One algorithm that cublasLt's heuristic proposes."""

    _fields_ = [
        ("algo", _WORDS["cublasLtMatmulAlgo_t"]),
        ("workspaceSize", ctypes.c_size_t),  # bytes
        ("state", ctypes.c_int),  # the other fields count only if it is SUCCESS
        ("wavesCount", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class cuComplex(ctypes.Structure):
    """Complex number of two floats, aligned to 8 bytes in C."""

    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float)]


class cuDoubleComplex(ctypes.Structure):
    """Complex number of two doubles, aligned to 16 bytes in C."""

    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]


# The C signature of a cudnnCallback_t: severity, user data, debug record, message.
cudnnCallback_t = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(cudnnDebug_t), ctypes.c_char_p
)
cublasLogCallback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
# Level, function name, message.
cublasLtLoggerCallback_t = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)

NUMBERS: dict[str, Any] = {
    "char": ctypes.c_char,
    "unsigned char": ctypes.c_ubyte,
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "long long int": ctypes.c_longlong,
    "unsigned long long": ctypes.c_ulonglong,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint16_t": ctypes.c_uint16,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    # Storage of 16-bit floats, for which ctypes has no type.
    "__half": ctypes.c_uint16,
    "__nv_bfloat16": ctypes.c_uint16,
    "cuComplex": cuComplex,
    "cuDoubleComplex": cuDoubleComplex,
}
STRUCTS: dict[str, Any] = {
    struct.__name__: struct
    for struct in (
        *_WORDS.values(),
        cublasLtMatmulHeuristicResult_t,
        cudnnRuntimeTag_t,
        cudnnConvolutionFwdAlgoPerf_t,
        cudnnConvolutionBwdDataAlgoPerf_t,
        cudnnConvolutionBwdFilterAlgoPerf_t,
        cudnnDebug_t,
        cudnnFraction_t,
        cudnnGnnCscGraph_t,
        cudnnGnnMhaParams_t,
    )
}
# Streams and graphs come from other CUDA bindings as integers, callbacks as function objects.
CALLBACKS = ("cudnnCallback_t", "cublasLogCallback", "cublasLtLoggerCallback_t")
ADDRESSES = ("cudaStream_t", "cudaGraph_t", *CALLBACKS)


def base_and_depth(spelling: str) -> tuple[str, int]:
    """The type without qualifiers and stars, and the number of stars.

    >>> base_and_depth("const float *const *")
    ('float', 2)
    """
    words = spelling.replace("*", " ").split()
    return " ".join(word for word in words if word != "const"), spelling.count("*")


def is_handle(spelling: str) -> bool:
    """Whether an argument of this type is a handle or descriptor itself (not its address)."""
    base, depth = base_and_depth(spelling)
    return base in HANDLES and depth == 0


def is_enum(spelling: str) -> bool:
    """Whether an argument of this type is an enum itself (not its address)."""
    base, depth = base_and_depth(spelling)
    return base in ENUMS and depth == 0


@functools.cache
def ctypes_type(spelling: str) -> Any:
    """The ctypes type of a C type: None for `void`, c_void_p for `void *`.

    Enums are c_int. Each handle and descriptor type is a pointer class of its own.
    `const char *` is c_char_p; `char *`, a buffer to write to, is POINTER(c_char).
    Raises ValueError for a type that no prototype names.
    """
    base, depth = base_and_depth(spelling)
    result: Any
    if base == "FILE":
        base = "void"  # an address from the C library
    if base == "void":
        if depth == 0:
            return None
        result, depth = ctypes.c_void_p, depth - 1
    elif base == "char" and depth and "const" in spelling:
        result, depth = ctypes.c_char_p, depth - 1
    elif base in HANDLES:
        result = HANDLES[base]
    elif base in ENUMS:
        result = ctypes.c_int
    elif base in NUMBERS:
        result = NUMBERS[base]
    elif base in STRUCTS:
        result = STRUCTS[base]
    elif base in ADDRESSES:
        result = ctypes.c_void_p
    else:
        raise ValueError(f"spelling {spelling!r}: no ctypes type for {base!r}")
    for _ in range(depth):
        result = ctypes.POINTER(result)
    return result
