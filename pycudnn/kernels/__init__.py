"""CUDA C++ kernels, compiled at first use, each beside the NumPy form that the reference side runs.

Every function queues its work on a stream and returns nothing; results stay on the device.
"""

from pycudnn.kernels.loss import count_correct, softmax_cross_entropy_loss
from pycudnn.kernels.reduction import channel_sum

__all__ = ["channel_sum", "count_correct", "softmax_cross_entropy_loss"]
