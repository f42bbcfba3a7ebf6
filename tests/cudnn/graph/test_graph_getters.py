"""E3: cudnnBackendGetAttribute of whole graphs writes the elements it was asked for, no more."""

from __future__ import annotations

import ctypes
from ctypes import byref

import pytest
from canaries import Call, Canaries, check_getter, check_lacking

from pycudnn import CudaContext, empty, raw
from pycudnn.abi.cudnn_enums import BackendAttributeName
from pycudnn.abi.cudnn_enums import BackendAttributeType as T
from pycudnn.cudnn import Status, TensorFormat
from pycudnn.cudnn.graph import BackendDescriptor, Graph
from pycudnn.cudnn.graph.attributes import ATTRIBUTES
from pycudnn.cudnn.graph.values import c_type

MANY = 64  # an attribute that may have more elements is asked for their number first
HALF = {"dtype": "float16", "format": TensorFormat.NHWC}


@pytest.fixture
def plan(context: CudaContext):
    """Convolution, bias and ReLU in one plan."""
    graph = Graph(context.cudnn)
    x = graph.tensor((2, 8, 6, 6), name="x", **HALF)
    w = graph.tensor((8, 8, 3, 3), name="w", **HALF)
    bias = graph.tensor((1, 8, 1, 1), name="bias", **HALF)
    graph.relu(graph.add(graph.convolution_forward(x, w, padding=1), bias), name="y")
    return graph.plan()


def read(functions: raw.Functions, descriptor: BackendDescriptor, name: BackendAttributeName,
         kind: T, room: int) -> tuple[Status, int, Canaries]:  # fmt: skip
    """Ask for `room` elements: the status, how many there are, and the memory around them."""
    canaries = Canaries({"elementCount": ctypes.c_int64, "arrayOfElements": c_type(kind) * room})
    made = []
    if kind is T.BACKEND_DESCRIPTOR:  # the elements are descriptors that the library fills in
        for index in range(room):
            child = raw.cudnnBackendDescriptor_t()
            functions.cudnnBackendCreateDescriptor(ATTRIBUTES[name].child[0], byref(child))
            canaries.values["arrayOfElements"][index] = ctypes.cast(child, ctypes.c_void_p).value
            made.append(child)
    status = functions.cudnnBackendGetAttribute(
        ctypes.cast(descriptor.address, raw.cudnnBackendDescriptor_t),
        name, kind, room, byref(canaries.values["elementCount"]),
        ctypes.cast(canaries.values["arrayOfElements"], ctypes.c_void_p),
    )  # fmt: skip
    for child in made:
        functions.cudnnBackendDestroyDescriptor(child)
    count = canaries.values["elementCount"].value if "elementCount" in canaries.written else -1
    return status, count, canaries


def test_e3_attributes_of_a_graph(context, plan):
    functions = raw.bind(context.device.backend)
    read_back: set[T] = set()
    for owner in plan.descriptor._open().walk():
        descriptor = BackendDescriptor._of(owner)
        for name in descriptor.attributes:
            spec = ATTRIBUTES[name]
            # The reference library has no kernel caches; operations are of no one kind.
            if not spec.readable or len(spec.child) > 1 or "KERNEL_CACHE" in name.name:
                continue
            for kind in spec.types:
                most = spec.high
                if most > MANY:
                    most = max(1, read(functions, descriptor, name, kind, 0)[1])
                status, count, canaries = read(functions, descriptor, name, kind, most)
                assert canaries.intact, f"{name.name} as {kind.name}, {most} elements"
                if status != Status.SUCCESS or not 0 < count <= most:
                    continue
                read_back.add(kind)
                for room in {1, count - 1, count} - {0}:
                    _, _, canaries = read(functions, descriptor, name, kind, room)
                    assert canaries.intact, f"{name.name} as {kind.name}, {room} of {count}"
    assert read_back >= {T.INT64, T.DATA_TYPE, T.BOOLEAN, T.CHAR, T.BACKEND_DESCRIPTOR}


def test_e3_workspace_size_of_a_plan(context, plan):
    functions = raw.bind(context.device.backend)
    name = "cudnnGetExecutionPlanWorkspaceSize"
    if check_lacking(functions, name, functions.cudnnGetVersion()):
        return
    scratch = empty(plan.workspace_size or 1, "uint8", context.device, context.stream)
    pack = BackendDescriptor("VARIANT_PACK_DESCRIPTOR", library=context.cudnn.library)
    layouts = plan._operands.layouts.values()
    memory = [empty(layout.extent, "uint8", context.device) for layout in layouts]
    pack.set("VARIANT_PACK_UNIQUE_IDS", [layout.uid for layout in layouts])
    pack.set("VARIANT_PACK_DATA_POINTERS", memory)
    pack.set("VARIANT_PACK_WORKSPACE", scratch)
    pack.finalize()
    descriptors = {"executionPlan": plan.descriptor, "variantPack": pack}
    inputs = {
        key: ctypes.cast(value.address, raw.cudnnBackendDescriptor_t)
        for key, value in descriptors.items()
    }
    inputs["handle"] = ctypes.cast(context.cudnn.address, raw.cudnnHandle_t)
    check_getter(functions, name, Call(inputs, expected=[plan.workspace_size]))
