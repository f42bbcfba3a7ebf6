"""Devices, streams, events and graphs, on both sides."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from pycudnn import (
    Buffer,
    CudaContext,
    Device,
    PinnedBuffer,
    cublas,
    cudnn,
    default_backend,
    empty,
    from_numpy,
    zeros,
)
from pycudnn import pinned_empty as make_pinned
from pycudnn.device import Stream, cuda_device_count
from pycudnn.errors import LibraryMismatch, LibraryNotFound, NotSupported


@pytest.fixture
def device(backend: str) -> Device:
    return Device(backend)


@pytest.fixture
def stream(device: Device):
    with device.create_stream() as made:
        yield made


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )


# ---- the choice of a backend ----


@pytest.mark.parametrize("chosen", ["cuda", "reference"])
def test_environment_decides(monkeypatch, chosen):
    monkeypatch.setenv("PYCUDNN_BACKEND", chosen)
    assert default_backend() == chosen


def test_environment_is_checked(monkeypatch):
    monkeypatch.setenv("PYCUDNN_BACKEND", "gpu")
    with pytest.raises(ValueError, match=r"PYCUDNN_BACKEND must be one of .*'reference'.*'gpu'"):
        default_backend()


def test_default_backend_fits_the_machine(monkeypatch):
    monkeypatch.delenv("PYCUDNN_BACKEND", raising=False)
    try:
        cuda_device_count()
        expected = "cuda"
    except (LibraryNotFound, NotSupported):
        expected = "reference"
    assert default_backend() == expected
    assert Device().backend == expected


def test_no_gpu_is_a_typed_error_that_says_what_is_missing():
    shown = run_python(
        """
        from pycudnn import Device
        from pycudnn.errors import LibraryNotFound, NotSupported
        try:
            Device("cuda")
        except (LibraryNotFound, NotSupported) as error:
            print(error)
        """,
        CUDA_VISIBLE_DEVICES="",
    )
    assert shown.returncode == 0, shown.stderr
    assert "PYCUDNN_BACKEND=reference" in shown.stdout
    assert "cudaGetDeviceCount returned cudaError" in shown.stdout or "pip install" in shown.stdout


# ---- devices ----


def test_one_object_per_device(device, backend):
    assert Device(backend, 0) is device
    assert pickle.loads(pickle.dumps(device)) is device
    assert (device.backend, device.index) == (backend, 0)


@pytest.mark.parametrize("index", [-1, 1000])
def test_index_out_of_range_names_the_count(backend, index):
    with pytest.raises(ValueError, match=rf"index must be in \[0, \d+\).*got {index}"):
        Device(backend, index)


def test_unknown_backend():
    with pytest.raises(ValueError, match="backend must be one of .*'opencl'"):
        Device("opencl")
    with pytest.raises(ValueError, match="backend must be one of .*got array"):
        Device(np.zeros(4))


@pytest.mark.parametrize("index", [1.5, "0", None])
def test_an_index_that_is_no_int(backend, index):
    with pytest.raises(TypeError, match=f"index must be an int, got {index!r}"):
        Device(backend, index)


def test_properties(device, backend):
    free, total = device.memory_info()
    assert 0 < free <= total
    assert isinstance(device.name, str)
    if backend == "reference":
        assert device.compute_capability == (0, 0)
        assert device.multiprocessor_count == 0
    else:
        assert (5, 0) <= device.compute_capability < (20, 0)
        assert device.multiprocessor_count > 0
        assert device.name


def test_operations_leave_the_current_context_alone(device):
    # In a fresh thread no context is current, and none may stay current.
    seen = []

    def work():
        with device.create_stream() as stream:
            seen.append(zeros(3, device=device, stream=stream).numpy().tolist())
        if device.backend == "cuda":
            from cuda.bindings import driver

            seen.append(int(driver.cuCtxGetCurrent()[1]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ([[0, 0, 0]] if device.backend == "reference" else [[0, 0, 0], 0])


@pytest.mark.gpu
def test_h6_another_device_is_used_and_the_callers_restored():
    if cuda_device_count() < 2:
        pytest.skip("needs two GPUs")
    first, second = Device("cuda", 0), Device("cuda", 1)
    found = []

    def work():
        with first.activate():
            found.append(from_numpy(np.arange(3, dtype=np.float32), second).numpy().tolist())
            from cuda.bindings import runtime

            found.append(runtime.cudaGetDevice()[1])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[0, 1, 2], 0]
    with pytest.raises(LibraryMismatch):
        zeros(3, device=second, stream=first.create_stream())


@pytest.mark.gpu
def test_h6_handles_of_another_device():
    """They compute there, in a thread that is on device 0, and refuse device 0's memory."""
    if cuda_device_count() < 2:
        pytest.skip("needs two GPUs")
    from cuda.bindings import runtime

    found: list[Any] = []

    def work() -> None:
        runtime.cudaSetDevice(0)
        with CudaContext("cuda", 1) as context:
            found.append(_scale(context))
            desc = cudnn.TensorDescriptor((1, 1, 1, 4), library="cuda")
            there = zeros(4, device=Device("cuda", 0))
            for call in (
                lambda: cudnn.scale_tensor(context.cudnn, desc, there, 2.0),
                lambda: cublas.sscal(context.cublas, 4, 2.0, there, 1),
            ):
                with pytest.raises(LibraryMismatch, match="is on device 0, the handle on device 1"):
                    call()
        found.append(runtime.cudaGetDevice()[1])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[0, 4, 8, 12], 0]


