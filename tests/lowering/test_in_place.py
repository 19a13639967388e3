"""Loops that write their output over an input compute the same bits as with separate buffers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.data.samples import random_samples
from firmwright.ir.kernels import Kernels
from firmwright.planning import make_plan
from firmwright.planning.overwritten_inputs import share_pointers
from firmwright.project.network import Network
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import SANITIZED, Outputs, executed, lowered
from tests.networks.onnx_models import graph, node, value

SHAPE = [1, 4, 6, 6]


def compile_onnx(*nodes: tuple[str, list[str], str], shape: list[int] = SHAPE) -> Network:
    """Compile nodes (kind, inputs, output) from ``x`` to ``y``, both of ``shape``."""
    generator = np.random.default_rng(0)
    constants = {
        "kernel": generator.normal(size=(4, 4, 3, 3)).astype("float32"),
        "pixel": generator.normal(size=(4, 4, 1, 1)).astype("float32"),
        "row": generator.normal(size=(6,)).astype("float32"),
        "back": np.array([-1], "int64"),
        "end": np.array([-100], "int64"),
        "axis": np.array([3], "int64"),
        "place": np.array(2, "int64"),
    }
    attributes: dict[str, dict[str, Any]] = {
        "Conv": {"auto_pad": "SAME_UPPER"},
        "Transpose": {"perm": [0, 1, 3, 2]},
        "AveragePool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    }
    made = [node(kind, reads, [to], **attributes.get(kind, {})) for kind, reads, to in nodes]
    model = graph(made, [value("x", shape)], [value("y", shape)], constants)
    return lowered(bytes(model.SerializeToString()), "onnx")


def find_joined(network: Network) -> list[str]:
    """Return the regions that write over an input."""
    locations = network.plan.locations
    kernels = network.kernels.kernels
    return [k.region for k in kernels if share_pointers(k, locations) is not k]


def spread(network: Network) -> Network:
    """Return the network with a separate buffer for every result."""
    kernels = Kernels(tuple(replace(k, in_place=()) for k in network.kernels.kernels))
    return replace(network, kernels=kernels, plan=make_plan(network.partition, kernels))


def run(network: Network, folder: Path) -> Outputs:
    samples = [dict(s) for s in random_samples(network.interface.inputs, 2, 1)]
    ran = executed(network, samples, folder, (*SANITIZED, "-O2"))
    return decode_outputs(ran.console, network.interface.outputs, len(samples), ran.exit_code)


BLOCK = (
    ("Conv", ["x", "kernel"], "a"),
    ("Conv", ["a", "kernel"], "b"),
    ("Relu", ["b"], "c"),
    ("Conv", ["c", "kernel"], "d"),
    ("Add", ["a", "d"], "e"),
    ("Conv", ["e", "pixel"], "y"),
)


def test_a_residual_block_needs_two_places() -> None:
    """The second convolution adds its result to the input of the block."""
    network = compile_onnx(*BLOCK)
    assert find_joined(network) == ["region_002_conv2d"]
    first, second = (f"region_{number}_conv2d_result" for number in ("000", "002"))
    assert network.plan.locations[first] == network.plan.locations[second]
    apart = spread(network).plan.locations
    assert apart[first] != apart[second]


@pytest.mark.needs("gcc")
def test_the_last_pixels_of_a_residual_are_added_once(tmp_path: Path) -> None:
    """The last block of 37 pixels overlaps the previous block, for any block size."""
    network = compile_onnx(*BLOCK, shape=[1, 4, 1, 37])
    assert find_joined(network) == ["region_002_conv2d"]
    found = run(network, tmp_path / "joined")
    np.testing.assert_array_equal(found, run(spread(network), tmp_path / "spread"))


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        ("Conv", ["a", "pixel"]),
        ("AveragePool", ["a"]),
        ("Transpose", ["a"]),
        ("Slice", ["a", "back", "end", "axis", "back"]),
        ("CumSum", ["a", "place"]),
        ("Softmax", ["a"]),
    ],
)
def test_what_reads_other_elements_has_its_own_place(kind: str, reads: list[str]) -> None:
    network = compile_onnx(("Softmax", ["x"], "a"), (kind, reads, "b"), ("Softmax", ["b"], "y"))
    assert find_joined(network) == []


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("platform", ["host", "rv32-bare"])
def test_a_form_computes_the_same_in_one_place(platform: str, tmp_path: Path) -> None:
    """Sums of two tensors of bytes, with the form of each core, on this machine."""
    nodes = []

    def quantize(kind: str, reads: list[str], to: str, **attributes: Any) -> None:
        grid = ["scale", "zero"]
        nodes.append(node(kind, reads, [f"{to}_real"], **attributes))
        nodes.append(node("QuantizeLinear", [f"{to}_real", *grid], [f"{to}_stored"]))
        nodes.append(node("DequantizeLinear", [f"{to}_stored", *grid], [to]))

    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    quantize("Identity", ["x"], "a")
    quantize("MaxPool", ["a"], "b", **window)
    quantize("MaxPool", ["b"], "c", **window)
    quantize("Add", ["b", "c"], "d")
    quantize("Add", ["c", "d"], "e")
    quantize("MaxPool", ["e"], "y", **window)
    constants: dict[str, np.generic] = {"scale": np.float32(0.03), "zero": np.int8(-5)}
    model = graph(nodes, [value("x", SHAPE)], [value("y", SHAPE)], constants)
    network = lowered(bytes(model.SerializeToString()), "onnx", platform=platform)
    joined = {k.region: k for k in network.kernels.kernels if k.region in find_joined(network)}
    assert [k.note[:4] for k in joined.values() if k.note] == ["Form", "Form"]
    found = run(network, tmp_path / "joined")
    np.testing.assert_array_equal(found, run(spread(network), tmp_path / "spread"))


KINDS = {
    "Softmax": [], "Conv": ["kernel"], "Add": ["row"], "Relu": [], "Sigmoid": [], "Transpose": [],
    "Slice": ["back", "end", "axis", "back"], "AveragePool": [], "CumSum": ["place"],
}  # fmt: skip


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("seed", [1, 4])
def test_random_networks_compute_the_same_in_one_place(seed: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    names = ["x", "n0"]
    nodes = [("Softmax", ["x"], "n0")]
    for number in range(1, 24):
        first, second = (str(generator.choice(names[-3:])) for _ in range(2))
        kind = str(generator.choice([*KINDS, "Pair", "Pair"]))
        reads = [first, *KINDS.get(kind, [second])]
        nodes.append((kind if kind in KINDS else "Add", reads, f"n{number}"))
        names.append(f"n{number}")
    nodes.append(("Softmax", [names[-1]], "y"))
    network = compile_onnx(*nodes)
    assert find_joined(network)
    found = run(network, tmp_path / "joined")
    np.testing.assert_array_equal(found, run(spread(network), tmp_path / "spread"))
