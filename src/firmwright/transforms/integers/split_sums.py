"""Finds the tensors of 8-bit whole numbers whose sum equals a tensor of more than 8 bits.

A layer that reads a sum of two tensors needs no wider integers. One layer that reads both tensors,
joined along the channels, is equal. This layer has a copy of the weights per tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from tvm import relax

from firmwright.ir.relax import operator_name, static_shape
from firmwright.transforms.integers.elementwise_functions import (
    ElementwiseFunction,
    Values,
    read_function,
)
from firmwright.transforms.integers.ranges import EXACT, Range

MOST_TERMS = 4
"""The maximum number of tensors. Each tensor needs all products of the layer."""

Terms = dict[relax.Var, float]
"""The factor of each tensor in a sum."""


def split_sum(
    variable: relax.Var,
    values: Values,
    ranges: Mapping[relax.Var, Range],
    is_term: Callable[[relax.Var], bool],
) -> Terms | None:
    """Return the tensors and factors whose sum equals a tensor, or None.

    ``is_term`` returns whether a tensor can be one of the tensors. All shapes are equal.
    """
    interval = ranges.get(variable)
    if interval is None or interval.magnitude >= EXACT:
        return None
    if is_term(variable):
        return {variable: 1.0}
    value = values.get(variable)
    function = read_function(value, values)
    if function is not None:
        terms = split_sum(function.source, values, ranges, is_term)
        return None if terms is None else scale(terms, function, ranges[function.source])
    if operator_name(value) != "relax.add" or not interval.is_whole:
        return None
    assert isinstance(value, relax.Call)
    sides = [split_sum(a, values, ranges, is_term) for a in value.args]
    if sides[0] is None or sides[1] is None:
        return None
    joined = {t: sides[0].get(t, 0.0) + sides[1].get(t, 0.0) for t in (*sides[0], *sides[1])}
    equal = {tuple(static_shape(v)) for v in (*joined, variable)}
    return joined if len(joined) <= MOST_TERMS and len(equal) == 1 else None


def scale(terms: Terms, function: ElementwiseFunction, source: Range) -> Terms | None:
    """Return the factors after a function, or None if it has no single whole factor.

    Each function is monotone, and a line between the multiples of the factors. Therefore the
    function is a product with its slope if it is a product at both ends of the range.
    """
    slopes = np.unique(np.asarray(function.slope, "float64"))
    if slopes.size != 1:
        return None
    slope = float(slopes[0])
    factors = {term: factor * slope for term, factor in terms.items()}
    if not all(factor.is_integer() for factor in factors.values()):
        return None
    ends = (source.low, source.high)
    if not all(np.array_equal(function.compute(n), n * slope) for n in ends):
        return None
    return factors