def _scale(context: CudaContext) -> list[float]:
    """Twice 0, 1, 2, 3 by cuDNN and then by cuBLAS: a hot call each, and a cold one for memory."""
    memory = from_numpy(np.arange(4, dtype=np.float32), context.device)
    desc = cudnn.TensorDescriptor((1, 1, 1, 4), library=context.cudnn.library)
    cudnn.scale_tensor(context.cudnn, desc, memory, 2.0)
    cublas.sscal(context.cublas, 4, 2.0, memory, 1)
    return memory.numpy(context.stream).tolist()


def _in_the_child(context: CudaContext, buffer: Buffer, queue: Any) -> None:
    """What each use of the parent's objects says."""
    desc = cudnn.TensorDescriptor((1, 1, 1, 4), library=context.cudnn.library)
    uses = [
        lambda: cudnn.scale_tensor(context.cudnn, desc, buffer, 2.0),
        lambda: cublas.sscal(context.cublas, 4, 2.0, buffer, 1),
        lambda: cudnn.DropoutDescriptor(context.cudnn, 0.0),
        lambda: cudnn.Handle(context.device),
        lambda: zeros(4, device=context.device),
        buffer.numpy,
    ]
    said = []
    for use in uses:
        try:
            use()
        except RuntimeError as error:
            said.append(str(error))
    context.cudnn.close()
    queue.put(said)


@pytest.mark.gpu
def test_h7_after_a_fork_the_child_gets_an_error_and_the_parent_works():
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    with CudaContext("cuda") as context:
        assert _scale(context) == [0, 4, 8, 12]
        buffer = from_numpy(np.arange(4, dtype=np.float32), context.device)
        child = fork.Process(target=_in_the_child, args=(context, buffer, queue))
        child.start()
        said = queue.get(timeout=60)
        child.join(60)
        assert child.exitcode == 0
        assert len(said) == 6
        assert all("before this process was forked" in text for text in said)
        assert buffer.numpy().tolist() == [0, 1, 2, 3]
        assert _scale(context) == [0, 4, 8, 12]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_h7_the_reference_library_works_in_the_child():
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    with CudaContext("reference") as context:
        assert _scale(context) == [0, 4, 8, 12]
        child = fork.Process(target=lambda: queue.put(_scale(context)))
        child.start()
        assert queue.get(timeout=60) == [0, 4, 8, 12]
        child.join(60)
        assert child.exitcode == 0


def test_h7_spawned_processes_work(backend, tmp_path):
    script = tmp_path / "double.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing
            import numpy as np
            from pycudnn import CudaContext, cublas, from_numpy

            def double():
                with CudaContext({backend!r}) as context:
                    memory = from_numpy(np.arange(4, dtype=np.float32), context.device)
                    cublas.sscal(context.cublas, 4, 2.0, memory, 1)
                    return memory.numpy(context.stream).tolist()

            if __name__ == "__main__":
                print(double())
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.apply(double))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[0.0, 2.0, 4.0, 6.0]\n" * 2


# ---- streams and events ----


def test_default_stream_is_one_object_and_stays_open(device):
    assert device.default_stream is device.default_stream
    device.default_stream.close()
    device.default_stream.synchronize()
    assert not device.default_stream.closed


def test_stream_close(device):
    stream = device.create_stream()
    assert isinstance(stream, Stream)
    assert stream.device is device
    assert stream.handle != device.default_stream.handle
    stream.close()
    stream.close()
    for use in (stream.synchronize, stream.record, stream.__enter__):
        with pytest.raises(ValueError, match="this Stream is closed"):
            use()


