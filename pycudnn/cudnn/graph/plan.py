"""Execution plans: what they need, running, timing, and to and from JSON."""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import BackendAttributeName as A
from pycudnn.abi.cudnn_enums import BackendAttributeType as T
from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.abi.cudnn_enums import DataType
from pycudnn.cudnn._objects import integer, integers, real, require
from pycudnn.cudnn.graph.descriptor import BackendDescriptor, ByValue, Owner
from pycudnn.cudnn.graph.execution import Layout, bind, check_workspace, keep_in_capture
from pycudnn.cudnn.graph.tensor import Tensor
from pycudnn.cudnn.graph.timing import time_call
from pycudnn.cudnn.handle import Handle

if TYPE_CHECKING:
    from pycudnn.cudnn.graph.engines import EngineConfig

_FORMAT = "pycudnn execution plan 1"


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _pointers(addresses: list[int]) -> Any:
    return (ctypes.c_void_p * len(addresses))(*addresses)


@dataclass(frozen=True)
class _Operand:
    """A tensor of a plan that has memory, or a value."""

    uid: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int
    written: bool
    alias: int | None
    value: float | None

    @classmethod
    def of(cls, tensor: Tensor) -> _Operand:
        return cls(
            tensor.uid, tensor.name, DataType(tensor.dtype).name, tensor.shape, tensor.strides,
            tensor.alignment, tensor.is_output, tensor.layout.alias, tensor.value,
        )  # fmt: skip

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> _Operand:
        """ValueError or TypeError for what ``asdict`` does not make."""
        shape = integers(content["shape"], "shape", 1)
        strides = integers(content["strides"], "strides", 0, len(shape))
        integer(content["uid"], "uid", -(2**63), 2**63 - 1)
        integer(content["alignment"], "alignment", 1)
        if content["alias"] is not None:
            integer(content["alias"], "alias", -(2**63), 2**63 - 1)
        if content["value"] is not None:
            real(content["value"], "value")
        if not shape or type(content["name"]) is not str or type(content["written"]) is not bool:
            raise ValueError("no shape, no name, or not said whether it is written")
        return cls(**{**content, "shape": shape, "strides": strides})

    @property
    def data_type(self) -> DataType:
        return DataType[self.dtype]

    @property
    def layout(self) -> Layout:
        return Layout(
            self.uid, self.name, self.data_type, self.shape, self.strides, alignment=self.alignment,
            alias=self.alias,
        )  # fmt: skip


class Operands:
    """The tensors of a plan by name: layouts of those with memory, the others' values."""

    def __init__(self, operands: Iterable[_Operand]) -> None:
        self.all = tuple(operands)
        with_memory = [operand for operand in self.all if operand.value is None]
        self.layouts = {operand.name: operand.layout for operand in with_memory}
        self.written = frozenset(operand.uid for operand in with_memory if operand.written)
        by_value = {
            operand.uid: ByValue(operand.value, operand.data_type)
            for operand in self.all
            if operand.value is not None
        }
        self._values = tuple(by_value.values())
        self.value_addresses = [value.address for value in self._values]
        uids = [*(operand.uid for operand in with_memory), *by_value]
        self.uids = (ctypes.c_int64 * len(uids))(*uids)

    @classmethod
    def of(cls, tensors: Iterable[Tensor]) -> Operands:
        """Those of a graph."""
        return cls(_Operand.of(tensor) for tensor in tensors if not tensor.is_virtual)


