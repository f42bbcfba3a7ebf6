"""Errors of a library: what they say of the arguments."""

from __future__ import annotations

from pycudnn.libraries import get_library


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
