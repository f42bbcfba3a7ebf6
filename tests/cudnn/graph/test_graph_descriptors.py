"""Backend descriptors: what the attribute table says, what is refused before a call, what lives."""

from __future__ import annotations

import ctypes
import gc
import pickle
from fractions import Fraction

import numpy as np
import pytest

from pycudnn import cudnn, errors, raw
from pycudnn.cudnn.graph import BackendAttributeType, BackendDescriptor, BackendDescriptorType
from pycudnn.cudnn.graph.attributes import ATTRIBUTES, of_kind
from pycudnn.libraries import get_library

ADDRESSED = {"BACKEND_DESCRIPTOR", "HANDLE", "VOID_PTR", "CHAR"}
TENSOR = {
    "TENSOR_UNIQUE_ID": 7,
    "TENSOR_DATA_TYPE": "float16",
    "TENSOR_BYTE_ALIGNMENT": 16,
    "TENSOR_DIMENSIONS": (2, 3, 4),
    "TENSOR_STRIDES": [12, 4, 1],
}


def tensor(library, **changes):
    return BackendDescriptor("TENSOR_DESCRIPTOR", {**TENSOR, **changes}, library=library)


KINDS = sorted({row.owner for row in ATTRIBUTES.values() if row.settable})


def skip_lacking(library: str, kind: BackendDescriptorType) -> None:
    """Skip a kind that this library has not, which only older and the reference ones may lack."""
    newest = get_library("cudnn", "reference").version
    assert library == "reference" or get_library("cudnn", library).version < newest
    pytest.skip(f"this library has no {kind.name}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_table_has_the_types_that_the_library_takes(library, kind):
    """Ask cudnnBackendSetAttribute for every attribute of the kind with every type of a number."""
    functions = raw.bind(library)
    older = functions.cudnnGetVersion() < raw.reference.cudnnGetVersion()
    values = (ctypes.c_int64 * 4)(1, 1, 1, 1)
    for name in of_kind(kind):
        row = ATTRIBUTES[name]
        taken = set()
        for attribute_type in BackendAttributeType:
            if attribute_type.name in ADDRESSED:
                continue
            descriptor = functions.cudnnBackendDescriptor_t()
            if functions.cudnnBackendCreateDescriptor(kind, ctypes.byref(descriptor)):
                skip_lacking(library, kind)
            address = ctypes.cast(values, ctypes.c_void_p)
            status = functions.cudnnBackendSetAttribute(
                descriptor, name, attribute_type, 1, address
            )
            functions.cudnnBackendDestroyDescriptor(descriptor)
            if status == 0:
                taken.add(attribute_type.name)
        ours = {each.name for each in row.types}
        if older and not taken:
            continue  # it came with a later cuDNN
        if row.settable and not ours & ADDRESSED:
            assert ours <= taken, name.name
            # The library also takes integers for some scaling factors: not a promise of its docs.
            assert taken - ours <= {"INT32", "INT64"}, name.name
        elif ours != {"CHAR"}:  # any type does for JSON
            assert not (taken - ours), name.name


def test_every_attribute_has_one_kind_and_its_name_says_so():
    for name, row in ATTRIBUTES.items():
        assert row.name is name
        assert name in of_kind(row.owner)
        assert row.types
        assert row.low <= row.high
        has_child = BackendAttributeType.BACKEND_DESCRIPTOR in row.types
        assert has_child == bool(row.child)


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("TENSOR_DIMENSIONS", (1,) * 9, ValueError, "must have 1 to 8 elements, got 9"),
        ("TENSOR_DIMENSIONS", (), ValueError, "must have 1 to 8 elements, got 0"),
        ("TENSOR_DIMENSIONS", (2, 0), ValueError, r"DIMENSIONS\[1\] must be in \[1, 2\*\*63"),
        ("TENSOR_DIMENSIONS", (2, 2.5), TypeError, r"DIMENSIONS\[1\] must be an int, got 2.5"),
        ("TENSOR_DIMENSIONS", 5, TypeError, "must be a sequence, got 5"),
        ("TENSOR_DIMENSIONS", "12", TypeError, "must be a sequence"),
        ("TENSOR_STRIDES", (4, -1), ValueError, r"TENSOR_STRIDES\[1\].*got -1"),
        ("TENSOR_UNIQUE_ID", 2**63, ValueError, "TENSOR_UNIQUE_ID must be in"),
        ("TENSOR_UNIQUE_ID", True, TypeError, "must be an int, got True"),
        ("TENSOR_UNIQUE_ID", (1, 2), TypeError, "must be an int"),
        ("TENSOR_BYTE_ALIGNMENT", 0, ValueError, "TENSOR_BYTE_ALIGNMENT must be in"),
        ("TENSOR_IS_VIRTUAL", 1, TypeError, "must be True or False"),
        ("TENSOR_DATA_TYPE", "complex64", TypeError, "TENSOR_DATA_TYPE must be a DataType"),
        ("TENSOR_DATA_TYPE", 77, ValueError, "TENSOR_DATA_TYPE must be a DataType"),
        ("TENSOR_DATA_TYPE", cudnn.MathType.FMA_MATH, TypeError, "TENSOR_DATA_TYPE must be"),
        ("TENSOR_REORDERING_MODE", 99, ValueError, "must be a BackendTensorReordering"),
        ("TENSOR_RAGGED_OFFSET_DESC", None, TypeError, "must be a TENSOR_DESCRIPTOR, got None"),
        ("CONVOLUTION_CONV_MODE", 1, ValueError, "must be an attribute of TENSOR_DESCRIPTOR"),
        ("NO_SUCH_NAME", 1, ValueError, "name must be a BackendAttributeName"),
        (901.5, 1, TypeError, "name must be a BackendAttributeName"),
        (None, 1, ValueError, "name must be a BackendAttributeName"),
    ],
)
def test_a_wrong_value_is_a_typed_error(library, name, value, error, text):
    with pytest.raises(error, match=text):
        tensor(library).set(name, value)


