"""Which convolution algorithm to run: one search per convolution, remembered for the process."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from layers.context import CudaContext
from pycudnn import cudnn

DIRECTIONS = ("forward", "backward_data", "backward_filter")
SEARCHES = ("heuristic", "find")


class Choice(NamedTuple):
    """An algorithm of one direction and the bytes of workspace it needs."""

    algorithm: int
    workspace: int


_choices: dict[Hashable, Choice] = {}


def choose(
    context: CudaContext,
    direction: str,
    descriptors: tuple[Any, Any, Any, Any],
    *,
    search: str = "heuristic",
    workspace_limit: int | None = None,
    deterministic: bool = False,
) -> Choice:
    """Choose the algorithm for one direction of one convolution.

    ``direction`` is one of DIRECTIONS, ``descriptors`` are that direction's four in C order, the
    convolution third. ``search`` is ``"heuristic"`` (cudnnGet...Algorithm_v7, no time spent) or
    ``"find"`` (cudnnFind...Algorithm, runs them all once). Searched once for each combination of
    everything that the answer depends on. Raises NoAlgorithm where the limit leaves none.
    """
    device = context.device
    first, second, convolution, last = descriptors
    key = (
        direction, search, workspace_limit, deterministic, device.backend, device.index,
        *((each.shape, each.strides, each.dtype) for each in (first, second, last)),
        convolution.padding, convolution.stride, convolution.dilation, convolution.groups,
        convolution.mode, convolution.math_type, convolution.compute_type,
    )  # fmt: skip
    if key not in _choices:
        function = (
            f"get_convolution_{direction}_algorithm_v7"
            if search == "heuristic"
            else f"find_convolution_{direction}_algorithm"
        )
        records = getattr(cudnn, function)(context.cudnn, *descriptors)
        record = cudnn.select_algorithm(
            [each for each in records if each.math_type == convolution.math_type] or records,
            workspace_limit=workspace_limit,
            deterministic=deterministic,
        )
        needed = getattr(cudnn, f"get_convolution_{direction}_workspace_size")(
            context.cudnn, *descriptors, record.algorithm
        )
        _choices[key] = Choice(record.algorithm, needed)
    return _choices[key]
