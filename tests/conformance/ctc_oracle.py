"""The loss of connectionist temporal classification in float64, by scaled probabilities.

Written apart from pycudnn/reference, which sums logarithms; tests/cudnn/test_ctc.py compares it
with the sum over all alignments.
"""

from __future__ import annotations

import numpy as np


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last dimension."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def fits(label: tuple[int, ...], steps: int) -> bool:
    """Is there an alignment: a step for each symbol, and one between equal neighbours?"""
    repeats = sum(one == next_one for one, next_one in zip(label, label[1:], strict=False))
    return len(label) + repeats <= steps


def ctc(probabilities: np.ndarray, label: tuple[int, ...]) -> tuple[float, np.ndarray]:
    """Minus the logarithm of the label's probability, given those of (T, A) symbols.

    Also the gradient of it for the scores that the probabilities are the softmax of: (T, A).
    """
    states = np.zeros(2 * len(label) + 1, int)
    states[1::2] = label
    count = len(states)
    step = np.eye(count) + np.eye(count, k=-1)  # to itself and to the next
    for state in range(3, count, 2):  # over a blank, between symbols that differ
        step[state, state - 2] = states[state] != states[state - 2]
    emitted = probabilities[:, states]
    forward, scale = np.zeros_like(emitted), np.empty(len(emitted))
    at = np.zeros(count)
    at[:2] = 1
    for t, emission in enumerate(emitted):
        at = emission * (at if t == 0 else step @ at)
        scale[t] = at.sum()
        at = forward[t] = at / scale[t]
    end = np.zeros(count)
    end[-2:] = 1
    total = forward[-1] @ end
    gradient = probabilities.copy()
    after = end
    for t in reversed(range(len(emitted))):
        share = forward[t] * after
        np.subtract.at(gradient[t], states, share / share.sum())
        after = step.T @ (after * emitted[t]) / scale[t]
    return -np.log(scale).sum() - np.log(total), gradient
