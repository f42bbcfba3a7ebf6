"""Normalizations of a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.abi.cudnn_enums import BackendNormFwdPhase as Phase
from pycudnn.abi.cudnn_enums import BackendNormMode as Mode
from pycudnn.cudnn._objects import finite
from pycudnn.cudnn.graph.operation import Operations
from pycudnn.cudnn.graph.tensor import Shape, Tensor
from pycudnn.cudnn.graph.values import enum_member

_MODES = (Mode.LAYER_NORM, Mode.INSTANCE_NORM, Mode.BATCH_NORM, Mode.RMS_NORM)


class NormForward(NamedTuple):
    """Results of a normalization; None for what its mode and phase do not have."""

    y: Tensor
    mean: Tensor | None  # of the elements that are normalized together
    inv_variance: Tensor | None  # 1 / sqrt(variance + epsilon) of them
    running_mean: Tensor | None
    running_variance: Tensor | None


class NormBackward(NamedTuple):
    """Gradients of a normalization; ``dbias`` is None for RMS_NORM without a bias."""

    dx: Tensor
    dscale: Tensor
    dbias: Tensor | None


def _mode(value: Any) -> Mode:
    text = f"{value.upper()}_NORM" if isinstance(value, str) and "_" not in value else value
    mode = Mode(enum_member(Mode, text, "mode"))
    if mode not in _MODES:
        names = ", ".join(known.name for known in _MODES)
        raise ValueError(f"mode must be one of {names}, got {mode.name}")
    return mode


def _shapes(mode: Mode, x: Shape) -> tuple[Shape, Shape]:
    """Shapes of scale and bias, and of the statistics, for x (N, C, ...)."""
    ones = (1,) * (len(x) - 2)
    if mode is Mode.BATCH_NORM:
        return (1, x[1], *ones), (1, x[1], *ones)
    if mode is Mode.INSTANCE_NORM:
        return (1, x[1], *ones), (x[0], x[1], *ones)
    return (1, *x[1:]), (x[0], 1, *ones)


class NormOperations(Operations):
    """Layer, instance, batch and RMS normalization, and their gradients."""

    def norm_forward(
        self,
        mode: Mode | str,
        x: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        *,
        epsilon: float = 1e-5,
        phase: Phase | str = Phase.TRAINING,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        running_mean: Tensor | None = None,
        running_variance: Tensor | None = None,
        average_factor: float | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> NormForward:
        """y = scale * (x - mean) * inv_variance + bias, x (N, C, ...).

        LAYER normalizes each sample, INSTANCE each channel of each sample, BATCH each channel,
        RMS each sample by its root mean square, without mean. Scale and bias are (1, C, ...) for
        LAYER and RMS, (1, C, 1, ...) for the others; statistics have size 1 where elements are
        normalized together.

        TRAINING computes the statistics; BATCH can also move running averages by
        ``average_factor`` (new = (1 - factor) * old + factor * batch), also in place. INFERENCE
        of BATCH and INSTANCE takes ``mean`` and ``inv_variance``. ValueError for a shape that does
        not fit, a missing or superfluous tensor, or an epsilon that is not positive.
        """
        norm = _mode(mode)
        when = Phase(enum_member(Phase, phase, "phase"))
        x = self._own(x, "x")
        parameter, statistic = self._norm_shapes(norm, x)
        finite(epsilon, "epsilon", 0.0)
        if epsilon == 0:
            raise ValueError("epsilon must be positive, got 0")
        rms, training = norm is Mode.RMS_NORM, when is Phase.TRAINING
        if bias is None and not rms:
            raise ValueError(f"bias must be given for {norm.name}")
        fixed = not training and norm in (Mode.BATCH_NORM, Mode.INSTANCE_NORM)
        for tensor, label in ((mean, "mean"), (inv_variance, "inv_variance")):
            if (tensor is not None) != fixed:
                wanted = "be given" if fixed else "be None"
                raise ValueError(f"{label} must {wanted} for {norm.name} in {when.name}")
        running = [running_mean, running_variance, average_factor]
        moves = running != [None, None, None]
        if moves and (None in running or not training or norm is not Mode.BATCH_NORM):
            raise ValueError(
                "running_mean, running_variance and average_factor go together, for BATCH_NORM in "
                f"TRAINING; got {running} for {norm.name} in {when.name}"
            )
        self._check_shapes(parameter, scale=self._own(scale, "scale"), bias=bias)
        self._check_shapes(
            statistic, mean=mean, inv_variance=inv_variance,
            running_mean=running_mean, running_variance=running_variance,
        )  # fmt: skip

        def made(wanted: bool, label: str) -> Tensor | None:
            if not wanted:
                return None
            full = f"{name}_{label}" if name else None
            return self._result(statistic, x, dtype=self.compute_type, name=full)

        result = NormForward(
            self._result(x.shape, x, dtype=dtype, name=name),
            made(training and not rms, "mean"),
            made(training, "inv_variance"),
            made(moves, "running_mean"),
            made(moves, "running_variance"),
        )
        for moved, old in (
            (result.running_mean, running_mean), (result.running_variance, running_variance),
        ):  # fmt: skip
            if moved is not None:
                moved.alias = old

        def number(value: float) -> Tensor:
            return self.scalar(value, self.compute_type, ndim=len(x.shape))

        inputs = {
            "XDESC": x,
            "SCALE_DESC": scale,
            "BIAS_DESC": bias,
            "MEAN_DESC": mean,
            "INV_VARIANCE_DESC": inv_variance,
            "EPSILON_DESC": number(epsilon),
            "EXP_AVG_FACTOR_DESC": (None if average_factor is None else number(average_factor)),
            "INPUT_RUNNING_MEAN_DESC": running_mean,
            "INPUT_RUNNING_VAR_DESC": running_variance,
        }
        outputs = {
            "YDESC": result.y,
            "MEAN_DESC": result.mean or mean,
            "INV_VARIANCE_DESC": result.inv_variance or inv_variance,
            "OUTPUT_RUNNING_MEAN_DESC": result.running_mean,
            "OUTPUT_RUNNING_VAR_DESC": result.running_variance,
        }
        settings = {"MODE": norm, "PHASE": when, **inputs, **outputs}
        self._add(
            K.OPERATION_NORM_FORWARD_DESCRIPTOR,
            {f"OPERATION_NORM_FWD_{key}": value for key, value in settings.items()},
            list(inputs.values()),
            list(result),
        )
        return result

    def norm_backward(
        self,
        mode: Mode | str,
        dy: Tensor,
        x: Tensor,
        scale: Tensor,
        mean: Tensor | None,
        inv_variance: Tensor,
        *,
        has_bias: bool | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> NormBackward:
        """Gradients of x, scale and bias, with the statistics that the forward training made.

        ``mean`` is None for RMS_NORM, which has a gradient of a bias if ``has_bias`` is true.
        ValueError for a shape that does not fit.
        """
        norm = _mode(mode)
        dy, x = self._own(dy, "dy"), self._own(x, "x")
        parameter, statistic = self._norm_shapes(norm, x)
        rms = norm is Mode.RMS_NORM
        if (mean is None) != rms:
            raise ValueError(f"mean must be {'None' if rms else 'given'} for {norm.name}")
        self._check_shapes(x.shape, dy=dy)
        self._check_shapes(parameter, scale=self._own(scale, "scale"))
        self._check_shapes(
            statistic, mean=mean, inv_variance=self._own(inv_variance, "inv_variance")
        )
        biased = not rms if has_bias is None else has_bias
        labels = (f"{name}_dscale", f"{name}_dbias") if name else (None, None)
        result = NormBackward(
            self._result(x.shape, x, dtype=dtype, name=name),
            self._result(parameter, scale, dtype=scale.dtype, name=labels[0]),
            self._result(parameter, scale, dtype=scale.dtype, name=labels[1]) if biased else None,
        )
        inputs = {
            "DYDESC": dy,
            "XDESC": x,
            "SCALE_DESC": scale,
            "MEAN_DESC": mean,
            "INV_VARIANCE_DESC": inv_variance,
        }
        outputs = {"DXDESC": result.dx, "DSCALE_DESC": result.dscale, "DBIAS_DESC": result.dbias}
        settings = {"MODE": norm, **inputs, **outputs}
        self._add(
            K.OPERATION_NORM_BACKWARD_DESCRIPTOR,
            {f"OPERATION_NORM_BWD_{key}": value for key, value in settings.items()},
            list(inputs.values()),
            list(result),
        )
        return result

    @property
    def has_instance_gradients(self) -> bool:
        """Are there gradients of an instance normalization of several samples?"""
        return any(
            operation.attributes["OPERATION_NORM_BWD_MODE"] is Mode.INSTANCE_NORM
            and operation.inputs[0].shape[0] > 1
            for operation in self._operations
            if operation.kind is K.OPERATION_NORM_BACKWARD_DESCRIPTOR
        )

    def _norm_shapes(self, mode: Mode, x: Tensor) -> tuple[Shape, Shape]:
        if len(x.shape) < 3:
            raise ValueError(f"x must have at least 3 dimensions, got {x.shape}")
        return _shapes(mode, x.shape)

    def _check_shapes(self, shape: Shape, **tensors: Tensor | None) -> None:
        for label, tensor in tensors.items():
            if tensor is not None and self._own(tensor, label).shape != shape:
                raise ValueError(f"{label} must have the shape {shape}, got {tensor.shape}")
