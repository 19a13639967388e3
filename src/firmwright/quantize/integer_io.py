"""Converts inputs and outputs to integers, so that the firmware needs no conversion."""

from __future__ import annotations

import onnx

from firmwright.ir.quant_params import QuantParams
from firmwright.models.stated_params import state_in_onnx

DATA_MOVEMENT_OPERATORS = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze")


def remove_float_io(model: onnx.ModelProto) -> dict[str, QuantParams]:
    """Remove the quantize after each input and the dequantize before each output of a graph.

    Names stay. Returns the quantization parameters of the inputs and outputs that became integers.
    No other node reads these tensors as real numbers. The model also states these parameters.
    """
    graph = model.graph
    params_of = {}
    for value in graph.input:
        quantize = find_consumer(graph, value.name)
        if quantize is not None and quantize.op_type == "QuantizeLinear":
            params_of[value.name] = read_quant_params(quantize, model)
            graph.node.remove(quantize)
            rename_tensor(graph, quantize.output[0], quantize.input[0])
    for value in graph.output:
        dequantize = find_producer(graph, value.name, readers=0)
        if dequantize is not None and dequantize.op_type == "DequantizeLinear":
            params_of[value.name] = read_quant_params(dequantize, model)
            graph.node.remove(dequantize)
            rename_tensor(graph, dequantize.input[0], dequantize.output[0])
    for value in (*graph.input, *graph.output):
        if value.name in params_of:
            kind = onnx.helper.np_dtype_to_tensor_dtype(params_of[value.name].numpy_dtype)
            value.type.tensor_type.elem_type = kind
    del graph.value_info[:]
    state_in_onnx(
        model, {name: (params.scale, params.zero_point) for name, params in params_of.items()}
    )
    return params_of


def find_consumer(graph: onnx.GraphProto, name: str) -> onnx.NodeProto | None:
    """Return the only node that reads a tensor, after nodes that only move its elements."""
    readers: list[onnx.NodeProto] = [n for n in graph.node if name in n.input]
    if len(readers) != 1:
        return None
    if readers[0].op_type in DATA_MOVEMENT_OPERATORS:
        return find_consumer(graph, readers[0].output[0])
    return readers[0]


def find_producer(graph: onnx.GraphProto, name: str, readers: int) -> onnx.NodeProto | None:
    """Return the node that computes a tensor, before nodes that only move its elements.

    Each tensor in between has exactly one reader. The last tensor has ``readers`` readers.
    """
    makers: list[onnx.NodeProto] = [n for n in graph.node if name in n.output]
    if not makers or sum(name in n.input for n in graph.node) != readers:
        return None
    if makers[0].op_type in DATA_MOVEMENT_OPERATORS:
        return find_producer(graph, makers[0].input[0], readers=1)
    return makers[0]


def rename_tensor(graph: onnx.GraphProto, before: str, after: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == before:
                    names[index] = after


def read_quant_params(node: onnx.NodeProto, model: onnx.ModelProto) -> QuantParams:
    """Return the per-tensor quantization parameters of a quantize or dequantize node."""
    constants = {i.name: i for i in model.graph.initializer}
    scale, zero_point = (onnx.numpy_helper.to_array(constants[n]) for n in node.input[1:3])
    return QuantParams(zero_point.dtype.name, float(scale), int(zero_point))
