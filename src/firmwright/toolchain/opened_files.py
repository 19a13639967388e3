"""Finds the files that a compiler opens: programs, headers, libraries and start-up files.

A compiler like gcc reports these files. ``-M`` lists headers. ``-v`` and the linker's ``--verbose``
print each program, file and search folder. For other compilers, all files of the compiler's folder
count, or the record of the compiler's Python package.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product
from pathlib import Path

from firmwright.toolchain.build import Build, driver_flags, link_command
from firmwright.toolchain.compilers import Compiler, run_compiler

HEADERS = (
    *("stdint.h", "stdbool.h", "stddef.h", "stdarg.h", "string.h", "stdlib.h", "stdio.h", "math.h"),
    "time.h",
    *("arm_neon.h", "arm_mve.h", "immintrin.h", "cpuid.h", "unistd.h", "fcntl.h", "poll.h"),
    *("signal.h", "sys/mman.h", "sys/wait.h", "sys/stat.h", "sys/socket.h", "sys/prctl.h"),
    *("sys/ioctl.h", "sys/auxv.h", "linux/rpmsg.h", "linux/remoteproc_cdev.h"),
    *("linux/dma-heap.h", "linux/dma-buf.h", "avr/io.h", "avr/interrupt.h", "avr/sleep.h"),
)
"""The compiler's and the C library's headers that firmwright's templates include."""

MACROS = ("", "#define _GNU_SOURCE\n")
"""Lines before a header. With the macro, a header of the C library can open more files."""

SYSTEM_LIBRARIES = (
    *("ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so"),
    *("libgcc_s.so", "libstdc++.so", "libz.so", "libzstd.so", "liblzma.so", "libtinfo.so"),
    *("libedit.so", "libbsd.so", "libmd.so", "libxml2.so", "libffi.so", "libicu", "libjansson.so"),
)
"""Libraries that programs need to run, and that do not affect any byte of an object."""

PATH_ARGUMENT = re.compile(r"(?<![\w./*$-])(?:-[LBI])?(/[\w.][^\s\"'`,;()=:]*)")
INCLUDED = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.M)
CONFIGURED = re.compile(r"^Configured with: .*$", re.M)
"""The paths on this line belong to the machine on which the compiler was built."""
PROGRAM_START = b"\x7fELF"


@dataclass(frozen=True)
class OpenedFiles:
    """The files whose contents determine the results of a tool.

    ``locations`` are the folders in which the tool searches for these files, and missing files. The
    tool may prefer a new file in one of these folders. ``facts`` are other texts that affect the
    results, such as versions.
    """

    files: tuple[str, ...]
    locations: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


def find_opened_files(build: Build, compiler: Compiler, headers: Collection[str]) -> OpenedFiles:
    """Return the files that a build's compiler and linker open outside the project.

    ``headers`` are the names that the user's sources include.
    """
    toolchain = build.toolchain
    if toolchain.python_module:
        return read_package(toolchain.python_module, Path(compiler.command[0]))
    if toolchain.reports_files:
        return ask_compiler(build, compiler, [*HEADERS, *sorted(headers)])
    return list_folder(Path(compiler.folder or compiler.command[0]))


def list_included(sources: Iterable[Path]) -> list[str]:
    """Return the names that sources include, sorted. Missing sources are skipped."""
    texts = (path.read_bytes() for path in sources if path.is_file())
    return sorted({os.fsdecode(name) for text in texts for name in INCLUDED.findall(text)})


def read_package(module: str, program: Path) -> OpenedFiles:
    """Return the program of a Python package, and the file digests from pip's record."""
    try:
        installed = distribution(module)
    except PackageNotFoundError:
        return OpenedFiles((str(program),))
    record = installed.read_text("RECORD") or ""
    # Scripts outside the package contain the path of the environment. Only the package's files are
    # equal on every machine.
    lines = sorted(line for line in record.splitlines() if line.startswith(f"{module}/"))
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    locations = (str(program.parent), str(program.parent.parent))
    return OpenedFiles((str(program),), locations, (installed.version, digest))


