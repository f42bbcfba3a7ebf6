"""The fully connected layer, and transformations, against float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pycudnn import cublaslt
from pycudnn.cublaslt import MatrixTransformDescriptor, Operation, Order, PointerMode
from pycudnn.errors import LibraryMismatch

DTYPES = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def exact(x, weight, bias=None, activation=None):
    y = x.astype(np.float64) @ weight.astype(np.float64).T
    y = y if bias is None else y + bias.astype(np.float64)
    if activation == "relu":
        return np.maximum(y, 0)
    if activation == "gelu":
        return y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
    return y


def uniform(rng, shape, dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return rng.uniform(-1, 1, shape).astype(kind)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("biased", [False, True])
def test_linear(handle, put, rng, dtype, activation, biased):
    x, weight = uniform(rng, (5, 3, 20), dtype), uniform(rng, (12, 20), dtype)
    bias = uniform(rng, (12,), dtype) if biased else None
    out = cublaslt.linear(
        handle, put(x), put(weight), put(bias) if biased else None, activation=activation
    )
    assert out.shape == (5, 3, 12)
    assert out.dtype == x.dtype
    want = exact(x, weight, bias, activation)
    assert np.abs(out.numpy().astype(np.float64) - want).max() < 4 * DTYPES[dtype] * want.max()


def test_what_the_gradient_needs(handle, put, rng):
    x, weight = uniform(rng, (6, 8), "float32"), uniform(rng, (16, 8), "float32")
    inputs = put(np.full((6, 16), np.nan, np.float32))
    cublaslt.linear(handle, put(x), put(weight), activation="gelu", aux=inputs)
    np.testing.assert_allclose(inputs.numpy(), exact(x, weight), atol=1e-5)
    mask = put(np.zeros((6, 16), np.uint8))
    out = cublaslt.linear(handle, put(x), put(weight), activation="relu", aux=mask)
    bits = np.unpackbits(mask.numpy(), axis=1, bitorder="little")[:, :16]
    sure = np.abs(exact(x, weight)) > 1e-4
    np.testing.assert_array_equal(bits[sure], (out.numpy() > 0)[sure])


def test_an_out_of_ones_own(handle, put, rng):
    x, weight = uniform(rng, (4, 8), "float32"), uniform(rng, (5, 8), "float32")
    out = put(np.full((4, 5), np.nan, np.float32))
    assert cublaslt.linear(handle, put(x), put(weight), out=out) is out
    np.testing.assert_allclose(out.numpy(), exact(x, weight), atol=1e-5)


def test_no_rows(handle, put):
    out = cublaslt.linear(handle, put(np.zeros((0, 8), "f4")), put(np.zeros((5, 8), "f4")))
    assert out.shape == (0, 5)


def test_views_on_the_reference_side(rng):
    """Strided rows and transposed weights are read where they lie."""
    big = uniform(rng, (6, 30), "float32")
    weight = uniform(rng, (20, 5), "float32")
    out = np.zeros((6, 9), np.float32)
    with cublaslt.Handle(library="reference") as handle:
        cublaslt.linear(handle, big[:, 3:23], weight.T, out=out[:, 2:7], activation="relu")
    np.testing.assert_allclose(out[:, 2:7], exact(big[:, 3:23], weight.T, None, "relu"), atol=1e-5)
    assert not out[:, :2].any()
    assert not out[:, 7:].any()


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"activation": "tanh"}, ValueError, "activation must be None, 'relu' or 'gelu', got"),
        ({"aux": 1}, ValueError, "aux must be None without an activation"),
        ({"x": (4, 9)}, ValueError, r"weight must be \(outputs, 9\) for x of 9 inputs"),
        ({"x": (8,)}, ValueError, "x must have at least 2 dimensions"),
        ({"weight": (2, 5, 8)}, ValueError, r"weight must be \(outputs, 8\)"),
        ({"out": (5, 4)}, ValueError, r"out must have shape \(4, 5\) and contiguous rows"),
        ({"bias": (4,)}, ValueError, "bias needs 20 bytes, got 16"),
        ({"handle": 5}, TypeError, "handle must be a Handle"),
        ({"x": "x"}, (TypeError, LibraryMismatch), "x must be"),
        ({"workspace": 5}, (TypeError, LibraryMismatch), "workspace must be"),
    ],
)
def test_refusals_of_linear(handle, put, changes, error, text):
    arguments = {"handle": handle, "x": (4, 8), "weight": (5, 8)} | changes
    arguments = {
        name: put(np.zeros(value, np.float32)) if isinstance(value, tuple) else value
        for name, value in arguments.items()
    }
    with pytest.raises(error, match=text):
        cublaslt.linear(**arguments)


def test_types_of_linear(handle, put):
    x, weight = put(np.zeros((4, 8))), put(np.zeros((5, 8)))
    with pytest.raises(TypeError, match="x must hold float32, float16 or bfloat16, got float64"):
        cublaslt.linear(handle, x, weight)
    half = put(np.zeros((4, 8), np.float16))
    with pytest.raises(TypeError, match="holds float64, the call takes float16"):
        cublaslt.linear(handle, half, weight)


# ---- transformations -----------------------------------------------------------------------------


@pytest.mark.parametrize("orders", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("operation", [Operation.N, Operation.T])
def test_transform(handle, put, layout, backend, rng, orders, operation):
    a = rng.standard_normal((7, 5)).astype(np.float32)
    b = rng.standard_normal((5, 7) if operation == Operation.N else (7, 5)).astype(np.float32)
    c = put(np.full(35, np.nan, np.float32))

    def placed(matrix, order):
        lay = layout("float32", *matrix.shape, order=Order(order))
        return put(matrix if order else matrix.T), lay

    desc = MatrixTransformDescriptor(transa=operation, transb=Operation.T, library=backend)
    shape = (7, 5) if operation == Operation.N else (5, 7)
    cublaslt.matrix_transform(
        handle, desc, *placed(a, orders[0]), *placed(b, orders[1]), c,
        layout("float32", *shape, order=Order(orders[1])), alpha=2.0, beta=-0.5,
    )  # fmt: skip
    want = 2.0 * (a.T if operation else a) - 0.5 * b.T
    got = c.numpy().reshape(shape if orders[1] else shape[::-1])
    np.testing.assert_allclose(got if orders[1] else got.T, want, rtol=1e-6, atol=1e-6)


def test_transform_between_types(handle, put, layout, backend, rng):
    a = rng.uniform(-3, 3, (6, 4)).astype(np.float32)
    c = put(np.full((6, 4), np.nan, np.float16))
    desc = MatrixTransformDescriptor(pointer_mode=PointerMode.DEVICE, library=backend)
    half, two = put(np.array([0.5], np.float32)), put(np.array([2], np.float32))
    lay = layout("float32", 4, 6)
    cublaslt.matrix_transform(
        handle, desc, put(a), lay, put(a[::-1]), lay, c, layout("float16", 4, 6), alpha=half,
        beta=two,
    )  # fmt: skip
    np.testing.assert_allclose(c.numpy(), a / 2 + 2 * a[::-1], rtol=1e-3, atol=1e-3)


def test_what_is_left_out_has_the_factor_0(handle, put, layout, backend):
    a, c = put(np.ones((6, 4), np.float32)), put(np.full((6, 4), np.nan, np.float32))
    desc, lay = MatrixTransformDescriptor(library=backend), layout("float32", 4, 6)
    cublaslt.matrix_transform(handle, desc, a, lay, None, None, c, lay, alpha=3.0, beta=5.0)
    assert (c.numpy() == 3).all()
    cublaslt.matrix_transform(handle, desc, None, None, a, lay, c, lay, alpha=3.0, beta=5.0)
    assert (c.numpy() == 5).all()
