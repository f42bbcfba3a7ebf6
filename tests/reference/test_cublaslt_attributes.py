"""Attributes of cublasLt's descriptors: sizes, first values and statuses as in the real library."""

from __future__ import annotations

import ctypes

import pytest

from pycudnn import get_library
from pycudnn.abi.cublaslt_enums import (
    EmulationDescAttributes,
    MatmulDescAttributes,
    MatmulPreferenceAttributes,
    MatrixLayoutAttribute,
    MatrixTransformDescAttributes,
)
from pycudnn.abi.types import HANDLES
from pycudnn.errors import FunctionNotFound

KINDS = {
    "MatmulDesc": (MatmulDescAttributes, (68, 0)),
    "MatrixLayout": (MatrixLayoutAttribute, (0, 3, 5, 4)),
    "MatmulPreference": (MatmulPreferenceAttributes, ()),
    "MatrixTransformDesc": (MatrixTransformDescAttributes, (1,)),
    "EmulationDesc": (EmulationDescAttributes, ()),
}


# Numbers that had another, undeclared meaning before a version.
SINCE = {MatmulDescAttributes.EMULATION_DESCRIPTOR: 130100}


class Descriptor:
    """A descriptor of one library, through its C functions."""

    def __init__(self, backend: str, noun: str) -> None:
        self.library, self.noun = get_library("cublaslt", backend), noun
        self.pointer = HANDLES[f"cublasLt{noun}_t"]()
        assert self("Create", ctypes.byref(self.pointer), *KINDS[noun][1]) == 0

    def __call__(self, verb: str, *arguments):
        return self.library.function(f"cublasLt{self.noun}{verb}")(*arguments)

    def size(self, attribute: int) -> tuple[int, int]:
        """Status, and how many bytes an attribute has."""
        written = ctypes.c_size_t()
        status = self("GetAttribute", self.pointer, attribute, None, 0, ctypes.byref(written))
        return status, written.value

    def get(self, attribute: int, size: int) -> tuple[int, bytes]:
        """Status and value, in a buffer of ``size`` bytes with more behind it."""
        room = (ctypes.c_ubyte * 32)(*[0xA5] * 32)
        status = self("GetAttribute", self.pointer, attribute, ctypes.addressof(room), size, None)
        assert bytes(room[size:]) == b"\xa5" * (32 - size)
        return status, bytes(room[:size])

    def set(self, attribute: int, value: bytes, size: int) -> int:
        """The status."""
        room = (ctypes.c_ubyte * 32)(*value)
        return self("SetAttribute", self.pointer, attribute, ctypes.addressof(room), size)


@pytest.fixture(params=KINDS)
def pair(request):
    """The reference library's descriptor and the real one's, and their attributes."""
    made = []
    try:
        made = [Descriptor(backend, request.param) for backend in ("reference", "cuda")]
    except FunctionNotFound as error:
        assert "needs cublasLt 13.1.0" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    version = get_library("cublaslt", "cuda").version
    yield (*made, [each for each in KINDS[request.param][0] if version >= SINCE.get(each, 0)])
    for descriptor in made:
        assert descriptor("Destroy", descriptor.pointer) == 0


@pytest.mark.library
def test_sizes_and_first_values(pair):
    ours, real, attributes = pair
    seen = 0
    for attribute in attributes:
        status, size = real.size(attribute)
        if status:  # newer than this library
            continue
        seen += 1
        assert ours.size(attribute) == (0, size), attribute.name
        assert ours.get(attribute, size) == real.get(attribute, size), attribute.name
    assert seen >= 4


@pytest.mark.library
def test_any_value_is_kept(pair):
    """Neither library looks at a value when it is set, as long as it can keep it; the size must
    be right."""
    ours, real, attributes = pair
    value = bytes([1, 2, *[0] * 30])
    for attribute in attributes:
        status, size = real.size(attribute)
        if status:
            continue
        for wrong in (0, size - 1, size + 1, 32):
            assert ours.set(attribute, value, wrong) == real.set(attribute, value, wrong) == 7
            if wrong:
                assert ours.get(attribute, wrong)[0] == real.get(attribute, wrong)[0] == 7
        assert ours.set(attribute, value, size) == real.set(attribute, value, size) == 0
        assert ours.get(attribute, size) == real.get(attribute, size) == (0, value[:size])


@pytest.mark.library
def test_values_of_all_bits(pair):
    """Of one attribute newer versions keep 16 bits, although its type has 32."""
    ours, real, attributes = pair
    for attribute in attributes:
        status, size = real.size(attribute)
        if status == 0:
            value = bytes(range(1, 33))
            status = real.set(attribute, value, size)
            if attribute is MatrixLayoutAttribute.MATRIX_LAYOUT_BATCH_MODE and status == 0:
                continue  # an older one
            assert ours.set(attribute, value, size) == status, attribute.name
            assert (status == 0) == (attribute.name != "MATRIX_LAYOUT_BATCH_MODE")
            assert ours.get(attribute, size) == real.get(attribute, size)


@pytest.mark.library
@pytest.mark.parametrize("attribute", [-1, 99, 2**31 - 1])
def test_attributes_that_there_are_none_of(pair, attribute):
    ours, real, _ = pair
    assert ours.size(attribute)[0] == real.size(attribute)[0] == 7
    assert ours.set(attribute, bytes(8), 4) == real.set(attribute, bytes(8), 4) == 7
