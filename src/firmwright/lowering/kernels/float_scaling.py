"""Multiplies sums by a float32 factor and rounds half to even, but uses only integers.

:mod:`firmwright.lowering.kernels.float_steps` computes the integers and proves that they are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx

from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import Integer, call_fixed_point
from firmwright.lowering.kernels.float_steps import FloatScaling, find_steps
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor


class FloatFactors:
    """Float32 factors of sums up to ``largest`` in magnitude, in the form that the C code uses."""

    def __init__(
        self, factors: npt.NDArray[np.float32], largest: int, params: OutputQuantParams
    ) -> None:
        limits = np.full(factors.size, largest, "int64")
        scaling = FloatScaling(factors, limits, params.zero_point, params.low, params.high)
        self.params, self.fits = params, scaling.fits
        if self.fits:
            self.numbers = [array.astype("int32") for array in find_steps(scaling)]

    def emit_tables(self, builder: RegionBuilder) -> list[relax.Var]:
        """Emit tables for several factors. A single factor is an immediate number in the C code."""
        names = ("multipliers", "offsets", "shifts") if self.numbers[0].size > 1 else ()
        return [
            builder.emit_constant(name, array)
            for name, array in zip(names, self.numbers, strict=False)
        ]

    def scale(self, total: Integer, tables: tuple[te.Tensor, ...], index: Integer) -> Integer:
        """Return the stored integer of a sum, scaled by the factor at an index."""
        multiplier, offset, shift = (
            [table(index) for table in tables]
            if tables
            else [tirx.const(int(array[0]), "int32") for array in self.numbers]
        )
        params, has_multiplier = self.params, self.numbers[0] != 0
        steps = params.low + call_fixed_point("fixed_steps", total, multiplier, offset, shift)
        real = params.zero_point + call_fixed_point("fixed_float", total, offset, shift)
        value = steps if has_multiplier.all() else real
        if has_multiplier.any() and not has_multiplier.all():
            value = te.if_then_else(multiplier == 0, real, steps)
        return te.max(te.min(value, params.high), params.low).astype(params.dtype)


def requantize_as_floats(
    builder: RegionBuilder, source: QuantizedTensor, params: OutputQuantParams
) -> relax.Expr | None:
    """Scale sums by the quotient of the scales, or return None if the sums may exceed the range."""
    quotients = (source.scale.astype("float32") / params.scale).astype("float32")
    factors = FloatFactors(quotients, source.largest, params)
    if not factors.fits or source.has_wide_sums:
        return None

    def element(indices: Any, data: te.Tensor, *tables: te.Tensor) -> Integer:
        index = indices[source.axis] if tables else 0  # a single number has no axis
        return factors.scale(data(*indices), tables, index)

    data, tables = builder.subtract_zero_point(source), factors.emit_tables(builder)
    return builder.emit_elements("requantize", element, data, *tables, result="requantized")
