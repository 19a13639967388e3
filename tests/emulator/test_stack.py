"""Proven depths of stacks: against the compiler's numbers, and against stacks that were used."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.toolchain import load_platform
from firmwright.toolchain.control_flow import CodeSection
from firmwright.toolchain.object_files import find_pointed_functions
from firmwright.toolchain.stack_depth import StackDepth, prove_stack

from .conftest import BuildFirmware, RunFirmware

PLATFORMS = ("rv32-bare", "cortex-m4-bare", "cortex-m0-bare", "cortex-m55-bare")


def prove(elf: Path, platform: str, function: str) -> StackDepth:
    pointers = find_pointed_functions([elf.parent / "stack.o"])
    return prove_stack(elf, load_platform(platform).architecture, function, pointers)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_bound_is_reached_and_never_exceeded(
    build: BuildFirmware, run: RunFirmware, platform: str
) -> None:
    elf = build("stack.c", platform)
    used = int(run(elf, platform).console.split()[0])
    proven = prove(elf, platform, "counted")
    assert proven.bytes is not None, proven.unknown
    assert used <= proven.bytes <= used + 32, proven.frames
    assert [name for name, _ in proven.frames][:3] == ["counted", "choose", "divide"]


@pytest.mark.parametrize(
    ("platform", "toolchain"),
    [
        ("rv32-bare", "zig"),
        ("rv32-bare", "riscv64-unknown-elf-gcc"),
        ("cortex-m4-bare", "arm-none-eabi-gcc"),
        ("cortex-m0-bare", "arm-none-eabi-gcc"),
    ],
)
def test_frames_are_as_large_as_the_compiler_says(
    build: BuildFirmware, platform: str, toolchain: str
) -> None:
    elf = build("stack.c", platform, toolchain, ("-fstack-usage",))
    rows = (line.split("\t") for line in elf.with_name("stack.su").read_text().splitlines())
    stated = {place.rpartition(":")[2]: int(size) for place, size, _ in rows}
    proven = prove(elf, platform, "counted")
    assert proven.bytes is not None, proven.unknown
    found = {name: size for name, size in proven.frames if name in stated}
    assert found == {name: stated[name] for name in ("counted", "choose", "divide")}


@pytest.mark.parametrize("platform", ["rv32-bare", "cortex-m4-bare"])
def test_the_reason_names_the_function(build: BuildFirmware, platform: str) -> None:
    elf = build("stack.c", platform)
    assert prove(elf, platform, "run_again") == StackDepth(None, "run_again calls itself")
    large = prove(elf, platform, "run_large").unknown
    assert large.startswith("run_large moves its stack pointer by a number that is not constant")
    architecture = load_platform(platform).architecture
    assert prove_stack(elf, architecture, "counted").unknown == "choose calls by a pointer"
    assert prove_stack(elf, architecture, "none").unknown == "the firmware has no function none"


@pytest.mark.parametrize("platform", ["cortex-m4-bare", "cortex-m0-bare"])
def test_a_call_before_a_literal_does_not_return(build: BuildFirmware, platform: str) -> None:
    elf, architecture = build("no_return.c", platform), load_platform(platform).architecture
    proven = prove_stack(elf, architecture, "counted")
    assert proven == StackDepth(8 + 16, "", (("counted", 8), ("stopping", 16)))


def test_an_architecture_without_encodings_is_named(build: BuildFirmware) -> None:
    elf = build("stack.c", "rv32-bare")
    reason = "the machine code of atmega2560 is not analyzed"
    assert prove_stack(elf, "atmega2560", "counted") == StackDepth(None, reason)


def test_a_load_that_widens_numbers_does_not_move_the_stack_pointer() -> None:
    """The bits of r5 in ``vldrh.s32 q2, [r5], #16`` are the bits of sp in other instructions."""
    section = CodeSection(0, bytes.fromhex("bdec044f"), "thumb")
    assert section.read(0).move == 0
