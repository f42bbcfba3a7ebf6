"""Causal convolutions against np.convolve in float64, gradients by complex steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from side import TOLERANCE, Side, numpy_dtype

from pycudnn import cudnn, errors
from pycudnn.device import Device
from pycudnn.libraries import get_library

DTYPES = ("float32", "float64", "float16", "bfloat16")
SILU = cudnn.CausalConv1dActivation.SILU


def side_with(context, version: int) -> Side:
    side = Side(context)
    if side.library.version < version:
        pytest.skip(f"cuDNN {version // 10000}.{version // 100 % 100} has it")
    return side


@pytest.fixture
def side(context) -> Side:
    return side_with(context, 92200)


@pytest.fixture
def newer_side(context) -> Side:
    return side_with(context, 92600)


# ---- the yardstick -------------------------------------------------------------------------------


def convolve(x, weight):
    """Each sequence of x (..., T) with its channel's weights (..., K), the first of them now."""
    weight = np.broadcast_to(weight, (*x.shape[:-1], weight.shape[-1]))
    y = np.zeros_like(x + weight[..., :1])
    for at in np.ndindex(x.shape[:-1]):
        y[at] = np.convolve(x[at], weight[at])[: x.shape[-1]]
    return y


def direct(x, weight, bias, silu=False):
    z = convolve(x, weight[..., ::-1]) + bias[:, None]
    return z / (1 + np.exp(-z)) if silu else z


def gated(x, projection, mixer, skip):
    """The mixed sequences, and the gated ones."""
    p = convolve(x, projection[..., ::-1])
    product = p[:, :, 1] * p[:, :, 2]
    y = convolve(product, mixer[:, ::-1]) + skip[:, None] * product
    return y, p[:, :, 0] * y


def gradient(function, operands, which, dy):
    """Of the sum of dy * function(*operands) for one of them, exact to the last digits."""
    at = operands[which]
    result = np.empty_like(at)
    for index in np.ndindex(at.shape):
        stepped = at.astype(complex)
        stepped[index] += 1e-30j
        changed = [stepped if i == which else operand for i, operand in enumerate(operands)]
        result[index] = (dy * function(*changed)).sum().imag / 1e-30
    return result


# ---- operands ------------------------------------------------------------------------------------


class Array:
    """A contiguous array on the device and its numbers in float64; ``check`` compares."""

    def __init__(self, side: Side, values: Any, dtype: str) -> None:
        self.side = side
        stored = np.asarray(values).astype(numpy_dtype(dtype))
        self.values = stored.astype(np.float64)
        self.dtype = dtype
        self.data = side.put(stored)

    def check(self, expected, slack=1.0):
        got = self.side.get(self.data).astype(np.float64)
        assert got.shape == expected.shape
        assert np.isfinite(got).all()
        tolerance = TOLERANCE[self.dtype] * slack * max(1.0, np.abs(expected).max())
        assert np.abs(got - expected).max() <= tolerance


def wide(dtype):
    """Of the gradients of weights."""
    return "float64" if dtype == "float64" else "float32"


def turn(values, innermost):
    return values.swapaxes(-1, -2) if innermost else values


class Direct:
    """Operands of a direct convolution, with the channels innermost or not."""

    def __init__(self, side, rng, dtype, sizes, innermost=False):
        self.side, self.dtype, self.sizes, self.innermost = side, dtype, sizes, innermost
        batch, dim, steps, taps = sizes
        x, weight, bias, dy = (
            Array(side, rng.uniform(-1, 1, shape), dtype).values
            for shape in ((batch, dim, steps), (dim, taps), (dim,), (batch, dim, steps))
        )
        self.exact, self.dy = [x, weight, bias], dy
        self.inputs = [
            self.array(value, dtype) for value in (turn(x, innermost), turn(weight, innermost))
        ] + [self.array(bias, dtype)]
        self.suffix = "nwh_" * innermost
        self.library = {"library": side.library}

    def array(self, values, dtype):
        return Array(self.side, values, dtype)

    def blank(self, like, dtype, fill=np.nan):
        return self.array(np.full(turn(like, self.innermost).shape, fill), dtype)

    def forward(self, *activation):
        y = self.blank(self.dy, self.dtype)
        getattr(cudnn, f"causal_conv1d_{self.suffix}forward")(
            self.side.context.stream, *[a.data for a in self.inputs], y.data, *self.sizes,
            self.dtype, *activation, **self.library,
        )  # fmt: skip
        return y

    def backward(self, *activation):
        x, weight, bias = self.exact
        dx = self.blank(x, self.dtype)
        dweight = self.blank(weight, wide(self.dtype), 1.5)
        dbias = self.array(np.full(bias.shape, -0.5), wide(self.dtype))
        dy = self.array(turn(self.dy, self.innermost), self.dtype)
        getattr(cudnn, f"causal_conv1d_{self.suffix}backward")(
            self.side.context.stream, *[a.data for a in self.inputs], dy.data, dx.data,
            dweight.data, dbias.data, *self.sizes, self.dtype, *activation, **self.library,
        )  # fmt: skip
        return dx, dweight, dbias


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize("innermost", [False, True])
def test_direct(context, rng, dtype, silu, innermost):
    side = side_with(context, 92400 if innermost else 92200)
    problem = Direct(side, rng, dtype, (2, 3, 9, 4), innermost)
    activation = (SILU,) * silu

    def function(*operands):
        return direct(*operands, silu)

    problem.forward(*activation).check(turn(function(*problem.exact), innermost))
    for which, (got, start) in enumerate(
        zip(problem.backward(*activation), (0, 1.5, -0.5), strict=True)
    ):
        expected = gradient(function, problem.exact, which, problem.dy)
        got.check(start + (turn(expected, innermost) if which < 2 else expected), slack=3)


