"""Valid calls of cublasLt's face that the conformance problems do not make."""

from __future__ import annotations

import numpy as np
from harness import Case
from scenarios import scenario

from pycudnn import cublaslt
from pycudnn.cublaslt import ComputeType, Epilogue, Order
from pycudnn.errors import FunctionNotFound
from pycudnn.libraries import is_available


@scenario
def cublaslt_queries(case: Case) -> None:
    """What the library tells of itself."""
    backend = case.backend
    cublaslt.get_version(backend)
    cublaslt.get_cudart_version(backend)
    cublaslt.get_property(cublaslt.LibraryPropertyType.MAJOR_VERSION, backend)
    cublaslt.get_status_name(7, backend)
    cublaslt.get_status_string(7, backend)
    capacity = cublaslt.get_heuristics_cache_capacity(backend)
    cublaslt.set_heuristics_cache_capacity(capacity, backend)


@scenario
def cublaslt_logging(case: Case) -> None:
    """The log, which the real library alone has."""
    if is_available("cublaslt", "cuda"):
        cublaslt.enable_logging("ERROR", kinds=["ERROR", "HINTS"])
        cublaslt.disable_logging()


@scenario
def cublaslt_handle(case: Case) -> None:
    """A handle of one's own, on the stream of the context."""
    library = case.context.cublaslt.library
    handle = cublaslt.Handle(case.context.device, case.context.stream, library=library)
    handle.stream = case.context.stream
    case.keep = handle


@scenario
def cublaslt_descriptors(case: Case) -> None:
    """Descriptors with all that they take, and their like."""
    library = case.context.cublaslt.library
    cublaslt.MatrixLayout(
        "float32", 5, 6, 7, order=Order.COL, batch_count=2, batch_stride=50, library=library
    ).replace(rows=4)
    cublaslt.MatmulPreference(
        4096, reduction_schemes=7, min_alignment_a=16, max_waves=1.0, library=library
    ).replace(max_waves=2.0)
    cublaslt.MatrixTransformDescriptor("float32", library=library).replace(transa=1)
    mask, bias = np.zeros((2, 6, 16), np.uint8), np.zeros((2, 8), np.float32)
    cublaslt.MatmulDescriptor(
        ComputeType.COMPUTE_32F, "float32", epilogue=Epilogue.RELU_AUX_BIAS, bias=case.put(bias),
        bias_batch_stride=8, aux=case.put(mask), aux_ld=128, aux_batch_stride=768,
        a_scale=case.put(np.ones(1, np.float32)), sm_count_target=4, library=library,
    ).replace(transa=0)  # fmt: skip
    try:
        cublaslt.EmulationDescriptor(
            mantissa_bit_count=case.put(np.zeros(1, np.int32)), library=library
        ).replace(max_mantissa_bit_count=5)
    except FunctionNotFound:  # cublasLt before 13.1
        pass


@scenario
def cublaslt_algorithms(case: Case) -> None:
    """Proposed, enumerated, configured, checked, used."""
    handle = case.context.cublaslt
    shapes = (16, 8), (8, 24), (16, 24)
    layouts = [cublaslt.MatrixLayout("float32", *s, library=handle.library) for s in shapes]
    desc = cublaslt.MatmulDescriptor(library=handle.library)
    problem = desc, layouts[0], layouts[1], layouts[2], layouts[2]
    preference = cublaslt.MatmulPreference(1 << 20, library=handle.library)
    records = cublaslt.get_heuristics(handle, *problem, preference, 3)
    algorithm = records.best.algorithm
    cublaslt.check_algorithm(handle, *problem, algorithm)
    types = ComputeType.COMPUTE_32F, *["float32"] * 5
    number = cublaslt.get_algorithm_ids(handle, *types, 10)[0]
    cublaslt.Algorithm(handle, *types, number).replace(split_k=2, swizzling=1)
    a, b, d = (case.put(np.ones(r * c, np.float32)) for r, c in shapes)
    cublaslt.matmul(
        handle, desc, a, layouts[0], b, layouts[1], d, layouts[2], d, layouts[2], algorithm,
        case.scratch(max(records.best.workspace, 256)), alpha=2.0, beta=0.5,
    )  # fmt: skip


@scenario
def cublaslt_linear(case: Case) -> None:
    """The fully connected layer."""
    shapes = (6, 16), (8, 16), (8,), (6, 8)
    x, weight, bias, out = (case.put(np.ones(shape, np.float32)) for shape in shapes)
    mask = case.put(np.zeros((6, 16), np.uint8))
    cublaslt.linear(
        case.context.cublaslt, x, weight, bias, activation="relu", aux=mask, out=out,
        workspace=case.scratch(4096),
    )  # fmt: skip
