"""Running an execution plan: its operands are checked against the tensors of its graph."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import BackendAttributeName as A
from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.abi.cudnn_enums import DataType
from pycudnn.cudnn import _objects
from pycudnn.cudnn._objects import require
from pycudnn.cudnn.graph.descriptor import BackendDescriptor, ByValue, Owner
from pycudnn.cudnn.handle import Handle
from pycudnn.errors import LibraryMismatch


def check_stored(dtype: DataType, what: str) -> None:
    """ValueError for a type that no operand can be of: cuDNN packs eight booleans into a byte."""
    if dtype == DataType.BOOLEAN:
        raise ValueError(
            f"{what} is of bool, so it must be virtual: used by another operation, and no output"
        )


class Layout(_core.TensorLike):
    """Shape, strides and data type of a tensor of a graph: what its memory must be like."""

    def __init__(
        self,
        uid: int,
        name: str,
        dtype: DataType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        *,
        alignment: int = 1,
        alias: int | None = None,
        by_value: bool = False,
    ) -> None:
        self.uid = uid
        self.name = name
        self.by_value = by_value  # its memory is the host's
        check_stored(dtype, f"tensor {name}")
        self.alignment = alignment  # bytes
        self.alias = alias  # unique id of the input whose memory this output may share
        self._lay_out(dtype, shape, strides, dtypes.item_bytes(dtype), 0)

    def __repr__(self) -> str:
        dtype = dtypes.name(self.dtype_code)
        return f"tensor {self.name} (shape={self.shape}, strides={self.strides}, dtype={dtype})"


def layouts_of(plan: Owner) -> dict[int, Layout]:
    """The tensors with memory of their own that a plan's graph was made of, by unique id."""
    found = {}
    for owner in plan.walk():
        has = owner.contents
        if owner.kind == K.TENSOR_DESCRIPTOR and has.get(A.TENSOR_IS_VIRTUAL) != (True,):
            (uid,), (code,) = has[A.TENSOR_UNIQUE_ID], has[A.TENSOR_DATA_TYPE]
            shape, strides = has[A.TENSOR_DIMENSIONS], has[A.TENSOR_STRIDES]
            (alignment,) = has.get(A.TENSOR_BYTE_ALIGNMENT, (1,))
            found[uid] = Layout(
                uid, str(uid), DataType(code), shape, strides, alignment=alignment,
                by_value=has.get(A.TENSOR_IS_BY_VALUE) == (True,),
            )  # fmt: skip
    return found


def bind(
    call: _core.ColdCall,
    layouts: Iterable[Layout],
    values: Mapping[int, Any],
    written: frozenset[int] | None = None,
) -> list[int]:
    """Checked addresses of the operands; ``written`` are the ids of outputs, None: unknown.

    ValueError names a tensor that has no operand, an operand that has no tensor, and an output
    that shares memory with another operand.
    """
    layouts = list(layouts)
    strange = set(values) - {layout.uid for layout in layouts}
    if strange:
        raise ValueError(f"this plan has no tensors with the unique ids {sorted(strange)}")
    addresses = []
    for layout in layouts:
        value = values.get(layout.uid)
        if value is None:
            raise ValueError(f"{layout!r} needs an operand")
        if layout.by_value:
            if not isinstance(value, ByValue) or value.dtype != layout.dtype_code:
                wanted = f"a ByValue of {dtypes.name(layout.dtype_code)}"
                raise TypeError(f"tensor {layout.name} must be {wanted}, got {value!r}")
            addresses.append(value.address)
        elif isinstance(value, ByValue):
            raise TypeError(f"tensor {layout.name} must be memory, got {value!r}")
        else:
            # What overlaps itself is an input that repeats, or else no kernel could write it.
            writes = not layout.overlaps_itself if written is None else layout.uid in written
            name = f"tensor {layout.name}"
            addresses.append(
                call.operand(value, name, writes, layout, alignment=layout.alignment)
            )
    if written is not None:
        _check_overlaps(layouts, addresses, written)
    return addresses


def _check_overlaps(layouts: list[Layout], addresses: list[int], written: frozenset[int]) -> None:
    """A kernel may write to an output before it has read all of its inputs."""
    placed = list(zip(layouts, addresses, strict=True))
    for (first, begin), (second, other) in itertools.combinations(placed, 2):
        if begin >= other + second.extent or other >= begin + first.extent:
            continue
        if not {first.uid, second.uid} & written:
            continue
        if first.alias == second.uid or second.alias == first.uid:
            continue
        raise ValueError(f"{first!r} shares memory with {second!r}, and one of them is an output")


