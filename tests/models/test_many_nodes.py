"""Networks of thousands of operators, or of operators with thousands of inputs, are compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.networks.firmware import assert_exact, lowered
from tests.networks.onnx_models import graph, node, value


def test_chain_of_thousands() -> None:
    count = 3000
    nodes = [node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)]
    model = graph(nodes, [value("t0", [4])], [value(f"t{count}", [4])])
    network = lowered(model.SerializeToString())
    assert sum(len(r.operators) for r in network.partition.regions) == count
    assert max(len(r.operators) for r in network.partition.regions) == 64


def pairwise_sum(count: int) -> bytes:
    """Return a tree of additions over ``count`` different multiples of the input."""
    factors = {f"c{i}": np.array(i % 7, "float32") for i in range(count)}
    nodes = [node("Mul", ["x", f"c{i}"], [f"s0_{i}"]) for i in range(count)]
    level = [f"s0_{i}" for i in range(count)]
    depth = 0
    while len(level) > 1:
        depth += 1
        pairs = list(zip(level[::2], level[1::2], strict=True))
        level = [f"s{depth}_{i}" for i in range(len(pairs))]
        nodes += [node("Add", list(p), [n]) for p, n in zip(pairs, level, strict=True)]
    made = graph(nodes, [value("x", [4])], [value(level[0], [4])], factors)
    return bytes(made.SerializeToString())


@pytest.mark.needs("gcc")
def test_tree_of_sums(tmp_path: Path) -> None:
    assert_exact(pairwise_sum(256), tmp_path)


@pytest.mark.needs("gcc")
def test_concatenation_of_hundreds_of_tensors(tmp_path: Path) -> None:
    inputs = [value(f"x{i}", [1]) for i in range(20)]
    parts = [f"x{(7 * i) % 20}" for i in range(300)]
    model = graph([node("Concat", parts, ["y"], axis=0)], inputs, [value("y", [300])])
    assert_exact(model.SerializeToString(), tmp_path)


def test_sum_of_hundreds_of_tensors() -> None:
    inputs = [f"x{i}" for i in range(100)]
    model = graph([node("Sum", inputs, ["y"])], [value(n, [2]) for n in inputs], [value("y", [2])])
    network = lowered(model.SerializeToString())
    assert len(network.interface.inputs) == 100
