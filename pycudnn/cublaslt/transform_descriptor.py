"""What a transformation of matrices computes."""

from __future__ import annotations

from ctypes import c_int32
from typing import Any

from pycudnn.abi.cublas_enums import CudaDataType, Operation
from pycudnn.abi.cublaslt_enums import MatrixTransformDescAttributes, PointerMode
from pycudnn.cublaslt._attributes import Attribute, Descriptor, attribute, known
from pycudnn.cublaslt._types import type_code
from pycudnn.cudnn._objects import member
from pycudnn.libraries import Library, find_library

A = MatrixTransformDescAttributes
_SCALE_TYPE = Attribute(A.SCALE_TYPE, c_int32)
_POINTER_MODE = Attribute(A.POINTER_MODE, c_int32, PointerMode.HOST)
_TRANSA = Attribute(A.TRANSA, c_int32, Operation.N)
_TRANSB = Attribute(A.TRANSB, c_int32, Operation.N)


class MatrixTransformDescriptor(Descriptor):
    """C = alpha op(A) + beta op(B), see ``matrix_transform`` (cublasLtMatrixTransformDescCreate).

    ``scale_type`` is the type of alpha and beta, in which is computed. With ``pointer_mode`` HOST
    they are numbers, with DEVICE buffers of one element.
    """

    c_type = "cublasLtMatrixTransformDesc_t"
    NOUN = "MatrixTransformDesc"
    SHOWN = ("scale_type", "transa", "transb", "pointer_mode")

    def __init__(
        self,
        scale_type: Any = CudaDataType.R_32F,
        *,
        transa: Operation = Operation.N,
        transb: Operation = Operation.N,
        pointer_mode: PointerMode = PointerMode.HOST,
        library: Library | str | None = None,
    ) -> None:
        scale = type_code(scale_type, "scale_type")
        operations = member(Operation, transa, "transa"), member(Operation, transb, "transb")
        mode = member(PointerMode, pointer_mode, "pointer_mode")
        if mode not in (PointerMode.HOST, PointerMode.DEVICE):
            raise ValueError(f"pointer_mode must be HOST (0) or DEVICE (1), got {pointer_mode!r}")
        self.scale, self.operations, self.mode = scale, operations, mode
        arguments = {
            "scale_type": scale, "transa": operations[0], "transb": operations[1],
            "pointer_mode": mode,
        }  # fmt: skip
        values = {_TRANSA: operations[0], _TRANSB: operations[1], _POINTER_MODE: mode}
        self._build(find_library("cublaslt", library), arguments, (scale,), values)

    scale_type = attribute(_SCALE_TYPE, known(CudaDataType), "The type of alpha and beta.")
    transa = attribute(_TRANSA, known(Operation), "How A is taken.")
    transb = attribute(_TRANSB, known(Operation), "How B is taken.")
    pointer_mode = attribute(_POINTER_MODE, known(PointerMode), "Where alpha and beta live.")
