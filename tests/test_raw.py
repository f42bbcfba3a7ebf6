"""raw: names, argument checks and statuses."""

from __future__ import annotations

import ctypes
import inspect
import signal
import threading
from ctypes import byref

import numpy as np
import pytest

from pycudnn import abi, loader, raw, reference
from pycudnn.abi import cudnn_enums as e
from pycudnn.abi.removed import REPLACEMENTS
from pycudnn.abi.types import ctypes_type, is_handle
from pycudnn.errors import FunctionNotFound
from pycudnn.libraries import get_library

SUCCESS, BAD_PARAM = e.Status.SUCCESS, e.Status.BAD_PARAM
FLOAT, NCHW = int(e.DataType.FLOAT), int(e.TensorFormat.NCHW)


@pytest.fixture
def functions(library):
    """The C functions of the real library and of the reference one."""
    return raw.bind(library)


def create(functions, kind: str, *arguments):
    """A descriptor made by cudnnCreate<kind>Descriptor and, with arguments, set by Set<kind>."""
    descriptor = getattr(functions, f"cudnn{kind}Descriptor_t")()
    assert getattr(functions, f"cudnnCreate{kind}Descriptor")(byref(descriptor)) is SUCCESS
    if arguments:
        setter, *values = arguments
        assert getattr(functions, setter)(descriptor, *values) is SUCCESS
    return descriptor


def ints(*values: int) -> ctypes.Array:
    return (ctypes.c_int * len(values))(*values)


def test_every_function_has_its_name():
    names = set(dir(raw))
    assert names >= set(abi.prototypes("cudnn"))
    assert names >= set(abi.prototypes("cublas"))
    for name in (*abi.prototypes("cudnn"), *abi.prototypes("cublas"), *abi.prototypes("cublaslt")):
        assert getattr(raw, name).__name__ == name


def test_help_shows_the_c_prototype():
    function = raw.cudnnSetTensor4dDescriptor
    assert str(abi.prototype("cudnn", "cudnnSetTensor4dDescriptor")) in inspect.getdoc(function)
    assert "Declared in cudnn_ops.h, first seen in cuDNN 9.0.0." in inspect.getdoc(function)
    assert list(inspect.signature(function).parameters) == [
        "tensorDesc",
        "format",
        "dataType",
        "n",
        "c",
        "h",
        "w",
    ]


def test_short_cublas_names_mean_the_symbols_of_cublas_v2():
    assert raw.cublasSgemm is raw.cublasSgemm_v2
    assert raw.cublasSgemm_64 is raw.cublasSgemm_v2_64
    assert raw.cublasCreate is raw.cublasCreate_v2
    assert raw.cublasGemmEx.__name__ == "cublasGemmEx"


def test_c_types_are_here():
    assert raw.cudnnDataType_t.FLOAT == 0
    assert raw.cudnnTensorDescriptor_t is ctypes_type("cudnnTensorDescriptor_t")
    assert ctypes.sizeof(raw.cudnnConvolutionFwdAlgoPerf_t) == 48


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match="did you mean cudnnCreate"):
        raw.cudnnCreat  # noqa: B018
    with pytest.raises(AttributeError, match="neither a C function nor a C type"):
        raw.cufftPlan1d  # noqa: B018
    assert not hasattr(raw, "__wrapped__")


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_e4_removed_function_names_its_replacement(name):
    with pytest.raises(FunctionNotFound) as caught:
        getattr(raw, name)
    assert str(caught.value) == f"{name} is not in cuDNN 9.x; use {REPLACEMENTS[name]}"


def test_bind_a_library_object():
    functions = raw.bind(get_library("cudnn", "reference"))
    assert functions.cudnnGetVersion() == get_library("cudnn", "reference").version
    with pytest.raises(AttributeError, match="cublasCreate"):
        functions.cublasCreate  # noqa: B018
    assert "cublasCreate_v2" not in dir(functions)
    assert "cudnnCreate" in dir(functions)


def test_function_that_the_library_lacks():
    lacking = next(
        proto
        for proto in abi.prototypes("cudnn").values()
        if reference.address("cudnn", proto.name) is None
    )
    function = getattr(raw.reference, lacking.name)  # the name is there, the call fails
    with pytest.raises(FunctionNotFound, match=lacking.name):
        function(*[None] * len(lacking.arguments))


def test_status_comes_back_and_raises_nothing(functions):
    tensor = create(functions, "Tensor")
    good = functions.cudnnSetTensor4dDescriptor(tensor, e.TensorFormat.NCHW, 0, 2, 3, 4, 5)
    bad = functions.cudnnSetTensor4dDescriptor(tensor, e.TensorFormat.NCHW, 0, 2, -3, 4, 5)
    assert (good, bad) == (SUCCESS, BAD_PARAM)
    assert type(good) is type(bad) is e.Status
    assert functions.cudnnSetTensor4dDescriptor(None, 0, 0, 2, 3, 4, 5) is BAD_PARAM
    assert functions.cudnnDestroyTensorDescriptor(tensor) is SUCCESS


def test_strings_and_numbers_come_back_as_such(functions):
    assert functions.cudnnGetErrorString(2000) == "CUDNN_STATUS_BAD_PARAM"
    assert functions.cudnnGetVersion() // 10000 == 9


