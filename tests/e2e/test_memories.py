"""A network in several memories: planned by cost and recipe, linked there, and run."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from firmwright.emulator import run_firmware
from firmwright.errors import UserError
from firmwright.toolchain import Platform, load_platform

from .conftest import DIGITS, Repository, new_repository
from .test_user_errors import fail, fail_with

PLATFORM = """\
name: tightly
description: A made-up microcontroller with a tightly coupled memory and a QSPI flash.
architecture: cortex-m7f
features: [armv7e-m-dsp]
board: mps2-an386
memories:
  flash: {origin: 0x08000000, size: 256 KiB, cost: 3}
  ram: {origin: 0x24000000, size: 64 KiB, cost: 2}
  dtcm: {origin: 0x20000000, size: 4 KiB, cost: 1}
  qspi: {origin: 0x90000000, size: 8 MiB, cost: 10, read_only: true}
stack: 8 KiB
toolchains: [arm-none-eabi-gcc, zig]
emulators: [unicorn]
"""
PINS = 'memory: {weights: qspi, downsample: dtcm, "poi*": ram}\narena: caller\nselftest: true\n'


RISCV = """\
name: riscv
description: A made-up microcontroller whose start-up code is assembly.
architecture: rv32imc
features: [rv32m]
board: qemu-virt-rv32
memories:
  flash: {origin: 0x80000000, size: 256 KiB, cost: 4}
  ram: {origin: 0x80400000, size: 64 KiB, cost: 2}
  near: {origin: 0x30000000, size: 2 KiB, cost: 1}
  nearer: {origin: 0x20000000, size: 1 KiB, cost: 0.5}
stack: 8 KiB
toolchains: [zig]
emulators: [unicorn]
"""
"""Two memories that the start-up code fills."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    made = new_repository(tmp_path_factory.mktemp("memories"))
    made.write("tightly.yaml", PLATFORM)
    made.write("digits.yaml", f"platform: tightly.yaml\n{DIGITS}")
    made.write("pinned.yaml", f"platform: tightly.yaml\n{DIGITS}{PINS}")
    return made


def build(repository: Repository, name: str) -> tuple[dict[str, Any], dict[str, int], Path]:
    """Build a recipe; return its manifest, the used bytes of each memory, and the ELF."""
    repository.build(f"recipe={name}.yaml")
    folder = repository.folder / f"build/{name}/tightly/firmware"
    measured = json.loads((folder / "memory.json").read_text())
    manifest = repository.manifest(f"build/{name}/{name}-tightly.tar.gz")
    return manifest, measured["other_bytes"], folder / "firmware.elf"


def find_symbols(elf: Path, platform: Platform) -> dict[str, str]:
    """Return the memory of each symbol of an ELF that is in a memory."""
    with elf.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {
            symbol.name: name
            for symbol in table.iter_symbols()
            for name, m in platform.memories.items()
            if symbol["st_size"] and m.origin <= symbol["st_value"] < m.origin + m.size
        }


def load(repository: Repository) -> Platform:
    return load_platform("tightly.yaml", repository.folder)


@pytest.mark.needs("arm-none-eabi-gcc")
def test_the_cheapest_memory_is_filled_and_used(repository: Repository) -> None:
    manifest, used, elf = build(repository, "digits")
    assert (manifest["run"]["samples"], manifest["run"]["mismatches"]) == (3, 0)
    assert 3000 < used["dtcm"] <= 4096 and used.keys() == {"dtcm"}
    lying = find_symbols(elf, load(repository))
    assert lying["network_region_003_conv2d_weights"] == lying["arena_dtcm"] == "dtcm"
    assert lying["network_region_005_matmul_weights"] == "flash", "each weight is read once"
    assert lying["arena"] == "ram"
    header = (elf.parents[1] / "sources/network/network.h").read_text()
    arena = manifest["memory"]["other_memories"]["dtcm"]
    assert f"#define NETWORK_WORKSPACE_SIZE_DTCM {arena}u" in header


@pytest.mark.needs("arm-none-eabi-gcc")
def test_an_access_outside_the_memories_is_a_fault(repository: Repository) -> None:
    _, _, elf = build(repository, "digits")
    memories = dict(load(repository).memories)
    dtcm = memories.pop("dtcm")
    for left, fault in (
        (memories, r"write to address 0x20000000, which is in no memory; at 0x08"),
        (memories | {"dtcm": replace(dtcm, read_only=True)}, "which is read-only"),
    ):
        smaller = replace(load(repository), memories=left)
        with pytest.raises(UserError, match=fault):
            run_firmware(elf, smaller, "unicorn", b"\0\0\0\0", "network_run", 10**6)


@pytest.mark.needs("arm-none-eabi-gcc")
def test_a_recipe_pins_and_the_caller_has_an_arena_of_each_memory(repository: Repository) -> None:
    manifest, used, elf = build(repository, "pinned")
    assert (manifest["run"]["samples"], manifest["run"]["mismatches"]) == (3, 0)
    lying = find_symbols(elf, load(repository))
    weights = {n: m for n, m in lying.items() if n.endswith("_weights")}
    assert weights == {
        "network_region_000_conv2d_weights": "qspi",
        "network_region_001_conv2d_weights": "dtcm",
        "network_region_002_conv2d_weights": "qspi",
        "network_region_003_conv2d_weights": "ram",
        "network_region_005_matmul_weights": "qspi",
    }
    assert used.keys() == {"dtcm", "qspi"}
    images = {entry["path"] for entry in manifest["files"]}
    assert {"firmware.bin", "firmware.qspi.bin"} <= images
    header = (elf.parents[1] / "sources/network/network.h").read_text()
    assert "#define NETWORK_WORKSPACE_ALIGNMENT_DTCM 16u" in header
    assert "void *arena, size_t size, void *arena_dtcm, size_t size_dtcm);" in header


