"""Rewrites quantization in blocks or with computed parameters as torch's core operators.

The rewritten operators are PT2E's dynamic operators and torchao's operators. torchao need not be
installed. Source: torch.ao.quantization and torchao.quantization.quant_primitives. Integers with
one scale per row remain a ``dequantize_per_channel``, so that weights remain integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.ao.quantization.fx import _decomposed

Number = int | float

PT2E = torch.ops.quantized_decomposed
SCHEMAS = {
    "choose_qparams_affine": (
        "(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, "
        "Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, "
        "ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False)"
        " -> (Tensor, Tensor)"
    ),
    "quantize_affine": (
        "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
        "ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor"
    ),
    "dequantize_affine": (
        "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
        "ScalarType input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, "
        "ScalarType output_dtype=6) -> Tensor"
    ),
}


def find_limits(kind: torch.dtype, low: Number | None, high: Number | None) -> tuple[int, int]:
    limits = torch.iinfo(kind)
    return int(limits.min if low is None else low), int(limits.max if high is None else high)


def choose_qparams(
    x: Tensor, low: int, high: int, eps: float, _: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return PT2E's scale (float64) and zero point (int64) of a tensor, both (1,)."""
    ends = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale, zero = cover_range(*ends, low, high, eps)
    return scale.reshape(1).double(), zero.reshape(1).long()


