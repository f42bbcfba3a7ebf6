"""``cublas.matmul``: NumPy's products, without copies of strided operands."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from pycudnn import cublas, empty, from_numpy
from pycudnn.cublas import Operation, PointerMode

DTYPES = ["float16", ml_dtypes.bfloat16, "float32", "float64", "complex64", "complex128"]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "complex64": 2e-6}


def wide(array):
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def random(rng, shape, dtype):
    found = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.uniform(-1, 1, shape)
    return found.astype(dtype)


def assert_product(got, want, dtype):
    scale = max(1.0, np.abs(want).max(initial=0))
    tolerance = TOLERANCE.get(np.dtype(dtype).name, 1e-14) * scale
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_allclose(wide(got), want, rtol=0, atol=4 * tolerance)


@pytest.mark.parametrize(
    ("transpose_a", "transpose_b"), list(itertools.product([False, True], repeat=2))
)
def test_e6_all_transpose_combinations(handle, put, transpose_a, transpose_b):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(15.0).reshape(3, 5)
    stored_a, stored_b = (a.T if transpose_a else a), (b.T if transpose_b else b)
    got = cublas.matmul(
        handle,
        put(np.ascontiguousarray(stored_a)),
        put(np.ascontiguousarray(stored_b)),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    np.testing.assert_array_equal(got.numpy(), a @ b)


def test_e6_a_leading_dimension_that_is_too_small(handle, put):
    a, b, c = (put(np.ones(30)) for _ in range(3))
    with pytest.raises(ValueError, match="^lda must be at least 3, .* got 2$"):
        cublas.dgemm(handle, Operation.N, Operation.N, 3, 5, 2, 1.0, a, 2, b, 2, 0.0, c, 3)


def test_e5_a_complex_alpha_stays_complex(handle, put):
    for dtype, gemm in ((np.complex128, cublas.zgemm), (np.complex64, cublas.cgemm)):
        eye, c = np.eye(3, dtype=dtype), put(np.full((3, 3), np.nan, dtype))
        n = Operation.N
        gemm(handle, n, n, 3, 3, 3, 1j, put(eye), 3, put(eye), 3, 0.0, c, 3)
        np.testing.assert_array_equal(c.numpy(), 1j * eye)
        got = cublas.matmul(handle, put(eye), put(eye), alpha=1j)
        np.testing.assert_array_equal(got.numpy(), 1j * eye)


def test_e5_a_complex_alpha_for_real_matrices(handle, put):
    with pytest.raises(TypeError, match="^alpha must be a real number, got 1j$"):
        cublas.matmul(handle, put(np.eye(2)), put(np.eye(2)), alpha=1j)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_dtypes_and_batches(handle, put, rng, dtype, batch):
    a, b = random(rng, (*batch, 4, 7), dtype), random(rng, (*batch, 7, 5), dtype)
    c = random(rng, (*batch, 4, 5), dtype)
    out = put(c)
    assert cublas.matmul(handle, put(a), put(b), out=out, alpha=0.5, beta=-2) is out
    assert_product(out.numpy(), 0.5 * wide(a) @ wide(b) - 2 * wide(c), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_matrix_for_a_batch(handle, put, rng, dtype):
    many, one = random(rng, (3, 4, 4), dtype), random(rng, (4, 4), dtype)
    got = cublas.matmul(handle, put(many), put(one))
    assert_product(got.numpy(), wide(many) @ wide(one), dtype)
    got = cublas.matmul(handle, put(one), put(many), transpose_b=True)
    assert_product(got.numpy(), wide(one) @ wide(many).transpose(0, 2, 1), dtype)


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (1, 4, 1)])
def test_thin_and_empty(handle, put, rng, shape):
    m, k, n = shape
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    out = put(np.full((m, n), np.nan))
    cublas.matmul(handle, put(a), put(b), out=out)
    np.testing.assert_allclose(out.numpy(), a @ b, atol=1e-14)


def views(array):
    """The same matrices in memory of other layouts, none of them copied by matmul."""
    *batch, rows, columns = array.shape
    whole = np.full((*batch, rows + 2, columns + 3), np.nan, array.dtype)
    yield array.copy()
    for piece in (whole, np.full((*batch, columns + 1, rows + 2), np.nan, array.dtype)):
        is_transposed = piece is not whole
        view = piece[..., 1 : 1 + columns, :rows] if is_transposed else piece[..., :rows, 2:-1]
        view = np.swapaxes(view, -1, -2) if is_transposed else view
        view[...] = array
        yield view


@pytest.mark.parametrize("batch", [(), (3,)])
def test_strided_views(rng, batch):
    a, b = rng.standard_normal((*batch, 4, 7)), rng.standard_normal((*batch, 7, 5))
    c = rng.standard_normal((*batch, 4, 5))
    with cublas.Handle(library="reference") as handle:
        for x, y in itertools.product(views(a), views(b)):
            for out in views(c):
                cublas.matmul(handle, x, y, out=out, beta=1)
                np.testing.assert_allclose(out, a @ b + c, atol=1e-13)
                if out.base is not None:
                    assert np.isnan(out.base.sum()), "written outside of the view"


def test_heads_side_by_side(rng):
    """Attention's heads lie in the columns of one matrix, results too: one batched call."""
    x = rng.standard_normal((6, 4, 8))
    heads = x.transpose(1, 0, 2)
    out = np.full((6, 4, 6), np.nan)
    with cublas.Handle(library="reference") as handle:
        cublas.matmul(handle, heads, heads, transpose_b=True, out=out.transpose(1, 0, 2))
    np.testing.assert_allclose(out.transpose(1, 0, 2), heads @ heads.transpose(0, 2, 1))