def _opened(handle: Any, plan: Any, pack: Any) -> tuple[Owner, Owner]:
    require(handle, Handle, "handle")
    for item, kind, name in (
        (plan, K.EXECUTION_PLAN_DESCRIPTOR, "plan"),
        (pack, K.VARIANT_PACK_DESCRIPTOR, "pack"),
    ):
        require(item, BackendDescriptor, name)
        if item.kind != kind:
            raise TypeError(f"{name} must be a {kind.name}, got a {item.kind.name}")
        if item.library is not handle.library:
            raise LibraryMismatch(
                f"{name} is of {item.library!r}, the handle of {handle.library!r}"
            )
        if not item.finalized:
            raise ValueError(f"{name} must be finalized first: {item!r}")
    return plan._open(), pack._open()


def _check_pack(call: _core.ColdCall, plan: BackendDescriptor, pack: Owner) -> None:
    """A variant pack holds addresses only: compare what they were made of with the plan."""
    layouts = layouts_of(plan._open())
    if not layouts:
        raise ValueError(
            "the plan was not made from a graph here, so its tensors are unknown: "
            "restore it with ExecutionPlan.from_json"
        )
    uids = pack.contents.get(A.VARIANT_PACK_UNIQUE_IDS, ())
    memory = pack.contents.get(A.VARIANT_PACK_DATA_POINTERS, ())
    if len(uids) != len(memory) or len(set(uids)) != len(uids):
        raise ValueError(f"the pack has {len(memory)} data pointers for the unique ids {uids}")
    bind(call, layouts.values(), dict(zip(uids, memory, strict=True)))
    (workspace,) = pack.contents.get(A.VARIANT_PACK_WORKSPACE, (None,))
    check_workspace(call, workspace, plan.get(A.EXECUTION_PLAN_WORKSPACE_SIZE) or 0)


def check_workspace(call: _core.ColdCall, workspace: Any, needed: int) -> int:
    """Address of a workspace; ValueError unless it has the bytes needed. None has none."""
    return _objects.workspace(call, workspace, needed)[0]


def keep_in_capture(handle: Handle, *things: Any) -> None:
    """While a stream is captured, its graph keeps what the captured work needs."""
    if handle.stream.capturing:
        for thing in things:
            handle.stream.keep_alive(thing)


def execute(handle: Handle, plan: BackendDescriptor, pack: BackendDescriptor) -> None:
    """Run a plan on the memory of a variant pack (cudnnBackendExecute).

    ValueError, TypeError or LibraryMismatch if an operand of the pack is missing, or is not as its
    tensor says in size, data type, side or device, or if the workspace is too small.
    """
    plan_owner, pack_owner = _opened(handle, plan, pack)
    with _core.ColdCall(handle.library, handle) as call:
        _check_pack(call, plan, pack_owner)
        keep_in_capture(handle, plan_owner)
        call("cudnnBackendExecute", handle, plan_owner, pack_owner)


def get_execution_plan_workspace_size(
    handle: Handle, plan: BackendDescriptor, pack: BackendDescriptor
) -> int:
    """Bytes of workspace for a plan with a variant pack (cudnnGetExecutionPlanWorkspaceSize).

    FunctionNotFound before cuDNN 9.23.
    """
    plan_owner, pack_owner = _opened(handle, plan, pack)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetExecutionPlanWorkspaceSize",
            handle, plan_owner, pack_owner, ctypes.byref(size),
        )  # fmt: skip
    return size.value


def _cuda_graph(
    function: str, handle: Handle, plan: BackendDescriptor, pack: BackendDescriptor, graph: Any
) -> None:
    if type(graph).__name__ not in ("CUgraph", "cudaGraph_t") or not int(graph):
        raise TypeError(f"graph must be a CUgraph or cudaGraph_t of cuda-python, got {graph!r}")
    plan_owner, pack_owner = _opened(handle, plan, pack)
    with _core.ColdCall(handle.library, handle) as call:
        _check_pack(call, plan, pack_owner)
        call(function, handle, plan_owner, pack_owner, int(graph))


def populate_cuda_graph(
    handle: Handle, plan: BackendDescriptor, pack: BackendDescriptor, graph: Any
) -> None:
    """Add a plan's work to an empty CUDA graph (cudnnBackendPopulateCudaGraph).

    ``graph`` is a cuda-python CUgraph or cudaGraph_t. Plan, pack and memory must outlive the graph:
    cuda-python's graph cannot keep them. The engine must have the behaviour note
    SUPPORTS_CUDA_GRAPH_NATIVE_API, or CudnnNotSupported.
    """
    _cuda_graph("cudnnBackendPopulateCudaGraph", handle, plan, pack, graph)


def update_cuda_graph(
    handle: Handle, plan: BackendDescriptor, pack: BackendDescriptor, graph: Any
) -> None:
    """Put other operands into a graph of ``populate_cuda_graph`` (cudnnBackendUpdateCudaGraph)."""
    _cuda_graph("cudnnBackendUpdateCudaGraph", handle, plan, pack, graph)
