"""Wrong arguments of products and transformations: refused before the call, named in the error."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from pycudnn import cublas, cublaslt, cudnn, empty, reference
from pycudnn.cublaslt import BatchMode, Epilogue, Operation, Order
from pycudnn.errors import CublasBadParam, CublasError, LibraryMismatch, NotSupported

M, N, K = 24, 16, 8


@pytest.fixture
def call(handle, put, layout, describe):
    """Makes a product that works, but for what is changed."""
    valid = {
        "handle": handle, "desc": describe(),
        "a": put(np.ones((K, M), np.float32)), "a_layout": layout("float32", M, K),
        "b": put(np.ones((N, K), np.float32)), "b_layout": layout("float32", K, N),
        "c": None, "c_layout": None,
        "d": put(np.zeros((N, M), np.float32)), "d_layout": layout("float32", M, N),
    }  # fmt: skip

    def make(**changes):
        arguments = {**valid, **changes}
        cublaslt.matmul(**arguments)
        return arguments["d"].numpy()

    make.valid = valid
    return make


def test_the_product_works(call):
    assert (call() == K).all()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("handle", "handle must be a Handle"), ("desc", "desc must be a MatmulDescriptor"),
        ("a_layout", "a_layout must be a MatrixLayout"),
        ("b_layout", "b_layout must be a MatrixLayout"),
        ("d_layout", "d_layout must be a MatrixLayout"),
        ("c_layout", "c_layout must be a MatrixLayout"),
        ("algorithm", "algorithm must be a Algorithm"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [5, "x", object()])
def test_objects_of_a_wrong_type(call, name, text, wrong):
    with pytest.raises(TypeError, match=text):
        call(**{name: wrong})


def test_handles_and_descriptors_of_others(call, backend, handle):
    with cublas.Handle(library=backend) as other, pytest.raises(TypeError, match="handle must be"):
        call(handle=other)
    with pytest.raises(TypeError, match="desc must be a MatmulDescriptor"):
        call(desc=cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=backend))
    with pytest.raises(TypeError, match="desc must be a MatmulDescriptor"):
        call(desc=call.valid["a_layout"])


@pytest.mark.parametrize("name", ["desc", "a_layout", "b_layout", "c_layout", "d_layout"])
def test_descriptors_that_are_closed(call, name):
    other = (call.valid[name] or call.valid["d_layout"]).replace()
    other.close()
    with pytest.raises(ValueError, match="is closed"):
        call(**{name: other})
    unmade = type(other).__new__(type(other))
    with pytest.raises((ValueError, AttributeError), match="never made|has no attribute"):
        call(**{name: unmade})


@pytest.mark.library
def test_descriptors_of_the_other_library(call, backend):
    other = {"reference": "cuda", "cuda": "reference"}[backend]
    for name in ("desc", "a_layout", "b_layout", "c_layout", "d_layout"):
        stranger = (call.valid[name] or call.valid["d_layout"]).replace(library=other)
        with pytest.raises(LibraryMismatch, match="make both with the same library"):
            call(**{name: stranger})


def test_a_closed_handle(call, backend):
    handle = cublaslt.Handle(library=backend)
    handle.close()
    with pytest.raises(ValueError, match="this Handle is closed"):
        call(handle=handle)


# ---- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("a_layout", (M, K + 1), f"b_layout: op\\(B\\) must have the {K + 1} rows that op\\(A\\)"),
        ("a_layout", (K, M), f"b_layout: op\\(B\\) must have the {M} rows"),
        ("b_layout", (K - 1, N), f"b_layout: .* got {K - 1} x {N} from MatrixLayout"),
        ("b_layout", (K, N + 1), f"d_layout must be {M} x {N + 1}, as op"),
        ("d_layout", (M + 1, N), f"d_layout must be {M} x {N}"),
        ("c_layout", (M, N - 1), f"c_layout must be {M} x {N}, as op.*columns={N - 1}"),
    ],
)
def test_shapes_that_do_not_fit(call, layout, name, shape, text):
    with pytest.raises(ValueError, match=text):
        call(**{name: layout("float32", *shape)})


def test_shapes_with_operations(call, describe):
    with pytest.raises(ValueError, match=f"must have the {M} rows that op"):
        call(desc=describe(transa=Operation.T))


def test_batches_that_differ(call, layout):
    with pytest.raises(ValueError, match="b_layout must have a batch of 2, STRIDED, as a_layout"):
        call(a_layout=layout("float32", M, K, batch_count=2, batch_stride=0))
    with pytest.raises(ValueError, match="b_layout must have a batch of 1, POINTER_ARRAY"):
        call(a_layout=layout("float32", M, K, batch_mode=BatchMode.POINTER_ARRAY))


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "b", "d"])
def test_memory_that_is_too_small(call, put, name):
    needed = call.valid[name].nbytes
    with pytest.raises(ValueError, match=f"^{name} needs {needed} bytes, got {needed - 4}$"):
        call(**{name: put(np.zeros(needed // 4 - 1, np.float32))})


@pytest.mark.parametrize("name", ["a", "b", "d"])
def test_memory_of_another_type(call, put, name):
    with pytest.raises(TypeError, match=f"^{name} holds float64, the call takes float32$"):
        call(**{name: put(np.zeros(1000))})
    for wrong in (None, 4096, "x", [1.0]):
        with pytest.raises((TypeError, LibraryMismatch), match=f"^{name} must be"):
            call(**{name: wrong})


def test_leading_dimensions_and_batches_count(call, put, layout):
    with pytest.raises(ValueError, match=f"^a needs {4 * (30 * (K - 1) + M)} bytes"):
        call(a_layout=layout("float32", M, K, 30))
    three = {
        name: layout("float32", *call.valid[name].shape, batch_count=3, batch_stride=500)
        for name in ("a_layout", "b_layout", "d_layout")
    }
    with pytest.raises(ValueError, match=f"^a needs {4 * (1000 + M * K)} bytes"):
        call(**three)


def test_memory_that_is_closed(call, put):
    for name in ("a", "b", "d"):
        closed = put(np.zeros(1000, np.float32))
        closed.close()
        with pytest.raises(ValueError, match="this Buffer is closed"):
            call(**{name: closed})


def test_elements_that_lie_across():
    a = np.frombuffer(bytearray(4 * M * K + 2), np.float32, M * K, offset=2)
    layouts = [
        cublaslt.MatrixLayout("float32", *shape, library="reference")
        for shape in ((M, K), (K, N), (M, N))
    ]
    desc = cublaslt.MatmulDescriptor(library="reference")
    b, d = np.ones((N, K), np.float32), np.ones((N, M), np.float32)
    with (
        cublaslt.Handle(library="reference") as handle,
        pytest.raises(ValueError, match="^a must be aligned to its elements of 4 bytes"),
    ):
        cublaslt.matmul(handle, desc, a, layouts[0], b, layouts[1], None, None, d, layouts[2])


def test_c_is_needed_where_beta_counts(call):
    with pytest.raises(ValueError, match="^c must be memory with beta = 1.0, got None$"):
        call(beta=1.0)


def test_results_that_overlap_operands(call, put, layout):
    whole = put(np.ones(M * N * 2, np.float32))
    a = whole.view((M * K,))
    for offset in (0, 4 * (M * K - 1)):
        with pytest.raises(ValueError, match="^d is written to and must not overlap a$"):
            call(a=a, d=whole.view((M * N,), offset=offset))
    call(a=a, d=whole.view((M * N,), offset=4 * M * K))
    # Apart, although the spans meet: columns of one matrix, and those between them.
    whole = put(np.ones(2 * M * N, np.float32))
    call(
        a=whole.view((M * (2 * K - 1),)), a_layout=layout("float32", M, K, 2 * M),
        d=whole.view((M * (2 * N - 1),), offset=4 * M), d_layout=layout("float32", M, N, 2 * M),
    )  # fmt: skip
    columns = whole.numpy().reshape(N, 2, M)
    assert (columns[:, 0] == 1).all()
    assert (columns[:, 1] == K).all()


def test_c_that_is_not_quite_d(call, put, layout):
    whole = put(np.ones(M * N + 8, np.float32))
    d_layout = layout("float32", M, N)
    for c_layout in (d_layout, d_layout.replace()):
        call(c=whole, c_layout=c_layout, d=whole, beta=1.0)
    with pytest.raises(ValueError, match="^d is written to and must not overlap c$"):
        call(c=whole, c_layout=d_layout, d=whole.view((M * N,), offset=4))
    with pytest.raises(ValueError, match="^c_layout must have the order of MatrixLayout.*COL"):
        call(c=whole, c_layout=layout("float32", M, N, order=Order.ROW))


def test_results_of_a_batch_that_overlap(call, put, layout):
    big = put(np.zeros(3 * M * N, np.float32))
    layouts = {
        name: layout("float32", *call.valid[name].shape, batch_count=3, batch_stride=0)
        for name in ("a_layout", "b_layout", "d_layout")
    }
    with pytest.raises(ValueError, match="^the matrices of d must not overlap, got a batch stride"):
        call(d=big, **layouts)


def test_lists_of_operands(call, put, layout):
    layouts = {
        name: layout("float32", *call.valid[name].shape, batch_count=2, batch_mode=1)
        for name in ("a_layout", "b_layout", "d_layout")
    }
    lists = {name: [call.valid[name]] * 2 for name in "ab"}
    d = [put(np.zeros(M * N, np.float32)) for _ in range(2)]
    cublaslt.matmul(**{**call.valid, **layouts, **lists, "d": d})
    assert (d[1].numpy() == K).all()
    for wrong, text in (
        (d[:1], "d must be a list of 2 operands, got 1"), (d[0], "d must be a list of 2 operands"),
        ([d[0], d[0]], r"^d\[.\] is written to and must not overlap d\[.\]$"),
        ([d[0], 5], r"d\[1\] must be"), ([d[0], call.valid["a"]], r"d\[1\] needs"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=text):
            call(**layouts, **lists, d=wrong)


# ---- what the descriptor refers to ---------------------------------------------------------------


def test_bias_is_checked_with_the_product(call, put, describe):
    short = describe(epilogue=Epilogue.BIAS, bias=put(np.ones(M - 1, np.float32)))
    with pytest.raises(ValueError, match=f"^bias needs {4 * M} bytes, got {4 * M - 4}$"):
        call(desc=short)
    sums = put(np.ones(N - 1, np.float32))
    with pytest.raises(ValueError, match=f"^bias needs {4 * N} bytes"):
        call(desc=describe(epilogue=Epilogue.BGRADB, bias=sums))
    closed = put(np.ones(M, np.float32))
    desc = describe(epilogue=Epilogue.BIAS, bias=closed)
    closed.close()
    with pytest.raises(ValueError, match="this Buffer is closed"):
        call(desc=desc)
    d = call.valid["d"]
    with pytest.raises(ValueError, match="^d is written to and must not overlap bias$"):
        call(desc=describe(epilogue=Epilogue.BIAS, bias=d.view((M,))))


def test_aux_is_checked_with_the_product(call, put, describe):
    with pytest.raises(ValueError, match=f"^aux_ld must be at least the {M} rows of D, got 8$"):
        call(desc=describe(epilogue=Epilogue.GELU_AUX, aux=put(np.zeros((N, 8), np.float32))))
    few = put(np.zeros((N - 1, M), np.float32))
    with pytest.raises(ValueError, match=f"^aux needs {4 * M * N} bytes, got {4 * M * (N - 1)}$"):
        call(desc=describe(epilogue=Epilogue.GELU_AUX, aux=few))
    mask = put(np.zeros((N - 1, 16), np.uint8))
    with pytest.raises(ValueError, match=f"^aux needs {16 * N} bytes, got {16 * (N - 1)}$"):
        call(desc=describe(epilogue=Epilogue.RELU_AUX, aux=mask))
    apart = put(np.zeros(M * N + 1, np.float32)).view((N, M), offset=4)
    with pytest.raises(ValueError, match="^aux must be aligned to 16 bytes, got the address 0x"):
        call(desc=describe(epilogue=Epilogue.GELU_AUX, aux=apart))
    same = put(np.zeros((N, M), np.float32))
    with pytest.raises(ValueError, match="^(d|aux) is written to and must not overlap (d|aux)$"):
        call(desc=describe(epilogue=Epilogue.GELU_AUX, aux=same), d=same)


def test_scales_are_checked_with_the_product(call, put, describe):
    with pytest.raises(ValueError, match=f"^a_scale needs {4 * M} bytes, got 4$"):
        call(desc=describe(a_scale=put(np.ones(1, np.float32)), a_scale_mode=3))
    with pytest.raises(ValueError, match="^amax_d needs 4 bytes, got 0$"):
        call(desc=describe(amax_d=put(np.ones(0, np.float32))))
    with pytest.raises((NotSupported, CublasBadParam)):  # there are none for float32
        call(desc=describe(a_scale=put(np.ones(1, np.float32))))


def test_arrays_that_move():
    """A descriptor holds an address: an array that lies elsewhere now is noticed."""

    bias = np.arange(M, dtype=np.float32)
    desc = cublaslt.MatmulDescriptor(epilogue=Epilogue.BIAS, bias=bias, library="reference")
    assert desc.bias is bias
    bias.resize(1 << 20, refcheck=False)
    layouts = [
        cublaslt.MatrixLayout("float32", *shape, library="reference")
        for shape in ((M, K), (K, N), (M, N))
    ]
    a, b, d = (np.ones(shape, np.float32) for shape in ((K, M), (N, K), (N, M)))
    with (
        cublaslt.Handle(library="reference") as handle,
        pytest.raises(ValueError, match="bias lies at 0x.* now, the descriptor was made for"),
    ):
        cublaslt.matmul(handle, desc, a, layouts[0], b, layouts[1], None, None, d, layouts[2])


# ---- workspace and algorithm ---------------------------------------------------------------------


def test_workspace(call, handle):
    big = empty(1 << 16, "uint8", device=handle.device)
    call(workspace=big)
    with pytest.raises(ValueError, match="^workspace must be aligned to 256 bytes"):
        call(workspace=big.view((1 << 12,), offset=16))
    for wrong in (0, 4096, "x"):
        with pytest.raises((TypeError, LibraryMismatch), match="^workspace must be"):
            call(workspace=wrong)
    with pytest.raises(ValueError, match="^d is written to and must not overlap workspace$"):
        call(workspace=call.valid["d"])
    big.close()
    with pytest.raises(ValueError, match="this Buffer is closed"):
        call(workspace=big)


@pytest.mark.library
def test_an_algorithm_of_the_other_library(call, backend, handle):
    valid = call.valid
    problem = [valid[n] for n in ("desc", "a_layout", "b_layout", "c_layout", "d_layout")]
    (record, *_) = cublaslt.get_heuristics(handle, *problem)
    other = cublaslt.Algorithm._copy(
        valid["desc"].replace(library={"reference": "cuda", "cuda": "reference"}[backend]).library,
        record.algorithm.struct,
    )
    with pytest.raises(LibraryMismatch, match="algorithm is of <cublaslt"):
        call(algorithm=other)


def test_types_that_there_is_no_product_of(call, put, layout):
    halves = put(np.ones((K, M), np.float16))
    with pytest.raises(CublasError, match="cublasLtMatmul returned CUBLAS_STATUS_"):
        call(a=halves, a_layout=layout("float16", M, K))


# ---- transformations -----------------------------------------------------------------------------


def test_transformations(handle, put, layout, backend):
    a, c = put(np.ones((4, 3), np.float32)), put(np.zeros((4, 3), np.float32))
    desc = cublaslt.MatrixTransformDescriptor(library=backend)
    lay = layout("float32", 3, 4)
    valid = {
        "handle": handle, "desc": desc, "a": a, "a_layout": lay, "b": None, "b_layout": None,
        "c": c, "c_layout": lay,
    }  # fmt: skip
    cublaslt.matrix_transform(**valid)
    assert (c.numpy() == 1).all()
    for changes, text in (
        ({"a": None, "a_layout": None}, "a or b must be memory, got None for both"),
        ({"a": None, "b": a, "b_layout": lay}, "a and a_layout must both be given or both be None"),
        ({"b": a}, "b and b_layout must both be given"),
        ({"a_layout": layout("float32", 4, 3)}, r"a_layout: op\(A\) must have the shape and batch"),
        ({"desc": desc.replace(transa=1)}, r"a_layout: op\(A\) must have the shape"),
        ({"a_layout": layout("float32", 3, 4, batch_count=2)}, r"a_layout: op\(A\) must have"),
        ({"c": a}, "c is written to and must not overlap a"),
        ({"c": put(np.zeros(11, np.float32))}, "c needs 48 bytes, got 44"),
    ):
        with pytest.raises(ValueError, match=text):
            cublaslt.matrix_transform(**{**valid, **changes})
    for name in ("handle", "desc", "a", "a_layout", "c", "c_layout"):
        with pytest.raises((TypeError, LibraryMismatch), match=f"^{name} must be"):
            cublaslt.matrix_transform(**{**valid, name: 5})
    with pytest.raises(TypeError, match="alpha must be a real number"):
        cublaslt.matrix_transform(**valid, alpha=1j)
    on_device, one = desc.replace(pointer_mode=1), put(np.ones(1, np.float32))
    with pytest.raises(ValueError, match="b must be memory with the pointer_mode DEVICE, got None"):
        cublaslt.matrix_transform(**{**valid, "desc": on_device}, alpha=one, beta=one)
    with pytest.raises(TypeError, match="beta is None, but the descriptor's pointer_mode is DEV"):
        cublaslt.matrix_transform(
            **{**valid, "desc": on_device, "b": a, "b_layout": lay}, alpha=one, beta=None
        )


def test_refused_calls_leak_nothing(call, layout):
    gc.collect()
    call()
    before = reference.live_objects()
    for _ in range(20):
        with pytest.raises(ValueError, match="must have"):
            call(a_layout=layout("float32", M, K + 1))
        with pytest.raises(TypeError, match="d must be|d holds"):
            call(d=np.zeros(5) if call.valid["handle"].library.backend == "reference" else 5)
    gc.collect()
    call()
    assert reference.live_objects() == before
