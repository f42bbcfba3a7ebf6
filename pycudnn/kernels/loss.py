"""Loss and accuracy of a classifier (loss.cu; book: loss.cu of the chapter's sources)."""

from __future__ import annotations

import numpy as np

from pycudnn.device import Stream
from pycudnn.kernels._launch import THREADS, Kernel, check_operand, host_arrays, scratch
from pycudnn.memory import Buffer

_WARPS = THREADS // 32
_MOST_BLOCKS = 1024

_softmax_cross_entropy_loss = Kernel("loss", "softmax_cross_entropy_loss")
_count_correct = Kernel("loss", "count_correct")


def _rows(name: str, scores: Buffer, target: Buffer) -> tuple[int, int]:
    check_operand(name, scores, np.float32)
    check_operand("target", target, np.float32)
    if scores.ndim < 2 or scores.size == 0:
        raise ValueError(f"{name} must be (rows, classes) and not empty, got {scores!r}")
    if target.shape != scores.shape:
        raise ValueError(f"target must have {name}'s shape {scores.shape}, got {target!r}")
    return scores.shape[0], scores.size // scores.shape[0]


def _blocks(rows: int) -> int:
    return min(-(-rows // _WARPS), _MOST_BLOCKS)


def softmax_cross_entropy_loss(
    stream: Stream, logits: Buffer, target: Buffer, loss: Buffer
) -> None:
    """Mean over the rows of -sum(target * log(softmax(logits))), from the logits.

    ``logits`` and ``target`` (one-hot, or weights): float32 (rows, classes), where further
    dimensions count as classes. ``loss``: float32, one element. By log-sum-exp, so that it is
    finite for all finite logits. ValueError for other shapes, TypeError for other dtypes,
    LibraryMismatch for memory of another device.
    """
    rows, classes = _rows("logits", logits, target)
    check_operand("loss", loss, np.float32, 1)
    if stream.device.backend == "reference":
        x, wanted, result = host_arrays(stream, logits, target, loss)
        result[...] = _mean_loss(x.reshape(rows, -1), wanted.reshape(rows, -1))
        return
    blocks = _blocks(rows)
    room = scratch(stream, 1, blocks)
    _softmax_cross_entropy_loss(stream, (blocks,), logits, target, rows, classes, *room, loss)


def _mean_loss(logits: np.ndarray, target: np.ndarray) -> np.floating:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    # A class of no weight may have a logit of -infinity.
    picked = np.multiply(target, shifted, out=np.zeros_like(shifted), where=target != 0)
    return (target.sum(axis=1) * log_sum - picked.sum(axis=1)).mean()


def count_correct(stream: Stream, scores: Buffer, target: Buffer, count: Buffer) -> None:
    """The number of rows where the largest score and the largest target are in one place.

    ``scores`` and ``target``: float32 (rows, classes), where further dimensions count as classes.
    ``count``: int32, one element. As in numpy.argmax the first of equals wins, and NaN is the
    largest. Errors as for ``softmax_cross_entropy_loss``.
    """
    rows, classes = _rows("scores", scores, target)
    check_operand("count", count, np.int32, 1)
    if stream.device.backend == "reference":
        x, wanted, result = host_arrays(stream, scores, target, count)
        right = x.reshape(rows, -1).argmax(axis=1) == wanted.reshape(rows, -1).argmax(axis=1)
        result[...] = np.count_nonzero(right)
        return
    blocks = _blocks(rows)
    room = scratch(stream, 1, blocks)
    _count_correct(stream, (blocks,), scores, target, rows, classes, *room, count)
