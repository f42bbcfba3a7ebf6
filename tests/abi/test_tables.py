"""The committed tables and the ctypes types made from them."""

from __future__ import annotations

import ctypes
from collections import Counter
from pathlib import Path

import pytest

from pycudnn import abi
from pycudnn.abi import cublas_enums, cublaslt_enums, cudnn_enums
from pycudnn.abi.removed import REPLACEMENTS
from pycudnn.abi.types import HANDLES, base_and_depth, ctypes_type, is_enum, is_handle

CONVOLUTIONS = ("Forward", "BackwardData", "BackwardFilter")
EVERY = [
    proto
    for library in ("cudnn", "cublas", "cublaslt")
    for proto in abi.prototypes(library).values()
]


def test_functions_per_header():
    cudnn, cublas = abi.prototypes("cudnn").values(), abi.prototypes("cublas").values()
    assert Counter(p.header for p in cudnn) == {
        "cudnn_graph": 24,
        "cudnn_ops": 100,
        "cudnn_cnn": 50,
        "cudnn_adv": 47,
        "cudnn_subquadratic_ops": 12,
        "cudnn_gnn_ops": 6,
    }
    assert Counter(p.header for p in cudnn if p.deprecated) == {
        "cudnn_graph": 2,
        "cudnn_ops": 63,
        "cudnn_cnn": 49,
        "cudnn_adv": 21,
    }
    assert Counter(p.header for p in cublas) == {"cublas_api": 539}
    assert sum(p.name.endswith("_64") for p in cublas) == 232
    assert Counter(p.header for p in abi.prototypes("cublaslt").values()) == {"cublasLt": 54}
    assert len(abi.INLINE) == 6


def test_half_functions_that_only_cpp_sees_are_there():
    names = [n for n in abi.prototypes("cublas") if n.startswith(("cublasHSH", "cublasHSS"))]
    names += [n for n in abi.prototypes("cublas") if n.startswith(("cublasTST", "cublasTSS"))]
    assert len(names) == 16
    assert {"cublasHgemm", "cublasHgemmBatched", "cublasHgemmStridedBatched"} <= set(
        abi.prototypes("cublas")
    )


def test_widest_call():
    widest = max(EVERY, key=lambda p: len(p.arguments))
    assert (widest.name, len(widest.arguments)) == ("cudnnNormalizationBackward", 33)


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("cudnnCreate", "9.0.0"),
        ("cudnnBackendPopulateCudaGraph", "9.5.0"),
        ("cublasSgemm_v2", "12.0.2"),
        ("cublasSgemmGroupedBatched", "12.4.5"),
        ("cublasSetEmulationStrategy", "12.9.0"),
        ("cudnnGetExecutionPlanWorkspaceSize", "9.23.0"),
        ("cudnnCausalConv1dForward", "9.22.0"),
        ("cudnnGnnAggSimpleForward", "9.26.0"),
        ("cublasLtMatmul", "12.0.2"),
        ("cublasLtGroupedMatrixLayoutCreate", "13.2.0"),
    ],
)
def test_first_version(name, since):
    assert abi.prototype(abi.library_of(name), name).since == since


def test_prototype_of_an_unknown_function_or_library():
    with pytest.raises(KeyError, match="cudnnFly is not declared in the headers of cudnn"):
        abi.prototype("cudnn", "cudnnFly")
    with pytest.raises(ValueError, match="library 'cufft'"):
        abi.prototypes("cufft")


def test_prototype_reads_as_c():
    assert str(abi.prototype("cudnn", "cudnnSetStream")) == (
        "cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId)"
    )
    assert str(abi.prototype("cudnn", "cudnnGetErrorString")) == (
        "const char *cudnnGetErrorString(cudnnStatus_t status)"
    )
    assert str(abi.prototype("cudnn", "cudnnGetVersion")) == "size_t cudnnGetVersion(void)"


def test_every_prototype_has_function_and_callback_types():
    for proto in EVERY:
        function, callback = abi.function_type(proto), abi.callback_type(proto)
        assert len(function._argtypes_) == len(callback._argtypes_) == len(proto.arguments)
        for argument, type_ in zip(proto.arguments, callback._argtypes_, strict=True):
            assert ctypes.sizeof(type_) == ctypes.sizeof(ctypes_type(argument.type)), proto
            if "*" in argument.type or is_handle(argument.type):
                assert type_ is ctypes.c_void_p, (proto.name, argument)


