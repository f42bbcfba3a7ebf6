"""A training step as CUDA graphs: two launches in place of some fifty calls."""

from __future__ import annotations

from layers.blob import Blob
from layers.network import Network
from pycudnn import cudnn, memory
from pycudnn.device import Graph
from pycudnn.errors import NotSupported


class CapturedStep:
    """Forward, measure, backward and update of a network, replayed where a GPU can.

    The first step on memory of a new shape or place runs as it is, since it makes buffers and
    chooses algorithms; the second is captured, later ones are replayed. There are two graphs, so
    that loss and accuracy can be read while the backward pass still runs. The learning rate lies
    on the device, where the captured update finds each step's. On the reference side, which has
    no graphs, every step runs as it is.
    """

    def __init__(self, model: Network) -> None:
        context = model.context
        if context is None:
            raise RuntimeError("the network has no context: call cuda() first")
        self.model = model
        self.stream = context.stream
        self._handle = context.cudnn
        self._scalar = cudnn.TensorDescriptor((1, 1, 1, 1), library=context.cudnn.library)
        # Minus the learning rate, as the update's cublasSaxpy takes it.
        self._factor = memory.empty(1, "float32", device=context.device, stream=context.stream)
        self._seen: object = None
        self._forward: Graph | None = None
        self._backward: Graph | None = None
        self._can_capture = True

    def __call__(self, data: Blob, target: Blob, learning_rate: float) -> None:
        """Queue one step; ``model.measured()`` waits for its loss and accuracy."""
        model = self.model
        state = self._state(data, target)
        if state != self._seen:
            self.close()
            self._run(data, target, learning_rate)
            # Buffers were made: what counts from now on is where they are.
            self._seen = self._state(data, target)
            return
        if self._forward is None and self._can_capture:
            self._capture(data, target)
        if self._forward is None or self._backward is None:
            self._run(data, target, learning_rate)
            return
        self._forward.launch(self.stream)
        model.mark_measured()
        cudnn.set_tensor(self._handle, self._scalar, self._factor, -learning_rate)
        self._backward.launch(self.stream)

    def close(self) -> None:
        """Let go of the graphs; the next steps make new ones."""
        for graph in (self._forward, self._backward):
            if graph is not None:
                graph.close()
        self._forward = self._backward = None
        self._seen = None

    def _state(self, data: Blob, target: Blob) -> object:
        """What a graph has burnt in: places, shapes, and which layers learn."""
        layers = tuple((layer.frozen, layer.gradient_stop) for layer in self.model.layers)
        places = tuple(blob.cuda.address for blob in (data, target))
        return data.shape, target.shape, places, layers

    def _run(self, data: Blob, target: Blob, learning_rate: float) -> None:
        self.model.forward(data)
        self.model.measure(target)
        self.model.backward(target)
        self.model.update(learning_rate)

    def _capture(self, data: Blob, target: Blob) -> None:
        model, stream = self.model, self.stream
        try:
            with stream.capture() as forward:
                model.forward(data)
                model.queue_measurement(target)
            with stream.capture() as backward:
                model.backward(target)
                model.update_from_device(self._factor)
        except NotSupported:
            self._can_capture = False
            return
        self._forward, self._backward = forward, backward
