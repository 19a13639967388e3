"""Random QDQ ONNX graphs compute, bit for bit, the results of an independent reference.

An example has many operators, so that few compilations cover them all. The generated C runs under
gcc's sanitizers: undefined behavior ends it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.networks.firmware import SANITIZED, run_generated
from tests.networks.qdq_graphs import Arithmetic
from tests.networks.qdq_operators import random_graph
from tests.networks.qdq_reference import Onnx, Tflite

pytestmark = pytest.mark.needs("gcc")

COUNT = int(os.environ.get("FIRMWRIGHT_QDQ_GRAPHS", "3"))
"""Random graphs per arithmetic; set the variable to more after a change of integer arithmetic."""


@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize("arithmetic", [Onnx(), Tflite()], ids=lambda a: a.name)
def test_every_operator_is_exact(arithmetic: Arithmetic, seed: int, tmp_path: Path) -> None:
    graph = random_graph(seed, each=5)
    samples = graph.samples(5, seed=1)
    found = run_generated(graph.build(), samples, tmp_path, SANITIZED, "onnx", arithmetic.name)
    wrong = []
    for index, reference in enumerate(graph.references):
        for sample, outputs in zip(samples, found, strict=True):
            expected = reference(arithmetic, sample)
            assert outputs[index].shape == expected.shape
            differing = int((outputs[index] != expected).sum())
            if differing:
                name = graph.outputs[index].name
                wrong.append(f"{name}: {differing} of {expected.size}")
    assert not wrong, "\n".join(wrong)
