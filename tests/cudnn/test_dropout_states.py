"""Dropout descriptors that go on with states, and what the library tells of them."""

from __future__ import annotations

import numpy as np
import pytest
from side import Side

from pycudnn import cudnn, from_numpy


@pytest.fixture
def side(context) -> Side:
    return Side(context)


def mask(side, dropout):
    """Which elements the next forward call keeps."""
    x, y = side.tensor(np.ones((1, 1, 64, 64))), side.blank((1, 1, 64, 64))
    reserve = side.scratch(cudnn.dropout_get_reserve_space_size(x.desc))
    cudnn.dropout_forward(side.handle, dropout, x.desc, x.data, y.desc, y.data, reserve)
    return y.read() > 0


def test_restored_states_go_on_where_they_were(side):
    dropout = cudnn.DropoutDescriptor(side.handle, 0.5, seed=7)
    mask(side, dropout)
    saved = from_numpy(
        dropout.states.numpy(side.context.stream), device=side.context.device,
        stream=side.context.stream,
    )  # fmt: skip
    second = mask(side, dropout)
    restored = cudnn.DropoutDescriptor(side.handle, 0.5, seed=7, states=saved)
    assert (mask(side, restored) == second).all()
    assert (mask(side, restored) != second).any()


def test_read_back(side):
    dropout = cudnn.DropoutDescriptor(side.handle, 0.25, seed=2**63 + 1)
    probability, states, seed = cudnn.get_dropout_descriptor(side.handle, dropout)
    assert (probability, states, seed) == (0.25, dropout.states.address, 2**63 + 1)
    with pytest.raises(TypeError, match="dropout must be a DropoutDescriptor, got 5"):
        cudnn.get_dropout_descriptor(side.handle, 5)


def test_states_must_be_large_enough(side):
    needed = cudnn.dropout_get_states_size(side.handle)
    short = side.scratch(needed - 1)
    with pytest.raises(ValueError, match=f"states needs {needed} bytes, got {needed - 1}"):
        cudnn.DropoutDescriptor(side.handle, 0.5, states=short)
    with pytest.raises(TypeError, match="states must be"):
        cudnn.DropoutDescriptor(side.handle, 0.5, states=5)
