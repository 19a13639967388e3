"""Random networks of int8 and int16 layers are bit-exact to LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.hardware import HARDWARE, MEMORY_MODES
from partition import compare_region
from single import SAME, VALID, random

NETWORKS = 50
TARGETS = [
    f"ethos_u -accelerator={accelerator} -memory={memory}, c"
    for accelerator in HARDWARE
    for memory in MEMORY_MODES
]


@dataclass
class Values:
    """The number, the shape and the scale of a tensor."""

    tensor: int
    shape: tuple[int, ...]
    scale: float


class RandomNetwork:
    """Adds random layers to a network with one type."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = "int16" if seed % 3 == 2 else "int8"
        self.writer = NetworkWriter()
        shape = (1, *(int(n) for n in self.rng.integers(3, 15, 2)), int(self.rng.integers(1, 33)))
        self.source = self.values = self.add_values(shape)

    def add_values(self, shape: tuple[int, ...], scale: float | None = None) -> Values:
        """Add a tensor with random quantization parameters. The zero point of int16 is 0."""
        wide = self.dtype == "int16"
        scale = scale or float(self.rng.uniform(0.02, 0.2)) / (256 if wide else 1)
        zero = 0 if wide else int(self.rng.integers(-60, 60))
        return Values(self.writer.tensor(shape, self.dtype, [scale], zero), shape, scale)

    def add_layer(self) -> None:
        """Add a random layer, which reads the last result."""
        layers = [
            *(self.convolve, self.convolve_depthwise, self.pool, self.add_sum, self.gate),
            *(self.rectify, self.rescale, self.pad, self.enlarge, self.join),
        ]
        if self.dtype == "int8":
            layers.append(self.compute_dense)
        layers[self.rng.integers(len(layers))]()

    def make_window(self, kernel: tuple[int, int]) -> tuple[dict[str, Any], tuple[int, int]]:
        """Return the options of a window, and the height and width of the result."""
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
        outputs, kernel = int(self.rng.integers(1, 40)), (3, 3) if self.rng.integers(2) else (1, 1)
        shape = (outputs, *kernel, self.values.shape[3])
        self.add_convolution("CONV_2D", "Conv2DOptions", shape, 0, outputs)

    def convolve_depthwise(self) -> None:
        depth = self.values.shape[3]
        shape = (1, 3, 3, depth)
        self.add_convolution("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", shape, 3, depth)

    def add_convolution(
        self, kind: str, table: str, shape: tuple[int, ...], axis: int, outputs: int
    ) -> None:
        """Add an operator with weights of the given shape, and with a scale per output channel."""
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
        """Add a pooling, whose input and result have equal quantization parameters."""
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

    def add_operator(
        self, kind: str, target: Values, *constants: Any, table: str = "", **options: Any
    ) -> None:
        """Add an operator that reads the last result and constants."""
        operands = [self.values.tensor, *(self.writer.constant(*each) for each in constants)]
        self.writer.operator(kind, operands, [target.tensor], table, **options)
        self.values = target

    def keep_scale(self, shape: tuple[int, ...]) -> Values:
        """Add a tensor with the quantization parameters of the last result."""
        zero = int(self.writer.graph.tensors[self.values.tensor].quantization.zeroPoint[0])
        tensor = self.writer.tensor(shape, self.dtype, [self.values.scale], zero)
        return Values(tensor, shape, self.values.scale)

    def gate(self) -> None:
        """Multiply the last result by its sigmoid.

        For int16, multiply by the last result instead.
        """
        source = factor = self.values
        if self.dtype == "int8":
            tensor = self.writer.tensor(source.shape, "int8", [1 / 256], -128)
            factor = Values(tensor, source.shape, 1 / 256)
            self.writer.operator("LOGISTIC", [source.tensor], [factor.tensor])
        self.values = self.add_values(source.shape)
        operands = [source.tensor, factor.tensor]
        self.writer.operator("MUL", operands, [self.values.tensor], "MulOptions")

    def rectify(self) -> None:
        """Add a ReLU or a leaky ReLU."""
        target = self.add_values(self.values.shape)
        if self.rng.integers(2):
            self.add_operator("RELU", target)
        else:
            self.add_operator("LEAKY_RELU", target, table="LeakyReluOptions", alpha=0.1)

    def rescale(self) -> None:
        """Change the quantization parameters."""
        self.add_operator("QUANTIZE", self.add_values(self.values.shape))

    def pad(self) -> None:
        top, bottom, left, right = (int(n) for n in self.rng.integers(0, 3, 4))
        widths = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        _, height, width, depth = self.values.shape
        shape = (1, height + top + bottom, width + left + right, depth)
        self.add_operator("PAD", self.keep_scale(shape), (widths,), table="PadOptions")

    def enlarge(self) -> None:
        """Double height and width."""
        _, height, width, depth = self.values.shape
        size = np.array([2 * height, 2 * width], np.int32)
        target = self.keep_scale((1, 2 * height, 2 * width, depth))
        table = "ResizeNearestNeighborOptions"
        self.add_operator("RESIZE_NEAREST_NEIGHBOR", target, (size,), table=table)

    def join(self) -> None:
        """Concatenate the last result and the maximum of two equal operands."""
        source = self.values
        self.values = self.keep_scale(source.shape)
        operands = [source.tensor, source.tensor]
        self.writer.operator("MAXIMUM", operands, [self.values.tensor], "MaximumMinimumOptions")
        target = self.keep_scale((*source.shape[:3], 2 * source.shape[3]))
        operands = [source.tensor, self.values.tensor]
        options = {"axis": 3}
        self.writer.operator(
            "CONCATENATION", operands, [target.tensor], "ConcatenationOptions", **options
        )
        self.values = target

    def compute_dense(self) -> None:
        """Add a dense layer of the channels."""
        outputs = int(self.rng.integers(1, 40))
        kernel = self.rng.integers(-127, 128, (outputs, self.values.shape[3])).astype("int8")
        scale = float(self.rng.uniform(0.001, 0.01))
        bias = self.rng.integers(-2000, 2000, outputs).astype("int32")
        constants = [
            self.writer.constant(kernel, [scale]),
            self.writer.constant(bias, [self.values.scale * scale]),
        ]
        operands = [self.values.tensor, *constants]
        self.values = self.add_values((*self.values.shape[:3], outputs))
        table = "FullyConnectedOptions"
        self.writer.operator(
            "FULLY_CONNECTED", operands, [self.values.tensor], table, keepNumDims=True
        )


def write_random(seed: int) -> tuple[bytes, list[Any]]:
    """Return a network of 2 to 6 layers, and a random input."""
    network = RandomNetwork(seed)
    network.convolve()
    for _ in range(int(network.rng.integers(1, 6))):
        network.add_layer()
    values = random(network.rng, network.source.shape, network.dtype)
    return network.writer.build([network.source.tensor], [network.values.tensor]), [values]


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_random_network(seed: int) -> None:
    compare_region(*write_random(seed), TARGETS[seed % len(TARGETS)])
