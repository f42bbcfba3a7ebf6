"""What a product computes: types, operations, and what follows it."""

from __future__ import annotations

import math
from ctypes import c_int8, c_int32, c_int64, c_uint32, c_uint64
from typing import Any, NamedTuple

from pycudnn.abi.cublas_enums import ComputeType, CudaDataType, Operation
from pycudnn.abi.cublaslt_enums import (
    Epilogue,
    MatmulBatchInvarianceFlags,
    MatmulDescAttributes,
    MatmulMatrixScale,
    PointerMode,
)
from pycudnn.cublaslt._attributes import Attribute, Descriptor, attribute, known
from pycudnn.cublaslt._epilogues import Parts, parts_of
from pycudnn.cublaslt._memory import Memory, take
from pycudnn.cublaslt._types import FLOAT32, FLOATS, UINT8, Element, scale_type_of, type_code
from pycudnn.cublaslt.emulation import EmulationDescriptor
from pycudnn.cudnn._objects import LONG_MAX, integer, member, require
from pycudnn.errors import LibraryMismatch
from pycudnn.libraries import Library, find_library
from pycudnn.settings import config

A = MatmulDescAttributes
_COMPUTE_TYPE = Attribute(A.COMPUTE_TYPE, c_int32)
_SCALE_TYPE = Attribute(A.SCALE_TYPE, c_int32)
_POINTER_MODE = Attribute(A.POINTER_MODE, c_int32, PointerMode.HOST)
_TRANSA = Attribute(A.TRANSA, c_int32, Operation.N)
_TRANSB = Attribute(A.TRANSB, c_int32, Operation.N)
_EPILOGUE = Attribute(A.EPILOGUE, c_uint32, Epilogue.DEFAULT)
_BIAS_STRIDE = Attribute(A.BIAS_BATCH_STRIDE, c_int64)
_BIAS_TYPE = Attribute(A.BIAS_DATA_TYPE, c_int32, -1)
_AUX_LD = Attribute(A.EPILOGUE_AUX_LD, c_int64)
_AUX_STRIDE = Attribute(A.EPILOGUE_AUX_BATCH_STRIDE, c_int64)
_AUX_TYPE = Attribute(A.EPILOGUE_AUX_DATA_TYPE, c_int32, -1)
_ALPHA_STRIDE = Attribute(A.ALPHA_VECTOR_BATCH_STRIDE, c_int64)
_SM_COUNT = Attribute(A.SM_COUNT_TARGET, c_int32)
_FAST_ACCUM = Attribute(A.FAST_ACCUM, c_int8)
_A_SCALE_MODE = Attribute(A.A_SCALE_MODE, c_int32, MatmulMatrixScale.SCALAR_32F)
_B_SCALE_MODE = Attribute(A.B_SCALE_MODE, c_int32, MatmulMatrixScale.SCALAR_32F)
_EMULATION = Attribute(A.EMULATION_DESCRIPTOR, c_uint64)
_INVARIANCE = Attribute(A.BATCH_INVARIANCE_FLAGS, c_uint32, MatmulBatchInvarianceFlags.UNSET)
_POINTERS = {
    "bias": Attribute(A.BIAS_POINTER, c_uint64),
    "aux": Attribute(A.EPILOGUE_AUX_POINTER, c_uint64),
    "a_scale": Attribute(A.A_SCALE_POINTER, c_uint64),
    "b_scale": Attribute(A.B_SCALE_POINTER, c_uint64),
    "c_scale": Attribute(A.C_SCALE_POINTER, c_uint64),
    "d_scale": Attribute(A.D_SCALE_POINTER, c_uint64),
    "aux_scale": Attribute(A.EPILOGUE_AUX_SCALE_POINTER, c_uint64),
    "amax_d": Attribute(A.AMAX_D_POINTER, c_uint64),
    "amax_aux": Attribute(A.EPILOGUE_AUX_AMAX_POINTER, c_uint64),
}
# The others scale blocks of elements, in layouts of their own that cannot be checked here.
_SCALE_MODES = (MatmulMatrixScale.SCALAR_32F, MatmulMatrixScale.OUTER_VEC_32F)
_OPERATIONS = (Operation.N, Operation.T, Operation.C)


class Plan(NamedTuple):
    """What a call needs to know of a descriptor."""

    scale_type: CudaDataType
    operations: tuple[Operation, Operation]
    pointer_mode: PointerMode
    alpha_stride: int
    parts: Parts
    bias_stride: int
    aux_ld: int
    aux_stride: int
    scale_modes: tuple[MatmulMatrixScale, MatmulMatrixScale]


def _remembered(name: str, text: str) -> Any:
    """A property for memory: what was given, None if the library has no address for it."""

    def read(self: MatmulDescriptor) -> Any:
        is_set = self._get(_POINTERS[name])
        return self.memory[name].value if is_set else None

    return property(read, doc=text)


