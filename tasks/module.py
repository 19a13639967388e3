"""module: what a device's own core loads of the network, built by that core's compiler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from firmwright.pipeline.artifacts import KERNELS, PROJECT
from firmwright.pipeline.extensions import find_extra_archives, find_matching_archives
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.tools import collect_settings, compiler_tool
from firmwright.targets.tidl.stages import RECORD


def options(job: Job) -> Any:
    assert job.loadable_build is not None
    return {
        **collect_settings(job.loadable_build),
        "archives": [a.name for a in find_extra_archives(job)],
    }


def inputs(job: Job) -> list[Path]:
    return [archive for archive in find_extra_archives(job) if archive.is_file()]


def run(job: Job, folder: Path) -> None:
    """Write the module, its map and its objects.

    Raises UserError where it lacks a function of the user's that the network calls.
    """
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_record
    from firmwright.project.libraries import collect_library_functions
    from firmwright.project.module import loadable_sources
    from firmwright.toolchain import compile_loadable, find_compiler, link_loadable
    from firmwright.toolchain.libraries import check_definitions
    from firmwright.toolchain.module import LOADABLE_NAME

    build, device = job.loadable_build, job.recipe.target[-1].name
    assert build is not None
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    sources = loadable_sources(job.folder("sources"), build.platform.board, device)
    project, output = job.folder("sources") / device, folder / LOADABLE_NAME
    objects = compile_loadable(build, compiler, project, sources, job.cache, folder)
    archives = find_matching_archives(job, objects[0])
    words = [word for archive in archives for word in ("-l", str(archive.resolve()))]
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels).kernels
    functions = [function.name for function in collect_library_functions(kernels)]
    check_definitions(functions, objects, archives)
    link_loadable(build, compiler, project, objects, words, job.cache, output)
    print(
        f"   {job.recipe.name}: {LOADABLE_NAME}: {output.stat().st_size:,} bytes, "
        f"{compiler.version}"
    )


def list_archive(job: Job) -> dict[str, Path]:
    """Return the module of the device's own core and its map, where TI's users look for them."""
    made = RECORD.read(job) if job.has_stage("artifacts") else None
    place = f"artifacts/{made.folder}/tempDir" if made else "module"
    found = [p for p in job.folder("module").iterdir() if p.suffix in (".out", ".map")]
    return {f"{place}/{path.name}": path for path in found}


STAGE = Stage(
    name="module",
    sentence="build what the accelerator's own core loads",
    run="firmwright.tasks.module:run",
    reads=(KERNELS, PROJECT),
    options=options,
    inputs=inputs,
    tools=lambda job: [compiler_tool(job.loadable_build)] if job.loadable_build else [],
    applies=lambda job: (
        job.loadable_build and os.environ.get(job.loadable_build.toolchain.variable)
    ),
    archive=list_archive,
)
