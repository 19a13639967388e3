"""Chooses the few values of clustered weights, which need a table and a few bits per weight.

The values are integers of 8 bits that all channels of a layer share. They minimize the squared
error of the weights in steps of the channels' scales. Method: Lloyd, "Least squares quantization in
PCM", 1982.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.weight_blocks import round_by_factors

Array = npt.NDArray[Any]

CLUSTERS: Mapping[str, int] = MappingProxyType({f"cluster{1 << b}": 1 << b for b in (2, 3, 4)})
"""The number of different values per type of clustered weights."""

STORED = "int8"
MOST_STEPS = 100
"""The maximum number of improvements of the values."""


def find_stored_type(dtype: str) -> str:
    """Return the type of the integers of weights. Clustered weights are stored as int8."""
    return STORED if dtype in CLUSTERS else dtype


def choose_clusters(steps: Array, dtype: str) -> Array | None:
    """Return the sorted values of clustered weights, or None for other types and empty tensors.

    ``steps`` are the weights divided by the scales of their channels.
    """
    if dtype not in CLUSTERS or not steps.size:
        return None
    ordered = np.sort(steps.reshape(-1))
    # The values begin at equal distances, so that rare large weights also have a value.
    values = np.linspace(ordered[0], ordered[-1], CLUSTERS[dtype])
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for _ in range(MOST_STEPS):
        borders = np.searchsorted(ordered, (values[1:] + values[:-1]) / 2)
        edges = np.concatenate([[0], borders, [ordered.size]])
        counts = np.diff(edges)
        means = np.where(counts > 0, np.diff(sums[edges]) / np.maximum(counts, 1), values)
        if np.array_equal(means, values):
            break
        values = means
    limits = np.iinfo(STORED)
    return np.unique(np.clip(np.rint(values), limits.min, limits.max))


def round_to_values(
    steps: Array, params: QuantParams, clusters: Array | None, factors: Array | None = None
) -> Array:
    """Return the nearest allowed integers.

    The allowed integers are all integers of the type, or the clusters, or multiples of the factors.
    """
    if factors is not None:
        return round_by_factors(steps, factors)
    if clusters is None:
        return np.clip(np.rint(steps), *params.limits)
    nearest: Array = clusters[np.searchsorted((clusters[1:] + clusters[:-1]) / 2, steps)]
    return nearest


def spread_scales(axes: int, axis: int | None, params: Sequence[QuantParams]) -> Array:
    """Return the scales in a shape that numpy multiplies with the weights."""
    shape = [1] * axes
    if axis is not None and len(params) > 1:
        shape[axis] = len(params)
    return np.array([one.scale for one in params]).reshape(shape)
