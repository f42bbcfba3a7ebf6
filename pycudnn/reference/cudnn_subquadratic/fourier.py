"""Causal convolutions with many weights per channel, as products of spectra.

Here the first weight is now: ``y[t] = sum over j of x[t - j] weight[j]``. The long ones have as
many weights as time steps and keep the spectra in the reserve space for the gradients.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np

from pycudnn.abi.cudnn_enums import DataType

from ..memory import raw
from ..memory import write as write_scalar
from ..runtime import bad_param, implements, not_supported
from .causal import Array, check_aligned, check_sizes, check_type, read, write

_SIZES = {DataType.DOUBLE: (128, 4096)}, (128, 16384)
_LONG_SIZES = {DataType.DOUBLE: (4096, 2**23)}, (4096, 2**24)


def _check(
    batch: int, channels: int, steps: int, taps: int, dtype: int, *, long: bool
) -> DataType:
    check_sizes(batch=batch, dim=channels, seqLen=steps, kernelSize=taps)
    data_type = check_type(dtype)
    special, usual = _LONG_SIZES if long else _SIZES
    low, high = special.get(data_type, usual)
    if not low <= taps <= high or taps & (taps - 1):
        raise not_supported(f"kernelSize is {taps}, must be a power of 2 in [{low}, {high}]")
    if steps != taps if long else steps % taps:
        raise not_supported(f"seqLen is {steps}, must be {'' if long else 'a multiple of '}{taps}")
    return data_type


def _spectrum(values: Array) -> Array:
    """Of a sequence with as many zeros behind it, so that nothing goes around."""
    return np.fft.rfft(values, 2 * values.shape[-1])


def _sequence(spectrum: Array, steps: int) -> Array:
    return np.fft.irfft(spectrum)[..., :steps]


def _gradients(x: Array, weight: Array, dy: Array, steps: int) -> tuple[Array, Array]:
    """Of x and the weights, from the spectra."""
    return (
        _sequence(dy * weight.conj(), steps),
        _sequence((dy * x.conj()).sum(0), steps),
    )


# ---- weights for a part of the sequence ----------------------------------------------------------


def _padded(address: int, channels: int, taps: int, steps: int, data_type: DataType) -> Array:
    weights = read(address, (channels, taps), data_type)
    return np.pad(weights, ((0, 0), (0, steps - taps)))


@implements("cudnnFFTCausalConv1dForward")
def forward(
    stream: int, x: int, weight: int, y: int,
    batch: int, channels: int, steps: int, taps: int, dtype: int,
) -> None:  # fmt: skip
    """``y``, the sequences convolved with the weights."""
    check_aligned(x=x, weight=weight, y=y)
    data_type = _check(batch, channels, steps, taps, dtype, long=False)
    values = _spectrum(read(x, (batch, channels, steps), data_type))
    weights = _spectrum(_padded(weight, channels, taps, steps, data_type))
    write(y, _sequence(values * weights, steps), data_type)


@implements("cudnnFFTCausalConv1dBackward")
def backward(
    stream: int, x: int, weight: int, dy: int, dx: int, dweight: int,
    batch: int, channels: int, steps: int, taps: int, dtype: int,
) -> None:  # fmt: skip
    """Its gradients."""
    check_aligned(x=x, weight=weight, dy=dy, dx=dx, dweight=dweight)
    data_type = _check(batch, channels, steps, taps, dtype, long=False)
    values = _spectrum(read(x, (batch, channels, steps), data_type))
    weights = _spectrum(_padded(weight, channels, taps, steps, data_type))
    slope = _spectrum(read(dy, (batch, channels, steps), data_type))
    to_x, to_weight = _gradients(values, weights, slope, steps)
    write(dx, to_x, data_type)
    write(dweight, to_weight[:, :taps], data_type)


# ---- weights for the whole sequence --------------------------------------------------------------


def _complex_type(data_type: DataType) -> np.dtype[np.complexfloating]:
    return np.dtype(np.complex128 if data_type == DataType.DOUBLE else np.complex64)


def _buffer_bytes(batch: int, channels: int, steps: int, data_type: DataType) -> int:
    """Room for a row of each sequence and of each channel's weights; cuDNN pads the rows."""
    padding = 2 ** math.ceil(math.log2(steps) / 2)
    return (batch + 1) * channels * (steps + padding) * _complex_type(data_type).itemsize


