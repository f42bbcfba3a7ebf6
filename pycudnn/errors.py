"""One exception tree for the whole package.

Every exception here pickles, so it survives a process pool; a wrong *Python* argument is a
``ValueError`` or ``TypeError`` raised before any C function is called.
"""

from __future__ import annotations

from collections.abc import Sequence


class PycudnnError(Exception):
    """Base of everything that pycudnn raises by itself."""


class LibraryNotFound(PycudnnError, ImportError):
    """A shared library could not be found; the text lists every path tried and what to install."""


class FunctionNotFound(PycudnnError, AttributeError):
    """The loaded library does not export this function; the text names the version it needs."""


class NotSupported(PycudnnError, NotImplementedError):
    """What was asked for does not exist on this side (say, graph capture on the reference one)."""


class LibraryMismatch(PycudnnError, ValueError):
    """Objects of two libraries, two devices or two kinds of memory meet in one call."""


class NoAlgorithm(PycudnnError):
    """No record of a search survives the workspace limit and the wanted determinism."""


class StatusError(PycudnnError):
    """A C function returned a status other than success.

    Attributes: ``function`` (C name), ``status`` (number), ``status_name`` (C name of the status),
    ``last_error`` (the library's own text, may be empty) and ``arguments`` (descriptions of the
    shapes, strides and dtypes that went in).
    """

    def __init__(
        self,
        function: str,
        status: int,
        status_name: str,
        last_error: str = "",
        arguments: Sequence[str] = (),
    ) -> None:
        super().__init__(function, status, status_name, last_error, tuple(arguments))
        self.function = function
        self.status = status
        self.status_name = status_name
        self.last_error = last_error
        self.arguments = tuple(arguments)

    def __str__(self) -> str:
        lines = [f"{self.function} returned {self.status_name} ({self.status})"]
        if self.last_error:
            lines.append(f"  last error: {self.last_error}")
        lines.extend(f"  {argument}" for argument in self.arguments)
        return "\n".join(lines)


class CudnnError(StatusError):
    """A cuDNN function failed."""


class CudnnNotInitialized(CudnnError):
    """1xxx: the library, the driver or a sub-library is not there or not usable."""


class CudnnBadParam(CudnnError):
    """2xxx: cuDNN refused an argument."""


class CudnnNotSupported(CudnnError, NotSupported):
    """3xxx: the arguments are valid, but this cuDNN cannot compute that."""


class CudnnInternalError(CudnnError):
    """4xxx: cuDNN failed internally."""


class CudnnExecutionFailed(CudnnError):
    """5xxx: a kernel failed to launch or to run."""


class CublasError(StatusError):
    """A cuBLAS function failed."""


class CublasNotInitialized(CublasError):
    """The library or the device is not there or not usable."""


class CublasBadParam(CublasError):
    """cuBLAS refused an argument."""


class CublasNotSupported(CublasError, NotSupported):
    """The arguments are valid, but this cuBLAS or this GPU cannot compute that."""


class CublasInternalError(CublasError):
    """cuBLAS failed internally or could not allocate."""


class CublasExecutionFailed(CublasError):
    """A kernel failed to launch or to run."""


# By cudnnStatus_t // 1000.
CUDNN_CATEGORIES: dict[int, type[CudnnError]] = {
    1: CudnnNotInitialized,
    2: CudnnBadParam,
    3: CudnnNotSupported,
    4: CudnnInternalError,
    5: CudnnExecutionFailed,
}

# By cublasStatus_t.
CUBLAS_CATEGORIES: dict[int, type[CublasError]] = {
    1: CublasNotInitialized,
    3: CublasInternalError,
    7: CublasBadParam,
    8: CublasNotSupported,
    11: CublasExecutionFailed,
    13: CublasExecutionFailed,
    14: CublasInternalError,
    15: CublasNotSupported,
    16: CublasNotSupported,
}
