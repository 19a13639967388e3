"""Replaces operators of Deeploy and quantlib with ONNX's operators.

The operators store integers in float tensors. Source: the generic kernels of
github.com/pulp-platform/Deeploy. A group of ONNX nodes in double precision replaces each operator.
Double precision represents products of 32-bit integers exactly. Therefore ONNX Runtime can evaluate
these networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.domains import get_opset
from firmwright.models.onnx.graph.body import Body, refuse, replace_nodes

Attributes = Mapping[str, float]
DOMAINS = ("", "ai.onnx", "ai.onnx.contrib", "PACTOps")
"""The domains of Deeploy's and quantlib's operators."""


class IntegerBody(Body):
    """The nodes that replace an operator on integers.

    ``channel_shape`` is the shape of numbers per channel of a convolution's result. The shape is
    empty for other operators.
    """

    def __init__(self, node: onnx.NodeProto, channel_shape: Sequence[int], opset: int) -> None:
        super().__init__(node, opset)
        self.channel_shape = channel_shape

    def number(self, value: float) -> str:
        return self.constant(value, "float64")

    def wide(self, name: str) -> str:
        return self.add("Cast", name, to=TensorProto.DOUBLE)

    def shift(self, value: str, divisor: float) -> str:
        """Append a division that rounds down, like a right shift."""
        return self.add("Floor", self.add("Div", value, self.number(divisor)))

    def divide(self, value: str, divisor: str) -> str:
        """Append a division by a positive number. The division rounds toward zero, as in C.

        The quotient is exact below 2^52.
        """
        quotient = self.add("Floor", self.add("Div", self.add("Abs", value), divisor))
        return self.add("Mul", quotient, self.add("Sign", value))

    def count(self, value: str) -> str:
        last = self.add("Gather", self.add("Shape", value), self.constant([-1], "int64"))
        return self.wide(last)

    def clip(self, value: str, levels: float, signed: bool) -> str:
        low = -(levels // 2) if signed else 0
        above = self.add("Max", value, self.number(low))
        return self.add("Min", above, self.number(low + levels - 1))


def requantize(body: IntegerBody, stated: Attributes) -> str:
    """Return clip(floor((x · mul + add) / div + 1/2)), because Deeploy rounds half up."""
    data, mul, add = (body.wide(name) for name in body.node.input)
    if body.channel_shape:
        shape = body.constant(body.channel_shape, "int64")
        mul, add = (body.add("Reshape", name, shape) for name in (mul, add))
    levels = stated.get("n_levels", stated.get("n_levels_out", 256))
    total = body.add("Add", body.add("Mul", data, mul), add)
    half = body.number(stated["div"] // 2)
    rounded = body.shift(body.add("Add", total, half), stated["div"])
    return body.clip(rounded, levels, bool(stated.get("signed", 1)))


def hard_swish(body: IntegerBody, stated: Attributes) -> str:
    """Return x · clip(x + three, 0, six) · one_over_six, in integers."""
    data = body.wide(body.node.input[0])
    above = body.add("Max", body.add("Add", data, body.number(stated["three"])), body.number(0))
    part = body.add("Min", above, body.number(stated["six"]))
    part = body.add("Mul", part, body.number(stated["one_over_six"]))
    return body.add("Mul", data, part)


def gelu(body: IntegerBody, stated: Attributes) -> str:
    """Return x · ((one + L) >> 1). L has the sign of x, and its magnitude is a parabola of |x|."""
    data, one = body.wide(body.node.input[0]), body.number(stated["one"])
    part = body.add("Min", body.add("Abs", data), body.number(-stated["b"]))
    part = body.add("Add", part, body.number(stated["b"]))
    erf = body.add("Sub", one, body.add("Mul", part, part))
    erf = body.add("Mul", erf, body.add("Sign", data))
    return body.add("Mul", data, body.shift(body.add("Add", one, erf), 2))


def softmax(body: IntegerBody, stated: Attributes) -> str:
    """Return exponentials divided by the sum of the exponentials, from 0 to n_levels - 1.

    An exponential is A · (p + B)² + C, shifted right by z, for x - max = p - z · log2.
    """
    data, log2 = body.wide(body.node.input[0]), body.number(stated["log2"])
    below = body.add("Sub", data, body.reduce("ReduceMax", data, -1))
    shift = body.add("Floor", body.add("Div", body.add("Neg", below), log2))
    shift = body.add("Min", shift, body.number(31))
    part = body.add("Add", below, body.add("Mul", shift, log2))
    part = body.add("Add", part, body.number(stated["coeffB"]))
    part = body.add("Mul", body.add("Mul", part, part), body.number(stated["coeffA"]))
    part = body.add("Add", part, body.number(stated["coeffC"]))
    powers = body.add("Constant", value=numpy_helper.from_array(2.0 ** np.arange(32)))
    power = body.add("Gather", powers, body.add("Cast", shift, to=TensorProto.INT64))
    part = body.add("Floor", body.add("Div", part, power))
    scaled = body.add("Mul", part, body.number(stated["n_levels"] - 1))
    return body.add("Floor", body.add("Div", scaled, body.reduce("ReduceSum", part, -1)))


def layer_norm(body: IntegerBody, stated: Attributes) -> str:
    """Return ((x - mean) · weight / deviation + bias) / D, rounded down."""
    data, weight, bias = (body.wide(name) for name in body.node.input)
    mean = body.divide(body.reduce("ReduceSum", data, -1), body.count(data))
    scaled = divide_by_deviation(body, body.add("Sub", data, mean), weight)
    shifted = body.shift(body.add("Add", scaled, bias), stated["D"])
    return body.clip(shifted, stated["n_levels"], True)


def no_norm(body: IntegerBody, stated: Attributes) -> str:
    """Return ((x · weight + bias) · mul) / D, rounded down."""
    data, weight, bias = (body.wide(name) for name in body.node.input)
    total = body.add("Add", body.add("Mul", data, weight), bias)
    scaled = body.shift(body.add("Mul", total, body.number(stated["mul"])), stated["D"])
    return body.clip(scaled, stated["n_levels"], True)


def divide_exactly(body: IntegerBody, stated: Attributes) -> str:
    """Return x · Delta · eta / (y · eta + eps), rounded toward zero.

    A constant y is an attribute. Deeploy's kernel rounds to the nearest integer, but Deeploy's test
    rounds toward zero.
    """
    data, *divisors = (body.wide(name) for name in body.node.input)
    divisor = divisors[0] if divisors else body.number(stated["y"])
    divisor = body.add("Mul", divisor, body.number(stated["eta"]))
    divisor = body.add("Add", divisor, body.number(stated["eps"]))
    factor = body.number(stated["Delta"] * stated["eta"])
    scaled = body.add("Mul", body.add("Mul", data, factor), body.add("Sign", divisor))
    return body.divide(scaled, body.add("Abs", divisor))


def rms_norm(body: IntegerBody, stated: Attributes) -> str:
    """Return (x · weight / deviation) / D, rounded down.

    The deviation is computed along the last axis.
    """
    if stated.get("axis", -1) != -1:
        refuse(body.node, f"its axis is {stated['axis']:g}; export it with axis -1")
    data, weight = (body.wide(name) for name in body.node.input)
    scaled = divide_by_deviation(body, data, weight)
    return body.clip(body.shift(scaled, stated["D"]), stated["n_levels"], True)


def divide_by_deviation(body: IntegerBody, data: str, weight: str) -> str:
    """Append data · weight / √(mean of squares + 1). Each step rounds toward zero."""
    total = body.reduce("ReduceSum", body.add("Mul", data, data), -1)
    variance = body.add("Add", body.divide(total, body.count(data)), body.number(1))
    deviation = body.add("Floor", body.add("Sqrt", variance))
    return body.divide(body.add("Mul", data, weight), deviation)


EXPANSIONS: dict[str, Callable[[IntegerBody, Attributes], str]] = {
    "RequantShift": requantize,
    "TrueIntegerDiv": divide_exactly,
    "iGELU": gelu,
    "iHardswish": hard_swish,
    "iLayerNorm": layer_norm,
    "iNoNorm": no_norm,
    "iRMSNorm": rms_norm,
    "iSoftmax": softmax,
}


def expand_dialects(model: onnx.ModelProto) -> None:
    graph = model.graph
    if not any(node.op_type in EXPANSIONS for node in graph.node):
        return
    types = {
        value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)
    }
    ranks, opset = find_result_ranks(graph), get_opset(model)
    replace_nodes(graph, [new for node in graph.node for new in expand(node, types, ranks, opset)])


def find_result_ranks(graph: onnx.GraphProto) -> dict[str, int]:
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    return {n.output[0]: ranks.get(n.input[1], 0) for n in graph.node if n.op_type == "Conv"}


def expand(
    node: onnx.NodeProto, types: Mapping[str, int], ranks: Mapping[str, int], opset: int
) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that replace a node. Yield the node itself if no replacement is necessary.

    Raises UserError if an attribute or an input is missing.
    """
    is_known = node.op_type in EXPANSIONS and node.domain in DOMAINS
    if not is_known or not node.input or not node.output:
        yield node
        return
    rank = ranks.get(node.input[0], 0)
    body = IntegerBody(node, [1, -1, *[1] * (rank - 2)] if rank else (), opset)
    try:
        result = EXPANSIONS[node.op_type](body, read_numbers(node))
    except KeyError as name:
        refuse(node, f"its attribute {name} is missing; export the model again")
    except (IndexError, ValueError):
        refuse(
            node,
            f"one of its {len(node.input)} inputs is missing or has a wrong shape; export the "
            "model again",
        )
    kind = types.get(node.output[0], TensorProto.FLOAT)
    body.add("Cast", result, result=node.output[0], to=kind)
    yield from body.nodes


def read_numbers(node: onnx.NodeProto) -> dict[str, float]:
    """Return the numeric attributes of a node.

    Quantlib writes numbers as tensors with one element.
    """
    values = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.array(value)
        if array.size == 1 and array.dtype.kind in "if":
            values[attribute.name] = float(array.item())
    return values
