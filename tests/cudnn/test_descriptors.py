"""Descriptors of the real libcudnn (no GPU needed) and of the reference library alike."""

from __future__ import annotations

import gc
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycudnn import cudnn, errors
from pycudnn.libraries import get_library


def test_d2_strides_are_read_back(library):
    packed = cudnn.TensorDescriptor((2, 3, 4, 5), library=library)
    assert packed.strides == (60, 20, 5, 1)
    interleaved = cudnn.TensorDescriptor(
        (2, 3, 4, 5), "float16", format=cudnn.TensorFormat.NHWC, library=library
    )
    assert interleaved.strides == (60, 1, 15, 3)
    assert interleaved.dtype == np.float16
    assert interleaved.extent == 240


def test_free_strides_and_extent(library):
    desc = cudnn.TensorDescriptor((2, 3, 4, 5), "float64", strides=(100, 30, 7, 1), library=library)
    assert (desc.shape, desc.strides) == ((2, 3, 4, 5), (100, 30, 7, 1))
    assert desc.extent == (1 * 100 + 2 * 30 + 3 * 7 + 4 * 1 + 1) * 8


@pytest.mark.parametrize("ndim", [2, 3, 5, 8])
def test_other_ranks(library, ndim):
    shape = tuple(range(2, 2 + ndim))
    strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(ndim))
    desc = cudnn.TensorDescriptor(shape, strides=strides, library=library)
    assert (desc.shape, desc.strides) == (shape, strides)
    assert desc.extent == 4 * np.prod(shape)


@pytest.mark.parametrize(
    ("dtype", "shape", "strides"),
    [
        ("INT8x4", (2, 8, 3, 4), (24, 12, 4, 1)),
        ("UINT8x4", (2, 8, 3), (6, 3, 1)),
        ("INT8x32", (2, 64, 3, 4), (24, 12, 4, 1)),
    ],
)
def test_vectors_of_channels(library, dtype, shape, strides):
    vect = cudnn.TensorFormat.NCHW_VECT_C
    desc = cudnn.TensorDescriptor(shape, cudnn.DataType[dtype], format=vect, library=library)
    assert (desc.shape, desc.strides, desc.extent) == (shape, strides, np.prod(shape))
    assert desc.dtype == (np.uint8 if dtype.startswith("U") else np.int8)
    assert desc != cudnn.TensorDescriptor(shape, desc.dtype, library=library)
    filter = cudnn.FilterDescriptor(shape, cudnn.DataType[dtype], format=vect, library=library)
    assert (filter.shape, filter.extent) == (shape, np.prod(shape))


@pytest.mark.parametrize("kind", [cudnn.TensorDescriptor, cudnn.FilterDescriptor])
def test_vectors_that_cudnn_misreads(library, kind):
    vect, int8x4 = cudnn.TensorFormat.NCHW_VECT_C, cudnn.DataType.INT8x4
    for shape, dtype, format, text in (
        ((2, 6, 3, 4), int8x4, vect, r"shape\[1\] must be a multiple of 4 for INT8x4"),
        ((2, 8, 3, 4), cudnn.DataType.INT8x32, vect, "must be a multiple of 32"),
        ((2, 8, 3), "float32", vect, "got NCHW_VECT_C with FLOAT"),
        ((2, 8, 3, 4), int8x4, cudnn.TensorFormat.NHWC, "got NHWC with INT8x4"),
    ):
        with pytest.raises(ValueError, match=text):
            kind(shape, dtype, format=format, library=library)
    with pytest.raises(ValueError, match="strides must be None for INT8x4"):
        cudnn.TensorDescriptor((1, 4, 1, 1), int8x4, format=vect, strides=(1,) * 4, library=library)


