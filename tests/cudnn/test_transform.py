"""Tensor transforms and folded gradients against NumPy loops over the elements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from side import Side, numpy_dtype

from pycudnn import cudnn, errors, get_library

FOLD, UNFOLD = cudnn.FoldingDirection
NCHW, NHWC, VECT = cudnn.TensorFormat
LAYOUTS = ["packed", "channels last", "gaps"]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8"]


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def transform(side, **settings):
    return cudnn.TensorTransformDescriptor(**settings, library=side.library)


def padded(x, before, after):
    """x among zeros; negative numbers crop."""
    out = np.zeros([sum(sizes) for sizes in zip(x.shape, before, after, strict=True)])
    for place in np.ndindex(*out.shape):
        source = [at - skipped for at, skipped in zip(place, before, strict=True)]
        if all(0 <= at < size for at, size in zip(source, x.shape, strict=True)):
            out[place] = x[tuple(source)]
    return out


def folded(x, fold):
    """Each element of a block in a channel of its own: channel c at place p in p * C + c."""
    channels = x.shape[1]
    space = [-(-size // block) for size, block in zip(x.shape[2:], fold, strict=True)]
    out = np.zeros((x.shape[0], channels * math.prod(fold), *space))
    for n, c, *at in np.ndindex(*x.shape):
        inner = [place % block for place, block in zip(at, fold, strict=True)]
        outer = [place // block for place, block in zip(at, fold, strict=True)]
        out[(n, np.ravel_multi_index(inner, fold) * channels + c, *outer)] = x[(n, c, *at)]
    return out


def unfolded(x, fold):
    """The inverse of ``folded``."""
    channels = -(-x.shape[1] // math.prod(fold))
    space = [size * block for size, block in zip(x.shape[2:], fold, strict=True)]
    out = np.zeros((x.shape[0], channels, *space))
    for n, channel, *outer in np.ndindex(*x.shape):
        inner = np.unravel_index(channel // channels, fold)
        at = [a * block + b for a, block, b in zip(outer, fold, inner, strict=True)]
        out[(n, channel % channels, *at)] = x[(n, channel, *outer)]
    return out


def expected(x, settings):
    """What a transform with these settings makes of x."""
    before, after = (list(settings.get(key, (0,) * x.ndim)) for key in ("pad_before", "pad_after"))
    fold = settings.get("fold", (1,) * (x.ndim - 2))
    # Each channel to pad is a block's places of zeros, all in a row.
    rows = [(0, side[1] * math.prod(fold), *(0,) * len(fold)) for side in (before, after)]
    before[1] = after[1] = 0
    if settings.get("direction", FOLD) == FOLD:
        return padded(folded(padded(x, before, after), fold), *rows)
    return padded(unfolded(padded(x, *rows), fold), before, after)


CASES = {
    "copy": {},
    "pad": {"pad_before": (0, 1, 2, 0), "pad_after": (1, 2, 0, 3)},
    "crop": {"pad_before": (0, -1, -1, 0), "pad_after": (-1, 0, -2, -1)},
    "pad and crop": {"pad_before": (0, 0, -1, 2), "pad_after": (0, 1, 1, -2)},
    "fold": {"fold": (2, 3)},
    "unfold": {"fold": (2, 3), "direction": UNFOLD},
    "fold what does not divide": {"fold": (3, 4)},
    "pad, then fold": {"pad_before": (0, 0, 1, 1), "pad_after": (0, 2, 1, 2), "fold": (2, 3)},
    "unfold, then crop": {"pad_after": (0, -1, -1, -2), "fold": (2, 3), "direction": UNFOLD},
}
# Those with zeros in the result.
PADDED = {"pad", "pad and crop", "fold what does not divide", "pad, then fold"}


def run(side, settings, x, *, layout=None, dest_layout="packed", dtype="float32", **scaling):
    """Transform values; check the shape, and return source and result."""
    made = transform(side, **settings)
    src = side.tensor(x, dtype, layout or "packed")
    with cudnn.init_transform_dest(made, src.desc) as told:
        shape = told.shape
    if scaling.get("beta"):
        dest = side.tensor(np.full(shape, 8.0), dtype, dest_layout)
    else:
        dest = side.blank(shape, dtype, dest_layout)
    cudnn.transform_tensor_ex(
        side.handle, made, src.desc, src.data, dest.desc, dest.data, **scaling
    )
    return src, dest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_transforms(side, rng, name, dtype):
    x = rng.integers(-60, 60, (2, 12, 4, 6))
    for scaling in ({}, {"alpha": 2.0}, {"alpha": 2.0, "beta": -0.5}):
        if "beta" in scaling and name in PADDED:
            with pytest.raises(errors.CudnnNotSupported):
                run(side, CASES[name], x, dtype=dtype, **scaling)
            continue
        src, dest = run(side, CASES[name], x, dtype=dtype, **scaling)
        want = scaling.get("alpha", 1.0) * expected(src.values, CASES[name])
        want += 8 * scaling.get("beta", 0.0)
        dest.check(np.clip(want, -128, 127) if dtype == "int8" else want)


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, repeat=2)))
@pytest.mark.parametrize("name", ["copy", "pad", "crop", "fold", "unfold"])
def test_layouts(side, rng, name, layouts):
    x = rng.standard_normal((2, 12, 4, 6))
    settings = {**CASES[name], "format": NHWC if layouts[1] == "channels last" else NCHW}
    if name in PADDED and layouts[1] == "gaps":
        with pytest.raises(ValueError, match="dest_desc must not have gaps: cuDNN clears them"):
            run(side, settings, x, layout=layouts[0], dest_layout=layouts[1])
        return
    src, dest = run(side, settings, x, layout=layouts[0], dest_layout=layouts[1])
    dest.check(expected(src.values, settings))


@pytest.mark.parametrize("shape", [(2, 8, 6), (2, 8, 2, 4, 3)])
def test_other_ranks(side, rng, shape):
    count = len(shape)
    for settings in (
        {"pad_before": (1,) * count, "pad_after": (0, 2, *(1,) * (count - 2))},
        {"fold": (2,) * (count - 2)},
        {"fold": (2,) * (count - 2), "direction": UNFOLD},
    ):
        src, dest = run(side, {**settings, "ndim": count}, rng.standard_normal(shape))
        dest.check(expected(src.values, settings))


def test_fold_by_hand(side):
    x = np.arange(1, 9).reshape(1, 1, 2, 4)
    _, dest = run(side, {"fold": (2, 2)}, x)
    assert dest.read().tolist() == [[[[1, 3]], [[2, 4]], [[5, 7]], [[6, 8]]]]
    _, back = run(side, {"fold": (2, 2), "direction": UNFOLD}, dest.read())
    back.check(x)
    _, dest = run(side, {"fold": (1, 2)}, np.arange(1, 9).reshape(1, 2, 1, 4))
    assert dest.read().tolist() == [[[[1, 3]], [[5, 7]], [[2, 4]], [[6, 8]]]]


@pytest.mark.parametrize("dtype", [*DTYPES, "uint8", "int32"])
@pytest.mark.parametrize("format", [NCHW, NHWC])
def test_the_results_descriptor(side, dtype, format):
    src = cudnn.TensorDescriptor((2, 5, 5, 7), numpy_dtype(dtype), strides=(999, 100, 14, 2),
                                 library=side.library)  # fmt: skip
    made = transform(side, format=format, pad_before=(0, 1, 0, -1), fold=(2, 4))
    told = cudnn.init_transform_dest(made, src)
    want = cudnn.TensorDescriptor((2, 48, 3, 2), src.dtype, format=format, library=side.library)
    assert (told, told.dtype, told.extent) == (want, src.dtype, want.extent)
    made = transform(side, format=format, pad_after=(1, 0, -1, 0), fold=(2, 4), direction=UNFOLD)
    assert cudnn.init_transform_dest(made, src).shape == (3, 1, 9, 28)


@pytest.mark.parametrize("formats", list(itertools.product([NCHW, NHWC], repeat=2)))
@pytest.mark.parametrize("name", ["copy", "pad", "crop", "fold", "unfold"])
def test_filters(side, rng, name, formats):
    values = rng.standard_normal((3, 12, 4, 6)).astype(np.float32)
    want = expected(values, CASES[name])
    descs = [
        cudnn.FilterDescriptor(shape, format=format, library=side.library)
        for shape, format in zip((values.shape, want.shape), formats, strict=True)
    ]
    orders = [(0, 2, 3, 1) if format == NHWC else (0, 1, 2, 3) for format in formats]
    w = side.put(values.transpose(orders[0]))
    result = side.put(np.full(want.size, np.nan, np.float32))
    made = transform(side, format=formats[1], **CASES[name])
    cudnn.transform_filter(side.handle, made, descs[0], w, descs[1], result)
    got = side.get(result).reshape(want.transpose(orders[1]).shape)
    np.testing.assert_array_equal(got, want.transpose(orders[1]).astype(np.float32))


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"ndim": 2}, ValueError, r"ndim must be in \[3, 5\], got 2"),
        ({"ndim": 6}, ValueError, r"ndim must be in \[3, 5\], got 6"),
        ({"format": 3}, ValueError, "format must be a TensorFormat: NCHW .* got 3"),
        ({"format": VECT}, errors.NotSupported, "format must be NCHW or NHWC"),
        ({"direction": 2}, ValueError, "direction must be a FoldingDirection: FOLD .* got 2"),
        ({"fold": 0}, ValueError, r"fold must be in \[1, 2147483647\], got 0"),
        ({"fold": (2, 2, 2)}, ValueError, "fold must be an int or 2 ints"),
        ({"pad_before": (1, 2)}, ValueError, "pad_before must be an int or 4 ints"),
        ({"pad_after": (0, 0, 0, 2**31)}, ValueError, r"pad_after\[3\] must be in"),
        ({"pad_after": -(2**31)}, ValueError, "pad_after must be in"),
        ({"pad_before": 1.5}, TypeError, "pad_before must be an int, got 1.5"),
    ],
)
def test_settings_that_are_refused(library, settings, error, text):
    with pytest.raises(error, match=text):
        cudnn.TensorTransformDescriptor(**settings, library=library)


@pytest.mark.library
def test_without_a_driver(has_gpu):
    if has_gpu:
        pytest.skip("there is a driver here")
    if get_library("cudnn", "cuda").version < 92000:  # such a one needs none
        with cudnn.TensorTransformDescriptor(library="cuda") as made:
            assert made.fold == (1, 1)
        return
    with pytest.raises(errors.CudnnNotInitialized, match="fold: \\(1, 1\\)"):
        cudnn.TensorTransformDescriptor(library="cuda")


def test_descriptor(side):
    settings = {"pad_before": (0, 1, -2, 3), "pad_after": 2, "fold": (2, 4), "direction": UNFOLD}
    made = transform(side, format=NHWC, **settings)
    assert (made.format, made.direction, made.fold) == (NHWC, UNFOLD, (2, 4))
    assert (made.pad_before, made.pad_after) == ((0, 1, -2, 3), (2, 2, 2, 2))
    assert repr(made) == (
        "TensorTransformDescriptor(NHWC, pad_before=(0, 1, -2, 3), pad_after=(2, 2, 2, 2), "
        "fold=(2, 4), direction=UNFOLD)"
    )
    assert made == transform(side, format=1, **settings)
    assert made != transform(side, format=0, **settings)
    with made:
        pass
    assert repr(made) == "<closed TensorTransformDescriptor>"
    with pytest.raises(ValueError, match="closed"):
        _ = made.fold


def test_results_that_are_none(side):
    x = cudnn.TensorDescriptor((2, 4, 6, 8), library=side.library)
    for settings, text in (
        ({"pad_before": (0, -2, 0, 0), "pad_after": (0, -2, 0, 0)}, r"makes \(2, 0, 6, 8\)"),
        ({"pad_before": (0, -5, 0, 0)}, r"makes \(2, -1, 6, 8\)"),
        ({"pad_before": (0, 0, -6, 0), "pad_after": (0, 0, 9, 0)}, "must hold some of it"),
        ({"pad_before": (2**31 - 1, 0, 0, 0)}, r"makes \(2147483649, 4, 6, 8\)"),
        ({"fold": (2**31 - 1, 1)}, r"makes \(2, 8589934588, 1, 8\)"),
        ({"fold": (2**30, 1), "direction": UNFOLD}, r"makes \(2, 1, 6442450944, 8\)"),
    ):
        with pytest.raises(ValueError, match=text):
            cudnn.init_transform_dest(transform(side, **settings), x)
    with pytest.raises(ValueError, match="src_desc must have the transform's 5 dimensions"):
        cudnn.init_transform_dest(transform(side, ndim=5), x)
    with pytest.raises(TypeError, match="transform must be a TensorTransformDescriptor"):
        cudnn.init_transform_dest(None, x)
    with pytest.raises(TypeError, match="src_desc must be a TensorDescriptor"):
        cudnn.init_transform_dest(transform(side), (2, 4, 6, 8))


def test_operands_that_do_not_fit(side):
    made = transform(side, pad_after=(0, 0, 1, 0))
    x, y = side.tensor(np.ones((2, 3, 4, 5))), side.blank((2, 3, 5, 5))

    def call(transform=made, src=x, dest=y, memory=None, **scaling):
        memory = dest.data if memory is None else memory
        cudnn.transform_tensor_ex(
            side.handle, transform, src.desc, src.data, dest.desc, memory, **scaling
        )

    call()
    with pytest.raises(ValueError, match=r"dest_desc must have shape \(2, 3, 5, 5\), got \(2, 3,"):
        call(dest=x)
    with pytest.raises(ValueError, match="dest is written to and must not overlap src"):
        call(transform(side), dest=x, memory=x.data)
    with pytest.raises(ValueError, match="dest needs 600 bytes, got 480"):
        call(memory=side.put(np.zeros(120, np.float32)))
    with pytest.raises(TypeError, match="dest holds float64, its descriptor says float32"):
        call(memory=side.put(np.zeros(150)))
    with pytest.raises(TypeError, match="alpha must be a real number, got 'x'"):
        call(alpha="x")
    with pytest.raises(errors.NotSupported):
        call(dest=side.blank((2, 3, 5, 5), "int32"))
    with pytest.raises(errors.NotSupported, match="to float64"):
        call(dest=side.blank((2, 3, 5, 5), "float64"))
    with pytest.raises(TypeError, match="handle must be a Handle"):
        cudnn.transform_tensor_ex(None, made, x.desc, x.data, y.desc, y.data)
    with pytest.raises(TypeError, match="src_desc must be a FilterDescriptor"):
        cudnn.transform_filter(side.handle, made, x.desc, x.data, y.desc, y.data)


def test_columns_of_a_block_do_not_lie_outside_rows(side):
    """cuDNN folds such tensors in another order."""
    made = transform(side, fold=2)
    back = transform(side, fold=2, direction=UNFOLD)
    turned = cudnn.TensorDescriptor((1, 1, 4, 4), strides=(16, 16, 1, 4), library=side.library)
    small = cudnn.TensorDescriptor((1, 4, 2, 2), strides=(16, 4, 1, 2), library=side.library)
    x, y = side.tensor(np.arange(16).reshape(1, 1, 4, 4)), side.blank((1, 4, 2, 2))
    cudnn.transform_tensor_ex(side.handle, made, x.desc, x.data, small, y.data)
    y.check(np.arange(16).reshape(2, 2, 2, 2).transpose(1, 3, 2, 0).reshape(1, 4, 2, 2))
    with pytest.raises(ValueError, match="src_desc must lie row by row"):
        cudnn.transform_tensor_ex(side.handle, made, turned, x.data, y.desc, y.data)
    with pytest.raises(ValueError, match="dest_desc must lie row by row"):
        cudnn.transform_tensor_ex(side.handle, back, y.desc, y.data, turned, x.data)


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [(1, 0, FOLD), (-1, 0, FOLD), (0, -1, FOLD), (1, -1, UNFOLD), (-1, 0, UNFOLD), (0, 1, UNFOLD)],
)
def test_channels_that_cudnn_loses(side, before, after, direction):
    margins = {"pad_before": (0, before, 0, 0), "pad_after": (0, after, 0, 0)}
    x = side.tensor(np.ones((1, 8, 2, 2)))
    with pytest.raises(errors.NotSupported, match="cuDNN loses channels"):
        run(side, {**margins, "fold": (1, 2), "direction": direction}, x.values)
    _, y = run(side, margins, x.values)
    y.check(padded(x.values, (0, before, 0, 0), (0, after, 0, 0)))


@pytest.mark.parametrize(
    ("source", "result"),
    [("float32", "float16"), ("float16", "float32"), ("float32", "bfloat16"),
     ("float64", "float32"), ("float32", "int8"), ("int8", "float32")],
)  # fmt: skip
def test_conversions(side, rng, source, result):
    settings = {"pad_before": (0, 0, 1, 0), "fold": (1, 2)}
    x = side.tensor(rng.integers(-60, 60, (2, 4, 5, 6)), source)
    want = expected(x.values, settings)
    y = side.blank(want.shape, result)
    made = transform(side, **settings)
    cudnn.transform_tensor_ex(side.handle, made, x.desc, x.data, y.desc, y.data)
    y.check(want)


# ---- folded gradients ----------------------------------------------------------------------------


def gradient(w, dy, x_shape, padding, stride):
    """The gradient of a convolution's input, tap by tap."""
    sizes = [size + 2 * pad for size, pad in zip(x_shape[2:], padding, strict=True)]
    out = np.zeros((*x_shape[:2], *sizes))
    for r, s in np.ndindex(*w.shape[2:]):
        for p, q in np.ndindex(*dy.shape[2:]):
            out[:, :, p * stride[0] + r, q * stride[1] + s] += dy[:, :, p, q] @ w[:, :, r, s]
    (top, left), (height, width) = padding, x_shape[2:]
    return out[:, :, top : top + height, left : left + width]


