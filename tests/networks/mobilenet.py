"""MobileNetV2 in float32 with random weights and folded batch normalizations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 224
"""Pixels in a row and in a column of an image."""

STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Factor of the inner channels, channels, blocks, stride (table 2 of arXiv:1801.04381)."""

FEATURES = 1280


class MobileNetV2:
    """Collects the nodes and weights of the graph."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights = [
            numpy_helper.from_array(np.array(limit, "float32"), name)
            for name, limit in (("zero", 0.0), ("six", 6.0))
        ]

    def add_constant(self, name: str, shape: tuple[int, ...], spread: float) -> str:
        values = self.generator.standard_normal(shape) * spread
        self.weights.append(numpy_helper.from_array(values.astype("float32"), name))
        return name

    def add_node(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def convolve(
        self, data: str, shape: tuple[int, int, int], stride: int = 1, depthwise: bool = False,
        clipped: bool = True,
    ) -> str:  # fmt: skip
        """Add a convolution of (channels, output channels, kernel); return its result."""
        channels, out_channels, kernel = shape
        inner = 1 if depthwise else channels
        number = len(self.nodes)
        spread = math.sqrt(2 / (inner * kernel**2))
        weights = self.add_constant(f"w{number}", (out_channels, inner, kernel, kernel), spread)
        bias = self.add_constant(f"b{number}", (out_channels,), 0.1)
        result = self.add_node(
            "Conv", [data, weights, bias], kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[kernel // 2] * 4, group=channels if depthwise else 1,
        )  # fmt: skip
        return self.add_node("Clip", [result, "zero", "six"]) if clipped else result

    def add_block(self, data: str, channels: int, out: int, factor: int, stride: int) -> str:
        """Add an inverted residual block; return its result."""
        inner = channels * factor
        moved = self.convolve(data, (channels, inner, 1)) if factor > 1 else data
        moved = self.convolve(moved, (inner, inner, 3), stride, depthwise=True)
        moved = self.convolve(moved, (inner, out, 1), clipped=False)
        return self.add_node("Add", [data, moved]) if stride == 1 and channels == out else moved


def make_mobilenet_v2(classes: int, seed: int = 0) -> bytes:
    """Return the model: "input" is float32 (1, 3, 224, 224), "output" (1, classes)."""
    network = MobileNetV2(seed)
    data, channels = network.convolve("input", (3, 32, 3), 2), 32
    for factor, out, blocks, stride in STAGES:
        for block in range(blocks):
            data = network.add_block(data, channels, out, factor, stride if block == 0 else 1)
            channels = out
    data = network.convolve(data, (channels, FEATURES, 1))
    data = network.add_node("GlobalAveragePool", [data])
    data = network.add_node("Flatten", [data])
    weights = network.add_constant("wf", (classes, FEATURES), 0.03)
    bias = network.add_constant("bf", (classes,), 0.1)
    network.nodes.append(helper.make_node("Gemm", [data, weights, bias], ["output"], transB=1))
    ports = (("input", [1, 3, SIZE, SIZE]), ("output", [1, classes]))
    read, written = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in ports
    )
    graph = helper.make_graph(network.nodes, "mobilenet_v2", read, written, network.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    serialized: bytes = model.SerializeToString()
    return serialized
