"""Elementwise functions of two tensors against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn, errors

OPS = {
    "ADD": lambda a, b: a + b,
    "MUL": lambda a, b: a * b,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "SQRT": lambda a, b: np.sqrt(a),
    "NOT": lambda a, b: 1 - a,
}
# What cuDNN combines: type of a and b, type of c, compute type.
TYPES = [
    ("float32", "float32", "float32"),
    ("float32", "float16", "float32"),
    ("float32", "bfloat16", "float32"),
    ("float32", "int8", "float32"),
    ("float16", "float16", "float32"),
    ("float16", "float32", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("bfloat16", "float32", "float32"),
    ("int8", "int8", "float32"),
    ("int8", "float32", "float32"),
    ("float64", "float64", "float64"),
]


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def descriptor(side, name, **options):
    return cudnn.OpTensorDescriptor(cudnn.OpTensorOp[name], **options, library=side.library)


def values(rng, shape, dtype):
    return rng.integers(1, 9, shape) if dtype == "int8" else rng.uniform(0.1, 2.0, shape)


@pytest.mark.parametrize("types", TYPES, ids=lambda types: "-".join(types[:2]))
@pytest.mark.parametrize("name", OPS)
def test_all_ops_and_types(side, rng, name, types):
    ab_type, c_type, compute_type = types
    shape = (2, 3, 4, 5)
    a, b = (side.tensor(values(rng, shape, ab_type), ab_type) for _ in range(2))
    c = side.blank(shape, c_type)
    op = descriptor(side, name, compute_type=compute_type)
    cudnn.op_tensor(side.handle, op, a.desc, a.data, b.desc, b.data, c.desc, c.data, alpha1=0.5,
                    alpha2=2.0)  # fmt: skip
    c.check(OPS[name](0.5 * a.values, 2.0 * b.values), 2)


@pytest.mark.parametrize("layout", ["packed", "channels last", "gaps"])
@pytest.mark.parametrize("b_shape", [(2, 3, 4, 5), (1, 3, 1, 1), (2, 1, 4, 1), (1, 1, 1, 1)])
def test_broadcasting_layouts_and_scales(side, rng, b_shape, layout):
    shape = (2, 3, 4, 5)
    for name in ("ADD", "MAX"):
        a, b = side.tensor(rng.standard_normal(shape)), side.tensor(rng.standard_normal(b_shape))
        c = side.tensor(rng.standard_normal(shape), layout=layout)
        cudnn.op_tensor(
            side.handle, descriptor(side, name), a.desc, a.data, b.desc, b.data, c.desc, c.data,
            alpha1=-1.5, alpha2=0.5, beta=2.0,
        )  # fmt: skip
        c.check(OPS[name](-1.5 * a.values, 0.5 * b.values) + 2.0 * c.values)


def test_five_dimensions(side, rng):
    shape = (2, 3, 2, 3, 2)
    a, b = (
        side.tensor(rng.standard_normal(shape)),
        side.tensor(rng.standard_normal((1, 3, 1, 1, 1))),
    )
    c = side.blank(shape)
    op = descriptor(side, "MUL")
    cudnn.op_tensor(side.handle, op, a.desc, a.data, b.desc, b.data, c.desc, c.data)
    c.check(a.values * b.values)


def test_one_operand_needs_no_b(side, rng):
    a, c = side.tensor(rng.uniform(0, 4, (1, 2, 3, 4))), side.blank((1, 2, 3, 4))
    op = descriptor(side, "SQRT")
    cudnn.op_tensor(side.handle, op, a.desc, a.data, None, None, c.desc, c.data)
    c.check(np.sqrt(a.values))
    with pytest.raises(TypeError, match="b_desc must be a TensorDescriptor, got None"):
        cudnn.op_tensor(
            side.handle, descriptor(side, "ADD"), a.desc, a.data, None, None, c.desc, c.data
        )


def test_in_place_on_a_but_not_on_b(side, rng):
    a, b = (side.tensor(rng.standard_normal((2, 2, 3, 3))) for _ in range(2))
    op = descriptor(side, "ADD")
    cudnn.op_tensor(side.handle, op, a.desc, a.data, b.desc, b.data, a.desc, a.data, beta=1.0)
    a.check(2 * a.values + b.values)
    with pytest.raises(ValueError, match="c must not be the memory of b"):
        cudnn.op_tensor(side.handle, op, a.desc, a.data, b.desc, b.data, b.desc, b.data)
    turned = side.tensor(a.values, layout="channels last")
    with pytest.raises(ValueError, match="a and c are one memory in two layouts"):
        cudnn.op_tensor(side.handle, op, turned.desc, a.data, b.desc, b.data, a.desc, a.data)
    b.check(b.values)


@pytest.mark.parametrize("keep", [True, False])
def test_nan(side, keep):
    a = side.tensor(np.array([np.nan, 1, np.nan, 2]).reshape(1, 1, 2, 2))
    b = side.tensor(np.array([1, np.nan, np.nan, 3]).reshape(1, 1, 2, 2))
    for name, other in (("MIN", 2.0), ("MAX", 3.0)):
        c = side.blank((1, 1, 2, 2))
        op = descriptor(side, name, nan_propagation=cudnn.NanPropagation(int(keep)))
        cudnn.op_tensor(side.handle, op, a.desc, a.data, b.desc, b.data, c.desc, c.data)
        one = np.nan if keep else 1.0
        np.testing.assert_array_equal(c.read().ravel(), [one, one, np.nan, other])


def test_shapes_and_types_that_do_not_fit(side):
    full, row = side.blank((2, 3, 4, 5)), side.blank((1, 3, 1, 1))
    op = descriptor(side, "ADD")

    def run(a, b, c, op=op):
        cudnn.op_tensor(side.handle, op, a.desc, a.data, b.desc, b.data, c.desc, c.data)

    with pytest.raises(ValueError, match=r"a must have the shape of c, \(2, 3, 4, 5\), got"):
        run(row, full, full)
    with pytest.raises(ValueError, match=r"b must have the shape of c.* got \(2, 3, 4, 2\)"):
        run(full, side.blank((2, 3, 4, 2)), full)
    with pytest.raises(ValueError, match=r"b must have the shape of c.* got \(3, 4, 5\)"):
        run(full, side.blank((3, 4, 5)), full)
    with pytest.raises(errors.CudnnBadParam):
        run(full, side.blank((2, 3, 4, 5), "float16"), full)
    with pytest.raises(errors.CudnnNotSupported):
        run(*(side.blank((2, 3, 4, 5), dtype) for dtype in ("float64", "float64", "float64")))
    cube = side.blank((1, 2, 1, 2, 1, 2))
    with pytest.raises(errors.CudnnNotSupported):
        run(cube, cube, side.blank((1, 2, 1, 2, 1, 2)))
    with pytest.raises(TypeError, match="op must be an? OpTensorDescriptor"):
        run(full, full, full, op=cudnn.OpTensorOp.ADD)
    with pytest.raises(TypeError, match="alpha2 must be a real number, got 'x'"):
        cudnn.op_tensor(side.handle, op, full.desc, full.data, row.desc, row.data, full.desc,
                        full.data, alpha2="x")  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "int32", "uint8"])
def test_conversions_to_float64_are_refused(side, dtype):
    """cuDNN 9 returns success and writes wrong numbers."""
    a, c = side.blank((1, 2, 3, 4), dtype), side.blank((1, 2, 3, 4), "float64")
    op = descriptor(side, "ADD", compute_type="float64")
    with pytest.raises(errors.NotSupported, match="to float64|NOT_SUPPORTED"):
        cudnn.op_tensor(side.handle, op, a.desc, a.data, a.desc, a.data, c.desc, c.data)


def test_descriptor(library):
    op = cudnn.OpTensorDescriptor(
        cudnn.OpTensorOp.MAX, "float64", cudnn.NanPropagation.NOT_PROPAGATE_NAN, library=library
    )
    assert (op.op, op.compute_type) == (cudnn.OpTensorOp.MAX, cudnn.DataType.DOUBLE)
    assert op.nan_propagation == cudnn.NanPropagation.NOT_PROPAGATE_NAN
    assert repr(op) == "OpTensorDescriptor(MAX, DOUBLE, NOT_PROPAGATE_NAN)"
    same = cudnn.OpTensorDescriptor(3, "float64", nan_propagation=0, library=library)
    assert op == same
    assert op != cudnn.OpTensorDescriptor(2, "float64", nan_propagation=0, library=library)
    with op:
        pass
    assert repr(op) == "<closed OpTensorDescriptor>"
    with pytest.raises(ValueError, match="closed"):
        _ = op.op
    with pytest.raises(ValueError, match="op must be an? OpTensorOp: ADD .* got 6"):
        cudnn.OpTensorDescriptor(6, library=library)
    with pytest.raises(ValueError, match="nan_propagation must be a NanPropagation"):
        cudnn.OpTensorDescriptor(0, nan_propagation=2, library=library)
    with pytest.raises(TypeError, match="compute_type must be"):
        cudnn.OpTensorDescriptor(0, "complex64", library=library)
    with pytest.raises(errors.CudnnBadParam, match="INT32"):
        cudnn.OpTensorDescriptor(0, "int32", library=library)
