"""Who frees what and when: closing under use, interpreter exit, Ctrl-C, garbage."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pycudnn import Device, cublas, cublaslt, cudnn, reference

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_python(code: str, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, env=environment, timeout=120, **options,
    )  # fmt: skip


def resident_bytes() -> int:
    """Memory of this process; 0 where there is no /proc."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def test_h2_use_after_close_of_a_handle(context):
    with cudnn.Handle(context.device) as handle:
        pass
    handle.close()
    assert handle.closed
    desc = cudnn.TensorDescriptor((1, 1, 1, 4), library=context.cudnn.library)
    with pytest.raises(ValueError, match="closed"):
        cudnn.scale_tensor(handle, desc, None, 1.0)
    with pytest.raises(ValueError, match="closed"):
        _ = handle.stream


def test_h2_a_thousand_handles_leave_no_memory(backend):
    """1000 create and close cycles leave memory within 10 MiB."""
    kinds = (cudnn.Handle, cublas.Handle, cublaslt.Handle)
    device = Device(backend)

    def cycle(count: int) -> None:
        for _ in range(count):
            for kind in kinds:
                kind(device).close()

    cycle(20)
    gc.collect()
    objects, resident, growth = reference.live_objects(), resident_bytes(), []
    for _ in range(4):  # other processes take and free memory of the same GPU
        free = device.memory_info()[0]
        cycle(84)
        gc.collect()
        growth.append(free - device.memory_info()[0])
    assert reference.live_objects() == objects
    assert resident_bytes() - resident < 10 << 20
    if backend == "cuda":
        assert min(growth) < 10 << 20


def test_a_forgotten_handle_warns():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        handle = cudnn.Handle(library="reference")
        del handle
        gc.collect()
    assert [str(item.message) for item in caught if item.category is ResourceWarning][0].startswith(
        "unclosed <cudnn.Handle"
    )


def test_handles_in_cycles_are_freed():
    gc.collect()
    cudnn.TensorDescriptor((1, 1, 1, 1), library="reference").close()
    before = reference.live_objects()
    for _ in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            handle = cudnn.Handle(library="reference")
            holder = {"handle": handle}
            holder["self"] = holder
            del handle, holder
            gc.collect()
    cudnn.TensorDescriptor((1, 1, 1, 1), library="reference").close()
    assert reference.live_objects() == before


def test_close_during_a_call_takes_effect_after_it():
    """Another thread closes everything while the call runs; the call finishes and is right."""
    x = np.random.default_rng(0).standard_normal((64, 64, 32, 32)).astype(np.float32)
    y = np.full_like(x, np.nan)
    for _ in range(5):
        handle = cudnn.Handle(library="reference")
        desc = cudnn.TensorDescriptor.like(x, library="reference")
        activation = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library="reference")
        started = threading.Event()

        def close_all(handle=handle, desc=desc, activation=activation, started=started) -> None:
            started.wait()
            time.sleep(0.002)
            for item in (desc, activation, handle):
                item.close()

        thread = threading.Thread(target=close_all)
        thread.start()
        started.set()
        cudnn.activation_forward(handle, activation, desc, x, desc, y)
        thread.join()
        np.testing.assert_allclose(y, np.tanh(x), atol=1e-6)
        with pytest.raises(ValueError, match="closed"):
            cudnn.activation_forward(handle, activation, desc, x, desc, y)


