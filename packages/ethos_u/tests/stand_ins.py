"""Writes networks with random weights and the layers of person_detect and YOLOv8n.

The original files are not part of the tests' mirror. `python stand_ins.py` prints the numbers of
the README for MobileNetV1 0.25 (96x96) and YOLOv8n (192x192).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from firmwright_ethos_u.flatbuffer import NetworkWriter
from single import SAME, VALID, Array, compare, random

RELU6 = 3
NONE = 0


class Network:
    """Adds int8 layers, and returns their tensors."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(1)
        self.writer = NetworkWriter()
        self.macs = 0
        self.input = self.add_tensor(shape, 1 / 255, -128)

    def add_tensor(
        self, shape: Sequence[int], scale: float | None = None, zero: int | None = None
    ) -> int:
        """Add a tensor. The default quantization parameters are random."""
        scale = scale or float(self.rng.uniform(0.03, 0.06))
        zero = int(self.rng.integers(-60, 60)) if zero is None else zero
        return self.writer.tensor(shape, "int8", [scale], zero)

    def read_tensor(self, index: int) -> tuple[tuple[int, ...], float, int]:
        tensor = self.writer.graph.tensors[index]
        parameters = tensor.quantization
        return tuple(tensor.shape), float(parameters.scale[0]), int(parameters.zeroPoint[0])

    def add_like(self, index: int, shape: Sequence[int] | None = None) -> int:
        """Add a tensor with the quantization parameters of another tensor."""
        own, scale, zero = self.read_tensor(index)
        return self.add_tensor(shape or own, scale, zero)

    def operate(
        self, kind: str, inputs: Sequence[int], target: int, table: str = "", **o: Any
    ) -> int:
        self.writer.operator(kind, inputs, [target], table, **o)
        return target

    def convolve(
        self, source: int, outputs: int, size: int, stride: int = 1, activation: int = NONE
    ) -> int:
        """Add a convolution. It is depthwise if the number of outputs is 0."""
        (_, height, width, depth), scale, _ = self.read_tensor(source)
        depthwise, outputs = not outputs, outputs or depth
        inputs = 1 if depthwise else depth
        lengths = (-(-height // stride), -(-width // stride))
        target = self.add_tensor((1, *lengths, outputs))
        if activation == RELU6:
            target = self.add_tensor((1, *lengths, outputs), 6 / 255, -128)
        # The sums of random integers have the range of the result.
        fitting = self.read_tensor(target)[1] / (40 * scale * size * inputs**0.5)
        scales = (self.rng.uniform(0.5, 1.5, outputs) * fitting).tolist()
        axes = (1, size, size, outputs) if depthwise else (outputs, size, size, inputs)
        kernel = self.rng.integers(-127, 128, axes).astype("int8")
        weights = self.writer.constant(kernel, scales, 3 if depthwise else 0)
        sums = self.rng.integers(-2000, 2000, outputs).astype("int32")
        bias = self.writer.constant(sums, [scale * each for each in scales])
        options = {"padding": SAME, "strideH": stride, "strideW": stride}
        options |= {"dilationHFactor": 1, "dilationWFactor": 1}
        options["fusedActivationFunction"] = activation
        name, table = ("CONV_2D", "Conv2DOptions")
        if depthwise:
            name, table = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions")
            options["depthMultiplier"] = 1
        self.macs += lengths[0] * lengths[1] * kernel.size
        return self.operate(name, [source, weights, bias], target, table, **options)

    def activate(self, source: int) -> int:
        """Add a SiLU, which is the product of a value and its sigmoid."""
        shape, scale, _ = self.read_tensor(source)
        factor = self.operate("LOGISTIC", [source], self.add_tensor(shape, 1 / 256, -128))
        return self.operate(
            "MUL", [source, factor], self.add_tensor(shape, 0.5 * scale), "MulOptions"
        )

    def block(self, source: int, outputs: int, size: int = 3, stride: int = 1) -> int:
        return self.activate(self.convolve(source, outputs, size, stride))

    def join(self, sources: Sequence[int], axis: int = 3) -> int:
        """Add a concatenation.

        A QUANTIZE converts the operands to the parameters of the first operand.
        """
        first = self.read_tensor(sources[0])
        joined = [
            tensor
            if self.read_tensor(tensor)[1:] == first[1:]
            else self.operate(
                "QUANTIZE", [tensor], self.add_like(sources[0], self.read_tensor(tensor)[0])
            )
            for tensor in sources
        ]
        shape = [*first[0]]
        shape[axis] = sum(self.read_tensor(tensor)[0][axis] for tensor in sources)
        target = self.add_like(sources[0], shape)
        return self.operate("CONCATENATION", joined, target, "ConcatenationOptions", axis=axis)

    def split_channels(self, source: int) -> list[int]:
        """Add a split into two halves of the channels."""
        shape = self.read_tensor(source)[0]
        axis = self.writer.constant(np.array(3, np.int32))
        halves = [self.add_like(source, (*shape[:3], shape[3] // 2)) for _ in range(2)]
        self.writer.operator("SPLIT", [axis, source], halves, "SplitOptions", numSplits=2)
        return halves

    def enlarge(self, source: int) -> int:
        """Double height and width."""
        _, height, width, depth = self.read_tensor(source)[0]
        size = self.writer.constant(np.array([2 * height, 2 * width], np.int32))
        target = self.add_like(source, (1, 2 * height, 2 * width, depth))
        table = "ResizeNearestNeighborOptions"
        return self.operate("RESIZE_NEAREST_NEIGHBOR", [source, size], target, table)

    def reshape(self, source: int, shape: list[int]) -> int:
        operands = [source, self.writer.constant(np.array(shape, np.int32))]
        target = self.add_like(source, shape)
        return self.operate("RESHAPE", operands, target, "ReshapeOptions", newShape=shape)

    def normalize(self, source: int) -> int:
        """Add a softmax."""
        target = self.add_tensor(self.read_tensor(source)[0], 1 / 256, -128)
        return self.operate("SOFTMAX", [source], target, "SoftmaxOptions", beta=1.0)

    def pool(self, kind: str, source: int, size: int, padding: int) -> int:
        """Add a pooling of stride 1. Without padding, the window covers the whole image."""
        shape = self.read_tensor(source)[0]
        target = self.add_like(source, shape if padding == SAME else (1, 1, 1, shape[3]))
        options = {"padding": padding, "strideH": 1, "strideW": 1}
        options |= {"filterHeight": size, "filterWidth": size}
        return self.operate(kind, [source], target, "Pool2DOptions", **options)

    def build(self, outputs: list[int]) -> tuple[bytes, list[Array]]:
        """Return the file and a random input."""
        values = random(self.rng, self.read_tensor(self.input)[0], "int8")
        return self.writer.build([self.input], outputs), [values]


def write_mobilenet(size: int = 96) -> tuple[Network, bytes, list[Array]]:
    """Return MobileNetV1 0.25 with one input channel and two classes."""
    network = Network((1, size, size, 1))
    values = network.convolve(network.input, 8, 3, 2, RELU6)
    widths = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)]
    for outputs, stride in [*widths, *[(128, 1)] * 5, (256, 2), (256, 1)]:
        values = network.convolve(values, 0, 3, stride, RELU6)
        values = network.convolve(values, outputs, 1, 1, RELU6)
    values = network.pool("AVERAGE_POOL_2D", values, size // 32, VALID)
    values = network.reshape(network.convolve(values, 2, 1), [1, 2])
    return network, *network.build([network.normalize(values)])


def write_detector(
    size: int = 192, widths: Sequence[int] = (16, 32, 64, 128, 256), classes: int = 80
) -> tuple[Network, bytes, list[Array]]:
    """Return the layers of YOLOv8n: backbone, neck, and the heads before the decoding of boxes."""
    network = Network((1, size, size, 3))

    def stage(values: int, outputs: int, repeats: int, residual: bool) -> int:
        parts = network.split_channels(network.block(values, outputs, 1))
        for _ in range(repeats):
            last = network.block(network.block(parts[-1], outputs // 2), outputs // 2)
            if residual:
                target = network.add_tensor(network.read_tensor(last)[0])
                last = network.operate("ADD", [parts[-1], last], target, "AddOptions")
            parts.append(last)
        return network.block(network.join(parts), outputs, 1)

    values = network.block(network.input, widths[0], 3, 2)
    scales = []
    for outputs, repeats in zip(widths[1:], (1, 2, 2, 1), strict=True):
        values = stage(network.block(values, outputs, 3, 2), outputs, repeats, True)
        scales.append(values)
    pooled = [network.block(values, widths[4] // 2, 1)]
    for _ in range(3):
        pooled.append(network.pool("MAX_POOL_2D", pooled[-1], 5, SAME))
    coarse = network.block(network.join(pooled), widths[4], 1)
    middle = stage(network.join([network.enlarge(coarse), scales[2]]), widths[3], 1, False)
    fine = stage(network.join([network.enlarge(middle), scales[1]]), widths[2], 1, False)
    middle = network.join([network.block(fine, widths[2], 3, 2), middle])
    middle = stage(middle, widths[3], 1, False)
    coarse = network.join([network.block(middle, widths[3], 3, 2), coarse])
    coarse = stage(coarse, widths[4], 1, False)
    heads = []
    for values in (fine, middle, coarse):
        parts = [
            network.convolve(network.block(network.block(values, widths[2]), widths[2]), outputs, 1)
            for outputs in (64, classes)
        ]
        joined = network.join(parts)
        _, height, width, depth = network.read_tensor(joined)[0]
        heads.append(network.reshape(joined, [1, height * width, depth]))
    return network, *network.build([network.join(heads, 1)])


def main() -> None:
    for name, (network, model, inputs) in (
        ("MobileNetV1 0.25, 96x96", write_mobilenet()),
        ("YOLOv8n, 192x192", write_detector()),
    ):
        start = time.process_time()
        compare(model, inputs)
        seconds = time.process_time() - start
        print(f"{name}: {network.macs:,} MACs, exact, {seconds:.1f} s of LiteRT and the simulator")


if __name__ == "__main__":
    main()
