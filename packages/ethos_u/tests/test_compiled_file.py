"""A TFLite file from Vela's command runs in the simulator."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from firmwright_ethos_u.compiled_file import read_compiled
from firmwright_ethos_u.flatbuffer import NetworkWriter
from single import convolution, evaluate

from firmwright.device import UserError


@pytest.mark.parametrize("memory_mode", ["Shared_Sram", "Dedicated_Sram_256KB"])
def test_file_of_vela(tmp_path: Path, memory_mode: str) -> None:
    network, inputs = convolution(np.random.default_rng(9), (12, 12, 8), 16, (3, 3))
    (tmp_path / "network.tflite").write_bytes(network)
    command = [sys.executable, "-m", "ethosu.vela", "network.tflite"]
    command += ["--accelerator-config", "ethos-u65-256", "--memory-mode", memory_mode]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    compiled = read_compiled((tmp_path / "output/network_vela.tflite").read_bytes())
    found = compiled.run(inputs)[0].view(np.int8)
    np.testing.assert_array_equal(found, evaluate(network, inputs)[0].ravel())


@pytest.mark.parametrize("data", [b"", b"abc", bytes(64)])
def test_file_of_another_format(data: bytes) -> None:
    with pytest.raises(UserError, match="the file is not a TFLite file"):
        read_compiled(data)


def test_file_without_subgraphs() -> None:
    writer = NetworkWriter()
    writer.model.subgraphs = []
    with pytest.raises(UserError, match="the file has 0 subgraphs and 0 operators"):
        read_compiled(writer.build([], []))


def test_file_that_is_not_compiled() -> None:
    network, _ = convolution(np.random.default_rng(9), (12, 12, 8), 16, (3, 3))
    with pytest.raises(UserError, match=r"1 operators \(0 of them compiled by Vela\)"):
        read_compiled(network)
