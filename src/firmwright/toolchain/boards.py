"""Loads boards, which are folders with start-up code, a linker script and a HAL.

The built-in boards are in ``templates/boards``. A custom board is any folder with such files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firmwright.documents.schema_check import read_schema
from firmwright.errors import UserError, suggest_known
from firmwright.toolchain.descriptions import read_builtin_yaml

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DESCRIPTION = "board.yaml"
TEMPLATE_SUFFIX = ".j2"
MAKEFILE = f"Makefile{TEMPLATE_SUFFIX}"
SUFFIXES = (".c", ".h", ".S", ".ld", TEMPLATE_SUFFIX)
"""Suffixes of a board's files in a project: templates, and files that are only copied."""


@dataclass(frozen=True)
class Sdk:
    """The inputs and the output of a board's Makefile.

    The keys of ``folders`` are environment variables that name a folder. The values are the files
    that the build reads in this folder: a file that identifies the folder, then patterns of other
    files. ``firmware`` is the pattern of the ELF's path in the project.
    """

    folders: Mapping[str, tuple[str, ...]]
    firmware: str


@dataclass(frozen=True)
class Board:
    """The content of a board's ``board.yaml``.

    ``families`` are the families of architectures that the board's code supports. ``machine`` is
    the machine of the emulator unicorn, or empty if unicorn has no such machine. ``data_section``
    is the linker script's section of weights and activations, or empty for the default sections.
    ``sdk`` is set if another build system builds for the board. ``least_stack`` is the minimum
    stack of the linker script in bytes. ``vectors`` is the offset of the vector table in flash, in
    bytes. ``data_window`` states whether the chip reads flash data at other addresses than
    instructions. If ``nanoseconds`` is true, programs cannot read the core's cycle counter, and the
    board's code has ``fw_hal_nanoseconds``.
    """

    description: str
    families: tuple[str, ...]
    machine: str = ""
    data_section: str = ""
    sdk: Sdk | None = None
    least_stack: int = 0
    vectors: int = 0
    data_window: bool = False
    nanoseconds: bool = False


@cache
def board_names() -> tuple[str, ...]:
    return tuple(sorted(folder.name for folder in _builtin_folder().iterdir()))


def is_custom_board(name: str) -> bool:
    return "/" in name


def find_board(name_or_path: str) -> Traversable:
    """Return a board's folder. Raises UserError if the board does not exist."""
    if is_custom_board(name_or_path):
        folder = Path(name_or_path)
        if not folder.is_dir():
            raise UserError(f"no such folder: '{folder}'; a path starts at the platform's file")
        return folder
    if name_or_path not in board_names():
        hint = suggest_known(name_or_path, board_names())
        advice = f"a custom folder is written with a slash, as ./{name_or_path}"
        raise UserError(f"unknown board '{name_or_path}'{hint}; {advice}")
    return _builtin_folder() / name_or_path


def load_board(name_or_path: str) -> Board:
    """Return the board of this name, or of a custom folder.

    Raises UserError if the name is unknown, and DiagnosticError if the description is not valid.
    """
    if not is_custom_board(name_or_path):
        return _load_ready(name_or_path)
    from firmwright.documents.document import load_document

    find_board(name_or_path)
    description = Path(name_or_path, DESCRIPTION)
    if not description.is_file():
        raise UserError(
            f"'{name_or_path}' has no {DESCRIPTION}; add one with the key `families`, the board's "
            "families of cores"
        )
    return msgspec.convert(
        load_document(description, read_schema("toolchains", "board.schema.json")).data, Board
    )


@cache
def _load_ready(name: str) -> Board:
    text = (find_board(name) / DESCRIPTION).read_text("utf-8")
    return msgspec.convert(read_builtin_yaml(text), Board)


def list_board_files(name_or_path: str) -> list[Traversable]:
    """Return the files of a board that are copied or rendered into a project, sorted by name."""
    entries = [e for e in find_board(name_or_path).iterdir() if e.name.endswith(SUFFIXES)]
    return sorted(entries, key=lambda entry: entry.name)


def has_board_file(name_or_path: str, name: str) -> bool:
    names = {file.name.removesuffix(TEMPLATE_SUFFIX) for file in list_board_files(name_or_path)}
    return name in names


def list_custom_board_files(name_or_path: str) -> list[Path]:
    """Return all files of a custom board that a build reads, or [] for a built-in board."""
    if not is_custom_board(name_or_path):
        return []
    files = [Path(name_or_path, file.name) for file in list_board_files(name_or_path)]
    return [Path(name_or_path, DESCRIPTION), *files]


def is_built_elsewhere(name_or_path: str) -> bool:
    """Return whether another build system, which needs a Makefile, builds for a board."""
    return (find_board(name_or_path) / MAKEFILE).is_file()


@cache
def _builtin_folder() -> Traversable:
    return files("firmwright.templates") / "boards"
