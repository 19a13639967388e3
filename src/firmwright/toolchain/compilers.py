"""Finds a toolchain's compiler on this machine, and calls it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from firmwright.child import make_environment
from firmwright.errors import UserError
from firmwright.toolchain.tool_folder import ToolFolder, find_tool_folder
from firmwright.toolchain.toolchains import Toolchain, load_toolchain, toolchain_names
from firmwright.user_folders import find_cache_folder

# The environment variables of a compiler. CPATH, CFLAGS, LANG and others would change the output.
_INHERITED_VARIABLES = ("HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH", "TMPDIR")


@dataclass(frozen=True)
class Compiler:
    """An installed compiler, the first arguments of its command line, and its version.

    ``folder`` is the folder of the installation if a variable or a Python module determines it, or
    '' for other compilers.
    """

    command: tuple[str, ...]
    version: str
    folder: str = ""


UNREADABLE = re.compile("[%:\n]")
"""Characters that zig and its linker misread in a path. A symbolic link replaces such a path."""

Question = tuple[str | int, ...]
"""A command line, and the identity of the program's installation."""

ANSWERS: dict[Question, str] = {}
"""The outputs of the programs that this process has called."""

MOST_ERRORS = 6
"""The maximum number of lines of a compiler's or linker's output in a message."""
ERROR_LINE = re.compile(
    r"^>>> |\berror( #\d+)?: |undefined (reference|symbol)|overflowed by|\bld: ", re.IGNORECASE
)

TOO_LITTLE_MEMORY = (
    "the platform has too little memory: correct `memories` in its file, or reduce the network and "
    "the data of `libraries`"
)
"""The hint for a section that does not fit, which GNU's linker and LLD report in equal words."""


class ToolError(UserError):
    """A failure of a compiler or linker, and the important lines of the ``output``.

    ``log`` is the file with the command and the whole output.
    """

    def __init__(self, failure: str, output: str, log: Path) -> None:
        self.output = output
        shown = [f"  {line}" for line in find_errors(output)]
        hints = [TOO_LITTLE_MEMORY] if "overflowed by" in output else []
        log_line = f"command and whole output: {log}"
        super().__init__("\n".join([f"{failure}:", *shown, *hints, log_line]))


def find_errors(output: str) -> list[str]:
    """Return the first lines with an error, or the last lines if the output has no such line."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if ERROR_LINE.search(line)]
    if not errors:
        return lines[-MOST_ERRORS:]
    more = len(errors) - MOST_ERRORS
    return errors[:MOST_ERRORS] + ([f"and {more} more"] if more > 0 else [])


def find_compiler(toolchain: Toolchain, architecture: str) -> Compiler:
    """Return the toolchain's compiler.

    Raises UserError with installation instructions if the compiler is missing. The message names
    the installed toolchains that support ``architecture``. A compiler version that does not support
    the architecture is rejected. If the toolchain is a folder, the version includes the digest of
    the folder's files.
    """
    command = find_command(toolchain)
    if command is None:
        raise UserError(_describe_missing(toolchain, architecture))
    version = _read_version(toolchain, command)
    _check_version(toolchain, version, architecture)
    folder = compiler_folder(toolchain, architecture)
    if folder is None:
        module = str(Path(command[0]).parent) if toolchain.python_module else ""
        return Compiler(command, version, module)
    return Compiler(command, f"{version}, sha256 {folder.digest}", str(folder.path))


def explain_missing_compiler(toolchain: Toolchain, architecture: str) -> str:
    return "" if find_command(toolchain) else _describe_missing(toolchain, architecture)


def compiler_folder(toolchain: Toolchain, architecture: str | None = None) -> ToolFolder | None:
    """Return the folder of a toolchain that a variable names, or None if the variable is not set.

    Raises UserError if the folder lacks a file that every build or the architecture needs.
    """
    if not toolchain.variable:
        return None
    required = toolchain.settings_for(architecture).files if architecture else ()
    return find_tool_folder(toolchain.variable, (toolchain.program, *toolchain.files, *required))


def run_captured(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool without input in a folder. ``stdout`` also contains the tool's error output."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def run_compiler(command: Sequence[str], folder: Path, cache: Path) -> str:
    """Run a compiler in a folder, and return the output.

    Raises CalledProcessError if the compiler fails. Zig stores libraries in ``cache`` if the user
    has no cache folder. Zig would also cache objects without detecting damage, so objects are
    written to a folder that only this call uses.
    """
    with TemporaryDirectory(prefix="firmwright-zig-") as temporary:
        libraries = find_library_cache(cache.resolve() / "zig")
        if UNREADABLE.search(str(libraries)):
            libraries.mkdir(parents=True, exist_ok=True)
            Path(temporary, "libraries").symlink_to(libraries, target_is_directory=True)
            libraries = Path(temporary, "libraries")
        environment = _make_environment(libraries, Path(temporary, "objects"))
        done = run_captured(command, folder, environment)
    done.check_returncode()
    return done.stdout


def _make_environment(libraries: Path, objects: Path) -> Mapping[str, str]:
    passed_on = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    return make_environment(passed_on) | {
        "LC_ALL": "C",
        # A compiler can be a Python program, which must not import modules from the build folder.
        "PYTHONSAFEPATH": "1",
        "ZIG_GLOBAL_CACHE_DIR": str(libraries),
        "ZIG_LOCAL_CACHE_DIR": str(objects),
    }


def find_library_cache(local: Path) -> Path:
    """Return the folder of the libraries that a compiler builds for each core.

    A library needs up to 25 s and 75 MB, so all recipes of a user share the libraries. If the
    user's cache folder is not writable, the folder is ``local``.
    """
    folder = find_cache_folder()
    if folder is None:
        return local
    shared = folder / "zig"
    with suppress(OSError):
        shared.mkdir(parents=True, exist_ok=True)
    return shared if os.access(shared, os.W_OK) else local


def find_command(toolchain: Toolchain) -> tuple[str, ...] | None:
    """Return the first arguments of a compiler's command line, or None if it is not installed."""
    if toolchain.variable:
        folder = compiler_folder(toolchain)
        return (str(folder.path / toolchain.program),) if folder else None
    if toolchain.python_module:
        # Do not use `python -m`, because Python's start needs as much time as the compilation.
        module = _find_module_folder(toolchain.python_module)
        return (str(module / toolchain.program),) if module else None
    return (toolchain.program,) if shutil.which(toolchain.program) else None