def test_memory_outlives_its_closed_stream(device):
    stream = device.create_stream()
    buffer = from_numpy(np.arange(5, dtype=np.float32), device, stream)
    stream.close()
    assert buffer.numpy().tolist() == [0, 1, 2, 3, 4]


def test_events_tell_time(device, stream):
    first = stream.record()
    zeros(1 << 20, device=device, stream=stream)
    if device.backend == "reference":
        time.sleep(0.01)
    last = stream.record()
    last.synchronize()
    assert first.done
    assert last.done
    elapsed = last.elapsed_ms(first)
    assert 0 < elapsed < 10_000
    if device.backend == "reference":
        assert first.elapsed_ms(last) == pytest.approx(-elapsed)
        assert elapsed >= 10


def test_event_errors(device, stream):
    timed, untimed = stream.record(), stream.record(timing=False)
    with pytest.raises(ValueError, match="timing=True"):
        timed.elapsed_ms(untimed)
    with pytest.raises(TypeError, match="since must be an event"):
        timed.elapsed_ms(1.0)
    with pytest.raises(TypeError, match="event must be an event"):
        stream.wait("event")
    timed.close()
    timed.close()
    with pytest.raises(ValueError, match="this Event is closed"):
        timed.synchronize()


def test_a_stream_waits_for_another(device, stream):
    other = device.create_stream()
    source = make_pinned(1 << 20, "float32", device)
    source.array[...] = 3
    passed = empty(1 << 20, device=device, stream=stream)
    passed.copy_from(source, stream)
    other.wait(stream.record(timing=False))
    result = empty(1 << 20, device=device, stream=other)
    result.copy_from(passed, other)
    assert np.all(result.numpy(other) == 3)


def test_keep_alive_lets_go_after_the_work(device, stream):
    class Thing:
        pass

    things = [Thing() for _ in range(200)]
    watched = [weakref.ref(thing) for thing in things]
    for thing in things:
        stream.keep_alive(thing)
    del things, thing
    stream.synchronize()
    gc.collect()
    assert not any(reference() for reference in watched)


@pytest.mark.gpu
def test_keep_alive_holds_while_work_is_queued():
    device = Device("cuda")
    stream = device.create_stream()
    big = zeros(1 << 30, "uint8", device, stream)
    stream.synchronize()
    for value in range(20):
        big.fill_bytes(value, stream)

    class Thing:
        pass

    thing = Thing()
    watched = weakref.ref(thing)
    stream.keep_alive(thing)
    last = stream.record(timing=False)
    del thing
    assert watched() is not None or last.done
    stream.synchronize()
    assert watched() is None


def test_wrap_stream_finds_its_own(device, stream):
    assert device.wrap_stream(stream) is stream
    for wrong in ("stream", 1.5, True, None):
        with pytest.raises(TypeError, match="stream must be a Stream"):
            device.wrap_stream(wrong)


@pytest.mark.gpu
def test_wrap_stream_takes_handles_and_protocols():
    device = Device("cuda")
    stream = device.create_stream()
    assert device.wrap_stream(stream.handle) is stream
    assert device.wrap_stream(0) is device.default_stream
    from cuda import core

    with device.activate():
        core_device = core.Device(0)
        core_device.set_current()
        foreign = core_device.create_stream()
    wrapped = device.wrap_stream(foreign)
    assert wrapped.handle == foreign.__cuda_stream__()[1]
    assert device.wrap_stream(foreign) is wrapped
    assert zeros(3, device=device, stream=wrapped).numpy().tolist() == [0, 0, 0]
    assert not wrapped.capturing


@pytest.mark.gpu
def test_wrap_stream_takes_a_torch_stream():
    torch = pytest.importorskip("torch")
    device = Device("cuda")
    foreign = torch.cuda.Stream()
    wrapped = device.wrap_stream(foreign)
    assert wrapped.handle == foreign.cuda_stream
    assert zeros(3, device=device, stream=wrapped).numpy().tolist() == [0, 0, 0]


# ---- graphs ----


def test_reference_has_no_graphs():
    with (
        pytest.raises(NotSupported, match="no graphs"),
        Device("reference").create_stream().capture(),
    ):
        pass