class ExecutionPlan:
    """What runs a graph on one kind of device; made by ``EngineConfig.plan`` or ``Graph.plan``.

    Attributes: ``handle``, ``descriptor``, ``config`` (None for a plan from JSON), and
    ``workspace_size``, the bytes that ``execute`` needs.
    """

    def __init__(
        self,
        handle: Handle,
        descriptor: BackendDescriptor,
        operands: Operands,
        *,
        config: EngineConfig | None = None,
    ) -> None:
        self.handle = handle
        self.descriptor = descriptor
        self.config = config
        self._operands = operands
        self.workspace_size = int(descriptor.get("EXECUTION_PLAN_WORKSPACE_SIZE"))

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the tensors that ``execute`` needs memory for."""
        return tuple(self._operands.layouts)

    def execute(self, operands: Mapping[Tensor | str, Any], workspace: Any = None) -> None:
        """Run on memory for each input and output, by tensor or name (cudnnBackendExecute).

        Operands are pycudnn buffers or arrays of others, as everywhere; ``workspace`` has at least
        ``workspace_size`` bytes. ValueError for one that is missing, unknown, too small or wrongly
        aligned, TypeError for another data type, LibraryMismatch for another side or device.
        """
        known = self._operands
        require(operands, Mapping, "operands")
        given = {self._layout(key).uid: value for key, value in operands.items()}
        if len(given) != len(operands):
            raise ValueError("operands must name each tensor once")
        handle = self.handle
        with _core.ColdCall(handle.library, handle) as call:
            addresses = bind(call, known.layouts.values(), given, known.written)
            addresses += known.value_addresses
            scratch = check_workspace(call, workspace, self.workspace_size)
            pack = Owner(handle.library, K.VARIANT_PACK_DESCRIPTOR)
            for name, kind, array in (
                (A.VARIANT_PACK_UNIQUE_IDS, T.INT64, known.uids),
                (A.VARIANT_PACK_DATA_POINTERS, T.VOID_PTR, _pointers(addresses)),
                (A.VARIANT_PACK_WORKSPACE, T.VOID_PTR, _pointers([scratch])),
            ):
                call("cudnnBackendSetAttribute", pack, name, kind, len(array), array)
            call("cudnnBackendFinalize", pack)
            keep_in_capture(handle, self)
            call("cudnnBackendExecute", handle, self.descriptor._open(), pack)

    def _layout(self, key: Any) -> Layout:
        if isinstance(key, Tensor) and (self.config is None or key.graph is self.config.graph):
            name = key.name
        elif isinstance(key, str):
            name = key
        else:
            raise TypeError(
                f"operands must have tensors of the graph or names as keys, got {key!r}"
            )
        layout = self._operands.layouts.get(name)
        if layout is None:
            known = ", ".join(self._operands.layouts)
            raise ValueError(f"operands must be of the tensors {known}; got {name!r}")
        return layout

    def time(
        self, operands: Mapping[Tensor | str, Any], workspace: Any = None, *,
        milliseconds: float = 20.0,
    ) -> float:  # fmt: skip
        """Microseconds of one execution, by events around as many as take ``milliseconds``.

        On a GPU it is the time of the kernels, not that of launching them (``time_call``).
        """
        return time_call(
            self.handle.stream, lambda: self.execute(operands, workspace), milliseconds
        )

    # ---- JSON ------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The plan as text: cuDNN's own JSON, and the tensors that ``execute`` checks against.

        For the same version of cuDNN and the same kind of device.
        """
        text = self.descriptor.get("EXECUTION_PLAN_JSON_REPRESENTATION")
        content = {"plan": text, "tensors": [asdict(operand) for operand in self._operands.all]}
        return json.dumps({"format": _FORMAT, "digest": _digest(content), **content})

    @classmethod
    def from_json(cls, handle: Handle, text: str) -> ExecutionPlan:
        """The plan that ``to_json`` wrote; its operands go by name.

        ValueError for text that it did not write, or that was changed. CudnnError for a plan of
        another cuDNN. cuDNN trusts its JSON, and a digest keeps out damage, not malice: read no
        plans of people whose code you would not run.
        """
        require(handle, Handle, "handle")
        require(text, str, "text")
        try:
            content = json.loads(text)
            kind, digest = content.pop("format"), content.pop("digest")
            if kind != _FORMAT or digest != _digest(content):
                raise ValueError("another format or another digest")
            plan = content["plan"]
            operands = Operands(_Operand.of_json(each) for each in content["tensors"])
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"text must be what to_json wrote, got {text[:60]!r}") from error
        descriptor = BackendDescriptor(
            K.EXECUTION_PLAN_DESCRIPTOR,
            {"EXECUTION_PLAN_HANDLE": handle, "EXECUTION_PLAN_JSON_REPRESENTATION": plan},
            library=handle.library,
        )
        return cls(handle, descriptor.finalize(), operands)

    def __repr__(self) -> str:
        state = "closed, " if self.descriptor.closed else ""
        tensors = ", ".join(self._operands.layouts)
        return f"ExecutionPlan({state}{tensors}; workspace={self.workspace_size} bytes)"
