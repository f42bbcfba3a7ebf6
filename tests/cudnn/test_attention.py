"""Multi-head attention: descriptor, statuses, weights, forward and gradients against float64."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from exact_attention import Attention

from pycudnn import cudnn, empty, errors, from_numpy
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn import MultiHeadAttnWeightKind, WgradMode
from pycudnn.libraries import get_library

DTYPES = {
    "float32": (np.dtype(np.float32), 2e-5),
    "float64": (np.dtype(np.float64), 1e-12),
    "float16": (np.dtype(np.float16), 6e-3),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), 5e-2),
}
SIZES = {"q_size": 5, "k_size": 6, "v_size": 7}
PROJECTIONS = {"q_proj_size": 3, "k_proj_size": 3, "v_proj_size": 4, "o_proj_size": 8}
LIMITS = {
    "qo_max_seq_length": 6, "kv_max_seq_length": 7, "max_batch_size": 3, "max_beam_size": 2,
}  # fmt: skip
NAMES = dict(
    zip(MultiHeadAttnWeightKind, ("q", "k", "v", "o", "bq", "bk", "bv", "bo"), strict=True)
)


# ---- settings ------------------------------------------------------------------------------------


def test_all_settings_are_read_back(library):
    attn = cudnn.AttentionDescriptor(
        2, **SIZES, **PROJECTIONS, **LIMITS, sm_scaler=0.5, dtype="float16",
        compute_precision="float16", math_type=cudnn.MathType.TENSOR_OP_MATH, proj_biases=True,
        library=library,
    )  # fmt: skip
    read = attn.read()._asdict()
    for name, value in {**SIZES, **PROJECTIONS, **LIMITS}.items():
        assert read[name] == value
    assert (read["num_heads"], read["sm_scaler"]) == (2, 0.5)
    assert read["data_type"] is read["compute_precision"] is cudnn.DataType.HALF
    assert read["math_type"] is cudnn.MathType.TENSOR_OP_MATH
    assert (read["proj_biases"], read["one_to_one"]) == (True, False)
    assert attn.dtype == np.float16
    assert attn.read().out_size == 8
    assert "num_heads=2" in repr(attn)
    attn.close()
    assert repr(attn) == "<closed AttentionDescriptor>"


def test_the_output_is_the_heads_side_by_side_without_a_projection(library):
    attn = cudnn.AttentionDescriptor(
        3, 5, 5, 7, qo_max_seq_length=1, kv_max_seq_length=1, library=library
    )
    assert attn.read().out_size == 21


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"num_heads": 0}, ValueError, "num_heads.*got 0"),
        ({"q_size": 0}, ValueError, "q_size.*got 0"),
        ({"v_proj_size": -1}, ValueError, "v_proj_size.*got -1"),
        ({"k_proj_size": 2}, ValueError, "one length after their projections, got 3 .* and 2"),
        ({"k_proj_size": 0}, ValueError, "one length after their projections, got 3 .* and 6"),
        ({"qo_max_seq_length": 0}, ValueError, "qo_max_seq_length.*got 0"),
        ({"max_beam_size": 1.5}, TypeError, "max_beam_size must be an int"),
        ({"sm_scaler": -1}, ValueError, "sm_scaler must be at least 0, got -1"),
        ({"sm_scaler": float("nan")}, ValueError, "sm_scaler must be a finite number, got nan"),
        ({"math_type": 4}, ValueError, "math_type must be a MathType"),
        ({"dtype": "int8"}, TypeError, "dtype must be one of float32"),
        ({"compute_precision": "complex64"}, TypeError, "compute_precision must be a DataType"),
        ({"num_heads": 2**31 - 1, "qo_max_seq_length": 2**31 - 1}, ValueError, "more than memory"),
        ({"v_proj_size": 0}, ValueError, "must have num_heads 1.*got 2, v_proj_size 0 and o_proj"),
        ({"attention_dropout": 0.5}, TypeError, "attention_dropout must be a DropoutDescriptor"),
        ({"post_dropout": 0.5}, TypeError, "post_dropout must be a DropoutDescriptor"),
    ],
)
def test_bad_settings_are_refused(library, changes, error, text):
    settings = {"num_heads": 2, **SIZES, **PROJECTIONS, **LIMITS, **changes}
    with pytest.raises(error, match=text):
        cudnn.AttentionDescriptor(**settings, library=library)


def test_what_the_library_has_not(library):
    settings = {"num_heads": 2, **SIZES, **PROJECTIONS, **LIMITS, "library": library}
    with pytest.raises(errors.CudnnNotSupported):
        cudnn.AttentionDescriptor(**settings, compute_precision="float64")
    with pytest.raises(errors.CudnnNotSupported):
        cudnn.AttentionDescriptor(**settings, one_to_one=True)


SET = {
    "mode": 0, "heads": 2, "scaler": 1.0, "dtype": 0, "precision": 0, "math": 0, "d1": None,
    "d2": None, "q": 5, "k": 6, "v": 7, "qp": 3, "kp": 3, "vp": 4, "op": 8, "tq": 6, "tk": 7,
    "batch": 3, "beam": 2,
}  # fmt: skip
BAD, UNSUPPORTED = 2000, 3000


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"mode": 1}, UNSUPPORTED),
        ({"mode": 1, "beam": 1}, 0),
        ({"mode": 3, "beam": 1}, 0),
        ({"mode": 4}, BAD),
        *[({name: 0}, BAD) for name in ("heads", "q", "k", "v", "tq", "tk", "batch", "beam")],
        *[({name: -1}, BAD) for name in ("qp", "kp", "vp", "op", "math", "dtype", "precision")],
        *[({name: 2**31 - 1}, 0) for name in ("heads", "q", "v", "vp", "op", "tq", "batch")],
        ({"scaler": -0.5}, BAD),
        ({"scaler": np.nan}, 0),
        ({"scaler": np.inf}, 0),
        ({"dtype": 1}, UNSUPPORTED),
        ({"dtype": 3}, BAD),
        ({"precision": 1}, UNSUPPORTED),
        ({"precision": 9}, BAD),
        ({"dtype": 3, "precision": 1}, BAD),
        ({"dtype": 1, "q": 0}, UNSUPPORTED),
        ({"mode": 1, "q": 0}, BAD),
        ({"math": 4}, BAD),
        ({"qp": 2}, BAD),
        ({"qp": 0, "kp": 0}, BAD),
        ({"qp": 0, "q": 3}, 0),
        ({"vp": 0, "op": 0}, 0),
    ],
)
def test_status_of_a_set(library, changes, status):
    found = get_library("cudnn", library)
    descriptor = ctypes_type("cudnnAttnDescriptor_t")()
    assert found.function("cudnnCreateAttnDescriptor")(ctypes.byref(descriptor)) == 0
    arguments = {**SET, **changes}.values()
    assert found.function("cudnnSetAttnDescriptor")(descriptor, *arguments) == status
    assert found.function("cudnnDestroyAttnDescriptor")(descriptor) == 0


def test_types_that_go_together(library):
    good = {("float32",) * 2, ("float64",) * 2, ("float16",) * 2, ("float16", "float32"),
            ("bfloat16", "float32")}  # fmt: skip
    for dtype in DTYPES:
        for precision in DTYPES:
            settings = {"dtype": dtype, "compute_precision": precision, "library": library}
            if (dtype, precision) in good:
                cudnn.AttentionDescriptor(2, **SIZES, **PROJECTIONS, **LIMITS, **settings)
            else:
                with pytest.raises(errors.CudnnError):
                    cudnn.AttentionDescriptor(2, **SIZES, **PROJECTIONS, **LIMITS, **settings)


# ---- computing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Sizes of a problem, and what is unusual about it."""

    heads: int = 2
    q: int = 5
    k: int = 6
    v: int = 7
    qp: int = 3
    kp: int = 3
    vp: int = 4
    op: int = 8
    time: int = 6
    keys: int = 7
    batch: int = 3
    beam: int = 1
    biases: bool = False
    residual: bool = False
    axes: tuple[int, ...] = (0, 1, 2, 3)
    q_lengths: tuple[int, ...] | None = None
    k_lengths: tuple[int, ...] | None = None
    low: Any = None
    high: Any = None
    room: int = 0  # limits beyond what the data has


