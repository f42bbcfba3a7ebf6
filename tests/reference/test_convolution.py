"""Convolution forward and its gradients against float64, for every algorithm offered."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from c_library import (
    FLOATING,
    LAYOUTS,
    SCALES,
    CLibrary,
    Memory,
    assert_close,
    before,
    blended,
    rounded,
)
from convolution_problem import (
    ALGORITHMS,
    CASES,
    OFFERED,
    PLAIN,
    RECORDS,
    ROLES,
    Problem,
    Sizes,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pycudnn.abi.cudnn_enums import ConvolutionFwdAlgo, ConvolutionMode, DataType, Status
from pycudnn.reference import convolution as numpy_convolution

HALVES = (DataType.HALF, DataType.BFLOAT16)


def assert_near(problem: Problem, direction: str, got, want) -> None:
    """Within the rounding of the sums; a GPU may use tensor cores or transforms for them."""
    terms = problem.sizes.terms(direction)
    ulps = 1.0 if problem.data_type in HALVES else 4.0 * terms**0.5
    if problem.library.backend == "cuda":
        ulps *= 8
    assert_close(got, want, problem.data_type, ulps)


@pytest.mark.parametrize("data_type", FLOATING)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("direction", "algo"), ALGORITHMS)
def test_all_directions(lib: CLibrary, handle, rng, direction, algo, case, data_type) -> None:
    problem = Problem(lib, CASES[case], rng, data_type)
    want = problem.exact(direction)
    for alpha, beta in SCALES:
        old = rounded(before(rng, want.shape, beta), data_type)
        got = problem.run(handle, direction, algo, old, alpha, beta)
        if got is not None:
            assert_near(problem, direction, got, blended(want, alpha, beta, old))


@pytest.mark.parametrize("y_layout", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("direction", "algo"), ALGORITHMS)
def test_any_strides(lib: CLibrary, handle, rng, direction, algo, layout, y_layout) -> None:
    problem = Problem(lib, CASES["grouped"], rng, layout=layout, y_layout=y_layout)
    for alpha, beta in SCALES[1:3]:
        old = before(rng, problem.sizes.shape(ROLES[direction][-1]), beta)
        got = problem.run(handle, direction, algo, old, alpha, beta)
        if got is not None:
            want = blended(problem.exact(direction), alpha, beta, old)
            assert_near(problem, direction, got, want)


@st.composite
def any_sizes(draw) -> Sizes:
    """Case C11: 2 or 3 dimensions, windows, dilations and strides 1 to 3, groups 1, 2, 4."""
    ndim, groups = draw(st.integers(2, 3)), draw(st.sampled_from([1, 2, 4]))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(ndim))

    window, dilation, padding = each(1, 3), each(1, 3), each(0, 3)
    extra = each(0, 4)
    image = tuple(
        max(1, (r - 1) * d + 1 - 2 * pad + more)
        for r, d, pad, more in zip(window, dilation, padding, extra, strict=True)
    )
    n, c, k = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    mode = draw(st.sampled_from([ConvolutionMode.CROSS_CORRELATION, ConvolutionMode.CONVOLUTION]))
    return Sizes(
        (n, c * groups, *image),
        (k * groups, c, *window),
        padding,
        each(1, 3),
        dilation,
        groups,
        mode,
    )


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(any_sizes(), st.sampled_from(ALGORITHMS), st.sampled_from(LAYOUTS), st.integers(0, 2**32))
def test_c11_any_sizes(lib: CLibrary, handle, sizes, algorithm, layout, seed) -> None:
    direction, algo = algorithm
    problem = Problem(lib, sizes, np.random.default_rng(seed), layout=layout)
    want = problem.exact(direction)
    got = problem.run(handle, direction, algo, np.full(want.shape, np.nan))
    if got is not None:
        assert_near(problem, direction, got, want)


@pytest.mark.parametrize("tile_bytes", [1, 3000, 10**9])
@pytest.mark.parametrize(("direction", "algo"), ALGORITHMS)
def test_tiles_of_any_size(rng, monkeypatch, direction, algo, tile_bytes) -> None:
    """Batches that tiles of one image, of a few images with a rest, or one tile cover."""
    monkeypatch.setattr(numpy_convolution, "_TILE_BYTES", tile_bytes)
    monkeypatch.setattr(numpy_convolution, "_WORTH_A_THREAD", 1)
    lib = CLibrary("reference")
    problem = Problem(lib, replace(CASES["strided"], x=(7, 4, 8, 9)), rng)
    want = problem.exact(direction)
    got = problem.run(lib.create(""), direction, algo, np.full(want.shape, np.nan))
    assert_near(problem, direction, got, want)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("direction", ["BackwardData", "BackwardFilter"])
def test_gradients_by_finite_differences(lib: CLibrary, handle, rng, direction, case) -> None:
    """The slope of sum(y * dy) along a random direction, from forward calls alone."""
    problem = Problem(lib, CASES[case], rng, DataType.DOUBLE)
    role = ROLES[direction][-1]
    algo = OFFERED[direction][0]
    gradient = problem.run(handle, direction, algo, np.zeros(problem.sizes.shape(role)))
    if gradient is None:
        pytest.skip("not supported by this cuDNN")
    along = rng.standard_normal(gradient.shape)
    centre, sums = problem.values[role], []
    for step in (-0.5, 0.5):  # a convolution is linear in x and in w, so any step will do
        problem.values[role] = centre + step * along
        y = problem.run(handle, "Forward", 0, np.zeros(problem.sizes.y))
        sums.append(np.sum(y * problem.values["y"]))
    assert sums[1] - sums[0] == pytest.approx(np.sum(gradient * along), rel=1e-9, abs=1e-9)


LINE = Sizes((1, 1, 1, 6), (1, 1, 1, 3), (0, 0), (1, 1), (1, 1))


@pytest.mark.parametrize("algo", OFFERED["Forward"])
@pytest.mark.parametrize(
    ("mode", "want"),
    [
        (ConvolutionMode.CROSS_CORRELATION, [14, 20, 26, 32]),
        (ConvolutionMode.CONVOLUTION, [10, 16, 22, 28]),
    ],
)
def test_d4_d5_one_dimension_and_both_modes(lib: CLibrary, handle, rng, mode, want, algo) -> None:
    problem = Problem(lib, replace(LINE, mode=mode), rng)
    problem.values["x"] = np.arange(1.0, 7).reshape(1, 1, 1, 6)
    problem.values["w"] = np.array([1.0, 2, 3]).reshape(1, 1, 1, 3)
    got = problem.run(handle, "Forward", algo, np.zeros((1, 1, 1, 4)))
    if got is not None:
        np.testing.assert_allclose(got.ravel(), want, rtol=1e-6)


def test_halves_are_summed_in_float32(lib: CLibrary, handle, rng) -> None:
    """In half precision a running sum of ones would stop at 2048, in bfloat16 at 256."""
    for data_type, channels in ((DataType.HALF, 4096), (DataType.BFLOAT16, 512)):
        problem = Problem(
            lib,
            Sizes((1, channels, 2, 2), (8, channels, 1, 1), (0, 0), (1, 1), (1, 1)),
            rng,
            data_type,
        )
        for role in "xwy":
            problem.values[role] = np.ones_like(problem.values[role])
        got = problem.run(handle, "Forward", ConvolutionFwdAlgo.IMPLICIT_GEMM, problem.values["y"])
        if got is not None:
            np.testing.assert_array_equal(got, np.full((1, 8, 2, 2), channels))


def test_long_sums_keep_their_precision(rng) -> None:
    """500 products an output, 4,096 a filter element: LeNet's second layer at batch 64."""
    lib = CLibrary("reference")
    sizes = Sizes((64, 20, 12, 12), (50, 20, 5, 5), (0, 0), (1, 1), (1, 1))
    problem, handle = Problem(lib, sizes, rng), lib.create("")
    for direction, algo in ALGORITHMS:
        want = problem.exact(direction)
        got = problem.run(handle, direction, algo, np.full(want.shape, np.nan))
        error = np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2))
        assert error < 1e-6, f"{direction} {algo}"


