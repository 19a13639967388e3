"""Every architecture starts, computes and ends on a board for its family."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.emulator.cortex_m import find_core
from firmwright.errors import UserError
from firmwright.toolchain import load_toolchain, toolchain_names
from firmwright.toolchain.families import find_family, load_families

from .conftest import BuildFirmware, RunFirmware

BOARDS = {
    "cortex-m": ("mps2-an386", 0x00000000, 0x20000000),
    "rv32": ("qemu-virt-rv32", 0x80000000, 0x80400000),
    "rv64": ("qemu-virt-rv32", 0x80000000, 0x80400000),
}
"""By family: the board, and the addresses at which flash and RAM begin."""

NOT_IN_UNICORN = {"cortex-m55", "rv32imc_xcv"}
ARCHITECTURES = {a for f in BOARDS for a in load_families()[f]} - NOT_IN_UNICORN
BUILDS = [
    (architecture, toolchain)
    for architecture in sorted(ARCHITECTURES)
    for toolchain in toolchain_names()
    if load_toolchain(toolchain).knows(architecture)
]


def write_platform(folder: Path, architecture: str, toolchain: str) -> str:
    board, flash, ram = BOARDS[find_family(architecture) or ""]
    path = folder / "mine.yaml"
    path.write_text(
        "name: mine\ndescription: A core of the user's own.\n"
        f"architecture: {architecture}\nboard: {board}\n"
        f"memories: {{flash: {{origin: {flash:#x}, size: 256 KiB}}, "
        f"ram: {{origin: {ram:#x}, size: 64 KiB}}}}\n"
        f"stack: 4 KiB\ntoolchains: [{toolchain}]\nemulators: [unicorn]\n"
    )
    return str(path)


@pytest.mark.parametrize(("architecture", "toolchain"), BUILDS)
def test_an_architecture_computes_integers_and_floats(
    build: BuildFirmware, run: RunFirmware, tmp_path: Path, architecture: str, toolchain: str
) -> None:
    platform = write_platform(tmp_path, architecture, toolchain)
    elf = build("mixed.c", platform, toolchain)
    assert run(elf, platform).exit_code == 0


@pytest.mark.parametrize("architecture", ["cortex-m0+", "cortex-m33f", "rv64gc"])
def test_a_fault_is_reported(
    build: BuildFirmware, run: RunFirmware, tmp_path: Path, architecture: str
) -> None:
    platform = write_platform(tmp_path, architecture, "zig")
    with pytest.raises(UserError, match="write to address 0x70000000"):
        run(build("mistakes.c", platform), platform, b"w", budget=100_000)


def test_a_core_that_unicorn_lacks_is_named() -> None:
    with pytest.raises(UserError, match=r"no core for the architecture 'cortex-m55'; .* cortex-m3"):
        find_core("cortex-m55")
