"""Stores types of 8 bits or less in bytes, if C99 does not have these types.

Operators that move elements also move bytes. :data:`WRITERS` contains the operators that compute
with small types. :mod:`firmwright.ir.small_types` defines the stored form of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from firmwright.ir.small_types import (
    count_bits,
    find_limits,
    is_small_float,
    is_small_integer,
    to_bytes,
)
from firmwright.ir.tensors import STORED_AS
from firmwright.models.onnx.graph.body import along_axis
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Specializer


def store_in_bytes(walk: Specializer) -> None:
    if not any(walk.dtype(name).name in STORED_AS for name in walk.types):
        return
    walk.nodes = [new for node in walk.nodes for new in rewrite(node, walk)]
    walk.constants = {name: to_bytes(array) for name, array in walk.constants.items()}
    for name in walk.types:
        element = to_stored_element(walk.types[name].tensor_type.elem_type)
        walk.types[name].tensor_type.elem_type = element


def rewrite(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    names = [n for n in (*node.input[:3], *node.output[:1]) if n]
    small = any(walk.dtype(name).name in STORED_AS for name in names)
    if small and node.op_type in WRITERS:
        return WRITERS[node.op_type](Writer(node, walk))
    for attribute in node.attribute:
        if attribute.HasField("t"):
            array = numpy_helper.to_array(attribute.t)
            if array.dtype.name in STORED_AS:
                attribute.t.CopyFrom(numpy_helper.from_array(to_bytes(array), attribute.t.name))
    return [node]


def to_stored_element(element: int) -> int:
    if not element:
        return element
    dtype = helper.tensor_dtype_to_np_dtype(element).name
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(STORED_AS.get(dtype, dtype))))


class Writer(NodeBuilder):
    """A builder of the nodes that replace one node.

    ``source`` is the type of the operand, and ``target`` is the type of the result. The arguments
    and results of :meth:`decode` and :meth:`encode` are names of tensors.
    """

    def __init__(self, node: onnx.NodeProto, walk: Specializer) -> None:
        super().__init__(node, walk)
        self.source = self.dtype(0).name
        self.target = walk.dtype(node.output[0]).name

    def decode(self, name: str) -> str:
        """Convert small floats to float32. Other numbers remain unchanged."""
        dtype = self.walk.dtype(name).name
        if not is_small_float(dtype):
            return name
        if name in self.walk.constants:
            return self.constant(self.walk.constants[name].astype("float32"), "float32")
        return self.add("CodeToFloat", name, kind=dtype)

    def encode(self, name: str, dtype: str) -> str:
        """Convert numbers of type ``dtype`` to the stored form of the result's type."""
        if is_small_float(self.target):
            settings = {n: self.attribute(n, d) for n, d in CAST_DEFAULTS.items()}
            return self.add("FloatToCode", name, kind=self.target, **settings)
        if not is_small_integer(self.target):
            return self.cast(name, self.target)
        if "float" in dtype:
            name = self.cast(name, "int32")
        return self.extend(self.cast(name, "uint8"))

    def extend(self, bits: str) -> str:
        """Return integers of the result's type from the low bits of bytes."""
        count = count_bits(self.target)
        low = self.add("BitwiseAnd", bits, self.constant(2**count - 1, "uint8"))
        if self.target.startswith("uint"):
            return low
        sign = 2 ** (count - 1)
        flipped = self.add("BitwiseXor", low, self.constant(sign, "uint8"))
        return self.add("Sub", self.cast(flipped, "int8"), self.constant(sign, "int8"))

    def along(self, name: str) -> str:
        """Reshape scales or zero points to align the elements with the axis of the channels."""
        shape = self.shape(0)
        if self.walk.shape(name) in ((), (1,)) or shape is None:
            return name
        axis = self.attribute("axis", 1) % len(shape)
        return self.reshape(name, along_axis(axis, len(shape)))

    def find_precision(self) -> str:
        """Return the type in which a QuantizeLinear divides.

        The default is the type of the scale.
        """
        stated = self.attribute("precision", 0)
        if stated:
            return str(helper.tensor_dtype_to_np_dtype(stated).name)
        scale = self.walk.dtype(self.input(1)).name
        return "float32" if is_small_float(scale) else scale

    def zero_point(self) -> str:
        """Return the zero point as a float. Return an empty name if the zero point is 0."""
        name = self.input(2)
        known = self.walk.constants.get(name)
        if not name or (known is not None and not known.astype("float32").any()):
            return ""
        return self.along(self.cast(self.decode(name), "float32"))


CAST_DEFAULTS: dict[str, Any] = {"saturate": 1, "round_mode": "up"}


def write_cast(body: Writer) -> Nodes:
    """Cast according to ONNX's table.

    Small floats saturate by default, and integers lose upper bits.
    """
    return body.finish(body.encode(body.decode(body.input(0)), body.source))


def write_bit_cast(body: Writer) -> Nodes:
    bits = body.cast(body.input(0), "uint8")
    if count_bits_of_any(body.target) < 8:
        return body.finish(
            body.extend(bits)
            if is_small_integer(body.target)
            else body.add("BitwiseAnd", bits, body.constant(15, "uint8"))
        )
    return body.finish(body.cast(bits, STORED_AS.get(body.target, body.target)))


def count_bits_of_any(dtype: str) -> int:
    return count_bits(dtype) if dtype in STORED_AS else np.dtype(dtype).itemsize * 8


def write_dequantize(body: Writer) -> Nodes:
    """Dequantize in float32.

    Integers are dequantized like 8-bit integers, and floats according to ONNX's definition.
    """
    scale = body.input(1)
    if is_small_integer(body.source) and not is_small_float(body.walk.dtype(scale).name):
        return [body.node]
    data = body.cast(body.decode(body.input(0)), "float32")
    point = body.zero_point()
    if point:
        data = body.add("Sub", data, point)
    factor = body.along(body.cast(body.decode(scale), "float32"))
    return body.finish(body.cast(body.add("Mul", data, factor), body.target))


def write_quantize(body: Writer) -> Nodes:
    """Quantize to clipped integers, or to floats according to ONNX's definition."""
    data, scale = body.node.input[:2]
    if not is_small_float(body.target):
        stored = STORED_AS[body.target]
        point = body.input(2) or body.constant(0, stored)
        settings = {"axis": body.attribute("axis", 1)}
        result = body.add("QuantizeLinear", data, body.decode(scale), point, **settings)
        limits = find_limits(body.target)
        low, high = (body.constant(end, stored) for end in (limits.min, limits.max))
        return body.finish(body.add("Min", body.add("Max", result, low), high))
    precision = body.find_precision()
    divisor = body.along(body.cast(body.decode(scale), precision))
    result = body.add("Div", body.cast(data, precision), divisor)
    point = body.zero_point()
    if point:
        result = body.add("Add", body.cast(result, "float32"), point)
    return body.finish(body.encode(result, "float32"))


WRITERS: dict[str, Callable[[Writer], Nodes]] = {
    "BitCast": write_bit_cast,
    "Cast": write_cast,
    "DequantizeLinear": write_dequantize,
    "QuantizeLinear": write_quantize,
}
