"""Replaces QONNX's quantizers, which Brevitas and QKeras export, with ONNX's operators.

Source: the custom operators of github.com/fastmachinelearning/qonnx. A quantizer becomes
QuantizeLinear, Clip and DequantizeLinear if these operators compute equal results. Then the layers
compute on integers. Other quantizers become arithmetic on floats according to QONNX's definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.domains import MICROSOFT_DOMAIN, get_opset
from firmwright.models.onnx.graph.body import Body, refuse, replace_nodes

Array = npt.NDArray[Any]

DOMAINS = ("onnx.brevitas", "qonnx.custom_op.general", "finn.custom_op.general")
OPERATORS = ("BipolarQuant", "IntQuant", "Quant", "Trunc")
ROUNDINGS = {"ROUND": "Round", "HALF_EVEN": "Round", "CEIL": "Ceil", "FLOOR": "Floor"}
MAGNITUDES = {"UP": ("Ceil", 0.0), "DOWN": ("Floor", 0.0), "HALF_UP": ("Floor", 0.5),
              "HALF_DOWN": ("Ceil", -0.5)}  # fmt: skip
"""The roundings of magnitudes: an operator, and the number that is added before."""

LARGEST_WIDTH = 32
INTEGER_OPSET = 13
"""The first opset with quantization per axis."""

CHANGED = frozenset("Dropout Hardmax LogSoftmax ReduceSum Softmax Split Squeeze Unsqueeze".split())
"""Operators whose forms in opset 11 and in opset 13 differ."""


class Quantizer(Body):
    def __init__(
        self, node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], opset: int
    ) -> None:
        super().__init__(node, opset)
        self.data, *names = node.input
        unknown = [name for name in names if name not in constants]
        if unknown:
            refuse(node, f"its parameter '{unknown[0]}' is not a constant; export it as a constant")
        try:
            self.parameters = [numpy_helper.to_array(constants[name]) for name in names]
        except (KeyError, TypeError, ValueError):
            refuse(node, "a parameter is damaged; export the model again")
        self.is_integer = False

    def find_limits(self, bits: int, signed: bool) -> tuple[int, int]:
        narrow = bool(self.attribute("narrow", 0))
        if signed:
            return narrow - 2 ** (bits - 1), 2 ** (bits - 1) - 1
        return 0, 2**bits - 1 - narrow

    def read_width(self, widths: Array) -> int:
        """Return the number of bits of a quantizer.

        Raises UserError if there are several numbers, or if the number is not supported.
        """
        if widths.size != 1 or not 1 <= widths.item() <= LARGEST_WIDTH or widths.item() % 1:
            wanted = f"one width, a whole number from 1 to {LARGEST_WIDTH}"
            self.refuse(f"its bit width is {widths.tolist()}; export it with {wanted}")
        return int(widths.item())

    def round(self, value: str, default: str) -> str:
        mode = str(self.attribute("rounding_mode", default)).upper()
        if mode in MAGNITUDES:
            operator, moved = MAGNITUDES[mode]
            size = self.add(operator, self.add("Add", self.add("Abs", value), self.constant(moved)))
            return self.add("Mul", size, self.add("Sign", value))
        if mode not in ROUNDINGS:
            known = ", ".join((*ROUNDINGS, *MAGNITUDES))
            self.refuse(f"its rounding_mode is {mode}; export it with one of {known}")
        return self.add(ROUNDINGS[mode], value)

    def scale_back(self, value: str, scale: Array, zero: Array) -> None:
        if zero.any():
            value = self.add("Sub", value, self.constant(zero))
        self.add("Mul", value, self.constant(scale), result=self.node.output[0])

    def clamp(self, value: str, limits: tuple[int, int]) -> str:
        low, high = (self.constant(limit) for limit in limits)
        return self.add("Min", self.add("Max", value, low), high)

    def dequantize(self, value: str, scale: Array, zero: Array, domain: str = "") -> None:
        params, axis = self.params(scale, zero)
        result = self.node.output[0]
        self.add("DequantizeLinear", value, *params, result=result, domain=domain, **axis)
        self.is_integer = True

    def params(self, scale: Array, zero: Array) -> tuple[list[str], dict[str, Any]]:
        """Append scales and zero points.

        Return their names, and the axis along which the values differ.
        """
        axis: dict[str, Any] = {}
        if scale.size > 1:
            axis = {"axis": int(np.argmax(scale.shape)) - scale.ndim}
        shape = (-1,) if scale.size > 1 else ()
        zero = zero.reshape(()) if zero.size == 1 else zero
        zeros = np.broadcast_to(zero, scale.shape).reshape(shape)
        return [self.constant(scale.reshape(shape)), self.constant(zeros, zero.dtype)], axis


def quantize_bipolar(body: Quantizer) -> None:
    """Append the sign of the data times the scale. The sign of zero is positive."""
    scale = body.parameters[0]
    below = body.add("Less", body.data, body.constant(0))
    signs = (body.constant(sign, "int8") for sign in (-1, 1))
    value = body.add("Where", below, *signs)
    if has_params(scale) and body.opset >= INTEGER_OPSET:
        body.dequantize(value, scale, np.zeros((), "int8"))
    else:
        value = body.add("Cast", value, to=TensorProto.FLOAT)
        body.scale_back(value, scale, np.zeros(()))


def quantize(body: Quantizer) -> None:
    """Append (clip(round(x / scale + zero)) - zero) · scale."""
    scale, zero, widths = body.parameters
    bits, signed = body.read_width(widths), bool(body.attribute("signed", 1))
    if bits == 1 and signed:
        if zero.any() or (scale <= 0).any():
            problem = "it has 1 bit, and a zero point or a scale that is not positive"
            body.refuse(f"{problem}; export it with zero point 0 and positive scales")
        quantize_bipolar(body)
        return
    limits = body.find_limits(bits, signed)
    mode = ROUNDINGS.get(str(body.attribute("rounding_mode", "ROUND")).upper())
    # An odd zero point changes the direction in which halves are rounded.
    is_even = not (zero % 2).any() and (zero >= limits[0]).all() and (zero <= limits[1]).all()
    has_form = (
        bits <= 16 and body.opset >= INTEGER_OPSET and (zero.size == 1 or zero.shape == scale.shape)
    )
    if mode == "Round" and is_even and has_params(scale) and has_form:
        quantize_integers(body, bits, signed, limits)
        return
    value = body.add("Div", body.data, body.constant(scale))
    if zero.any():
        value = body.add("Add", value, body.constant(zero))
    body.scale_back(body.round(body.clamp(value, limits), "ROUND"), scale, zero)


def quantize_integers(body: Quantizer, bits: int, signed: bool, limits: tuple[int, int]) -> None:
    """Append QuantizeLinear, Clip and DequantizeLinear. ONNX Runtime has no Clip of 16 bits."""
    scale, zero, _ = body.parameters
    dtype = np.dtype(f"{'' if signed else 'u'}int{8 if bits <= 8 else 16}")
    domain = MICROSOFT_DOMAIN if dtype.itemsize == 2 and body.opset < 21 else ""
    whole = limits == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    data = body.data
    if not whole and dtype.itemsize == 2:
        ends = ((limit - zero) * scale for limit in limits)
        low, high = (body.constant(end) for end in ends)
        data = body.add("Min", body.add("Max", data, low), high)
    params, axis = body.params(scale, zero.astype(dtype))
    value = body.add("QuantizeLinear", data, *params, domain=domain, **axis)
    if not whole and dtype.itemsize == 1:
        value = body.add("Clip", value, *(body.constant(limit, dtype) for limit in limits))
    body.dequantize(value, scale, zero.astype(dtype), domain)


def truncate(body: Quantizer) -> None:
    """Append the integers without the last bits.

    Later versions state the result's scale and width.
    """
    scale, zero, bits, *rest = body.parameters
    body.read_width(bits)
    value = body.add("Div", body.data, body.constant(scale))
    if zero.any():
        value = body.add("Add", value, body.constant(zero))
    value = body.add("Round", value)
    if len(rest) == 1:
        exponent, result = bits - rest[0], scale
    else:
        exponent, result = np.log2(rest[0] / scale), rest[0]
    part = np.exp2(np.round(exponent))
    if len(rest) == 2:
        zero = zero / part
    value = body.add("Div", value, body.constant(part))
    if len(rest) == 2:
        signed = bool(body.attribute("signed", 1))
        value = body.clamp(value, body.find_limits(body.read_width(rest[1]), signed))
    body.scale_back(body.round(value, "FLOOR"), result, zero)


def has_params(scale: Array) -> bool:
    """Return whether scales are positive and differ along at most one axis."""
    return bool((scale > 0).all()) and sum(length > 1 for length in scale.shape) <= 1


EXPANSIONS = {
    "BipolarQuant": (quantize_bipolar, (2,)),
    "IntQuant": (quantize, (4,)),
    "Quant": (quantize, (4,)),
    "Trunc": (truncate, (5, 6)),
}
"""The function of each operator, and its possible numbers of inputs."""


def expand_quantizers(model: onnx.ModelProto) -> tuple[str, ...]:
    """Replace QONNX's quantizers of a model.

    The returned note lists the quantizers that compute on floats. Raises UserError if parameters
    are not constants, or if a rounding is unknown.
    """
    graph = model.graph
    if not any(is_quantizer(node) for node in graph.node):
        return ()
    raise_opset(model)
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant" and node.output
        for attribute in node.attribute
        if attribute.name == "value"
    }
    nodes, on_floats = [], []
    for node in graph.node:
        if not is_quantizer(node):
            nodes.append(node)
            continue
        body = Quantizer(node, constants, get_opset(model))
        expand, counts = EXPANSIONS[node.op_type]
        if len(node.input) not in counts:
            expected = " or ".join(map(str, counts))
            refuse(node, f"it has {len(node.input)} inputs; expected {expected}: export it again")
        expand(body)
        nodes += body.nodes
        if not body.is_integer:
            on_floats.append(node.name or node.output[0])
    replace_nodes(graph, nodes)
    if all(o.domain != MICROSOFT_DOMAIN for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid(MICROSOFT_DOMAIN, 1))
    if not on_floats:
        return ()
    return (f"quantizers that compute on floats, not on integers: {', '.join(on_floats)}",)


def is_quantizer(node: onnx.NodeProto) -> bool:
    is_whole = bool(node.input) and bool(node.output)
    return node.domain in DOMAINS and node.op_type in OPERATORS and is_whole


def raise_opset(model: onnx.ModelProto) -> None:
    """Set opset 13 for a model of opset 11 or 12, if the operators of both opsets are equal."""
    nodes = model.graph.node
    has_bodies = any(a.HasField("g") or a.graphs for n in nodes for a in n.attribute)
    is_changed = any(n.op_type in CHANGED for n in nodes) or has_bodies or model.functions
    if get_opset(model) in (11, 12) and not is_changed:
        entry = next(o for o in model.opset_import if o.domain in ("", "ai.onnx"))
        entry.version = INTEGER_OPSET
