"""Makes convolutions of one tap from per-channel factors and offsets, such as a normalization.

ONNX Runtime folds a normalization into the convolution before it. Without this module, a
normalization before the first convolution would be computed in floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.quantize.float_graph import (
    Array,
    find_readers,
    read_attributes,
    read_constants,
    remove_unread,
)

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ChannelMap:
    """The result of nodes: ``factors`` · source + ``offsets``, per channel, in float64.

    ``inner`` are the tensors between the first and the last of these nodes.
    """

    source: str
    factors: Array
    offsets: Array
    inner: tuple[str, ...] = ()


def convolve_factors(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph. Depthwise convolutions of one tap replace nodes with factors and offsets.

    Several nodes in a row become one convolution. Nodes with one factor for all channels stay,
    because a change of the scale needs no integer product. All shapes must be known.
    """
    lines = find_lines(model)
    if not lines:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    shapes, gone = read_shapes(model), {name for line in lines.values() for name in line.inner}
    nodes = [node for node in result.graph.node if not gone & {*node.output}]
    for node in nodes:
        line = lines.get(node.output[0])
        if line is not None:
            ones = [1] * (len(shapes[line.source]) - 2)
            arrays = line.factors.reshape([-1, 1, *ones]), line.offsets
            names = [f"{node.output[0]}/{what}" for what in ("factors", "offsets")]
            for array, name in zip(arrays, names, strict=True):
                stored = numpy_helper.from_array(array.astype("float32"), name)
                result.graph.initializer.append(stored)
            inputs, group = [line.source, *names], line.factors.size
            node.CopyFrom(
                helper.make_node("Conv", inputs, node.output[:1], name=node.name, group=group)
            )
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    remove_unread(result)
    return result


def find_lines(model: onnx.ModelProto) -> dict[str, ChannelMap]:
    """Return the lines with different factors per channel. The keys are the last nodes' results."""
    constants, shapes, readers = read_constants(model), read_shapes(model), find_readers(model)
    results = {output.name for output in model.graph.output}
    lines: dict[str, ChannelMap] = {}
    for node in model.graph.node:
        line = read_line(node, constants, shapes)
        if line is None:
            continue
        before = lines.get(line.source)
        if before and len(readers[line.source]) == 1 and line.source not in results:
            del lines[line.source]
            line = ChannelMap(
                before.source,
                line.factors * before.factors,
                line.factors * before.offsets + line.offsets,
                (*before.inner, line.source),
            )
        lines[node.output[0]] = line
    return {name: line for name, line in lines.items() if np.ptp(line.factors)}


def read_line(
    node: onnx.NodeProto, constants: Mapping[str, Array], shapes: Shapes
) -> ChannelMap | None:
    """Return the line of one node on a float tensor with channels, or None for other nodes."""
    if node.op_type == "BatchNormalization":
        return read_normalization(node, constants, shapes)
    if node.op_type not in ("Add", "Div", "Mul", "Sub"):
        return None
    positions = [(0, 1), (1, 0)] if node.op_type in ("Add", "Mul") else [(0, 1)]
    for tensor, constant in positions:
        source, array = node.input[tensor], constants.get(node.input[constant])
        shape = shapes.get(source, ())
        if array is None or len(shape) < 3 or array.ndim > len(shape):
            continue
        one_a_channel = [1, shape[1], *(1 for _ in shape[2:])][len(shape) - array.ndim :]
        if array.size != 1 and [*array.shape] != one_a_channel:
            continue
        values = np.broadcast_to(array.reshape(-1).astype("float64"), shape[1:2])
        ones, zeros = np.ones(shape[1]), np.zeros(shape[1])
        if node.op_type == "Div":
            return ChannelMap(source, ones / values, zeros) if values.all() else None
        if node.op_type == "Mul":
            return ChannelMap(source, values, zeros)
        return ChannelMap(source, ones, values if node.op_type == "Add" else -values)
    return None


def read_normalization(
    node: onnx.NodeProto, constants: Mapping[str, Array], shapes: Shapes
) -> ChannelMap | None:
    """Return the line of a batch normalization.

    Normalizations that train have none: the result is None.
    """
    source, *names = node.input
    if len(shapes.get(source, ())) < 3 or not all(name in constants for name in names):
        return None
    factor, offset, mean, variance = (constants[name].astype("float64") for name in names)
    attributes = read_attributes(node)
    if attributes.get("training_mode", 0):
        return None
    factors = factor / np.sqrt(variance + attributes.get("epsilon", 1e-5))
    return ChannelMap(source, factors, offset - factors * mean)


def read_shapes(model: onnx.ModelProto) -> Shapes:
    """Map the names of the float32 tensors that are not constants to their shapes."""
    graph = model.graph
    kinds = {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}
    return {
        name: tuple(d.dim_value for d in kind.shape.dim)
        for name, kind in kinds.items()
        if kind.elem_type == TensorProto.FLOAT
    }
