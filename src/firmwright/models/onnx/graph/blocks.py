"""Rewrites quantization with one scale per block of elements along an axis (since opset 21)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from firmwright.ir.small_types import find_limits, is_small_float
from firmwright.ir.tensors import STORED_AS
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes

BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8}
"""Maps the types of weights that PackedProduct reads to numbers of bits."""


def has_blocks(body: NodeBuilder) -> bool:
    return bool(body.attribute("block_size", 0))


def number_blocks(body: NodeBuilder) -> npt.NDArray[np.int64]:
    """Return the number of each element's block along the axis.

    Raises UserError if the shape is unknown, because TVM's converters ignore blocks. Raises
    UserError if the blocks, the scales or the zero points do not fit the shape.
    """
    shape = body.shape(0)
    if shape is None:
        body.refuse(
            "it quantizes in blocks, and its input has no known shape; infer the shapes before the "
            "export"
        )
    axis, block = body.attribute("axis", 1), body.attribute("block_size", 0)
    if block < 0:
        body.refuse_inconsistent(f"its block_size is {block}; expected a positive number")
    numbers: npt.NDArray[np.int64] = np.arange(shape[axis]) // block
    expected = list(shape)
    expected[axis] = -(-shape[axis] // block)
    for role, name in zip(("scales", "zero points"), body.node.input[1:], strict=False):
        lengths = body.walk.shape(name) if name else None
        if lengths is not None and list(lengths) != expected:
            body.refuse_inconsistent(f"its {role} have shape {[*lengths]}; expected {expected}")
    return numbers


def pack_product(body: NodeBuilder) -> Nodes | None:
    """Rewrite a MatMul whose weights are dequantized in blocks, so that the weights remain packed.

    Return None if the weights are not integer constants of up to 8 bits, or if the dequantized type
    is not float32.
    """
    nodes = (n for n in body.walk.source.graph.node if n.op_type == "DequantizeLinear")
    readers = (NodeBuilder(n, body.walk) for n in nodes if body.input(1) in n.output)
    reader = next(filter(has_blocks, readers), None)
    if reader is None or any(n and n not in body.walk.constants for n in reader.node.input):
        return None
    weights, scales, *points = (body.walk.constants[name] for name in reader.node.input if name)
    bits, block = BITS.get(weights.dtype.name, 0), reader.attribute("block_size", 0)
    is_float = scales.dtype == body.dtype(0) == np.float32
    by_depth = weights.ndim == 2 and reader.attribute("axis", 1) in (0, -2)
    if not (bits and is_float and by_depth) or reader.attribute("output_dtype", 1) > 1:
        return None
    number_blocks(reader)
    low = int(find_limits(weights.dtype.name).min)
    zeros = points[0] if points else np.zeros(scales.shape)
    product = body.add(
        "PackedProduct",
        body.input(0),
        body.constant(pack_blocks(weights.astype("int16") - low, bits, block), "uint8"),
        body.constant(scales.T),
        body.constant(zeros.astype("int16").T - low, "uint8"),
        bits=bits,
        block_size=block,
    )
    return body.finish(product)


def pack_blocks(digits: npt.NDArray[Any], bits: int, block: int) -> npt.NDArray[np.uint8]:
    """Return digits (K, N) as bytes (N, blocks, bytes per block).

    The first digit is in the lowest bits.
    """
    depth, columns = digits.shape
    count, per_byte = -(-depth // block), 8 // bits
    filled = np.pad(digits.T, ((0, 0), (0, count * block - depth))).reshape(columns, count, block)
    filled = np.pad(filled, ((0, 0), (0, 0), (0, -block % per_byte)))
    parts = filled.reshape(columns, count, -1, per_byte) << (bits * np.arange(per_byte))
    packed: npt.NDArray[np.uint8] = parts.sum(-1).astype("uint8")
    return packed


def spread(body: NodeBuilder, name: str, positions: str) -> str:
    return body.add("Gather", name, positions, axis=body.attribute("axis", 1))


def rewrite_dequantize(body: NodeBuilder) -> Nodes:
    """Rewrite a DequantizeLinear in blocks as (x - zero point) · scale."""
    positions = body.constant(number_blocks(body), "int64")
    kind, scale = widen_scale(body)
    stored = body.add("Cast", body.input(0), to=kind)
    if len(body.node.input) > 2 and body.input(2):
        point = body.add("Cast", body.input(2), to=kind)
        stored = body.add("Sub", stored, spread(body, point, positions))
    result = body.add("Mul", stored, spread(body, scale, positions))
    to = body.attribute("output_dtype", 0) or kind
    return body.finish(result if to == kind else body.add("Cast", result, to=to))


def widen_scale(body: NodeBuilder) -> tuple[int, str]:
    """Return the type of the computation, and the scale in this type.

    Small float types become float32.
    """
    scale = body.input(1)
    if body.walk.dtype(scale).name in STORED_AS:
        return TensorProto.FLOAT, body.cast(scale, "float32")
    return body.walk.types[scale].tensor_type.elem_type, scale


def rewrite_quantize(body: NodeBuilder) -> Nodes:
    """Rewrite a QuantizeLinear in blocks as clamp(round(x / scale) + zero point).

    For floats of 8 and 4 bits, a cast rounds the values, and the cast also clamps if the node
    saturates.
    """
    positions = body.constant(number_blocks(body), "int64")
    point = body.input(2)
    kind = body.attribute("output_dtype", 0) or TensorProto.UINT8
    if point:
        kind = body.walk.types[point].tensor_type.elem_type
    result_type = helper.tensor_dtype_to_np_dtype(kind).name
    to_float = is_small_float(result_type)
    precision, scale = widen_scale(body)
    data = body.add("Cast", body.input(0), to=precision)
    result = body.add("Div", data, spread(body, scale, positions))
    if not to_float:
        result = body.add("Round", result)
    if point:
        zero = body.cast(point, "float32")
        result = body.cast(result, "float32")
        result = body.add("Add", result, spread(body, zero, positions))
    if to_float:
        saturate = body.attribute("saturate", 1)
        return body.finish(body.add("Cast", result, to=kind, saturate=saturate))
    limits = find_limits(result_type)
    ends = (body.constant(end) for end in (limits.min, limits.max))
    return body.finish(body.add("Cast", body.add("Clip", result, *ends), to=kind))