CASES = {
    "plain": Case(),
    "biases": Case(biases=True),
    "residual": Case(op=5, biases=True, residual=True),
    "beams": Case(beam=2),
    "no projection": Case(heads=1, k=5, qp=0, kp=0, vp=0, op=0),
    "no projection, 3 heads": Case(heads=3, k=5, qp=0, kp=0, vp=0, op=0),
    "heads side by side": Case(op=0, biases=True),
    "values only": Case(k=5, qp=0, kp=0, biases=True),
    "output only": Case(heads=1, k=5, qp=0, kp=0, vp=0, biases=True),
    "windows": Case(low=(0, 0, 1, 2, 3, 4), high=(1, 2, 3, 4, 6, 7)),
    "lengths": Case(q_lengths=(6, 4, 2), k_lengths=(7, 3, 1), biases=True),
    "lengths and residual": Case(op=5, q_lengths=(6, 4, 2), k_lengths=(7, 3, 1), residual=True),
    "windows without keys": Case(
        q_lengths=(6, 4, 5), k_lengths=(7, 3, 1), low=(0, 0, 1, 2, 3, 4), high=(1, 2, 3, 4, 6, 7),
        biases=True,
    ),
    "batch first": Case(axes=(1, 0, 2, 3)),
    "time innermost": Case(axes=(1, 2, 0, 3), beam=2),
    "room": Case(room=3),
}


