"""Algorithms of a product: here there is one, of number 0, which needs no workspace.

A cublasLtMatmulAlgo_t lies in the caller's memory: its configuration, and a mark that says it was
initialised.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_uint16, c_uint32, c_uint64
from typing import Any

from pycudnn.abi.cublas_enums import Status as CublasStatus
from pycudnn.abi.cublaslt_enums import (
    Epilogue,
    MatmulAlgoCapAttributes,
    MatmulAlgoConfigAttributes,
    MatmulPreferenceAttributes,
    MatmulSearch,
)

from ..cublas.storage import invalid, not_supported, write
from ..runtime import implements
from .attributes import MatmulDesc, MatmulPreference, MatrixLayout, read_value, write_values
from .library import LtHandle
from .matmul import check_types, read_problem

Cap, Config = MatmulAlgoCapAttributes, MatmulAlgoConfigAttributes

ID = 0
_MARK = 0x5245464552454E43
_ALL_POINTER_MODES = 0b11111


class Algo(ctypes.Structure):
    """A cublasLtMatmulAlgo_t of the reference library, 64 bytes."""

    _fields_ = [
        ("mark", c_uint64),
        ("id", c_int32),
        ("tile", c_uint32),
        ("split_k", c_int32),
        ("reduction", c_uint32),
        ("swizzling", c_uint32),
        ("custom", c_uint32),
        ("stages", c_uint32),
        ("inner_shape", c_uint16),
        ("cluster_shape", c_uint16),
        ("unused", c_uint64 * 3),
    ]


class Result(ctypes.Structure):
    """A cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algo", Algo),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


_FIELDS: dict[int, tuple[str, Any]] = {
    Config.ID: ("id", c_int32),
    Config.TILE_ID: ("tile", c_uint32),
    Config.SPLITK_NUM: ("split_k", c_int32),
    Config.REDUCTION_SCHEME: ("reduction", c_uint32),
    Config.CTA_SWIZZLING: ("swizzling", c_uint32),
    Config.CUSTOM_OPTION: ("custom", c_uint32),
    Config.STAGES_ID: ("stages", c_uint32),
    Config.INNER_SHAPE_ID: ("inner_shape", c_uint16),
    Config.CLUSTER_SHAPE_ID: ("cluster_shape", c_uint16),
}
_EVERY_EPILOGUE = 0
for _epilogue in Epilogue:
    _EVERY_EPILOGUE |= _epilogue
_CAPABILITIES: dict[int, tuple[Any, list[int]]] = {
    Cap.SPLITK_SUPPORT: (c_int32, [0]),
    Cap.REDUCTION_SCHEME_MASK: (c_uint32, [0]),
    Cap.CTA_SWIZZLING_SUPPORT: (c_uint32, [0]),
    Cap.STRIDED_BATCH_SUPPORT: (c_int32, [1]),
    Cap.OUT_OF_PLACE_RESULT_SUPPORT: (c_int32, [1]),
    Cap.UPLO_SUPPORT: (c_int32, [0]),
    Cap.TILE_IDS: (c_uint32, [0]),
    Cap.CUSTOM_OPTION_MAX: (c_int32, [0]),
    Cap.CUSTOM_MEMORY_ORDER: (c_int32, [0]),
    Cap.POINTER_MODE_MASK: (c_uint32, [_ALL_POINTER_MODES]),
    Cap.EPILOGUE_MASK: (c_uint32, [_EVERY_EPILOGUE]),
    Cap.STAGES_IDS: (c_uint32, [0]),
    Cap.LD_NEGATIVE: (c_int32, [0]),
    Cap.NUMERICAL_IMPL_FLAGS: (c_uint64, [1]),  # fused multiply-add: no tensor cores
    Cap.MIN_ALIGNMENT_A_BYTES: (c_uint32, [1]),
    Cap.MIN_ALIGNMENT_B_BYTES: (c_uint32, [1]),
    Cap.MIN_ALIGNMENT_C_BYTES: (c_uint32, [1]),
    Cap.MIN_ALIGNMENT_D_BYTES: (c_uint32, [1]),
    Cap.POINTER_ARRAY_BATCH_SUPPORT: (c_int32, [1]),
    Cap.FLOATING_POINT_EMULATION_SUPPORT: (c_int32, [0]),
    Cap.POINTER_ARRAY_GROUPED_SUPPORT: (c_int32, [0]),
}


def _algo(address: int) -> Algo:
    if not address:
        raise invalid("algo is NULL")
    return Algo.from_address(address)


def _check_request(count: int, array: int, out: int) -> None:
    if count <= 0 or not array or not out:
        raise invalid(f"{count} algorithms requested, or an array is NULL")


@implements("cublasLtMatmulAlgoGetIds")
def algo_get_ids(
    handle: LtHandle,
    compute: int,
    scale: int,
    a: int,
    b: int,
    c: int,
    d: int,
    requested: int,
    ids: int,
    count: int,
) -> None:
    """The numbers of the algorithms for products of these types."""
    _check_request(requested, ids, count)
    check_types(compute, scale, a, b, c, d)
    write(ids, c_int32, ID)
    write(count, c_int32, 1)


