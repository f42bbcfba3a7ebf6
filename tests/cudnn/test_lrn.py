"""Local response and divisive normalization against float64, and the LRN descriptor."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from norm_oracle import Window
from side import Side

from pycudnn import cudnn, errors, raw
from pycudnn.libraries import get_library

DTYPES = ["float32", "float64", "float16"]
SETTINGS = (1.5, 0.75, 2.0)  # alpha, beta, k
SHAPES = {
    "4d": ((3, 7, 4, 5), "packed"),
    "channels last": ((3, 7, 4, 5), "channels last"),
    "gaps": ((3, 7, 4, 5), "gaps"),
    "5d": ((2, 6, 3, 4, 2), "packed"),
}
# Not for the divisive one, which has 4 or 5 dimensions.
ROWS = {"3d": ((3, 7, 4), "packed"), "3d, gaps": ((3, 7, 4), "gaps")}


@pytest.fixture
def side(context) -> Side:
    return Side(context)


# ---- descriptor ----------------------------------------------------------------------------------


def test_descriptor_reads_back(library):
    lrn = cudnn.LRNDescriptor(7, 0.5, 0.25, 3.0, library=library)
    assert (lrn.n, lrn.alpha, lrn.beta, lrn.k) == (7, 0.5, 0.25, 3.0)
    assert repr(lrn) == "LRNDescriptor(n=7, alpha=0.5, beta=0.25, k=3)"
    assert lrn == cudnn.LRNDescriptor(7, 0.5, 0.25, 3.0, library=library)
    assert lrn != cudnn.LRNDescriptor(7, 0.5, 0.25, 3.5, library=library)
    default = cudnn.LRNDescriptor(library=library)
    assert (default.n, default.alpha, default.beta, default.k) == (5, 1e-4, 0.75, 2.0)
    lrn.close()
    assert repr(lrn) == "<closed LRNDescriptor>"
    with pytest.raises(ValueError, match="closed"):
        lrn.n  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n": 0}, ValueError, r"n must be in \[1, 16\], got 0"),
        ({"n": 17}, ValueError, r"n must be in \[1, 16\], got 17"),
        ({"n": 5.0}, TypeError, "n must be an int, got 5.0"),
        ({"beta": 0.009}, ValueError, "beta must be at least 0.01, got 0.009"),
        ({"k": 9e-6}, ValueError, "k must be at least 1e-05, got 9e-06"),
        ({"alpha": math.nan}, ValueError, "alpha must be a finite number, got nan"),
        ({"beta": math.nan}, ValueError, "beta must be a finite number"),
        ({"k": math.inf}, ValueError, "k must be a finite number, got inf"),
        ({"alpha": None}, TypeError, "alpha must be a real number, got None"),
    ],
)
def test_descriptor_refuses(library, arguments, error, text):
    with pytest.raises(error, match=text):
        cudnn.LRNDescriptor(**arguments, library=library)


@pytest.mark.parametrize(
    ("values", "is_accepted"),
    [
        ((1, 1, 1, 1), True), ((16, 1, 1, 1), True), ((17, 1, 1, 1), False),
        ((0, 1, 1, 1), False), ((2**31, 1, 1, 1), False), ((5, 0, 1, 1), True),
        ((5, -1, 1, 1), True), ((5, 1, 0.01, 1), True), ((5, 1, 0.009, 1), False),
        ((5, 1, 1, 1e-5), True), ((5, 1, 1, 9e-6), False), ((5, 1, 1, -1), False),
        ((5, math.nan, 1, 1), True), ((5, 1, math.nan, 1), True), ((5, 1, 1, math.nan), True),
        ((5, 1, math.inf, 1), True),
    ],
)  # fmt: skip
def test_statuses_of_set(library, values, is_accepted):
    """What the C function takes: NaN too, which the object face refuses."""
    functions = raw.bind(get_library("cudnn", library))
    lrn = raw.cudnnLRNDescriptor_t()
    assert functions.cudnnCreateLRNDescriptor(ctypes.byref(lrn)) == 0
    status = functions.cudnnSetLRNDescriptor(lrn, *values)
    assert status.name == ("SUCCESS" if is_accepted else "BAD_PARAM")
    n, alpha, beta, k = ctypes.c_uint(), ctypes.c_double(), ctypes.c_double(), ctypes.c_double()
    outs = [ctypes.byref(out) for out in (n, alpha, beta, k)]
    assert functions.cudnnGetLRNDescriptor(lrn, *outs) == 0
    got = (n.value, alpha.value, beta.value, k.value)
    np.testing.assert_equal(got, values if is_accepted else (5, 1e-4, 0.75, 2.0))
    assert functions.cudnnGetLRNDescriptor(lrn, None, None, None, None) == 0
    assert functions.cudnnDestroyLRNDescriptor(lrn) == 0


# ---- across channels -----------------------------------------------------------------------------


def lrn_forward(side, lrn, x, y, **options):
    cudnn.lrn_cross_channel_forward(side.handle, lrn, x.desc, x.data, y.desc, y.data, **options)


def lrn_backward(side, lrn, y, dy, x, dx, **options):
    cudnn.lrn_cross_channel_backward(
        side.handle, lrn, y.desc, y.data, dy.desc, dy.data, x.desc, x.data, dx.desc, dx.data,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 4, 5, 16])
@pytest.mark.parametrize("name", SHAPES | ROWS)
def test_b6_lrn(side, rng, name, n, dtype):
    """n = 16 is more than there are channels."""
    shape, layout = (SHAPES | ROWS)[name]
    x = side.tensor(rng.uniform(-2, 2, shape), dtype, layout)
    y, dx = side.blank(shape, dtype, layout), side.blank(shape, dtype, layout)
    dy = side.tensor(rng.uniform(-1, 1, shape), dtype, layout)
    lrn = cudnn.LRNDescriptor(n, *SETTINGS, library=side.library)
    window, zeros = Window(n, *SETTINGS, (1,)), np.zeros(shape)
    lrn_forward(side, lrn, x, y)
    y.check(window.normalize(x.values, zeros), 2)
    lrn_backward(side, lrn, y, dy, x, dx)
    dx.check(window.gradients(x.values, zeros, dy.values)[0], 2)


def test_b6_by_hand(side):
    """x = 1, 2, 3 over 3 channels, n = 3: the sums of squares are 5, 14 and 13."""
    x = side.tensor(np.array([1.0, 2.0, 3.0]).reshape(1, 3, 1, 1))
    y = side.blank(x.shape)
    lrn_forward(side, cudnn.LRNDescriptor(3, 3.0, 1.0, 1.0, library=side.library), x, y)
    y.check(np.array([1 / 6, 2 / 15, 3 / 14]).reshape(1, 3, 1, 1))


def test_lrn_blends_and_works_in_place(side, rng):
    shape = (2, 7, 3, 4)
    x, y = side.tensor(rng.uniform(-2, 2, shape)), side.tensor(rng.uniform(-1, 1, shape))
    dy, dx = side.tensor(rng.uniform(-1, 1, shape)), side.tensor(rng.uniform(-1, 1, shape))
    lrn = cudnn.LRNDescriptor(5, *SETTINGS, library=side.library)
    window, zeros = Window(5, *SETTINGS, (1,)), np.zeros(shape)
    expected = window.normalize(x.values, zeros)
    gradient = window.gradients(x.values, zeros, dy.values)[0]
    lrn_forward(side, lrn, x, y, alpha=0.5, beta=2.0)
    y.check(0.5 * expected + 2 * y.values)
    lrn_backward(side, lrn, y, dy, x, dx, alpha=-1.0, beta=0.5)
    dx.check(-gradient + 0.5 * dx.values, 2)
    lrn_backward(side, lrn, y, dy, x, dy)
    dy.check(gradient, 2)
    lrn_forward(side, lrn, x, x)
    x.check(expected)


def test_lrn_between_layouts(side, rng):
    shape = (2, 7, 3, 4)
    x = side.tensor(rng.uniform(-2, 2, shape), layout="channels last")
    y = side.blank(shape, layout="gaps")
    lrn_forward(side, cudnn.LRNDescriptor(5, *SETTINGS, library=side.library), x, y)
    y.check(Window(5, *SETTINGS, (1,)).normalize(x.values, np.zeros(shape)))


def test_the_order_of_three_dimensions(side, rng):
    """cuDNN computes none but (N, C, W) with W packed; y may lie in any way, and so may 4-d x."""
    lrn, shape = cudnn.LRNDescriptor(5, *SETTINGS, library=side.library), (3, 6, 4)
    last = side.tensor(rng.uniform(-2, 2, shape), layout="channels last")
    with pytest.raises(ValueError, match=r"x_desc must .* \(N, C, W\) .* \(24, 1, 6\)"):
        lrn_forward(side, lrn, last, last)
    with pytest.raises(ValueError, match=r"x_desc must .* or be \(N, C, W, 1\)"):
        lrn_backward(side, lrn, last, last, last, side.blank(shape))
    for strides in ((48, 8, 2), (4, 12, 1), (1, 3, 18)):
        desc = cudnn.TensorDescriptor(shape, strides=strides, library=side.library)
        with pytest.raises(ValueError, match="x_desc must lie in the order"):
            cudnn.lrn_cross_channel_forward(
                side.handle, lrn, desc, last.data, last.desc, last.data
            )
    x, y = side.tensor(rng.uniform(-2, 2, shape)), side.blank(shape, layout="channels last")
    lrn_forward(side, lrn, x, y)
    y.check(Window(5, *SETTINGS, (1,)).normalize(x.values, np.zeros(shape)))
    for shape in ((3, 6, 1), (3, 1, 4), (3, 6, 4, 1)):
        x, y = side.tensor(rng.uniform(-2, 2, shape), layout="channels last"), side.blank(shape)
        lrn_forward(side, lrn, x, y)
        y.check(Window(5, *SETTINGS, (1,)).normalize(x.values, np.zeros(shape)))


def test_the_lrn_gradient_is_the_derivative_of_forward(side, rng):
    shape = (2, 5, 2, 2)
    x, dy = (side.tensor(rng.uniform(-2, 2, shape), "float64") for _ in range(2))
    y, dx = side.blank(shape, "float64"), side.blank(shape, "float64")
    lrn = cudnn.LRNDescriptor(4, *SETTINGS, library=side.library)
    lrn_forward(side, lrn, x, y)
    lrn_backward(side, lrn, y, dy, x, dx)
    direction, step, losses = rng.standard_normal(shape), 1e-5, []
    for sign in (1, -1):
        moved = side.tensor(x.values + sign * step * direction, "float64")
        lrn_forward(side, lrn, moved, y)
        losses.append((y.read() * dy.values).sum())
    difference = (losses[0] - losses[1]) / (2 * step)
    assert difference == pytest.approx((dx.read() * direction).sum(), rel=1e-6, abs=1e-8)


def test_what_lrn_does_not_support(side):
    lrn = cudnn.LRNDescriptor(library=side.library)
    half, out = side.blank((2, 7, 3, 4), "bfloat16"), side.blank((2, 7, 3, 4), "bfloat16")
    with pytest.raises(errors.CudnnNotSupported):
        lrn_forward(side, lrn, half, half)
    with pytest.raises(errors.CudnnNotSupported):
        lrn_backward(side, lrn, half, half, half, out)
    flat = side.blank((2, 7))
    with pytest.raises(errors.CudnnError):
        lrn_forward(side, lrn, flat, flat)
    volume, out = (side.blank((2, 7, 2, 3, 2), layout="channels last") for _ in range(2))
    with pytest.raises(errors.CudnnError):
        lrn_forward(side, lrn, volume, volume)
    with pytest.raises(errors.CudnnNotSupported):
        lrn_backward(side, lrn, volume, volume, volume, out)


def test_lrn_refuses(side):
    lrn = cudnn.LRNDescriptor(library=side.library)
    x, y = side.blank((2, 7, 3, 4)), side.blank((2, 7, 4, 3))
    z = side.blank((2, 7, 3, 4), "float64")
    with pytest.raises(ValueError, match=r"y_desc must have the shape of x, \(2, 7, 3, 4\)"):
        lrn_forward(side, lrn, x, y)
    with pytest.raises(TypeError, match="y_desc must have the data type of x"):
        lrn_forward(side, lrn, x, z)
    with pytest.raises(ValueError, match="dx_desc must have the shape of x"):
        lrn_backward(side, lrn, x, x, x, y)
    with pytest.raises(ValueError, match="mode must be a LRNMode.*got 1"):
        lrn_forward(side, lrn, x, x, mode=1)
    with pytest.raises(TypeError, match="lrn must be a LRNDescriptor, got None"):
        lrn_forward(side, None, x, x)
    for handle in (None, lrn):
        with pytest.raises(TypeError, match="handle must be a Handle"):
            cudnn.lrn_cross_channel_forward(handle, lrn, x.desc, x.data, x.desc, x.data)
        with pytest.raises(TypeError, match="handle must be a Handle"):
            cudnn.divisive_normalization_forward(
                handle, lrn, x.desc, x.data, None, x.data, x.data, x.desc, x.data
            )
    with pytest.raises(ValueError, match="y needs 672 bytes, got 4"):
        cudnn.lrn_cross_channel_forward(
            side.handle, lrn, x.desc, x.data, x.desc, side.put(np.ones(1, np.float32))
        )


# ---- over neighbours -----------------------------------------------------------------------------


class Divisive:
    """Operands of a divisive normalization."""

    def __init__(self, side, rng, n=3, dtype="float32", shape=(2, 3, 6, 5), layout="packed",
                 has_means=True):  # fmt: skip
        self.side, self.shape, self.dtype, self.layout = side, shape, dtype, layout
        self.lrn = cudnn.LRNDescriptor(n, *SETTINGS, library=side.library)
        self.window = Window(n, *SETTINGS, tuple(range(2, len(shape))))
        self.x = self.tensor(rng.uniform(-2, 2, shape))
        self.dy = self.tensor(rng.uniform(-1, 1, shape))
        self.means = self.tensor(rng.uniform(-1, 1, shape)) if has_means else None
        self.centre = self.means.values if self.means else np.zeros(shape)
        self.temps = self.blank(), self.blank()

    def tensor(self, values):
        return self.side.tensor(values, self.dtype, self.layout)

    def blank(self):
        return self.side.blank(self.shape, self.dtype, self.layout)

    def forward(self, y, **options):
        cudnn.divisive_normalization_forward(
            self.side.handle, self.lrn, self.x.desc, self.x.data, self.means and self.means.data,
            *[temp.data for temp in self.temps], y.desc, y.data, **options,
        )  # fmt: skip

    def backward(self, dx, dmeans, **options):
        cudnn.divisive_normalization_backward(
            self.side.handle, self.lrn, self.x.desc, self.x.data, self.means and self.means.data,
            self.dy.data, *[temp.data for temp in self.temps], dx.desc, dx.data,
            dmeans and dmeans.data, **options,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 4, 7])
@pytest.mark.parametrize("has_means", [True, False])
@pytest.mark.parametrize("name", SHAPES)
def test_divisive(side, rng, name, has_means, n, dtype):
    shape, layout = SHAPES[name]
    p = Divisive(side, rng, n, dtype, shape, layout, has_means)
    y = p.blank()
    p.forward(y)
    y.check(p.window.normalize(p.x.values, p.centre), 4)
    if n % 2:
        dx, dmeans = p.blank(), p.blank()
        p.backward(dx, dmeans)
        expected = p.window.gradients(p.x.values, p.centre, p.dy.values)
        dx.check(expected[0], 4)
        dmeans.check(expected[1], 4)


def test_divisive_by_hand(side, rng):
    """Around the means 1: the deviations of 1, 3 and 5 from them are 0, 2 and 4."""
    p = Divisive(side, rng, shape=(1, 1, 1, 3))
    p.lrn = cudnn.LRNDescriptor(3, 9.0, 1.0, 1.0, library=side.library)
    p.x, p.means = (p.tensor(np.array(v).reshape(p.shape)) for v in ([1.0, 3, 5], [1.0, 1, 1]))
    y = p.blank()
    p.forward(y)
    y.check(np.array([1 / 5, 3 / 21, 5 / 21]).reshape(p.shape))


def test_divisive_blends_and_works_in_place(side, rng):
    p = Divisive(side, rng)
    y, dx, dmeans = (p.tensor(rng.uniform(-1, 1, p.shape)) for _ in range(3))
    expected = p.window.normalize(p.x.values, p.centre)
    gradients = p.window.gradients(p.x.values, p.centre, p.dy.values)
    p.forward(y, alpha=0.5, beta=2.0)
    y.check(0.5 * expected + 2 * y.values, 4)
    p.backward(dx, dmeans, alpha=-1.0, beta=3.0)
    dx.check(-gradients[0] + 3 * dx.values, 4)
    dmeans.check(-gradients[1] + 3 * dmeans.values, 4)
    dx = p.blank()
    p.backward(dx, None)
    dx.check(gradients[0], 4)
    p.forward(p.x)
    p.x.check(expected, 4)


def test_divisive_gradients_are_derivatives_of_forward(side, rng):
    p = Divisive(side, rng, dtype="float64", shape=(2, 2, 4, 3))
    dx, dmeans, y = p.blank(), p.blank(), p.blank()
    p.backward(dx, dmeans)
    step = 1e-5
    for name, gradient in (("x", dx), ("means", dmeans)):
        kept, direction, losses = getattr(p, name), rng.standard_normal(p.shape), []
        for sign in (1, -1):
            setattr(p, name, p.tensor(kept.values + sign * step * direction))
            p.forward(y)
            losses.append((y.read() * p.dy.values).sum())
        setattr(p, name, kept)
        difference = (losses[0] - losses[1]) / (2 * step)
        assert difference == pytest.approx((gradient.read() * direction).sum(), rel=1e-6, abs=1e-8)


def test_divisive_refuses(side, rng):
    p = Divisive(side, rng)
    y = p.blank()
    p.temps = (p.temps[0], p.temps[0])
    with pytest.raises(ValueError, match="temp2 is written to and must not overlap temp"):
        p.forward(y)
    p = Divisive(side, rng, n=4)
    with pytest.raises(ValueError, match="n must be odd here, got 4"):
        p.backward(y, None)
    p = Divisive(side, rng)
    with pytest.raises(ValueError, match="dx is written to and must not overlap dy"):
        p.backward(p.dy, None)
    with pytest.raises(ValueError, match="dmeans is written to and must not overlap dx"):
        p.backward(y, y)
    with pytest.raises(ValueError, match="mode must be a DivNormMode"):
        p.forward(y, mode=1)
    with pytest.raises(ValueError, match="y_desc must have the shape of x"):
        p.forward(side.blank((2, 3, 5, 6)))
    assert np.isnan(y.read()).all()


def test_what_divisive_does_not_support(side, rng):
    p = Divisive(side, rng)
    with pytest.raises(errors.CudnnNotSupported):
        p.forward(side.blank(p.shape, layout="channels last"))
    p = Divisive(side, rng, dtype="bfloat16")
    with pytest.raises(errors.CudnnNotSupported):
        p.forward(p.blank())
    for shape in ((2, 3, 4), (2, 3, 2, 2, 2, 2)):
        p = Divisive(side, rng, shape=shape)
        with pytest.raises(errors.CudnnError):
            p.forward(p.blank())
