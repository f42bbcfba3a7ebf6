"""MNIST: the loader of the data set (book: mnist.h, mnist.cpp)."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from layers.blob import StagingBlob
from layers.context import CudaContext

IMAGES_MAGIC = 0x803
LABELS_MAGIC = 0x801
CLASSES = 10


def find_file(directory: str | Path, stem: str, kind: str) -> Path:
    """Find one file of the data set under either of its usual names, plain or gzipped.

    ``stem`` is ``train-images``, ``t10k-labels``, ...; ``kind`` is ``idx3-ubyte`` or
    ``idx1-ubyte``. Raises FileNotFoundError with every name tried.
    """
    names = [f"{stem}{dot}{kind}{end}" for dot in "-." for end in ("", ".gz")]
    for name in names:
        path = Path(directory) / name
        if path.is_file():
            return path
    raise FileNotFoundError(f"no {stem} file in {str(directory)!r}; tried {', '.join(names)}")


def read_idx(path: Path, magic: int) -> np.ndarray:
    """Read an IDX file of unsigned bytes; the last byte of ``magic`` is its number of dimensions.

    Raises ValueError that names the file where the magic number, the length or the gzip
    container is wrong.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked, is it truncated? ({error})") from error
    header = 4 + 4 * (magic & 0xFF)
    if len(content) < header:
        raise ValueError(f"{path} is truncated: {len(content)} bytes, its header has {header}")
    found, *shape = struct.unpack_from(f">{header // 4}I", content)
    if found != magic:
        raise ValueError(f"{path} has magic number {found:#x}, expected {magic:#x}")
    expected = math.prod(shape)
    if len(content) - header != expected:
        raise ValueError(
            f"{path} holds {len(content) - header} bytes of data where its header promises "
            f"{' x '.join(map(str, shape))} = {expected}: truncated or damaged"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_split(directory: str | Path, stem: str) -> tuple[np.ndarray, np.ndarray]:
    """Read images (N, H, W) and labels (N,), both uint8, of the split ``train`` or ``t10k``."""
    image_file = find_file(directory, f"{stem}-images", "idx3-ubyte")
    label_file = find_file(directory, f"{stem}-labels", "idx1-ubyte")
    images, labels = read_idx(image_file, IMAGES_MAGIC), read_idx(label_file, LABELS_MAGIC)
    if len(images) != len(labels):
        raise ValueError(
            f"{image_file} has {len(images)} images but {label_file} has {len(labels)} labels"
        )
    if len(images) == 0:
        raise ValueError(f"{image_file} has no images")
    if labels.max() >= CLASSES:
        raise ValueError(f"{label_file} has label {labels.max()}, expected 0 to {CLASSES - 1}")
    return images, labels


class MNIST:
    """Batches of MNIST as blobs: pixels scaled to 0 .. 1 (n, 1, 28, 28), one-hot targets (n, 10).

    The images stay bytes in memory; a batch is one gather into pinned memory. An epoch touches
    every index once, so its last batch may be smaller. The next epoch is in a new random order
    where ``train(shuffle=True)`` asked for one.

    ``as_printed=True`` picks the images as the published loader does, from index
    ``(step * batch_size) % (N // batch_size)`` on: 488 of 60,000 images at batch size 256.
    """

    def __init__(
        self,
        dataset_dir: str | Path = "./dataset",
        *,
        context: CudaContext | None = None,
        seed: int | None = None,
        as_printed: bool = False,
    ) -> None:
        self.dataset_dir = Path(dataset_dir)
        self.context = context
        self.as_printed = as_printed
        self._random = np.random.default_rng(seed)
        self._data: StagingBlob | None = None
        self._target: StagingBlob | None = None

    def train(self, batch_size: int = 1, shuffle: bool = False) -> None:
        """Serve the 60,000 training images, in random order if ``shuffle``."""
        self._load("train", batch_size, shuffle)

    def test(self, batch_size: int = 1) -> None:
        """Serve the 10,000 test images in their own order."""
        self._load("t10k", batch_size, shuffle=False)

    def _load(self, stem: str, batch_size: int, shuffle: bool) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, must be at least 1")
        images, self.labels = read_split(self.dataset_dir, stem)
        count, height, width = images.shape
        self.images = images.reshape(count, height * width)
        self.batch_size = min(batch_size, count)
        self.shuffle = shuffle
        self.order = self._new_order() if shuffle else np.arange(count)
        self._step = 0
        self._pixels = np.empty((self.batch_size, height * width), np.uint8)
        self._data = StagingBlob(self.batch_size, 1, height, width, context=self.context)
        self._target = StagingBlob(self.batch_size, CLASSES, context=self.context)

    def _new_order(self) -> np.ndarray:
        return self._random.permutation(len(self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one epoch, the smaller last one included."""
        return -(-len(self) // self.batch_size)

    def get_data(self) -> StagingBlob:
        """Return the blob that every ``get_batch`` and ``next`` fills with pixels."""
        if self._data is None:
            raise RuntimeError("call train() or test() before get_data()")
        return self._data

    def get_target(self) -> StagingBlob:
        """Return the blob that every ``get_batch`` and ``next`` fills with one-hot targets."""
        if self._target is None:
            raise RuntimeError("call train() or test() before get_target()")
        return self._target

    def batch_indices(self) -> np.ndarray:
        """Return the indices, into the files, of the current batch."""
        if self.as_printed:
            first = self._step * self.batch_size % (len(self) // self.batch_size)
        else:
            first = self._step % self.steps_per_epoch * self.batch_size
        return self.order[first : first + self.batch_size]

    def get_batch(self) -> None:
        """Gather the current batch into the host side of both blobs."""
        data, target = self.get_data(), self.get_target()
        indices = self.batch_indices()
        n = len(indices)
        data.reset(n, *data.shape[1:])
        target.reset(n, CLASSES)
        pixels = self.images.take(indices, axis=0, out=self._pixels[:n], mode="clip")
        np.multiply(pixels, np.float32(1 / 255), out=data.next_host().reshape(n, -1))
        one_hot = target.next_host().reshape(n, CLASSES)
        one_hot.fill(0)
        one_hot[np.arange(n), self.labels[indices]] = 1

    def next(self) -> int:
        """Go to the next batch, gather it, and return the number of steps made so far."""
        self._step += 1
        if self.shuffle and not self.as_printed and self._step % self.steps_per_epoch == 0:
            self.order = self._new_order()
        self.get_batch()
        return self._step
