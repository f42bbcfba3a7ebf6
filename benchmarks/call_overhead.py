#!/usr/bin/env python
"""What one checked call costs the host: the Cython path, the ctypes path, and C itself.

The same C function is called with the same arguments in four ways:

- ``C``: a loop in C (bare_call.c, compiled here), the library's own time;
- ``cython``: the function of ``pycudnn.cudnn``: operands pinned and checked, GIL released, status
  checked;
- ``ctypes checked``: the same care on the path of the cold calls (``_core.ColdCall``);
- ``ctypes``: a typed ctypes function and an ``if`` on its status, nothing else checked.

``net_ns`` is the time less that of ``C``, so what Python adds; ``times_cython`` compares that with
the Cython path. Each figure is the fastest of several loops, which leaves out what other processes
took. The functions: an output-size query, which needs no GPU, and on a GPU cudnnActivationForward
on a small tensor, in loops short enough that the stream's queue never fills; only the host's time
counts, the stream is drained between loops.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import results

from pycudnn import CudaContext, _core, cudnn, empty
from pycudnn.libraries import get_library, is_available


class Case(NamedTuple):
    """One C function with its arguments, callable in each way."""

    function: str
    pointers: list[int]  # all arguments, for C
    routes: dict[str, Callable[[], Any]]
    calls: int  # per loop
    drain: Callable[[], Any]  # after each loop


def compile_bare_call(directory: str) -> Any:
    """Compile bare_call.c with the C compiler and load it."""
    library = Path(directory, "bare_call.so")
    source = Path(__file__).with_name("bare_call.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    function = ctypes.CDLL(str(library)).bare_call
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64]
    return function


def output_size_query(backend: str) -> Case:
    """cudnnGetConvolution2dForwardOutputDim: seven pointers, about 0.1 us in C."""
    name = "cudnnGetConvolution2dForwardOutputDim"
    library = get_library("cudnn", backend)
    x = cudnn.TensorDescriptor((256, 20, 12, 12), library=library)
    w = cudnn.FilterDescriptor((50, 20, 5, 5), library=library)
    conv = cudnn.ConvolutionDescriptor(library=library)
    sizes = (ctypes.c_int * 4)()
    out = [ctypes.pointer(ctypes.c_int.from_buffer(sizes, 4 * i)) for i in range(4)]
    pointers = [each.address for each in (conv, x, w)]
    pointers += [ctypes.addressof(sizes) + 4 * i for i in range(4)]
    function = library.function(name)
    typed = [ctypes.cast(p, t) for p, t in zip(pointers, function.argtypes, strict=True)]

    def ctypes_checked() -> tuple[int, ...]:
        with _core.ColdCall(library) as call:
            call(name, conv, x, w, *out)
        return tuple(sizes)

    def plain_ctypes() -> tuple[int, ...]:
        if function(*typed[:3], *out) != 0:
            raise RuntimeError(name)
        return tuple(sizes)

    return Case(
        name,
        pointers,
        {
            "cython": lambda: cudnn.get_convolution_forward_output_dim(conv, x, w),
            "ctypes checked": ctypes_checked,
            "ctypes": plain_ctypes,
        },
        20_000,
        lambda: None,
    )


def activation(context: CudaContext) -> Case:
    """cudnnActivationForward on 64 values: eight pointers, one kernel launch."""
    name = "cudnnActivationForward"
    library, handle = context.cudnn.library, context.cudnn
    desc = cudnn.TensorDescriptor((1, 64, 1, 1), library=library)
    relu = cudnn.ActivationDescriptor(cudnn.ActivationMode.RELU, library=library)
    x, y = (empty((1, 64, 1, 1), device=context.device, stream=context.stream) for _ in range(2))
    x.fill_bytes(0, context.stream)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    pointers = [
        handle.address, relu.address, ctypes.addressof(one), desc.address, x.address,
        ctypes.addressof(zero), desc.address, y.address,
    ]  # fmt: skip
    function = library.function(name)
    typed = [ctypes.cast(p, t) for p, t in zip(pointers, function.argtypes, strict=True)]

    def ctypes_checked() -> None:
        with _core.ColdCall(library, handle) as call:
            call(
                name, handle, relu, ctypes.byref(one), desc,
                call.operand(x, "x", False, desc), ctypes.byref(zero), desc,
                call.operand(y, "y", True, desc),
            )  # fmt: skip

    def plain_ctypes() -> None:
        if function(*typed) != 0:
            raise RuntimeError(name)

    return Case(
        name,
        pointers,
        {
            "cython": lambda: cudnn.activation_forward(handle, relu, desc, x, desc, y),
            "ctypes checked": ctypes_checked,
            "ctypes": plain_ctypes,
        },
        500,
        context.synchronize,
    )


def nanoseconds(call: Callable[[], Any], case: Case, repeats: int) -> float:
    """Return the time of a call in the fastest of ``repeats`` loops."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter_ns()
        for _ in range(case.calls):
            call()
        best = min(best, (time.perf_counter_ns() - began) / case.calls)
        case.drain()
    return best


def bare(bare_call: Any, address: int, case: Case, repeats: int) -> float:
    """Return the library's own time of a call, in nanoseconds."""
    arguments = (ctypes.c_void_p * 8)(*case.pointers)
    best = float("inf")
    for _ in range(repeats):
        took = bare_call(address, arguments, case.calls)
        case.drain()
        if took < 0:
            raise RuntimeError(f"{case.function} returned status {-took:.0f}")
        best = min(best, took)
    return best


def measure(case: Case, library: Any, bare_call: Any, repeats: int) -> list[results.Row]:
    """Measure every way of calling one function."""
    own = bare(bare_call, library.address(case.function), case, repeats)
    loop = nanoseconds(lambda: None, case, repeats)
    times = {route: nanoseconds(call, case, repeats) - loop for route, call in case.routes.items()}
    rows = [{"function": case.function, "route": "C", "ns": own, "net_ns": 0.0}]
    for route, took in times.items():
        net = took - own
        rows.append(
            {
                "function": case.function,
                "route": route,
                "ns": took,
                "net_ns": net,
                "times_cython": net / (times["cython"] - own),
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the result file."""
    options = results.parser(__doc__).parse_args(arguments)
    backend = results.backend(options)
    # The query needs the real library, not a GPU; the reference library calls back into Python.
    queried = "cuda" if is_available("cudnn", "cuda") else backend
    repeats = 5 if options.quick else 25
    result = results.begin(
        "call-overhead", backend, repeats=repeats, query_library=repr(get_library("cudnn", queried))
    )
    with tempfile.TemporaryDirectory() as directory:
        bare_call = compile_bare_call(directory)
        query = output_size_query(queried)
        result.rows += measure(query, get_library("cudnn", queried), bare_call, repeats)
        if backend == "cuda":
            with CudaContext(backend) as context:
                case = activation(context)
                result.rows += measure(case, context.cudnn.library, bare_call, repeats)
    results.finish(result, options, labels=("function", "route"), y="ns")


if __name__ == "__main__":
    main()
