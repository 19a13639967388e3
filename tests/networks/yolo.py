"""A quantized detector with the shapes of YOLOv8n and random weights, as QDQ ONNX.

Source of the shapes: ultralytics/cfg/models/v8/yolov8.yaml, scale n. The six tensors of its head
are the outputs; boxes are not decoded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 192
"""Pixels in a row and in a column of an image: 393 million multiply-accumulates."""

CLASSES, BOX = 80, 64
"""Channels of scores, and of the distances of a box's four sides."""

STEP = 2.0**-4
"""One step of every tensor: activations are about 1."""


class Yolo:
    """Collects the nodes and weights of the graph; a tensor is its name and its channels."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.step = self.add_constant(np.float32(STEP))
        self.zero = self.add_constant(np.int8(0))

    def add_constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add_node(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def quantize(self, real: str) -> str:
        stored = self.add_node("QuantizeLinear", [real, self.step, self.zero])
        return self.add_node("DequantizeLinear", [stored, self.step, self.zero])

    def convolve(self, data: str, channels: int, out: int, kernel: int, stride: int = 1) -> str:
        """Add a convolution."""
        shape = (out, channels, kernel, kernel)
        weights = np.clip(np.rint(self.generator.normal(0, 32, shape)), -127, 127)
        scale = np.float32(1.5 / (32 * math.sqrt(math.prod(shape[1:]))))
        kernel_of = [self.add_constant(x) for x in (weights.astype("int8"), scale, np.int8(0))]
        bias = self.generator.integers(-(2**9), 2**9, out, "int32")
        bias_of = [self.add_constant(x) for x in (bias, np.float32(scale * STEP), np.int32(0))]
        reals = [self.add_node("DequantizeLinear", x) for x in (kernel_of, bias_of)]
        return self.quantize(
            self.add_node("Conv", [data, *reals], strides=[stride] * 2, pads=[kernel // 2] * 4)
        )

    def activate(self, data: str) -> str:
        """Add SiLU."""
        return self.quantize(self.add_node("Mul", [data, self.add_node("Sigmoid", [data])]))

    def block(self, data: str, channels: int, out: int, kernel: int = 3, stride: int = 1) -> str:
        """Add a convolution and its activation."""
        return self.activate(self.convolve(data, channels, out, kernel, stride))

    def join(self, *parts: str) -> str:
        return self.quantize(self.add_node("Concat", [*parts], axis=1))

    def split(self, data: str, channels: int, out: int, number: int, residual: bool) -> str:
        """Add a C2f: one of two halves passes ``number`` bottlenecks."""
        half = out // 2
        whole = self.block(data, channels, out, 1)
        sizes = self.add_constant(np.array([half, half], "int64"))
        names = [f"part_{len(self.nodes)}_{i}" for i in range(2)]
        self.nodes.append(helper.make_node("Split", [whole, sizes], names, axis=1))
        parts = [self.quantize(name) for name in names]
        for _ in range(number):
            last = self.block(self.block(parts[-1], half, half), half, half)
            parts.append(
                self.quantize(self.add_node("Add", [parts[-1], last])) if residual else last
            )
        return self.block(self.join(*parts), half * (2 + number), out, 1)

    def pool(self, data: str, channels: int) -> str:
        """Add an SPPF: three pools of 5 x 5, one after the other."""
        parts = [self.block(data, channels, channels // 2, 1)]
        for _ in range(3):
            largest = self.add_node("MaxPool", [parts[-1]], kernel_shape=[5, 5], pads=[2] * 4)
            parts.append(self.quantize(largest))
        return self.block(self.join(*parts), 2 * channels, channels, 1)

    def enlarge(self, data: str) -> str:
        scales = self.add_constant(np.array([1, 1, 2, 2], "float32"))
        return self.quantize(
            self.add_node("Resize", [data, "", scales], mode="nearest",
                          coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        )  # fmt: skip

    def find(self, data: str, channels: int) -> list[str]:
        """Add the head of one scale: sides of boxes, and scores."""
        results = []
        for inner, out in ((BOX, BOX), (CLASSES, CLASSES)):
            moved = self.block(self.block(data, channels, inner), inner, inner)
            results.append(self.convolve(moved, inner, out, 1))
        return results


def add_layers(network: Yolo, data: str) -> list[str]:
    """Add all layers after the image; return the six tensors of the head."""
    data = network.block(network.block(data, 3, 16, stride=2), 16, 32, stride=2)
    data = network.block(network.split(data, 32, 32, 1, True), 32, 64, stride=2)
    eighth = network.split(data, 64, 64, 2, True)
    sixteenth = network.split(network.block(eighth, 64, 128, stride=2), 128, 128, 2, True)
    data = network.split(network.block(sixteenth, 128, 256, stride=2), 256, 256, 1, True)
    last = network.pool(data, 256)
    middle = network.split(network.join(network.enlarge(last), sixteenth), 384, 128, 1, False)
    small = network.split(network.join(network.enlarge(middle), eighth), 192, 64, 1, False)
    data = network.join(network.block(small, 64, 64, stride=2), middle)
    medium = network.split(data, 192, 128, 1, False)
    data = network.join(network.block(medium, 128, 128, stride=2), last)
    large = network.split(data, 384, 256, 1, False)
    scales = ((small, 64), (medium, 128), (large, 256))
    return [real for data, channels in scales for real in network.find(data, channels)]


def make_yolo(seed: int = 0) -> bytes:
    """Return the model: its input is int8 (1, 3, 192, 192), its outputs are int8."""
    network = Yolo(seed)
    picture = network.add_node("DequantizeLinear", ["picture", network.step, network.zero])
    heads = add_layers(network, picture)
    # The last dequantize of a head is omitted, so the network returns integers.
    stored = {n.output[0]: n.input[0] for n in network.nodes if n.op_type == "DequantizeLinear"}
    kept = [node for node in network.nodes if node.output[0] not in heads]
    read = helper.make_tensor_value_info("picture", TensorProto.INT8, (1, 3, SIZE, SIZE))
    written = [helper.make_tensor_value_info(stored[h], TensorProto.INT8, None) for h in heads]
    graph = helper.make_graph(kept, "yolo", [read], written, network.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(onnx.shape_inference.infer_shapes(model, strict_mode=True).SerializeToString())
