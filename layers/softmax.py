"""Softmax: class probabilities, and the start of the backward pass (book: "Softmax and loss")."""

from __future__ import annotations

from layers.blob import Blob
from layers.layer import Layer
from layers.loss import CrossEntropyLoss
from pycudnn import cublas, cudnn


class Softmax(Layer):
    """Probabilities over the channels; with ``backward`` for the cross-entropy loss.

    ``backward`` takes the target, one-hot of the output's shape, in place of a gradient.
    """

    _loss: CrossEntropyLoss | None = None

    @property
    def loss(self) -> CrossEntropyLoss:
        """Loss and accuracy of this layer."""
        if self._loss is None:
            self._loss = CrossEntropyLoss(self.cuda)
        return self._loss

    def fwd_initialize(self, input: Blob) -> None:
        """Take the input (logits); the output has its shape."""
        self.input = input
        self.output.reset(*input.shape)

    def forward(self, input: Blob) -> Blob:
        """Compute the probabilities (cudnnSoftmaxForward, accurate, over the channels)."""
        self.fwd_initialize(input)
        if input.n:
            cudnn.softmax_forward(
                self.cuda.cudnn, cudnn.SoftmaxAlgorithm.ACCURATE, cudnn.SoftmaxMode.CHANNEL,
                input.tensor(), input.cuda,
                self.output.tensor(), self.output.cuda,
            )  # fmt: skip
        return self.output

    def backward(self, target: Blob) -> Blob | None:
        """Compute dx = (output - target) / n, the gradient of the mean cross-entropy loss."""
        input = self.bwd_initialize(target)
        if self.gradient_stop:
            return None
        if input.n:
            cuda = self.cuda
            # set grad_input as predict
            self.grad_input.cuda.copy_from(self.output.cuda, cuda.stream)
            # set grad_input = predict - target
            cublas.saxpy(
                cuda.cublas, target.len, cuda.minus_one, target.cuda, 1, self.grad_input.cuda, 1
            )
            # normalise by the batch size
            cublas.sscal(cuda.cublas, target.len, 1 / input.n, self.grad_input.cuda, 1)
        return self.grad_input

    def _logits(self) -> Blob:
        if self.input is None:
            raise RuntimeError(f"layer {self.name!r}: no loss before forward")
        return self.input

    def measure(self, target: Blob) -> None:
        """Queue loss and accuracy of the last forward; ``measured`` waits for them."""
        self.queue_measurement(target)
        self.mark_measured()

    def queue_measurement(self, target: Blob) -> None:
        """``measure`` without the mark, for a capture."""
        self.loss.queue(self._logits(), target)

    def mark_measured(self) -> None:
        """``measured`` waits for what is queued up to here."""
        self.loss.mark()

    def measured(self) -> tuple[float, int]:
        """Wait for the last ``measure``: the mean loss and the number of right samples."""
        return self.loss.result()

    def get_loss(self, target: Blob) -> float:
        """Return the mean cross-entropy loss of the last forward."""
        return self.loss.loss(self._logits(), target)

    def get_accuracy(self, target: Blob) -> int:
        """Return the number of samples whose largest output is the target's class."""
        return self.loss.accuracy(self._logits(), target)
