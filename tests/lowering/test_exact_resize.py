"""Bilinear resizes of a QDQ graph are integers, equal to exact fractions rounded half to even."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.networks.firmware import lowered, run_generated
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Array, Grid

LENGTHS = (6, 7)
SIZES = ((12, 14), (24, 7), (9, 11), (3, 4))
GRIDS = (Grid("int8", F32(0.037), 3), Grid("uint8", F32(2 * F32(0.037)), 40))
"""Quantization parameters of the input and one of the results, and of the other results."""


def place(index: int, length: int, extent: int, mode: str) -> Fraction:
    """Return the position of a result between the pixels, as ONNX's page of Resize defines it."""
    if mode == "align_corners":
        where = Fraction(index * (length - 1), extent - 1)
    elif mode == "asymmetric":
        where = Fraction(index * length, extent)
    else:
        where = Fraction((2 * index + 1) * length, 2 * extent) - Fraction(1, 2)
    return min(max(where, Fraction(0)), Fraction(length - 1))


def make_weights(length: int, extent: int, mode: str) -> Array:
    """Return the weight of each pixel in each result, (results, pixels), as fractions."""
    weights = np.full((extent, length), Fraction(0))
    for index in range(extent):
        where = place(index, length, extent, mode)
        before = int(where)
        weights[index, before] = 1 - (where - before)
        if where != before:
            weights[index, before + 1] = where - before
    return weights


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "mode", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
def test_a_resize_is_integers_and_exact(mode: str, tmp_path: Path) -> None:
    graph, source = Graph(), GRIDS[0]
    name, real = graph.input((1, 3, *LENGTHS), source)
    cases = [(size, grid) for size in SIZES for grid in GRIDS]
    for size, grid in cases:
        sizes = graph.constant(np.array([1, 3, *size], "int64"))
        result = graph.node("Resize", [real, "", "", sizes], mode="linear",
                            coordinate_transformation_mode=mode)  # fmt: skip
        graph.output(result, grid, lambda *_: np.zeros(0))
    data = graph.build()
    assert not lowered(data).kernels.float_operators
    samples = graph.samples(2, seed=1)
    for sample, outputs in zip(samples, run_generated(data, samples, tmp_path), strict=True):
        centered = source.centered(sample[name]).astype(object)
        for (size, grid), found in zip(cases, outputs, strict=True):
            rows, columns = (make_weights(*s, mode) for s in zip(LENGTHS, size, strict=True))
            exact = rows @ centered @ columns.T
            steps = exact * Fraction(float(source.scale)) / Fraction(float(grid.scale))
            whole = np.vectorize(round)(steps).astype(int) + grid.zero_point
            limits = np.iinfo(grid.dtype)
            np.testing.assert_array_equal(found, np.clip(whole, limits.min, limits.max))
