"""Identifies the programs that affect results according to their files and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from firmwright.custom.installed_modules import find_installed
from firmwright.emulator import load_emulator
from firmwright.errors import UserError
from firmwright.plugins import find_plugins
from firmwright.toolchain import Build, Platform, find_compiler
from firmwright.toolchain.boards import Sdk, load_board
from firmwright.toolchain.compilers import find_command
from firmwright.toolchain.emulator_names import BUILT_IN, GROUP
from firmwright.toolchain.opened_files import (
    HEADERS,
    MACROS,
    OpenedFiles,
    find_opened_files,
    list_included,
)
from firmwright.toolchain.sdk import find_sdk_folders

from .fingerprint import Fingerprint, find_fingerprint
from .freshness import file_digest


@dataclass(frozen=True)
class Tool:
    """A program that a stage runs.

    ``find`` returns the fingerprint of all files that the program opens, or None if the program is
    not installed. ``find`` raises UserError if the installation is damaged. ``version`` returns the
    text for a lock, or None if the tool has no version. ``locked_as`` is the name of the
    fingerprint in a lock, or empty if a lock contains only the version.
    """

    name: str
    find: Callable[[], Fingerprint | None]
    version: Callable[[], str | None]
    locked_as: str = ""

    def stamp(self) -> str:
        """Return the digest of the tool's files, or the reason why there is no digest."""
        try:
            fingerprint = self.find()
        except UserError as error:  # the stage raises the error again
            return str(error)
        return fingerprint.digest if fingerprint else "not installed"

    def list_watched(self) -> Iterable[str]:
        try:
            fingerprint = self.find()
        except UserError:
            return ()
        return fingerprint.watched if fingerprint else ()


def collect_settings(build: Build) -> dict[str, Any]:
    """Return all settings of a platform and a toolchain that affect the compiled files."""
    toolchain = build.toolchain
    return {
        "toolchain": toolchain.name,
        "settings": asdict(build.settings),
        "flags": build.compile_flags,
        "words": [toolchain.output, toolchain.strip],
        "files": {str(path): file_digest(path) for path in find_named_files(build)},
    }


def find_named_files(build: Build) -> list[Path]:
    """Return the files, such as archives, whose absolute paths are arguments of the toolchain."""
    settings = build.settings
    flags = (*settings.flags, *settings.link_flags, *settings.libraries)
    return [path for path in map(Path, flags) if path.is_absolute() and path.is_file()]


def compiler_tool(build: Build, sources: Iterable[Path] = ()) -> Tool:
    """Return the compiler of a build. The user's C ``sources`` may include any header."""
    toolchain, architecture = build.toolchain, build.platform.architecture
    return Tool(
        toolchain.name,
        partial(fingerprint_compiler, build, sources),
        lambda: find_compiler(toolchain, architecture).version,
        toolchain.name if toolchain.python_module else f"{toolchain.name} for {architecture}",
    )


def fingerprint_compiler(build: Build, sources: Iterable[Path]) -> Fingerprint | None:
    toolchain, architecture = build.toolchain, build.platform.architecture
    command = find_command(toolchain)
    if command is None:
        return None
    headers = list_included(sources)
    flags = (*build.compile_flags, *build.settings.link_flags, *build.settings.libraries)

    def look() -> OpenedFiles:
        return find_opened_files(build, find_compiler(toolchain, architecture), headers)

    return find_fingerprint([*command, *flags, *MACROS, *HEADERS, *headers], look)


def list_sdk_tools(platform: Platform) -> list[Tool]:
    """Return the folders of the SDK that builds a firmware, or [] if there is no SDK."""
    sdk = load_board(platform.board).sdk
    if sdk is None:
        return []
    return [folder_tool(name, partial(list_sdk_files, sdk, name)) for name in sdk.folders]


def list_sdk_files(sdk: Sdk, variable: str) -> OpenedFiles:
    folder = find_sdk_folders(sdk)[variable]
    files = [folder.path / name for name in folder.files]
    return OpenedFiles(tuple(map(str, files)), tuple({str(file.parent): None for file in files}))


def folder_tool(name: str, find: Callable[[], OpenedFiles | None]) -> Tool:
    """Return a tool whose version is the digest of the files that ``find`` returns."""

    def fingerprint() -> Fingerprint | None:
        opened = find()
        return find_fingerprint([name, *opened.files], lambda: opened) if opened else None

    def digest() -> str | None:
        result = fingerprint()
        return f"sha256 {result.digest[:16]}" if result else None

    return Tool(name, fingerprint, digest)


def emulator_tool(name: str, platform: Platform) -> Tool:
    """Return an emulator.

    A lock includes the files of emulators in other packages, because users may edit these files.
    """
    find = partial(fingerprint_emulator, name, platform)
    locked_as = "" if name in BUILT_IN else name
    return Tool(name, find, partial(read_version, name, platform), locked_as)


def fingerprint_emulator(name: str, platform: Platform) -> Fingerprint | None:
    """Return the fingerprint of an emulator's files, or None if this machine runs the firmware."""
    opened = load_emulator(name).find_files(platform)
    if name not in BUILT_IN:
        opened = add_package(find_plugins(GROUP)[name].module, opened or OpenedFiles(()))
    if opened is None:
        return None
    return find_fingerprint([name, *opened.files, *opened.facts], lambda: opened)


def add_package(module: str, opened: OpenedFiles) -> OpenedFiles:
    """Return the opened files with the files and versions of a module's package and its imports."""
    code = find_installed([module.partition(".")[0]])
    versions = [f"{package} {version(package)}" for package in sorted(code.packages)]
    return OpenedFiles(
        (*opened.files, *map(str, code.files)),
        (*opened.locations, *map(str, code.folders.values())),
        (*opened.facts, *versions),
    )


def read_version(name: str, platform: Platform) -> str | None:
    return load_emulator(name).find_version(platform)