def test_interrupt_during_a_reference_call_reaches_the_caller():
    # A shell starts what runs in its background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    functions = raw.reference
    handle = raw.cudnnHandle_t()
    assert functions.cudnnCreate(byref(handle)) is SUCCESS
    size = 5_000_000
    tensor = create(functions, "Tensor", "cudnnSetTensor4dDescriptor", NCHW, FLOAT, 1, 1, 1, size)
    values = np.zeros(size, np.float32)
    one = ctypes.c_float(1.0)
    arguments = (handle, tensor, values.ctypes.data, byref(one))

    def scale_on_and_on():
        for _ in range(5000):  # far longer than the timer, which fires inside a call
            assert functions.cudnnScaleTensor(*arguments) is SUCCESS

    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            scale_on_and_on()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert functions.cudnnScaleTensor(*arguments) is SUCCESS
    functions.cudnnDestroyTensorDescriptor(tensor)
    functions.cudnnDestroy(handle)


def test_descriptor_of_another_type_is_a_type_error(functions):
    tensor, filter_ = create(functions, "Tensor"), create(functions, "Filter")
    with pytest.raises(TypeError, match="tensorDesc must be cudnnTensorDescriptor_t, got .*Filter"):
        functions.cudnnSetTensor4dDescriptor(filter_, 0, 0, 2, 3, 4, 5)
    with pytest.raises(TypeError, match="filterDesc must be const cudnnFilterDescriptor_t"):
        functions.cudnnGetFilterSizeInBytes(tensor, byref(ctypes.c_size_t()))
    for wrong in (1, b"bytes", "text", ctypes.c_void_p(1), byref(tensor)):
        with pytest.raises(TypeError, match="tensorDesc must be cudnnTensorDescriptor_t"):
            functions.cudnnSetTensor4dDescriptor(wrong, 0, 0, 2, 3, 4, 5)
    functions.cudnnDestroyTensorDescriptor(tensor)
    functions.cudnnDestroyFilterDescriptor(filter_)


def test_every_function_refuses_the_wrong_handle():
    wrong = raw.cudnnFusedOpsPlan_t()
    checked = 0
    for library in ("cudnn", "cublas", "cublaslt"):
        for proto in abi.prototypes(library).values():
            type_ = abi.function_type(proto)
            for position, argument in enumerate(proto.arguments):
                if is_handle(argument.type) and "FusedOpsPlan" not in argument.type:
                    with pytest.raises(TypeError):
                        type_._argtypes_[position].from_param(wrong)
                    checked += 1
    assert checked > 1000


@pytest.mark.parametrize("count", [6, 8])
def test_wrong_number_of_arguments(functions, count):
    with pytest.raises(TypeError, match=f"{count} arguments given, .* takes 7"):
        functions.cudnnSetTensor4dDescriptor(*[0] * count)


@pytest.mark.library
def test_cublas_properties_of_the_real_library():
    value = ctypes.c_int()
    assert raw.cublasGetProperty(0, byref(value)).name == "SUCCESS"
    assert value.value in (12, 13)
    assert raw.cublasGetStatusName(7) == "CUBLAS_STATUS_INVALID_VALUE"
    assert type(raw.cublasGetProperty(0, byref(value))).__doc__ == "cublasStatus_t"


@pytest.mark.library
def test_cublaslt_descriptors_in_memory_of_the_caller():
    layout = raw.cublasLtMatrixLayoutOpaque_t()
    kind = raw.cudaDataType.R_32F
    assert raw.cublasLtMatrixLayoutInit(ctypes.byref(layout), kind, 5, 7, 6) == 0
    for attribute, expected in (("ROWS", 5), ("COLS", 7), ("LD", 6)):
        value, written = ctypes.c_int64(), ctypes.c_size_t()
        status = raw.cublasLtMatrixLayoutGetAttribute(
            ctypes.byref(layout),
            raw.cublasLtMatrixLayoutAttribute_t[f"MATRIX_LAYOUT_{attribute}"],
            ctypes.byref(value),
            ctypes.sizeof(value),
            ctypes.byref(written),
        )
        assert (status, value.value, written.value) == (0, expected, 8)
    with pytest.raises(TypeError, match=r"2 arguments given, cublasStatus_t cublasLtMatrixLayout"):
        raw.cublasLtMatrixLayoutInit(ctypes.byref(layout), kind)
    with pytest.raises(TypeError, match="matLayout must be cublasLtMatrixLayout_t"):
        raw.cublasLtMatrixLayoutInit(raw.cublasLtMatmulDesc_t(), kind, 5, 7, 6)
    assert raw.cublasLtGetStatusName(7) == "CUBLAS_STATUS_INVALID_VALUE"
    assert "first seen in cublasLt 12.0.2" in raw.cublasLtMatrixLayoutInit.__doc__
    assert "cublasLtMatmulDescInit" in dir(raw)


@pytest.mark.library
def test_declared_function_that_no_cublaslt_exports():
    with pytest.raises(FunctionNotFound, match="cublasLtDisableCpuInstructionsSetMask is declared"):
        raw.cublasLtDisableCpuInstructionsSetMask(0)


@pytest.mark.library
@pytest.mark.parametrize("name", ["cudnn", "cublas", "cublaslt"])
def test_e4_function_of_a_newer_version_says_which_has_it(name):
    library = get_library(name, "cuda")
    for proto in abi.prototypes(name).values():
        if loader.version_number(proto.since) > library.version:
            text = f"{proto.name} needs {loader.TITLES[name]} {proto.since} or newer"
            with pytest.raises(FunctionNotFound, match=text):
                library.function(proto.name)
        elif proto.name != "cublasLtDisableCpuInstructionsSetMask":
            assert library.address(proto.name)