@pytest.mark.parametrize(
    ("value", "type", "error"),
    [
        (float("nan"), None, ValueError),
        (float("inf"), "DOUBLE", ValueError),
        (1e300, "FLOAT", ValueError),
        ("1", None, TypeError),
        (None, None, TypeError),
        (1j, None, TypeError),
        (10**400, "DOUBLE", ValueError),
        (1.0, "INT64", ValueError),
        (1.0, 99, ValueError),
    ],
)
def test_a_scaling_factor_must_be_finite(library, value, type, error):
    operation = BackendDescriptor("OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", library=library)
    with pytest.raises(error):
        operation.set("OPERATION_CONVOLUTION_FORWARD_ALPHA", value, type=type)


def test_clips_may_be_infinite_but_no_nan(library):
    pointwise = BackendDescriptor("POINTWISE_DESCRIPTOR", library=library)
    pointwise.set("POINTWISE_RELU_UPPER_CLIP", float("inf"))
    with pytest.raises(ValueError, match="POINTWISE_RELU_UPPER_CLIP must be a number, got nan"):
        pointwise.set("POINTWISE_RELU_UPPER_CLIP", float("nan"))


def test_members_that_count_the_others_are_no_values(library):
    heuristic = BackendDescriptor("ENGINEHEUR_DESCRIPTOR", library=library)
    heuristic.set("ENGINEHEUR_MODE", "B")
    with pytest.raises(ValueError, match="MODES_COUNT is their number"):
        heuristic.set("ENGINEHEUR_MODE", 4)
    choice = BackendDescriptor("KNOB_CHOICE_DESCRIPTOR", library=library)
    with pytest.raises(ValueError, match="COUNTS is their number"):
        choice.set("KNOB_CHOICE_KNOB_TYPE", "COUNTS")


@pytest.mark.parametrize("kind", ["NO_KIND", 99, None, 1.5])
def test_kinds_are_checked(library, kind):
    with pytest.raises((TypeError, ValueError), match="kind must be a BackendDescriptorType"):
        BackendDescriptor(kind, library=library)


def test_what_can_only_be_read_cannot_be_set(library):
    engine = BackendDescriptor("ENGINE_DESCRIPTOR", library=library)
    with pytest.raises(ValueError, match="ENGINE_BEHAVIOR_NOTE can only be read"):
        engine.set("ENGINE_BEHAVIOR_NOTE", ())


