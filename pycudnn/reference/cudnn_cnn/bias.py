"""What goes with a convolution: the gradient of the bias, and convolution, bias and activation at
once."""

from __future__ import annotations

import numpy as np

from pycudnn.abi.cudnn_enums import ActivationMode, ConvolutionFwdAlgo, NanPropagation

from ..convolution import backward_bias
from ..cudnn_graph import Handle
from ..cudnn_ops.checks import FLOATING, check_same_type, check_type
from ..descriptors import Activation, Filter, Tensor
from ..memory import compute_dtype, read_scalar, store, view
from ..runtime import bad_param, implements, not_supported
from .descriptor import Convolution
from .directions import FORWARD, prepare


@implements("cudnnCnnVersionCheck")
def version_check() -> None:
    """The parts of this library are always of one version."""


@implements("cudnnConvolutionBackwardBias")
def convolution_backward_bias(
    handle: Handle, alpha: int, dy_desc: Tensor, dy: int, beta: int, db_desc: Tensor, db: int
) -> None:
    """``db = alpha * (sum of dy over all but the channels) + beta * db``, db being (1, C, 1, 1)."""
    _check_bias(db_desc, "db", dy_desc, "dy")
    check_type(dy_desc, "dy", FLOATING)
    scale = read_scalar(alpha, db_desc.dtype, "alpha"), read_scalar(beta, db_desc.dtype, "beta")
    backward_bias(view(dy, dy_desc, "dy"), view(db, db_desc, "db"), *scale)


def _check_bias(bias: Tensor, bias_name: str, tensor: Tensor, name: str) -> None:
    """One number for each channel of the tensor."""
    if not tensor.shape:
        raise bad_param(f"the descriptor of {name} has not been set")
    expected = (1, *tensor.shape[1:2], *(1,) * (len(tensor.shape) - 2))
    if bias.shape != expected:
        raise bad_param(
            f"{bias_name} is {bias.shape}, must be {expected} for {name} {tensor.shape}"
        )
    check_same_type(bias, tensor, f"{bias_name} and {name}")


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

    The activation is RELU, or IDENTITY with the algorithm IMPLICIT_PRECOMP_GEMM. z may be y; x may
    not. With alpha2 == 0, z is not read.
    """
    run = prepare(FORWARD, x_desc, w_desc, conv, y_desc, algo, workspace, workspace_size)
    if activation.mode not in (ActivationMode.RELU, ActivationMode.IDENTITY):
        raise not_supported(f"activation mode {activation.mode!r}: must be RELU or IDENTITY")
    if activation.mode == ActivationMode.IDENTITY and (
        algo != ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM
    ):
        name = ConvolutionFwdAlgo(algo).name
        raise not_supported(f"IDENTITY needs the algorithm IMPLICIT_PRECOMP_GEMM, got {name}")
    _check_bias(bias_desc, "bias", y_desc, "y")
    if z_desc.shape != y_desc.shape or z_desc.dtype != y_desc.dtype:
        raise bad_param(f"z must be like y: z is {z_desc}, y is {y_desc}")
    if x == y or (x == z and z):
        raise bad_param("x may share memory with neither y nor z")
    scale1 = read_scalar(alpha1, y_desc.dtype, "alpha1")
    scale2 = read_scalar(alpha2, y_desc.dtype, "alpha2")
    out = view(y, y_desc, "y")
    result = np.empty(out.shape, compute_dtype(out.dtype))
    run(view(x, x_desc, "x"), view(w, w_desc, "w"), result, scale1, 0.0)
    if scale2:
        result += result.dtype.type(scale2) * view(z, z_desc, "z").astype(result.dtype, copy=False)
    result += view(bias, bias_desc, "bias").astype(result.dtype, copy=False)
    if activation.mode == ActivationMode.RELU:
        propagate = activation.nan_propagation == NanPropagation.PROPAGATE_NAN
        (np.maximum if propagate else np.fmax)(result, 0, out=result)
    store(out, result)
