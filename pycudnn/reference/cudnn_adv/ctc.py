"""Connectionist temporal classification: the loss of a label sequence over all its alignments."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import CTCGradMode, CTCLossAlgo, DataType, LossNormalizationMode

from ..cudnn_graph import Handle
from ..descriptors import Tensor
from ..memory import load, read_array, store, view, write, write_wanted
from ..runtime import bad_param, implements, not_supported, opaque

_BLANK = 0

Array = np.ndarray[Any, Any]


@opaque("cudnnCTCLossDescriptor_t", "cudnnCreateCTCLossDescriptor", "cudnnDestroyCTCLossDescriptor")
@dataclass
class CTCLoss:
    """How the input is normalised, and what becomes of labels that do not fit.

    The enums are plain numbers: cuDNN takes any, and so they are judged where they are used.
    """

    compute_type: DataType = DataType.FLOAT
    normalization: int = LossNormalizationMode.NONE
    gradient_mode: int = CTCGradMode.ZERO_OOB_GRADIENTS
    max_label_length: int = 0


def _set(descriptor: CTCLoss, compute_type: int, *options: int) -> None:
    if compute_type not in (DataType.FLOAT, DataType.DOUBLE):
        raise not_supported(f"compType is {compute_type}, must be 0 (FLOAT) or 1 (DOUBLE)")
    fresh = CTCLoss(DataType(compute_type), *options)
    vars(descriptor).update(vars(fresh))


@implements("cudnnSetCTCLossDescriptor")
def set_ctc_loss(descriptor: CTCLoss, compute_type: int) -> None:
    """The input holds probabilities."""
    _set(descriptor, compute_type)


@implements("cudnnSetCTCLossDescriptorEx")
def set_ctc_loss_ex(descriptor: CTCLoss, compute_type: int, normalization: int, mode: int) -> None:
    """Normalization and gradient mode as well."""
    _set(descriptor, compute_type, normalization, mode)


@implements("cudnnSetCTCLossDescriptor_v8")
def set_ctc_loss_v8(
    descriptor: CTCLoss, compute_type: int, normalization: int, mode: int, longest: int
) -> None:
    """And the longest label, which cudnnCTCLoss_v8 cannot look up."""
    _set(descriptor, compute_type, normalization, mode, longest)


@implements("cudnnSetCTCLossDescriptor_v9")
def set_ctc_loss_v9(
    descriptor: CTCLoss, compute_type: int, normalization: int, mode: int, longest: int
) -> None:
    """The same with the gradient mode under its own type."""
    _set(descriptor, compute_type, normalization, mode, longest)


def _get(descriptor: CTCLoss, *outs: int) -> None:
    for out, value in zip(outs, vars(descriptor).values(), strict=False):
        write_wanted(out, ctypes.c_int, value)  # NULL takes nothing


@implements("cudnnGetCTCLossDescriptor")
def get_ctc_loss(descriptor: CTCLoss, compute_type: int) -> None:
    """The compute type."""
    _get(descriptor, compute_type)


@implements("cudnnGetCTCLossDescriptorEx")
def get_ctc_loss_ex(descriptor: CTCLoss, *outs: int) -> None:
    """Compute type, normalization and gradient mode."""
    _get(descriptor, *outs)


@implements("cudnnGetCTCLossDescriptor_v8")
def get_ctc_loss_v8(descriptor: CTCLoss, *outs: int) -> None:
    """All four settings."""
    _get(descriptor, *outs)


@implements("cudnnGetCTCLossDescriptor_v9")
def get_ctc_loss_v9(descriptor: CTCLoss, *outs: int) -> None:
    """All four settings; any gradient mode but the first counts as the second."""
    _get(replace(descriptor, gradient_mode=int(descriptor.gradient_mode != 0)), *outs)


# --- the loss of one sequence ---------------------------------------------------------------------


def _with_blanks(label: tuple[int, ...]) -> Array:
    """The label with a blank before, between and behind its symbols."""
    states = np.full(2 * len(label) + 1, _BLANK)
    states[1::2] = label
    return states


def _previous(scores: Array, skips: Array) -> Array:
    """Log-sum over the states that each state can be reached from: itself, one and two before.

    Two before where ``skips`` holds: onto a symbol, from another symbol.
    """
    one, two = np.full_like(scores, -np.inf), np.full_like(scores, -np.inf)
    one[1:] = scores[:-1]
    two[2:] = scores[:-2]
    return np.logaddexp(np.logaddexp(scores, one), np.where(skips, two, -np.inf))


def _forward(emitted: Array, states: Array) -> Array:
    """Log-probability of all paths to each time and state, the emission there included."""
    skips = np.zeros(len(states), bool)
    skips[2:] = (states[2:] != _BLANK) & (states[2:] != states[:-2])
    scores = np.full(emitted.shape, -np.inf, emitted.dtype)
    scores[0, :2] = emitted[0, :2]
    for time in range(1, len(emitted)):
        scores[time] = _previous(scores[time - 1], skips) + emitted[time]
    return scores


def sequence_loss(log_probabilities: Array, label: tuple[int, ...]) -> tuple[float, Array]:
    """Minus the log-probability of a label over (T, A), and how often each symbol is expected.

    The second result is the probability, given the label, of each time's symbol: minus the
    gradient of the loss for the log-probabilities.
    """
    states = _with_blanks(label)
    emitted = log_probabilities[:, states]
    before = _forward(emitted, states)
    # The same from the end: a reversed label over reversed time.
    after = _forward(emitted[::-1, ::-1], states[::-1])[::-1, ::-1]
    log_total = float(np.logaddexp.reduce(before[-1, -2:]))
    expected = np.zeros_like(log_probabilities)
    if log_total > -np.inf:
        # Both scores hold the emission; it counts once.
        through = np.where(emitted == -np.inf, -np.inf, before + after - emitted - log_total)
        np.add.at(expected.T, states, np.exp(through).T)
    return -log_total, expected


# --- the loss of a batch --------------------------------------------------------------------------


def _check(
    descriptor: CTCLoss, algorithm: int, probs_desc: Tensor, gradients_desc: Tensor
) -> None:
    if algorithm not in tuple(CTCLossAlgo):
        raise bad_param(f"algo is {algorithm}, must be 0 or 1")
    if len(probs_desc.shape) != 3:
        raise bad_param(f"probs has shape {probs_desc.shape}, must be (T, N, A)")
    if gradients_desc.shape != probs_desc.shape or gradients_desc.dtype != probs_desc.dtype:
        raise bad_param("gradients must have the shape and data type of probs")
    if probs_desc.dtype != descriptor.compute_type:
        raise bad_param(
            f"probs is {probs_desc.dtype.name}, computed in {descriptor.compute_type.name}"
        )


def _log_probabilities(descriptor: CTCLoss, values: Array) -> Array:
    if descriptor.normalization == LossNormalizationMode.NONE:
        return np.log(values)
    shifted = values - values.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@dataclass
class _Batch:
    """Labels and lengths as the caller has them."""

    labels: int
    label_lengths: tuple[int, ...]
    input_lengths: tuple[int, ...]

    def label(self, sequence: int) -> tuple[int, ...]:
        """The symbols of one sequence."""
        skipped = 4 * sum(self.label_lengths[:sequence])
        count = self.label_lengths[sequence]
        return read_array(self.labels + skipped, ctypes.c_int, count, "labels") if count else ()


def _batch(
    probs_desc: Tensor,
    labels: int,
    label_lengths: int,
    input_lengths: int,
    longest: int = 2**31 - 1,
) -> _Batch:
    steps, count, _ = probs_desc.shape
    lengths = read_array(label_lengths, ctypes.c_int, count, "labelLengths")
    times = read_array(input_lengths, ctypes.c_int, count, "inputLengths")
    if min(lengths) < 0 or max(lengths) > longest or min(times) < 1 or max(times) > steps:
        raise bad_param(f"label lengths {lengths}, input lengths {times}, steps {steps}")
    return _Batch(labels, lengths, times)


def _losses(
    descriptor: CTCLoss,
    probs_desc: Tensor,
    probs: int,
    batch: _Batch,
    costs: int,
    gradients_desc: Tensor,
    gradients: int,
) -> None:
    """``costs[n]`` is minus label n's log-probability; ``gradients`` its gradient for probs.

    As in cuDNN, a label that no alignment fits costs 0, and has no gradients or zeros, also behind
    its input's end, where gradients of other labels are left as they are.
    """
    values = load(probs, probs_desc, "probs")
    logs = _log_probabilities(descriptor, values)
    count = probs_desc.shape[1]
    out = view(costs, Tensor(probs_desc.dtype, (count,), (1,)), "costs")
    slopes = view(gradients, gradients_desc, "gradients") if gradients else None
    for n, steps in enumerate(batch.input_lengths):
        label = batch.label(n)
        if _needed_steps(label) > steps:
            out[n] = 0
            if slopes is not None and descriptor.gradient_mode == CTCGradMode.ZERO_OOB_GRADIENTS:
                slopes[:, n] = 0
            continue
        out[n], expected = sequence_loss(logs[:steps, n], label)
        if slopes is None:
            continue
        if descriptor.normalization == LossNormalizationMode.NONE:
            store(slopes[:steps, n], -expected / values[:steps, n])
        else:
            store(slopes[:steps, n], np.exp(logs[:steps, n]) - expected)


def _needed_steps(label: tuple[int, ...]) -> int:
    """A step for each symbol, and for a blank between equal ones."""
    return len(label) + sum(one == next_one for one, next_one in pairwise(label))


def _workspace_size(descriptor: CTCLoss, probs_desc: Tensor, longest: int) -> int:
    """A score for each time and state of all sequences; this library puts nothing there."""
    item = 8 if descriptor.compute_type == DataType.DOUBLE else 4
    return item * probs_desc.shape[0] * probs_desc.shape[1] * (2 * longest + 1)


@implements("cudnnGetCTCLossWorkspaceSize")
def get_workspace_size(
    handle: Handle,
    probs_desc: Tensor,
    gradients_desc: Tensor,
    labels: int,
    label_lengths: int,
    input_lengths: int,
    algorithm: int,
    descriptor: CTCLoss,
    size: int,
) -> None:
    """Bytes of workspace for cudnnCTCLoss."""
    _check(descriptor, algorithm, probs_desc, gradients_desc)
    longest = max(_batch(probs_desc, labels, label_lengths, input_lengths).label_lengths)
    nbytes = _workspace_size(descriptor, probs_desc, longest)
    write(size, ctypes.c_size_t, nbytes, "sizeInBytes")


@implements("cudnnGetCTCLossWorkspaceSize_v8")
def get_workspace_size_v8(
    handle: Handle,
    algorithm: int,
    descriptor: CTCLoss,
    probs_desc: Tensor,
    gradients_desc: Tensor,
    size: int,
) -> None:
    """Bytes of workspace for cudnnCTCLoss_v8, for labels of up to the longest length."""
    _check(descriptor, algorithm, probs_desc, gradients_desc)
    nbytes = _workspace_size(descriptor, probs_desc, descriptor.max_label_length)
    write(size, ctypes.c_size_t, nbytes, "sizeInBytes")


@implements("cudnnCTCLoss")
def ctc_loss(
    handle: Handle,
    probs_desc: Tensor,
    probs: int,
    labels: int,
    label_lengths: int,
    input_lengths: int,
    costs: int,
    gradients_desc: Tensor,
    gradients: int,
    algorithm: int,
    descriptor: CTCLoss,
    workspace: int,
    size: int,
) -> None:
    """Losses and gradients of N sequences; the two algorithms differ in their speed alone."""
    _check(descriptor, algorithm, probs_desc, gradients_desc)
    batch = _batch(probs_desc, labels, label_lengths, input_lengths)
    _losses(descriptor, probs_desc, probs, batch, costs, gradients_desc, gradients)


@implements("cudnnCTCLoss_v8")
def ctc_loss_v8(
    handle: Handle,
    algorithm: int,
    descriptor: CTCLoss,
    probs_desc: Tensor,
    probs: int,
    labels: int,
    label_lengths: int,
    input_lengths: int,
    costs: int,
    gradients_desc: Tensor,
    gradients: int,
    size: int,
    workspace: int,
) -> None:
    """The same with labels and lengths on the device, which is the host here."""
    _check(descriptor, algorithm, probs_desc, gradients_desc)
    longest = descriptor.max_label_length  # cuDNN would read past its workspace
    batch = _batch(probs_desc, labels, label_lengths, input_lengths, longest)
    _losses(descriptor, probs_desc, probs, batch, costs, gradients_desc, gradients)