class MatmulDescriptor(Descriptor):
    """D = epilogue(alpha op(A) op(B) + beta C), see ``matmul`` (cublasLtMatmulDescCreate).

    ``compute_type`` is what products are summed up in: None is COMPUTE_32F or, for float32
    operands where ``pycudnn.config.tf32`` is set, COMPUTE_32F_FAST_TF32. ``scale_type`` is the type
    of alpha and beta; None is the real one that goes with the compute type. ``pointer_mode`` says
    which of the two are numbers and which buffers. Device vectors have a number for each row of D;
    those of a batch lie ``alpha_vector_batch_stride`` apart.

    ``epilogue`` is what follows the product. The ...BIAS ones add ``bias``, a number for each row
    of D, to every column. The ...AUX ones write into ``aux`` what the gradient needs, and DRELU and
    DGELU read it there: GELU's input, a matrix like D; of ReLU's a mask, one bit an element, in
    memory of uint8. ``aux_ld`` counts elements (bits of the mask) from column to column, in
    multiples of 8 (128); None takes it from the shape of ``aux``: (columns, ld), or for a mask
    (columns, ld / 8). ...BGRAD, BGRADA and BGRADB write into ``bias`` the sums of D's rows, of
    op(A)'s rows, of op(B)'s columns. In a batch the vectors lie ``bias_batch_stride`` and the
    auxiliary matrices ``aux_batch_stride`` apart; None takes them from the shapes (batch, length)
    and (batch, columns, ld), or is 0, which is one for all.

    The scales, for 8-bit floats, are buffers of float32: A, B and C are multiplied by theirs when
    they are read, D and aux when they are written, and ``amax_d`` and ``amax_aux`` receive the
    largest absolute value before that. One number each, or with OUTER_VEC_32F one for each row of
    op(A), each column of op(B). ``fast_accum`` sums 8-bit floats up faster and less exactly.

    ``sm_count_target`` is how many multiprocessors to choose for (0: all), ``emulation`` an
    EmulationDescriptor, which is copied. The descriptor keeps the memory that it refers to.

    ValueError for an epilogue that lacks memory or has more than it uses, TypeError for memory of a
    wrong type, NotSupported for an attribute that this cublasLt does not have.
    """

    c_type = "cublasLtMatmulDesc_t"
    NOUN = "MatmulDesc"
    SHOWN = ("compute_type", "scale_type", "transa", "transb", "epilogue", "pointer_mode")

    def __init__(
        self,
        compute_type: ComputeType | None = None,
        scale_type: Any = None,
        *,
        transa: Operation = Operation.N,
        transb: Operation = Operation.N,
        pointer_mode: PointerMode = PointerMode.HOST,
        alpha_vector_batch_stride: int = 0,
        epilogue: Epilogue = Epilogue.DEFAULT,
        bias: Any = None,
        bias_batch_stride: int | None = None,
        aux: Any = None,
        aux_ld: int | None = None,
        aux_batch_stride: int | None = None,
        a_scale: Any = None,
        b_scale: Any = None,
        c_scale: Any = None,
        d_scale: Any = None,
        aux_scale: Any = None,
        amax_d: Any = None,
        amax_aux: Any = None,
        a_scale_mode: MatmulMatrixScale = MatmulMatrixScale.SCALAR_32F,
        b_scale_mode: MatmulMatrixScale = MatmulMatrixScale.SCALAR_32F,
        fast_accum: bool = False,
        sm_count_target: int = 0,
        emulation: EmulationDescriptor | None = None,
        batch_invariance: MatmulBatchInvarianceFlags = MatmulBatchInvarianceFlags.UNSET,
        library: Library | str | None = None,
    ) -> None:
        found = find_library("cublaslt", library)
        self._by_setting = compute_type is None and config.tf32
        self._without_tf32: MatmulDescriptor | None = None
        if compute_type is None:
            fast, plain = ComputeType.COMPUTE_32F_FAST_TF32, ComputeType.COMPUTE_32F
            compute_type = fast if config.tf32 else plain
        compute = member(ComputeType, compute_type, "compute_type")
        scale = scale_type_of(compute)
        if scale_type is not None:
            scale = type_code(scale_type, "scale_type")
        operations = _operation(transa, "transa"), _operation(transb, "transb")
        mode = member(PointerMode, pointer_mode, "pointer_mode")
        follows = member(Epilogue, epilogue, "epilogue")
        modes = _scale_mode(a_scale_mode, "a_scale_mode"), _scale_mode(b_scale_mode, "b_scale_mode")
        settings: dict[str, Any] = {
            "compute_type": compute, "scale_type": scale, "transa": operations[0],
            "transb": operations[1], "pointer_mode": mode,
            "alpha_vector_batch_stride": _stride(
                alpha_vector_batch_stride, "alpha_vector_batch_stride"
            ),
            "epilogue": follows, "a_scale_mode": modes[0], "b_scale_mode": modes[1],
            "fast_accum": bool(fast_accum),
            "sm_count_target": integer(sm_count_target, "sm_count_target", 0),
            "batch_invariance": member(
                MatmulBatchInvarianceFlags, batch_invariance, "batch_invariance"
            ),
        }  # fmt: skip
        self.memory: dict[str, Memory] = {}
        self.emulated: EmulationDescriptor | None = None
        given = {
            "bias": bias, "aux": aux, "a_scale": a_scale, "b_scale": b_scale, "c_scale": c_scale,
            "d_scale": d_scale, "aux_scale": aux_scale, "amax_d": amax_d, "amax_aux": amax_aux,
        }  # fmt: skip
        parts = parts_of(follows)
        self._take_all(found, follows, parts, given)
        bias_stride = _bias_stride(bias, bias_batch_stride)
        layout = _aux_layout(aux, aux_ld, aux_batch_stride, parts.is_mask)
        strides = {"bias_batch_stride": bias_stride, **layout}
        if emulation is not None:
            require(emulation, EmulationDescriptor, "emulation")
            if emulation.library is not found:
                raise LibraryMismatch(f"emulation is of {emulation.library!r}, not of {found!r}")
            self.emulated = emulation.replace()
        self.plan = Plan(
            scale, operations, mode, settings["alpha_vector_batch_stride"], parts, bias_stride,
            layout["aux_ld"], layout["aux_batch_stride"], modes,
        )  # fmt: skip
        values = {
            _TRANSA: operations[0], _TRANSB: operations[1], _POINTER_MODE: mode,
            _ALPHA_STRIDE: self.plan.alpha_stride, _EPILOGUE: follows,
            _BIAS_STRIDE: self.plan.bias_stride, _AUX_LD: self.plan.aux_ld,
            _AUX_STRIDE: self.plan.aux_stride,
            _A_SCALE_MODE: modes[0], _B_SCALE_MODE: modes[1],
            _FAST_ACCUM: settings["fast_accum"], _SM_COUNT: settings["sm_count_target"],
            _INVARIANCE: settings["batch_invariance"],
            _EMULATION: 0 if self.emulated is None else self.emulated.address,
            **{_POINTERS[name]: memory.address for name, memory in self.memory.items()},
        }  # fmt: skip
        for key, name in ((_BIAS_TYPE, "bias"), (_AUX_TYPE, "aux")):
            if name in self.memory and not (name == "aux" and parts.is_mask):
                dtype = self.memory[name].element.dtype
                values[key] = type_code(dtype, f"the type of {name}")
        self._build(
            found,
            settings | given | strides | {"emulation": self.emulated},
            (compute, scale),
            values,
            settings | strides | {name: each.address for name, each in self.memory.items()},
        )

    def _take_all(
        self, library: Library, epilogue: Epilogue, parts: Parts, given: dict[str, Any]
    ) -> None:
        """Take the memory that the epilogue uses, and the scales."""
        for name, value in given.items():
            types: tuple[Element, ...] = (FLOAT32,)
            writes = name.startswith("amax")
            if name in ("bias", "aux"):
                uses = getattr(parts, name)
                if value is None and uses is not None:
                    raise ValueError(f"the epilogue {epilogue.name} needs {name}, got None")
                if value is not None and uses is None:
                    raise ValueError(f"the epilogue {epilogue.name} uses no {name}, got {value!r}")
                writes = bool(uses)
                types = (UINT8,) if name == "aux" and parts.is_mask else FLOATS
            if value is not None:
                self.memory[name] = take(library, value, name, writes, types)
        for name in ("aux_scale", "amax_aux"):
            if name in self.memory and parts.aux is None:
                raise ValueError(f"the epilogue {epilogue.name} has no aux for {name}")

    def _suited_to(self, a_type: CudaDataType) -> MatmulDescriptor:
        """Itself, or for operands that TF32 is not for its like without (private)."""
        is_single = a_type in (CudaDataType.R_32F, CudaDataType.C_32F)
        if not self._by_setting or is_single or self.closed:
            return self
        if self._without_tf32 is None:
            self._without_tf32 = self.replace(compute_type=ComputeType.COMPUTE_32F)
        return self._without_tf32

    compute_type = attribute(_COMPUTE_TYPE, known(ComputeType), "What is summed up in.")
    scale_type = attribute(_SCALE_TYPE, known(CudaDataType), "The type of alpha and beta.")
    transa = attribute(_TRANSA, known(Operation), "How A is taken.")
    transb = attribute(_TRANSB, known(Operation), "How B is taken.")
    pointer_mode = attribute(_POINTER_MODE, known(PointerMode), "Where alpha and beta live.")
    alpha_vector_batch_stride = attribute(
        _ALPHA_STRIDE, int, "Elements from one alpha vector of a batch to the next."
    )
    epilogue = attribute(_EPILOGUE, known(Epilogue), "What follows the product.")
    bias_batch_stride = attribute(
        _BIAS_STRIDE, int, "Elements from one bias of a batch to the next."
    )
    bias_data_type = attribute(
        _BIAS_TYPE, known(CudaDataType), "The type of the bias; -1 where there is none."
    )
    aux_batch_stride = attribute(
        _AUX_STRIDE, int, "Elements from one auxiliary matrix of a batch to the next."
    )
    aux_data_type = attribute(
        _AUX_TYPE, known(CudaDataType), "The type of aux; -1 where there is none, or a mask."
    )
    a_scale_mode = attribute(_A_SCALE_MODE, known(MatmulMatrixScale), "What A's scales are for.")
    b_scale_mode = attribute(_B_SCALE_MODE, known(MatmulMatrixScale), "What B's scales are for.")
    fast_accum = attribute(_FAST_ACCUM, bool, "Are 8-bit floats summed up less exactly?")
    sm_count_target = attribute(_SM_COUNT, int, "Multiprocessors to choose for; 0: all.")
    batch_invariance = attribute(
        _INVARIANCE, known(MatmulBatchInvarianceFlags), "Is a result the same in any batch?"
    )

    aux_ld = attribute(_AUX_LD, int, "Elements (bits of a mask) from column to column of aux.")
    bias = _remembered("bias", "What is added, or where sums go: the memory given, or None.")
    aux = _remembered("aux", "What the gradient needs: the memory given, or None.")
    a_scale = _remembered("a_scale", "The scales of A, or None.")
    b_scale = _remembered("b_scale", "The scales of B, or None.")
    c_scale = _remembered("c_scale", "The scale of C, or None.")
    d_scale = _remembered("d_scale", "The scale of D, or None.")
    aux_scale = _remembered("aux_scale", "The scale of aux, or None.")
    amax_d = _remembered("amax_d", "Where the largest value of D goes, or None.")
    amax_aux = _remembered("amax_aux", "Where the largest value of aux goes, or None.")

    @property
    def emulation(self) -> EmulationDescriptor | None:
        """Its copy of the EmulationDescriptor, or None."""
        return self.emulated if self._get(_EMULATION) else None