@pytest.mark.parametrize("taps", [2, 3, 5, 6, 7, 8, 16, 32, 64, 128, 256])
@pytest.mark.parametrize("steps", [1, 5, 300])
def test_numbers_of_weights(side, rng, taps, steps):
    problem = Direct(side, rng, "float32", (1, 2, steps, taps))
    problem.forward().check(direct(*problem.exact), slack=3)


def test_the_last_weight_meets_the_present(side):
    x = Array(side, np.arange(1.0, 7.0).reshape(1, 1, 6), "float32")
    weight, bias = Array(side, [[1, 2, 3]], "float32"), Array(side, [0], "float32")
    y = Array(side, np.full((1, 1, 6), np.nan), "float32")
    cudnn.causal_conv1d_forward(
        side.context.stream, x.data, weight.data, bias.data, y.data, 1, 1, 6, 3, "float32",
        library=side.library,
    )  # fmt: skip
    assert side.get(y.data).ravel().tolist() == [3, 8, 14, 20, 26, 32]


# ---- two with gates ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("taps", [(3, 7), (4, 4), (2, 128)])
def test_gated(context, rng, dtype, taps):
    side = side_with(context, 92400)
    batch, dim, steps = 2, 2, 9
    shapes = (batch, dim, 3, steps), (dim, 3, taps[0]), (dim, taps[1]), (dim,)
    inputs = [Array(side, rng.uniform(-1, 1, shape), dtype) for shape in shapes]
    exact = [operand.values for operand in inputs]
    y, y_gated = (Array(side, np.full((batch, dim, steps), np.nan), dtype) for _ in range(2))
    stream, end = side.context.stream, (batch, dim, steps, *taps, dtype)
    data = [operand.data for operand in inputs]
    cudnn.b2b_causal_conv1d_forward(
        stream, *data, y.data, y_gated.data, *end, library=side.library
    )
    mixed, expected = gated(*exact)
    y.check(mixed, slack=3)
    y_gated.check(expected, slack=3)
    dy = Array(side, rng.uniform(-1, 1, y.values.shape), dtype)
    dx = Array(side, np.full(shapes[0], np.nan), dtype)
    sums = [Array(side, np.full(shape, 0.5), wide(dtype)) for shape in shapes[1:]]
    cudnn.b2b_causal_conv1d_backward(
        stream, *data, y.data, dy.data, dx.data, *[part.data for part in sums], *end,
        library=side.library,
    )  # fmt: skip
    for which, got in enumerate((dx, *sums)):
        exactly = gradient(lambda *operands: gated(*operands)[1], exact, which, dy.values)
        half = dtype not in ("float32", "float64")  # y was rounded on its way
        got.check(exactly + 0.5 * (which > 0), slack=300 if half and which else 4)


# ---- by FFT --------------------------------------------------------------------------------------


