"""CTC loss against the sum over all alignments, written out, and its gradient by differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ctc_oracle import ctc, softmax
from side import Side

from pycudnn import cudnn, errors

MODES = tuple(cudnn.CTCGradMode)
NONE, SOFTMAX = cudnn.LossNormalizationMode.NONE, cudnn.LossNormalizationMode.SOFTMAX
ALGORITHMS = list(cudnn.CTCLossAlgo)


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def collapse(path):
    """The label of an alignment: repeats joined, then blanks dropped."""
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol)


def probabilities(scores, normalization):
    if normalization == NONE:
        return scores
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def brute_force(scores, label, normalization):
    """Minus the logarithm of the summed probabilities of all alignments of one (T, A) input."""
    p = probabilities(scores, normalization)
    steps, symbols = p.shape
    paths = itertools.product(range(symbols), repeat=steps)
    total = sum(
        np.prod(p[np.arange(steps), path]) for path in paths if collapse(path) == tuple(label)
    )
    return -np.log(total)


def gradient(function, at, h=1e-6):
    """Central differences."""
    result = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[index] += h
        down[index] -= h
        result[index] = (function(up) - function(down)) / (2 * h)
    return result


class Problem:
    """Operands of one batch; ``run`` computes costs and gradients with either C function."""

    def __init__(self, side, scores, labels, times=None, normalization=SOFTMAX, layout="packed"):
        self.side, self.labels = side, labels
        self.scores = side.tensor(scores, layout=layout)
        self.normalization = normalization
        self.times = times or [scores.shape[0]] * len(labels)
        self.gradients = side.blank(scores.shape, layout=layout)
        self.costs = side.blank((1, len(labels)))

    def run(self, algorithm=0, version=7, has_gradients=True, **options):
        """Costs (N,) and gradients (T, N, A); NaN is what was there before."""
        side, flat = self.side, [symbol for label in self.labels for symbol in label]
        lengths = [len(label) for label in self.labels]
        loss = cudnn.CTCLossDescriptor(
            normalization=self.normalization, max_label_length=max(lengths),
            library=side.library, **options,
        )  # fmt: skip
        x, g, c = self.scores, self.gradients, self.costs
        out = (c.data, g.desc, g.data) if has_gradients else (c.data, None, None)
        host = (flat, lengths, self.times)
        if version == 7:
            size = cudnn.get_ctc_loss_workspace_size(
                side.handle, x.desc, out[1], *host, algorithm, loss
            )
            cudnn.ctc_loss(
                side.handle, x.desc, x.data, *host, *out, algorithm, loss, side.scratch(size)
            )
        else:
            size = cudnn.get_ctc_loss_workspace_size_v8(
                side.handle, algorithm, loss, x.desc, out[1]
            )
            device = [side.put(np.array(part, np.int32)) for part in host]
            cudnn.ctc_loss_v8(
                side.handle, algorithm, loss, x.desc, x.data, *device, *out, side.scratch(size)
            )
        return c.read()[0], g.read()

    def check(self, costs, gradients, n):
        """Cost and gradients of one sequence; behind its end is nothing, or 0."""
        label, steps = self.labels[n], self.times[n]
        exact = self.scores.values[:steps, n]

        def cost(values):
            return brute_force(values, label, SOFTMAX)

        assert costs[n] == pytest.approx(cost(exact), rel=1e-5)
        np.testing.assert_allclose(
            gradients[:steps, n], gradient(cost, exact), rtol=2e-5, atol=2e-5
        )
        assert (np.nan_to_num(gradients[steps:, n]) == 0).all()


CALLS = [(7, 0), (7, 1), (8, 0)]  # C function and algorithm; _v8 has the deterministic one only


@pytest.mark.parametrize(("version", "algorithm"), CALLS)
@pytest.mark.parametrize("layout", ["packed", "gaps"])
def test_loss_and_gradient_over_all_alignments(side, rng, version, algorithm, layout):
    labels, times = [(1, 2), (2, 2), (2, 1, 2), (1,)], [4, 5, 3, 5]
    problem = Problem(side, rng.standard_normal((5, 4, 3)), labels, times, layout=layout)
    got = problem.run(algorithm, version)
    for n in range(len(labels)):
        problem.check(*got, n)


@pytest.mark.parametrize(("version", "algorithm"), CALLS)
@pytest.mark.parametrize("normalization", [SOFTMAX, NONE])
def test_costs_alone(side, rng, version, algorithm, normalization):
    scores = rng.standard_normal((5, 3, 3))
    if normalization == NONE:
        scores = probabilities(scores, SOFTMAX)
    problem = Problem(side, scores, [(1, 2), (2, 2), (1,)], [4, 5, 2], normalization)
    costs, gradients = problem.run(algorithm, version, has_gradients=False)
    assert np.isnan(gradients).all()
    for n, (label, steps) in enumerate(zip(problem.labels, problem.times, strict=True)):
        exact = brute_force(problem.scores.values[:steps, n], label, normalization)
        assert costs[n] == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(("version", "algorithm"), CALLS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("label", [(1, 1), (1, 2, 1)])
def test_a_label_that_no_alignment_fits(side, rng, version, algorithm, mode, label):
    """Two time steps are too few; the label's neighbours are as ever."""
    labels = [(1,), label, (2, 1)]
    problem = Problem(side, rng.standard_normal((4, 3, 3)), labels, [4, 2, 4])
    costs, gradients = problem.run(algorithm, version, gradient_mode=mode)
    assert costs[1] == 0
    skipped = mode == cudnn.CTCGradMode.SKIP_OOB_GRADIENTS
    np.testing.assert_equal(gradients[:, 1], np.nan if skipped else 0.0)
    problem.check(costs, gradients, 0)
    problem.check(costs, gradients, 2)


