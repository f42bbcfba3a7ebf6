"""What goes with a convolution: the gradient of the bias, and convolution, bias and activation at
once."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cudnn_enums import (
    ActivationMode,
    ConvolutionFwdAlgo,
    DataType,
    NanPropagation,
)
from pycudnn.abi.cudnn_enums import Status as CudnnStatus

from ..convolution import backward_bias
from ..cudnn_graph import Handle
from ..cudnn_ops.checks import FLOATING, check_4d_or_5d, check_same_type, check_type
from ..cudnn_ops.vectors import joined, split
from ..descriptors import Activation, Filter, Tensor
from ..memory import compute_dtype, load, read_scalar, store, view
from ..runtime import Status, bad_param, implements, not_supported
from .descriptor import Convolution
from .directions import FORWARD, load_operands, of_type, prepare
from .int8 import is_int8, load_bias


@implements("cudnnCnnVersionCheck")
def version_check() -> None:
    """The parts of this library are always of one version."""


@implements("cudnnConvolutionBackwardBias")
def convolution_backward_bias(
    handle: Handle, alpha: int, dy_desc: Tensor, dy: int, beta: int, db_desc: Tensor, db: int
) -> None:
    """``db = alpha * (sum of dy over all but the channels) + beta * db``, db being (1, C, 1, 1)."""
    check_4d_or_5d(dy_desc, "dy")
    if db_desc.shape != _one_per_channel(dy_desc):
        raise bad_param(f"db is {db_desc.shape}, must be {_one_per_channel(dy_desc)}")
    check_same_type(db_desc, dy_desc, "db and dy")
    check_type(dy_desc, "dy", FLOATING)
    scale = read_scalar(alpha, db_desc.dtype, "alpha"), read_scalar(beta, db_desc.dtype, "beta")
    backward_bias(view(dy, dy_desc, "dy"), view(db, db_desc, "db"), *scale)


def _one_per_channel(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a bias: 1 in all dimensions but that of the channels."""
    return tuple(size if axis == 1 else 1 for axis, size in enumerate(tensor.shape))


@implements("cudnnConvolutionBiasActivationForward")
def convolution_bias_activation_forward(
    handle: Handle,
    alpha1: int,
    x_desc: Tensor,
    x: int,
    w_desc: Filter,
    w: int,
    conv: Convolution,
    algo: int,
    workspace: int,
    workspace_size: int,
    alpha2: int,
    z_desc: Tensor,
    z: int,
    bias_desc: Tensor,
    bias: int,
    activation: Activation,
    y_desc: Tensor,
    y: int,
) -> None:
    """``y = act(alpha1 * conv(x, w) + alpha2 * z + bias)``, rounded to y's type once, at the end.

    The activation is RELU or IDENTITY. As NVIDIA documents it, IDENTITY goes with the algorithm
    IMPLICIT_PRECOMP_GEMM alone (cuDNN 9.19 does not insist). z is laid out like y and may be y
    itself; it must be there even if alpha2 is 0, and then is not read.
    """
    direction = of_type(FORWARD, x_desc)
    run = prepare(direction, x_desc, w_desc, conv, y_desc, algo, workspace, workspace_size)
    if activation.mode not in (ActivationMode.RELU, ActivationMode.IDENTITY):
        mode = "not set" if activation.mode is None else activation.mode.name
        raise not_supported(f"the activation is {mode}, must be RELU or IDENTITY")
    identity = activation.mode == ActivationMode.IDENTITY
    if identity and algo != ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM:
        name = ConvolutionFwdAlgo(algo).name
        raise not_supported(f"IDENTITY needs the algorithm IMPLICIT_PRECOMP_GEMM, got {name}")
    _check_addends(bias_desc, z_desc, y_desc, DataType.FLOAT if is_int8(x_desc) else y_desc.dtype)
    if x == y:
        raise not_supported("y cannot overwrite x")
    scale1 = read_scalar(alpha1, y_desc.dtype, "alpha1")
    scale2 = read_scalar(alpha2, y_desc.dtype, "alpha2")
    out, addend = split(y, y_desc, "y"), joined(split(z, z_desc, "z"))
    operands = load_operands(direction, conv, x_desc, x, w_desc, w)
    result = np.empty(y_desc.shape, compute_dtype(out.dtype))
    if is_int8(x_desc):
        sums = np.empty(y_desc.shape, np.float64)
        run(*operands, sums, 1.0, 0.0)
        np.multiply(sums.astype(result.dtype), result.dtype.type(scale1), out=result)
        shift = load_bias(conv, w_desc, bias_desc, bias)
    else:
        run(*operands, result, scale1, 0.0)
        shift = load(bias, bias_desc, "bias")
    if scale2 != 0:
        result += result.dtype.type(scale2) * addend.astype(result.dtype, copy=False)
    result += shift
    if not identity:
        propagate = activation.nan_propagation == NanPropagation.PROPAGATE_NAN
        (np.maximum if propagate else np.fmax)(result, 0, out=result)
    store(out, result.reshape(out.shape))


def _check_addends(bias: Tensor, z: Tensor, y: Tensor, bias_type: DataType) -> None:
    if bias.shape != _one_per_channel(y):
        raise Status(
            CudnnStatus.NOT_SUPPORTED_SHAPE,
            f"bias is {bias.shape}, must be {_one_per_channel(y)} for y {y.shape}",
        )
    if bias.dtype != bias_type:
        raise Status(
            CudnnStatus.NOT_SUPPORTED_DATA_TYPE,
            f"bias is of type {bias.dtype.name}, must be {bias_type.name}",
        )
    if z != y:
        raise Status(
            CudnnStatus.NOT_SUPPORTED_SHAPE,
            f"z must have the shape, strides and type of y: z is {z}, y is {y}",
        )
