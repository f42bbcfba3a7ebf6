"""The MNIST loader: files of every usual name, damaged ones, and which index is served when."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from layers import MNIST
from layers.mnist import read_split

DATASET = Path(__file__).parents[2] / "examples" / "dataset"
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(array: np.ndarray) -> bytes:
    """The bytes of an IDX file."""
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_split(directory: Path, count: int, name: str = "train-{}-idx{}-ubyte") -> tuple:
    """Write random images, 3 x 2, and labels; the first pixel pair tells the index."""
    random = np.random.default_rng(count)
    images = random.integers(0, 256, (count, 3, 2))
    images[:, 0] = np.stack(np.divmod(np.arange(count), 256), axis=1)
    labels = random.integers(0, 10, count)
    for kind, array in (("images", images), ("labels", labels)):
        path = directory / name.format(kind, array.ndim)
        content = idx(array)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return images, labels


def served(loader: MNIST) -> np.ndarray:
    """The indices of the current batch, read from its pixels."""
    pixels = np.rint(loader.get_data().ptr.reshape(-1, 6) * 255).astype(int)
    return pixels[:, 0] * 256 + pixels[:, 1]


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("name", ["train-{}-idx{}-ubyte", "train-{}.idx{}-ubyte"])
def test_m9_every_style_of_name(name, end, tmp_path):
    images, labels = write_split(tmp_path, 5, name + end)
    found = read_split(tmp_path, "train")
    np.testing.assert_array_equal(found[0], images)
    np.testing.assert_array_equal(found[1], labels)


def test_m9_the_files_of_the_repository():
    for stem, count in (("train", 60_000), ("t10k", 10_000)):
        images, labels = read_split(DATASET, stem)
        assert images.shape == (count, 28, 28)
        assert set(labels) == set(range(10))
    # What everyone knows of MNIST: its first training digits, and the mean pixel.
    images, labels = read_split(DATASET, "train")
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert images.mean() / 255 == pytest.approx(0.1307, abs=1e-4)


def test_m9_missing_files_name_what_was_tried(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        read_split(tmp_path, "t10k")
    for name in ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte.gz", str(tmp_path)):
        assert name in str(caught.value)


GOOD = idx(np.zeros((4, 3, 2)))


@pytest.mark.parametrize(
    ("content", "end", "message"),
    [
        (b"\x00\x00\x08\x01" + GOOD[4:], "", "magic number 0x801, expected 0x803"),
        (GOOD[:-1], "", "23 bytes of data where its header promises 4 x 3 x 2 = 24"),
        (GOOD + b"\x00", "", "25 bytes of data where its header promises 4 x 3 x 2 = 24"),
        (GOOD[:10], "", "truncated: 10 bytes, its header has 16"),
        (b"", "", "truncated: 0 bytes"),
        (gzip.compress(GOOD, mtime=0)[:-9], ".gz", "cannot be unpacked"),
        (gzip.compress(GOOD, mtime=0)[:5], ".gz", "cannot be unpacked"),
        (GOOD, ".gz", "cannot be unpacked"),
        (gzip.compress(GOOD[:-1], mtime=0), ".gz", "23 bytes of data"),
        (idx(np.zeros((5, 3, 2))), "", "has 5 images but .* has 4 labels"),
        (idx(np.zeros((0, 3, 2))), "", "has 0 images but .* has 4 labels"),
    ],
)
def test_m9_damaged_images(content, end, message, tmp_path):
    (tmp_path / (IMAGES + end)).write_bytes(content)
    (tmp_path / LABELS).write_bytes(idx(np.zeros(4)))
    with pytest.raises(ValueError, match=message) as caught:
        read_split(tmp_path, "train")
    assert IMAGES + end in str(caught.value)


def test_m9_damaged_labels(tmp_path):
    (tmp_path / IMAGES).write_bytes(GOOD)
    (tmp_path / LABELS).write_bytes(GOOD)
    with pytest.raises(ValueError, match=r"labels.* magic number 0x803, expected 0x801"):
        read_split(tmp_path, "train")
    (tmp_path / LABELS).write_bytes(idx(np.array([1, 2, 10, 3])))
    with pytest.raises(ValueError, match="label 10, expected 0 to 9"):
        read_split(tmp_path, "train")


def test_batches_are_scaled_pixels_and_one_hot_targets(context, tmp_path):
    images, labels = write_split(tmp_path, 7)
    loader = MNIST(tmp_path, context=context)
    loader.train(3)
    loader.get_batch()
    for step in range(2):
        here = slice(3 * step, 3 * step + 3)
        assert loader.get_data().shape == (3, 1, 3, 2)
        np.testing.assert_allclose(loader.get_data().ptr[:, 0], images[here] / 255, rtol=1e-6)
        np.testing.assert_array_equal(
            loader.get_target().ptr.reshape(3, 10), np.eye(10)[labels[here]]
        )
        loader.get_data().to("cuda")
        np.testing.assert_array_equal(loader.get_data().cuda.numpy(), loader.get_data().ptr)
        assert loader.next() == step + 1


@pytest.mark.parametrize("shuffle", [False, True])
def test_m2_an_epoch_touches_every_index_once(shuffle, context, tmp_path):
    write_split(tmp_path, 1000)
    loader = MNIST(tmp_path, context=context, seed=1)
    loader.train(96, shuffle)
    assert loader.steps_per_epoch == 11
    loader.get_batch()
    epochs = []
    for _ in range(2):
        batches = []
        for _ in range(11):
            batches.append(served(loader))
            loader.next()
        assert [len(batch) for batch in batches] == [96] * 10 + [40]
        epochs.append(np.concatenate(batches))
    for epoch in epochs:
        assert sorted(epoch) == list(range(1000))
    in_order = np.arange(1000)
    assert (epochs[0] == in_order).all() == (not shuffle)
    assert (epochs[0] == epochs[1]).all() == (not shuffle)


def test_m2_the_test_set_counts_10000(context):
    loader = MNIST(DATASET, context=context)
    loader.test(256)
    indices = []
    for _ in range(loader.steps_per_epoch):
        indices.append(loader.batch_indices())
        loader.next()
    assert np.concatenate(indices).tolist() == list(range(10_000))


def test_m2_as_printed_serves_488_images(context):
    loader = MNIST(DATASET, context=context, as_printed=True)
    loader.train(256, shuffle=True)
    seen = set()
    for _ in range(1600):
        seen.update(loader.batch_indices().tolist())
        loader.next()
    # (step * 256) % 234 is even: 0, 2, ... 232, and then 256 images from there.
    assert len(seen) == 488
    loader.test(10)
    tested = set()
    for _ in range(1000):
        tested.update(loader.batch_indices().tolist())
        loader.next()
    assert tested == set(range(1000))


def test_a_seed_repeats_the_order(context, tmp_path):
    write_split(tmp_path, 50)

    def first_batch(seed):
        loader = MNIST(tmp_path, context=context, seed=seed)
        loader.train(20, shuffle=True)
        loader.get_batch()
        return served(loader).tolist()

    assert first_batch(3) == first_batch(3)
    assert first_batch(3) != first_batch(4)
    assert first_batch(None) != first_batch(None)


def test_misuse(context, tmp_path):
    write_split(tmp_path, 5)
    loader = MNIST(tmp_path, context=context)
    for method in (loader.get_data, loader.get_target, loader.get_batch):
        with pytest.raises(RuntimeError, match=r"call train\(\) or test\(\) before"):
            method()
    with pytest.raises(ValueError, match="batch_size is 0, must be at least 1"):
        loader.train(0)
    loader.train(100)  # more than there are: all of them
    loader.get_batch()
    assert loader.get_data().n == 5
