"""Do tensors share memory? Against counting the bytes of each element."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import cudnn
from pycudnn.sharing import Places, overlap, overlaps_itself


def offsets(shape, strides):
    """Of all elements, from the first one."""
    steps = [np.arange(size) * step for size, step in zip(shape, strides, strict=True)]
    return sum(np.meshgrid(*steps, indexing="ij")).ravel()


def random_layout(rng, top):
    ndim = int(rng.integers(1, 5))
    return tuple(rng.integers(1, 5, ndim).tolist()), tuple(rng.integers(0, top, ndim).tolist())


def test_one_tensor_against_counting(rng):
    found = set()
    for _ in range(2000):
        shape, strides = random_layout(rng, 30)
        places = offsets(shape, strides)
        want = len(set(places)) < len(places)
        assert overlaps_itself(shape, strides) == want, (shape, strides)
        found.add((want, strides == tuple(sorted(strides, reverse=True))))
    assert found == {(False, False), (False, True), (True, False), (True, True)}


def test_two_tensors_against_counting(rng):
    found = set()
    for _ in range(2000):
        pair, used = [], []
        for item in rng.choice([1, 2, 4], 2).tolist():
            shape, strides = random_layout(rng, 12)
            address = 4096 + item * int(rng.integers(0, 30))
            strides = tuple(step * item for step in strides)
            pair.append(Places(address, shape, strides, item))
            starts = address + offsets(shape, strides)
            used.append({start + byte for start in starts for byte in range(item)})
        want = bool(used[0] & used[1])
        assert overlap(*pair) == want, pair
        found.add((want, min(used[0]) <= max(used[1]) and min(used[1]) <= max(used[0])))
    assert found == {(False, False), (False, True), (True, True)}


@pytest.mark.parametrize(
    ("shape", "strides", "want"),
    [
        ((2, 3, 4, 5), (60, 20, 5, 1), False),
        ((2, 3, 4, 5), (60, 1, 15, 3), False),
        ((2, 3, 4, 5), (1, 1, 1, 1), True),
        ((2, 3, 4, 5), (59, 20, 5, 1), True),
        ((1, 1, 1, 1), (1, 1, 1, 1), False),
        ((1, 64, 1, 1), (1, 1, 1, 1), False),
        ((1, 64, 2, 1), (1, 1, 1, 1), True),
        ((1, 1, 2, 3), (1, 1, 3, 2), False),  # 0 2 4 3 5 7
        ((1, 1, 3, 4), (1, 1, 3, 2), True),
    ],
)
def test_descriptors(backend, shape, strides, want):
    desc = cudnn.TensorDescriptor(shape, strides=strides, library=backend)
    assert desc.overlaps_itself == want
