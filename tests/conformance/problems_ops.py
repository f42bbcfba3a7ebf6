"""Problems for cudnn_ops.h: from elementwise functions and pooling to reductions and samplers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from harness import FLOATING, Case, Operand, numpy_dtype, problem

from pycudnn import cudnn

SCALES = ((1.0, 0.0), (0.5, 0.0), (1.0, 1.0), (-1.5, 0.5))


def output(case: Case, shape: tuple[int, ...], dtype: Any, beta: float, layout: Any) -> Operand:
    """An output that is read only if beta is not 0."""
    return case.tensor(shape, dtype, layout=layout, blank=beta == 0)


def blended(value: np.ndarray, alpha: float, beta: float, out: Operand) -> np.ndarray:
    """alpha * value + beta * what the output held."""
    return alpha * value + (beta * out.values if beta else 0.0)


# ---- one tensor into another ---------------------------------------------------------------------


@problem("cudnnSetTensor")
def set_tensor(case: Case) -> None:
    dtype = case.choose(*FLOATING)
    y = case.tensor(case.shape(case.choose(4, 5)), dtype, blank=True)
    value = float(case.values((1,), dtype)[0])
    cudnn.set_tensor(case.handle, y.desc, y.data, value)
    case.check(y, np.full(y.desc.shape, value), dtype)


@problem("cudnnScaleTensor")
def scale_tensor(case: Case) -> None:
    dtype = case.choose(*FLOATING)
    y = case.tensor(case.shape(case.choose(4, 5)), dtype)
    alpha = case.choose(0.5, -2.0, 0.0)
    cudnn.scale_tensor(case.handle, y.desc, y.data, alpha)
    case.check(y, alpha * y.values, dtype)


@problem("cudnnTransformTensor")
def transform_tensor(case: Case) -> None:
    pairs = [(dtype, dtype) for dtype in FLOATING]
    pairs += [("float32", "float16"), ("float16", "float32"), ("float32", "bfloat16")]
    pairs += [("bfloat16", "float32"), ("float64", "float32")]
    x_type, y_type = case.choose(*pairs)
    shape = case.shape(case.choose(4, 5))
    alpha, beta = case.choose(*SCALES)
    x, y = case.tensor(shape, x_type), output(case, shape, y_type, beta, None)
    cudnn.transform_tensor(case.handle, x.desc, x.data, y.desc, y.data, alpha=alpha, beta=beta)
    case.check(y, blended(x.values, alpha, beta, y), y_type, 2)


# ---- activation ----------------------------------------------------------------------------------

# Mode: the function and its derivative, of x and the coefficient.
ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "SIGMOID": (
        lambda x, c: 1 / (1 + np.exp(-x)),
        lambda x, c: np.exp(-x) / (1 + np.exp(-x)) ** 2,
    ),
    "RELU": (lambda x, c: np.maximum(x, 0), lambda x, c: (x > 0) * 1.0),
    "TANH": (lambda x, c: np.tanh(x), lambda x, c: 1 - np.tanh(x) ** 2),
    "CLIPPED_RELU": (
        lambda x, c: np.clip(x, 0, c),
        lambda x, c: ((x > 0) & (x < c)) * 1.0,
    ),
    "ELU": (
        lambda x, c: np.where(x > 0, x, c * np.expm1(x)),
        lambda x, c: np.where(x > 0, 1.0, c * np.exp(x)),
    ),
    "SWISH": (
        lambda x, c: x / (1 + np.exp(-c * x)),
        lambda x, c: (1 + np.exp(-c * x) * (1 + c * x)) / (1 + np.exp(-c * x)) ** 2,
    ),
}


def _activation(case: Case) -> tuple[Any, Any, Operand, Any, str]:
    """Descriptor, its two functions, an input away from the kinks, its layout and dtype."""
    mode, dtype = case.choose(*ACTIVATIONS), case.choose(*FLOATING)
    layout = case.choose("packed", "channels last", "gaps")
    shape = case.shape(case.choose(4, 5))
    numbers = case.values(shape, dtype, -3, 3)
    numbers[np.abs(numbers) < 0.1] = 1.0
    numbers[np.abs(numbers - 1.5) < 0.1] = 2.0
    x = case.tensor(shape, dtype, layout=layout, values=numbers)
    activation = cudnn.ActivationDescriptor(
        cudnn.ActivationMode[mode], coefficient=1.5, library=case.library
    )
    return activation, ACTIVATIONS[mode], x, layout, dtype


@problem("cudnnActivationForward")
def activation_forward(case: Case) -> None:
    activation, (function, _), x, layout, dtype = _activation(case)
    alpha, beta = case.choose(*SCALES)
    y = output(case, x.desc.shape, dtype, beta, layout)
    cudnn.activation_forward(
        case.handle, activation, x.desc, x.data, y.desc, y.data, alpha=alpha, beta=beta
    )
    case.check(y, blended(function(x.values, 1.5), alpha, beta, y), dtype, 2)


@problem("cudnnActivationBackward")
def activation_backward(case: Case) -> None:
    activation, (function, slope), x, layout, dtype = _activation(case)
    alpha, beta = case.choose(*SCALES)
    shape = x.desc.shape
    y = case.tensor(shape, dtype, layout=layout, values=function(x.values, 1.5))
    dy = case.tensor(shape, dtype, layout=layout)
    dx = output(case, shape, dtype, beta, layout)
    cudnn.activation_backward(
        case.handle, activation, y.desc, y.data, dy.desc, dy.data, x.desc, x.data, dx.desc,
        dx.data, alpha=alpha, beta=beta,
    )  # fmt: skip
    gradient = dy.values * slope(x.values, 1.5)
    case.check(dx, blended(gradient, alpha, beta, dx), dtype, 5)  # y was rounded


# ---- pooling -------------------------------------------------------------------------------------


def _pooling(case: Case) -> tuple[Any, str, Operand, tuple[int, ...], Any, str]:
    """Descriptor, mode, an input whose planes hold no number twice, output shape, layout, dtype."""
    rank, dtype = case.choose(2, 3), case.choose(*FLOATING)
    mode = case.choose(*(mode.name for mode in cudnn.PoolingMode))
    window = case.shape(rank, 1, 3)
    padding = tuple(case.integer(0, size - 1) for size in window)
    pooling = cudnn.PoolingDescriptor(
        window, cudnn.PoolingMode[mode], padding=padding, stride=case.shape(rank, 1, 3),
        library=case.library,
    )  # fmt: skip
    shape = (*case.shape(2, 1, 4), *case.shape(rank, 3, 6))
    plane = int(np.prod(shape[2:]))  # at most 216 integers, which bfloat16 still tells apart
    planes = [case.rng.permutation(plane) - plane // 2 for _ in range(shape[0] * shape[1])]
    layout = case.choose("packed", "channels last")
    x = case.tensor(shape, dtype, layout=layout, values=np.reshape(planes, shape))
    y_shape = cudnn.get_pooling_forward_output_dim(pooling, x.desc)
    return pooling, mode, x, y_shape, layout, dtype


def _windows(pooling: Any, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> Any:
    """Each output's place, and the slices of the input that its window covers."""
    for place in itertools.product(*map(range, y_shape[2:])):
        starts = [
            p * stride - pad
            for p, stride, pad in zip(place, pooling.stride, pooling.padding, strict=True)
        ]
        yield (
            place,
            tuple(
                slice(max(start, 0), min(start + size, full))
                for start, size, full in zip(starts, pooling.window, x_shape[2:], strict=True)
            ),
        )


