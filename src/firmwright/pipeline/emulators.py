"""Which emulator runs the firmware: its version, and what tells it without starting it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from .compilers import program_identity
from .job import Job


def emulator_identity(job: Job) -> list[Any]:
    """Return what tells the emulator from another, or another version of it."""
    if not job.has_stage("run"):
        return []
    if job.emulator == "unicorn":
        return [job.emulator, version("unicorn")]
    qemu = job.platform.qemu if job.emulator != "native" else None
    return [job.emulator, *(program_identity(qemu.program) if qemu else ())]


def emulator_versions(job: Job) -> dict[str, str]:
    """Return the emulator's version by its name; nothing where this machine runs the program."""
    from firmwright.emulator import find_emulator_version

    found = find_emulator_version(job.emulator, job.platform) if job.has_stage("run") else None
    return {job.emulator: found} if found else {}