def list_folder(folder: Path) -> OpenedFiles:
    """Return all files below a folder except hidden files, or the single file."""
    if folder.is_file():
        return OpenedFiles((str(folder),), (str(folder.parent),))
    files, locations = [], []
    for searched_folder, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "__pycache__")
        locations.append(searched_folder)
        files += [f"{searched_folder}/{name}" for name in sorted(names) if not name.startswith(".")]
    return OpenedFiles(tuple(files), tuple(locations))


def ask_compiler(build: Build, compiler: Compiler, headers: Sequence[str]) -> OpenedFiles:
    """Return the files that a compiler like gcc opens to compile and link an empty program.

    A header that does not exist for the processor is omitted. A failed link is not an error in this
    function. The linker opens the files before it fails, and the link of the build reports the
    error.
    """
    flags = driver_flags(build, compiler)
    with tempfile.TemporaryDirectory(prefix="firmwright-probe-") as name:
        folder = Path(name).resolve()
        (folder / "main.c").write_text("int main(void) { return 0; }\n")
        (folder / "probe.ld").write_text("SECTIONS { .text : { *(.text*) } }\n")
        texts = [f"{macro}#include <{header}>\n" for macro, header in product(MACROS, headers)]
        sources = [f"header_{number}.c" for number, _ in enumerate(texts)]
        for source, text in zip(sources, texts, strict=True):
            (folder / source).write_text(text)
        linked = link_command(build, compiler, ["main.c"], "probe.elf", "probe.ld")
        included = run_probe([*compiler.command, *flags, "-M", *sources], folder)
        traced = run_probe([*linked, "-v", "-Wl,--verbose", "-Wl,--trace"], folder)
        programs = [*find_programs(compiler, flags, folder), *list_stated_files(build, compiler)]
        paths = [*PATH_ARGUMENT.findall(included), *PATH_ARGUMENT.findall(traced)]
    ignored = (f"{folder}/", f"{tempfile.gettempdir()}/cc", f"{tempfile.gettempdir()}/main-")
    listed = {path for path in (*paths, *programs) if not path.startswith(ignored)}
    files = sorted(path for path in listed if Path(path).is_file())
    loaded = {each for path in files if is_program(path) for each in list_loaded(path)}
    folders = [path for path in listed if Path(path).is_dir()]
    below = {os.path.dirname(header) for header in headers}  # noqa: PTH120
    searched = {f"{folder}/{each}" for folder, each in product(folders, below)}
    locations = {*listed.difference(files), *searched, *os.get_exec_path()}
    return OpenedFiles(tuple(sorted({*files, *loaded})), tuple(sorted(locations)))


def list_stated_files(build: Build, compiler: Compiler) -> list[str]:
    """Return the paths of files that a toolchain's description names in the compiler's folder."""
    names = (*build.toolchain.files, *build.settings.files) if compiler.folder else ()
    return [str(Path(compiler.folder, name)) for name in names]


def run_probe(command: Sequence[str], folder: Path) -> str:
    try:
        output = run_compiler(command, folder, folder)
    except subprocess.CalledProcessError as error:
        output = str(error.stdout)
    return CONFIGURED.sub("", output)


def find_programs(compiler: Compiler, flags: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield the paths of the compiler, and of the assembler and linker that the compiler runs."""
    yield shutil.which(compiler.command[0]) or compiler.command[0]
    chosen = [flag.partition("=")[2] for flag in flags if flag.startswith("-fuse-ld=")]
    for name in ("as", "ld", *(f"ld.{linker}" for linker in chosen)):
        answer = run_probe([*compiler.command, f"-print-prog-name={name}"], folder).strip()
        program = shutil.which(answer)
        if program:
            yield program


def is_program(path: str) -> bool:
    """Return whether a file is a program, or a library that programs load."""
    if not os.access(path, os.X_OK):
        return False
    with Path(path).open("rb") as file:
        return file.read(len(PROGRAM_START)) == PROGRAM_START


def list_loaded(program: str) -> list[str]:
    """Return the libraries that Linux loads for a program, without SYSTEM_LIBRARIES."""
    if not sys.platform.startswith("linux"):
        return []
    with tempfile.TemporaryDirectory(prefix="firmwright-probe-") as folder:
        done = subprocess.run(
            [program],
            cwd=folder,
            env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    paths = re.findall(r"(?:=>\s|^\s*)(/\S+)", done.stdout, re.M)
    return [path for path in paths if not Path(path).name.startswith(SYSTEM_LIBRARIES)]