def _divisor(mode: str, pooling: Any, count: int) -> int:
    return int(np.prod(pooling.window)) if mode.endswith("INCLUDE_PADDING") else count


@problem("cudnnPoolingForward")
def pooling_forward(case: Case) -> None:
    pooling, mode, x, y_shape, layout, dtype = _pooling(case)
    alpha, beta = case.choose(*SCALES)
    y = output(case, y_shape, dtype, beta, layout)
    cudnn.pooling_forward(
        case.handle, pooling, x.desc, x.data, y.desc, y.data, alpha=alpha, beta=beta
    )
    expected = np.zeros(y_shape)
    for place, window in _windows(pooling, x.desc.shape, y_shape):
        values = x.values[(..., *window)].reshape(*y_shape[:2], -1)
        if mode.startswith("MAX"):
            expected[(..., *place)] = values.max(-1)
        else:
            expected[(..., *place)] = values.sum(-1) / _divisor(mode, pooling, values.shape[-1])
    case.check(y, blended(expected, alpha, beta, y), dtype)


@problem("cudnnPoolingBackward")
def pooling_backward(case: Case) -> None:
    pooling, mode, x, y_shape, layout, dtype = _pooling(case)
    alpha, beta = case.choose(*SCALES)
    y, dy = (case.tensor(y_shape, dtype, layout=layout, blank=blank) for blank in (True, False))
    cudnn.pooling_forward(case.handle, pooling, x.desc, x.data, y.desc, y.data)
    dx = output(case, x.desc.shape, dtype, beta, layout)
    cudnn.pooling_backward(
        case.handle, pooling, y.desc, y.data, dy.desc, dy.data, x.desc, x.data, dx.desc, dx.data,
        alpha=alpha, beta=beta,
    )  # fmt: skip
    expected = np.zeros(x.desc.shape)
    for place, window in _windows(pooling, x.desc.shape, y_shape):
        at, values = (..., *window), x.values[(..., *window)]
        share = dy.values[(..., *place)].reshape(*y_shape[:2], *(1,) * len(place))
        if mode.startswith("MAX"):
            axes = tuple(range(2, values.ndim))
            expected[at] += share * (values == values.max(axes, keepdims=True))
        else:
            expected[at] += share / _divisor(mode, pooling, values[0, 0].size)
    case.check(dx, blended(expected, alpha, beta, dx), dtype, 3)


