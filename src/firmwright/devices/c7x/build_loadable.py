"""Builds the loadable, which is the image that the C7x loads."""

from __future__ import annotations

from pathlib import Path

from firmwright.devices.c7x import C7X
from firmwright.devices.c7x.loadable import (
    LOADABLE_NAME,
    link_loadable,
    loadable_sources,
    object_name,
)
from firmwright.devices.c7x.stages import get_build
from firmwright.pipeline.artifacts import KERNELS, PROJECT
from firmwright.pipeline.job import Job
from firmwright.pipeline.linking import find_matching_archives
from firmwright.project.user_libraries import collect_library_functions
from firmwright.toolchain import compile_project, find_compiler
from firmwright.toolchain.archive_checks import check_definitions


def run(job: Job, folder: Path) -> None:
    """Write the loadable, its map and its objects.

    Raises UserError if the loadable does not contain a user-defined function that the network
    calls.
    """
    build = get_build(job)
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    sources = loadable_sources(PROJECT.path(job), job.recipe.c_prefix)
    project, output = PROJECT.path(job) / C7X.name, folder / LOADABLE_NAME
    objects = compile_project(build, compiler, project, folder, job.cache, sources, object_name)
    archives = find_matching_archives(job, objects[0])
    flags = [flag for archive in archives for flag in ("-l", str(archive.resolve()))]
    kernels = KERNELS.read(job).kernels
    functions = [function.name for function in collect_library_functions(kernels)]
    check_definitions(functions, objects, archives, C7X.libraries_variable)
    link_loadable(build, compiler, project, objects, flags, job.cache, output)
    job.note(f"{LOADABLE_NAME}: {output.stat().st_size:,} bytes, {compiler.version}")
