"""Dense: a fully connected layer by cuBLAS (book: "Accelerating fully connected layers")."""

from __future__ import annotations

import numpy as np

from layers.blob import Blob
from layers.layer import Layer
from pycudnn import cublas, memory

N, T = cublas.Operation.N, cublas.Operation.T


class Dense(Layer):
    """output (n, output_size, 1, 1) = weights * input + biases, over all c*h*w input values.

    cuBLAS sees column-major matrices: the input is input_size x n, the output output_size x n
    and the weights input_size x output_size. Read as a NumPy array, row-major, the same weights
    are (1, 1, output_size, input_size).
    """

    weights: Blob
    biases: Blob
    grad_weights: Blob
    grad_biases: Blob

    def __init__(self, name: str, output_size: int) -> None:
        super().__init__(name)
        if output_size < 1:
            raise ValueError(f"output_size is {output_size}, must be at least 1")
        self.output_size = output_size
        self.input_size = 0
        self.one_vec: memory.Buffer | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return host copies: the weights as (output_size, input_size), the biases flat."""
        return {
            name: array[0, 0] if array.ndim == 4 else array
            for name, array in super().arrays().items()
        }

    def fwd_initialize(self, input: Blob) -> None:
        """Take the input; make the weights at the first one."""
        if self.weights is None:
            self.input_size = input.size
            self.make_parameters(
                (1, 1, self.output_size, self.input_size), (1, 1, self.output_size, 1)
            )
        if input.size != self.input_size:
            raise ValueError(
                f"input {input.shape} has {input.size} values a sample, the weights of layer "
                f"{self.name!r} take {self.input_size}"
            )
        self.input = input
        if self.output.reset(input.n, self.output_size) or self.one_vec is None:
            self.one_vec = memory.from_numpy(
                np.ones(max(input.n, 1), np.float32),
                device=self.cuda.device,
                stream=self.cuda.stream,
            )

    def forward(self, input: Blob) -> Blob:
        """Compute the output; returns a blob (n, output_size, 1, 1)."""
        self.fwd_initialize(input)
        if input.n == 0:
            return self.output
        cuda = self.cuda

        # output = weights^T * input (without biases)
        cublas.sgemm(
            cuda.cublas, T, N, self.output_size, input.n, self.input_size,
            cuda.one, self.weights.cuda, self.input_size,
            input.cuda, self.input_size,
            cuda.zero, self.output.cuda, self.output_size,
        )  # fmt: skip

        # output += biases * one_vec^T
        cublas.sgemm(
            cuda.cublas, N, N, self.output_size, input.n, 1,
            cuda.one, self.biases.cuda, self.output_size,
            self.one_vec, 1,
            cuda.one, self.output.cuda, self.output_size,
        )  # fmt: skip
        return self.output

    def backward(self, grad_output: Blob) -> Blob | None:
        """Compute db, dw and dx; returns dx, of the input's shape."""
        input = self.bwd_initialize(grad_output)
        cuda, n = self.cuda, input.n

        if not self.frozen and n == 0:
            self.grad_weights.cuda.fill_bytes(0, cuda.stream)
            self.grad_biases.cuda.fill_bytes(0, cuda.stream)
        elif not self.frozen:
            # db = (dy) * one_vec
            cublas.sgemv(
                cuda.cublas, N, self.output_size, n,
                cuda.one, grad_output.cuda, self.output_size,
                self.one_vec, 1,
                cuda.zero, self.grad_biases.cuda, 1,
            )  # fmt: skip

            # dw = x * (dy)^T
            cublas.sgemm(
                cuda.cublas, N, T, self.input_size, self.output_size, n,
                cuda.one, input.cuda, self.input_size,
                grad_output.cuda, self.output_size,
                cuda.zero, self.grad_weights.cuda, self.input_size,
            )  # fmt: skip

        if self.gradient_stop:
            return None

        # dx = W * dy
        if n:
            cublas.sgemm(
                cuda.cublas, N, N, self.input_size, n, self.output_size,
                cuda.one, self.weights.cuda, self.input_size,
                grad_output.cuda, self.output_size,
                cuda.zero, self.grad_input.cuda, self.input_size,
            )  # fmt: skip
        return self.grad_input