# ---- softmax -------------------------------------------------------------------------------------


def _softmax(case: Case) -> tuple[Any, Any, tuple[int, ...], Any, str]:
    algorithm = case.choose(*cudnn.SoftmaxAlgorithm)
    mode, dtype = case.choose(*cudnn.SoftmaxMode), case.choose(*FLOATING)
    axes = (1,) if mode == cudnn.SoftmaxMode.CHANNEL else (1, 2, 3)
    return algorithm, mode, axes, case.choose("packed", "channels last"), dtype


@problem("cudnnSoftmaxForward")
def softmax_forward(case: Case) -> None:
    algorithm, mode, axes, layout, dtype = _softmax(case)
    alpha, beta = case.choose(*SCALES)
    x = case.tensor(case.shape(), dtype, layout=layout, low=-4, high=4)
    y = output(case, x.desc.shape, dtype, beta, layout)
    cudnn.softmax_forward(
        case.handle, algorithm, mode, x.desc, x.data, y.desc, y.data, alpha=alpha, beta=beta
    )
    logs = x.values - np.log(np.exp(x.values).sum(axes, keepdims=True))
    expected = logs if algorithm == cudnn.SoftmaxAlgorithm.LOG else np.exp(logs)
    case.check(y, blended(expected, alpha, beta, y), dtype, 3)


@problem("cudnnSoftmaxBackward")
def softmax_backward(case: Case) -> None:
    algorithm, mode, axes, layout, dtype = _softmax(case)
    alpha, beta = case.choose(*SCALES)
    shape = case.shape()
    logits = case.values(shape, "float64", -4, 4)
    logs = logits - np.log(np.exp(logits).sum(axes, keepdims=True))
    is_log = algorithm == cudnn.SoftmaxAlgorithm.LOG
    y = case.tensor(shape, dtype, layout=layout, values=logs if is_log else np.exp(logs))
    dy, dx = case.tensor(shape, dtype, layout=layout), output(case, shape, dtype, beta, layout)
    cudnn.softmax_backward(
        case.handle, algorithm, mode, y.desc, y.data, dy.desc, dy.data, dx.desc, dx.data,
        alpha=alpha, beta=beta,
    )  # fmt: skip
    if is_log:
        gradient = dy.values - np.exp(y.values) * dy.values.sum(axes, keepdims=True)
    else:
        gradient = y.values * (dy.values - (dy.values * y.values).sum(axes, keepdims=True))
    case.check(dx, blended(gradient, alpha, beta, dx), dtype, 10)


