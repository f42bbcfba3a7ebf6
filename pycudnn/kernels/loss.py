"""Loss and accuracy of a classifier, from its logits (loss.cu)."""

from __future__ import annotations

import math

import numpy as np

from pycudnn.device import Stream
from pycudnn.kernels.launch import array, check, launch, on_host
from pycudnn.memory import Buffer

_THREADS = 1024


def softmax_cross_entropy_loss(
    stream: Stream, logits: Buffer, target: Buffer, loss: Buffer
) -> None:
    """loss[0] = mean over rows of sum_c target[c] (log sum_j exp(logits[j]) - logits[c]).

    logits and target float32 of one shape, (N, C) or (N, C, 1, 1), target one-hot or a
    distribution; loss float32 of shape (1,). From the logits, because a softmax output underflows:
    the published kernel takes the logarithm of 0. ValueError for other shapes and for N = 0.
    """
    rows, classes = _check(logits, target, "logits")
    check(loss, "loss", "float32", (1,))
    if on_host(stream):
        x = array(stream, logits).reshape(rows, classes)
        t = array(stream, target).reshape(rows, classes)
        largest = x.max(axis=1, keepdims=True)
        log_sum = largest + np.log(np.exp(x - largest).sum(axis=1, keepdims=True))
        terms = np.where(t != 0, t * (log_sum - x), 0)
        array(stream, loss)[0] = terms.sum(axis=1).mean(dtype=np.float64)
        return
    launch(
        stream, "loss.cu", "softmax_cross_entropy_loss", (1,), _THREADS, (logits, target, loss),
        (rows, classes),
    )  # fmt: skip


def count_correct(stream: Stream, scores: Buffer, target: Buffer, count: Buffer) -> None:
    """count[0] = number of rows whose largest score is where the target is largest.

    scores and target as in ``softmax_cross_entropy_loss``; count int32 of shape (1,).
    """
    rows, classes = _check(scores, target, "scores")
    check(count, "count", "int32", (1,))
    if on_host(stream):
        best = array(stream, scores).reshape(rows, classes).argmax(axis=1)
        right = array(stream, target).reshape(rows, classes).argmax(axis=1)
        array(stream, count)[0] = np.count_nonzero(best == right)
        return
    launch(
        stream, "loss.cu", "count_correct", (1,), _THREADS, (scores, target, count),
        (rows, classes),
    )  # fmt: skip


def _check(values: Buffer, target: Buffer, name: str) -> tuple[int, int]:
    check(values, name, "float32")
    check(target, "target", "float32", values.shape)
    if len(values.shape) < 2 or 0 in values.shape:
        raise ValueError(f"{name} must have shape (N, C) with N and C at least 1, got {values.shape}")
    return values.shape[0], math.prod(values.shape[1:])
