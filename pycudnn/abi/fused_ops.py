"""What each fused operation (cudnnFusedOps_t) is made of. The headers do not say it; libcudnn does.

An array stands in both packs: as the label ``<name>_PLACEHOLDER`` of the constant one, with its
descriptor, and as ``PTR_<name>`` of the variant one.
"""

from __future__ import annotations

from typing import NamedTuple

from pycudnn.abi.cudnn_enums import FusedOps
from pycudnn.abi.cudnn_enums import FusedOpsConstParamLabel as Const
from pycudnn.abi.cudnn_enums import FusedOpsVariantParamLabel as Variant

# The descriptor of each array.
DESCRIPTORS: dict[str, Const] = {
    "XDATA": Const.XDESC,
    "WDATA": Const.WDESC,
    "YDATA": Const.YDESC,
    "ZDATA": Const.ZDESC,
    "DXDATA": Const.DXDESC,
    "DWDATA": Const.DWDESC,
    "DYDATA": Const.DYDESC,
    "DZDATA": Const.DZDESC,
    **dict.fromkeys(("YSUM", "YSQSUM"), Const.YSTATS_DESC),
    **dict.fromkeys(("BN_EQSCALE", "BN_EQBIAS"), Const.BN_EQSCALEBIAS_DESC),
    **dict.fromkeys(("BN_Z_EQSCALE", "BN_Z_EQBIAS"), Const.BN_Z_EQSCALEBIAS_DESC),
    **dict.fromkeys(
        ("BN_SCALE", "BN_BIAS", "BN_SAVED_MEAN", "BN_SAVED_INVSTD", "BN_RUNNING_MEAN",
         "BN_RUNNING_VAR", "BN_DSCALE", "BN_DBIAS"),
        Const.BN_SCALEBIAS_MEANVAR_DESC,
    ),
    "ACTIVATION_BITMASK": Const.ACTIVATION_BITMASK_DESC,
}  # fmt: skip


class FusedOperation(NamedTuple):
    """Arrays that must be there, that may, and that are written; other constants; scalars."""

    needed: tuple[str, ...]
    optional: tuple[str, ...]
    written: tuple[str, ...]
    settings: tuple[Const, ...] = (Const.BN_MODE,)
    scalars: tuple[Variant, ...] = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        """All of them."""
        return self.needed + self.optional

    @property
    def constants(self) -> tuple[Const, ...]:
        """The labels of the constant pack, in their order."""
        found = {Const[f"{name}_PLACEHOLDER"] for name in self.arrays}
        found.update(self.settings, (DESCRIPTORS[name] for name in self.arrays))
        return tuple(sorted(found))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The labels of the variant pack, in their order."""
        found = {Variant[f"PTR_{name}"] for name in self.arrays}
        found.update(self.scalars)
        found.update((Variant.PTR_WORKSPACE, Variant.SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES))
        return tuple(sorted(found))


_CONVOLUTION = (Const.BN_MODE, Const.ACTIVATION_DESC, Const.CONV_DESC)
_EPSILON = Variant.SCALAR_DOUBLE_BN_EPSILON

OPERATIONS: dict[FusedOps, FusedOperation] = {
    FusedOps.SCALE_BIAS_ACTIVATION_CONV_BNSTATS: FusedOperation(
        ("XDATA", "WDATA", "YDATA"), ("BN_EQSCALE", "BN_EQBIAS", "YSUM", "YSQSUM"),
        ("YDATA", "YSUM", "YSQSUM"), _CONVOLUTION,
    ),
    FusedOps.SCALE_BIAS_ACTIVATION_WGRAD: FusedOperation(
        ("XDATA", "DWDATA", "DYDATA"), ("BN_EQSCALE", "BN_EQBIAS"), ("DWDATA",), _CONVOLUTION
    ),
    FusedOps.BN_FINALIZE_STATISTICS_TRAINING: FusedOperation(
        ("YSUM", "YSQSUM", "BN_SCALE", "BN_BIAS"),
        ("BN_SAVED_MEAN", "BN_SAVED_INVSTD", "BN_RUNNING_MEAN", "BN_RUNNING_VAR", "BN_EQSCALE",
         "BN_EQBIAS"),
        ("BN_EQSCALE", "BN_EQBIAS", "BN_SAVED_MEAN", "BN_SAVED_INVSTD", "BN_RUNNING_MEAN",
         "BN_RUNNING_VAR"),
        scalars=(
            Variant.SCALAR_INT64_T_BN_ACCUMULATION_COUNT,
            Variant.SCALAR_DOUBLE_BN_EXP_AVG_FACTOR,
            _EPSILON,
        ),
    ),
    FusedOps.BN_FINALIZE_STATISTICS_INFERENCE: FusedOperation(
        ("BN_SCALE", "BN_BIAS", "BN_RUNNING_MEAN", "BN_RUNNING_VAR"),
        ("BN_EQSCALE", "BN_EQBIAS"),
        ("BN_EQSCALE", "BN_EQBIAS"),
        scalars=(_EPSILON,),
    ),
    FusedOps.CONV_SCALE_BIAS_ADD_ACTIVATION: FusedOperation(
        ("XDATA", "WDATA", "YDATA"), ("BN_EQSCALE", "ZDATA", "BN_Z_EQSCALE", "BN_Z_EQBIAS"),
        ("YDATA",), (Const.ACTIVATION_DESC, Const.CONV_DESC),
    ),
    FusedOps.SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK: FusedOperation(
        ("XDATA", "YDATA"),
        ("BN_EQSCALE", "BN_EQBIAS", "ZDATA", "BN_Z_EQSCALE", "BN_Z_EQBIAS", "ACTIVATION_BITMASK"),
        ("YDATA", "ACTIVATION_BITMASK"), (Const.BN_MODE, Const.ACTIVATION_DESC),
    ),
    FusedOps.DACTIVATION_FORK_DBATCHNORM: FusedOperation(
        ("XDATA", "DYDATA", "DXDATA"),
        ("BN_SCALE", "BN_BIAS", "BN_SAVED_MEAN", "BN_SAVED_INVSTD", "ACTIVATION_BITMASK", "DZDATA",
         "BN_DSCALE", "BN_DBIAS"),
        ("DXDATA", "DZDATA", "BN_DSCALE", "BN_DBIAS"), (Const.BN_MODE, Const.ACTIVATION_DESC),
        (_EPSILON,),
    ),
}  # fmt: skip
