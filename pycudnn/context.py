"""Interim: the context object."""

from __future__ import annotations
from typing import Any
from pycudnn.device import Device
from pycudnn.memory import Buffer, empty


class CudaContext:
    """Device, stream, both handles and a workspace that grows."""

    one, zero, minus_one = 1.0, 0.0, -1.0

    def __init__(
        self, backend: str | None = None, device_index: int = 0, stream: Any = None
    ) -> None:
        from pycudnn import cublas, cudnn

        self.device = Device(backend, device_index)
        self.stream = stream or self.device.create_stream()
        self.cudnn = cudnn.Handle(self.device, self.stream)
        self.cublas = cublas.Handle(self.device, self.stream)
        self._workspace: Buffer | None = None

    def workspace(self, nbytes: int) -> Buffer | None:
        if self._workspace is None or self._workspace.nbytes < nbytes:
            self._workspace = empty((nbytes,), "uint8", self.device, self.stream)
        return self._workspace

    def synchronize(self) -> None:
        self.stream.synchronize()

    def close(self) -> None:
        self.cudnn.close()
        self.cublas.close()

    def __enter__(self):
        return self

    def __exit__(self, *e):
        self.close()
