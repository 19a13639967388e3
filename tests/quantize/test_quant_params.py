"""Quantization parameters: properties that hold for every interval."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.calibration import Distribution
from firmwright.quantize.param_choice import Interval, choose_affine_params, choose_pow2_params
from firmwright.quantize.weights import choose_channel_params

DTYPES = st.sampled_from(["int8", "uint8", "int16"])
REACH = st.floats(0, 1e6)


@given(REACH, REACH, DTYPES, st.booleans())
def test_affine_grids_hold_zero_and_cover_the_interval(
    below: float, above: float, dtype: str, symmetric: bool
) -> None:
    interval = Interval(-below, above)
    grid = choose_affine_params(interval, dtype, symmetric)
    assert grid.limits[0] <= grid.zero_point <= grid.limits[1]
    assert grid.fake_quantize(np.zeros(1))[0] == 0
    if below + above > 1e-20:
        ends = np.array([interval.low, interval.high])
        assert np.abs(grid.fake_quantize(ends) - ends).max() <= grid.scale * 1.001


def test_interval_without_negatives_starts_at_the_smallest_integer() -> None:
    assert choose_affine_params(Interval(0, 2.55), "int8", False) == QuantParams(
        "int8", float(np.float32(0.01)), -128
    )
    # Only zero was seen after a ReLU: negative sums must stay zero.
    assert choose_affine_params(Interval(0, 0), "int8", False).zero_point == -128


def test_symmetric_grid_uses_as_many_steps_on_both_sides() -> None:
    grid = choose_affine_params(Interval(-1, 2.54), "int8", True)
    assert (grid.scale, grid.zero_point) == (float(np.float32(0.02)), 0)
    assert choose_affine_params(Interval(-1, 1), "uint8", True).zero_point == 128


@given(st.floats(1e-6, 1e6), st.sampled_from(["int8", "int16"]))
def test_powers_of_two_are_that_and_cover(reach: float, dtype: str) -> None:
    grid = choose_pow2_params(Interval(-reach, reach / 2), dtype, None)
    assert log2(grid.scale) == int(log2(grid.scale))
    assert grid.zero_point == 0
    assert grid.scale * -grid.limits[0] >= reach * 0.999999
    assert grid.scale / 2 * grid.limits[1] < reach


def test_power_of_two_clamps_outliers_where_that_errs_less() -> None:
    edges = np.linspace(-16, 16, 2049)
    counts = np.where(np.abs((edges[:-1] + edges[1:]) / 2) < 1, 1000, 0)
    interval = Interval(-16, 16)
    seen = Distribution(-16, 16, counts, edges)
    assert choose_pow2_params(interval, "int8", None).scale == 0.125
    assert choose_pow2_params(interval, "int8", seen).scale == 0.25 / 8


@pytest.mark.parametrize("powers_of_two", [False, True])
def test_channel_of_zeros_keeps_its_bias(powers_of_two: bool) -> None:
    # The bias is 300 steps of the input: a scale of 1 would round it to a whole step.
    grid = choose_channel_params(np.zeros(9), 300.4, "int8", powers_of_two)
    kept = np.rint(300.4 / grid.scale)
    assert kept < 2**31
    assert kept * grid.scale == pytest.approx(300.4, rel=1e-5)


def test_weights_scale_leaves_room_for_a_large_bias() -> None:
    values = np.full(9, 1e-9)
    grid = choose_channel_params(values, 1000.0, "int8", False)
    assert 1000.0 / grid.scale < 2**31
