"""CORE-V's instructions: results next to plain C, cycles in the RTL, and proven stacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firmwright.emulator import load_emulator, run_firmware
from firmwright.errors import UserError
from firmwright.toolchain import load_platform
from firmwright.toolchain.stack_depth import prove_stack

from .conftest import BuildFirmware

pytest.importorskip(
    "pythondata_cpu_cv32e40p", reason="the RTL is not installed: pip install 'firmwright[rtl]'"
)
pytestmark = pytest.mark.needs("verilator", "g++", "make")

XCV = load_platform("cv32e40p-bare")


def test_instructions_equal_plain_c(build: BuildFirmware) -> None:
    rtl = run_firmware(build("xcv.c", XCV.name), XCV, "cv32e40p", b"", "counted", 10**6)
    plain = load_platform("rv32-bare")
    c = run_firmware(build("xcv.c", plain.name), plain, "unicorn", b"", "main", 10**6)
    assert rtl.console == c.console
    assert len({*rtl.console.split()}) == 9
    # Clang has a macro for each extension: with one of three, the functions are plain C.
    one = build("xcv.c", XCV.name, "", ("-march=rv32imc_xcvsimd",))
    assert run_firmware(one, plain, "unicorn", b"", "main", 10**6).console == c.console
    assert rtl.instructions == 4 + 10 * 4 + 7
    assert rtl.cycles is not None
    # A hardware loop jumps without a stall. Two loads stall, and a return needs two cycles.
    assert rtl.cycles.total == 4 + 10 * (4 + 1) + 7 + 1 + 1


def test_loops_that_are_not_proven_are_named(build: BuildFirmware) -> None:
    elf = build("xcv.c", XCV.name)
    assert prove_stack(elf, XCV.architecture, "counted").bytes == 0
    moving = prove_stack(elf, XCV.architecture, "moving")
    assert moving.bytes is None
    assert "moving jumps or moves its stack pointer in a hardware loop at 0x" in moving.unknown
    separate = prove_stack(elf, XCV.architecture, "parts").unknown
    assert separate.startswith("parts has a hardware loop of separate instructions at 0x")
    assert (prove_stack(elf, XCV.architecture, "main").bytes or 0) > 0


def test_the_rtl_alone_names_the_instruction_that_it_lacks(build: BuildFirmware) -> None:
    elf = build("atomic.c", "rv32-bare")
    with pytest.raises(UserError, match=r"illegal instruction; at .*, on the RTL of CV32E40P$"):
        run_firmware(elf, XCV, "cv32e40p", b"", "counted", 1000)


@pytest.mark.parametrize(
    ("mistake", "problem"),
    [
        (b"l", "the firmware did not exit within 10,000 instructions"),
        (b"w", "access to address 0x70000000, which is in no memory"),
        (b"h", "the core retires no further instruction"),
    ],
)
def test_the_rtl_alone_names_faults(build: BuildFirmware, mistake: bytes, problem: str) -> None:
    with pytest.raises(UserError, match=rf"\.elf: {problem}; at .*, on the RTL of CV32E40P$"):
        run_firmware(build("mistakes.c", XCV.name), XCV, "cv32e40p", mistake, "counted", 10_000)


def test_segments_outside_the_memories_are_rejected(build: BuildFirmware) -> None:
    memories = {**XCV.memories, "flash": replace(XCV.memories["flash"], size=64)}
    small = replace(XCV, memories=memories)
    with pytest.raises(UserError, match="are outside the memories of platform cv32e40p-bare"):
        run_firmware(build("xcv.c", XCV.name), small, "cv32e40p", b"", "counted", 1000)


def test_the_parameter_decides_the_instructions(build: BuildFirmware) -> None:
    plain = replace(XCV, architecture="rv32imc")
    with pytest.raises(UserError, match="illegal instruction"):
        run_firmware(build("xcv.c", XCV.name), plain, "cv32e40p", b"", "counted", 10**6)
    assert load_emulator("cv32e40p").explain_unusable(XCV) == ""
