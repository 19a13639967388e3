"""A plugin counts instructions in QEMU: of Linux programs, and on boards."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from firmwright.emulator import Execution, run_firmware
from firmwright.emulator.loaded_firmware import read_firmware
from firmwright.toolchain import load_platform
from tests.toolchain.folders import arm64_gcc_folder

from .conftest import BuildFirmware, RunFirmware

BOARDS = ["rv32-bare", "cortex-m4-bare", "cortex-m55-bare"]


@pytest.fixture
def elf(build: BuildFirmware, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program of integers, floats, calls and recursion."""
    monkeypatch.setenv("ARM64_GCC_PATH", str(arm64_gcc_folder(tmp_path / "gcc")))
    return build("mixed.c", "aarch64-linux", "arm64-gcc")


def count(elf: Path, parts: tuple[str, ...] = ()) -> Execution:
    platform = load_platform("aarch64-linux")
    return run_firmware(elf, platform, "qemu-user", b"", "counted", 10_000_000, parts)


def trace(elf: Path) -> list[str]:
    """Return the function of each executed instruction, from QEMU's log."""
    log = elf.with_suffix(".log")
    options = ["-singlestep", "-d", "exec,nochain", "-D", str(log)]
    subprocess.run(["qemu-aarch64", *options, elf], check=True, stdout=subprocess.DEVNULL)
    symbols = read_firmware(elf).symbols
    addresses = re.findall(r"^Trace \d+: \S+ \[\w+/(\w+)/", log.read_text(), re.MULTILINE)
    return [symbols.name_at(int(address, 16)) for address in addresses]


@pytest.mark.needs("qemu-aarch64")
def test_a_known_number_of_instructions(
    build: BuildFirmware, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ARM64_GCC_PATH", str(arm64_gcc_folder(tmp_path / "gcc")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a,b"))
    execution = count(build("known_count.c", "aarch64-linux", "arm64-gcc"))
    assert execution.console == b"between\n"
    assert execution.by_symbol == {"counted": 2 * (1 + 1000 * 3 + 2)}
    assert execution.instructions == execution.by_symbol["counted"]


@pytest.mark.needs("qemu-aarch64")
def test_a_second_process_of_a_call_is_part_of_it(
    build: BuildFirmware, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ARM64_GCC_PATH", str(arm64_gcc_folder(tmp_path / "gcc")))
    program = build("two_processes.c", "aarch64-linux", "arm64-gcc")
    execution = count(program, ("part",))
    assert execution.by_part == (2 * (1 + 1000 * 2 + 1),)
    assert execution.by_symbol["part"] == execution.by_part[0]


@pytest.mark.needs("qemu-aarch64")
def test_agrees_with_a_trace_of_every_instruction(elf: Path) -> None:
    counted = count(elf, ("floats", "recursion"))
    executed = Counter(trace(elf))
    # Other functions also call these; only `counted` calls the rest of its code.
    own = {"counted", "integers", "recursion", "floats"}
    assert {name: counted.by_symbol[name] for name in own} == {n: executed[n] for n in own}
    assert counted.instructions == sum(counted.by_symbol.values())
    assert "main" not in counted.by_symbol
    assert counted.by_part == (
        counted.by_symbol["floats"],
        counted.by_symbol["recursion"] + counted.by_symbol["integers"],
    )


@pytest.mark.needs("qemu-system-riscv32", "qemu-system-arm")
@pytest.mark.parametrize("board", BOARDS)
def test_a_board_executes_a_known_number(
    build: BuildFirmware, run: RunFirmware, board: str
) -> None:
    execution = run(build("known_count.c", board), board, emulator="qemu")
    assert execution.console == b"between\n"
    loop = {"rv32-bare": 3}.get(board, 4)
    assert execution.instructions == 2 * (1 + 1000 * loop + 2)


@pytest.mark.needs("qemu-system-riscv32", "qemu-system-arm")
@pytest.mark.parametrize("board", BOARDS[:2])
def test_boards_agree_with_unicorn(build: BuildFirmware, board: str) -> None:
    elf, platform = build("mixed.c", board), load_platform(board)
    first, second = (
        run_firmware(elf, platform, emulator, b"", "counted", 10_000_000, ("floats",))
        for emulator in ("unicorn", "qemu")
    )
    console = "fw_hal_write"  # the length of the wait depends on the emulated port
    executed = [{**e.by_symbol, console: 0} for e in (first, second)]
    assert executed[0] == executed[1]
    assert first.by_part == second.by_part
