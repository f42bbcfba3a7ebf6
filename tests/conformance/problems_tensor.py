"""Problems for the functions that add and set tensors."""

from __future__ import annotations

from harness import FLOATING, Case, problem

from pycudnn import cudnn


@problem("cudnnAddTensor")
def add_tensor(case: Case) -> None:
    dtype = case.choose(*FLOATING)
    shape = case.shape()
    a_shape = tuple(1 if case.rng.integers(2) else size for size in shape)
    a, c = case.tensor(a_shape, dtype), case.tensor(shape, dtype)
    alpha, beta = case.choose((1.0, 1.0), (0.5, 2.0), (-1.0, 0.0))
    cudnn.add_tensor(case.handle, a.desc, a.data, c.desc, c.data, alpha=alpha, beta=beta)
    case.check(c, alpha * a.values + beta * c.values, dtype)