class Problem:
    """A case with random data on a context's side, and the same in float64."""

    def __init__(self, context, rng, case, dtype="float32", fill=None):
        self.context, self.case, self.rng = context, case, rng
        self.handle, library = context.cudnn, context.cudnn.library
        self.dtype, self.tolerance = DTYPES[dtype]
        c = case
        self.attn = cudnn.AttentionDescriptor(
            c.heads, c.q, c.k, c.v, q_proj_size=c.qp, k_proj_size=c.kp, v_proj_size=c.vp,
            o_proj_size=c.op, qo_max_seq_length=c.time + c.room, kv_max_seq_length=c.keys + c.room,
            max_batch_size=c.batch + c.room, max_beam_size=c.beam + c.room, sm_scaler=0.7,
            dtype=self.dtype, proj_biases=c.biases, library=library,
            math_type=cudnn.MathType.FMA_MATH if self.dtype.itemsize > 2
            else cudnn.MathType.DEFAULT_MATH,
        )  # fmt: skip
        q_lengths = c.q_lengths or (c.time,) * (c.batch * c.beam)
        k_lengths = c.k_lengths or (c.keys,) * c.batch
        self.windows = {"lo_win": c.low, "hi_win": c.high}

        def desc(time, beam, size, lengths, fill=None):
            return cudnn.SeqDataDescriptor(
                (time, c.batch, beam, size), self.dtype, axes=c.axes, seq_lengths=lengths,
                padding_fill=fill, library=library,
            )  # fmt: skip

        self.q_desc = desc(c.time, c.beam, c.q, q_lengths)
        self.k_desc = desc(c.keys, 1, c.k, k_lengths)
        self.v_desc = desc(c.keys, 1, c.v, k_lengths)
        self.o_desc = desc(c.time, c.beam, self.attn.read().out_size, q_lengths, fill)
        self.values = {
            name: self.random(getattr(self, f"{name}_desc").shape) for name in ("q", "k", "v", "o")
        }
        self.data = {name: self.put(name, self.values[name]) for name in self.values}
        sizes = cudnn.get_multi_head_attn_buffers(self.handle, self.attn, training=True)
        flat = self.random(sizes.weights // self.dtype.itemsize)
        self.weights = self.device(flat.astype(self.dtype)) if flat.size else None
        self.exact = Attention(
            c.heads, 0.7, self.values["q"], self.values["k"], self.values["v"], self.split(flat),
            q_lengths, k_lengths, c.low or (0,) * c.time, c.high or (c.keys,) * c.time,
        )  # fmt: skip

    def random(self, shape):
        return self.rng.uniform(-1, 1, shape).astype(self.dtype).astype(np.float64)

    def device(self, array):
        return from_numpy(array, device=self.context.device, stream=self.context.stream)

    def split(self, flat):
        """Single weights out of all of them, by their short names."""
        found = {}
        for kind, name in NAMES.items():
            view = cudnn.get_multi_head_attn_weights(self.handle, self.attn, kind, self.weights)
            if view is not None:
                start = view.offset // self.dtype.itemsize
                steps = [step * flat.itemsize for step in view.desc.strides]
                found[name] = np.lib.stride_tricks.as_strided(flat[start:], view.desc.shape, steps)
        return found

    def put(self, name, values):
        desc = getattr(self, f"{name}_desc")
        return self.device(np.ascontiguousarray(values.transpose(desc.axes)).astype(self.dtype))

    def blank(self, name):
        return self.put(name, np.full(getattr(self, f"{name}_desc").shape, np.nan))

    def get(self, name, buffer):
        desc = getattr(self, f"{name}_desc")
        memory = buffer.numpy(self.context.stream).astype(np.float64)
        return memory.transpose(np.argsort(desc.axes))

    def scratch(self, nbytes):
        if not nbytes:
            return None
        buffer = empty((nbytes,), "uint8", device=self.context.device, stream=self.context.stream)
        buffer.fill_bytes(0xFF, stream=self.context.stream)
        return buffer

    def buffers(self, training):
        sizes = cudnn.get_multi_head_attn_buffers(self.handle, self.attn, training=training)
        return self.scratch(sizes.workspace), self.scratch(sizes.reserve_space)

    def forward(self, buffers, **options):
        out = self.blank("o")
        cudnn.multi_head_attn_forward(
            self.handle, self.attn, self.q_desc, self.data["q"],
            self.data["o"] if self.case.residual else None, self.k_desc, self.data["k"],
            self.v_desc, self.data["v"], self.o_desc, out, self.weights, *buffers,
            **self.windows, **options,
        )  # fmt: skip
        return self.get("o", out)

    def check(self, got, expected):
        assert np.isfinite(got).all()
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        assert np.abs(got - expected).max(initial=0.0) <= self.tolerance * scale

    def expected(self):
        return self.exact.forward(self.values["o"] if self.case.residual else 0.0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("training", [False, True])
def test_forward(context, rng, name, training):
    problem = Problem(context, rng, CASES[name])
    problem.check(problem.forward(problem.buffers(training)), problem.expected())


@pytest.mark.parametrize("dtype", DTYPES)
def test_data_types(context, rng, dtype):
    problem = Problem(context, rng, CASES["biases"], dtype)
    problem.check(problem.forward(problem.buffers(False)), problem.expected())


def test_a_padding_fill_is_what_cudnn_leaves_or_refused(context, rng):
    lengths = {"q_lengths": (6, 4, 2), "k_lengths": (7, 3, 1)}
    problem = Problem(context, rng, Case(**lengths), fill=0.0)
    got = problem.forward(problem.buffers(False))
    assert (got[4:, 1] == 0).all()
    problem.check(got, problem.expected())
    for case, fill, text in (
        (Case(**lengths), -7.0, "padding_fill None, as cuDNN puts there 0, got -7"),
        (Case(biases=True, **lengths), 0.0, "the bias of the output and the residuals, got 0"),
        (Case(op=5, residual=True, **lengths), 0.0, "the bias of the output and the residuals"),
    ):
        refuse(Problem(context, rng, case, fill=fill), ValueError, text)
    problem = Problem(context, rng, CASES["biases"], fill=-7.0)  # there is no padding
    problem.check(problem.forward(problem.buffers(False)), problem.expected())


def test_one_time_step(context, rng):
    problem = Problem(context, rng, CASES["windows"])
    expected = problem.expected()
    for step in (0, 4):
        got = problem.forward(problem.buffers(False), current_index=step)
        problem.check(got[step], expected[step])


def test_gradients_of_less_than_the_attention_allows_are_refused(context, rng):
    """cuDNN 9.19 gets those of queries and keys wrong in one run of twenty."""
    problem = Problem(context, rng, CASES["room"], "float64")
    buffers = problem.buffers(True)
    problem.forward(buffers)
    q, k, v = (
        (getattr(problem, f"{name}_desc"), problem.blank(name), problem.data[name])
        for name in "qkv"
    )
    with pytest.raises(ValueError, match=r"gradients want data of the attention's max_batch_size"):
        cudnn.multi_head_attn_backward_data(
            problem.handle, problem.attn, problem.o_desc, problem.blank("o"), *q, *k, *v,
            problem.weights, *buffers, **problem.windows,
        )  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CASES if name != "room"])
