"""The table of the cuBLAS functions: a row a family, with the formula and the shapes.

Argument order, types and what is written come from the prototypes (pycudnn/abi/cublas.py); a row
adds what C leaves unsaid. Batched forms have the shapes of their plain ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pycudnn.abi.cublas_enums import CudaDataType
from pycudnn.cublas._shapes import Shape, band, matrix, packed, plain, sided, vector


@dataclass(frozen=True)
class Family:
    """Functions that differ in their types, and in being batched.

    ``in_place`` names, by written operand, those that it may be identical with. ``transposes`` is
    "any", "symmetric" (complex ones take N and T) or "hermitian" (N and C). ``limits`` bounds
    sizes, ``counts`` says how many numbers a scalar argument has where it is not one. ``types``
    are the only ones that a type argument may have where cuBLAS does not check it. ``finite``:
    cuBLAS does not return from infinite or NaN scalars.
    """

    name: str
    formula: str
    functions: tuple[str, ...]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    in_place: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    transposes: str = "any"
    limits: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, tuple[CudaDataType, ...]] = field(default_factory=dict)
    finite: bool = False


def _named(letters: str, *bases: str) -> tuple[str, ...]:
    """C names without cublas: ("S D", "gemm_v2") gives Sgemm_v2, Dgemm_v2."""
    return tuple(letter + base for base in bases for letter in letters.split())


_X, _Y = vector("n", "incx"), vector("n", "incy")
_SQUARE = matrix("n", "n", "lda")
_A_RANK_K, _B_RANK_K = matrix("n", "k", "lda", "trans"), matrix("n", "k", "ldb", "trans")
_C_SQUARE = matrix("n", "n", "ldc")
_PRODUCT = {
    "a": matrix("m", "k", "lda", "transa"),
    "b": matrix("k", "n", "ldb", "transb"),
    "c": matrix("m", "n", "ldc"),
}
_TRIANGULAR = {"a": _SQUARE, "x": _X}
_SOLVE = {"a": sided("lda"), "b": matrix("m", "n", "ldb")}
_RANK_2K = {"a": _A_RANK_K, "b": _B_RANK_K, "c": _C_SQUARE}
_RANK_K_TYPES = {
    "a_type": (CudaDataType.C_32F, CudaDataType.C_8I),
    "c_type": (CudaDataType.C_32F,),
}
_GEMV = {
    "a": matrix("m", "n", "lda"),
    "x": vector("n", "incx", "trans", "m"),
    "y": vector("m", "incy", "trans", "n"),
}
_INFO = plain("one int a matrix", lambda values: values["batch_size"])
_PIVOTS = plain("n ints a matrix", lambda values: values["n"] * values["batch_size"])

VECTORS = (
    Family("copy", "y = x", (*_named("S D C Z", "copy_v2"), "CopyEx"), {"x": _X, "y": _Y},
           {"y": ("x",)}),
    Family("swap", "exchange x and y", (*_named("S D C Z", "swap_v2"), "SwapEx"),
           {"x": _X, "y": _Y}, {"x": ("y",), "y": ("x",)}),
    Family("scal", "x = alpha x", (*_named("S D C Cs Z Zd", "scal_v2"), "ScalEx"), {"x": _X}),
    Family("axpy", "y = alpha x + y", (*_named("S D C Z", "axpy_v2"), "AxpyEx"),
           {"x": _X, "y": _Y}, {"y": ("x",)}),
    Family("dot", "the sum of x[i] y[i]", ("Sdot_v2", "Ddot_v2", "Cdotu_v2", "Zdotu_v2", "DotEx"),
           {"x": _X, "y": _Y}),
    Family("dotc", "the sum of conj(x[i]) y[i]", ("Cdotc_v2", "Zdotc_v2", "DotcEx"),
           {"x": _X, "y": _Y}),
    Family("nrm2", "the Euclidean norm of x", (*_named("S D Sc Dz", "nrm2_v2"), "Nrm2Ex"),
           {"x": _X}),
    Family("asum", "the sum of abs(real) + abs(imag) over x",
           (*_named("S D Sc Dz", "asum_v2"), "AsumEx"), {"x": _X}),
    Family("amax", "the position, counted from 1, of the first largest abs(real) + abs(imag)",
           (*_named("Is Id Ic Iz", "amax_v2"), "IamaxEx"), {"x": _X}),
    Family("amin", "the position, counted from 1, of the first smallest abs(real) + abs(imag)",
           (*_named("Is Id Ic Iz", "amin_v2"), "IaminEx"), {"x": _X}),
    Family("rot", "x, y = c x + s y, c y - conj(s) x",
           (*_named("S D C Cs Z Zd", "rot_v2"), "RotEx"), {"x": _X, "y": _Y}),
    Family("rotg", "the rotation (c, s) that takes (a, b) to (r, 0)",
           (*_named("S D C Z", "rotg_v2"), "RotgEx")),
    Family("rotm", "x, y = H (x, y) for the modified rotation H that param holds: "
           "flag, h11, h21, h12, h22", (*_named("S D", "rotm_v2"), "RotmEx"), {"x": _X, "y": _Y},
           counts={"param": 5}),
    Family("rotmg", "the modified rotation, as param, that zeroes the second part of "
           "(sqrt(d1) x1, sqrt(d2) y1)", (*_named("S D", "rotmg_v2"), "RotmgEx"),
           counts={"param": 5}, finite=True),
)  # fmt: skip

MATRIX_VECTOR = (
    Family("gemv", "y = alpha op(A) x + beta y", (
        *_named("S D C Z", "gemv_v2"),
        *_named("S D C Z HSH HSS TST TSS", "gemvBatched", "gemvStridedBatched")), _GEMV),
    Family("gbmv", "y = alpha op(A) x + beta y, A m x n with kl lower and ku upper diagonals",
           _named("S D C Z", "gbmv_v2"), _GEMV | {"a": band("kl", "ku")}),
    Family("trmv", "x = op(A) x, A triangular", _named("S D C Z", "trmv_v2"), _TRIANGULAR),
    Family("tbmv", "x = op(A) x, A triangular with k diagonals beside the main one",
           _named("S D C Z", "tbmv_v2"), {"a": band("k"), "x": _X}),
    Family("tpmv", "x = op(A) x, A triangular", _named("S D C Z", "tpmv_v2"),
           {"ap": packed(), "x": _X}),
    Family("trsv", "x = inverse(op(A)) x, A triangular", _named("S D C Z", "trsv_v2"),
           _TRIANGULAR),
    Family("tpsv", "x = inverse(op(A)) x, A triangular", _named("S D C Z", "tpsv_v2"),
           {"ap": packed(), "x": _X}),
    Family("tbsv", "x = inverse(op(A)) x, A triangular with k diagonals beside the main one",
           _named("S D C Z", "tbsv_v2"), {"a": band("k"), "x": _X}),
    Family("symv", "y = alpha A x + beta y, A symmetric", _named("S D C Z", "symv_v2"),
           {"a": _SQUARE, "x": _X, "y": _Y}),
    Family("hemv", "y = alpha A x + beta y, A Hermitian", _named("C Z", "hemv_v2"),
           {"a": _SQUARE, "x": _X, "y": _Y}),
    Family("sbmv", "y = alpha A x + beta y, A symmetric with k diagonals beside the main one",
           _named("S D", "sbmv_v2"), {"a": band("k"), "x": _X, "y": _Y}),
    Family("hbmv", "y = alpha A x + beta y, A Hermitian with k diagonals beside the main one",
           _named("C Z", "hbmv_v2"), {"a": band("k"), "x": _X, "y": _Y}),
    Family("spmv", "y = alpha A x + beta y, A symmetric", _named("S D", "spmv_v2"),
           {"ap": packed(), "x": _X, "y": _Y}),
    Family("hpmv", "y = alpha A x + beta y, A Hermitian", _named("C Z", "hpmv_v2"),
           {"ap": packed(), "x": _X, "y": _Y}),
    Family("ger", "A = alpha x y^T + A", ("Sger_v2", "Dger_v2", "Cgeru_v2", "Zgeru_v2"),
           {"a": matrix("m", "n", "lda"), "x": vector("m", "incx"), "y": _Y}),
    Family("gerc", "A = alpha x y^H + A", ("Cgerc_v2", "Zgerc_v2"),
           {"a": matrix("m", "n", "lda"), "x": vector("m", "incx"), "y": _Y}),
    Family("syr", "A = alpha x x^T + A, A symmetric", _named("S D C Z", "syr_v2"),
           {"a": _SQUARE, "x": _X}),
    Family("her", "A = alpha x x^H + A, A Hermitian", _named("C Z", "her_v2"),
           {"a": _SQUARE, "x": _X}),
    Family("spr", "A = alpha x x^T + A, A symmetric", _named("S D", "spr_v2"),
           {"ap": packed(), "x": _X}),
    Family("hpr", "A = alpha x x^H + A, A Hermitian", _named("C Z", "hpr_v2"),
           {"ap": packed(), "x": _X}),
    Family("syr2", "A = alpha (x y^T + y x^T) + A, A symmetric", _named("S D C Z", "syr2_v2"),
           {"a": _SQUARE, "x": _X, "y": _Y}),
    Family("her2", "A = alpha x y^H + conj(alpha) y x^H + A, A Hermitian",
           _named("C Z", "her2_v2"), {"a": _SQUARE, "x": _X, "y": _Y}),
    Family("spr2", "A = alpha (x y^T + y x^T) + A, A symmetric", _named("S D", "spr2_v2"),
           {"ap": packed(), "x": _X, "y": _Y}),
    Family("hpr2", "A = alpha x y^H + conj(alpha) y x^H + A, A Hermitian",
           _named("C Z", "hpr2_v2"), {"ap": packed(), "x": _X, "y": _Y}),
)  # fmt: skip

MATRICES = (
    Family("gemm", "C = alpha op(A) op(B) + beta C", (
        *_named("S D C Z", "gemm_v2"), "Hgemm", "Cgemm3m", "Zgemm3m", "SgemmEx", "CgemmEx",
        "Cgemm3mEx", "GemmEx",
        *_named("H S D C Z", "gemmBatched", "gemmStridedBatched"), "Cgemm3mBatched",
        "Cgemm3mStridedBatched", "GemmBatchedEx", "GemmStridedBatchedEx"), _PRODUCT),
    Family("gemm_bias", "C = ((op(A) + a_bias) (op(B) + b_bias)) c_mult / 2^c_shift + c_bias "
           "in 8-bit numbers", ("Uint8gemmBias",), _PRODUCT),
    Family("syrk", "C = alpha op(A) op(A)^T + beta C, C symmetric",
           (*_named("S D C Z", "syrk_v2"), "CsyrkEx", "Csyrk3mEx"),
           {"a": _A_RANK_K, "c": _C_SQUARE}, transposes="symmetric", types=_RANK_K_TYPES),
    Family("herk", "C = alpha op(A) op(A)^H + beta C, C Hermitian",
           (*_named("C Z", "herk_v2"), "CherkEx", "Cherk3mEx"),
           {"a": _A_RANK_K, "c": _C_SQUARE}, transposes="hermitian", types=_RANK_K_TYPES),
    Family("syr2k", "C = alpha (op(A) op(B)^T + op(B) op(A)^T) + beta C, C symmetric",
           _named("S D C Z", "syr2k_v2"), _RANK_2K, transposes="symmetric"),
    Family("her2k", "C = alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C, C Hermitian",
           _named("C Z", "her2k_v2"), _RANK_2K, transposes="hermitian"),
    Family("syrkx", "C = alpha op(A) op(B)^T + beta C, C symmetric", _named("S D C Z", "syrkx"),
           _RANK_2K, transposes="symmetric"),
    Family("herkx", "C = alpha op(A) op(B)^H + beta C, C Hermitian", _named("C Z", "herkx"),
           _RANK_2K, transposes="hermitian"),
    Family("symm", "C = alpha A B + beta C, or with B A if side is RIGHT; A symmetric",
           _named("S D C Z", "symm_v2"), _SOLVE | {"c": matrix("m", "n", "ldc")}),
    Family("hemm", "C = alpha A B + beta C, or with B A if side is RIGHT; A Hermitian",
           _named("C Z", "hemm_v2"), _SOLVE | {"c": matrix("m", "n", "ldc")}),
    Family("trsm", "B = alpha inverse(op(A)) B, or B inverse(op(A)) if side is RIGHT; "
           "A triangular", _named("S D C Z", "trsm_v2", "trsmBatched"), _SOLVE),
    Family("trmm", "C = alpha op(A) B, or with B op(A) if side is RIGHT; A triangular",
           _named("S D C Z", "trmm_v2"), _SOLVE | {"c": matrix("m", "n", "ldc")}, {"c": ("b",)}),
)  # fmt: skip

EXTENSIONS = (
    Family("geam", "C = alpha op(A) + beta op(B)", _named("S D C Z", "geam"), {
        "a": matrix("m", "n", "lda", "transa"), "b": matrix("m", "n", "ldb", "transb"),
        "c": matrix("m", "n", "ldc")}, {"c": ("a", "b")}),
    Family("dgmm", "C = diag(x) A if mode is LEFT, else A diag(x)", _named("S D C Z", "dgmm"), {
        "a": matrix("m", "n", "lda"), "x": vector("m", "incx", "mode", "n"),
        "c": matrix("m", "n", "ldc")}, {"c": ("a",)}),
    Family("tpttr", "A = the triangle that AP holds packed", _named("S D C Z", "tpttr"),
           {"ap": packed(), "a": _SQUARE}),
    Family("trttp", "AP = a triangle of A, packed", _named("S D C Z", "trttp"),
           {"ap": packed(), "a": _SQUARE}),
    Family("getrf", "A = L U with P A = L U, P the row exchanges; None for p: without them",
           _named("S D C Z", "getrfBatched"), {"a": _SQUARE, "p": _PIVOTS, "info": _INFO}),
    Family("getri", "C = inverse(A) from getrf's A and P", _named("S D C Z", "getriBatched"),
           {"a": _SQUARE, "p": _PIVOTS, "c": _C_SQUARE, "info": _INFO}),
    Family("getrs", "B = inverse(op(A)) B from getrf's A and P",
           _named("S D C Z", "getrsBatched"),
           {"a": _SQUARE, "ipiv": _PIVOTS, "b": matrix("n", "nrhs", "ldb")}),
    Family("matinv", "A_inv = inverse(A), for n up to 32", _named("S D C Z", "matinvBatched"),
           {"a": _SQUARE, "a_inv": matrix("n", "n", "lda_inv"), "info": _INFO},
           limits={"n": 32}),
    Family("geqrf", "A = Q R, with R in A's upper triangle and Q as Householder vectors below it "
           "and their factors in tau", _named("S D C Z", "geqrfBatched"), {
               "a": matrix("m", "n", "lda"),
               "tau": plain("min(m, n) elements", lambda values: min(values["m"], values["n"]))}),
    Family("gels", "the least-squares solution of op(A) X = C, in the first rows of C; A becomes "
           "its QR factors", _named("S D C Z", "gelsBatched"), {
               "a": matrix("m", "n", "lda"), "c": Shape(
                   "max(m, n) x nrhs", lambda values: (max(values["m"], values["n"]),
                                                       values["nrhs"]), "ldc"),
               "dev_info": _INFO}),
)  # fmt: skip

MODULES = {
    "vectors": ("Vector operations and reductions (BLAS level 1)", VECTORS),
    "matrix_vector": ("Matrices with vectors (BLAS level 2)", MATRIX_VECTOR),
    "matrices": ("Products and solutions of matrices (BLAS level 3)", MATRICES),
    "extensions": ("Sums, diagonals, storage forms and batched factorisations", EXTENSIONS),
}
FAMILIES = tuple(family for _, families in MODULES.values() for family in families)
