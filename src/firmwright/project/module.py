"""The folder of a module in the project: what the device's own core loads of a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firmwright.codegen.templates import TEMPLATE_SUFFIX, make_environment, render, template_folder
from firmwright.project.write import (
    DETECTION_TEMPLATES,
    PROGRAM_TEMPLATES,
    list_templates,
    output_name,
    write_file,
)
from firmwright.toolchain import Build
from firmwright.toolchain.module import loadable_makefile_variables

LINK_SCRIPT = "link.cmd"


def write_loadable(variables: Mapping[str, Any], build: Build, device: str, project: Path) -> None:
    """Write the module of a project that is written, into the folder of the device's name.

    ``variables`` are those of the project's templates, ``build`` is the module's own.
    """
    env = make_environment()
    folder = project / device
    for template in loadable_templates(build, device):
        write_file(folder / output_name(template), render(env, template, variables))
    sources = loadable_sources(project, build.platform.board, device)
    makefile = {**loadable_makefile_variables(build, sources), "script": LINK_SCRIPT}
    write_file(
        folder / "Makefile", render(env, f"c7x/loadable/Makefile{TEMPLATE_SUFFIX}", makefile)
    )


def loadable_templates(build: Build, device: str) -> list[str]:
    """Return the templates of the module's own files, but the Makefile."""
    common = [f"c7x/loadable/{name}{TEMPLATE_SUFFIX}" for name in (LINK_SCRIPT, "weights.asm")]
    return [*common, *list_templates(f"{device}/{build.toolchain.name}")]


def loadable_sources(project: Path, board: str, device: str) -> list[str]:
    """Return what the module is compiled from, by its path from the module's folder.

    Of the project's own sources those that are not the processor's: the program around the network,
    the weights in C, the boxes, the caller of the module, and what is there for the board.
    """
    folders = sorted(folder.name for folder in template_folder().iterdir())
    others = [t for name in folders for t in list_templates(f"{name}/{board}")]
    others += list_templates(f"{device}/call/{board}") + list_templates(f"{device}/call/processor")
    left_out = {
        output_name(template) for template in (*PROGRAM_TEMPLATES, *DETECTION_TEMPLATES, *others)
    }
    shared = sorted(p.name for p in project.glob("*.c") if p.name not in left_out)
    own = sorted(p.name for p in (project / device).iterdir() if p.suffix in (".asm", ".c"))
    return [*own, *(f"../{name}" for name in shared)]
