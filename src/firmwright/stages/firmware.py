"""Runs the stage ``firmware``: links objects, proves the maximum stack, and writes images."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from firmwright.codegen.templates import make_environment, render
from firmwright.errors import UserError
from firmwright.pipeline.artifacts import FIRMWARE, FIRMWARE_SIZE, OBJECTS, PROJECT
from firmwright.pipeline.job import Job
from firmwright.pipeline.linking import explain_link_errors, find_link_archives
from firmwright.project.project_files import network_file
from firmwright.recipe.recipe import SlotOptions, error_at_key
from firmwright.toolchain import find_compiler, link_firmware
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.build import SLOT_SCRIPT, drop_folder
from firmwright.toolchain.flash_images import (
    measure_firmware,
    read_segments,
    write_hex,
    write_images,
    write_map,
)
from firmwright.toolchain.network_image import seal_image
from firmwright.toolchain.object_files import find_pointed_functions
from firmwright.toolchain.project_folders import FREESTANDING, NETWORK
from firmwright.toolchain.sdk import make_firmware
from firmwright.toolchain.stack_depth import StackDepth, prove_stack
from firmwright.toolchain.uf2 import write_uf2


def run(job: Job, folder: Path) -> None:
    """Write ``firmware.elf``, ``.map``, ``memory.json``, and for bare metal ``.bin`` and ``.hex``.

    ``firmware.uf2`` is also written if the platform states a UF2 family. ``network.elf``, ``.bin``,
    ``.hex`` and ``.map`` are also written if there is a slot. Each additional memory with stored
    data has a separate image, such as ``firmware.qspi.bin``. A header such as ``network_stack.h``
    defines the stack of each network.
    """
    elf, archives = folder / FIRMWARE.file, []
    sdk = load_board(job.platform.board).sdk
    if sdk is not None:
        made = make_firmware(PROJECT.read(job), sdk, folder / "project", job.cache)
        shutil.copyfile(made, elf)
        shutil.rmtree(folder / "project")
        write_map(elf, elf.with_suffix(".map"))
    else:
        archives = link(job, elf)
    if job.platform.is_bare_metal:
        write_images(elf, folder / "firmware.bin", job.platform)
        write_hex(elf, folder / "firmware.hex")
    if job.platform.uf2_family is not None:
        write_uf2(elf, folder / "firmware.uf2", job.platform.uf2_family)
    size = measure_firmware(elf, job.platform)
    if job.recipe.slot:
        image = link_network(job, job.recipe.slot, folder)
        refuse_overlap(job, job.recipe.slot, elf)
        sections = {**size.sections, "network": image}
        size = replace(size, flash_bytes=size.flash_bytes + image, sections=sections)
    if job.platform.stack:
        size = replace(size, stacks=prove_stacks(job, folder, archives))
    for map_file in folder.glob("*.map"):
        drop_folder(map_file, PROJECT.read(job))
    FIRMWARE_SIZE.write(folder, size)
    for left_over in folder.glob("*.o"):
        left_over.unlink()


def link(job: Job, elf: Path) -> list[Path]:
    """Link the objects to ``elf``, and write the map next to it. Return the linked archives."""
    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    objects = sorted(OBJECTS.read(job).rglob("*.o"))
    if job.recipe.slot:
        objects = [path for path in objects if path.parent.name != NETWORK]
    archives = find_link_archives(job, objects[0])
    with explain_link_errors(job, objects, archives):
        linked = [*objects, *archives]
        link_firmware(job.build, compiler, PROJECT.read(job), linked, elf, job.cache)
    return archives


def link_network(job: Job, slot: SlotOptions, folder: Path) -> int:
    """Write the network's image into ``folder``. Return the image's size in bytes."""
    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    objects = sorted(OBJECTS.read(job).rglob("*.o"))
    network_objects = [path for path in objects if path.parent.name in (NETWORK, FREESTANDING)]
    elf, image = folder / "network.elf", folder / "network.bin"
    with error_at_key(job.recipe, ("slot",)):
        link_firmware(
            job.build, compiler, PROJECT.read(job), network_objects, elf, job.cache, SLOT_SCRIPT
        )
    seal_image(elf, image)
    write_hex(elf, folder / "network.hex")
    size = image.stat().st_size
    job.note(f"the network's image: {size:,} of {slot.size:,} bytes at {slot.address:#x}")
    return size


def refuse_overlap(job: Job, slot: SlotOptions, elf: Path) -> None:
    """Raise DiagnosticError if the firmware overlaps the slot."""
    for segment in read_segments(elf):
        end = segment.address + len(segment.content)
        if segment.address < slot.address + slot.size and end > slot.address:
            with error_at_key(job.recipe, ("slot", "address")):
                raise UserError(f"the firmware ends at {end:#x}; place the slot after it")


TEMPLATE = "network/stack.h.j2"


def prove_stacks(job: Job, folder: Path, archives: Sequence[Path]) -> dict[str, StackDepth]:
    """Map the prefix of each network to the stack of its run function.

    The function also writes a header for each proven stack into ``folder``, which contains the
    linked firmware. ``archives`` are the archives in this firmware. Raises DiagnosticError if the
    platform's stack is too small.
    """
    elf = folder / ("network.elf" if job.recipe.slot else FIRMWARE.file)
    pointers = find_pointed_functions([*list_objects(job), *archives])
    depths = {}
    for each in job.members or (job,):
        prefix = each.recipe.c_prefix
        depth = prove_stack(elf, job.platform.architecture, f"{prefix}_run", pointers)
        depths[prefix] = depth
        if depth.bytes is None:
            job.note(f"the stack of {prefix}_run is not known: {depth.unknown}")
            continue
        with error_at_key(job.recipe, ("platform",)):
            check_stack(job, prefix, depth.bytes)
        write_header(job, folder, prefix, depth.bytes, elf.name)
    return depths


def list_objects(job: Job) -> list[Path]:
    """Return the objects whose function pointers a network can use."""
    objects = sorted(OBJECTS.read(job).rglob("*.o")) if job.has_stage("objects") else []
    return [path for path in objects if path.parent.name in (NETWORK, FREESTANDING)]


def check_stack(job: Job, prefix: str, needed: int) -> None:
    """Raise UserError if a network needs more stack than the platform has."""
    if needed > job.platform.stack:
        raise UserError(
            f"{prefix}_run needs {needed:,} bytes of stack, and '{job.platform.name}' has "
            f"{job.platform.stack:,}; state `stack: {needed}` or more in the platform file"
        )


def write_header(job: Job, folder: Path, prefix: str, needed: int, elf: str) -> None:
    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    variables = {
        "prefix": prefix,
        "bytes": needed,
        "elf": elf,
        "compiler": compiler.version,
    }
    text = render(make_environment(), TEMPLATE, variables)
    header = folder / network_file(prefix, "stack.h")
    header.write_text(text, encoding="utf-8", newline="\n")