def choose_symmetric(
    x: Tensor, low: int, high: int, eps: float, kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return PT2E's float64 scale for a range that is symmetric around 0, and a zero point."""
    scale = (x.abs().amax() / ((high - low) / 2)).clamp(min=eps).reshape(1)
    return scale.double(), torch.full((1,), 128 if kind == torch.uint8 else 0)


def cover_range(
    least: Tensor, largest: Tensor, low: int, high: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Return the scale and the zero point that map a range to the limits. The range includes 0."""
    scale = ((largest - least) / float(high - low)).clamp(min=eps)
    return scale, (low - torch.round(least / scale)).clamp(low, high)


def quantize(
    x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, kind: torch.dtype
) -> Tensor:
    """Quantize a tensor. The scale and the zero point have one element."""
    factor = (1.0 / scale.double()).float().reshape(())
    steps = torch.round(x.float() * factor) + zero.float().reshape(())
    return steps.clamp(low, high).to(kind)


def dequantize(
    x: Tensor, scale: Tensor, zero: Tensor, *_: Any, out_dtype: torch.dtype | None = None
) -> Tensor:
    kind = out_dtype or torch.float32
    return (x.to(kind) - zero.to(kind).reshape(())) * scale.to(kind).reshape(())


def split_blocks(shape: Sequence[int], block: Sequence[int]) -> list[int]:
    """Return the shape with each axis split in two: the blocks, and the elements of a block."""
    return [part for n, size in zip(shape, block, strict=True) for part in (n // size, size)]


def choose_affine(  # noqa: PLR0913 (the arguments of the operator)
    x: Tensor,
    mapping_type: str,
    block_size: Sequence[int],
    target_dtype: torch.dtype,
    quant_min: Number | None = None,
    quant_max: Number | None = None,
    eps: float | None = None,
    scale_dtype: torch.dtype | None = None,
    zero_point_dtype: torch.dtype | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return torchao's scale and zero point of each block.

    Axes that are one block are absent, unless the rank is kept. A symmetric zero point without a
    given type is a float.
    """
    low, high = find_limits(target_dtype, quant_min, quant_max)
    eps = torch.finfo(x.dtype).smallest_normal if eps is None else eps
    parts = split_blocks(x.shape, block_size)
    blocks, inner = x.reshape(parts), [*range(1, len(parts), 2)]
    least, largest = blocks.amin(inner).clamp(max=0), blocks.amax(inner).clamp(min=0)
    if mapping_type == "ASYMMETRIC":
        scale, zero = cover_range(least, largest, low, high, eps)
    else:
        if mapping_type == "SYMMETRIC":
            scale = torch.maximum(-least, largest) / (float(high - low) / 2)
        else:
            scale = torch.maximum(least / float(low), largest / float(high))
        scale = scale.clamp(min=eps)
        zero = torch.full_like(scale, int((high + low + 1) / 2))
    axes = zip(x.shape, block_size, strict=True)
    shape = [n // size for n, size in axes if keepdim or size == 1 or n != size]
    whole = torch.int32 if mapping_type == "ASYMMETRIC" else scale.dtype
    kinds = scale_dtype or x.dtype, zero_point_dtype or whole
    return scale.reshape(shape).to(kinds[0]), zero.reshape(shape).to(kinds[1])


def quantize_affine(
    x: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    output_dtype: torch.dtype,
    quant_min: Number | None = None,
    quant_max: Number | None = None,
) -> Tensor:
    low, high = find_limits(output_dtype, quant_min, quant_max)
    parts = split_blocks(x.shape, block_size)
    each = [n if axis % 2 == 0 else 1 for axis, n in enumerate(parts)]
    steps = torch.round(x.reshape(parts) * (1.0 / scale.reshape(each)))
    if zero_point is not None and zero_point.numel():
        steps = steps + zero_point.reshape(each)
    return steps.clamp(low, high).reshape(x.shape).to(output_dtype)


def dequantize_affine(
    x: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    input_dtype: torch.dtype,
    quant_min: Number | None = None,
    quant_max: Number | None = None,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Dequantize blocks as the rows of a matrix.

    Zero points become int32. torchao subtracts zero points as floats, but PT2E subtracts zero
    points as integers.
    """
    parts = split_blocks(x.shape, block_size)
    order = [*range(0, len(parts), 2), *range(1, len(parts), 2)]
    longer = [axis for axis in order if parts[axis] > 1]
    if longer != sorted(longer):
        back = [order.index(axis) for axis in range(len(parts))]
        moved = x.reshape(parts).permute(order)
        sizes = [*[1] * len(block_size), *block_size]
        options = scale, zero_point, input_dtype, quant_min, quant_max, output_dtype
        return dequantize_affine(moved, sizes, *options).permute(back).reshape(x.shape)
    rows = x.reshape(scale.numel(), -1)
    zeros = None if zero_point is None else zero_point.reshape(-1).int()
    limits = find_limits(input_dtype, quant_min, quant_max)
    values = PT2E.dequantize_per_channel(
        rows, scale.reshape(-1), zeros, 0, *limits, x.dtype, out_dtype=output_dtype
    )
    return values.reshape(x.shape)


def dequantize_groups(
    x: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    low: int,
    high: int,
    kind: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> Tensor:
    """Dequantize a matrix with one scale per group of elements in a row."""
    size = min(group_size, x.shape[-1])
    return dequantize_affine(x, (1, size), scales, zeros, kind, low, high, output_dtype)


TORCHAO: dict[str, Callable[..., Any]] = {
    "choose_qparams_affine": choose_affine,
    "quantize_affine": quantize_affine,
    "dequantize_affine": dequantize_affine,
}
LIBRARY = torch.library.Library("torchao", "FRAGMENT")


def define_torchao() -> None:
    """Define the operators of torchao, unless the package torchao has defined them."""
    for name, schema in SCHEMAS.items():
        if not hasattr(torch.ops.torchao, name):
            LIBRARY.define(name + schema)
            LIBRARY.impl(name, TORCHAO[name], "CompositeExplicitAutograd")


def list_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the functions that replace an operator with core operators."""
    torchao = {
        getattr(torch.ops.torchao, name).default: function
        for name, function in TORCHAO.items()
        if hasattr(torch.ops.torchao, name)
    }
    return {**torchao, **OF_PT2E}


OF_PT2E: dict[Any, Callable[..., Any]] = {
    PT2E.choose_qparams.tensor: choose_qparams,
    PT2E.choose_qparams_symmetric.tensor: choose_symmetric,
    PT2E.quantize_per_tensor.tensor: quantize,
    PT2E.quantize_per_tensor.tensor2: quantize,
    PT2E.dequantize_per_tensor.tensor: dequantize,
    PT2E.dequantize_per_tensor.tensor2: dequantize,
    PT2E.choose_qparams_per_token.default: _decomposed.choose_qparams_per_token,
    PT2E.choose_qparams_per_token_asymmetric.default: (
        _decomposed._choose_qparams_per_token_asymmetric_impl
    ),
    PT2E.quantize_per_token.default: _decomposed.quantize_per_token,
    PT2E.dequantize_per_token.default: _decomposed.dequantize_per_token,
    PT2E.dequantize_per_channel_group.default: dequantize_groups,
}
