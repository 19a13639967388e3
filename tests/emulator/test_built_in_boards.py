"""Boards of manufacturers: the debugger's console, boot blocks, and UF2 files."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from unicorn import UC_ARCH_ARM, UC_HOOK_MEM_WRITE, UC_MODE_MCLASS, UC_MODE_THUMB

from firmwright.emulator.execution import EXIT_NO_INPUT
from firmwright.emulator.typed_unicorn import open_engine
from firmwright.toolchain import load_platform, uf2
from firmwright.toolchain.flash_images import Segment, read_segments
from firmwright.toolchain.uf2 import write_uf2

from .conftest import BuildFirmware, RunFirmware

FLASH = 0x10000000
SSI = 0x18000000
SYSTEM_CONTROL = 0xE000E000


def message(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def read_flash(elf: Path) -> bytes:
    """Return the bytes that are stored from the first address of the RP2040's flash."""
    (first,) = [s.content for s in read_segments(elf) if s.address == FLASH]
    return first


GCC = "arm-none-eabi-gcc"
PAIRS = [("rp2040", "zig"), ("rp2350", GCC), ("stm32h743", GCC)]


@pytest.mark.parametrize(("platform", "toolchain"), PAIRS)
def test_a_debugger_is_the_console(
    build: BuildFirmware, run: RunFirmware, platform: str, toolchain: str
) -> None:
    elf = build("console.c", platform, toolchain)
    data = bytes(range(256)) * 2 + b"\x07"
    execution = run(elf, platform, message(data))
    assert (execution.console, execution.exit_code) == (data, 7)
    assert run(elf, platform, b"\x01").exit_code == EXIT_NO_INPUT


RISCV_GCC = "riscv64-unknown-elf-gcc"
ESPRESSIF = [("esp32c3", "zig"), ("esp32c3", RISCV_GCC), ("esp32c6", "zig"), ("esp32c6", RISCV_GCC)]


@pytest.mark.parametrize(("platform", "toolchain"), ESPRESSIF)
def test_a_chip_of_espressif_uses_its_uart(
    build: BuildFirmware, run: RunFirmware, platform: str, toolchain: str
) -> None:
    data = bytes(range(256)) + b"\x07"
    execution = run(build("console.c", platform, toolchain), platform, message(data))
    assert (execution.console, execution.exit_code) == (data, 7)
    memory = build("memory.c", platform, toolchain)  # the emulator checks the watchdog's update bit
    execution = run(memory, platform)
    assert (execution.exit_code, execution.console) == (0, b"\xa5")


def test_the_boot_rom_of_the_esp32c3_finds_its_words(build: BuildFirmware) -> None:
    segments = read_segments(build("memory.c", "esp32c3", "zig"))
    first = min(segments, key=lambda segment: segment.address)
    assert first.address == 0x42000000
    assert struct.unpack("<2I", first.content[:8]) == (0xAEDB041D, 0xAEDB041D)
    assert all(0x42000000 <= segment.address < 0x42400000 for segment in segments)


def test_memory_is_prepared_after_the_second_boot_stage(
    build: BuildFirmware, run: RunFirmware
) -> None:
    execution = run(build("memory.c", "rp2040", GCC), "rp2040")
    assert (execution.exit_code, execution.console) == (0, b"\xa5")


def test_the_console_is_the_semihosting_of_another_emulator(build: BuildFirmware) -> None:
    qemu = shutil.which("qemu-system-arm")
    if qemu is None:
        pytest.skip("qemu-system-arm is not installed")
    # The machine has an STM32F405, with the addresses of the STM32F407. The firmware reads nothing:
    # QEMU 7.2 returns from a read without a result if no byte has arrived yet.
    command = [qemu, "-machine", "netduinoplus2", "-display", "none", "-monitor", "none"]
    command += ["-serial", "none", "-chardev", "stdio,id=console", "-semihosting-config"]
    command += ["enable=on,target=native,chardev=console", "-kernel"]
    elf = build("memory.c", "stm32f407", GCC)
    done = subprocess.run([*command, str(elf)], stdin=subprocess.DEVNULL, capture_output=True)
    assert (len(done.stdout), done.returncode) == (1, 0), done.stderr


