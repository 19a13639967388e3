"""firmware: the objects linked, and the images that a programmer flashes."""

from __future__ import annotations

import shutil
from pathlib import Path

from firmwright.pipeline.artifacts import FIRMWARE, FIRMWARE_SIZE, OBJECTS, PROJECT
from firmwright.pipeline.job import Job
from firmwright.pipeline.linking import explain_link_errors, find_link_archives
from firmwright.toolchain import find_compiler, link_firmware
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.image import measure_firmware, write_bin, write_hex, write_map
from firmwright.toolchain.sdk import make_firmware


def run(job: Job, folder: Path) -> None:
    """Write ``firmware.elf``, ``.bin``, ``.hex``, ``.map`` and ``memory.json``."""
    elf = folder / FIRMWARE.file
    sdk = load_board(job.platform.board).sdk
    if sdk is not None:
        made = make_firmware(PROJECT.read(job), sdk, folder / "project", job.cache)
        shutil.copyfile(made, elf)
        shutil.rmtree(folder / "project")
        write_map(elf, elf.with_suffix(".map"))
    else:
        link(job, elf)
    write_bin(elf, folder / "firmware.bin")
    write_hex(elf, folder / "firmware.hex")
    FIRMWARE_SIZE.write(folder, measure_firmware(elf, job.platform.all_in_ram))
    for left_over in folder.glob("*.o"):
        left_over.unlink()


def link(job: Job, elf: Path) -> None:
    """Link the objects to ``elf``, with its map beside it."""
    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    objects = sorted(OBJECTS.read(job).rglob("*.o"))
    archives = find_link_archives(job, objects[0])
    with explain_link_errors(job, objects, archives):
        linked = [*objects, *archives]
        link_firmware(job.build, compiler, PROJECT.read(job), linked, elf, job.cache)
