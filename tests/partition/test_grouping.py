"""Operators that move a convolution's data run before it, once, and the convolution has a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from firmwright.ir.operators import short_name
from firmwright.ir.regions import Region
from firmwright.partition.grouping import group_operators
from firmwright.partition.outline import find_dequantized, make_binding_kind, read_graph
from firmwright.project.network import Network
from tests.networks.firmware import lowered
from tests.networks.onnx_models import graph, node, value
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import Grid
from tests.partition.graphs import Shape, build_main

Moves = list[tuple[str, list[str], str, dict[str, Any]]]

MOVED: dict[str, tuple[Moves, list[str]]] = {
    "a layout alone": ([], []),
    "a gather": ([("Gather", ["x", "even"], "m", {"axis": 1})], ["take", "permute_dims"]),
    "a slice": ([("Slice", ["x", "one", "three", "one"], "m", {})], ["strided_slice"]),
    "a concatenation": ([("Concat", ["x", "x"], "m", {"axis": 1})], ["concat", "permute_dims"]),
    "a shape": ([("Reshape", ["x", "other"], "m", {})], []),
}  # fmt: skip
"""Operators before a float convolution, and the operators of the region before it."""


def find_convolution(network: Network) -> tuple[int, str]:
    """Return the index of the region with the convolution, and the note above its C."""
    regions = network.partition.regions
    (place,) = [i for i, region in enumerate(regions) if "conv2d" in region.operators]
    notes = {k.region: k.note for k in network.kernels.kernels}
    return place, notes[regions[place].name] or ""


@pytest.mark.parametrize("name", MOVED)
def test_movements_before_a_convolution_of_floats(name: str) -> None:
    """A change of layout alone stays with the convolution, because its form reads both layouts.

    A slice of adjacent channels is a pointer.
    """
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
    """Bytes are moved, not the floats that they represent."""
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


def list_groups(write: Callable[..., relax.Expr], *parameters: tuple[Shape, str]) -> list[str]:
    """Return the operators of each group of a network on the portable device."""
    module, _ = build_main(write, *parameters)
    bindings, outputs = read_graph(module)
    kind = make_binding_kind(module, find_dequantized(bindings), True)
    groups = group_operators(bindings, outputs, kind, {})
    return [" ".join(short_name(b.value) for b in group.bindings) for group in groups]


def emit(call: relax.Expr) -> relax.Var:
    return relax.BlockBuilder.current().emit(call)


def test_a_value_with_two_readers_is_computed_once() -> None:
    def write(x: relax.Expr) -> relax.Expr:
        y = emit(relax.op.exp(x))
        return relax.op.add(emit(relax.op.negative(y)), emit(relax.op.abs(y)))

    assert list_groups(write, ((2, 3), "float32")) == ["exp", "negative abs add"]


WIDENED = ("astype", "add", "astype")


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("int32", "int8", ["max_pool2d", " ".join(WIDENED)]),
        ("int32", "int32", ["max_pool2d", "astype add"]),
        ("int8", "int8", ["max_pool2d add"]),
    ],
)
def test_tensors_between_groups_are_narrow(wide: str, narrow: str, expected: list[str]) -> None:
    """Operators that widen a pooling's bytes stay separate, because their result is at least as
    wide."""

    def write(x: relax.Expr) -> relax.Expr:
        y = emit(relax.op.nn.max_pool2d(x, (2, 2)))
        y = emit(relax.op.astype(y, wide)) if wide != "int8" else y
        y = emit(relax.op.add(y, relax.const(1, wide)))
        return relax.op.astype(y, narrow) if narrow != wide else y

    assert list_groups(write, ((1, 2, 4, 4), "int8")) == expected


def test_a_result_that_ends_narrower_joins_the_operator_before() -> None:
    """Sums of int32 become int8 through int64; only the bytes leave the group."""

    def write(x: relax.Expr) -> relax.Expr:
        y = emit(relax.op.nn.max_pool2d(x, (2, 2)))
        y = emit(relax.op.astype(y, "int64"))
        return relax.op.astype(emit(relax.op.add(y, relax.const(1, "int64"))), "int8")

    assert list_groups(write, ((1, 2, 4, 4), "int32")) == ["max_pool2d astype add astype"]