@pytest.mark.parametrize("toolchain", ["zig", GCC])
def test_the_second_boot_stage_has_its_checksum(build: BuildFirmware, toolchain: str) -> None:
    stage = read_flash(build("console.c", "rp2040", toolchain))[:256]
    checksum = 0xFFFFFFFF
    for byte in stage[:252]:
        checksum ^= byte << 24
        for _ in range(8):
            checksum = checksum << 1 ^ (0x104C11DB7 if checksum >> 31 else 0)
    assert struct.unpack("<I", stage[252:]) == (checksum,)


def test_the_second_boot_stage_maps_the_flash_and_starts_the_program(build: BuildFirmware) -> None:
    flash = read_flash(build("console.c", "rp2040", GCC))
    stack, entry = struct.unpack_from("<II", flash, 256)
    engine = open_engine(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
    for address, size in ((FLASH, 1 << 20), (SSI, 4096), (SYSTEM_CONTROL, 4096)):
        engine.mem_map(address, size)
    engine.mem_write(FLASH, flash)
    writes: list[tuple[int, int]] = []
    engine.hook_add(UC_HOOK_MEM_WRITE, lambda _e, _a, at, _s, value, _d: writes.append((at, value)))
    engine.emu_start(FLASH | 1, entry & ~1)
    assert writes == [
        (SSI + 0x08, 0),
        (SSI + 0x04, 0),
        (SSI + 0x14, 4),
        (SSI + 0x00, 0x001F0300),
        (SSI + 0xF4, 0x03000218),
        (SSI + 0x08, 1),
        (0xE000ED08, FLASH + 256),
    ]
    assert 0x20000000 < stack <= 0x20000000 + load_platform("rp2040").memories["ram"].size


@pytest.mark.parametrize("register", [0xE000ED88, 0xE000ED28], ids=["CPACR", "CFSR"])
def test_armv6_m_accesses_no_register_that_it_lacks(build: BuildFirmware, register: int) -> None:
    """It reserves these addresses (Armv6-M Architecture Reference Manual, B3.2)."""
    assert struct.pack("<I", register) not in read_flash(build("console.c", "rp2040", GCC))


def test_the_image_definition_is_where_the_boot_rom_searches(build: BuildFirmware) -> None:
    block = struct.pack("<5I", 0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579)
    at = read_flash(build("console.c", "rp2350", GCC)).find(block)
    assert 0 < at < 4096 and at % 4 == 0


def test_a_uf2_file_has_every_stored_byte_in_pages(build: BuildFirmware, tmp_path: Path) -> None:
    elf, file = build("memory.c", "rp2040", GCC), tmp_path / "firmware.uf2"
    family = load_platform("rp2040").uf2_family
    assert family is not None
    write_uf2(elf, file, family)
    data = file.read_bytes()
    stored: dict[int, int] = {}
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    for index, block in enumerate(blocks):
        header = struct.unpack_from("<8I", block)
        assert header[:3] == (0x0A324655, 0x9E5D5157, 0x2000)
        address, size, *rest = header[3:]
        assert (address % 256, size, rest) == (0, 256, [index, len(blocks), 0xE48BFF56])
        assert block[288:] == bytes(220) + struct.pack("<I", 0x0AB16F30)
        stored |= {address + offset: byte for offset, byte in enumerate(block[32:288])}
    for segment in read_segments(elf):
        placed = [stored[segment.address + at] for at in range(len(segment.content))]
        assert bytes(placed) == segment.content


def test_a_uf2_file_has_no_gap_in_a_sector(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The RP2040's boot ROM needs all pages of a sector (erratum RP2040-E14)."""
    segments = [Segment(FLASH + 0x200, b"a"), Segment(FLASH + 0x5300, b"b")]
    monkeypatch.setattr(uf2, "read_segments", lambda _elf: segments)
    write_uf2(tmp_path / "elf", tmp_path / "uf2", 1)
    data = (tmp_path / "uf2").read_bytes()
    pages = [*range(0, 0x1000, 256), *range(0x5000, 0x5400, 256)]
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    assert [struct.unpack_from("<12xI", block)[0] - FLASH for block in blocks] == pages
    stored = b"".join(block[32:288] for block in blocks)
    assert stored.replace(b"\0", b"") == b"ab"
