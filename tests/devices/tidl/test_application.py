"""The program for the chip calls TIDL-RT like TI's sources; a recorded library checks the calls.

TI's library is closed. The library of these tests has its requirements, and the stand-in of a
region computes the results. It is compiled for this machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.compile import partition_network, prepare_module
from firmwright.devices.tidl.artifact_records import TidlRegionArtifacts
from firmwright.devices.tidl.artifacts import TidlNetwork, write_artifacts
from firmwright.devices.tidl.build_application import count_bytes, write_application
from firmwright.devices.tidl.options import read_options
from firmwright.models.relax.importer import import_model, run_reference
from firmwright.project.network import Network
from firmwright.project.write import write_project
from firmwright.recipe.target import parse_target
from firmwright.targets import find_rewrites
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.networks.firmware import lowered

from .networks import network, quantized_convolution, saved
from .test_regions import branches

RECORDED = Path(__file__).parent / "recorded_rt"
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")


def write_everything(
    module: Any, target: str, folder: Path
) -> tuple[Network, list[dict[str, Any]], list[TidlRegionArtifacts]]:
    """Write a network's project and its program for the chip; return it, samples and regions."""
    data = saved(module)
    made = lowered(data, "relax", target=target, platform="am62a")
    (port,) = made.interface.inputs
    generator = np.random.default_rng(4)  # small whole numbers: every sum is exact
    given = [{"x": generator.integers(-4, 5, port.shape).astype(port.dtype)} for _ in range(2)]
    imported, interface = import_model(data, "test", {})
    mix = load_mix(parse_target(target), load_platform("am62a"), "onnx")
    prepared = prepare_module(imported, find_rewrites(mix))
    parts, _, partition = partition_network(prepared, interface, mix)
    network = TidlNetwork(parts, partition, given, read_options(mix[0].context))
    (folder / "artifacts").mkdir()
    regions = write_artifacts(network, folder / "artifacts")
    build = Build(load_toolchain("gcc"), load_platform("host"))
    write_project(made, build, folder / "sources")
    write_application("test", "network", "am62a", regions, folder / "application")
    for region in regions:
        write_tool_files(folder, region)
    return made, given, regions


def write_tool_files(folder: Path, region: TidlRegionArtifacts) -> None:
    """Write the files of a region for the recorded library, from the configuration of TI's tool."""
    config = folder / "artifacts" / f"tidl_import_subgraph{region.number}.txt"
    found = dict(line.split(" = ") for line in config.read_text().splitlines())
    lines = []
    for side, tensors in (("in", region.inputs), ("out", region.outputs)):
        keys = ("ElementType", "TensorScale", "ZeroPoint")
        columns = [found[f"{side}{key}"].split() for key in keys]
        names = found[f"{side}DataNamesList"].strip('"').split(",")
        for place, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
            words = [side[0], place, name, *(c[place] for c in columns), count_bytes(tensor)]
            lines.append(" ".join(map(str, words)))
    stem = folder / "application" / f"subgraph{region.number}"
    stem.with_name(f"{stem.name}_net.bin").write_text(f"net {region.number + 1}\n")
    description = "\n".join(reversed(lines)) + "\n"  # TI's tool may change their order
    stem.with_name(f"{stem.name}_params_1.bin").write_text(description)


def make_program(folder: Path) -> Path:
    """Build the program with its Makefile, the recorded library and the stand-ins."""
    sdk = folder / "sdk"
    shutil.copytree(RECORDED, sdk)
    sources = folder / "sources"
    stand_ins = sorted((sources / "network").glob("network_region_*tidl*.c"))
    parts = [sdk / "vx_tidl_rt.c", sources / "network/network_c7x_regions.c", *stand_ins]
    parts.append(sources / "network/network_weights.c")
    include = [f"-I{path}" for path in (sdk, sources / "network", sources / "board")]
    library = ["gcc", *FLAGS, *include, "-shared", "-fPIC", "-o", str(sdk / "libvx_tidl_rt.so")]
    subprocess.run([*library, *map(str, parts), "-lm"], check=True)
    variables = [f"TIDL_RT_PATH={sdk}", "CC=gcc -fsanitize=undefined"]
    subprocess.run(["make", "-s", *variables], cwd=folder / "application", check=True)
    return folder / "application/application.elf"


