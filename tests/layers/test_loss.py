"""Loss from the logits, and accuracy."""

from __future__ import annotations

import float64_layers as exact
import numpy as np
import pytest

from layers import Blob, CrossEntropyLoss, Softmax


@pytest.mark.parametrize("n", [1, 10, 256, 600, 1000])
def test_m6_loss_of_any_batch(n, context, rng):
    logits = (20 * rng.standard_normal((n, 10))).astype(np.float32)
    labels = rng.integers(0, 10, n)
    target = exact.one_hot(labels)
    loss = CrossEntropyLoss(context)
    operands = exact.blob_of(logits, context), exact.blob_of(target, context)
    wanted = exact.cross_entropy(logits.astype(np.float64), target)
    assert loss.loss(*operands) == pytest.approx(wanted, rel=1e-5)
    assert loss.accuracy(*operands) == np.count_nonzero(logits.argmax(axis=1) == labels)


@pytest.mark.parametrize(("target", "wanted"), [([0, 1], 0.0), ([1, 0], 200.0)])
def test_m6_loss_from_logits(target, wanted, context):
    """softmax([0, 200]) is [0, 1] in float32, and log 0 is what the book takes."""
    loss = CrossEntropyLoss(context)
    logits = exact.blob_of(np.array([[0, 200]]), context)
    assert loss.loss(logits, exact.blob_of(np.array([target]), context)) == wanted


def test_m6_one_bad_sample_does_not_hide_the_others(context):
    logits = exact.blob_of(np.array([[0, 200], [0, 0], [3e4, -3e4]]), context)
    target = exact.blob_of(np.array([[1, 0], [1, 0], [1, 0]]), context)
    loss = CrossEntropyLoss(context).loss(logits, target)
    assert loss == pytest.approx((200 + np.log(2)) / 3, rel=1e-6)


def test_queue_and_result(context, rng):
    loss = CrossEntropyLoss(context)
    with pytest.raises(RuntimeError, match="nothing was queued"):
        loss.result()
    logits = rng.standard_normal((6, 10))
    target = exact.one_hot(logits.argmax(axis=1))
    loss.queue(exact.blob_of(logits, context), exact.blob_of(target, context))
    loss.mark()
    mean, right = loss.result()
    assert mean == pytest.approx(exact.cross_entropy(logits, target), rel=1e-5)
    assert right == 6
    assert loss.result() == (mean, right)


def test_misuse(context):
    loss = CrossEntropyLoss(context)
    some, other, none = (Blob(n, c, context=context) for n, c in ((4, 10), (4, 9), (0, 10)))
    with pytest.raises(ValueError, match=r"target has shape \(4, 9, 1, 1\), the logits have"):
        loss.loss(some, other)
    with pytest.raises(ValueError, match="batch of 0 has no mean loss"):
        loss.loss(none, none)
    softmax = Softmax("softmax")
    softmax.set_cuda_context(context)
    with pytest.raises(RuntimeError, match="'softmax': no loss before forward"):
        softmax.get_loss(some)
