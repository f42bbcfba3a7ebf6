"""Errors of a library: what they say of the arguments."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from pycudnn import _core, cudnn
from pycudnn.libraries import find_library, get_library


class Broken:
    """Its repr asks the library, and the answer is an error that describes it again."""

    def __init__(self) -> None:
        self.asked = 0

    def __repr__(self) -> str:
        self.asked += 1
        raise get_library("cudnn", "reference").error("cudnnGetX", 4000, (("x", self),))


class Unset:
    def __repr__(self) -> str:
        raise ValueError("77 is not a valid Mode")


def test_argument_that_cannot_be_read_is_described_by_its_type():
    library, broken = get_library("cudnn", "reference"), Broken()
    error = library.error("cudnnSetX", 2000, (("x", broken), ("n", 3), ("desc", Unset())))
    assert str(error).splitlines() == [
        "cudnnSetX returned CUDNN_STATUS_BAD_PARAM (2000)",
        "  x: <unreadable Broken>",
        "  n: 3",
        "  desc: <unset Unset>",
    ]
    assert broken.asked == 1
    assert "x: <unreadable Broken>" in str(library.error("cudnnSetX", 2000, (("x", broken),)))


@pytest.mark.parametrize(
    ("library", "kind"), [("x", ValueError), ("", ValueError), (3, TypeError), ([], TypeError)]
)
def test_the_argument_is_called_library(library, kind):
    text = r"library must be a Library, one of \('cuda', 'reference'\) or None, got "
    with pytest.raises(kind, match=text):
        find_library("cudnn", library)
    with pytest.raises(kind, match=text):
        cudnn.TensorDescriptor((1, 2, 3, 4), library=library)


def test_names_that_are_no_text():
    with pytest.raises(ValueError, match="name must be one of .*got array"):
        get_library(np.zeros(4))
    with pytest.raises(ValueError, match="backend must be one of .*got array"):
        get_library("cudnn", np.zeros(4))


def test_a_cold_call_refuses_a_descriptor_of_another_kind():
    """C would take any pointer."""
    library = get_library("cudnn", "reference")
    filters = cudnn.FilterDescriptor((4, 3, 2, 2), library=library)
    size = ctypes.c_size_t()
    text = "tensorDesc of cudnnGetTensorSizeInBytes must be a const cudnnTensorDescriptor_t, got F"
    with _core.ColdCall(library) as call, pytest.raises(TypeError, match=text):
        call("cudnnGetTensorSizeInBytes", filters, ctypes.byref(size))
