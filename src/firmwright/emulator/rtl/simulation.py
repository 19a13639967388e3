"""Runs one firmware in the simulator, and reads its counts."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from firmwright.emulator.execution import ClockCycles, Execution, Run
from firmwright.emulator.qemu_virt_rv32 import CAUSES
from firmwright.emulator.rtl.cores import RtlCore
from firmwright.emulator.rtl.simulator import prepare_simulator
from firmwright.errors import UserError, describe_exit
from firmwright.forked import end_with_copies
from firmwright.progress import report

RAM_PATTERN, ERASED_FLASH = 0xA5, 0xFF
"""The content of memories after power-on, as in the emulator unicorn."""


@dataclass
class Counts:
    """The content of the simulator's file ``counts.txt``."""

    end: str = ""  # "exit", "trap", "stop", "access", "budget" or "stuck"
    number: int = 0  # the exit code, the cause of the trap, or the address of the access
    last: int = 0
    cycles: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)
    parts: list[tuple[int, int]] = field(default_factory=list)  # cycles, instructions
    stalls: dict[str, int] = field(default_factory=dict)


def simulate(core: RtlCore, run: Run, known: Execution | None, version: str) -> Execution:
    """Run the firmware on the RTL of a core.

    ``known`` is the run in another emulator, whose number of instructions is the total of the
    progress. ``known`` is None if the other emulator does not support the instructions. Raises
    UserError if the firmware traps or does not exit.
    """
    check_segments(run)
    simulator, is_new = prepare_simulator(core, core.parameters[run.platform.architecture])
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write_run(run, folder)
        run_simulator(simulator, core.name, folder, run, known.instructions if known else None)
        counts = read_counts(run, folder / "counts.txt")
        console = (folder / "console.bin").read_bytes()
    if counts.end != "exit":
        also = "; unicorn runs the firmware to its exit" if known else ""
        raise UserError(f"{run.firmware.path}: {describe_end(core, run, counts)}{also}")
    return Execution(
        emulator=f"{core.emulator} {version}",
        exit_code=counts.number,
        console=console,
        instructions=counts.instructions.total(),
        by_symbol=dict(sorted(counts.instructions.items())),
        by_part=tuple(instructions for _, instructions in counts.parts),
        cycles=ClockCycles(
            source=f"in the RTL of {core.name}",
            total=counts.cycles.total(),
            by_part=tuple(cycles for cycles, _ in counts.parts),
            by_symbol=dict(sorted(counts.cycles.items())),
            stalls=counts.stalls,
        ),
        notes=tuple(make_notes(core, version, is_new)),
    )


def make_notes(core: RtlCore, version: str, is_new: bool) -> Iterator[str]:
    if is_new:
        yield f"built the simulator of the RTL {version}"
    if not version.startswith(f"{core.version},"):
        yield f"firmwright's tests use {core.package} {core.version}"


def check_segments(run: Run) -> None:
    memories = run.platform.memories.values()
    for segment in run.firmware.segments:
        end = segment.address + len(segment.content)
        if not any(m.origin <= segment.address and end <= m.origin + m.size for m in memories):
            raise UserError(
                f"{run.firmware.path}: {len(segment.content)} bytes at {segment.address:#010x} are "
                f"outside the memories of platform {run.platform.name}; correct `memories`, or the "
                "board's linker script"
            )


def write_run(run: Run, folder: Path) -> None:
    address_of = run.firmware.symbols.address_of
    start, code = run.firmware.code
    lines = [
        write_line(
            "memory",
            *(memory.origin, memory.size, ERASED_FLASH if memory.read_only else RAM_PATTERN),
            *(memory.wait_states, memory.fetch_bytes),
        )
        for memory in run.platform.memories.values()
    ]
    lines += [write_line("segment", s.address, len(s.content)) for s in run.firmware.segments]
    lines += [write_line("code", start, len(code))]
    lines += [write_line("part", address_of(name)) for name in run.parts]
    lines += [write_line("run", run.firmware.entry, address_of(run.counted), run.budget)]
    (folder / "run.txt").write_text("".join(lines), "ascii")
    (folder / "image.bin").write_bytes(b"".join(each.content for each in run.firmware.segments))
    (folder / "input.bin").write_bytes(run.console_input)


def write_line(keyword: str, *numbers: int) -> str:
    return f"{keyword} {' '.join(f'{number:x}' for number in numbers)}\n"


def run_simulator(simulator: Path, core: str, folder: Path, run: Run, total: int | None) -> None:
    """Run the simulator to its end, and report progress if the ``total`` instructions are known.

    Raises UserError with the last message of the C++ library if the simulator fails.
    """
    command, message = [simulator, folder], ""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            with end_with_copies(process):
                for line in process.stderr:
                    if not line.strip().isdigit():
                        message = f": {line.strip()}"
                    elif total is not None:
                        report("instructions", min(int(line), total), total)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        ended = describe_exit(process.returncode)
        raise UserError(f"{run.firmware.path}: the simulator of {core} ended with {ended}{message}")


def read_counts(run: Run, file: Path) -> Counts:
    counts = Counts()
    for line in file.read_text("ascii").splitlines():
        kind, first, *rest = line.split()
        numbers = [int(each) for each in rest]
        if kind == "end":
            counts.end, counts.number, counts.last = first, *numbers
        elif kind == "code":
            name = run.firmware.symbols.name_at(int(first))
            counts.cycles[name] += numbers[0]
            counts.instructions[name] += numbers[1]
        elif kind == "part":
            counts.parts.append((int(first), numbers[0]))
        else:
            counts.stalls[first] = numbers[0]
    return counts


def describe_end(core: RtlCore, run: Run, counts: Counts) -> str:
    happened = {
        "trap": CAUSES.get(counts.number, f"trap {counts.number}"),
        "stop": "illegal instruction, misaligned access, ebreak or ecall",
        "access": f"access to address {counts.number:#010x}, which is in no memory",
        "budget": f"the firmware did not exit within {run.budget:,} instructions",
        "stuck": "the core retires no further instruction",
    }[counts.end]
    location = run.firmware.symbols.describe_address(counts.last)
    return f"{happened}; at {location}, on the RTL of {core.name}"
