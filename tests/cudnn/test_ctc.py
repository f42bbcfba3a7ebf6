"""CTC loss against the sum over all alignments, written out, and its gradient by differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn

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

    def run(self, algorithm=0, version=7, **options):
        """Costs (N,) and gradients (T, N, A)."""
        side, flat = self.side, [symbol for label in self.labels for symbol in label]
        lengths = [len(label) for label in self.labels]
        loss = cudnn.CTCLossDescriptor(
            normalization=self.normalization, max_label_length=max(lengths),
            library=side.library, **options,
        )  # fmt: skip
        x, g, c = self.scores, self.gradients, self.costs
        if version == 7:
            host = (flat, lengths, self.times)
            size = cudnn.get_ctc_loss_workspace_size(
                side.handle, x.desc, g.desc, *host, algorithm, loss
            )
            cudnn.ctc_loss(
                side.handle, x.desc, x.data, *host, c.data, g.desc, g.data, algorithm, loss,
                side.scratch(size),
            )  # fmt: skip
        else:
            size = cudnn.get_ctc_loss_workspace_size_v8(
                side.handle, algorithm, loss, x.desc, g.desc
            )
            host = (flat or [0], lengths, self.times)
            device = [side.put(np.array(part, np.int32)) for part in host]
            cudnn.ctc_loss_v8(
                side.handle, algorithm, loss, x.desc, x.data, *device, c.data, g.desc, g.data,
                side.scratch(size),
            )  # fmt: skip
        return c.read()[0], g.read()


CALLS = [(7, 0), (7, 1), (8, 0)]  # C function and algorithm; _v8 has the deterministic one only


@pytest.mark.parametrize(("version", "algorithm"), CALLS)
@pytest.mark.parametrize("normalization", [SOFTMAX, NONE])
def test_loss_and_gradient_over_all_alignments(side, rng, version, algorithm, normalization):
    labels, times = [(1, 2), (2, 2), (), (1,)], [4, 5, 3, 5]
    scores = rng.standard_normal((5, 4, 3))
    if normalization == NONE:
        scores = probabilities(scores, SOFTMAX)
    problem = Problem(side, scores, labels, times, normalization)
    costs, gradients = problem.run(algorithm, version)
    for n, (label, steps) in enumerate(zip(labels, times, strict=True)):
        exact = problem.scores.values[:steps, n]

        def cost(values, label=label):
            return brute_force(values, label, normalization)

        assert costs[n] == pytest.approx(cost(exact), rel=1e-5)
        np.testing.assert_allclose(
            gradients[:steps, n], gradient(cost, exact), rtol=2e-5, atol=2e-5
        )
        assert (gradients[steps:, n] == 0).all()
