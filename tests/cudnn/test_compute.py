"""Every compute call against float64, on the reference library and on the GPU.

Outputs and workspaces hold NaN before the call, so an element that is not written shows.
"""

from __future__ import annotations

import exact
import ml_dtypes
import numpy as np
import pytest

from pycudnn import CudaContext, cudnn, empty, errors, from_numpy

DTYPES = {
    "float32": (np.dtype(np.float32), 2e-5),
    "float64": (np.dtype(np.float64), 1e-12),
    "float16": (np.dtype(np.float16), 4e-3),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), 3e-2),
}
NHWC = cudnn.TensorFormat.NHWC
NCHW = cudnn.TensorFormat.NCHW


class Bench:
    """Puts arrays on a context's side and takes results back, in one dtype and layout."""

    def __init__(self, context, rng, dtype="float32", format=NCHW, strides=None):
        self.context, self.rng, self.format = context, rng, format
        self.handle = context.cudnn
        self.library = context.cudnn.library
        self.dtype, self.tolerance = DTYPES[dtype]
        self.slack = strides

    def desc(self, shape):
        if self.slack:
            steps, step = [], 1
            for size in reversed(shape):
                steps.append(step)
                step = step * size + self.slack
            return cudnn.TensorDescriptor(
                shape, self.dtype, strides=steps[::-1], library=self.library
            )
        return cudnn.TensorDescriptor(shape, self.dtype, format=self.format, library=self.library)

    def filter(self, shape):
        return cudnn.FilterDescriptor(shape, self.dtype, format=self.format, library=self.library)

    def values(self, shape, low=-1.0, high=1.0):
        """Random values, as the dtype holds them, in float64."""
        return self.rng.uniform(low, high, shape).astype(self.dtype).astype(np.float64)

    def _flat(self, desc):
        return np.full(desc.extent // self.dtype.itemsize, np.nan).astype(self.dtype)

    def _view(self, flat, desc):
        steps = [step * self.dtype.itemsize for step in desc.strides]
        return np.lib.stride_tricks.as_strided(flat, desc.shape, steps)

    def put(self, desc, values):
        flat = self._flat(desc)
        self._view(flat, desc)[...] = values
        return from_numpy(flat, device=self.context.device, stream=self.context.stream)

    def blank(self, desc):
        return from_numpy(self._flat(desc), device=self.context.device, stream=self.context.stream)

    def get(self, desc, buffer):
        return self._view(buffer.numpy(self.context.stream), desc).astype(np.float64)

    def workspace(self, nbytes):
        if not nbytes:
            return None
        buffer = empty((nbytes,), "uint8", device=self.context.device, stream=self.context.stream)
        buffer.fill_bytes(0xFF, stream=self.context.stream)
        return buffer

    def check(self, desc, buffer, expected, scale=None):
        got = self.get(desc, buffer)
        assert np.isfinite(got).all()
        scale = max(1.0, float(np.abs(expected).max())) if scale is None else scale
        assert np.abs(got - expected).max() <= self.tolerance * scale


CONVOLUTIONS = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    "one": ((1, 1, 5, 5), (1, 1, 1, 1), {}),
    "padded": ((2, 3, 7, 6), (5, 3, 3, 2), {"padding": (1, 1)}),
    "strided": ((3, 4, 11, 9), (2, 4, 3, 3), {"padding": (2, 1), "stride": (2, 3)}),
    "dilated": ((2, 2, 12, 11), (3, 2, 3, 2), {"dilation": (2, 3)}),
    "grouped": ((2, 8, 8, 8), (4, 4, 3, 3), {"groups": 2, "padding": (1, 1)}),
    "depthwise": ((2, 4, 6, 7), (8, 1, 3, 3), {"groups": 4}),
    "flipped": ((2, 3, 8, 8), (4, 3, 3, 3), {"flip": True}),
    "lenet": ((4, 1, 28, 28), (20, 1, 5, 5), {}),
    "cube": ((2, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": (1, 0, 1), "stride": (1, 2, 1)}),
}


class Problem:
    """One convolution: descriptors, exact operands and settings."""

    def __init__(self, bench, name):
        self.x_shape, self.w_shape, settings = CONVOLUTIONS[name]
        rank = len(self.x_shape) - 2
        self.groups = settings.get("groups", 1)
        self.flip = settings.get("flip", False)
        self.settings = {
            "padding": settings.get("padding", (0,) * rank),
            "stride": settings.get("stride", (1,) * rank),
            "dilation": settings.get("dilation", (1,) * rank),
        }
        modes = cudnn.ConvolutionMode
        self.conv = cudnn.ConvolutionDescriptor(
            **self.settings, groups=self.groups, ndim=rank,
            mode=modes.CONVOLUTION if self.flip else modes.CROSS_CORRELATION,
            compute_type="float64" if bench.dtype == np.float64 else "float32",
            math_type=cudnn.MathType.FMA_MATH if bench.dtype.itemsize > 2
            else cudnn.MathType.DEFAULT_MATH,
            library=bench.library,
        )  # fmt: skip
        self.exact = {**self.settings, "groups": self.groups, "flip": self.flip}
        self.x_desc, self.w_desc = bench.desc(self.x_shape), bench.filter(self.w_shape)
        self.y_shape = cudnn.get_convolution_forward_output_dim(self.conv, self.x_desc, self.w_desc)
        self.y_desc = bench.desc(self.y_shape)
        self.x, self.w = bench.values(self.x_shape), bench.values(self.w_shape)
        self.dy = bench.values(self.y_shape)


def usable(records):
    return [record for record in records if record.status == cudnn.Status.SUCCESS]


def slack(record):
    """Winograd and FFT algorithms trade accuracy for speed, also in plain float32."""
    return 200 if record.algorithm.name.startswith(("WINOGRAD", "FFT")) else 1


def run_with_all_algorithms(bench, conv, records, run):
    """Run each algorithm that the heuristic offers under its own math type; at least one."""
    ran = 0
    for record in usable(records):
        if record.math_type != conv.math_type:
            continue
        try:
            run(record)
        except errors.CudnnNotSupported:
            continue
        ran += 1
    assert ran, "no algorithm ran"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_c11_convolution_forward(context, rng, name, dtype):
    bench = Bench(context, rng, dtype)
    p = Problem(bench, name)
    x, w = bench.put(p.x_desc, p.x), bench.put(p.w_desc, p.w)
    expected = exact.convolution(p.x, p.w, p.y_shape, **p.exact)

    def run(record):
        size = cudnn.get_convolution_forward_workspace_size(
            bench.handle, p.x_desc, p.w_desc, p.conv, p.y_desc, record.algorithm
        )
        y = bench.blank(p.y_desc)
        cudnn.convolution_forward(
            bench.handle, p.x_desc, x, p.w_desc, w, p.conv, record.algorithm,
            bench.workspace(size), p.y_desc, y,
        )  # fmt: skip
        bench.check(p.y_desc, y, expected, slack(record) * 4 * np.sqrt(p.w[0].size))

    records = cudnn.get_convolution_forward_algorithm_v7(
        bench.handle, p.x_desc, p.w_desc, p.conv, p.y_desc
    )
    run_with_all_algorithms(bench, p.conv, records, run)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_c11_convolution_backward_data(context, rng, name, dtype):
    bench = Bench(context, rng, dtype)
    p = Problem(bench, name)
    dy, w = bench.put(p.y_desc, p.dy), bench.put(p.w_desc, p.w)
    expected = exact.convolution_data(p.dy, p.w, p.x_shape, **p.exact)

    def run(record):
        size = cudnn.get_convolution_backward_data_workspace_size(
            bench.handle, p.w_desc, p.y_desc, p.conv, p.x_desc, record.algorithm
        )
        dx = bench.blank(p.x_desc)
        cudnn.convolution_backward_data(
            bench.handle, p.w_desc, w, p.y_desc, dy, p.conv, record.algorithm,
            bench.workspace(size), p.x_desc, dx,
        )  # fmt: skip
        bench.check(p.x_desc, dx, expected, slack(record) * 4 * np.sqrt(p.w[:, 0].size))

    records = cudnn.get_convolution_backward_data_algorithm_v7(
        bench.handle, p.w_desc, p.y_desc, p.conv, p.x_desc
    )
    run_with_all_algorithms(bench, p.conv, records, run)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_c11_convolution_backward_filter(context, rng, name, dtype):
    bench = Bench(context, rng, dtype)
    p = Problem(bench, name)
    x, dy = bench.put(p.x_desc, p.x), bench.put(p.y_desc, p.dy)
    expected = exact.convolution_filter(p.x, p.dy, p.w_shape, **p.exact)

    def run(record):
        size = cudnn.get_convolution_backward_filter_workspace_size(
            bench.handle, p.x_desc, p.y_desc, p.conv, p.w_desc, record.algorithm
        )
        dw = bench.blank(p.w_desc)
        cudnn.convolution_backward_filter(
            bench.handle, p.x_desc, x, p.y_desc, dy, p.conv, record.algorithm,
            bench.workspace(size), p.w_desc, dw,
        )  # fmt: skip
        bench.check(p.w_desc, dw, expected, slack(record) * 4 * np.sqrt(p.dy[:, 0].size))

    records = cudnn.get_convolution_backward_filter_algorithm_v7(
        bench.handle, p.x_desc, p.y_desc, p.conv, p.w_desc
    )
    run_with_all_algorithms(bench, p.conv, records, run)


@pytest.mark.parametrize("format", [NCHW, NHWC])
def test_convolution_scales_and_blends(context, rng, format):
    bench = Bench(context, rng, format=format)
    p = Problem(bench, "padded")
    x, w = bench.put(p.x_desc, p.x), bench.put(p.w_desc, p.w)
    before = bench.values(p.y_shape)
    y = bench.put(p.y_desc, before)
    algorithm = cudnn.select_algorithm(
        cudnn.get_convolution_forward_algorithm_v7(
            bench.handle, p.x_desc, p.w_desc, p.conv, p.y_desc
        ),
        workspace_limit=0,
    ).algorithm
    cudnn.convolution_forward(
        bench.handle, p.x_desc, x, p.w_desc, w, p.conv, algorithm, None, p.y_desc, y,
        alpha=1.5, beta=-0.5,
    )  # fmt: skip
    expected = 1.5 * exact.convolution(p.x, p.w, p.y_shape, **p.exact) - 0.5 * before
    bench.check(p.y_desc, y, expected, 10)


def test_d5_both_modes(context):
    answers = {"CROSS_CORRELATION": [14, 20, 26, 32], "CONVOLUTION": [10, 16, 22, 28]}
    library = context.cudnn.library
    x_desc = cudnn.TensorDescriptor((1, 1, 1, 6), library=library)
    w_desc = cudnn.FilterDescriptor((1, 1, 1, 3), library=library)
    y_desc = cudnn.TensorDescriptor((1, 1, 1, 4), library=library)
    x = from_numpy(np.arange(1, 7, dtype=np.float32), device=context.device)
    w = from_numpy(np.arange(1, 4, dtype=np.float32), device=context.device)
    for mode, expected in answers.items():
        conv = cudnn.ConvolutionDescriptor(mode=cudnn.ConvolutionMode[mode], library=library)
        y = from_numpy(np.full(4, np.nan, np.float32), device=context.device)
        cudnn.convolution_forward(context.cudnn, x_desc, x, w_desc, w, conv, 0, None, y_desc, y)
        assert y.numpy(context.stream).tolist() == expected


def test_c3_workspace_one_byte_short(context, rng):
    bench = Bench(context, rng)
    p = Problem(bench, "plain")
    x, w, y = bench.put(p.x_desc, p.x), bench.put(p.w_desc, p.w), bench.blank(p.y_desc)
    records = cudnn.get_convolution_forward_algorithm_v7(
        bench.handle, p.x_desc, p.w_desc, p.conv, p.y_desc
    )
    hungry = next(record for record in usable(records) if record.memory > 1)
    conv = p.conv.replace(math_type=hungry.math_type)
    needed = cudnn.get_convolution_forward_workspace_size(
        bench.handle, p.x_desc, p.w_desc, conv, p.y_desc, hungry.algorithm
    )
    for workspace, got in ((bench.workspace(needed - 1), needed - 1), (None, None)):
        with pytest.raises(ValueError, match=f"workspace needs {needed} bytes, got {got}"):
            cudnn.convolution_forward(
                bench.handle, p.x_desc, x, p.w_desc, w, conv, hungry.algorithm, workspace,
                p.y_desc, y,
            )  # fmt: skip
    assert np.isnan(bench.get(p.y_desc, y)).all(), "nothing may be launched"


def test_c4_records_keep_their_promise(context, rng):
    bench = Bench(context, rng)
    p = Problem(bench, "lenet")
    x, w = bench.put(p.x_desc, p.x), bench.put(p.w_desc, p.w)
    expected = exact.convolution(p.x, p.w, p.y_shape, **p.exact)
    records = usable(
        cudnn.find_convolution_forward_algorithm(bench.handle, p.x_desc, p.w_desc, p.conv, p.y_desc)
    )
    assert records
    for record in records:
        assert record.time is not None
        assert record.time > 0
        conv = p.conv.replace(math_type=record.math_type)
        size = cudnn.get_convolution_forward_workspace_size(
            bench.handle, p.x_desc, p.w_desc, conv, p.y_desc, record.algorithm
        )
        assert size <= record.memory
        y = bench.blank(p.y_desc)
        cudnn.convolution_forward(
            bench.handle, p.x_desc, x, p.w_desc, w, conv, record.algorithm,
            bench.workspace(size), p.y_desc, y,
        )  # fmt: skip
        precise = record.math_type == cudnn.MathType.FMA_MATH
        bench.check(p.y_desc, y, expected, slack(record) * (20 if precise else 1000))


def test_c5_searches_return_no_more_than_asked(context, rng):
    bench = Bench(context, rng)
    p = Problem(bench, "plain")
    arguments = (bench.handle, p.x_desc, p.w_desc, p.conv, p.y_desc)
    everything = cudnn.get_convolution_forward_algorithm_v7(*arguments)
    assert len(everything) > 1
    assert len(cudnn.get_convolution_forward_algorithm_v7(*arguments, requested=1)) == 1
    for record in everything:
        assert record.time is None
    for requested in (0, 1000):
        with pytest.raises(ValueError, match="requested must be in"):
            cudnn.get_convolution_forward_algorithm_v7(*arguments, requested=requested)


def test_c6_find_ex_works_in_a_small_workspace(context, rng):
    bench = Bench(context, rng)
    p = Problem(bench, "plain")
    x, w, y = bench.put(p.x_desc, p.x), bench.put(p.w_desc, p.w), bench.blank(p.y_desc)
    dy, dx, dw = bench.put(p.y_desc, p.dy), bench.blank(p.x_desc), bench.blank(p.w_desc)
    space = bench.workspace(1 << 20)
    searches = [
        cudnn.find_convolution_forward_algorithm_ex(
            bench.handle, p.x_desc, x, p.w_desc, w, p.conv, p.y_desc, y, space
        ),
        cudnn.find_convolution_backward_data_algorithm_ex(
            bench.handle, p.w_desc, w, p.y_desc, dy, p.conv, p.x_desc, dx, space
        ),
        cudnn.find_convolution_backward_filter_algorithm_ex(
            bench.handle, p.x_desc, x, p.y_desc, dy, p.conv, p.w_desc, dw, space
        ),
    ]
    for records in searches:
        assert usable(records)
        assert all(record.memory <= 1 << 20 for record in usable(records))


def test_convolution_backward_bias(context, rng):
    for dtype in DTYPES:
        bench = Bench(context, rng, dtype)
        desc, bias_desc = bench.desc((3, 5, 6, 7)), bench.desc((1, 5, 1, 1))
        dy = bench.values((3, 5, 6, 7))
        db = bench.blank(bias_desc)
        arguments = (bench.handle, desc, bench.put(desc, dy), bias_desc, db)
        if dtype == "bfloat16" and context.device.backend == "cuda":
            with pytest.raises(errors.CudnnNotSupported):
                cudnn.convolution_backward_bias(*arguments)
            continue
        cudnn.convolution_backward_bias(*arguments)
        bench.check(bias_desc, db, dy.sum(axis=(0, 2, 3), keepdims=True), 12)


@pytest.mark.parametrize("mode", ["RELU", "IDENTITY"])
def test_c13_convolution_bias_activation(context, rng, mode):
    bench = Bench(context, rng)
    p = Problem(bench, "padded")
    x, w = bench.put(p.x_desc, p.x), bench.put(p.w_desc, p.w)
    z, bias = bench.values(p.y_shape), bench.values((1, p.w_shape[0], 1, 1))
    bias_desc = bench.desc(bias.shape)
    activation = cudnn.ActivationDescriptor(
        cudnn.ActivationMode[mode], library=bench.library,
        nan_propagation=cudnn.NanPropagation.NOT_PROPAGATE_NAN,
    )  # fmt: skip
    precomputed = cudnn.ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM
    size = cudnn.get_convolution_forward_workspace_size(
        bench.handle, p.x_desc, p.w_desc, p.conv, p.y_desc, precomputed
    )

    def run(algorithm, space):
        y = bench.blank(p.y_desc)
        cudnn.convolution_bias_activation_forward(
            bench.handle, p.x_desc, x, p.w_desc, w, p.conv, algorithm, space, p.y_desc,
            bench.put(p.y_desc, z), bias_desc, bench.put(bias_desc, bias), activation, p.y_desc,
            y, alpha1=0.5, alpha2=2.0,
        )  # fmt: skip
        return y

    expected = 0.5 * exact.convolution(p.x, p.w, p.y_shape, **p.exact) + 2 * z + bias
    expected = exact.activation(expected, mode, 0.0)
    bench.check(p.y_desc, run(precomputed, bench.workspace(size)), expected, 20)
    if mode == "IDENTITY":
        with pytest.raises(ValueError, match="IMPLICIT_PRECOMP_GEMM"):
            run(cudnn.ConvolutionFwdAlgo.IMPLICIT_GEMM, None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("format", "slack"), [(NCHW, None), (NHWC, None), (NCHW, 3)], ids=["nchw", "nhwc", "strided"]
)
@pytest.mark.parametrize(
    "mode", [mode.name for mode in cudnn.ActivationMode if mode != cudnn.ActivationMode.IDENTITY]
)
def test_activation(context, rng, mode, dtype, format, slack):
    bench = Bench(context, rng, dtype, format, slack)
    shape = (3, 4, 5, 6)
    desc = bench.desc(shape)
    x, dy = bench.values(shape, -3, 3), bench.values(shape)
    # Away from the kinks at 0 and at the ceiling.
    x = np.where(np.abs(x) < 0.1, 0.5, x)
    x = np.where(np.abs(x - 1.5) < 0.1, 2.0, x).astype(bench.dtype).astype(np.float64)
    activation = cudnn.ActivationDescriptor(
        cudnn.ActivationMode[mode], coefficient=1.5, library=bench.library
    )
    y = bench.blank(desc)
    cudnn.activation_forward(bench.handle, activation, desc, bench.put(desc, x), desc, y)
    expected = exact.activation(x, mode, 1.5)
    bench.check(desc, y, expected)
    dx = bench.blank(desc)
    cudnn.activation_backward(
        bench.handle, activation, desc, y, desc, bench.put(desc, dy), desc, bench.put(desc, x),
        desc, dx,
    )  # fmt: skip
    gradient = exact.activation_gradient(x, dy, mode, 1.5)
    got = bench.get(desc, dx)
    assert np.abs(got - gradient).max() < max(4 * bench.tolerance, 1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", [mode.name for mode in cudnn.SoftmaxMode])
@pytest.mark.parametrize("algorithm", [algorithm.name for algorithm in cudnn.SoftmaxAlgorithm])
def test_softmax(context, rng, algorithm, mode, dtype):
    bench = Bench(context, rng, dtype)
    shape = (4, 10, 2, 3)
    desc = bench.desc(shape)
    x, dy = bench.values(shape, -4, 4), bench.values(shape)
    kinds = cudnn.SoftmaxAlgorithm[algorithm], cudnn.SoftmaxMode[mode]
    y = bench.blank(desc)
    cudnn.softmax_forward(bench.handle, *kinds, desc, bench.put(desc, x), desc, y)
    bench.check(desc, y, exact.softmax(x, algorithm, mode), 10 if algorithm == "LOG" else 2)
    stored = bench.get(desc, y)
    dx = bench.blank(desc)
    cudnn.softmax_backward(bench.handle, *kinds, desc, y, desc, bench.put(desc, dy), desc, dx)
    bench.check(desc, dx, exact.softmax_gradient(stored, dy, algorithm, mode), 4)


def test_softmax_of_large_logits_is_finite(context, rng):
    bench = Bench(context, rng)
    desc = bench.desc((1, 2, 1, 1))
    y = bench.blank(desc)
    kinds = cudnn.SoftmaxAlgorithm.ACCURATE, cudnn.SoftmaxMode.CHANNEL
    cudnn.softmax_forward(
        bench.handle, *kinds, desc, bench.put(desc, np.array([0, 200.0]).reshape(1, 2, 1, 1)),
        desc, y,
    )  # fmt: skip
    assert bench.get(desc, y).ravel().tolist() == [0.0, 1.0]


POOLINGS = {
    "2x2": ((3, 4, 6, 8), (2, 2), (0, 0), (2, 2)),
    "overlapping": ((2, 3, 9, 8), (3, 3), (1, 1), (2, 2)),
    "ragged": ((2, 2, 7, 5), (3, 2), (1, 0), (2, 1)),
    "cube": ((2, 2, 5, 4, 6), (2, 2, 3), (0, 1, 1), (1, 2, 2)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", [mode.name for mode in cudnn.PoolingMode])
@pytest.mark.parametrize("name", POOLINGS)
def test_pooling(context, rng, name, mode, dtype):
    shape, window, padding, stride = POOLINGS[name]
    bench = Bench(context, rng, dtype)
    pooling = cudnn.PoolingDescriptor(
        window, cudnn.PoolingMode[mode], padding=padding, stride=stride, library=bench.library
    )
    x_desc = bench.desc(shape)
    y_desc = bench.desc(cudnn.get_pooling_forward_output_dim(pooling, x_desc))
    # All values differ, also in half precision: the maximum of a window is unique.
    count = int(np.prod(shape))
    if dtype == "bfloat16":
        values = np.tile(np.arange(256), count // 256 + 1)[:count] - 128
        x = values.reshape(shape).astype(np.float64) / 64
        window_repeats = np.prod(shape[1:]) > 256
    else:
        x = bench.rng.permutation(count).reshape(shape) / 1024.0
        window_repeats = False
    assert not (window_repeats and name != "cube" and mode.startswith("MAX")) or count > 256
    x = x.astype(bench.dtype).astype(np.float64)
    dy = bench.values(y_desc.shape)
    y = bench.blank(y_desc)
    cudnn.pooling_forward(bench.handle, pooling, x_desc, bench.put(x_desc, x), y_desc, y)
    expected, _ = exact.pooling(x, y_desc.shape, mode, window, padding, stride)
    bench.check(y_desc, y, expected)
    dx = bench.blank(x_desc)
    cudnn.pooling_backward(
        bench.handle, pooling, y_desc, y, y_desc, bench.put(y_desc, dy), x_desc,
        bench.put(x_desc, x), x_desc, dx,
    )  # fmt: skip
    bench.check(x_desc, dx, exact.pooling_gradient(x, dy, mode, window, padding, stride), 3)


def test_b4_pooling_and_padding(context, rng):
    bench = Bench(context, rng)
    x_desc = bench.desc((1, 1, 2, 2))
    answers = {
        "AVERAGE_COUNT_INCLUDE_PADDING": (1, 0.25),
        "AVERAGE_COUNT_EXCLUDE_PADDING": (1, 1.0),
        "MAX": (-1, -1.0),
    }
    for mode, (value, expected) in answers.items():
        pooling = cudnn.PoolingDescriptor(
            2, cudnn.PoolingMode[mode], padding=1, stride=2, library=bench.library
        )
        y_desc = bench.desc(cudnn.get_pooling_forward_output_dim(pooling, x_desc))
        y = bench.blank(y_desc)
        x = bench.put(x_desc, np.full((1, 1, 2, 2), value))
        cudnn.pooling_forward(bench.handle, pooling, x_desc, x, y_desc, y)
        assert bench.get(y_desc, y).ravel().tolist() == [expected] * 4


def test_d8_bias_add_in_half_precision(context, rng):
    for n in range(1, 9):
        bench = Bench(context, rng, "float16")
        y_desc, b_desc = bench.desc((n, 512, 28, 28)), bench.desc((1, 512, 1, 1))
        y, b = bench.values((n, 512, 28, 28)), bench.values((1, 512, 1, 1))
        buffer = bench.put(y_desc, y)
        cudnn.add_tensor(bench.handle, b_desc, bench.put(b_desc, b), y_desc, buffer)
        assert np.abs(bench.get(y_desc, buffer) - (y + b)).max() < 1e-2


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_scale_set(context, rng, dtype):
    bench = Bench(context, rng, dtype)
    shape = (2, 3, 4, 5)
    desc, row_desc = bench.desc(shape), bench.desc((1, 3, 1, 1))
    c, a = bench.values(shape), bench.values((1, 3, 1, 1))
    buffer = bench.put(desc, c)
    cudnn.add_tensor(
        bench.handle, row_desc, bench.put(row_desc, a), desc, buffer, alpha=2.0, beta=0.5
    )
    bench.check(desc, buffer, 2 * a + 0.5 * c, 3)
    buffer = bench.put(desc, c)
    cudnn.scale_tensor(bench.handle, desc, buffer, -1.5)
    bench.check(desc, buffer, -1.5 * c, 2)
    cudnn.set_tensor(bench.handle, desc, buffer, 0.75)
    assert (bench.get(desc, buffer) == 0.75).all()


def test_transform_between_layouts(context, rng):
    bench = Bench(context, rng)
    shape = (2, 3, 4, 5)
    x = bench.values(shape)
    x_desc = bench.desc(shape)
    y_desc = cudnn.TensorDescriptor(shape, format=NHWC, library=bench.library)
    y = bench.blank(y_desc)
    cudnn.transform_tensor(bench.handle, x_desc, bench.put(x_desc, x), y_desc, y, alpha=2.0)
    flat = y.numpy(context.stream)
    np.testing.assert_allclose(flat.reshape(2, 4, 5, 3), 2 * x.transpose(0, 2, 3, 1), rtol=1e-6)


def test_dropout(context, rng):
    bench = Bench(context, rng)
    shape = (8, 16, 10, 10)
    desc = bench.desc(shape)
    ones = bench.put(desc, np.ones(shape))

    def forward(dropout):
        reserve = bench.workspace(cudnn.dropout_get_reserve_space_size(desc))
        y = bench.blank(desc)
        cudnn.dropout_forward(bench.handle, dropout, desc, ones, desc, y, reserve)
        return bench.get(desc, y), reserve

    with cudnn.DropoutDescriptor(bench.handle, 0.25, seed=7) as dropout:
        first, reserve = forward(dropout)
        second, _ = forward(dropout)
        kept = first != 0
        np.testing.assert_allclose(first[kept], 1 / 0.75, rtol=1e-6)
        assert abs(kept.mean() - 0.75) < 0.02
        assert (first != second).any()
        dy = bench.values(shape)
        dx = bench.blank(desc)
        cudnn.dropout_backward(bench.handle, dropout, desc, bench.put(desc, dy), desc, dx, reserve)
        np.testing.assert_allclose(bench.get(desc, dx), np.where(kept, dy / 0.75, 0), atol=1e-6)
    with cudnn.DropoutDescriptor(bench.handle, 0.25, seed=7) as again:
        repeated, _ = forward(again)
        assert (repeated == first).all()
    for probability in (-0.1, 1.0, float("nan"), "half"):
        with pytest.raises(ValueError, match=r"probability must be in \[0, 1\)"):
            cudnn.DropoutDescriptor(bench.handle, probability)


def test_nan_in_the_output_does_not_spread_with_beta_zero(context, rng):
    bench = Bench(context, rng)
    desc = bench.desc((1, 2, 3, 4))
    x = bench.values((1, 2, 3, 4))
    y = bench.blank(desc)
    identity = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library=bench.library)
    cudnn.activation_forward(bench.handle, identity, desc, bench.put(desc, x), desc, y)
    bench.check(desc, y, np.tanh(x))


# ---- bad operands --------------------------------------------------------------------------------


def test_small_and_wrong_buffers_are_refused(context, rng):
    bench = Bench(context, rng)
    desc = bench.desc((1, 2, 3, 4))
    tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library=bench.library)
    good = bench.blank(desc)
    small = empty((23,), "float32", device=context.device, stream=context.stream)
    wide = empty((24,), "float64", device=context.device, stream=context.stream)
    for x, y, error, text in (
        (small, good, ValueError, "x needs 96 bytes, got 92"),
        (good, small, ValueError, "y needs 96 bytes, got 92"),
        (wide, good, TypeError, "x holds float64, its descriptor says float32"),
        (12345678, good, TypeError, "x must be"),
        (None, good, TypeError, "x must be"),
        (good, "y", TypeError, "y must be"),
    ):
        with pytest.raises(error, match=text):
            cudnn.activation_forward(bench.handle, tanh, desc, x, desc, y)
    good.close()
    with pytest.raises(ValueError, match="closed"):
        cudnn.activation_forward(bench.handle, tanh, desc, good, desc, good)


def test_shapes_that_cudnn_does_not_check(context, rng):
    """cuDNN returns success for these and writes to the wrong places."""
    bench = Bench(context, rng)
    x_desc, y_desc = bench.desc((1, 2, 6, 6)), bench.desc((1, 2, 4, 4))
    x, y = bench.blank(x_desc), bench.blank(y_desc)
    pooling = cudnn.PoolingDescriptor(2, library=bench.library)
    with pytest.raises(ValueError, match=r"has shape \(1, 2, 3, 3\), got TensorDescriptor"):
        cudnn.pooling_forward(bench.handle, pooling, x_desc, x, y_desc, y)
    with pytest.raises(ValueError, match=r"has shape \(1, 2, 3, 3\), got TensorDescriptor"):
        cudnn.pooling_backward(
            bench.handle, pooling, y_desc, y, y_desc, y, x_desc, x, x_desc, x
        )
    nhwc = cudnn.TensorDescriptor((1, 2, 6, 6), format=NHWC, library=bench.library)
    with pytest.raises(ValueError, match="softmax needs tensors of one shape and layout"):
        cudnn.softmax_forward(bench.handle, 1, 1, x_desc, x, nhwc, x)
    with pytest.raises(ValueError, match="softmax needs tensors of one shape and layout"):
        cudnn.softmax_backward(bench.handle, 1, 1, x_desc, x, x_desc, x, y_desc, y)
    gaps = cudnn.TensorDescriptor((1, 2, 2, 2), strides=(40, 20, 4, 1), library=bench.library)
    with pytest.raises(ValueError, match="softmax needs packed NCHW or NHWC tensors"):
        cudnn.softmax_forward(bench.handle, 1, 0, gaps, x, gaps, x)
    wide = cudnn.TensorDescriptor((1, 2, 6, 6), "float64", library=bench.library)
    with pytest.raises(errors.NotSupported, match="cannot convert to float64"):
        cudnn.transform_tensor(bench.handle, x_desc, x, wide, x)


def test_arguments_of_another_kind_are_type_errors(context, rng):
    """Also on the cold path, where C would take any pointer."""
    bench = Bench(context, rng)
    p = Problem(bench, "plain")
    handle = bench.handle
    for call, text in (
        (lambda: cudnn.get_convolution_forward_algorithm_v7(
            handle, p.w_desc, p.w_desc, p.conv, p.y_desc), "x_desc must be a Tensor.*, got F"),
        (lambda: cudnn.get_convolution_forward_algorithm_v7(
            None, p.x_desc, p.w_desc, p.conv, p.y_desc), "handle must be a Handle, got None"),
        (lambda: cudnn.get_convolution_forward_workspace_size(
            handle, p.x_desc, 5, p.conv, p.y_desc, 0), "w_desc must be a Filter.*, got 5"),
        (lambda: cudnn.get_convolution_forward_workspace_size(
            context.cublas, p.x_desc, p.w_desc, p.conv, p.y_desc, 0), "handle must be a Handle"),
        (lambda: cudnn.convolution_forward(
            handle, p.x_desc, None, p.w_desc, None, p.conv, "fast", None, p.y_desc, None),
         "algo must be an int or an enum's member, got 'fast'"),
        (lambda: cudnn.convolution_forward(
            handle, p.x_desc, None, p.w_desc, None, p.conv, 0.5, None, p.y_desc, None),
         "algo must be a Convolution\\w*Algo or its number, got 0.5"),
        (lambda: cudnn.Handle(5), "device must be a Device, got 5"),
        (lambda: cudnn.dropout_get_reserve_space_size(p.w_desc), "x_desc must be a TensorDesc"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(ValueError, match="algo must fit a 32-bit int, got 2147483648"):
        cudnn.convolution_forward(
            handle, p.x_desc, None, p.w_desc, None, p.conv, 2**31, None, p.y_desc, None
        )


def test_an_array_of_a_type_that_cudnn_lacks(rng):
    """Its bytes are not taken for something else."""
    with CudaContext("reference") as context:
        bench = Bench(context, rng)
        desc = bench.desc((1, 2, 3, 4))
        tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library=bench.library)
        x = np.zeros((1, 2, 3, 4), np.complex64)
        with pytest.raises(TypeError, match="x holds elements that cuDNN has no type for"):
            cudnn.activation_forward(bench.handle, tanh, desc, x, desc, bench.blank(desc))


def test_scalars_must_be_numbers(context, rng):
    bench = Bench(context, rng)
    desc = bench.desc((1, 1, 1, 1))
    buffer = bench.blank(desc)
    tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library=bench.library)
    with pytest.raises(TypeError, match="alpha must be a real number, got '1'"):
        cudnn.activation_forward(bench.handle, tanh, desc, buffer, desc, buffer, alpha="1")
    with pytest.raises(TypeError, match="value must be a real number, got 'x'"):
        cudnn.set_tensor(bench.handle, desc, buffer, "x")
    with pytest.raises(ValueError, match="algorithm must be a SoftmaxAlgorithm"):
        cudnn.softmax_forward(bench.handle, 3, 0, desc, buffer, desc, buffer)


class TestNumpyOperands:
    """D6: an array is taken as it lies or refused, never misread."""

    desc = cudnn.TensorDescriptor((2, 3, 4, 5), library="reference")
    tanh = cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library="reference")

    def run(self, x, desc=None):
        y = np.full((2, 3, 4, 5), np.nan, np.float32)
        with cudnn.Handle(library="reference") as handle:
            cudnn.activation_forward(handle, self.tanh, desc or self.desc, x, self.desc, y)
        return y

    def test_contiguous(self, rng):
        x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
        np.testing.assert_allclose(self.run(x), np.tanh(x), atol=1e-6)
        np.testing.assert_allclose(self.run(x.reshape(6, 20)), np.tanh(x), atol=1e-6)

    def test_d6_transposed_views(self, rng):
        x = rng.standard_normal((5, 4, 3, 2)).astype(np.float32)
        with pytest.raises(ValueError, match="x must be laid out as"):
            self.run(x.T)
        desc = cudnn.TensorDescriptor.like(x.T, library="reference")
        np.testing.assert_allclose(self.run(x.T, desc), np.tanh(x.T), atol=1e-6)
        with pytest.raises(ValueError, match="x must be contiguous"):
            self.run(np.zeros((4, 3, 4, 5), np.float32)[::2].reshape(2, 3, 4, 5)[:, :, ::-1][:1])

    def test_read_only_outputs(self):
        x = np.zeros((2, 3, 4, 5), np.float32)
        x.flags.writeable = False
        self.run(x)
        with cudnn.Handle(library="reference") as handle:
            with pytest.raises(ValueError, match="y is written to, but this array is read-only"):
                cudnn.activation_forward(handle, self.tanh, self.desc, x, self.desc, x)
