"""The demo application: `make demo` builds it from a bundle, and it shows one inference."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from itertools import product
from pathlib import Path

import pytest
import yaml

from firmwright.emulator import run_firmware
from firmwright.ir.array_files import read_arrays
from firmwright.ir.records import read_record
from firmwright.ir.regions import Partition
from firmwright.ir.tensors import ModelInterface
from firmwright.recipe.recipe import DemoOptions
from firmwright.stages.demo import ShownNetwork, write_demo
from firmwright.toolchain import load_platform
from firmwright.toolchain.boards import load_board

from .conftest import DIGITS, Repository, new_repository, repository_of_example

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-DFW_PROFILE")
LAYERS = ["region_000_conv2d", "region_001_conv2d", "region_002_conv2d", "region_003_conv2d",
          "region_004_mean", "region_005_matmul"]  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with a demo, built for the host and for a bare-metal core."""
    repository = new_repository(tmp_path_factory.mktemp("demo"))
    repository.write("d.yaml", f"{DIGITS}demo: {{profile: individual}}\n")
    for platform in ("host", "rv32-bare"):
        assert "demo" in repository.build("recipe=d.yaml", f"platform={platform}")
    return repository


def unpacked(demo: Repository, platform: str, folder: Path, recipe: str = "d") -> Path:
    name = f"{recipe}-{platform}"
    with tarfile.open(demo.folder / "build" / recipe / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name / "src"


def make(sources: Path) -> Path:
    command = ["make", "demo", f"PYTHON={sys.executable}"]
    made = subprocess.run(command, cwd=sources, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return sources / "demo.elf"


def test_it_tells_that_the_outputs_are_those_of_the_run(demo: Repository, tmp_path: Path) -> None:
    elf = make(unpacked(demo, "host", tmp_path))
    ran = subprocess.run([elf], capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    build_id = demo.manifest("build/d/d-host.tar.gz")["build_id"]
    assert (ran.returncode, lines[0]) == (0, f"build: {build_id}")
    assert lines[1] == "scores: 0 of 10 elements differ"
    assert [line.split(":")[0] for line in lines[2:-1]] == [*LAYERS, "network"]
    assert lines[-1] == "allocated: 74 bytes, at most 74"  # an 8x8 image and ten scores


def test_the_build_runs_it_where_the_firmware_runs(demo: Repository) -> None:
    for platform in ("host", "rv32-bare"):
        printed = (demo.folder / "build/d" / platform / "demo-run/console.txt").read_text()
        lines = printed.splitlines()
        assert lines[1] == "scores: 0 of 10 elements differ"
        if platform == "host":
            names = [*LAYERS, "network"]
            words = [line.split() for line in lines[2:-1]]
            assert [(name, unit) for name, _, unit in words] == [(f"{n}:", "ns") for n in names]
            *layers, network = (int(time) for _, time, _ in words)
            assert 0 < sum(layers) < network
            continue
        *layers, network = (int(line.split()[1]) for line in lines[2:-1])
        ran = json.loads((demo.folder / "build/d" / platform / "run/run.json").read_text())
        # The profiler and the last block before each reading need a few cycles.
        assert network == pytest.approx(ran["cycles_total"] / ran["samples"], rel=0.02)
        assert 0.9 * network < sum(layers) < network


@pytest.mark.needs("gcc", "gdb")
def test_a_debugger_prints_the_outputs_without_debug_information(
    demo: Repository, tmp_path: Path
) -> None:
    build = demo.folder / "build/d/host"
    sources = [*build.glob("sources/network/*.c"), *build.glob("sources/board/*.c")]
    includes = [f"-I{build}/sources/{folder}" for folder in ("network", "board")]
    elf = tmp_path / "demo.elf"
    check("gcc", *includes, "-o", elf, *sources, *build.glob("demo/*.c"), "-lm")
    command = ["gdb", "-nx", "-batch", "-x", build / "demo/demo.gdb", "-ex", "run", elf]
    printed = subprocess.run([str(w) for w in command], capture_output=True, text=True).stdout
    expected = read_arrays(build / "run/sample.npz")["output_0"].reshape(-1)
    assert f"scores\n$1 = {{{', '.join(map(str, expected))}}}\n" in printed


@pytest.mark.needs("gdb-multiarch", "qemu-system-riscv32")
def test_a_debugger_prints_the_outputs_of_another_machine(demo: Repository, tmp_path: Path) -> None:
    sources, server = unpacked(demo, "rv32-bare", tmp_path), tmp_path / "server"
    elf = make(sources)
    waiting = [
        "qemu-system-riscv32", "-machine", "virt", "-bios", "none", "-display", "none",
        "-serial", "null", "-monitor", "none", "-kernel", elf,
        "-S", "-gdb", f"unix:{server},server=on",
    ]  # fmt: skip
    command = [
        "gdb-multiarch", "-nx", "-batch", "-x", sources / "demo/demo.gdb",
        "-ex", f"target remote {server}", "-ex", "continue", elf,
    ]  # fmt: skip
    with subprocess.Popen([str(w) for w in waiting]) as machine:
        while not server.exists() and machine.poll() is None:
            time.sleep(0.02)
        printed = subprocess.run([str(w) for w in command], capture_output=True, text=True).stdout
        machine.kill()
    build = demo.folder / "build/d/rv32-bare"
    expected = read_arrays(build / "run/sample.npz")["output_0"].reshape(-1)
    assert f"scores\n$1 = {{{', '.join(map(str, expected))}}}\n" in printed


def test_it_finds_an_output_that_is_not_the_expected_one(demo: Repository, tmp_path: Path) -> None:
    sources = unpacked(demo, "host", tmp_path)
    data = sources / "demo" / "demo_data.c"
    before, _, values = data.read_text().rpartition("= {\n    ")
    first, _, rest = values.partition(",")
    data.write_text(f"{before}= {{\n    {int(first) ^ 1},{rest}")
    ran = subprocess.run([make(sources)], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.splitlines()[1]) == (1, "scores: 1 of 10 elements differ")


CLOCK_READING = 60
"""Maximum instructions around the call of a layer that the profiler counts with the layer."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with a demo, built for DIANA's accelerator."""
    repository = repository_of_example("diana", tmp_path_factory.mktemp("demo"))
    recipe = (repository.folder / "two_convs.yaml").read_text()
    repository.write("d.yaml", f"{recipe}demo: {{profile: individual}}\n")
    repository.build("recipe=d.yaml", "platform=diana", "target=soma_dory, c", "compare=c")
    return repository


def test_on_diana_the_profile_is_the_timeline(models: Repository, tmp_path: Path) -> None:
    """The emulated accelerator measures the cost that the cost model states for each layer."""
    elf = make(unpacked(models, "diana", tmp_path))
    ran = run_firmware(elf, load_platform("diana"), "unicorn", b"", "network_run", 10**9)
    profile = read_profile(ran.console)
    manifest = models.manifest("build/d/d-diana.tar.gz")
    *layers, _ = manifest["timeline"]["layers"]
    assert list(profile) == [layer["name"] for layer in layers]
    assert any(layer["modelled"] for layer in layers)
    for layer in layers:
        length = layer["end"] - layer["start"] + 1
        assert 0 < profile[layer["name"]] - length < CLOCK_READING, layer["name"]
    total = manifest["comparison"]["total"]
    assert (total["base"]["modelled"], total["other"]["modelled"]) == (
        manifest["timeline"]["modelled"], 0,
    )  # fmt: skip
    assert total["speed_up"] > 10


def test_the_console_is_a_log_that_measure_accepts(models: Repository, tmp_path: Path) -> None:
    log, bundle = "build/d/diana/demo-run/console.txt", "build/d/d-diana.tar.gz"
    words = (log, bundle, "--board", "emulated", "--clock", "1MHz", "--output", tmp_path / "m.yaml")
    printed = models.firmwright("measure", *map(str, words)).stdout.splitlines()
    network = re.search(r"network: (\d+) cycles", (models.folder / log).read_text())
    assert network is not None
    cycles = int(network[1])
    assert printed[0].startswith(f"measured: {cycles:,} cycles, {cycles / 1000:.1f} ms at 1 MHz")
    manifest = models.manifest(bundle)
    written = yaml.safe_load((tmp_path / "m.yaml").read_text())
    assert (written["build_id"], written["passes"]) == (manifest["build_id"], 1)
    names = [layer["name"] for layer in manifest["layers"]]
    assert [layer["name"] for layer in written["layers"]] == [*names, "network"]


def test_without_transfers_the_profile_is_the_rest(models: Repository, tmp_path: Path) -> None:
    """The marks of layers are the same for both, so only the demo is written again."""
    stages = models.folder / "build/d/diana"
    sources = unpacked(models, "diana", tmp_path)
    regions = read_record(stages / "partition/partition.json", Partition).regions
    interface = read_record(stages / "partition/interface.json", ModelInterface)
    write_demo(
        ShownNetwork("d", "network", interface, regions), DemoOptions("no_dma", True, False),
        read_arrays(stages / "run/sample.npz"), load_board("diana"), sources / "demo",
    )  # fmt: skip
    platform = load_platform("diana")
    ran = run_firmware(make(sources), platform, "unicorn", b"", "network_run", 10**9)
    assert ran.exit_code == 0
    less = read_profile(ran.console)
    whole = read_profile((stages / "demo-run/console.txt").read_bytes())
    *layers, _ = models.manifest("build/d/d-diana.tar.gz")["timeline"]["layers"]
    moved = {layer["name"]: (layer["modelled"] or {"transfer": 0})["transfer"] for layer in layers}
    assert any(moved.values())
    for name, transfer in moved.items():
        assert abs(whole[name] - transfer - less[name]) < CLOCK_READING, name


def read_profile(console: bytes) -> dict[str, int]:
    """Return the cycles of each layer that a demo prints."""
    lines = (line.split(b": ") for line in console.splitlines()[2:-2])
    return {name.decode(): int(value.split()[0]) for name, value in lines}


def test_without_an_emulator_the_reference_gives_the_outputs(
    models: Repository, tmp_path: Path
) -> None:
    stages = models.build("recipe=d.yaml", "platform=diana-chip", "target=soma_dory, c")
    assert stages[-2:] == ["demo", "bundle"]
    builds = models.folder / "build" / "d"
    data = [(builds / p / "demo" / "demo_data.c").read_bytes() for p in ("diana", "diana-chip")]
    assert data[0] == data[1]
    assert 'section(".l2_data"' in (builds / "diana-chip/demo/malloc_wrapper.c").read_text()
    for name, text in (
        ("install/rules/pulp.mk", "sources:\n\t@echo $(PULP_APP_SRCS) $(PULP_CFLAGS)\n"),
        ("include/dory.h", ""),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    command = ["make", "DEMO=1", f"PULP_SDK_HOME={tmp_path}", f"DORY_HAL={tmp_path}"]
    sources = builds / "diana-chip" / "sources"
    words = subprocess.run(command, cwd=sources, capture_output=True, text=True).stdout.split()
    expected = {"network/network.c", "../demo/demo.c", "../demo/profiler.c", "-DFW_PROFILE"}
    assert expected <= set(words)
    assert "demo/main.c" not in words


def test_make_works_in_the_build_folder_too(demo: Repository, tmp_path: Path) -> None:
    shutil.copytree(demo.folder / "build/d/host", tmp_path / "host")
    assert (
        subprocess.run([make(tmp_path / "host" / "sources")], capture_output=True).returncode == 0
    )


def read_firmware(repository: Repository) -> bytes:
    """Return the program without its build id, which depends on the text of the sources."""
    build = repository.folder / "build/d/host"
    stated = json.loads((build / "sources/network/network_interface.json").read_text())
    own = bytes.fromhex(stated["build_id"])
    program = (build / "firmware/firmware.elf").read_bytes()
    assert own in program
    return program.replace(own, bytes(len(own)))


def test_marks_of_layers_change_nothing_in_the_firmware(demo: Repository, tmp_path: Path) -> None:
    plain = Repository(tmp_path / "plain", dict(os.environ))
    shutil.copytree(demo.folder, plain.folder)
    plain.write("d.yaml", DIGITS)
    marked = read_firmware(demo)
    assert plain.build("recipe=d.yaml", "platform=host")[:1] == ["sources"]
    assert read_firmware(plain) == marked
    project = plain.folder / "build/d/host/sources"
    assert not (project / "network" / "network_profile.h").exists()
    assert "FW_PROFILE" not in (project / "network" / "network.c").read_text()
    assert "make demo" not in (project / "Makefile").read_text()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_variant_is_c99_without_warnings(
    demo: Repository, tmp_path: Path, compiler: str
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    stages = demo.folder / "build/d/host"
    interface = read_record(stages / "partition/interface.json", ModelInterface)
    partition = read_record(stages / "partition/partition.json", Partition)
    regions = [region for region in partition.regions if not region.view]
    network = ShownNetwork("d", "network", interface, regions)
    sample = read_arrays(stages / "run/sample.npz")
    includes = [f"-I{stages}/sources/{folder}" for folder in ("network", "board")]
    for profile, compare, indefinite in product(
        ("none", "global", "individual", "no_dma"), (True, False), (True, False)
    ):
        options = DemoOptions(profile, compare, indefinite)
        folder = tmp_path / f"{profile}-{compare}-{indefinite}"
        write_demo(network, options, sample, load_board("posix"), folder)
        sources = sorted(folder.glob("*.c"))
        assert (folder / "profiler.c" in sources) == (profile != "none")
        check(compiler, "-fsyntax-only", *includes, *sources)


def check(*command: str | Path) -> None:
    done = subprocess.run([command[0], *STRICT, *command[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


ALLOCATIONS = """
#include "malloc_wrapper.h"
#include <stdint.h>
#include <stdio.h>
int main(void)
{
    char *image = malloc_wrapper(64);
    char *scores = malloc_wrapper(10);
    int aligned = (uintptr_t)image % 16 == 0 && (uintptr_t)scores % 16 == 0;
    int apart = scores >= image + 64;
    int full = malloc_wrapper(1) == NULL && malloc_wrapper((size_t)-1) == NULL;
    free_wrapper(scores);
    printf("%d %d %d %d ", aligned, apart, full, (int)malloc_wrapper_current());
    int again = malloc_wrapper(16) == scores;
    free_wrapper(scores);
    free_wrapper(image);
    free_wrapper(NULL);
    printf("%d %d %d", again, (int)malloc_wrapper_current(), (int)malloc_wrapper_peak());
    return 0;
}
"""


def test_the_allocator_counts_and_knows_when_it_is_full(demo: Repository, tmp_path: Path) -> None:
    folder = demo.folder / "build/d/host/demo"
    program = tmp_path / "allocations.c"
    program.write_text(ALLOCATIONS)
    elf = tmp_path / "allocations"
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    check("cc", *sanitizers, f"-I{folder}", "-o", elf, program, folder / "malloc_wrapper.c")
    assert subprocess.run([elf], capture_output=True, text=True).stdout == "1 1 1 64 1 0 80"