def test_gradients(context, rng, name):
    problem = Problem(context, rng, CASES[name], "float64")
    buffers = problem.buffers(True)
    problem.forward(buffers)
    dout = problem.random(problem.o_desc.shape)
    dout_data = problem.put("o", dout)
    gradients = {name: problem.blank(name) for name in "qkv"}
    q, k, v = (
        (getattr(problem, f"{name}_desc"), gradients[name], problem.data[name]) for name in "qkv"
    )
    cudnn.multi_head_attn_backward_data(
        problem.handle, problem.attn, problem.o_desc, dout_data, *q, *k, *v, problem.weights,
        *buffers, **problem.windows,
    )  # fmt: skip
    data, weights = problem.exact.backward(dout)
    for name in "qkv":
        problem.check(problem.get(name, gradients[name]), data[name])
    if problem.weights is None:
        return
    for mode, start in ((WgradMode.SET, np.nan), (WgradMode.ADD, 1.5)):
        dweights = problem.device(np.full(problem.weights.size, start))
        cudnn.multi_head_attn_backward_weights(
            problem.handle, problem.attn, mode, q[0], q[2], k[0], k[2], v[0], v[2],
            problem.o_desc, dout_data, problem.weights, dweights, *buffers,
        )  # fmt: skip
        got = problem.split(dweights.numpy(context.stream))
        for kind, expected in weights.items():
            problem.check(got[kind] - (start if mode == WgradMode.ADD else 0), expected)


