"""What cuBLAS gets wrong with large steps and 64-bit sizes, as an H200 showed up to cuBLAS 13.1.

A call that would read elsewhere, or return a wrong number, is refused; where another call means the
same, that one is made. The reference library has none of these faults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pycudnn.abi.cublas_enums import CudaDataType, DiagType, FillMode, Operation, SideMode
from pycudnn.cublas._elements import is_complex
from pycudnn.cublas._functions import Function
from pycudnn.cublas._shapes import Values
from pycudnn.errors import NotSupported

_HALF = (CudaDataType.R_16F, CudaDataType.R_16BF)
_LARGE = 2**30  # elements


@dataclass(frozen=True)
class Fault:
    """Functions by Python name, the calls (values, in the form with 64-bit integers) that go wrong,
    and what happens."""

    functions: tuple[str, ...]
    holds: Callable[[Values, bool], bool]
    what: str


def _is_upper(values: Values) -> bool:
    return (
        values["uplo"] == FillMode.UPPER
        and values["trans"] == Operation.N
        and values["diag"] == DiagType.NON_UNIT
    )


FAULTS = (
    Fault(
        ("strsv", "dtrsv", "ctrsv", "ztrsv"),
        lambda values, wide: _is_upper(values) and values["n"] * (values["lda"] + 1) >= _LARGE,
        "reads outside of an upper matrix with n (lda + 1) of 2**30 or more",
    ),
    Fault(
        ("nrm2_ex",),
        lambda values, wide: wide and values["result_type"] in _HALF,
        "takes n and incx modulo 2**32 for 16-bit numbers",
    ),
    Fault(
        ("cherk_ex", "cherk3m_ex"),
        lambda values, wide: wide,
        "fails with CUBLAS_STATUS_INTERNAL_ERROR",
    ),
)


def refuse(function: Function, values: Values, wide: bool) -> None:
    """NotSupported for a call that cuBLAS gets wrong; ``wide``: with 64-bit integers."""
    for fault in FAULTS:
        if function.name in fault.functions and fault.holds(values, wide):
            name = function.wide_c_name if wide else function.c_name
            raise NotSupported(f"{name} {fault.what} (seen up to cuBLAS 13.1)")


def needs_wide_form(function: Function, values: Values) -> bool:
    """Does the form with 32-bit integers read outside, though they hold all the numbers?"""
    return (
        function.name in ("strsm", "dtrsm", "ctrsm", "ztrsm")
        and _is_upper(values)
        and values["side"] == SideMode.LEFT
        and values["m"] * (values["lda"] + 1) >= _LARGE
    )


def operation(code: int, element_type: int) -> int:
    """The operation to ask a product of typed operands for: T for C of real numbers.

    With C of those, ``cublasGemmEx_64`` and its batched and grouped forms read elsewhere.
    """
    return Operation.T if code == Operation.C and not is_complex(element_type) else code
