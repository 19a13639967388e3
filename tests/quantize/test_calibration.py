"""The values that calibration records, and the ranges that the methods compute from them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from firmwright.errors import UserError
from firmwright.quantize.calibration import (
    Distribution,
    calibrate,
    pack_distributions,
    unpack_distributions,
)
from firmwright.quantize.float_graph import evaluate, float_tensors
from firmwright.quantize.param_choice import (
    Interval,
    choose_affine_params,
    choose_interval,
    mean_squared_error,
)

from .networks import options, ready, residual_network, samples


def test_limits_and_counts_are_those_of_the_tensors() -> None:
    model, given = ready(residual_network()), samples(5)
    found = calibrate(model, given)
    seen = list(evaluate(model, given, float_tensors(model)))
    assert set(found) == set(float_tensors(model)) >= {"x", "stem_out", "joined", "y"}
    for name, one in found.items():
        values = np.concatenate([s[name].reshape(-1) for s in seen])
        assert (one.lowest, one.highest) == (values.min(), values.max())
        assert one.counts.sum() == values.size
        below = int(one.counts[one.centers < 0].sum())
        assert abs(below - np.count_nonzero(values < 0)) <= one.counts.max()


def test_distributions_survive_storage() -> None:
    found = calibrate(ready(residual_network()), samples(3))
    again = unpack_distributions(sorted(found), pack_distributions(found))
    for name, one in found.items():
        assert (again[name].lowest, again[name].highest) == (one.lowest, one.highest)
        assert np.array_equal(again[name].counts, one.counts)
        width = one.edges[1] - one.edges[0]
        assert np.allclose(again[name].edges, one.edges, rtol=0, atol=width / 100)


def test_network_that_overflows_names_sample_and_tensor() -> None:
    given = samples(3)
    given[2]["x"] = np.full_like(given[2]["x"], 3e38)
    with pytest.raises(
        UserError, match="tensor 'stem_sum' has infinite or NaN values for sample 2"
    ):
        calibrate(ready(residual_network()), given)


@pytest.mark.parametrize(("value", "text"), [(np.nan, "NaN: export"), (np.inf, "infinite values")])
def test_a_constant_that_is_not_finite_is_named(value: float, text: str) -> None:
    model = ready(residual_network())
    weights = next(i for i in model.graph.initializer if i.name == "dense_w")
    values = onnx.numpy_helper.to_array(weights).copy()
    values[0, 0] = value
    weights.CopyFrom(onnx.numpy_helper.from_array(values, "dense_w"))
    with pytest.raises(UserError, match=f"the constant 'dense_w' contains {text}"):
        calibrate(model, samples(1))


@pytest.mark.parametrize("scale", [1e-3, 1e-9, 1e-44])
def test_histogram_keeps_its_size_however_small_the_first_sample_is(scale: float) -> None:
    array = samples(1)[0]["x"]
    given = [{"x": (array * np.float32(scale))}, {"x": array}]
    seen = calibrate(ready(residual_network()), given)["x"]
    assert 2048 <= len(seen.counts) <= 4096
    assert seen.counts.sum() == 2 * array.size
    assert (seen.lowest, seen.highest) == (array.min(), array.max())
    zeros = seen.counts[np.abs(seen.centers) < scale + 2 * np.diff(seen.edges)[0]].sum()
    assert zeros >= array.size


def test_a_moving_average_follows_the_samples_slowly() -> None:
    samples = [{"x": np.full((1, 3, 8, 8), value, "float32")} for value in (1.0, 3.0, 3.0)]
    seen = calibrate(ready(residual_network()), samples)
    restored = unpack_distributions(sorted(seen), pack_distributions(seen))["x"]
    wanted = 1 + 0.01 * 2 + 0.01 * (3 - 1.02)
    assert restored.moving_average == pytest.approx((wanted, wanted))
    found = chosen(restored, "moving_average")
    assert (found.low, found.high) == pytest.approx((0.0, wanted))
    assert chosen(restored, "minmax").high == 3


def with_outlier() -> Distribution:
    """A normal distribution of 100,000 values and one value at 100."""
    values = np.append(np.random.default_rng(0).normal(0, 1, 100_000), 100.0)
    counts, edges = np.histogram(values, 2048, (-100, 100))
    return Distribution(float(values.min()), 100.0, counts.astype("int64"), edges)


def chosen(distribution: Distribution, method: str, percentile: float = 99.99) -> Interval:
    calibration = options(calibration={"method": method, "percentile": percentile}).calibration

    def error(interval: Interval, seen: Distribution) -> float:
        return mean_squared_error(choose_affine_params(interval, "int8", False), seen)

    return choose_interval(distribution, calibration, error)


def test_minmax_keeps_an_outlier_and_the_others_clip_it() -> None:
    seen = with_outlier()
    assert chosen(seen, "minmax").high == 100
    assert chosen(seen, "percentile").high < 6
    assert chosen(seen, "entropy").high < 100
    assert chosen(seen, "mse").high < 100


def test_percentile_is_the_share_of_values_inside() -> None:
    seen = with_outlier()
    interval = chosen(seen, "percentile", 90.0)
    inside = seen.counts[(seen.centers >= interval.low) & (seen.centers <= interval.high)].sum()
    assert inside / seen.counts.sum() == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy", "mse"])
def test_constant_tensors_have_a_range_with_zero_in_it(method: str) -> None:
    for value, wanted in ((0.0, Interval(0, 0)), (3.0, Interval(0, 3)), (-3.0, Interval(-3, 0))):
        reach = abs(value)
        counts, edges = np.histogram(np.full(10, value), 2048, (-reach, reach) if reach else (0, 1))
        seen = Distribution(value, value, counts.astype("int64"), edges)
        interval = chosen(seen, method)
        assert interval.low <= 0 <= interval.high
        if method in ("minmax", "percentile"):
            assert (interval.low, interval.high) == pytest.approx(
                (wanted.low, wanted.high),
                rel=2e-3,  # percentile uses bins
            )


def test_mse_errs_least() -> None:
    seen = with_outlier()
    errors = {
        m: mean_squared_error(choose_affine_params(chosen(seen, m), "int8", False), seen)
        for m in ("minmax", "mse")
    }
    assert errors["mse"] < errors["minmax"]