def test_h5_garbage_collection_in_many_threads(library):
    """Finalisers take no lock: no deadlock with the collector running at every allocation."""
    threshold = gc.get_threshold()
    x = np.ones((1, 1, 2, 2), np.float32)
    counts: list[int] = []

    def work(stop: float) -> None:
        handle = cudnn.Handle(library="reference") if library == "reference" else None
        made = 0
        while time.monotonic() < stop:
            desc = cudnn.TensorDescriptor((1, 1, 2, 2), library=library)
            cycle = [desc, cublaslt.MatrixLayout("float32", 2, 2, library=library)]
            cycle.append(cycle)
            if handle is not None:
                cudnn.scale_tensor(handle, desc, x, 1.0)
            made += 2
        if handle is not None:
            handle.close()
        counts.append(made)

    def run(seconds: float) -> None:
        stop = time.monotonic() + seconds
        threads = [threading.Thread(target=work, args=(stop,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        gc.collect()
        cudnn.TensorDescriptor((1, 1, 1, 1), library=library).close()  # empties the list of graves

    growth = []
    gc.set_threshold(1)
    try:
        run(1)
        objects = reference.live_objects()
        for _ in range(3):  # malloc may take more at any time, but not each time
            resident, before = resident_bytes(), sum(counts)
            run(1)
            growth.append((resident_bytes() - resident) / (sum(counts) - before))
    finally:
        gc.set_threshold(*threshold)
    assert reference.live_objects() == objects
    assert min(growth) < 50, "bytes for each object made"


EXIT = """
    import threading, time
    from pycudnn import cublaslt, cudnn
    from pycudnn.cudnn.graph import BackendDescriptor
    library = "{library}"
    descriptors = [cudnn.TensorDescriptor((1, 2, 3, 4), library=library) for _ in range(50)]
    conv = cudnn.ConvolutionDescriptor(library=library)
    cycle = [cudnn.PoolingDescriptor(2, library=library)]
    cycle.append(cycle)
    cycle += [
        cudnn.RNNDescriptor(4, 4, library=library), cudnn.LRNDescriptor(library=library),
    ]
    size = {{"TENSOR_DIMENSIONS": (2, 3, 4), "TENSOR_STRIDES": (12, 4, 1)}}
    cycle.append(BackendDescriptor("TENSOR_DESCRIPTOR", size, library=library))
    layout = cublaslt.MatrixLayout("float32", 3, 5, library=library)
    cycle += [cublaslt.MatmulDescriptor(library=library), layout]
    if {handle}:
        handle = cudnn.Handle(library=library)
    def spin():
        pooling = cudnn.PoolingDescriptor(2, library=library)
        x_desc = cudnn.TensorDescriptor((1, 2, 4, 4), library=library)
        while True:
            cudnn.get_pooling_forward_output_dim(pooling, x_desc)
            cudnn.TensorDescriptor((1, 2, 3, 4), library=library)
            BackendDescriptor("TENSOR_DESCRIPTOR", size, library=library)
            cublaslt.MatrixLayout("float32", 3, 5, library=library)
    for _ in range({threads}):
        threading.Thread(target=spin, daemon=True).start()
    time.sleep(0.05)
"""


@pytest.mark.parametrize("threads", [0, 3])
def test_exit_with_live_objects_is_clean(library, threads, has_gpu):
    """20 of 20 interpreter exits with global objects and running threads: code 0 and silent."""
    handle = library == "reference" or has_gpu
    code = EXIT.format(library=library, threads=threads, handle=handle)
    with ThreadPoolExecutor(4) as pool:
        for done in pool.map(run_python, [code] * 20):
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_during_a_reference_call_reaches_the_caller():
    done = run_python("""
        import os, signal, threading, time
        import numpy as np
        from pycudnn import cudnn
        x = np.ones((64, 64, 56, 56), np.float32)
        y = np.empty_like(x)
        desc = cudnn.TensorDescriptor.like(x, library="reference")
        tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library="reference")
        with cudnn.Handle(library="reference") as handle:
            interrupts = 0
            for _ in range(20):
                threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    while True:
                        cudnn.activation_forward(handle, tanh, desc, x, desc, y)
                except KeyboardInterrupt:
                    interrupts += 1
            cudnn.activation_forward(handle, tanh, desc, x, desc, y)
        assert np.allclose(y, np.tanh(1.0))
        print(interrupts)
    """)
    assert (done.stdout, done.stderr) == ("20\n", "")


def test_eight_threads_on_one_handle(context, rng):
    """A handle serialises its calls; results are those of one thread."""
    from pycudnn import from_numpy, zeros

    shape = (4, 3, 17, 19)
    desc = cudnn.TensorDescriptor(shape, library=context.cudnn.library)
    sigmoid = cudnn.ActivationDescriptor(
        cudnn.ActivationMode.SIGMOID, library=context.cudnn.library
    )
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(8)]
    failures: list[float] = []

    def work(array: np.ndarray) -> None:
        x = from_numpy(array, device=context.device)
        y = zeros(shape, "float32", device=context.device)
        for _ in range(25):
            cudnn.activation_forward(context.cudnn, sigmoid, desc, x, desc, y)
        exact = 1 / (1 + np.exp(-array.astype(np.float64)))
        failures.append(float(np.abs(y.numpy(context.stream) - exact).max()))

    threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 8
    assert max(failures) < 1e-6