def test_nothing_is_read_or_used_before_it_is_finalized(library):
    unfinished = tensor(library)
    assert not unfinished.finalized
    with pytest.raises(ValueError, match="not finalized"):
        unfinished.get("TENSOR_DIMENSIONS")
    operation = BackendDescriptor("OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", library=library)
    with pytest.raises(ValueError, match="OPERATION_CONVOLUTION_FORWARD_X must be finalized first"):
        operation.set("OPERATION_CONVOLUTION_FORWARD_X", unfinished)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_half_written_descriptors_are_refused(library, kind):
    """Finalizing some of them crashes libcudnn: an engine configuration without an engine, say."""
    required = [name.name for name in of_kind(kind) if ATTRIBUTES[name].required]
    try:
        empty = BackendDescriptor(kind, library=library)
    except errors.CudnnError:
        skip_lacking(library, kind)
    if required:
        with pytest.raises(ValueError, match=f"needs {', '.join(required)} first"):
            empty.finalize()


def test_a_closed_descriptor_is_a_value_error(library):
    closed = tensor(library)
    with closed:
        assert not closed.closed
        assert closed.address
    assert closed.closed
    closed.close()
    for use in (
        closed.finalize,
        lambda: closed.set("TENSOR_UNIQUE_ID", 1),
        lambda: closed.get("TENSOR_UNIQUE_ID"),
        lambda: closed.address,
        lambda: closed.finalized,
        closed.__enter__,
    ):
        with pytest.raises(ValueError, match="TENSOR_DESCRIPTOR is closed"):
            use()
    assert repr(closed).startswith("<closed TENSOR_DESCRIPTOR")


def test_descriptors_do_not_pickle(library):
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(tensor(library))


def test_names_with_the_c_prefix_and_members_do(backend):
    made = BackendDescriptor(
        BackendDescriptorType.TENSOR_DESCRIPTOR,
        {f"CUDNN_ATTR_{name}": value for name, value in TENSOR.items()},
        library=backend,
    ).finalize()
    assert made.get(cudnn.graph.BackendAttributeName.TENSOR_UNIQUE_ID) == 7


def test_attributes_read_back_typed(backend):
    made = tensor(backend).finalize()
    assert made.finalized
    assert made.get("TENSOR_DIMENSIONS") == (2, 3, 4)
    assert made.get("TENSOR_STRIDES") == (12, 4, 1)
    assert made.get("TENSOR_DATA_TYPE") is cudnn.DataType.HALF
    assert made.get("TENSOR_IS_VIRTUAL") is False
    assert made.get("TENSOR_UNIQUE_ID") == 7
    with pytest.raises(ValueError, match="is finalized"):
        made.set("TENSOR_UNIQUE_ID", 8)
    with pytest.raises(ValueError, match="finalized already"):
        made.finalize()
    with pytest.raises(ValueError, match="must be an attribute of TENSOR_DESCRIPTOR"):
        made.get("CONVOLUTION_CONV_MODE")


def convolution(library, **changes):
    settings = {
        "CONVOLUTION_COMP_TYPE": np.float32,
        "CONVOLUTION_CONV_MODE": "CROSS_CORRELATION",
        "CONVOLUTION_SPATIAL_DIMS": 2,
        "CONVOLUTION_DILATIONS": (1, 1),
        "CONVOLUTION_FILTER_STRIDES": (1, 2),
        "CONVOLUTION_PRE_PADDINGS": (0, 1),
        "CONVOLUTION_POST_PADDINGS": (1, 0),
    }
    return BackendDescriptor("CONVOLUTION_DESCRIPTOR", {**settings, **changes}, library=library)


def four(library, uid, shape):
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return tensor(
        library, TENSOR_UNIQUE_ID=uid, TENSOR_DATA_TYPE="float32", TENSOR_DIMENSIONS=shape,
        TENSOR_STRIDES=strides,
    ).finalize()  # fmt: skip


def forward(library, **changes):
    settings = {
        "OPERATION_CONVOLUTION_FORWARD_CONV_DESC": convolution(library).finalize(),
        "OPERATION_CONVOLUTION_FORWARD_X": four(library, 1, (2, 3, 8, 9)),
        "OPERATION_CONVOLUTION_FORWARD_W": four(library, 2, (4, 3, 3, 3)),
        "OPERATION_CONVOLUTION_FORWARD_Y": four(library, 3, (2, 4, 7, 4)),
        "OPERATION_CONVOLUTION_FORWARD_ALPHA": 1.5,
        "OPERATION_CONVOLUTION_FORWARD_BETA": 0.0,
    }
    kind = "OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR"
    return BackendDescriptor(kind, {**settings, **changes}, library=library)