@given(
    shape=st.lists(st.integers(1, 9), min_size=4, max_size=8),
    data_type=st.sampled_from(["float32", "float64", "float16", "bfloat16", "int8", "int32"]),
)
@settings(deadline=None, max_examples=50)
def test_packed_tensors_hold_what_numpy_holds(shape, data_type):
    dtype = np.dtype(ml_dtypes.bfloat16 if data_type == "bfloat16" else data_type)
    array = np.empty(shape, dtype)
    desc = cudnn.TensorDescriptor.like(array, library="reference")
    assert desc.extent == array.nbytes
    assert desc.strides == tuple(step // array.itemsize for step in array.strides)
    assert desc.dtype == dtype


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"shape": (2, 0, 4, 5)}, ValueError, r"shape\[1\] must be in \[1, 2147483647\], got 0"),
        ({"shape": (2, -3, 4, 5)}, ValueError, r"shape\[1\].*got -3"),
        ({"shape": (2, 3, 4, 2**31)}, ValueError, r"shape\[3\].*got 2147483648"),
        ({"shape": (65536,) * 4}, ValueError, "more than memory can have"),
        ({"shape": (1, 4, 2**30, 6)}, ValueError, "a stride of 25769803776 elements, strides have"),
        (
            {"shape": (2, 1, 2**30, 2), "format": cudnn.TensorFormat.NHWC},
            ValueError,
            "a stride of 2147483648 elements",
        ),
        ({"shape": (5,)}, ValueError, "2 to 8 dimensions"),
        ({"shape": ()}, ValueError, "2 to 8 dimensions"),
        ({"shape": (1,) * 17}, ValueError, "2 to 8 dimensions"),
        ({"shape": 7}, ValueError, "2 to 8 dimensions"),
        ({"shape": (1, 2.5, 3, 4)}, TypeError, r"shape\[1\] must be an int, got 2.5"),
        ({"shape": "abcd"}, TypeError, "shape must be an int"),
        ({"shape": {40, 3, 2, 7}}, TypeError, "shape must be a sequence, which has an order"),
        ({"shape": np.array(3)}, ValueError, "2 to 8 dimensions"),
        ({"shape": (1, 2, 3, 4), "dtype": "complex64"}, TypeError, "dtype must be"),
        ({"shape": (1, 2, 3, 4), "dtype": object()}, TypeError, "dtype must be"),
        ({"shape": (1, 2, 3, 4), "dtype": None}, TypeError, "dtype must be .* got None"),
        ({"shape": (1, 2, 3, 4), "format": 9}, ValueError, "format must be a TensorFormat: NCHW"),
        ({"shape": (1, 2, 3, 4), "format": True}, TypeError, "format must be a TensorFormat or"),
        (
            {"shape": (1, 2, 3, 4), "format": cudnn.PoolingMode.MAX},
            TypeError,
            "format must be a TensorFormat or its number, got <PoolingMode.MAX: 0>",
        ),
        ({"shape": (1, 2, 3, 4), "strides": (1, 2, 3)}, ValueError, "strides must be"),
        ({"shape": (1, 2, 3, 4), "strides": (24, 12, -4, 1)}, ValueError, r"strides\[2\].*got -4"),
    ],
)
def test_d3_bad_tensors_are_refused(library, arguments, error, text):
    with pytest.raises(error, match=text):
        cudnn.TensorDescriptor(**arguments, library=library)


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (cudnn.FilterDescriptor, {"shape": (65536,) * 4}, "more than memory"),
        (cudnn.FilterDescriptor, {"shape": (4, 0, 3, 3)}, r"shape\[1\].*got 0"),
        (cudnn.FilterDescriptor, {"shape": (4, 3)}, "3 to 8 dimensions"),
        (cudnn.ConvolutionDescriptor, {"stride": 0}, r"stride.*\[1, 2147483647\], got 0"),
        (cudnn.ConvolutionDescriptor, {"padding": (0, -1)}, r"padding\[1\].*got -1"),
        (cudnn.ConvolutionDescriptor, {"dilation": (1, 2, 3)}, "dilation must be an int or 2 ints"),
        (cudnn.ConvolutionDescriptor, {"groups": 0}, "groups.*got 0"),
        (cudnn.ConvolutionDescriptor, {"ndim": 1}, r"ndim must be in \[2, 6\], got 1"),
        (cudnn.ConvolutionDescriptor, {"mode": 5}, "mode must be a ConvolutionMode"),
        (cudnn.ConvolutionDescriptor, {"math_type": 17}, "math_type must be a MathType"),
        (cudnn.PoolingDescriptor, {"window": 0}, "window.*got 0"),
        (cudnn.PoolingDescriptor, {"window": 2, "padding": 2}, "padding must be smaller"),
        (cudnn.PoolingDescriptor, {"window": 2, "stride": 0}, "stride.*got 0"),
        (cudnn.PoolingDescriptor, {"window": 2, "mode": 4}, "mode must be a PoolingMode"),
        (cudnn.PoolingDescriptor, {"window": (2,)}, "window must have 2 to 6 axes"),
        (cudnn.ActivationDescriptor, {"mode": 7}, "mode must be an? ActivationMode"),
        (
            cudnn.ActivationDescriptor,
            {"mode": 4, "coefficient": float("nan")},
            "coefficient must be a finite number, got nan",
        ),
    ],
)
def test_bad_settings_are_refused(library, kind, arguments, text):
    with pytest.raises(ValueError, match=text):
        kind(**arguments, library=library)


