"""Activation: an element-wise function by cuDNN (book: "Element-wise layer with cuDNN")."""

from __future__ import annotations

from layers.blob import Blob
from layers.context import CudaContext
from layers.layer import Layer
from pycudnn import cudnn


class Activation(Layer):
    """output = f(input), element by element; ``mode`` is one of ``cudnn.ActivationMode``.

    ``coef`` is the ceiling of CLIPPED_RELU, alpha of ELU, beta of SWISH.
    """

    def __init__(self, name: str, mode: cudnn.ActivationMode, coef: float = 0.0) -> None:
        super().__init__(name)
        self.mode = mode
        self.coef = coef

    def set_cuda_context(self, context: CudaContext) -> None:
        """Take the context and make the activation descriptor in its library."""
        super().set_cuda_context(context)
        self.act_desc = cudnn.ActivationDescriptor(
            self.mode, coefficient=self.coef, library=context.cudnn.library
        )

    def fwd_initialize(self, input: Blob) -> None:
        """Take the input; the output has its shape."""
        self.input = input
        self.output.reset(*input.shape)

    def forward(self, input: Blob) -> Blob:
        """Compute the output (cudnnActivationForward)."""
        self.fwd_initialize(input)
        if input.n:
            cudnn.activation_forward(
                self.cuda.cudnn, self.act_desc,
                input.tensor(), input.cuda,
                self.output.tensor(), self.output.cuda,
            )  # fmt: skip
        return self.output

    def backward(self, grad_output: Blob) -> Blob | None:
        """Compute dx = f'(x) * dy (cudnnActivationBackward)."""
        input = self.bwd_initialize(grad_output)
        if self.gradient_stop:
            return None
        if input.n:
            cudnn.activation_backward(
                self.cuda.cudnn, self.act_desc,
                self.output.tensor(), self.output.cuda,
                grad_output.tensor(), grad_output.cuda,
                input.tensor(), input.cuda,
                self.grad_input.tensor(), self.grad_input.cuda,
            )  # fmt: skip
        return self.grad_input
