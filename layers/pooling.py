"""Pooling: the largest or the mean value of each window (book: "Convolutional neural networks")."""

from __future__ import annotations

from layers.blob import Blob
from layers.context import CudaContext
from layers.geometry import output_size
from layers.layer import Layer
from pycudnn import cudnn


class Pooling(Layer):
    """Pooling over square windows; ``mode`` is one of ``cudnn.PoolingMode``.

    ``stride`` None stands for the window itself, so that windows do not overlap.
    """

    def __init__(
        self,
        name: str,
        kernel_size: int,
        padding: int = 0,
        stride: int | None = None,
        mode: cudnn.PoolingMode = cudnn.PoolingMode.MAX,
    ) -> None:
        super().__init__(name)
        self.kernel_size = kernel_size
        self.padding = padding
        self.stride = kernel_size if stride is None else stride
        self.mode = mode

    def set_cuda_context(self, context: CudaContext) -> None:
        """Take the context and make the pooling descriptor in its library."""
        super().set_cuda_context(context)
        self.pool_desc = cudnn.PoolingDescriptor(
            (self.kernel_size, self.kernel_size),
            self.mode,
            padding=(self.padding, self.padding),
            stride=(self.stride, self.stride),
            library=context.cudnn.library,
        )

    def fwd_initialize(self, input: Blob) -> None:
        """Take the input; ValueError where the window is larger than its padded height or width."""
        h, w = output_size(input, self.kernel_size, self.padding, self.stride)
        self.input = input
        self.output.reset(input.n, input.c, h, w)

    def forward(self, input: Blob) -> Blob:
        """Compute the output (cudnnPoolingForward)."""
        self.fwd_initialize(input)
        if input.n:
            cudnn.pooling_forward(
                self.cuda.cudnn, self.pool_desc,
                input.tensor(), input.cuda,
                self.output.tensor(), self.output.cuda,
            )  # fmt: skip
        return self.output

    def backward(self, grad_output: Blob) -> Blob | None:
        """Compute dx (cudnnPoolingBackward)."""
        input = self.bwd_initialize(grad_output)
        if self.gradient_stop:
            return None
        if input.n:
            cudnn.pooling_backward(
                self.cuda.cudnn, self.pool_desc,
                self.output.tensor(), self.output.cuda,
                grad_output.tensor(), grad_output.cuda,
                input.tensor(), input.cuda,
                self.grad_input.tensor(), self.grad_input.cuda,
            )  # fmt: skip
        return self.grad_input
