"""What moves the data of a convolution runs before it, once, and the convolution has a form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firmwright.ir.regions import Region
from firmwright.project.network import Network
from tests.networks.firmware import lowered
from tests.networks.onnx_models import graph, node, value
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import Grid

Moves = list[tuple[str, list[str], str, dict[str, Any]]]

MOVED: dict[str, tuple[Moves, list[str]]] = {
    "a layout alone": ([], []),
    "a gather": ([("Gather", ["x", "even"], "m", {"axis": 1})], ["take", "permute_dims"]),
    "a slice": ([("Slice", ["x", "one", "three", "one"], "m", {})],
                ["strided_slice", "permute_dims"]),
    "a concatenation": ([("Concat", ["x", "x"], "m", {"axis": 1})], ["concat", "permute_dims"]),
    "a shape": ([("Reshape", ["x", "other"], "m", {})], []),
}  # fmt: skip
"""Operators in front of a convolution of floats, and those of the region before it."""


def find_convolution(network: Network) -> tuple[int, str]:
    """Return the place of the region with the convolution, and the note above its C."""
    regions = network.partition.regions
    (place,) = [i for i, region in enumerate(regions) if "conv2d" in region.operators]
    notes = {k.region: k.note for k in network.kernels.kernels}
    return place, notes[regions[place].name] or ""


@pytest.mark.parametrize("name", MOVED)
def test_movements_before_a_convolution_of_floats(name: str) -> None:
    """A change of layout alone stays with it: its form reads both."""
    nodes, expected = MOVED[name]
    channels = {"a gather": 2, "a slice": 2, "a concatenation": 8}.get(name, 4)
    constants = {
        "kernel": np.ones((4, channels, 3, 3), "float32"),
        "even": np.array([0, 2], "int64"),
        "one": np.array([1], "int64"),
        "three": np.array([3], "int64"),
        "other": np.array([1, 4, 9, 4], "int64"),
    }
    made = [node(kind, reads, [to], **options) for kind, reads, to, options in nodes]
    made.append(node("Conv", [made[-1].output[0] if made else "x", "kernel"], ["y"]))
    model = graph(made, [value("x", [1, 4, 6, 6])], [value("y", list("nchw"))], constants)
    network = lowered(bytes(model.SerializeToString()), "onnx")
    place, note = find_convolution(network)
    before: tuple[Region, ...] = network.partition.regions[:place]
    assert [o for region in before for o in region.operators] == expected
    assert note.startswith("Form ")


def test_the_layout_of_bytes_changes_before_a_convolution() -> None:
    """Bytes are moved, not the floats that they stand for."""
    network = Graph()
    grid = Grid("int8", np.float32(0.1), 3)
    _, real = network.input((1, 3, 6, 6), grid)
    weights = network.weights(np.ones((4, 3, 3, 3), "int8"), np.full(4, 0.1, "float32"), 0, 0)
    network.output(network.node("Conv", [real, weights]), grid, lambda *_: np.zeros(0))
    network_of_bytes = lowered(network.build(), "onnx")
    place, note = find_convolution(network_of_bytes)
    (moving,) = network_of_bytes.partition.regions[:place]
    assert moving.operators == ("permute_dims",)
    assert note.startswith("Form ")
