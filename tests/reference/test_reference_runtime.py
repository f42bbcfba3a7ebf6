"""The runtime: objects behind identifiers, statuses, error texts, exceptions inside callbacks."""

from __future__ import annotations

import ctypes
import signal
import threading

import pytest
from c_library import CLibrary

from pycudnn import abi, reference
from pycudnn.abi.cudnn_enums import Status
from pycudnn.abi.types import HANDLES
from pycudnn.reference import runtime

TENSOR = HANDLES["cudnnTensorDescriptor_t"]


@pytest.fixture
def lib() -> CLibrary:
    return CLibrary("reference")


def as_tensor(identifier: int):
    return ctypes.cast(ctypes.c_void_p(identifier), TENSOR)


def identifier_of(object_) -> int:
    return ctypes.cast(object_, ctypes.c_void_p).value


def size_of(lib: CLibrary, descriptor) -> int:
    """The status of a query that needs the descriptor."""
    return lib.cudnnGetTensorSizeInBytes(descriptor, ctypes.byref(ctypes.c_size_t()))


def make_callback(function, name: str = "cudnnOpsVersionCheck"):
    """A C function with the prototype of `name` (a status, no arguments) around `function`."""
    prototype = abi.prototype("cudnn", name)
    callback = abi.callback_type(prototype)(runtime._callback(prototype, function))
    return callback


def test_every_implemented_function_is_declared_and_has_one_address() -> None:
    tables = [abi.prototypes(library).keys() for library in ("cudnn", "cublas", "cublaslt")]
    assert runtime.names() - set().union(*tables) == set()
    assert reference.address("cudnn", "cudnnPoolingForward") > 0
    assert reference.address("cudnn", "cudnnPoolingForward") == reference.address(
        "cudnn", "cudnnPoolingForward"
    )


def test_what_is_missing_has_no_address() -> None:
    assert reference.address("cudnn", "cudnnRNNForward") is None
    assert reference.address("cudnn", "cudnnNoSuchFunction") is None
    assert reference.address("cublas", "cudnnPoolingForward") is None


def test_wrong_objects_give_a_status_and_a_text_that_names_the_argument(lib: CLibrary) -> None:
    pooling = lib.create("Pooling")
    cases = {
        "NULL": None,
        "destroyed or never created": as_tensor(0x1234),
        "a Pooling": as_tensor(identifier_of(pooling)),
    }
    for text, descriptor in cases.items():
        assert size_of(lib, descriptor) == Status.BAD_PARAM
        error = lib.last_error()
        assert "tensorDesc" in error
        assert text in error


def test_a_destroyed_descriptor_stays_dead(lib: CLibrary) -> None:
    before = reference.live_objects()["Tensor"]
    descriptor = lib.create("Tensor")
    assert reference.live_objects()["Tensor"] == before + 1
    stale = identifier_of(descriptor)
    lib.check("cudnnDestroyTensorDescriptor", descriptor)
    assert reference.live_objects()["Tensor"] == before
    newer = [lib.create("Tensor") for _ in range(100)]
    assert stale not in {identifier_of(each) for each in newer}
    assert size_of(lib, as_tensor(stale)) == Status.BAD_PARAM
    assert lib.cudnnDestroyTensorDescriptor(as_tensor(stale)) == Status.BAD_PARAM
    for each in newer:
        lib.check("cudnnDestroyTensorDescriptor", each)


def test_destroying_null_is_nothing_and_another_kind_is_refused(lib: CLibrary) -> None:
    assert lib.cudnnDestroyTensorDescriptor(None) == 0
    pooling = lib.create("Pooling")
    status = lib.cudnnDestroyTensorDescriptor(as_tensor(identifier_of(pooling)))
    assert status == Status.BAD_PARAM
    lib.check("cudnnDestroyPoolingDescriptor", pooling)


def test_null_out_pointers_are_refused(lib: CLibrary) -> None:
    assert lib.cudnnCreateTensorDescriptor(None) == Status.BAD_PARAM
    assert lib.cudnnCreate(None) == Status.BAD_PARAM
    descriptor = lib.tensor((1, 2, 3, 4), (24, 12, 4, 1), 0)
    assert lib.cudnnGetTensorSizeInBytes(descriptor, None) == Status.BAD_PARAM
    assert "size is NULL" in lib.last_error()


