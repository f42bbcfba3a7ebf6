"""Pointwise operations: their parameters, their functions, and the operation itself.

Inputs are scaled first, X by alpha1 and B by alpha2. Where a size is 1 an input of a function of
two is broadcast. NaN is never lost: the larger and the smaller of a number and NaN are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudnn.abi.cudnn_enums import PointwiseMode as Mode

from ..runtime import bad_param
from .descriptor import Descriptor, finalizes
from .tensors import Arithmetic, Array, Arrays, Node, Tensor, check_member, check_shape, precision


class Pointwise(NamedTuple):
    """A finalized pointwise descriptor."""

    mode: int
    precision: int
    lower: float
    upper: float
    slope: float
    elu_alpha: float
    softplus_beta: float
    swish_beta: float
    axis: int


@finalizes("POINTWISE")
def make_pointwise(descriptor: Descriptor) -> Pointwise:
    """A mode and a type to compute in, and the parameters of the modes; checked when used."""
    parameters = (
        "RELU_LOWER_CLIP",
        "RELU_UPPER_CLIP",
        "RELU_LOWER_CLIP_SLOPE",
        "ELU_ALPHA",
        "SOFTPLUS_BETA",
        "SWISH_BETA",
        "AXIS",
    )
    return Pointwise(
        descriptor.one("MODE"),
        descriptor.one("MATH_PREC"),
        *(descriptor.one(name) for name in parameters),
    )


# --- functions of one array, with the descriptor for their parameters -----------------------------

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def _erf(x: Array) -> Array:
    values = (math.erf(value) for value in x.ravel().tolist())
    return np.fromiter(values, x.dtype, x.size).reshape(x.shape)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1, small) / (1 + small)


def _clips(x: Array, p: Pointwise) -> bool:
    """Whether there is an upper limit: by default it is the largest double."""
    return p.upper < float(np.finfo(x.dtype).max)


def _relu(x: Array, p: Pointwise) -> Array:
    above = np.minimum(x, x.dtype.type(p.upper)) if _clips(x, p) else x
    below = p.lower + p.slope * (x - p.lower) if p.slope else p.lower
    return np.where(x < p.lower, below, above)


def _relu_slope(x: Array, p: Pointwise) -> Array:
    slope = np.where(x > p.lower, x.dtype.type(1), x.dtype.type(p.slope))
    return np.where(x > p.upper, 0, slope) if _clips(x, p) else slope


def _gelu(x: Array, p: Pointwise) -> Array:
    return x / 2 * (1 + _erf(x / math.sqrt(2)))


def _gelu_slope(x: Array, p: Pointwise) -> Array:
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return (1 + _erf(x / math.sqrt(2))) / 2 + x * density


def _gelu_tanh(x: Array, p: Pointwise) -> Array:
    return x / 2 * (1 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x**3)))


def _gelu_tanh_slope(x: Array, p: Pointwise) -> Array:
    tanh = np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x**3))
    inner = _SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x)
    return (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * inner


def _swish_slope(x: Array, p: Pointwise) -> Array:
    gate = _sigmoid(p.swish_beta * x)
    return gate + p.swish_beta * x * gate * (1 - gate)


_UNARY: dict[Mode, Callable[[Array, Pointwise], Array]] = {
    Mode.ABS: lambda x, p: np.abs(x),
    Mode.CEIL: lambda x, p: np.ceil(x),
    Mode.COS: lambda x, p: np.cos(x),
    Mode.EXP: lambda x, p: np.exp(x),
    Mode.FLOOR: lambda x, p: np.floor(x),
    Mode.LOG: lambda x, p: np.log(x),
    Mode.NEG: lambda x, p: -x,
    Mode.RSQRT: lambda x, p: 1 / np.sqrt(x),
    Mode.SIN: lambda x, p: np.sin(x),
    Mode.SQRT: lambda x, p: np.sqrt(x),
    Mode.TAN: lambda x, p: np.tan(x),
    Mode.ERF: lambda x, p: _erf(x),
    Mode.IDENTITY: lambda x, p: x,
    Mode.RECIPROCAL: lambda x, p: 1 / x,
    Mode.LOGICAL_NOT: lambda x, p: x == 0,
    Mode.RELU_FWD: _relu,
    Mode.TANH_FWD: lambda x, p: np.tanh(x),
    Mode.SIGMOID_FWD: lambda x, p: _sigmoid(x),
    Mode.ELU_FWD: lambda x, p: np.where(x > 0, x, p.elu_alpha * np.expm1(np.minimum(x, 0))),
    Mode.GELU_FWD: _gelu,
    Mode.SOFTPLUS_FWD: lambda x, p: np.logaddexp(0, p.softplus_beta * x) / p.softplus_beta,
    Mode.SWISH_FWD: lambda x, p: x * _sigmoid(p.swish_beta * x),
    Mode.GELU_APPROX_TANH_FWD: _gelu_tanh,
}
_BINARY: dict[Mode, Callable[[Array, Array], Array]] = {
    Mode.ADD: np.add,
    Mode.ADD_SQUARE: lambda x, b: x + b * b,
    Mode.DIV: np.divide,
    Mode.MAX: np.maximum,
    Mode.MIN: np.minimum,
    Mode.MOD: np.fmod,
    Mode.FLOOR_MOD: np.mod,
    Mode.MUL: np.multiply,
    Mode.POW: np.power,
    Mode.SUB: np.subtract,
    Mode.ATAN2: np.arctan2,
    Mode.CMP_EQ: np.equal,
    Mode.CMP_NEQ: np.not_equal,
    Mode.CMP_GT: np.greater,
    Mode.CMP_GE: np.greater_equal,
    Mode.CMP_LT: np.less,
    Mode.CMP_LE: np.less_equal,
    Mode.LOGICAL_AND: np.logical_and,
    Mode.LOGICAL_OR: np.logical_or,
}
# The derivative, as a function of x; its product with dy is dx.
_SLOPES: dict[Mode, Callable[[Array, Pointwise], Array]] = {
    Mode.RELU_BWD: _relu_slope,
    Mode.TANH_BWD: lambda x, p: 1 - np.tanh(x) ** 2,
    Mode.SIGMOID_BWD: lambda x, p: _sigmoid(x) * _sigmoid(-x),
    Mode.ELU_BWD: lambda x, p: np.where(x > 0, 1, p.elu_alpha * np.exp(np.minimum(x, 0))),
    Mode.GELU_BWD: _gelu_slope,
    Mode.SOFTPLUS_BWD: lambda x, p: _sigmoid(p.softplus_beta * x),
    Mode.SWISH_BWD: _swish_slope,
    Mode.GELU_APPROX_TANH_BWD: _gelu_tanh_slope,
}


# --- the operation -------------------------------------------------------------------------------


@finalizes("OPERATION_POINTWISE")
def make_operation(descriptor: Descriptor) -> Node:
    """The tensors that the mode needs, and no others, of shapes that go together."""
    given: Pointwise = descriptor.held("PW_DESCRIPTOR")
    mode = check_member(given.mode, Mode, "POINTWISE_MODE")
    parameters = given._replace(mode=mode)
    if mode in _SLOPES:
        return _backward(descriptor, parameters)
    if mode in _BINARY:
        return _binary(descriptor, parameters)
    if mode == Mode.BINARY_SELECT:
        return _select(descriptor, parameters)
    return _unary(descriptor, parameters)


def _tensors(descriptor: Descriptor, *names: str) -> dict[str, Tensor]:
    """The tensors of these attributes, which must all be set."""
    mode = Mode(descriptor.held("PW_DESCRIPTOR").mode).name
    for name in names:
        if name not in descriptor:
            raise bad_param(f"{descriptor.kind.prefix}{name} is not set, {mode} needs it")
    return {name: descriptor.held(name) for name in names}


def _node(
    parameters: Pointwise,
    inputs: dict[str, Tensor],
    output: str,
    tensor: Tensor,
    compute: Callable[[Arrays], Any],
) -> Node:
    def run(arrays: Arrays, arithmetic: Arithmetic) -> Arrays:
        return {output: np.broadcast_to(compute(arrays), tensor.shape)}

    return Node(
        f"OPERATION_POINTWISE {Mode(parameters.mode).name}",
        precision(parameters.precision),
        inputs,
        {output: tensor},
        run,
    )


def _scaled(x: Array, alpha: float) -> Array:
    return x if alpha == 1 else x * x.dtype.type(alpha)


def _unary(descriptor: Descriptor, parameters: Pointwise) -> Node:
    tensors = _tensors(descriptor, "XDESC", "YDESC")
    x, y = tensors["XDESC"], tensors["YDESC"]
    _check_broadcast({"XDESC": x}, y)
    alpha, axis = descriptor.one("ALPHA1"), parameters.axis
    if parameters.mode == Mode.GEN_INDEX:
        if not 0 <= axis < len(x.shape):
            raise bad_param(f"AXIS is {axis}, must be in 0 to {len(x.shape) - 1}")
        indices = np.arange(x.shape[axis]).reshape(-1, *(1,) * (len(x.shape) - axis - 1))
        return _node(parameters, {"XDESC": x}, "YDESC", y, lambda arrays: indices)
    function = _UNARY[Mode(parameters.mode)]
    return _node(
        parameters,
        {"XDESC": x},
        "YDESC",
        y,
        lambda arrays: function(_scaled(arrays["XDESC"], alpha), parameters),
    )


def _binary(descriptor: Descriptor, parameters: Pointwise) -> Node:
    tensors = _tensors(descriptor, "XDESC", "BDESC", "YDESC")
    y = tensors.pop("YDESC")
    _check_broadcast(tensors, y)
    function = _BINARY[Mode(parameters.mode)]
    alphas = descriptor.one("ALPHA1"), descriptor.one("ALPHA2")
    return _node(
        parameters,
        tensors,
        "YDESC",
        y,
        lambda arrays: function(
            _scaled(arrays["XDESC"], alphas[0]), _scaled(arrays["BDESC"], alphas[1])
        ),
    )


def _check_broadcast(inputs: dict[str, Tensor], y: Tensor) -> None:
    """Each size of y is that of every input, or theirs is 1."""
    for tensor in inputs.values():
        if len(tensor.shape) != len(y.shape):
            raise bad_param(f"{tensor} and {y} differ in their number of dimensions")
    sizes = zip(*(tensor.shape for tensor in inputs.values()), strict=True)
    for size, theirs in zip(y.shape, sizes, strict=True):
        if any(n not in (1, size) for n in theirs):
            shapes = " and ".join(map(str, inputs.values()))
            raise bad_param(f"{shapes} cannot be broadcast to {y}")


def _select(descriptor: Descriptor, parameters: Pointwise) -> Node:
    tensors = _tensors(descriptor, "XDESC", "BDESC", "TDESC", "YDESC")
    y = tensors.pop("YDESC")
    _check_broadcast(tensors, y)
    return _node(
        parameters,
        tensors,
        "YDESC",
        y,
        lambda arrays: np.where(arrays["TDESC"] != 0, arrays["XDESC"], arrays["BDESC"]),
    )


def _backward(descriptor: Descriptor, parameters: Pointwise) -> Node:
    """``dx = dy * slope``, the slope at x."""
    mode = Mode(parameters.mode)
    tensors = _tensors(descriptor, "XDESC", "DYDESC", "DXDESC")
    dx = tensors.pop("DXDESC")
    for tensor in tensors.values():
        check_shape(tensor, dx.shape, mode.name)
    return _node(
        parameters,
        tensors,
        "DXDESC",
        dx,
        lambda arrays: arrays["DYDESC"] * _SLOPES[mode](arrays["XDESC"], parameters),
    )
