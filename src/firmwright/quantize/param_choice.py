"""Chooses quantization parameters for an interval of real numbers.

Affine parameters fit the interval. Powers of two have the zero point 0, and their scale is a shift.
An accelerator converts between powers of two without a multiplier.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import ceil, log2

import numpy as np

from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.calibration import Distribution, make_collector
from firmwright.recipe.quantize_keys import CalibrationOptions

ENTROPY_BINS = 512
"""The maximum number of bins, because ONNX Runtime's search time is quadratic in the number of
bins.
"""
MSE_CANDIDATES = np.linspace(1.0, 0.3, 71)
"""The parts of the whole interval that the mean-squared-error method tries."""

COVERED_PART = 2**-0.5
"""The part of the model's range that a power of two must cover, so that the nearest power is
chosen. Values at the ends of a range are rare, and larger steps reduce the accuracy of all other
values.
"""


@dataclass(frozen=True)
class Interval:
    """Real numbers from ``low`` to ``high``, with zero, which is always exact."""

    low: float
    high: float


SOFTMAX_RANGE = Interval(0.0, 1.0)
GATE_RANGES = {"Sigmoid": Interval(0.0, 255 / 256), "Tanh": Interval(-1.0, 127 / 128)}
"""The ranges of recurrent layers' gates, as in TFLite: 8 bits have steps of 2^-8 and 2^-7."""

ErrorFunction = Callable[[Interval, Distribution], float]
"""Returns a distribution's mean squared error with the quantization parameters of an interval."""


def choose_interval(
    distribution: Distribution, options: CalibrationOptions, error: ErrorFunction
) -> Interval:
    whole = include_zero(distribution.lowest, distribution.highest)
    if whole.low == whole.high or options.method == "minmax":
        return whole
    if options.method == "moving_average":
        assert distribution.moving_average is not None  # the method has samples
        return include_zero(*distribution.moving_average)
    if options.method == "model":
        return Interval(whole.low * COVERED_PART, whole.high * COVERED_PART)
    if options.method == "mse":
        candidates = [Interval(whole.low * part, whole.high * part) for part in MSE_CANDIDATES]
        return min(candidates, key=lambda candidate: error(candidate, distribution))
    return choose_library_interval(distribution, options)


def include_zero(low: float, high: float) -> Interval:
    return Interval(min(low, 0.0), max(high, 0.0))


def choose_library_interval(distribution: Distribution, options: CalibrationOptions) -> Interval:
    """Return the interval that ONNX Runtime's entropy or percentile method chooses."""
    collector = make_collector(options.method, options.percentile)
    counts, edges = distribution.counts, distribution.edges
    if options.method == "entropy":
        counts, edges = merge_bins(distribution)
    low, high = (np.float32(v) for v in (distribution.lowest, distribution.highest))
    collector.histogram_dict["tensor"] = (counts, edges.astype("float32"), low, high)
    with redirect_stdout(StringIO()):  # the library prints its progress
        limits = collector.compute_collection_result()["tensor"]
    return include_zero(float(limits[0]), float(limits[1]))


def merge_bins(distribution: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and edges after groups of neighboring bins are merged."""
    together = max(1, len(distribution.counts) // ENTROPY_BINS)
    spare = -len(distribution.counts) % (2 * together)
    counts = np.pad(distribution.counts, spare // 2)
    width = distribution.edges[1] - distribution.edges[0]
    first = distribution.edges[0] - spare // 2 * width
    edges = first + width * together * np.arange(len(counts) // together + 1)
    return counts.reshape(-1, together).sum(axis=1), edges


SMALLEST_SCALE = 2.0**-100
"""An interval counts as constant up to this scale: products of smaller scales underflow in
float32.
"""
FINER_SCALES = 3
"""The number of powers of two to try below the power that covers the interval."""


def choose_affine_params(interval: Interval, dtype: str, symmetric: bool) -> QuantParams:
    """Return parameters whose range ends at the interval's ends, with an exact zero.

    The scale is 1 if the interval contains only zero. The zero point is then the lowest integer, or
    the middle integer if ``symmetric``.
    """
    info = np.iinfo(dtype)
    width = interval.high - interval.low
    if symmetric:
        middle = 0 if info.min else (int(info.max) + 1) // 2
        reach = max(-interval.low, interval.high)
        scale = reach / (int(info.max) - middle)
        return QuantParams(dtype, to_float32(scale) if scale > SMALLEST_SCALE else 1.0, middle)
    scale = width / (int(info.max) - int(info.min))
    if scale <= SMALLEST_SCALE:
        return QuantParams(dtype, 1.0, int(info.min))
    scale = to_float32(scale)
    return QuantParams(dtype, scale, int(np.rint(info.min - interval.low / scale)))


def choose_pow2_params(
    interval: Interval, dtype: str, distribution: Distribution | None
) -> QuantParams:
    """Return the power of two that covers the interval, or a smaller power with a smaller error.

    A positive end may be one step beyond the largest integer, and is clamped. Signed integers reach
    that step on the negative side, and probabilities of 1 need no doubled scale. Smaller powers
    clamp the largest values. The powers are compared by the mean squared errors over the
    distribution. The result is the covering power if ``distribution`` is None.
    """
    steps = int(np.iinfo(dtype).max) + 1
    reach = max(-interval.low, interval.high)
    if reach / steps <= SMALLEST_SCALE:
        return QuantParams(dtype, 1.0, 0)
    covering = QuantParams(dtype, next_power_of_two(reach / steps), 0)
    if distribution is None:
        return covering
    finer = [QuantParams(dtype, covering.scale / 2**n, 0) for n in range(FINER_SCALES + 1)]
    return min(finer, key=lambda params: mean_squared_error(params, distribution))


def next_power_of_two(scale: float) -> float:
    return float(2.0 ** ceil(log2(scale)))


def mean_squared_error(params: QuantParams, distribution: Distribution) -> float:
    values = distribution.centers
    errors = np.square(values - params.fake_quantize(values))
    return float(np.dot(errors, distribution.counts) / distribution.counts.sum())


def to_float32(value: float) -> float:
    """Return the nearest float32 number, because float32 is the type of scales in graphs."""
    return float(np.float32(value))
