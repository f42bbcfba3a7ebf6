"""cuDNN's graph API: backend descriptors, and graphs of operations on top of them.

``BackendDescriptor`` is any descriptor of the C API with its attributes by name. ``Graph`` builds
networks of operations from tensors, lists the engines that can run them, and makes plans.
"""

from pycudnn.abi.cudnn_enums import (
    BackendAttributeName,
    BackendAttributeType,
    BackendBehaviorNote,
    BackendDescriptorType,
    BackendHeurMode,
    BackendKnobType,
    BackendNormFwdPhase,
    BackendNormMode,
    BackendNumericalNote,
    PaddingMode,
    PointwiseMode,
    ResampleMode,
)
from pycudnn.cudnn.graph.builder import Graph
from pycudnn.cudnn.graph.descriptor import BackendDescriptor, ByValue
from pycudnn.cudnn.graph.engines import Engine, EngineConfig, Knob
from pycudnn.cudnn.graph.execution import (
    execute,
    get_execution_plan_workspace_size,
    populate_cuda_graph,
    update_cuda_graph,
)
from pycudnn.cudnn.graph.normalization import NormBackward, NormForward
from pycudnn.cudnn.graph.plan import ExecutionPlan
from pycudnn.cudnn.graph.tensor import Tensor
from pycudnn.cudnn.graph.timing import time_call

__all__ = [
    "BackendAttributeName",
    "BackendAttributeType",
    "BackendBehaviorNote",
    "BackendDescriptor",
    "BackendDescriptorType",
    "BackendHeurMode",
    "BackendKnobType",
    "BackendNormFwdPhase",
    "BackendNormMode",
    "BackendNumericalNote",
    "ByValue",
    "Engine",
    "EngineConfig",
    "ExecutionPlan",
    "Graph",
    "Knob",
    "NormBackward",
    "NormForward",
    "PaddingMode",
    "PointwiseMode",
    "ResampleMode",
    "Tensor",
    "execute",
    "get_execution_plan_workspace_size",
    "populate_cuda_graph",
    "time_call",
    "update_cuda_graph",
]
