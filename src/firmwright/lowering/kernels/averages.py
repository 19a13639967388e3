"""Computes averages of integers in ONNX's rounding from one sum and one multiplication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.ir.relax import operator_name, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import Integer
from firmwright.lowering.kernels.float_scaling import FloatFactors
from firmwright.lowering.kernels.pooling import sum_axes
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor
from firmwright.lowering.kernels.windows import sum_windows, windows_of

RAREST_TIE = 1024
"""Ties are ignored if there is at most one tie per this number of sums.

A convolution has about this rate of ties.
"""

FLOAT_ERROR = Fraction(1, 2**21)
"""The maximum relative error of an average's few float32 operations."""

POOLS = ("relax.nn.avg_pool1d", "relax.nn.avg_pool2d", "relax.nn.avg_pool3d")


@dataclass(frozen=True)
class AveragedSums:
    """The sums that an average divides.

    An addend is an integer minus the zero point. ``counts`` contains all numbers of addends that
    occur. ``count`` returns the number of addends of the sum at an index.
    """

    compute: Callable[[te.Tensor], te.Tensor]
    counts: tuple[int, ...]
    count: Callable[[tuple[Any, ...]], Integer]


def average(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Average stored integers, or return None if the result may differ from the graph's result.

    The exact sum is converted to float32 and multiplied by x scale / (count · y scale). Float32
    sums round differently only if the result is about half way between two integers. Many sums are
    half way if both scales are equal and the count is even. In this case only the float32 sum
    determines the rounding.
    """
    source = builder.find_integers(call.args[0], 8)
    sums = None if source is None else read_sums(call, int(source.zero_point[0]))
    if source is None or sums is None:
        return None
    if any(has_ties(source, params, count) for count in sums.counts):
        return None
    # The divisor is one factor, or a table with one entry per count. Entries of unused counts are
    # never read.
    most = max(sums.counts)
    divisors = [n if n in sums.counts else most for n in range(min(sums.counts), most + 1)]
    scale = source.scale.astype("float32") / np.array(divisors, "float32") / params.scale
    factors = FloatFactors(scale, source.largest * most, params)
    if not factors.fits:
        return None

    def compute(data: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        total = sums.compute(data)

        def element(*indices: Any) -> Integer:
            return factors.scale(total(*indices), tables, sums.count(indices) - min(sums.counts))

        return te.compute(static_shape(call), element, name="average")

    return builder.emit_te("average", compute, source.data, *factors.emit_tables(builder))


def read_sums(call: tvm.ir.Call, zero_point: int) -> AveragedSums | None:
    """Return the sums of a mean or an average pool, or None for other operators."""
    shape = static_shape(call)
    if operator_name(call) == "relax.mean":
        read, keep = static_shape(call.args[0]), bool(call.attrs.keepdims)
        stated = range(len(read)) if call.attrs.axis is None else call.attrs.axis
        axes = sorted({int(a) % len(read) for a in stated})
        terms = prod(read[axis] for axis in axes)
        return AveragedSums(
            lambda data: sum_axes(data, shape, axes, keep, zero_point), (terms,), lambda _: terms
        )
    windows = windows_of(call) if operator_name(call) in POOLS else []
    if not windows:
        return None

    def count(indices: tuple[Any, ...]) -> Integer:
        return prod((w.count(indices[w.axis]) for w in windows), start=1)

    counts = {prod(numbers) for numbers in product(*(w.counts for w in windows))}
    return AveragedSums(
        lambda data: sum_windows(data, windows, shape, zero_point), tuple(sorted(counts)), count
    )


def has_ties(source: QuantizedTensor, params: OutputQuantParams, count: int) -> bool:
    """Return whether averages of ``count`` integers are often half way between two output integers.

    Close to half way, float32 rounding errors determine the direction.
    """
    ratio = Fraction(float(source.scale[0])) / (count * Fraction(float(params.scale)))
    simple = ratio.limit_denominator(RAREST_TIE)
    # sum · p / q = n + 1/2 requires an even q. One of q sums is such a tie.
    return simple.denominator % 2 == 0 and abs(ratio - simple) <= ratio * FLOAT_ERROR
