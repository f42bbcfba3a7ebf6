"""Problems for causal convolutions of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import FLOATING, Case, Operand, problem

from pycudnn import cudnn


def causal(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Each sequence of x (..., T) with weights (..., K), the last of which meets the present."""
    taps, steps = weight.shape[-1], x.shape[-1]
    padded = np.concatenate([np.zeros((*x.shape[:-1], taps - 1)), x], -1)
    seen = np.lib.stride_tricks.sliding_window_view(padded, taps, -1)[..., :steps, :]
    return np.einsum("...tk,...k->...t", seen, weight)


def causal_gradients(
    x: np.ndarray, weight: np.ndarray, dy: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of x, and of the weights for each sequence by itself."""
    taps = weight.shape[-1]
    padded = np.concatenate([np.zeros((*x.shape[:-1], taps - 1)), x], -1)
    seen = np.lib.stride_tricks.sliding_window_view(padded, taps, -1)
    dx = causal(dy[..., ::-1], weight)[..., ::-1]  # time runs backwards for a gradient
    return dx, np.einsum("...tk,...t->...k", seen, dy)


class Sequences:
    """Operands of causal convolutions: contiguous, with a guard behind each."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtype = case.choose(*FLOATING)
        self.wide = "float64" if self.dtype == "float64" else "float32"
        self.batch, self.dim = case.integer(1, 4), case.integer(1, 9)
        self.options = {"library": case.library}

    def array(self, *shape: int, dtype: str = "", blank: bool = False) -> Operand:
        """Of random numbers, or NaN."""
        padded = (1,) * (2 - len(shape)) + shape
        dtype = dtype or self.dtype
        return self.case.tensor(padded, dtype, layout="packed", blank=blank)


def direct(case: Case, innermost: bool, backward: bool) -> None:
    p = Sequences(case)
    sizes = [size for size in (*range(2, 9), 16, 32, 64, 128, 256) if size < 256 or not innermost]
    steps, taps = case.integer(1, 300), case.choose(*sizes)
    activation = case.choose(*cudnn.CausalConv1dActivation)
    silu = activation == cudnn.CausalConv1dActivation.SILU

    def shape(channels: int, length: int) -> tuple[int, int]:
        return (length, channels) if innermost else (channels, length)

    def turn(values: np.ndarray) -> np.ndarray:
        return values.swapaxes(-1, -2) if innermost else values

    x, weight = p.array(p.batch, *shape(p.dim, steps)), p.array(*shape(p.dim, taps))
    bias = p.array(p.dim)
    z = causal(turn(x.values), turn(weight.values)) + bias.values[0, :, None]
    s = 1 / (1 + np.exp(-z))
    end = (p.batch, p.dim, steps, taps, p.dtype, activation)
    prefix = "causal_conv1d_nwh_" if innermost else "causal_conv1d_"
    inputs = [operand.data for operand in (x, weight, bias)]
    slack = 1.5
    if not backward:
        y = p.array(*x.values.shape, blank=True)
        getattr(cudnn, f"{prefix}forward")(
            case.context.stream, *inputs, y.data, *end, **p.options
        )
        case.check(y, turn(z * s if silu else z), p.dtype, slack)
        return
    dy, dx = p.array(*x.values.shape), p.array(*x.values.shape, blank=True)
    dweight, dbias = p.array(*weight.values.shape, dtype=p.wide), p.array(p.dim, dtype=p.wide)
    getattr(cudnn, f"{prefix}backward")(
        case.context.stream, *inputs, dy.data, dx.data, dweight.data, dbias.data, *end, **p.options
    )
    slope = turn(dy.values) * (s * (1 + z * (1 - s)) if silu else 1.0)
    to_x, to_weight = causal_gradients(turn(x.values), turn(weight.values), slope)
    case.check(dx, turn(to_x), p.dtype, slack)
    case.check(dweight, turn(to_weight.sum(0)) + dweight.values, p.wide, 2)
    case.check(dbias, slope.sum((0, 2)) + dbias.values, p.wide, 2)


@problem("cudnnCausalConv1dForward")
def causal_conv1d_forward(case: Case) -> None:
    direct(case, innermost=False, backward=False)


@problem("cudnnCausalConv1dBackward")
def causal_conv1d_backward(case: Case) -> None:
    direct(case, innermost=False, backward=True)


@problem("cudnnCausalConv1dNwhForward")
def causal_conv1d_nwh_forward(case: Case) -> None:
    direct(case, innermost=True, backward=False)


@problem("cudnnCausalConv1dNwhBackward")
def causal_conv1d_nwh_backward(case: Case) -> None:
    direct(case, innermost=True, backward=True)


class Gated(Sequences):
    """The two convolutions with gates."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.steps, short, long = case.integer(1, 64), case.integer(2, 8), case.integer(2, 16)
        self.x = self.array(self.batch, self.dim, 3, self.steps)
        self.projection, self.mixer = self.array(self.dim, 3, short), self.array(self.dim, long)
        self.skip = self.array(self.dim)
        self.end = (self.batch, self.dim, self.steps, short, long, self.dtype)
        self.p = causal(self.x.values, self.projection.values)
        product = self.p[:, :, 1] * self.p[:, :, 2]
        self.product = product
        self.mixed = causal(product, self.mixer.values) + self.skip.values.T * product
        self.data = [o.data for o in (self.x, self.projection, self.mixer, self.skip)]

    def forward(self) -> tuple[Operand, Operand]:
        """The mixed sequences and the gated ones."""
        shape = (self.batch, self.dim, self.steps)
        y, gated = self.array(*shape, blank=True), self.array(*shape, blank=True)
        cudnn.b2b_causal_conv1d_forward(
            self.case.context.stream, *self.data, y.data, gated.data, *self.end, **self.options
        )
        return y, gated


@problem("cudnnB2BCausalConv1dForward")
def b2b_causal_conv1d_forward(case: Case) -> None:
    p = Gated(case)
    y, gated = p.forward()
    case.check(y, p.mixed, p.dtype, 2)
    case.check(gated, p.p[:, :, 0] * p.mixed, p.dtype, 2)


@problem("cudnnB2BCausalConv1dBackward")
def b2b_causal_conv1d_backward(case: Case) -> None:
    p = Gated(case)
    y, _ = p.forward()
    dy, dx = p.array(*p.mixed.shape), p.array(*p.x.values.shape, blank=True)
    sums = [p.array(*o.values.shape, dtype=p.wide) for o in (p.projection, p.mixer, p.skip)]
    cudnn.b2b_causal_conv1d_backward(
        case.context.stream, *p.data, y.data, dy.data, dx.data, *[part.data for part in sums],
        *p.end, **p.options,
    )  # fmt: skip
    to_mixed = dy.values * p.p[:, :, 0]
    to_product, to_mixer = causal_gradients(p.product, p.mixer.values, to_mixed)
    to_product = to_product + to_mixed * p.skip.values.T
    to_p = np.stack(
        [dy.values * p.mixed, to_product * p.p[:, :, 2], to_product * p.p[:, :, 1]], 2
    )
    to_x, to_projection = causal_gradients(p.x.values, p.projection.values, to_p)
    case.check(dx, to_x, p.dtype, 2)
    # What they are sums of was rounded on its way.
    precise = p.wide if p.dtype == p.wide else p.dtype
    for part, exact in zip(
        sums, (to_projection.sum(0), to_mixer.sum(0), (to_mixed * p.product).sum((0, 2))),
        strict=True,
    ):  # fmt: skip
        case.check(part, exact.reshape(part.values.shape) + part.values, precise, 2)


class Fourier(Sequences):
    """Convolutions by FFT, whose first weight meets the present."""

    def __init__(self, case: Case, *, long: bool) -> None:
        super().__init__(case)
        self.batch, self.dim = case.integer(1, 2), case.integer(1, 3)
        taps = case.choose(4096, 8192) if long else case.choose(128, 256, 512)
        self.steps = taps if long else taps * case.integer(1, 3)
        self.x = self.array(self.batch, self.dim, self.steps)
        self.weight = self.array(self.dim, taps)
        self.sizes = (self.batch, self.dim, self.steps, taps, self.dtype)
        self.buffers: tuple[Any, ...] = ()
        if long:
            sizes = cudnn.long_fft_causal_conv1d_get_buffer_sizes(*self.sizes, **self.options)
            self.buffers = tuple(case.scratch(nbytes) for nbytes in sizes)
        self.prefix = "long_fft_causal_conv1d_" if long else "fft_causal_conv1d_"

    def spectrum(self, values: np.ndarray) -> np.ndarray:
        """Of a sequence with as many zeros behind it."""
        return np.fft.rfft(values, 2 * self.steps)

    def sequence(self, spectrum: np.ndarray) -> np.ndarray:
        """Its first half."""
        return np.fft.irfft(spectrum, 2 * self.steps)[..., : self.steps]

    def call(self, name: str, *operands: Operand) -> None:
        getattr(cudnn, self.prefix + name)(
            self.case.context.stream, *[operand.data for operand in operands], *self.sizes,
            *self.buffers, **self.options,
        )  # fmt: skip

    def forward(self) -> None:
        y = self.array(*self.x.values.shape, blank=True)
        self.call("forward", self.x, self.weight, y)
        exact = self.spectrum(self.x.values) * self.spectrum(self.weight.values)
        self.case.check(y, self.sequence(exact), self.dtype, 2)

    def backward(self) -> None:
        if self.buffers:
            self.forward()
        dy, dx = self.array(*self.x.values.shape), self.array(*self.x.values.shape, blank=True)
        dweight = self.array(*self.weight.values.shape, blank=True)
        inputs = [dy] if self.buffers else [self.x, self.weight, dy]
        self.call("backward", *inputs, dx, dweight)
        slope = self.spectrum(dy.values)
        to_x = self.sequence(slope * self.spectrum(self.weight.values).conj())
        to_weight = self.sequence((slope * self.spectrum(self.x.values).conj()).sum(0))
        self.case.check(dx, to_x, self.dtype, 2)
        taps = self.weight.values.shape[-1]
        self.case.check(dweight, to_weight[..., :taps], self.dtype, 2)


@problem("cudnnFFTCausalConv1dForward")
def fft_causal_conv1d_forward(case: Case) -> None:
    Fourier(case, long=False).forward()


@problem("cudnnFFTCausalConv1dBackward")
def fft_causal_conv1d_backward(case: Case) -> None:
    Fourier(case, long=False).backward()


@problem("cudnnLongFFTCausalConv1dForward")
def long_fft_causal_conv1d_forward(case: Case) -> None:
    Fourier(case, long=True).forward()


@problem("cudnnLongFFTCausalConv1dBackward")
def long_fft_causal_conv1d_backward(case: Case) -> None:
    Fourier(case, long=True).backward()
