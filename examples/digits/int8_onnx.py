"""Converts trained layers to an int8 ONNX model in QDQ form with integer inputs and outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

OPSET = 17
IR_VERSION = 8  # the IR version of opset 17
INPUT, OUTPUT = "image", "scores"

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Layer:
    """A trained layer with folded batch norm; a dense layer has a 2-D weight (out, in)."""

    name: str
    weight: Floats
    bias: Floats
    stride: int = 1
    groups: int = 1


@dataclass(frozen=True)
class Grid:
    """Quantization parameters: an int8 ``q`` represents ``scale * (q - zero_point)``."""

    scale: float
    zero_point: int

    def quantize(self, values: Floats) -> NDArray[np.int8]:
        """Return the nearest int8 values, ties to even as in ONNX QuantizeLinear."""
        steps = np.rint(values / np.float32(self.scale)) + self.zero_point
        return np.asarray(np.clip(steps, -128, 127), np.int8)


def float_model(convolutions: list[Layer], dense: Layer, size: int) -> onnx.ModelProto:
    """Return convolution + ReLU layers, global average pool, dense; input 1x1x``size``x``size``."""
    nodes, tensor = [], INPUT
    for layer in convolutions:
        kernel = layer.weight.shape[-1]
        nodes += [
            helper.make_node(
                "Conv",
                [tensor, f"{layer.name}.weight", f"{layer.name}.bias"],
                [f"{layer.name}.sum"],
                name=layer.name,
                kernel_shape=[kernel, kernel],
                pads=[kernel // 2] * 4,
                strides=[layer.stride, layer.stride],
                group=layer.groups,
            ),
            helper.make_node(
                "Relu", [f"{layer.name}.sum"], [f"{layer.name}.out"], name=f"{layer.name}.relu"
            ),
        ]
        tensor = f"{layer.name}.out"
    nodes += [
        helper.make_node("GlobalAveragePool", [tensor], ["pool.out"], name="pool"),
        helper.make_node("Flatten", ["pool.out"], ["flatten.out"], name="flatten"),
        helper.make_node(
            "Gemm",
            ["flatten.out", f"{dense.name}.weight", f"{dense.name}.bias"],
            [OUTPUT],
            name=dense.name,
            transB=1,
        ),
    ]
    parameters = [
        numpy_helper.from_array(array, f"{layer.name}.{kind}")
        for layer in [*convolutions, dense]
        for kind, array in (("weight", layer.weight), ("bias", layer.bias))
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, 1, size, size])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, len(dense.bias)])],
        parameters,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    return model


class _Images(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no type hints
    """Passes the calibration images to the quantizer one by one."""

    def __init__(self, images: Floats) -> None:
        self._images: Iterator[Floats] = iter(images)

    def get_next(self) -> dict[str, Floats] | None:
        image = next(self._images, None)
        return None if image is None else {INPUT: image[None]}


def int8_model(model: onnx.ModelProto, calibration_images: Floats) -> onnx.ModelProto:
    """Quantize to int8: activations with the calibration's min-max range, weights per channel.

    Input and output are int8, so firmware needs no floating point for them.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Use files, because the quantizer changes a model that is passed in memory.
        source, result = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            result,
            _Images(calibration_images),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        quantized: onnx.ModelProto = onnx.load(result)
    _drop_outer_pair(quantized.graph)
    # The notes of the writing tool would change the file with the tool's version.
    for field in ("producer_name", "producer_version", "doc_string", "metadata_props"):
        quantized.ClearField(field)
    quantized.graph.ClearField("value_info")
    onnx.checker.check_model(quantized, full_check=True)
    return quantized


def _drop_outer_pair(graph: onnx.GraphProto) -> None:
    """Remove the first QuantizeLinear and the last DequantizeLinear; their int8 sides remain."""
    first = next(n for n in graph.node if INPUT in n.input)
    last = next(n for n in graph.node if OUTPUT in n.output)
    if (first.op_type, last.op_type) != ("QuantizeLinear", "DequantizeLinear"):
        raise RuntimeError(f"unexpected graph edges: {first.op_type}, {last.op_type}")
    new_names = {first.output[0]: INPUT, last.input[0]: OUTPUT}
    graph.node.remove(first)
    graph.node.remove(last)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new_names.get(name, name) for name in names]
    for tensor in (graph.input[0], graph.output[0]):
        tensor.type.tensor_type.elem_type = TensorProto.INT8


def grid_of(model: onnx.ModelProto, tensor: str) -> Grid:
    """Return the quantization parameters of an int8 tensor from its quantize or dequantize node."""
    constants = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
    node = next(
        n
        for n in model.graph.node
        if (n.op_type == "DequantizeLinear" and n.input[0] == tensor)
        or (n.op_type == "QuantizeLinear" and n.output[0] == tensor)
    )
    return Grid(float(constants[node.input[1]]), int(constants[node.input[2]]))


def classify(model: onnx.ModelProto, images: NDArray[Any]) -> NDArray[np.int64]:
    """Return the digit with the highest score per image, by onnxruntime without optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.array([session.run(None, {INPUT: i[None]})[0].argmax() for i in images])
