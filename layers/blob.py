"""Blob: a 4-D float32 tensor that lives on the host, on the device, or on both (book: blob.h)."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Literal, overload

import numpy as np

from layers.context import CudaContext, default_context
from pycudnn import cudnn, memory
from pycudnn.device import Event


class Blob:
    """A float32 tensor of shape (n, c, h, w), NCHW and dense.

    Host and device memory are made on first use; nothing is copied between them but by ``to``.
    ``context`` says which device and stream the blob belongs to (None: the default context).
    """

    def __init__(
        self, n: int = 1, c: int = 1, h: int = 1, w: int = 1, *, context: CudaContext | None = None
    ) -> None:
        self._context = context
        self._host: np.ndarray | None = None
        self._device: memory.Buffer | None = None
        self._tensor: cudnn.TensorDescriptor | None = None
        self.shape = self._checked(n, c, h, w)

    @staticmethod
    def _checked(*shape: int) -> tuple[int, int, int, int]:
        for name, extent in zip("nchw", shape, strict=True):
            if extent < (0 if name == "n" else 1):
                raise ValueError(f"{name} of a blob is {extent}, must be positive: shape {shape}")
        n, c, h, w = shape
        return n, c, h, w

    @property
    def context(self) -> CudaContext:
        """The context whose device and stream this blob uses."""
        if self._context is None:
            self._context = default_context()
        return self._context

    @property
    def n(self) -> int:
        """Samples in the batch."""
        return self.shape[0]

    @property
    def c(self) -> int:
        """Channels."""
        return self.shape[1]

    @property
    def h(self) -> int:
        """Height."""
        return self.shape[2]

    @property
    def w(self) -> int:
        """Width."""
        return self.shape[3]

    @property
    def size(self) -> int:
        """Values per sample: c * h * w."""
        return math.prod(self.shape[1:])

    @property
    def len(self) -> int:
        """Values in all: n * c * h * w."""
        return math.prod(self.shape)

    @property
    def buf_size(self) -> int:
        """Size in bytes."""
        return 4 * self.len

    def reset(self, n: int = 1, c: int = 1, h: int = 1, w: int = 1) -> bool:
        """Take a new shape and drop memory and descriptor of the old one.

        Returns False, and keeps everything, where the shape is the same.
        """
        if (n, c, h, w) == self.shape:
            return False
        self.shape = self._checked(n, c, h, w)
        if self._device is not None:
            self._device.close()
        self._host = self._device = self._tensor = None
        return True

    @property
    def ptr(self) -> np.ndarray:
        """The host side, a NumPy array of the blob's shape (zeros at first)."""
        if self._host is None:
            self._host = np.zeros(self.shape, np.float32)
        return self._host

    @property
    def cuda(self) -> memory.Buffer:
        """The device side, a buffer of the blob's shape (not initialised at first)."""
        if self._device is None:
            context = self.context
            self._device = memory.empty(
                self.shape, "float32", device=context.device, stream=context.stream
            )
        return self._device

    def tensor(self) -> cudnn.TensorDescriptor:
        """Return the tensor descriptor of the blob's shape."""
        if self._tensor is None:
            self._tensor = cudnn.TensorDescriptor(self.shape, library=self.context.cudnn.library)
        return self._tensor

    @overload
    def to(self, target: Literal["host"]) -> np.ndarray: ...

    @overload
    def to(self, target: Literal["cuda"]) -> memory.Buffer: ...

    def to(self, target: str) -> np.ndarray | memory.Buffer:
        """Copy the other side's values to ``target``, ``"cuda"`` or ``"host"``, and return it.

        The copy to the device is queued on the context's stream; the copy to the host is
        complete on return.
        """
        if target == "cuda":
            self._copy_to_device()
            return self.cuda
        if target == "host":
            self.ptr[...] = self.cuda.numpy(self.context.stream)
            return self.ptr
        raise ValueError(f"target is {target!r}, must be 'cuda' or 'host'")

    def _copy_to_device(self) -> None:
        self.cuda.copy_from(self.ptr, self.context.stream)

    def print(self, name: str = "blob", num_batch: int = 1) -> None:
        """Copy to the host and print name, shape and the first ``num_batch`` samples."""
        self.to("host")
        print(f"** {name}: n {self.n}, c {self.c}, h {self.h}, w {self.w} **")
        with np.printoptions(precision=4, suppress=True, linewidth=120):
            for i in range(min(num_batch, self.n)):
                print(f"<--- sample {i} --->", self.ptr[i], sep="\n")

    def file_read(self, filename: str | os.PathLike[str]) -> None:
        """Fill both sides from a file of raw float32 values.

        Raises FileNotFoundError, and ValueError where the file has another number of bytes.
        """
        path = Path(filename)
        if path.stat().st_size != self.buf_size:
            raise ValueError(
                f"{path} has {path.stat().st_size} bytes, a blob of shape {self.shape} "
                f"takes {self.buf_size}"
            )
        self.ptr[...] = np.fromfile(path, np.float32).reshape(self.shape)
        self.to("cuda")

    def file_write(self, filename: str | os.PathLike[str]) -> None:
        """Copy to the host and write the raw float32 values."""
        self.to("host")
        self.ptr.tofile(filename)

    def __repr__(self) -> str:
        return f"Blob{self.shape}"


class StagingBlob(Blob):
    """A blob for input batches: its host side is two pinned buffers, used in turn.

    While one is copied to the device, ``next_host`` gives the other to fill.
    """

    def __init__(
        self, n: int = 1, c: int = 1, h: int = 1, w: int = 1, *, context: CudaContext | None = None
    ) -> None:
        super().__init__(n, c, h, w, context=context)
        # Per shape: the smaller last batch of an epoch comes back in every epoch.
        self._pinned: dict[tuple[int, ...], list[memory.PinnedBuffer]] = {}
        self._copied: dict[int, Event] = {}
        self._turn = 0

    @property
    def _current(self) -> memory.PinnedBuffer:
        if self.shape not in self._pinned:
            device = self.context.device
            self._pinned[self.shape] = [
                memory.pinned_empty(self.shape, "float32", device=device) for _ in range(2)
            ]
        return self._pinned[self.shape][self._turn]

    @property
    def ptr(self) -> np.ndarray:
        """The host buffer in use, pinned."""
        return self._current.array

    def next_host(self) -> np.ndarray:
        """Turn to the other host buffer and return it, once the copy out of it is done."""
        self._turn ^= 1
        copied = self._copied.pop(self._turn, None)
        if copied is not None:
            copied.synchronize()
        return self.ptr

    def _copy_to_device(self) -> None:
        stream = self.context.stream
        self.cuda.copy_from(self._current, stream)
        self._copied[self._turn] = stream.record(timing=False)