def test_the_yardstick_of_gradients(rng):
    """Analytic gradients in float64 against differences of the forward function."""
    shapes = {"q": (2, 3, 5), "k": (2, 3, 6), "v": (2, 4, 7), "o": (2, 8, 4),
              "bq": (2, 3, 1), "bk": (2, 3, 1), "bv": (2, 4, 1), "bo": (1, 8, 1)}  # fmt: skip
    weights = {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}
    q, k, v = (rng.uniform(-1, 1, (3, 2, beam, size)) for beam, size in ((2, 5), (1, 6), (1, 7)))
    exact = Attention(2, 0.7, q, k, v, weights, (3, 2, 3, 1), (3, 2), (0, 0, 1), (2, 3, 3))
    dout = rng.uniform(-1, 1, (3, 2, 2, 8))
    data, grads = exact.backward(dout)
    arrays = {"data": {"q": q, "k": k, "v": v}, "weights": weights}
    for group, gradients in (("data", data), ("weights", grads)):
        for name, array in arrays[group].items():
            at = tuple(rng.integers(0, size) for size in array.shape)
            keep, values = array[at], []
            for step in (1e-6, -1e-6):
                array[at] = keep + step
                values.append((dout * exact.forward()).sum())
            array[at] = keep
            difference = (values[0] - values[1]) / 2e-6
            assert gradients[name][at] == pytest.approx(difference, abs=1e-7)


# ---- what is refused -----------------------------------------------------------------------------


def refuse(problem, error, text, buffers=None, **options):
    with pytest.raises(error, match=text):
        problem.forward(buffers or problem.buffers(False), **options)


def test_windows_that_are_empty_or_leave_the_keys(context, rng):
    problem = Problem(context, rng, CASES["plain"])
    for low, high, text in (
        (3, 3, r"lo_win\[0\] < hi_win\[0\] <= 7 must hold, got 3 and 3"),
        (0, 8, "got 0 and 8"),
        (-1, 7, r"lo_win.*got -1"),
        ([0] * 5, 7, "lo_win must be an int or 6 ints"),
    ):
        problem.windows = {"lo_win": low, "hi_win": high}
        refuse(problem, ValueError, text)


def test_residuals_that_do_not_fit(context, rng):
    text = "residuals must be None .* outputs of 8 and queries of 5"
    refuse(Problem(context, rng, Case(residual=True)), ValueError, text)
    problem = Problem(context, rng, CASES["residual"])
    dropout = cudnn.DropoutDescriptor(context.cudnn, 0.0)
    settings = {**SIZES, **PROJECTIONS, **LIMITS, "o_proj_size": 5, "sm_scaler": 0.7,
                "math_type": cudnn.MathType.FMA_MATH, "proj_biases": True}  # fmt: skip
    for name in ("attention_dropout", "post_dropout"):
        problem.attn = cudnn.AttentionDescriptor(
            2, **settings, **{name: dropout}, library=context.cudnn.library
        )
        problem.check(problem.forward(problem.buffers(False)), problem.expected())
        if name == "attention_dropout":
            problem.check(problem.forward(problem.buffers(True)), problem.expected())
    refuse(problem, ValueError, "residuals must be None in training with a post_dropout",
           buffers=problem.buffers(True))  # fmt: skip