@pytest.mark.gpu
def test_strided_arrays_of_others(rng):
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(5, 5, dtype=torch.float64, device="cuda") for _ in range(2))
    out = torch.zeros(9, 9, dtype=torch.float64, device="cuda")
    torch.cuda.synchronize()
    with cublas.Handle(library="cuda") as handle:
        cublas.matmul(handle, a[1:4].T, b[:3, 2:], out=out[2:7, 1:4])
        handle.stream.synchronize()
    torch.testing.assert_close(out[2:7, 1:4], a[1:4].T @ b[:3, 2:])
    assert float(out.abs().sum() - out[2:7, 1:4].abs().sum()) == 0


def test_device_pointer_mode(handle, put):
    a, out = np.arange(4.0).reshape(2, 2), put(np.ones((2, 2)))
    handle.pointer_mode = PointerMode.DEVICE
    two, three = put(np.full(1, 2.0)), put(np.full(1, 3.0))
    cublas.matmul(handle, put(a), put(a), out=out, alpha=two, beta=three)
    np.testing.assert_array_equal(out.numpy(), 2 * a @ a + 3)


def test_beta_of_a_new_result(handle, put):
    """It would multiply what the memory happens to hold."""
    a = put(np.eye(2))
    for beta in (1.0, 1, -0.5, np.float32(2), np.nan):
        with pytest.raises(ValueError, match="^beta = .* needs out, .* got None$"):
            cublas.matmul(handle, a, a, beta=beta)
    for beta in (0, 0.0, -0.0, np.float64(0)):
        np.testing.assert_array_equal(cublas.matmul(handle, a, a, beta=beta).numpy(), np.eye(2))


def test_device_beta_of_a_new_result_multiplies_zeros(handle, put):
    a = np.arange(4.0).reshape(2, 2)
    handle.pointer_mode = PointerMode.DEVICE
    two, three = put(np.full(1, 2.0)), put(np.full(1, 3.0))
    for _ in range(3):
        put(np.full((2, 2), np.nan))  # the pool may hand this memory out again
        got = cublas.matmul(handle, put(a), put(a), alpha=two, beta=three)
        np.testing.assert_array_equal(got.numpy(), 2 * a @ a)