# ---- dropout -------------------------------------------------------------------------------------


@problem("cudnnDropoutForward", "cudnnDropoutBackward")
def dropout(case: Case) -> None:
    dtype = case.choose("float32", "float64", "float16")
    probability = case.choose(0.0, 0.25, 0.5, 0.875)  # exact as a C float
    shape = case.shape()
    numbers = case.values(shape, dtype, 0.5, 1.0)
    x = case.tensor(shape, dtype, layout="packed", values=numbers)
    y, dx = (case.tensor(shape, dtype, layout="packed", blank=True) for _ in range(2))
    dy = case.tensor(shape, dtype, layout="packed")
    reserve = case.scratch(cudnn.dropout_get_reserve_space_size(x.desc))
    with cudnn.DropoutDescriptor(case.handle, probability, case.integer(0, 2**31)) as descriptor:
        cudnn.dropout_forward(case.handle, descriptor, x.desc, x.data, y.desc, y.data, reserve)
        got = case.get(y.data)[: x.values.size].astype(np.float64).reshape(shape)
        kept = got != 0
        deviation = np.sqrt(kept.size * probability * (1 - probability))
        assert abs(kept.sum() - kept.size * (1 - probability)) <= 6 * deviation, "dropped too many"
        case.check(y, np.where(kept, x.values / (1 - probability), 0), dtype)
        cudnn.dropout_backward(case.handle, descriptor, dy.desc, dy.data, dx.desc, dx.data, reserve)
        case.check(dx, np.where(kept, dy.values / (1 - probability), 0), dtype)


# ---- op_tensor, reduce_tensor --------------------------------------------------------------------

