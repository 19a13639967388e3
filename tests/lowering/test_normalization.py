"""A normalization keeps its digits where the mean is large beside the deviations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.networks.firmware import lowered, run_generated
from tests.networks.onnx_models import graph, node, value

pytestmark = pytest.mark.needs("gcc")

SHAPES = [[2, 3, 6, 5], [1, 4, 20], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize("shape", SHAPES)
def test_instances_are_normalized_by_their_deviations(shape: list[int], tmp_path: Path) -> None:
    numbers = np.random.default_rng(2)
    scale, bias = numbers.normal(0, 1, (2, shape[1])).astype("float32")
    nodes = [node("InstanceNormalization", ["x", "s", "b"], ["y"], epsilon=0.01)]
    model = graph(nodes, [value("x", shape)], [value("y", shape)], {"s": scale, "b": bias})
    data = bytes(model.SerializeToString())
    given = numbers.normal(1000, 1, shape).astype("float32")
    ((found,),) = run_generated(data, [{"x": given}], tmp_path, format_name="onnx")

    def by_channel(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return values.reshape([-1] + [1] * (len(shape) - 2))

    axes, exact = tuple(range(2, len(shape))), given.astype("float64")
    deviation = exact - exact.mean(axes, keepdims=True)
    spread = np.sqrt(exact.var(axes, keepdims=True) + 0.01)
    wanted = deviation / spread * by_channel(scale) + by_channel(bias)
    np.testing.assert_allclose(found, wanted, atol=5e-4)
    assert [r.operators for r in lowered(data, "onnx").partition.regions] == [("instance_norm",)]
