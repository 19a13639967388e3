"""Instruction counts, against a known number, a slow count and another emulator's count."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from unicorn.unicorn_const import UC_HOOK_CODE, UC_HOOK_INTR

from firmwright.emulator import run_firmware
from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.loaded_firmware import read_firmware
from firmwright.emulator.native_library import build_library
from firmwright.emulator.unicorn_emulator import find_machines
from firmwright.errors import UserError
from firmwright.toolchain import load_platform

from .conftest import SOURCES, BuildFirmware, RunFirmware

BARE = ["rv32-bare", "cortex-m4-bare"]


@pytest.mark.parametrize(
    ("platform", "one_call"),
    [("rv32-bare", 1 + 1000 * 3 + 2), ("cortex-m4-bare", 1 + 1000 * 4 + 2)],
)
def test_known_number_of_instructions(
    build: BuildFirmware, run: RunFirmware, platform: str, one_call: int
) -> None:
    execution = run(build("known_count.c", platform), platform)
    assert execution.console == b"between\n"
    assert execution.instructions == 2 * one_call
    assert execution.by_symbol == {"counted": 2 * one_call}


@pytest.mark.parametrize("platform", BARE)
def test_functions_add_up(build: BuildFirmware, run: RunFirmware, platform: str) -> None:
    execution = run(build("mixed.c", platform), platform)
    assert sum(execution.by_symbol.values()) == execution.instructions
    assert {"counted", "integers", "recursion", "floats", "fw_hal_write"} <= set(
        execution.by_symbol
    )
    assert "main" not in execution.by_symbol
    assert list(execution.by_symbol) == sorted(execution.by_symbol)


@pytest.mark.parametrize("platform", BARE)
def test_a_part_counts_with_all_that_it_calls(build: BuildFirmware, platform: str) -> None:
    execution = run_firmware(
        build("mixed.c", platform), load_platform(platform), "unicorn", b"", "counted", 10_000_000,
        ("floats", "recursion"),
    )  # fmt: skip
    assert execution.instructions is not None
    of = execution.by_symbol
    assert execution.by_part[1] == of["recursion"] + of["integers"]
    outside = of["counted"] + of["relay"] + of["fw_hal_write"]
    outside += of.get("__fixsfsi", 0)  # `counted` itself casts a float, in software on RISC-V
    assert sum(execution.by_part) == execution.instructions - outside


def test_agrees_with_counting_every_instruction(build: BuildFirmware, run: RunFirmware) -> None:
    # Not on ARM, because unicorn's slow hook omits the instructions that an IT block skips.
    elf = build("mixed.c", "rv32-bare")
    slow = count_every_instruction(elf, "rv32-bare")
    assert_counts_agree(run(elf, "rv32-bare").by_symbol, slow)


@pytest.mark.parametrize("toolchain", ["zig", "gcc"])
@pytest.mark.parametrize("platform", BARE)
def test_agrees_with_qemu(
    build: BuildFirmware, run: RunFirmware, platform: str, toolchain: str, tmp_path: Path
) -> None:
    toolchains = load_platform(platform).toolchains
    elf = build("mixed.c", platform, toolchains[0 if toolchain == "zig" else 1])
    run(elf, platform, emulator="qemu")  # skips the test if QEMU is missing
    assert_counts_agree(run(elf, platform).by_symbol, count_in_qemu(elf, platform, tmp_path))


def assert_counts_agree(counted: Any, all_executed: Counter[str]) -> None:
    # `counted` and other functions call these two; only `counted` calls the rest.
    own = set(counted) - {"fw_hal_write", "relay"}
    assert len(own) >= 4
    assert {name: counted[name] for name in own} == {name: all_executed[name] for name in own}


def count_every_instruction(
    elf: Path, platform_name: str, console_input: bytes = b""
) -> Counter[str]:
    """Return the instructions executed by function, from unicorn's slow hook."""
    platform = load_platform(platform_name)
    firmware = read_firmware(elf)
    counts: Counter[str] = Counter()
    stops: list[object] = []
    run = Run(firmware, platform, console_input, "counted", (), 0)
    machine = find_machines(platform.accelerators)[platform.board](
        run, Console(console_input), stops.append
    )
    engine = machine.engine
    for memory in platform.memories.values():
        engine.mem_map(memory.origin, memory.size)
    for segment in firmware.segments:
        engine.mem_write(segment.address, segment.content)

    def on_instruction(_engine: Any, address: int, _size: int, _data: Any) -> None:
        if stops:
            engine.emu_stop()
        else:
            counts[firmware.symbols.name_at(address)] += 1

    engine.hook_add(UC_HOOK_CODE, on_instruction)
    engine.hook_add(UC_HOOK_INTR, lambda *_arguments: engine.emu_stop())
    engine.emu_start(machine.reset(platform.memories["flash"].origin), 1 << 32)
    return counts


def count_in_qemu(elf: Path, platform_name: str, folder: Path) -> Counter[str]:
    """Return the instructions executed by function, from a plugin in QEMU."""
    source = SOURCES / "qemu_plugin.c"
    zig = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O1"]
    subprocess.run([*zig, "-o", folder / "plugin.so", source], check=True)
    qemu = load_platform(platform_name).qemu
    assert qemu is not None
    silent = ["-display", "none", "-monitor", "none", "-serial", "null"]
    files = ["-kernel", str(elf), "-plugin", str(folder / "plugin.so")]
    environment = os.environ | {"COUNTS": str(folder / "counts")}
    command = [qemu.program, *qemu.arguments, *silent, *files]
    subprocess.run(command, env=environment, check=True)
    symbols = read_firmware(elf).symbols
    counts: Counter[str] = Counter()
    for line in (folder / "counts").read_text().splitlines():
        address, executed = line.split()
        counts[symbols.name_at(int(address, 16))] += int(executed)
    return counts


@pytest.mark.parametrize("platform", BARE)
def test_an_exit_inside_the_counted_function_ends_the_count_there(
    build: BuildFirmware, run: RunFirmware, platform: str
) -> None:
    elf = build("mistakes.c", platform)
    execution = run(elf, platform, b"x")
    assert execution.exit_code == 42
    slow = count_every_instruction(elf, platform, b"x")
    # The slow hook omits the one instruction that an IT block of the ARM code skips.
    skipped = {"rv32-bare": 0, "cortex-m4-bare": 1}[platform]
    assert execution.by_symbol["fw_hal_exit"] == slow["fw_hal_exit"] + skipped
    assert execution.by_symbol["counted"] == slow["counted"]


def test_an_unknown_function_is_refused(build: BuildFirmware) -> None:
    elf = build("console.c", "rv32-bare")
    with pytest.raises(UserError, match="no function 'countd'; did you mean 'counted'"):
        run_firmware(elf, load_platform("rv32-bare"), "unicorn", b"", "countd", 1000)


def test_the_native_hook_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "firmwright/native"
    source = {"one.c": b"int one(void) { return 1; }"}
    first = build_library("one", source)
    written = first.stat().st_mtime_ns
    assert build_library("one", source) == first
    assert first.stat().st_mtime_ns == written
    assert sorted(folder.iterdir()) == [first], "nothing else may be left behind"
    first.write_bytes(first.read_bytes()[:-1])  # loading it could end the process
    again = build_library("one", source)
    assert ctypes.CDLL(str(again)).one() == 1
