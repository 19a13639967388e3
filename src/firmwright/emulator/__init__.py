"""Runs firmware in emulators: sends console input, collects output, counts instructions."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from firmwright.emulator.execution import Emulator, Execution, Run
from firmwright.emulator.image import read_firmware
from firmwright.errors import UserError, did_you_mean
from firmwright.toolchain import Platform

__all__ = ["Execution", "find_emulator_version", "run_firmware"]


def _load_emulators() -> dict[str, Emulator]:
    # Imported here, so that the import of this package does not load unicorn.
    from firmwright.emulator.native import run_natively
    from firmwright.emulator.qemu import run_in_qemu, run_in_qemu_user
    from firmwright.emulator.unicorn_emulator import run_in_unicorn

    return {
        "native": run_natively,
        "qemu": run_in_qemu,
        "qemu-user": run_in_qemu_user,
        "unicorn": run_in_unicorn,
    }


def find_emulator_version(name: str, platform: Platform) -> str | None:
    """Return an emulator's version; None for ``native``, because this machine runs the program.

    Raises UserError for an emulator that is not installed.
    """
    from firmwright.emulator.qemu import find_qemu, read_qemu_version

    if name == "unicorn":
        return version("unicorn")
    return None if name == "native" else read_qemu_version(find_qemu(platform)[1])


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

    ``counted`` names the function whose executed instructions are counted. ``budget`` is the number
    of instructions after which a firmware counts as hung. ``parts`` names functions that the
    counted function calls, in this order. The calls of each part are counted separately: a name
    that appears twice is called twice. All ELF files are loaded into the memories, and the first
    file is the firmware that starts.

    Raises UserError for an unknown or missing emulator, and for a faulty firmware, with the address
    of the fault. Raises UserError also for a firmware that gets too little input or does not exit.
    """
    known = _load_emulators()
    if emulator not in known:
        raise UserError(f"unknown emulator '{emulator}'{did_you_mean(emulator, known)}")
    firmware = read_firmware(*([elf] if isinstance(elf, Path) else elf))
    run = Run(firmware, platform, console_input, counted, parts, budget)
    return known[emulator](run)
