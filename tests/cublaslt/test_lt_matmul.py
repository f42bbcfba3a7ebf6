"""Products: numbers against float64, pointer modes, memory, streams, threads."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from pycudnn import CudaContext, config, cublaslt, empty, from_numpy
from pycudnn.cublaslt import BatchMode, ComputeType, Epilogue, Operation, Order, PointerMode
from pycudnn.errors import NotSupported

TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 4e-3, "bfloat16": 3e-2}
M, N, K = 24, 16, 8  # what every epilogue and type can have


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def near(got, want, dtype="float32", slack=4.0):
    got, want = np.asarray(got).astype(want.dtype), np.asarray(want)
    assert got.shape == want.shape
    error = np.abs(got - want).max()
    assert error <= slack * TOLERANCE[dtype] * max(1.0, np.abs(want).max()), error


@pytest.fixture
def product(handle, put, layout, describe, rng):
    """Computes a column-major product of random matrices; returns D, A and B as float64."""

    def compute(dtype="float32", *, c=None, algorithm=None, workspace=None, **options):
        kept = ("alpha", "beta")
        factors = {name: options.pop(name) for name in kept if name in options}
        np_dtype = cublaslt.MatrixLayout(dtype, 1, 1, library="reference").dtype
        a = rng.uniform(-1, 1, (M, K)).astype(np_dtype)
        b = rng.uniform(-1, 1, (K, N)).astype(np_dtype)
        d = put(np.full((N, M), np.nan, np_dtype))
        d_layout = layout(dtype, M, N)
        cublaslt.matmul(
            handle, describe(**options), put(a.T), layout(dtype, M, K), put(b.T),
            layout(dtype, K, N), None if c is None else put(c.T.astype(np_dtype)),
            None if c is None else d_layout, d, d_layout, algorithm, workspace, **factors,
        )  # fmt: skip
        return d.numpy().T.astype(np.float64), a.astype(np.float64), b.astype(np.float64)

    return compute


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_product(product, dtype, rng):
    compute = {"float64": ComputeType.COMPUTE_64F}.get(dtype)
    d, a, b = product(dtype, compute_type=compute)
    near(d, a @ b, dtype)
    c = rng.integers(-3, 4, (M, N)).astype(np.float64)
    d, a, b = product(dtype, compute_type=compute, c=c, alpha=-0.5, beta=2.0)
    near(d, -0.5 * a @ b + 2 * c, dtype)


def test_complex_product(handle, put, layout, describe, rng):
    a = rng.standard_normal((M, K)) + 1j * rng.standard_normal((M, K))
    d = put(np.full((M, M), np.nan, np.complex128))
    cublaslt.matmul(
        handle, describe(ComputeType.COMPUTE_64F, "complex128", transb=Operation.C), put(a.T),
        layout("complex128", M, K), put(a.T), layout("complex128", M, K), None, None, d,
        layout("complex128", M, M), alpha=1j,
    )  # fmt: skip
    np.testing.assert_allclose(d.numpy().T, 1j * a @ a.conj().T, atol=1e-12)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("second", [0, 1])
@pytest.mark.parametrize("order", [Order.COL, Order.ROW])
def test_operations_and_orders(handle, put, layout, describe, rng, first, second, order):
    a = rng.standard_normal((K, M) if first else (M, K)).astype(np.float32)
    b = rng.standard_normal((N, K) if second else (K, N)).astype(np.float32)
    d = put(np.full((M, N) if order else (N, M), np.nan, np.float32))

    def placed(matrix):
        lay = layout("float32", *matrix.shape, order=order)
        return put(matrix if order else matrix.T), lay

    cublaslt.matmul(
        handle, describe(transa=first, transb=second), *placed(a), *placed(b), None, None, d,
        layout("float32", M, N, order=order),
    )  # fmt: skip
    want = (a.T if first else a).astype(float) @ (b.T if second else b)
    near(d.numpy() if order else d.numpy().T, want)


@pytest.mark.parametrize("mode", [BatchMode.STRIDED, BatchMode.POINTER_ARRAY])
def test_batches(handle, put, layout, describe, rng, mode):
    a, b = rng.standard_normal((3, K, M)), rng.standard_normal((3, N, K))
    shapes = ((M, K), (K, N), (M, N))
    layouts = [layout("float32", *shape, batch_count=3, batch_mode=mode) for shape in shapes]
    a, b = a.astype(np.float32), b.astype(np.float32)
    d = np.full((3, N, M), np.nan, np.float32)
    if mode == BatchMode.STRIDED:
        operands = [put(x) for x in (a, b, d)]
        cublaslt.matmul(
            handle, describe(), operands[0], layouts[0], operands[1], layouts[1], None, None,
            operands[2], layouts[2],
        )  # fmt: skip
        got = operands[2].numpy()
    else:
        operands = [[put(x) for x in each] for each in (a, b, d)]
        cublaslt.matmul(
            handle, describe(), operands[0], layouts[0], operands[1], layouts[1], None, None,
            operands[2], layouts[2],
        )  # fmt: skip
        got = np.stack([each.numpy() for each in operands[2]])
    near(got, (b.astype(float) @ a.astype(float)))


def test_one_matrix_for_a_batch(handle, put, layout, describe, rng):
    a, b = rng.standard_normal((K, M)), rng.standard_normal((3, N, K))
    d = put(np.full((3, N, M), np.nan))
    cublaslt.matmul(
        handle, describe(ComputeType.COMPUTE_64F), put(a),
        layout("float64", M, K, batch_count=3, batch_stride=0), put(b),
        layout("float64", K, N, batch_count=3), None, None, d,
        layout("float64", M, N, batch_count=3),
    )  # fmt: skip
    near(d.numpy(), b @ a, "float64")


# ---- epilogues -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["RELU", "GELU", "BIAS", "RELU_BIAS", "GELU_BIAS"])
def test_epilogues(product, put, rng, dtype, name):
    np_dtype = cublaslt.MatrixLayout(dtype, 1, 1, library="reference").dtype
    bias = rng.uniform(-1, 1, M).astype(np_dtype)
    given = {"bias": put(bias)} if "BIAS" in name else {}
    d, a, b = product(dtype, epilogue=Epilogue[name], **given)
    want = a @ b + (bias.astype(np.float64)[:, np.newaxis] if given else 0)
    want = np.maximum(want, 0) if "RELU" in name else gelu(want) if "GELU" in name else want
    near(d, want, dtype)


def test_relu_and_its_gradient(product, handle, put, layout, describe, rng):
    """The mask of the forward product makes the gradient of the backward one."""
    mask = put(np.zeros((N, 16), np.uint8))
    d, a, b = product(epilogue=Epilogue.RELU_AUX, aux=mask)
    x = a @ b
    near(d, np.maximum(x, 0))
    bits = np.unpackbits(mask.numpy(), axis=1, bitorder="little")[:, :M].T
    sure = np.abs(x) > 1e-4
    np.testing.assert_array_equal(bits[sure], (x > 0)[sure])
    dx, dy, w = product(epilogue=Epilogue.DRELU, aux=mask)
    near(dx, (dy @ w) * bits)


# Of these cublasLt computes few: whether it does is asked for each form.
FORMS = [(dtype, transa, transb) for dtype in ("float32", "float16") for transa in (0, 1)
         for transb in (0, 1)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "transa", "transb"), FORMS)
@pytest.mark.parametrize("name", ["DRELU_BGRAD", "DGELU_BGRAD", "BGRADA", "BGRADB"])
def test_bias_gradients(handle, put, layout, describe, rng, dtype, transa, transb, name):
    """Sums of D's rows, or over the terms of the product of op(A)'s rows or op(B)'s columns."""
    size = 64
    a, b, x = (rng.uniform(-1, 1, (size, size)).astype(dtype) for _ in range(3))
    given = {}
    if name == "DRELU_BGRAD":
        bits = np.packbits(x.T > 0, axis=1, bitorder="little")
        given["aux"] = put(np.pad(bits, ((0, 0), (0, 8))))  # 128 bits a column
    elif name == "DGELU_BGRAD":
        given["aux"] = put(x.T)
    sums = put(np.full(size, np.nan, dtype))
    d, square = put(np.full((size, size), np.nan, dtype)), layout(dtype, size, size)
    desc = describe(transa=transa, transb=transb, epilogue=Epilogue[name], bias=sums, **given)
    try:
        cublaslt.matmul(handle, desc, put(a.T), square, put(b.T), square, None, None, d, square)
    except NotSupported:
        assert handle.library.backend == "cuda"
        return
    a, b, x = (value.astype(np.float64) for value in (a, b, x))
    left, right = a.T if transa else a, b.T if transb else b
    want = left @ right
    if name == "DRELU_BGRAD":
        want = want * (x > 0)
    elif name == "DGELU_BGRAD":
        want = want * (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6
    near(d.numpy().T, want, dtype)
    total = {"BGRADA": left.sum(1), "BGRADB": right.sum(0)}.get(name, want.sum(1))
    near(sums.numpy(), total, dtype, slack=20)


def test_gelu_and_its_gradient(product, put):
    inputs = put(np.full((N, M), np.nan, np.float32))
    d, a, b = product(epilogue=Epilogue.GELU_AUX, aux=inputs)
    near(d, gelu(a @ b))
    near(inputs.numpy().T, a @ b)
    dx, dy, w = product(epilogue=Epilogue.DGELU, aux=inputs)
    step = 1e-6
    slope = (gelu(a @ b + step) - gelu(a @ b - step)) / (2 * step)
    near(dx, (dy @ w) * slope)


def test_a_bias_for_each_of_a_batch(handle, put, layout, describe, rng):
    a, b = rng.standard_normal((2, K, M)), rng.standard_normal((2, N, K))
    bias = rng.standard_normal((2, M)).astype(np.float32)
    d = put(np.full((2, N, M), np.nan, np.float32))
    cublaslt.matmul(
        handle, describe(epilogue=Epilogue.BIAS, bias=put(bias)), put(a.astype(np.float32)),
        layout("float32", M, K, batch_count=2), put(b.astype(np.float32)),
        layout("float32", K, N, batch_count=2), None, None, d,
        layout("float32", M, N, batch_count=2),
    )  # fmt: skip
    near(d.numpy(), b @ a + bias[:, np.newaxis].astype(float))


# ---- scaling factors -----------------------------------------------------------------------------


def test_factors_in_device_memory(product, put, rng):
    c = rng.standard_normal((M, N))
    one, two = (put(np.array([x], np.float32)) for x in (-1.5, 0.25))
    d, a, b = product(pointer_mode=PointerMode.DEVICE, c=c, alpha=one, beta=two)
    near(d, -1.5 * a @ b + 0.25 * c)
    with pytest.raises(TypeError, match="alpha is 1.0, but the descriptor's pointer_mode is DEV"):
        product(pointer_mode=PointerMode.DEVICE, c=c, beta=two)
    with pytest.raises(TypeError, match="alpha is Buffer.* pointer_mode is HOST: pass a number"):
        product(alpha=one)
    with pytest.raises(TypeError, match="alpha holds float64, the call takes float32"):
        product(pointer_mode=1, c=c, alpha=put(np.ones(1)), beta=two)
    with pytest.raises(ValueError, match="c must be memory with beta = Buffer"):
        product(pointer_mode=PointerMode.DEVICE, alpha=one, beta=two)


@pytest.mark.parametrize("wrong", ["x", None, 1j, [1.0], {}])
def test_factors_that_are_no_numbers(product, wrong):
    with pytest.raises(TypeError, match="^alpha must be a real number"):
        product(alpha=wrong)


def test_a_number_for_each_row(product, put, handle, rng):
    vector = rng.standard_normal(M)
    mode = PointerMode.ALPHA_DEVICE_VECTOR_BETA_ZERO
    alpha = put(vector.astype(np.float32))
    if handle.library.backend == "cuda":
        with pytest.raises(NotSupported):  # not for float32
            product(pointer_mode=mode, alpha=alpha)
    else:
        d, a, b = product(pointer_mode=mode, alpha=alpha)
        near(d, vector[:, np.newaxis] * (a @ b))
    with pytest.raises(ValueError, match="beta is 1.0, but .* ALPHA_DEVICE_VECTOR_BETA_ZERO"):
        product(pointer_mode=mode, alpha=alpha, c=np.ones((M, N)), beta=1.0)
    with pytest.raises(ValueError, match=f"alpha needs {4 * M} bytes, got 4"):
        product(pointer_mode=mode, alpha=put(np.ones(1, np.float32)))


# ---- settings ------------------------------------------------------------------------------------


def test_tf32_is_for_float32(product, handle):
    """With the setting on, float32 may round its factors to 10 bits; halves compute as before."""
    with config.override(tf32=True):
        d, a, b = product()
        halves = product("float16")
    near(d, a @ b, "float16" if handle.library.backend == "cuda" else "float32")
    near(halves[0], halves[1] @ halves[2], "float16")


def test_case_c9_tf32_off_is_exact(handle, put, layout, describe):
    """x = 1 + 2^-11 times the identity is exact in float32, and rounded in TF32."""
    size = 256
    x, eye = np.full((size, size), 1 + 2**-11, np.float32), np.eye(size, dtype=np.float32)
    for is_on in (False, True):
        d = put(np.zeros((size, size), np.float32))
        square = layout("float32", size, size)
        with config.override(tf32=is_on):
            cublaslt.matmul(
                handle, describe(), put(x), square, put(eye), square, None, None, d, square
            )
        error = np.abs(d.numpy() - x).max()
        assert error <= (2**-10 if is_on else 0)


# ---- life ----------------------------------------------------------------------------------------


def test_in_place(handle, put, layout, describe, rng):
    a, b = rng.standard_normal((K, M)), rng.standard_normal((N, K))
    c = rng.standard_normal((N, M))
    d, d_layout = put(c), layout("float64", M, N)
    cublaslt.matmul(
        handle, describe(ComputeType.COMPUTE_64F), put(a), layout("float64", M, K), put(b),
        layout("float64", K, N), d, layout("float64", M, N), d, d_layout, beta=-1.0,
    )  # fmt: skip
    near(d.numpy(), b @ a - c, "float64")


def test_operands_may_be_dropped(handle, layout, describe, put, rng):
    a, b, bias = (rng.standard_normal(s).astype(np.float32) for s in ((K, M), (N, K), (M,)))
    d = put(np.zeros((N, M), np.float32))

    def queue():
        desc = describe(epilogue=Epilogue.BIAS, bias=put(bias))
        cublaslt.matmul(
            handle, desc, put(a), layout("float32", M, K), put(b), layout("float32", K, N), None,
            None, d, layout("float32", M, N),
        )  # fmt: skip
        return weakref.ref(desc)

    desc = queue()
    gc.collect()
    assert desc() is None
    put(np.full((64, 64), np.nan, np.float32))
    near(d.numpy(), b.astype(float) @ a + bias)


def test_numpy_arrays_on_the_reference_side(rng):
    a, b = np.ones((K, M), np.float32), rng.standard_normal((N, K)).astype(np.float32)
    bias, d = np.arange(M, dtype=np.float32), np.zeros((N, M), np.float32)
    with cublaslt.Handle(library="reference") as handle:
        layouts = [
            cublaslt.MatrixLayout("float32", *s, library="reference")
            for s in ((M, K), (K, N), (M, N))
        ]
        desc = cublaslt.MatmulDescriptor(epilogue=Epilogue.BIAS, bias=bias, library="reference")
        bias += 1  # the descriptor refers to the memory, not to its content
        cublaslt.matmul(
            handle, desc, a, layouts[0], b, layouts[1], None, None, d, layouts[2]
        )
    near(d, b.astype(float) @ a + bias)


def test_threads_share_a_handle_and_descriptors(handle, put, layout, describe, rng):
    a, b, bias = (rng.standard_normal(s).astype(np.float32) for s in ((K, M), (N, K), (M,)))
    desc = describe(epilogue=Epilogue.BIAS, bias=put(bias))
    layouts = layout("float32", M, K), layout("float32", K, N), layout("float32", M, N)
    operands, failures = (put(a), put(b)), []

    def work():
        try:
            for _ in range(20):
                d = put(np.full((N, M), np.nan, np.float32))
                cublaslt.matmul(
                    handle, desc, operands[0], layouts[0], operands[1], layouts[1], None, None, d,
                    layouts[2],
                )  # fmt: skip
                near(d.numpy(), b.astype(float) @ a + bias)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_context_has_a_handle_on_its_stream(backend, layout, describe):
    with CudaContext(backend) as context:
        handle = context.cublaslt
        assert handle.stream is context.stream
        place = {"device": context.device, "stream": context.stream}
        a = from_numpy(np.ones((4, 4), np.float32), **place)
        d = empty((4, 4), **place)
        square = layout("float32", 4, 4)
        cublaslt.matmul(handle, describe(), a, square, a, square, None, None, d, square)
        assert d.numpy(context.stream).tolist() == np.full((4, 4), 4.0).tolist()
        assert d.last_stream is context.stream
    assert handle.closed


@pytest.mark.gpu
def test_captured():
    """A graph replays the product, and keeps what the descriptor refers to."""
    with CudaContext("cuda") as context:
        place = {"device": context.device, "stream": context.stream}
        a = from_numpy(np.eye(8, dtype=np.float32), **place)
        d = from_numpy(np.zeros((8, 8), np.float32), **place)
        bias = from_numpy(np.arange(8, dtype=np.float32), **place)
        square = cublaslt.MatrixLayout("float32", 8, 8, library="cuda")
        desc = cublaslt.MatmulDescriptor(epilogue=Epilogue.BIAS, bias=bias, library="cuda")
        with context.stream.capture() as graph:
            cublaslt.matmul(context.cublaslt, desc, a, square, a, square, None, None, d, square)
        del desc, bias
        gc.collect()
        for factor in (1, 3):
            a.copy_from(factor * np.eye(8, dtype=np.float32), context.stream)
            graph.launch(context.stream)
            want = factor**2 * np.eye(8) + np.arange(8)
            np.testing.assert_array_equal(d.numpy(context.stream), want)
