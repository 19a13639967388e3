"""Runs the stage ``demo-run``: builds the demo application and runs it in the emulator."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from firmwright.emulator import run_firmware
from firmwright.errors import UserError
from firmwright.pipeline.artifacts import DEMO, DEMO_CONSOLE, OBJECTS, PARTITION, PROJECT
from firmwright.pipeline.job import Job
from firmwright.pipeline.linking import find_link_archives
from firmwright.stages.run import limit_instructions, read_compiled
from firmwright.toolchain import compile_project, find_compiler, link_firmware
from firmwright.toolchain.build import object_path
from firmwright.toolchain.project_folders import DEMO as FOLDER
from firmwright.toolchain.project_folders import NETWORK

PROFILED = "-DFW_PROFILE"
"""The flag with which the network marks its layers for the profiler."""

RUNS = 100
"""The number of inferences after which an application without an end counts as hung."""


def run(job: Job, folder: Path) -> None:
    """Write ``demo.elf`` and its output ``console.txt``. Raises UserError if the demo fails."""
    elf = folder / "demo.elf"
    link_demo(job, elf)
    counted = f"{job.recipe.c_prefix}_run"
    limit = limit_instructions([read_compiled(job)], RUNS)
    ran = run_firmware(elf, job.platform, job.emulator, b"", counted, limit)
    console = ran.console.decode("utf-8", "replace")
    (folder / DEMO_CONSOLE.file).write_text(console, encoding="utf-8")
    if ran.exit_code:
        raise UserError(
            f"the demo application ended with exit code {ran.exit_code}; check a changed main.c. "
            f"It printed:\n{console}"
        )
    layers = {region.name for region in PARTITION.read(job).regions}
    lines = [line for line in console.splitlines() if line.partition(":")[0] not in layers]
    counts = [] if ran.instructions is None else [f"{ran.instructions:,} instructions"]
    job.note("; ".join([*lines, *counts]))


def link_demo(job: Job, elf: Path) -> None:
    """Compile the application and the network with markers, and link them as the Makefile does."""
    project, main = elf.parent / "project", f"{NETWORK}/{job.recipe.c_prefix}.c"
    shutil.copytree(PROJECT.read(job), project)
    left_out = {object_path(main), *(object_path(s) for s in list_c(project))}
    shutil.copytree(DEMO.read(job), project / FOLDER, dirs_exist_ok=True)
    sources = [s for s in list_c(project) if object_path(s) not in left_out]
    compiler = find_compiler(job.build.toolchain, job.platform.architecture)
    build = replace(job.build, cflags=(*job.build.cflags, PROFILED))

    folder = elf.parent / "objects"
    made = compile_project(build, compiler, project, folder, job.cache, [*sources, main])
    kept = OBJECTS.read(job)
    others = [
        o for o in sorted(kept.rglob("*.o")) if o.relative_to(kept).as_posix() not in left_out
    ]
    objects = [*others, *made]
    linked = [*objects, *find_link_archives(job, objects[0])]
    link_firmware(build, compiler, project, linked, elf, job.cache)
    for scratch in (project, folder):
        shutil.rmtree(scratch)
    for left_over in elf.parent.glob("*.o"):
        left_over.unlink()


def list_c(project: Path) -> list[str]:
    return [f"{FOLDER}/{path.name}" for path in sorted((project / FOLDER).glob("*.c"))]