BINARY: dict[str, Any] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "SQRT": lambda a, b: np.sqrt(np.maximum(a, 0)),
    "NOT": lambda a, b: 1 - a,
}
# Type of a and b, type of c, compute type.
BINARY_TYPES = (
    ("float32", "float32", "float32"),
    ("float32", "float16", "float32"),
    ("float32", "bfloat16", "float32"),
    ("float16", "float16", "float32"),
    ("float16", "float32", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("bfloat16", "float32", "float32"),
    ("int8", "int8", "float32"),
    ("int8", "float32", "float32"),
    ("float64", "float64", "float64"),
)


@problem("cudnnOpTensor")
def op_tensor(case: Case) -> None:
    name = case.choose(*BINARY)
    ab_type, c_type, compute_type = case.choose(*BINARY_TYPES)
    shape = case.shape(case.choose(4, 5), 1, 6)
    b_shape = tuple(1 if case.rng.integers(2) else size for size in shape)
    low, high = (0, 7) if ab_type == "int8" else (0.1, 2.0) if name == "SQRT" else (-2, 2)
    a, b = (case.tensor(size, ab_type, low=low, high=high) for size in (shape, b_shape))
    beta = 0.0 if c_type == "int8" else case.choose(0.0, 1.0, -0.5)
    alpha1, alpha2 = case.choose((1.0, 1.0), (2.0, -1.0), (1.0, 0.0))
    c = output(case, shape, c_type, beta, None)
    op = cudnn.OpTensorDescriptor(cudnn.OpTensorOp[name], compute_type, library=case.library)
    cudnn.op_tensor(
        case.handle, op, a.desc, a.data, b.desc, b.data, c.desc, c.data, alpha1=alpha1,
        alpha2=alpha2, beta=beta,
    )  # fmt: skip
    expected = BINARY[name](alpha1 * a.values, alpha2 * b.values)
    case.check(c, blended(np.broadcast_to(expected, shape), 1.0, beta, c), c_type, 2)


REDUCTIONS: dict[str, Any] = {
    "ADD": lambda a, axes: a.sum(axes, keepdims=True),
    "MUL": lambda a, axes: a.prod(axes, keepdims=True),
    "MIN": lambda a, axes: a.min(axes, keepdims=True),
    "MAX": lambda a, axes: a.max(axes, keepdims=True),
    "AMAX": lambda a, axes: np.abs(a).max(axes, keepdims=True),
    "AVG": lambda a, axes: a.mean(axes, keepdims=True),
    "NORM1": lambda a, axes: np.abs(a).sum(axes, keepdims=True),
    "NORM2": lambda a, axes: np.sqrt((a * a).sum(axes, keepdims=True)),
    "MUL_NO_ZEROS": lambda a, axes: np.where(a == 0, 1, a).prod(axes, keepdims=True),
}


@problem("cudnnReduceTensor")
def reduce_tensor(case: Case) -> None:
    name = case.choose(*REDUCTIONS)
    a_type, c_type, compute_type = case.choose(
        ("float32", "float32", "float32"), ("float32", "float16", "float32"),
        ("float16", "float16", "float32"), ("float16", "float32", "float32"),
        ("int8", "float32", "float32"), ("float64", "float64", "float64"),
    )  # fmt: skip
    shape = case.shape(case.choose(3, 4, 5), 1, 6)
    c_shape = tuple(1 if case.rng.integers(2) else size for size in shape)
    if c_shape == shape:
        shape, c_shape = (*shape[:-1], 3), (*shape[:-1], 1)
    axes = tuple(axis for axis, size in enumerate(c_shape) if size != shape[axis])
    multiplies = name.startswith("MUL")
    numbers = case.values(shape, a_type, *((0.9, 1.1) if multiplies else (-2, 2)))
    if name == "MUL_NO_ZEROS" or a_type == "int8":
        numbers = numbers * (case.rng.uniform(size=shape) > 0.2)
    a = case.tensor(shape, a_type, values=numbers)
    alpha, beta = case.choose(*SCALES)
    c = output(case, c_shape, c_type, beta, None)
    indexed = name in ("MIN", "MAX", "AMAX") and case.choose(True, False)
    reduce = cudnn.ReduceTensorDescriptor(
        cudnn.ReduceTensorOp[name], compute_type, indices=int(indexed), library=case.library
    )
    sizes = [
        query(case.handle, reduce, a.desc, c.desc)
        for query in (cudnn.get_reduction_indices_size, cudnn.get_reduction_workspace_size)
    ]
    indices = case.put(np.full(sizes[0] // 4, 0xFFFFFFFF, np.uint32)) if indexed else None
    cudnn.reduce_tensor(
        case.handle, reduce, indices, case.scratch(sizes[1]), a.desc, a.data, c.desc, c.data,
        alpha=alpha, beta=beta,
    )  # fmt: skip
    expected = REDUCTIONS[name](a.values, axes)
    case.check(c, blended(expected, alpha, beta, c), c_type, 10)
    if indexed:
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        flat = a.values.transpose(*kept, *axes).reshape(int(np.prod(c_shape)), -1)
        places = case.get(indices).astype(np.int64)
        assert (0 <= places).all(), "an index was not written"
        assert (places < flat.shape[1]).all(), "an index is past the end"
        chosen = np.take_along_axis(flat, places[:, None], 1)
        chosen = np.abs(chosen) if name == "AMAX" else chosen
        case.compare(chosen.ravel(), expected.ravel(), c_type)


# ---- spatial transformer -------------------------------------------------------------------------


def _transformer(case: Case) -> tuple[Any, str]:
    dtype = case.choose("float32", "float64", "float16")
    shape = (*case.shape(2, 1, 4), *case.shape(2, 2, 7))
    return cudnn.SpatialTransformerDescriptor(
        shape, numpy_dtype(dtype), library=case.library
    ), dtype


def _pixels(shape: tuple[int, ...]) -> np.ndarray:
    """(x, y, 1) of each output pixel."""
    rows, columns = (np.linspace(-1, 1, size) for size in shape[2:])
    y, x = np.meshgrid(rows, columns, indexing="ij")
    return np.stack([x, y, np.ones_like(x)], -1)


@problem("cudnnSpatialTfGridGeneratorForward")
def grid_forward(case: Case) -> None:
    transformer, dtype = _transformer(case)
    n, _, h, w = transformer.shape
    theta = case.tensor((n, 2, 3), dtype, layout="packed")
    grid = case.tensor((n, h, w, 2), dtype, layout="packed", blank=True)
    cudnn.spatial_tf_grid_generator_forward(case.handle, transformer, theta.data, grid.data)
    expected = np.einsum("nij,hwj->nhwi", theta.values, _pixels(transformer.shape))
    case.check(grid, expected, dtype, 3)


@problem("cudnnSpatialTfGridGeneratorBackward")
def grid_backward(case: Case) -> None:
    transformer, dtype = _transformer(case)
    n, _, h, w = transformer.shape
    dgrid = case.tensor((n, h, w, 2), dtype, layout="packed")
    dtheta = case.tensor((n, 2, 3), dtype, layout="packed", blank=True)
    cudnn.spatial_tf_grid_generator_backward(case.handle, transformer, dgrid.data, dtheta.data)
    expected = np.einsum("nhwi,hwj->nij", dgrid.values, _pixels(transformer.shape))
    case.check(dtheta, expected, dtype, 10)


def _sampling(case: Case) -> tuple[Any, str, Operand, Operand]:
    """Transformer, dtype, an image and points in and around it."""
    transformer, dtype = _transformer(case)
    n, c, h, w = transformer.shape
    x = case.tensor((n, c, *case.shape(2, 2, 7)), dtype, layout="packed")
    # Away from the pixels' centres, where the slope jumps.
    sizes = np.array(x.desc.shape[:1:-1])
    places = case.rng.integers(-1, sizes, (n, h, w, 2)) + case.rng.uniform(0.1, 0.9, (n, h, w, 2))
    numbers = 2 * places / (sizes - 1) - 1
    return transformer, dtype, x, case.tensor((n, h, w, 2), dtype, layout="packed", values=numbers)


def _weights(x_shape: tuple[int, ...], points: np.ndarray) -> tuple[np.ndarray, ...]:
    """What each row and each column of the image adds to each point, and their slopes."""
    results = []
    for size, at in zip(x_shape[2:], (points[..., 1], points[..., 0]), strict=True):
        place = (at[..., None] + 1) * (size - 1) / 2
        offset = place - np.arange(size)
        near = np.abs(offset) < 1
        results += [np.where(near, 1 - np.abs(offset), 0)]
        results += [np.where(near, -np.sign(offset), 0) * (size - 1) / 2]
    return tuple(results)


@problem("cudnnSpatialTfSamplerForward")
def sampler_forward(case: Case) -> None:
    transformer, dtype, x, grid = _sampling(case)
    alpha, beta = case.choose(*SCALES)
    y = output(case, transformer.shape, dtype, beta, "packed")
    cudnn.spatial_tf_sampler_forward(
        case.handle, transformer, x.desc, x.data, grid.data, y.desc, y.data, alpha=alpha, beta=beta
    )
    rows, _, columns, _ = _weights(x.desc.shape, grid.values)
    expected = np.einsum("nchw,npqh,npqw->ncpq", x.values, rows, columns)
    case.check(y, blended(expected, alpha, beta, y), dtype, 20)


@problem("cudnnSpatialTfSamplerBackward")
def sampler_backward(case: Case) -> None:
    transformer, dtype, x, grid = _sampling(case)
    alpha, beta = case.choose(*SCALES)
    dy = case.tensor(transformer.shape, dtype, layout="packed")
    dx = output(case, x.desc.shape, dtype, beta, "packed")
    dgrid = output(case, grid.desc.shape, dtype, beta, "packed")
    cudnn.spatial_tf_sampler_backward(
        case.handle, transformer, x.desc, x.data, dx.desc, dx.data, dy.desc, dy.data, grid.data,
        dgrid.data, alpha=alpha, beta=beta, alpha_dgrid=alpha, beta_dgrid=beta,
    )  # fmt: skip
    rows, row_slopes, columns, column_slopes = _weights(x.desc.shape, grid.values)
    image = np.einsum("ncpq,npqh,npqw->nchw", dy.values, rows, columns)
    case.check(dx, blended(image, alpha, beta, dx), dtype, 30)
    sums = "ncpq,nchw,npqh,npqw->npq"
    points = np.stack(
        [
            np.einsum(sums, dy.values, x.values, rows, column_slopes),
            np.einsum(sums, dy.values, x.values, row_slopes, columns),
        ],
        -1,
    )
    case.check(dgrid, blended(points, alpha, beta, dgrid), dtype, 30)
