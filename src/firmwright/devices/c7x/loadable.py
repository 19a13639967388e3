"""Builds the loadable, which is the image that the C7x loads, with TI's compiler.

The folder of the loadable is in the project. The project's network is compiled a second time for
the loadable. The Makefile in this folder calls the compiler as the functions in this module do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from firmwright.devices.c7x.names import NAME
from firmwright.toolchain import Build, Platform, load_toolchain
from firmwright.toolchain.build import (
    compile_each,
    compile_object,
    drop_folder,
    link_command,
    relative_path,
    run_tool,
)
from firmwright.toolchain.compilers import Compiler
from firmwright.toolchain.layout import NETWORK

LOADABLE_NAME = "c7x_deploy_tvm.out"
"""The linked loadable's name, as in TI's compilers; its map ends in ``.map``."""


def make_loadable_build(platform: Platform) -> Build | None:
    """Return the build of the loadable for a network whose last device is a platform's C7x.

    The result is None if the platform names no compiler for the loadable.
    """
    toolchain = platform.modules.get(NAME)
    if toolchain is None:
        return None
    architecture = f"c{platform.accelerators[NAME]['silicon']}"
    silicon = replace(platform, architecture=architecture)
    return Build(load_toolchain(toolchain), silicon, include=(f"../{NETWORK}",))


def strip_command(build: Build, folder: str, loadable: str) -> tuple[str, ...]:
    """Return the command line that strips a loadable."""
    program, *words = build.toolchain.strip
    return (f"{folder}/{program}", *words, loadable)


def compile_loadable(
    build: Build, compiler: Compiler, project: Path, sources: Sequence[str], cache: Path, to: Path
) -> list[Path]:
    """Compile ``sources`` to objects in the folder ``to``.

    The paths of ``sources`` are relative to ``project``, the loadable's folder. Raises UserError
    with the compiler's output and the command line.
    """

    def compile_one(source: str) -> Path:
        target = to / object_name(source)
        compile_object(build, compiler, project, source, target, cache)
        return target

    return compile_each(compile_one, project, sources)


def link_loadable(
    build: Build,
    compiler: Compiler,
    project: Path,
    objects: Sequence[Path],
    libraries: Sequence[str],
    cache: Path,
    output: Path,
) -> None:
    """Link and strip a loadable, and write its map next to it.

    ``libraries`` are arguments of the linker. Raises UserError with a tool's output and the command
    line.
    """
    name = relative_path(output, project)
    linked = [*(relative_path(path, project) for path in objects), *libraries]
    link = link_command(build, compiler, linked, name)
    run_tool(link, project, cache, output.name, "the linker failed")
    drop_link_date(output.with_suffix(".map"))
    drop_folder(output.with_suffix(".map"), project)
    strip = strip_command(build, compiler.folder, name)
    run_tool(strip, project, cache, output.name, "it cannot be stripped")


def drop_link_date(map_file: Path) -> None:
    """Remove the line with the time from the linker's map to make the build reproducible."""
    lines = map_file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(">> Linked ")]
    map_file.write_text("".join(kept), encoding="utf-8", newline="\n")


def object_name(source: str) -> str:
    return PurePath(source).with_suffix(".obj").name