@implements("cublasLtMatmulAlgoInit")
def algo_init(
    handle: LtHandle,
    compute: int,
    scale: int,
    a: int,
    b: int,
    c: int,
    d: int,
    algo_id: int,
    algo: int,
) -> None:
    """The algorithm of a number, in its first configuration."""
    target = _algo(algo)
    if algo_id != ID:
        raise invalid(f"algoId is {algo_id}, must be {ID}")
    check_types(compute, scale, a, b, c, d)
    _initialise(target)


def _initialise(algo: Algo) -> None:
    ctypes.memset(ctypes.addressof(algo), 0, ctypes.sizeof(algo))
    algo.mark, algo.id, algo.split_k = _MARK, ID, 1


@implements("cublasLtMatmulAlgoCapGetAttribute")
def algo_cap_get_attribute(algo: int, attribute: int, buffer: int, size: int, written: int) -> None:
    """What the algorithm can do."""
    if _algo(algo).mark != _MARK or attribute not in _CAPABILITIES:
        raise invalid(f"attribute {attribute} of an algo: not initialised, or no such number")
    c_type, values = _CAPABILITIES[attribute]
    write_values(c_type, values, buffer, size, written)


@implements("cublasLtMatmulAlgoConfigSetAttribute")
def algo_config_set_attribute(algo: int, attribute: int, buffer: int, size: int) -> None:
    """Configure the algorithm; its number stays."""
    target = _algo(algo)
    if attribute not in _FIELDS or attribute == Config.ID:
        raise invalid(f"attribute {attribute} cannot be set")
    name, c_type = _FIELDS[attribute]
    setattr(target, name, read_value(c_type, buffer, size))


@implements("cublasLtMatmulAlgoConfigGetAttribute")
def algo_config_get_attribute(
    algo: int, attribute: int, buffer: int, size: int, written: int
) -> None:
    """What was configured."""
    target = _algo(algo)
    if attribute not in _FIELDS:
        raise invalid(f"attribute {attribute}: there is none of that number")
    name, c_type = _FIELDS[attribute]
    write_values(c_type, [getattr(target, name)], buffer, size, written)


@implements("cublasLtMatmulAlgoGetHeuristic")
def algo_get_heuristic(
    handle: LtHandle,
    desc: MatmulDesc,
    a: MatrixLayout,
    b: MatrixLayout,
    c: MatrixLayout,
    d: MatrixLayout,
    preference: MatmulPreference,
    requested: int,
    results: int,
    count: int,
) -> None:
    """The algorithms for a product, the fastest first."""
    _check_request(requested, results, count)
    write(count, c_int32, 0)
    read_problem(desc, a, b, c, d)
    result = Result.from_address(results)
    mode = preference[MatmulPreferenceAttributes.SEARCH_MODE]
    if mode == MatmulSearch.LIMITED_BY_ALGO_ID and result.algo.mark != _MARK:
        raise invalid("the search is limited to an algorithm that is not initialised")
    _initialise(result.algo)
    _report(result)
    write(count, c_int32, 1)


@implements("cublasLtMatmulAlgoGetHeuristicForStream")
def algo_get_heuristic_for_stream(
    handle: LtHandle,
    desc: MatmulDesc,
    a: MatrixLayout,
    b: MatrixLayout,
    c: MatrixLayout,
    d: MatrixLayout,
    preference: MatmulPreference,
    requested: int,
    results: int,
    count: int,
    stream: int,
) -> None:
    """The same for a stream."""
    algo_get_heuristic(handle, desc, a, b, c, d, preference, requested, results, count)


def _report(result: Result) -> None:
    result.workspace, result.state, result.waves = 0, CublasStatus.SUCCESS, 0.0


def check_algo(address: int) -> None:
    """NOT_SUPPORTED for a configuration that the algorithm does not have."""
    algo = _algo(address)
    if algo.mark != _MARK:
        raise invalid("algo is not initialised")
    others = (algo.tile, algo.reduction, algo.swizzling, algo.custom, algo.stages)
    if algo.split_k != 1 or any(others) or algo.inner_shape or algo.cluster_shape:
        raise not_supported("the one algorithm has the one configuration that it starts with")


@implements("cublasLtMatmulAlgoCheck")
def algo_check(
    handle: LtHandle,
    desc: MatmulDesc,
    a: MatrixLayout,
    b: MatrixLayout,
    c: MatrixLayout,
    d: MatrixLayout,
    algo: int,
    result: int,
) -> None:
    """Whether a configured algorithm can compute a product, and what it needs for it."""
    if not result:
        raise invalid("result is NULL")
    check_algo(algo)
    read_problem(desc, a, b, c, d)
    _report(Result.from_address(result))


@implements("cublasLtMatmulAlgoCheckForStream")
def algo_check_for_stream(
    handle: LtHandle,
    desc: MatmulDesc,
    a: MatrixLayout,
    b: MatrixLayout,
    c: MatrixLayout,
    d: MatrixLayout,
    algo: int,
    result: int,
    stream: int,
) -> None:
    """The same for a stream."""
    algo_check(handle, desc, a, b, c, d, algo, result)