@pytest.mark.parametrize(
    ("dtype", "format"),
    [("float32", NCHW), ("float32", NHWC), ("float64", NCHW), ("float16", NCHW), ("float16", NHWC)],
)  # cuDNN has no gradients of float64 in NHWC
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "padding", "stride"),
    [
        ((2, 4, 9, 9), (8, 4, 3, 3), (1, 1), (2, 2)),
        ((2, 4, 8, 11), (8, 4, 5, 3), (0, 2), (3, 2)),
        ((1, 3, 9, 7), (5, 3, 3, 1), (2, 0), (4, 3)),
        ((2, 1, 6, 6), (8, 1, 2, 2), (0, 0), (1, 1)),
    ],
)
def test_folded_gradients(side, rng, x_shape, w_shape, padding, stride, format, dtype):
    library = side.library
    conv = cudnn.ConvolutionDescriptor(
        padding, stride, compute_type="float64" if dtype == "float64" else "float32",
        library=library,
    )  # fmt: skip
    dx = side.blank(x_shape, dtype)
    w_desc = cudnn.FilterDescriptor(w_shape, dtype, library=library)
    w = rng.integers(-4, 5, w_shape).astype(dtype)
    shape = cudnn.get_convolution_forward_output_dim(conv, dx.desc, w_desc)
    dy = side.tensor(rng.integers(-4, 5, shape), dtype)
    plan = cudnn.get_folded_conv_backward_data_descriptors(
        side.handle, w_desc, dy.desc, conv, dx.desc, format
    )
    assert plan.conv.stride == (1, 1)
    assert plan.filter_desc.shape[0] % 8 == 0
    assert plan.filter_desc.format == format

    def memory(desc):
        return side.put(np.full(desc.extent // desc.dtype.itemsize, np.nan, desc.dtype))

    w2, dy2, dx2 = (memory(desc) for desc in (plan.filter_desc, plan.diff_desc, plan.grad_desc))
    handle = side.handle
    cudnn.transform_filter(handle, plan.filter_fold, w_desc, side.put(w), plan.filter_desc, w2)
    cudnn.transform_tensor_ex(handle, plan.diff_pad, dy.desc, dy.data, plan.diff_desc, dy2)
    operands = plan.filter_desc, w2, plan.diff_desc, dy2, plan.conv
    found = cudnn.find_convolution_backward_data_algorithm(
        handle, plan.filter_desc, plan.diff_desc, plan.conv, plan.grad_desc
    )
    best = cudnn.select_algorithm(found, workspace_limit=2**26)
    cudnn.convolution_backward_data(
        handle, *operands, best.algorithm, side.scratch(best.memory), plan.grad_desc, dx2
    )
    cudnn.transform_tensor_ex(handle, plan.grad_unfold, plan.grad_desc, dx2, dx.desc, dx.data)
    dx.check(gradient(w.astype(float), dy.values, x_shape, padding, stride))


def test_folds_that_cudnn_gets_wrong(side):
    library = side.library

    def ask(w_shape=(8, 4, 3, 3), x_shape=(2, 4, 9, 9), y_shape=None, dtype="float32", **settings):
        conv = cudnn.ConvolutionDescriptor(stride=2, **settings, library=library)
        x = cudnn.TensorDescriptor(x_shape, library=library)
        w = cudnn.FilterDescriptor(w_shape, library=library)
        y_shape = y_shape or cudnn.get_convolution_forward_output_dim(conv, x, w)
        y = cudnn.TensorDescriptor(y_shape, dtype, library=library)
        return cudnn.get_folded_conv_backward_data_descriptors(side.handle, w, y, conv, x)

    assert ask().conv.padding == (0, 0)
    with pytest.raises(errors.NotSupported, match="without dilation"):
        ask(dilation=2)
    with pytest.raises(errors.NotSupported, match="must be a CROSS_CORRELATION"):
        ask(mode=cudnn.ConvolutionMode.CONVOLUTION)
    with pytest.raises(errors.NotSupported, match="2-d convolutions only"):
        ask((8, 4, 3, 3, 3), (2, 4, 9, 9, 9), ndim=3)
    with pytest.raises(errors.NotSupported, match="without dilation and groups"):
        ask((8, 2, 3, 3), groups=2)
    with pytest.raises(ValueError, match=r"dy_desc must have shape \(2, 8, 4, 4\), got \(2, 8, 5"):
        ask(y_shape=(2, 8, 5, 5))
    with pytest.raises(TypeError, match="one data type, got"):
        ask(dtype="float16")