def test_handles_and_descriptors_are_types_of_their_own():
    assert len(HANDLES) == 28
    assert len(set(HANDLES.values())) == 28
    for name, pointer in HANDLES.items():
        assert ctypes_type(name) is ctypes_type(f"const {name}") is pointer
        assert is_handle(name)
        assert not is_handle(f"{name} *")
        with pytest.raises(TypeError):
            pointer.from_param(1)
    with pytest.raises(TypeError):
        HANDLES["cudnnTensorDescriptor_t"].from_param(HANDLES["cudnnFilterDescriptor_t"]())


@pytest.mark.parametrize(
    ("spelling", "type_"),
    [
        ("void", None),
        ("int", ctypes.c_int),
        ("const int", ctypes.c_int),
        ("size_t", ctypes.c_size_t),
        ("long long int", ctypes.c_longlong),
        ("const void *", ctypes.c_void_p),
        ("void **", ctypes.POINTER(ctypes.c_void_p)),
        ("const float *const *", ctypes.POINTER(ctypes.POINTER(ctypes.c_float))),
        ("const char *", ctypes.c_char_p),
        ("char *", ctypes.POINTER(ctypes.c_char)),
        ("cudnnDataType_t", ctypes.c_int),
        ("cudaDataType_t", ctypes.c_int),
        ("cudnnDataType_t *", ctypes.POINTER(ctypes.c_int)),
        ("cudaStream_t", ctypes.c_void_p),
    ],
)
def test_ctypes_type(spelling, type_):
    assert ctypes_type(spelling) is type_


def test_ctypes_type_of_an_unknown_type():
    with pytest.raises(ValueError, match="no ctypes type for 'cufftHandle'"):
        ctypes_type("const cufftHandle *")


def test_base_and_depth():
    assert base_and_depth("const __half *const *") == ("__half", 2)
    assert is_enum("const cudnnTensorFormat_t")
    assert not is_enum("cudnnTensorFormat_t *")


def test_cublas_pointers_to_numbers_take_device_addresses():
    dot = abi.function_type(abi.prototype("cublas", "cublasSdot_v2"))
    assert [dot._argtypes_[i] for i in (2, 4, 6)] == [ctypes.c_void_p] * 3
    assert dot._argtypes_[0] is HANDLES["cublasHandle_t"]


def test_enum_names():
    assert cudnn_enums.ConvolutionMode.__doc__ == "cudnnConvolutionMode_t"
    assert cudnn_enums.ConvolutionMode.CROSS_CORRELATION == 1
    assert cudnn_enums.ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM == 1
    assert cudnn_enums.ConvolutionBwdFilterAlgo.ALGO_3 == 3
    assert cudnn_enums.ConvolutionBwdFilterAlgo.WINOGRAD_NONFUSED == 5
    assert cudnn_enums.Status.BAD_PARAM == 2000
    assert cudnn_enums.RNNMode.LSTM == 2
    assert cudnn_enums.CUDNN_DIM_MAX == 8
    assert cublas_enums.Operation.T == 1
    assert cublas_enums.ComputeType.COMPUTE_32F == 68
    assert cublas_enums.CudaDataType.R_16BF == 14
    assert cublas_enums.GemmAlgo.DEFAULT == -1
    assert cublaslt_enums.Epilogue.GELU_BIAS == 36
    assert cublaslt_enums.MatmulTile.TILE_8x8 == 1
    assert cublaslt_enums.CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA == 2


def test_every_enum_is_listed_under_its_c_name():
    for module in (cudnn_enums, cublas_enums, cublaslt_enums):
        for c_name, enum in module.ENUMS.items():
            assert enum.__doc__ == c_name
            assert getattr(module, enum.__name__) is enum


def test_e4_replacements_exist_and_removed_functions_do_not():
    table = abi.prototypes("cudnn")
    for removed, replacement in REPLACEMENTS.items():
        assert removed not in table
        assert replacement.split()[-1] in table


def test_every_function_that_cudnn_9_removed_has_a_replacement():
    eight = (Path(__file__).parent / "cudnn_8_functions.txt").read_text().split()
    assert len(eight) == 264  # cuDNN 8.9.7
    gone = set(eight) - set(abi.prototypes("cudnn"))
    assert len(gone) == 55
    # Those of cuDNN 7.6.5 that 8 had already removed.
    gone |= {f"cudnnGetConvolution{noun}Algorithm" for noun in CONVOLUTIONS}
    gone |= {"cudnnSetRNNDescriptor", "cudnnSetRNNDescriptor_v5", "cudnnGetRNNDescriptor"}
    assert set(REPLACEMENTS) == gone
