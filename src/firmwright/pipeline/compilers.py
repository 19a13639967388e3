"""What decides about the objects of a compiler, told without starting it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from shutil import which
from typing import Any

from firmwright.errors import UserError
from firmwright.toolchain import Build, compiler_folder


def collect_settings(build: Build) -> dict[str, Any]:
    """Return everything of a platform and a toolchain that decides about what they build."""
    toolchain = build.toolchain
    return {
        "toolchain": toolchain.name,
        "settings": asdict(build.settings),
        "flags": build.compile_flags,
        "words": [toolchain.compile, toolchain.output, toolchain.strip],
        "identity": compiler_identity(build),
    }


def compiler_identity(build: Build) -> list[Any]:
    """Return what tells one installed compiler from another, without starting it."""
    toolchain = build.toolchain
    if toolchain.python_module:
        return [toolchain.python_module, version(toolchain.python_module)]
    if toolchain.variable:
        with suppress(UserError):  # incomplete: the stage that calls it says so
            folder = compiler_folder(toolchain, build.platform.architecture)
            return folder.identity if folder else []
        return []
    return program_identity(toolchain.program)


def program_identity(name: str) -> list[Any]:
    """Return what tells one installed program from another; its name alone where it is missing."""
    program = which(name)
    if program is None:
        return [name]
    status = Path(program).stat()
    return [name, status.st_size, status.st_mtime_ns]