def shape_of(x):
    """Its dimensions; cuDNN 9.19 puts one of 1 for the groups into a convolution's tensors."""
    return tuple(size for size in x.get("TENSOR_DIMENSIONS") if size != 1)


def test_descriptors_come_back_as_owned_objects(backend):
    operation = forward(backend).finalize()
    assert operation.get("OPERATION_CONVOLUTION_FORWARD_ALPHA") == 1.5
    x = operation.get("OPERATION_CONVOLUTION_FORWARD_X")
    assert x.finalized
    operation.close()
    del operation
    gc.collect()
    assert shape_of(x) == (2, 3, 8, 9)
    with x:
        pass
    with pytest.raises(ValueError, match="closed"):
        x.get("TENSOR_DIMENSIONS")


def test_children_live_as_long_as_who_refers_to_them(backend):
    x = four(backend, 1, (2, 3, 8, 9))
    operation = forward(backend, OPERATION_CONVOLUTION_FORWARD_X=x)
    x.close()
    del x
    gc.collect()
    tensor(backend)  # empties the list of what is to be destroyed
    operation.finalize()
    again = operation.get("OPERATION_CONVOLUTION_FORWARD_X")
    assert shape_of(again) == (2, 3, 8, 9)


def test_children_of_another_kind_are_refused(backend):
    """A tensor's place with a convolution in it ends libcudnn with std::bad_alloc."""
    wrong = convolution(backend).finalize()
    with pytest.raises(TypeError, match="_X must be a TENSOR_DESCRIPTOR, got a CONVOLUTION"):
        forward(backend, OPERATION_CONVOLUTION_FORWARD_X=wrong)
    right = four(backend, 1, (2, 3, 8, 9))
    right.close()
    with pytest.raises(ValueError, match="closed"):
        forward(backend, OPERATION_CONVOLUTION_FORWARD_X=right)


@pytest.mark.library
def test_objects_of_two_libraries_do_not_mix():
    ours = tensor("reference")
    operation = BackendDescriptor("OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", library="cuda")
    with pytest.raises(errors.LibraryMismatch, match="OPERATION_CONVOLUTION_FORWARD_X"):
        operation.set("OPERATION_CONVOLUTION_FORWARD_X", ours)
    with cudnn.Handle(library="reference") as handle:
        plan = BackendDescriptor("EXECUTION_PLAN_DESCRIPTOR", library="cuda")
        with pytest.raises(errors.LibraryMismatch, match="EXECUTION_PLAN_HANDLE"):
            plan.set("EXECUTION_PLAN_HANDLE", handle)


def relu_of(library, x, y):
    pointwise = BackendDescriptor(
        "POINTWISE_DESCRIPTOR",
        {"POINTWISE_MODE": "RELU_FWD", "POINTWISE_MATH_PREC": "float32"},
        library=library,
    ).finalize()
    return BackendDescriptor(
        "OPERATION_POINTWISE_DESCRIPTOR",
        {
            "OPERATION_POINTWISE_PW_DESCRIPTOR": pointwise,
            "OPERATION_POINTWISE_XDESC": x,
            "OPERATION_POINTWISE_YDESC": y,
        },
        library=library,
    ).finalize()


def graph_of(handle, *operations):
    return BackendDescriptor(
        "OPERATIONGRAPH_DESCRIPTOR",
        {"OPERATIONGRAPH_HANDLE": handle, "OPERATIONGRAPH_OPS": operations},
        library=handle.library,
    )


def test_a_unique_id_is_one_tensor(context):
    handle, library = context.cudnn, context.cudnn.library
    shape = (2, 3, 8, 9)
    x, again, other = (four(library, 1, size) for size in (shape, shape, (2, 3, 9, 8)))
    y, z = four(library, 2, shape), four(library, 3, (2, 3, 9, 8))
    first = relu_of(library, x, y)
    with pytest.raises(ValueError, match="two tensors with the unique id 1"):
        graph_of(handle, first, relu_of(library, other, z)).finalize()
    more = four(library, 4, shape)
    graph_of(handle, first, relu_of(library, again, more)).finalize()
    convolved = forward(library).finalize()
    read = convolved.get("OPERATION_CONVOLUTION_FORWARD_Y")
    with pytest.raises(ValueError, match="two tensors with the unique id 3"):
        graph_of(handle, convolved, relu_of(library, z, four(library, 6, (2, 3, 9, 8)))).finalize()
    same_rank = four(library, 5, read.get("TENSOR_DIMENSIONS"))
    graph_of(handle, relu_of(library, read, same_rank)).finalize()


