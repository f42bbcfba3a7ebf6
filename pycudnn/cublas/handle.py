"""The cuBLAS handle."""

from __future__ import annotations

from pycudnn import _core, operands
from pycudnn.abi.cublas_enums import AtomicsMode, Math, PointerMode
from pycudnn.cublas._emulation import EmulationSettings
from pycudnn.device import Device, Stream
from pycudnn.handles import create, set_stream
from pycudnn.libraries import Library
from pycudnn.settings import config

_MATH_FLAGS = Math.MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
_WORKSPACE_ALIGNMENT = 256


class Handle(EmulationSettings):
    """A cuBLAS library context on one device (cublasCreate).

    ``device`` is where its work runs (None: device 0 of the library's backend), ``stream`` the
    stream that it is queued on (None: the device's default one). A lock in the handle serialises
    its calls, so threads may share one; they run in parallel only with a handle each. Float32
    products are computed in TF32 only if ``pycudnn.config.tf32`` is set or ``math_mode`` says so.
    """

    def __init__(
        self,
        device: Device | None = None,
        stream: Stream | None = None,
        *,
        library: Library | str | None = None,
    ) -> None:
        device = create(self, "cublas", ("cublasCreate_v2", "cublasDestroy_v2"), device, library)
        try:
            self.stream = device.default_stream if stream is None else stream
            if config.tf32:
                self.math_mode = Math.TF32_TENSOR_OP_MATH
        except BaseException:
            self.close()
            raise

    @property
    def stream(self) -> Stream:
        """The stream that this handle's work is queued on (cublasSetStream)."""
        return super().stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        set_stream(self, "cublasSetStream_v2", stream)
        if self.workspace is not None:  # cublasSetStream went back to cuBLAS's own
            self.set_workspace(self.workspace)

    @property
    def math_mode(self) -> int:
        """How float32 and half products are computed (cublasSetMathMode): a ``Math`` member.

        MATH_DISALLOW_REDUCED_PRECISION_REDUCTION may be added to another one with ``|``.
        """
        mode = self._get("cublasGetMathMode")
        return Math(mode) if mode in tuple(Math) else mode

    @math_mode.setter
    def math_mode(self, mode: int) -> None:
        if not isinstance(mode, int) or mode & ~_MATH_FLAGS not in tuple(Math):
            known = ", ".join(f"{known.name} ({known.value})" for known in Math)
            raise ValueError(f"math_mode must be a Math: {known}; got {mode!r}")
        self._set("cublasSetMathMode", mode)

    @property
    def atomics_mode(self) -> AtomicsMode:
        """May sums be taken in an order that varies from call to call (cublasSetAtomicsMode)?

        NOT_ALLOWED, the default: equal calls give equal bits. ValueError for ALLOWED where
        ``pycudnn.config.deterministic`` is set.
        """
        return AtomicsMode(self._get("cublasGetAtomicsMode"))

    @atomics_mode.setter
    def atomics_mode(self, mode: AtomicsMode) -> None:
        if mode not in tuple(AtomicsMode):
            raise ValueError(f"atomics_mode must be NOT_ALLOWED (0) or ALLOWED (1), got {mode!r}")
        if mode == AtomicsMode.ALLOWED and config.deterministic:
            raise ValueError(
                "atomics_mode must be NOT_ALLOWED (0) while pycudnn.config.deterministic is set, "
                f"got {mode!r}"
            )
        self._set("cublasSetAtomicsMode", mode)

    @property
    def sm_count_target(self) -> int:
        """How many multiprocessors kernels are chosen for (cublasSetSmCountTarget); 0: all."""
        return self._get("cublasGetSmCountTarget")

    @sm_count_target.setter
    def sm_count_target(self, count: int) -> None:
        if not isinstance(count, int) or not 0 <= count < 2**31:
            raise ValueError(f"sm_count_target must be an int from 0 to 2**31 - 1, got {count!r}")
        self._set("cublasSetSmCountTarget", count)

    @property
    def pointer_mode(self) -> PointerMode:
        """Where scaling factors and results live (cublasSetPointerMode).

        HOST, the default: they are Python numbers. DEVICE: they are buffers of one element, and
        nothing waits for the device.
        """
        return PointerMode(self._get("cublasGetPointerMode_v2"))

    @pointer_mode.setter
    def pointer_mode(self, mode: PointerMode) -> None:
        if mode not in tuple(PointerMode):
            raise ValueError(f"pointer_mode must be HOST (0) or DEVICE (1), got {mode!r}")
        with self.mode_lock:
            self._point(mode)

    def set_workspace(self, workspace: object) -> None:
        """Have cuBLAS work in a buffer of one's own (cublasSetWorkspace), or with None in its own.

        A capture needs one that lives as long as the graph. The handle keeps it; once it is closed
        calls raise ValueError until another one is set. ValueError unless its address is a
        multiple of 256, which not every cuBLAS checks; 32 MiB are enough for all that it does.
        """
        if workspace is None:
            self._lend(None)
            self.stream = self.stream  # cublasSetStream goes back to cuBLAS's own
            return
        if not isinstance(workspace, _core.Buffer):
            workspace = operands.view(workspace, "workspace", self.library.backend)
        with _core.ColdCall(self.library, self) as call:
            address = call.operand(workspace, "workspace", True)
            if address % _WORKSPACE_ALIGNMENT:
                raise ValueError(
                    f"workspace must be aligned to {_WORKSPACE_ALIGNMENT} bytes, "
                    f"got the address {address:#x}"
                )
            call("cublasSetWorkspace_v2", self, address, workspace.nbytes)
            self._lend(workspace)

    @property
    def version(self) -> int:
        """The version of cuBLAS (cublasGetVersion): 13.10.0 is 131000."""
        return self._get("cublasGetVersion_v2")

    def __repr__(self) -> str:
        if self.closed or self.library is None:
            return "<closed cublas.Handle>"
        return f"<cublas.Handle of {self.library!r} on {self.device!r}>"
