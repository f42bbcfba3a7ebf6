"""Algorithms of a product: a number and a configuration, which can be read and changed."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_int32, c_uint16, c_uint32, c_uint64
from enum import IntEnum
from typing import Any, NamedTuple

from pycudnn import _core
from pycudnn.abi.cublas_enums import ComputeType
from pycudnn.abi.cublaslt_enums import (
    ClusterShape,
    MatmulAlgoCapAttributes,
    MatmulAlgoConfigAttributes,
    MatmulInnerShape,
    MatmulStages,
    MatmulTile,
    ReductionScheme,
)
from pycudnn.abi.types import STRUCTS
from pycudnn.cublaslt._attributes import known
from pycudnn.cublaslt._types import type_code
from pycudnn.cublaslt.handle import Handle
from pycudnn.cudnn._objects import integer, member, require
from pycudnn.errors import CublasBadParam
from pycudnn.libraries import Library

Cap, Config = MatmulAlgoCapAttributes, MatmulAlgoConfigAttributes
_Algo = STRUCTS["cublasLtMatmulAlgo_t"]

_MOST_IDS = 1000  # more than there are

# Argument of `replace`: attribute, C type, type of the value.
_CONFIG: dict[str, tuple[MatmulAlgoConfigAttributes, Any, Any]] = {
    "tile": (Config.TILE_ID, c_uint32, MatmulTile),
    "stages": (Config.STAGES_ID, c_uint32, MatmulStages),
    "split_k": (Config.SPLITK_NUM, c_int32, int),
    "reduction_scheme": (Config.REDUCTION_SCHEME, c_uint32, ReductionScheme),
    "swizzling": (Config.CTA_SWIZZLING, c_uint32, int),
    "custom_option": (Config.CUSTOM_OPTION, c_uint32, int),
    "inner_shape": (Config.INNER_SHAPE_ID, c_uint16, MatmulInnerShape),
    "cluster_shape": (Config.CLUSTER_SHAPE_ID, c_uint16, ClusterShape),
}
# Capability: attribute, C type.
_CAPABILITIES: dict[str, tuple[MatmulAlgoCapAttributes, Any]] = {
    "split_k": (Cap.SPLITK_SUPPORT, c_int32),
    "reduction_schemes": (Cap.REDUCTION_SCHEME_MASK, c_uint32),
    "swizzling": (Cap.CTA_SWIZZLING_SUPPORT, c_uint32),
    "strided_batch": (Cap.STRIDED_BATCH_SUPPORT, c_int32),
    "pointer_array_batch": (Cap.POINTER_ARRAY_BATCH_SUPPORT, c_int32),
    "out_of_place": (Cap.OUT_OF_PLACE_RESULT_SUPPORT, c_int32),
    "fill_modes": (Cap.UPLO_SUPPORT, c_int32),
    "tiles": (Cap.TILE_IDS, c_uint32),
    "stages": (Cap.STAGES_IDS, c_uint32),
    "custom_option_max": (Cap.CUSTOM_OPTION_MAX, c_int32),
    "custom_memory_order": (Cap.CUSTOM_MEMORY_ORDER, c_int32),
    "pointer_modes": (Cap.POINTER_MODE_MASK, c_uint32),
    "epilogues": (Cap.EPILOGUE_MASK, c_uint32),
    "negative_ld": (Cap.LD_NEGATIVE, c_int32),
    "implementation": (Cap.NUMERICAL_IMPL_FLAGS, c_uint64),
    "min_alignment_a": (Cap.MIN_ALIGNMENT_A_BYTES, c_uint32),
    "min_alignment_b": (Cap.MIN_ALIGNMENT_B_BYTES, c_uint32),
    "min_alignment_c": (Cap.MIN_ALIGNMENT_C_BYTES, c_uint32),
    "min_alignment_d": (Cap.MIN_ALIGNMENT_D_BYTES, c_uint32),
    "emulation": (Cap.FLOATING_POINT_EMULATION_SUPPORT, c_int32),
}

_FLAGS = frozenset(
    "split_k swizzling strided_batch pointer_array_batch out_of_place fill_modes "
    "custom_memory_order negative_ld emulation".split()
)


class AlgorithmCapabilities(NamedTuple):
    """What an algorithm can do (cublasLtMatmulAlgoCapGetAttribute).

    Masks are of ReductionScheme, PointerModeMask, Epilogue and cublasLtNumericalImplFlags_t;
    ``tiles`` and ``stages`` list what there is to choose from. None is what this cublasLt does not
    tell.
    """

    split_k: bool | None
    reduction_schemes: int | None
    swizzling: bool | None
    strided_batch: bool | None
    pointer_array_batch: bool | None
    out_of_place: bool | None
    fill_modes: bool | None
    tiles: tuple[int, ...] | None
    stages: tuple[int, ...] | None
    custom_option_max: int | None
    custom_memory_order: bool | None
    pointer_modes: int | None
    epilogues: int | None
    negative_ld: bool | None
    implementation: int | None
    min_alignment_a: int | None
    min_alignment_b: int | None
    min_alignment_c: int | None
    min_alignment_d: int | None
    emulation: bool | None


def _configured(key: MatmulAlgoConfigAttributes, c_type: Any, kind: Any, text: str) -> Any:
    """A property that reads a part of the configuration back from the library."""

    def read(self: Algorithm) -> Any:
        room = c_type()
        with _core.ColdCall(self.library) as call:
            call(
                "cublasLtMatmulAlgoConfigGetAttribute",
                ctypes.byref(self.struct), key, ctypes.addressof(room), ctypes.sizeof(room), None,
            )  # fmt: skip
        return room.value if kind is int else known(kind)(room.value)

    return property(read, doc=text)


class Algorithm:
    """How a product is computed: a number and a configuration (cublasLtMatmulAlgoInit).

    The types are those of a product, ``id`` a number from ``get_algorithm_ids``. It is not changed
    afterwards: ``replace`` makes another one. ``get_heuristics`` has algorithms that are configured
    for a problem; one that is made here must be, and ``check_algorithm`` says whether it can run.
    """

    def __init__(
        self,
        handle: Handle,
        compute_type: ComputeType,
        scale_type: Any,
        a_type: Any,
        b_type: Any,
        c_type: Any,
        d_type: Any,
        id: int,
    ) -> None:
        types = _types(handle, compute_type, scale_type, a_type, b_type, c_type, d_type)
        number = integer(id, "id", 0)
        struct = _Algo()
        with _core.ColdCall(handle.library, handle) as call:
            call("cublasLtMatmulAlgoInit", handle, *types, number, ctypes.byref(struct))
        self.library: Library = handle.library
        self.struct = struct

    @classmethod
    def _copy(cls, library: Library, struct: Any) -> Algorithm:
        """An algorithm from a cublasLtMatmulAlgo_t that a library has filled (private)."""
        made = cls.__new__(cls)
        made.library = library
        made.struct = _Algo.from_buffer_copy(struct)
        return made

    @property
    def address(self) -> int:
        """Where its cublasLtMatmulAlgo_t lies in host memory, for raw.py."""
        return ctypes.addressof(self.struct)

    def replace(self, **config: Any) -> Algorithm:
        """An algorithm that is configured differently (cublasLtMatmulAlgoConfigSetAttribute).

        ``tile``, ``stages``, ``split_k`` (parts of the sum computed side by side),
        ``reduction_scheme``, ``swizzling`` (0 or 1), ``custom_option``, ``inner_shape``,
        ``cluster_shape``. ``capabilities`` lists what there is.
        """
        made = Algorithm._copy(self.library, self.struct)
        with _core.ColdCall(self.library) as call:
            for name, value in config.items():
                if name not in _CONFIG:
                    raise TypeError(f"replace() has {', '.join(_CONFIG)}, got {name}")
                key, c_type, kind = _CONFIG[name]
                room = c_type(integer(value, name, 0) if kind is int else member(kind, value, name))
                call(
                    "cublasLtMatmulAlgoConfigSetAttribute",
                    ctypes.byref(made.struct), key, ctypes.addressof(room), ctypes.sizeof(room),
                )  # fmt: skip
        return made

    @functools.cached_property
    def capabilities(self) -> AlgorithmCapabilities:
        """What it can do, and what there is to configure."""
        return AlgorithmCapabilities(*(self._capability(name) for name in _CAPABILITIES))

    @functools.cached_property
    def alignments(self) -> dict[str, int]:
        """What the addresses, leading dimensions and strides of A to D must be multiples of."""
        return {name: self._capability(f"min_alignment_{name}") or 1 for name in "abcd"}

    def _capability(self, name: str) -> Any:
        key, c_type = _CAPABILITIES[name]
        written = ctypes.c_size_t()
        function, algo = "cublasLtMatmulAlgoCapGetAttribute", ctypes.byref(self.struct)
        try:
            with _core.ColdCall(self.library) as call:
                call(function, algo, key, None, 0, ctypes.byref(written))
                room = (c_type * (written.value // ctypes.sizeof(c_type)))()
                if written.value:  # some have nothing to choose from
                    call(function, algo, key, ctypes.addressof(room), written.value, None)
        except CublasBadParam:  # newer than the library
            return None
        if name in ("tiles", "stages"):
            return tuple(known(MatmulTile if name == "tiles" else MatmulStages)(i) for i in room)
        return bool(room[0]) if name in _FLAGS else int(room[0])

    id = _configured(Config.ID, c_int32, int, "Its number, by which products are computed alike.")
    tile = _configured(*_CONFIG["tile"], "The part of D that a thread block computes.")
    stages = _configured(*_CONFIG["stages"], "How far ahead operands are loaded.")
    split_k = _configured(*_CONFIG["split_k"], "Parts of the sum computed side by side.")
    reduction_scheme = _configured(*_CONFIG["reduction_scheme"], "How such parts are put together.")
    swizzling = _configured(*_CONFIG["swizzling"], "Do thread blocks take tiles in another order?")
    custom_option = _configured(*_CONFIG["custom_option"], "What only this algorithm has.")
    inner_shape = _configured(*_CONFIG["inner_shape"], "The instruction that computes.")
    cluster_shape = _configured(*_CONFIG["cluster_shape"], "Thread blocks that work together.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Algorithm):
            return NotImplemented
        return self.library is other.library and bytes(self.struct) == bytes(other.struct)

    def __hash__(self) -> int:
        return hash(bytes(self.struct))

    def __repr__(self) -> str:
        texts = [f"id={self.id}"]
        for name in _CONFIG:
            value = getattr(self, name)
            texts.append(f"{name}={value.name if isinstance(value, IntEnum) else value}")
        return f"Algorithm({', '.join(texts)})"


def get_algorithm_ids(
    handle: Handle,
    compute_type: ComputeType,
    scale_type: Any,
    a_type: Any,
    b_type: Any,
    c_type: Any,
    d_type: Any,
    requested: int = _MOST_IDS,
) -> list[int]:
    """The numbers of the algorithms for products of these types (cublasLtMatmulAlgoGetIds)."""
    types = _types(handle, compute_type, scale_type, a_type, b_type, c_type, d_type)
    ids = (ctypes.c_int * integer(requested, "requested", 1, _MOST_IDS))()
    count = ctypes.c_int()
    with _core.ColdCall(handle.library, handle) as call:
        call("cublasLtMatmulAlgoGetIds", handle, *types, len(ids), ids, ctypes.byref(count))
    return list(ids[: count.value])


def _types(handle: Handle, compute_type: Any, *types: Any) -> tuple[int, ...]:
    require(handle, Handle, "handle")
    names = ("scale_type", "a_type", "b_type", "c_type", "d_type")
    codes = (type_code(value, name) for value, name in zip(types, names, strict=True))
    return (member(ComputeType, compute_type, "compute_type"), *codes)
