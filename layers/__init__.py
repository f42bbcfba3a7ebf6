"""A Caffe-style layer set on cuDNN and cuBLAS: "Learn CUDA Programming", chapter 10, in Python."""

from layers.activation import Activation
from layers.blob import Blob
from layers.captured_step import CapturedStep
from layers.context import CudaContext, default_context
from layers.conv2d import Conv2D
from layers.dense import Dense
from layers.layer import Layer
from layers.loss import CrossEntropyLoss
from layers.mnist import MNIST
from layers.network import Network
from layers.pooling import Pooling
from layers.softmax import Softmax

__all__ = [
    "MNIST",
    "Activation",
    "Blob",
    "CapturedStep",
    "Conv2D",
    "CrossEntropyLoss",
    "CudaContext",
    "Dense",
    "Layer",
    "Network",
    "Pooling",
    "Softmax",
    "default_context",
]
