"""Pointwise operations and reductions of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Union

from pycudnn.abi.cudnn_enums import BackendDescriptorType as K
from pycudnn.abi.cudnn_enums import PointwiseMode, ReduceTensorOp
from pycudnn.cudnn._objects import integer, real
from pycudnn.cudnn.graph.operation import Operations, Settings
from pycudnn.cudnn.graph.tensor import Tensor, broadcast
from pycudnn.cudnn.graph.values import enum_member

Operand = Union[Tensor, float]  # noqa: UP007 (evaluated at import, on Python 3.10 too)

_M = PointwiseMode
_UNARY = frozenset(
    (
        _M.SQRT, _M.ABS, _M.CEIL, _M.COS, _M.EXP, _M.FLOOR, _M.LOG, _M.NEG, _M.RSQRT, _M.SIN,
        _M.TAN, _M.ERF, _M.IDENTITY, _M.RECIPROCAL, _M.LOGICAL_NOT, _M.GEN_INDEX,
        *(mode for mode in _M if mode.name.endswith("_FWD")),
    )
)  # fmt: skip
_PARAMETERS = {
    "relu_lower_clip": ("RELU_FWD", "RELU_BWD"),
    "relu_upper_clip": ("RELU_FWD", "RELU_BWD"),
    "relu_lower_clip_slope": ("RELU_FWD", "RELU_BWD"),
    "elu_alpha": ("ELU_FWD", "ELU_BWD"),
    "softplus_beta": ("SOFTPLUS_FWD", "SOFTPLUS_BWD"),
    "swish_beta": ("SWISH_FWD", "SWISH_BWD"),
    "axis": ("GEN_INDEX",),
}


class PointwiseOperations(Operations):
    """Pointwise functions by mode, a few by name, and reductions."""

    def pointwise(
        self,
        mode: PointwiseMode | str,
        a: Operand,
        b: Operand | None = None,
        *,
        select: Tensor | None = None,
        alpha1: float = 1.0,
        alpha2: float = 1.0,
        dtype: Any = None,
        strides: Sequence[int] | None = None,
        name: str | None = None,
        **parameters: float,
    ) -> Tensor:
        """A pointwise function: mode(alpha1 * a), or mode(alpha1 * a, alpha2 * b).

        Sizes of 1 repeat; a number stands for a scalar of the compute type. For a mode that ends
        in _BWD, a is the gradient of its output and b its input. BINARY_SELECT gives a where
        ``select`` is not 0, else b. ``parameters`` are the mode's: relu_lower_clip,
        relu_upper_clip, relu_lower_clip_slope, elu_alpha, softplus_beta, swish_beta, axis.

        ValueError for operands that do not broadcast, for too many or few of them, and for a
        parameter that the mode does not have.
        """
        chosen = PointwiseMode(enum_member(PointwiseMode, mode, "mode"))
        backward = chosen.name.endswith("_BWD")
        for parameter in parameters:
            if chosen.name not in _PARAMETERS.get(parameter, ()):
                raise ValueError(f"mode {chosen.name} has no parameter {parameter!r}")
        if (b is None) != (chosen in _UNARY):
            count = "one operand" if chosen in _UNARY else "two operands"
            raise ValueError(f"mode {chosen.name} takes {count}, got b={b!r}")
        if (select is None) == (chosen is _M.BINARY_SELECT):
            raise ValueError(f"select belongs to BINARY_SELECT, got {select!r} for {chosen.name}")
        first, second = real(alpha1, "alpha1"), real(alpha2, "alpha2")
        operands = self._operands(a, b, select)
        names = ("a", "b", "select")[: len(operands)]
        shape = broadcast([tensor.shape for tensor in operands], names)
        if parameters.get("axis") is not None:
            integer(parameters["axis"], "axis", 0, len(shape) - 1)
        like = next((tensor for tensor in operands if tensor.shape == shape), operands[0])
        y = self._result(shape, like, dtype=dtype, strides=strides, name=name)
        roles = ("DYDESC", "XDESC", "DXDESC") if backward else ("XDESC", "BDESC", "YDESC")
        settings: dict[str, Any] = {
            "PW_DESCRIPTOR": Settings(
                K.POINTWISE_DESCRIPTOR,
                {
                    "POINTWISE_MODE": chosen,
                    "POINTWISE_MATH_PREC": self.compute_type,
                    **{f"POINTWISE_{key.upper()}": value for key, value in parameters.items()},
                },
            ),
            roles[0]: operands[0],
            roles[1]: operands[1] if b is not None else None,
            roles[2]: y,
            "TDESC": operands[2] if select is not None else None,
            "ALPHA1": first if first != 1 else None,
            "ALPHA2": second if second != 1 else None,
        }
        self._add(
            K.OPERATION_POINTWISE_DESCRIPTOR,
            {f"OPERATION_POINTWISE_{key}": value for key, value in settings.items()},
            operands,
            [y],
        )
        return y

    def _operands(self, a: Operand, b: Operand | None, select: Tensor | None) -> list[Tensor]:
        """Tensors for the operands; numbers become scalars of the rank of the others."""
        if a is None:
            raise TypeError("a must be a Tensor of this graph or a number, got None")
        given = [(value, name) for value, name in ((a, "a"), (b, "b"), (select, "select"))]
        ranks = [len(value.shape) for value, _ in given if isinstance(value, Tensor)]
        if not ranks:
            raise TypeError(f"a must be a Tensor of this graph, got {a!r}")
        return [
            self.scalar(value, ndim=ranks[0])
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            else self._own(value, name)
            for value, name in given
            if value is not None
        ]

    def add(self, a: Operand, b: Operand, **result: Any) -> Tensor:
        """a + b (ADD); keywords as in ``pointwise``."""
        return self.pointwise(PointwiseMode.ADD, a, b, **result)

    def multiply(self, a: Operand, b: Operand, **result: Any) -> Tensor:
        """a * b (MUL); keywords as in ``pointwise``."""
        return self.pointwise(PointwiseMode.MUL, a, b, **result)

    def relu(self, x: Tensor, **result: Any) -> Tensor:
        """x where it is positive, else 0 (RELU_FWD); keywords as in ``pointwise``."""
        return self.pointwise(PointwiseMode.RELU_FWD, x, **result)

    def gelu(self, x: Tensor, **result: Any) -> Tensor:
        """x times the normal distribution function of x (GELU_FWD); keywords as above."""
        return self.pointwise(PointwiseMode.GELU_FWD, x, **result)

    def reduction(
        self,
        op: ReduceTensorOp | str,
        x: Tensor,
        axes: int | Iterable[int],
        *,
        dtype: Any = None,
        strides: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Combine the elements of x along ``axes``, whose sizes become 1 (ADD, MUL, MAX, AVG, ...).

        ValueError for axes that x does not have, or has twice.
        """
        x, chosen = self._own(x, "x"), enum_member(ReduceTensorOp, op, "op")
        ndim = len(x.shape)
        given = tuple(axes) if isinstance(axes, Iterable) else (axes,)
        found = [integer(axis, "axes", -ndim, ndim - 1) % ndim for axis in given]
        if not found or len(set(found)) != len(found):
            raise ValueError(f"axes must be different axes of x, at least one, got {axes!r}")
        shape = tuple(1 if axis in found else size for axis, size in enumerate(x.shape))
        y = self._result(shape, x, dtype=dtype, strides=strides, name=name)
        self._add(
            K.OPERATION_REDUCTION_DESCRIPTOR,
            {
                "OPERATION_REDUCTION_DESC": Settings(
                    K.REDUCTION_DESCRIPTOR,
                    {"REDUCTION_OPERATOR": chosen, "REDUCTION_COMP_TYPE": self.compute_type},
                ),
                "OPERATION_REDUCTION_XDESC": x,
                "OPERATION_REDUCTION_YDESC": y,
            },
            [x],
            [y],
        )
        return y
