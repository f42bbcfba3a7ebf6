"""The types that cuBLAS functions with type arguments take, as an H200 was seen to take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pycudnn.cublas import ComputeType
from pycudnn.cublas import CudaDataType as Type

_REAL = (Type.R_32F, Type.R_64F)
_HALF = (Type.R_16F, Type.R_16BF)
_COMPLEX = (Type.C_32F, Type.C_64F)
_PART = {Type.C_32F: Type.R_32F, Type.C_64F: Type.R_64F}


def _same(names: str, types: tuple[Type, ...]) -> list[dict[str, Type]]:
    return [dict.fromkeys(names.split(), code) for code in types]


def _halves(execution: str, names: str, wide: str = "") -> list[dict[str, Type]]:
    """16-bit vectors, computed (and ``wide`` ones given) in float32."""
    return [
        dict.fromkeys(names.split(), code) | dict.fromkeys([execution, *wide.split()], Type.R_32F)
        for code in _HALF
    ]


_GEMM = [
    {"a_type": a, "b_type": a, "c_type": c}
    for a, c in (
        (Type.R_16F, Type.R_16F), (Type.R_16F, Type.R_32F), (Type.R_16BF, Type.R_16BF),
        (Type.R_16BF, Type.R_32F), (Type.R_32F, Type.R_32F),
    )
]  # fmt: skip
_GEMM_EX: list[dict[str, int]] = [
    *_GEMM,
    *_same("a_type b_type c_type", (Type.R_64F, *_COMPLEX)),
    {"a_type": Type.R_8I, "b_type": Type.R_8I, "c_type": Type.R_32I},
]
_PEDANTIC = {
    Type.R_32F: ComputeType.COMPUTE_32F_PEDANTIC,
    Type.C_32F: ComputeType.COMPUTE_32F_PEDANTIC,
    Type.R_64F: ComputeType.COMPUTE_64F_PEDANTIC,
    Type.C_64F: ComputeType.COMPUTE_64F_PEDANTIC,
    Type.R_32I: ComputeType.COMPUTE_32I_PEDANTIC,
    Type.R_16F: ComputeType.COMPUTE_16F,
}
_GEMM_EX += [
    types | {"compute_type": _PEDANTIC[types["c_type"]]}
    for types in _GEMM_EX
    if types["c_type"] in _PEDANTIC
]
_E = "execution_type"
TYPES: Mapping[str, Sequence[Mapping[str, int]]] = {
    "copy_ex": _same("x_type y_type", (*_HALF, *_REAL, *_COMPLEX)),
    "swap_ex": _same("x_type y_type", (*_HALF, *_REAL, *_COMPLEX)),
    "iamax_ex": _same("x_type", (*_HALF, *_REAL, *_COMPLEX)),
    "iamin_ex": _same("x_type", (*_HALF, *_REAL, *_COMPLEX)),
    "nrm2_ex": _halves(_E, "x_type result_type") + _same(f"x_type result_type {_E}", _REAL)
    + [{"x_type": c, "result_type": _PART[c], _E: _PART[c]} for c in _COMPLEX],
    "asum_ex": _halves(_E, "x_type", "result_type") + _same(f"x_type result_type {_E}", _REAL)
    + [{"x_type": c, "result_type": _PART[c], _E: c} for c in _COMPLEX],
    "dot_ex": _halves(_E, "x_type y_type result_type")
    + _same(f"x_type y_type result_type {_E}", _REAL + _COMPLEX),
    "dotc_ex": _halves(_E, "x_type y_type result_type")
    + _same(f"x_type y_type result_type {_E}", _REAL + _COMPLEX),
    "scal_ex": _halves(_E, "x_type", "alpha_type")
    + _same(f"x_type alpha_type {_E}", _REAL + _COMPLEX),
    "axpy_ex": _halves(_E, "x_type y_type", "alpha_type")
    + _same(f"x_type y_type alpha_type {_E}", _REAL + _COMPLEX),
    "rot_ex": _halves(_E, "x_type y_type cs_type")
    + _same(f"x_type y_type cs_type {_E}", _REAL + _COMPLEX)
    + [{"x_type": c, "y_type": c, "cs_type": _PART[c], _E: c} for c in _COMPLEX],
    "rotg_ex": _halves(_E, "ab_type cs_type") + _same(f"ab_type cs_type {_E}", _REAL),
    "rotm_ex": _halves(_E, "x_type y_type param_type")
    + _same(f"x_type y_type param_type {_E}", _REAL),
    "rotmg_ex": _halves(_E, "d1_type d2_type x1_type y1_type param_type")
    + _same(f"d1_type d2_type x1_type y1_type param_type {_E}", _REAL),
    "sgemm_ex": _GEMM,
    "gemm_ex": _GEMM_EX,
    "gemm_batched_ex": _GEMM_EX,
    "gemm_strided_batched_ex": _GEMM_EX,
    **{
        name: _same("a_type b_type c_type", (Type.C_32F,)) for name in ("cgemm_ex", "cgemm3m_ex")
    },
    **{
        name: _same("a_type c_type", (Type.C_32F,))
        for name in ("csyrk_ex", "csyrk3m_ex", "cherk_ex", "cherk3m_ex")
    },
}  # fmt: skip
