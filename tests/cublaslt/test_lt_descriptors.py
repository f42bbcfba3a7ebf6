"""Descriptors read back from the library, on the reference and the real one without a GPU."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from pycudnn import _core, config, cublaslt, empty, get_library, reference
from pycudnn.cublaslt import (
    BatchMode,
    ComputeType,
    CudaDataType,
    CudaEmulationMantissaControl,
    EmulationDescriptor,
    EmulationStrategy,
    Epilogue,
    MatmulBatchInvarianceFlags,
    MatmulDescriptor,
    MatmulPreference,
    MatrixLayout,
    MatrixTransformDescriptor,
    Operation,
    Order,
    PointerMode,
    ReductionScheme,
)
from pycudnn.errors import FunctionNotFound, LibraryMismatch


@pytest.fixture
def memory(library, has_gpu):
    """Makes buffers of the library's side; without a GPU there are none of CUDA's."""
    if library == "cuda" and not has_gpu:
        pytest.skip("device memory needs a GPU")
    from pycudnn import Device

    return lambda shape, dtype: empty(shape, dtype, device=Device(library))


# ---- layouts -------------------------------------------------------------------------------------


def test_layout(library):
    layout = MatrixLayout("float32", 3, 5, library=library)
    assert (layout.rows, layout.columns, layout.ld) == (3, 5, 3)
    assert layout.data_type is CudaDataType.R_32F
    assert layout.dtype == np.float32
    assert layout.order is Order.COL
    assert layout.batch_mode is BatchMode.STRIDED
    assert (layout.batch_count, layout.batch_stride) == (1, 0)
    assert layout.extent == 60
    assert repr(layout) == (
        "MatrixLayout(data_type=R_32F, rows=3, columns=5, ld=3, order=COL, batch_count=1, "
        "batch_stride=0)"
    )


@pytest.mark.parametrize(
    ("arguments", "ld", "stride", "elements"),
    [
        ({"ld": 7}, 7, 0, 4 * 7 + 3),
        ({"order": Order.ROW}, 5, 0, 15),
        ({"order": Order.ROW, "ld": 6}, 6, 0, 2 * 6 + 5),
        ({"batch_count": 4}, 3, 15, 60),
        ({"batch_count": 4, "ld": 4}, 4, 20, 3 * 20 + 4 * 4 + 3),
        ({"batch_count": 4, "batch_stride": 0}, 3, 0, 15),
        ({"batch_count": 4, "batch_stride": 100}, 3, 100, 315),
        ({"batch_count": 4, "batch_mode": BatchMode.POINTER_ARRAY}, 3, 0, 15),
        ({"order": Order.COL32}, 96, 0, 96),
        ({"order": Order.COL4_4R2_8C}, 256, 0, 256),
        ({"order": Order.COL32_2R_4R4}, 1024, 0, 1024),
    ],
)
def test_where_elements_lie(library, arguments, ld, stride, elements):
    layout = MatrixLayout("float64", 3, 5, library=library, **arguments)
    assert layout.ld == ld
    assert layout.batch_stride == stride
    assert layout.extent == 8 * elements
    for name in ("order", "batch_count", "batch_mode"):
        assert getattr(layout, name) == arguments.get(name, getattr(layout, name))


@pytest.mark.parametrize(
    ("arguments", "alignment"),
    [
        ((8, 4), 16), ((8, 4, 9), 2), ((8, 1, 9), 256), ((128, 4), 256), ((4, 6), 8),
        ((8, 1, 8, 2, 10), 4), ((8, 2, 8, 2, 20), 8),
    ],
)  # fmt: skip
def test_what_a_layout_is_aligned_to(library, arguments, alignment):
    shape, (count, stride) = arguments[:3], arguments[3:] or (1, None)
    layout = MatrixLayout(
        "float16", *shape, batch_count=count, batch_stride=stride, library=library
    )
    assert layout.alignment == alignment


def test_tiles_of_more_than_32_columns(library):
    layout = MatrixLayout("int8", 2, 33, order=Order.COL32, library=library)
    assert (layout.ld, layout.extent) == (64, 128)


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        ("bfloat16", CudaDataType.R_16BF), (np.float16, CudaDataType.R_16F),
        (np.dtype("complex128"), CudaDataType.C_64F), (CudaDataType.C_8I, CudaDataType.C_8I),
        (3, CudaDataType.R_8I), ("float8_e4m3fn", CudaDataType.R_8F_E4M3),
        (ml_dtypes.float8_e5m2, CudaDataType.R_8F_E5M2), (28, CudaDataType.R_8F_E4M3),
    ],
)  # fmt: skip
def test_types(library, dtype, code):
    assert MatrixLayout(dtype, 2, 2, library=library).data_type is code


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("str", 3, 5), ValueError, "dtype must be one of float8_e4m3fn, float8_e5m2, float32"),
        ((None, 3, 5), ValueError, "dtype must be one of"),
        ((33, 3, 5), ValueError, "dtype must be one of"),
        ((CudaDataType.R_4F_E2M1, 3, 5), ValueError, "dtype must be one of"),
        (("float32", 0, 5), ValueError, r"rows must be in \[1, "),
        (("float32", 3, -1), ValueError, r"columns must be in \[1, "),
        (("float32", 3, 2**64), ValueError, r"columns must be in \[1, "),
        (("float32", "3", 5), TypeError, "rows must be an int, got '3'"),
        (("float32", 3, 5, 2), ValueError, "ld must be at least 3 for 3 x 5 in the order COL"),
        (("float32", 3, 5, -3), ValueError, r"ld must be in \[1, "),
        (("float32", 2**40, 2**40), ValueError, "is more than any memory"),
        (("float32", 2**31, 1, 2**62), None, ""),
        (("float32", 2**31, 2, 2**62), ValueError, "is more than any memory"),
    ],
)
def test_bad_layouts(library, arguments, error, text):
    if error is None:
        assert MatrixLayout(*arguments, library=library).rows == arguments[1]
        return
    with pytest.raises(error, match=text):
        MatrixLayout(*arguments, library=library)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("order", 5, "order must be a Order: COL"), ("order", "ROW", "order must be"),
        ("batch_count", 0, "batch_count must be in"), ("batch_stride", -1, "batch_stride must be"),
        ("batch_mode", BatchMode.GROUPED, r"batch_mode must be STRIDED \(0\) or POINTER_ARRAY"),
        ("batch_mode", 3, "batch_mode must be a BatchMode"),
        ("batch_stride", 2**62, "more than any memory"),
    ],
)  # fmt: skip
def test_bad_settings_of_a_layout(library, name, value, text):
    with pytest.raises(ValueError, match=text):
        MatrixLayout("float32", 3, 5, **{"batch_count": 2, name: value}, library=library)


def test_a_list_has_no_stride(library):
    with pytest.raises(ValueError, match="batch_stride must be 0 or None with POINTER_ARRAY"):
        MatrixLayout("float32", 3, 5, batch_mode=1, batch_count=2, batch_stride=15, library=library)


def test_replace_a_layout(library):
    layout = MatrixLayout("float16", 3, 5, 8, batch_count=2, library=library)
    other = layout.replace(order=Order.ROW, batch_stride=None)
    assert (other.rows, other.columns, other.ld, other.batch_stride) == (3, 5, 8, 24)
    assert other.library is layout.library
    assert layout == layout.replace()
    assert hash(layout) == hash(layout.replace())
    assert layout != other
    with pytest.raises(TypeError):
        layout.replace(lda=3)


# ---- products ------------------------------------------------------------------------------------


def test_matmul_descriptor(library):
    desc = MatmulDescriptor(library=library)
    assert desc.compute_type is ComputeType.COMPUTE_32F
    assert desc.scale_type is CudaDataType.R_32F
    assert desc.transa is desc.transb is Operation.N
    assert desc.pointer_mode is PointerMode.HOST
    assert desc.epilogue is Epilogue.DEFAULT
    assert desc.fast_accum is False
    for name in ("bias", "aux", "a_scale", "amax_d", "emulation"):
        try:
            assert getattr(desc, name) is None
        except NotImplementedError as error:
            assert "has no attribute EMULATION_DESCRIPTOR" in str(error)  # noqa: PT017
    for name in ("alpha_vector_batch_stride", "bias_batch_stride", "aux_ld", "sm_count_target"):
        assert getattr(desc, name) == 0
    assert desc.bias_data_type == desc.aux_data_type == -1
    assert repr(desc) == (
        "MatmulDescriptor(compute_type=COMPUTE_32F, scale_type=R_32F, transa=N, transb=N, "
        "epilogue=DEFAULT, pointer_mode=HOST)"
    )


@pytest.mark.parametrize(
    ("compute", "scale"),
    [
        (ComputeType.COMPUTE_64F, CudaDataType.R_64F),
        (ComputeType.COMPUTE_16F, CudaDataType.R_16F),
        (ComputeType.COMPUTE_32I, CudaDataType.R_32I),
        (ComputeType.COMPUTE_32F_FAST_TF32, CudaDataType.R_32F),
    ],
)
def test_scale_type_goes_with_the_compute_type(library, compute, scale):
    desc = MatmulDescriptor(compute, library=library)
    assert desc.compute_type is compute
    assert desc.scale_type is scale
    assert MatmulDescriptor(compute, "complex64", library=library).scale_type is CudaDataType.C_32F


def test_tf32_is_one_switch(library):
    with config.override(tf32=True):
        desc = MatmulDescriptor(library=library)
        plain = MatmulDescriptor(ComputeType.COMPUTE_32F, library=library)
    assert desc.compute_type is ComputeType.COMPUTE_32F_FAST_TF32
    assert plain.compute_type is ComputeType.COMPUTE_32F


def test_settings_read_back(library):
    desc = MatmulDescriptor(
        transa=Operation.T, transb=2, pointer_mode=PointerMode.ALPHA_DEVICE_VECTOR_BETA_HOST,
        alpha_vector_batch_stride=7, epilogue=Epilogue.GELU, sm_count_target=5, fast_accum=True,
        library=library,
    )  # fmt: skip
    assert (desc.transa, desc.transb) == (Operation.T, Operation.C)
    assert desc.pointer_mode is PointerMode.ALPHA_DEVICE_VECTOR_BETA_HOST
    assert desc.alpha_vector_batch_stride == 7
    assert desc.epilogue is Epilogue.GELU
    assert desc.sm_count_target == 5
    assert desc.fast_accum is True
    other = desc.replace(transa=Operation.N, epilogue=Epilogue.RELU)
    assert (other.transa, other.transb, other.epilogue) == (0, 2, Epilogue.RELU)
    assert desc == desc.replace() != other


def test_batch_invariance(library):
    try:
        desc = MatmulDescriptor(batch_invariance=MatmulBatchInvarianceFlags.AUTO, library=library)
    except NotImplementedError as error:
        assert "has no attribute BATCH_INVARIANCE_FLAGS" in str(error)  # noqa: PT017
        return
    assert desc.batch_invariance is MatmulBatchInvarianceFlags.AUTO


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"compute_type": 99}, ValueError, "compute_type must be a ComputeType: COMPUTE_16F"),
        ({"compute_type": "float32"}, ValueError, "compute_type must be a ComputeType"),
        ({"scale_type": "float33"}, ValueError, "scale_type must be one of"),
        ({"transa": 3}, ValueError, r"transa must be N \(0\), T \(1\) or C \(2\), got 3"),
        ({"transb": "N"}, ValueError, "transb must be a Operation"),
        ({"pointer_mode": 5}, ValueError, "pointer_mode must be a PointerMode"),
        ({"epilogue": 3}, ValueError, "epilogue must be a Epilogue"),
        ({"epilogue": Epilogue.BIAS}, ValueError, "the epilogue BIAS needs bias, got None"),
        ({"epilogue": Epilogue.BGRADB}, ValueError, "the epilogue BGRADB needs bias"),
        ({"epilogue": Epilogue.GELU_AUX}, ValueError, "the epilogue GELU_AUX needs aux"),
        ({"epilogue": Epilogue.DRELU}, ValueError, "the epilogue DRELU needs aux"),
        ({"alpha_vector_batch_stride": -1}, ValueError, "alpha_vector_batch_stride must be in"),
        ({"bias_batch_stride": 4}, ValueError, "bias_batch_stride must be None without bias"),
        ({"aux_ld": 128}, ValueError, "aux_ld must be None without aux"),
        ({"sm_count_target": -1}, ValueError, "sm_count_target must be in"),
        ({"a_scale_mode": 1}, ValueError, r"a_scale_mode must be SCALAR_32F \(0\) or OUTER_VEC"),
        ({"b_scale_mode": 99}, ValueError, "b_scale_mode must be a MatmulMatrixScale"),
        ({"batch_invariance": 7}, ValueError, "batch_invariance must be a MatmulBatchInvariance"),
        ({"emulation": 5}, TypeError, "emulation must be a EmulationDescriptor, got 5"),
        ({"library": "cudnn"}, ValueError, "library must be a Library, one of"),
        ({"library": 5}, TypeError, "library must be a Library"),
    ],
)
def test_bad_settings(library, arguments, error, text):
    with pytest.raises(error, match=text):
        MatmulDescriptor(**{"library": library, **arguments})


def test_a_cublas_library_makes_no_descriptor(library):
    for kind in (MatmulDescriptor, MatmulPreference, MatrixTransformDescriptor):
        with pytest.raises(ValueError, match="library must be a cublaslt library, got <cublas "):
            kind(library=get_library("cublas", library))


# ---- memory of a descriptor ----------------------------------------------------------------------


def test_bias(library, memory):
    bias = memory((6,), "float16")
    desc = MatmulDescriptor(epilogue=Epilogue.RELU_BIAS, bias=bias, library=library)
    assert desc.bias is bias
    assert desc.bias_data_type is CudaDataType.R_16F
    assert desc.bias_batch_stride == 0
    stacked = memory((3, 6), "float32")
    desc = desc.replace(bias=stacked, bias_batch_stride=None)
    assert desc.bias is stacked
    assert desc.bias_data_type is CudaDataType.R_32F
    assert desc.bias_batch_stride == 6
    assert desc.replace(bias_batch_stride=9).bias_batch_stride == 9


def test_a_descriptor_keeps_its_memory(library, memory):
    bias = memory((6,), "float32")
    desc = MatmulDescriptor(epilogue=Epilogue.BIAS, bias=bias, library=library)
    alive = weakref.ref(bias)
    del bias
    gc.collect()
    assert desc.bias is alive()
    assert desc.replace(transa=1).bias is alive()
    del desc
    gc.collect()
    assert alive() is None


def test_aux_of_gelu(library, memory):
    aux = memory((5, 16), "float32")
    desc = MatmulDescriptor(epilogue=Epilogue.GELU_AUX, aux=aux, library=library)
    assert desc.aux is aux
    assert (desc.aux_ld, desc.aux_batch_stride) == (16, 0)
    assert desc.aux_data_type is CudaDataType.R_32F
    stacked = memory((2, 5, 16), "float32")
    desc = MatmulDescriptor(epilogue=Epilogue.DGELU, aux=stacked, library=library)
    assert (desc.aux_ld, desc.aux_batch_stride) == (16, 80)


def test_aux_of_relu_is_a_mask(library, memory):
    aux = memory((2, 5, 32), "uint8")
    desc = MatmulDescriptor(epilogue=Epilogue.RELU_AUX, aux=aux, library=library)
    assert (desc.aux_ld, desc.aux_batch_stride) == (256, 1280)
    assert desc.aux_data_type == -1
    with pytest.raises(TypeError, match="aux must hold uint8, got float32"):
        MatmulDescriptor(epilogue=Epilogue.DRELU, aux=memory((5, 16), "float32"), library=library)


def test_memory_that_an_epilogue_does_not_use(library, memory):
    some = memory((8,), "float32")
    for epilogue, name in (
        (Epilogue.RELU, "bias"), (Epilogue.BIAS, "aux"), (Epilogue.DEFAULT, "bias"),
        (Epilogue.BGRADA, "aux"),
    ):  # fmt: skip
        given = {"bias": some} if name == "aux" else {}
        with pytest.raises(ValueError, match=f"the epilogue {epilogue.name} uses no {name}"):
            MatmulDescriptor(epilogue=epilogue, **{**given, name: some}, library=library)
    with pytest.raises(ValueError, match="the epilogue RELU has no aux for amax_aux"):
        MatmulDescriptor(epilogue=Epilogue.RELU, amax_aux=some, library=library)


def test_bad_memory(library, memory):
    for wrong in (5, "x", [1.0], object()):
        with pytest.raises(TypeError, match="bias must be a pycudnn buffer or"):
            MatmulDescriptor(epilogue=Epilogue.BIAS, bias=wrong, library=library)
    closed = memory((8,), "float32")
    closed.close()
    with pytest.raises(ValueError, match="this Buffer is closed"):
        MatmulDescriptor(epilogue=Epilogue.BIAS, bias=closed, library=library)
    flat = memory((64,), "float32")
    with pytest.raises(ValueError, match=r"aux_ld must be given for aux of shape \(64,\)"):
        MatmulDescriptor(epilogue=Epilogue.GELU_AUX, aux=flat, library=library)
    with pytest.raises(ValueError, match="aux_ld must be a multiple of 8, got 5"):
        MatmulDescriptor(epilogue=Epilogue.GELU_AUX, aux=flat, aux_ld=5, library=library)
    with pytest.raises(ValueError, match="aux_batch_stride must be a multiple of 8, got 9"):
        MatmulDescriptor(
            epilogue=Epilogue.GELU_AUX, aux=flat, aux_ld=8, aux_batch_stride=9, library=library
        )
    with pytest.raises(TypeError, match="a_scale must hold float32, got float64"):
        MatmulDescriptor(a_scale=memory((1,), "float64"), library=library)


def test_memory_of_the_other_side(memory, library):
    other = {"reference": "cuda", "cuda": "reference"}[library]
    bias = memory((6,), "float32")
    with pytest.raises((LibraryMismatch, ImportError), match="bias|cublaslt"):
        MatmulDescriptor(epilogue=Epilogue.BIAS, bias=bias, library=other)


def test_read_only_arrays():
    array = np.ones(6, np.float32)
    array.flags.writeable = False
    desc = MatmulDescriptor(epilogue=Epilogue.BIAS, bias=array, library="reference")
    assert desc.bias is array
    with pytest.raises(ValueError, match="bias is written to, but this array is read-only"):
        MatmulDescriptor(epilogue=Epilogue.BGRADA, bias=array, library="reference")


def test_scales(library, memory):
    scales = {name: memory((1,), "float32") for name in ("a_scale", "b_scale", "d_scale", "amax_d")}
    desc = MatmulDescriptor(**scales, a_scale_mode=3, library=library)
    for name, buffer in scales.items():
        assert getattr(desc, name) is buffer
    assert desc.c_scale is None
    assert (desc.a_scale_mode, desc.b_scale_mode) == (3, 0)


# ---- the other descriptors -----------------------------------------------------------------------


def test_transform_descriptor(library):
    desc = MatrixTransformDescriptor(library=library)
    assert desc.scale_type is CudaDataType.R_32F
    assert desc.transa is desc.transb is Operation.N
    assert desc.pointer_mode is PointerMode.HOST
    desc = desc.replace(scale_type="float64", transb=Operation.C, pointer_mode=PointerMode.DEVICE)
    assert (desc.scale_type, desc.transa, desc.transb, desc.pointer_mode) == (1, 0, 2, 1)
    assert "scale_type=R_64F, transa=N, transb=C, pointer_mode=DEVICE" in repr(desc)
    for arguments, text in (
        ({"scale_type": None}, "scale_type must be one of"),
        ({"transa": 9}, "transa must be a Operation"),
        ({"transb": -1}, "transb must be a Operation"),
        ({"pointer_mode": PointerMode.DEVICE_VECTOR}, r"pointer_mode must be HOST \(0\) or DEVICE"),
    ):
        with pytest.raises(ValueError, match=text):
            MatrixTransformDescriptor(**arguments, library=library)


def test_preference(library):
    preference = MatmulPreference(library=library)
    assert preference.max_workspace_bytes == 32 << 20
    assert preference.reduction_schemes == ReductionScheme.MASK
    assert preference.min_alignment_a == preference.min_alignment_d == 256
    assert preference.max_waves == 0.0
    assert preference.implementations == 2**64 - 1
    preference = preference.replace(
        max_workspace_bytes=5, reduction_schemes=2, min_alignment_a=2,
        min_alignment_b=4, min_alignment_c=8, min_alignment_d=16, max_waves=1.5,
        implementations=2,
    )  # fmt: skip
    assert preference.max_workspace_bytes == 5
    assert preference.reduction_schemes == ReductionScheme.COMPUTE_TYPE
    assert [getattr(preference, f"min_alignment_{name}") for name in "abcd"] == [2, 4, 8, 16]
    assert (preference.max_waves, preference.implementations) == (1.5, 2)


def test_preference_follows_the_settings(library):
    with config.override(workspace_limit=100, deterministic=True):
        preference = MatmulPreference(library=library)
        own = MatmulPreference(7, reduction_schemes=7, library=library)
    assert preference.max_workspace_bytes == 100
    assert not preference.reduction_schemes & ReductionScheme.INPLACE
    assert (own.max_workspace_bytes, own.reduction_schemes) == (7, 7)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("max_workspace_bytes", -1, ValueError), ("max_workspace_bytes", 2**63, ValueError),
        ("max_workspace_bytes", "1", TypeError), ("reduction_schemes", -1, ValueError),
        ("reduction_schemes", 8, ValueError), ("min_alignment_a", 0, ValueError),
        ("min_alignment_c", 24, ValueError), ("max_waves", -0.5, ValueError),
        ("max_waves", float("nan"), ValueError), ("implementations", 2**64, ValueError),
    ],
)  # fmt: skip
def test_bad_preferences(library, name, value, error):
    with pytest.raises(error, match=f"^{name} must"):
        MatmulPreference(**{name: value}, library=library)


def test_emulation(library):
    try:
        emulation = EmulationDescriptor(library=library)
    except FunctionNotFound as error:
        assert "needs cublasLt 13.1.0" in str(error)  # noqa: PT017
        return
    assert emulation.strategy is EmulationStrategy.DEFAULT
    assert emulation.special_values == 65535
    assert emulation.mantissa_control is CudaEmulationMantissaControl.DYNAMIC
    assert emulation.mantissa_bit_count is None
    other = emulation.replace(
        strategy=2, special_values=3, mantissa_control=1, max_mantissa_bit_count=40,
        mantissa_bit_offset=-3,
    )  # fmt: skip
    assert (other.strategy, other.special_values, other.mantissa_control) == (2, 3, 1)
    assert (other.max_mantissa_bit_count, other.mantissa_bit_offset) == (40, -3)
    desc = MatmulDescriptor(emulation=other, library=library)
    other.close()
    assert desc.emulation.max_mantissa_bit_count == 40
    assert desc.replace(transa=1).emulation == desc.emulation
    for arguments, text in (
        ({"strategy": 3}, "strategy must be"), ({"special_values": 4}, "special_values must be"),
        ({"mantissa_control": 2}, "mantissa_control must be"),
        ({"max_mantissa_bit_count": -1}, "max_mantissa_bit_count must be"),
        ({"mantissa_bit_offset": 2**31}, "mantissa_bit_offset must be"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            EmulationDescriptor(**arguments, library=library)


def test_emulation_of_another_library(library):
    other = {"reference": "cuda", "cuda": "reference"}[library]
    try:
        emulation = EmulationDescriptor(library=other)
    except ImportError as error:  # no real library, or an old one
        pytest.skip(str(error).splitlines()[0])
    except FunctionNotFound as error:
        assert "needs cublasLt 13.1.0" in str(error)  # noqa: PT017
        return
    with pytest.raises(LibraryMismatch, match="emulation is of <cublaslt"):
        MatmulDescriptor(emulation=emulation, library=library)


# ---- life ----------------------------------------------------------------------------------------

MAKERS = [
    lambda library: MatrixLayout("float32", 2, 3, library=library),
    lambda library: MatmulDescriptor(library=library),
    lambda library: MatmulPreference(library=library),
    lambda library: MatrixTransformDescriptor(library=library),
]


@pytest.mark.parametrize("make", MAKERS)
def test_close(library, make):
    with make(library) as desc:
        assert desc.address
    assert desc.closed
    desc.close()
    assert repr(desc) == f"<closed {type(desc).__name__}>"
    for name in desc.SHOWN:
        with pytest.raises(ValueError, match="is closed"):
            getattr(desc, name)
    with pytest.raises(ValueError, match="is closed"):
        _ = desc.address


def test_nothing_is_leaked():
    before = reference.live_objects()
    for make in MAKERS:
        make("reference").close()
    for _ in range(5):
        with pytest.raises(ValueError, match="needs bias"):
            MatmulDescriptor(epilogue=Epilogue.BIAS, library="reference")
    with _core.ColdCall(get_library("cublaslt", "reference")):
        pass  # empties the graves
    assert reference.live_objects() == before


def test_faces_are_one(library):
    """Each kind of descriptor is a C type of its own."""
    kinds = {type(make(library)).c_type for make in MAKERS}
    assert len(kinds) == len(MAKERS)
    assert cublaslt.Handle.c_type not in kinds
