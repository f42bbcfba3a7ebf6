"""Network: a chain of layers (book: network.h, network.cpp)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from layers.blob import Blob
from layers.context import CudaContext, default_context
from layers.layer import Layer, ParameterSource
from layers.softmax import Softmax
from pycudnn import cublas, memory
from pycudnn.errors import StatusError


class Network:
    """A chain of layers, run forwards, backwards and updated as one.

    ``seed`` fixes the initial weights of every layer; None draws fresh ones.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.layers: list[Layer] = []
        self.seed = seed
        self.training = True
        self.context: CudaContext | None = None
        self._pretrained: ParameterSource | None = None

    def add_layer(self, layer: Layer) -> None:
        """Append a layer; the first one gets the gradient stop."""
        if not self.layers:
            layer.set_gradient_stop()
        if self.seed is not None:
            layer.seed = (self.seed, len(self.layers))
        if self.context is not None:
            layer.set_cuda_context(self.context)
        if self._pretrained is not None:
            layer.set_load_pretrain(self._pretrained)
        self.layers.append(layer)

    def cuda(self, context: CudaContext | None = None) -> None:
        """Give every layer its context; None stands for the default context."""
        self.context = default_context() if context is None else context
        for layer in self.layers:
            layer.set_cuda_context(self.context)

    def train(self) -> None:
        """Enter the training phase, the one a new network is in."""
        self.training = True

    def test(self) -> None:
        """Enter the inference phase: ``backward`` and ``update`` are errors there."""
        self.training = False

    def forward(self, input: Blob) -> Blob:
        """Run all layers on ``input`` (n, c, h, w) and return the last one's output."""
        output = self._owned(input, "input")
        for layer in self.layers:
            try:
                output = layer.forward(output)
            except Exception as error:
                _name_layer(error, layer, "forward", output)
                raise
        return output

    def backward(self, target: Blob) -> None:
        """Run all layers backwards from ``target``, one-hot, of the last output's shape."""
        self._require_training("backward")
        gradient = self._owned(target, "target")
        for index in reversed(range(len(self.layers))):
            layer = self.layers[index]
            try:
                grad_input = layer.backward(gradient)
            except Exception as error:
                _name_layer(error, layer, "backward", gradient)
                raise
            if grad_input is None:
                # What stands before a gradient stop has no gradient of this step.
                for before in self.layers[:index]:
                    before.drop_gradients()
                return
            gradient = grad_input

    def update(self, learning_rate: float) -> None:
        """Gradient descent on every layer that is not frozen."""
        self._require_training("update")
        for layer in self.layers:
            layer.update_weights_biases(-learning_rate)

    def update_from_device(self, eps: memory.Buffer) -> None:
        """Gradient descent with minus the learning rate in a buffer of one float32.

        A captured update then takes the rate that lies there at each replay.
        """
        self._require_training("update")
        handle = self._require_context().cublas
        handle.pointer_mode = cublas.PointerMode.DEVICE
        try:
            for layer in self.layers:
                layer.update_weights_biases(eps)
        finally:
            handle.pointer_mode = cublas.PointerMode.HOST

    def _owned(self, blob: Blob, name: str) -> Blob:
        self._require_context()
        if blob.context is not self.context:
            raise ValueError(f"{name} belongs to another context than the network: give both one")
        return blob

    def _require_context(self) -> CudaContext:
        if self.context is None:
            raise RuntimeError("the network has no context: call cuda() first")
        return self.context

    def _require_training(self, method: str) -> None:
        if not self.training:
            raise RuntimeError(f"{method}() in the inference phase: call train() first")

    @property
    def output_layer(self) -> Softmax:
        """The last layer, which must be a Softmax for loss and accuracy."""
        last = self.layers[-1] if self.layers else None
        if not isinstance(last, Softmax):
            raise RuntimeError(f"loss and accuracy need a Softmax as the last layer, not {last!r}")
        return last

    def measure(self, target: Blob) -> None:
        """Queue loss and accuracy of the last forward; nothing waits for the device."""
        self.output_layer.measure(self._owned(target, "target"))

    def queue_measurement(self, target: Blob) -> None:
        """``measure`` without the mark that ``measured`` waits for: for a capture."""
        self.output_layer.queue_measurement(self._owned(target, "target"))

    def mark_measured(self) -> None:
        """``measured`` waits for what is queued up to here: after a captured measurement."""
        self.output_layer.mark_measured()

    def measured(self) -> tuple[float, int]:
        """Wait for the last ``measure``: the mean loss and the number of right samples."""
        return self.output_layer.measured()

    def loss(self, target: Blob) -> float:
        """Return the mean loss of the last forward."""
        return self.output_layer.get_loss(self._owned(target, "target"))

    def get_accuracy(self, target: Blob) -> int:
        """Return the number of samples that the last forward got right."""
        return self.output_layer.get_accuracy(self._owned(target, "target"))

    def _require_distinct_names(self) -> None:
        names = [layer.name for layer in self.layers if layer.weights is not None]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{names.count(name)} layers with parameters are called {name!r}")

    def load_pretrain(self, path: str | os.PathLike[str] = ".") -> None:
        """Take the parameters from a ``.safetensors`` file or the book's raw files in a directory.

        Layers that saw no input yet take them when they first do.
        """
        path = Path(path)
        if path.is_dir():
            source: ParameterSource = path
        elif path.exists():
            source = _safetensors().load_file(path)
        else:
            raise FileNotFoundError(f"no pretrained parameters at {str(path)!r}")
        self._pretrained = source
        for layer in self.layers:
            layer.set_load_pretrain(source)
            if layer.weights is not None:
                layer.load_parameter(source)

    def write_file(self, path: str | os.PathLike[str] = ".") -> None:
        """Save all parameters, to one ``.safetensors`` file or as raw files in a directory.

        The file is replaced at once: an interrupted write leaves the old one.
        """
        path = Path(path)
        self._require_distinct_names()
        if path.suffix != ".safetensors":
            path.mkdir(parents=True, exist_ok=True)
            for layer in self.layers:
                layer.save_parameter(path)
            return
        arrays = {name: array for layer in self.layers for name, array in layer.arrays().items()}
        unfinished = path.with_name(path.name + ".part")
        _safetensors().save_file(arrays, unfinished)
        os.replace(unfinished, path)


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            ".safetensors files need the package safetensors (pip install safetensors); a "
            "directory of raw files needs nothing"
        ) from error
    return safetensors.numpy


def _name_layer(error: Exception, layer: Layer, method: str, given: Blob) -> None:
    """Say in the exception which layer it comes from."""
    note = f"in {method} of layer {layer.name!r} ({type(layer).__name__}), given {given!r}"
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif isinstance(error, StatusError):  # Python 3.10 shows no notes
        error.arguments = (*error.arguments, note)
    else:
        error.args = ("\n".join([*map(str, error.args), note]),)
