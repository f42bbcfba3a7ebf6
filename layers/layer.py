"""Layer: the base class of every layer (book: layer.h, layer.cu)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from layers.blob import Blob
from layers.context import CudaContext
from pycudnn import cublas, memory

# Where pretrained parameters come from: a directory of the book's raw files, or named arrays.
ParameterSource = str | Path | Mapping[str, np.ndarray]


class Layer:
    """A layer: ``forward`` makes the output from an input, ``backward`` the gradients.

    Each is an ``..._initialize`` step, in which the buffers follow the shape of what is given,
    and a compute step. Weights depend on no batch size: they are made once, at the first
    forward, and then changed by ``update_weights_biases`` and ``load_parameter`` alone.
    """

    input: Blob | None = None  # x, owned by whoever made it
    weights: Blob | None = None  # w
    biases: Blob | None = None  # b
    grad_weights: Blob | None = None  # dw
    grad_biases: Blob | None = None  # db

    def __init__(self, name: str) -> None:
        self.name = name
        self.output = Blob()  # y
        self.grad_input = Blob()  # dx
        self.frozen = False
        self.gradient_stop = False
        self.load_pretrain: ParameterSource | None = None
        self.seed: int | Sequence[int] | None = None
        self._cuda: CudaContext | None = None

    @property
    def cuda(self) -> CudaContext:
        """The context given by ``set_cuda_context``; RuntimeError where none was."""
        if self._cuda is None:
            raise RuntimeError(f"layer {self.name!r} has no context: call Network.cuda() first")
        return self._cuda

    def set_cuda_context(self, context: CudaContext) -> None:
        """Compute on ``context`` from now on; ValueError once the layer has weights elsewhere."""
        if context is self._cuda:
            return
        if self.weights is not None:
            raise ValueError(f"layer {self.name!r} has its weights on another context already")
        self._cuda = context
        self.output = Blob(context=context)
        self.grad_input = Blob(context=context)

    def forward(self, input: Blob) -> Blob:
        """Compute the output of ``input`` (n, c, h, w); the layer owns the blob it returns."""
        raise NotImplementedError

    def backward(self, grad_output: Blob) -> Blob | None:
        """Compute the gradients of the last forward from that of its output.

        Returns the gradient of the input; None where ``set_gradient_stop`` was called.
        """
        raise NotImplementedError

    def fwd_initialize(self, input: Blob) -> None:
        """Take the input and let the output follow its shape."""
        raise NotImplementedError

    def bwd_initialize(self, grad_output: Blob) -> Blob:
        """Check the gradient given, let the gradients' buffers follow, and return the input."""
        if self.input is None:
            raise RuntimeError(f"layer {self.name!r}: backward before forward")
        if grad_output.shape != self.output.shape:
            raise ValueError(
                f"grad_output has shape {grad_output.shape}, the last output of layer "
                f"{self.name!r} has {self.output.shape}"
            )
        if not self.gradient_stop:
            self.grad_input.reset(*self.input.shape)
        if self.weights is not None and self.biases is not None:
            if not self.frozen and self.grad_weights is None:
                self.grad_weights = Blob(*self.weights.shape, context=self.cuda)
                self.grad_biases = Blob(*self.biases.shape, context=self.cuda)
        return self.input

    def get_loss(self, target: Blob) -> float:
        """Return the loss of the last forward against ``target``; the output layer has one."""
        raise NotImplementedError(f"layer {self.name!r} has no loss")

    def get_accuracy(self, target: Blob) -> int:
        """Return how many samples the last forward got right; the output layer can tell."""
        raise NotImplementedError(f"layer {self.name!r} has no accuracy")

    def freeze(self) -> None:
        """Keep the weights as they are: no weight gradients are computed, no update is made."""
        self.frozen = True
        self.drop_gradients()

    def unfreeze(self) -> None:
        """Undo ``freeze``."""
        self.frozen = False

    def drop_gradients(self) -> None:
        """Forget the weight gradients, so that an update before the next backward does nothing."""
        self.grad_weights = self.grad_biases = None

    def set_gradient_stop(self) -> None:
        """Compute no gradient of the input: there is no layer before that could use it."""
        self.gradient_stop = True

    def set_load_pretrain(self, source: ParameterSource = ".") -> None:
        """Take the parameters from ``source`` (see ``load_parameter``) when they are first made."""
        self.load_pretrain = source

    def init_weight_bias(self, seed: int | Sequence[int] | None = None) -> None:
        """Draw the weights uniformly from +-sqrt(6 / fan_in) (He et al. 2015); biases are 0.

        The fan-in is the number of inputs of one output value: C*h*w of the filter for a
        convolution, all input values for a dense layer. ``seed`` None draws fresh ones.
        """
        if self.weights is None or self.biases is None:
            return
        limit = np.sqrt(6 / (self.weights.len // self.biases.len))
        random = np.random.default_rng(seed)
        self.weights.ptr[...] = random.uniform(-limit, limit, self.weights.shape)
        self.biases.ptr[...] = 0
        self.weights.to("cuda")
        self.biases.to("cuda")

    def make_parameters(self, weights: Sequence[int], biases: Sequence[int]) -> None:
        """Make weights and biases of these shapes, pretrained or drawn."""
        self.weights = Blob(*weights, context=self.cuda)
        self.biases = Blob(*biases, context=self.cuda)
        try:
            if self.load_pretrain is None:
                self.init_weight_bias(self.seed)
            else:
                self.load_parameter(self.load_pretrain)
        except BaseException:
            self.weights = self.biases = None
            raise

    def update_weights_biases(self, eps: float | memory.Buffer) -> None:
        """Gradient descent: w += eps * dw and b += eps * db (cublasSaxpy).

        ``eps`` is minus the learning rate, a number or, in cuBLAS's pointer mode DEVICE, a buffer.
        """
        pairs = (self.weights, self.grad_weights), (self.biases, self.grad_biases)
        for values, gradient in pairs:
            if values is not None and gradient is not None:
                cublas.saxpy(self.cuda.cublas, values.len, eps, gradient.cuda, 1, values.cuda, 1)

    def parameters(self) -> dict[str, Blob]:
        """Return the layer's blobs by name, ``<name>.weight`` and ``<name>.bias``; maybe none."""
        if self.weights is None or self.biases is None:
            return {}
        return {f"{self.name}.weight": self.weights, f"{self.name}.bias": self.biases}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return host copies of weights and biases by name, shaped (out, in, ...) and (out,)."""
        if self.weights is None or self.biases is None:
            return {}
        return {
            f"{self.name}.weight": self.weights.to("host").copy(),
            f"{self.name}.bias": self.biases.to("host").flatten(),
        }

    def parameter_files(self, directory: str | Path) -> tuple[Path, Path]:
        """Return the book's file names: ``<name>.bin`` and ``<name>.bias.bin``."""
        return Path(directory, f"{self.name}.bin"), Path(directory, f"{self.name}.bias.bin")

    def load_parameter(self, source: ParameterSource = ".") -> None:
        """Fill weights and biases from the book's raw files in a directory, or from named arrays.

        Arrays are found as ``<name>.weight`` and ``<name>.bias``. Raises FileNotFoundError or
        KeyError where one is missing and ValueError where one has the wrong size.
        """
        if isinstance(source, (str, Path)):
            for path, blob in zip(
                self.parameter_files(source), self.parameters().values(), strict=True
            ):
                blob.file_read(path)
            return
        for name, blob in self.parameters().items():
            if name not in source:
                raise KeyError(f"no array {name!r}; there are {', '.join(source)}")
            array = source[name]
            if array.size != blob.len:
                raise ValueError(
                    f"array {name!r} has shape {array.shape}, expected {blob.len} values as "
                    f"{blob.shape}"
                )
            blob.ptr[...] = array.reshape(blob.shape)
            blob.to("cuda")

    def save_parameter(self, directory: str | Path = ".") -> None:
        """Write the book's raw float32 files, ``<name>.bin`` and ``<name>.bias.bin``."""
        for path, blob in zip(
            self.parameter_files(directory), self.parameters().values(), strict=False
        ):
            blob.file_write(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
