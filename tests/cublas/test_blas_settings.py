"""Settings of the handle beyond math and pointer mode, and questions to the library."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import config, cublas, get_library
from pycudnn.cublas import (
    AtomicsMode,
    CudaEmulationMantissaControl,
    CudaEmulationSpecialValuesSupport,
    EmulationStrategy,
    LibraryPropertyType,
    Status,
)
from pycudnn.errors import FunctionNotFound

# Property: default, values that it takes and gives back, values that it refuses.
SETTINGS = {
    "atomics_mode": (AtomicsMode.NOT_ALLOWED, [AtomicsMode.ALLOWED], [2, -1, "ALLOWED", None]),
    "sm_count_target": (0, [1, 7], [-1, 2**31, 1.5, None]),
    "emulation_strategy": (
        EmulationStrategy.DEFAULT, [EmulationStrategy.EAGER, EmulationStrategy.PERFORMANT],
        [3, -1, None],
    ),
    "emulation_special_values": (
        CudaEmulationSpecialValuesSupport.DEFAULT,
        [CudaEmulationSpecialValuesSupport.NONE, CudaEmulationSpecialValuesSupport.NAN, 3],
        [4, 7, -1, None, 1.0],
    ),
    "mantissa_control": (
        CudaEmulationMantissaControl.DYNAMIC, [CudaEmulationMantissaControl.FIXED], [2, None],
    ),
    "max_mantissa_bit_count": (0, [40], [-5, 2**31, None, 0.5]),
    "mantissa_bit_offset": (0, [-5, 7], [2**31, -(2**40), None, 0.5]),
}  # fmt: skip


@pytest.fixture
def setting(handle, request):
    """Skips where the library is older than the setting, which it must say so."""
    try:
        getattr(handle, request.param)
    except FunctionNotFound as error:
        assert "needs cublas 13" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    return request.param


@pytest.mark.parametrize("setting", SETTINGS, indirect=True)
def test_settings(handle, setting):
    default, taken, refused = SETTINGS[setting]
    assert getattr(handle, setting) == default
    assert type(getattr(handle, setting)) is type(default)
    for value in taken:
        setattr(handle, setting, value)
        assert getattr(handle, setting) == value
    for value in refused:
        with pytest.raises(ValueError, match=f"^{setting} must be .*got {value!r}$"):
            setattr(handle, setting, value)
    assert getattr(handle, setting) == taken[-1]


def test_mantissa_bit_count(handle, put):
    counts = put(np.zeros(1, np.int32))
    try:
        handle.mantissa_bit_count = counts
    except FunctionNotFound as error:
        assert "needs cublas 13" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    assert handle.mantissa_bit_count is counts
    for wrong in (4096, put(np.zeros(1)), np.zeros(1)):
        with pytest.raises(TypeError, match="^mantissa_bit_count must be a buffer of int32"):
            handle.mantissa_bit_count = wrong
    with pytest.raises(ValueError, match="^mantissa_bit_count needs 4 bytes, got 0$"):
        handle.mantissa_bit_count = put(np.zeros(0, np.int32))
    assert handle.mantissa_bit_count is counts
    handle.mantissa_bit_count = None
    assert handle.mantissa_bit_count is None


def test_no_atomics_where_bits_must_repeat(handle):
    with config.override(deterministic=True):
        message = r"^atomics_mode must be NOT_ALLOWED \(0\) while .*config.deterministic is set"
        with pytest.raises(ValueError, match=message):
            handle.atomics_mode = AtomicsMode.ALLOWED
        assert handle.atomics_mode is AtomicsMode.NOT_ALLOWED
        handle.atomics_mode = AtomicsMode.NOT_ALLOWED
    handle.atomics_mode = AtomicsMode.ALLOWED
    assert handle.atomics_mode is AtomicsMode.ALLOWED


def test_settings_of_a_closed_handle(backend):
    handle = cublas.Handle(library=backend)
    handle.close()
    for name in ("atomics_mode", "sm_count_target"):
        with pytest.raises(ValueError, match="this Handle is closed"):
            getattr(handle, name)
        with pytest.raises(ValueError, match="this Handle is closed"):
            setattr(handle, name, 0)


# ---- the library ---------------------------------------------------------------------------------


@pytest.fixture(params=["reference", pytest.param("cuda", marks=pytest.mark.library)])
def library(request):
    return get_library("cublas", request.param)


def test_properties_are_the_version(library):
    major, minor, patch = (cublas.get_property(kind, library) for kind in LibraryPropertyType)
    assert major * 10000 + minor * 100 + patch == library.version
    assert cublas.get_property(0, library.backend) == major
    for wrong in (3, -1, "MAJOR_VERSION", None):
        with pytest.raises(ValueError, match="^type must be a LibraryPropertyType: MAJOR_VERSION"):
            cublas.get_property(wrong, library)


def test_cudart_version(library):
    version = cublas.get_cudart_version(library)
    assert version // 1000 == cublas.get_property(LibraryPropertyType.MAJOR_VERSION, library)


def test_statuses(library):
    for status in Status:
        assert cublas.get_status_name(status, library) == f"CUBLAS_STATUS_{status.name}"
        assert cublas.get_status_string(status, library)
    assert "UNKNOWN" not in cublas.get_status_name(7, library)
    for wrong in (-1, 2**31, "7", None):
        with pytest.raises(ValueError, match="^status must be an int from 0"):
            cublas.get_status_name(wrong, library)
        with pytest.raises(ValueError, match="^status must be an int from 0"):
            cublas.get_status_string(wrong, library)
