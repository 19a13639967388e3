"""Integer networks for DIANA's digital accelerator, built by hand, with one recipe each."""

from __future__ import annotations

import numpy as np

from firmwright.device import Graph, random_array


def one_conv() -> Graph:
    """One convolution with bias and ReLU."""
    graph = Graph()
    x = graph.input("input", (1, 3, 32, 32))
    weights = random_array((5, 3, 3, 3), seed=1, low=-10, high=10)
    bias = random_array((5,), "int32", seed=2, low=-10, high=10)
    return graph.output(graph.conv2d(x, "conv", weights, bias, act=True, shift_bits=0))


def two_convs(strides: tuple[int, int] = (1, 1)) -> Graph:
    """Two convolutions; the caller can choose the strides of the second one."""
    graph = Graph()
    x = graph.input("input", (1, 3, 32, 32))
    weights = random_array((32, 3, 3, 3), seed=1)
    x = graph.conv2d(x, "conv1", weights, np.ones(32, "int32"), act=True, shift_bits=4)
    weights = random_array((8, 32, 3, 3), seed=2)
    x = graph.conv2d(x, "conv2", weights, np.ones(8, "int32"), strides=strides, shift_bits=4)
    return graph.output(x)


def two_convs_with_strides() -> Graph:
    """Two convolutions; the accelerator does not support the strides of the second one."""
    return two_convs(strides=(1, 2))


def two_convs_with_residual() -> Graph:
    """Two convolutions whose result is added to their input."""
    graph = Graph()
    x = graph.input("input", (1, 32, 32, 32))
    weights = random_array((16, 32, 3, 3), seed=1)
    y = graph.conv2d(x, "conv1", weights, np.ones(16, "int32"), act=True, shift_bits=4)
    weights = random_array((32, 16, 3, 3), seed=2)
    y = graph.conv2d(y, "conv2", weights, np.ones(32, "int32"), shift_bits=4)
    return graph.output(graph.add(x, y, "sum"))
