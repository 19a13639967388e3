"""The RTL of cores: counts, stalls, wait states, faults, and missing programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from firmwright import progress
from firmwright.emulator import Execution, load_emulator, run_firmware
from firmwright.emulator.execution import Run
from firmwright.emulator.loaded_firmware import read_firmware
from firmwright.emulator.rtl.cores import CV32E40P, IBEX, PICORV32, RtlCore
from firmwright.emulator.rtl.simulation import RAM_PATTERN, make_notes, run_simulator, simulate
from firmwright.emulator.rtl.simulator import ask, build_simulator, list_rtl
from firmwright.errors import UserError
from firmwright.toolchain import load_platform

from .conftest import BuildFirmware

CORES = (CV32E40P, IBEX, PICORV32)
for each in CORES:
    pytest.importorskip(
        each.module, reason="the RTL is not installed: pip install 'firmwright[rtl]'"
    )
pytestmark = pytest.mark.needs("verilator", "g++", "make")

RV32 = load_platform("rv32-bare")
RTL = load_emulator("cv32e40p")


def run_both(
    elf: Path, parts: tuple[str, ...] = (), core: RtlCore = CV32E40P
) -> tuple[Execution, Execution]:
    """Return the run of a firmware in unicorn and the run on the RTL."""
    unicorn, rtl = (
        run_firmware(elf, RV32, name, b"", "counted", 10_000_000, parts)
        for name in ("unicorn", core.emulator)
    )
    return unicorn, rtl


def test_known_number_of_cycles(build: BuildFirmware) -> None:
    unicorn, rtl = run_both(build("known_count.c", "rv32-bare"))
    assert (rtl.console, rtl.exit_code) == (unicorn.console, unicorn.exit_code)
    assert rtl.instructions == unicorn.instructions
    assert rtl.cycles is not None
    # A taken branch needs 3 cycles, and 1 more because its target is not at a word; a return 2.
    assert rtl.cycles.total == 2 * (1 + 999 * (2 + 4) + 3 + 1 + 2)
    fetch = 2 * (999 * 3 + 1)
    assert rtl.cycles.stalls == {"load_use": 0, "jump_register": 0, "fetch": fetch, "other": 0}


def test_known_numbers_of_cycles_of_other_cores(build: BuildFirmware) -> None:
    unicorn, ibex = run_both(build("known_count.c", "rv32-bare"), core=IBEX)
    assert ibex.instructions == unicorn.instructions == 2 * (1 + 1000 * 3 + 2)
    assert ibex.cycles is not None
    # A taken branch stalls for 1 cycle, and 1 more because its target is not at a word; a return 1.
    assert ibex.cycles.stalls == {"data": 0, "fetch": 2 * (999 * 2 + 1), "other": 0}
    _, picorv32 = run_both(build("known_count.c", "rv32-bare"), core=PICORV32)
    assert picorv32.instructions == unicorn.instructions
    assert picorv32.cycles is not None
    # The table of the core's README: 3 cycles, a taken branch 5, and a return 6.
    assert picorv32.cycles.total == 2 * (3 + 999 * (3 + 3 + 5 + 1) + 3 * 3 + 3 + 6)


@pytest.mark.parametrize(("core", "cycles_of_nop"), [*zip(CORES, (1, 1, 3), strict=True)])
def test_the_clock_of_the_rtl_counts_cycles(
    build: BuildFirmware, core: RtlCore, cycles_of_nop: int
) -> None:
    elf = build("cycles.c", "rv32-bare")
    rtl = run_firmware(elf, RV32, core.emulator, b"", "counted", 10_000)
    between, around = map(int, rtl.console.split())
    assert 0 < between < 60
    assert 0 <= around - between - 100 * cycles_of_nop < 20


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_counts_by_symbol_and_by_part_agree_with_unicorn(
    build: BuildFirmware, core: RtlCore
) -> None:
    unicorn, rtl = run_both(build("mixed.c", "rv32-bare"), ("floats", "recursion"), core)
    assert rtl.console == unicorn.console
    assert (rtl.by_symbol, rtl.by_part) == (unicorn.by_symbol, unicorn.by_part)
    assert rtl.cycles is not None and rtl.instructions is not None
    assert rtl.cycles.total == sum(rtl.cycles.by_symbol.values())
    assert rtl.cycles.total == rtl.instructions + sum(rtl.cycles.stalls.values())
    assert set(rtl.cycles.by_symbol) == set(rtl.by_symbol)
    assert rtl.cycles.by_part[1] == pytest.approx(
        rtl.cycles.by_symbol["recursion"] + rtl.cycles.by_symbol["integers"], rel=0.01
    )


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_the_core_waits_for_slow_memories(build: BuildFirmware, core: RtlCore) -> None:
    elf = build("known_count.c", "rv32-bare")
    memories = dict(RV32.memories)
    memories["flash"] = replace(memories["flash"], wait_states=3, fetch_bytes=4)
    slow = replace(RV32, memories=memories)
    fast, waited = (
        run_firmware(elf, platform, core.emulator, b"", "counted", 10_000_000)
        for platform in (RV32, slow)
    )
    assert fast.cycles is not None and waited.cycles is not None
    assert waited.instructions == fast.instructions
    # An iteration has 10 bytes of code in at least 3 words.
    assert waited.cycles.total >= fast.cycles.total + 2 * 999 * 3 * 3 - 3
    assert waited.cycles.stalls["fetch"] > fast.cycles.stalls["fetch"]


def count_waits(elf: Path, **memories: tuple[int, int]) -> int:
    """Return the additional cycles if memories have these wait states and bytes per line."""
    changed = {
        name: replace(RV32.memories[name], wait_states=wait_states, fetch_bytes=fetch_bytes)
        for name, (wait_states, fetch_bytes) in memories.items()
    }
    slow = replace(RV32, memories={**RV32.memories, **changed})
    fast, waited = (
        run_firmware(elf, platform, "cv32e40p", b"", "counted", 100_000).cycles
        for platform in (RV32, slow)
    )
    assert fast is not None and waited is not None
    return waited.total - fast.total


def test_a_bus_keeps_the_line_of_its_last_read(build: BuildFirmware) -> None:
    elf, wide = build("lines.c", "rv32-bare"), 1 << 24
    # Only the write waits: the reads are of the line before it.
    assert count_waits(elf, ram=(5, 4)) == pytest.approx(1000 * 5, rel=0.01)
    # The memories alternate. Both have the same number of a line.
    assert count_waits(elf, flash=(5, wide), ram=(5, wide)) == pytest.approx(3000 * 5, rel=0.01)
    # Each of the four words is in two lines, and each read starts in another line than the last.
    assert count_waits(elf, flash=(0, 2), ram=(5, 2)) == pytest.approx(3000 * 2 * 5, rel=0.01)


def end_at_edge(elf: Path, core: RtlCore, distance: int, kind: bytes) -> int:
    """Return the exit code after an access to the last word of a RAM, which has two bytes."""
    memories = {**RV32.memories, "ram": replace(RV32.memories["ram"], size=0x10002)}
    platform, given = replace(RV32, memories=memories), bytes([distance]) + kind
    run = Run(read_firmware(elf), platform, given, "counted", (), 100_000)
    return simulate(core, run, None, "1").exit_code


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_the_last_word_of_a_memory_may_be_shorter(build: BuildFirmware, core: RtlCore) -> None:
    elf = build("edge.c", "rv32-bare")
    assert end_at_edge(elf, core, 1, b"w") == 7
    assert end_at_edge(elf, core, 1, b"r") == RAM_PATTERN
    with pytest.raises(UserError, match=r"access to address 0x80410002, which is in no memory"):
        end_at_edge(elf, core, 2, b"w")
    if core is not PICORV32:  # its bus reads whole words, and unicorn finds the fault
        with pytest.raises(UserError, match=r"access to address 0x80410003, which is in no"):
            end_at_edge(elf, core, 3, b"r")


@pytest.mark.parametrize(
    ("core", "problem"),
    [
        (CV32E40P, "illegal instruction"),
        (IBEX, "illegal instruction"),
        (PICORV32, "illegal instruction, misaligned access, ebreak or ecall"),
    ],
)
def test_an_instruction_that_the_core_lacks_is_named(
    build: BuildFirmware, core: RtlCore, problem: str
) -> None:
    location = rf"at 0x[0-9a-f]+ in counted, on the RTL of {core.name}"
    with pytest.raises(UserError, match=rf"\.elf: {problem}; {location}; unicorn runs"):
        run_firmware(build("atomic.c", "rv32-bare"), RV32, core.emulator, b"", "counted", 1000)


def test_a_platform_of_another_core_is_rejected() -> None:
    other = replace(RV32, architecture="rv32imac")
    assert "runs 'rv32ic', 'rv32imc', 'rv32imc_xcv', not 'rv32imac'" in RTL.explain_unusable(other)
    diana = replace(RV32, accelerators={"soma_dory": {}})
    assert "has no soma_dory" in RTL.explain_unusable(diana)
    elsewhere = replace(RV32, board="posix")
    assert "the board 'posix' does not name" in RTL.explain_unusable(elsewhere)


def test_missing_programs_and_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    message = "verilator, g++, make are not installed; install the programs: apt-get install"
    assert RTL.explain_unusable(RV32).startswith(message)
    assert RTL.find_files(RV32) is None

    def find_none(_name: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("firmwright.emulator.rtl.plugin.version", find_none)
    assert "pip install 'firmwright[rtl]'" in RTL.explain_unusable(RV32)
    with pytest.raises(UserError, match="the package pythondata-cpu-cv32e40p is not installed"):
        RTL.find_version(RV32)


@pytest.mark.parametrize("program", ["verilator", "g++"])
def test_a_program_that_does_not_work_is_named(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / program
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    ask.cache_clear()
    with pytest.raises(UserError) as raised:
        RTL.find_version(RV32)
    assert str(raised.value) == (
        f"`{program} --version` ended with exit code 3: no licence; install it again: "
        f"apt-get install --reinstall {program}"
    )


def test_rtl_that_verilator_rejects_is_named_with_the_tested_version(tmp_path: Path) -> None:
    rtl = tmp_path / "core.sv"
    rtl.write_text("module core(input clock) endmodule\n")
    (tmp_path / "observed.vlt").write_text("`verilator_config\n")
    core = replace(CV32E40P, version="0.9")
    with pytest.raises(UserError) as raised:
        build_simulator(core, [rtl], ["--cc"], tmp_path)
    found = f"pythondata-cpu-cv32e40p {version(core.package)}: %Error: {rtl}:1:"
    assert f"cannot build the simulator of {found}" in str(raised.value)
    assert str(raised.value).endswith("python -m pip install pythondata-cpu-cv32e40p==0.9")


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_every_file_of_the_rtl_decides(core: RtlCore) -> None:
    found = load_emulator(core.emulator).find_files(RV32)
    assert found is not None
    rtl = list_rtl(core)
    assert f"module {core.top}" in "".join(path.read_text() for path in rtl)
    assert {*map(str, rtl)} <= {*found.files}
    assert version("unicorn") in found.facts


def test_another_version_of_the_rtl_is_noted() -> None:
    assert [*make_notes(IBEX, f"{IBEX.version}, Verilator 5.006", is_new=False)] == []
    built, untested = make_notes(IBEX, "1.0.2, Verilator 5.006", is_new=True)
    assert built == "built the simulator of the RTL 1.0.2, Verilator 5.006"
    assert untested == f"firmwright's tests use pythondata-cpu-ibex {IBEX.version}"


def test_an_interrupt_ends_the_simulator(
    build: BuildFirmware, tmp_path: Path, listen: Callable[[Callable[[object], None]], None]
) -> None:
    firmware = read_firmware(build("known_count.c", "rv32-bare"))
    simulator = tmp_path / "simulator"
    simulator.write_text(
        '#!/bin/sh\necho $$ > "$1/pid"\necho 7 >&2\nexec cat /dev/zero > /dev/null\n'
    )
    simulator.chmod(0o700)

    def interrupt(_report: object) -> None:
        raise KeyboardInterrupt

    listen(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_simulator(simulator, "Ibex", tmp_path, Run(firmware, RV32, b"", "counted", (), 9), 100)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_message_of_a_failed_simulator_is_shown(build: BuildFirmware, tmp_path: Path) -> None:
    """Memories of a platform can be larger than the memory of this machine."""
    firmware = read_firmware(build("known_count.c", "rv32-bare"))
    simulator = tmp_path / "simulator"
    simulator.write_text("#!/bin/sh\necho 7 >&2\necho '  what():  std::bad_alloc' >&2\nexit 3\n")
    simulator.chmod(0o700)
    run = Run(firmware, RV32, b"", "counted", (), 9)
    with pytest.raises(UserError, match=r"Ibex ended with exit code 3: what\(\):  std::bad_alloc$"):
        run_simulator(simulator, "Ibex", tmp_path, run, 100)


@pytest.fixture
def listen() -> object:
    """Return a function that sets the listener of progress reports during a test."""
    yield progress.listen
    progress.listen(None)
