"""Builds firmware with an SDK's make, and lists the missing requirements of the SDK."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from firmwright.errors import UserError, to_printable
from firmwright.toolchain.boards import Sdk, is_built_elsewhere, load_board
from firmwright.toolchain.build import Build
from firmwright.toolchain.compilers import ToolError, explain_missing_compiler, run_captured
from firmwright.toolchain.tool_folder import ToolFolder, find_tool_folder

COMMAND = ("make", "all")


def explain_not_built(build: Build) -> str:
    """Return the reason why firmwright does not build the firmware on this machine.

    The result is '' if firmwright compiles the firmware, or if the SDK is installed. A variable
    that names a wrong folder is not a reason, because the build reports it as an error.
    """
    board = build.platform.board
    if not is_built_elsewhere(board):
        return ""
    sdk = load_board(board).sdk
    if sdk is None:
        return f"the board '{board}' has a Makefile, and does not state its `sdk`"
    return "; ".join(list_missing(build, sdk))


def list_missing(build: Build, sdk: Sdk) -> Iterator[str]:
    if missing := explain_missing_compiler(build.toolchain, build.platform.architecture):
        yield missing
    for variable, (known_by, *_) in sdk.folders.items():
        if not os.environ.get(variable):
            yield f"{variable} is not set; set it to the folder with {known_by}"


def find_sdk_folders(sdk: Sdk) -> dict[str, ToolFolder]:
    """Return a mapping from variables to the SDK's folders, and the files that a build reads.

    Raises UserError if a variable is not set or names a wrong folder.
    """
    folders = {}
    for variable, (known_by, *patterns) in sdk.folders.items():
        folder = find_tool_folder(variable, (known_by,))
        if folder is None:
            raise UserError(f"{variable} is not set; set it to the folder with {known_by}")
        read = {path for pattern in patterns for path in folder.path.glob(pattern)}
        names = {path.relative_to(folder.path).as_posix() for path in read if path.is_file()}
        folders[variable] = ToolFolder(folder.path, tuple(sorted({known_by, *names})))
    return folders


def make_firmware(project: Path, sdk: Sdk, scratch: Path, cache: Path) -> Path:
    """Build a copy of the project in ``scratch`` with make, and return the ELF.

    Make inherits the environment, in which an SDK stores its settings. Raises UserError if make is
    not installed or does not write exactly one ELF. Raises ToolError if make fails, and stores the
    whole output in ``cache``.
    """
    find_sdk_folders(sdk)
    shutil.copytree(project, scratch)
    try:
        done = run_captured(COMMAND, scratch)
    except FileNotFoundError:
        raise UserError("the SDK needs make, which is not installed; install it") from None
    if done.returncode:
        cache.mkdir(parents=True, exist_ok=True)
        log = cache / "failed-make.txt"
        log.write_text(to_printable(done.stdout), encoding="utf-8")
        raise ToolError("the SDK's make failed; correct the error in its output", done.stdout, log)
    paths = sorted(scratch.glob(sdk.firmware))
    if len(paths) != 1:
        raise UserError(
            f"the SDK's make wrote {len(paths)} files {sdk.firmware}; expected one: check the "
            "SDK's version"
        )
    return paths[0]
