"""Random networks of int8 and int16 layers equal LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from firmwright_ethos_u.flatbuffer import NetworkWriter
from single import SAME, VALID, compare, random

NETWORKS = 50
ACCELERATORS = ("ethos-u55-32", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")


@dataclass
class Values:
    """A tensor of a network: its number, shape and scale."""

    tensor: int
    shape: tuple[int, ...]
    scale: float


class RandomNetwork:
    """Adds random layers to a network of one type."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = "int16" if seed % 3 == 2 else "int8"
        self.writer = NetworkWriter()
        shape = (1, *(int(n) for n in self.rng.integers(3, 15, 2)), int(self.rng.integers(1, 33)))
        self.source = self.values = self.add_values(shape)

    def add_values(self, shape: tuple[int, ...], scale: float | None = None) -> Values:
        """Add a tensor with a random grid; int16 has no zero point."""
        wide = self.dtype == "int16"
        scale = scale or float(self.rng.uniform(0.02, 0.2)) / (256 if wide else 1)
        zero = 0 if wide else int(self.rng.integers(-60, 60))
        return Values(self.writer.tensor(shape, self.dtype, [scale], zero), shape, scale)

    def add_layer(self) -> None:
        """Add one of the layers, which reads the last one."""
        layers = [self.convolve, self.convolve_depthwise, self.pool, self.add_sum]
        layers[self.rng.integers(len(layers))]()

    def make_window(self, kernel: tuple[int, int]) -> tuple[dict[str, Any], tuple[int, int]]:
        """Return the options of a window, and the height and width of its result."""
        stride, lengths = int(self.rng.integers(1, 3)), self.values.shape[1:3]
        fits = all(k <= n for k, n in zip(kernel, lengths, strict=True))
        padding = VALID if fits and self.rng.integers(2) else SAME
        if padding == SAME:
            height, width = (-(-n // stride) for n in lengths)
        else:
            height, width = ((n - k) // stride + 1 for n, k in zip(lengths, kernel, strict=True))
        options = {"padding": padding, "strideH": stride, "strideW": stride}
        return options, (height, width)

    def add_bias(self, scales: list[float]) -> int:
        """Add a random bias with the scales of the sums."""
        sums = self.rng.integers(-2000, 2000, len(scales))
        bias = sums.astype("int64" if self.dtype == "int16" else "int32")
        return self.writer.constant(bias, [self.values.scale * scale for scale in scales])

    def convolve(self) -> None:
        """Add a convolution."""
        outputs, kernel = int(self.rng.integers(1, 40)), (3, 3) if self.rng.integers(2) else (1, 1)
        shape = (outputs, *kernel, self.values.shape[3])
        self.add_convolution("CONV_2D", "Conv2DOptions", shape, 0, outputs)

    def convolve_depthwise(self) -> None:
        """Add a depthwise convolution."""
        depth = self.values.shape[3]
        shape = (1, 3, 3, depth)
        self.add_convolution("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", shape, 3, depth)

    def add_convolution(
        self, kind: str, table: str, shape: tuple[int, ...], axis: int, outputs: int
    ) -> None:
        """Add an operator with weights of this shape, and a scale per output channel."""
        options, size = self.make_window((shape[1], shape[2]))
        scales = self.rng.uniform(0.001, 0.01, outputs).tolist()
        kernel = self.rng.integers(-127, 128, shape).astype("int8")
        weights = self.writer.constant(kernel, scales, axis)
        operands = [self.values.tensor, weights, self.add_bias(scales)]
        if axis:
            options["depthMultiplier"] = 1
        self.values = self.add_values((1, *size, outputs))
        options |= {"dilationHFactor": 1, "dilationWFactor": 1}
        self.writer.operator(kind, operands, [self.values.tensor], table, **options)

    def pool(self) -> None:
        """Add a pooling; its result has the grid of its input."""
        options, size = self.make_window((2, 2))
        kind = "MAX_POOL_2D" if self.rng.integers(2) else "AVERAGE_POOL_2D"
        options |= {"filterHeight": 2, "filterWidth": 2}
        source = self.values
        tensor = self.writer.graph.tensors[source.tensor]
        zero = int(tensor.quantization.zeroPoint[0])
        shape = (1, *size, source.shape[3])
        target = self.writer.tensor(shape, self.dtype, [source.scale], zero)
        self.writer.operator(kind, [source.tensor], [target], "Pool2DOptions", **options)
        self.values = Values(target, shape, source.scale)

    def add_sum(self) -> None:
        """Add the sum of the last result and itself."""
        source = self.values
        self.values = self.add_values(source.shape, 2.1 * source.scale)
        operands = [source.tensor, source.tensor]
        self.writer.operator("ADD", operands, [self.values.tensor], "AddOptions")


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_random_network(seed: int) -> None:
    network = RandomNetwork(seed)
    for _ in range(int(network.rng.integers(2, 6))):
        network.add_layer()
    model = network.writer.build([network.source.tensor], [network.values.tensor])
    values = random(network.rng, network.source.shape, network.dtype)
    compare(model, [values], ACCELERATORS[seed % len(ACCELERATORS)])