def test_convolution_reads_back(library):
    conv = cudnn.ConvolutionDescriptor(
        (1, 2), (3, 4), (5, 6), mode=cudnn.ConvolutionMode.CONVOLUTION, compute_type="float64",
        groups=7, math_type=cudnn.MathType.TENSOR_OP_MATH, library=library,
    )  # fmt: skip
    assert (conv.padding, conv.stride, conv.dilation) == ((1, 2), (3, 4), (5, 6))
    assert conv.mode == cudnn.ConvolutionMode.CONVOLUTION
    assert conv.compute_type == cudnn.DataType.DOUBLE
    assert (conv.groups, conv.math_type) == (7, cudnn.MathType.TENSOR_OP_MATH)
    other = conv.replace(math_type=cudnn.MathType.FMA_MATH, groups=1)
    assert (other.groups, other.math_type, other.dilation) == (1, cudnn.MathType.FMA_MATH, (5, 6))


def test_d5_mode_shows_in_repr(library):
    for mode in cudnn.ConvolutionMode:
        assert f"mode={mode.name}" in repr(cudnn.ConvolutionDescriptor(mode=mode, library=library))


def test_pooling_and_activation_read_back(library):
    pooling = cudnn.PoolingDescriptor(
        (3, 2), cudnn.PoolingMode.MAX_DETERMINISTIC, padding=(1, 0), stride=(2, 1),
        nan_propagation=cudnn.NanPropagation.NOT_PROPAGATE_NAN, library=library,
    )  # fmt: skip
    assert (pooling.window, pooling.padding, pooling.stride) == ((3, 2), (1, 0), (2, 1))
    assert pooling.mode == cudnn.PoolingMode.MAX_DETERMINISTIC
    assert pooling.nan_propagation == cudnn.NanPropagation.NOT_PROPAGATE_NAN
    for mode in cudnn.ActivationMode:
        activation = cudnn.ActivationDescriptor(mode, coefficient=1.75, library=library)
        assert (activation.mode, activation.coefficient) == (mode, 1.75)


def test_output_dims(library):
    x_desc = cudnn.TensorDescriptor((2, 6, 11, 13), library=library)
    w_desc = cudnn.FilterDescriptor((8, 3, 3, 5), library=library)
    conv = cudnn.ConvolutionDescriptor((1, 2), (2, 3), (2, 1), groups=2, library=library)
    assert cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc) == (2, 8, 5, 5)
    pooling = cudnn.PoolingDescriptor(3, padding=1, stride=2, library=library)
    assert cudnn.get_pooling_forward_output_dim(pooling, x_desc) == (2, 6, 6, 7)
    volume = cudnn.TensorDescriptor((2, 3, 5, 6, 7), library=library)
    cube = cudnn.FilterDescriptor((4, 3, 2, 3, 4), library=library)
    conv3d = cudnn.ConvolutionDescriptor(ndim=3, library=library)
    assert cudnn.get_convolution_forward_output_dim(conv3d, volume, cube) == (2, 4, 4, 4, 4)
    pooling3d = cudnn.PoolingDescriptor((2, 3, 4), library=library)
    assert cudnn.get_pooling_forward_output_dim(pooling3d, volume) == (2, 3, 2, 2, 1)


def test_d4_three_dimensions_are_refused(library):
    x_desc = cudnn.TensorDescriptor((1, 1, 6), library=library)
    w_desc = cudnn.FilterDescriptor((1, 1, 3), library=library)
    conv = cudnn.ConvolutionDescriptor(library=library)
    with pytest.raises(ValueError, match="2-d convolution takes 4-d tensors.*N, C, 1, W"):
        cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc)


