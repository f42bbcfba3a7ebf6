"""Patches as a matrix and reordered int8 weights, against NumPy loops over the elements."""

from __future__ import annotations

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn, errors

VECT = cudnn.TensorFormat.NCHW_VECT_C
TURNED, CORRELATION = cudnn.ConvolutionMode


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def patches(x, window, output, padding, stride, dilation):
    """A row per weight (c, r, s), a column per output pixel (n, p, q)."""
    n, c, *_ = x.shape
    around = np.pad(x, [(0, 0), (0, 0), *((pad, pad) for pad in padding)])
    columns = np.zeros((c, *window, n, *output))
    for p, q in np.ndindex(*output):
        for r, s in np.ndindex(*window):
            at = p * stride[0] + r * dilation[0], q * stride[1] + s * dilation[1]
            columns[:, r, s, :, p, q] = around[(..., *at)].T
    return columns.reshape(-1, n * output[0] * output[1])


def run(side, x, w_shape, padding=(0, 0), stride=(1, 1), dilation=(1, 1), mode=CORRELATION):
    """The matrix, and what it should be."""
    conv = cudnn.ConvolutionDescriptor(
        padding, stride, dilation, mode=mode, library=side.library,
        compute_type="float64" if x.dtype == np.float64 else "float32",
    )  # fmt: skip
    w_desc = cudnn.FilterDescriptor(w_shape, x.dtype, library=side.library)
    output = cudnn.get_convolution_forward_output_dim(conv, x.desc, w_desc)[2:]
    want = patches(x.values, w_shape[2:], output, padding, stride, dilation)
    if mode != CORRELATION:
        turned = want.reshape(w_shape[1], *w_shape[2:], -1)[:, ::-1, ::-1]
        want = turned.reshape(want.shape)
    columns = side.blank(want.shape, x.dtype.name)
    cudnn.im2col(side.handle, x.desc, x.data, w_desc, conv, columns.data)
    return columns, want


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"padding": (1, 2)},
        {"stride": (2, 3)},
        {"dilation": (2, 1)},
        {"padding": (2, 1), "stride": (1, 2), "dilation": (2, 2), "mode": TURNED},
    ],
)
def test_im2col(side, rng, settings, dtype):
    x = side.tensor(rng.standard_normal((2, 3, 7, 8)), dtype)
    columns, want = run(side, x, (4, 3, 2, 3), **settings)
    columns.check(want)


def test_a_convolution_is_a_product_with_the_matrix(side, rng):
    x = side.tensor(rng.integers(-5, 6, (2, 3, 5, 6)))
    columns, _ = run(side, x, (4, 3, 2, 2), (1, 0))
    w = rng.integers(-5, 6, (4, 3, 2, 2)).astype(np.float32)
    conv = cudnn.ConvolutionDescriptor((1, 0), library=side.library)
    w_desc = cudnn.FilterDescriptor(w.shape, library=side.library)
    y = side.blank(cudnn.get_convolution_forward_output_dim(conv, x.desc, w_desc))
    cudnn.convolution_forward(
        side.handle, x.desc, x.data, w_desc, side.put(w), conv, 0, None, y.desc, y.data
    )
    product = w.reshape(4, -1) @ columns.read()
    y.check(product.reshape(4, 2, *y.shape[2:]).swapaxes(0, 1))


def test_im2col_refuses(side):
    x = side.blank((2, 3, 5, 6))
    conv = cudnn.ConvolutionDescriptor(library=side.library)
    columns = side.blank((18, 32))

    def call(w_shape=(4, 3, 2, 3), x_desc=x.desc, conv=conv, columns=columns, dtype="float32"):
        w_desc = cudnn.FilterDescriptor(w_shape, dtype, library=side.library)
        cudnn.im2col(side.handle, x_desc, x.data, w_desc, conv, columns.data)

    call()
    with pytest.raises(ValueError, match=r"window 6 > padded input 5"):
        call((4, 3, 6, 1))
    with pytest.raises(ValueError, match="columns needs 2304 bytes, got 2112"):
        call(columns=side.blank((44, 12)))
    with pytest.raises(TypeError, match="columns holds float64, .* float32"):
        call(columns=side.blank((18, 32), "float64"))
    with pytest.raises(ValueError, match="columns is written to and must not overlap x"):
        call((1, 3, 1, 1), columns=x)
    with pytest.raises(ValueError, match=r"x_desc must be \(N, C, H, W\)"):
        call(x_desc=cudnn.TensorDescriptor((2, 3, 5, 6, 1), library=side.library))
    with pytest.raises(errors.CudnnNotSupported):
        call((3, 1, 2, 3), conv=conv.replace(groups=3))
    with pytest.raises(TypeError, match="handle must be a Handle"):
        cudnn.im2col(None, x.desc, x.data, None, conv, columns.data)
    with pytest.raises(TypeError, match="w_desc must be a FilterDescriptor"):
        cudnn.im2col(side.handle, x.desc, x.data, x.desc, conv, columns.data)


