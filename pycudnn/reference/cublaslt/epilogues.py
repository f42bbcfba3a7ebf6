"""What follows a product: bias, ReLU, GELU, and the gradients of these.

A bias has one number for each row of D and is added to all columns. GELU is its usual approximation
by the hyperbolic tangent. ReLU's mask has one bit for each element, column after column, a column
padded to the leading dimension (in bits): bit i % 8 of byte i // 8 for row i, set where x > 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pycudnn.abi.cublaslt_enums import Epilogue, MatmulDescAttributes

from ..cublas.products_ex import CUDA_TYPES
from ..cublas.storage import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    INT8,
    Array,
    DType,
    array,
    computable,
    invalid,
    not_supported,
)
from ..memory import raw, store
from .attributes import MatmulDesc

Attribute = MatmulDescAttributes
E = Epilogue

_BIAS = {E.BIAS, E.RELU_BIAS, E.RELU_AUX_BIAS, E.GELU_BIAS, E.GELU_AUX_BIAS}
_BIAS_GRADIENT = {E.DRELU_BGRAD, E.DGELU_BGRAD}
_INPUT_SUMS = {E.BGRADA, E.BGRADB}
_RELU = {E.RELU, E.RELU_AUX, E.RELU_BIAS, E.RELU_AUX_BIAS}
_GELU = {E.GELU, E.GELU_AUX, E.GELU_BIAS, E.GELU_AUX_BIAS}
_MASK_OUT = {E.RELU_AUX, E.RELU_AUX_BIAS}
_MASK_IN = {E.DRELU, E.DRELU_BGRAD}
_AUX_OUT = {E.GELU_AUX, E.GELU_AUX_BIAS}
_AUX_IN = {E.DGELU, E.DGELU_BGRAD}
_MASK_UNIT, _AUX_UNIT = 128, 8  # leading dimensions are multiples of these


class Post(NamedTuple):
    """The epilogue of a descriptor, checked against a D of rows x columns."""

    kind: int
    rows: int
    columns: int
    bias: int
    bias_type: DType
    bias_stride: int
    aux: int
    aux_type: DType
    aux_ld: int
    aux_stride: int

    def apply(self, member: int, x: Array, left: Array, right: Array) -> Array:
        """D, rows x columns, from `x`, the scaled product of `left` and `right`."""
        kind = self.kind
        if kind in _BIAS:
            x = x + computable(self._bias(member, self.rows), x.dtype)[:, np.newaxis]
        if kind in _MASK_OUT:
            self._mask(member)[...] = _packed(x > 0, self.aux_ld)
        if kind in _AUX_OUT:
            store(self._matrix(member), x)
        if kind in _RELU:
            x = np.maximum(x, 0)
        elif kind in _GELU:
            x = gelu(x)
        elif kind in _MASK_IN:
            x = np.where(_unpacked(self._mask(member), self.rows), x, x.dtype.type(0))
        elif kind in _AUX_IN:
            x = x * gelu_slope(computable(self._matrix(member), x.dtype))
        if kind in _BIAS_GRADIENT:
            store(self._bias(member, self.rows), x.sum(axis=1))
        elif kind == E.BGRADA:
            store(self._bias(member, self.rows), left.sum(axis=1))
        elif kind == E.BGRADB:
            store(self._bias(member, self.columns), right.sum(axis=0))
        return x

    def _bias(self, member: int, length: int) -> Array:
        at = self.bias + member * self.bias_stride * self.bias_type.itemsize
        return array(at, self.bias_type, (length,), (1,), "bias")

    def _matrix(self, member: int) -> Array:
        at = self.aux + member * self.aux_stride * self.aux_type.itemsize
        return array(at, self.aux_type, (self.rows, self.columns), (1, self.aux_ld), "aux")

    def _mask(self, member: int) -> Array:
        """(columns, bytes of a column)."""
        at, width = self.aux + member * self.aux_stride // 8, self.aux_ld // 8
        memory = raw(at, self.columns * width)
        return np.ndarray((self.columns, width), np.uint8, memory)


def _packed(mask: Array, ld: int) -> Array:
    padded = np.zeros((mask.shape[1], ld), bool)
    padded[:, : mask.shape[0]] = mask.T
    return np.packbits(padded, axis=1, bitorder="little")


def _unpacked(bits: Array, rows: int) -> Array:
    return np.unpackbits(bits, axis=1, bitorder="little")[:, :rows].T.astype(bool)


_INNER, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def gelu(x: Array) -> Array:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return x * 0.5 * (1 + np.tanh(_INNER * (x + _CUBIC * x**3)))


def gelu_slope(x: Array) -> Array:
    """The derivative of :func:`gelu`."""
    tanh = np.tanh(_INNER * (x + _CUBIC * x**3))
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * _INNER * (1 + 3 * _CUBIC * x**2)


def read_epilogue(desc: MatmulDesc, out: DType, rows: int, columns: int, batch: int) -> Post:
    """Check the epilogue's attributes."""
    kind = desc[Attribute.EPILOGUE]
    if kind not in tuple(Epilogue):
        raise invalid(f"epilogue is {kind}, must be a cublasLtEpilogue_t")
    if kind != E.DEFAULT and (out not in (FLOAT16, BFLOAT16, FLOAT32, INT8)):
        raise not_supported(f"no epilogue {Epilogue(kind).name} for a D of {out}")
    bias_type = FLOAT32 if out == INT8 else out
    aux_type = out
    for attribute, wanted in (
        (Attribute.BIAS_DATA_TYPE, bias_type),
        (Attribute.EPILOGUE_AUX_DATA_TYPE, aux_type),
    ):
        given = desc[attribute]
        if given != -1 and CUDA_TYPES.get(given) != wanted:
            raise not_supported(f"{attribute.name} is {given}, must be that of {wanted}")
    ld, stride = desc[Attribute.EPILOGUE_AUX_LD], desc[Attribute.EPILOGUE_AUX_BATCH_STRIDE]
    if kind in _MASK_OUT | _MASK_IN | _AUX_OUT | _AUX_IN:
        unit = _MASK_UNIT if kind in _MASK_OUT | _MASK_IN else _AUX_UNIT
        if ld < rows or ld % unit or (batch > 1 and stride % unit):
            raise invalid(f"the leading dimension {ld} or stride {stride} of aux: units of {unit}")
        if not desc[Attribute.EPILOGUE_AUX_POINTER]:
            raise invalid("EPILOGUE_AUX_POINTER is NULL")
    if kind in _BIAS | _BIAS_GRADIENT | _INPUT_SUMS and not desc[Attribute.BIAS_POINTER]:
        raise invalid("BIAS_POINTER is NULL")
    return Post(
        kind,
        rows,
        columns,
        desc[Attribute.BIAS_POINTER],
        bias_type,
        desc[Attribute.BIAS_BATCH_STRIDE],
        desc[Attribute.EPILOGUE_AUX_POINTER],
        aux_type,
        ld,
        stride,
    )
