"""The packs of constant and variant parameters of the fused operations.

As in cuDNN, a set takes any value for a label that the operation has, and descriptors are copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pycudnn.abi.cudnn_enums import FusedOps
from pycudnn.abi.cudnn_enums import FusedOpsConstParamLabel as Const
from pycudnn.abi.cudnn_enums import FusedOpsVariantParamLabel as Variant
from pycudnn.abi.fused_ops import OPERATIONS

from ..descriptors import Activation, Filter, Tensor
from ..memory import write
from ..runtime import bad_param, find_object, implements, opaque
from .descriptor import Convolution

_KINDS: dict[Const, Callable[[], Any]] = {
    Const.ACTIVATION_DESC: Activation,
    Const.CONV_DESC: Convolution,
    Const.WDESC: Filter,
    Const.DWDESC: Filter,
}
_SCALARS: dict[Variant, Any] = {
    Variant.SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES: ctypes.c_size_t,
    Variant.SCALAR_INT64_T_BN_ACCUMULATION_COUNT: ctypes.c_int64,
    Variant.SCALAR_DOUBLE_BN_EXP_AVG_FACTOR: ctypes.c_double,
    Variant.SCALAR_DOUBLE_BN_EPSILON: ctypes.c_double,
}
# cuDNN sets these, and tells none of them.
_UNREADABLE_CONSTANTS = (FusedOps.CONV_SCALE_BIAS_ADD_ACTIVATION,)
_UNREADABLE_VARIANTS = (FusedOps.BN_FINALIZE_STATISTICS_INFERENCE,)


def _kind(label: Const) -> Callable[[], Any] | None:
    """The class of a descriptor; None for a number."""
    return _KINDS.get(label, Tensor if label.name.endswith("DESC") else None)


class _Pack:
    """The operation that a pack or plan is for; any number that is none is refused."""

    ops: FusedOps

    def __post_init__(self) -> None:
        if self.ops not in tuple(FusedOps):
            raise bad_param(f"ops is {self.ops}, no FusedOps")
        self.ops = FusedOps(self.ops)


@opaque(
    "cudnnFusedOpsConstParamPack_t",
    "cudnnCreateFusedOpsConstParamPack",
    "cudnnDestroyFusedOpsConstParamPack",
)
@dataclass
class ConstPack(_Pack):
    """Descriptors, placeholders and the mode by label; a descriptor that is not there is NULL."""

    ops: FusedOps
    values: dict[Const, Any] = field(default_factory=dict)

    def label(self, number: int) -> Const:
        """The label, if the operation has it."""
        if number not in OPERATIONS[self.ops].constants:
            raise bad_param(f"paramLabel {number} is none of {self.ops.name}")
        return Const(number)


@opaque(
    "cudnnFusedOpsVariantParamPack_t",
    "cudnnCreateFusedOpsVariantParamPack",
    "cudnnDestroyFusedOpsVariantParamPack",
)
@dataclass
class VariantPack(_Pack):
    """Addresses and scalars by label."""

    ops: FusedOps
    values: dict[Variant, Any] = field(default_factory=dict)

    def label(self, number: int) -> Variant:
        """The label, if the operation has it."""
        if number not in OPERATIONS[self.ops].variants:
            raise bad_param(f"paramLabel {number} is none of {self.ops.name}")
        return Variant(number)


@implements("cudnnSetFusedOpsConstParamPackAttribute")
def set_constant(pack: ConstPack, number: int, address: int) -> None:
    """A copy of a descriptor, or the number at the address; NULL unsets."""
    label = pack.label(number)
    kind = _kind(label)
    if not address:
        pack.values.pop(label, None)
    elif kind is None:
        pack.values[label] = ctypes.c_int.from_address(address).value
    else:
        pack.values[label] = replace(_descriptor(address, kind, label))


@implements("cudnnGetFusedOpsConstParamPackAttribute")
def get_constant(pack: ConstPack, number: int, address: int, is_null: int) -> None:
    """Into a descriptor, or the number to the address; ``isNULL`` is 1 for no descriptor."""
    if not address:
        raise bad_param("param is NULL")
    write(is_null, ctypes.c_int, 0, "isNULL")
    label = pack.label(number)
    if pack.ops in _UNREADABLE_CONSTANTS:
        raise bad_param(f"{label.name} of {pack.ops.name} cannot be read")
    kind, value = _kind(label), pack.values.get(label)
    write(is_null, ctypes.c_int, int(kind is not None and value is None))
    if kind is None:
        write(address, ctypes.c_int, value or 0)
    elif value is not None:
        vars(_descriptor(address, kind, label)).update(vars(value))


def _descriptor(address: int, kind: Any, label: Const) -> Any:
    found = find_object(address, kind)
    if found is None:
        raise bad_param(f"{label.name} must be a live {kind.__name__} object, got {address:#x}")
    return found


@implements("cudnnSetFusedOpsVariantParamPackAttribute")
def set_variant(pack: VariantPack, number: int, address: int) -> None:
    """An address itself, or the scalar at the address; NULL unsets."""
    label = pack.label(number)
    c_type = _SCALARS.get(label)
    if not address:
        pack.values.pop(label, None)
    else:
        pack.values[label] = address if c_type is None else c_type.from_address(address).value


@implements("cudnnGetFusedOpsVariantParamPackAttribute")
def get_variant(pack: VariantPack, number: int, out: int) -> None:
    """The address or the scalar; NULL and 0 where none was set."""
    label = pack.label(number)
    if pack.ops in _UNREADABLE_VARIANTS:
        raise bad_param(f"{label.name} of {pack.ops.name} cannot be read")
    c_type = _SCALARS.get(label, ctypes.c_void_p)
    write(out, c_type, pack.values.get(label, None if c_type is ctypes.c_void_p else 0))