def test_d7_window_larger_than_input(library):
    x_desc = cudnn.TensorDescriptor((1, 1, 2, 2), library=library)
    pooling = cudnn.PoolingDescriptor(7, library=library)
    with pytest.raises(ValueError, match="window 7 > padded input 2 in dimension 2"):
        cudnn.get_pooling_forward_output_dim(pooling, x_desc)


def test_wrong_descriptor_type_is_a_type_error(library):
    x_desc = cudnn.TensorDescriptor((1, 1, 6, 6), library=library)
    conv = cudnn.ConvolutionDescriptor(library=library)
    with pytest.raises(TypeError, match="w_desc"):
        cudnn.get_convolution_forward_output_dim(conv, x_desc, x_desc)
    with pytest.raises(TypeError, match="x_desc"):
        cudnn.get_convolution_forward_output_dim(conv, None, x_desc)


def test_errors_carry_the_arguments_and_pickle(library):
    x_desc = cudnn.TensorDescriptor((1, 3, 6, 6), library=library)
    w_desc = cudnn.FilterDescriptor((1, 2, 3, 3), library=library)
    conv = cudnn.ConvolutionDescriptor(library=library)
    with pytest.raises(errors.CudnnBadParam) as caught:
        cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc)
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is errors.CudnnBadParam
    assert error.function == "cudnnGetConvolution2dForwardOutputDim"
    assert (error.status, error.status_name) == (2000, "CUDNN_STATUS_BAD_PARAM")
    assert "shape=(1, 3, 6, 6)" in str(error)
    assert error.last_error


def test_h2_close_twice_and_use_after_close(library):
    for make in (
        lambda: cudnn.TensorDescriptor((1, 1, 6, 6), library=library),
        lambda: cudnn.FilterDescriptor((1, 1, 3, 3), library=library),
        lambda: cudnn.ConvolutionDescriptor(library=library),
        lambda: cudnn.PoolingDescriptor(2, library=library),
        lambda: cudnn.ActivationDescriptor(1, library=library),
    ):
        with make() as descriptor:
            assert descriptor.address
        assert descriptor.closed
        assert "closed" in repr(descriptor)
        descriptor.close()
        with pytest.raises(ValueError, match="closed"):
            _ = descriptor.address
        with pytest.raises(ValueError, match="closed"), descriptor:
            pass


def test_equality_is_that_of_the_settings(library):
    def tensor(*arguments, **options):
        return cudnn.TensorDescriptor(*arguments, **options, library=library)

    shape = (2, 3, 4, 5)
    assert tensor(shape) == tensor(shape, "float32", strides=(60, 20, 5, 1))
    assert hash(tensor(shape)) == hash(tensor(shape))
    assert tensor(shape) != tensor(shape, "float16")
    assert tensor(shape) != tensor(shape, format=cudnn.TensorFormat.NHWC)
    assert tensor(shape) != tensor((2, 3, 5, 4))
    assert tensor(shape) != shape
    assert tensor((4, 3, 2, 2)) != cudnn.FilterDescriptor((4, 3, 2, 2), library=library)
    for kind, first, second in (
        (cudnn.FilterDescriptor, {"shape": (4, 3, 2, 2)}, {"shape": (4, 3, 2, 1)}),
        (cudnn.ConvolutionDescriptor, {"padding": 1}, {"padding": 1, "groups": 2}),
        (cudnn.PoolingDescriptor, {"window": 2}, {"window": 2, "stride": 1}),
        (cudnn.ActivationDescriptor, {"mode": 1}, {"mode": 2}),
    ):
        assert kind(**first, library=library) == kind(**first, library=library)
        assert kind(**first, library=library) != kind(**second, library=library)
    with cudnn.Handle(library="reference") as handle:
        assert handle == handle
        assert len({handle}) == 1


@pytest.mark.library
def test_descriptors_of_two_libraries_differ():
    one, other = (cudnn.PoolingDescriptor(2, library=name) for name in ("cuda", "reference"))
    assert one != other


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"dilation": 2**31 - 1}, "window 4294967295 > padded input 5"),
        ({"padding": 2**31 - 1}, "output of .* has more than 2147483647 elements in dimension 2"),
        ({"padding": 2**31 - 1, "stride": 7}, "is padded to 42949672.. elements in dimension 2"),
        ({"padding": (0, 1), "dilation": (1, 2)}, None),
    ],
)
def test_output_sizes_do_not_overflow(library, settings, text):
    """cuDNN computes them in 32 bits and reports success."""
    conv = cudnn.ConvolutionDescriptor(**settings, library=library)
    x_desc = cudnn.TensorDescriptor((1, 3, 5, 5), library=library)
    w_desc = cudnn.FilterDescriptor((2, 3, 3, 3), library=library)
    if text is None:
        assert cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc) == (1, 2, 3, 3)
        return
    with pytest.raises(ValueError, match=text):
        cudnn.get_convolution_forward_output_dim(conv, x_desc, w_desc)


