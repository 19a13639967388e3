"""Removes ReLUs and clips of a QDQ graph that the following quantize replaces.

Rounding and clamping never reorder values. Therefore one rounding after the activation is exact.
Limits beyond the range of the integers are not needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf

import numpy as np
import onnx

from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.float_graph import find_readers
from firmwright.quantize.integer_io import read_quant_params

ACTIVATIONS = ("Relu", "Clip")


def find_fused_outputs(model: onnx.ModelProto) -> dict[str, str]:
    """Return the tensor that is rounded instead of each tensor.

    The result of the tensor's only reader is rounded if this reader is a ReLU or clip. In other
    cases, the tensor itself is rounded.
    """
    readers = find_readers(model)
    outputs = {o.name for o in model.graph.output}

    def visible(name: str) -> str:
        following = readers.get(name, [])
        if name not in outputs and len(following) == 1 and following[0].op_type in ACTIVATIONS:
            return visible(following[0].output[0])
        return name

    made = [name for node in model.graph.node for name in node.output]
    return {name: visible(name) for name in (*readers, *made)}


def simplify_activations(model: onnx.ModelProto) -> None:
    """Remove roundings before an activation, and limits that the rounding after it implies."""
    for node in list(model.graph.node):
        if node.op_type in ACTIVATIONS:
            drop_rounding_before(node, model)
            drop_limits(node, model)
    used = set(all_reads(model))
    for constant in [i for i in model.graph.initializer if i.name not in used]:
        model.graph.initializer.remove(constant)


def drop_rounding_before(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Connect an activation to the unrounded tensor if it is the rounded tensor's only reader.

    Both sides of the activation must have equal quantization parameters.
    """
    count = Counter(all_reads(model))
    makers = {o: n for n in model.graph.node for o in n.output}
    dequantize = makers.get(node.input[0])
    quantize = makers.get(dequantize.input[0]) if dequantize is not None else None
    if dequantize is None or quantize is None:
        return
    if (dequantize.op_type, quantize.op_type) != ("DequantizeLinear", "QuantizeLinear"):
        return
    between = (node.input[0], dequantize.input[0], quantize.input[0])
    if all(count[name] == 1 for name in between):
        node.input[0] = quantize.input[0]
        model.graph.node.remove(dequantize)
        model.graph.node.remove(quantize)


def drop_limits(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Remove an activation, or convert a clip to a ReLU, if the next quantize keeps the limits."""
    readers = [n for n in model.graph.node if node.output[0] in n.input]
    shown = {o.name for o in model.graph.output}
    if [n.op_type for n in readers] != ["QuantizeLinear"] or node.output[0] in shown:
        return
    params = read_quant_params(readers[0], model)
    low, high = limits_of(node, model)
    if quantize_unclamped(high, params) < params.limits[1]:
        return
    if quantize_unclamped(low, params) <= params.limits[0]:
        readers[0].input[0] = node.input[0]
        model.graph.node.remove(node)
    elif low == 0.0 and node.op_type == "Clip":
        node.op_type = "Relu"
        del node.input[1:]


def limits_of(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[float, float]:
    """Return the activation's limits, or (inf, -inf) for limits that are not constant."""
    if node.op_type == "Relu":
        return 0.0, inf
    stated = [*node.input[1:], "", ""][:2]
    constants = {i.name: i for i in model.graph.initializer if i.name in stated}
    if any(name and name not in constants for name in stated):
        return inf, -inf
    numbers = {name: onnx.numpy_helper.to_array(i).item() for name, i in constants.items()}
    low, high = (numbers[name] if name else None for name in stated)
    return -inf if low is None else low, inf if high is None else high


def quantize_unclamped(value: float, params: QuantParams) -> float:
    return float(np.rint(value / params.scale) + params.zero_point)


def all_reads(model: onnx.ModelProto) -> Iterator[str]:
    for node in model.graph.node:
        yield from node.input
    for output in model.graph.output:
        yield output.name
