"""Declares the stage ``firmware``."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import FIRMWARE, FIRMWARE_SIZE, OBJECTS, PROJECT
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import (
    MIX,
    describe_board,
    find_extra_archives,
    get_build,
    name_archives,
)
from firmwright.pipeline.tool_stamps import list_sdk_tools

LINKED = ("elf", "map")
FLASHED = ("bin", "hex")


def list_images(job: Job) -> list[str]:
    """Return the names of the results that are part of the bundle."""
    images = ["firmware", "network"] if job.recipe.slot else ["firmware"]
    suffixes = (*LINKED, *FLASHED) if job.platform.is_bare_metal else LINKED
    further = sorted(path.name for path in job.folder("firmware").glob("firmware.*.bin"))
    if job.platform.uf2_family is not None:
        further.append("firmware.uf2")
    return [*(f"{name}.{suffix}" for name in images for suffix in suffixes), *further]


def list_archived(job: Job) -> dict[str, Path]:
    """Return a mapping from names in the bundle to the results.

    Headers are in the folder of the sources.
    """
    folder = job.folder("firmware")
    headers = {f"src/network/{path.name}": path for path in sorted(folder.glob("*_stack.h"))}
    return {name: folder / name for name in list_images(job)} | headers


def inputs(job: Job) -> list[Path]:
    return [archive for archive in find_extra_archives(job) if archive.is_file()]


STAGE = Stage(
    name="firmware",
    sentence="link the firmware",
    run="firmwright.stages.firmware:run",
    reads=(PROJECT, OBJECTS),
    writes=(FIRMWARE, FIRMWARE_SIZE),
    keys=(*MIX, "slot", "libraries", "c_prefix"),
    platform=ALL,
    facts={"board": describe_board, "build": get_build, "archives": name_archives},
    inputs=inputs,
    tools=lambda job: [job.compiler, *list_sdk_tools(job.platform)],
    condition="the compiler and the SDK of the platform",
    applies=lambda job: job.has_firmware,
    archive=list_archived,
)
