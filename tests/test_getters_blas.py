"""E3: every getter of cuBLAS and cublasLt writes its out-parameters, between canaries, alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from canaries import CANARY, Call, Canaries, check_getter, check_lacking

from pycudnn import CudaContext, abi, empty, raw
from pycudnn.abi import cublas_enums as e
from pycudnn.abi import cublaslt_enums as lt
from pycudnn.libraries import get_library

FLOAT, COMPUTE = 0, int(e.ComputeType.COMPUTE_32F)


def blas(context: CudaContext) -> Any:
    return ctypes.cast(context.cublas.address, raw.cublasHandle_t)


def light(context: CudaContext) -> Any:
    return ctypes.cast(context.cublaslt.address, raw.cublasLtHandle_t)


def getters(library: str) -> set[str]:
    return {
        name
        for name, prototype in abi.prototypes(library).items()
        if "Get" in name and any("*" in argument.type for argument in prototype.arguments)
    }


# ---- cuBLAS --------------------------------------------------------------------------------------

# What each setting of a new handle is; None: not known, but written.
SETTINGS: dict[str, Any] = {
    "cublasGetVersion_v2": None,
    "cublasGetStream_v2": None,
    "cublasGetPointerMode_v2": 0,
    "cublasGetAtomicsMode": 0,
    "cublasGetMathMode": 0,
    "cublasGetSmCountTarget": 0,
    "cublasGetEmulationStrategy": 0,
    "cublasGetEmulationSpecialValuesSupport": 0xFFFF,
    "cublasGetFixedPointEmulationMantissaControl": 0,
    "cublasGetFixedPointEmulationMaxMantissaBitCount": 0,
    "cublasGetFixedPointEmulationMantissaBitOffset": 0,
    "cublasGetFixedPointEmulationMantissaBitCountPointer": None,
}
WITHOUT_HANDLE = {"cublasGetProperty", "cublasGetLoggerCallback"}
COPIES = {
    f"cublasGet{what}{form}" for what in ("Vector", "Matrix", "VectorAsync", "MatrixAsync")
    for form in ("", "_64")
}  # fmt: skip


def test_every_getter_of_cublas_is_here():
    assert getters("cublas") == {*SETTINGS, *WITHOUT_HANDLE, *COPIES}


def lacks(functions: raw.Functions, backend: str, name: str) -> bool:
    version = get_library(abi.library_of(name), backend).version
    return check_lacking(functions, name, version)


@pytest.mark.parametrize("name", SETTINGS)
def test_e3_settings_of_a_cublas_handle(context, name):
    backend = context.device.backend
    functions = raw.bind(backend)
    if not lacks(functions, backend, name):
        value = SETTINGS[name]
        expected = None if value is None else [value]
        check_getter(functions, name, Call({"handle": blas(context)}, expected=expected))


def test_e3_getters_of_cublas_without_a_handle(library):
    functions = raw.bind(library)
    major = get_library("cublas", library).version // 10000
    check_getter(functions, "cublasGetProperty", Call({"type": 0}, expected=[major]))
    check_getter(functions, "cublasGetLoggerCallback", Call({}))


@pytest.mark.parametrize("name", sorted(COPIES))
def test_e3_copies_to_the_host_leave_the_gaps(context, name):
    """Columns with gaps, a vector with an increment: what lies between stays as it was."""
    device, stream = context.device, context.stream
    functions = raw.bind(device.backend)
    source = empty(64, "uint8", device, stream)
    source.fill_bytes(7, stream)
    canaries = Canaries({"there": ctypes.c_uint8 * 48})
    there = np.frombuffer(canaries.values["there"], np.uint8)
    pointer = ctypes.cast(canaries.values["there"], ctypes.c_void_p)
    end = (ctypes.cast(stream.handle, ctypes.c_void_p),) if "Async" in name else ()
    wanted = np.full(48, CANARY, np.uint8)
    stream.synchronize()
    if "Vector" in name:
        arguments = (4, 4, source.address, 2, pointer, 3, *end)
        for element in range(4):
            wanted[12 * element : 12 * element + 4] = 7
    else:
        arguments = (2, 3, 4, source.address, 2, pointer, 4, *end)
        for column in range(3):
            wanted[16 * column : 16 * column + 8] = 7
    with device.activate():
        assert getattr(functions, name)(*arguments) is e.Status.SUCCESS
    stream.synchronize()
    np.testing.assert_array_equal(there, wanted)
    assert canaries.intact


# ---- cublasLt ------------------------------------------------------------------------------------


class Kind:
    """A kind of object with attributes, by the name of its getter."""

    def __init__(
        self, attributes: type[IntEnum], first: str, make: Callable[[raw.Functions], Any]
    ) -> None:
        self.attributes = attributes
        self.first = first  # name of the getter's first parameter
        self.make = make


def descriptor(noun: str, *created_from: Any) -> Callable[[raw.Functions], Any]:
    def make(functions: raw.Functions) -> Any:
        made = getattr(raw, f"cublasLt{noun}_t")()
        assert getattr(functions, f"cublasLt{noun}Create")(byref(made), *created_from) == 0
        return made

    return make


KINDS = {
    "MatrixLayout": Kind(
        lt.MatrixLayoutAttribute, "matLayout", descriptor("MatrixLayout", FLOAT, 3, 5, 3)
    ),
    "MatmulDesc": Kind(
        lt.MatmulDescAttributes, "matmulDesc", descriptor("MatmulDesc", COMPUTE, FLOAT)
    ),
    "MatrixTransformDesc": Kind(
        lt.MatrixTransformDescAttributes, "transformDesc", descriptor("MatrixTransformDesc", FLOAT)
    ),
    "EmulationDesc": Kind(lt.EmulationDescAttributes, "emulationDesc", descriptor("EmulationDesc")),
    "MatmulPreference": Kind(
        lt.MatmulPreferenceAttributes, "pref", descriptor("MatmulPreference")
    ),
}
ALGORITHM = {
    "MatmulAlgoCap": lt.MatmulAlgoCapAttributes,
    "MatmulAlgoConfig": lt.MatmulAlgoConfigAttributes,
}
FREE = {"cublasLtGetProperty", "cublasLtHeuristicsCacheGetCapacity"}
SEARCHES = {
    "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoGetHeuristicForStream",
    "cublasLtMatmulAlgoGetIds",
}  # fmt: skip


def test_every_getter_of_cublaslt_is_here():
    attributes = {f"cublasLt{kind}GetAttribute" for kind in (*KINDS, *ALGORITHM)}
    assert getters("cublaslt") == attributes | FREE | SEARCHES


def check_attributes(
    functions: raw.Functions, name: str, first: str, owner: Any, attributes: type[IntEnum]
) -> set[IntEnum]:
    """Read every attribute in room of its size, less and more; those that the library knows."""
    known = set()
    function = getattr(functions, name)
    for attribute in attributes:
        written = ctypes.c_size_t()
        if function(owner, attribute, None, 0, byref(written)) is not e.Status.SUCCESS:
            continue
        known.add(attribute)
        size = written.value
        if size == 0:  # a list of nothing
            continue
        assert size <= 1024, attribute.name
        exact = {first: owner, "attr": attribute, "sizeInBytes": size}
        check_getter(functions, name, Call(exact, {"buf": ctypes.c_uint8 * size}))
        for room in (size - 1, size + 8):
            canaries = Canaries({"buf": ctypes.c_uint8 * max(room, 1), "size": ctypes.c_size_t})
            pointers = canaries.pointers
            function(owner, attribute, pointers["buf"], room, pointers["size"])
            assert canaries.intact, f"{attribute.name}, {room} bytes for {size}"
            assert room > size or "buf" not in canaries.written, attribute.name
    return known


@pytest.mark.parametrize("kind", KINDS)
def test_e3_attributes_of_cublaslt_descriptors(library, kind):
    functions = raw.bind(library)
    create = f"cublasLt{kind}Create"
    if create in abi.prototypes("cublaslt") and lacks(functions, library, create):
        return
    made = KINDS[kind].make(functions)
    try:
        known = check_attributes(
            functions, f"cublasLt{kind}GetAttribute", KINDS[kind].first, made,
            KINDS[kind].attributes,
        )  # fmt: skip
    finally:
        getattr(functions, f"cublasLt{kind}Destroy")(made)
    newest = get_library("cublaslt", "reference").version
    if get_library("cublaslt", library).version >= newest:
        assert known == set(KINDS[kind].attributes)
    assert len(known) >= 4


@pytest.mark.parametrize("kind", ALGORITHM)
def test_e3_attributes_of_cublaslt_algorithms(context, kind):
    functions = raw.bind(context.device.backend)
    number, count = ctypes.c_int(), ctypes.c_int()
    types = (COMPUTE, *[FLOAT] * 5)
    handle = light(context)
    assert functions.cublasLtMatmulAlgoGetIds(handle, *types, 1, byref(number), byref(count)) == 0
    algorithm = raw.cublasLtMatmulAlgo_t()
    assert functions.cublasLtMatmulAlgoInit(handle, *types, number, byref(algorithm)) == 0
    name = f"cublasLt{kind}GetAttribute"
    known = check_attributes(functions, name, "algo", byref(algorithm), ALGORITHM[kind])
    assert len(known) >= 6


def test_e3_getters_of_cublaslt_without_a_handle(library):
    functions = raw.bind(library)
    major = get_library("cublaslt", library).version // 10000
    check_getter(functions, "cublasLtGetProperty", Call({"type": 0}, expected=[major]))
    check_getter(functions, "cublasLtHeuristicsCacheGetCapacity", Call({}))


@pytest.mark.parametrize("asked", [1, 3])
def test_e3_numbers_of_algorithms(context, asked):
    functions = raw.bind(context.device.backend)
    types = dict.fromkeys(("scaleType", "Atype", "Btype", "Ctype", "Dtype"), FLOAT)
    inputs = {"lightHandle": light(context), "computeType": COMPUTE, "requestedAlgoCount": asked}
    call = Call(inputs | types, {"algoIdsArray": ctypes.c_int * asked})
    check_getter(functions, "cublasLtMatmulAlgoGetIds", call)


@pytest.mark.parametrize("name", sorted(SEARCHES - {"cublasLtMatmulAlgoGetIds"}))
def test_e3_heuristics(context, name):
    backend = context.device.backend
    functions = raw.bind(backend)
    if lacks(functions, backend, name):
        return
    made = {
        "operationDesc": ("MatmulDesc", KINDS["MatmulDesc"].make(functions)),
        "preference": ("MatmulPreference", KINDS["MatmulPreference"].make(functions)),
    }
    for operand, shape in (("A", (8, 16)), ("B", (16, 4)), ("C", (8, 4)), ("D", (8, 4))):
        layout = descriptor("MatrixLayout", FLOAT, *shape, shape[0])(functions)
        made[f"{operand}desc"] = ("MatrixLayout", layout)
    inputs = {"lightHandle": light(context), "requestedAlgoCount": 1}
    inputs |= {key: value for key, (_, value) in made.items()}
    if name.endswith("ForStream"):
        inputs["stream"] = ctypes.cast(context.stream.handle, ctypes.c_void_p)
    record = raw.cublasLtMatmulHeuristicResult_t * 1
    try:
        check_getter(functions, name, Call(inputs, {"heuristicResultsArray": record}))
    finally:
        for noun, value in made.values():
            getattr(functions, f"cublasLt{noun}Destroy")(value)
