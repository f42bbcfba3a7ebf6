"""The handle's settings, transfers between host and device, and what the library says of itself."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from blas_library import Result

from pycudnn import abi, reference
from pycudnn.abi.cublas_enums import Status

INVALID, MAPPING = Status.INVALID_VALUE, Status.MAPPING_ERROR
WIDTHS = ["", "_64"]


@pytest.mark.parametrize(
    ("name", "first", "good", "bad"),
    [
        ("SmCountTarget", 0, [0, 1, 16], [-1]),
        ("EmulationStrategy", 0, [0, 1, 2], [-1, 3]),
        ("EmulationSpecialValuesSupport", 65535, [0, 1, 2, 3, 65535], [-1, 65536]),
        ("FixedPointEmulationMantissaControl", 0, [0, 1], [-1, 2]),
        ("FixedPointEmulationMaxMantissaBitCount", 0, [0, 53, 79], [-1]),
        ("FixedPointEmulationMantissaBitOffset", 0, [0, 5, -5], []),
    ],
)
def test_settings(blas, name, first, good, bad) -> None:
    result = Result(ctypes.c_int)
    blas.check(f"Get{name}", result.pointer)
    assert result.value == first
    for value in good:
        blas.check(f"Set{name}", value)
        blas.check(f"Get{name}", result.pointer)
        assert result.value == value
    for value in bad:
        assert blas.status(f"Set{name}", value) == INVALID
        blas.check(f"Get{name}", result.pointer)
        assert result.value == good[-1]
    assert blas.status(f"Get{name}", None) == INVALID


def test_pointer_of_mantissa_bits(blas) -> None:
    out, place = ctypes.c_void_p(1), blas.put([0], np.int32)
    blas.check("GetFixedPointEmulationMantissaBitCountPointer", ctypes.byref(out))
    assert out.value is None
    blas.check("SetFixedPointEmulationMantissaBitCountPointer", place.address)
    blas.check("GetFixedPointEmulationMantissaBitCountPointer", ctypes.byref(out))
    assert out.value == place.address
    blas.check("SetFixedPointEmulationMantissaBitCountPointer", None)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("item", [1, 4, 8, 16])
@pytest.mark.parametrize("late", [False, True])
def test_vectors_to_and_from(blas, rng, width, item, late) -> None:
    host = rng.integers(0, 256, (10, item)).astype(np.uint8)
    device, back = blas.put(np.zeros((15, item)), np.uint8), np.zeros((20, item), np.uint8)
    name, stream = ("VectorAsync", (None,)) if late else ("Vector", ())
    set_, get = (blas.function(f"{verb}{name}{width}") for verb in ("Set", "Get"))
    assert set_(5, item, host.ctypes.data, 2, device.address, 3, *stream) == 0
    got = device.read()
    np.testing.assert_array_equal(got[::3], host[::2])
    assert not got[1::3].any()
    assert get(5, item, device.address, 3, back.ctypes.data, 4, *stream) == 0
    device.read()  # waits
    np.testing.assert_array_equal(back[::4], host[::2])
    assert not back[1::4].any()


@pytest.mark.parametrize("width", WIDTHS)
def test_matrices_to_and_from(blas, rng, width) -> None:
    rows, columns = 3, 4
    host = rng.standard_normal((columns, rows + 1))
    device, back = blas.put(np.full((columns, 5), 7), float), np.zeros((columns, rows + 3))
    arguments = (rows, columns, 8, host.ctypes.data, rows + 1, device.address, 5)
    assert blas.function(f"SetMatrix{width}")(*arguments) == 0
    got = device.read()
    np.testing.assert_array_equal(got[:, :rows], host[:, :rows])
    np.testing.assert_array_equal(got[:, rows:], 7)
    arguments = (rows, columns, 8, device.address, 5, back.ctypes.data, rows + 3)
    assert blas.function(f"GetMatrix{width}")(*arguments) == 0
    np.testing.assert_array_equal(back[:, :rows], host[:, :rows])
    assert not back[:, rows:].any()
    assert blas.function(f"GetMatrixAsync{width}")(*arguments, None) == 0


def test_statuses_of_transfers(blas) -> None:
    host, device = np.ones(64, np.uint8), blas.put(np.zeros(64), np.uint8)
    vector, matrix = blas.function("SetVector"), blas.function("SetMatrix")
    x, y = host.ctypes.data, device.address
    for arguments, status in {
        (0, 1, x, 1, y, 1): Status.SUCCESS, (-1, 1, x, 1, y, 1): MAPPING,
        (4, 0, x, 1, y, 1): INVALID, (4, -1, x, 1, y, 1): INVALID, (4, 1, x, 0, y, 1): INVALID,
        (4, 1, x, -1, y, 1): INVALID, (4, 1, x, 1, y, 0): INVALID,
    }.items():  # fmt: skip
        assert vector(*arguments) == status, arguments
    for arguments, status in {
        (0, 4, 1, x, 4, y, 4): Status.SUCCESS, (-1, 4, 1, x, 4, y, 4): INVALID,
        (4, -1, 1, x, 4, y, 4): INVALID, (4, 4, 0, x, 4, y, 4): INVALID,
        (4, 4, 1, x, 0, y, 4): INVALID, (4, 4, 1, x, 3, y, 4): MAPPING,
        (4, 4, 1, x, 4, y, 3): MAPPING,
    }.items():  # fmt: skip
        assert matrix(*arguments) == status, arguments
    assert not device.read().any()


def test_the_logger(ours) -> None:
    """A callback that was set is told again; NULL takes it away."""
    out = ctypes.c_void_p(1)
    get, set_ = ours.function("GetLoggerCallback", untyped=True), ours.function("SetLoggerCallback")
    assert get(ctypes.byref(out)) == 0
    assert out.value is None
    assert set_(1234) == 0
    assert get(ctypes.byref(out)) == 0
    assert out.value == 1234
    assert set_(None) == 0
    assert ours.function("LoggerConfigure")(1, 0, 0, None) == 0
    assert get(None) == INVALID


def test_xerbla(ours, capsys) -> None:
    ours.function("Xerbla")(b"SGEMM", 3)
    said = capsys.readouterr().out
    assert "SGEMM" in said
    assert "3" in said


def test_cudart_version(blas) -> None:
    version = blas.function("GetCudartVersion")()
    assert version >= 12000
    if blas.backend == "reference":
        assert version // 1000 == reference.version("cublas") // 10000


def test_all_of_cublas() -> None:
    assert [n for n in abi.prototypes("cublas") if reference.address("cublas", n) is None] == []
