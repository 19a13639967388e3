"""Errors of a firmware, each with the message to its author."""

from __future__ import annotations

import re
import resource
from importlib.resources import files
from pathlib import Path

import pytest

from firmwright.emulator.typed_unicorn import TRANSLATIONS
from firmwright.errors import UserError
from firmwright.system import limit_memory

from .conftest import BuildFirmware, RunFirmware

BARE = ["rv32-bare", "cortex-m4-bare"]
PLACE = r"at 0x[0-9a-f]{8} in counted\b"

MESSAGES = {
    "w": rf"write to address 0x70000000, which is in no memory; {PLACE}",
    "r": rf"read from address 0x70000000, which is in no memory; {PLACE}",
    "f": rf"write to address 0x[0-9a-f]{{8}}, which is read-only; {PLACE}",
    "j": r"jump to address 0x7000000[01], which is in no memory; at 0x70000000",
    "v": r"jump to address 0x[0-9a-f]{8}, which contains no code; at 0x[0-9a-f]{8}",
    "i": rf"illegal instruction.*; {PLACE}",
    "h": r"halted the processor, and no interrupt will wake it; last at 0x[0-9a-f]{8} in counted",
    "s": r"\(the stack of 16384 bytes has overflowed\); at 0x[0-9a-f]{8} in overflow",
    "c": r"waiting for console input, but no input is left; at .* in fw_hal_read",
    "l": r"100,000 instructions; last at 0x[0-9a-f]{8} in counted.*; check custom code",
}


@pytest.mark.parametrize("mistake", MESSAGES)
@pytest.mark.parametrize("platform", BARE)
def test_fault_says_what_and_where(
    build: BuildFirmware, run: RunFirmware, platform: str, mistake: str
) -> None:
    elf = build("mistakes.c", platform)
    with pytest.raises(UserError) as raised:
        run(elf, platform, mistake.encode(), budget=100_000)
    message = str(raised.value)
    assert re.search(MESSAGES[mistake], message)
    assert message.startswith(f"{elf}: ")
    assert message.endswith("console, last lines:\nbegin")


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("{origin: 0x70000000, size: 4 KiB}", None),
        ("{origin: 0x70000000, size: 2 KiB}", rf"write to address 0x70000800, .*; {PLACE}"),
        ("{origin: 0x70000000, size: 4 KiB, read_only: true}", "0x70000800, which is read-only"),
        ("{origin: 0x40004000, size: 4 KiB}", "unicorn cannot map it at 0x40004000"),
    ],
)  # fmt: skip
def test_a_memory_ends_where_the_platform_says(
    build: BuildFirmware, run: RunFirmware, tmp_path: Path, memory: str, message: str | None
) -> None:
    text = (files("firmwright.toolchains") / "platforms/cortex-m4-bare.yaml").read_text()
    path = tmp_path / "more.yaml"
    path.write_text(text.replace("stack:", f"  more: {memory}\nstack:"))
    elf = build("mistakes.c", str(path))
    if message is None:
        assert run(elf, str(path), b"b").exit_code == 7
        return
    with pytest.raises(UserError, match=message):
        run(elf, str(path), b"b")


# Not a write on rv32, because QEMU's machine `virt` ignores a write to an address without memory.
# Nor on Cortex-M55, whose board has memory there.
@pytest.mark.parametrize(
    ("platform", "mistake", "cause"),
    [
        ("rv32-bare", "i", "0x2 (illegal instruction)"),
        ("cortex-m4-bare", "i", "0x10000 (undefined instruction)"),
        ("cortex-m4-bare", "w", "0x8200 (access to an address without memory)"),
        ("cortex-m55-bare", "i", "0x10000 (undefined instruction)"),
    ],
)
def test_trap_handler_reports_to_the_console_in_qemu(
    build: BuildFirmware, run: RunFirmware, platform: str, mistake: str, cause: str
) -> None:
    message = rf"processor exception, cause {re.escape(cause)}, address 0x[0-9a-f]+; {PLACE}"
    with pytest.raises(UserError, match=message):
        run(build("mistakes.c", platform), platform, mistake.encode(), emulator="qemu")


@pytest.mark.parametrize("platform", ["host", *BARE])
def test_an_exit_code_that_does_not_fit_is_not_taken_for_success(
    build: BuildFirmware, run: RunFirmware, platform: str
) -> None:
    assert run(build("mistakes.c", platform), platform, b"y").exit_code == 255


def test_host_program_that_wants_more_input(build: BuildFirmware, run: RunFirmware) -> None:
    with pytest.raises(UserError, match="waiting for console input, but no input is left"):
        run(build("console.c", "host"), "host", b"\x09\x00\x00\x00few")


def test_host_program_that_crashes(build: BuildFirmware, run: RunFirmware) -> None:
    with pytest.raises(UserError, match="ended by the signal SIGSEGV"):
        run(build("mistakes.c", "host"), "host", b"w")


def test_a_firmware_where_the_machine_of_qemu_has_no_memory(
    build: BuildFirmware, run: RunFirmware, tmp_path: Path
) -> None:
    text = (files("firmwright.toolchains") / "platforms/cortex-m4-bare.yaml").read_text()
    path = tmp_path / "moved.yaml"
    path.write_text(text.replace("origin: 0x00000000", "origin: 0x08000000"))
    with pytest.raises(UserError) as raised:
        run(build("console.c", str(path)), str(path), b"", emulator="qemu")
    first, second = str(raised.value).splitlines()
    assert re.search("firmware.elf: QEMU failed with SIGABRT: qemu: fatal: ", first)
    assert second == (
        "the platform has flash at 0x08000000, ram at 0x20000000: QEMU's machine needs memory "
        "there; the emulator 'unicorn' supports any address"
    )


def test_a_firmware_for_other_memories_is_refused(build: BuildFirmware, run: RunFirmware) -> None:
    elf = build("console.c", "rv32-bare")
    with pytest.raises(UserError, match="are outside the memories of platform cortex-m4-bare"):
        run(elf, "cortex-m4-bare")


def test_not_an_elf_file(run: RunFirmware, tmp_path: Path) -> None:
    path = tmp_path / "firmware.elf"
    path.write_text("hello")
    with pytest.raises(UserError, match=r"firmware\.elf: not an ELF file"):
        run(path, "rv32-bare")
    with pytest.raises(UserError, match="cannot read the firmware: No such file"):
        run(tmp_path / "absent.elf", "rv32-bare")


def test_unknown_emulator(build: BuildFirmware, run: RunFirmware) -> None:
    with pytest.raises(UserError, match="unknown emulator 'unicor'; did you mean 'unicorn'"):
        run(build("console.c", "rv32-bare"), "rv32-bare", emulator="unicor")


def test_an_emulator_without_memory_ends_no_build(build: BuildFirmware, run: RunFirmware) -> None:
    elf = build("mistakes.c", "rv32-bare")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(UserError, match=r"it ended with exit code 1: .*translator buffer"):
        try:
            limit_memory(TRANSLATIONS // 2)
            run(elf, "rv32-bare", b"l", budget=100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
