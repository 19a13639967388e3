"""A recipe can use a file from Vela as its model."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from firmwright_ethos_u.compiled_model import import_model, run_reference
from firmwright_ethos_u.regions import lower_region
from single import Array, binary, evaluate
from small import build, write_network

from firmwright.device import ModelInterface, UserError
from firmwright.models.tflite.importer import import_model as import_tflite
from firmwright.partition.outline import partition_module
from firmwright.recipe import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

RECIPE = """\
platform: corstone300-u55-128-qemu
toolchain: arm-none-eabi-gcc
target: ethos_u, c
"""


def compile_file(network: bytes, folder: Path) -> bytes:
    """Compile a network with Vela's command."""
    (folder / "network.tflite").write_bytes(network)
    command = [sys.executable, "-m", "ethosu.vela", "network.tflite"]
    command += ["--accelerator-config", "ethos-u55-128", "--memory-mode", "Shared_Sram"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return (folder / "output" / "network_vela.tflite").read_bytes()


def test_recipe(tmp_path: Path) -> None:
    network = compile_file(write_network(), tmp_path)
    done = build(tmp_path, RECIPE, network)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 samples exact" in done.stdout
    assert "the simulator of firmwright-ethos-u" in done.stdout


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Array], bytes]:
    """Return a network with two int16 inputs, the inputs, and the compiled file."""
    shapes, scales = ((1, 3, 4, 8), (1, 3, 4, 8)), (0.04, 0.03, 0.08)
    network, inputs = binary(np.random.default_rng(1), "SUB", shapes, "int16", scales)
    return network, inputs, compile_file(network, tmp_path_factory.mktemp("sums"))


def test_reference(sums: tuple[bytes, list[Array], bytes]) -> None:
    network, inputs, compiled = sums
    interface = import_tflite(compiled, "network", {})[1]
    assert [tensor.dtype for tensor in interface.inputs] == ["int16", "int16"]
    assert interface.outputs[0].scale == pytest.approx(0.08)
    names = [tensor.name for tensor in interface.inputs]
    found = run_reference(compiled, [dict(zip(names, inputs, strict=True))])
    np.testing.assert_array_equal(found.outputs[0][0], evaluate(network, inputs)[0])


def test_other_accelerator(sums: tuple[bytes, list[Array], bytes]) -> None:
    module, interface = import_model(sums[2], "network", {})
    lower(module, interface, "ethos_u, c")
    with pytest.raises(UserError, match=r"for ethos-u55-128, and the target has -acc.*-64"):
        lower(module, interface, "ethos_u -accelerator=ethos-u55-64, c")


def lower(module: tvm.IRModule, interface: ModelInterface, target: str) -> None:
    platform = load_platform("host-u55-128")
    mix = load_mix(parse_target(target), platform, "tflite")
    partitioned, partition = partition_module(canonicalize(module), interface, mix)
    (region,) = partition.regions
    lower_region(region, partitioned, mix[0].context)
