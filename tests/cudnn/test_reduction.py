"""Reductions against float64 NumPy: all ops, types and layouts, and the places of elements."""

from __future__ import annotations

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn, errors

Op = cudnn.ReduceTensorOp
OPS = {
    "ADD": lambda a, axes: a.sum(axes, keepdims=True),
    "MUL": lambda a, axes: a.prod(axes, keepdims=True),
    "MIN": lambda a, axes: a.min(axes, keepdims=True),
    "MAX": lambda a, axes: a.max(axes, keepdims=True),
    "AMAX": lambda a, axes: np.abs(a).max(axes, keepdims=True),
    "AVG": lambda a, axes: a.mean(axes, keepdims=True),
    "NORM1": lambda a, axes: np.abs(a).sum(axes, keepdims=True),
    "NORM2": lambda a, axes: np.sqrt((a**2).sum(axes, keepdims=True)),
    "MUL_NO_ZEROS": lambda a, axes: np.where(a == 0, 1, a).prod(axes, keepdims=True),
}
# What cuDNN reduces: type of a, type of c, compute type.
TYPES = [
    ("float32", "float32", "float32"),
    ("float32", "float16", "float32"),
    ("float32", "int8", "float32"),
    ("float16", "float16", "float32"),
    ("float16", "float32", "float32"),
    ("int8", "int8", "float32"),
    ("int8", "float32", "float32"),
    ("float64", "float64", "float64"),
]


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def reduced(a_shape, c_shape):
    return tuple(i for i, (n, m) in enumerate(zip(a_shape, c_shape, strict=True)) if n != m)