def correlate(dy, x):
    """``sum over t of dy[t] x[t - j]`` for each j, by time domain."""
    result = np.zeros_like(dy)
    for at in np.ndindex(dy.shape[:-1]):
        result[at] = np.correlate(dy[at], x[at], "full")[dy.shape[-1] - 1 :]
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(2, 3, 256, 128), (1, 2, 256, 256), (1, 1, 1536, 512)])
def test_fourier(newer_side, rng, dtype, sizes):
    side = newer_side
    batch, dim, steps, taps = sizes
    x, dy = (Array(side, rng.uniform(-1, 1, (batch, dim, steps)), dtype) for _ in range(2))
    weight = Array(side, rng.uniform(-1, 1, (dim, taps)), dtype)
    y, dx, dweight = (
        Array(side, np.full(like.values.shape, np.nan), dtype) for like in (x, x, weight)
    )
    stream, rest = side.context.stream, {"library": side.library}
    cudnn.fft_causal_conv1d_forward(stream, x.data, weight.data, y.data, *sizes, dtype, **rest)
    y.check(convolve(x.values, weight.values), slack=4)
    cudnn.fft_causal_conv1d_backward(
        stream, x.data, weight.data, dy.data, dx.data, dweight.data, *sizes, dtype, **rest
    )
    padded = np.broadcast_to(np.pad(weight.values, ((0, 0), (0, steps - taps))), x.values.shape)
    dx.check(correlate(dy.values, padded), slack=4)
    dweight.check(correlate(dy.values, x.values)[..., :taps].sum(0), slack=4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_fourier(newer_side, rng, dtype):
    side = newer_side
    sizes = batch, dim, steps, _ = 2, 2, 4096, 4096
    x, dy = (Array(side, rng.uniform(-1, 1, (batch, dim, steps)), dtype) for _ in range(2))
    weight = Array(side, rng.uniform(-1, 1, (dim, steps)), dtype)
    y, dx, dweight = (
        Array(side, np.full(like.values.shape, np.nan), dtype) for like in (x, x, weight)
    )
    rest = {"library": side.library}
    buffers = cudnn.long_fft_causal_conv1d_get_buffer_sizes(*sizes, dtype, **rest)
    workspace, reserve = side.scratch(buffers.workspace), side.scratch(buffers.reserve_space)
    stream = side.context.stream
    cudnn.long_fft_causal_conv1d_forward(
        stream, x.data, weight.data, y.data, *sizes, dtype, workspace, reserve, **rest
    )
    y.check(convolve(x.values, weight.values), slack=10)
    cudnn.long_fft_causal_conv1d_backward(
        stream, dy.data, dx.data, dweight.data, *sizes, dtype, workspace, reserve, **rest
    )
    weights = np.broadcast_to(weight.values, x.values.shape)
    dx.check(correlate(dy.values, weights), slack=10)
    dweight.check(correlate(dy.values, x.values).sum(0), slack=10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(2, 3, 4096), (1, 1, 8192), (4, 5, 16384), (1, 1, 2**23)])
def test_buffer_sizes_are_those_of_cudnn(library, dtype, sizes):
    batch, dim, steps = sizes
    if get_library("cudnn", library).version < 92600:
        with pytest.raises(errors.FunctionNotFound, match="BufferSizes needs cuDNN 9.26"):
            cudnn.long_fft_causal_conv1d_get_buffer_sizes(*sizes, steps, dtype, library=library)
        return
    padding = {4096: 64, 8192: 128, 16384: 128, 2**23: 4096}[steps]
    number = 16 if dtype == "float64" else 8
    needed = (batch + 1) * dim * (steps + padding) * number
    got = cudnn.long_fft_causal_conv1d_get_buffer_sizes(*sizes, steps, dtype, library=library)
    assert got == (needed, needed)


# ---- what is refused -----------------------------------------------------------------------------


def test_older_libraries_say_what_is_needed(context):
    library = context.cudnn.library
    if library.version >= 92200:
        assert cudnn.version_check(library)[-1] == "cudnnSubquadraticOpsVersionCheck"
        return
    side = Side(context)
    with pytest.raises(errors.FunctionNotFound, match="cudnnCausalConv1dForward needs cuDNN 9.22"):
        Direct(side, np.random.default_rng(1), "float32", (1, 1, 4, 2)).forward()


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"batch": 0}, ValueError, r"batch must be in \[1, 2147483647\], got 0"),
        ({"dim": -1}, ValueError, "dim must be in"),
        ({"seq_len": 1.5}, TypeError, "seq_len must be an int, got 1.5"),
        ({"seq_len": 8}, ValueError, r"x must have shape \(2, 3, 8\) or be flat"),
        ({"kernel_size": 9}, ValueError, "kernel_size must be one of .*256.*, got 9"),
        ({"kernel_size": 1}, ValueError, "kernel_size must be one of"),
        ({"data_type": "int8"}, TypeError, "data_type must be one of float32, float64"),
        ({"data_type": "float64"}, TypeError, "x holds float32, its descriptor says float64"),
        ({"activation": 2}, ValueError, "activation must be a CausalConv1dActivation"),
        ({"stream": None}, TypeError, "stream must be a Stream"),
        ({"library": "cublas"}, ValueError, "library must be a Library, one of"),
        ({"x": np.zeros(53, np.float32)}, ValueError, "x needs 216 bytes, got 212"),
        ({"x": np.zeros((2, 9, 3), np.float32)}, ValueError, "x must have shape"),
        ({"x": np.zeros((2, 9, 3), np.float32).swapaxes(1, 2)}, ValueError, "x must be laid out"),
        ({"bias": None}, TypeError, "bias must be a pycudnn buffer"),
    ],
)
def test_wrong_arguments(rng, changes, error, text):
    from pycudnn import CudaContext

    with CudaContext("reference") as context:
        problem = Direct(Side(context), rng, "float32", (2, 3, 9, 4))
        x, weight, bias = (operand.data for operand in problem.inputs)
        arguments = {
            "stream": context.stream, "x": x, "weight": weight, "bias": bias,
            "y": problem.blank(problem.dy, "float32").data, "batch": 2, "dim": 3, "seq_len": 9,
            "kernel_size": 4, "data_type": "float32", "library": "reference", **changes,
        }  # fmt: skip
        with pytest.raises(error, match=text):
            cudnn.causal_conv1d_forward(**arguments)


