"""module: what a device's own core loads of the network, built by that core's compiler."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from .jobs import Job, settings_of
from .stage import Stage


def libraries() -> list[str]:
    """Return the user's words for the linker; a file's path becomes absolute."""
    from firmwright.toolchain.module import MORE_LIBRARIES

    words = shlex.split(os.environ.get(MORE_LIBRARIES, ""))
    return [str(Path(word).resolve()) if Path(word).is_file() else word for word in words]


def options(job: Job) -> Any:
    assert job.module is not None
    return {**settings_of(job.module), "libraries": [Path(word).name for word in libraries()]}


def inputs(_job: Job) -> list[Path]:
    return [Path(word) for word in libraries() if Path(word).is_file()]


def run(job: Job, folder: Path) -> None:
    """Write the module, its map and its objects."""
    from firmwright.codegen.module import module_sources
    from firmwright.toolchain import build_module, find_compiler
    from firmwright.toolchain.module import MODULE

    build, device = job.module, job.recipe.target[-1].name
    assert build is not None
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    project = job.folder("sources")
    sources = module_sources(project, build.platform.board, device)
    output = folder / MODULE
    build_module(build, compiler, project / device, sources, libraries(), output, job.cache)
    print(f"   {job.recipe.name}: {MODULE}: {output.stat().st_size:,} bytes, {compiler.version}")


STAGE = Stage(
    name="module",
    sentence="build what the accelerator's own core loads",
    needs=("sources",),
    code=("toolchain", "codegen/module.py"),
    options=options,
    inputs=inputs,
    run=run,
)
