"""Problems for tensor transforms, folded gradients, im2col and reordered int8 weights."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from harness import FLOATING, Case, Operand, numpy_dtype, problem

from pycudnn import cudnn

SCALES = ((1.0, 0.0), (0.5, 0.0), (1.0, 1.0), (-1.5, 0.5))
NCHW, NHWC, VECT = cudnn.TensorFormat
UNFOLD = cudnn.FoldingDirection.UNFOLD


# ---- transforms ----------------------------------------------------------------------------------


def _settings(case: Case, shape: tuple[int, ...]) -> dict[str, Any]:
    """Padding and cropping that leave something, and blocks to fold."""
    rank = len(shape)
    fold = case.shape(rank - 2, 1, 3)
    unfold = case.choose(False, True)
    base = shape
    if unfold:
        space = (size * block for size, block in zip(shape[2:], fold, strict=True))
        base = (shape[0], -(-shape[1] // math.prod(fold)), *space)
    most = case.choose(0, 2)
    before = tuple(case.integer(-((size - 1) // 2), most) for size in base)
    after = tuple(case.integer(-((size - 1) // 2), most) for size in base)
    if max(fold) > 1:  # cuDNN loses channels that are padded or cropped elsewhere
        change = min(after[1], 0) if unfold else max(after[1], 0)
        before, after = (before[0], 0, *before[2:]), (after[0], change, *after[2:])
    return {
        "format": case.choose(NCHW, NHWC), "pad_before": before, "pad_after": after, "fold": fold,
        "direction": cudnn.FoldingDirection(int(unfold)), "ndim": rank, "library": case.library,
    }  # fmt: skip


def _moved(x: np.ndarray, margins: list[tuple[int, int]]) -> np.ndarray:
    """x with zeros around it, or cropped."""
    for axis, (before, after) in enumerate(margins):
        for behind, count in ((False, before), (True, after)):
            if count < 0:
                kept = slice(None, count) if behind else slice(-count, None)
                x = x[(slice(None),) * axis + (kept,)]
            zeros = np.zeros((*x.shape[:axis], max(count, 0), *x.shape[axis + 1 :]))
            x = np.concatenate([x, zeros] if behind else [zeros, x], axis)
    return x


def _transformed(x: np.ndarray, settings: dict[str, Any]) -> np.ndarray:
    """Channel p * C + c of the folded holds channel c at place p of all blocks."""
    fold, unfold = settings["fold"], settings["direction"] == UNFOLD
    count, nothing = math.prod(fold), [(0, 0)] * len(fold)
    margins = list(zip(settings["pad_before"], settings["pad_after"], strict=True))
    rows = [(0, 0), (margins[1][0] * count, margins[1][1] * count), *nothing]
    margins[1] = (0, 0)
    if unfold:
        x = _moved(_moved(x, [(0, 0), (0, -x.shape[1] % count), *nothing]), rows)
        space = [size * block for size, block in zip(x.shape[2:], fold, strict=True)]
        out = np.zeros((x.shape[0], x.shape[1] // count, *space))
    else:
        x = _moved(x, margins)
        x = _moved(x, [(0, 0)] * 2 + [(0, -n % f) for n, f in zip(x.shape[2:], fold, strict=True)])
        space = [size // block for size, block in zip(x.shape[2:], fold, strict=True)]
        out = np.zeros((x.shape[0], x.shape[1] * count, *space))
    channels = (out if unfold else x).shape[1]
    for number, place in enumerate(itertools.product(*map(range, fold))):
        steps = tuple(slice(at, None, block) for at, block in zip(place, fold, strict=True))
        at, of_place = (slice(None), slice(None), *steps), number * channels
        if unfold:
            out[at] = x[:, of_place : of_place + channels]
        else:
            out[:, of_place : of_place + channels] = x[at]
    return _moved(out, margins if unfold else rows)


def _is_filled(settings: dict[str, Any], shape: tuple[int, ...]) -> bool:
    """Are zeros added? Then beta must be 0, and gaps would be cleared."""
    before, after, fold = (settings[key] for key in ("pad_before", "pad_after", "fold"))
    if settings["direction"] == UNFOLD:
        has_rest = shape[1] % math.prod(fold)
    else:
        sizes = zip(shape[2:], before[2:], after[2:], fold, strict=True)
        has_rest = any(sum(size) % block for *size, block in sizes)
    return bool(has_rest) or max(before + after) > 0


@problem("cudnnTransformTensorEx", "cudnnInitTransformDest")
def transform_tensor_ex(case: Case) -> None:
    dtype, rank = case.choose(*FLOATING), case.choose(3, 4, 4, 5)
    layout = case.choose("packed", "channels last", *["gaps"] * (rank == 4))  # others do not fold
    x = case.tensor(case.shape(rank, 1, 7), dtype, layout=layout)
    settings = _settings(case, x.desc.shape)
    transform = cudnn.TensorTransformDescriptor(**settings)
    expected = _transformed(x.values, settings)
    told = cudnn.init_transform_dest(transform, x.desc)
    assert (told.shape, told.dtype) == (expected.shape, numpy_dtype(dtype))
    is_filled = _is_filled(settings, x.desc.shape)
    alpha, beta = case.choose(*SCALES[: 2 if is_filled else 4])
    if is_filled or case.choose(True, False):
        y = case.operand(told, dtype, blank=beta == 0)
    else:
        layout = "packed" if settings["format"] == NCHW else "channels last"
        layout = case.choose(layout, "gaps")
        y = case.tensor(told.shape, dtype, layout=layout, blank=beta == 0)
    cudnn.transform_tensor_ex(
        case.handle, transform, x.desc, x.data, y.desc, y.data, alpha=alpha, beta=beta
    )
    case.check(y, alpha * expected + (beta * y.values if beta else 0.0), dtype, 2)


@problem("cudnnTransformFilter")
def transform_filter(case: Case) -> None:
    dtype = case.choose(*FLOATING)
    x = case.filter(case.shape(case.choose(4, 5), 1, 6), dtype)
    settings = _settings(case, x.desc.shape)
    transform = cudnn.TensorTransformDescriptor(**settings)
    expected = _transformed(x.values, settings)
    is_filled = _is_filled(settings, x.desc.shape)
    alpha, beta = case.choose(*SCALES[: 2 if is_filled else 4])
    y = case.filter(expected.shape, dtype, format=settings["format"], blank=beta == 0)
    cudnn.transform_filter(
        case.handle, transform, x.desc, x.data, y.desc, y.data, alpha=alpha, beta=beta
    )
    case.check(y, alpha * expected + (beta * y.values if beta else 0.0), dtype, 2)


# ---- a strided gradient, folded ------------------------------------------------------------------


def _input_gradient(
    w: np.ndarray, dy: np.ndarray, shape: tuple[int, ...], conv: cudnn.ConvolutionDescriptor
) -> np.ndarray:
    (top, left), (down, right) = conv.padding, conv.stride
    n, c, height, width = shape
    around = np.zeros((n, c, height + 2 * top, width + 2 * left))
    for r, s in np.ndindex(*w.shape[2:]):
        for p, q in np.ndindex(*dy.shape[2:]):
            around[:, :, p * down + r, q * right + s] += dy[:, :, p, q] @ w[:, :, r, s]
    return around[:, :, top : top + height, left : left + width]


@problem("cudnnGetFoldedConvBackwardDataDescriptors")
def folded_gradient(case: Case) -> None:
    dtype = case.choose("float32", "float64", "float16")
    conv = cudnn.ConvolutionDescriptor(
        case.shape(2, 0, 3), case.shape(2, 1, 4), library=case.library,
        compute_type="float64" if dtype == "float64" else "float32",
    )  # fmt: skip
    channels = case.integer(1, 5)
    shape = (case.integer(1, 2), channels, *case.shape(2, 5, 9))
    dx = case.tensor(shape, dtype, layout=case.choose("packed", "channels last"), blank=True)
    w = case.filter((case.integer(1, 9), channels, *case.shape(2, 1, 4)), dtype)
    dy = case.tensor(cudnn.get_convolution_forward_output_dim(conv, dx.desc, w.desc), dtype)
    plan = cudnn.get_folded_conv_backward_data_descriptors(
        case.handle, w.desc, dy.desc, conv, dx.desc,
        NCHW if dtype == "float64" else case.choose(NCHW, NHWC),  # others have no algorithm
    )  # fmt: skip
    w2, dy2, dx2 = (
        case.operand(desc, dtype, blank=True)
        for desc in (plan.filter_desc, plan.diff_desc, plan.grad_desc)
    )
    cudnn.transform_filter(case.handle, plan.filter_fold, w.desc, w.data, w2.desc, w2.data)
    cudnn.transform_tensor_ex(case.handle, plan.diff_pad, dy.desc, dy.data, dy2.desc, dy2.data)
    found = cudnn.find_convolution_backward_data_algorithm(
        case.handle, w2.desc, dy2.desc, plan.conv, dx2.desc
    )
    best = cudnn.select_algorithm(found, workspace_limit=2**26)
    cudnn.convolution_backward_data(
        case.handle, w2.desc, w2.data, dy2.desc, dy2.data, plan.conv, best.algorithm,
        case.scratch(best.memory), dx2.desc, dx2.data,
    )  # fmt: skip
    cudnn.transform_tensor_ex(
        case.handle, plan.grad_unfold, dx2.desc, dx2.data, dx.desc, dx.data
    )
    terms = math.prod(w.desc.shape) // channels
    expected = _input_gradient(w.values, dy.values, dx.desc.shape, conv)
    case.check(dx, expected, dtype, math.sqrt(terms) + 1)


# ---- im2col --------------------------------------------------------------------------------------


def _columns(case: Case, x: Operand, window: tuple[int, ...], conv: Any, output: Any) -> np.ndarray:
    """Row (c, r, s), column (n, p, q)."""
    around = np.pad(x.values, [(0, 0), (0, 0), *((pad, pad) for pad in conv.padding)])
    n, c = x.desc.shape[:2]
    rows = np.zeros((c, *window, n, *output))
    for place in np.ndindex(*window):
        at = tuple(
            slice(tap * dilation, tap * dilation + (size - 1) * stride + 1, stride)
            for tap, dilation, size, stride in zip(
                place, conv.dilation, output, conv.stride, strict=True
            )
        )
        rows[(slice(None), *place)] = np.moveaxis(around[(slice(None), slice(None), *at)], 1, 0)
    return rows.reshape(-1, n * math.prod(output))


@problem("cudnnIm2Col")
def im2col(case: Case) -> None:
    dtype = case.choose(*FLOATING)
    conv = cudnn.ConvolutionDescriptor(
        case.shape(2, 0, 2), case.shape(2, 1, 3), case.shape(2, 1, 2), library=case.library,
        mode=case.choose(*cudnn.ConvolutionMode),
        compute_type="float64" if dtype == "float64" else "float32",
    )  # fmt: skip
    x = case.tensor((*case.shape(2, 1, 4), *case.shape(2, 5, 9)), dtype)
    w_shape = (case.integer(1, 3), x.desc.shape[1], *case.shape(2, 1, 3))
    w_desc = cudnn.FilterDescriptor(w_shape, numpy_dtype(dtype), library=case.library)
    output = cudnn.get_convolution_forward_output_dim(conv, x.desc, w_desc)[2:]
    expected = _columns(case, x, w_shape[2:], conv, output)
    if conv.mode == cudnn.ConvolutionMode.CONVOLUTION:
        sizes = x.desc.shape[1], *w_shape[2:], -1
        expected = np.flip(expected.reshape(sizes), (1, 2)).reshape(expected.shape)
    matrix = case.tensor(expected.shape, dtype, layout="packed", blank=True)
    cudnn.im2col(case.handle, x.desc, x.data, w_desc, conv, matrix.data)
    case.check(matrix, expected, dtype)


# ---- int8 weights --------------------------------------------------------------------------------


@problem("cudnnReorderFilterAndBias")
def reorder_filter_and_bias(case: Case) -> None:
    k, c = 32 * case.integer(1, 3), 32 * case.integer(1, 3)
    r, s = case.shape(2, 1, 3)
    desc = cudnn.FilterDescriptor(
        (k, c, r, s), cudnn.DataType.INT8x32, format=VECT, library=case.library
    )
    w = case.rng.integers(-128, 128, (k, c // 32, r, s, 32)).astype(np.int8)
    bias = case.rng.standard_normal(k).astype(np.float32)
    result, bias_result = np.full(w.size, 77, np.int8), np.full(k, np.nan, np.float32)
    result_at, bias_at = case.put(result), case.put(bias_result)
    with_bias = case.choose(True, False)
    cudnn.reorder_filter_and_bias(
        case.handle, desc, cudnn.ReorderType.DEFAULT_REORDER, case.put(w), result_at,
        *((case.put(bias), bias_at) if with_bias else ()),
    )  # fmt: skip
    expected = np.zeros((c // 32, r, s, k // 8, 256))
    for number in range(256):  # place in a block of 8 filters by 32 channels
        odd, rest = divmod(number, 128)
        four, rest = divmod(rest, 16)
        pair, one = divmod(rest, 4)
        expected[..., number] = w[2 * pair + odd :: 8, ..., 4 * four + one].transpose(1, 2, 3, 0)
    case.compare(case.get(result_at), expected.ravel(), "int8")
    if with_bias:
        order = sorted(range(k), key=lambda n: (n // 32, n % 8 // 4, n))
        case.compare(case.get(bias_at), bias[order])
