"""The project for DIANA's chip runs on a model of the registers that DORY's driver writes."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from firmwright.builder import Graph
from firmwright.compile import compile_network
from firmwright.devices.soma_dory.chip_program import build_program
from firmwright.emulator import run_firmware
from firmwright.ir.layer import Array
from firmwright.models.relax.importer import import_model
from firmwright.project.network import Network
from firmwright.project.write import write_project
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import (
    Build,
    Platform,
    load_platform,
    load_toolchain,
    make_host_build,
)
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.networks.firmware import executed

from .any_network import make_network
from .reference import evaluated

CHIP = load_platform("diana-chip")
SMALL = {"l1": 9000}
"""A size of the activation memory for which small networks have tiles of rows."""
ODD = 7
"""A network with widths that are not multiples of 16."""


COUNT = int(os.environ.get("FIRMWRIGHT_CHIP_NETWORKS", "14"))
"""Random networks; set the variable to more after a change of the driver's code."""


def compiled(module: tvm.IRModule, platform: Platform) -> Network:
    data = tvm.ir.save_json(module).encode()
    module, interface = import_model(data, "test model", {})
    return compile_network(
        module, interface, load_mix(parse_target("soma_dory, c"), platform, "onnx")
    )


def write_chip_project(network: Network, platform: Platform, folder: Path) -> Path:
    write_project(network, Build(load_toolchain("pulp-gcc"), platform), folder)
    return folder


def host_build(platform: Platform) -> Build:
    build = make_host_build(platform)
    return replace(build, toolchain=load_toolchain("gcc"), cflags=("-O1",))


def run_chip(network: Network, platform: Platform, sample: dict[str, Array], folder: Path) -> Array:
    """Return the first output of the chip's project on the model of the registers."""
    project = write_chip_project(network, platform, folder / "project")
    build = host_build(platform)
    program, _ = build_program(project, build, folder / "program", folder / "cache")
    given = encode_samples(network.interface.inputs, [sample])
    ran = run_firmware(program, build.platform, "native", given, "network_run", 10**11)
    return decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)[0][0]


def check(module: tvm.IRModule, platform: Platform, folder: Path) -> Network:
    network = compiled(module, platform)
    (tensor,) = network.interface.inputs
    random = np.random.default_rng(1)
    sample = {tensor.name: random.integers(-128, 128, tensor.shape).astype("int8")}
    expected = evaluated(module, sample)[0]
    build = host_build(platform)
    ran = executed(network, [sample], folder / "host", build.cflags, build=build)
    ((emulated,),) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    np.testing.assert_array_equal(emulated, expected, "emulator")
    np.testing.assert_array_equal(run_chip(network, platform, sample, folder), expected, "chip")
    return network


def with_numbers(**numbers: Any) -> Platform:
    return replace(CHIP, accelerators={"soma_dory": {**CHIP.accelerators["soma_dory"], **numbers}})


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_network_gives_numpys_bits_in_the_emulator_and_on_the_chip(
    seed: int, tmp_path: Path
) -> None:
    platform = with_numbers(**SMALL) if seed % 2 else CHIP
    network = check(make_network(seed), platform, tmp_path)
    assert {region.device for region in network.partition.regions} >= {"soma_dory"}


@pytest.mark.needs("gcc")
def test_planes_of_more_than_16_bits_of_bytes_are_copied(tmp_path: Path) -> None:
    """DORY's driver uses 16 bits for each number of a copy."""
    graph, weights = Graph(), np.arange(-18, 18).reshape(2, 2, 3, 3).astype("int8")
    x = graph.conv2d(graph.input("x", (1, 2, 300, 240)), "conv", weights, shift_bits=3)
    network = check(graph.output(x).module(), CHIP, tmp_path)
    assert ".l2_stride = 72000" in network.kernels.kernels[1].body


@pytest.mark.needs("gcc")
def test_a_project_whose_copies_are_wrong_does_not_give_numpys_bits(tmp_path: Path) -> None:
    """The register model detects that the first columns of padding are no longer 0."""
    network = compiled(make_network(ODD), CHIP)
    cleared = re.compile(r"output\[row \* \d+ \+ \d+\] = 0;")
    kernels = network.kernels.kernels
    assert any(cleared.search(kernel.body) for kernel in kernels)
    spoilt = [replace(k, body=cleared.sub(";", k.body)) for k in kernels]
    (tensor,) = network.interface.inputs
    sample = {tensor.name: np.full(tensor.shape, 100, "int8")}
    network = replace(network, kernels=replace(network.kernels, kernels=tuple(spoilt)))
    found = run_chip(network, CHIP, sample, tmp_path)
    assert not np.array_equal(found, evaluated(make_network(ODD), sample)[0])


def test_the_chip_has_weights_and_activations_where_its_accelerator_reaches(
    tmp_path: Path,
) -> None:
    project = write_chip_project(compiled(make_network(1), CHIP), CHIP, tmp_path / "project")
    text = "\n".join(path.read_text() for path in sorted(project.rglob("*.c")))
    shared = '__attribute__((section(".l2_data")))'
    assert text.count(shared) == len(re.findall(r"^const uint32_t network_\w+\[", text, re.M)) > 0
    assert '#define NETWORK_ARENA __attribute__((aligned(16), section(".l2_data")))' in text
    assert "element_wise_sum(NULL" in text and "digital_element_wise_sum(" not in text
    assert '#include "kernels.h"' in text and "rt_perf_read(RT_PERF_CYCLES)" in text
    assert CHIP.stack == 2048
