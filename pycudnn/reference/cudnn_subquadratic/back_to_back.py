"""Two causal convolutions with gates between and behind them, and their gradients.

Each channel has three sequences. They are projected, by a short convolution each, to a gate and
two factors; the factors' product is mixed, by a longer convolution, and gated.
"""

from __future__ import annotations

from ..runtime import bad_param, implements
from .causal import (
    add,
    check_gradient_type,
    check_pointers,
    check_sizes,
    check_type,
    convolve,
    gradients,
    read,
    write,
)


def _check(batch: int, channels: int, steps: int, short: int, long: int) -> None:
    check_sizes(batch=batch, dim=channels, seqLen=steps)
    for name, taps, largest in (("kernelSizeProj", short, 32), ("kernelSizeMixer", long, 256)):
        if not 2 <= taps <= largest:
            raise bad_param(f"{name} is {taps}, must be in [2, {largest}]")


@implements("cudnnB2BCausalConv1dForward")
def forward(
    stream: int,
    x: int,
    projection: int,
    mixer: int,
    skip: int,
    y: int,
    gated: int,
    batch: int,
    channels: int,
    steps: int,
    short: int,
    long: int,
    dtype: int,
) -> None:
    """``y = mixer * (p1 p2) + skip p1 p2`` and ``yGated = p0 y``, of the projections p of x."""
    check_pointers(x=x, weightsProj=projection, weightsMixer=mixer, skipBias=skip, y=y,
                   yGated=gated)  # fmt: skip
    _check(batch, channels, steps, short, long)
    data_type = check_type(dtype)
    values = read(x, (batch, channels, 3, steps), data_type)
    p = convolve(values, read(projection, (channels, 3, short), data_type))
    product = p[:, :, 1] * p[:, :, 2]
    mixed = convolve(product, read(mixer, (channels, long), data_type))
    mixed += read(skip, (channels,), data_type)[:, None] * product
    write(y, mixed, data_type)
    write(gated, p[:, :, 0] * mixed, data_type)


@implements("cudnnB2BCausalConv1dBackward")
def backward(
    stream: int,
    x: int,
    projection: int,
    mixer: int,
    skip: int,
    y: int,
    dy: int,
    dx: int,
    dprojection: int,
    dmixer: int,
    dskip: int,
    batch: int,
    channels: int,
    steps: int,
    short: int,
    long: int,
    dtype: int,
    gradient_type: int,
) -> None:
    """Gradients for that of yGated; those of weights and skip are added to what is there."""
    check_pointers(
        x=x, weightsProj=projection, weightsMixer=mixer, skipBias=skip, y=y, dy=dy, dx=dx,
        dweightsProj=dprojection, dweightsMixer=dmixer, dskipBias=dskip,
    )  # fmt: skip
    _check(batch, channels, steps, short, long)
    data_type = check_type(dtype)
    wide = check_gradient_type(data_type, gradient_type)
    values = read(x, (batch, channels, 3, steps), data_type)
    weights = read(projection, (channels, 3, short), data_type)
    p = convolve(values, weights)
    gate, one, two = p[:, :, 0], p[:, :, 1], p[:, :, 2]
    slope = read(dy, (batch, channels, steps), data_type)
    to_mixed = slope * gate
    to_product, to_mixer = gradients(one * two, read(mixer, (channels, long), data_type), to_mixed)
    to_product += to_mixed * read(skip, (channels,), data_type)[:, None]
    add(dskip, (to_mixed * one * two).sum((0, 2)), wide)
    add(dmixer, to_mixer.sum(0), wide)
    to_p = p.copy()
    to_p[:, :, 0] = slope * read(y, slope.shape, data_type)
    to_p[:, :, 1] = to_product * two
    to_p[:, :, 2] = to_product * one
    to_x, to_projection = gradients(values, weights, to_p)
    add(dprojection, to_projection.sum(0), wide)
    write(dx, to_x, data_type)
