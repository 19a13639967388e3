"""Replaces operators of Deeploy and quantlib, which store integers in float tensors, by ONNX's.

Source: the generic kernels of github.com/pulp-platform/Deeploy. Each operator becomes a group of
ONNX nodes in double precision, which represents products of 32-bit integers exactly. So ONNX
Runtime evaluates these networks, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.graph.body import replace_nodes

Attributes = Mapping[str, float]
DOMAINS = ("", "ai.onnx", "ai.onnx.contrib", "PACTOps")
"""The domains in which Deeploy and quantlib have written their operators."""


class Body:
    """The nodes that replace a node; their tensors are named after its result.

    ``channel_shape`` aligns numbers per channel with the result of a convolution, else it is empty.
    """

    def __init__(self, node: onnx.NodeProto, channel_shape: Sequence[int] = ()) -> None:
        self.node = node
        self.channel_shape = channel_shape
        self.nodes: list[onnx.NodeProto] = []

    def add(self, operator: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        name = result or f"{self.node.output[0]}/{len(self.nodes)}"
        label = self.node.name if result else ""
        self.nodes.append(helper.make_node(operator, inputs, [name], label, **attributes))
        return name

    def number(self, value: float) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.array(value, "float64")))

    def integers(self, values: Sequence[int]) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.array(values, "int64")))

    def wide(self, name: str) -> str:
        return self.add("Cast", name, to=TensorProto.DOUBLE)

    def shift(self, value: str, divisor: float) -> str:
        """Divide and round down, like a right shift."""
        return self.add("Floor", self.add("Div", value, self.number(divisor)))

    def clip(self, value: str, levels: float, signed: bool) -> str:
        low = -(levels // 2) if signed else 0
        above = self.add("Max", value, self.number(low))
        return self.add("Min", above, self.number(low + levels - 1))


def requantize(body: Body, stated: Attributes) -> str:
    """Return clip(floor((x · mul + add) / div + 1/2)); Deeploy rounds in this way."""
    data, mul, add = (body.wide(name) for name in body.node.input)
    if body.channel_shape:
        shape = body.integers(body.channel_shape)
        mul, add = (body.add("Reshape", name, shape) for name in (mul, add))
    levels = stated.get("n_levels", stated.get("n_levels_out", 256))
    total = body.add("Add", body.add("Mul", data, mul), add)
    half = body.number(stated["div"] // 2)
    rounded = body.shift(body.add("Add", total, half), stated["div"])
    return body.clip(rounded, levels, bool(stated.get("signed", 1)))


def hard_swish(body: Body, stated: Attributes) -> str:
    """Return x · clip(x + three, 0, six) · one_over_six, in integers."""
    data = body.wide(body.node.input[0])
    above = body.add("Max", body.add("Add", data, body.number(stated["three"])), body.number(0))
    part = body.add("Min", above, body.number(stated["six"]))
    part = body.add("Mul", part, body.number(stated["one_over_six"]))
    return body.add("Mul", data, part)


EXPANSIONS: dict[str, Callable[[Body, Attributes], str]] = {
    "RequantShift": requantize,
    "iHardswish": hard_swish,
}


def expand_dialects(model: onnx.ModelProto) -> None:
    """Replace the operators of :data:`EXPANSIONS` in a model."""
    graph = model.graph
    if not any(node.op_type in EXPANSIONS for node in graph.node):
        return
    types = {
        value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)
    }
    ranks = find_result_ranks(graph)
    replace_nodes(graph, [new for node in graph.node for new in expand(node, types, ranks)])


def find_result_ranks(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the rank of each convolution's result, which is the rank of its weights."""
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    return {n.output[0]: ranks.get(n.input[1], 0) for n in graph.node if n.op_type == "Conv"}


def expand(
    node: onnx.NodeProto, types: Mapping[str, int], ranks: Mapping[str, int]
) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that replace a node; the node itself if it needs no replacement."""
    if node.op_type not in EXPANSIONS or node.domain not in DOMAINS:
        yield node
        return
    rank = ranks.get(node.input[0], 0)
    body = Body(node, [1, -1, *[1] * (rank - 2)] if rank else ())
    result = EXPANSIONS[node.op_type](body, read_numbers(node))
    kind = types.get(node.output[0], TensorProto.FLOAT)
    body.add("Cast", result, result=node.output[0], to=kind)
    yield from body.nodes


def read_numbers(node: onnx.NodeProto) -> dict[str, float]:
    """Return the numeric attributes; quantlib writes numbers as tensors of one element."""
    values = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.array(value)
        if array.size == 1 and array.dtype.kind in "if":
            values[attribute.name] = float(array.item())
    return values
