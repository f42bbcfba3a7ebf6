"""What a library tells of itself."""

from __future__ import annotations

import pytest

from pycudnn import cudnn
from pycudnn.libraries import get_library


def test_versions_agree(library):
    version = cudnn.get_version(library)
    assert version == get_library("cudnn", library).version
    parts = [cudnn.get_property(type, library) for type in cudnn.LibraryPropertyType]
    assert version == parts[0] * 10000 + parts[1] * 100 + parts[2]
    assert cudnn.get_cudart_version(library) == 0 or cudnn.get_cudart_version(library) >= 12000
    assert cudnn.get_max_device_version(library) % 10 == 0
    parts = "Graph Ops Cnn Adv".split() + ["SubquadraticOps"] * (version >= 92200)
    assert cudnn.version_check(library) == tuple(f"cudnn{part}VersionCheck" for part in parts)


def test_texts(library):
    assert cudnn.get_error_string(cudnn.Status.BAD_PARAM, library) == "CUDNN_STATUS_BAD_PARAM"
    assert cudnn.get_error_string(0, library) == "CUDNN_STATUS_SUCCESS"
    with pytest.raises(ValueError, match="status must be a Status"):
        cudnn.get_error_string(1, library)
    with pytest.raises(ValueError, match="type must be a LibraryPropertyType"):
        cudnn.get_property(3, library)


def test_last_error_is_read_once(library):
    found = get_library("cudnn", library)
    cudnn.get_last_error_string(library)
    assert cudnn.get_last_error_string(library) == ""
    set_4d = found.function("cudnnSetTensor4dDescriptor")
    nothing = set_4d.argtypes[0]()
    assert set_4d(nothing, 0, 0, 1, 1, 1, 1) == cudnn.Status.BAD_PARAM
    assert cudnn.get_last_error_string(library)
    assert cudnn.get_last_error_string(library) == ""


def test_runtime_errors(context):
    for mode in cudnn.ErrQueryMode:
        assert cudnn.query_runtime_error(context.cudnn, mode) == cudnn.Status.SUCCESS
    with pytest.raises(ValueError, match="mode must be an? ErrQueryMode"):
        cudnn.query_runtime_error(context.cudnn, 3)
    with pytest.raises(TypeError, match="handle must be a Handle, got 5"):
        cudnn.query_runtime_error(5)