@pytest.mark.parametrize("name", ["k_desc", "v_desc", "o_desc"])
def test_axes_that_differ(context, rng, name):
    problem = Problem(context, rng, CASES["plain"])
    desc = getattr(problem, name)
    turned = cudnn.SeqDataDescriptor(desc.shape, axes=(1, 0, 2, 3), library=context.cudnn.library)
    setattr(problem, name, turned)
    refuse(problem, ValueError, f"{name} must have the axes of q_desc, got .*BATCH_DIM, TIME_DIM")


def test_time_steps_that_are_not_there(context, rng):
    problem = Problem(context, rng, CASES["plain"])
    refuse(problem, ValueError, r"current_index must be in \[0, 5\], got 6", current_index=6)
    refuse(problem, ValueError, "current_index must be None in training",
           buffers=problem.buffers(True), current_index=0)  # fmt: skip


def test_descriptors_that_do_not_fit(context, rng):
    library = context.cudnn.library
    for name, shape, text in (
        ("q_desc", (6, 3, 1, 4), "q_desc must have shape .*, 5., got .*, 4."),
        ("q_desc", (7, 3, 1, 5), "qo_max_seq_length is 6, the data has 7"),
        ("q_desc", (6, 4, 1, 5), "max_batch_size is 3, the data has 4"),
        ("q_desc", (6, 3, 2, 5), "max_beam_size is 1, the data has 2"),
        ("k_desc", (7, 2, 1, 6), "k_desc must have shape"),
        ("v_desc", (6, 3, 1, 7), "v_desc must have shape"),
        ("o_desc", (6, 3, 1, 7), "o_desc must have shape"),
    ):
        problem = Problem(context, rng, CASES["plain"])
        setattr(problem, name, cudnn.SeqDataDescriptor(shape, library=library))
        short = name[0]
        problem.data[short] = problem.put(short, np.zeros(shape))
        refuse(problem, ValueError, text)
    problem = Problem(context, rng, CASES["lengths"])
    problem.v_desc = cudnn.SeqDataDescriptor((7, 3, 1, 7), library=library)
    refuse(problem, ValueError, r"v_desc must have the sequence lengths \(7, 3, 1\)")
    problem = Problem(context, rng, CASES["plain"])
    problem.q_desc = cudnn.SeqDataDescriptor((6, 3, 1, 5), "float64", library=library)
    refuse(problem, TypeError, "q_desc must be float32 as the attention is, got float64")
    problem.q_desc = problem.attn
    refuse(problem, TypeError, "q_desc must be a SeqDataDescriptor")


def test_buffers_that_are_too_small(context, rng):
    problem = Problem(context, rng, CASES["plain"])
    workspace, reserve = problem.buffers(True)
    refuse(problem, ValueError, "reserve_space needs .* bytes, got 1",
           buffers=(workspace, problem.scratch(1)))  # fmt: skip
    sizes = cudnn.get_multi_head_attn_buffers(problem.handle, problem.attn, training=True)
    problem.weights = problem.scratch(sizes.weights - 1)
    refuse(problem, ValueError, f"weights needs {sizes.weights} bytes, got {sizes.weights - 1}")
    with pytest.raises(ValueError, match="weights needs"):
        cudnn.get_multi_head_attn_weights(problem.handle, problem.attn, 0, problem.weights)
    with pytest.raises(ValueError, match="kind must be a MultiHeadAttnWeightKind"):
        cudnn.get_multi_head_attn_weights(problem.handle, problem.attn, 8, problem.weights)
    problem = Problem(context, rng, CASES["plain"])
    problem.data["k"] = problem.scratch(7)
    refuse(problem, (TypeError, ValueError), "keys")


def test_a_closed_dropout_is_noticed(context, rng):
    problem = Problem(context, rng, CASES["plain"])
    dropout = cudnn.DropoutDescriptor(context.cudnn, 0.0)
    settings = {**SIZES, **PROJECTIONS, **LIMITS}
    problem.attn = cudnn.AttentionDescriptor(
        2, **settings, post_dropout=dropout, library=context.cudnn.library
    )
    dropout.close()
    refuse(problem, ValueError, "the post_dropout of this attention is closed")