def run_program(program: Path, given: bytes) -> subprocess.CompletedProcess[bytes]:
    environment = {"LD_LIBRARY_PATH": str(program.parents[1] / "sdk")}
    command = [f"./{program.name}"]
    return subprocess.run(
        command, input=given, cwd=program.parent, env=environment, capture_output=True, check=False
    )


@pytest.mark.needs("gcc", "make")
@pytest.mark.parametrize(
    ("make_module", "target"),
    [
        (lambda: network(branches), "tidl -tensor_bits=32, c"),
        (lambda: quantized_convolution("int8", "int8"), "tidl, c"),
    ],
    ids=["float", "int8"],
)
def test_regions_run_by_tidl_rt(
    make_module: Callable[[], Any], target: str, tmp_path: Path
) -> None:
    module = make_module()
    made, given, regions = write_everything(module, target, tmp_path)
    assert regions
    program = make_program(tmp_path)
    ran = run_program(program, encode_samples(made.interface.inputs, given))
    outputs = decode_outputs(ran.stdout, made.interface.outputs, 2, ran.returncode)
    for ours, theirs in zip(outputs, run_reference(saved(module), given).outputs, strict=True):
        for array, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-6)
    assert ran.stderr == b""
    stand_ins = {f"network_{region.region}" for region in regions}
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    assert stand_ins.isdisjoint(listed.split())


REFUSED = "@fault TIDL-RT refused an inference"
NOT_LOADED = "@fault TIDL-RT does not load a region"


@pytest.mark.needs("gcc", "make")
@pytest.mark.parametrize(
    ("text", "by", "found"),
    [
        ('"tidl_0_i0"', '"tidl_0_i9"', REFUSED),
        ("made->scale = described->scale", "made->scale = 1.0f / described->scale", REFUSED),
        ("made->layout = TIDLRT_LT_NCHW;", "made->padValues[1] = 1;", REFUSED),
        ("made->elementType = described->type;", "made->elementType = 0;", REFUSED),
        ("made->memType = TIDLRT_MEM_SHARED;", "", REFUSED),
        ('"/subgraph0_net.bin"', '"/subgraph0_params_1.bin"', NOT_LOADED),
        ("(void)TIDLRT_delete(used->handle);", "", "TIDL-RT: a handle was not deleted"),
        ("free_shared(used->inputs);", "", "TIDL-RT: shared memory was not freed"),
        (
            "(void)TIDLRT_deactivate(used->handle);",
            "(void)TIDLRT_delete(used->handle);",
            "TIDL-RT: a handle is used that there is not",
        ),
    ],
    ids=["name", "scale", "padding", "type", "memory", "file", "delete", "free", "order"],
)
def test_the_recorded_library_tells_misuse(
    text: str, by: str, found: str, quantized: tuple[Path, bytes], tmp_path: Path
) -> None:
    written, given = quantized
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    layer = tmp_path / "application/fw_tidl.c"
    assert text in layer.read_text()
    layer.write_text(layer.read_text().replace(text, by))
    variables = [f"TIDL_RT_PATH={tmp_path / 'sdk'}", "CC=gcc"]
    subprocess.run(["make", "-s", "-B", *variables], cwd=tmp_path / "application", check=True)
    ran = run_program(tmp_path / "application/application.elf", given)
    assert found in (ran.stdout + ran.stderr).decode()


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A program for the chip of an int8 network, and the input of a run."""
    folder = tmp_path_factory.mktemp("application")
    made, given, _ = write_everything(quantized_convolution("int8", "int8"), "tidl, c", folder)
    make_program(folder)
    return folder, encode_samples(made.interface.inputs, given)