def test_a_refused_set_shows_what_was_given(library):
    with pytest.raises(errors.CudnnError) as caught:
        cudnn.TensorDescriptor((1, 3, 2, 2), "int64", library=library)
    assert "shape: (1, 3, 2, 2)" in caught.value.arguments
    assert "INT64" in str(caught.value)


def test_numpy_integers_are_integers(library):
    pooling = cudnn.PoolingDescriptor(np.int64(2), stride=np.int32(1), library=library)
    assert (pooling.window, pooling.stride) == ((2, 2), (1, 1))
    with pytest.raises(TypeError, match="window must be an int, got 2.0"):
        cudnn.PoolingDescriptor(2.0, library=library)
    with pytest.raises(ValueError, match=r"ndim must be in \[2, 6\], got 0"):
        cudnn.PoolingDescriptor(2, ndim=0, library=library)


def test_a_descriptor_is_set_once(library):
    descriptor = cudnn.TensorDescriptor((1, 2, 3, 4), library=library)
    with pytest.raises(ValueError, match="already made"):
        descriptor.__init__((4, 3, 2, 1), library=library)
    assert descriptor.shape == (1, 2, 3, 4)
    assert descriptor.address


def test_an_unmade_descriptor_is_refused(library):
    unmade = cudnn.TensorDescriptor.__new__(cudnn.TensorDescriptor)
    pooling = cudnn.PoolingDescriptor(2, library=library)
    with pytest.raises(ValueError, match="never made"):
        cudnn.get_pooling_forward_output_dim(pooling, unmade)


@pytest.mark.library
def test_libraries_do_not_mix():
    x_desc = cudnn.TensorDescriptor((1, 1, 6, 6), library="reference")
    pooling = cudnn.PoolingDescriptor(2, library="cuda")
    with pytest.raises(errors.LibraryMismatch, match="reference.*cuda"):
        cudnn.get_pooling_forward_output_dim(pooling, x_desc)


def test_h3_failed_constructions_leave_nothing():
    from pycudnn import reference

    gc.collect()
    cudnn.TensorDescriptor((1, 1, 1, 1), library="reference").close()
    before = reference.live_objects()
    for _ in range(100):
        with pytest.raises((errors.CudnnError, ValueError)):
            # Accepted by our checks, refused by the library.
            cudnn.TensorDescriptor((1, 3, 2, 2), "int64", library="reference")
    gc.collect()
    assert reference.live_objects() == before


def test_dropped_descriptors_are_freed():
    from pycudnn import reference

    gc.collect()
    cudnn.TensorDescriptor((1, 1, 1, 1), library="reference").close()
    before = reference.live_objects()
    for _ in range(1000):
        cudnn.TensorDescriptor((1, 2, 3, 4), library="reference")
    cudnn.TensorDescriptor((1, 1, 1, 1), library="reference").close()
    assert reference.live_objects() == before


def test_threads_share_descriptors(library):
    x_desc = cudnn.TensorDescriptor((2, 3, 8, 8), library=library)
    pooling = cudnn.PoolingDescriptor(2, library=library)
    answers: list[tuple[int, ...]] = []

    def ask() -> None:
        for _ in range(200):
            answers.append(cudnn.get_pooling_forward_output_dim(pooling, x_desc))
            cudnn.TensorDescriptor((1, 1, 2, 2), library=library)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [(2, 3, 4, 4)] * 1600


def test_unknown_library_names():
    with pytest.raises(ValueError, match="library must be a Library, one of"):
        cudnn.TensorDescriptor((1, 1, 1, 1), library="gpu")
    with pytest.raises(ValueError, match="must be a cudnn library"):
        cudnn.TensorDescriptor((1, 1, 1, 1), library=get_library("cublas", "reference"))
    with pytest.raises(TypeError, match="library must be"):
        cudnn.TensorDescriptor((1, 1, 1, 1), library=5)