def run(side, name, a, c, *, indexed=False, alpha=1.0, beta=0.0, **options):
    """Reduce; the indices, if asked for."""
    kind = cudnn.ReduceTensorIndices(int(indexed))
    reduce = cudnn.ReduceTensorDescriptor(Op[name], **options, indices=kind, library=side.library)
    sizes = [
        query(side.handle, reduce, a.desc, c.desc)
        for query in (cudnn.get_reduction_indices_size, cudnn.get_reduction_workspace_size)
    ]
    indices = side.put(np.full(sizes[0] // 4, 77, np.uint32)) if indexed else None
    cudnn.reduce_tensor(
        side.handle, reduce, indices, side.scratch(sizes[1]), a.desc, a.data, c.desc, c.data,
        alpha=alpha, beta=beta,
    )  # fmt: skip
    return side.get(indices) if indexed else None


@pytest.mark.parametrize("types", TYPES, ids=lambda types: "-".join(types[:2]))
@pytest.mark.parametrize("name", OPS)
def test_all_ops_and_types(side, rng, name, types):
    a_type, c_type, compute_type = types
    shape, c_shape = (2, 3, 4, 5), (2, 3, 4, 1)
    if "int8" in types:
        numbers = rng.integers(-2, 3, shape)
    else:
        numbers = rng.uniform(-2, 2, shape) * (rng.uniform(size=shape) > 0.2)
    a, c = side.tensor(numbers, a_type), side.blank(c_shape, c_type)
    run(side, name, a, c, compute_type=compute_type)
    c.check(OPS[name](a.values, (3,)), 2)


@pytest.mark.parametrize("layout", ["packed", "channels last", "gaps"])
@pytest.mark.parametrize(
    "c_shape", [(1, 1, 1, 1), (1, 3, 1, 1), (2, 1, 4, 1), (1, 3, 4, 5), (2, 3, 1, 5)]
)
def test_any_dimensions_in_any_layout(side, rng, c_shape, layout):
    shape = (2, 3, 4, 5)
    for name in ("ADD", "MAX", "NORM2"):
        a = side.tensor(rng.standard_normal(shape), layout=layout)
        c = side.tensor(rng.standard_normal(c_shape))
        run(side, name, a, c, alpha=-0.5, beta=2.0)
        c.check(-0.5 * OPS[name](a.values, reduced(shape, c_shape)) + 2.0 * c.values)


@pytest.mark.parametrize(
    ("shape", "c_shape"),
    [
        ((2, 3, 4), (1, 3, 1)),
        ((2, 3, 2, 3, 2), (1, 3, 1, 1, 1)),
        ((2, 1, 3, 2, 2, 1, 2, 2),) + ((1,) * 8,),
    ],
)
def test_other_ranks(side, rng, shape, c_shape):
    a, c = side.tensor(rng.standard_normal(shape)), side.blank(c_shape)
    run(side, "ADD", a, c)
    c.check(OPS["ADD"](a.values, reduced(shape, c_shape)))


@pytest.mark.parametrize("name", ["MIN", "MAX", "AMAX"])
@pytest.mark.parametrize("c_shape", [(1, 1, 1, 1), (1, 3, 1, 1), (2, 3, 4, 1), (2, 1, 4, 1)])
def test_indices_count_over_the_reduced_dimensions(side, rng, name, c_shape):
    shape = (2, 3, 4, 5)
    axes = reduced(shape, c_shape)
    a = side.tensor(rng.permutation(120).reshape(shape) - 59.75)
    c = side.blank(c_shape)
    indices = run(side, name, a, c, indexed=True)
    c.check(OPS[name](a.values, axes))
    kept = [axis for axis in range(4) if axis not in axes]
    flat = a.values.transpose(*kept, *axes).reshape(int(np.prod(c_shape)), -1)
    if name == "AMAX":
        flat = np.abs(flat)
    expected = flat.argmin(1) if name == "MIN" else flat.argmax(1)
    assert indices.tolist() == expected.tolist()


@pytest.mark.parametrize("keep", [True, False])
def test_nan(side, rng, keep):
    numbers = rng.permutation(24).reshape(2, 3, 4, 1) - 11.5
    numbers[1, 2, 3, 0] = np.nan
    for name in ("MIN", "MAX", "AMAX"):
        a, c = side.tensor(numbers), side.blank((1, 1, 1, 1))
        propagation = cudnn.NanPropagation(int(keep))
        place = run(side, name, a, c, indexed=True, nan_propagation=propagation)
        if keep:
            assert np.isnan(c.read()).all()
            assert place.tolist() == [23]
        else:
            c.check(OPS[name](numbers[~np.isnan(numbers)], 0).reshape(1, 1, 1, 1))


def test_nothing_but_nan_and_no_factors(side):
    a, c = side.blank((2, 3, 4, 5)), side.blank((1, 3, 1, 1))
    run(side, "AMAX", a, c, nan_propagation=cudnn.NanPropagation.NOT_PROPAGATE_NAN)
    c.check(np.zeros((1, 3, 1, 1)))
    zeros = side.tensor(np.zeros((2, 3, 4, 5)))
    run(side, "MUL_NO_ZEROS", zeros, c)
    c.check(np.ones((1, 3, 1, 1)))


def test_squares_and_products_of_many(side, rng):
    a = side.tensor(rng.uniform(0.9, 1.1, (64, 3, 20, 20)))
    for name in ("ADD", "AVG", "NORM1", "NORM2"):
        c = side.blank((1, 3, 1, 1))
        run(side, name, a, c)
        c.check(OPS[name](a.values, (0, 2, 3)), 5)


def test_workspace_and_indices_must_be_large_enough(side):
    a, c = side.blank((2, 3, 4, 5)), side.blank((1, 3, 1, 1))
    flat = cudnn.ReduceTensorIndices.FLATTENED_INDICES
    reduce = cudnn.ReduceTensorDescriptor(Op.MAX, indices=flat, library=side.library)
    arguments = (side.handle, reduce, a.desc, c.desc)
    needed = cudnn.get_reduction_workspace_size(*arguments)
    assert cudnn.get_reduction_indices_size(*arguments) == 12
    indices = side.put(np.zeros(3, np.uint32))

    def call(indices, workspace):
        cudnn.reduce_tensor(side.handle, reduce, indices, workspace, a.desc, a.data, c.desc, c.data)

    for workspace, got in ((side.scratch(needed - 1), needed - 1), (None, None)):
        with pytest.raises(ValueError, match=f"workspace needs {needed} bytes, got {got}"):
            call(indices, workspace)
    workspace = side.scratch(needed)
    for short, got in ((side.put(np.zeros(2, np.uint32)), 8), (None, None)):
        with pytest.raises(ValueError, match=f"indices needs 12 bytes, got {got}"):
            call(short, workspace)
    with pytest.raises(TypeError, match="indices must hold 32-bit integers, got float32"):
        call(side.put(np.zeros(3, np.float32)), workspace)
    assert np.isnan(c.read()).all()


def test_shapes_and_types_that_do_not_fit(side):
    full = side.blank((2, 3, 4, 5))
    for c, text in (
        (full, "c must be smaller than a in some dimension"),
        (side.blank((2, 3, 2, 5)), r"c must have the shape of a, \(2, 3, 4, 5\), or 1"),
        (side.blank((1, 1, 1)), "c must have the shape of a"),
    ):
        with pytest.raises(ValueError, match=text):
            run(side, "ADD", full, c)
    with pytest.raises(ValueError, match="a must have at least 3 dimensions"):
        run(side, "ADD", side.blank((3, 4)), side.blank((1, 4)))
    row = side.blank((1, 3, 1, 1))
    with pytest.raises(errors.CudnnBadParam):
        run(side, "ADD", full, side.blank((1, 3, 1, 1), "float64"))
    for a_type, compute_type in (("bfloat16", "float32"), ("float32", "float64")):
        with pytest.raises(errors.CudnnNotSupported):
            run(
                side, "ADD", side.blank((2, 3, 4, 5), a_type), side.blank((1, 3, 1, 1), a_type),
                compute_type=compute_type,
            )  # fmt: skip
    with pytest.raises(TypeError, match="reduce must be a ReduceTensorDescriptor, got <R"):
        cudnn.reduce_tensor(
            side.handle, Op.ADD, None, None, full.desc, full.data, row.desc, row.data
        )


def test_descriptor(library):
    reduce = cudnn.ReduceTensorDescriptor(
        Op.AMAX, "float64", cudnn.NanPropagation.NOT_PROPAGATE_NAN,
        cudnn.ReduceTensorIndices.FLATTENED_INDICES, library=library,
    )  # fmt: skip
    assert (reduce.op, reduce.compute_type) == (Op.AMAX, cudnn.DataType.DOUBLE)
    assert reduce.nan_propagation == cudnn.NanPropagation.NOT_PROPAGATE_NAN
    assert reduce.indices == cudnn.ReduceTensorIndices.FLATTENED_INDICES
    assert reduce.indices_type == cudnn.IndicesType.CUDNN_32BIT_INDICES
    assert repr(reduce).startswith("ReduceTensorDescriptor(AMAX, DOUBLE, NOT_PROPAGATE_NAN, FLAT")
    assert reduce == cudnn.ReduceTensorDescriptor(4, "float64", 0, 1, library=library)
    assert reduce != cudnn.ReduceTensorDescriptor(4, "float64", 0, 0, library=library)
    for arguments, text in (
        ((9,), "op must be a"),
        ((0, "float32", 5), "nan_propagation must be a"),
        ((3, "float32", 0, 2), "indices must be a"),
        ((3, "float32", 0, 1, 7), "indices_type must be a"),
        ((3, "float32", 0, 1, 1), "indices_type must be CUDNN_32BIT_INDICES"),
        ((0, "float32", 0, 1), "indices go with MIN, MAX, AMAX only, got op ADD"),
    ):
        with pytest.raises(ValueError, match=text):
            cudnn.ReduceTensorDescriptor(*arguments, library=library)
    with pytest.raises(errors.CudnnBadParam):
        cudnn.ReduceTensorDescriptor(0, "bfloat16", library=library)