def _operation(value: Any, name: str) -> Operation:
    operation = member(Operation, value, name)
    if operation not in _OPERATIONS:
        raise ValueError(f"{name} must be N (0), T (1) or C (2), got {value!r}")
    return operation


def _scale_mode(value: Any, name: str) -> MatmulMatrixScale:
    mode = member(MatmulMatrixScale, value, name)
    if mode not in _SCALE_MODES:
        raise ValueError(
            f"{name} must be SCALAR_32F (0) or OUTER_VEC_32F (3), got {mode.name} ({mode.value})"
        )
    return mode


def _stride(value: Any, name: str) -> int:
    return integer(value, name, 0, LONG_MAX)


def _bias_stride(bias: Any, given: int | None) -> int:
    """Elements from one bias of a batch to the next."""
    shape = tuple(getattr(bias, "shape", ()))
    if given is None:
        return shape[-1] if len(shape) == 2 else 0
    stride = _stride(given, "bias_batch_stride")
    if stride and bias is None:
        raise ValueError(f"bias_batch_stride must be None without bias, got {stride}")
    return stride


def _aux_layout(aux: Any, ld: int | None, stride: int | None, is_mask: bool) -> dict[str, int]:
    """Leading dimension and batch stride of the auxiliary matrix, in elements or bits."""
    shape = tuple(getattr(aux, "shape", ()))
    bits, unit = (8, 128) if is_mask else (1, 8)
    layout = {
        "aux_ld": bits * shape[-1] if len(shape) in (2, 3) else 0,
        "aux_batch_stride": bits * math.prod(shape[1:]) if len(shape) == 3 else 0,
    }
    for name, given in (("aux_ld", ld), ("aux_batch_stride", stride)):
        if given is not None:
            layout[name] = _stride(given, name)
            if layout[name] and aux is None:
                raise ValueError(f"{name} must be None without aux, got {given}")
        if layout[name] % unit:
            raise ValueError(f"{name} must be a multiple of {unit}, got {layout[name]}")
    if aux is not None and not layout["aux_ld"]:
        raise ValueError(f"aux_ld must be given for aux of shape {shape}")
    return layout
