"""CrossEntropyLoss: loss and accuracy of a softmax classifier (book: loss.h, loss.cu)."""

from __future__ import annotations

from layers.blob import Blob
from layers.context import CudaContext
from pycudnn import kernels, memory
from pycudnn.device import Event


class CrossEntropyLoss:
    """Mean cross-entropy loss and number of right samples, computed on the device.

    ``queue`` starts both and waits for nothing, ``mark`` remembers that they are queued, and
    ``result`` waits for what was marked last. A captured step queues once and marks each replay.
    """

    def __init__(self, context: CudaContext) -> None:
        self.context = context
        device, stream = context.device, context.stream
        # Loss and count side by side, so that one copy brings both to the host.
        self._outcome = memory.empty(2, "float32", device=device, stream=stream)
        self._loss = self._outcome.view(1)
        self._count = self._outcome.view(1, "int32", offset=4)
        self._host = memory.pinned_empty(2, "float32", device=device)
        self._copied: Event | None = None

    def queue(self, logits: Blob, target: Blob) -> None:
        """Compute the loss from the logits (log-sum-exp) and the accuracy, both (n, c, 1, 1)."""
        if logits.shape != target.shape:
            raise ValueError(f"target has shape {target.shape}, the logits have {logits.shape}")
        if logits.n == 0:
            raise ValueError("a batch of 0 has no mean loss")
        stream = self.context.stream
        kernels.softmax_cross_entropy_loss(stream, logits.cuda, target.cuda, self._loss)
        kernels.count_correct(stream, logits.cuda, target.cuda, self._count)
        self._host.copy_from(self._outcome, stream)

    def mark(self) -> None:
        """Remember this point of the stream: ``result`` waits for it."""
        self._copied = self.context.stream.record(timing=False)

    def result(self) -> tuple[float, int]:
        """Wait for the last ``queue``: the mean loss and the number of right samples."""
        if self._copied is None:
            raise RuntimeError("nothing was queued")
        self._copied.synchronize()
        loss, count = self._host.array[:1], self._host.array[1:].view("int32")
        return float(loss[0]), int(count[0])

    def loss(self, logits: Blob, target: Blob) -> float:
        """Return the mean loss over the batch: -sum(target * log softmax(logits)) / n."""
        self.queue(logits, target)
        self.mark()
        return self.result()[0]

    def accuracy(self, logits: Blob, target: Blob) -> int:
        """Return the number of samples whose largest logit is the target's class."""
        self.queue(logits, target)
        self.mark()
        return self.result()[1]
