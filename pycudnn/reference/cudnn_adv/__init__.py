"""cudnn_adv.h: recurrent networks, sequences and multi-head attention. One module for each group of
functions."""

from __future__ import annotations

from . import rnn_data, rnn_descriptors, sequence

__all__ = ["rnn_data", "rnn_descriptors", "sequence"]
