"""Imports PT2E's dynamic quantization: scales are computed from the values, as torch rounds.

A scale is float64 and a zero point int64, both with one element. Factors are rounded to float32,
the type of the data. Source: _decomposed.py and utils.py of torch.ao.quantization.
"""

from __future__ import annotations

import torch
from tvm import relax
from tvm.relax import Expr, op

from firmwright.models.pytorch.indexing import Convert, Importer

FLOAT = "float32"


def number(value: float, dtype: str = FLOAT) -> Expr:
    return relax.const(value, dtype)


def choose(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``choose_qparams(x, lowest, highest, eps, type)``: a scale and a zero point.

    The symmetric form has the same range on both sides of 0. The scale is float64, the zero point
    int64, both of shape (1,). As in torch, they are computed from float32 values.
    """
    x, lowest, highest, eps, _ = node.args
    emit = importer.block_builder.emit
    data = emit(op.astype(importer.env[x], FLOAT))
    low = emit(op.minimum(op.min(data), number(0)))
    high = emit(op.maximum(op.max(data), number(0)))
    if "symmetric" in node.target.__name__:
        largest = emit(op.maximum(op.negative(low), high))
        scale = op.divide(largest, number((highest - lowest) / 2))
        scale = emit(op.maximum(scale, number(eps)))
        zero = number(128 if lowest >= 0 else 0, "int64")
    else:
        scale = op.divide(op.subtract(high, low), number(highest - lowest))
        scale = emit(op.maximum(scale, number(eps)))
        shift = op.round(op.divide(low, scale))
        zero = emit(op.clip(op.subtract(number(lowest), shift), lowest, highest))
    scale = emit(op.reshape(op.astype(scale, "float64"), (1,)))
    zero = emit(op.reshape(op.astype(zero, "int64"), (1,)))
    return emit(relax.Tuple([scale, zero]))


def quantize(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``quantize_per_tensor(x, scale, zero point, lowest, highest, type)`` of tensors."""
    x, scale, zero_point, lowest, highest, kind = node.args
    env, emit = importer.env, importer.block_builder.emit
    inverse = op.divide(number(1, "float64"), op.astype(env[scale], "float64"))
    factor = emit(op.astype(inverse, FLOAT))
    steps = op.round(op.multiply(op.astype(env[x], FLOAT), factor))
    steps = emit(op.add(steps, op.astype(env[zero_point], FLOAT)))
    return emit(op.astype(op.clip(steps, lowest, highest), name_type(kind)))


def dequantize(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``dequantize_per_tensor(x, scale, zero point, …)`` of tensors."""
    x, scale, zero_point = node.args[:3]
    env, emit = importer.env, importer.block_builder.emit
    dtype = name_type(node.meta["val"].dtype)
    centered = op.subtract(op.astype(env[x], dtype), op.astype(env[zero_point], dtype))
    return emit(op.multiply(centered, op.astype(env[scale], dtype)))


def name_type(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


DYNAMIC_QUANTIZATION: dict[str, Convert] = {
    "choose_qparams.tensor": choose,
    "choose_qparams_symmetric.tensor": choose,
    **dict.fromkeys(("quantize_per_tensor.tensor", "quantize_per_tensor.tensor2"), quantize),
    **dict.fromkeys(("dequantize_per_tensor.tensor", "dequantize_per_tensor.tensor2"), dequantize),
}
"""The converters by operator."""
