"""The execution plan and the variant pack, and executing one with the other."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import Status as CudnnStatus

from ..memory import raw, view, write
from ..runtime import Status, bad_param, find_object, implements
from . import serialization
from .descriptor import Descriptor, finalizes
from .engines import EngineConfig
from .handle import Handle
from .tensors import Array, Arrays, Node, Tensor


@dataclass(frozen=True)
class Plan:
    """A finalized execution plan."""

    config: EngineConfig


@dataclass(frozen=True)
class VariantPack:
    """A finalized variant pack: where the data lies."""

    pointers: dict[int, int]  # by unique id
    workspace: int


@finalizes("EXECUTION_PLAN")
def make_plan(descriptor: Descriptor) -> Plan:
    """A plan for an engine configuration, or the one that a JSON text describes."""
    source = descriptor.one("ENGINE_CONFIG")
    if source is None:
        text = descriptor.one("JSON_REPRESENTATION")
        if text is None:
            raise Status(
                CudnnStatus.BAD_PARAM_NOT_FINALIZED,
                "a plan needs an engine configuration or a JSON representation",
            )
        source = serialization.load(text, descriptor.one("HANDLE") or 0)
        descriptor.values["ENGINE_CONFIG"] = (source,)
    descriptor.values["JSON_REPRESENTATION"] = (serialization.dump(source),)
    descriptor.values["WORKSPACE_SIZE"] = (source.made.workspace_size,)
    return Plan(source.made)


@finalizes("VARIANT_PACK")
def make_pack(descriptor: Descriptor) -> VariantPack:
    """A pointer for each unique id. An id too many has none, and it is missed in executing."""
    pairs = zip(descriptor.all("UNIQUE_IDS"), descriptor.all("DATA_POINTERS"), strict=False)
    pointers = {uid: pointer or 0 for uid, pointer in pairs}
    return VariantPack(pointers, descriptor.one("WORKSPACE") or 0)


def _finalized(identifier: int, kind: str, not_finalized: int) -> Any:
    descriptor = find_object(identifier, Descriptor)
    if descriptor is None or descriptor.kind.name != kind:
        raise bad_param(f"{identifier:#x} is no live {kind} descriptor")
    if not descriptor.finalized:
        raise Status(not_finalized, f"the {kind} is not finalized")
    return descriptor.made


def _plan(identifier: int) -> Plan:
    plan: Plan = _finalized(identifier, "EXECUTION_PLAN", CudnnStatus.BAD_PARAM_NOT_FINALIZED)
    return plan


def _pack(identifier: int) -> VariantPack:
    pack: VariantPack = _finalized(identifier, "VARIANT_PACK", CudnnStatus.BAD_PARAM)
    return pack


@implements("cudnnGetExecutionPlanWorkspaceSize")
def workspace_size(handle: Handle, plan: int, pack: int, size: int) -> None:
    """The bytes that executing the plan takes; the same for every variant pack."""
    _pack(pack)
    config = _plan(plan).config
    write(size, ctypes.c_size_t, config.workspace_size, "workspaceSizeInBytes")


@implements("cudnnBackendExecute")
def execute(handle: Handle, plan: int, pack: int) -> None:
    """Compute the operations of the plan's graph, one after another."""
    if not plan or not pack:
        raise bad_param("the plan or the variant pack is NULL")
    config, variant = _plan(plan).config, _pack(pack)
    graph = config.engine.graph
    if config.workspace_size and not variant.workspace:
        raise bad_param(f"the plan needs a workspace of {config.workspace_size} bytes, got NULL")
    memory = {tensor.uid: _view(tensor, variant) for tensor in graph.real}
    places = config.places
    values: dict[int, Array] = {}  # of virtual tensors
    for node in graph.nodes:
        arithmetic = config.engine.arithmetic(node, config.parts)
        inputs = _inputs(node, memory, values, arithmetic.dtype)
        results = node.compute(inputs, arithmetic)
        for role, tensor in node.outputs.items():
            if not tensor.virtual:
                _store(memory[tensor.uid], results[role])
            elif tensor.uid in places:
                place = variant.workspace + places[tensor.uid]
                values[tensor.uid] = _kept(place, results[role], tensor)
            else:
                values[tensor.uid] = results[role]


def _view(tensor: Tensor, variant: VariantPack) -> Array:
    pointer = variant.pointers.get(tensor.uid)
    if not pointer:
        raise bad_param(f"the variant pack has no pointer for {tensor}")
    if pointer % tensor.alignment and not tensor.by_value:
        raise Status(
            CudnnStatus.BAD_PARAM_MISALIGNED_POINTER,
            f"{tensor} at {pointer:#x} is not aligned to {tensor.alignment} bytes",
        )
    return view(pointer, tensor, str(tensor))


def _inputs(
    node: Node, memory: dict[int, Array], values: dict[int, Array], dtype: np.dtype[Any]
) -> Arrays:
    """What the operation reads, by role, in the type to compute in."""
    tensors = {**node.inputs, **{role: node.outputs[role] for role in node.accumulates}}
    return {
        role: (values[tensor.uid] if tensor.virtual else memory[tensor.uid]).astype(
            dtype, copy=False
        )
        for role, tensor in tensors.items()
    }


def _kept(address: int, result: Array, tensor: Tensor) -> Array:
    """The result as it lies in the workspace."""
    place = np.ndarray(tensor.shape, np.float64, raw(address, 8 * result.size))
    np.copyto(place, result)
    return place


def _store(out: Array, result: Array) -> None:
    """Round to the stored type: integers to nearest and saturated, NaN 0; any not 0 is True."""
    if out.dtype.kind in "iu" and result.dtype.kind == "f":
        limits = np.iinfo(out.dtype)
        result = np.nan_to_num(np.clip(np.rint(result), limits.min, limits.max))
    elif out.dtype.kind == "b":
        result = result != 0
    np.copyto(out, result, casting="unsafe")