def test_results_share_no_memory_with_operands(side, rng):
    problem = Direct(side, rng, "float32", (2, 3, 9, 4))
    x, weight, bias = (operand.data for operand in problem.inputs)
    stream, rest = side.context.stream, {"library": side.library}
    with pytest.raises(ValueError, match="y is written and must not share memory with x"):
        cudnn.causal_conv1d_forward(stream, x, weight, bias, x, 2, 3, 9, 4, "float32", **rest)
    part = side.put(np.zeros(60, np.float32))
    with pytest.raises(ValueError, match="y is written and must not share memory with x"):
        cudnn.causal_conv1d_forward(
            stream, part, weight, bias, part.view(offset=24), 2, 3, 9, 4, "float32", **rest
        )


def test_a_closed_stream(side, rng):
    problem = Direct(side, rng, "float32", (2, 3, 9, 4))
    stream = Device(side.context.device.backend).create_stream()
    stream.close()
    operands = [operand.data for operand in problem.inputs]
    y = problem.blank(problem.dy, "float32").data
    with pytest.raises(ValueError, match="this Stream is closed"):
        cudnn.causal_conv1d_forward(
            stream, *operands, y, 2, 3, 9, 4, "float32", library=side.library
        )


def test_fourier_sizes_and_alignment(newer_side):
    side = newer_side
    x, weight, y = (side.put(np.zeros(n, np.float32)) for n in (260, 128, 256))
    stream, rest = side.context.stream, {"library": side.library}
    with pytest.raises(ValueError, match="x must start at a multiple of 16 bytes"):
        cudnn.fft_causal_conv1d_forward(
            stream, x.view(offset=4), weight, y, 1, 1, 256, 128, "float32", **rest
        )
    for sizes, text in (
        ((1, 1, 256, 64), r"power of 2 in \[128, 16384\], got 64"),
        ((1, 1, 300, 200), "power of 2"),
        ((1, 1, 200, 128), "seq_len must be a multiple of kernel_size 128, got 200"),
    ):
        with pytest.raises(ValueError, match=text):
            cudnn.fft_causal_conv1d_forward(stream, x, weight, y, *sizes, "float32", **rest)
    with pytest.raises(ValueError, match=r"power of 2 in \[128, 4096\], got 8192"):
        cudnn.fft_causal_conv1d_forward(stream, x, weight, y, 1, 1, 8192, 8192, "float64", **rest)
    with pytest.raises(ValueError, match="seq_len must be kernel_size, 4096, got 8192"):
        cudnn.long_fft_causal_conv1d_get_buffer_sizes(1, 1, 8192, 4096, "float32", **rest)


def test_long_buffers_are_large_enough(newer_side):
    side = newer_side
    data = [side.put(np.zeros(4096, np.float32)) for _ in range(3)]
    sizes = cudnn.long_fft_causal_conv1d_get_buffer_sizes(
        1, 1, 4096, 4096, "float32", library=side.library
    )
    for short in ("workspace", "reserve_space"):
        buffers = [
            side.scratch(nbytes - (name == short)) for name, nbytes in sizes._asdict().items()
        ]
        with pytest.raises(ValueError, match=f"{short} needs {sizes.workspace} bytes"):
            cudnn.long_fft_causal_conv1d_forward(
                side.context.stream, *data, 1, 1, 4096, 4096, "float32", *buffers,
                library=side.library,
            )  # fmt: skip
