"""64-bit sizes: the binding takes the _64 functions where a number needs them."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import _core_blas, abi, cublas
from pycudnn.cublas import PointerMode
from pycudnn.cublas._functions import FUNCTIONS

WIDE = 2**31


@pytest.fixture
def called(handle, monkeypatch):
    """The C functions that calls go to."""
    names = []
    function = type(handle.library).function

    def record(library, name):
        names.append(name)
        return function(library, name)

    monkeypatch.setattr(type(handle.library), "function", record)
    return names


def test_the_wide_form_of_every_function():
    table = abi.prototypes("cublas")
    for function in FUNCTIONS.values():
        assert function.has_wide_form == (f"{function.c_name}_64" in table)
        if function.has_wide_form:
            wide, narrow = table[function.wide_c_name], table[function.c_name]
            names = [argument.name for argument in narrow.arguments]
            assert [argument.name for argument in wide.arguments] == names


def test_functions_without_a_wide_form(handle):
    """Factorisations and 8-bit products: what C would cut off is refused."""
    with pytest.raises(ValueError, match=r"^lda must be an int from 0 to 2\*\*31 - 1, got"):
        cublas.sgetrf_batched(handle, 1, [], WIDE, None, None, 0)
    with pytest.raises(
        ValueError, match=r"^m must be an int from 0 to 2\*\*31 - 1, got 2147483648$"
    ):
        cublas.uint8gemm_bias(handle, 0, 0, 0, WIDE, 2, 2, None, 0, 2, None, 0, 2, None, 0, 2, 1, 0)


@pytest.mark.parametrize("letter", "sdcz")
def test_leading_dimension_beyond_32_bits(handle, put, called, letter):
    """One column is enough to have one without 16 GiB of memory."""
    dtype = {"s": "f4", "d": "f8", "c": "c8", "z": "c16"}[letter]
    a, b, c = put(np.array([2, 3], dtype)), put(np.array([5], dtype)), put(np.zeros(2, dtype))
    gemm = getattr(cublas, f"{letter}gemm")
    gemm(handle, 0, 0, 2, 1, 1, 1.0, a, WIDE, b, WIDE, 0.0, c, WIDE + 7)
    np.testing.assert_array_equal(c.numpy(), [10, 15])
    assert f"cublas{letter.upper()}gemm_v2_64" in called
    called.clear()
    gemm(handle, 0, 0, 2, 1, 1, 1.0, a, 2, b, 1, 0.0, c, 2)
    assert not any(name.endswith("_64") for name in called)


def test_increments_beyond_32_bits(handle, put, called):
    x, y = put(np.array([2.0])), put(np.array([3.0]))
    assert cublas.ddot(handle, 1, x, WIDE, y, -WIDE) == 6.0
    cublas.daxpy(handle, 1, 2.0, x, WIDE, y, WIDE)
    assert y.numpy()[0] == 7.0
    cublas.drot(handle, 1, x, WIDE, y, 1, 0.0, 1.0)
    assert (x.numpy()[0], y.numpy()[0]) == (7.0, -2.0)
    assert {"cublasDdot_v2_64", "cublasDaxpy_v2_64", "cublasDrot_v2_64"} <= set(called)


@pytest.mark.parametrize("name", ["isamax", "icamin", "iamax_ex"])
def test_positions_are_64_bits_wide(handle, put, called, name):
    dtype = np.complex64 if "c" in name else np.float32
    x = put(np.array([4], dtype))
    extra = ("float32",) if name.endswith("ex") else ()
    function = getattr(cublas, name)
    assert function(handle, 1, x, *extra, WIDE) == 1
    handle.pointer_mode = PointerMode.DEVICE
    out = put(np.full(1, -1, np.int64))
    assert function(handle, 1, x, *extra, WIDE, out=out) is None
    assert out.numpy()[0] == 1
    with pytest.raises(TypeError, match="^out holds int32, the call takes int64$"):
        function(handle, 1, x, *extra, WIDE, out=put(np.zeros(1, np.int32)))


def test_batches_beyond_32_bits(handle, put, called):
    a, b = put(np.array([2.0, 3.0])), put(np.array([5.0]))
    c = [put(np.zeros(2))]
    cublas.dgemm_batched(handle, 0, 0, 2, 1, 1, 1.0, [a], WIDE, [b], 1, 0.0, c, 2, 1)
    cublas.gemm_ex(
        handle, 0, 0, 2, 1, 1, 1.0, a, "float64", WIDE, b, "float64", 1, 1.0, c[0], "float64", 2
    )
    np.testing.assert_array_equal(c[0].numpy(), [20, 30])
    assert {"cublasDgemmBatched_64", "cublasGemmEx_64"} <= set(called)


def test_sizes_beyond_memory(handle, put):
    """They are taken as sizes, and what they need is said."""
    x = put(np.ones(4, np.float32))
    with pytest.raises(ValueError, match=f"^x needs {4 * WIDE} bytes, got 16$"):
        cublas.sscal(handle, WIDE, 2.0, x, 1)
    with pytest.raises(ValueError, match="^x would span .* bytes, more than any memory$"):
        cublas.zhpr(handle, 0, 2**62, 1.0, x, 1, x)


def test_compiled_functions_are_those_of_the_table():
    """Each has a general form to fall back on."""
    compiled = {name for name in dir(_core_blas) if name in cublas.__all__}
    assert compiled - {"Handle"} <= set(FUNCTIONS) | set(dir(cublas))
    assert {"sgemm", "gemm_ex", "idamin", "dgeam"} <= compiled & set(FUNCTIONS)
