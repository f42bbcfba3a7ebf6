"""The networks of the book's chapter, by name."""

from __future__ import annotations

from collections.abc import Callable

from layers.activation import Activation
from layers.conv2d import Conv2D
from layers.dense import Dense
from layers.network import Network
from layers.pooling import Pooling
from layers.softmax import Softmax
from pycudnn.cudnn import ActivationMode, PoolingMode


def lenet(seed: int | None = None) -> Network:
    """LeNet as the published train.cpp builds it, with a ReLU after each convolution."""
    model = Network(seed)
    model.add_layer(Conv2D("conv1", 20, 5))
    model.add_layer(Activation("relu1", ActivationMode.RELU))
    model.add_layer(Pooling("pool1", 2, 0, 2, PoolingMode.MAX))
    model.add_layer(Conv2D("conv2", 50, 5))
    model.add_layer(Activation("relu2", ActivationMode.RELU))
    model.add_layer(Pooling("pool2", 2, 0, 2, PoolingMode.MAX))
    model.add_layer(Dense("dense1", 500))
    model.add_layer(Activation("relu3", ActivationMode.RELU))
    model.add_layer(Dense("dense2", 10))
    model.add_layer(Softmax("softmax"))
    return model


def lenet_printed(seed: int | None = None) -> Network:
    """LeNet as the listing in the text has it: no activation after the convolutions."""
    model = Network(seed)
    model.add_layer(Conv2D("conv1", 20, 5))
    model.add_layer(Pooling("pool1", 2, 0, 2, PoolingMode.MAX))
    model.add_layer(Conv2D("conv2", 50, 5))
    model.add_layer(Pooling("pool2", 2, 0, 2, PoolingMode.MAX))
    model.add_layer(Dense("dense1", 500))
    model.add_layer(Activation("relu", ActivationMode.RELU))
    model.add_layer(Dense("dense2", 10))
    model.add_layer(Softmax("softmax"))
    return model


def ann(seed: int | None = None) -> Network:
    """The fully connected network of the chapter's first part, 784-500-10."""
    model = Network(seed)
    model.add_layer(Dense("dense1", 500))
    model.add_layer(Activation("relu", ActivationMode.RELU))
    model.add_layer(Dense("dense2", 10))
    model.add_layer(Softmax("softmax"))
    return model


MODELS: dict[str, Callable[[int | None], Network]] = {
    "lenet": lenet,
    "lenet-printed": lenet_printed,
    "ann": ann,
}
