"""Runs firmware in emulators: sends console input, collects output, counts instructions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from firmwright.emulator.execution import ClockCycles, Emulator, Execution, Run
from firmwright.errors import UserError, did_you_mean
from firmwright.toolchain import Platform
from firmwright.toolchain.emulator_names import emulator_names, is_emulator, resolve_emulator

__all__ = ["ClockCycles", "Emulator", "Execution", "load_emulator", "run_firmware"]


def load_emulator(name: str) -> Emulator:
    """Return an installed emulator. Raises UserError if the name is unknown."""
    if not is_emulator(name):
        raise UserError(f"unknown emulator '{name}'{did_you_mean(name, emulator_names())}")
    return cast(Emulator, resolve_emulator(name))


def run_firmware(
    elf: Path | tuple[Path, ...],
    platform: Platform,
    emulator: str,
    console_input: bytes,
    counted: str,
    budget: int,
    parts: tuple[str, ...] = (),
) -> Execution:
    """Run a firmware from reset to its exit, and return the record of the run.

    ``counted`` names the function whose executed instructions are counted. If a firmware executes
    more than ``budget`` instructions, the run is aborted. ``parts`` names the functions that the
    counted function calls, in the order of the calls. Each call is counted separately. The emulator
    loads all ELF files, and the first file is the firmware that starts.

    Raises UserError if the emulator is unknown, is missing or does not count each part. Also raises
    UserError, with the address, if the firmware causes a fault, needs more input or does not exit.
    """
    # A late import, because an up-to-date build reads no ELF file.
    from firmwright.emulator.loaded_firmware import read_firmware

    chosen = load_emulator(emulator)
    firmware = read_firmware(*([elf] if isinstance(elf, Path) else elf))
    execution = chosen.run(Run(firmware, platform, console_input, counted, parts, budget))
    for unit, by_part in list_counts(execution):
        if len(by_part) != len(parts) and (by_part or chosen.counts_instructions(platform)):
            raise UserError(
                f"the emulator '{emulator}' returned the {unit} of {len(by_part)} of {len(parts)} "
                "parts; its `by_part` needs one number per part"
            )
    return execution


def list_counts(execution: Execution) -> Iterator[tuple[str, tuple[int, ...]]]:
    if execution.instructions is not None:
        yield "instructions", execution.by_part
    if execution.cycles is not None:
        yield "cycles", execution.cycles.by_part
