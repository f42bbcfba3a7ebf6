"""cudnn_adv.h: CTC loss, recurrent networks, sequences and multi-head attention. One module for
each group of functions."""

from __future__ import annotations

from . import attention, attention_descriptors, ctc, rnn_data, rnn_descriptors, sequence

__all__ = ["attention", "attention_descriptors", "ctc", "rnn_data", "rnn_descriptors", "sequence"]