def test_handles_are_checked(library):
    plan = BackendDescriptor("EXECUTION_PLAN_DESCRIPTOR", library=library)
    for wrong in (None, 5, "handle", tensor(library)):
        with pytest.raises(TypeError, match="EXECUTION_PLAN_HANDLE must be a Handle"):
            plan.set("EXECUTION_PLAN_HANDLE", wrong)


def test_the_handle_comes_back(context):
    library = context.cudnn.library
    plan = BackendDescriptor("EXECUTION_PLAN_DESCRIPTOR", library=library)
    plan.set("EXECUTION_PLAN_HANDLE", context.cudnn)
    closed = cudnn.Handle(context.device)
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        plan.set("EXECUTION_PLAN_HANDLE", closed)


def test_memory_of_a_variant_pack_is_checked(backend, context):
    pack = BackendDescriptor("VARIANT_PACK_DESCRIPTOR", library=backend)
    for wrong in (5, "x", object()):
        with pytest.raises(TypeError, match=r"VARIANT_PACK_DATA_POINTERS\[0\] must be"):
            pack.set("VARIANT_PACK_DATA_POINTERS", [wrong])


def test_fractions(library):
    resample = BackendDescriptor("RESAMPLE_DESCRIPTOR", library=library)
    resample.set("RESAMPLE_STRIDES", [Fraction(1, 2), 1], type="FRACTION")
    resample.set("RESAMPLE_STRIDES", [1, Fraction(1, 2)])
    for wrong, error in (
        ([Fraction(0)], ValueError), ([Fraction(-1, 2)], ValueError), (["x"], TypeError),
        ([float("inf")], TypeError), ([Fraction(1, 2**64)], ValueError),
    ):  # fmt: skip
        with pytest.raises(error, match=r"RESAMPLE_STRIDES\[0\]"):
            resample.set("RESAMPLE_STRIDES", wrong, type="FRACTION")


def test_gradients_of_maxima_need_their_index(backend):
    """libcudnn 9.19 crashes on one that has x and y instead."""
    resampling = {
        "RESAMPLE_MODE": "MAXPOOL", "RESAMPLE_COMP_TYPE": "float32", "RESAMPLE_SPATIAL_DIMS": 2,
        "RESAMPLE_WINDOW_DIMS": (2, 2), "RESAMPLE_STRIDES": (2, 2),
        "RESAMPLE_PRE_PADDINGS": (0, 0), "RESAMPLE_POST_PADDINGS": (0, 0),
    }  # fmt: skip
    resample = BackendDescriptor("RESAMPLE_DESCRIPTOR", resampling, library=backend).finalize()
    gradient = BackendDescriptor(
        "OPERATION_RESAMPLE_BWD_DESCRIPTOR",
        {
            "OPERATION_RESAMPLE_BWD_DESC": resample,
            "OPERATION_RESAMPLE_BWD_DYDESC": four(backend, 1, (1, 8, 2, 2)),
            "OPERATION_RESAMPLE_BWD_DXDESC": four(backend, 2, (1, 8, 4, 4)),
        },
        library=backend,
    )
    with pytest.raises(ValueError, match="needs its IDXDESC"):
        gradient.finalize()


def test_text_must_be_text(library):
    plan = BackendDescriptor("EXECUTION_PLAN_DESCRIPTOR", library=library)
    for wrong in ("", b"", None, 5):
        with pytest.raises(TypeError, match="EXECUTION_PLAN_JSON_REPRESENTATION must be text"):
            plan.set("EXECUTION_PLAN_JSON_REPRESENTATION", wrong)


def test_many_descriptors_come_and_go(library):
    """A thousand of them, closed or dropped, leave nothing behind that grows."""
    for turn in range(1000):
        made = tensor(library)
        if turn % 2:
            made.close()
    assert get_library("cudnn", library) is made.library