def test_a_nan_stays_where_its_windows_are(lib: CLibrary, handle, rng) -> None:
    problem = Problem(lib, PLAIN, rng)
    problem.values["x"][1, 2, 4, 5] = np.nan
    want = problem.exact("Forward")
    assert 0 < np.isnan(want).sum() < want.size
    for algo in OFFERED["Forward"]:
        got = problem.run(handle, "Forward", algo, np.zeros(want.shape))
        if got is not None:
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


def test_the_same_bits_every_time(rng) -> None:
    lib = CLibrary("reference")
    problem, handle = Problem(lib, CASES["dilated"], rng), lib.create("")
    for direction, algo in ALGORITHMS:
        old = np.zeros(problem.sizes.shape(ROLES[direction][-1]))
        first, *others = (problem.run(handle, direction, algo, old) for _ in range(5))
        for other in others:
            np.testing.assert_array_equal(first, other)


# --- workspaces ----------------------------------------------------------------------------------


def test_workspace_sizes(rng) -> None:
    """What the reference keeps: the columns of all images, a table of 64-bit indices, nothing."""
    lib = CLibrary("reference")
    handle = lib.create("")
    window, output = 3 * 2, 6 * 8
    for data_type, item in ((DataType.FLOAT, 4), (DataType.DOUBLE, 8), (DataType.HALF, 4)):
        problem = Problem(lib, PLAIN, rng, data_type)
        wanted = {
            ("Forward", "IMPLICIT_GEMM"): 0,
            ("Forward", "GEMM"): 3 * 4 * window * output * item,
            ("Forward", "IMPLICIT_PRECOMP_GEMM"): window * output * 8,
            ("BackwardData", "ALGO_0"): 0,
            ("BackwardData", "ALGO_1"): 0,
            ("BackwardFilter", "ALGO_0"): 0,
            ("BackwardFilter", "ALGO_1"): 0,
            ("BackwardFilter", "ALGO_3"): window * output * 8,
        }
        got = {
            (direction, algo.name): problem.workspace_size(handle, direction, algo)
            for direction, algo in ALGORITHMS
        }
        assert got == wanted


