"""What cuBLAS gets wrong with large steps: refused on its side, computed on the reference's."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import cublas, errors
from pycudnn.cublas import CudaDataType, Operation, _faults
from pycudnn.cublas._functions import FUNCTIONS
from pycudnn.dtypes import BFLOAT16

WIDE = 2**31
LOWER, UPPER = 0, 1
N, T, C = 0, 1, 2


@pytest.fixture
def faulty(context):
    return context.device.backend == "cuda"


def expect(faulty, text, call, result, wanted):
    """The call is refused and leaves the result alone, or gives the wanted number."""
    if faulty:
        before = result.numpy()
        with pytest.raises(errors.NotSupported, match=text):
            call()
        np.testing.assert_array_equal(result.numpy(), before)
    else:
        call()
        np.testing.assert_array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("lda", [WIDE, 2**30, 2**29])
@pytest.mark.parametrize("letter", "sdcz")
def test_upper_matrices_are_read_outside(handle, put, faulty, letter, lda):
    dtype = {"s": "f4", "d": "f8", "c": "c8", "z": "c16"}[letter]
    a, x = put(np.array([4], dtype)), put(np.array([2], dtype))
    trsv, trsm = getattr(cublas, f"{letter}trsv"), getattr(cublas, f"{letter}trsm")
    text = rf"^cublas{letter.upper()}trsv_v2.* reads outside of an upper matrix"
    faulty = faulty and lda >= 2**30
    expect(faulty, text, lambda: trsv(handle, UPPER, N, 0, 1, a, lda, x, 1), x, [0.5])
    b = put(np.array([8], dtype))
    trsm(handle, 0, UPPER, N, 0, 1, 1, 1.0, a, lda, b, 1)  # in its 64-bit form
    np.testing.assert_array_equal(b.numpy(), [2])
    for uplo, op, diag in ((UPPER, T, 0), (UPPER, N, 1), (LOWER, N, 0)):
        y = put(np.array([2], dtype))
        trsv(handle, uplo, op, diag, 1, a, lda, y, 1)
        np.testing.assert_array_equal(y.numpy(), [2 if diag else 0.5])


def test_norms_of_16_bit_numbers(handle, put, faulty):
    x = put(np.array([3], np.float16))
    if faulty:
        with pytest.raises(errors.NotSupported, match="^cublasNrm2Ex_64 takes n and incx modulo"):
            cublas.nrm2_ex(handle, 1, x, "float16", WIDE, "float16", "float32")
    else:
        assert cublas.nrm2_ex(handle, 1, x, "float16", WIDE, "float16", "float32") == 3
    assert cublas.nrm2_ex(handle, 1, x, "float16", 1, "float16", "float32") == 3


@pytest.mark.parametrize("name", ["cherk_ex", "cherk3m_ex"])
def test_hermitian_updates_by_type(handle, put, faulty, name):
    a, c = put(np.array([1 + 2j], np.complex64)), put(np.array([3], np.complex64))
    function = getattr(cublas, name)
    update = (handle, LOWER, N, 1, 1, 1.0, a, "complex64", WIDE, 1.0, c, "complex64", 1)
    expect(faulty, "INTERNAL_ERROR", lambda: function(*update), c, [8])


FORMS = ("", "batched_", "strided_batched_", "grouped_batched_")
REAL = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        *((form, dtype) for form in FORMS for dtype in REAL),
        *((form, "complex64") for form in FORMS[:3]),
    ],
)
def test_conjugate_transposes_of_products(handle, put, form, dtype):
    """C of real numbers, with which the 64-bit forms of the typed products read elsewhere."""
    factor = 1 + 2j if dtype == "complex64" else 1
    numbers = BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    a, b, c = (put(np.array([number], numbers)) for number in (2 * factor, 3, 0))
    function = getattr(cublas, f"gemm_{form}ex")
    if form == "grouped_batched_":
        ld, one = [WIDE], [1]
        function(handle, [C], [C], one, one, one, [1.0], [a], dtype, ld, [b], dtype, ld, [0.0],
                 [c], dtype, ld, 1, one)  # fmt: skip
    elif form == "batched_":
        function(handle, C, C, 1, 1, 1, 1.0, [a], dtype, WIDE, [b], dtype, WIDE, 0.0, [c], dtype,
                 WIDE, 1)  # fmt: skip
    else:
        stride, count = ((1,), (1,)) if form else ((), ())
        function(handle, C, C, 1, 1, 1, 1.0, a, dtype, WIDE, *stride, b, dtype, WIDE, *stride, 0.0,
                 c, dtype, WIDE, *stride, *count)  # fmt: skip
    assert c.numpy().astype(np.complex64)[0] == 6 * np.conj(factor)


def test_the_transpose_that_is_asked_for():
    for code in (CudaDataType.R_16F, CudaDataType.R_64F, CudaDataType.R_8I):
        assert [_faults.operation(op, code) for op in (N, T, C)] == [N, T, T]
    for code in (CudaDataType.C_32F, CudaDataType.C_64F):
        assert [_faults.operation(op, code) for op in (N, T, C)] == list(Operation)[:3]


def test_the_table_names_functions():
    for fault in _faults.FAULTS:
        assert set(fault.functions) <= set(FUNCTIONS)
