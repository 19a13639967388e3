"""Float sums have a range only if float32 adds them exactly in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tvm import relax

from firmwright.transforms.integers.ranges import EXACT, Range, find_ranges
from tests.partition.graphs import build_main


def emit(call: relax.Expr) -> relax.Var:
    return relax.BlockBuilder.current().emit(call)


def multiply(x: relax.Expr, weights: Sequence[float]) -> relax.Expr:
    """Return the product of bytes, as floats, and a column of weights."""
    column = relax.const(np.array(weights, "float32")[:, None])
    return relax.op.matmul(emit(relax.op.astype(x, "float32")), column)


def range_of_last(write: object, count: int, parameters: int = 1) -> Range:
    """Return the range of the last operator of a network on ``count`` bytes per parameter."""
    given = [((1, count), "int8")] * parameters
    module, bindings = build_main(write, *given)  # type: ignore[arg-type]
    ranges = find_ranges(list(module["main"].params), bindings)
    return ranges[bindings[-1].var]


def test_numbers_beyond_the_bound_are_not_exact() -> None:
    """The limit is the first number after which float32 skips a whole number."""
    bound = np.float32(EXACT)
    assert bound - np.float32(1) + np.float32(1) == bound
    assert bound + np.float32(1) == bound


@pytest.mark.parametrize(("weights", "is_exact"), [([2.0**17 - 1], True), ([2.0**17], False)])
def test_products_stay_below_the_bound(weights: list[float], is_exact: bool) -> None:
    found = range_of_last(lambda x: multiply(x, weights), 1)
    assert np.isfinite(found.magnitude) == found.is_whole == is_exact
    if is_exact:
        assert [found.low.item(), found.high.item()] == [-128 * weights[0], 127 * weights[0]]


def test_all_orders_of_adding_stay_below_the_bound() -> None:
    """The sum is small, but a partial sum is not exact."""
    found = range_of_last(lambda x: multiply(x, [2.0**16, -(2.0**16)]), 2)
    assert not found.is_whole


def test_weights_that_are_not_whole_have_no_range() -> None:
    assert not range_of_last(lambda x: multiply(x, [0.5]), 1).is_whole


@pytest.mark.parametrize(("second", "is_exact"), [(2.0**16 - 1, True), (2.0**16, False)])
def test_sums_of_two_tensors_stay_below_the_bound(second: float, is_exact: bool) -> None:
    def write(x: relax.Expr, y: relax.Expr) -> relax.Expr:
        return relax.op.add(emit(multiply(x, [2.0**16])), emit(multiply(y, [second])))

    assert range_of_last(write, 1, parameters=2).is_whole == is_exact
