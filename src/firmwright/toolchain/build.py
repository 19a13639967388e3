"""Compiles and links one firmware.

The functions that return command lines are pure, and they also create the Makefile of the generated
project. Every command runs in the project folder with relative paths, so objects contain no path of
the machine.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TypeVar

from firmwright.errors import UserError, describe_exit, to_printable
from firmwright.progress import track
from firmwright.system import count_cores
from firmwright.toolchain.built_files import find_kept, keep
from firmwright.toolchain.compilers import Compiler, ToolError, find_library_cache, run_compiler
from firmwright.toolchain.float_abi import check_float_abi
from firmwright.toolchain.platforms import Platform, load_platform
from firmwright.toolchain.project_folders import BOARD, FREESTANDING, NETWORK, list_sources
from firmwright.toolchain.toolchains import ArchitectureSettings, Toolchain, load_toolchain

T = TypeVar("T")

THREADS = "FIRMWRIGHT_THREADS"
"""The environment variable for the number of parallel compilations, by default one per core."""

LINKER_SCRIPT = f"{BOARD}/link.ld"
SLOT_SCRIPT = f"{NETWORK}/slot.ld"
"""The script that links the network as a separate image."""
RUNTIME_OBJECT = "compiler_rt.o"


@dataclass(frozen=True)
class Build:
    """The inputs that affect the objects: toolchain, platform, and the user's extra flags.

    ``include`` contains the folders with headers, relative to the folder in which the compiler
    runs.
    """

    toolchain: Toolchain
    platform: Platform
    cflags: tuple[str, ...] = ()
    include: tuple[str, ...] = (NETWORK, BOARD)

    @property
    def settings(self) -> ArchitectureSettings:
        return self.toolchain.settings_for(self.platform.architecture)

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """All flags of a compilation after ``compile``, ending with the user's flags."""
        headers = [f"-I{folder}" for folder in self.include]
        headers += [] if self.settings.libc else ["-isystem", FREESTANDING]
        return (*self.settings.flags, *self.toolchain.flags, *headers, *self.cflags)


def make_host_build(platform: Platform) -> Build:
    """Return the build of a platform's network for this machine, which emulates accelerators."""
    host = replace(load_platform("host"), accelerators=platform.accelerators)
    return Build(load_toolchain(host.toolchains[0]), host)


def compile_command(build: Build, compiler: Compiler, source: str, output: str) -> tuple[str, ...]:
    return (
        *compiler.command,
        *driver_flags(build, compiler),
        *(flag.format(output=output) for flag in build.toolchain.output),
        source,
    )


def driver_flags(build: Build, compiler: Compiler) -> tuple[str, ...]:
    """Return the arguments that call the compiler's driver, and all compile flags."""
    return fill_folder((*build.settings.compile, *build.compile_flags), compiler.folder)


def fill_folder(flags: Iterable[str], folder: str) -> tuple[str, ...]:
    return tuple(flag.replace("{folder}", folder) for flag in flags)


def link_flags(
    build: Build, map_file: str, folder: str, script: str = LINKER_SCRIPT
) -> tuple[str, ...]:
    """Return the flags for the linker.

    The flags contain the names of the linker script, the map and the installation's folder.
    """
    names = {"script": script, "map": map_file, "folder": folder}
    return tuple(flag.format(**names) for flag in build.settings.link_flags)


def link_command(
    build: Build, compiler: Compiler, objects: Sequence[str], elf: str, script: str = LINKER_SCRIPT
) -> tuple[str, ...]:
    """Return the command line that links objects in this order to ``elf`` and the map."""
    # A driver also needs the compiler's flags, because they determine the libraries.
    driver = driver_flags(build, compiler)
    runtime = (_sibling_path(elf, RUNTIME_OBJECT),) if build.settings.runtime else ()
    return (
        *compiler.command,
        *(build.settings.linker or driver),
        *link_flags(build, _sibling_path(elf, f"{Path(elf).stem}.map"), compiler.folder, script),
        *("-o", elf),
        *objects,
        *runtime,
        *build.settings.libraries,
    )


def runtime_command(build: Build, compiler: Compiler, output: str) -> tuple[str, ...]:
    flags = (*build.settings.runtime, *build.settings.runtime_flags)
    return (*compiler.command, *fill_folder(flags, compiler.folder), f"-femit-bin={output}")


def compile_object(
    build: Build, compiler: Compiler, project: Path, source: str, output: Path, cache: Path
) -> None:
    """Compile one C or assembly source.

    The path of ``source`` is relative to ``project``, in which the compiler runs. ``cache`` is a
    folder for the compiler's cache. Raises ToolError if the compiler fails.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    command = compile_command(build, compiler, source, relative_path(output, project))
    run_tool(command, project, cache, source, "the compiler rejected it")


def object_path(source: str) -> str:
    """Return the path of a source's object, in a folder of objects or next to the source."""
    return PurePath(source).with_suffix(".o").as_posix()


