"""Wrong arguments are Python errors that name the argument; nothing reaches the library."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from blas_storage import DTYPES, LETTERS

from pycudnn import Device, cublas, cudnn, from_numpy
from pycudnn.cublas import ComputeType, CudaDataType, Operation, PointerMode
from pycudnn.errors import LibraryMismatch, PycudnnError

N, T = Operation.N, Operation.T

# Per function: its arguments in order, an operand as the elements that it needs.
PRODUCT = {"transa": N, "transb": T, "m": 3, "n": 4, "k": 2}


class Elements(int):
    """How many elements of memory an operand takes."""


CALLS = {
    "{}gemm": PRODUCT | {
        "alpha": 1.0, "a": Elements(5 * 1 + 3), "lda": 5, "b": Elements(6 * 1 + 4), "ldb": 6,
        "beta": 0.0, "c": Elements(4 * 3 + 3), "ldc": 4,
    },
    "{}gemm_strided_batched": PRODUCT | {
        "alpha": 1.0, "a": Elements(2 * 20 + 8), "lda": 5, "stride_a": 20,
        "b": Elements(10), "ldb": 6, "stride_b": 0,
        "beta": 0.0, "c": Elements(2 * 16 + 15), "ldc": 4, "stride_c": 16, "batch_count": 3,
    },
    "{}geam": {
        "transa": T, "transb": N, "m": 3, "n": 4, "alpha": 1.0, "a": Elements(5 * 2 + 4), "lda": 5,
        "beta": 1.0, "b": Elements(3 * 3 + 3), "ldb": 3, "c": Elements(4 * 3 + 3), "ldc": 4,
    },
    "{}gemv": {
        "trans": T, "m": 3, "n": 4, "alpha": 1.0, "a": Elements(5 * 3 + 3), "lda": 5,
        "x": Elements(2 * 2 + 1), "incx": 2, "beta": 0.0, "y": Elements(3 * 3 + 1), "incy": -3,
    },
    "{}ger": {
        "m": 3, "n": 4, "alpha": 1.0, "x": Elements(2 * 2 + 1), "incx": -2,
        "y": Elements(3 * 3 + 1), "incy": 3, "a": Elements(4 * 3 + 3), "lda": 4,
    },
    "{}axpy": {
        "n": 5, "alpha": 1.0, "x": Elements(2 * 4 + 1), "incx": 2, "y": Elements(5), "incy": -1,
    },
    "{}scal": {"n": 5, "alpha": 1.0, "x": Elements(3 * 4 + 1), "incx": 3},
    "{}copy": {"n": 5, "x": Elements(5), "incx": -1, "y": Elements(9), "incy": 2},
    "{}swap": {"n": 5, "x": Elements(9), "incx": 2, "y": Elements(5), "incy": 1},
    "{}dot": {"n": 5, "x": Elements(9), "incx": 2, "y": Elements(9), "incy": -2},
    "{}nrm2": {"n": 5, "x": Elements(13), "incx": 3},
    "{}asum": {"n": 5, "x": Elements(9), "incx": 2},
    "i{}amax": {"n": 5, "x": Elements(5), "incx": 1},
    "i{}amin": {"n": 5, "x": Elements(13), "incx": 3},
}  # fmt: skip
SINGLE_VECTOR = ("{}scal", "{}nrm2", "{}asum", "i{}amax", "i{}amin")

functions = pytest.mark.parametrize("function", CALLS)
letters = pytest.mark.parametrize("letter", LETTERS)


def each(*kinds):
    """Every function with every one of its arguments of a kind."""
    return pytest.mark.parametrize(
        ("function", "argument"),
        [(f, name) for f, given in CALLS.items() for name in given if name.startswith(kinds)],
    )


each_operand = pytest.mark.parametrize(
    ("function", "operand"),
    [
        (f, name)
        for f, given in CALLS.items()
        for name in given
        if name in ("a", "b", "c", "x", "y")
    ],
)


@pytest.fixture
def call(handle, put):
    """Call a function of CALLS with some of its arguments changed."""

    def run(function, letter="s", handle=handle, **changed):
        arguments = {
            name: put(np.zeros(value, DTYPES[letter])) if isinstance(value, Elements) else value
            for name, value in CALLS[function].items()
        }
        assert changed.keys() <= arguments.keys()
        return getattr(cublas, function.format(letter))(handle, *(arguments | changed).values())

    return run


@functions
@letters
def test_exactly_enough_memory_is_enough(call, function, letter):
    call(function, letter)


@each_operand
@letters
def test_one_element_less_is_refused(call, put, function, letter, operand):
    elements, item = CALLS[function][operand], DTYPES[letter].itemsize
    wanted = f"^{operand} needs {elements * item} bytes, got {(elements - 1) * item}"
    with pytest.raises(ValueError, match=wanted):
        call(function, letter, **{operand: put(np.zeros(elements - 1, DTYPES[letter]))})


@each("m", "n", "k", "ld", "batch_count")
@pytest.mark.parametrize("value", [-1, 2**63, 2**70])
def test_sizes_out_of_range(call, function, argument, value):
    with pytest.raises(ValueError, match=f"^{argument} must be an int from 0 to .*, got {value}$"):
        call(function, **{argument: value})


@each("m", "n", "k", "ld", "batch_count", "inc", "stride", "trans")
@pytest.mark.parametrize("value", [2.0, "2", None])
def test_sizes_that_are_no_ints(call, function, argument, value):
    with pytest.raises(TypeError, match=f"^{argument} must be an? .* got {value!r}$"):
        call(function, **{argument: value})


@each("ld")
def test_leading_dimension_below_the_rows(call, function, argument):
    with pytest.raises(ValueError, match=f"^{argument} must be at least [234], .* got 1$"):
        call(function, **{argument: 1})


@each("ld")
def test_leading_dimension_of_an_empty_matrix(call, function, argument):
    """BLAS wants at least 1 there too."""
    empty = {name: 0 for name in ("m", "n", "k") if name in CALLS[function]}
    with pytest.raises(ValueError, match=f"^{argument} must be at least 1, .* got 0$"):
        call(function, **empty, **{argument: 0})


@each("inc")
@pytest.mark.parametrize("value", [0, 2**63, -(2**63)])
def test_increments_out_of_range(call, function, argument, value):
    with pytest.raises(ValueError, match=f"^{argument} must be an? .*int.*, got {value}$"):
        call(function, **{argument: value})


@pytest.mark.parametrize("function", SINGLE_VECTOR)
def test_a_vector_alone_has_no_negative_increment(call, function):
    """cuBLAS would compute nothing and call it success."""
    with pytest.raises(ValueError, match=r"^incx must be an int from 1 to 2\*\*63 - 1, got -1$"):
        call(function, incx=-1)


@each("stride")
def test_negative_stride(call, function, argument):
    with pytest.raises(ValueError, match=f"^{argument} must be an int from 0 to .*, got -1$"):
        call(function, **{argument: -1})


@each("trans")
@pytest.mark.parametrize("value", [3, -1])
def test_operations_out_of_range(call, function, argument, value):
    wanted = rf"^{argument} must be an Operation: N \(0\), T \(1\) or C \(2\), got {value}$"
    with pytest.raises(ValueError, match=wanted):
        call(function, **{argument: value})


def test_sizes_whose_product_overflows_64_bits(call):
    huge = 2**31 - 1
    with pytest.raises(ValueError, match=r"^a (needs|would span) \d+ bytes"):
        call("{}gemm", "d", m=huge, k=huge, n=huge, lda=huge, ldb=huge, ldc=huge)
    with pytest.raises(ValueError, match=r"^x (needs|would span) \d+ bytes"):
        call("{}dot", "d", n=huge, incx=huge, incy=-huge)
    # In 64 bits the bytes of this one come out as 64.
    with pytest.raises(ValueError, match=rf"^a would span {8 * (2**61 + 8)} bytes, more than any"):
        call("{}gemm_strided_batched", "d", stride_a=2**60)
    with pytest.raises(ValueError, match=r"^a would span \d+ bytes, more than any"):
        call("{}gemm_strided_batched", stride_a=2**63 - 1)


@each_operand
@letters
def test_operand_of_another_dtype(call, put, function, operand, letter):
    other = {"s": "float64", "d": "float32"}[letter]
    wanted = f"^{operand} holds {other}, .* {DTYPES[letter].name}"
    with pytest.raises(TypeError, match=wanted):
        call(function, letter, **{operand: put(np.zeros(1000, other))})


@functions
def test_operand_that_is_no_memory(call, function):
    operand = "x" if "x" in CALLS[function] else "a"
    with pytest.raises(TypeError, match=f"^{operand} must be .*buffer.*, got 4096"):
        call(function, **{operand: 4096})


@functions
def test_closed_buffer(call, put, function):
    operand = "x" if "x" in CALLS[function] else "a"
    buffer = put(np.zeros(1000, np.float32))
    buffer.close()
    with pytest.raises(ValueError, match="this Buffer is closed"):
        call(function, **{operand: buffer})


@functions
def test_closed_handle(call, backend, function):
    handle = cublas.Handle(library=backend)
    handle.close()
    with pytest.raises(ValueError, match="this Handle is closed"):
        call(function, handle=handle)


@functions
def test_handle_of_cudnn(call, backend, function):
    with cudnn.Handle(library=backend) as other, pytest.raises(TypeError, match="'handle'"):
        call(function, handle=other)


@functions
def test_handle_none(call, function):
    with pytest.raises(TypeError, match="'handle' has incorrect type"):
        call(function, handle=None)


def test_array_that_is_not_contiguous():
    with (
        cublas.Handle(library="reference") as handle,
        pytest.raises(ValueError, match="^x must be contiguous"),
    ):
        cublas.sasum(handle, 5, np.zeros(10, np.float32)[::2], 1)


def test_array_that_is_read_only():
    array = np.zeros(5, np.float32)
    array.flags.writeable = False
    with cublas.Handle(library="reference") as handle:
        assert cublas.sasum(handle, 5, array, 1) == 0.0
        with pytest.raises(ValueError, match="^x is written to, but this array is read-only"):
            cublas.sscal(handle, 5, 2.0, array, 1)
        with pytest.raises(ValueError, match="^x is written to"):
            cublas.sswap(handle, 5, array, 1, np.ones(5, np.float32), 1)


@pytest.mark.gpu
def test_memory_of_the_other_side():
    array = np.zeros(5, np.float32)
    host, gpu = (from_numpy(array, device=Device(side)) for side in ("reference", "cuda"))
    with cublas.Handle(library="cuda") as handle:
        with pytest.raises(LibraryMismatch, match="^x must be CUDA memory"):
            cublas.sasum(handle, 5, array, 1)
        with pytest.raises(LibraryMismatch, match="^x is reference memory"):
            cublas.sasum(handle, 5, host, 1)
    with (
        cublas.Handle(library="reference") as handle,
        pytest.raises(LibraryMismatch, match="^x is cuda memory"),
    ):
        cublas.sasum(handle, 5, gpu, 1)


# ---- scaling factors and pointer modes -----------------------------------------------------------


@each("alpha", "beta")
@pytest.mark.parametrize("value", [None, "1", 1j])
def test_scaling_factor_that_is_no_number(call, function, argument, value):
    with pytest.raises(TypeError, match=f"^{argument} must be a real number, got {value!r}$"):
        call(function, **{argument: value})


@each("alpha", "beta")
def test_buffer_for_a_number(call, put, function, argument):
    with pytest.raises(TypeError, match=f"^{argument} is .*pointer_mode is HOST: pass a number"):
        call(function, **{argument: put(np.ones(1, np.float32))})


@each("alpha", "beta")
def test_number_for_a_buffer(call, put, handle, function, argument):
    handle.pointer_mode = PointerMode.DEVICE
    one = put(np.ones(1, np.float32))
    factors = {name: one for name in CALLS[function] if name in ("alpha", "beta")}
    wanted = f"^{argument} is the number 2.5, .*pointer_mode is DEVICE: .* one float32"
    with pytest.raises(TypeError, match=wanted):
        call(function, **(factors | {argument: 2.5}))


@each("alpha", "beta")
def test_scaling_factor_of_another_dtype(call, put, handle, function, argument):
    handle.pointer_mode = PointerMode.DEVICE
    one = put(np.ones(1, np.float32))
    factors = {name: one for name in CALLS[function] if name in ("alpha", "beta")}
    with pytest.raises(TypeError, match=f"^{argument} holds float64, .* float32"):
        call(function, **(factors | {argument: put(np.ones(1))}))


@letters
def test_device_mode(handle, put, letter):
    """Everything with factors and results in device memory."""
    dtype = DTYPES[letter]
    handle.pointer_mode = PointerMode.DEVICE
    assert handle.pointer_mode is PointerMode.DEVICE
    two, three = put(np.full(1, 2, dtype)), put(np.full(1, 3, dtype))
    a, b = np.arange(4, dtype=dtype).reshape(2, 2), np.array([[1, -1], [2, 5]], dtype)

    def result(function, *arguments):
        getattr(cublas, function.format(letter))(handle, *arguments)
        return arguments

    c = put(np.ones((2, 2), dtype))
    result("{}gemm", N, N, 2, 2, 2, two, put(b), 2, put(a), 2, three, c, 2)
    np.testing.assert_array_equal(c.numpy(), 2 * a @ b + 3)
    c = put(np.ones((2, 2), dtype))
    arguments = (N, N, 2, 2, 2, two, put(b), 2, 0, put(a), 2, 0, three, c, 2, 4, 1)
    result("{}gemm_strided_batched", *arguments)
    np.testing.assert_array_equal(c.numpy(), 2 * a @ b + 3)
    result("{}geam", N, N, 2, 2, two, put(a), 2, three, put(b), 2, c, 2)
    np.testing.assert_array_equal(c.numpy(), 2 * a + 3 * b)
    y = put(np.ones(2, dtype))
    result("{}gemv", T, 2, 2, two, put(a), 2, put(b[1]), 1, three, y, 1)
    np.testing.assert_array_equal(y.numpy(), 2 * a @ b[1] + 3)
    c = put(a)
    result("{}ger", 2, 2, two, put(b[0]), 1, put(b[1]), 1, c, 2)
    np.testing.assert_array_equal(c.numpy(), a + 2 * np.outer(b[1], b[0]))
    y = put(b[0])
    result("{}axpy", 2, two, put(b[1]), 1, y, 1)
    np.testing.assert_array_equal(y.numpy(), 2 * b[1] + b[0])
    result("{}scal", 2, three, y, 1)
    np.testing.assert_array_equal(y.numpy(), 3 * (2 * b[1] + b[0]))


@letters
def test_results_in_device_memory(handle, put, letter):
    dtype = DTYPES[letter]
    x, y = put(np.array([3, -4], dtype)), put(np.array([2, 1], dtype))
    handle.pointer_mode = PointerMode.DEVICE
    for function, operands, want in [
        ("{}dot", (x, 1, y, 1), 2.0),
        ("{}nrm2", (x, 1), 5.0),
        ("{}asum", (x, 1), 7.0),
        ("i{}amax", (x, 1), 2),
        ("i{}amin", (x, 1), 1),
    ]:
        out = put(np.full(1, 99, dtype if function[0] == "{" else np.int32))
        compute = getattr(cublas, function.format(letter))
        assert compute(handle, 2, *operands, out=out) is None
        assert out.numpy()[0] == pytest.approx(want)
        with pytest.raises(TypeError, match="^out is missing: .*pointer_mode is DEVICE"):
            compute(handle, 2, *operands)
        with pytest.raises(TypeError, match="^out holds uint8, .* (float|int)"):
            compute(handle, 2, *operands, out=put(np.zeros(8, np.uint8)))
        handle.pointer_mode = PointerMode.HOST
        assert compute(handle, 2, *operands) == pytest.approx(want)
        with pytest.raises(TypeError, match="^out must be None: .*pointer_mode is HOST"):
            compute(handle, 2, *operands, out=out)
        handle.pointer_mode = PointerMode.DEVICE


# ---- gemm_ex -------------------------------------------------------------------------------------


@pytest.fixture
def gemm_ex(handle, put):
    def run(**changed):
        arguments = {
            "transa": N, "transb": N, "m": 4, "n": 4, "k": 4, "alpha": 1.0,
            "a": put(np.ones(16, np.float16)), "a_type": "float16", "lda": 4,
            "b": put(np.ones(16, np.float16)), "b_type": CudaDataType.R_16F, "ldb": 4, "beta": 0.0,
            "c": put(np.ones(16, np.float32)), "c_type": np.dtype(np.float32), "ldc": 4,
            "compute_type": None, "algo": cublas.GemmAlgo.DEFAULT,
        } | changed  # fmt: skip
        cublas.gemm_ex(handle, *arguments.values())
        return arguments["c"].numpy()

    return run


def test_gemm_ex_takes_each_kind_of_type(gemm_ex):
    np.testing.assert_array_equal(gemm_ex(), np.full(16, 4, np.float32))


@pytest.mark.parametrize("argument", ["a_type", "b_type", "c_type"])
@pytest.mark.parametrize("value", ["float8", CudaDataType.R_4I, 99, None, [1]])
def test_gemm_ex_types_that_are_none(gemm_ex, argument, value):
    with pytest.raises(ValueError, match=f"^{argument} must be one of float32, float64, .* got"):
        gemm_ex(**{argument: value})


@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_gemm_ex_operand_of_another_type(gemm_ex, put, operand):
    with pytest.raises(TypeError, match=f"^{operand} holds int8, .* float"):
        gemm_ex(**{operand: put(np.zeros(64, np.int8))})


@pytest.mark.parametrize("operand", ["a", "b", "c"])
@pytest.mark.parametrize(
    "dtype", ["float16", ml_dtypes.bfloat16, "int8", "int32", "float32", "float64"]
)
def test_gemm_ex_memory_in_its_own_types(gemm_ex, put, operand, dtype):
    dtype = np.dtype(dtype)
    wanted = f"^{operand} needs {16 * dtype.itemsize} bytes, got {15 * dtype.itemsize}"
    with pytest.raises(ValueError, match=wanted):
        gemm_ex(**{operand: put(np.zeros(15, dtype)), operand + "_type": dtype})


def test_gemm_ex_compute_type_and_algorithm(gemm_ex):
    with pytest.raises(ValueError, match="^compute_type must be a ComputeType or None, got 1$"):
        gemm_ex(compute_type=1)
    with pytest.raises(ValueError, match="^algo must be a GemmAlgo, got 24$"):
        gemm_ex(algo=24)


def test_gemm_ex_whole_scaling_factors(gemm_ex, put):
    types = {
        "a": put(np.ones(16, np.int8)), "a_type": "int8", "b": put(np.ones(16, np.int8)),
        "b_type": "int8", "c": put(np.ones(16, np.int32)), "c_type": "int32",
        "compute_type": ComputeType.COMPUTE_32I,
    }  # fmt: skip
    for alpha in (0.5, float("nan"), 2**31):
        with pytest.raises((TypeError, ValueError), match="^alpha must be a whole number of 32"):
            gemm_ex(alpha=alpha, **types)


def test_errors_of_cublas_are_ours(gemm_ex):
    """A status comes back as an exception with the arguments in it."""
    with pytest.raises(PycudnnError, match=r"cublasGemmEx returned CUBLAS_STATUS_.*\n.*transa: 0"):
        gemm_ex(compute_type=ComputeType.COMPUTE_64F)


def test_a_product_cannot_be_computed_in_place(handle):
    a, b = (from_numpy(np.eye(4, dtype=np.float32), device=handle.device) for _ in range(2))
    for first, second, other in ((a, b, a), (a, b, b), (a, a, a)):
        with pytest.raises(ValueError, match="c is written to and must not overlap [ab]"):
            cublas.sgemm(handle, 0, 0, 4, 4, 4, 1.0, first, 4, second, 4, 0.0, other, 4)
    cublas.sgemm(handle, 0, 0, 4, 4, 4, 1.0, a, 4, a, 4, 0.0, b, 4)
    with pytest.raises(ValueError, match="stride_c must keep the results apart, got 0 "):
        cublas.sgemm_strided_batched(handle, 0, 0, 2, 2, 2, 1.0, a, 2, 4, a, 2, 4, 0.0, b, 2, 0, 3)