@pytest.mark.parametrize(("direction", "algo"), ALGORITHMS)
def test_c3_too_small_a_workspace(rng, direction, algo) -> None:
    lib = CLibrary("reference")
    problem, handle = Problem(lib, PLAIN, rng), lib.create("")
    needed = problem.workspace_size(handle, direction, algo)
    space = Memory(lib, np.zeros(needed + 1, np.uint8))
    first, second = problem.operands(direction)
    untouched = np.full(problem.sizes.shape(ROLES[direction][-1]), np.nan)
    out = problem.put(ROLES[direction][-1], untouched)

    def status(address: int | None, size: int) -> int:
        return getattr(lib, f"cudnnConvolution{direction}")(
            *(handle, lib.scalar(1), *first.arguments, *second.arguments, problem.conv, algo),
            *(address, size, lib.scalar(0), *out.arguments),
        )

    if needed:
        assert status(space.address, needed - 1) == Status.BAD_PARAM
        assert f"has {needed - 1} bytes, the algorithm needs {needed}" in lib.last_error()
        assert status(None, needed) == Status.BAD_PARAM
        assert np.isnan(out.read()).all()
    else:
        assert status(None, 0) == Status.SUCCESS
    assert status(space.address, needed) == Status.SUCCESS
    assert_near(problem, direction, out.read(), problem.exact(direction))
    assert status(space.address + 1, needed) == Status.SUCCESS, "alignment is not asked for"


# --- refusals ------------------------------------------------------------------------------------

BAD, UNSUPPORTED = Status.BAD_PARAM, Status.NOT_SUPPORTED
MISFITS = {
    "spatial size of y": (BAD, {"y": (3, 6, 6, 7)}),
    "batch of y": (BAD, {"y": (4, 6, 6, 8)}),
    "channels of y": (BAD, {"y": (3, 5, 6, 8)}),
    "channels of w": (BAD, {"w": (6, 3, 3, 2)}),
    "too large a window": (BAD, {"w": (6, 4, 9, 2)}),
    "filters in groups": (BAD, {"sizes": replace(PLAIN, x=(3, 8, 8, 9), groups=2, w=(5, 4, 3, 2))}),
    "three dimensions": (
        UNSUPPORTED,
        {"sizes": Sizes((3, 4, 8), (6, 4, 3), (0,), (1,), (1,))},
    ),
    "dimensions of x": (BAD, {"x": (3, 4, 8, 9, 1)}),
}


def misfit(lib: CLibrary, name: str, rng) -> tuple[Problem, dict]:
    shapes = dict(MISFITS[name][1])
    problem = Problem(lib, shapes.pop("sizes", PLAIN), rng)
    operands = {role: problem.put(role) for role in "xwy"}
    for role, shape in shapes.items():
        problem.values[role] = np.zeros(shape)
        operands[role] = problem.put(role)
    return problem, operands


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("direction", OFFERED)
def test_descriptors_that_do_not_fit(lib: CLibrary, handle, rng, direction, name) -> None:
    """One status for running, for the workspace size and for the heuristic."""
    problem, operands = misfit(lib, name, rng)
    first, second, out = (operands[role] for role in ROLES[direction])
    size, count = ctypes.c_size_t(), ctypes.c_int()
    records = (RECORDS[direction] * 10)()
    descriptors = first.descriptor, second.descriptor, problem.conv, out.descriptor
    statuses = [
        getattr(lib, f"cudnnConvolution{direction}")(
            *(handle, lib.scalar(1), *first.arguments, *second.arguments, problem.conv, 0, None, 0),
            *(lib.scalar(0), *out.arguments),
        ),
        getattr(lib, f"cudnnGetConvolution{direction}WorkspaceSize")(
            handle, *descriptors, 0, ctypes.byref(size)
        ),
        getattr(lib, f"cudnnGetConvolution{direction}Algorithm_v7")(
            handle, *descriptors, 10, ctypes.byref(count), records
        ),
    ]
    assert statuses[:2] == [MISFITS[name][0]] * 2
    # On a GPU the heuristic ranks algorithms for three dimensions, which then do not run.
    if not (lib.backend == "cuda" and name == "three dimensions"):
        assert statuses[2] in (MISFITS[name][0], Status.BAD_PARAM)
    assert lib.backend == "cuda" or lib.last_error()


