"""Defines operators of torch with core operators, if torch and TVM do not define the operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from firmwright.models.pytorch.linear_algebra import LINEAR_ALGEBRA
from firmwright.models.pytorch.orders import ORDERS

ATEN = torch.ops.aten
PT2E = torch.ops.quantized_decomposed

STIRLING = (1 / 12, -1 / 360, 1 / 1260)
"""The coefficients of 1/x, 1/x³ and 1/x⁵ in the series of the gamma function's logarithm."""

SHIFT = 6
"""The gamma function's logarithm of numbers below 7 uses the series at x + 6."""

CENTRAL = (
    (0.886226899, -1.645349621, 0.914624893, -0.140543331),
    (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801),
)
TAIL = (
    (-1.970840454, -1.624906493, 3.429567803, 1.641345311),
    (1.0, 3.543889200, 1.637067800),
)
"""The polynomials of the inverse error function according to P. Acklam's method, as in torch."""

COMPLEMENT = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
    1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
"""A polynomial for erfc with a relative error of 1.2e-7.

Source: W. Press et al., Numerical Recipes.
"""


def in_float32(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function that computes integers and 16-bit floats in float32."""

    def compute(x: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        return function(wide).to(torch.result_type(x, 1.0))

    return compute


def mean_and_variance(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    axes = [*range(x.dim())] if not dim else [*dim]
    variance = ATEN.var.correction(x, axes, correction=correction, keepdim=keepdim)
    return variance, x.mean(axes, keepdim)


def compute_hypotenuse(x: Tensor, y: Tensor) -> Tensor:
    """Return √(x² + y²), computed from the ratio of both numbers, because a square may overflow.

    The result is infinite if one operand is infinite. Otherwise the result is NaN if one operand is
    NaN. On firmware, the maximum of a number and NaN may be the number.
    """
    longer, shorter = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = shorter / torch.where(longer == 0, 1.0, longer)
    hypotenuse = longer * torch.sqrt(1 + ratio * ratio)
    hypotenuse = torch.where(torch.isnan(x) | torch.isnan(y), torch.nan, hypotenuse)
    return torch.where((x.abs() == torch.inf) | (y.abs() == torch.inf), torch.inf, hypotenuse)


def has_sign(x: Tensor) -> Tensor:
    """Return whether a number is negative, including the negative zero of floats."""
    return (x < 0) | (1 / x < 0) if x.is_floating_point() else x < 0


def copy_sign(x: Tensor, y: Tensor | float) -> Tensor:
    kind = torch.result_type(x, y)
    size = x.to(kind if kind.is_floating_point else torch.get_default_dtype()).abs()
    if isinstance(y, Tensor):
        return torch.where(has_sign(y), -size, size)
    return -size if math.copysign(1, y) < 0 else size


def evaluate_polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def invert_error_function(x: Tensor) -> Tensor:
    """Return the inverse of ``erf``, from a quotient of polynomials and two Newton steps."""
    size = x.abs()
    square = x * x
    inner = x * evaluate_polynomial(square, CENTRAL[0]) / evaluate_polynomial(square, CENTRAL[1])
    inside = torch.where(size < 1, size, 0.0)
    root = torch.sqrt(-torch.log((1 - inside) / 2))
    outer = evaluate_polynomial(root, TAIL[0]) / evaluate_polynomial(root, TAIL[1])
    estimate = torch.where(size <= 0.7, inner, torch.where(x < 0, -outer, outer))
    for _ in range(2):
        slope = 2 / math.sqrt(math.pi) * torch.exp(-estimate * estimate)
        estimate = estimate - (torch.erf(estimate) - x) / slope
    end = torch.where(size == 1, x * torch.inf, torch.nan)
    return torch.where(size < 1, estimate, end)


def complement_error_function(x: Tensor) -> Tensor:
    """Return 1 - erf(x), or a polynomial if the difference is imprecise."""
    size = x.abs()
    ratio = 1 / (1 + size / 2)
    tail = ratio * torch.exp(evaluate_polynomial(ratio, COMPLEMENT) - size * size)
    return torch.where(x < 1, 1 - torch.erf(x), tail)


def scale_complement(x: Tensor) -> Tensor:
    """Return exp(x²) · erfc(x), whose factors overflow and vanish for large x."""
    ratio = 1 / (1 + x.abs() / 2)
    tail = ratio * torch.exp(evaluate_polynomial(ratio, COMPLEMENT))
    small = torch.clamp(x, max=1.0)
    return torch.where(x < 1, torch.exp(small * small) * (1 - torch.erf(small)), tail)


def find_angle(x: Tensor) -> Any:
    """Return the angle of real numbers. ``complex_numbers`` converts complex numbers."""
    if x.is_complex():
        return NotImplemented
    angle = (x < 0).to(torch.result_type(x, 1.0)) * math.pi
    return torch.where(torch.isnan(x), torch.nan, angle) if x.is_floating_point() else angle


def compute_log_gamma(x: Tensor) -> Tensor:
    """Return the logarithm of the absolute gamma function, according to Stirling's series."""
    reflected = x < 0.5
    y = torch.where(reflected, 1 - x, x)
    is_small = y < SHIFT + 1
    small = torch.where(is_small, y, 1.0)
    product = small
    for step in range(1, SHIFT):
        product = product * (small + step)
    z = torch.where(is_small, y + SHIFT, y)
    inverse = 1 / z
    series = inverse * evaluate_polynomial(inverse * inverse, STIRLING)
    result = (z - 0.5) * (torch.log(z) - 1) + (math.log(2 * math.pi) / 2 - 0.5) + series
    result = torch.where(is_small, result - torch.log(product), result)
    sine = torch.sin(math.pi * (x - torch.round(x))).abs()
    whole = torch.where(
        x == torch.floor(x), torch.inf, math.log(math.pi) - torch.log(sine) - result
    )
    return torch.where(reflected, whole, result)


def leak_by_mean(
    x: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    _: torch.Generator | None = None,
) -> Any:
    """Return the RReLU for inference, whose slope is the mean of its limits."""
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise


def multiply_three(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    axes_of_a: Sequence[int],
    axes_of_b: Sequence[int],
    axes_of_c: Sequence[int],
    summed: Sequence[int],
    _: int = 1,
) -> Tensor:
    """Return the sum of products of three tensors with additional axes of length 1."""
    for axis in axes_of_a:
        a = a.unsqueeze(axis)
    for axis in axes_of_b:
        b = b.unsqueeze(axis)
    for axis in axes_of_c:
        c = c.unsqueeze(axis)
    return (a * b * c).sum(list(summed))


def add_product(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return x plus the product of a matrix and a vector, or plus the sum of matrix products.

    If beta is 0, the result does not depend on x.
    """
    product = a @ b if b.dim() == 1 else (a @ b).sum(0, dtype=a.dtype)
    return x * beta + product * alpha if beta else product * alpha


def count_nonzeros(
    x: Tensor,
    p: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """Return the norm of order 0, because only other norms are core operators."""
    if p != 0:
        return NotImplemented
    return (x != 0).to(dtype or x.dtype).sum(dim, keepdim)


def measure_distances(x: Tensor, y: Tensor, p: float, _: int | None = None) -> Tensor:
    """Return the distance between each row of x, (…, n, d), and each row of y, (…, m, d)."""
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def measure_pairs(x: Tensor, p: float = 2) -> Tensor:
    """Return the distance between each row of x, (n, d), and each later row."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return torch.linalg.vector_norm(x[first] - x[second], p, -1)


def scatter_to_mask(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Replace the masked elements with the first elements of the source, in order."""
    x, mask = torch.broadcast_tensors(x, mask)
    position = mask.reshape(-1).long().cumsum(0) - 1
    position = position.clamp(0, source.numel() - 1)
    return torch.where(mask, source.reshape(-1)[position].reshape(x.shape), x)


def combine_bags(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    _by_frequency: bool = False,
    mode: int = 0,
    _sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the sum (mode 0), mean (1) or maximum (2) of the rows of each bag.

    A bag contains the indices from one offset to the next offset. Only the first result is defined.
    """
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    position = torch.arange(indices.shape[0])
    begin = offsets[:-1] if include_last_offset else offsets
    end = torch.cat([begin[1:], torch.full((1,), indices.shape[0], dtype=begin.dtype)])
    inside = (position >= begin.unsqueeze(1)) & (position < end.unsqueeze(1))
    if padding_idx >= 0:
        inside = inside & (indices != padding_idx)
    count = inside.sum(1, keepdim=True)
    if mode == 2:
        lowest = torch.where(inside.unsqueeze(2), rows, -torch.inf).amax(1)
        result = torch.where(count == 0, 0.0, lowest)
    else:
        result = inside.to(rows.dtype) @ rows
        result = result / count.clamp(min=1) if mode == 1 else result
    return result, indices, count.squeeze(1), begin


def fake_quantize(
    x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> Tensor:
    """Quantize and dequantize in the form that PT2E writes after its conversion."""
    settings = scale, zero_point, quant_min, quant_max, choose_storage(quant_min, quant_max)
    return PT2E.dequantize_per_tensor(PT2E.quantize_per_tensor(x, *settings), *settings)


def fake_quantize_channels(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    kind = choose_storage(quant_min, quant_max)
    settings = scale, zero_point, axis, quant_min, quant_max, kind
    return PT2E.dequantize_per_channel(PT2E.quantize_per_channel(x, *settings), *settings)


def choose_storage(low: int, high: int) -> torch.dtype:
    kinds = (torch.int8, torch.uint8, torch.int16, torch.int32)
    return next(k for k in kinds if torch.iinfo(k).min <= low and high <= torch.iinfo(k).max)


def scatter_to_diagonal(
    x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    positions = torch.arange(x.numel()).reshape(x.shape).diagonal(offset, dim1, dim2)
    return x.reshape(-1).index_put([positions.reshape(-1)], source.reshape(-1)).reshape(x.shape)


def reduce_by_index(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    lengths = [-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    positions = index.long().reshape(lengths).expand(source.shape)
    return x.scatter_reduce(dim, positions, source, reduce, include_self=include_self)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **LINEAR_ALGEBRA,
    **ORDERS,
    ATEN.var_mean.correction: mean_and_variance,
    ATEN.hypot.default: compute_hypotenuse,
    ATEN.signbit.default: has_sign,
    ATEN.copysign.Tensor: copy_sign,
    ATEN.copysign.Scalar: copy_sign,
    ATEN.angle.default: find_angle,
    ATEN.erfc.default: in_float32(complement_error_function),
    ATEN.erfinv.default: in_float32(invert_error_function),
    ATEN.lgamma.default: in_float32(compute_log_gamma),
    ATEN.exp2.default: lambda x: torch.pow(2.0, x),
    ATEN.ldexp.Tensor: lambda x, power: x * torch.pow(2.0, power),
    ATEN.rrelu_with_noise_functional.default: leak_by_mean,
    ATEN._trilinear.default: multiply_three,
    ATEN.addbmm.default: add_product,
    ATEN.addmv.default: add_product,
    ATEN.narrow_copy.default: torch.narrow,
    ATEN.linalg_vector_norm.default: count_nonzeros,
    ATEN._cdist_forward.default: measure_distances,
    ATEN.masked_scatter.default: scatter_to_mask,
    ATEN.diagonal_scatter.default: scatter_to_diagonal,
    ATEN.index_reduce.default: reduce_by_index,
    ATEN._pdist_forward.default: measure_pairs,
    ATEN.special_erfcx.default: in_float32(scale_complement),
    ATEN._embedding_bag.default: combine_bags,
    ATEN._embedding_bag_forward_only.default: combine_bags,
    ATEN.fake_quantize_per_tensor_affine.default: fake_quantize,
    ATEN.fake_quantize_per_channel_affine.default: fake_quantize_channels,
}
