"""Blob and StagingBlob: shapes, copies, files."""

from __future__ import annotations

import numpy as np
import pytest

from layers import Blob
from layers.blob import StagingBlob


def test_sizes(context):
    blob = Blob(2, 3, 4, 5, context=context)
    assert (blob.n, blob.c, blob.h, blob.w) == blob.shape == (2, 3, 4, 5)
    assert (blob.size, blob.len, blob.buf_size) == (60, 120, 480)
    assert blob.tensor().shape == (2, 3, 4, 5)
    assert blob.tensor().strides == (60, 20, 5, 1)
    assert blob.tensor() is blob.tensor()
    assert blob.cuda.shape == blob.ptr.shape == (2, 3, 4, 5)
    assert blob.cuda.nbytes == 480


@pytest.mark.parametrize(("shape", "name"), [((2, 0), "c is 0"), ((-1,), "n is -1")])
def test_d3_bad_dimensions_are_named(shape, name):
    name, *rest = name.split(" ", 1)
    with pytest.raises(ValueError, match=f"^{name} of a blob {rest[0]}"):
        Blob(*shape)
    blob = Blob()
    with pytest.raises(ValueError, match=f"^{name} of a blob"):
        blob.reset(*shape)


def test_copies_between_the_sides(context, rng):
    blob = Blob(2, 3, context=context)
    values = rng.standard_normal(blob.shape).astype(np.float32)
    blob.ptr[...] = values
    assert blob.to("cuda") is blob.cuda
    blob.ptr[...] = 0
    np.testing.assert_array_equal(blob.cuda.numpy(), values)
    assert not blob.ptr.any()  # nothing is copied but by to()
    assert blob.to("host") is blob.ptr
    np.testing.assert_array_equal(blob.ptr, values)
    with pytest.raises(ValueError, match="target is 'device', must be 'cuda' or 'host'"):
        blob.to("device")


def test_reset_follows_a_new_shape_only(context):
    blob = Blob(2, 3, context=context)
    buffer, descriptor = blob.cuda, blob.tensor()
    assert blob.reset(2, 3) is False
    assert blob.cuda is buffer
    assert blob.tensor() is descriptor
    assert blob.reset(4, 3, 2, 1) is True
    assert buffer.closed
    assert blob.cuda.shape == blob.ptr.shape == blob.tensor().shape == (4, 3, 2, 1)


def test_files(context, rng, tmp_path):
    values = rng.standard_normal((2, 3, 1, 1)).astype(np.float32)
    blob = Blob(2, 3, context=context)
    blob.ptr[...] = values
    blob.to("cuda")
    blob.ptr[...] = 0
    blob.file_write(tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == values.tobytes()
    other = Blob(3, 2, context=context)
    other.file_read(tmp_path / "x.bin")
    np.testing.assert_array_equal(other.cuda.numpy().ravel(), values.ravel())
    with pytest.raises(ValueError, match=r"x\.bin has 24 bytes, .* takes 28"):
        Blob(7, context=context).file_read(tmp_path / "x.bin")
    with pytest.raises(FileNotFoundError, match="none"):
        other.file_read(tmp_path / "none.bin")


def test_print_shows_what_is_on_the_device(context, capsys):
    blob = Blob(2, 1, 1, 2, context=context)
    blob.ptr[...] = [[[[1.5, 2.5]]], [[[3.5, 4.5]]]]
    blob.to("cuda")
    blob.ptr[...] = 0
    blob.print("scores", num_batch=1)
    shown = capsys.readouterr().out
    assert "scores: n 2, c 1, h 1, w 2" in shown
    assert "1.5 2.5" in shown
    assert "3.5" not in shown


def test_staging_keeps_what_is_being_copied(context):
    blob = StagingBlob(4, 2, context=context)
    first = blob.ptr
    first[...] = 1
    blob.to("cuda")
    second = blob.next_host()
    assert not np.shares_memory(first, second)
    second[...] = 2
    np.testing.assert_array_equal(blob.cuda.numpy(), np.ones((4, 2, 1, 1)))
    blob.to("cuda")
    np.testing.assert_array_equal(blob.cuda.numpy(), np.full((4, 2, 1, 1), 2))
    assert np.shares_memory(blob.next_host(), first)


def test_staging_comes_back_to_a_shape(context):
    blob = StagingBlob(4, 2, context=context)
    for n in (4, 3, 4):
        blob.reset(n, 2)
        blob.next_host()[...] = n
        blob.to("cuda")
        np.testing.assert_array_equal(blob.cuda.numpy(), np.full((n, 2, 1, 1), n))
