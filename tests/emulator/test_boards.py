"""The code of the boards in every emulator that can run it: start-up, console, exit."""

from __future__ import annotations

import struct
from importlib.resources import files
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from firmwright.emulator.unicorn_emulator import find_machines
from firmwright.errors import UserError
from firmwright.toolchain import load_platform, platform_names
from firmwright.toolchain.boards import load_board

from .conftest import BuildFirmware, RunFirmware

BARE = ["rv32-bare", "cortex-m4-bare", "cortex-m55-bare"]
EVERYWHERE = [
    ("host", "native"),
    ("rv32-bare", "unicorn"),
    ("rv32-bare", "qemu"),
    ("diana", "unicorn"),
    ("cortex-m4-bare", "unicorn"),
    ("cortex-m4-bare", "qemu"),
    ("cortex-m55-bare", "qemu"),
    ("cortex-m0-bare", "unicorn"),
    ("cortex-m7-bare", "unicorn"),
    ("cortex-m7-bare", "qemu"),
    ("cortex-m33-bare", "qemu"),
    ("aarch64-linux", "qemu-user"),
]
GCC = [
    ("rv32-bare", "riscv64-unknown-elf-gcc"),
    ("cortex-m0-bare", "arm-none-eabi-gcc"),
    ("cortex-m33-bare", "arm-none-eabi-gcc"),
    ("cortex-m4-bare", "arm-none-eabi-gcc"),
    ("cortex-m55-bare", "arm-none-eabi-gcc"),
    ("cortex-m7-bare", "arm-none-eabi-gcc"),
]
DIANA_GCC = ("diana", "riscv64-unknown-elf-gcc")