@pytest.mark.parametrize("version", [7, 8])
def test_what_cudnn_gets_wrong_is_refused(side, rng, version):
    scores = rng.standard_normal((5, 2, 3))
    with pytest.raises(ValueError, match="gradients must be None with the normalization NONE"):
        Problem(side, scores, [(1,), (2,)], normalization=NONE).run(version=version)
    problem = Problem(side, scores, [(1,), (2,)], layout="channels last")
    with pytest.raises(ValueError, match=r"probs_desc must have the stride 1 between symbols"):
        problem.run(version=version)
    problem.scores = side.tensor(scores)
    for layout in ("channels last", "gaps"):
        problem.gradients = side.blank(scores.shape, layout=layout)
        with pytest.raises(ValueError, match="gradients_desc must have the strides of probs"):
            problem.run(version=version)


def test_labels_and_lengths_are_checked(side, rng):
    scores = rng.standard_normal((5, 2, 3))
    for labels, times, text in (
        ([(1,), ()], [5, 5], r"label_lengths.* must be in \[1, 2147483647\], got 0"),
        ([(1,), (2, 1, 2, 1, 2, 1)], [5, 5], r"label_lengths\[1\] must be in \[1, 5\], got 6"),
        ([(1,), (3,)], [5, 5], r"labels\[1\] must be in \[1, 2\], got 3"),
        ([(0,), (1,)], [5, 5], r"labels.* must be in \[1, 2147483647\], got 0"),
        ([(1,), (2,)], [5, 6], r"input_lengths\[1\] must be in \[1, 5\], got 6"),
        ([(1,), (2,)], [0, 5], r"input_lengths.* must be in \[1, 2147483647\], got 0"),
    ):
        with pytest.raises(ValueError, match=text):
            Problem(side, scores, labels, times).run()


# ---- long labels, many symbols -------------------------------------------------------------------


def test_the_yardstick_of_long_labels(rng):
    """Scaled probabilities against the sum over all alignments, and its differences."""
    for label in ((1, 2), (2, 2), (1,), (2, 1, 2)):
        scores = rng.standard_normal((5, 3))

        def cost(values, label=label):
            return brute_force(values, label, SOFTMAX)

        loss, exact = ctc(softmax(scores), label)
        assert loss == pytest.approx(cost(scores), rel=1e-12)
        np.testing.assert_allclose(exact, gradient(cost, scores), atol=1e-7)


def compare(problem, algorithm, version):
    """Costs and gradients of float32 sums over hundreds of steps, against float64."""
    costs, gradients = problem.run(algorithm, version)
    assert np.isfinite(gradients).all()
    for n, label in enumerate(problem.labels):
        loss, exact = ctc(softmax(problem.scores.values[:, n]), label)
        assert costs[n] == pytest.approx(loss, rel=1e-4)
        np.testing.assert_allclose(gradients[:, n], exact, atol=2e-3)


@pytest.mark.parametrize(("version", "algorithm"), CALLS)
@pytest.mark.parametrize("length", [255, 256])
def test_b5_long_labels(side, rng, version, algorithm, length):
    """255 symbols work everywhere; with 256 the deterministic algorithm of cuDNN ends."""
    label = tuple(rng.integers(1, 5, length).tolist())
    problem = Problem(side, rng.standard_normal((600, 1, 5)), [label])
    deterministic = algorithm == cudnn.CTCLossAlgo.DETERMINISTIC
    if length > 255 and deterministic and side.library.backend == "cuda":
        with pytest.raises(errors.CudnnNotSupported, match="CTCLoss"):
            problem.run(algorithm, version)
    else:
        compare(problem, algorithm, version)


@pytest.mark.parametrize(("version", "algorithm"), CALLS)
def test_b5_many_symbols(side, rng, version, algorithm):
    labels = [tuple(rng.integers(1, 5000, length).tolist()) for length in (5, 10, 1)]
    compare(Problem(side, rng.standard_normal((40, 3, 5000)), labels), algorithm, version)


@pytest.mark.parametrize("version", [[], {}, "8", 8.0, None])
def test_a_version_that_is_no_int(version):
    with pytest.raises(TypeError, match="version must be an int, got "):
        cudnn.CTCLossDescriptor(version=version, library="reference")
    for wrong in (5, 10):
        with pytest.raises(ValueError, match=rf"version must be in \[6, 9\], got {wrong}"):
            cudnn.CTCLossDescriptor(version=wrong, library="reference")
