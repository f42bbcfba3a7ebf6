"""Why a backend descriptor of the reference library may answer otherwise than a real one."""

from __future__ import annotations

from pycudnn.abi.cudnn_enums import BackendDescriptorType as Kind
from pycudnn.abi.cudnn_enums import Status

# What the reference library lacks; the docstring of its cudnn_graph says so.
LACKING = (
    *(Kind.OPERATION_SIGNAL_DESCRIPTOR, Kind.RNG_DESCRIPTOR, Kind.OPERATION_RNG_DESCRIPTOR),
    *range(Kind.KERNEL_CACHE_DESCRIPTOR, Kind.OPERATION_ROPE_BWD_DESCRIPTOR + 1),
)


def graph_reason(case: str, here: int | str, there: int | str) -> str | None:
    """Why a status here may differ from that of the real library; None: it may not."""
    if case in {f"create {int(kind)}" for kind in LACKING}:
        return "not in the reference library"
    if case.startswith("wrong kind") and there in (Status.SUCCESS, "crash"):
        return "the real library takes a descriptor for one of another kind, or dies of it"
    if there == "crash":
        return "the real library dies of it"
    return None
