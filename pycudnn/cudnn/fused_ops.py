"""Fused operations: several steps around a convolution in one call, chosen by a plan.

What does not change from call to call, descriptors and which arrays there are, goes into a
``FusedOpsConstParamPack``; a ``FusedOpsPlan`` is made from it; arrays and scalars go into a
``FusedOpsVariantParamPack``, with which ``fused_ops_execute`` runs the plan. NVIDIA has replaced
all this by the graph API (``cudnn.graph``).

Parameters are set and read by a label or its name. An array stands in both packs: as
``XDATA_PLACEHOLDER`` with its descriptor ``XDESC`` in the constant one, as ``PTR_XDATA`` in the
variant one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeVar

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import (
    CUDNN_BN_MIN_EPSILON,
    BatchNormMode,
    FusedOps,
    FusedOpsPointerPlaceHolder,
    TensorFormat,
)
from pycudnn.abi.cudnn_enums import FusedOpsConstParamLabel as Const
from pycudnn.abi.cudnn_enums import FusedOpsVariantParamLabel as Variant
from pycudnn.abi.fused_ops import DESCRIPTORS, OPERATIONS
from pycudnn.abi.types import ctypes_type
from pycudnn.cudnn._claims import Claims
from pycudnn.cudnn._objects import LONG_MAX, finite, integer, member, require
from pycudnn.cudnn._objects import workspace as scratch
from pycudnn.cudnn.activation import ActivationDescriptor
from pycudnn.cudnn.convolution import ConvolutionDescriptor
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import FilterDescriptor, TensorDescriptor, read_filter, read_tensor
from pycudnn.errors import LibraryMismatch
from pycudnn.libraries import Library, find_library

Descriptor = TensorDescriptor | FilterDescriptor | ConvolutionDescriptor | ActivationDescriptor
L = TypeVar("L", bound=IntEnum)

_EXPORTS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
_ALIGNMENT = 16  # bytes, of what a placeholder calls PTR_16B_ALIGNED
_KINDS: dict[Const, type[Descriptor]] = {
    Const.ACTIVATION_DESC: ActivationDescriptor,
    Const.CONV_DESC: ConvolutionDescriptor,
    Const.WDESC: FilterDescriptor,
    Const.DWDESC: FilterDescriptor,
}
_NOUNS = {
    TensorDescriptor: "TensorDescriptor",
    FilterDescriptor: "FilterDescriptor",
    ConvolutionDescriptor: "ConvolutionDescriptor",
    ActivationDescriptor: "ActivationDescriptor",
}
_SCALARS: dict[Variant, Any] = {
    Variant.SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES: ctypes.c_size_t,
    Variant.SCALAR_INT64_T_BN_ACCUMULATION_COUNT: ctypes.c_int64,
    Variant.SCALAR_DOUBLE_BN_EXP_AVG_FACTOR: ctypes.c_double,
    Variant.SCALAR_DOUBLE_BN_EPSILON: ctypes.c_double,
}


class FusedOpsConstParamPack(_core.Owned):
    """The constant parameters of a fused operation (cudnnCreateFusedOpsConstParamPack).

    ``params`` are set in their order. Descriptors are copied: what becomes of them later is of no
    account. ``labels`` tells which parameters the operation has.
    """

    c_type = "cudnnFusedOpsConstParamPack_t"
    library: Library
    ops: FusedOps

    def __init__(
        self,
        ops: FusedOps,
        params: Mapping[Const | str, Any] | None = None,
        *,
        library: Library | str | None = None,
    ) -> None:
        self._values: dict[Const, Any] = {}
        self.ops = _create(self, "ConstParamPack", ops, find_library("cudnn", library))
        _set_all(self, params)

    @property
    def labels(self) -> tuple[Const, ...]:
        """The parameters that the operation has."""
        return OPERATIONS[self.ops].constants

    def set(self, label: Const | str, value: Any) -> None:
        """Set a parameter (cudnnSetFusedOpsConstParamPackAttribute); None unsets it.

        A descriptor for ``XDESC`` and its kind, a FusedOpsPointerPlaceHolder for
        ``..._PLACEHOLDER``, a BatchNormMode for ``BN_MODE``. ValueError for a label that the
        operation does not have or an unknown number, TypeError for another descriptor.
        """
        found = _find(Const, label, self.labels, self.ops)
        parameter = None
        if value is not None and _is_descriptor(found):
            require(value, _kind(found), found.name)
            if value.library is not self.library:
                raise LibraryMismatch(
                    f"{found.name} is of {value.library!r}, this pack is of {self.library!r}"
                )
            value = _copy(value)
            parameter = value.address
        elif value is not None:
            value = member(_number_kind(found), value, found.name)
            number = ctypes.c_int(value)
            parameter = ctypes.addressof(number)
        with _core.ColdCall(self.library) as call:
            call("cudnnSetFusedOpsConstParamPackAttribute", self, found, parameter)
        self._values[found] = value

    def get(self, label: Const | str) -> Any:
        """Read a parameter back (cudnnGetFusedOpsConstParamPackAttribute).

        A new descriptor, or None where none was set; a placeholder, NULL where none was set; the
        mode. CudnnBadParam for CONV_SCALE_BIAS_ADD_ACTIVATION, of which cuDNN tells nothing.
        """
        found = _find(Const, label, self.labels, self.ops)
        if not _is_descriptor(found):
            number = ctypes.c_int()
            self._read(found, ctypes.addressof(number))
            return _number_kind(found)(number.value)
        with _shell(_kind(found), self.library, self._values.get(found)) as shell:
            is_null = self._read(found, shell.address)
            return None if is_null else _copy(shell)

    def _read(self, label: Const, address: int) -> bool:
        is_null = ctypes.c_int()
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetFusedOpsConstParamPackAttribute",
                self, label, address, ctypes.byref(is_null),
            )  # fmt: skip
        return bool(is_null.value)

    def __repr__(self) -> str:
        return _show(self)


class FusedOpsPlan(_core.Owned):
    """A fused operation ready to run (cudnnCreateFusedOpsPlan, cudnnMakeFusedOpsPlan).

    It is made for the device of ``handle`` from the parameters that ``const_pack`` has now.
    ``workspace_size`` is what it needs, in bytes.

    ValueError for parameters that are missing, CudnnNotSupported for an operation, types, layouts
    or sizes that the library has no plan for.
    """

    c_type = "cudnnFusedOpsPlan_t"
    library: Library
    ops: FusedOps
    workspace_size: int

    def __init__(self, handle: Handle, const_pack: FusedOpsConstParamPack) -> None:
        require(handle, Handle, "handle")
        _require_live(const_pack, FusedOpsConstParamPack, "const_pack")
        self._constants = {
            label: value for label, value in const_pack._values.items() if value
        }  # without NULL, which is 0
        _check_constants(const_pack.ops, self._constants)
        self._device_index = handle.device_index
        self.workspace_size = 0
        size = ctypes.c_size_t()
        with _core.ColdCall(handle.library, handle) as call:
            self.ops = _create(self, "Plan", const_pack.ops, handle.library)
            try:
                call("cudnnMakeFusedOpsPlan", handle, self, const_pack, ctypes.byref(size))
            except BaseException:
                self.close()
                raise
        self.workspace_size = size.value

    @property
    def arrays(self) -> tuple[str, ...]:
        """What must be in the variant pack, by the names of its labels."""
        return tuple(f"PTR_{name}" for name in _present(self.ops, self._constants))

    def __repr__(self) -> str:
        if self.closed:
            return "<closed FusedOpsPlan>"
        return f"FusedOpsPlan({self.ops.name}, workspace_size={self.workspace_size})"


class FusedOpsVariantParamPack(_core.Owned):
    """Arrays and scalars of a fused operation (cudnnCreateFusedOpsVariantParamPack).

    ``params`` are set in their order. The pack keeps its arrays alive; they are checked when it
    is executed, and handed over then. The size of the workspace is that of ``PTR_WORKSPACE``.
    """

    c_type = "cudnnFusedOpsVariantParamPack_t"
    library: Library
    ops: FusedOps

    def __init__(
        self,
        ops: FusedOps,
        params: Mapping[Variant | str, Any] | None = None,
        *,
        library: Library | str | None = None,
    ) -> None:
        self._values: dict[Variant, Any] = {}
        self.ops = _create(self, "VariantParamPack", ops, find_library("cudnn", library))
        _set_all(self, params)

    @property
    def labels(self) -> tuple[Variant, ...]:
        """The parameters that the operation has."""
        return OPERATIONS[self.ops].variants

    def set(self, label: Variant | str, value: Any) -> None:
        """Set a parameter (cudnnSetFusedOpsVariantParamPackAttribute); None unsets it.

        An array on the device for ``PTR_...``; the count of accumulated elements, an int of at
        least 1; the averaging factor in [0, 1]; the epsilon, not negative. ValueError for a label
        that the operation does not have, for other numbers, and for a closed buffer; TypeError for
        what is no array.
        """
        found = _find(Variant, label, self.labels, self.ops)
        if found in _SCALARS:
            value = None if value is None else _check_scalar(found, value)
            c_value = None if value is None else _SCALARS[found](value)
            with _core.ColdCall(self.library) as call:
                address = None if c_value is None else ctypes.addressof(c_value)
                self._hand_over(call, found, address)
        elif value is not None:
            _check_array(value, found.name)
        self._values[found] = value

    def get(self, label: Variant | str) -> Any:
        """A scalar as the library has it (cudnnGetFusedOpsVariantParamPackAttribute), an array
        as it was set.

        None where none was set. CudnnBadParam for a scalar of BN_FINALIZE_STATISTICS_INFERENCE, of
        which cuDNN tells nothing.
        """
        found = _find(Variant, label, self.labels, self.ops)
        value = self._values.get(found)
        if value is None or found not in _SCALARS:
            return value
        number = _SCALARS[found]()
        with _core.ColdCall(self.library) as call:
            call(
                "cudnnGetFusedOpsVariantParamPackAttribute",
                self, found, ctypes.addressof(number),
            )  # fmt: skip
        return number.value

    def _hand_over(self, call: _core.ColdCall, label: Variant, address: int | None) -> None:
        call("cudnnSetFusedOpsVariantParamPackAttribute", self, label, address)

    def __repr__(self) -> str:
        return _show(self)


def fused_ops_execute(
    handle: Handle, plan: FusedOpsPlan, var_pack: FusedOpsVariantParamPack
) -> None:
    """Run a plan with the arrays and scalars of a pack (cudnnFusedOpsExecute).

    ``plan.arrays`` and the workspace, if it needs one, must be in the pack, of the data types and
    layouts of the plan's descriptors, and what is written must share no memory with the rest.

    ValueError for what is missing, too much, too small, or not aligned as the plan was told;
    TypeError for another data type; LibraryMismatch for a plan of another device.
    """
    require(handle, Handle, "handle")
    _require_live(plan, FusedOpsPlan, "plan")
    _require_live(var_pack, FusedOpsVariantParamPack, "var_pack")
    if var_pack.ops != plan.ops:
        raise ValueError(f"var_pack must be of {plan.ops.name}, got one of {var_pack.ops.name}")
    if plan._device_index != handle.device_index:
        raise LibraryMismatch(
            f"plan is made for device {plan._device_index}, handle is on {handle.device_index}"
        )
    _check_variants(plan, var_pack._values)
    with _core.ColdCall(handle.library, handle) as call:
        claims = Claims()
        for name in _present(plan.ops, plan._constants):
            label = Variant[f"PTR_{name}"]
            address = _array(call, plan, name, var_pack._values[label], claims)
            var_pack._hand_over(call, label, address)
        space, nbytes = scratch(
            call, var_pack._values.get(Variant.PTR_WORKSPACE), plan.workspace_size, "PTR_WORKSPACE"
        )
        claims.add(space, nbytes, "PTR_WORKSPACE", writes=True)
        var_pack._hand_over(call, Variant.PTR_WORKSPACE, space or None)
        size = ctypes.c_size_t(nbytes)
        size_label = Variant.SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES
        var_pack._hand_over(call, size_label, ctypes.addressof(size))
        call("cudnnFusedOpsExecute", handle, plan, var_pack)


# ---- what the three classes share ----------------------------------------------------------------


def _create(owned: _core.Owned, noun: str, ops: Any, library: Library) -> FusedOps:
    """Make the C object of a pack or a plan."""
    operation = member(FusedOps, ops, "ops")
    pointer = ctypes_type(f"cudnnFusedOps{noun}_t")()
    with _core.ColdCall(library) as call:
        call(f"cudnnCreateFusedOps{noun}", ctypes.byref(pointer), operation)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    owned._own(library, address, f"cudnnDestroyFusedOps{noun}")
    return operation


def _require_live(value: Any, kind: type[_core.Owned], name: str) -> None:
    """Of its class, made and not closed."""
    require(value, kind, name)
    value.address  # noqa: B018 - raises for one that is none of these


def _set_all(pack: Any, params: Any) -> None:
    given = {} if params is None else params
    try:
        require(given, Mapping, "params")
        for label, value in given.items():
            pack.set(label, value)
    except BaseException:
        pack.close()
        raise


def _find(kind: type[L], label: Any, known: tuple[L, ...], ops: FusedOps) -> L:
    """A label by itself, by number or by name, if the operation has it."""
    if isinstance(label, str):
        found = kind.__members__.get(label.upper())
    elif isinstance(label, IntEnum) and not isinstance(label, kind):
        raise TypeError(f"label must be a {kind.__name__}, got {label!r}")
    else:
        found = member(kind, label, "label")
    if found not in known:
        names = ", ".join(one.name for one in known)
        raise ValueError(f"label must be one that {ops.name} has: {names}; got {label!r}")
    return found


def _show(pack: Any) -> str:
    name = type(pack).__name__
    if pack.closed:
        return f"<closed {name}>"
    given = [label.name for label, value in pack._values.items() if value is not None]
    return f"{name}({pack.ops.name}, with {', '.join(given) or 'nothing'})"


# ---- constants -----------------------------------------------------------------------------------


def _is_descriptor(label: Const) -> bool:
    return label.name.endswith("DESC")


def _kind(label: Const) -> type[Descriptor]:
    return _KINDS.get(label, TensorDescriptor)


def _number_kind(label: Const) -> type[IntEnum]:
    return BatchNormMode if label == Const.BN_MODE else FusedOpsPointerPlaceHolder


def _shell(kind: type[Descriptor], library: Library, like: Any) -> Any:
    """An empty descriptor for the library to fill in."""
    shell = kind.__new__(kind)
    noun = _NOUNS[kind]
    pointer = ctypes_type(kind.c_type)()
    with _core.ColdCall(library) as call:
        call(f"cudnnCreate{noun}", ctypes.byref(pointer))
    shell._own(library, ctypes.cast(pointer, ctypes.c_void_p).value, f"cudnnDestroy{noun}")
    if isinstance(shell, ConvolutionDescriptor):
        ndim = 2 if like is None else like.ndim
        shell._remember((0,) * ndim, (1,) * ndim, (1,) * ndim)
    return shell


def _copy(descriptor: Any) -> Any:
    """A descriptor like this one, as the library has it."""
    library = descriptor.library
    if isinstance(descriptor, ConvolutionDescriptor):
        return descriptor.replace()
    if isinstance(descriptor, ActivationDescriptor):
        mode, nan_propagation, coefficient = descriptor._read()
        return ActivationDescriptor(
            mode, coefficient=coefficient, nan_propagation=nan_propagation, library=library
        )
    with _core.ColdCall(library) as call:
        if isinstance(descriptor, FilterDescriptor):
            data_type, layout, shape = read_filter(call, descriptor)
            return FilterDescriptor(shape, data_type, format=layout, library=library)
        data_type, shape, strides = read_tensor(call, descriptor)
    if data_type.name in ("INT8x4", "UINT8x4", "INT8x32"):
        layout = TensorFormat.NCHW_VECT_C
        return TensorDescriptor(shape, data_type, format=layout, library=library)
    return TensorDescriptor(shape, data_type, strides=strides, library=library)


def _present(ops: FusedOps, constants: Mapping[Const, Any]) -> list[str]:
    """The arrays whose placeholder is not NULL."""
    return [name for name in OPERATIONS[ops].arrays if Const[f"{name}_PLACEHOLDER"] in constants]


def _check_constants(ops: FusedOps, constants: Mapping[Const, Any]) -> None:
    operation = OPERATIONS[ops]
    needed = [Const[f"{name}_PLACEHOLDER"] for name in operation.needed]
    needed += [DESCRIPTORS[name] for name in _present(ops, constants)]
    if Const.CONV_DESC in operation.settings:
        needed.append(Const.CONV_DESC)
    if Const.BN_SCALEBIAS_MEANVAR_DESC in needed:
        needed.append(Const.BN_EQSCALEBIAS_DESC)
    missing = sorted({label for label in needed if label not in constants})
    if missing:
        names = ", ".join(label.name for label in missing)
        raise ValueError(f"const_pack of {ops.name} needs {names}")
    x, scale = (constants.get(label) for label in (Const.XDESC, Const.BN_EQSCALEBIAS_DESC))
    if x is not None and scale is not None and x.dtype_code != scale.dtype_code:
        raise TypeError(
            f"BN_EQSCALEBIAS_DESC must have the data type of XDESC, {x.dtype}, got {scale.dtype}"
        )


# ---- arrays and scalars --------------------------------------------------------------------------


def _check_scalar(label: Variant, value: Any) -> int | float:
    if label == Variant.SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES:
        raise ValueError(f"{label.name} is that of PTR_WORKSPACE and cannot be set")
    if label == Variant.SCALAR_INT64_T_BN_ACCUMULATION_COUNT:
        return integer(value, label.name, 1, LONG_MAX)
    if label == Variant.SCALAR_DOUBLE_BN_EPSILON:
        return finite(value, label.name, CUDNN_BN_MIN_EPSILON)
    return finite(value, label.name, 0.0, 1.0)


def _check_array(value: Any, name: str) -> None:
    """Something that has memory; what kind of is seen when it is used."""
    if isinstance(value, _core.Buffer):
        if value.closed:
            raise ValueError(f"{name} must not be closed, got {value!r}")
        return
    if not any(hasattr(value, export) for export in _EXPORTS):
        raise TypeError(f"{name} must be an array on the device, got {value!r}")


def _check_variants(plan: FusedOpsPlan, values: Mapping[Variant, Any]) -> None:
    """All that the plan needs is there, and nothing that it would not look at."""
    needed = [Variant[name] for name in plan.arrays]
    needed += OPERATIONS[plan.ops].scalars
    missing = [label.name for label in needed if values.get(label) is None]
    if missing:
        raise ValueError(f"var_pack of {plan.ops.name} needs {', '.join(missing)}")
    for label, value in values.items():
        if value is not None and label not in (*needed, Variant.PTR_WORKSPACE):
            placeholder = label.name.removeprefix("PTR_") + "_PLACEHOLDER"
            raise ValueError(f"{label.name} must be None: {placeholder} of the plan is NULL")


def _array(call: _core.ColdCall, plan: FusedOpsPlan, name: str, value: Any, claims: Claims) -> int:
    """Address of an array, checked against what the plan was told."""
    desc = plan._constants[DESCRIPTORS[name]]
    writes = name in OPERATIONS[plan.ops].written
    address = call.operand(value, f"PTR_{name}", writes, desc)
    claims.add(address, desc.extent, f"PTR_{name}", writes=writes)
    alignment = dtypes.item_bytes(desc.dtype_code)
    if plan._constants[Const[f"{name}_PLACEHOLDER"]] == FusedOpsPointerPlaceHolder.PTR_16B_ALIGNED:
        alignment = _ALIGNMENT
    if address % alignment:
        raise ValueError(
            f"PTR_{name} must start at a multiple of {alignment} bytes, got {address:#x}"
        )
    return address
