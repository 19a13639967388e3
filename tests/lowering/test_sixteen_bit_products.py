"""Products of 16-bit QDQ tensors are sums of integers, for any type and zero point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.models.onnx.float64 import run_reference
from tests.networks.firmware import lowered, run_generated
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

KINDS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "conv1d": ("Conv", (1, 4, 16), (6, 4, 3), {"pads": [1, 1]}),
    "conv1d_transpose": ("ConvTranspose", (1, 4, 8), (4, 6, 4), {"strides": [2], "pads": [1, 1]}),
    "conv2d": ("Conv", (1, 4, 5, 5), (6, 4, 3, 3), {"pads": [1] * 4}),
    "conv3d": ("Conv", (1, 2, 4, 4, 4), (4, 2, 2, 3, 3), {"strides": [1, 2, 1]}),
    "matmul": ("MatMul", (4, 16), (16, 6), {}),
}
GRIDS = [Grid("int16", F32(2**-11), 0), Grid("int16", F32(2**-11), 77),
         Grid("uint16", F32(2**-11), 32768), Grid("uint16", F32(2**-11), 0)]  # fmt: skip


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g.dtype}, {g.zero_point}")
def test_products_are_integers_and_exact(grid: Grid, tmp_path: Path) -> None:
    graph, random = Graph(), np.random.default_rng(0)
    for operator, shape, weights, options in KINDS.values():
        _, real = graph.input(shape, grid)
        stored = random.integers(-127, 128, weights, "int8")
        kernel = graph.weights(stored, np.array(F32(2**-9)), 0, 0)
        result = graph.node(operator, [real, kernel], **options)
        graph.output(result, Grid(grid.dtype, F32(2**-9), grid.zero_point), lambda *_: np.zeros(0))
    data = graph.build()
    assert not lowered(data).kernels.float_operators
    samples = graph.samples(3, seed=1)
    for ours, exact in zip(
        run_generated(data, samples, tmp_path), run_reference(data, samples).outputs, strict=True
    ):
        for found, expected in zip(ours, exact, strict=True):
            np.testing.assert_array_equal(found, expected)
