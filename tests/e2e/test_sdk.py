"""Platforms that need an SDK: a bundle without the SDK, and a bundle with its firmware."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from firmwright.devices.soma_dory.chip_program import DRIVER_SOURCES, write_templates
from firmwright.toolchain import load_platform

from .conftest import Repository, copy_of, repository_of_example

pytestmark = pytest.mark.fresh

BUILD = ("recipe=one_conv.yaml", "platform=diana-chip")
BUNDLE = "build/one_conv/one_conv-diana-chip.tar.gz"
REASON = (
    "riscv32-unknown-elf-gcc is not installed; get it by building "
    "pulp-riscv-gnu-toolchain v1.0.16; "
    "PULP_SDK_HOME is not set; set it to the folder with install/rules/pulp.mk; "
    "DORY_HAL is not set; set it to the folder with include/dory.h"
)
COMPILER = f"""\
#!/bin/sh
[ "$1" = -dumpversion ] && echo 7.1.1 && exit
exec {shlex.quote(sys.executable)} -m ziglang cc -target riscv32-linux-musl "$@"
"""
RULES = """\
FIRMWARE = build/chip/$(PULP_APP)/$(PULP_APP)
FLAGS = $(PULP_CFLAGS) -I$(PULP_SDK_HOME)/install/include -shared -fPIC
all: ; mkdir -p $(dir $(FIRMWARE)); riscv32-unknown-elf-gcc $(FLAGS) $(PULP_APP_SRCS) -o $(FIRMWARE)
"""
"""An SDK's Makefile without start-up code; its inputs and its result are like the real ones.
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A network for DIANA's chip, built without its SDK."""
    repository = repository_of_example("diana", tmp_path_factory.mktemp("sdk"))
    for variable in ("PULP_SDK_HOME", "DORY_HAL"):
        repository.environment.pop(variable, None)
    done = repository.doit("build", *BUILD)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  outputs "))
    assert line.split(maxsplit=1)[1] == f"no firmware was compiled or run: {REASON}"
    return repository


def unpack(repository: Repository) -> dict[str, bytes]:
    with tarfile.open(repository.folder / BUNDLE) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        found = {member.name.partition("/")[2]: archive.extractfile(member) for member in files}
        return {name: stream.read() for name, stream in found.items() if stream is not None}


def test_without_the_sdk_there_is_all_but_the_firmware(without: Repository) -> None:
    manifest, files = without.manifest(BUNDLE), unpack(without)
    assert manifest["not_built"] == REASON
    assert (manifest["run"], manifest["not_run"]) == (
        None, "the platform 'diana-chip' lists no emulator",
    )  # fmt: skip
    memory = manifest["memory"]
    assert (memory["flash_bytes"], memory["ram_bytes"]) == (None, None)
    assert memory["arena_bytes"] > 0
    assert "pulp-gcc" not in manifest["versions"]
    project = without.folder / "build/one_conv/diana-chip/sources"
    written = {p.relative_to(project).as_posix() for p in project.rglob("*") if p.is_file()}
    packed = {name.removeprefix("src/") for name in files if name.startswith("src/")}
    assert packed == written - {"stage.json"}
    listed = {"recipe/one_conv.yaml", "recipe/platforms/diana-chip.yaml", "report.html"}
    assert {*listed, "chip.json", "src/Makefile", "src/network/network.c"} < {*files}
    assert not any("firmware." in name for name in files)
    readme = files["README.md"].decode()
    assert f"- no firmware was compiled or run: {REASON}\n" in readme
    assert "make all" in readme and "firmware.elf" not in readme
    assert "Nothing was linked." in files["report.html"].decode()
    printed = without.firmwright("inspect", BUNDLE).stdout
    assert f"not built: {REASON}\n" in printed


def test_it_is_the_same_in_another_folder(without: Repository, tmp_path: Path) -> None:
    again = repository_of_example("diana", tmp_path / "elsewhere")
    again.environment = without.environment
    again.build(*BUILD)
    assert (again.folder / BUNDLE).read_bytes() == (without.folder / BUNDLE).read_bytes()


def install_sdk(folder: Path) -> dict[str, str]:
    """Install a compiler and stand-ins of driver and SDK in a folder; return the variables."""
    write_templates("soma_dory/chip_check", folder / "parts", {"platform": load_platform("diana")})
    parts, home, hal = folder / "parts", folder / "sdk", folder / "hal"
    for part in ("registers", "sdk"):
        shutil.copytree(parts / part, home / "install/include", dirs_exist_ok=True)
    (home / "install/rules").mkdir()
    (home / "install/rules/pulp.mk").write_text(RULES)
    for name in ("include", "src"):
        suffix = {"include": "*.h", "src": "*.c"}[name]
        (hal / name).mkdir(parents=True)
        for path in (parts / "driver").glob(suffix):
            shutil.copy(path, hal / name)
    for name in DRIVER_SOURCES:
        (hal / "src" / name).touch()
    (hal / "src/kernels.c").replace(hal / "src/utils.c")
    compiler = folder / "bin/riscv32-unknown-elf-gcc"
    compiler.parent.mkdir()
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    return {
        "PATH": f"{compiler.parent}{os.pathsep}{os.environ['PATH']}",
        "PULP_SDK_HOME": str(home),
        "DORY_HAL": str(hal),
    }


@pytest.mark.needs("make")
def test_with_the_sdk_the_bundle_has_what_make_links(without: Repository, tmp_path: Path) -> None:
    copy = copy_of(without, tmp_path)
    copy.environment |= install_sdk(tmp_path)
    # The sources contain the build id, which depends on the compiler.
    stages = [s for s in copy.build(*BUILD) if s != "chip-check"]
    assert stages == ["sources", "firmware", "bundle"]
    assert copy.build(*BUILD) == []
    manifest, files = copy.manifest(BUNDLE), unpack(copy)
    assert manifest["not_built"] is None
    assert manifest["not_run"] == "the platform 'diana-chip' lists no emulator"
    assert manifest["memory"]["flash_bytes"] > manifest["memory"]["arena_bytes"] / 100
    assert manifest["versions"]["pulp-gcc"] == "pulp-gcc 7.1.1"
    assert manifest["versions"]["DORY_HAL"].startswith("sha256 ")
    assert files["firmware.elf"].startswith(b"\x7fELF")
    assert b" .l2_data\n" in files["firmware.map"] and "sbom/firmware.cdx.json" in files
