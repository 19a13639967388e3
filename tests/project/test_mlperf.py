"""MLPerf Tiny's device software with a network: the runner's commands and their answers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from firmwright.ir.tensors import Tensor
from firmwright.project.export_packages import ExportedNetwork, find_loaded_kind
from firmwright.project.interface import Port
from firmwright.recipe.build_systems import load_export
from tests.project.exported import export, make_exported
from tests.project.mlperf import API, DEVICE, INTERNAL, write_load_commands
from tests.project.packages import QEMU

FLAGS = ("-mcpu=cortex-a15", "-mfloat-abi=soft", "-O2", "-Wall", "-Wextra", "-Werror")
LINK = ("--specs=rdimon.specs", "-Wl,-Ttext-segment=0x40200000", "-lm")


def build_device(package: Path) -> Path:
    """Compile a package with the rest of a device's software for an Arm core; return the ELF."""
    (package / "api").mkdir()
    (package / "api/submitter_implemented.h").write_text(API)
    (package / "api/internally_implemented.h").write_text(INTERNAL)
    (package / "device.cpp").write_text(DEVICE)
    sources = [str(path) for path in sorted((package / "network").glob("*.c"))]
    cpp = ["submitter_implemented.cpp", "device.cpp"]
    for words in (
        ["arm-none-eabi-gcc", "-std=c99", *FLAGS, "-c", *sources],
        ["arm-none-eabi-g++", "-std=c++11", "-fno-exceptions", *FLAGS, "-I.", "-c", *cpp],
    ):
        subprocess.run(words, cwd=package, check=True)
    objects = [path.name for path in sorted(package.glob("*.o"))]
    link = ["arm-none-eabi-gcc", *FLAGS, *objects, *LINK, "-o", "device.elf"]
    subprocess.run(link, cwd=package, check=True)
    return package / "device.elf"


@pytest.mark.needs("arm-none-eabi-gcc", "arm-none-eabi-g++", "qemu-system-arm")
@pytest.mark.parametrize("caller_arena", [False, True])
def test_the_runner_s_commands_give_the_network_s_results(
    tmp_path: Path, caller_arena: bool
) -> None:
    (network,) = make_exported(tmp_path / "project").networks
    image = np.asarray(network.sample["input_0"])
    output = network.outputs[0].tensor
    assert output.scale is not None
    scores = np.asarray(network.sample["output_0"]).ravel().astype(float)
    reals = (scores - (output.zero_point or 0)) * output.scale
    device = build_device(export("mlperf-tiny", tmp_path, "digits", caller_arena=caller_arena))
    commands = (
        f"name%{write_load_commands(image.tobytes())}infer 2 1%results%db load 4%db 00000000%"
    )
    given = (commands + "infer 1 0%nonsense%").encode()
    ran = subprocess.run([*QEMU, device], input=given, capture_output=True, timeout=120)
    lines = ran.stdout.decode().splitlines()

    # The runner reads them like this (runner/device_under_test.py and script.py).
    names = [m[2] for line in lines if (m := re.match(r"^m-(name)-dut-\[([^]]+)]$", line))]
    assert names == ["unspecified"]
    times = [int(m[1]) for line in lines if (m := re.match(r"^m-lap-us-([0-9]+)$", line))]
    assert times == sorted(times)
    assert len(times) == 5
    found = [m[1] for line in lines if (m := re.match(r"^m-results-\[([^]]+)\]$", line))]
    assert len(found) == 3
    for result in found[:2]:
        assert [float(x) for x in result.split(",")] == pytest.approx(reals, abs=0.00051)
    assert lines.count("m-load-done") == 2
    assert lines.count("m-ready") == 1 + given.count(b"%")
    assert "e-[4 bytes are loaded, a sample has 64]" in lines
    assert "e-[Unknown command: nonsense]" in lines


@pytest.mark.parametrize(
    ("elements", "results", "kind"),
    [(490, 12, "elements"), (3072, 10, "pixels"), (27648, 2, "pixels"), (640, 640, "spectrum")],
    ids=["kws01", "ic01", "vww01", "ad01"],
)
def test_each_benchmark_s_bytes_are_known(elements: int, results: int, kind: str) -> None:
    """The reference submissions convert them in the same way, each in a ``th_load_tensor``."""
    given, made = (
        (Port(name, Tensor(name, (1, size), "int8", 0.5, 0)),)
        for name, size in (("x", elements), ("y", results))
    )
    network = ExportedNetwork("network", given, made, {})
    assert find_loaded_kind(network, load_export("mlperf-tiny")) == kind
