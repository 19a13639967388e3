"""Sums of 16-bit activations that exceed 32 bits, in both roundings, per channel and per tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.networks.firmware import run_generated
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import Grid

TERMS = 2048


@pytest.mark.parametrize("rounding", ["onnx", "tflite"])
@pytest.mark.parametrize("channels", [1, 3], ids=["one-scale", "scales"])
def test_sum_beyond_32_bits(rounding: str, channels: int, tmp_path: Path) -> None:
    graph = Graph()
    _, real = graph.input((1, TERMS), Grid("int16", np.float32(2.0**-10), 0))
    stored = np.random.default_rng(0).integers(100, 128, (TERMS, channels)).astype("int8")
    scales = np.full(channels if channels > 1 else (), 2.0**-12, "float32")
    product = graph.node("MatMul", [real, graph.weights(stored, scales, 0, 1)])
    graph.output(product, Grid("int16", np.float32(2.0**-3), 0), lambda *_: stored)
    given = np.random.default_rng(1).integers(30_000, 32_768, (1, TERMS)).astype("int16")
    sample = {graph.inputs[0].name: given}
    ((found,),) = run_generated(graph.build(), [sample], tmp_path, (), "onnx", rounding)
    sums = given.astype("int64") @ stored.astype("int64")
    assert (sums > 2**31).all()
    np.testing.assert_allclose(found, sums / 2.0**19, atol=0.5)
