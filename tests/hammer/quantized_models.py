"""Adds QuantizeLinear and DequantizeLinear to the tensors of a float model, by random choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession, SessionOptions

from tests.hammer.random_models import draw_input
from tests.networks.onnx_models import node
from tests.networks.qdq_operators import Draw

Array = npt.NDArray[Any]

WEIGHTED = {"Conv": 0, "ConvTranspose": 1, "MatMul": 1, "Gemm": 0}
"""Operators whose weights become integers, and the axis of the weights' output channels."""

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535),
          "int4": (-8, 7), "uint4": (0, 15)}  # fmt: skip
KINDS = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}


LARGEST = 1e30
"""The largest end of a range, so that every scale is finite."""


class Quantizer:
    """Writes the quantized form of a model; opset 21 has the types of 4 and 16 bits."""

    def __init__(self, model: onnx.ModelProto, draw: Draw) -> None:
        self.model, self.draw = model, draw
        self.opset = model.opset_import[0].version
        self.ranges = find_ranges(model)
        self.stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.made = onnx.ModelProto()
        self.made.CopyFrom(model)
        del self.made.graph.node[:], self.made.graph.value_info[:]
        self.real: dict[str, str] = {}
        self.scales: dict[str, float] = {}

    def write(self) -> onnx.ModelProto:
        nodes = self.made.graph.node
        first = self.model.graph.input[0].name
        self.quantize(first)
        for each in self.model.graph.node:
            weights = each.input[1] if each.op_type in WEIGHTED else ""
            if weights in self.stored:
                self.quantize_weights(each)
            copied = nodes.add()
            copied.CopyFrom(each)
            copied.input[:] = [self.real.get(name, name) for name in each.input]
            for name in each.output:
                self.quantize(name)
        self.replace_output()
        return onnx.shape_inference.infer_shapes(self.made, check_type=True, strict_mode=True)

    def constant(self, name: str, array: Array | np.generic, kind: str) -> str:
        if kind in KINDS:
            values = [int(v) for v in array.flatten()]
            tensor = helper.make_tensor(name, KINDS[kind], array.shape, values)
        else:
            tensor = numpy_helper.from_array(array.astype(kind), name)
        self.made.graph.initializer.append(tensor)
        return name

    def quantize(self, name: str) -> None:
        """Append the pair of a float tensor; a tensor of another type stays as it is."""
        if name not in self.ranges:
            return
        draw = self.draw
        low, high = np.clip(self.ranges[name], -LARGEST, LARGEST)  # Exp overflows
        wide = ["int16", "uint16"] if self.opset >= 21 and draw.whole(0, 7) == 0 else []
        kind = draw.among(wide or ["int8", "int8", "uint8"])
        least, most = LIMITS[kind]
        if draw.whole(0, 5) == 0:
            low, high = low * 0.7, high * 0.8
        scale = np.float32(max(high - low, 1e-3) / (most - least))
        point = np.clip(np.rint(least - low / scale), least, most)
        if draw.whole(0, 2) == 0:
            scale = np.float32(max(-low, high, 1e-3) / 127)
            point = np.float64((least + most + 1) // 2)
        parameters = [self.constant(f"{name}_scale", scale, "float32")]
        parameters.append(self.constant(f"{name}_point", point, kind))
        self.made.graph.node.extend([
            node("QuantizeLinear", [name, *parameters], [f"{name}_q"]),
            node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_d"]),
        ])  # fmt: skip
        self.real[name], self.scales[name] = f"{name}_d", float(scale)

    def quantize_weights(self, each: onnx.NodeProto) -> None:
        """Append the dequantization of weights and, often, of an int32 bias."""
        draw, source, name = self.draw, each.input[0], each.input[1]
        array, axis = self.stored[name], WEIGHTED[each.op_type]
        small = ["int4", "uint4", "int16"] if self.opset >= 21 and draw.whole(0, 3) == 0 else []
        kind = draw.among(small or ["int8", "int8", "uint8"])
        grouped = each.op_type == "ConvTranspose" and array.shape[1] > 1
        per_axis = draw.truth() and not grouped
        others = tuple(a for a in range(array.ndim) if a != axis)
        largest = np.abs(array).max(axis=others if per_axis else None).clip(1e-3)
        least, most = LIMITS[kind]
        scales = (largest / (most if least else most // 2)).astype("float32")
        point = 0 if least else (most + 1) // 2
        shape = [-1 if a == axis else 1 for a in range(array.ndim)]
        spread = scales.reshape(shape) if per_axis else scales
        whole = np.clip(np.rint(array / spread) + point, least, most)
        points = np.full(scales.shape, point)
        inputs = [
            self.constant(f"{name}_q", whole, kind),
            self.constant(f"{name}_scale", scales, "float32"),
            self.constant(f"{name}_point", points, kind),
        ]
        attributes: dict[str, Any] = {"axis": axis} if per_axis else {}
        self.made.graph.node.append(node("DequantizeLinear", inputs, [f"{name}_d"], **attributes))
        self.real[name] = f"{name}_d"
        if len(each.input) > 2 and source in self.scales and draw.whole(0, 3):
            self.quantize_bias(each.input[2], np.float32(self.scales[source]) * scales)

    def quantize_bias(self, name: str, scales: Array) -> None:
        whole = np.rint(self.stored[name] / scales).clip(-(2**31), 2**31 - 1)
        inputs = [self.constant(f"{name}_q", whole, "int32"),
                  self.constant(f"{name}_scale", scales, "float32"),
                  self.constant(f"{name}_point", np.zeros(scales.shape), "int32")]  # fmt: skip
        self.made.graph.node.append(node("DequantizeLinear", inputs, [f"{name}_d"], axis=0))
        self.real[name] = f"{name}_d"

    def replace_output(self) -> None:
        """Make the integers of the last tensor, or their float values, the output."""
        (output,) = self.made.graph.output
        ending = self.draw.among(["_q", "_d"]) if output.name in self.real else ""
        output.CopyFrom(onnx.ValueInfoProto(name=output.name + ending))


def find_ranges(model: onnx.ModelProto) -> Mapping[str, tuple[float, float]]:
    """Return the least and the largest value of each float tensor that depends on the input."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    names = [name for each in model.graph.node for name in each.output]
    del copied.graph.output[:]
    copied.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = SessionOptions()
    options.log_severity_level = 4
    session = InferenceSession(copied.SerializeToString(), options)
    samples = [draw_input(model, seed) for seed in (10, 11)]
    runs = [{**dict(zip(names, session.run(None, s), strict=True)), **s} for s in samples]
    return {
        name: (min(0.0, *(float(r[name].min()) for r in runs)),
               max(0.0, *(float(r[name].max()) for r in runs)))
        for name in runs[0] if runs[0][name].dtype == np.float32
    }  # fmt: skip