def test_start_up_code_in_assembly_fills_two_memories(repository: Repository) -> None:
    repository.write("riscv.yaml", RISCV)
    repository.build("recipe=digits.yaml", "platform=riscv.yaml", "outdir=other")
    manifest = repository.manifest("other/digits-riscv.tar.gz")
    assert (manifest["run"]["samples"], manifest["run"]["mismatches"]) == (3, 0)
    assert {"near", "nearer"} < manifest["memory"]["constants"].keys()
    text = (repository.folder / "other/riscv/sources/board/startup.S").read_text()
    assert text.count("lw      t3, 0(t2)") == 3


@pytest.mark.needs("qemu-system-arm")
def test_the_ready_platform_has_its_memories_in_qemu(repository: Repository) -> None:
    pins = 'memory: {weights: dtcm, stem: qspi, "de*e": ddr, arena: ram, downsample: dtcm}\n'
    repository.write("m55.yaml", f"platform: cortex-m55-tcm\n{DIGITS}{pins}")
    repository.build("recipe=m55.yaml")
    manifest = repository.manifest("build/m55/m55-cortex-m55-tcm.tar.gz")
    assert (manifest["run"]["samples"], manifest["run"]["mismatches"]) == (3, 0)
    assert manifest["memory"]["constants"].keys() == {"dtcm", "qspi", "ddr"}
    assert manifest["memory"]["other_memories"].keys() == {"ddr", "dtcm"}


def test_explanation_and_report_tell_where_it_lies(repository: Repository) -> None:
    command = ["-m", "firmwright.cli", "explain", "pinned.yaml"]
    shown = repository.run(sys.executable, *command).stdout
    assert re.search("memories: weights [0-9,]+ of dtcm, results 384 of dtcm, scratch ", shown)
    assert re.search("memories: weights [0-9,]+ of qspi, results 10 of the caller's\n", shown)
    page = (repository.folder / "build/pinned/pinned-tightly.html").read_text()
    assert "<dt>Memories</dt><dd>weights " in page
    assert re.search("Constants take [0-9,]+ bytes of qspi", page.replace("\u202f", ","))


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("weights: qspy", "2:19: memory.weights: the platform 'tightly' has no memory 'qspy'; did "
         "you mean 'qspi'? Known: dtcm, flash, qspi, ram"),
        ("arena: qspi", "2:17: memory.arena: the program writes its arena, and 'qspi' is "
         "read-only; choose another memory"),
    ],
)  # fmt: skip
def test_a_memory_that_is_not_there(repository: Repository, memory: str, message: str) -> None:
    text = fail_with(repository, f"platform: tightly.yaml\nmemory: {{{memory}}}\n{DIGITS}")
    assert f"r.yaml:{message}\n" in text


def test_a_layer_that_is_not_there(repository: Repository) -> None:
    stated = 'platform: tightly.yaml\nmemory: {"downsampel": dtcm}\n'
    text = fail_with(repository, stated + DIGITS)
    assert "r.yaml:2:24: memory.downsampel: no layer named 'downsampel'; did you mean" in text


def test_a_memory_that_is_full(repository: Repository) -> None:
    stated = "platform: tightly.yaml\nmemory: {weights: dtcm, arena: dtcm}\n"
    text = fail_with(repository, stated + DIGITS)
    problem = "the network does not fit tightly: it needs 6,"
    assert problem in text
    assert " bytes of dtcm; 4,096 are available; the largest constants and buffers:\n" in text
    assert "bytes  weights of region_001_conv2d\n" in text
    assert "free bytes: " in text and " of ram, 8,388,608 of qspi; the recipe's `memory`" in text


def test_packages_hand_over_one_arena(repository: Repository) -> None:
    stated = "platform: tightly.yaml\narena: caller\nexport: {to: [cmake]}\n"
    text = fail_with(repository, stated + DIGITS)
    assert "packages pass one arena, but this network has a second arena in dtcm; add " in text


def test_networks_of_one_firmware_share_ram_and_flash(repository: Repository) -> None:
    networks = "platform: tightly.yaml\nnetworks: {one: digits.yaml, two: digits.yaml}\n"
    repository.write("both.yaml", networks)
    repository.build("recipe=both.yaml")
    manifest = repository.manifest("build/both/both-tightly.tar.gz")
    assert manifest["run"]["networks"].keys() == {"one", "two"}
    repository.write("both.yaml", networks.replace("two: digits", "two: pinned"))
    text = fail(repository, "recipe=both.yaml")
    assert "pinned.yaml:5:9: memory: several networks of a firmware share its memory" in text


def test_a_board_that_gives_a_memory_no_place(repository: Repository) -> None:
    repository.firmwright("new", "board", "acme", "--like", "cortex-m7-bare")
    text = PLATFORM.replace("board: mps2-an386", "board: ./boards/acme")
    repository.write("tight.yaml", text.replace("name: tightly", "name: tight"))
    text = fail(repository, "recipe=digits.yaml", "platform=tight.yaml", "outdir=own")
    assert "a part of the network is in 'dtcm', but the start-up code of the board '" in text
    assert "boards/acme' has no fw_constants_dtcm_load. Add it as docs/howto/memory.md" in text
