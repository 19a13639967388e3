"""Flash images and memory use of a linked firmware."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from intelhex import IntelHex

from firmwright.errors import UserError
from firmwright.toolchain import compile_object, link_firmware, load_platform
from firmwright.toolchain.flash_images import (
    Segment,
    measure_firmware,
    read_segments,
    split_blocks,
    write_hex,
    write_images,
)

from .projects import load_build, write_linker_script

RV32 = load_platform("rv32-bare")

# Sections of known size and content, at known addresses; .data has its load address in flash.
SOURCE = """
#include <stdint.h>
const volatile uint8_t constants[6] = {1, 2, 3, 4, 5, 6};
volatile uint32_t variable = 0x44332211u;
volatile uint8_t cleared[100];
void start(void);
void start(void)
{
    for (;;) {
        cleared[constants[1]] = (uint8_t)variable;
    }
}
"""
SCRIPT = """
ENTRY(start)
SECTIONS
{
    .text 0x80000000 : { *(.text .text.*) }
    .rodata 0x80000100 : { *(.rodata .rodata.* .srodata .srodata.*) }
    .stack 0x80400000 (NOLOAD) : { . += 2048; }
    .data 0x80400800 : AT(%#x) { *(.data .data.* .sdata .sdata.*) }
    .bss 0x80400810 (NOLOAD) : { *(.bss .bss.* .sbss .sbss.*) }
}
"""


def link(
    folder: Path, cache: Path, data_load_address: int = 0x80000200, script: str = SCRIPT
) -> Path:
    build, compiler = load_build("rv32-bare", "zig")
    (folder / "freestanding").mkdir()
    (folder / "x.c").write_text(SOURCE)
    write_linker_script(folder, script % data_load_address)
    compile_object(build, compiler, folder, "x.c", folder / "x.o", cache)
    elf = folder / "firmware.elf"
    link_firmware(build, compiler, folder, [folder / "x.o"], elf, cache)
    return elf


def test_the_flat_image_has_every_section_at_its_load_address(
    tmp_path: Path, compiler_cache: Path
) -> None:
    elf = link(tmp_path, compiler_cache)
    write_images(elf, tmp_path / "firmware.bin", RV32)
    image = (tmp_path / "firmware.bin").read_bytes()
    code = measure_firmware(elf, RV32).sections[".text"]
    assert image[code:0x100] == bytes(0x100 - code)
    assert image[0x100:0x106] == bytes([1, 2, 3, 4, 5, 6])
    assert image[0x200:] == bytes([0x11, 0x22, 0x33, 0x44])


def test_the_hex_image_holds_the_same_bytes_and_the_entry_point(
    tmp_path: Path, compiler_cache: Path
) -> None:
    elf = link(tmp_path, compiler_cache)
    write_hex(elf, tmp_path / "firmware.hex")
    assert b"\r" not in (tmp_path / "firmware.hex").read_bytes()
    image = IntelHex(str(tmp_path / "firmware.hex"))
    assert image.start_addr == {"EIP": 0x80000000}
    for segment in read_segments(elf):
        assert image.tobinstr(segment.address, size=len(segment.content)) == segment.content
    assert sum(len(segment.content) for segment in read_segments(elf)) == len(image)


def test_blocks_hold_each_byte_of_the_segments_once() -> None:
    random = np.random.default_rng(0)
    segments = [
        Segment(address, random.bytes(size))
        for address, size in ((0xFFF0, 0x20), (0x10010, 0x10), (0x2FFFF, 0x20001), (0x60000, 1))
    ]
    parts = [*split_blocks(segments)]
    assert [part.address >> 16 for part in parts] == [0, 1, 1, 2, 3, 4, 6]
    found = {p.address + i: byte for p in parts for i, byte in enumerate(p.content)}
    given = {s.address + i: byte for s in segments for i, byte in enumerate(s.content)}
    assert found == given
    assert sum(len(p.content) for p in parts) == len(given)
    assert all((p.address & 0xFFFF) + len(p.content) <= 0x10000 for p in parts)


def test_hex_lines_are_those_of_another_writer(tmp_path: Path, compiler_cache: Path) -> None:
    elf = link(tmp_path, compiler_cache)
    write_hex(elf, tmp_path / "own.hex")
    image = IntelHex()
    image.start_addr = {"EIP": 0x80000000}
    for segment in read_segments(elf):
        image.frombytes(segment.content, offset=segment.address)
    image.write_hex_file(str(tmp_path / "theirs.hex"))
    assert (tmp_path / "own.hex").read_bytes() == (tmp_path / "theirs.hex").read_bytes()


def test_objcopy_gives_the_same_images(tmp_path: Path, compiler_cache: Path) -> None:
    objcopy = shutil.which("riscv64-unknown-elf-objcopy")
    if objcopy is None:
        pytest.skip("riscv64-unknown-elf-objcopy is not installed")
    elf = link(tmp_path, compiler_cache)
    write_images(elf, tmp_path / "own.bin", RV32)
    write_hex(elf, tmp_path / "own.hex")
    for form, suffix in (("binary", "bin"), ("ihex", "hex")):
        output = tmp_path / f"theirs.{suffix}"
        subprocess.run([objcopy, "-O", form, elf, output], check=True)
    assert (tmp_path / "own.bin").read_bytes() == (tmp_path / "theirs.bin").read_bytes()
    own, theirs = (IntelHex(str(tmp_path / f"{name}.hex")) for name in ("own", "theirs"))
    assert own.todict() == theirs.todict()


def test_without_a_flash_everything_counts_as_ram(tmp_path: Path, compiler_cache: Path) -> None:
    without = replace(RV32, memories={"ram": RV32.memories["ram"]})
    use = measure_firmware(link(tmp_path, compiler_cache), without)
    assert use.ram_bytes == sum(use.sections.values()) > use.flash_bytes


def test_memory_use_counts_initial_values_in_both_memories(
    tmp_path: Path, compiler_cache: Path
) -> None:
    use = measure_firmware(link(tmp_path, compiler_cache), RV32)
    assert list(use.sections) == [".text", ".rodata", ".stack", ".data", ".bss"]
    assert use.flash_bytes == use.sections[".text"] + 6 + 4
    assert use.ram_bytes == 4 + 100 + 2048


def test_a_stack_without_a_section_counts_as_the_platform_states_it(
    tmp_path: Path, compiler_cache: Path
) -> None:
    script = "".join(line for line in SCRIPT.splitlines(True) if ".stack" not in line)
    use = measure_firmware(link(tmp_path, compiler_cache, script=script), RV32)
    assert use.sections[".stack"] == RV32.stack == 16 * 1024
    assert use.ram_bytes == 4 + 100 + RV32.stack


def test_a_section_in_ram_without_load_address_is_an_error(
    tmp_path: Path, compiler_cache: Path
) -> None:
    elf = link(tmp_path, compiler_cache, data_load_address=0xA0000000)
    with pytest.raises(UserError, match="from 0x80000000 to 0xa0000004, too far apart"):
        write_images(elf, tmp_path / "firmware.bin", RV32)
