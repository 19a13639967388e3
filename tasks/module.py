"""module: what a device's own core loads of the network, built by that core's compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .compilers import settings_of
from .jobs import Job
from .stage import Stage


def libraries() -> list[str]:
    """Return the linker's words for the archives that the environment names.

    One that is no file here is left to the linker, which looks into its own folders too.
    """
    from firmwright.toolchain.libraries import more_archives

    found = (path.resolve() if path.is_file() else path for path in more_archives())
    return [word for path in found for word in ("-l", str(path))]


def options(job: Job) -> Any:
    assert job.module is not None
    return {**settings_of(job.module), "libraries": [Path(word).name for word in libraries()]}


def inputs(_job: Job) -> list[Path]:
    return [Path(word) for word in libraries() if Path(word).is_file()]


def run(job: Job, folder: Path) -> None:
    """Write the module, its map and its objects.

    Raises UserError where it lacks a function of the user's that the network calls.
    """
    from firmwright.codegen.kernel import Kernels
    from firmwright.codegen.libraries import library_functions
    from firmwright.codegen.module import module_sources
    from firmwright.records import read_record
    from firmwright.toolchain import build_module, find_compiler
    from firmwright.toolchain.libraries import check_defined
    from firmwright.toolchain.module import MODULE

    build, device = job.module, job.recipe.target[-1].name
    assert build is not None
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    project = job.folder("sources")
    sources = module_sources(project, build.platform.board, device)
    output = folder / MODULE
    build_module(build, compiler, project / device, sources, libraries(), output, job.cache)
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels).kernels
    functions = [function.name for function in library_functions(kernels)]
    check_defined(functions, sorted(folder.glob("*.obj")), inputs(job))
    print(f"   {job.recipe.name}: {MODULE}: {output.stat().st_size:,} bytes, {compiler.version}")


STAGE = Stage(
    name="module",
    sentence="build what the accelerator's own core loads",
    needs=("kernels", "sources"),
    code=("toolchain", "codegen/module.py", "codegen/libraries.py", "records.py"),
    options=options,
    inputs=inputs,
    run=run,
)
