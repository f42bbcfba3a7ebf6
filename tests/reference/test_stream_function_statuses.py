"""Statuses of the causal convolutions, each argument changed, in the reference and in libcudnn.

The real library checks its arguments before it asks for a device, so where there is none it tells
what it refuses: NOT_INITIALIZED is its answer to a good call.
"""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import abi
from pycudnn.abi.cudnn_enums import Status
from pycudnn.libraries import get_library

pytestmark = pytest.mark.library

STEP = 1 << 16  # bytes from one operand to the next
TYPES = (-1, 1, 2, 3, 4, 9, 11, 99)
COUNTS = (-1, 0, 1)
DIRECT = {
    "seqLen": (*COUNTS, 2),
    "kernelSize": (-3, 0, 1, 2, 8, 9, 17, 32, 33, 128, 129, 256, 257, 512),
}
GATED = {name: DIRECT["kernelSize"] for name in ("kernelSizeProj", "kernelSizeMixer")}
FOURIER = {
    "seqLen": (*COUNTS, 64, 128, 200, 384, 512),
    "kernelSize": (0, 64, 100, 127, 128, 256, 512),
}
LONG = {"seqLen": (*COUNTS, 8192), "kernelSize": (0, 2048, 8192)}
# Numbers of a good call, and what to put in their places.
FUNCTIONS = {
    "cudnnCausalConv1dForward": ((2, 3, 16, 4, 0, 0), DIRECT),
    "cudnnCausalConv1dBackward": ((2, 3, 16, 4, 0, 0, 0), DIRECT),
    "cudnnCausalConv1dNwhForward": ((2, 3, 16, 4, 0, 0), DIRECT),
    "cudnnCausalConv1dNwhBackward": ((2, 3, 16, 4, 0, 0, 0), DIRECT),
    "cudnnB2BCausalConv1dForward": ((2, 3, 16, 4, 4, 0), GATED),
    "cudnnB2BCausalConv1dBackward": ((2, 3, 16, 4, 4, 0, 0), GATED),
    "cudnnFFTCausalConv1dForward": ((2, 3, 256, 128, 0), FOURIER),
    "cudnnFFTCausalConv1dBackward": ((2, 3, 256, 128, 0), FOURIER),
    "cudnnLongFFTCausalConv1dForward": ((1, 1, 4096, 4096, 0), LONG),
    "cudnnLongFFTCausalConv1dBackward": ((1, 1, 4096, 4096, 0), LONG),
}
EVERYWHERE = {
    "batch": COUNTS, "dim": COUNTS, "activation": (-1, 1, 2), "dataType": TYPES,
    "dwDataType": TYPES,
}  # fmt: skip


def calls(function):
    """Arguments of a good call and of all changed ones, each with its label."""
    numbers, changes = FUNCTIONS[function]
    memory = np.zeros(12 * STEP, np.uint8)
    first = -memory.ctypes.data % STEP + memory.ctypes.data
    numbers, arguments, names = list(numbers), [], []
    for place, argument in enumerate(abi.prototype("cudnn", function).arguments):
        names.append(argument.name)
        if argument.type == "cudaStream_t":
            arguments.append(None)
        elif argument.type.endswith("*"):
            arguments.append(first + (place - 1) * STEP % (10 * STEP))
        elif argument.type == "size_t":
            arguments.append(2 * 2 * 2 * (4096 + 64) * 8)  # enough for both data types
        else:
            arguments.append(numbers.pop(0))
    yield "good", arguments, memory
    for place, (name, value) in enumerate(zip(names, arguments, strict=True)):
        others = {**EVERYWHERE, **changes}.get(name, ())
        if isinstance(value, int) and value >= first:
            others = (0, value + 2, value + 8) if "FFT" in function else (0,)
        for other in others:
            changed = [*arguments[:place], other, *arguments[place + 1 :]]
            yield f"{name} = {other - value + first if other > first else other}", changed, memory


@pytest.mark.parametrize("function", FUNCTIONS)
def test_refused_for_the_same(function, has_gpu):
    if has_gpu:
        pytest.skip("a GPU would compute with memory of the host")
    real = get_library("cudnn", "cuda")
    if real.version < 92600:
        pytest.skip("cuDNN 9.26 has all of them")
    expected, got = {}, {}
    for label, arguments, _memory in calls(function):
        expected[label] = Status(real.function(function)(*arguments)).name
        answer = Status(get_library("cudnn", "reference").function(function)(*arguments))
        got[label] = "NOT_INITIALIZED" if answer == Status.SUCCESS else answer.name
    assert got == expected
    assert expected["good"] == "NOT_INITIALIZED"
    assert {"BAD_PARAM", "NOT_SUPPORTED"} <= set(expected.values())