@pytest.mark.gpu
class TestCapture:
    @pytest.fixture
    def device(self) -> Device:
        return Device("cuda")

    def captured_copy(self, device: Device, stream: Stream) -> tuple[PinnedBuffer, object, object]:
        source = make_pinned(4, "float32", device)
        result = empty(4, device=device, stream=stream)
        with stream.capture() as graph:
            assert stream.capturing
            between = empty(4, device=device, stream=stream)
            between.copy_from(source, stream)
            result.copy_from(between, stream)
            del between
        assert not stream.capturing
        return source, result, graph

    def test_launch_does_what_was_captured(self, device, stream):
        source, result, graph = self.captured_copy(device, stream)
        for value in (1, 2):
            source.array[...] = value
            graph.launch()
            assert result.numpy().tolist() == [value] * 4
        source.array[...] = 3
        with device.create_stream() as other:
            graph.launch(other)
            assert result.numpy().tolist() == [3] * 4

    def test_the_graph_keeps_closed_memory(self, device, stream):
        source, result, graph = self.captured_copy(device, stream)
        source.array[...] = 5
        watch = result.view()
        result.close()
        # Would take the memory of `between`, had it been freed.
        taken = [zeros(4, device=device, stream=stream) for _ in range(1000)]
        graph.launch()
        assert watch.numpy().tolist() == [5] * 4
        assert all(not buffer.numpy().any() for buffer in taken)

    def test_close(self, device, stream):
        source, result, graph = self.captured_copy(device, stream)
        source.array[...] = 7
        graph.launch()
        graph.close()
        graph.close()
        assert result.numpy().tolist() == [7] * 4
        with pytest.raises(ValueError, match="this Graph is closed"):
            graph.launch()

    def test_g3_the_legacy_default_stream(self, device, stream):
        with (
            pytest.raises(ValueError, match="legacy default stream"),
            device.default_stream.capture(),
        ):
            pass
        with stream.capture():
            pass

    def test_what_cannot_be_done_inside(self, device, stream):
        buffer = zeros(4, device=device, stream=stream)
        with stream.capture() as graph:
            buffer.fill_bytes(0, stream)
            for forbidden in (
                stream.synchronize,
                device.synchronize,
                buffer.numpy,
                lambda: buffer.copy_from(np.zeros(4, np.float32), stream),
                graph.launch,
                lambda: stream.capture().__enter__(),
            ):
                with pytest.raises(RuntimeError, match=r"captured|not complete"):
                    forbidden()
            made = from_numpy(np.full(4, 9, np.float32), device, stream)
            buffer.copy_from(made, stream)
        graph.launch()
        assert buffer.numpy().tolist() == [9] * 4

    def test_an_exception_ends_the_capture(self, device, stream):
        with pytest.raises(KeyError), stream.capture() as graph:
            raise KeyError
        with pytest.raises(RuntimeError, match="not complete"):
            graph.launch()
        assert zeros(3, device=device, stream=stream).numpy().tolist() == [0, 0, 0]

    def test_a_second_stream_joins_the_capture(self, device, stream):
        with device.create_stream() as other:
            left = zeros(4, "uint8", device, stream)
            right = zeros(4, "uint8", device, other)
            with stream.capture() as graph:
                other.wait(stream.record(timing=False))
                assert other.capturing
                right.fill_bytes(2, other)
                left.fill_bytes(1, stream)
                stream.wait(other.record(timing=False))
            assert not other.capturing
            assert right.numpy().tolist() == [0] * 4
            graph.launch()
            assert left.numpy().tolist() == [1] * 4
            assert right.numpy().tolist() == [2] * 4

    def test_descriptors_dropped_inside_a_capture(self, device, stream):
        with stream.capture() as graph:
            for _ in range(100):
                cudnn.TensorDescriptor((1, 2, 3, 4), library="cuda")
        graph.launch()
        stream.synchronize()


# ---- the end of the interpreter ----


def test_exit_with_live_objects_is_silent(backend):
    done = run_python(
        f"""
        import threading
        import numpy as np
        import pycudnn

        context = pycudnn.CudaContext({backend!r})
        buffer = pycudnn.from_numpy(np.ones(1000, np.float32), context.device, context.stream)
        view = buffer.reshape(10, 100)
        pinned = pycudnn.pinned_empty(10, "float32", context.device)
        stream = context.device.create_stream()
        event = stream.record()
        stream.keep_alive(object())
        other = pycudnn.zeros(10, device=context.device, stream=stream)
        cycle = [other]
        cycle.append(cycle)
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        if {backend!r} == "cuda":
            with stream.capture() as graph:
                other.fill_bytes(1, stream)
            graph.launch()
        context.cudnn.close()
        context.cublas.close()
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_import_needs_neither_driver_nor_cuda_python():
    done = run_python(
        """
        import sys
        sys.modules["cuda"] = None  # importing it is an ImportError
        import pycudnn
        assert pycudnn.default_backend() == "reference"
        try:
            pycudnn.Device("cuda")
        except pycudnn.errors.LibraryNotFound as error:
            print(error)
        """,
        PYCUDNN_BACKEND="",
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'pycudnn[cu13]'" in done.stdout
