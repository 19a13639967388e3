"""Builds the loadable, which is the image that the C7x loads, with TI's compiler.

The folder of the loadable is in the project. The build compiles the project's network again for the
loadable. The Makefile in this folder uses the same compiler options as this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy.typing as npt

from firmwright.codegen.templates import TEMPLATE_SUFFIX, make_environment, render
from firmwright.devices.c7x.function_names import LIBRARIES_VARIABLE, MMALIB_HEADER, NAME
from firmwright.project.constants import TEXT_TEMPLATE
from firmwright.project.project_files import (
    DETECTION_TEMPLATES,
    INFO_TEMPLATE,
    file_name,
    list_templates,
    place_network_files,
)
from firmwright.project.write import write_file
from firmwright.toolchain import Build, Platform, load_toolchain
from firmwright.toolchain.build import (
    compile_command,
    drop_folder,
    link_command,
    relative_path,
    run_tool,
)
from firmwright.toolchain.compilers import Compiler
from firmwright.toolchain.makefile import wrap_arguments
from firmwright.toolchain.project_folders import NETWORK, list_sources

LOADABLE_NAME = "c7x_deploy_tvm.out"
"""The name of the linked loadable, from TI's compilers. Its map ends in ``.map``."""


def make_loadable_build(platform: Platform) -> Build | None:
    """Return the build of the platform's loadable, or None if the platform names no compiler for
    it."""
    toolchain = platform.modules.get(NAME)
    if toolchain is None:
        return None
    architecture = f"c{platform.accelerators[NAME]['silicon']}"
    silicon = replace(platform, architecture=architecture)
    return Build(load_toolchain(toolchain), silicon, include=(f"../{NETWORK}",))


def strip_command(build: Build, folder: str, loadable: str) -> tuple[str, ...]:
    program, *arguments = build.toolchain.strip
    return (f"{folder}/{program}", *arguments, loadable)


def link_loadable(
    build: Build,
    compiler: Compiler,
    project: Path,
    objects: Sequence[Path],
    libraries: Sequence[str],
    cache: Path,
    output: Path,
) -> None:
    """Link and strip a loadable, and write its map next to the loadable.

    Raises UserError with a tool's output and the command line. ``libraries`` are arguments of the
    linker.
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
    """Remove the time from the linker's map, so that the build is reproducible."""
    lines = map_file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(">> Linked ")]
    map_file.write_text("".join(kept), encoding="utf-8", newline="\n")


def object_name(source: str) -> str:
    return PurePath(source).with_suffix(".obj").name


LINK_SCRIPT = "link.cmd"
BYTES_PER_LINE = 16


def write_loadable(variables: Mapping[str, Any], build: Build, project: Path) -> None:
    env = make_environment()
    folder = project / NAME
    imports = list_imports(variables["steps"], build.platform)
    variables = {**variables, "byte_lines": format_byte_directives, "imports": imports}
    for template in loadable_templates(build):
        write_file(folder / file_name(template), render(env, template, variables))
    for side in ("arm", "firmware"):
        for template in chip_templates(side):
            write_file(folder / side / file_name(template), render(env, template, variables))
    sources = loadable_sources(project, variables["prefix"])
    makefile = {**loadable_makefile_variables(build, sources), "script": LINK_SCRIPT}
    template = f"{NAME}/loadable/Makefile{TEMPLATE_SUFFIX}"
    write_file(folder / "Makefile", render(env, template, makefile))


def list_imports(steps: Sequence[Any], platform: Platform) -> list[str]:
    """Return the functions of the firmware that the loadable calls; ``steps`` have kernels."""
    names = []
    if platform.accelerators[NAME].get("firmware_dma"):
        names += ["tvm_dsp_dma_copy", "tvm_dsp_dma_wait"]
    if any(file.name == MMALIB_HEADER for step in steps for file in step.kernel.files):
        names.append("mmalib_conv2d_i8")
    return names


def loadable_templates(build: Build) -> list[str]:
    names = (LINK_SCRIPT, "weights.asm")
    common = [f"{NAME}/loadable/{name}{TEMPLATE_SUFFIX}" for name in names]
    return [*common, *list_templates(f"{NAME}/{build.toolchain.name}")]


def chip_templates(side: str) -> list[str]:
    """Return the templates of the transport between the cores of a chip.

    ``side`` selects the templates for Linux or for the firmware. The firmware also contains the
    service that answers calls on every transport.
    """
    templates = list_templates(f"{NAME}/chip/{side}")
    service = f"{NAME}/call/posix/fw_c7x_service.c{TEMPLATE_SUFFIX}"
    return [*templates, service] if side == "firmware" else templates


def loadable_sources(project: Path, prefix: str) -> list[str]:
    """Return the sources of the loadable, as paths from the loadable's folder.

    The result excludes sources that only the Arm cores need: the weights in C, the network's
    information, the boxes, and the caller of the loadable.
    """
    processor = list_templates(f"{NAME}/call/processor")
    elsewhere = [TEXT_TEMPLATE, INFO_TEMPLATE, *DETECTION_TEMPLATES, *processor]
    left_out = place_network_files(elsewhere, prefix).values()
    shared = [
        source
        for source in list_sources(project)
        if source.startswith(f"{NETWORK}/") and source.endswith(".c") and source not in left_out
    ]
    sources = sorted(p.name for p in (project / NAME).iterdir() if p.suffix in (".asm", ".c"))
    return [*sources, *(f"../{source}" for source in shared)]


def format_byte_directives(array: npt.NDArray[Any]) -> str:
    """Return the bytes of an array, in memory order, as directives of TI's assembler."""
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    rows = (data[i : i + BYTES_PER_LINE] for i in range(0, len(data), BYTES_PER_LINE))
    return "\n".join(f"        .byte   {', '.join(map(str, row))}" for row in rows)


def loadable_makefile_variables(build: Build, sources: Sequence[str]) -> dict[str, object]:
    toolchain = build.toolchain
    folder = f"$({toolchain.variable})"
    compiler = Compiler((f"{folder}/{toolchain.program}",), "", folder)
    objects = [object_name(source) for source in sources]
    compiled = compile_command(build, compiler, "$<", "$@")
    linked = link_command(
        build, compiler, ["$(OBJECTS)", f"$({LIBRARIES_VARIABLE})"], LOADABLE_NAME
    )
    return {
        "toolchain": toolchain.name,
        "variable": toolchain.variable,
        "program": toolchain.program,
        "platform": build.platform.name,
        "architecture": build.platform.architecture,
        "more_libraries": LIBRARIES_VARIABLE,
        "module": LOADABLE_NAME,
        "map": PurePath(LOADABLE_NAME).with_suffix(".map"),
        "compile": wrap_arguments(compiled),
        "link": wrap_arguments(linked),
        "strip": " ".join(strip_command(build, folder, LOADABLE_NAME)),
        "objects": wrap_arguments(objects),
    }
