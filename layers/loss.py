"""CrossEntropyLoss: loss and accuracy of a softmax classifier (book: loss.h, loss.cu)."""

from __future__ import annotations

from layers.blob import Blob
from layers.context import CudaContext
from pycudnn import kernels, memory


class CrossEntropyLoss:
    """Mean cross-entropy loss and number of right samples, computed on the device.

    ``queue`` starts both and waits for nothing; ``result`` waits for the last one queued.
    """

    def __init__(self, context: CudaContext) -> None:
        self.context = context
        device, stream = context.device, context.stream
        self._loss = memory.empty((1,), "float32", device=device, stream=stream)
        self._count = memory.empty((1,), "int32", device=device, stream=stream)

    def queue(self, logits: Blob, target: Blob) -> None:
        """Compute the loss from the logits (log-sum-exp) and the accuracy, both (n, c, 1, 1)."""
        if logits.shape != target.shape:
            raise ValueError(f"target has shape {target.shape}, the logits have {logits.shape}")
        if logits.n == 0:
            raise ValueError("a batch of 0 has no mean loss")
        stream = self.context.stream
        kernels.softmax_cross_entropy_loss(stream, logits.cuda, target.cuda, self._loss)
        kernels.count_correct(stream, logits.cuda, target.cuda, self._count)

    def result(self) -> tuple[float, int]:
        """Wait for the last ``queue``: the mean loss and the number of right samples."""
        stream = self.context.stream
        return float(self._loss.numpy(stream)[0]), int(self._count.numpy(stream)[0])

    def loss(self, logits: Blob, target: Blob) -> float:
        """Return the mean loss over the batch: -sum(target * log softmax(logits)) / n."""
        self.queue(logits, target)
        return self.result()[0]

    def accuracy(self, logits: Blob, target: Blob) -> int:
        """Return the number of samples whose largest logit is the target's class."""
        self.queue(logits, target)
        return self.result()[1]
