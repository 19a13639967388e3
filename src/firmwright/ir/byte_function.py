"""Describes functions of one byte. Devices choose and write their forms."""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.ir.layer import Array, LayerKind


@dataclass(frozen=True, eq=False)
class ByteFunction:
    """A function of one byte: ``results`` has the stored result of each integer, smallest first.

    ``slope`` is the factor of a line, or the steps of the logistic function's argument per step of
    the input. ``repeats`` is the number of regions with equal operators and shapes.
    """

    kind: LayerKind
    elements: int
    input_dtype: str
    input_zero_point: int
    output_dtype: str
    results: Array
    low: int
    high: int
    slope: float
    repeats: int = 1
