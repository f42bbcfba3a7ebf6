"""What a search for the algorithm of a product is limited to."""

from __future__ import annotations

from ctypes import c_float, c_uint32, c_uint64

from pycudnn.abi.cublaslt_enums import MatmulPreferenceAttributes, ReductionScheme
from pycudnn.cublaslt._attributes import Attribute, Descriptor, attribute
from pycudnn.cudnn._objects import LONG_MAX, finite, integer
from pycudnn.libraries import Library, find_library
from pycudnn.settings import config

A = MatmulPreferenceAttributes
_WORKSPACE = Attribute(A.MAX_WORKSPACE_BYTES, c_uint64)
_SCHEMES = Attribute(A.REDUCTION_SCHEME_MASK, c_uint32, ReductionScheme.MASK)
_ALIGNMENTS = tuple(
    Attribute(key, c_uint32, 256)
    for key in (
        A.MIN_ALIGNMENT_A_BYTES, A.MIN_ALIGNMENT_B_BYTES,
        A.MIN_ALIGNMENT_C_BYTES, A.MIN_ALIGNMENT_D_BYTES,
    )
)  # fmt: skip
_MAX_WAVES = Attribute(A.MAX_WAVES_COUNT, c_float)
_IMPLEMENTATIONS = Attribute(A.IMPL_MASK, c_uint64, 2**64 - 1)

_WORKSPACE_BYTES = 32 << 20  # all that cuBLAS asks for


class MatmulPreference(Descriptor):
    """Limits for ``get_heuristics`` (cublasLtMatmulPreferenceCreate).

    ``max_workspace_bytes`` None is ``pycudnn.config.workspace_limit``, or 32 MiB where that is
    None. ``reduction_schemes`` is a mask of ReductionScheme members, how the parts of a sum that is
    cut up may be put together: None is all of them, or all but INPLACE where
    ``pycudnn.config.deterministic`` is set. ``min_alignment_a`` and so on are powers of two, the
    bytes that the operands' addresses will be multiples of: what needs more is not proposed.
    ``max_waves`` limits the load of the device, 0 does not; ``implementations`` is a mask of
    cublasLtNumericalImplFlags_t.
    """

    c_type = "cublasLtMatmulPreference_t"
    NOUN = "MatmulPreference"
    SHOWN = ("max_workspace_bytes", "reduction_schemes")

    def __init__(
        self,
        max_workspace_bytes: int | None = None,
        *,
        reduction_schemes: int | None = None,
        min_alignment_a: int = 256,
        min_alignment_b: int = 256,
        min_alignment_c: int = 256,
        min_alignment_d: int = 256,
        max_waves: float = 0.0,
        implementations: int = 2**64 - 1,
        library: Library | str | None = None,
    ) -> None:
        if max_workspace_bytes is None:
            limit = config.workspace_limit
            max_workspace_bytes = _WORKSPACE_BYTES if limit is None else limit
        room = integer(max_workspace_bytes, "max_workspace_bytes", 0, LONG_MAX)
        if reduction_schemes is None:
            left_out = ReductionScheme.INPLACE if config.deterministic else 0
            reduction_schemes = ReductionScheme.MASK & ~left_out
        schemes = integer(reduction_schemes, "reduction_schemes", 0, ReductionScheme.MASK)
        alignments = {
            "min_alignment_a": min_alignment_a, "min_alignment_b": min_alignment_b,
            "min_alignment_c": min_alignment_c, "min_alignment_d": min_alignment_d,
        }  # fmt: skip
        for name, given in alignments.items():
            alignments[name] = number = integer(given, name, 1)
            if number & (number - 1):
                raise ValueError(f"{name} must be a power of two, got {number}")
        waves = finite(max_waves, "max_waves", 0.0)
        mask = integer(implementations, "implementations", 0, 2**64 - 1)
        arguments = {
            "max_workspace_bytes": room, "reduction_schemes": schemes,
            **alignments, "max_waves": waves, "implementations": mask,
        }  # fmt: skip
        values = {
            _WORKSPACE: room, _SCHEMES: schemes,
            **dict(zip(_ALIGNMENTS, alignments.values(), strict=True)),
            _MAX_WAVES: waves, _IMPLEMENTATIONS: mask,
        }  # fmt: skip
        self._build(find_library("cublaslt", library), arguments, (), values)

    max_workspace_bytes = attribute(_WORKSPACE, int, "The most bytes of workspace.")
    reduction_schemes = attribute(_SCHEMES, int, "A mask of ReductionScheme members.")
    min_alignment_a = attribute(_ALIGNMENTS[0], int, "Alignment of A, in bytes.")
    min_alignment_b = attribute(_ALIGNMENTS[1], int, "Alignment of B, in bytes.")
    min_alignment_c = attribute(_ALIGNMENTS[2], int, "Alignment of C, in bytes.")
    min_alignment_d = attribute(_ALIGNMENTS[3], int, "Alignment of D, in bytes.")
    max_waves = attribute(_MAX_WAVES, float, "The most waves of thread blocks; 0: any.")
    implementations = attribute(_IMPLEMENTATIONS, int, "A mask of ways to compute.")