def _reserved(
    address: int, size: int, batch: int, channels: int, steps: int, data_type: DataType
) -> tuple[Array, Array]:
    """The spectra of sequences and weights, as the reserve space has them."""
    needed = _buffer_bytes(batch, channels, steps, data_type)
    if size < needed:
        raise bad_param(f"reserveSpaceSizeInBytes is {size}, must be at least {needed}")
    kind, row = _complex_type(data_type), steps + 1
    memory = np.frombuffer(raw(address, needed), kind)
    split = batch * channels * row
    return (
        memory[:split].reshape(batch, channels, row),
        memory[split : split + channels * row].reshape(channels, row),
    )


def _check_workspace(size: int, needed: int) -> None:
    if size < needed:
        raise bad_param(f"workspaceSizeInBytes is {size}, must be at least {needed}")


@implements("cudnnLongFFTCausalConv1dGetBufferSizes")
def get_buffer_sizes(
    batch: int, channels: int, steps: int, taps: int, dtype: int, workspace: int, reserve: int
) -> None:
    """Bytes of workspace and reserve space."""
    if not workspace or not reserve:
        raise bad_param("workspaceSizeInBytes or reserveSpaceSizeInBytes is NULL")
    data_type = _check(batch, channels, steps, taps, dtype, long=True)
    for out in (workspace, reserve):
        write_scalar(out, ctypes.c_size_t, _buffer_bytes(batch, channels, steps, data_type))


@implements("cudnnLongFFTCausalConv1dForward")
def forward_long(
    stream: int, x: int, weight: int, y: int,
    batch: int, channels: int, steps: int, taps: int, dtype: int,
    workspace: int, workspace_size: int, reserve: int, reserve_size: int,
) -> None:  # fmt: skip
    """``y``, the sequences convolved with the weights, whose spectra go to the reserve space."""
    check_aligned(x=x, weight=weight, y=y, workspace=workspace, reserveSpace=reserve)
    data_type = _check(batch, channels, steps, taps, dtype, long=True)
    _check_workspace(workspace_size, _buffer_bytes(batch, channels, steps, data_type))
    kept = _reserved(reserve, reserve_size, batch, channels, steps, data_type)
    values = _spectrum(read(x, (batch, channels, steps), data_type))
    weights = _spectrum(read(weight, (channels, steps), data_type))
    kept[0][...], kept[1][...] = values, weights
    write(y, _sequence(values * weights, steps), data_type)


@implements("cudnnLongFFTCausalConv1dBackward")
def backward_long(
    stream: int, dy: int, dx: int, dweight: int,
    batch: int, channels: int, steps: int, taps: int, dtype: int,
    workspace: int, workspace_size: int, reserve: int, reserve_size: int,
) -> None:  # fmt: skip
    """Its gradients, from the spectra in the reserve space."""
    check_aligned(dy=dy, dx=dx, dweight=dweight, workspace=workspace, reserveSpace=reserve)
    data_type = _check(batch, channels, steps, taps, dtype, long=True)
    _check_workspace(workspace_size, _buffer_bytes(batch, channels, steps, data_type))
    kept = _reserved(reserve, reserve_size, batch, channels, steps, data_type)
    slope = _spectrum(read(dy, (batch, channels, steps), data_type))
    to_x, to_weight = _gradients(*kept, slope, steps)
    write(dx, to_x, data_type)
    write(dweight, to_weight, data_type)
