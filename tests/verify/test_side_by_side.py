"""Several emulators produce the results that one emulator produces for all samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from firmwright.data.samples import Sample
from firmwright.emulator import Execution, run_firmware
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify import several_emulators
from firmwright.verify.protocol import encode_samples
from tests.networks.firmware import link_network, lowered
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

GRID = Grid("int8", F32(0.05), 3)


def write_network() -> Graph:
    graph = Graph()
    _, value = graph.input((1, 4, 8, 8), GRID)
    for pool in ("MaxPool", "AveragePool"):
        pooled = graph.node(pool, [value], kernel_shape=[2, 2], strides=[2, 2])
        stored = graph.node("QuantizeLinear", [pooled, *graph.grid(GRID)])
        value = graph.node("DequantizeLinear", [stored, *graph.grid(GRID)])
    graph.output(value, GRID, lambda _arithmetic, sample: next(iter(sample.values())))
    return graph


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("name", "toolchain"), [("rv32-bare", "zig"), ("host", "gcc")])
def test_the_execution_is_that_of_one_run(
    name: str, toolchain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several_emulators, "WORTHWHILE", 1)
    monkeypatch.setattr(several_emulators, "count_cores", lambda: 3)
    graph, platform, cache = write_network(), load_platform(name), tmp_path / "cache"
    network = lowered(graph.build(), platform=name)
    parts = tuple(f"network_{kernel.region}" for kernel in network.kernels.kernels)
    elf = link_network(network, Build(load_toolchain(toolchain), platform), tmp_path, cache)
    samples = graph.samples(5, seed=0)
    runs: list[int] = []

    def execute(some: Sequence[Sample]) -> Execution:
        given = encode_samples(network.interface.inputs, some)
        runs.append(len(some))
        return run_firmware(
            elf, platform, platform.emulators[0], given, "network_run", 10**9, parts
        )

    together = execute(samples)
    apart = several_emulators.run_side_by_side(execute, samples, macs=10)
    assert sorted(runs) == [1, 2, 2, 5]
    assert apart == together
    if name == "rv32-bare":
        assert apart.instructions
        assert all(apart.by_part)


def test_samples_that_fail_are_told() -> None:
    right = Execution("e", 0, b"@output 0 0 00\n@done 1\n")
    wrong = Execution("e", 3, b"no\n")
    assert several_emulators.join_executions([right, wrong, right], [1, 1, 1]) == wrong
