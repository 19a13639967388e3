"""Small QDQ ONNX graphs of many operators, each with a separate input, output and reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.networks.qdq_reference import Array, Grid, Onnx, Tflite

Arithmetic = Onnx | Tflite
Sample = dict[str, Array]
Reference = Callable[[Arithmetic, Sample], Array]

TYPES = {
    "int16": TensorProto.INT16, "int8": TensorProto.INT8, "uint16": TensorProto.UINT16,
    "uint8": TensorProto.UINT8,
}  # fmt: skip


class Graph:
    """Collects operators; ``references`` compute each output from a sample, in an arithmetic."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.references: list[Reference] = []

    def __repr__(self) -> str:
        return f"Graph of {len(self.nodes)} nodes"

    def name(self, stem: str) -> str:
        return f"{stem}_{len(self.nodes) + len(self.constants) + len(self.inputs)}"

    def constant(self, array: Any) -> str:
        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        result = self.name(kind.lower())
        self.nodes.append(helper.make_node(kind, inputs, [result], name=result, **attributes))
        return result

    def grid(self, grid: Grid) -> list[str]:
        return [
            self.constant(grid.scale),
            self.constant(np.dtype(grid.dtype).type(grid.zero_point)),
        ]

    def input(self, shape: tuple[int, ...], grid: Grid) -> tuple[str, str]:
        """Add a quantized input; return its name and the name of its dequantized value."""
        stored = self.name("input")
        self.inputs.append(helper.make_tensor_value_info(stored, TYPES[grid.dtype], shape))
        return stored, self.node("DequantizeLinear", [stored, *self.grid(grid)])

    def weights(self, stored: Array, scales: Array, zero_point: int, axis: int) -> str:
        """Add constant weights, quantized per tensor or along ``axis``, dequantized."""
        points = np.full(scales.shape, zero_point, stored.dtype)
        given = [self.constant(stored), self.constant(scales), self.constant(points)]
        return self.node("DequantizeLinear", given, axis=axis)

    def output(self, real: str, grid: Grid, reference: Reference) -> None:
        stored = f"{real}_stored"
        self.nodes.append(helper.make_node("QuantizeLinear", [real, *self.grid(grid)], [stored]))
        self.outputs.append(helper.make_tensor_value_info(stored, TYPES[grid.dtype], None))
        self.references.append(reference)

    def build(self) -> bytes:
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        opset = [helper.make_opsetid("", 21)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=10)
        return bytes(onnx.shape_inference.infer_shapes(model, strict_mode=True).SerializeToString())

    def samples(self, count: int, seed: int) -> list[Sample]:
        """Return random inputs that use the whole range of their types."""
        random = np.random.default_rng(seed)
        samples = []
        for _ in range(count):
            sample = {}
            for value in self.inputs:
                kind = value.type.tensor_type
                dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
                shape = [d.dim_value for d in kind.shape.dim]
                limits = np.iinfo(dtype)
                sample[value.name] = random.integers(
                    limits.min, limits.max, shape, dtype, endpoint=True
                )
            samples.append(sample)
        return samples
