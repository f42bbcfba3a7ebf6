"""Lists of operands: any number of them, alive until the stream is past the call; threads."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from pycudnn import Device, cublas, empty, from_numpy, get_library, pinned_empty
from pycudnn.cublas import PointerMode


def test_more_operands_than_one_frame_pins(handle, put, rng):
    count = 150
    a, b = rng.standard_normal((2, count, 3, 3)) + 1j * rng.standard_normal((2, count, 3, 3))
    c = [put(np.zeros((3, 3), complex)) for _ in range(count)]
    cublas.zgemm_batched(
        handle, 0, 0, 3, 3, 3, 1j, [put(x.T) for x in a], 3, [put(x.T) for x in b], 3, 0.0, c, 3,
        count,
    )  # fmt: skip
    got = np.stack([result.numpy().T for result in c])
    np.testing.assert_allclose(got, 1j * a @ b, atol=1e-13)


def test_arrays_of_others(rng):
    a, x = rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 2))
    y = [np.full(4, np.nan) for _ in range(3)]
    with cublas.Handle(library="reference") as handle:
        cublas.dgemv_batched(handle, 1, 2, 4, 1.0, list(a.transpose(0, 2, 1).copy()), 2,
                             list(x), 1, 0.0, y, 1, 3)  # fmt: skip
    np.testing.assert_allclose(np.stack(y), np.einsum("bmn,bm->bn", a, x))


def test_one_operand_many_times(handle, put):
    """Read operands may repeat, and lie in one buffer."""
    eye = put(np.eye(2))
    c = put(np.zeros((3, 2, 2)))
    parts = [c.view((2, 2), offset=32 * i) for i in range(3)]
    cublas.dgemm_batched(handle, 0, 0, 2, 2, 2, 2.0, (eye,) * 3, 2, (eye,) * 3, 2, 0.0, parts, 2, 3)
    np.testing.assert_array_equal(c.numpy(), np.stack([2 * np.eye(2)] * 3))


def test_h9_operands_dropped_while_work_is_queued(context):
    """Nothing but the stream holds the operands and their arrays of pointers."""
    stream, device = context.stream, context.device
    big = from_numpy(np.ones((2048, 2048), np.float32), device=device, stream=stream)
    out = empty((2048, 2048), device=device, stream=stream)
    results = [from_numpy(np.zeros((8, 8)), device=device, stream=stream) for _ in range(4)]
    repeats = 20 if device.backend == "cuda" else 0  # something slow in front
    for _ in range(repeats):
        n = 2048
        cublas.sgemm(context.cublas, 0, 0, n, n, n, 1.0, big, n, big, n, 0.0, out, n)
    operands = [from_numpy(np.full((8, 8), i + 1.0), device=device) for i in range(4)]
    cublas.dgemm_batched(
        context.cublas, 0, 0, 8, 8, 8, 1.0, operands, 8, operands, 8, 0.0, results, 8, 4
    )
    del operands
    gc.collect()
    others = [from_numpy(np.full((8, 8), -5.0), device=device) for _ in range(64)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(stream), np.full((8, 8), 8 * (i + 1.0) ** 2))
    del others


@pytest.mark.parametrize("c_name", ["cublasDgemmBatched", "cublasSetVectorAsync"])
def test_memory_of_others_is_kept_from_after_the_call(c_name, monkeypatch):
    """The stream keeps it until what is queued by then is done, so the call must be among that."""
    events = []
    library = get_library("cublas", "reference")
    function = library.function(c_name)

    def called(*arguments):
        events.append("call")
        return function(*arguments)

    called.argtypes = function.argtypes
    monkeypatch.setitem(library._functions, c_name, called)
    device = Device("reference")
    stream = type(device.default_stream)
    monkeypatch.setattr(stream, "keep_alive", lambda self, thing: events.append(id(thing)))
    if c_name == "cublasDgemmBatched":
        a, b, c = [np.ones((2, 2))], [np.ones((2, 2))], [np.zeros((2, 2))]
        kept = [a[0], b[0], c[0]]
        with cublas.Handle(device) as handle:
            cublas.dgemm_batched(handle, 0, 0, 2, 2, 2, 1.0, a, 2, b, 2, 0.0, c, 2, 1)
    else:
        host, there = pinned_empty(4, device=device), empty(4, device=device)
        kept = [host.array]
        cublas.set_vector_async(4, 4, host, 1, there, 1, device.default_stream)
    assert events[0] == "call"
    assert {id(thing) for thing in kept} <= set(events[1:])


def test_factors_and_solutions(handle, put, rng):
    """getrf, getrs and getri as they are used together."""
    a, b = rng.standard_normal((4, 5, 5)) + 5 * np.eye(5), rng.standard_normal((4, 5, 2))
    factors = [put(x.T) for x in a]
    pivots, info = put(np.zeros(20, np.int32)), put(np.full(4, -1, np.int32))
    cublas.dgetrf_batched(handle, 5, factors, 5, pivots, info, 4)
    np.testing.assert_array_equal(info.numpy(), 0)
    solutions = [put(x.T) for x in b]
    cublas.dgetrs_batched(handle, 0, 5, 2, factors, 5, pivots, solutions, 5, 4)
    got = np.stack([x.numpy().T for x in solutions])
    np.testing.assert_allclose(got, np.linalg.solve(a, b), atol=1e-12)
    inverses = [put(np.zeros((5, 5))) for _ in range(4)]
    cublas.dgetri_batched(handle, 5, factors, 5, pivots, inverses, 5, info, 4)
    got = np.stack([x.numpy().T for x in inverses])
    np.testing.assert_allclose(got, np.linalg.inv(a), atol=1e-12)


def test_a_singular_matrix_is_reported(handle, put):
    matrix, pivots, info = put(np.zeros((2, 2))), put(np.zeros(2, np.int32)), put(np.zeros(1, "i4"))
    cublas.dgetrf_batched(handle, 2, [matrix], 2, pivots, info, 1)
    assert info.numpy()[0] == 1


def test_a_call_sees_one_pointer_mode(handle, put):
    """Another thread that changes it waits; the call is right or says what the mode is."""
    x = put(np.full(8, 2 + 1j))
    stop, wrong = threading.Event(), []

    def compute():
        while not stop.is_set():
            try:
                found = cublas.zdotc(handle, 8, x, 1, x, 1)
            except TypeError as error:
                if "out is missing: the handle's pointer_mode is DEVICE" not in str(error):
                    wrong.append(error)
            else:
                if found != 40:
                    wrong.append(found)

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    out = put(np.zeros(1, complex))
    try:
        for _ in range(100):
            handle.pointer_mode = PointerMode.DEVICE
            cublas.zdotc(handle, 8, x, 1, x, 1, out=out)
            handle.pointer_mode = PointerMode.HOST
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert out.numpy()[0] == 40


def test_batched_calls_are_captured(context):
    """The graph keeps the arrays of pointers and what they point to."""
    if context.device.backend != "cuda":
        pytest.skip("the reference side captures nothing")
    stream, device = context.stream, context.device
    result = from_numpy(np.zeros((4, 4)), device=device, stream=stream)
    with stream.capture() as graph:
        operands = [from_numpy(np.full((4, 4), 3.0), device=device, stream=stream)]
        cublas.dgemm_batched(
            context.cublas, 0, 0, 4, 4, 4, 1.0, operands, 4, operands, 4, 0.0, [result], 4, 1
        )
    del operands
    gc.collect()
    others = [from_numpy(np.full((4, 4), -5.0), device=device, stream=stream) for _ in range(32)]
    for _ in range(2):
        result.fill_bytes(255, stream)
        graph.launch(stream)
        np.testing.assert_array_equal(result.numpy(stream), np.full((4, 4), 36.0))
    del others