@cache
def _find_module_folder(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _read_version(toolchain: Toolchain, command: tuple[str, ...]) -> str:
    """Return a version such as ``zig 0.17.0 (clang 22.1.8)``."""
    parts = []
    for name, arguments in toolchain.versions.items():
        output = _ask((*command, *arguments), stamp_program(command[0]))
        number = re.search(r"\d+(\.\d+)+", output)
        if number is None:
            printed = f"'{name}' does not print its version; it printed: {output.strip()}"
            raise UserError(f"{printed}; check its installation")
        parts.append(f"{name} {number[0]}")
    first, *others = parts
    return f"{first} ({', '.join(others)})" if others else first


def _check_version(toolchain: Toolchain, version: str, architecture: str) -> None:
    """Raise UserError if the compiler is too old for the architecture."""
    since = toolchain.settings_for(architecture).since
    match = re.search(r"\d+(\.\d+)+", version)
    if since and match and _parse_version(match[0]) < _parse_version(since):
        raise UserError(
            f"toolchain '{toolchain.name}': {version} does not support {architecture}; install "
            f"version {since} or later"
        )


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def stamp_program(name: str) -> list[str | int]:
    """Return a program's name, size in bytes and modification time in ns.

    If the program is missing, only the name is returned.
    """
    program = shutil.which(name)
    if program is None:
        return [name]
    status = Path(program).stat()
    return [name, status.st_size, status.st_mtime_ns]


def _ask(command: Sequence[str], stamp: Sequence[str | int]) -> str:
    """Return the output of a program. A process calls each program only once."""
    question = (*command, *stamp)
    if question not in ANSWERS:
        try:
            ANSWERS[question] = run_compiler(command, Path(), Path())
        except (OSError, subprocess.CalledProcessError) as error:
            problem = f"the compiler does not run: {' '.join(command)}: {error}"
            raise UserError(f"{problem}; check its installation") from error
    return ANSWERS[question]


def _describe_missing(toolchain: Toolchain, architecture: str) -> str:
    module = toolchain.python_module
    wanted = f"the Python module {module}" if module else toolchain.program
    install = {
        "debian": "'apt-get install {}'",
        "pip": "'python -m pip install {}'",
        "source": "building {}",
        "vendor": "installing {}",
    }
    sources = [install[kind].format(" ".join(names)) for kind, names in toolchain.packages.items()]
    remedy = f"{wanted} is not installed; get it by {' or '.join(sources)}"
    if toolchain.variable:
        folder = f"a folder with {wanted}, got by {sources[0]}"
        remedy = f"{toolchain.variable} is not set; set it to {folder}"
    others = [
        name
        for name in toolchain_names()
        if name != toolchain.name and _supports(load_toolchain(name), architecture)
    ]
    instead = f"; present instead, as 'toolchain:' in the recipe: {', '.join(others)}"
    return f"{remedy}{instead if others else ''}"


def _supports(toolchain: Toolchain, architecture: str) -> bool:
    if architecture not in toolchain.architectures:
        return False
    with suppress(UserError):  # the installation is incomplete
        return find_command(toolchain) is not None
    return False
