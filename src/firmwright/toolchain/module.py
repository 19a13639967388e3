"""A module: what an accelerator's own core loads of a network, built by the core's compiler.

Its folder lies in the project's, whose network it compiles once more. The Makefile that is written
there calls the compiler as the functions here do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePath

from firmwright.errors import UserError
from firmwright.toolchain.build import (
    Build,
    compile_command,
    compile_source,
    link_command,
    relative_path,
    run_tool,
)
from firmwright.toolchain.compilers import Compiler
from firmwright.toolchain.makefile import wrap_words
from firmwright.toolchain.platforms import Platform
from firmwright.toolchain.toolchains import load_toolchain

LOADABLE_NAME = "c7x_deploy_tvm.out"
"""The linked module's name, the one that TI's compilers give it; its map ends in ``.map``."""

EXTRA_LIBRARIES_VARIABLE = "CGT7X_EXT_LIBS"
"""The environment variable that adds words to the link."""


def make_loadable_build(platform: Platform, device: str) -> Build | None:
    """Return what builds the module of a network that ends on a device, None without one.

    Raises UserError where the platform does not say which silicon the device is.
    """
    toolchain = platform.modules.get(device)
    if toolchain is None:
        return None
    numbers = platform.accelerators.get(device, {})
    if "silicon" not in numbers:
        raise UserError(
            f"platform '{platform.name}': modules: `accelerators: {device}` states no `silicon`"
        )
    architecture = f"c{numbers['silicon']}"
    return Build(load_toolchain(toolchain), replace(platform, architecture=architecture))


def strip_command(build: Build, folder: str, module: str) -> tuple[str, ...]:
    """Return the command line that takes from a module what its loader does not need."""
    program, *words = build.toolchain.strip
    return (f"{folder}/{program}", *words, module)


def compile_loadable(
    build: Build, compiler: Compiler, project: Path, sources: Sequence[str], cache: Path, to: Path
) -> list[Path]:
    """Compile ``sources`` (paths from the module's folder ``project``) to objects in ``to``.

    Raises UserError with the compiler's output and the command line.
    """

    def compile_one(source: str) -> Path:
        target = to / object_name(source)
        compile_source(project, build, compiler, source, target, cache)
        return target

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(compile_one, sources))
    finally:
        pool.shutdown(cancel_futures=True)  # after a failure or ctrl-C nothing more is started


def link_loadable(
    build: Build,
    compiler: Compiler,
    project: Path,
    objects: Sequence[Path],
    libraries: Sequence[str],
    cache: Path,
    output: Path,
) -> None:
    """Link and strip a module, with its map beside it; ``libraries`` are words for the linker.

    Raises UserError with a tool's output and the command line.
    """
    name = relative_path(output, project)
    linked = [*(relative_path(path, project) for path in objects), *libraries]
    link = link_command(build, compiler, linked, name)
    run_tool(link, project, cache, f"{output.name}: the linker failed")
    drop_link_date(output.with_suffix(".map"))
    strip = strip_command(build, compiler.folder, name)
    run_tool(strip, project, cache, f"{output.name}: it cannot be stripped")


def drop_link_date(map_file: Path) -> None:
    """Take from the linker's map the line that says when it linked: a build is reproducible."""
    lines = map_file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(">> Linked ")]
    map_file.write_text("".join(kept), encoding="utf-8", newline="\n")


def object_name(source: str) -> str:
    return PurePath(source).with_suffix(".obj").name


def loadable_makefile_variables(build: Build, sources: Sequence[str]) -> dict[str, object]:
    """Return the variables of ``templates/c7x/loadable/Makefile.j2``."""
    toolchain = build.toolchain
    folder = f"$({toolchain.variable})"
    compiler = Compiler((f"{folder}/{toolchain.program}",), "", folder=folder)
    objects = [object_name(source) for source in sources]
    compiled = compile_command(build, compiler, "$<", "$@")
    linked = link_command(
        build, compiler, ["$(OBJECTS)", f"$({EXTRA_LIBRARIES_VARIABLE})"], LOADABLE_NAME
    )
    return {
        "toolchain": toolchain.name,
        "variable": toolchain.variable,
        "program": toolchain.program,
        "platform": build.platform.name,
        "architecture": build.platform.architecture,
        "more_libraries": EXTRA_LIBRARIES_VARIABLE,
        "module": LOADABLE_NAME,
        "map": PurePath(LOADABLE_NAME).with_suffix(".map"),
        "compile": wrap_words(compiled),
        "link": wrap_words(linked),
        "strip": " ".join(strip_command(build, folder, LOADABLE_NAME)),
        "objects": wrap_words(objects),
    }
