"""Kernels of our own: CUDA C++ beside this file, compiled at first use; NumPy on the host.

Each function queues one kernel on a stream and does not wait. Results are the same in every run.
"""

from pycudnn.kernels.channel_sum import channel_sum
from pycudnn.kernels.loss import count_correct, softmax_cross_entropy_loss

__all__ = ["channel_sum", "count_correct", "softmax_cross_entropy_loss"]
