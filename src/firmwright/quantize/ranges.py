"""From a tensor's distribution to the interval of real numbers that its grid is to cover."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO

import numpy as np

from firmwright.quantize.calibration import Distribution, make_collector
from firmwright.recipe.quantization import CalibrationOptions

ENTROPY_BINS = 512
"""ONNX Runtime's search costs time with the square of the bins; half of them bound a threshold."""
MSE_CANDIDATES = np.linspace(1.0, 0.3, 71)
"""What the mean-squared-error method tries: these parts of the whole interval."""

COVERED_PART = 2**-0.5
"""Part of a range that a model states which a power of two has to cover: that power is nearest to
the range then. Values at a range's ends are rare, and a coarser grid costs all others."""


@dataclass(frozen=True)
class Interval:
    """Real numbers from ``low`` to ``high``; it always holds zero, which every grid can say."""

    low: float
    high: float


ErrorFunction = Callable[[Interval, Distribution], float]
"""Mean squared error of a distribution on the grid that an interval gives."""


def choose_interval(
    distribution: Distribution, options: CalibrationOptions, error: ErrorFunction
) -> Interval:
    """Choose the interval by the recipe's method."""
    whole = include_zero(distribution.lowest, distribution.highest)
    if whole.low == whole.high or options.method == "minmax":
        return whole
    if options.method == "model":
        return Interval(whole.low * COVERED_PART, whole.high * COVERED_PART)
    if options.method == "mse":
        candidates = [Interval(whole.low * part, whole.high * part) for part in MSE_CANDIDATES]
        return min(candidates, key=lambda candidate: error(candidate, distribution))
    return choose_library_interval(distribution, options)


def include_zero(low: float, high: float) -> Interval:
    return Interval(min(low, 0.0), max(high, 0.0))


def choose_library_interval(distribution: Distribution, options: CalibrationOptions) -> Interval:
    """Choose by ONNX Runtime's entropy or percentile method."""
    collector = make_collector(options.method, options.percentile)
    counts, edges = distribution.counts, distribution.edges
    if options.method == "entropy":
        counts, edges = merge_bins(distribution)
    low, high = (np.float32(v) for v in (distribution.lowest, distribution.highest))
    collector.histogram_dict["tensor"] = (counts, edges.astype("float32"), low, high)
    with redirect_stdout(StringIO()):  # the library reports progress
        limits = collector.compute_collection_result()["tensor"]
    return include_zero(float(limits[0]), float(limits[1]))


def merge_bins(distribution: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and edges with every few neighbouring bins in one."""
    together = max(1, len(distribution.counts) // ENTROPY_BINS)
    spare = -len(distribution.counts) % (2 * together)
    counts = np.pad(distribution.counts, spare // 2)
    width = distribution.edges[1] - distribution.edges[0]
    first = distribution.edges[0] - spare // 2 * width
    edges = first + width * together * np.arange(len(counts) // together + 1)
    return counts.reshape(-1, together).sum(axis=1), edges
