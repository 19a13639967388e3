"""Random QDQ ONNX graphs compute, bit for bit, what an independent reference computes.

An example has many operators, so that few compilations cover them all. The generated C runs under
gcc's sanitisers: undefined behaviour ends it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from firmwright.toolchain.build import SANITISERS

from .firmware import run_generated
from .qdq_graphs import Arithmetic, Graph
from .qdq_operators import graphs
from .qdq_reference import Onnx, Tflite

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

FEW = settings(
    max_examples=5,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # a graph says by itself which of its operators differs
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("arithmetic", [Onnx(), Tflite()], ids=lambda a: a.name)
def test_every_operator_is_exact(
    arithmetic: Arithmetic, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @FEW
    @given(graphs(each=5))
    def check(graph: Graph) -> None:
        compare(graph, arithmetic, tmp_path_factory.mktemp("graph"))

    check()


def compare(graph: Graph, arithmetic: Arithmetic, folder: Path) -> None:
    samples = graph.samples(5, seed=1)
    found = run_generated(graph.build(), samples, folder, SANITISERS, "onnx", arithmetic.name)
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
