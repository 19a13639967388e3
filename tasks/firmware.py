"""firmware: the objects linked, and the images that a programmer flashes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from firmwright.pipeline.artifacts import FIRMWARE, FIRMWARE_SIZE, OBJECTS, PROJECT
from firmwright.pipeline.extensions import (
    explain_link_errors,
    find_extra_archives,
    find_link_archives,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.tools import compiler_tool

IMAGES = ("firmware.elf", "firmware.bin", "firmware.hex", "firmware.map")
"""What of the results is part of the bundle."""


def options(job: Job) -> Any:
    return {
        **job.build_settings,
        "platform": asdict(job.platform),
        "archives": [archive.name for archive in find_extra_archives(job)],
    }


def inputs(job: Job) -> list[Path]:
    """Return the archives that are not part of the project."""
    return [archive for archive in find_extra_archives(job) if archive.is_file()]


def run(job: Job, folder: Path) -> None:
    """Write ``firmware.elf``, ``.bin``, ``.hex``, ``.map`` and ``memory.json``."""
    from firmwright.ir.records import write_record
    from firmwright.toolchain import find_compiler, link_firmware
    from firmwright.toolchain.image import measure_firmware, write_bin, write_hex

    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    objects = sorted(job.folder("objects").glob("*.o"))
    elf = folder / "firmware.elf"
    archives = find_link_archives(job, objects[0])
    with explain_link_errors(job, objects, archives):
        linked = [*objects, *archives]
        link_firmware(job.build, compiler, job.folder("sources"), linked, elf, job.cache)
    write_bin(elf, folder / "firmware.bin")
    write_hex(elf, folder / "firmware.hex")
    write_record(folder / "memory.json", measure_firmware(elf, job.platform.all_in_ram))
    for left_over in folder.glob("*.o"):
        left_over.unlink()


STAGE = Stage(
    name="firmware",
    sentence="link the firmware",
    run="firmwright.tasks.firmware:run",
    reads=(PROJECT, OBJECTS),
    writes=(FIRMWARE, FIRMWARE_SIZE),
    options=options,
    inputs=inputs,
    tools=lambda job: [compiler_tool(job.build)],
    applies=lambda job: job.has_firmware,
    archive=lambda job: {name: job.folder("firmware") / name for name in IMAGES},
)
