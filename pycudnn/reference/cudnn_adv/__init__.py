"""cudnn_adv.h: CTC loss, recurrent networks, sequences and multi-head attention. One module for each
group of functions."""

from __future__ import annotations

from . import ctc, rnn_data, rnn_descriptors, sequence

__all__ = ["ctc", "rnn_data", "rnn_descriptors", "sequence"]