def test_products_are_captured(context):
    """cuBLAS works in the context's workspace, also after a change of stream: no allocation."""
    stream = context.stream
    if context.device.backend != "cuda":
        pytest.skip("the reference side captures nothing")
    a = from_numpy(np.eye(64, dtype=np.float32) * 2, device=context.device, stream=stream)
    b = from_numpy(np.ones((64, 64), np.float32), device=context.device, stream=stream)
    out = empty((64, 64), device=context.device, stream=stream)
    with context.device.create_stream() as other:
        context.cublas.stream = other
        context.cublas.stream = stream
    workspace = context.cublas.workspace
    with stream.capture() as graph:
        cublas.matmul(context.cublas, a, b, out=out)
        cublas.sgemm_batched(
            context.cublas, 0, 0, 64, 64, 64, 1.0, [a, a], 64, [b, b], 64, 0.0,
            [out, empty((64, 64), device=context.device, stream=stream)], 64, 2,
        )  # fmt: skip
    assert context.cublas.workspace is workspace
    out.fill_bytes(255, stream)
    graph.launch(stream)
    np.testing.assert_array_equal(out.numpy(stream), np.full((64, 64), 2, np.float32))


# ---- refusals ------------------------------------------------------------------------------------


def test_shapes_that_do_not_fit(handle, put):
    a, b = put(np.ones((2, 3))), put(np.ones((4, 5)))
    with pytest.raises(ValueError, match=r"^a of shape \(2, 3\) and b of shape \(4, 5\)"):
        cublas.matmul(handle, a, b)
    with pytest.raises(ValueError, match=r"^out must have shape \(2, 2\), got \(2, 3\)"):
        cublas.matmul(handle, a, a, transpose_b=True, out=put(np.ones((2, 3))))
    with pytest.raises(ValueError, match="^a must have at least 2 dimensions"):
        cublas.matmul(handle, put(np.ones(3)), b)
    with pytest.raises(ValueError, match=r"same batch dimensions, or none, got \(2,\) and \(3,\)"):
        cublas.matmul(handle, put(np.ones((2, 3, 3))), put(np.ones((3, 3, 3))))


def test_dtypes_that_do_not_fit(handle, put):
    a = put(np.ones((2, 2)))
    with pytest.raises(TypeError, match="^b must hold float64 like a, got float32$"):
        cublas.matmul(handle, a, put(np.ones((2, 2), np.float32)))
    with pytest.raises(TypeError, match="^out must hold float64 like a, got int32$"):
        cublas.matmul(handle, a, a, out=put(np.ones((2, 2), np.int32)))
    with pytest.raises(TypeError, match="^a must hold one of float16, bfloat16, .* got int64$"):
        cublas.matmul(handle, put(np.ones((2, 2), np.int64)), a)


def test_layouts_that_blas_cannot_say(rng):
    a, square = rng.standard_normal((6, 6)), np.ones((3, 3))
    with cublas.Handle(library="reference") as handle:
        for view in (a[::2, ::2], np.broadcast_to(a[:3, :1], (3, 3))):
            with pytest.raises(ValueError, match="^a of shape .* has no contiguous axis"):
                cublas.matmul(handle, view, square)
        with pytest.raises(ValueError, match="^b must have strides of whole elements, forwards"):
            cublas.matmul(handle, square, a[2::-1, :3])
        with pytest.raises(ValueError, match="which are not one step apart: pass a copy"):
            cublas.matmul(handle, np.ones((2, 4, 3, 3))[:, :2], np.ones((2, 2, 3, 3)))


def test_a_result_over_its_operands():
    memory = np.ones((8, 8))
    with cublas.Handle(library="reference") as handle:
        with pytest.raises(ValueError, match="^out is written to and must not overlap b$"):
            cublas.matmul(handle, np.ones((4, 4)), memory[:4, :4], out=memory[3:7, 3:7])
        # Blocks of one matrix that only lie between each other.
        memory[:4, :4] = np.arange(16).reshape(4, 4)
        cublas.matmul(handle, np.eye(4), memory[:4, :4], out=memory[:4, 4:])
        np.testing.assert_array_equal(memory[:4, 4:], memory[:4, :4])


def test_what_is_no_array(handle, put):
    with pytest.raises(TypeError, match="^a must be .*buffer"):
        cublas.matmul(handle, 4096, put(np.eye(2)))
    with pytest.raises(TypeError, match=r"^handle must be a cublas\.Handle, got None"):
        cublas.matmul(None, put(np.eye(2)), put(np.eye(2)))
