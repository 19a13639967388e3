"""Averages of a QDQ graph run on integers if float32 would produce the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.networks.firmware import lowered
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid


@pytest.mark.parametrize(
    ("width", "scale", "floats"),
    [(8, 0.0613, ()), (7, 0.05, ()), (8, 0.05, ("avg_pool2d",)), (8, 0.06, ("avg_pool2d",))],
    ids=["scales differ", "odd count", "ties", "ties but for the last digit of a scale"],
)
def test_only_averages_that_often_lie_half_way_are_float(
    width: int, scale: float, floats: tuple[str, ...]
) -> None:
    graph = Graph()
    _, real = graph.input((1, 4, width, 2 * width - 1), Grid("int8", F32(0.05), 3))
    window = {"kernel_shape": [1, width], "strides": [1, width]}
    real = graph.node("AveragePool", [real], **window)
    graph.output(real, Grid("int8", F32(scale), 3), lambda *_: np.zeros(0))
    (kernel,) = lowered(graph.build()).kernels.kernels
    assert tuple(o.kind for o in kernel.float_operators) == floats
