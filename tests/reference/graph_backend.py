"""The graph API through ctypes: descriptors with their attributes by name, and graphs of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from c_library import NUMPY_TYPES, CLibrary, Memory, packed

from pycudnn.abi.cudnn_enums import BackendAttributeName as Name
from pycudnn.abi.cudnn_enums import BackendAttributeType as Type
from pycudnn.abi.cudnn_enums import BackendDescriptorType as Kind
from pycudnn.abi.cudnn_enums import BackendHeurMode as Mode
from pycudnn.abi.cudnn_enums import BackendKnobType, DataType
from pycudnn.abi.types import HANDLES

C_TYPES: dict[int, Any] = {
    Type.BOOLEAN: ctypes.c_bool,
    Type.INT64: ctypes.c_int64,
    Type.FLOAT: ctypes.c_float,
    Type.DOUBLE: ctypes.c_double,
    Type.CHAR: ctypes.c_char,
    Type.HANDLE: ctypes.c_void_p,
    Type.VOID_PTR: ctypes.c_void_p,
    Type.BACKEND_DESCRIPTOR: ctypes.c_void_p,
}


class Backend:
    """One descriptor. `set` and `finalize` insist on success, `try_...` return the status."""

    def __init__(self, library: CLibrary, kind: str, prefix: str | None = None) -> None:
        self.library, self.prefix = library, prefix or f"{kind}_"
        self.pointer = HANDLES["cudnnBackendDescriptor_t"]()
        self.kind = Kind[f"{kind}_DESCRIPTOR"]
        library.check("cudnnBackendCreateDescriptor", self.kind, ctypes.byref(self.pointer))

    @property
    def address(self) -> int:
        return ctypes.cast(self.pointer, ctypes.c_void_p).value

    def try_set(self, name: str, type_: int, *values: Any) -> int:
        plain = [value.address if isinstance(value, Backend) else value for value in values]
        array = (C_TYPES.get(type_, ctypes.c_int) * max(1, len(plain)))(*plain)
        return self.library.cudnnBackendSetAttribute(
            self.pointer, Name[self.prefix + name], type_, len(plain), array
        )

    def set(self, name: str, type_: int, *values: Any) -> Backend:
        status = self.try_set(name, type_, *values)
        assert status == 0, f"{self.prefix}{name}: {status}, {self.library.last_error()}"
        return self

    def set_array(self, name: str, type_: int, array: Any) -> Backend:
        arguments = self.pointer, Name[self.prefix + name], type_, len(array), array
        self.library.check("cudnnBackendSetAttribute", *arguments)
        return self

    def try_finalize(self) -> int:
        return self.library.cudnnBackendFinalize(self.pointer)

    def finalize(self) -> Backend:
        self.library.check("cudnnBackendFinalize", self.pointer)
        return self

    def count(self, name: str, type_: int) -> int:
        """How many elements the attribute has."""
        count = ctypes.c_int64(-1)
        arguments = self.pointer, Name[self.prefix + name], type_, 0, ctypes.byref(count), None
        self.library.check("cudnnBackendGetAttribute", *arguments)
        return count.value

    def try_get(self, name: str, type_: int, array: Any, requested: int) -> tuple[int, int]:
        """Status, and how many elements came."""
        count = ctypes.c_int64(-1)
        arguments = self.pointer, Name[self.prefix + name], type_, requested
        status = self.library.cudnnBackendGetAttribute(*arguments, ctypes.byref(count), array)
        return status, count.value

    def get(self, name: str, type_: int, requested: int = 1) -> list[Any]:
        array = (C_TYPES.get(type_, ctypes.c_int) * requested)()
        status, count = self.try_get(name, type_, array, requested)
        assert status == 0, f"{self.prefix}{name}: {status}, {self.library.last_error()}"
        return list(array)[:count]

    def held(self, name: str, kind: str, requested: int = 1) -> list[Backend]:
        """The descriptors in an attribute, as new ones of our own."""
        copies = [Backend(self.library, kind) for _ in range(requested)]
        array = (ctypes.c_void_p * requested)(*(copy.address for copy in copies))
        status, count = self.try_get(name, Type.BACKEND_DESCRIPTOR, array, requested)
        assert status == 0, f"{self.prefix}{name}: {status}, {self.library.last_error()}"
        return copies[:count]

    def __del__(self) -> None:
        if self.pointer:
            self.library.cudnnBackendDestroyDescriptor(self.pointer)


class GraphLibrary:
    """Makers of finalized descriptors on one library, with a handle."""

    def __init__(self, library: CLibrary) -> None:
        self.library, self.handle = library, library.create("")
        self._uid = 0

    def new(self, kind: str, prefix: str | None = None) -> Backend:
        return Backend(self.library, kind, prefix)

    def tensor(
        self,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        data_type: int = DataType.FLOAT,
        virtual: bool = False,
        by_value: bool = False,
        uid: int | None = None,
    ) -> Backend:
        self._uid += 1
        size = np.dtype(NUMPY_TYPES.get(data_type, np.bool_)).itemsize
        tensor = self.new("TENSOR")
        tensor.uid = self._uid if uid is None else uid
        tensor.shape, tensor.strides = tuple(shape), tuple(strides or packed(tuple(shape)))
        tensor.data_type = data_type
        tensor.set("DATA_TYPE", Type.DATA_TYPE, data_type)
        tensor.set("DIMENSIONS", Type.INT64, *tensor.shape)
        tensor.set("STRIDES", Type.INT64, *tensor.strides)
        tensor.set("UNIQUE_ID", Type.INT64, tensor.uid)
        tensor.set("BYTE_ALIGNMENT", Type.INT64, size)
        tensor.set("IS_VIRTUAL", Type.BOOLEAN, virtual)
        tensor.set("IS_BY_VALUE", Type.BOOLEAN, by_value)
        return tensor.finalize()

    def convolution(
        self,
        before: Sequence[int],
        behind: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        mode: int = 1,
        compute: int = DataType.FLOAT,
    ) -> Backend:
        ones = (1,) * len(before)
        conv = self.new("CONVOLUTION").set("COMP_TYPE", Type.DATA_TYPE, compute)
        conv.set("CONV_MODE", Type.CONVOLUTION_MODE, mode)
        conv.set("SPATIAL_DIMS", Type.INT64, len(before))
        conv.set("PRE_PADDINGS", Type.INT64, *before)
        conv.set("POST_PADDINGS", Type.INT64, *(before if behind is None else behind))
        conv.set("FILTER_STRIDES", Type.INT64, *(stride or ones))
        conv.set("DILATIONS", Type.INT64, *(dilation or ones))
        return conv.finalize()

    def operation(self, kind: str, prefix: str | None = None, **attributes: Any) -> Backend:
        """A finalized operation, of descriptors, lists of them, floats and (type, values...)."""
        operation = self.fill(self.new(f"OPERATION_{kind}", prefix), **attributes)
        return operation.finalize()

    @staticmethod
    def fill(descriptor: Backend, **attributes: Any) -> Backend:
        for name, value in attributes.items():
            if isinstance(value, Backend):
                descriptor.set(name, Type.BACKEND_DESCRIPTOR, value)
            elif isinstance(value, list):
                descriptor.set(name, Type.BACKEND_DESCRIPTOR, *value)
            elif isinstance(value, float):
                descriptor.set(name, Type.FLOAT, value)
            elif value is not None:
                descriptor.set(name, value[0], *value[1:])
        return descriptor

    def pointwise(self, mode: int, compute: int = DataType.FLOAT, **given: Any) -> Backend:
        """A pointwise operation: tensors XDESC, ..., and parameters such as SWISH_BETA=2.0."""
        own = {n: v for n, v in given.items() if isinstance(v, Backend) or n.startswith("ALPHA")}
        parameters = {name: value for name, value in given.items() if name not in own}
        settings = self.new("POINTWISE").set("MODE", Type.POINTWISE_MODE, mode)
        settings.set("MATH_PREC", Type.DATA_TYPE, compute)
        self.fill(settings, **parameters).finalize()
        return self.operation("POINTWISE", PW_DESCRIPTOR=settings, **own)

    def graph(self, *operations: Backend) -> Backend:
        graph = self.new("OPERATIONGRAPH")
        handle = ctypes.cast(self.handle, ctypes.c_void_p).value
        graph.set("HANDLE", Type.HANDLE, handle)
        return graph.set("OPS", Type.BACKEND_DESCRIPTOR, *operations).finalize()

    def engine(self, graph: Backend, index: int) -> Backend:
        engine = self.new("ENGINE").set("OPERATION_GRAPH", Type.BACKEND_DESCRIPTOR, graph)
        return engine.set("GLOBAL_INDEX", Type.INT64, index).finalize()

    def config(self, engine: Backend, **knobs: int) -> Backend:
        config = self.new("ENGINECFG").set("ENGINE", Type.BACKEND_DESCRIPTOR, engine)
        choices = []
        for name, value in knobs.items():
            choice = self.new("KNOB_CHOICE")
            choice.set("KNOB_TYPE", Type.KNOB_TYPE, BackendKnobType[name])
            choices.append(choice.set("KNOB_VALUE", Type.INT64, value).finalize())
        config.set("KNOB_CHOICES", Type.BACKEND_DESCRIPTOR, *choices)
        return config.finalize()

    def ranking(self, graph: Backend, mode: int = Mode.MODE_A) -> list[Backend]:
        heuristic = self.new("ENGINEHEUR").set("MODE", Type.HEUR_MODE, mode)
        heuristic.set("OPERATION_GRAPH", Type.BACKEND_DESCRIPTOR, graph).finalize()
        count = heuristic.count("RESULTS", Type.BACKEND_DESCRIPTOR)
        return heuristic.held("RESULTS", "ENGINECFG", count) if count else []

    def plan(self, config: Backend) -> Backend:
        plan = self.new("EXECUTION_PLAN")
        plan.set("HANDLE", Type.HANDLE, ctypes.cast(self.handle, ctypes.c_void_p).value)
        return plan.set("ENGINE_CONFIG", Type.BACKEND_DESCRIPTOR, config).finalize()

    def pack(self, data: dict[Backend, Any], workspace: int | None = None) -> Backend:
        pack = self.new("VARIANT_PACK")
        pack.set("UNIQUE_IDS", Type.INT64, *(tensor.uid for tensor in data))
        pack.set("DATA_POINTERS", Type.VOID_PTR, *(value.address for value in data.values()))
        return pack.set("WORKSPACE", Type.VOID_PTR, workspace).finalize()

    def try_execute(self, plan: Backend, pack: Backend) -> int:
        return self.library.cudnnBackendExecute(self.handle, plan.pointer, pack.pointer)

    def run(
        self,
        operations: Sequence[Backend],
        inputs: dict[Backend, Any],
        outputs: Sequence[Backend],
        engine: int = 0,
        **knobs: int,
    ) -> list[np.ndarray[Any, Any]]:
        """Compute a graph; the outputs as float64. Outputs among the inputs have a value before.

        Outputs and the workspace are filled with NaN, gaps between elements must stay so.
        """
        graph = self.graph(*operations)
        plan = self.plan(self.config(self.engine(graph, engine), **knobs))
        data = {tensor: Data(self.library, tensor, values) for tensor, values in inputs.items()}
        for tensor in outputs:
            if tensor not in data:
                data[tensor] = Data(self.library, tensor, None)
        size = plan.get("WORKSPACE_SIZE", Type.INT64)[0]
        workspace = Memory(self.library, np.full(size, 0xFF, np.uint8))
        status = self.try_execute(plan, self.pack(data, workspace.address if size else None))
        assert status == 0, f"execute: {status}, {self.library.last_error()}"
        return [data[tensor].read() for tensor in outputs]


class Data:
    """Memory of a tensor, with gaps that must stay as they are."""

    def __init__(self, library: CLibrary, tensor: Backend, values: Any) -> None:
        self.tensor = tensor
        dtype = np.dtype(NUMPY_TYPES.get(tensor.data_type, np.bool_))
        extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
        self.gap: Any = np.nan if dtype.kind not in "iub" else 1
        storage = np.full(extent, self.gap, dtype)
        if values is not None:
            self._logical(storage)[...] = np.asarray(values).astype(dtype)
        self.memory = Memory(library, storage)

    def _logical(self, storage: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        strides = [s * storage.itemsize for s in self.tensor.strides]
        return np.lib.stride_tricks.as_strided(storage, self.tensor.shape, strides)

    @property
    def address(self) -> int:
        return self.memory.address

    def read(self) -> np.ndarray[Any, Any]:
        storage = self.memory.read().copy()
        used = np.zeros(storage.shape, bool)
        self._logical(used)[...] = True
        gaps = storage[~used].astype(np.float64)
        np.testing.assert_array_equal(gaps, np.full(gaps.shape, self.gap, np.float64))
        return self._logical(storage).astype(np.float64)
