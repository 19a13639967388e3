"""The folder of a module in the project: what the device's own core loads of a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firmwright.codegen.templates import SUFFIX, environment, render, template_folder
from firmwright.project.write import DETECTION, PROGRAM, target_name, templates_in, write
from firmwright.toolchain import Build
from firmwright.toolchain.module import makefile_of_module

SCRIPT = "link.cmd"


def write_module(variables: Mapping[str, Any], build: Build, device: str, project: Path) -> None:
    """Write the module of a project that is written, into the folder of the device's name.

    ``variables`` are those of the project's templates, ``build`` is the module's own.
    """
    env = environment()
    folder = project / device
    for template in module_templates(build, device):
        write(folder / target_name(template), render(env, template, variables))
    sources = module_sources(project, build.platform.board, device)
    makefile = {**makefile_of_module(build, sources), "script": SCRIPT}
    write(folder / "Makefile", render(env, f"module/Makefile{SUFFIX}", makefile))


def module_templates(build: Build, device: str) -> list[str]:
    """Return the templates of the module's own files, but the Makefile."""
    common = [f"module/{name}{SUFFIX}" for name in (SCRIPT, "weights.asm")]
    return [*common, *templates_in(f"{device}/{build.toolchain.name}")]


def module_sources(project: Path, board: str, device: str) -> list[str]:
    """Return what the module is compiled from, by its path from the module's folder.

    Of the project's own sources those that are not the processor's: the program around the network,
    the weights in C, the boxes, the caller of the module, and what is there for the board.
    """
    folders = sorted(folder.name for folder in template_folder().iterdir())
    others = [t for name in folders for t in templates_in(f"{name}/{board}")]
    others += templates_in("crossing/arm")
    left_out = {target_name(template) for template in (*PROGRAM, *DETECTION, *others)}
    shared = sorted(p.name for p in project.glob("*.c") if p.name not in left_out)
    own = sorted(p.name for p in (project / device).iterdir() if p.suffix in (".asm", ".c"))
    return [*own, *(f"../{name}" for name in shared)]
