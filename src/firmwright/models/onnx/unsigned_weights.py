"""Converts int8 weights to uint8, so that ONNX Runtime multiplies exactly on every processor.

On x86 without VNNI, ONNX Runtime adds pairs of uint8 x int8 products in saturating int16
(``vpmaddubsw``). The option ``session.x64quantprecision`` prevents this saturation. But the option
is a graph optimization, and the reference runs without graph optimizations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from firmwright.models.onnx.graph_parts import find_types

OFFSET = 128
"""The number that is added to weights and zero points.

The difference of a weight and its zero point does not change.
"""


class WeightInputs(NamedTuple):
    """The input indices of a weight, its zero point and its activation."""

    weight: int
    zero_point: int
    activation: int | None
    """None if the operator quantizes its activation to uint8."""


WEIGHTS: Mapping[str, tuple[WeightInputs, ...]] = {
    "MatMulInteger": (WeightInputs(1, 3, 0),),
    "ConvInteger": (WeightInputs(1, 3, 0),),
    "QLinearMatMul": (WeightInputs(3, 5, 2),),
    "QLinearConv": (WeightInputs(3, 5, 2),),
    "MatMulIntegerToFloat": (WeightInputs(1, 5, 0),),
    "QGemm": (WeightInputs(3, 5, 2),),
    "QAttention": (WeightInputs(1, 7, 0),),
    "DynamicQuantizeMatMul": (WeightInputs(1, 3, None),),
    "DynamicQuantizeLSTM": (WeightInputs(1, 9, None), WeightInputs(2, 11, None)),
}


def make_weights_unsigned(model: onnx.ModelProto) -> None:
    """Replace constant int8 weights of uint8 activations. The results do not change."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [
        (node, positions)
        for node in model.graph.node
        for positions in WEIGHTS.get(node.op_type, ())
        if len(node.input) > positions.weight
        and (tensor := constants.get(node.input[positions.weight])) is not None
        and tensor.data_type == TensorProto.INT8
    ]
    if not found:
        return
    types = find_types(model)
    for node, positions in found:
        activation = positions.activation
        if activation is None or types.get(node.input[activation]) == TensorProto.UINT8:
            shift_weight(model.graph, node, positions, constants)


def shift_weight(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    positions: WeightInputs,
    constants: Mapping[str, onnx.TensorProto],
) -> None:
    node.input.extend([""] * (positions.zero_point + 1 - len(node.input)))
    given = node.input[positions.zero_point]
    if given and given not in constants:
        return  # the network computes the zero point
    zero = numpy_helper.to_array(constants[given]) if given else np.zeros((), "int8")
    weight = numpy_helper.to_array(constants[node.input[positions.weight]])
    for position, array in ((positions.weight, weight), (positions.zero_point, zero)):
        name = f"{node.input[position] or 'zero'} as uint8 of {node.output[0]}"
        shifted = (array.astype("int16") + OFFSET).astype("uint8")
        graph.initializer.append(numpy_helper.from_array(shifted, name))
        node.input[position] = name
