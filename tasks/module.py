"""module: what a device's own core loads of the network, built by that core's compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firmwright.pipeline.compilers import settings_of
from firmwright.pipeline.extensions import archives_of_environment, more_archives
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage


def options(job: Job) -> Any:
    assert job.module is not None
    return {**settings_of(job.module), "archives": [a.name for a in more_archives(job)]}


def inputs(job: Job) -> list[Path]:
    return [archive for archive in more_archives(job) if archive.is_file()]


def run(job: Job, folder: Path) -> None:
    """Write the module, its map and its objects.

    Raises UserError where it lacks a function of the user's that the network calls.
    """
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_record
    from firmwright.project.libraries import library_functions
    from firmwright.project.module import module_sources
    from firmwright.toolchain import compile_module, find_compiler, link_module
    from firmwright.toolchain.libraries import check_defined
    from firmwright.toolchain.module import MODULE

    build, device = job.module, job.recipe.target[-1].name
    assert build is not None
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    sources = module_sources(job.folder("sources"), build.platform.board, device)
    project, output = job.folder("sources") / device, folder / MODULE
    objects = compile_module(build, compiler, project, sources, job.cache, folder)
    archives = archives_of_environment(job, objects[0])
    words = [word for archive in archives for word in ("-l", str(archive.resolve()))]
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels).kernels
    functions = [function.name for function in library_functions(kernels)]
    check_defined(functions, objects, archives)
    link_module(build, compiler, project, objects, words, job.cache, output)
    print(f"   {job.recipe.name}: {MODULE}: {output.stat().st_size:,} bytes, {compiler.version}")


STAGE = Stage(
    name="module",
    sentence="build what the accelerator's own core loads",
    needs=("kernels", "sources"),
    options=options,
    inputs=inputs,
    run=run,
)
