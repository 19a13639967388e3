"""If firmware and ONNX Runtime differ, the model in float64 decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

from .conftest import new_repository


def write_wide_sums() -> bytes:
    """Return a 16-bit convolution whose sums are not exact in float32."""
    graph = Graph()
    random = np.random.default_rng(0)
    _, real = graph.input((1, 64, 12, 12), Grid("int16", F32(0.01), 0))
    weights = random.integers(-127, 128, (64, 64, 3, 3), "int8")
    kernel = graph.weights(weights, np.array(F32(0.003)), 0, 0)
    result = graph.node("Conv", [real, kernel], pads=[1, 1, 1, 1])
    graph.output(result, Grid("int16", F32(0.7), 0), lambda *_: np.zeros(0))
    return graph.build()


def test_a_sum_that_float32_does_not_hold_is_judged_in_float64(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r")
    (repository.folder / "net.onnx").write_bytes(write_wide_sums())
    repository.write(
        "r.yaml",
        "model: net.onnx\nplatform: host\nrun: {samples: 2, tolerance: {absolute: 0}}\n",
    )
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of the range; the firmware in 0" in " ".join(done.stdout.split())
    run = repository.manifest("build/r/r-host.tar.gz")["run"]
    assert run["differences"] == 0
    assert run["reference"].endswith("reference evaluator in float64")
