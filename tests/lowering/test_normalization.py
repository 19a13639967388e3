"""A normalization stays accurate if the mean is much larger than the deviations; rows of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.networks.firmware import SANITIZED, lowered, run_generated
from tests.networks.onnx_models import graph, node, value
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

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


@pytest.mark.parametrize(
    ("kind", "axes"),
    [("LayerNormalization", 1), ("LayerNormalization", 2), ("InstanceNormalization", 2)],
    ids=["last axis", "two axes", "of each channel"],
)
def test_rows_of_bytes_are_normalized_by_their_exact_deviations(
    kind: str, axes: int, tmp_path: Path
) -> None:
    numbers, shape, by_channel = np.random.default_rng(3), (2, 9, 6, 8), kind[0] == "I"
    source, stored, grid = (
        Grid("int8", F32(s), z) for s, z in ((0.05, -120), (0.01, 4), (0.03, 5))
    )
    network, given = Graph(), np.zeros(shape, "int8")
    given[...] = numbers.integers(-128, 127, shape, endpoint=True)
    given[0, :3] = 127  # equal numbers: the root would divide float32's error by itself
    name, real = network.input(shape, source)
    of = shape[1:2] if by_channel else shape[-axes:]
    gain, bias = numbers.integers(-128, 127, (2, *of), endpoint=True).astype("int8")
    tables = [
        network.node("DequantizeLinear", [network.constant(a), *network.grid(stored)])
        for a in (gain, bias)
    ]
    along = {} if by_channel else {"axis": -axes}
    result = network.node(kind, [real, *tables], epsilon=1e-12, **along)
    network.output(result, grid, lambda *_: np.zeros(0))
    data = network.build()
    ((found,),) = run_generated(data, [{name: given}], tmp_path, SANITIZED)
    (kernel,) = lowered(data).kernels.kernels
    (left,) = kernel.float_operators  # the root, and the operators after it
    assert left.kind in ("layer_norm", "instance_norm")

    exact, last = source.centered(given) * float(source.scale), tuple(range(-axes, 0))
    deviation = exact - exact.mean(last, keepdims=True)
    spread = np.sqrt(exact.var(last, keepdims=True) + 1e-12)
    deviation[0, :3] = 0
    factor, offset = (
        (stored.centered(a) * float(stored.scale)).reshape(*of, *([1, 1] if by_channel else []))
        for a in (gain, bias)
    )
    steps = (deviation / spread * factor + offset) / float(grid.scale)
    decided = np.abs(np.abs(steps % 1 - 0.5)) > 1e-4
    wanted = grid.store(np.rint(steps))
    np.testing.assert_array_equal(found[decided], wanted[decided])
    assert decided.mean() > 0.99
