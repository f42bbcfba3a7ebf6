"""Which convolution algorithm to run: ``cudnn.find_algorithm`` asked as the layers need it."""

from __future__ import annotations

from typing import Any, NamedTuple

from layers.context import CudaContext
from pycudnn import config, cudnn

DIRECTIONS = ("forward", "backward_data", "backward_filter")
SEARCHES = ("heuristic", "find")
WORKSPACE_LIMIT = 256 << 20  # bytes, where nothing else is said


class Choice(NamedTuple):
    """An algorithm of one direction and the bytes of workspace it needs."""

    algorithm: int
    workspace: int


def choose(
    context: CudaContext,
    direction: str,
    descriptors: tuple[Any, Any, Any, Any],
    *,
    search: str = "heuristic",
    workspace_limit: int | None = None,
    deterministic: bool | None = None,
) -> Choice:
    """Choose the algorithm for one direction of one convolution.

    ``direction`` is one of DIRECTIONS, ``descriptors`` are that direction's four in C order, the
    convolution third; the rest as in ``cudnn.find_algorithm``, but for a workspace limit of 256 MiB
    where neither the argument nor ``pycudnn.config`` gives one. Raises NoAlgorithm where the limit
    leaves none.
    """
    if workspace_limit is None:
        workspace_limit = config.workspace_limit
    if workspace_limit is None:
        workspace_limit = WORKSPACE_LIMIT
    records = cudnn.find_algorithm(
        direction, context.cudnn, *descriptors,
        search=search, workspace_limit=workspace_limit, deterministic=deterministic,
    )  # fmt: skip
    math_type = descriptors[2].math_type
    record = cudnn.select_algorithm(
        [each for each in records if each.math_type == math_type] or records,
        workspace_limit=workspace_limit,
        deterministic=deterministic,
    )
    needed = getattr(cudnn, f"get_convolution_{direction}_workspace_size")(
        context.cudnn, *descriptors, record.algorithm
    )
    return Choice(record.algorithm, needed)
