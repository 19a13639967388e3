"""Imports quantized operators, and keeps the integers of weights as integers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from tvm import relax
from tvm.relax import Expr, op

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.pytorch.nodes import Importer

Array = npt.NDArray[Any]


class ConstantImporter(Importer, Protocol):
    """An importer that also contains the stored tensors."""

    stored: Mapping[str, torch.Tensor]
    numbers: Mapping[torch.fx.Node, torch.Tensor]
    fixed: Collection[torch.fx.Node]


def find_constant(importer: ConstantImporter, node: torch.fx.Node) -> torch.Tensor | None:
    """Return the tensor that a node computes from stored tensors.

    Return None if the node reads inputs.
    """
    if node not in importer.fixed:
        return None
    if node.op == "placeholder":
        return importer.stored[node.name]
    if node in importer.numbers:
        return importer.numbers[node]
    sources = {source: find_constant(importer, source) for source in node.all_input_nodes}
    if any(value is None for value in sources.values()):
        return None
    args, options = torch.fx.map_arg((node.args, node.kwargs), sources.__getitem__)
    result = node.target(*args, **options)
    return result if isinstance(result, torch.Tensor) else None


def name_type(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def quantize(importer: ConstantImporter, node: torch.fx.Node) -> Expr:
    """Import ``quantize_per_tensor(x, scale, zero point, lowest, highest, type)``."""
    scale, zero_point = node.args[1:3]
    params = relax.const(scale, "float32"), relax.const(zero_point, "int32")
    return quantize_along(importer, node, params, -1)


def quantize_per_channel(importer: ConstantImporter, node: torch.fx.Node) -> Expr:
    """Import ``quantize_per_channel(x, scales, zero points, axis, lowest, highest, type)``."""
    params = find_parameters(importer, *node.args[1:3])
    if params is None:
        raise ValueError(
            "its scales per channel depend on an input; export the model with constant scales"
        )
    return quantize_along(importer, node, params, node.args[3])


def quantize_along(
    importer: ConstantImporter, node: torch.fx.Node, params: tuple[Expr, Expr], axis: int
) -> Expr:
    """Quantize the first argument along an axis. The last arguments are the limits and the type."""
    *_, lowest, highest, kind = node.args
    dtype = name_type(kind)
    known = find_constant(importer, node)
    if known is not None:
        return relax.const(known.numpy(), dtype)
    emit = importer.block_builder.emit
    stored = emit(op.quantize(importer.env[node.args[0]], *params, axis, dtype))
    limits = np.iinfo(dtype)
    if (lowest, highest) == (limits.min, limits.max):
        return stored
    return emit(op.clip(stored, lowest, highest))


def find_parameters(
    importer: ConstantImporter, scales: torch.fx.Node, zero_points: torch.fx.Node | None
) -> tuple[Expr, Expr] | None:
    """Return constant scales and zero points per channel.

    Return None if the scales or zero points depend on inputs.
    """
    scale = find_constant(importer, scales)
    zeros = None if zero_points is None else find_constant(importer, zero_points)
    if scale is None or (zeros is None) != (zero_points is None):
        return None
    points = np.zeros(len(scale)) if zeros is None else zeros.numpy()
    return (
        relax.const(scale.float().numpy(), "float32"),
        relax.const(points.astype("int32"), "int32"),
    )


def dequantize(importer: ConstantImporter, node: torch.fx.Node) -> Expr:
    """Import ``dequantize_per_tensor(x, scale, zero point, lowest, highest, type)``."""
    x, scale, zero_point = node.args[:3]
    params = relax.const(scale, "float32"), relax.const(zero_point, "int32")
    return convert(importer, node, op.dequantize(importer.env[x], *params, -1))


def dequantize_per_channel(importer: ConstantImporter, node: torch.fx.Node) -> Expr:
    """Import ``dequantize_per_channel(x, scales, zero points, axis, …)``."""
    x, scales, zero_points, axis = node.args[:4]
    params = find_parameters(importer, scales, zero_points)
    data, env, emit = importer.env[x], importer.env, importer.block_builder.emit
    if params is not None:
        return convert(importer, node, op.dequantize(data, *params, axis))
    kind = dtype_of(env[scales])
    shape = [n if i == axis else 1 for i, n in enumerate(static_shape(data))]

    def spread(value: Expr) -> Expr:
        return emit(op.reshape(op.astype(value, kind), shape))

    steps = emit(op.astype(data, kind))
    if zero_points is not None:
        steps = emit(op.subtract(steps, spread(env[zero_points])))
    return convert(importer, node, op.multiply(steps, spread(env[scales])))


def convert(importer: ConstantImporter, node: torch.fx.Node, value: Expr) -> Expr:
    emit, kind = importer.block_builder.emit, name_type(node.meta["val"].dtype)
    result = emit(value)
    return result if dtype_of(result) == kind else emit(op.astype(result, kind))


def multiply_integers(importer: ConstantImporter, node: torch.fx.Node) -> Expr:
    """Import ``_int_mm(a, b)``, the product of int8 matrices with sums in int32."""
    operands = (importer.env[a] for a in node.args)
    return importer.block_builder.emit(op.matmul(*operands, out_dtype="int32"))


def convert_stored(importer: ConstantImporter, node: torch.fx.Node) -> Expr:
    """Import ``_to_copy(x, dtype)``. Stored 8-bit integers are dequantized at each read.

    A plain conversion of a constant stores floats, which need four times the memory.
    """
    x, emit = importer.env[node.args[0]], importer.block_builder.emit
    kind = name_type(node.meta["val"].dtype)
    stored = find_constant(importer, node.args[0])
    if kind == "float32" and stored is not None and stored.dtype in (torch.int8, torch.uint8):
        return emit(op.dequantize(x, relax.const(1.0), relax.const(0), -1))
    return x if dtype_of(x) == kind else emit(op.astype(x, kind))


QUANTIZED: dict[str, Any] = {
    "quantize_per_tensor.default": quantize,
    "quantize_per_channel.default": quantize_per_channel,
    "dequantize_per_tensor.default": dequantize,
    "dequantize_per_channel.default": dequantize_per_channel,
    "_int_mm.default": multiply_integers,
    "_to_copy.default": convert_stored,
}