# ---- int8 weights --------------------------------------------------------------------------------


def int8x32(side, shape):
    return cudnn.FilterDescriptor(
        shape, cudnn.DataType.INT8x32, format=VECT, library=side.library
    )


def reordered(w):
    """(K, C / 32, R, S, 32) as tensor cores read it: blocks of 8 filters by 32 channels."""
    k, c, r, s, _ = w.shape
    out = np.zeros((c, r, s, k // 8, 256), np.int8)
    for filter, block, channel in np.ndindex(k, c, 32):
        eight, place = divmod(filter, 8)
        at = place % 2 * 128 + channel // 4 * 16 + place // 2 * 4 + channel % 4
        out[block, :, :, eight, at] = w[filter, block, :, :, channel]
    return out.ravel()


def reordered_bias(bias):
    """Of 32 filters, in groups of four, those of even number come first."""
    return bias.reshape(-1, 8, 4)[:, [0, 2, 4, 6, 1, 3, 5, 7]].ravel()


@pytest.mark.parametrize("shape", [(32, 32, 1, 1), (64, 32, 3, 2), (32, 96, 1, 2)])
def test_reordered_weights(side, rng, shape):
    k, c, r, s = shape
    w = rng.integers(-128, 128, (k, c // 32, r, s, 32)).astype(np.int8)
    bias = rng.standard_normal(k).astype(np.float32)
    result, bias_result = side.put(np.zeros(w.size, np.int8)), side.put(np.zeros(k, np.float32))
    desc, kind = int8x32(side, shape), cudnn.ReorderType.DEFAULT_REORDER
    cudnn.reorder_filter_and_bias(
        side.handle, desc, kind, side.put(w), result, side.put(bias), bias_result
    )
    np.testing.assert_array_equal(side.get(result).ravel(), reordered(w))
    np.testing.assert_array_equal(side.get(bias_result).ravel(), reordered_bias(bias))
    result.fill_bytes(0, stream=side.context.stream)
    cudnn.reorder_filter_and_bias(side.handle, desc, kind, side.put(w), result)
    np.testing.assert_array_equal(side.get(result).ravel(), reordered(w))


def test_reordering_refuses(side):
    memory = [side.put(np.zeros(1024, np.int8)) for _ in range(2)]
    bias = [side.put(np.zeros(32, np.float32)) for _ in range(2)]

    def call(desc, *operands, kind=cudnn.ReorderType.DEFAULT_REORDER):
        cudnn.reorder_filter_and_bias(side.handle, desc, kind, *operands)

    call(int8x32(side, (32, 32, 1, 1)), *memory, *bias)
    with pytest.raises(TypeError, match="bias and reordered_bias must both be given"):
        call(int8x32(side, (32, 32, 1, 1)), *memory, bias[0])
    with pytest.raises(ValueError, match="reorder_type must be a ReorderType"):
        call(int8x32(side, (32, 32, 1, 1)), *memory, kind=2)
    with pytest.raises(ValueError, match="w needs 2048 bytes, got 1024"):
        call(int8x32(side, (64, 32, 1, 1)), *memory)
    with pytest.raises(TypeError, match="bias holds int8, its descriptor says float32"):
        call(int8x32(side, (32, 32, 1, 1)), *memory, *memory)
    with pytest.raises(errors.CudnnNotSupported):
        call(cudnn.FilterDescriptor((32, 32, 1, 1), "int8", library=side.library), *memory)
    with pytest.raises(ValueError, match="output channels in multiples of 32"):
        call(int8x32(side, (8, 32, 1, 1)), *memory)
    with pytest.raises(ValueError, match="reordered_w is written to and must not overlap w"):
        call(int8x32(side, (32, 32, 1, 1)), memory[0], memory[0])
