"""Programs that decide about results: what tells one from another, and their versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from shutil import which
from typing import Any, Protocol

from firmwright.errors import UserError
from firmwright.toolchain import Build, Platform, Toolchain, compiler_folder, find_compiler
from firmwright.toolchain.boards import Sdk, load_board
from firmwright.toolchain.compilers import stamp_program
from firmwright.toolchain.sdk import find_sdk_folders
from firmwright.toolchain.tool_folder import ToolFolder

from .freshness import file_digest


class Installation(Protocol):
    """What is installed; ``identity`` tells it from another."""

    @property
    def identity(self) -> list[Any]: ...


@dataclass(frozen=True)
class Tool:
    """A program that a stage runs.

    ``stamp()`` tells one installation from another without starting it. ``version()`` is what a
    lock states; None where nothing is installed for it. ``program`` is the file whose change shows
    another installation, '' for a Python package; None where more than one file shows it.
    """

    name: str
    stamp: Callable[[], Any]
    version: Callable[[], str | None]
    program: str | None = None


def collect_settings(build: Build) -> dict[str, Any]:
    """Return everything of a platform and a toolchain that decides about what they build."""
    toolchain = build.toolchain
    return {
        "toolchain": toolchain.name,
        "settings": asdict(build.settings),
        "flags": build.compile_flags,
        "words": [toolchain.output, toolchain.strip],
        "files": {str(path): file_digest(path) for path in find_named_files(build)},
    }


def find_named_files(build: Build) -> list[Path]:
    """Return the files that words of the toolchain name by absolute paths, such as archives."""
    settings = build.settings
    words = (*settings.flags, *settings.link_flags, *settings.libraries)
    return [path for path in map(Path, words) if path.is_absolute() and path.is_file()]


def compiler_tool(build: Build) -> Tool:
    toolchain = build.toolchain
    return Tool(
        toolchain.name,
        partial(stamp_compiler, build),
        lambda: find_compiler(toolchain, build.platform.architecture).version,
        find_program(toolchain),
    )


def find_program(toolchain: Toolchain) -> str | None:
    """Return the file of a toolchain that is one program; '' if it is a Python package or missing.

    None stands for one that is a folder.
    """
    if toolchain.variable:
        return None
    return "" if toolchain.python_module else which(toolchain.program) or ""


def list_sdk_tools(platform: Platform) -> list[Tool]:
    """Return the folders of the SDK that builds a platform's firmware, none where we link it."""
    sdk = load_board(platform.board).sdk
    if sdk is None:
        return []
    return [
        Tool(
            name,
            partial(stamp_installation, partial(find_sdk_folder, sdk, name)),
            partial(digest_sdk, sdk, name),
        )
        for name in sdk.folders
    ]


def find_sdk_folder(sdk: Sdk, variable: str) -> ToolFolder:
    return find_sdk_folders(sdk)[variable]


def digest_sdk(sdk: Sdk, variable: str) -> str:
    return f"sha256 {find_sdk_folder(sdk, variable).digest}"


def stamp_installation(find: Callable[[], Installation | None]) -> list[Any]:
    """Return what tells one installation from another, from a broken one, or from none."""
    try:
        found = find()
    except UserError as error:  # which the stage raises again
        return [str(error)]
    return found.identity if found else []


def stamp_compiler(build: Build) -> list[Any]:
    toolchain = build.toolchain
    if toolchain.python_module:
        return [toolchain.python_module, version(toolchain.python_module)]
    if toolchain.variable:
        return stamp_installation(lambda: compiler_folder(toolchain, build.platform.architecture))
    return stamp_program(toolchain.program)


def emulator_tool(name: str, platform: Platform) -> Tool:
    qemu = platform.qemu if name not in ("native", "unicorn") else None
    return Tool(
        name,
        partial(stamp_emulator, name, platform),
        partial(read_version, name, platform),
        (which(qemu.program) or "") if qemu else "",
    )


def stamp_emulator(name: str, platform: Platform) -> list[Any]:
    if name == "unicorn":
        return [version("unicorn")]
    qemu = platform.qemu if name != "native" else None
    return stamp_program(qemu.program) if qemu else []


def read_version(name: str, platform: Platform) -> str | None:
    """Return an emulator's version; None for ``native``: this machine runs the program."""
    from firmwright.emulator import find_emulator_version

    return find_emulator_version(name, platform)


def explain_missing_emulator(name: str, platform: Platform) -> str:
    """Say how to install an emulator; empty where it is present."""
    qemu = platform.qemu if name.startswith("qemu") else None
    if qemu is None or which(qemu.program):
        return ""
    from firmwright.emulator.qemu import explain_missing_qemu

    return explain_missing_qemu(qemu, platform)
