"""Constants that the assembler includes equal the constants in C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmwright.emulator import run_firmware
from firmwright.project import constants
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import encode_samples
from tests.networks.firmware import link_network, lowered
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

GRID = Grid("int8", F32(0.05), 3)


def write_network() -> Graph:
    random, graph = np.random.default_rng(0), Graph()
    _, value = graph.input((1, 4, 6, 6), GRID)
    weights = random.integers(-127, 128, (5, 4, 3, 3), "int8")
    real = graph.weights(weights, random.uniform(0.001, 0.02, 5).astype("float32"), 0, 0)
    value = graph.node("Conv", [value, real])
    graph.output(value, GRID, lambda _arithmetic, sample: next(iter(sample.values())))
    return graph


@pytest.mark.parametrize(
    ("name", "toolchain"),
    [
        ("host", "gcc"),
        ("rv32-bare", "zig"),
        ("cortex-m4-bare", "arm-none-eabi-gcc"),
        ("rv64-linux", "riscv64-linux-gnu-gcc"),
    ],
)
def test_included_constants_give_the_same_outputs(
    name: str, toolchain: str, tmp_path: Path
) -> None:
    graph, platform = write_network(), load_platform(name)
    network = lowered(graph.build(), platform=name)
    assert {array.dtype.itemsize for array in network.weights.values()} >= {4}
    build, consoles = Build(load_toolchain(toolchain), platform), []
    for binary in (False, True):
        folder = tmp_path / str(binary)
        elf = link_network(replace(network, binary_constants=binary), build, folder, tmp_path)
        given = encode_samples(network.interface.inputs, graph.samples(3, seed=1))
        emulator = platform.emulators[0]
        ran = run_firmware(elf, platform, emulator, given, "network_run", 10**9)
        consoles.append(ran.console)
    assert consoles[0] == consoles[1]
    assert not (folder / "sources/network/network_weights.c").exists()


def test_only_many_bytes_are_included() -> None:
    few, many = np.zeros(constants.LARGE // 8 - 1), np.zeros(constants.LARGE // 8)
    assert not constants.are_large({"weights": few})
    assert constants.are_large({"weights": many})