def compile_project(
    build: Build, compiler: Compiler, project: Path, folder: Path, cache: Path,
    sources: Sequence[str] | None = None, name_object: Callable[[str], str] = object_path,
) -> list[Path]:  # fmt: skip
    """Compile sources of a project, by default all of a generated project.

    The result is the objects in ``folder`` in the order of the sources, which is the link order.
    """

    def compile_one(source: str) -> Path:
        target = folder / name_object(source)
        compile_object(build, compiler, project, source, target, cache)
        return target

    return compile_each(compile_one, project, list_sources(project) if sources is None else sources)


def compile_each(
    compile_one: Callable[[str], T], project: Path, sources: Collection[str]
) -> list[T]:
    """Call a function for every source in threads, and return the results in order.

    The largest sources of the ``project`` start first, so that all cores finish at about the same
    time. If several calls fail, the error of the first source is raised.
    """
    largest_first = sorted(sources, key=lambda source: -(project / source).stat().st_size)
    pool = ThreadPoolExecutor(count_threads())
    try:
        begun = {source: pool.submit(compile_one, source) for source in largest_first}
        return [each.result() for each in track([begun[s] for s in sources], "files")]
    finally:
        pool.shutdown(cancel_futures=True)  # no new job starts after a failure or Ctrl-C


def count_threads() -> int:
    """Return the number of parallel compilations. Raises UserError if THREADS is not a number."""
    text = os.environ.get(THREADS) or str(count_cores())
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UserError(f"{THREADS}: expected a whole number from 1 on, found {text!r}")
    return int(text)


def link_firmware(
    build: Build, compiler: Compiler, project: Path, objects: Sequence[Path], elf: Path,
    cache: Path, script: str = LINKER_SCRIPT,
) -> None:  # fmt: skip
    """Link objects in this order to ``elf``, and write the map (``.map``) next to ``elf``.

    ``project`` is the folder with the linker ``script``. If the toolchain needs a run-time library,
    the library is built once per user. Raises ToolError if the linker fails, and UserError if
    soft-float code is labeled as hard-float.
    """
    elf.parent.mkdir(parents=True, exist_ok=True)
    if build.settings.runtime:
        shutil.copyfile(_build_runtime(build, compiler, cache), elf.with_name(RUNTIME_OBJECT))
    names = [relative_path(path, project) for path in objects]
    command = link_command(build, compiler, names, relative_path(elf, project), script)
    try:
        run_tool(command, project, cache, elf.name, "the linker failed")
    except UserError:
        # LLD leaves an unfinished output with a random name.
        for unfinished in elf.parent.glob(f"{elf.name}.tmp*"):
            unfinished.unlink()
        raise
    check_float_abi(elf)
    if not any("{map}" in flag for flag in build.settings.link_flags):
        from firmwright.toolchain.flash_images import write_map

        write_map(elf, elf.with_suffix(".map"))


def _build_runtime(build: Build, compiler: Compiler, cache: Path) -> Path:
    """Return the run-time object from the user's cache, and build a missing object."""
    recipe = [compiler.version, *build.settings.runtime, *build.settings.runtime_flags]
    digest = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:16]
    library = find_library_cache(cache)
    built = find_kept(library, f"compiler_rt-{digest}", ".o")
    if built is None:
        library.mkdir(parents=True, exist_ok=True)
        unfinished = library / f"compiler_rt-{digest}.{os.getpid()}"
        command = runtime_command(build, compiler, unfinished.name)
        run_tool(command, library, cache, RUNTIME_OBJECT, "the compiler's library does not build")
        return keep(unfinished, library, f"compiler_rt-{digest}", ".o")
    return built


def run_tool(command: Sequence[str], folder: Path, cache: Path, what: str, failure: str) -> None:
    """Run a compiler or linker in a folder.

    ``what`` is the file that the tool writes. Raises ToolError with the important lines of the
    output. If the tool fails, the command and the whole output are stored in ``cache``.
    """
    try:
        run_compiler(command, folder, cache)
    except subprocess.CalledProcessError as error:
        log = cache / f"failed-{Path(what).name}.txt"
        cache.mkdir(parents=True, exist_ok=True)
        text = to_printable(f"cd {folder}\n{shlex.join(command)}\n\n{error.stdout}")
        log.write_text(text, encoding="utf-8")
        ended = f" ({describe_exit(error.returncode)})" if error.returncode < 0 else ""
        raise ToolError(f"{what}: {failure}{ended}", error.stdout, log) from error


def drop_folder(map_file: Path, project: Path) -> None:
    """Remove the folder of a linker's map from the file names in the map.

    The linker ran in ``project``. The folder is temporary and is renamed later.
    """
    folder = f"{relative_path(map_file.parent, project)}/".encode()
    map_file.write_bytes(map_file.read_bytes().replace(folder, b""))


def relative_path(path: Path, folder: Path) -> str:
    # Resolve both paths first, because `..` after a symbolic link leads to a different folder.
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()


def _sibling_path(path: str, name: str) -> str:
    return Path(path).with_name(name).as_posix()