@pytest.mark.parametrize(
    ("types", "compute_type"),
    [
        ({"w": DataType.HALF}, DataType.FLOAT),
        ({"y": DataType.HALF}, DataType.FLOAT),
        ({"x": DataType.HALF, "w": DataType.HALF}, DataType.FLOAT),
        ({}, DataType.DOUBLE),
        ({}, DataType.HALF),
        ({}, DataType.INT32),
        (dict.fromkeys("xwy", DataType.DOUBLE), DataType.FLOAT),
        (dict.fromkeys("xwy", DataType.INT8), DataType.INT32),
    ],
)
@pytest.mark.parametrize("direction", OFFERED)
def test_types_that_do_not_go_together(lib, handle, rng, direction, types, compute_type) -> None:
    problem = Problem(lib, PLAIN, rng, compute_type=compute_type)
    operands = {}
    for role in "xwy":
        problem.data_type = types.get(role, DataType.FLOAT)
        operands[role] = problem.put(role, np.zeros(PLAIN.shape(role)))
    first, second, out = (operands[role] for role in ROLES[direction])
    status = getattr(lib, f"cudnnConvolution{direction}")(
        *(handle, lib.scalar(1, out.data_type), *first.arguments, *second.arguments),
        *(problem.conv, 0, None, 0, lib.scalar(0, out.data_type), *out.arguments),
    )
    assert status == UNSUPPORTED


def test_half_compute_type_for_half_tensors(lib: CLibrary, handle, rng) -> None:
    problem = Problem(lib, PLAIN, rng, DataType.HALF, compute_type=DataType.HALF)
    want = problem.exact("Forward")
    got = problem.run(handle, "Forward", ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM, want)
    if got is not None:
        assert_close(got, want, DataType.HALF, 1 if lib.backend == "reference" else 8)


@pytest.mark.parametrize("algo", [-1, 4, 8, 99])
@pytest.mark.parametrize("direction", OFFERED)
def test_algorithms_that_there_are_not(lib: CLibrary, handle, rng, direction, algo) -> None:
    """4 is an algorithm that cuDNN has and the reference has not, the others are none at all."""
    problem = Problem(lib, PLAIN, rng)
    first, second, out = (problem.put(role) for role in ROLES[direction])
    status = getattr(lib, f"cudnnConvolution{direction}")(
        *(handle, lib.scalar(1), *first.arguments, *second.arguments, problem.conv, algo),
        *(None, 0, lib.scalar(0), *out.arguments),
    )
    if lib.backend == "reference" or algo not in range(8):
        assert status == UNSUPPORTED
    if lib.backend == "reference":
        assert f"algo {int(algo)} is not in the reference library" in lib.last_error()


def test_null_arguments(lib: CLibrary, handle, rng) -> None:
    """Every one of them, without a crash; only the workspace may be missing."""
    problem = Problem(lib, PLAIN, rng)
    x, w, y = (problem.put(role) for role in "xwy")
    arguments = [
        *(handle, lib.scalar(1), *x.arguments, *w.arguments, problem.conv, 0, None, 0),
        *(lib.scalar(0), *y.arguments),
    ]
    lib.check("cudnnConvolutionForward", *arguments)
    for index in (0, 1, 2, 3, 4, 5, 6, 10, 11, 12):
        changed = [None if i == index else value for i, value in enumerate(arguments)]
        assert lib.cudnnConvolutionForward(*changed) == BAD, index


def test_unset_descriptors(lib: CLibrary, handle, rng) -> None:
    problem = Problem(lib, PLAIN, rng)
    x, w, y = (problem.put(role) for role in "xwy")
    descriptors = {"x": x.descriptor, "w": w.descriptor, "conv": problem.conv, "y": y.descriptor}
    for name, kind in (("x", "Tensor"), ("w", "Filter"), ("conv", "Convolution"), ("y", "Tensor")):
        if lib.backend == "cuda" and name != "conv":
            continue
        d = {**descriptors, name: lib.create(kind)}
        status = lib.cudnnConvolutionForward(
            *(handle, lib.scalar(1), d["x"], x.address, d["w"], w.address, d["conv"], 0, None, 0),
            *(lib.scalar(0), d["y"], y.address),
        )
        assert status == BAD
        assert lib.backend == "cuda" or lib.last_error()