def test_last_error_is_cut_to_the_buffer_clears_and_survives_success(lib: CLibrary) -> None:
    assert lib.cudnnSetTensor4dDescriptor(lib.create("Tensor"), 9, 0, 1, 1, 1, 1) != 0
    lib.create("Tensor")  # a success in between changes nothing
    short = ctypes.create_string_buffer(b"#" * 12, 12)
    lib.cudnnGetLastErrorString(short, 9)
    assert short.raw == b"format 9\0###"
    assert lib.last_error() == ""


def test_last_error_is_per_thread(lib: CLibrary) -> None:
    size_of(lib, None)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(lib.last_error()))
    thread.start()
    thread.join()
    assert seen == [""]
    assert "tensorDesc" in lib.last_error()


def test_a_bug_is_an_internal_error_with_its_text(lib: CLibrary) -> None:
    def function() -> None:
        raise ZeroDivisionError("a bug")

    assert make_callback(function)() == Status.INTERNAL_ERROR
    assert lib.last_error() == "ZeroDivisionError: a bug"
    assert reference.take_pending() is None


@pytest.mark.parametrize("exception", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_is_no_ordinary_exception_is_kept_for_the_caller(
    lib: CLibrary, exception: BaseException
) -> None:
    def function() -> None:
        raise exception

    assert make_callback(function)() == Status.INTERNAL_ERROR
    assert type(exception).__name__ in lib.last_error()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(reference.take_pending()))
    thread.start()
    thread.join()
    assert seen == [None], "another thread's"
    assert reference.take_pending() is exception
    assert reference.take_pending() is None


def test_interrupt_by_signal_reaches_the_caller() -> None:
    status = make_callback(lambda: signal.raise_signal(signal.SIGINT))()
    assert status == Status.INTERNAL_ERROR
    assert isinstance(reference.take_pending(), KeyboardInterrupt)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_no_interrupt_is_lost_whenever_it_comes(lib: CLibrary, rng) -> None:
    """Also one that the interpreter handles on the callback's first instruction."""
    descriptor, size = lib.tensor((1, 1, 1, 1), (1, 1, 1, 1), 0), ctypes.c_size_t()
    query, out = lib.cudnnGetTensorSizeInBytes, ctypes.byref(size)
    fired: list[int] = []

    def handler(*_: object) -> None:
        fired.append(1)
        raise KeyboardInterrupt

    arrived, rounds = 0, 300
    previous = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(rounds):
            fired.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 5e-4))
                while not fired:
                    status = query(descriptor, out)
                    if reference.take_pending() is not None:
                        assert status == Status.INTERNAL_ERROR
                        arrived += 1
            except KeyboardInterrupt:  # between two calls
                arrived += 1
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert arrived == rounds


def test_statuses_pass_through(lib: CLibrary) -> None:
    def function() -> None:
        raise runtime.Status(Status.EXECUTION_FAILED, "no luck")

    assert make_callback(function)() == 5000
    assert lib.last_error() == "no luck"
    assert make_callback(lambda: None)() == 0


def test_threads_create_and_destroy_side_by_side(lib: CLibrary) -> None:
    before = reference.live_objects()["Tensor"]
    failures = []

    def work(width: int) -> None:
        for _ in range(200):
            descriptor = lib.tensor((1, 1, 1, width), (width, width, width, 1), 0)
            size = ctypes.c_size_t()
            lib.check("cudnnGetTensorSizeInBytes", descriptor, ctypes.byref(size))
            if size.value != 4 * width:
                failures.append((width, size.value))
            lib.check("cudnnDestroyTensorDescriptor", descriptor)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert reference.live_objects()["Tensor"] == before


def test_handle_remembers_its_stream(lib: CLibrary) -> None:
    handle, stream = lib.create(""), ctypes.c_void_p(7)
    lib.check("cudnnGetStream", handle, ctypes.byref(stream))
    assert stream.value is None
    lib.check("cudnnSetStream", handle, 0x5000)
    lib.check("cudnnGetStream", handle, ctypes.byref(stream))
    assert stream.value == 0x5000
    lib.check("cudnnDestroy", handle)
    assert lib.cudnnSetStream(handle, 0) == Status.BAD_PARAM


def test_runtime_error_query_reports_success(lib: CLibrary) -> None:
    handle, status = lib.create(""), ctypes.c_int(-1)
    lib.check("cudnnQueryRuntimeError", handle, ctypes.byref(status), 2, None)
    assert status.value == 0
    assert lib.cudnnQueryRuntimeError(handle, ctypes.byref(status), 3, None) == Status.BAD_PARAM
