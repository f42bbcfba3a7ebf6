"""Conv2D: convolution by cuDNN (book: "Convolutional neural networks with cuDNN")."""

from __future__ import annotations

import warnings
from typing import Any

from layers.algorithms import SEARCHES, Choice, choose
from layers.blob import Blob
from layers.context import CudaContext
from layers.geometry import output_size
from layers.layer import Layer
from pycudnn import cudnn, kernels, memory

BIAS_GRADIENTS = ("channel_sum", "cudnn")


class Conv2D(Layer):
    """Cross-correlation with ``out_channels`` square filters, plus a bias per output channel.

    ``search``: how algorithms are chosen, ``"heuristic"`` or ``"find"`` (see
    ``cudnn.find_algorithm``); ``workspace_limit`` in bytes bounds their workspace, which all layers
    of a context share; ``deterministic`` admits only algorithms whose gradients repeat bit by bit.
    Where these are None, ``pycudnn.config`` decides; without a limit there it is 256 MiB.

    ``bias_gradient``: ``"channel_sum"`` adds up dy with our own kernel, ``"cudnn"`` calls
    cudnnConvolutionBackwardBias as the book does, which takes many times longer on a GPU.
    """

    weights: Blob
    biases: Blob
    filter_desc: cudnn.FilterDescriptor
    grad_weights: Blob
    grad_biases: Blob

    def __init__(
        self,
        name: str,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        *,
        groups: int = 1,
        search: str = "heuristic",
        workspace_limit: int | None = None,
        deterministic: bool | None = None,
        bias_gradient: str = "channel_sum",
    ) -> None:
        super().__init__(name)
        for option, value, known in (
            ("search", search, SEARCHES),
            ("bias_gradient", bias_gradient, BIAS_GRADIENTS),
        ):
            if value not in known:
                raise ValueError(f"{option} is {value!r}, must be one of {known}")
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.search = search
        self.workspace_limit = workspace_limit
        self.deterministic = deterministic
        self.bias_gradient = bias_gradient
        self.in_channels = 0
        self._choices: dict[str, Choice] = {}
        self._chosen_for: tuple[int, ...] = ()
        self._warned = False

    def set_cuda_context(self, context: CudaContext) -> None:
        """Take the context and make the convolution descriptor in its library."""
        super().set_cuda_context(context)
        self.conv_desc = cudnn.ConvolutionDescriptor(
            self.padding,
            self.stride,
            self.dilation,
            mode=cudnn.ConvolutionMode.CROSS_CORRELATION,
            groups=self.groups,
            library=context.cudnn.library,
        )

    def fwd_initialize(self, input: Blob) -> None:
        """Take the input, make the weights at the first one, follow its shape.

        ValueError where the filter does not fit into the padded input or the channels differ.
        """
        h, w = output_size(input, self.kernel_size, self.padding, self.stride, self.dilation)
        if self.weights is None:
            self.in_channels = input.c
            shape = (self.out_channels, input.c // self.groups, self.kernel_size, self.kernel_size)
            self.filter_desc = cudnn.FilterDescriptor(shape, library=self.cuda.cudnn.library)
            self.make_parameters(shape, (1, self.out_channels, 1, 1))
        if input.c != self.in_channels:
            raise ValueError(
                f"input {input.shape} has {input.c} channels, the weights of layer {self.name!r} "
                f"take {self.in_channels}"
            )
        self.input = input
        if input.shape != self._chosen_for:
            self._chosen_for = input.shape
            self._choices.clear()
            if input.n:
                _, _, h, w = cudnn.get_convolution_forward_output_dim(
                    self.conv_desc, input.tensor(), self.filter_desc
                )
            self.output.reset(input.n, self.out_channels, h, w)

    def _choose(self, direction: str, *descriptors: Any) -> tuple[int, memory.Buffer | None]:
        """Return this direction's algorithm and the shared workspace, large enough for it."""
        choice = self._choices.get(direction)
        if choice is None:
            choice = self._choices[direction] = self.set_workspace(direction, descriptors)
        return choice.algorithm, self._workspace(choice)

    def _workspace(self, choice: Choice) -> memory.Buffer | None:
        return self.cuda.workspace(choice.workspace) if choice.workspace else None

    def set_workspace(self, direction: str, descriptors: Any) -> Choice:
        """Choose an algorithm and make its workspace; without memory for that, one without."""
        options: dict[str, Any] = {"search": self.search, "deterministic": self.deterministic}
        choice = choose(
            self.cuda, direction, descriptors, workspace_limit=self.workspace_limit, **options
        )
        try:
            self._workspace(choice)
        except MemoryError as error:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"layer {self.name!r}: no memory for a workspace of {choice.workspace} bytes "
                    f"({error}); algorithms without workspace are used, which may be slower",
                    RuntimeWarning,
                    stacklevel=2,
                )
            choice = choose(self.cuda, direction, descriptors, workspace_limit=0, **options)
        return choice

    def forward(self, input: Blob) -> Blob:
        """Compute the output; returns a blob (n, out_channels, h', w')."""
        self.fwd_initialize(input)
        if input.n == 0:
            return self.output
        handle, output = self.cuda.cudnn, self.output

        algorithm, workspace = self._choose(
            "forward", input.tensor(), self.filter_desc, self.conv_desc, output.tensor()
        )
        cudnn.convolution_forward(
            handle, input.tensor(), input.cuda, self.filter_desc, self.weights.cuda,
            self.conv_desc, algorithm, workspace, output.tensor(), output.cuda,
        )  # fmt: skip
        cudnn.add_tensor(
            handle, self.biases.tensor(), self.biases.cuda, output.tensor(), output.cuda
        )
        return output

    def backward(self, grad_output: Blob) -> Blob | None:
        """Compute db, dw and dx; returns dx, of the input's shape."""
        input = self.bwd_initialize(grad_output)
        cuda = self.cuda

        if not self.frozen and input.n == 0:
            self.grad_weights.cuda.fill_bytes(0, cuda.stream)
            self.grad_biases.cuda.fill_bytes(0, cuda.stream)
        elif not self.frozen:
            # gradients of biases
            self._backward_bias(grad_output)

            # gradients of weights
            algorithm, workspace = self._choose(
                "backward_filter",
                input.tensor(), grad_output.tensor(), self.conv_desc, self.filter_desc,
            )  # fmt: skip
            cudnn.convolution_backward_filter(
                cuda.cudnn, input.tensor(), input.cuda, grad_output.tensor(), grad_output.cuda,
                self.conv_desc, algorithm, workspace, self.filter_desc, self.grad_weights.cuda,
            )  # fmt: skip

        if self.gradient_stop:
            return None

        # gradients of input data
        grad_input = self.grad_input
        if input.n:
            algorithm, workspace = self._choose(
                "backward_data",
                self.filter_desc, grad_output.tensor(), self.conv_desc, grad_input.tensor(),
            )  # fmt: skip
            cudnn.convolution_backward_data(
                cuda.cudnn, self.filter_desc, self.weights.cuda,
                grad_output.tensor(), grad_output.cuda, self.conv_desc, algorithm, workspace,
                grad_input.tensor(), grad_input.cuda,
            )  # fmt: skip
        return grad_input

    def _backward_bias(self, grad_output: Blob) -> None:
        if self.bias_gradient == "cudnn":
            cudnn.convolution_backward_bias(
                self.cuda.cudnn, grad_output.tensor(), grad_output.cuda,
                self.grad_biases.tensor(), self.grad_biases.cuda,
            )  # fmt: skip
        else:
            kernels.channel_sum(self.cuda.stream, grad_output.cuda, self.grad_biases.cuda)