def message(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


@pytest.mark.parametrize(("platform", "emulator"), EVERYWHERE)
def test_console_echoes_every_byte_value(
    build: BuildFirmware, run: RunFirmware, platform: str, emulator: str
) -> None:
    data = bytes(range(256)) * 120 + b"\x07"
    execution = run(build("console.c", platform), platform, message(data), emulator)
    assert execution.console == data
    assert execution.exit_code == 7
    assert execution.emulator.split()[0] == emulator
    assert any(digit.isdigit() for digit in execution.emulator)


@pytest.mark.parametrize("code", [0, 1, 7, 255])
@pytest.mark.parametrize(("platform", "emulator"), EVERYWHERE)
def test_exit_code(
    build: BuildFirmware, run: RunFirmware, platform: str, emulator: str, code: int
) -> None:
    elf = build("console.c", platform)
    assert run(elf, platform, message(bytes([code])), emulator).exit_code == code


@pytest.mark.parametrize("toolchain", ["", "gcc"])
@pytest.mark.parametrize(("platform", "emulator"), EVERYWHERE)
def test_initial_memory(
    build: BuildFirmware, run: RunFirmware, platform: str, emulator: str, toolchain: str
) -> None:
    compiler = (
        dict([("host", "gcc"), ("aarch64-linux", "zig"), *GCC, DIANA_GCC])[platform]
        if toolchain
        else ""
    )
    execution = run(build("memory.c", platform, compiler), platform, b"", emulator)
    assert execution.exit_code == 0
    if emulator == "unicorn":
        assert execution.console == b"\xa5", "RAM must not come up as zeros"


@pytest.mark.parametrize(("platform", "toolchain"), [*GCC, DIANA_GCC])
def test_console_with_gcc(
    build: BuildFirmware, run: RunFirmware, platform: str, toolchain: str
) -> None:
    elf = build("console.c", platform, toolchain)
    assert run(elf, platform, message(b"gcc\x00")).console == b"gcc\x00"


@pytest.mark.parametrize(("platform", "toolchain"), [*((p, "zig") for p in BARE), *GCC])
def test_buffers_larger_than_the_stack_are_copied(
    build: BuildFirmware, run: RunFirmware, platform: str, toolchain: str
) -> None:
    assert run(build("copies.c", platform, toolchain), platform).exit_code == 0


@pytest.mark.parametrize("platform", BARE)
@pytest.mark.parametrize("strictness", ["-Wpedantic", "-Wconversion", "-Wshadow", "-Os", "-O0"])
def test_board_code_has_no_warnings(build: BuildFirmware, platform: str, strictness: str) -> None:
    build("console.c", platform, cflags=(strictness,))


def test_cortex_m4_computes_with_its_fpu(build: BuildFirmware, run: RunFirmware) -> None:
    elf = build("mixed.c", "cortex-m4-bare")
    execution = run(elf, "cortex-m4-bare")
    assert execution.by_symbol["floats"] > 1000
    assert not [name for name in execution.by_symbol if "addsf" in name or "fadd" in name]
    # QEMU rejects floating-point instructions until the start-up code has enabled the FPU.
    assert run(elf, "cortex-m4-bare", emulator="qemu").exit_code == execution.exit_code == 0


@pytest.mark.parametrize("platform", BARE)
def test_layout(build: BuildFirmware, platform: str) -> None:
    memories = load_platform(platform).memories
    flash, ram = memories["flash"], memories["ram"]
    with build("memory.c", platform).open("rb") as stream:
        sections = {section.name: section for section in ELFFile(stream).iter_sections()}
    assert sections[".text"]["sh_addr"] == flash.origin
    stack = sections[".stack"]
    assert (stack["sh_addr"], stack["sh_size"]) == (ram.origin, load_platform(platform).stack)
    for name in (".stack", ".noinit", ".bss"):
        assert sections[name]["sh_type"] == "SHT_NOBITS"
    assert sections[".noinit"]["sh_size"] == 4096
    assert 1201 <= sections[".bss"]["sh_size"] < 1220


@pytest.mark.parametrize(("platform", "toolchain"), [(name, "zig") for name in BARE] + GCC)
def test_data_that_does_not_fit_is_a_link_error(
    build: BuildFirmware, platform: str, toolchain: str
) -> None:
    one_byte_too_many = load_platform(platform).memories["ram"].size - 16 * 1024 + 1
    with pytest.raises(UserError, match="ram"):
        build("large.c", platform, toolchain, (f"-DBYTES={one_byte_too_many}",))


@pytest.mark.parametrize("toolchain", ["zig", "riscv64-unknown-elf-gcc"])
def test_without_a_flash_code_takes_its_share_of_ram(build: BuildFirmware, toolchain: str) -> None:
    diana = load_platform("diana")
    no_room_for_code = diana.memories["ram"].size - diana.stack
    with pytest.raises(UserError, match="ram"):
        build("large.c", "diana", toolchain, (f"-DBYTES={no_room_for_code}",))


@pytest.mark.parametrize(("platform", "toolchain"), [(name, "zig") for name in BARE] + GCC)
def test_data_that_just_fits_links(build: BuildFirmware, platform: str, toolchain: str) -> None:
    overflows = 16 if platform == "cortex-m0-bare" else 0  # of SysTick, with the alignment
    all_that_is_left = load_platform(platform).memories["ram"].size - 16 * 1024 - overflows
    build("large.c", platform, toolchain, (f"-DBYTES={all_that_is_left}",))


def test_every_board_has_a_machine_or_is_the_host() -> None:
    platforms = [load_platform(name) for name in platform_names()]
    # unicorn has the machine of cv32e40p-bare, but no CORE-V instructions.
    emulated = [p for p in platforms if p.emulators and "xcvsimd" not in p.features]
    for platform in emulated:
        known = find_machines(platform.accelerators)
        assert ("unicorn" in platform.emulators) == (load_board(platform.board).machine in known)
    boards = {platform.board for platform in platforms}
    for board in boards:
        assert files("firmwright.templates").joinpath("boards", board, "fw_hal.c.j2").is_file()


@pytest.mark.parametrize(
    ("platform", "emulator", "package"),
    [("rv32-bare", "qemu", "qemu-system-misc"), ("aarch64-linux", "qemu-user", "qemu-user")],
)
def test_a_missing_qemu_is_named_with_its_package(
    build: BuildFirmware,
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
    platform: str,
    emulator: str,
    package: str,
) -> None:
    from firmwright.emulator import run_firmware

    elf = build("console.c", platform)
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(UserError, match=f"is not installed; .* Debian package {package}( |$)"):
        run_firmware(elf, load_platform(platform), emulator, b"", "counted", 1000)
